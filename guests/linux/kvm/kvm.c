// The smallest hypervisor over /dev/kvm: one guest, one virtual CPU, a page of code, no devices. The guest writes what it works out to
// an address that is no memory, which ends in this program, and asks the supervisor below it to end.
#include <fcntl.h>

#include "vm.h"

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

int main(void) {
    int kvm = open("/dev/kvm", O_RDWR);
    if (kvm < 0) {
        perror("/dev/kvm");
        return 1;
    }
    void *memory;
    int machine = machine_with(kvm, &memory);
    int cpu = cpu_at(machine, 0, MEMORY);
    struct kvm_run *run = run_of(kvm, cpu);
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
