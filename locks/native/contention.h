// One lock under contention: acquire it, work in the section, release it, work outside, again and again. What the guest
// program guests/programs/locks and the native contend.c share: the locks, how they wait, the loop, and what it checks.
//
// A program defines before: loiter_cycles(), a counter; loiter_lock_acquire(), loiter_lock_acquired() and
// loiter_lock_released(), its probes; loiter_fail(format, ...), which ends it; CONTENTION_REPEAT and
// CONTENTION_PATIENCE, of all policies; CONTENTION_METHOD where it has only one waiting method; and CONTENTION_OUTSIDE where
// it has other work outside.
#ifndef NATIVE_CONTENTION_H
#define NATIVE_CONTENTION_H

#ifdef PEERS // other locks
#include "../test/kinds.h"
#else
#include "../test/kinds.c"
#endif

#define MOST_LINES 256
#define STEPS 1000

static struct {
    LOITER_ALIGNED volatile uint64_t value;
} section[MOST_LINES];
// Who is inside, counted: each by itself, since what else lay there would be lost whenever somebody enters or leaves.
static struct {
    LOITER_ALIGNED volatile uint32_t value;
} writers, readers;
static LOITER_ALIGNED uint64_t total;
static uint64_t step_cycles; // of STEPS steps

// How they wait.
static struct {
    uint64_t method;
    uint32_t limit;
} asked;

// So many steps of one dependent addition and a branch. How long a step takes may depend on where its loop lies, and it is
// measured once: on RISC-V, where compilers do not align loops, they are aligned here.
LOITER_INLINE void work(uint64_t steps) {
#ifdef __riscv
    if (steps)
        __asm__ volatile(".p2align 4\n1: addi %0, %0, -1\n bnez %0, 1b" : "+r"(steps));
#else
    for (; steps; steps--)
        __asm__ volatile("" : "+r"(steps));
#endif
}

// One measurement; the second one has the code in the cache.
static __attribute__((noinline)) uint64_t time_steps(void) {
    uint64_t begin = loiter_cycles();
    work(STEPS);
    return loiter_cycles() - begin;
}

static uint64_t steps_of(uint64_t cycles) { return cycles * STEPS / step_cycles; }

static uint64_t draw(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

// What a thread is about to do, and has done.
struct thread {
    unsigned number;
    uint64_t hold_steps, think_steps, lines, share;
    uint64_t until, begun, ended;
    uint64_t acquisitions, reads;
    uint64_t random;
};

static void seed_thread(struct thread *thread, uint64_t seed, uint64_t who) {
    thread->random = (seed + 1) * 0x9e3779b97f4a7c15u + (who + 1) * 0xbf58476d1ce4e5b9u;
    if (!thread->random)
        thread->random = 1;
}

LOITER_INLINE void enter(const struct thread *thread, bool writes) {
    if (writers.value || (writes && readers.value))
        loiter_fail("thread %u is in the section with another", thread->number);
    if (writes)
        writers.value = 1;
    else
        (void)__atomic_fetch_add(&readers.value, 1, __ATOMIC_RELAXED);
}

LOITER_INLINE void leave(bool writes) {
    if (writes)
        writers.value = 0;
    else
        (void)__atomic_fetch_sub(&readers.value, 1, __ATOMIC_RELAXED);
}

// Between a release and the next acquire.
#ifndef CONTENTION_OUTSIDE
#define CONTENTION_OUTSIDE(thread)                                                                                     \
    if ((thread)->think_steps)                                                                                         \
    work(draw(&(thread)->random) % (2 * (thread)->think_steps + 1))
#endif

typedef void acquires(unsigned thread, const struct loiter_policy *policy);

// Inlined, with all that it calls, for each lock and method.
LOITER_INLINE void loop(struct thread *thread, const void *lock, const struct loiter_policy *policy, acquires *acquire,
                        acquires *release, acquires *acquire_shared, acquires *release_shared) {
    thread->begun = loiter_cycles();
    do {
        bool writes = !acquire_shared || draw(&thread->random) % 100 >= thread->share;
        loiter_lock_acquire(lock);
        if (writes)
            acquire(thread->number, policy);
        else
            acquire_shared(thread->number, policy);
        loiter_lock_acquired(lock);
        enter(thread, writes);
        if (writes) {
            for (uint64_t n = 0; n < thread->lines; n++)
                section[n].value++;
            thread->acquisitions++;
        } else {
            for (uint64_t n = 0; n < thread->lines; n++)
                (void)section[n].value;
            thread->reads++;
        }
        work(thread->hold_steps);
        leave(writes);
        loiter_lock_released(lock);
        if (writes)
            release(thread->number, policy);
        else
            release_shared(thread->number, policy);
        CONTENTION_OUTSIDE(thread);
        thread->ended = loiter_cycles();
    } while (thread->ended < thread->until);
}

// Nothing has been lost in the section. The last thread to end calls it.
static void check_section(uint64_t lines) {
    for (uint64_t n = 0; n < lines; n++)
        if (section[n].value != total)
            loiter_fail("line %lu of the section was written %lu times in %lu acquires", (unsigned long)n,
                        (unsigned long)section[n].value, (unsigned long)total);
}

// ---- how they wait ---------------------------------------------------------------------------------------------------

// Each method has code of its own, as a policy that is constant has. CONTENTION_METHOD leaves only that one.
#define CONTENTION_CASE(the_method, what)                                                                              \
    case the_method: {                                                                                                 \
        const struct loiter_policy policy = {the_method, CONTENTION_REPEAT, asked.limit, CONTENTION_PATIENCE};              \
        what;                                                                                                          \
        break;                                                                                                         \
    }
#ifdef CONTENTION_METHOD
#define CONTENTION_METHODS(what) CONTENTION_CASE(CONTENTION_METHOD, what)
#else
#define CONTENTION_METHODS(what)                                                                                       \
    CONTENTION_CASE(LOITER_SPIN, what)                                                                                 \
    CONTENTION_CASE(LOITER_PAUSE, what)                                                                                \
    CONTENTION_CASE(LOITER_FENCE, what)                                                                                \
    CONTENTION_CASE(LOITER_DIVIDE, what)                                                                               \
    CONTENTION_CASE(LOITER_FDIVIDE, what)                                                                              \
    CONTENTION_CASE(LOITER_CAS, what)                                                                                  \
    CONTENTION_CASE(LOITER_BACK_OFF, what)                                                                             \
    CONTENTION_CASE(LOITER_NAP, what)
#endif

#define CONTENTION_OF(name, memory, way, release, way_shared, release_of_shared)                                       \
    static __attribute__((noinline, flatten)) void contend_for_##name(struct thread *thread) {                         \
        switch (asked.method) {                                                                                        \
            CONTENTION_METHODS(loop(thread, &memory, &policy, way, release, way_shared, release_of_shared))            \
        default:                                                                                                       \
            loiter_fail("method %lu is not in this program", (unsigned long)asked.method);                             \
        }                                                                                                              \
    }
#define CONTENTION_PLAIN(name, memory, kind, way, parks) CONTENTION_OF(name, memory, way, release_##kind, NULL, NULL)
#define CONTENTION_SHARED(name, parks)                                                                                 \
    CONTENTION_OF(name, name, acquire_##name, release_##name, acquire_shared_##name, release_shared_##name)
// Of locks that wait by backing off alone.
#define CONTENTION_BACKING_OFF(name, kind, way)                                                                        \
    static __attribute__((noinline, flatten)) void contend_for_##name(struct thread *thread) {                         \
        const struct loiter_policy policy = {LOITER_BACK_OFF, CONTENTION_REPEAT, asked.limit, CONTENTION_PATIENCE};         \
        loop(thread, &kind, &policy, way, release_##kind, NULL, NULL);                                                 \
    }

// All locks: name, bytes that probes know it by, functions of kinds.c, and whether its waiters may park.
#define CONTENTION_LOCKS(PLAIN, BACKING_OFF, SHARED)                                                                   \
    PLAIN(test_and_set, test_and_set, test_and_set, acquire_test_and_set, 0)                                           \
    PLAIN(test_and_test_and_set, test_and_test_and_set, test_and_test_and_set, acquire_test_and_test_and_set, 0)       \
    PLAIN(delay_after_release, delay, delay, acquire_after_release, 0)                                                 \
    BACKING_OFF(delay_between_references, delay, acquire_between_references)                                           \
    PLAIN(ticket, ticket, ticket, acquire_ticket, 0)                                                                   \
    PLAIN(ticket_proportional, ticket, ticket, acquire_proportional, 0)                                                \
    PLAIN(anderson, anderson, anderson, acquire_anderson, PARKS)                                                       \
    PLAIN(graunke_thakkar, graunke_thakkar, graunke_thakkar, acquire_graunke_thakkar, PARKS)                           \
    PLAIN(mcs, mcs, mcs, acquire_mcs, PARKS)                                                                           \
    PLAIN(clh, clh, clh, acquire_clh, PARKS)                                                                           \
    PLAIN(k42, k42, k42, acquire_k42, PARKS)                                                                           \
    PLAIN(qspinlock, qspinlock, qspinlock, acquire_qspinlock, PARKS)                                                   \
    PLAIN(catnap, catnap, catnap, acquire_catnap, 0)                                                                   \
    PLAIN(malthusian, malthusian, malthusian, acquire_malthusian, PARKS)                                               \
    PLAIN(cna, cna, cna, acquire_cna, PARKS)                                                                           \
    BACKING_OFF(hbo, hbo, acquire_hbo)                                                                                 \
    PLAIN(hmcs, hmcs_lock, hmcs, acquire_hmcs, PARKS)                                                                  \
    PLAIN(hclh, hclh_lock, hclh, acquire_hclh, 0)                                                                      \
    PLAIN(c_bo_mcs, c_bo_mcs_lock, c_bo_mcs, acquire_c_bo_mcs, PARKS)                                                  \
    PLAIN(c_mcs_tkt, c_mcs_tkt_lock, c_mcs_tkt, acquire_c_mcs_tkt, 0)                                                  \
    PLAIN(hardware_lock, hardware_lock, hardware_lock, acquire_hardware_lock, 0)                                       \
    SHARED(phase_fair_ticket, 0)                                                                                       \
    SHARED(phase_fair_queue, PARKS)

#endif
