// What programs over /dev/kvm share: a guest with one piece of memory, whose virtual CPUs begin in supervisor mode.
#pragma once

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
// No memory is there: a store ends in the program that runs the virtual CPU.
#define NOWHERE 0x10000000ul

// The guest's code.
extern char guest_begin[], guest_end[];

static int ask(int file, unsigned long what, unsigned long value, const char *name) {
    int result = ioctl(file, what, value);
    if (result < 0) {
        perror(name);
        exit(1);
    }
    return result;
}

// Sets a register that KVM_REG_RISCV_CORE_REG names.
static void set(int cpu, uint64_t number, uint64_t value) {
    struct kvm_one_reg reg = {KVM_REG_RISCV | KVM_REG_SIZE_U64 | KVM_REG_RISCV_CORE | number, (uintptr_t)&value};
    ask(cpu, KVM_SET_ONE_REG, (unsigned long)&reg, "KVM_SET_ONE_REG");
}

// A guest, with its code at the beginning of its memory, and where that memory is here.
static int machine_with(int kvm, void **memory) {
    int machine = ask(kvm, KVM_CREATE_VM, 0, "KVM_CREATE_VM");
    *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memcpy(*memory, guest_begin, (size_t)(guest_end - guest_begin));
    struct kvm_userspace_memory_region region = {
        .guest_phys_addr = MEMORY, .memory_size = MEMORY_BYTES, .userspace_addr = (uintptr_t)*memory};
    ask(machine, KVM_SET_USER_MEMORY_REGION, (unsigned long)&region, "KVM_SET_USER_MEMORY_REGION");
    return machine;
}

// A virtual CPU that begins at `pc`.
static int cpu_at(int machine, int number, uint64_t pc) {
    int cpu = ask(machine, KVM_CREATE_VCPU, (unsigned long)number, "KVM_CREATE_VCPU");
    set(cpu, KVM_REG_RISCV_CORE_REG(regs.pc), pc);
    set(cpu, KVM_REG_RISCV_CORE_REG(mode), KVM_RISCV_MODE_S);
    return cpu;
}

// What the kernel says when a virtual CPU has stopped.
static struct kvm_run *run_of(int kvm, int cpu) {
    int bytes = ask(kvm, KVM_GET_VCPU_MMAP_SIZE, 0, "KVM_GET_VCPU_MMAP_SIZE");
    return mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
}
