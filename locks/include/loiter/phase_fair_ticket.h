// Phase-fair reader-writer ticket lock (PF-T): readers and writers take turns, so a reader waits for one writer at most, and a
// writer for those before it and one phase of readers each. B. B. Brandenburg and J. H. Anderson, "Spin-Based Reader-Writer
// Synchronization for Multiprocessor Real-Time Systems", Real-Time Systems 46(1), 2010.
//
//     in  = readers that came (bits 31:8) | WRITER (bit 1): one waits or writes | PHASE (bit 0): turned over by each writer
//     out = readers that left (bits 31:8)
//     ticket, turn: of writers, as in ticket.h
//
//     reader: in += READER; if WRITER was set, waits until WRITER or PHASE differ                  leaves: out += READER
//     writer: waits for its turn; WRITER set, PHASE turned over; waits until out is what `in` was  leaves: WRITER cleared; turn++
//
// | space         | 16 bytes a lock, none a thread                                                      |
// | fairness      | phases in turn; writers in order of arrival                                         |
// | uncontended   | 3 atomics a writer, 2 a reader                                                      |
// | waits on      | the lock                                                                            |
// | policies      | all but LOITER_PARK                                                                 |
//
// The paper takes the phase from the writer's ticket; here each writer turns it over, so that an attempt may give its turn up.
#ifndef LOITER_PHASE_FAIR_TICKET_H
#define LOITER_PHASE_FAIR_TICKET_H

#include "wait.h"

#define LOITER_PHASE_FAIR_READER UINT32_C(0x100)
#define LOITER_PHASE_FAIR_WRITER UINT32_C(0x2)
#define LOITER_PHASE_FAIR_PHASE UINT32_C(0x1)
#define LOITER_PHASE_FAIR_BITS (LOITER_PHASE_FAIR_WRITER | LOITER_PHASE_FAIR_PHASE)

struct loiter_phase_fair_ticket {
    LOITER_ALIGNED uint32_t in;
    uint32_t out;
    uint32_t ticket;
    uint32_t turn;
};

static inline void loiter_phase_fair_ticket_init(struct loiter_phase_fair_ticket *lock) {
    lock->in = lock->out = lock->ticket = lock->turn = 0;
}

LOITER_INLINE int loiter_phase_fair_ticket_try_acquire_shared(struct loiter_phase_fair_ticket *lock) {
    uint32_t seen = LOITER_LOAD(&lock->in, __ATOMIC_RELAXED); // a guess, which the compare-and-swap proves
    // Acquire: after the release of the last writer. Fails only for a writer: other readers make it try again.
    while (!(seen & LOITER_PHASE_FAIR_WRITER))
        if (LOITER_COMPARE_EXCHANGE(&lock->in, &seen, seen + LOITER_PHASE_FAIR_READER, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return 1;
    return 0;
}

LOITER_INLINE void loiter_phase_fair_ticket_acquire_shared(struct loiter_phase_fair_ticket *lock,
                                                           const struct loiter_policy *policy) {
    struct loiter_wait wait = {0, 0};
    LOITER_REQUIRE(policy->method != LOITER_PARK, LOITER_CANNOT_PARK);
    // Acquire: after the release of the last writer, if none is there now.
    uint32_t seen = __atomic_fetch_add(&lock->in, LOITER_PHASE_FAIR_READER, __ATOMIC_ACQUIRE);
    uint32_t writer = seen & LOITER_PHASE_FAIR_BITS;
    if (!(writer & LOITER_PHASE_FAIR_WRITER))
        return;
    // Until that writer is gone; the next one has the other phase, and waits for this reader. Acquire: after its release.
    while (((seen = LOITER_LOAD(&lock->in, __ATOMIC_ACQUIRE)) & LOITER_PHASE_FAIR_BITS) == writer)
        loiter_wait_step(policy, &wait, &lock->in, seen);
}

// Release: the section comes before that of the writer that waits for it.
LOITER_INLINE void loiter_phase_fair_ticket_release_shared(struct loiter_phase_fair_ticket *lock) {
    uint32_t left = __atomic_fetch_add(&lock->out, LOITER_PHASE_FAIR_READER, __ATOMIC_RELEASE);
    (void)left;
    // Acquire: who has left before it has come before.
    LOITER_REQUIRE(((void)LOITER_LOAD(&lock->out, __ATOMIC_ACQUIRE),
                    left != (LOITER_LOAD(&lock->in, __ATOMIC_RELAXED) & ~LOITER_PHASE_FAIR_BITS)),
                   LOITER_NOT_HELD);
}

LOITER_INLINE void loiter_phase_fair_ticket_pass(struct loiter_phase_fair_ticket *lock) {
    uint32_t turn = LOITER_LOAD(&lock->turn, __ATOMIC_RELAXED); // only who has the turn writes it
    // Release: the section comes before the next writer's.
    LOITER_STORE(&lock->turn, turn + 1, __ATOMIC_RELEASE);
}

LOITER_INLINE int loiter_phase_fair_ticket_try_acquire(struct loiter_phase_fair_ticket *lock) {
    // Acquire: after the writer before.
    uint32_t turn = LOITER_LOAD(&lock->turn, __ATOMIC_ACQUIRE);
    uint32_t seen = LOITER_LOAD(&lock->in, __ATOMIC_RELAXED);
    // Acquire: after the readers that have left.
    if ((seen & LOITER_PHASE_FAIR_WRITER) ||
        LOITER_LOAD(&lock->out, __ATOMIC_ACQUIRE) != (seen & ~LOITER_PHASE_FAIR_BITS) ||
        !LOITER_COMPARE_EXCHANGE(&lock->ticket, &turn, turn + 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return 0;
    // It has the turn. If `in` is unchanged, no reader has come, and all that came had left. Acquire: the section comes after.
    if (LOITER_COMPARE_EXCHANGE(&lock->in, &seen, seen ^ LOITER_PHASE_FAIR_BITS, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return 1;
    loiter_phase_fair_ticket_pass(lock);
    return 0;
}

LOITER_INLINE void loiter_phase_fair_ticket_acquire(struct loiter_phase_fair_ticket *lock,
                                                    const struct loiter_policy *policy) {
    struct loiter_wait wait = {0, 0}, wait_for_readers = {0, 0};
    // Relaxed: the order comes by the load of `turn`.
    uint32_t ticket = __atomic_fetch_add(&lock->ticket, 1, __ATOMIC_RELAXED), seen;
    LOITER_REQUIRE(policy->method != LOITER_PARK, LOITER_CANNOT_PARK);
    // Acquire: after the writer before.
    while ((seen = LOITER_LOAD(&lock->turn, __ATOMIC_ACQUIRE)) != ticket)
        loiter_wait_step(policy, &wait, &lock->turn, seen);
    // Sets WRITER, which is clear, and turns PHASE over. Readers that come from here on wait. Those before have to leave. No
    // order: the load of `out` brings it.
    uint32_t came = __atomic_fetch_xor(&lock->in, LOITER_PHASE_FAIR_BITS, __ATOMIC_RELAXED) & ~LOITER_PHASE_FAIR_BITS;
    // Acquire: after the sections of those readers.
    while ((seen = LOITER_LOAD(&lock->out, __ATOMIC_ACQUIRE)) != came)
        loiter_wait_step(policy, &wait_for_readers, &lock->out, seen);
}

LOITER_INLINE void loiter_phase_fair_ticket_release(struct loiter_phase_fair_ticket *lock) {
    // Release: the section comes before those of the readers that wait.
    uint32_t before = __atomic_fetch_and(&lock->in, ~LOITER_PHASE_FAIR_WRITER, __ATOMIC_RELEASE);
    (void)before;
    LOITER_REQUIRE(before & LOITER_PHASE_FAIR_WRITER, LOITER_NOT_HELD);
    loiter_phase_fair_ticket_pass(lock);
}

#endif
