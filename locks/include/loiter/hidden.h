// Queue locks without nodes in the interface, for programs whose acquire and release have only the lock: each thread has
// LOITER_HIDDEN_LEVELS nodes, of which a lock takes one from acquire to release.
//
//     loiter_hidden_mcs_acquire(&lock, &policy);      as loiter_mcs_acquire(&lock, &node, &policy), and so each below
//     loiter_hidden_mcs_release(&lock, &policy);
//
//     slot.lock == NULL: free    --acquire: the first free slot-->    slot.lock == the lock    --release-->    free
//
// A thread may hold as many locks at once as it has slots, of any kinds, and release them in any order; it releases what it
// has acquired itself. One more ends the program: there is nothing left to wait on. Costs beside the lock: a load for each lock
// held, and two stores. An interrupt or signal handler may use locks that the thread it interrupts does not hold, if it has
// released them when it returns. The same locks may be used with nodes of the caller's, at the same time.
//
// CLH, Graunke and Thakkar's lock and HCLH have no such form: a line that a thread has used must live as long as the lock,
// and so cannot be the thread's. K42 and qspinlock need none: the one keeps the holder's place in the lock, the other has nodes
// of processors.
#ifndef LOITER_HIDDEN_H
#define LOITER_HIDDEN_H

#include "anderson.h"
#include "c_bo_mcs.h"
#include "cna.h"
#include "hmcs.h"
#include "malthusian.h"
#include "mcs.h"
#include "phase_fair_queue.h"

// The same in all files of a program.
#ifndef LOITER_HIDDEN_LEVELS
#define LOITER_HIDDEN_LEVELS 8
#endif

struct loiter_hidden_slot {
    LOITER_ALIGNED const void *lock;
    union {
        struct loiter_anderson_node anderson;
        struct loiter_cna_node cna;
        struct loiter_hmcs_node hmcs;
        struct loiter_malthusian_node malthusian;
        struct loiter_mcs_node mcs;
        struct loiter_phase_fair_queue_node phase_fair_queue;
    } node;
};

// Begins all zero.
struct loiter_hidden_slots {
    struct loiter_hidden_slot of[LOITER_HIDDEN_LEVELS];
};

#if __STDC_HOSTED__
LOITER_SHARED __thread struct loiter_hidden_slots loiter_hidden_own_slots;
static inline struct loiter_hidden_slots *loiter_hidden_own(void) { return &loiter_hidden_own_slots; }
#else
// Bare-metal programs define it: the slots of this hart, or of the thread that runs here.
struct loiter_hidden_slots *loiter_hidden_own(void);
#endif

// The first slot with this lock; with NULL the first free one. Relaxed, as all here: only this thread and its handlers use them.
LOITER_INLINE struct loiter_hidden_slot *loiter_hidden_find(const void *lock) {
    struct loiter_hidden_slots *slots = loiter_hidden_own();
    for (uint32_t n = 0; n < LOITER_HIDDEN_LEVELS; n++)
        if (LOITER_LOAD(&slots->of[n].lock, __ATOMIC_RELAXED) == lock)
            return &slots->of[n];
    return NULL;
}

// A free slot, which is the lock's from here on. A handler that comes before the store leaves the slot as free as it was.
LOITER_INLINE struct loiter_hidden_slot *loiter_hidden_take(const void *lock) {
    struct loiter_hidden_slot *slot = loiter_hidden_find(NULL);
    if (!slot)
        loiter_misuse("a thread holds more locks at once than LOITER_HIDDEN_LEVELS: compile all files with a larger one");
    LOITER_STORE(&slot->lock, lock, __ATOMIC_RELAXED);
    // The node is used after the slot is taken: a handler on this thread must find it so.
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return slot;
}

// The same for who will wait until it has the lock.
LOITER_INLINE struct loiter_hidden_slot *loiter_hidden_enter(const void *lock) {
    LOITER_REQUIRE(!loiter_hidden_find(lock), "acquired again by the thread that holds it");
    return loiter_hidden_take(lock);
}

// The slot of a lock that this thread holds.
LOITER_INLINE struct loiter_hidden_slot *loiter_hidden_held(const void *lock) {
    struct loiter_hidden_slot *slot = loiter_hidden_find(lock);
    if (!slot)
        loiter_misuse("released twice, or not held by this thread");
    return slot;
}

LOITER_INLINE void loiter_hidden_give_back(struct loiter_hidden_slot *slot) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    LOITER_STORE(&slot->lock, NULL, __ATOMIC_RELAXED);
}

// Gives the slot back after an attempt in vain.
LOITER_INLINE int loiter_hidden_keep(struct loiter_hidden_slot *slot, int acquired) {
    if (!acquired)
        loiter_hidden_give_back(slot);
    return acquired;
}

LOITER_INLINE int loiter_hidden_anderson_try_acquire(struct loiter_anderson *lock) {
    struct loiter_hidden_slot *slot = loiter_hidden_take(lock);
    return loiter_hidden_keep(slot, loiter_anderson_try_acquire(lock, &slot->node.anderson));
}

LOITER_INLINE void loiter_hidden_anderson_acquire(struct loiter_anderson *lock, const struct loiter_policy *policy) {
    loiter_anderson_acquire(lock, &loiter_hidden_enter(lock)->node.anderson, policy);
}

LOITER_INLINE void loiter_hidden_anderson_release(struct loiter_anderson *lock, const struct loiter_policy *policy) {
    struct loiter_hidden_slot *slot = loiter_hidden_held(lock);
    loiter_anderson_release(lock, &slot->node.anderson, policy);
    loiter_hidden_give_back(slot);
}

LOITER_INLINE int loiter_hidden_mcs_try_acquire(struct loiter_mcs *lock) {
    struct loiter_hidden_slot *slot = loiter_hidden_take(lock);
    return loiter_hidden_keep(slot, loiter_mcs_try_acquire(lock, &slot->node.mcs));
}

LOITER_INLINE void loiter_hidden_mcs_acquire(struct loiter_mcs *lock, const struct loiter_policy *policy) {
    loiter_mcs_acquire(lock, &loiter_hidden_enter(lock)->node.mcs, policy);
}

LOITER_INLINE void loiter_hidden_mcs_release(struct loiter_mcs *lock, const struct loiter_policy *policy) {
    struct loiter_hidden_slot *slot = loiter_hidden_held(lock);
    loiter_mcs_release(lock, &slot->node.mcs, policy);
    loiter_hidden_give_back(slot);
}

LOITER_INLINE int loiter_hidden_cna_try_acquire(struct loiter_cna *lock, uint32_t place) {
    struct loiter_hidden_slot *slot = loiter_hidden_take(lock);
    return loiter_hidden_keep(slot, loiter_cna_try_acquire(lock, &slot->node.cna, place));
}

LOITER_INLINE void loiter_hidden_cna_acquire(struct loiter_cna *lock, uint32_t place,
                                             const struct loiter_policy *policy) {
    loiter_cna_acquire(lock, &loiter_hidden_enter(lock)->node.cna, place, policy);
}

LOITER_INLINE void loiter_hidden_cna_release(struct loiter_cna *lock, const struct loiter_policy *policy) {
    struct loiter_hidden_slot *slot = loiter_hidden_held(lock);
    loiter_cna_release(lock, &slot->node.cna, policy);
    loiter_hidden_give_back(slot);
}

LOITER_INLINE int loiter_hidden_hmcs_try_acquire(struct loiter_hmcs *lock, uint32_t place,
                                                 const struct loiter_policy *policy) {
    struct loiter_hidden_slot *slot = loiter_hidden_take(lock);
    return loiter_hidden_keep(slot, loiter_hmcs_try_acquire(lock, &slot->node.hmcs, place, policy));
}

LOITER_INLINE void loiter_hidden_hmcs_acquire(struct loiter_hmcs *lock, uint32_t place,
                                              const struct loiter_policy *policy) {
    loiter_hmcs_acquire(lock, &loiter_hidden_enter(lock)->node.hmcs, place, policy);
}

LOITER_INLINE void loiter_hidden_hmcs_release(struct loiter_hmcs *lock, uint32_t place,
                                              const struct loiter_policy *policy) {
    struct loiter_hidden_slot *slot = loiter_hidden_held(lock);
    loiter_hmcs_release(lock, &slot->node.hmcs, place, policy);
    loiter_hidden_give_back(slot);
}

LOITER_INLINE int loiter_hidden_c_bo_mcs_try_acquire(struct loiter_c_bo_mcs *lock, uint32_t place,
                                                     const struct loiter_policy *queue) {
    struct loiter_hidden_slot *slot = loiter_hidden_take(lock);
    return loiter_hidden_keep(slot, loiter_c_bo_mcs_try_acquire(lock, &slot->node.mcs, place, queue));
}

LOITER_INLINE void loiter_hidden_c_bo_mcs_acquire(struct loiter_c_bo_mcs *lock, uint32_t place,
                                                  const struct loiter_policy *head,
                                                  const struct loiter_policy *queue) {
    loiter_c_bo_mcs_acquire(lock, &loiter_hidden_enter(lock)->node.mcs, place, head, queue);
}

LOITER_INLINE void loiter_hidden_c_bo_mcs_release(struct loiter_c_bo_mcs *lock, uint32_t place,
                                                  const struct loiter_policy *queue) {
    struct loiter_hidden_slot *slot = loiter_hidden_held(lock);
    loiter_c_bo_mcs_release(lock, &slot->node.mcs, place, queue);
    loiter_hidden_give_back(slot);
}

LOITER_INLINE int loiter_hidden_malthusian_try_acquire(struct loiter_malthusian *lock) {
    struct loiter_hidden_slot *slot = loiter_hidden_take(lock);
    return loiter_hidden_keep(slot, loiter_malthusian_try_acquire(lock, &slot->node.malthusian));
}

LOITER_INLINE void loiter_hidden_malthusian_acquire(struct loiter_malthusian *lock,
                                                    const struct loiter_policy *policy) {
    loiter_malthusian_acquire(lock, &loiter_hidden_enter(lock)->node.malthusian, policy);
}

LOITER_INLINE void loiter_hidden_malthusian_release(struct loiter_malthusian *lock,
                                                    const struct loiter_policy *policy) {
    struct loiter_hidden_slot *slot = loiter_hidden_held(lock);
    loiter_malthusian_release(lock, &slot->node.malthusian, policy);
    loiter_hidden_give_back(slot);
}

LOITER_INLINE int loiter_hidden_phase_fair_queue_try_acquire(struct loiter_phase_fair_queue *lock,
                                                             const struct loiter_policy *policy) {
    struct loiter_hidden_slot *slot = loiter_hidden_take(lock);
    return loiter_hidden_keep(slot, loiter_phase_fair_queue_try_acquire(lock, &slot->node.phase_fair_queue, policy));
}

LOITER_INLINE void loiter_hidden_phase_fair_queue_acquire(struct loiter_phase_fair_queue *lock,
                                                          const struct loiter_policy *policy) {
    loiter_phase_fair_queue_acquire(lock, &loiter_hidden_enter(lock)->node.phase_fair_queue, policy);
}

LOITER_INLINE void loiter_hidden_phase_fair_queue_release(struct loiter_phase_fair_queue *lock,
                                                          const struct loiter_policy *policy) {
    struct loiter_hidden_slot *slot = loiter_hidden_held(lock);
    loiter_phase_fair_queue_release(lock, &slot->node.phase_fair_queue, policy);
    loiter_hidden_give_back(slot);
}

#endif
