// Delays: test-and-test-and-set whose waiters look or try less often, so that not all try at once. T. E. Anderson, "The
// Performance of Spin Lock Alternatives for Shared-Memory Multiprocessors", IEEE TPDS 1(1), 1990; back-off as of A. Agarwal and
// M. Cherian, "Adaptive Backoff Synchronization Techniques", ISCA 1989.
//
//     after release (table III)         failed: read until it looks free; delay; read and test-and-set again
//     between references (table IV)     the read or the test-and-set failed: delay; both again, so even reads are few
//
// Threads choose at each acquire. The delay is a policy of LOITER_BACK_OFF: `repeat` pauses at first, doubled at each failure up
// to `limit`. A limit equal to `repeat` is Anderson's static delay, a slot that is to differ between processors.
//
//     0 free --reads 0, and exchange(1) finds 0--> 1 held --store 0--> 0
//
// | space         | 4 bytes a lock, none a thread                                       |
// | fairness      | none; who has delayed often delays long                             |
// | uncontended   | 1 atomic                                                            |
// | waits on      | the lock, read; between references now and then                     |
// | policies      | after release: all but LOITER_PARK; the delay: LOITER_BACK_OFF      |
#ifndef LOITER_DELAY_H
#define LOITER_DELAY_H

#include "test_and_test_and_set.h"

struct loiter_delay {
    struct loiter_test_and_test_and_set word;
};

static inline void loiter_delay_init(struct loiter_delay *lock) { loiter_test_and_test_and_set_init(&lock->word); }

LOITER_INLINE int loiter_delay_try_acquire(struct loiter_delay *lock) {
    return loiter_test_and_test_and_set_try_acquire(&lock->word);
}

LOITER_INLINE void loiter_delay_acquire_after_release(struct loiter_delay *lock, const struct loiter_policy *policy,
                                                      const struct loiter_policy *delay) {
    struct loiter_wait wait = {0, 0};
    LOITER_REQUIRE(policy->method != LOITER_PARK, LOITER_CANNOT_PARK);
    LOITER_REQUIRE(delay->method == LOITER_BACK_OFF, LOITER_NEEDS_BACK_OFF);
    while (!loiter_delay_try_acquire(lock)) {
        (void)loiter_wait_while(policy, &lock->word.held, 1);
        loiter_back_off(delay, &wait);
    }
}

LOITER_INLINE void loiter_delay_acquire_between_references(struct loiter_delay *lock, const struct loiter_policy *delay) {
    struct loiter_wait wait = {0, 0};
    LOITER_REQUIRE(delay->method == LOITER_BACK_OFF, LOITER_NEEDS_BACK_OFF);
    while (!loiter_delay_try_acquire(lock))
        loiter_wait_step(delay, &wait, &lock->word.held, 1);
}

LOITER_INLINE void loiter_delay_release(struct loiter_delay *lock) {
    loiter_test_and_test_and_set_release(&lock->word);
}

#endif
