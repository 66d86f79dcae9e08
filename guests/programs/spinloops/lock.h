// The one lock of the experiment: held by the measured task from before the first repetition until after the last,
// waited for by the spinners.
#ifndef LOCK_H
#define LOCK_H

#include "loiter.h"

// 0 = free, 1 = held. The spin loops read its low byte.
//
//              take_if_free: 0 -> 1
//     free  ---------------------------> held
//           <---------------------------
//              release: 1 -> 0
struct lock {
    _Alignas(LOITER_APART) uint32_t word;
};

// On lines of their own, so that counting disturbs no spin loop.
struct counter {
    _Alignas(LOITER_APART) uint32_t value;
};

extern struct lock lock;
extern struct counter handed_back;     // times that a waiter who got the lock has handed it back, still held
extern struct counter spinners_inside; // spinners that are about to read the lock for the first time, or did
extern struct counter tasks_finished;  // measured tasks that have done their repetitions
extern struct counter spinners_gone;   // spinners that have had the lock and left it

// acquire: the critical section comes after the exchange.
static inline bool lock_take_if_free(struct lock *l) { return __atomic_exchange_n(&l->word, 1, __ATOMIC_ACQUIRE) == 0; }

// Calls one of the harts that sleep until the lock is free, if there are any.
void lock_call_sleeper(void);

// release: the critical section comes before the store.
static inline void lock_release(struct lock *l) {
    loiter_lock_released(l);
    __atomic_store_n(&l->word, 0, __ATOMIC_RELEASE);
    lock_call_sleeper();
}

static inline void counter_add_one(struct counter *c) { __atomic_add_fetch(&c->value, 1, __ATOMIC_ACQ_REL); }
static inline uint32_t counter_read(const struct counter *c) { return __atomic_load_n(&c->value, __ATOMIC_ACQUIRE); }

#endif
