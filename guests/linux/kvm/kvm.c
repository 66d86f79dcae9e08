// The smallest hypervisor over /dev/kvm: one guest, one virtual CPU, a page of code, no devices. The guest writes what it works out to
// an address that is no memory, which ends in this program, and asks the supervisor below it to end.
#include <fcntl.h>
#include <linux/kvm.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define MEMORY 0x80000000ul
#define MEMORY_BYTES 0x200000ul
#define NOWHERE 0x10000000ul

extern char guest_begin[], guest_end[];

// Sums 1 to 1000, tells it, tells how far its clock has gone, and shuts down.
__asm__(".section .rodata\n"
        "    .balign 4\n"
        "    .globl guest_begin\n"
        "guest_begin:\n"
        "    rdtime s1\n"
        "    li   a0, 0\n"
        "    li   a1, 1000\n"
        "1:  add  a0, a0, a1\n"
        "    addi a1, a1, -1\n"
        "    bnez a1, 1b\n"
        "    li   a2, 0x10000000\n"
        "    sw   a0, 0(a2)\n"
        "    lw   a3, 8(a2)\n"
        "    addi a3, a3, 1\n"
        "    sw   a3, 4(a2)\n"
        "    rdtime s2\n"
        "    sltu a0, s1, s2\n"
        "    sw   a0, 12(a2)\n"
        "    li   a7, 0x53525354\n"
        "    li   a6, 0\n"
        "    li   a0, 0\n"
        "    li   a1, 0\n"
        "    ecall\n"
        "2:  j    2b\n"
        "    .globl guest_end\n"
        "guest_end:\n"
        "    .text\n");

static int ask(int file, unsigned long what, unsigned long value, const char *name) {
    int result = ioctl(file, what, value);
    if (result < 0) {
        perror(name);
        exit(1);
    }
    return result;
}

static void set(int cpu, uint64_t number, uint64_t value) {
    struct kvm_one_reg reg = {number, (uintptr_t)&value};
    ask(cpu, KVM_SET_ONE_REG, (unsigned long)&reg, "KVM_SET_ONE_REG");
}

int main(void) {
    int kvm = open("/dev/kvm", O_RDWR);
    if (kvm < 0) {
        perror("/dev/kvm");
        return 1;
    }
    int machine = ask(kvm, KVM_CREATE_VM, 0, "KVM_CREATE_VM");
    void *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, guest_begin, (size_t)(guest_end - guest_begin));
    struct kvm_userspace_memory_region region = {
        .guest_phys_addr = MEMORY, .memory_size = MEMORY_BYTES, .userspace_addr = (uintptr_t)memory};
    ask(machine, KVM_SET_USER_MEMORY_REGION, (unsigned long)&region, "KVM_SET_USER_MEMORY_REGION");
    int cpu = ask(machine, KVM_CREATE_VCPU, 0, "KVM_CREATE_VCPU");
    int bytes = ask(kvm, KVM_GET_VCPU_MMAP_SIZE, 0, "KVM_GET_VCPU_MMAP_SIZE");
    struct kvm_run *run = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
    uint64_t core = KVM_REG_RISCV | KVM_REG_SIZE_U64 | KVM_REG_RISCV_CORE;
    set(cpu, core | KVM_REG_RISCV_CORE_REG(regs.pc), MEMORY);
    set(cpu, core | KVM_REG_RISCV_CORE_REG(mode), KVM_RISCV_MODE_S);
    for (;;) {
        ask(cpu, KVM_RUN, 0, "KVM_RUN");
        if (run->exit_reason == KVM_EXIT_MMIO && run->mmio.is_write) {
            uint32_t value;
            memcpy(&value, run->mmio.data, sizeof value);
            printf("guest writes %u at %llu\n", value, run->mmio.phys_addr - NOWHERE);
        } else if (run->exit_reason == KVM_EXIT_MMIO) {
            uint32_t value = 41;
            memcpy(run->mmio.data, &value, sizeof value);
        } else if (run->exit_reason == KVM_EXIT_SYSTEM_EVENT) {
            printf("guest ends, event %u\n", run->system_event.type);
            return 0;
        } else {
            printf("exit %u\n", run->exit_reason);
            return 1;
        }
    }
}
