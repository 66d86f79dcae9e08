// Phase-fair reader-writer queue lock (PF-Q): phases as in phase_fair_ticket.h, with each waiter on a line of its own or of
// its phase. B. B. Brandenburg and J. H. Anderson, "Spin-Based Reader-Writer Synchronization for Multiprocessor Real-Time
// Systems", Real-Time Systems 46(1), 2010.
//
//     in  = readers that came (bits 31:8) | WRITER (bit 1) | PHASE (bit 0): turned over by each writer
//     out = readers that left (bits 31:8) | WRITER: the one who leaves as the `last`th tells the writer
//     closed[PHASE]: 1 from before WRITER is set in `in` until that writer leaves; the readers of its phase wait there
//     writers: an MCS queue, whose first waits for readers on its node
//
//     reader: in += READER; if WRITER was set, waits while closed[PHASE]
//             leaves: out += READER; if WRITER was set there and this is the last: writer.waiting = 0
//     writer: MCS; closed[next phase] = 1; in: WRITER set, PHASE turned over; last = readers in it; out: WRITER set; unless all
//             had left by then, waits for the last
//             leaves: in, out: WRITER cleared; closed[PHASE] = 0; MCS
//
// | space         | four lines a lock, two a writer that holds or waits, none a reader                  |
// | fairness      | phases in turn; writers in order of arrival                                         |
// | uncontended   | 5 atomics a writer, 2 a reader                                                      |
// | waits on      | a writer: a word of its own; readers: one line for all of a phase                   |
// | policies      | all; with LOITER_PARK all need that policy                                          |
//
// The paper's readers queue, too, each on a line of its own, for machines without coherent caches. Where caches are coherent
// each has a copy of the line, which is taken once, at the hand-over.
#ifndef LOITER_PHASE_FAIR_QUEUE_H
#define LOITER_PHASE_FAIR_QUEUE_H

#include "mcs.h"
#include "phase_fair_ticket.h"

struct loiter_phase_fair_queue_node {
    struct loiter_mcs_node link;
    LOITER_ALIGNED uint32_t waiting; // for readers
};

struct loiter_phase_fair_queue_gate {
    LOITER_ALIGNED uint32_t closed;
};

struct loiter_phase_fair_queue {
    LOITER_ALIGNED uint32_t in;
    uint32_t out;
    uint32_t last;                               // what `out` is before the last reader leaves
    struct loiter_phase_fair_queue_node *writer; // whom that reader tells
    struct loiter_mcs writers;
    struct loiter_phase_fair_queue_gate gates[2];
};

static inline void loiter_phase_fair_queue_init(struct loiter_phase_fair_queue *lock) {
    lock->in = lock->out = lock->last = 0;
    lock->writer = NULL;
    loiter_mcs_init(&lock->writers);
    lock->gates[0].closed = lock->gates[1].closed = 0;
}

LOITER_INLINE int loiter_phase_fair_queue_try_acquire_shared(struct loiter_phase_fair_queue *lock) {
    uint32_t seen = LOITER_LOAD(&lock->in, __ATOMIC_RELAXED); // a guess, which the compare-and-swap proves
    // Acquire: after the release of the last writer. Fails only for a writer: other readers make it try again.
    while (!(seen & LOITER_PHASE_FAIR_WRITER))
        if (LOITER_COMPARE_EXCHANGE(&lock->in, &seen, seen + LOITER_PHASE_FAIR_READER, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return 1;
    return 0;
}

LOITER_INLINE void loiter_phase_fair_queue_acquire_shared(struct loiter_phase_fair_queue *lock,
                                                          const struct loiter_policy *policy) {
    // Acquire: after the release of the last writer, if none is there now; else that the gate is closed is seen.
    uint32_t seen = __atomic_fetch_add(&lock->in, LOITER_PHASE_FAIR_READER, __ATOMIC_ACQUIRE);
    // The gate stays open until all readers of this phase have left: the writer between counts them.
    if (seen & LOITER_PHASE_FAIR_WRITER)
        (void)loiter_wait_while(policy, &lock->gates[seen & LOITER_PHASE_FAIR_PHASE].closed, 1);
}

LOITER_INLINE void loiter_phase_fair_queue_release_shared(struct loiter_phase_fair_queue *lock,
                                                          const struct loiter_policy *policy) {
    // Release: the section comes before the writer's, which sees this count or is told. Acquire: `last` and `writer` are
    // there if WRITER is, and all sections before come before the writer that this thread tells.
    uint32_t left = __atomic_fetch_add(&lock->out, LOITER_PHASE_FAIR_READER, __ATOMIC_ACQ_REL);
    LOITER_REQUIRE((left & ~LOITER_PHASE_FAIR_BITS) != (LOITER_LOAD(&lock->in, __ATOMIC_RELAXED) & ~LOITER_PHASE_FAIR_BITS),
                   LOITER_NOT_HELD);
    // One who is slow here may see a later writer's `last`, which is not its number either.
    if ((left & LOITER_PHASE_FAIR_WRITER) &&
        (left & ~LOITER_PHASE_FAIR_BITS) == LOITER_LOAD(&lock->last, __ATOMIC_RELAXED))
        loiter_end_wait(policy, &lock->writer->waiting, 0);
}

LOITER_INLINE int loiter_phase_fair_queue_try_acquire(struct loiter_phase_fair_queue *lock,
                                                      struct loiter_phase_fair_queue_node *node,
                                                      const struct loiter_policy *policy) {
    if (!loiter_mcs_try_acquire(&lock->writers, &node->link))
        return 0;
    // Relaxed: only writers change the phase, and the compare-and-swap proves the rest.
    uint32_t seen = LOITER_LOAD(&lock->in, __ATOMIC_RELAXED);
    uint32_t *closed = &lock->gates[(seen & LOITER_PHASE_FAIR_PHASE) ^ LOITER_PHASE_FAIR_PHASE].closed;
    // Acquire: after the readers that have left.
    if (LOITER_LOAD(&lock->out, __ATOMIC_ACQUIRE) == (seen & ~LOITER_PHASE_FAIR_BITS)) {
        // Nobody waits at this gate: the last writer has waited for the readers of that phase, and holds no more. It may stay
        // closed, since readers look at it only when a writer of that phase is there.
        LOITER_STORE(closed, 1, __ATOMIC_RELAXED);
        // Release: the gate is closed. Acquire: the section comes after. If `in` is unchanged, no reader has come.
        if (LOITER_COMPARE_EXCHANGE(&lock->in, &seen, seen ^ LOITER_PHASE_FAIR_BITS, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return 1;
    }
    loiter_mcs_release(&lock->writers, &node->link, policy);
    return 0;
}

LOITER_INLINE void loiter_phase_fair_queue_acquire(struct loiter_phase_fair_queue *lock,
                                                   struct loiter_phase_fair_queue_node *node,
                                                   const struct loiter_policy *policy) {
    loiter_mcs_acquire(&lock->writers, &node->link, policy);
    uint32_t phase = LOITER_LOAD(&lock->in, __ATOMIC_RELAXED) & LOITER_PHASE_FAIR_PHASE; // only writers change it
    // Relaxed: it becomes visible by the release halves of what follows.
    LOITER_STORE(&lock->gates[phase ^ LOITER_PHASE_FAIR_PHASE].closed, 1, __ATOMIC_RELAXED);
    LOITER_STORE(&node->waiting, 1, __ATOMIC_RELAXED);
    lock->writer = node;
    // Sets WRITER, which is clear, and turns PHASE over. Release: who finds WRITER finds the gate closed.
    uint32_t came = __atomic_fetch_xor(&lock->in, LOITER_PHASE_FAIR_BITS, __ATOMIC_RELEASE) & ~LOITER_PHASE_FAIR_BITS;
    LOITER_STORE(&lock->last, came - LOITER_PHASE_FAIR_READER, __ATOMIC_RELAXED);
    // Release: `last` and `writer` are there. Acquire: after the sections of who has left.
    if (__atomic_fetch_or(&lock->out, LOITER_PHASE_FAIR_WRITER, __ATOMIC_ACQ_REL) != came)
        (void)loiter_wait_while(policy, &node->waiting, 1);
}

LOITER_INLINE void loiter_phase_fair_queue_release(struct loiter_phase_fair_queue *lock,
                                                   struct loiter_phase_fair_queue_node *node,
                                                   const struct loiter_policy *policy) {
    LOITER_REQUIRE(node->link.held == &lock->writers, LOITER_NOT_HELD);
    // A store will do, and no order: while a writer holds the lock nobody leaves, and who leaves next came by `in`.
    LOITER_STORE(&lock->out, LOITER_LOAD(&lock->out, __ATOMIC_RELAXED) & ~LOITER_PHASE_FAIR_WRITER,
                     __ATOMIC_RELAXED);
    // Release: the section, and that store, come before the next readers'.
    uint32_t phase = __atomic_fetch_and(&lock->in, ~LOITER_PHASE_FAIR_WRITER, __ATOMIC_RELEASE) & LOITER_PHASE_FAIR_PHASE;
    // Release: the same, for those that wait.
    loiter_end_wait(policy, &lock->gates[phase].closed, 0);
    loiter_mcs_release(&lock->writers, &node->link, policy);
}

#endif
