// Spin, then park: a mutex of one word that sleeps in the kernel. U. Drepper, "Futexes Are Tricky", 2011 (mutex 2), with
// spinning first: A. R. Karlin, K. Li, M. S. Manasse and S. Owicki, "Empirical Studies of Competitive Spinning for a
// Shared-Memory Multiprocessor", SOSP 1991.
//
//              acquire                       acquire, when it has waited
//     0 free -----------> 1 held            0 free -----------> 2
//     1 held ------------------------> 2 held, somebody may sleep
//            a waiter is about to sleep
//     1 -> 0, 2 -> 0 and wake one: release
//
// | space         | 4 bytes a lock, none a thread                                   |
// | fairness      | none: a running thread overtakes sleeping ones                  |
// | uncontended   | 2 atomics                                                       |
// | waits on      | the lock, then in the kernel                                    |
// | policies      | all but LOITER_PARK, for the time of spinning                   |
#ifndef LOITER_SPIN_THEN_PARK_H
#define LOITER_SPIN_THEN_PARK_H

#include "wait.h"

struct loiter_spin_then_park {
    LOITER_ALIGNED uint32_t word;
};

static inline void loiter_spin_then_park_init(struct loiter_spin_then_park *lock) { lock->word = 0; }

// Acquire: the section comes after the exchange.
LOITER_INLINE int loiter_spin_then_park_try_acquire(struct loiter_spin_then_park *lock) {
    uint32_t free = 0;
    return LOITER_COMPARE_EXCHANGE(&lock->word, &free, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

// Looks before it sleeps, with one pause each: as fast as glibc's mutex or faster from 1 thread to 4 on each CPU, where more looks
// were not: who releases and soon wants the lock again then has it handed on instead (measured, docs/native.md).
#define LOITER_SPIN_THEN_PARK_LOOKS 5

// Looks `looks` times before it sleeps.
LOITER_INLINE void loiter_spin_then_park_acquire(struct loiter_spin_then_park *lock, const struct loiter_policy *policy,
                                                 uint32_t looks) {
    struct loiter_wait wait = {0, 0};
    LOITER_REQUIRE(policy->method != LOITER_PARK, LOITER_CANNOT_PARK);
    while (!loiter_spin_then_park_try_acquire(lock)) {
        if (wait.looks < looks) {
            uint32_t seen = LOITER_LOAD(&lock->word, __ATOMIC_RELAXED); // only avoids an attempt in vain
            if (seen)
                loiter_wait_step(policy, &wait, &lock->word, seen);
            continue;
        }
        // From here on it takes the lock as 2, since others may sleep of whom it knows nothing.
        // Acquire: the section comes after the release that it finds.
        while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE))
            loiter_futex_wait(&lock->word, 2);
        return;
    }
}

// Release: the section comes before the exchange.
LOITER_INLINE void loiter_spin_then_park_release(struct loiter_spin_then_park *lock) {
    uint32_t before = __atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE);
    LOITER_REQUIRE(before, LOITER_NOT_HELD);
    if (before == 2)
        loiter_futex_wake(&lock->word, 1);
}

#endif
