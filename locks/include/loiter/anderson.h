// Array queue lock: arrivals draw places in a ring, and each waits on the line of its place. T. E. Anderson, "The
// Performance of Spin Lock Alternatives for Shared-Memory Multiprocessors", IEEE TPDS 1(1), 1990, table V.
//
//     ring of 2^n places, go = 1 in one of them: that of the holder-to-be
//     acquire: place = next++; waits until ring[place].go; ring[place].go = 0
//     release: ring[place + 1].go = 1
//
// | space         | 12 bytes and a line for each thread that may ever wait at once, a lock            |
// | fairness      | order of arrival                                                                  |
// | uncontended   | 1 atomic                                                                          |
// | waits on      | a line of its place; a hand-over moves one line                                   |
// | policies      | all; with LOITER_PARK whoever releases needs that policy, too                     |
//
// More threads than places wait for the same flag and lose their order, and then the lock.
#ifndef LOITER_ANDERSON_H
#define LOITER_ANDERSON_H

#include "wait.h"

struct loiter_anderson_place {
    LOITER_ALIGNED uint32_t go;
};

// What a thread keeps while it holds the lock.
struct loiter_anderson_node {
    uint32_t place;
    const void *held; // the lock, in debug builds, while its thread holds it
};

struct loiter_anderson {
    LOITER_ALIGNED uint32_t next;
    uint32_t mask;
    struct loiter_anderson_place *ring;
};

// `places` is a power of two, and at least the number of threads.
static inline void loiter_anderson_init(struct loiter_anderson *lock, struct loiter_anderson_place *ring,
                                        uint32_t places) {
    LOITER_REQUIRE(places && (places & (places - 1)) == 0, "the number of places has to be a power of two");
    for (uint32_t n = 0; n < places; n++)
        ring[n].go = n == 0;
    lock->next = 0;
    lock->mask = places - 1;
    lock->ring = ring;
}

LOITER_INLINE void loiter_anderson_take(struct loiter_anderson *lock, struct loiter_anderson_node *node, uint32_t place) {
    node->place = place;
    // Relaxed: who waits here next draws the place after the releases of all places between, which come later.
    LOITER_STORE(&lock->ring[place].go, 0, __ATOMIC_RELAXED);
    LOITER_HOLD(node, lock);
}

LOITER_INLINE int loiter_anderson_try_acquire(struct loiter_anderson *lock, struct loiter_anderson_node *node) {
    uint32_t next = LOITER_LOAD(&lock->next, __ATOMIC_RELAXED); // a guess, which the compare-and-swap proves
    // Acquire: after the release that the flag shows. Only who draws this place clears its flag, so if the
    // compare-and-swap draws it, the flag is still there.
    if (LOITER_LOAD(&lock->ring[next & lock->mask].go, __ATOMIC_ACQUIRE) != 1 ||
        !LOITER_COMPARE_EXCHANGE(&lock->next, &next, next + 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return 0;
    loiter_anderson_take(lock, node, next & lock->mask);
    return 1;
}

LOITER_INLINE void loiter_anderson_acquire(struct loiter_anderson *lock, struct loiter_anderson_node *node,
                                           const struct loiter_policy *policy) {
    // Relaxed: the order comes by the flag.
    uint32_t place = __atomic_fetch_add(&lock->next, 1, __ATOMIC_RELAXED) & lock->mask;
    (void)loiter_wait_while(policy, &lock->ring[place].go, 0);
    loiter_anderson_take(lock, node, place);
}

LOITER_INLINE void loiter_anderson_release(struct loiter_anderson *lock, struct loiter_anderson_node *node,
                                           const struct loiter_policy *policy) {
    LOITER_LET_GO(node, lock);
    // Release: the section, and the clearing of the own flag, come before the next section.
    loiter_end_wait(policy, &lock->ring[(node->place + 1) & lock->mask].go, 1);
}

#endif
