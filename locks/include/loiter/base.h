// What all lock headers share: which lines data share, inlining, and what the platform is.
//
// The headers are C11 and C++17, need no library, and run bare metal and hosted. They use the __atomic built-ins of GCC
// and Clang on plain words, since C++17 has no _Atomic. Each memory order is given at its use, with its reason.
#ifndef LOITER_BASE_H
#define LOITER_BASE_H

#include <stddef.h>
#include <stdint.h>

// Data of different harts keeps this distance (two lines of 64 bytes), so that they share no line, nor a pair of lines
// that a prefetcher fetches together.
#define LOITER_APART 128
#define LOITER_ALIGNED __attribute__((aligned(LOITER_APART)))

// Inlined, so that a policy that is constant at the call leaves only its own loop.
#define LOITER_INLINE static inline __attribute__((always_inline))

// Whether there is an operating system to yield to and to sleep in.
#if __STDC_HOSTED__ && defined(__linux__)
#define LOITER_ON_LINUX 1
#else
#define LOITER_ON_LINUX 0
#endif

// Atomic loads and stores: relaxed, acquire or release. GCC before 13 writes each such store for RISC-V as an amoswap, which
// is a read-modify-write, and each acquire with a full fence; so there they are made of plain accesses and the fences that the
// memory model's mapping asks for (RISC-V ISA manual, table A.6).
//
#if defined(__riscv) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#define LOITER_STORE(address, value, order)                                                                            \
    __extension__({                                                                                                    \
        if ((order) != __ATOMIC_RELAXED)                                                                               \
            __asm__ volatile("fence rw, w" : : : "memory");                                                            \
        volatile __typeof__(*(address)) *loiter_stored = (address);                                                    \
        *loiter_stored = (value);                                                                                      \
    })
#define LOITER_LOAD(address, order)                                                                                    \
    __extension__({                                                                                                    \
        const volatile __typeof__(*(address)) *loiter_read = (address);                                                \
        __typeof__(*(address)) loiter_loaded = *loiter_read;                                                           \
        if ((order) != __ATOMIC_RELAXED)                                                                               \
            __asm__ volatile("fence r, rw" : : : "memory");                                                            \
        loiter_loaded;                                                                                                 \
    })
// Whether it has swapped; if not, `*expected` is what was there. GCC before 13 leaves out the release half of the order where
// failure is relaxed: `lr.d; sc.d` without a fence before, so that stores before it can become visible after it.
#define LOITER_COMPARE_EXCHANGE(address, expected, desired, success, failure)                                          \
    __extension__({                                                                                                    \
        if ((success) == __ATOMIC_RELEASE || (success) == __ATOMIC_ACQ_REL)                                            \
            __asm__ volatile("fence rw, w" : : : "memory");                                                            \
        __atomic_compare_exchange_n((address), (expected), (desired), 0,                                               \
                                    (success) == __ATOMIC_ACQ_REL   ? __ATOMIC_ACQUIRE                                 \
                                    : (success) == __ATOMIC_RELEASE ? __ATOMIC_RELAXED                                 \
                                                                    : (success),                                       \
                                    failure);                                                                          \
    })
#else
#define LOITER_STORE(address, value, order) __atomic_store_n(address, value, order)
#define LOITER_LOAD(address, order) __atomic_load_n(address, order)
#define LOITER_COMPARE_EXCHANGE(address, expected, desired, success, failure)                                          \
    __atomic_compare_exchange_n((address), (expected), (desired), 0, success, failure)
#endif

// One object a program, however many files include the header.
#define LOITER_SHARED __attribute__((weak))

// ---- wrong use ends the program in debug builds ---------------------------------------------------------------------

#ifdef NDEBUG
#define LOITER_REQUIRE(condition, message) ((void)0)
#else
#define LOITER_REQUIRE(condition, message) ((condition) ? (void)0 : loiter_misuse(message))
#endif

#if __STDC_HOSTED__
#include <stdio.h>
#include <stdlib.h>
#endif

// Says what is wrong, where there is somebody to read it, and ends the program.
__attribute__((noreturn, cold)) static inline void loiter_misuse(const char *message) {
#if __STDC_HOSTED__
    fprintf(stderr, "loiter locks: %s\n", message);
    abort();
#else
    (void)message;
    __builtin_trap();
#endif
}

// A node says which lock it is in, so that one that is released twice, or for another lock, is told.
#ifdef NDEBUG
#define LOITER_HOLD(node, which) ((void)0)
#define LOITER_LET_GO(node, which) ((void)0)
#else
#define LOITER_HOLD(node, which) ((void)((node)->held = (which)))
#define LOITER_LET_GO(node, which)                                                                                     \
    (LOITER_REQUIRE((node)->held == (which), LOITER_NOT_HELD), (void)((node)->held = NULL))
#endif

#define LOITER_NOT_HELD "released twice, or not held"
#define LOITER_CANNOT_PARK "the waiters of this word cannot park: take another policy than LOITER_PARK"
#define LOITER_NEEDS_BACK_OFF "this delay has to be a policy of LOITER_BACK_OFF"

#endif
