// CNA: MCS that prefers waiters of the holder's node (socket): others are moved to a second queue, until the second queue's
// turn comes. D. Dice and A. Kogan, "Compact NUMA-Aware Locks", EuroSys 2019.
//
//     tail -> ... main queue: A (holds it) -> B -> C           A.second -> X -> Y: skipped waiters of other nodes
//     release: hands over to the first of the main queue that is of A's node, and moves those before it to the second queue.
//     If there is none, or it was local `LOITER_CNA_LOCAL` times in a row: the second queue goes before the main one.
//
// | space         | a pointer a lock, a line a thread that holds or waits                              |
// | fairness      | order of arrival within a node, which keeps the lock for LOITER_CNA_LOCAL          |
// |               | hand-overs in a row at most                                                        |
// | uncontended   | 2 atomics: exchange, compare-and-swap                                              |
// | waits on      | a word of its own; a hand-over moves one line, and looks at those of who is skipped |
// | policies      | all; with LOITER_PARK whoever releases needs that policy, too                      |
//
// The paper draws a random number to decide when to leave the node; here it is a count, so that runs repeat.
#ifndef LOITER_CNA_H
#define LOITER_CNA_H

#include "wait.h"

#ifndef LOITER_CNA_LOCAL
#define LOITER_CNA_LOCAL 256
#endif

// All but `next` and `waiting` are written by the thread that has the lock, or before the node can be found.
struct loiter_cna_node {
    LOITER_ALIGNED struct loiter_cna_node *next;
    struct loiter_cna_node *second;      // first of the second queue, while this one holds the lock
    struct loiter_cna_node *second_last; // of the first of a second queue: its last
    uint32_t waiting;
    uint32_t place; // node of the machine
    uint32_t local; // hand-overs within the node so far, in a row
    const void *held; // the lock, in debug builds, while its thread holds it
};

struct loiter_cna {
    LOITER_ALIGNED struct loiter_cna_node *tail;
};

static inline void loiter_cna_init(struct loiter_cna *lock) { lock->tail = NULL; }

LOITER_INLINE void loiter_cna_init_node(struct loiter_cna_node *node, uint32_t place) {
    // Relaxed: the node becomes visible by the release half of what makes it the tail.
    LOITER_STORE(&node->next, NULL, __ATOMIC_RELAXED);
    LOITER_STORE(&node->waiting, 1, __ATOMIC_RELAXED);
    node->second = NULL;
    node->second_last = NULL;
    node->place = place;
    node->local = 0;
}

LOITER_INLINE int loiter_cna_try_acquire(struct loiter_cna *lock, struct loiter_cna_node *node, uint32_t place) {
    struct loiter_cna_node *none = NULL;
    loiter_cna_init_node(node, place);
    // Orders as in mcs.h.
    if (!LOITER_COMPARE_EXCHANGE(&lock->tail, &none, node, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return 0;
    LOITER_HOLD(node, lock);
    return 1;
}

// `place` is the node of the machine that this processor is in.
LOITER_INLINE void loiter_cna_acquire(struct loiter_cna *lock, struct loiter_cna_node *node, uint32_t place,
                                      const struct loiter_policy *policy) {
    loiter_cna_init_node(node, place);
    // Orders as in mcs.h.
    struct loiter_cna_node *before = __atomic_exchange_n(&lock->tail, node, __ATOMIC_ACQ_REL);
    if (before) {
        LOITER_STORE(&before->next, node, __ATOMIC_RELEASE);
        (void)loiter_wait_while(policy, &node->waiting, 1);
    }
    LOITER_HOLD(node, lock);
}

// The first waiter of the main queue that is of this node, with those before it moved to the second queue; NULL, with
// nothing moved, if there is none: the last of the queue is never moved, since others may be about to link to it.
static inline struct loiter_cna_node *loiter_cna_find_local(struct loiter_cna_node *node, struct loiter_cna_node *next) {
    struct loiter_cna_node *last = NULL, *found = next;
    while (found && found->place != node->place) {
        last = found;
        // Acquire: its place is there.
        found = LOITER_LOAD(&found->next, __ATOMIC_ACQUIRE);
    }
    if (found && last) {
        // Relaxed: nobody else follows these links; the next holder has them by the hand-over.
        LOITER_STORE(&last->next, NULL, __ATOMIC_RELAXED);
        if (node->second)
            LOITER_STORE(&node->second->second_last->next, next, __ATOMIC_RELAXED);
        else
            node->second = next;
        node->second->second_last = last;
    }
    return found;
}

static inline void loiter_cna_release(struct loiter_cna *lock, struct loiter_cna_node *node,
                                      const struct loiter_policy *policy) {
    LOITER_LET_GO(node, lock);
    // Acquire, here and in the wait: the successor's node is written after the successor has set it up.
    struct loiter_cna_node *next = LOITER_LOAD(&node->next, __ATOMIC_ACQUIRE);
    struct loiter_cna_node *second = node->second;
    if (!next) {
        // The main queue is empty: the second one becomes it, if there is one. Release: its links, and the section; who
        // comes next sees them by its exchange.
        struct loiter_cna_node *self = node;
        struct loiter_cna_node *last = second ? second->second_last : NULL;
        if (LOITER_COMPARE_EXCHANGE(&lock->tail, &self, last, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
            if (second)
                loiter_end_wait(policy, &second->waiting, 0);
            return;
        }
        next = LOITER_WAIT_FOR_POINTER(&node->next);
    }
    struct loiter_cna_node *heir = node->local < LOITER_CNA_LOCAL ? loiter_cna_find_local(node, next) : NULL;
    if (heir) {
        heir->second = node->second;
        heir->local = node->local + 1;
    } else if (second) {
        // The whole second queue goes before the main one. Relaxed: who follows the link holds the lock by then.
        LOITER_STORE(&second->second_last->next, next, __ATOMIC_RELAXED);
        heir = second;
    } else {
        heir = next;
    }
    // Release: the section, and what the heir was given, come before its section.
    loiter_end_wait(policy, &heir->waiting, 0);
}

#endif
