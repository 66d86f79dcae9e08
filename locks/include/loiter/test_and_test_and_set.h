// Test-and-test-and-set: waits by reading its own copy of the line, and attempts only when the lock looks free.
// L. Rudolph and Z. Segall, "Dynamic Decentralized Cache Schemes for MIMD Parallel Processors", ISCA 1984.
//
//                 acquire: reads 0, and exchange(1) finds 0
//     0 free ------------------------------------------------> 1 held
//            <------------------------------------------------
//                 release: store 0
//
// | space         | 4 bytes a lock, none a thread                                   |
// | fairness      | none: a waiter can be overtaken for ever                        |
// | uncontended   | 1 atomic                                                        |
// | waits on      | the lock, read; at each release all waiters attempt at once     |
// | policies      | all but LOITER_PARK                                             |
#ifndef LOITER_TEST_AND_TEST_AND_SET_H
#define LOITER_TEST_AND_TEST_AND_SET_H

#include "wait.h"

struct loiter_test_and_test_and_set {
    LOITER_ALIGNED uint32_t held;
};

static inline void loiter_test_and_test_and_set_init(struct loiter_test_and_test_and_set *lock) { lock->held = 0; }

// Relaxed test: it only avoids an attempt in vain. Acquire: the section comes after the exchange.
LOITER_INLINE int loiter_test_and_test_and_set_try_acquire(struct loiter_test_and_test_and_set *lock) {
    return LOITER_LOAD(&lock->held, __ATOMIC_RELAXED) == 0 &&
           __atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE) == 0;
}

LOITER_INLINE void loiter_test_and_test_and_set_acquire(struct loiter_test_and_test_and_set *lock,
                                                        const struct loiter_policy *policy) {
    LOITER_REQUIRE(policy->method != LOITER_PARK, LOITER_CANNOT_PARK);
    while (!loiter_test_and_test_and_set_try_acquire(lock))
        (void)loiter_wait_while(policy, &lock->held, 1);
}

// Release: the section comes before the store.
LOITER_INLINE void loiter_test_and_test_and_set_release(struct loiter_test_and_test_and_set *lock) {
    LOITER_REQUIRE(LOITER_LOAD(&lock->held, __ATOMIC_RELAXED) == 1, LOITER_NOT_HELD);
    LOITER_STORE(&lock->held, 0, __ATOMIC_RELEASE);
}

#endif
