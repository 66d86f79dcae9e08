// Ticket lock: D. P. Reed and R. K. Kanodia, "Synchronization with Eventcounts and Sequencers", CACM 22(2), 1979; with
// proportional back-off by J. M. Mellor-Crummey and M. L. Scott, "Algorithms for Scalable Synchronization on
// Shared-Memory Multiprocessors", ACM TOCS 9(1), 1991. Both words are side by side, as in Linux's (Boyd-Wickizer et al.,
// "Non-scalable locks are dangerous", Linux Symposium 2012).
//
//     acquire: ticket = next++, waits until serving == ticket         free: serving == next
//     release: serving++                                              waiting: next - serving - 1
//
// | space         | 8 bytes a lock, none a thread                                       |
// | fairness      | order of arrival                                                    |
// | uncontended   | 1 atomic, on x86 2                                                  |
// | waits on      | the lock: each release takes the line from all waiters              |
// | policies      | all but LOITER_PARK                                                 |
#ifndef LOITER_TICKET_H
#define LOITER_TICKET_H

#include "wait.h"

struct loiter_ticket {
    LOITER_ALIGNED uint32_t next;
    uint32_t serving; // 31 bits, as all words that are waited on; so many tickets wrap around
};

#define LOITER_TICKET_MASK (~LOITER_PARKED)

static inline void loiter_ticket_init(struct loiter_ticket *lock) { lock->next = lock->serving = 0; }

LOITER_INLINE int loiter_ticket_try_acquire(struct loiter_ticket *lock) {
    // The lock is free if the ticket that is served has not been drawn. Acquire at the look at `serving`: the section comes
    // after the release that it shows. If the compare-and-swap then draws that very ticket, nobody has come between.
    uint32_t serving = LOITER_LOAD(&lock->serving, __ATOMIC_ACQUIRE);
    uint32_t next = LOITER_LOAD(&lock->next, __ATOMIC_RELAXED);
    return (next & LOITER_TICKET_MASK) == serving &&
           LOITER_COMPARE_EXCHANGE(&lock->next, &next, next + 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

// `unit` pauses for each thread before this one, after each look, before the policy's step; 0 is no such back-off.
LOITER_INLINE void loiter_ticket_acquire_proportional(struct loiter_ticket *lock, const struct loiter_policy *policy,
                                                      uint32_t unit) {
    // Relaxed: the order comes by the load of `serving`.
    uint32_t ticket = __atomic_fetch_add(&lock->next, 1, __ATOMIC_RELAXED) & LOITER_TICKET_MASK;
    struct loiter_wait wait = {0, 0};
    uint32_t serving;
    LOITER_REQUIRE(policy->method != LOITER_PARK, LOITER_CANNOT_PARK);
    // Acquire: the section comes after the release that it shows.
    while ((serving = LOITER_LOAD(&lock->serving, __ATOMIC_ACQUIRE)) != ticket) {
        if (unit)
            loiter_pauses(unit * ((ticket - serving) & LOITER_TICKET_MASK));
        loiter_wait_step(policy, &wait, &lock->serving, serving);
    }
}

LOITER_INLINE void loiter_ticket_acquire(struct loiter_ticket *lock, const struct loiter_policy *policy) {
    loiter_ticket_acquire_proportional(lock, policy, 0);
}

// Release: the section comes before the store. Only the holder writes `serving`, so the load needs no order.
LOITER_INLINE void loiter_ticket_release(struct loiter_ticket *lock) {
    LOITER_REQUIRE((LOITER_LOAD(&lock->next, __ATOMIC_RELAXED) & LOITER_TICKET_MASK) !=
                       LOITER_LOAD(&lock->serving, __ATOMIC_RELAXED),
                   LOITER_NOT_HELD);
#if defined(__x86_64__)
    // An addition asks for the line once, a load and a store twice while waiters read it: up to a tenth of the throughput of
    // two threads (docs/native.md). Release, as the store. The carry into bit 31 serves nobody until it is cleared.
    if (__atomic_add_fetch(&lock->serving, 1, __ATOMIC_RELEASE) & LOITER_PARKED)
        LOITER_STORE(&lock->serving, 0, __ATOMIC_RELEASE);
#else
    uint32_t serving = LOITER_LOAD(&lock->serving, __ATOMIC_RELAXED);
    LOITER_STORE(&lock->serving, (serving + 1) & LOITER_TICKET_MASK, __ATOMIC_RELEASE);
#endif
}

#endif
