// Every lock with every policy that it allows, by more threads than there are processors, some of which attempt until they
// succeed: that one thread at a time is in the section, that what it wrote there is seen by the next, and that the order is
// that of arrival where that is claimed.
//
//     hosted [LOCK]      all locks, or one; prints a line a lock, exits with 1 at the first that fails
//
// Under ThreadSanitizer the plain data of the section is the check. A lock that is none must be caught first.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kinds.h"

enum { SECONDS_AT_MOST = 50 };

static const struct {
    const char *name;
    struct loiter_policy policy;
    unsigned acquisitions; // by each thread
} policies[] = {
    // Threads outnumber processors: where waiting does not give way, the scheduler's slices end it, so few rounds are enough.
    {"spin, never giving way", {LOITER_SPIN, 0, 0, 0}, 4},
    {"spin", {LOITER_SPIN, 0, 0, 50}, 100},
    {"pause", {LOITER_PAUSE, 3, 0, 50}, 100},
    {"fence", {LOITER_FENCE, 1, 0, 20}, 100},
    {"divide", {LOITER_DIVIDE, 2, 0, 20}, 100},
    {"fdivide", {LOITER_FDIVIDE, 2, 0, 20}, 100},
    {"cas", {LOITER_CAS, 2, 0, 20}, 100},
    {"back_off", {LOITER_BACK_OFF, 1, 64, 10}, 100},
    {"nap", {LOITER_NAP, 0, 0, 20}, 100},
    {"yield", {LOITER_YIELD, 0, 0, 0}, 100},
    {"park", {LOITER_PARK, 1, 0, 0}, 100},
    {"park, late", {LOITER_PARK, 100, 0, 0}, 100},
};
enum { POLICIES = sizeof policies / sizeof *policies };

// ---- what runs ------------------------------------------------------------------------------------------------------

static struct {
    const struct kind *kind;
    const struct loiter_policy *policy;
    unsigned threads, acquisitions;
} run;

static const char *doing = "nothing";

// Plain data, which only the lock protects.
static unsigned inside, count, twice;
static unsigned violations;

static void section(void) {
    if (inside++)
        __atomic_fetch_add(&violations, 1, __ATOMIC_RELAXED);
    unsigned seen = count;
    if (twice != 2 * seen)
        __atomic_fetch_add(&violations, 1, __ATOMIC_RELAXED);
    if (seen % 16 == 0)
        (void)sched_yield(); // others arrive, and find it held
    count = seen + 1;
    twice = 2 * count;
    inside--;
}

static void section_of_reader(void) {
    for (unsigned look = 0; look < 2; look++) {
        if (inside || twice != 2 * count)
            __atomic_fetch_add(&violations, 1, __ATOMIC_RELAXED);
        if (!look)
            (void)sched_yield(); // others arrive
    }
}

static void read_once(unsigned thread, unsigned n) {
    if (n % 4 == 0) {
        while (!run.kind->try_acquire_shared(thread))
            (void)sched_yield();
    } else {
        run.kind->acquire_shared(thread, run.policy);
    }
    section_of_reader();
    run.kind->release_shared(thread, run.policy);
}

static void *take_turns(void *argument) {
    unsigned thread = *(const unsigned *)argument;
    for (unsigned n = 0; n < run.acquisitions; n++) {
        if (run.kind->acquire_shared)
            read_once(thread, n);
        if (run.kind->try_acquire && thread % 2 && n % 2) {
            while (!run.kind->try_acquire(thread))
                (void)sched_yield();
        } else {
            run.kind->acquire(thread, run.policy);
        }
        section();
        run.kind->release(thread, run.policy);
    }
    return NULL;
}

static void start(pthread_t *thread, void *(*body)(void *), unsigned *number) {
    if (pthread_create(thread, NULL, body, number)) {
        perror("pthread_create");
        exit(1);
    }
}

// Whether the section was exclusive and no count was lost.
static bool is_exclusive(void) {
    static pthread_t threads[MAX_THREADS];
    static unsigned numbers[MAX_THREADS];
    inside = count = twice = violations = 0;
    run.kind->init(run.threads);
    for (unsigned n = 0; n < run.threads; n++) {
        numbers[n] = n;
        start(&threads[n], take_turns, &numbers[n]);
    }
    for (unsigned n = 0; n < run.threads; n++)
        pthread_join(threads[n], NULL);
    return violations == 0 && count == run.threads * run.acquisitions;
}

// ---- order ----------------------------------------------------------------------------------------------------------

static unsigned order[MAX_THREADS], arrivals;

// Fills `expected` with all threads but 0 in the order in which they should get the lock that 0 holds.
static void expect(unsigned threads, unsigned *expected) {
    unsigned waiting[MAX_THREADS], count_waiting = 0, filled = 0;
    for (unsigned n = 1; n < threads; n++)
        waiting[count_waiting++] = n;
    switch (run.kind->order) {
    case NEAR_FIRST:
        for (unsigned far = 0; far < 2; far++)
            for (unsigned n = 0; n < count_waiting; n++)
                if ((place_of(waiting[n]) != place_of(0)) == far)
                    expected[filled++] = waiting[n];
        break;
    case CULLED:
        for (unsigned n = 1; n < count_waiting; n += 2)
            expected[filled++] = waiting[n];
        if (count_waiting % 2)
            expected[filled++] = waiting[count_waiting - 1];
        for (unsigned n = count_waiting / 2; n; n--)
            expected[filled++] = waiting[2 * (n - 1)];
        break;
    default:
        for (unsigned n = 0; n < count_waiting; n++)
            expected[filled++] = waiting[n];
    }
}

static void *arrive(void *argument) {
    unsigned thread = *(const unsigned *)argument;
    run.kind->acquire(thread, run.policy);
    order[__atomic_fetch_add(&arrivals, 1, __ATOMIC_RELAXED)] = thread;
    run.kind->release(thread, run.policy);
    return NULL;
}

// The lock's words, while others may write them.
static uint64_t look_at_lock(void) {
    uint64_t hash = 0;
    for (size_t n = 0; n < run.kind->lock_bytes / sizeof(uint32_t); n++) {
        uint32_t word = __atomic_load_n((uint32_t *)run.kind->lock + n, __ATOMIC_RELAXED);
        hash = (hash ^ (word & ~LOITER_PARKED)) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return hash;
}

// Some locks are written twice when one arrives, and the second time may come late.
static void settle(long us) {
    const struct timespec time = {0, us * 1000};
    if (us)
        (void)nanosleep(&time, NULL);
}

// Whether threads that arrive while it is held, one after the other, have it in the order that this lock gives. That one
// has arrived shows in the lock.
static bool is_in_order_after(long settle_us) {
    static pthread_t threads[MAX_THREADS];
    static unsigned numbers[MAX_THREADS];
    run.kind->init(run.threads);
    run.kind->acquire(0, run.policy);
    arrivals = 0;
    for (unsigned n = 1; n < run.threads; n++) {
        uint64_t before = look_at_lock();
        numbers[n] = n;
        start(&threads[n], arrive, &numbers[n]);
        while (look_at_lock() == before)
            (void)sched_yield();
        settle(settle_us);
    }
    run.kind->release(0, run.policy);
    for (unsigned n = 1; n < run.threads; n++)
        pthread_join(threads[n], NULL);
    unsigned expected[MAX_THREADS];
    expect(run.threads, expected);
    bool in_order = arrivals == run.threads - 1;
    for (unsigned n = 0; n < run.threads - 1; n++)
        in_order &= order[n] == expected[n];
    return in_order;
}

// A busy machine may keep a thread from its place for a while, so a wrong order counts if more time does not mend it.
static bool is_in_order(void) {
    for (long settle_us = 0; settle_us < 500000; settle_us = settle_us ? 10 * settle_us : 500)
        if (is_in_order_after(settle_us))
            return true;
    return false;
}

// ---- starvation -----------------------------------------------------------------------------------------------------

// Two threads of one node of the machine hand the lock to and fro, and a third, of another, must get it all the same.
static struct {
    unsigned comes[3]; // whether this thread is about to queue, or waits
    unsigned handovers, starved, over;
} starving;

static void *take_turns_of_two(void *argument) {
    unsigned thread = *(const unsigned *)argument, other = 2 - thread;
    while (!__atomic_load_n(&starving.over, __ATOMIC_RELAXED)) {
        __atomic_store_n(&starving.comes[thread], 1, __ATOMIC_RELAXED);
        run.kind->acquire(thread, run.policy);
        __atomic_store_n(&starving.comes[thread], 0, __ATOMIC_RELAXED);
        if (++starving.handovers > 4 * run.kind->bound + 64)
            __atomic_store_n(&starving.over, 1, __ATOMIC_RELAXED);
        while (!__atomic_load_n(&starving.comes[other], __ATOMIC_RELAXED) &&
               !__atomic_load_n(&starving.over, __ATOMIC_RELAXED))
            (void)sched_yield();
        settle(20);
        run.kind->release(thread, run.policy);
    }
    return NULL;
}

static void *starve(void *argument) {
    unsigned thread = *(const unsigned *)argument;
    run.kind->acquire(thread, run.policy);
    starving.starved = starving.handovers;
    __atomic_store_n(&starving.over, 1, __ATOMIC_RELAXED);
    run.kind->release(thread, run.policy);
    return NULL;
}

static bool is_bounded_after(long settle_us) {
    static unsigned numbers[3] = {0, 1, 2};
    pthread_t threads[3];
    memset(&starving, 0, sizeof starving);
    run.kind->init(3);
    run.kind->acquire(0, run.policy);
    for (unsigned n = 1; n < 3; n++) {
        uint64_t before = look_at_lock();
        start(&threads[n], n == 1 ? starve : take_turns_of_two, &numbers[n]);
        while (look_at_lock() == before)
            (void)sched_yield();
        settle(settle_us);
    }
    run.kind->release(0, run.policy);
    start(&threads[0], take_turns_of_two, &numbers[0]);
    for (unsigned n = 0; n < 3; n++)
        pthread_join(threads[n], NULL);
    return starving.starved <= run.kind->bound + 8;
}

static bool is_bounded(void) { return is_bounded_after(500) || is_bounded_after(200000); }

// ---- attempts -------------------------------------------------------------------------------------------------------

// A held lock refuses an attempt, a free one does not.
static bool attempts_work(void) {
    const struct kind *kind = run.kind;
    if (!kind->try_acquire)
        return true;
    kind->init(2);
    for (unsigned n = 0; n < 3; n++) {
        if (!kind->try_acquire(0) || kind->try_acquire(1))
            return false;
        kind->release(0, run.policy);
        kind->acquire(1, run.policy);
        if (kind->try_acquire(0))
            return false;
        kind->release(1, run.policy);
    }
    return true;
}

// ---- readers --------------------------------------------------------------------------------------------------------

static void *arrive_shared(void *argument) {
    unsigned thread = *(const unsigned *)argument;
    run.kind->acquire_shared(thread, run.policy);
    order[__atomic_fetch_add(&arrivals, 1, __ATOMIC_RELAXED)] = thread;
    run.kind->release_shared(thread, run.policy);
    return NULL;
}

// Readers share, writers do not share with them, and phases take turns: while a writer holds it, another writer comes, then a
// reader, and the reader is next.
static bool is_phase_fair(void) {
    const struct kind *kind = run.kind;
    static pthread_t threads[MAX_THREADS];
    static unsigned numbers[MAX_THREADS];
    kind->init(3);
    kind->acquire_shared(0, run.policy);
    if (!kind->try_acquire_shared(1) || kind->try_acquire(2))
        return false;
    kind->release_shared(0, run.policy);
    if (kind->try_acquire(2))
        return false;
    kind->release_shared(1, run.policy);
    if (!kind->try_acquire(0) || kind->try_acquire_shared(1))
        return false;
    arrivals = 0;
    for (unsigned n = 1; n < 3; n++) {
        uint64_t before = look_at_lock();
        numbers[n] = n;
        start(&threads[n], n == 1 ? arrive : arrive_shared, &numbers[n]);
        while (look_at_lock() == before)
            (void)sched_yield();
        settle(500);
    }
    if (__atomic_load_n(&arrivals, __ATOMIC_RELAXED))
        return false; // somebody came in beside the writer
    kind->release(0, run.policy);
    for (unsigned n = 1; n < 3; n++)
        pthread_join(threads[n], NULL);
    return arrivals == 2 && order[0] == 2 && order[1] == 1;
}

// ---- the checks themselves -------------------------------------------------------------------------------------------

#ifndef __SANITIZE_THREAD__ // which stops at it, as it should
static uint32_t broken_word;
static void broken_init(unsigned threads) { (void)threads, broken_word = 0; }
static void broken_acquire(unsigned thread, const struct loiter_policy *policy) {
    (void)thread, (void)policy;
    while (__atomic_load_n(&broken_word, __ATOMIC_RELAXED))
        (void)sched_yield();
    (void)sched_yield(); // wide enough for another to come between test and set
    __atomic_store_n(&broken_word, 1, __ATOMIC_RELAXED);
}
static void broken_release(unsigned thread, const struct loiter_policy *policy) {
    (void)thread, (void)policy;
    __atomic_store_n(&broken_word, 0, __ATOMIC_RELAXED);
}
static const struct kind broken = {"broken",       ARRIVAL, 0,              &broken_word, sizeof broken_word, broken_init,
                                   broken_acquire, NULL,    broken_release, NULL,         NULL,               NULL,       0};
#endif

static void fail(const char *lock, const char *what) {
    fprintf(stderr, "error: %s, %s: %s\n", lock, doing, what);
    exit(1);
}

static void too_slow(int signal) {
    static const char text[] = "error: no progress: a lock was lost, or this machine is very busy; the lock printed last was good\n";
    (void)signal;
    (void)!write(2, text, sizeof text - 1);
    _exit(1);
}

static void check(const struct kind *kind) {
    run.kind = kind;
    alarm(SECONDS_AT_MOST);
    for (unsigned p = 0; p < POLICIES; p++) {
        enum loiter_method method = policies[p].policy.method;
        if ((method == LOITER_PARK && !(kind->flags & PARKS)) ||
            (method != LOITER_BACK_OFF && (kind->flags & DELAYS)) || (p && (kind->flags & FIXED)))
            continue;
        doing = policies[p].name;
        run.policy = &policies[p].policy;
        run.acquisitions = policies[p].acquisitions;
        if (!is_exclusive())
            fail(kind->name, "two threads were in the section at once, or a count was lost");
        if (!attempts_work())
            fail(kind->name, "an attempt succeeded on a held lock or failed on a free one");
        if (kind->order != ANY && !is_in_order())
            fail(kind->name, "threads did not get it in the order that it claims");
        if (kind->bound && method == LOITER_YIELD && !is_bounded())
            fail(kind->name, "a thread of another node of the machine waits for longer than the bound that it claims");
        if (kind->acquire_shared && !is_phase_fair())
            fail(kind->name, "readers do not share, share with a writer, or have to wait for a second one");
    }
    printf("%s: good\n", kind->name);
    fflush(stdout);
}

int main(int argc, char **argv) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned checked = 0;
    run.threads = processors < MAX_THREADS / 2 ? (unsigned)(processors < 2 ? 4 : 2 * processors) : MAX_THREADS;
    signal(SIGALRM, too_slow);
#ifndef __SANITIZE_THREAD__
    run.kind = &broken;
    run.acquisitions = 300;
    if (is_exclusive())
        fail("broken", "a lock that is none was not caught");
#endif
    for (unsigned n = 0; n < kind_count; n++)
        if (argc < 2 || !strcmp(argv[1], kinds[n].name))
            check(&kinds[n]), checked++;
    if (!checked) {
        fprintf(stderr, "error: no lock is named %s\n", argv[1]);
        return 2;
    }
    printf("%u locks, %u threads on %ld processors\n", checked, run.threads, processors);
    return 0;
}
