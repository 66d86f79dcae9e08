// CLH: a queue without links: each waits on the node of its predecessor, and takes that node over for its next use.
// T. S. Craig, "Building FIFO and Priority-Queuing Spin Locks from Atomic Swap", Univ. of Washington TR 93-02-02, 1993;
// P. Magnusson, A. Landin, E. Hagersten, "Queue Locks on Cache Coherent Multiprocessors", IPPS 1994.
//
//     tail -> D, D.waiting == 0        free
//     tail -> A, A.waiting == 1        A's owner holds it; it looks at nothing any more
//     tail -> B, A.waiting == 1        and B's owner waits for A.waiting == 0
//
// | space         | a pointer and a line a lock, a line a thread for as long as it uses the lock       |
// | fairness      | order of arrival                                                                   |
// | uncontended   | 1 atomic                                                                           |
// | waits on      | a line that only it reads; a hand-over moves one line                              |
// | policies      | all; with LOITER_PARK whoever releases needs that policy, too                      |
//
// Nodes wander between the threads of a lock, so they must live as long as the lock does. There is no attempt that gives up:
// when the tail's node looks free, it may be another use of the same node by the time that the tail is exchanged.
#ifndef LOITER_CLH_H
#define LOITER_CLH_H

#include "wait.h"

struct loiter_clh_node {
    LOITER_ALIGNED uint32_t waiting;
};

struct loiter_clh {
    LOITER_ALIGNED struct loiter_clh_node *tail;
    struct loiter_clh_node first;
};

// What a thread keeps: its node, and while it holds the lock its predecessor's.
struct loiter_clh_thread {
    LOITER_ALIGNED struct loiter_clh_node *own;
    struct loiter_clh_node *before;
};

static inline void loiter_clh_init(struct loiter_clh *lock) {
    lock->first.waiting = 0;
    lock->tail = &lock->first;
}

static inline void loiter_clh_init_thread(struct loiter_clh_thread *thread, struct loiter_clh_node *node) {
    thread->own = node;
    thread->before = NULL;
}

LOITER_INLINE void loiter_clh_acquire(struct loiter_clh *lock, struct loiter_clh_thread *thread,
                                      const struct loiter_policy *policy) {
    // Relaxed: made visible by the release half of the exchange.
    LOITER_STORE(&thread->own->waiting, 1, __ATOMIC_RELAXED);
    // Acquire: that the predecessor's node has been set up is seen.
    thread->before = __atomic_exchange_n(&lock->tail, thread->own, __ATOMIC_ACQ_REL);
    (void)loiter_wait_while(policy, &thread->before->waiting, 1);
}

LOITER_INLINE void loiter_clh_release(struct loiter_clh *lock, struct loiter_clh_thread *thread,
                                      const struct loiter_policy *policy) {
    struct loiter_clh_node *own = thread->own;
    (void)lock;
    LOITER_REQUIRE(thread->before, LOITER_NOT_HELD);
    // The predecessor has left its node, and this thread was the only one that looked at it.
    thread->own = thread->before;
    thread->before = NULL;
    // Release: the section comes before the successor's. The node is the successor's from here on.
    loiter_end_wait(policy, &own->waiting, 0);
}

#endif
