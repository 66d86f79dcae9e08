// Statistics of one lock: waits, sections and hand-overs, by thread, as loiter's simulator has them from probes of guests
// (crates/observe/src/locks.rs). Compiled in by -DPROBES=1; without it the probes are nothing.
//
// A probed program has a line more that goes with the lock, and reads the counter three times a section: throughput is to be
// measured without.
#ifndef NATIVE_PROBES_H
#define NATIVE_PROBES_H

#include "platform.h"

#ifndef PROBES
#define PROBES 0
#endif

#define LOG2_MOST 64

// Of one kind, in ticks. The histogram counts by the power of two that a duration reaches.
struct durations {
    uint64_t count, sum, least, most;
    uint64_t log2_histogram[LOG2_MOST];
};

static inline void add_duration(struct durations *durations, uint64_t ticks) {
    durations->least = durations->count && durations->least < ticks ? durations->least : ticks;
    durations->most = durations->most > ticks ? durations->most : ticks;
    durations->count++;
    durations->sum += ticks;
    durations->log2_histogram[ticks ? 63 - __builtin_clzll(ticks) : 0]++;
}

// What one thread, or one caller, has done with one lock.
struct lock_use {
    struct durations waits, holds, handovers;
    uint64_t contentions, bounces;
};

// What is known of a lock; only `holder` is read by who does not hold it.
struct lock_state {
    LOITER_ALIGNED uint32_t holder; // thread + 1; 0: free
    uint32_t last_holder;           // the same
    uint64_t acquired, released;    // the last release, 0 once somebody has acquired it since
};

// An acquire that has begun.
struct lock_attempt {
    uint64_t began;
    bool contended;
};

LOITER_INLINE struct lock_attempt begin_acquire(const struct lock_state *lock) {
    return (struct lock_attempt){loiter_ticks(), LOITER_LOAD(&lock->holder, __ATOMIC_RELAXED) != 0};
}

// By the holder, from here on.
LOITER_INLINE void end_acquire(struct lock_state *lock, struct lock_use *use, struct lock_attempt attempt, uint32_t thread) {
    uint64_t now = loiter_ticks();
    bool is_handed_over = lock->released && attempt.began <= lock->released;
    add_duration(&use->waits, now > attempt.began ? now - attempt.began : 0);
    // Held when it began, or handed to a waiter that had not begun to run, and held since.
    use->contentions += attempt.contended || is_handed_over || attempt.began <= lock->acquired;
    use->bounces += lock->last_holder && lock->last_holder != thread + 1;
    if (is_handed_over)
        add_duration(&use->handovers, now > lock->released ? now - lock->released : 0);
    lock->released = 0;
    lock->acquired = now;
    lock->last_holder = thread + 1;
    LOITER_STORE(&lock->holder, thread + 1, __ATOMIC_RELAXED);
}

// Before the lock is released.
LOITER_INLINE void begin_release(struct lock_state *lock, struct lock_use *use) {
    uint64_t now = loiter_ticks();
    add_duration(&use->holds, now > lock->acquired ? now - lock->acquired : 0);
    lock->released = now;
    LOITER_STORE(&lock->holder, 0, __ATOMIC_RELAXED);
}

static inline void print_durations(FILE *file, const char *name, const char *count_name, const struct durations *durations) {
    unsigned length = LOG2_MOST;
    while (length && !durations->log2_histogram[length - 1])
        length--;
    fprintf(file,
            "\"%s\": %llu, \"%s_sum_cycles\": %llu, \"%s_min_cycles\": %llu, \"%s_max_cycles\": %llu, "
            "\"%s_log2_histogram\": [",
            count_name, (unsigned long long)durations->count, name, (unsigned long long)durations->sum, name,
            (unsigned long long)durations->least, name, (unsigned long long)durations->most, name);
    for (unsigned n = 0; n < length; n++)
        fprintf(file, "%s%llu", n ? ", " : "", (unsigned long long)durations->log2_histogram[n]);
    fputc(']', file);
}

// As a row of locks.parquet.
static inline void print_lock_use(FILE *file, uint64_t lock, uint64_t site, uint64_t thread, const struct lock_use *use) {
    fprintf(file, "{\"lock\": %llu, \"site\": %llu, \"hart\": %llu, ", (unsigned long long)lock, (unsigned long long)site,
            (unsigned long long)thread);
    print_durations(file, "wait", "acquisitions", &use->waits);
    fputs(", ", file);
    print_durations(file, "hold", "holds", &use->holds);
    fputs(", ", file);
    print_durations(file, "handover", "handovers", &use->handovers);
    fprintf(file, ", \"contentions\": %llu, \"bounces\": %llu}", (unsigned long long)use->contentions,
            (unsigned long long)use->bounces);
}

#endif
