// What cohort locks share: a lock for each node of the machine and a global one, which a node keeps while it has waiters of
// its own. D. Dice, V. J. Marathe and N. Shavit, "Lock Cohorting: A General Technique for Designing NUMA Locks", PPoPP 2012.
//
//     acquire: the node's lock; then the global one, unless the node already has it
//     release: if the node has waiters, and has not kept the global lock LOITER_COHORT_PASSES times in a row: only the
//              node's lock, with the note that the global one comes with it; else the global lock, then the node's
//
// Needs a global lock that another thread may release than acquired it, and a node's lock that tells whether somebody
// waits. The locks are c_bo_mcs.h and c_mcs_tkt.h.
#ifndef LOITER_COHORT_H
#define LOITER_COHORT_H

#include "base.h"

#ifndef LOITER_COHORT_PASSES
#define LOITER_COHORT_PASSES 64
#endif

// What a node of the machine keeps, protected by its own lock.
struct loiter_cohort {
    LOITER_ALIGNED uint32_t has_global;
    uint32_t passes; // hand-overs within the node since it has the global lock
};

static inline void loiter_cohort_init(struct loiter_cohort *cohort) { cohort->has_global = cohort->passes = 0; }

// Whether the holder hands over within the node. If not, it has to release the global lock.
LOITER_INLINE int loiter_cohort_passes(struct loiter_cohort *cohort, int has_waiters) {
    int passes = has_waiters && cohort->passes < LOITER_COHORT_PASSES;
    cohort->passes = passes ? cohort->passes + 1 : 0;
    cohort->has_global = (uint32_t)passes;
    return passes;
}

#endif
