// K42: MCS whose interface needs no node: a node lives on the stack only while its thread waits, and the holder's place is in
// the lock itself. M. Auslander, D. Edelsohn, O. Krieger, B. Rosenburg and R. Wisniewski, "Enhancement to the MCS lock for
// increased functionality and improved programmability", US patent application 20030200457, 2003 (abandoned); M. L. Scott,
// "Shared-Memory Synchronization", 2013, section 4.3.
//
//     tail == NULL                      free
//     tail == the lock, next == NULL    held, nobody waits
//     tail == C, next == B, B.next == C held, B and C wait. Who gets the lock moves its own next into the lock's.
//
// | space         | 2 pointers a lock; a line a thread, on its stack, while it waits                   |
// | fairness      | order of arrival                                                                   |
// | uncontended   | 2 atomics: compare-and-swap, compare-and-swap                                      |
// | waits on      | a word of its own; a hand-over moves two lines                                     |
// | policies      | all; with LOITER_PARK whoever releases needs that policy, too                      |
#ifndef LOITER_K42_H
#define LOITER_K42_H

#include "wait.h"

struct loiter_k42_node {
    LOITER_ALIGNED struct loiter_k42_node *next;
    uint32_t waiting;
};

struct loiter_k42 {
    LOITER_ALIGNED struct loiter_k42_node *tail;
    struct loiter_k42_node queue; // stands for the holder; its `next` is the first waiter
};

static inline void loiter_k42_init(struct loiter_k42 *lock) {
    lock->tail = NULL;
    lock->queue.next = NULL;
    lock->queue.waiting = 0;
}

// Acquire: after the release that left the lock free.
LOITER_INLINE int loiter_k42_try_acquire(struct loiter_k42 *lock) {
    struct loiter_k42_node *none = NULL;
    return LOITER_COMPARE_EXCHANGE(&lock->tail, &none, &lock->queue, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

// The new holder's place becomes the lock itself; its node can then go.
LOITER_INLINE void loiter_k42_leave_queue(struct loiter_k42 *lock, struct loiter_k42_node *node) {
    // Acquire, here and in the wait: the successor has set its node up.
    struct loiter_k42_node *next = LOITER_LOAD(&node->next, __ATOMIC_ACQUIRE);
    if (!next) {
        struct loiter_k42_node *self = node;
        // Before the tail: who then comes links itself to the lock, and must not be overwritten.
        LOITER_STORE(&lock->queue.next, NULL, __ATOMIC_RELAXED);
        // Release: that store. Relaxed on failure: the pointer is waited for with acquire order.
        if (LOITER_COMPARE_EXCHANGE(&lock->tail, &self, &lock->queue, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return;
        next = LOITER_WAIT_FOR_POINTER(&node->next);
    }
    // Relaxed: only the holder reads it, in this thread, and the successor's node was seen with acquire order.
    LOITER_STORE(&lock->queue.next, next, __ATOMIC_RELAXED);
}

LOITER_INLINE void loiter_k42_acquire(struct loiter_k42 *lock, const struct loiter_policy *policy) {
    struct loiter_k42_node node;
    struct loiter_k42_node *before = NULL;
    while (!loiter_k42_try_acquire(lock)) {
        before = LOITER_LOAD(&lock->tail, __ATOMIC_RELAXED); // a guess, which the compare-and-swap proves
        if (!before)
            continue;
        // Relaxed: made visible by the release half of the compare-and-swap.
        LOITER_STORE(&node.next, NULL, __ATOMIC_RELAXED);
        LOITER_STORE(&node.waiting, 1, __ATOMIC_RELAXED);
        // Release: the node is set up. Acquire: the predecessor's is, too. The tail is either the lock or a waiter, whose
        // node is there as long as it is the tail; that it has been gone and come back does no harm.
        if (!LOITER_COMPARE_EXCHANGE(&lock->tail, &before, &node, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        // Release: the predecessor clears `waiting`, through this link, after it was set.
        LOITER_STORE(&before->next, &node, __ATOMIC_RELEASE);
        (void)loiter_wait_while(policy, &node.waiting, 1);
        loiter_k42_leave_queue(lock, &node);
        return;
    }
}

LOITER_INLINE void loiter_k42_release(struct loiter_k42 *lock, const struct loiter_policy *policy) {
    // Acquire, here and in the wait: the successor's node is written after the successor has set it up.
    struct loiter_k42_node *next = LOITER_LOAD(&lock->queue.next, __ATOMIC_ACQUIRE);
    if (!next) {
        struct loiter_k42_node *self = &lock->queue;
        // Release: the section comes before the lock is free.
        if (LOITER_COMPARE_EXCHANGE(&lock->tail, &self, NULL, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return;
        LOITER_REQUIRE(self, LOITER_NOT_HELD);
        next = LOITER_WAIT_FOR_POINTER(&lock->queue.next);
    }
    // The first waiter is the holder from now on, and sets lock->queue.next, which thus is stale but never wrong: the
    // successor clears it before others can link to the lock.
    loiter_end_wait(policy, &next->waiting, 0);
}

#endif
