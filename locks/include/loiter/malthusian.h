// Malthusian lock (MCSCR): MCS that keeps as few threads in circulation as keep the lock busy; surplus waiters are set aside,
// and come back when the queue runs dry, or one of them now and then. D. Dice, "Malthusian Locks", EuroSys 2017.
//
//     tail -> ... active queue A (holds it) -> B -> C          aside: newest ... eldest, touched by the holder only
//     release: if B is not the last, it goes aside, and C is next. If there is no B, the newest from aside is next. Every
//     LOITER_MALTHUSIAN_PERIOD releases the eldest from aside is next, before B.
//
// | space         | two lines a lock, two a thread that holds or waits                                           |
// | fairness      | in the long run: the eldest from aside every LOITER_MALTHUSIAN_PERIOD releases               |
// | uncontended   | 2 atomics: exchange, compare-and-swap                                                        |
// | waits on      | a word of its own                                                                            |
// | policies      | all; with LOITER_PARK, what it is made for, whoever releases needs that policy, too          |
//
// The paper draws a random number to decide when the eldest returns; here it is a count, so that runs repeat.
#ifndef LOITER_MALTHUSIAN_H
#define LOITER_MALTHUSIAN_H

#include "mcs.h"

#ifndef LOITER_MALTHUSIAN_PERIOD
#define LOITER_MALTHUSIAN_PERIOD 1000
#endif

struct loiter_malthusian_node {
    struct loiter_mcs_node link; // first, since it stands for the whole
    // While it is aside, in the holder's hands.
    struct loiter_malthusian_node *newer;
    struct loiter_malthusian_node *older;
};

struct loiter_malthusian {
    struct loiter_mcs queue;
    // The holder's.
    LOITER_ALIGNED struct loiter_malthusian_node *newest; // of those aside
    struct loiter_malthusian_node *eldest;
    uint32_t releases;
};

static inline void loiter_malthusian_init(struct loiter_malthusian *lock) {
    loiter_mcs_init(&lock->queue);
    lock->newest = lock->eldest = NULL;
    lock->releases = 0;
}

LOITER_INLINE int loiter_malthusian_try_acquire(struct loiter_malthusian *lock, struct loiter_malthusian_node *node) {
    return loiter_mcs_try_acquire(&lock->queue, &node->link);
}

LOITER_INLINE void loiter_malthusian_acquire(struct loiter_malthusian *lock, struct loiter_malthusian_node *node,
                                             const struct loiter_policy *policy) {
    loiter_mcs_acquire(&lock->queue, &node->link, policy);
}

static inline void loiter_malthusian_set_aside(struct loiter_malthusian *lock, struct loiter_malthusian_node *node) {
    node->newer = NULL;
    node->older = lock->newest;
    if (lock->newest)
        lock->newest->newer = node;
    else
        lock->eldest = node;
    lock->newest = node;
}

// Takes one of those aside, and puts it before `next` in the active queue.
static inline struct loiter_mcs_node *loiter_malthusian_return(struct loiter_malthusian *lock,
                                                               struct loiter_malthusian_node *node,
                                                               struct loiter_mcs_node *next) {
    if (node->newer)
        node->newer->older = node->older;
    else
        lock->newest = node->older;
    if (node->older)
        node->older->newer = node->newer;
    else
        lock->eldest = node->newer;
    // Relaxed: it follows the link when it has the lock.
    LOITER_STORE(&node->link.next, next, __ATOMIC_RELAXED);
    return &node->link;
}

// Who is next when others wait in the active queue, the first of them `next`.
static inline struct loiter_mcs_node *loiter_malthusian_choose(struct loiter_malthusian *lock,
                                                               struct loiter_mcs_node *next) {
    if (lock->eldest && ++lock->releases >= LOITER_MALTHUSIAN_PERIOD) {
        lock->releases = 0;
        return loiter_malthusian_return(lock, lock->eldest, next);
    }
    // Acquire: the node after is written after it has been set up. The last one stays: others may be about to link to it.
    struct loiter_mcs_node *after = LOITER_LOAD(&next->next, __ATOMIC_ACQUIRE);
    if (!after)
        return next;
    loiter_malthusian_set_aside(lock, (struct loiter_malthusian_node *)next);
    return after;
}

static inline void loiter_malthusian_release(struct loiter_malthusian *lock, struct loiter_malthusian_node *node,
                                             const struct loiter_policy *policy) {
    LOITER_LET_GO(&node->link, &lock->queue);
    // Acquire, here and in the wait: the successor's node is written after the successor has set it up.
    struct loiter_mcs_node *next = LOITER_LOAD(&node->link.next, __ATOMIC_ACQUIRE);
    if (next) {
        next = loiter_malthusian_choose(lock, next);
    } else {
        struct loiter_mcs_node *self = &node->link;
        // Nobody waits: one from aside becomes the queue. Its link goes first, since others may follow it at once.
        struct loiter_mcs_node *heir = lock->newest ? loiter_malthusian_return(lock, lock->newest, NULL) : NULL;
        // Release: that link, and the section before the lock is free.
        int alone = LOITER_COMPARE_EXCHANGE(&lock->queue.tail, &self, heir, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
        if (alone && !heir)
            return;
        if (!alone) {
            next = LOITER_WAIT_FOR_POINTER(&node->link.next);
            if (heir) // relaxed, as in loiter_malthusian_return
                LOITER_STORE(&heir->next, next, __ATOMIC_RELAXED);
        }
        next = heir ? heir : next;
    }
    // Release: the section, and those aside, come before the successor's.
    loiter_end_wait(policy, &next->waiting, 0);
}

#endif
