// How a thread waits: one function for all locks, with a policy as parameter.
//
//     static const struct loiter_policy policy = {.method = LOITER_PAUSE, .repeat = 4};
//     loiter_wait_while(&policy, &node->waiting, 1);
//
// A policy that is constant where it is used costs nothing: the compiler keeps the one loop. Waiting ends by a store of
// another value; waiters that park need loiter_end_wait instead, and end_wait has to know that they may (its policy).
//
//                     end_wait: value                     Bit 31 of a word that is waited on is LOITER_PARKED, so
//     waiting ------------------------------> value       values have 31 bits. It is set by the waiter before it
//        |                                      ^         sleeps, so who ends the wait makes the system call only
//        | park: sets LOITER_PARKED             |         if someone sleeps. A word may have one waiter that parks.
//        v           end_wait: value, futex_wake|
//     waiting | LOITER_PARKED ------------------+
#ifndef LOITER_WAIT_H
#define LOITER_WAIT_H

#include "nap.h"

#if LOITER_ON_LINUX
#include <linux/futex.h>
#include <sched.h>
#endif

// What a thread does between two looks at the word that it waits for.
enum loiter_method {
    LOITER_SPIN,     // nothing
    LOITER_PAUSE,    // `repeat` pauses
    LOITER_FENCE,    // `repeat` full fences
    LOITER_DIVIDE,   // `repeat` integer divides, each needing the last one's result
    LOITER_FDIVIDE,  // the same of doubles
    LOITER_CAS,      // `repeat` compare-and-swaps on a word of its own
    LOITER_BACK_OFF, // `repeat` pauses, then twice as many each time, `limit` at most
    LOITER_NAP,      // sleeps in the processor until the line of the word is written; a pause where it cannot
    LOITER_YIELD,    // calls the scheduler; a pause where there is none
    LOITER_PARK,     // after `repeat` looks sleeps in the kernel (futex); pauses where there is none
};

struct loiter_policy {
    enum loiter_method method;
    uint32_t repeat;   // 0 counts as 1
    uint32_t limit;    // of LOITER_BACK_OFF; 0 counts as 1024
    uint32_t patience; // after so many looks yields to the scheduler after each further one; 0: never
};

#define LOITER_PARKED UINT32_C(0x80000000)

// ---- single steps ---------------------------------------------------------------------------------------------------

LOITER_INLINE void loiter_divide(uint32_t count) {
    unsigned long value = ~0UL, divisor = 1;
    for (; count; count--) {
        __asm__ volatile("" : "+r"(value), "+r"(divisor)); // which the compiler then cannot work out
        value /= divisor;
    }
    __asm__ volatile("" : : "r"(value));
}

LOITER_INLINE void loiter_fdivide(uint32_t count) {
#if defined(__riscv_flen) || defined(__aarch64__) || defined(__SSE2__)
#if defined(__riscv_flen)
#define LOITER_FP_REGISTER "f"
#elif defined(__aarch64__)
#define LOITER_FP_REGISTER "w"
#else
#define LOITER_FP_REGISTER "x"
#endif
    double value = 1.5, divisor = 1.25;
    for (; count; count--) {
        __asm__ volatile("" : "+" LOITER_FP_REGISTER(value), "+" LOITER_FP_REGISTER(divisor));
        value /= divisor;
    }
    __asm__ volatile("" : : LOITER_FP_REGISTER(value));
#undef LOITER_FP_REGISTER
#else
    loiter_divide(count); // a kernel has no floating point
#endif
}

LOITER_INLINE void loiter_cas(uint32_t count) {
    uint32_t word = 0;
    for (; count; count--) {
        uint32_t expected = 0;
        (void)LOITER_COMPARE_EXCHANGE(&word, &expected, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        __asm__ volatile("" : : "r"(&word) : "memory");
    }
}

static inline void loiter_yield(void) {
#if LOITER_ON_LINUX
    (void)sched_yield();
#else
    loiter_pause();
#endif
}

// ---- sleep in the kernel --------------------------------------------------------------------------------------------

#if LOITER_ON_LINUX
// Sleeps while the word has this value; may return early.
static inline void loiter_futex_wait(uint32_t *word, uint32_t value) {
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, (void *)0);
}

static inline void loiter_futex_wake(uint32_t *word, int count) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count);
}
#else
static inline void loiter_futex_wait(uint32_t *word, uint32_t value) {
    (void)word, (void)value;
    loiter_pause();
}

static inline void loiter_futex_wake(uint32_t *word, int count) { (void)word, (void)count; }
#endif

// ---- what a policy becomes where the machine lacks something -------------------------------------------------------------

// What is done instead, in a sentence for the user; NULL: what the policy says.
static inline const char *loiter_fallback(const struct loiter_policy *policy) {
    switch (policy->method) {
    case LOITER_NAP:
        return loiter_has_naps() ? NULL : "this machine has no nap (Zawrs, WAITPKG, MONITORX, WFE): waiters pause instead";
    case LOITER_YIELD:
        return LOITER_ON_LINUX ? NULL : "there is no scheduler to yield to: waiters pause instead";
    case LOITER_PARK:
        return LOITER_ON_LINUX ? NULL : "there is no kernel to sleep in: waiters pause instead";
    default:
        return NULL;
    }
}

LOITER_SHARED uint32_t loiter_fallbacks_said;

// The same the first time that the program asks about this method, NULL from then on. Relaxed: one atomic decides it.
static inline const char *loiter_fallback_once(const struct loiter_policy *policy) {
    const char *text = loiter_fallback(policy);
    uint32_t bit = UINT32_C(1) << policy->method;
    return text && !(__atomic_fetch_or(&loiter_fallbacks_said, bit, __ATOMIC_RELAXED) & bit) ? text : NULL;
}

// ---- waiting --------------------------------------------------------------------------------------------------------

// How far a wait has got. Begin with all zero.
struct loiter_wait {
    uint32_t looks;
    uint32_t delay;
};

LOITER_INLINE uint32_t loiter_at_least_one(uint32_t value) { return value ? value : 1; }

LOITER_INLINE void loiter_back_off(const struct loiter_policy *policy, struct loiter_wait *wait) {
    uint32_t limit = policy->limit ? policy->limit : 1024;
    uint32_t delay = wait->delay ? wait->delay : loiter_at_least_one(policy->repeat);
    loiter_pauses(delay);
    wait->delay = delay > limit / 2 ? limit : 2 * delay;
}

LOITER_INLINE void loiter_park_while(uint32_t *address, uint32_t value) {
    uint32_t expected = value;
    // Relaxed: the mark carries nothing. Once it is there, or is seen there, the kernel compares again before it sleeps.
    if (LOITER_COMPARE_EXCHANGE(address, &expected, value | LOITER_PARKED, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
        expected == (value | LOITER_PARKED))
        loiter_futex_wait(address, value | LOITER_PARKED);
}

// One step of a wait for `*address` to change from `value`, after a look that found it unchanged.
LOITER_INLINE void loiter_wait_step(const struct loiter_policy *policy, struct loiter_wait *wait, uint32_t *address,
                                    uint32_t value) {
    uint32_t repeat = loiter_at_least_one(policy->repeat);
    wait->looks++;
    switch (policy->method) {
    case LOITER_SPIN:
        __asm__ volatile("" : : : "memory");
        break;
    case LOITER_PAUSE:
        loiter_pauses(repeat);
        break;
    case LOITER_FENCE:
        for (uint32_t n = 0; n < repeat; n++)
            loiter_fence();
        break;
    case LOITER_DIVIDE:
        loiter_divide(repeat);
        break;
    case LOITER_FDIVIDE:
        loiter_fdivide(repeat);
        break;
    case LOITER_CAS:
        loiter_cas(repeat);
        break;
    case LOITER_BACK_OFF:
        loiter_back_off(policy, wait);
        break;
    case LOITER_NAP:
        if (loiter_has_naps())
            (void)loiter_nap_while(address, value);
        else
            loiter_pause();
        break;
    case LOITER_YIELD:
        loiter_yield();
        break;
    case LOITER_PARK:
        if (wait->looks < repeat)
            loiter_pause();
        else
            loiter_park_while(address, value);
        break;
    }
    if (policy->patience && wait->looks > policy->patience)
        loiter_yield();
}

// Waits until `*address`, but for the mark of parked waiters, is not `value`. Returns what it is then. Acquire: what the
// thread that stored the other value did before is seen afterwards.
LOITER_INLINE uint32_t loiter_wait_while(const struct loiter_policy *policy, uint32_t *address, uint32_t value) {
    struct loiter_wait wait = {0, 0};
    uint32_t seen;
    while (((seen = LOITER_LOAD(address, __ATOMIC_ACQUIRE)) & ~LOITER_PARKED) == value)
        loiter_wait_step(policy, &wait, address, value);
    return seen;
}

// Stores `value`, which ends the wait of the one waiter of this word, with release order. The word may be gone as soon as
// the value is there; the kernel does not touch a word that it is asked to wake.
LOITER_INLINE void loiter_end_wait(const struct loiter_policy *policy, uint32_t *address, uint32_t value) {
    if (policy->method != LOITER_PARK) {
        LOITER_STORE(address, value, __ATOMIC_RELEASE);
        return;
    }
    // Release, as the store above. All that sleep there: the word may by now have the next waiter of the same lock, who looks again.
    if (__atomic_exchange_n(address, value, __ATOMIC_RELEASE) & LOITER_PARKED)
        loiter_futex_wake(address, INT32_MAX);
}

// Waits until a pointer that another thread is about to store is there. Short, unless that thread is preempted: then its
// processor is needed, so this yields. Acquire: what it points to is seen.
#define LOITER_WAIT_FOR_POINTER(address)                                                                               \
    __extension__({                                                                                                    \
        __typeof__(*(address)) loiter_pointer;                                                                         \
        for (uint32_t loiter_looks = 0; !(loiter_pointer = LOITER_LOAD((address), __ATOMIC_ACQUIRE));              \
             loiter_looks++) {                                                                                         \
            if (loiter_looks < 64)                                                                                     \
                loiter_pause();                                                                                        \
            else                                                                                                       \
                loiter_yield();                                                                                        \
        }                                                                                                              \
        loiter_pointer;                                                                                                \
    })

#endif
