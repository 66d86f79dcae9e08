// C-MCS-TKT: a cohort lock (cohort.h) with ticket locks in the nodes of the machine, and an MCS queue of nodes. D. Dice,
// V. J. Marathe and N. Shavit, "Lock Cohorting: A General Technique for Designing NUMA Locks", PPoPP 2012.
//
//     global queue: node X (has it) -> node Y; each by one place in the queue, which belongs to the node, not to a thread
//     in X: next - serving - 1 threads wait. Release: serving++, with the global lock, or after it has gone to Y
//
// | space         | a line a lock, three for each node of the machine, none a thread                        |
// | fairness      | order of arrival within a node; LOITER_COHORT_PASSES hand-overs, then the nodes in turn |
// | uncontended   | 3 atomics: fetch-and-add, exchange, compare-and-swap                                    |
// | waits on      | the node's ticket lock; its first on the node's place in the global queue               |
// | policies      | all but LOITER_PARK                                                                     |
#ifndef LOITER_C_MCS_TKT_H
#define LOITER_C_MCS_TKT_H

#include "cohort.h"
#include "mcs.h"
#include "ticket.h"

struct loiter_c_mcs_tkt_cohort {
    struct loiter_ticket lock;
    struct loiter_mcs_node node; // the node's place in the global queue
    struct loiter_cohort cohort;
};

struct loiter_c_mcs_tkt {
    struct loiter_mcs global;
    struct loiter_c_mcs_tkt_cohort *cohorts;
};

// `cohorts` has an entry for each of `count` nodes of the machine.
static inline void loiter_c_mcs_tkt_init(struct loiter_c_mcs_tkt *lock, struct loiter_c_mcs_tkt_cohort *cohorts,
                                         uint32_t count) {
    loiter_mcs_init(&lock->global);
    lock->cohorts = cohorts;
    for (uint32_t n = 0; n < count; n++) {
        loiter_ticket_init(&cohorts[n].lock);
        loiter_cohort_init(&cohorts[n].cohort);
    }
}

// `place`, at all calls, is the node of the machine whose ticket lock this thread uses: best the one where it runs.
LOITER_INLINE int loiter_c_mcs_tkt_try_acquire(struct loiter_c_mcs_tkt *lock, uint32_t place) {
    struct loiter_c_mcs_tkt_cohort *cohort = &lock->cohorts[place];
    if (!loiter_ticket_try_acquire(&cohort->lock))
        return 0;
    // A node that nobody waits in does not have the global lock.
    if (loiter_mcs_try_acquire(&lock->global, &cohort->node))
        return 1;
    loiter_ticket_release(&cohort->lock);
    return 0;
}

LOITER_INLINE void loiter_c_mcs_tkt_acquire(struct loiter_c_mcs_tkt *lock, uint32_t place,
                                            const struct loiter_policy *policy) {
    struct loiter_c_mcs_tkt_cohort *cohort = &lock->cohorts[place];
    loiter_ticket_acquire(&cohort->lock, policy);
    if (!cohort->cohort.has_global)
        loiter_mcs_acquire(&lock->global, &cohort->node, policy);
}

LOITER_INLINE void loiter_c_mcs_tkt_release(struct loiter_c_mcs_tkt *lock, uint32_t place,
                                            const struct loiter_policy *policy) {
    struct loiter_c_mcs_tkt_cohort *cohort = &lock->cohorts[place];
    // Relaxed: it only tells whether somebody is there, and who has drawn a ticket comes. `serving` is the holder's own.
    uint32_t drawn = LOITER_LOAD(&cohort->lock.next, __ATOMIC_RELAXED) & LOITER_TICKET_MASK;
    uint32_t after = (LOITER_LOAD(&cohort->lock.serving, __ATOMIC_RELAXED) + 1) & LOITER_TICKET_MASK;
    LOITER_REQUIRE(((drawn - after) & LOITER_TICKET_MASK) != LOITER_TICKET_MASK, LOITER_NOT_HELD);
    if (!loiter_cohort_passes(&cohort->cohort, drawn != after))
        loiter_mcs_release(&lock->global, &cohort->node, policy);
    loiter_ticket_release(&cohort->lock);
}

#endif
