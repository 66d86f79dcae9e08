// Queued spin lock of Linux: one 32-bit word; the first waiter waits on it by a pending bit, the others in an MCS queue of
// per-processor nodes. W. Long and P. Zijlstra for Linux 4.2, 2015, described in J. Corbet, "MCS locks and qspinlocks",
// LWN 590243, 2014, and in the study of catnaps (2020) of this repository.
//
//     word = tail (16 bits: processor + 1, and nesting level) | pending (bit 8) | locked (bits 7:0)
//
//     (0,0,0) --acquire--> (0,0,1) --second comes--> (0,1,1) --release--> (0,1,0) --second takes it--> (0,0,1)
//     (0,1,1) --third comes--> (tail,1,1): it queues, and as head waits for locked and pending to go
//     (tail,0,0) --head takes it--> (tail,0,1), or (0,0,1) if it is the tail
//
// | space         | 4 bytes a lock; 4 nodes a processor, for all locks                                          |
// | fairness      | order of arrival; one who comes while the lock is free and nobody waits is the first        |
// | uncontended   | 2 atomics (Linux: 1; it releases by a store of one byte, an access of another width)        |
// | waits on      | the lock by two at most, the others on a word of their own                                  |
// | policies      | head: all but LOITER_PARK; queue: all; with LOITER_PARK all need that policy                |
//
// A processor is in the queue of at most four locks at once (thread, soft interrupt, interrupt, non-maskable interrupt); who
// comes there a fifth time spins on the word.
#ifndef LOITER_QSPINLOCK_H
#define LOITER_QSPINLOCK_H

#include "wait.h"

#define LOITER_QSPINLOCK_LEVELS 4
#define LOITER_QSPINLOCK_LOCKED UINT32_C(0x1)
#define LOITER_QSPINLOCK_PENDING UINT32_C(0x100)
#define LOITER_QSPINLOCK_TAIL UINT32_C(0xffff0000)

struct loiter_qspinlock_node {
    struct loiter_qspinlock_node *next;
    uint32_t waiting;
};

// The nodes of one processor. Beginning all zero.
struct loiter_qspinlock_cpu {
    LOITER_ALIGNED struct loiter_qspinlock_node nodes[LOITER_QSPINLOCK_LEVELS];
    uint32_t used;
};

struct loiter_qspinlock {
    LOITER_ALIGNED uint32_t word;
};

static inline void loiter_qspinlock_init(struct loiter_qspinlock *lock) { lock->word = 0; }

// Acquire: the section comes after the release that left the lock free.
LOITER_INLINE int loiter_qspinlock_try_acquire(struct loiter_qspinlock *lock) {
    uint32_t none = 0;
    return LOITER_COMPARE_EXCHANGE(&lock->word, &none, LOITER_QSPINLOCK_LOCKED, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

// Waits until none of `bits` is in the word. Acquire: after the release that this shows.
LOITER_INLINE uint32_t loiter_qspinlock_wait(struct loiter_qspinlock *lock, uint32_t bits,
                                             const struct loiter_policy *policy) {
    struct loiter_wait wait = {0, 0};
    uint32_t seen;
    while ((seen = LOITER_LOAD(&lock->word, __ATOMIC_ACQUIRE)) & bits)
        loiter_wait_step(policy, &wait, &lock->word, seen);
    return seen;
}

// Tries to be the one that waits by the pending bit, and then waits. Returns 0 if somebody else is, or there is a queue.
LOITER_INLINE int loiter_qspinlock_pend(struct loiter_qspinlock *lock, const struct loiter_policy *head) {
    uint32_t seen = LOITER_LOAD(&lock->word, __ATOMIC_RELAXED); // relaxed: it only avoids an attempt in vain
    if (seen & ~LOITER_QSPINLOCK_LOCKED)
        return 0;
    // Acquire: after the release, should the lock be free by now.
    seen = __atomic_fetch_or(&lock->word, LOITER_QSPINLOCK_PENDING, __ATOMIC_ACQUIRE);
    if (seen & ~LOITER_QSPINLOCK_LOCKED) {
        // Somebody was quicker. The bit is this thread's to clear only if it has set it. Relaxed: it says nothing else.
        if (!(seen & LOITER_QSPINLOCK_PENDING))
            __atomic_fetch_and(&lock->word, ~LOITER_QSPINLOCK_PENDING, __ATOMIC_RELAXED);
        return 0;
    }
    (void)loiter_qspinlock_wait(lock, LOITER_QSPINLOCK_LOCKED, head);
    // From pending to locked in one step; relaxed, since the wait had acquire order and nobody else can take it now.
    __atomic_fetch_sub(&lock->word, LOITER_QSPINLOCK_PENDING - LOITER_QSPINLOCK_LOCKED, __ATOMIC_RELAXED);
    return 1;
}

LOITER_INLINE struct loiter_qspinlock_node *loiter_qspinlock_node_of(struct loiter_qspinlock_cpu *cpus, uint32_t tail) {
    return &cpus[(tail >> 18) - 1].nodes[tail >> 16 & (LOITER_QSPINLOCK_LEVELS - 1)];
}

static inline void loiter_qspinlock_queue(struct loiter_qspinlock *lock, struct loiter_qspinlock_cpu *cpus, uint32_t cpu,
                                          const struct loiter_policy *head, const struct loiter_policy *queue) {
    uint32_t level = cpus[cpu].used;
    if (level == LOITER_QSPINLOCK_LEVELS) {
        struct loiter_wait wait = {0, 0};
        while (!loiter_qspinlock_try_acquire(lock))
            loiter_wait_step(head, &wait, &lock->word, LOITER_LOAD(&lock->word, __ATOMIC_RELAXED));
        return;
    }
    cpus[cpu].used = level + 1;
    struct loiter_qspinlock_node *node = &cpus[cpu].nodes[level];
    uint32_t own = (cpu + 1) << 18 | level << 16;
    // Relaxed: both become visible by the release half of the compare-and-swap, which also proves what was seen.
    LOITER_STORE(&node->next, NULL, __ATOMIC_RELAXED);
    LOITER_STORE(&node->waiting, 1, __ATOMIC_RELAXED);
    uint32_t seen = LOITER_LOAD(&lock->word, __ATOMIC_RELAXED);
    // Release: the node is set up before others find it. Acquire: the predecessor's is.
    while (!LOITER_COMPARE_EXCHANGE(&lock->word, &seen, (seen & ~LOITER_QSPINLOCK_TAIL) | own, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    }
    if (seen & LOITER_QSPINLOCK_TAIL) {
        struct loiter_qspinlock_node *before = loiter_qspinlock_node_of(cpus, seen);
        // Release: the predecessor clears `waiting`, through this link, after it was set.
        LOITER_STORE(&before->next, node, __ATOMIC_RELEASE);
        (void)loiter_wait_while(queue, &node->waiting, 1);
    }
    seen = loiter_qspinlock_wait(lock, LOITER_QSPINLOCK_LOCKED | LOITER_QSPINLOCK_PENDING, head);
    // The lock is this thread's: nobody sets pending while there is a tail. It is free of waiters if the tail is its own.
    // A pending bit that somebody sets and clears again in between makes the exchange fail, and the lock is then taken by
    // the other branch, which has to find a successor: so only another tail leads there. Acquire, as the wait.
    while ((seen & LOITER_QSPINLOCK_TAIL) == own) {
        uint32_t alone = own;
        if (LOITER_COMPARE_EXCHANGE(&lock->word, &alone, LOITER_QSPINLOCK_LOCKED, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            cpus[cpu].used = level;
            return;
        }
        seen = alone;
    }
    // Relaxed: the wait had acquire order.
    __atomic_fetch_or(&lock->word, LOITER_QSPINLOCK_LOCKED, __ATOMIC_RELAXED);
    struct loiter_qspinlock_node *next = LOITER_WAIT_FOR_POINTER(&node->next);
    loiter_end_wait(queue, &next->waiting, 0);
    cpus[cpu].used = level;
}

// `cpus` are the nodes of all processors, and `cpu` is this one, at which the thread stays until it has the lock.
LOITER_INLINE void loiter_qspinlock_acquire(struct loiter_qspinlock *lock, struct loiter_qspinlock_cpu *cpus,
                                            uint32_t cpu, const struct loiter_policy *head,
                                            const struct loiter_policy *queue) {
    LOITER_REQUIRE(head->method != LOITER_PARK, LOITER_CANNOT_PARK);
    if (loiter_qspinlock_try_acquire(lock) || loiter_qspinlock_pend(lock, head))
        return;
    loiter_qspinlock_queue(lock, cpus, cpu, head, queue);
}

// Release: the section comes before the subtraction.
LOITER_INLINE void loiter_qspinlock_release(struct loiter_qspinlock *lock) {
    uint32_t before = __atomic_fetch_sub(&lock->word, LOITER_QSPINLOCK_LOCKED, __ATOMIC_RELEASE);
    LOITER_REQUIRE(before & LOITER_QSPINLOCK_LOCKED, LOITER_NOT_HELD);
    (void)before;
}

#endif
