// Two software threads on one hart: a timer gives it to them in turn, whatever they do just then.
//
//     first thread: software_threads_run ---> runs ---> ends; waits until the second has ended
//                                |  timer: the hart changes to the other one
//                                v
//     second thread:             runs ---> ends; the hart stays with the first one
//
// Where one has ended, the hart is the other one's: there is no timer any more.
#ifndef SOFTWARE_THREADS_H
#define SOFTWARE_THREADS_H

// Bytes of a stack, and of what is kept of a thread that does not have its hart.
#define SOFTWARE_STACK_BYTES 8192
#define SOFTWARE_FRAME_BYTES 256

#ifndef __ASSEMBLER__

#include <stdint.h>

// A hart's: who waits for it, and for how long each has it.
struct software_threads {
    uint64_t other;    // stack pointer of who does not have it; software_threads.S knows the order of these four
    uint64_t deadline; // of the timer
    uint64_t slice;    // ticks of `mtime`
    uint64_t switches; // by the timer
    uint32_t second_ended;
};

// Runs `run(first)` and `run(second)` in turn, each for `slice` ticks of `mtime` at a time, the first one for the first time
// `shift` ticks longer. Returns when both have ended. Floating-point registers are not kept.
void software_threads_run(struct software_threads *hart, void (*run)(void *), void *first, void *second, uint64_t slice,
                          uint64_t shift);

#endif
#endif
