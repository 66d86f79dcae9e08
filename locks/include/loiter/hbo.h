// HBO, hierarchical back-off: the lock's word says which node of the machine holds it, and waiters of that node look again
// sooner. Z. Radovic and E. Hagersten, "Hierarchical Backoff Locks for Nonuniform Communication Architectures", HPCA 2003.
//
//     0 free --compare-and-swap(place + 1)--> place + 1 held --store 0--> 0
//
// | space         | 4 bytes a lock, none a thread                                   |
// | fairness      | none: a node can keep the lock for ever                         |
// | uncontended   | 1 atomic                                                        |
// | waits on      | the lock, by compare-and-swap after each delay                  |
// | policies      | two of LOITER_BACK_OFF: near and far                            |
//
// The paper's plain HBO; its variants that throttle a node's remote attempts (HBO_GT) or get angry at a node that keeps the
// lock (HBO_GT_SD) are not here.
#ifndef LOITER_HBO_H
#define LOITER_HBO_H

#include "wait.h"

struct loiter_hbo {
    LOITER_ALIGNED uint32_t holder;
};

static inline void loiter_hbo_init(struct loiter_hbo *lock) { lock->holder = 0; }

// Returns what it found: 0 if the lock is now this thread's.
LOITER_INLINE uint32_t loiter_hbo_attempt(struct loiter_hbo *lock, uint32_t place) {
    uint32_t found = 0;
    // Acquire: the section comes after it.
    (void)LOITER_COMPARE_EXCHANGE(&lock->holder, &found, place + 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    return found;
}

LOITER_INLINE int loiter_hbo_try_acquire(struct loiter_hbo *lock, uint32_t place) {
    return loiter_hbo_attempt(lock, place) == 0;
}

// `place` is the node of the machine that this processor is in.
LOITER_INLINE void loiter_hbo_acquire(struct loiter_hbo *lock, uint32_t place, const struct loiter_policy *near,
                                      const struct loiter_policy *far) {
    struct loiter_wait near_wait = {0, 0}, far_wait = {0, 0};
    uint32_t found;
    LOITER_REQUIRE(near->method == LOITER_BACK_OFF && far->method == LOITER_BACK_OFF, LOITER_NEEDS_BACK_OFF);
    while ((found = loiter_hbo_attempt(lock, place))) {
        // A lock that moves to another node makes a waiter begin anew with the delays for that distance.
        if (found == place + 1) {
            loiter_wait_step(near, &near_wait, &lock->holder, found);
            far_wait.delay = 0;
        } else {
            loiter_wait_step(far, &far_wait, &lock->holder, found);
            near_wait.delay = 0;
        }
    }
}

// Release: the section comes before the store.
LOITER_INLINE void loiter_hbo_release(struct loiter_hbo *lock) {
    LOITER_REQUIRE(LOITER_LOAD(&lock->holder, __ATOMIC_RELAXED), LOITER_NOT_HELD);
    LOITER_STORE(&lock->holder, 0, __ATOMIC_RELEASE);
}

#endif
