// Graunke and Thakkar's array lock: each thread has a flag for life, and waits for its predecessor to turn over its own. G.
// Graunke and S. Thakkar, "Synchronization Algorithms for Shared-Memory Multiprocessors", IEEE Computer 23(6), 1990.
//
//     tail = { flag of who came last, and what that flag was then }       one word: the flag is in the lowest bit
//     acquire: before = exchange(tail, {own flag, its value}); waits while *before.flag == before.value
//     release: own flag = not own flag
//
// | space         | a pointer and a line a lock, a line a thread for as long as it uses the lock       |
// | fairness      | order of arrival                                                                   |
// | uncontended   | 1 atomic                                                                           |
// | waits on      | the predecessor's flag; a hand-over moves one line                                 |
// | policies      | all; with LOITER_PARK whoever releases needs that policy, too                      |
//
// A flag must live as long as the lock: the next to come looks at it, however long after the release.
#ifndef LOITER_GRAUNKE_THAKKAR_H
#define LOITER_GRAUNKE_THAKKAR_H

#include "wait.h"

struct loiter_graunke_thakkar_flag {
    LOITER_ALIGNED uint32_t value; // 0 or 1
    const void *held;              // the lock, in debug builds, while its thread holds it
};

struct loiter_graunke_thakkar {
    LOITER_ALIGNED uintptr_t tail;
    struct loiter_graunke_thakkar_flag first;
};

// As if somebody had released it.
static inline void loiter_graunke_thakkar_init(struct loiter_graunke_thakkar *lock) {
    lock->first.value = 0;
    lock->tail = (uintptr_t)&lock->first | 1;
}

static inline void loiter_graunke_thakkar_init_flag(struct loiter_graunke_thakkar_flag *flag) {
    flag->value = 0;
    flag->held = NULL;
}

LOITER_INLINE void loiter_graunke_thakkar_acquire(struct loiter_graunke_thakkar *lock,
                                                  struct loiter_graunke_thakkar_flag *own,
                                                  const struct loiter_policy *policy) {
    // Only its owner changes the flag's value. A waiter may still have its mark on it: one that saw it turn over by itself.
    uint32_t value = LOITER_LOAD(&own->value, __ATOMIC_RELAXED) & 1;
    // Release: that the flag has this value. Acquire: that the predecessor's had the one that its entry says.
    uintptr_t before = __atomic_exchange_n(&lock->tail, (uintptr_t)own | value, __ATOMIC_ACQ_REL);
    uint32_t *flag = (uint32_t *)(before & ~(uintptr_t)1);
    (void)loiter_wait_while(policy, flag, before & 1);
    LOITER_HOLD(own, lock);
}

LOITER_INLINE void loiter_graunke_thakkar_release(struct loiter_graunke_thakkar *lock,
                                                  struct loiter_graunke_thakkar_flag *own,
                                                  const struct loiter_policy *policy) {
    (void)lock;
    LOITER_LET_GO(own, lock);
    // Release: the section comes before the successor's.
    loiter_end_wait(policy, &own->value, (LOITER_LOAD(&own->value, __ATOMIC_RELAXED) & 1) ^ 1);
}

#endif
