// Instructions of the hardware lock of loiter's machines (extension xloiterlock), for bare-metal guests, user programs and the
// kernel: plain C with inline assembly, without any other header. What the assembler does not know is written by .insn, so any
// -march will do. The lock of hardware_lock.h uses them.
//
// The lock is a word, 0 when it is free. Its line should hold nothing that others write: any store to the line makes
// those who wait look again. Harts that wait are blocked in hardware: not fetched from, with nothing in the pipeline. The
// limit and the place to go when it is over are operands, so there is no state that an OS would have to switch; a trap
// that is taken meanwhile begins the time anew. docs/waiting.md of loiter says what each of them costs.
//
// On a machine without the extension these instructions are illegal.
#ifndef LOITER_XLOITERLOCK_H
#define LOITER_XLOITERLOCK_H

#if defined(__riscv)

// Takes the lock, with acquire order; blocks as long as it takes.
static inline void loiter_hardware_acquire(volatile unsigned int *word) {
    __asm__ volatile("1: .insn b 0x0b, 0, %0, x0, 1b" : : "r"(word) : "memory");
}

// The same, for at most so many cycles; 0 is without limit. Returns 0 when the time was over.
static inline int loiter_hardware_acquire_within(volatile unsigned int *word, unsigned long cycles) {
    int taken;
    __asm__ volatile("li %0, 0\n\t"
                     ".insn b 0x0b, 0, %1, %2, 1f\n\t"
                     "li %0, 1\n"
                     "1:"
                     : "=&r"(taken)
                     : "r"(word), "r"(cycles)
                     : "memory");
    return taken;
}

// Gives the lock back, with release order.
static inline void loiter_hardware_release(volatile unsigned int *word) {
    __asm__ volatile(".insn s 0x0b, 1, x0, 0(%0)" : : "r"(word) : "memory");
}

// Waits until one of the eight flags of an aligned line of 64 bytes is not zero, for at most so many cycles; 0 is without
// limit. Returns 0 when the time was over.
static inline int loiter_hardware_wait(const volatile unsigned long *flags, unsigned long cycles) {
    int set;
    __asm__ volatile("li %0, 0\n\t"
                     ".insn b 0x0b, 2, %1, %2, 1f\n\t"
                     "li %0, 1\n"
                     "1:"
                     : "=&r"(set)
                     : "r"(flags), "r"(cycles)
                     : "memory");
    return set;
}

#endif

#endif
