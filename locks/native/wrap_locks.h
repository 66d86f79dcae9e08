// The lock that takes the place of mutexes: -DWRAP_NAME=mcs says which, -DWRAP_FORM=HIDDEN how it is called, and
// -DCONTENTION_METHOD, -DCONTENTION_REPEAT and -DCONTENTION_PATIENCE how its waiters wait.
#ifndef NATIVE_WRAP_LOCKS_H
#define NATIVE_WRAP_LOCKS_H

#define LOITER_HIDDEN_LEVELS 64
#include "loiter/hidden.h"
#include "loiter/k42.h"
#include "loiter/qspinlock.h"
#include "loiter/spin_then_park.h"
#include "loiter/test_and_set.h"
#include "loiter/test_and_test_and_set.h"
#include "loiter/ticket.h"

#define JOINED_(a, b, c) a##b##c
#define JOINED(a, b, c) JOINED_(a, b, c)
#define OF_LOCK(what) JOINED(loiter_, WRAP_NAME, what)
#define OF_HIDDEN(what) JOINED(loiter_hidden_, WRAP_NAME, what)

typedef struct JOINED(loiter_, WRAP_NAME, ) wrapped_lock;

static const struct loiter_policy wrap_policy = {CONTENTION_METHOD, CONTENTION_REPEAT, 0, CONTENTION_PATIENCE};

#define WORD 1    // acquire(lock, policy), release(lock)
#define LINKED 2  // release takes the policy, too
#define HIDDEN 3  // the same, by hidden.h
#define PLACED 4  // the same, and acquire is told the node of the machine
#define OF_CPUS 5 // nodes of processors, here of threads: one waits for one lock at a time
#define SPINS 6   // so many looks before it sleeps

#if WRAP_FORM == OF_CPUS
static struct loiter_qspinlock_cpu nodes_of_threads[MOST_SLOTS];
#endif
#if WRAP_FORM == PLACED
static uint32_t own_place(void) {
    unsigned cpu = 0, node = 0;
    (void)getcpu(&cpu, &node);
    return node;
}
#endif

static void wrapped_init(wrapped_lock *lock) { OF_LOCK(_init)(lock); }

static inline void wrapped_acquire(wrapped_lock *lock, uint32_t thread) {
    (void)thread;
#if WRAP_FORM == HIDDEN
    OF_HIDDEN(_acquire)(lock, &wrap_policy);
#elif WRAP_FORM == PLACED
    OF_HIDDEN(_acquire)(lock, own_place(), &wrap_policy);
#elif WRAP_FORM == OF_CPUS
    loiter_qspinlock_acquire(lock, nodes_of_threads, thread, &wrap_policy, &wrap_policy);
#elif WRAP_FORM == SPINS
    OF_LOCK(_acquire)(lock, &wrap_policy, LOITER_SPIN_THEN_PARK_LOOKS);
#else
    OF_LOCK(_acquire)(lock, &wrap_policy);
#endif
}

static inline bool wrapped_try_acquire(wrapped_lock *lock) {
#if WRAP_FORM == HIDDEN
    return OF_HIDDEN(_try_acquire)(lock);
#elif WRAP_FORM == PLACED
    return OF_HIDDEN(_try_acquire)(lock, own_place());
#else
    return OF_LOCK(_try_acquire)(lock);
#endif
}

static inline void wrapped_release(wrapped_lock *lock) {
#if WRAP_FORM == HIDDEN || WRAP_FORM == PLACED
    OF_HIDDEN(_release)(lock, &wrap_policy);
#elif WRAP_FORM == LINKED
    OF_LOCK(_release)(lock, &wrap_policy);
#else
    OF_LOCK(_release)(lock);
#endif
}

// The same thread goes on to hold it, and nobody waits: after a fork.
static void wrapped_hold_alone(wrapped_lock *lock, uint32_t thread) {
#if WRAP_FORM == HIDDEN || WRAP_FORM == PLACED
    loiter_hidden_give_back(loiter_hidden_held(lock));
#endif
    wrapped_init(lock);
    wrapped_acquire(lock, thread);
}

#endif
