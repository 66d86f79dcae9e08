// How long a pause takes on this machine: between 4 cycles (old x86) and 140 (since Skylake) for the same instruction, so a
// number of pauses that fits one machine does not fit another.
//
//     struct loiter_policy policy = {.method = LOITER_PAUSE, .repeat = loiter_pauses_for_ns(200)};
#ifndef LOITER_CALIBRATE_H
#define LOITER_CALIBRATE_H

#include "nap.h"

// A counter of constant rate, or of cycles: x86 time-stamp counter, AArch64 virtual counter, RISC-V time (Linux) or cycles (bare
// metal). 0 where there is none.
static inline uint64_t loiter_ticks(void) {
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
    return ticks;
#elif defined(__riscv) && LOITER_ON_LINUX
    uint64_t ticks;
    __asm__ volatile("rdtime %0" : "=r"(ticks) : : "memory");
    return ticks;
#elif defined(__riscv)
    uint64_t ticks;
    __asm__ volatile("rdcycle %0" : "=r"(ticks) : : "memory");
    return ticks;
#else
    return 0;
#endif
}

#define LOITER_CALIBRATE_PAUSES 1024
#define LOITER_CALIBRATE_ROUNDS 16

// Ticks that LOITER_CALIBRATE_PAUSES pauses take: the least of some rounds, since all that disturbs makes it longer.
static inline uint64_t loiter_measure_pauses_ticks(void) {
    uint64_t least = UINT64_MAX;
    for (int round = 0; round < LOITER_CALIBRATE_ROUNDS; round++) {
        uint64_t begin = loiter_ticks();
        loiter_pauses(LOITER_CALIBRATE_PAUSES);
        uint64_t ticks = loiter_ticks() - begin;
        least = ticks < least ? ticks : least;
    }
    return least;
}

#if LOITER_ON_LINUX

static inline uint64_t loiter_now_ns(void) {
    struct {
        int64_t s, ns;
    } now = {0, 0};
    (void)syscall(SYS_clock_gettime, 1L, &now); // CLOCK_MONOTONIC
    return (uint64_t)now.s * 1000000000 + (uint64_t)now.ns;
}

static inline uint64_t loiter_measure_pauses_ns(void) {
    uint64_t least = UINT64_MAX;
    for (int round = 0; round < LOITER_CALIBRATE_ROUNDS; round++) {
        uint64_t begin = loiter_now_ns();
        loiter_pauses(LOITER_CALIBRATE_PAUSES);
        uint64_t ns = loiter_now_ns() - begin;
        least = ns < least ? ns : least;
    }
    return least ? least : 1;
}

// Measured once a program, in less than a millisecond.
LOITER_SHARED uint64_t loiter_pauses_known_ns;

// How many pauses take about so many nanoseconds; at least one.
static inline uint32_t loiter_pauses_for_ns(uint32_t ns) {
    // Relaxed: a number, which two threads may both measure.
    uint64_t known = LOITER_LOAD(&loiter_pauses_known_ns, __ATOMIC_RELAXED);
    if (!known) {
        known = loiter_measure_pauses_ns();
        LOITER_STORE(&loiter_pauses_known_ns, known, __ATOMIC_RELAXED);
    }
    uint64_t count = (uint64_t)ns * LOITER_CALIBRATE_PAUSES / known;
    return count < 1 ? 1 : count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
}

#endif

#endif
