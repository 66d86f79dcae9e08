// MCS: a queue of waiters, each of which waits on a word of its own. J. M. Mellor-Crummey and M. L. Scott, "Algorithms
// for Scalable Synchronization on Shared-Memory Multiprocessors", ACM TOCS 9(1), 1991.
//
//     tail == NULL                free
//     tail -> A                   A holds it, or is about to; no one waits
//     A.next -> B.next -> C       A holds it, B and C wait; tail -> C. Between C's exchange of the tail and its store to
//                                 B.next the chain is open: who releases there waits for the link.
//
// | space         | a pointer a lock, a line a thread that holds or waits                              |
// | fairness      | order of arrival                                                                   |
// | uncontended   | 2 atomics: exchange, compare-and-swap                                              |
// | waits on      | a word of its own; a hand-over moves one line                                      |
// | policies      | all; with LOITER_PARK whoever releases needs that policy, too                      |
//
// The node belongs to the lock from acquire to the end of release: then it may be reused, for any lock.
#ifndef LOITER_MCS_H
#define LOITER_MCS_H

#include "wait.h"

struct loiter_mcs_node {
    LOITER_ALIGNED struct loiter_mcs_node *next;
    uint32_t waiting;
    const void *held; // the lock, in debug builds, while its thread holds it
};

struct loiter_mcs {
    LOITER_ALIGNED struct loiter_mcs_node *tail;
};

static inline void loiter_mcs_init(struct loiter_mcs *lock) { lock->tail = NULL; }

LOITER_INLINE int loiter_mcs_try_acquire(struct loiter_mcs *lock, struct loiter_mcs_node *node) {
    struct loiter_mcs_node *none = NULL;
    // Relaxed: the node becomes visible by the release half of the compare-and-swap.
    LOITER_STORE(&node->next, NULL, __ATOMIC_RELAXED);
    if (!LOITER_COMPARE_EXCHANGE(&lock->tail, &none, node, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return 0;
    LOITER_HOLD(node, lock);
    return 1;
}

LOITER_INLINE void loiter_mcs_acquire(struct loiter_mcs *lock, struct loiter_mcs_node *node,
                                      const struct loiter_policy *policy) {
    // Relaxed: both become visible by the release half of the exchange.
    LOITER_STORE(&node->next, NULL, __ATOMIC_RELAXED);
    LOITER_STORE(&node->waiting, 1, __ATOMIC_RELAXED);
    // Release: who finds this node as its predecessor finds next == NULL, and its own link is not overwritten.
    // Acquire: the section comes after the release of who left the lock free, and the predecessor's node is ready.
    struct loiter_mcs_node *before = __atomic_exchange_n(&lock->tail, node, __ATOMIC_ACQ_REL);
    if (before) {
        // Release: the predecessor, which clears `waiting` through this link, does so after it was set.
        LOITER_STORE(&before->next, node, __ATOMIC_RELEASE);
        (void)loiter_wait_while(policy, &node->waiting, 1);
    }
    LOITER_HOLD(node, lock);
}

LOITER_INLINE void loiter_mcs_release(struct loiter_mcs *lock, struct loiter_mcs_node *node,
                                      const struct loiter_policy *policy) {
    LOITER_LET_GO(node, lock);
    // Acquire, here and in the wait: the successor's node is written after the successor has set it up.
    struct loiter_mcs_node *next = LOITER_LOAD(&node->next, __ATOMIC_ACQUIRE);
    if (!next) {
        struct loiter_mcs_node *self = node;
        // Release: the section comes before the lock is free.
        if (LOITER_COMPARE_EXCHANGE(&lock->tail, &self, NULL, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return;
        next = LOITER_WAIT_FOR_POINTER(&node->next);
    }
    // Release: the section comes before the successor's.
    loiter_end_wait(policy, &next->waiting, 0);
}

#endif
