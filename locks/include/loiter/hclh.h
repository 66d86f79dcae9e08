// HCLH: CLH whose waiters first queue in their node of the machine; the first of such a queue appends it, as it is by then,
// to the global one. V. Luchangco, D. Nussbaum and N. Shavit, "A Hierarchical CLH Queue Lock", Euro-Par 2006; M. Herlihy and N.
// Shavit, "The Art of Multiprocessor Programming", 2012, section 7.8.2.
//
//     state of a node = node of the machine (bits 29:0) | TAIL (bit 30) | BUSY (bit 31)
//
//     BUSY --its thread releases--> not BUSY: the successor, local or global, has the lock
//     TAIL: it was the last of a local queue when that was appended. A local successor then has its predecessor in the
//           global queue, and is the first of the next part of the local one. So it is if the state shows another node of
//           the machine: then its predecessor's node has already been taken over by somebody there.
//
// | space         | a pointer and a line a lock, a line for each node of the machine, a line a thread for as long as it |
// |               | uses the lock                                                                                       |
// | fairness      | order in which local queues are appended, and of arrival in each                                    |
// | uncontended   | 2 atomics: two exchanges                                                                            |
// | waits on      | its predecessor's state; a hand-over moves one line                                                 |
// | policies      | all but LOITER_PARK                                                                                 |
//
// Nodes wander between the threads of a lock, so they must live as long as the lock does. A thread keeps its node of the
// machine as long as it uses the lock: one that took a line along to another could make a waiter there wait for itself.
// There is no attempt that gives up, for the reason given in clh.h.
#ifndef LOITER_HCLH_H
#define LOITER_HCLH_H

#include "wait.h"

#define LOITER_HCLH_TAIL (UINT32_C(1) << 30)
#define LOITER_HCLH_BUSY (UINT32_C(1) << 31)

struct loiter_hclh_node {
    LOITER_ALIGNED uint32_t state;
};

// The queue of a node of the machine.
struct loiter_hclh_cluster {
    LOITER_ALIGNED struct loiter_hclh_node *tail;
};

struct loiter_hclh {
    LOITER_ALIGNED struct loiter_hclh_node *tail;
    struct loiter_hclh_cluster *clusters;
    struct loiter_hclh_node first;
};

// What a thread keeps: its node, and while it holds the lock its predecessor's.
struct loiter_hclh_thread {
    LOITER_ALIGNED struct loiter_hclh_node *own;
    struct loiter_hclh_node *before;
    uint32_t place;
};

// `clusters` has an entry for each of `count` nodes of the machine.
static inline void loiter_hclh_init(struct loiter_hclh *lock, struct loiter_hclh_cluster *clusters, uint32_t count) {
    lock->first.state = count; // which is none of them
    lock->tail = &lock->first;
    lock->clusters = clusters;
    for (uint32_t n = 0; n < count; n++)
        clusters[n].tail = NULL;
}

// `place` is the node of the machine that this thread runs in.
static inline void loiter_hclh_init_thread(struct loiter_hclh_thread *thread, struct loiter_hclh_node *node,
                                           uint32_t place) {
    thread->own = node;
    thread->before = NULL;
    thread->place = place;
}

// Waits for the local predecessor. Returns whether that has handed the lock over; if not, this thread is the first of its
// local queue.
LOITER_INLINE int loiter_hclh_wait_in_node(struct loiter_hclh_node *before, uint32_t place,
                                           const struct loiter_policy *policy) {
    struct loiter_wait wait = {0, 0};
    uint32_t seen;
    // Acquire: after the section that was released. The node is taken over, and gets another place, only after TAIL is set.
    while ((seen = LOITER_LOAD(&before->state, __ATOMIC_ACQUIRE)) == (place | LOITER_HCLH_BUSY))
        loiter_wait_step(policy, &wait, &before->state, seen);
    return seen == place;
}

LOITER_INLINE void loiter_hclh_acquire(struct loiter_hclh *lock, struct loiter_hclh_thread *thread,
                                       const struct loiter_policy *policy) {
    struct loiter_hclh_cluster *cluster = &lock->clusters[thread->place];
    struct loiter_wait wait = {0, 0};
    uint32_t seen;
    LOITER_REQUIRE(policy->method != LOITER_PARK, LOITER_CANNOT_PARK);
    // Release: a local successor of the node's last use, which may see here that it has been taken over, comes after that
    // use was appended to the global queue.
    LOITER_STORE(&thread->own->state, thread->place | LOITER_HCLH_BUSY, __ATOMIC_RELEASE);
    // Acquire: that the predecessor's node has been set up is seen.
    thread->before = __atomic_exchange_n(&cluster->tail, thread->own, __ATOMIC_ACQ_REL);
    if (thread->before && loiter_hclh_wait_in_node(thread->before, thread->place, policy))
        return;
    // Appends all that have come. Acquire: their last has set its node up. It stays its thread's, which comes after this one.
    struct loiter_hclh_node *last = LOITER_LOAD(&cluster->tail, __ATOMIC_ACQUIRE);
    thread->before = __atomic_exchange_n(&lock->tail, last, __ATOMIC_ACQ_REL);
    // Release: who sees it appends to the global queue after this exchange. A store: its thread is not yet to release.
    LOITER_STORE(&last->state, thread->place | LOITER_HCLH_TAIL | LOITER_HCLH_BUSY, __ATOMIC_RELEASE);
    while ((seen = LOITER_LOAD(&thread->before->state, __ATOMIC_ACQUIRE)) & LOITER_HCLH_BUSY)
        loiter_wait_step(policy, &wait, &thread->before->state, seen);
}

LOITER_INLINE void loiter_hclh_release(struct loiter_hclh *lock, struct loiter_hclh_thread *thread) {
    struct loiter_hclh_node *own = thread->own;
    (void)lock;
    LOITER_REQUIRE(thread->before, LOITER_NOT_HELD);
    // The predecessor has left its node. A local successor of it may still look at it, and sees TAIL or another place.
    thread->own = thread->before;
    thread->before = NULL;
    // Relaxed: who set TAIL held the lock before, or is this thread.
    uint32_t state = LOITER_LOAD(&own->state, __ATOMIC_RELAXED);
    // Release: the section comes before the successor's. The node is the successor's from here on.
    LOITER_STORE(&own->state, state & ~LOITER_HCLH_BUSY, __ATOMIC_RELEASE);
}

#endif
