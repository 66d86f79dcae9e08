// Catnap: Linux's queued spin lock (qspinlock.h) whose queued waiters nap until the line of their node is written; the head and
// the pending waiter, whose reaction is the hand-over, spin with a pause. Y. Woo, S. Kim, C. Kim and E. Seo, "Catnap: A Backoff
// Scheme for Kernel Spinlocks in Many-Core Systems", IEEE Access 8, 2020.
//
//     queued: nap --node.waiting = 0: the processor leaves its state--> head: pause --released--> holds it
//
// In its selective form a class of locks says whether its waiters nap: those whose sections are longer than the exit from the
// nap takes, so that the head's section hides it. The paper chooses by call site, from a profile, and so does a class that is
// constant at the call: each gets its own loop.
//
// | space         | 4 bytes a lock; 4 nodes a processor, for all locks                                          |
// | fairness      | order of arrival; one who comes while the lock is free and nobody waits is the first        |
// | uncontended   | 2 atomics                                                                                   |
// | waits on      | the lock by two at most, the others asleep on a word of their own                           |
// | policies      | fixed: LOITER_PAUSE at the head, LOITER_NAP in the queue, LOITER_PAUSE where the CPU has no naps |
#ifndef LOITER_CATNAP_H
#define LOITER_CATNAP_H

#include "qspinlock.h"

// Mean time that a lock is held above which naps did no harm, in nanoseconds: of the Xeon Phi 7230F, with an exit latency
// of 1 us (Woo et al., section 3).
#define LOITER_CATNAP_HARMLESS_HOLD_NS 1400

struct loiter_catnap {
    struct loiter_qspinlock lock;
};

// A class of locks, or a call site, of the selective form.
struct loiter_catnap_class {
    uint32_t hold_ns; // mean, from a profile
};

static inline void loiter_catnap_init(struct loiter_catnap *lock) { loiter_qspinlock_init(&lock->lock); }

LOITER_INLINE int loiter_catnap_try_acquire(struct loiter_catnap *lock) {
    return loiter_qspinlock_try_acquire(&lock->lock);
}

LOITER_INLINE void loiter_catnap_acquire(struct loiter_catnap *lock, struct loiter_qspinlock_cpu *cpus, uint32_t cpu) {
    static const struct loiter_policy head = {LOITER_PAUSE, 1, 0, 0}, queue = {LOITER_NAP, 1, 0, 0};
    loiter_qspinlock_acquire(&lock->lock, cpus, cpu, &head, &queue);
}

// Naps if locks of this class are held for longer than `threshold_ns` in the mean.
LOITER_INLINE void loiter_catnap_acquire_selective(struct loiter_catnap *lock, struct loiter_qspinlock_cpu *cpus,
                                                   uint32_t cpu, const struct loiter_catnap_class *of,
                                                   uint32_t threshold_ns) {
    static const struct loiter_policy pause = {LOITER_PAUSE, 1, 0, 0};
    if (of->hold_ns > threshold_ns)
        loiter_catnap_acquire(lock, cpus, cpu);
    else
        loiter_qspinlock_acquire(&lock->lock, cpus, cpu, &pause, &pause);
}

LOITER_INLINE void loiter_catnap_release(struct loiter_catnap *lock) { loiter_qspinlock_release(&lock->lock); }

#endif
