#include "software_threads.h"

#include "loiter.h"

static volatile uint64_t *const clint_mtimecmp = (volatile uint64_t *)0x02004000;
static volatile uint64_t *const clint_mtime = (volatile uint64_t *)0x0200bff8;

enum {
    MIE_MTIE = 1 << 7,
    MSTATUS_MIE = 1 << 3,
    // Words of a frame, as software_threads.S has them.
    FRAME_A0 = 6,
    FRAME_A1 = 7,
    FRAME_A2 = 8,
    FRAME_PC = 28,
};

void software_threads_switch(void);
void software_threads_refuse(uint64_t cause, uint64_t pc) __attribute__((noreturn));

// Called by the handler for a trap that is not its own.
void software_threads_refuse(uint64_t cause, uint64_t pc) {
    loiter_fail("hart %u: trap %lx at %lx", loiter_hart(), (unsigned long)cause, (unsigned long)pc);
}

static void give_away(void) { __asm__ volatile("ecall" : : : "memory"); }

// Of the second thread, which never returns: the first one goes on on its own stack.
static void second_main(struct software_threads *hart, void (*run)(void *), void *second) {
    run(second);
    __atomic_store_n(&hart->second_ended, 1, __ATOMIC_RELEASE);
    for (;;)
        give_away();
}

void software_threads_run(struct software_threads *hart, void (*run)(void *), void *first, void *second, uint64_t slice,
                          uint64_t shift) {
    // Some lines more: stacks at a power of two would all meet in the same cache sets.
    unsigned char *stack = loiter_allocate(SOFTWARE_STACK_BYTES + 320, 64);
    uint64_t *frame = (void *)(stack + SOFTWARE_STACK_BYTES - SOFTWARE_FRAME_BYTES);
    frame[FRAME_A0] = (uintptr_t)hart;
    frame[FRAME_A1] = (uintptr_t)run;
    frame[FRAME_A2] = (uintptr_t)second;
    frame[FRAME_PC] = (uintptr_t)second_main;
    hart->other = (uintptr_t)frame;
    hart->slice = slice;
    hart->switches = 0;
    hart->second_ended = 0;
    hart->deadline = *clint_mtime + slice + shift;
    clint_mtimecmp[loiter_hart()] = hart->deadline;
    __asm__ volatile("csrw mscratch, %0" : : "r"(hart));
    __asm__ volatile("csrw mtvec, %0" : : "r"(software_threads_switch));
    __asm__ volatile("csrw mie, %0" : : "r"(MIE_MTIE) : "memory");
    __asm__ volatile("csrs mstatus, %0" : : "r"(MSTATUS_MIE) : "memory");
    run(first);
    while (!__atomic_load_n(&hart->second_ended, __ATOMIC_ACQUIRE))
        give_away();
    __asm__ volatile("csrc mstatus, %0" : : "r"(MSTATUS_MIE) : "memory");
    __asm__ volatile("csrw mie, zero" : : : "memory");
    __asm__ volatile("csrw mtvec, zero");
}
