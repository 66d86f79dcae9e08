// Virtual CPUs of Linux's KVM at one ticket lock, beside a guest that always computes: what KVM's own helping gives. The twin of what
// `loiter vm` runs with the program `virtual`.
//
//     contend VCPUS ACQUISITIONS HOLD THINK NAP RIVALS
//
// Each virtual CPU thinks for THINK steps, takes the lock, and holds it for HOLD steps, ACQUISITIONS times. Waiters pause, or with NAP = 1
// nap in wrs.nto, which KVM traps. RIVALS virtual CPUs of another guest compute beside them.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vm.h"

// Of the lock, in the guest's memory: the next ticket, who is served, and what is counted in the section, each in a line of its own.
#define LOCK (MEMORY + 0x10000)
#define COUNTED 128
#define MOST_VCPUS 256

extern char guest_computes[];

// a0 acquisitions, a1 hold, a2 think, a3 whether it naps, a4 the lock, a5 an address that is no memory: a store there ends the virtual CPU.
__asm__(".section .rodata\n"
        "    .balign 4\n"
        "    .option push\n"
        "    .option norvc\n"
        "    .globl guest_begin\n"
        "guest_begin:\n"
        "    addi a6, a4, 64\n"
        "1:  mv   t0, a2\n"
        "2:  addi t0, t0, -1\n"
        "    bnez t0, 2b\n"
        "    li   t1, 1\n"
        "    amoadd.w.aqrl t2, t1, (a4)\n"
        "    bnez a3, 4f\n"
        "3:  lw   t3, 0(a6)\n"
        "    beq  t3, t2, 5f\n"
        "    .word 0x0100000f\n" // pause
        "    j    3b\n"
        "4:  lr.w t3, (a6)\n"
        "    beq  t3, t2, 5f\n"
        "    .word 0x00d00073\n" // wrs.nto
        "    j    4b\n"
        "5:  fence r, rw\n"
        "    mv   t0, a1\n"
        "6:  addi t0, t0, -1\n"
        "    bnez t0, 6b\n"
        "    lw   t4, 128(a4)\n"
        "    addi t4, t4, 1\n"
        "    sw   t4, 128(a4)\n"
        "    fence rw, w\n"
        "    addi t2, t2, 1\n"
        "    sw   t2, 0(a6)\n"
        "    addi a0, a0, -1\n"
        "    bnez a0, 1b\n"
        "    sw   zero, 0(a5)\n"
        "7:  j    7b\n"
        "    .globl guest_computes\n"
        "guest_computes:\n"
        "    addi t0, t0, 1\n"
        "    j    guest_computes\n"
        "    .globl guest_end\n"
        "guest_end:\n"
        "    .option pop\n"
        "    .text\n");

static pthread_barrier_t begin;
static int kvm;

// A virtual CPU that begins at `pc`, with `arguments` in a0 and so on.
static int cpu_of(int machine, int number, uint64_t pc, const uint64_t *arguments) {
    int cpu = cpu_at(machine, number, pc);
    for (int n = 0; arguments && n < 6; n++)
        set(cpu, KVM_REG_RISCV_CORE_REG(regs.a0) + (uint64_t)n, arguments[n]);
    struct kvm_mp_state state = {.mp_state = KVM_MP_STATE_RUNNABLE};
    ask(cpu, KVM_SET_MP_STATE, (unsigned long)&state, "KVM_SET_MP_STATE");
    return cpu;
}

// Runs a virtual CPU until it stores where no memory is.
static void *runs(void *argument) {
    int cpu = (int)(intptr_t)argument;
    struct kvm_run *run = run_of(kvm, cpu);
    pthread_barrier_wait(&begin);
    ask(cpu, KVM_RUN, 0, "KVM_RUN");
    if (run->exit_reason != KVM_EXIT_MMIO || !run->mmio.is_write || run->mmio.phys_addr != NOWHERE) {
        printf("exit %u\n", run->exit_reason);
        exit(1);
    }
    return NULL;
}

// Begins the virtual CPUs of a guest, and waits for their ends.
static void run_all(int machine, int vcpus, uint64_t pc, const uint64_t *arguments) {
    static pthread_t threads[MOST_VCPUS];
    static int cpus[MOST_VCPUS];
    pthread_barrier_init(&begin, NULL, (unsigned)vcpus);
    for (int n = 0; n < vcpus; n++)
        cpus[n] = cpu_of(machine, n, pc, arguments);
    for (int n = 0; n < vcpus; n++)
        if (pthread_create(&threads[n], NULL, runs, (void *)(intptr_t)cpus[n])) {
            perror("pthread_create");
            exit(1);
        }
    for (int n = 0; n < vcpus; n++)
        pthread_join(threads[n], NULL);
}

static double ms_of(struct timeval time) { return (double)time.tv_sec * 1e3 + (double)time.tv_usec / 1e3; }

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int main(int count, char **words) {
    if (count != 7) {
        fprintf(stderr, "usage: contend VCPUS ACQUISITIONS HOLD THINK NAP RIVALS\n");
        return 2;
    }
    int vcpus = atoi(words[1]), rivals = atoi(words[6]);
    uint64_t arguments[6] = {strtoul(words[2], NULL, 0), strtoul(words[3], NULL, 0), strtoul(words[4], NULL, 0),
                             strtoul(words[5], NULL, 0), LOCK,                       NOWHERE};
    if (vcpus < 1 || vcpus > MOST_VCPUS || rivals < 0 || rivals > MOST_VCPUS) {
        fprintf(stderr, "contend: 1 to %d virtual CPUs, 0 to %d rivals\n", MOST_VCPUS, MOST_VCPUS);
        return 2;
    }
    kvm = open("/dev/kvm", O_RDWR);
    if (kvm < 0) {
        perror("/dev/kvm");
        return 1;
    }
    void *memory;
    pid_t rival = rivals > 0 ? fork() : 0;
    if (rivals > 0 && rival == 0) {
        int machine = machine_with(kvm, &memory);
        run_all(machine, rivals, MEMORY + (uint64_t)(guest_computes - guest_begin), NULL);
        return 1;
    }
    if (rivals > 0)
        usleep(100000); // until the rival computes
    int machine = machine_with(kvm, &memory);
    double from = now_ms();
    run_all(machine, vcpus, MEMORY, arguments);
    double wall = now_ms() - from;
    if (rivals > 0) {
        kill(rival, SIGKILL);
        waitpid(rival, NULL, 0);
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    uint32_t counted;
    memcpy(&counted, (char *)memory + (LOCK - MEMORY) + COUNTED, sizeof counted);
    printf("wall_ms=%.1f cpu_ms=%.1f counted=%u preempted=%ld\n", wall, ms_of(used.ru_utime) + ms_of(used.ru_stime), counted,
           used.ru_nivcsw);
    return counted == (uint32_t)vcpus * (uint32_t)arguments[0] ? 0 : 1;
}
