// HMCS of two levels: MCS in each node of the machine, and MCS among the nodes; a node hands the lock over within itself a
// bounded number of times. M. Chabbi, M. Fagan and J. Mellor-Crummey, "High Performance Locks for Multi-level NUMA Systems",
// PPoPP 2015.
//
//     status of a waiter's node:  WAIT --its predecessor hands over--> COHORT + n: it has both levels, after n hand-overs
//                                 WAIT --the node gave the global lock up--> ALONE: it has the node's level only, and
//                                 queues its node of the machine for the global level
//
// | space         | a line a lock, two for each node of the machine, one a thread that holds or waits            |
// | fairness      | order of arrival within a node; LOITER_HMCS_PASSES hand-overs, then the nodes in their order |
// | uncontended   | 4 atomics: two exchanges, two compare-and-swaps                                              |
// | waits on      | a word of its own                                                                            |
// | policies      | all; with LOITER_PARK whoever releases needs that policy, too                                |
#ifndef LOITER_HMCS_H
#define LOITER_HMCS_H

#include "mcs.h"

#ifndef LOITER_HMCS_PASSES
#define LOITER_HMCS_PASSES 64
#endif

enum { LOITER_HMCS_WAIT, LOITER_HMCS_ALONE, LOITER_HMCS_COHORT };

struct loiter_hmcs_node {
    LOITER_ALIGNED struct loiter_hmcs_node *next;
    uint32_t status;
    const void *held; // the lock, in debug builds, while its thread holds it
};

struct loiter_hmcs_cohort {
    LOITER_ALIGNED struct loiter_hmcs_node *tail;
    struct loiter_mcs_node node; // its place in the queue of nodes
};

// Two levels: nodes of the machine, and the machine. The paper has as many as the machine has.
struct loiter_hmcs {
    struct loiter_mcs global;
    struct loiter_hmcs_cohort *cohorts;
};

static inline void loiter_hmcs_init(struct loiter_hmcs *lock, struct loiter_hmcs_cohort *cohorts, uint32_t count) {
    loiter_mcs_init(&lock->global);
    lock->cohorts = cohorts;
    for (uint32_t n = 0; n < count; n++)
        cohorts[n].tail = NULL;
}

// `place`, at all calls, is the node of the machine whose queue this thread uses: best the one where it runs.
LOITER_INLINE void loiter_hmcs_acquire(struct loiter_hmcs *lock, struct loiter_hmcs_node *node, uint32_t place,
                                       const struct loiter_policy *policy) {
    struct loiter_hmcs_cohort *cohort = &lock->cohorts[place];
    // Relaxed: the node becomes visible by the release half of the exchange.
    LOITER_STORE(&node->next, NULL, __ATOMIC_RELAXED);
    LOITER_STORE(&node->status, LOITER_HMCS_WAIT, __ATOMIC_RELAXED);
    // Orders as in mcs.h. What the holder before did to the cohort's node comes by them, too.
    struct loiter_hmcs_node *before = __atomic_exchange_n(&cohort->tail, node, __ATOMIC_ACQ_REL);
    if (before) {
        LOITER_STORE(&before->next, node, __ATOMIC_RELEASE);
        if (loiter_wait_while(policy, &node->status, LOITER_HMCS_WAIT) >= LOITER_HMCS_COHORT) {
            LOITER_HOLD(node, lock);
            return;
        }
    }
    // Relaxed, as all that only the holder reads.
    LOITER_STORE(&node->status, LOITER_HMCS_COHORT, __ATOMIC_RELAXED);
    loiter_mcs_acquire(&lock->global, &cohort->node, policy);
    LOITER_HOLD(node, lock);
}

// Gives up the node's level, without the global one.
LOITER_INLINE void loiter_hmcs_release_node(struct loiter_hmcs_cohort *cohort, struct loiter_hmcs_node *node,
                                            struct loiter_hmcs_node *next, const struct loiter_policy *policy) {
    if (!next) {
        struct loiter_hmcs_node *self = node;
        // Release: what this thread did to the cohort's place in the global queue comes before its next use.
        if (LOITER_COMPARE_EXCHANGE(&cohort->tail, &self, NULL, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return;
        next = LOITER_WAIT_FOR_POINTER(&node->next);
    }
    loiter_end_wait(policy, &next->status, LOITER_HMCS_ALONE);
}

LOITER_INLINE int loiter_hmcs_try_acquire(struct loiter_hmcs *lock, struct loiter_hmcs_node *node, uint32_t place,
                                          const struct loiter_policy *policy) {
    struct loiter_hmcs_cohort *cohort = &lock->cohorts[place];
    struct loiter_hmcs_node *none = NULL;
    // Orders as in acquire.
    LOITER_STORE(&node->next, NULL, __ATOMIC_RELAXED);
    LOITER_STORE(&node->status, LOITER_HMCS_COHORT, __ATOMIC_RELAXED);
    if (!LOITER_COMPARE_EXCHANGE(&cohort->tail, &none, node, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return 0;
    if (!loiter_mcs_try_acquire(&lock->global, &cohort->node)) {
        loiter_hmcs_release_node(cohort, node, NULL, policy);
        return 0;
    }
    LOITER_HOLD(node, lock);
    return 1;
}

LOITER_INLINE void loiter_hmcs_release(struct loiter_hmcs *lock, struct loiter_hmcs_node *node, uint32_t place,
                                       const struct loiter_policy *policy) {
    struct loiter_hmcs_cohort *cohort = &lock->cohorts[place];
    LOITER_LET_GO(node, lock);
    // Relaxed: who handed it over wrote it before, and nobody writes it now.
    uint32_t status = LOITER_LOAD(&node->status, __ATOMIC_RELAXED);
    // Acquire, here and in the wait: the successor's node is written after the successor has set it up.
    struct loiter_hmcs_node *next = LOITER_LOAD(&node->next, __ATOMIC_ACQUIRE);
    if (next && status < LOITER_HMCS_COHORT + LOITER_HMCS_PASSES) {
        // Release: the section comes before the successor's.
        loiter_end_wait(policy, &next->status, status + 1);
        return;
    }
    // The global lock first: the next of the node must find the cohort's place in the global queue unused.
    loiter_mcs_release(&lock->global, &cohort->node, policy);
    loiter_hmcs_release_node(cohort, node, next, policy);
}

#endif
