// Test-and-set: the oldest spin lock, as T. E. Anderson, "The Performance of Spin Lock Alternatives for Shared-Memory
// Multiprocessors", IEEE TPDS 1(1), 1990 describes it.
//
//                 acquire: exchange(1) finds 0
//     0 free ------------------------------------> 1 held
//            <------------------------------------
//                 release: store 0
//
// | space         | 4 bytes a lock, none a thread                                   |
// | fairness      | none: a waiter can be overtaken for ever                        |
// | uncontended   | 1 atomic                                                        |
// | waits on      | the lock, which every attempt writes: all waiters' lines move   |
// | policies      | all but LOITER_PARK                                             |
#ifndef LOITER_TEST_AND_SET_H
#define LOITER_TEST_AND_SET_H

#include "wait.h"

struct loiter_test_and_set {
    LOITER_ALIGNED uint32_t held;
};

static inline void loiter_test_and_set_init(struct loiter_test_and_set *lock) { lock->held = 0; }

// Acquire: the section comes after the exchange.
LOITER_INLINE int loiter_test_and_set_try_acquire(struct loiter_test_and_set *lock) {
    return __atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE) == 0;
}

LOITER_INLINE void loiter_test_and_set_acquire(struct loiter_test_and_set *lock, const struct loiter_policy *policy) {
    struct loiter_wait wait = {0, 0};
    LOITER_REQUIRE(policy->method != LOITER_PARK, LOITER_CANNOT_PARK);
    while (!loiter_test_and_set_try_acquire(lock))
        loiter_wait_step(policy, &wait, &lock->held, 1);
}

// Release: the section comes before the store.
LOITER_INLINE void loiter_test_and_set_release(struct loiter_test_and_set *lock) {
    LOITER_REQUIRE(LOITER_LOAD(&lock->held, __ATOMIC_RELAXED) == 1, LOITER_NOT_HELD);
    LOITER_STORE(&lock->held, 0, __ATOMIC_RELEASE);
}

#endif
