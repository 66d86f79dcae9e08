// C-BO-MCS: a cohort lock (cohort.h) with MCS queues in the nodes of the machine, and a test-and-test-and-set lock with
// back-off among their heads. D. Dice, V. J. Marathe and N. Shavit, "Lock Cohorting: A General Technique for Designing NUMA
// Locks", PPoPP 2012.
//
//     global 0 free  --head of a node's queue: exchange(1)-->  1 held by that node, handed on along its queue
//            1       --passes over, or nobody waits there: store 0-->  0; then the next of the queue is head
//
// | space         | a line a lock, two for each node of the machine, one a thread that holds or waits       |
// | fairness      | order of arrival within a node; none between nodes                                      |
// | uncontended   | 3 atomics: two exchanges, compare-and-swap                                              |
// | waits on      | a word of its own; the heads of the nodes on the global lock                            |
// | policies      | head: all but LOITER_PARK; queue: all; with LOITER_PARK whoever releases needs it, too  |
#ifndef LOITER_C_BO_MCS_H
#define LOITER_C_BO_MCS_H

#include "cohort.h"
#include "mcs.h"
#include "test_and_test_and_set.h"

struct loiter_c_bo_mcs_cohort {
    struct loiter_mcs lock;
    struct loiter_cohort cohort;
};

struct loiter_c_bo_mcs {
    struct loiter_test_and_test_and_set global;
    struct loiter_c_bo_mcs_cohort *cohorts;
};

// `cohorts` has an entry for each of `count` nodes of the machine.
static inline void loiter_c_bo_mcs_init(struct loiter_c_bo_mcs *lock, struct loiter_c_bo_mcs_cohort *cohorts,
                                        uint32_t count) {
    loiter_test_and_test_and_set_init(&lock->global);
    lock->cohorts = cohorts;
    for (uint32_t n = 0; n < count; n++) {
        loiter_mcs_init(&cohorts[n].lock);
        loiter_cohort_init(&cohorts[n].cohort);
    }
}

// `place`, at all calls, is the node of the machine whose queue this thread uses: best the one where it runs.
LOITER_INLINE int loiter_c_bo_mcs_try_acquire(struct loiter_c_bo_mcs *lock, struct loiter_mcs_node *node, uint32_t place,
                                              const struct loiter_policy *queue) {
    struct loiter_c_bo_mcs_cohort *cohort = &lock->cohorts[place];
    if (!loiter_mcs_try_acquire(&cohort->lock, node))
        return 0;
    // A queue that is empty does not have the global lock.
    if (loiter_test_and_test_and_set_try_acquire(&lock->global))
        return 1;
    loiter_mcs_release(&cohort->lock, node, queue);
    return 0;
}

// `head` is the policy of who waits for the global lock: LOITER_BACK_OFF in the paper.
LOITER_INLINE void loiter_c_bo_mcs_acquire(struct loiter_c_bo_mcs *lock, struct loiter_mcs_node *node, uint32_t place,
                                           const struct loiter_policy *head, const struct loiter_policy *queue) {
    struct loiter_c_bo_mcs_cohort *cohort = &lock->cohorts[place];
    loiter_mcs_acquire(&cohort->lock, node, queue);
    if (!cohort->cohort.has_global)
        loiter_test_and_test_and_set_acquire(&lock->global, head);
}

LOITER_INLINE void loiter_c_bo_mcs_release(struct loiter_c_bo_mcs *lock, struct loiter_mcs_node *node, uint32_t place,
                                           const struct loiter_policy *queue) {
    struct loiter_c_bo_mcs_cohort *cohort = &lock->cohorts[place];
    LOITER_REQUIRE(node->held == &cohort->lock, LOITER_NOT_HELD);
    // Relaxed: it only tells whether somebody is there. One who has come since acquires the global lock itself.
    if (!loiter_cohort_passes(&cohort->cohort, LOITER_LOAD(&node->next, __ATOMIC_RELAXED) != NULL))
        loiter_test_and_test_and_set_release(&lock->global);
    loiter_mcs_release(&cohort->lock, node, queue);
}

#endif
