// So many sections of one lock, of all threads together: how long do they take? Each thread has the same share of them: it
// acquires the lock, works in the section, releases it and works outside, until its share is done.
//
// Each task is a lock, and how its waiters wait is a part of it, as it was published:
//
//     T. E. Anderson, "The Performance of Spin Lock Alternatives for Shared-Memory Multiprocessors", IEEE TPDS 1(1), 1990
//     J. M. Mellor-Crummey and M. L. Scott, "Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors",
//     ACM TOCS 9(1), 1991
//     S. Boyd-Wickizer et al., "Non-scalable locks are dangerous", Linux Symposium 2012
//
// Where waiters delay, `repeat` pauses are the first delay, and `limit` the longest. With `slot` a thread always delays for
// the slot of its hart, as many pauses as `slot` times the hart's number, and one.
//
// With `threads=2` each hart has two threads, which a timer gives it to in turn: a thread that waits, or holds the lock, may be
// without its hart. Statistics of locks are by hart, so they say nothing then.
//
// Reports of a hart, both threads together: "acquisitions", "cycles" from the first acquire to the end of the last work
// outside, "switches" by the timer; "loop" as in the program `locks`, whose section and whose work these are.
#define KINDS_THREADS 512
#define KINDS_PLACES 64
#define KINDS_PLACE_OF(thread) place_by_thread[thread]
static unsigned place_by_thread[KINDS_THREADS];

#include "loiter.h"
#include "software_threads.h"

#define CONTENTION_REPEAT 1
#define CONTENTION_PATIENCE 0
#include "../../../locks/native/contention.h"

LOITER_ARGUMENT(acquisitions, "acquisitions", 2000, "of all threads together");
LOITER_ARGUMENT(hold, "hold", 100, "cycles of work in the section, of a hart that is alone");
LOITER_ARGUMENT(think, "think", 500, "mean cycles of work outside, from none to twice as many");
LOITER_ARGUMENT(lines, "lines", 1, "lines that the section writes");
LOITER_ARGUMENT(checks, "checks", 1, "1: the section looks whether another thread is inside; 0: it is as empty as it can be");
LOITER_ARGUMENT(repeat, "repeat", 1, "pauses of the first delay");
LOITER_ARGUMENT(limit, "limit", 1024, "pauses of the longest delay");
LOITER_ARGUMENT(own_slot, "slot", 0, "pauses from one hart's delay to the next hart's, which do not grow then; 0: they do");
LOITER_ARGUMENT(threads, "threads", 1, "of each hart: 1, or 2 that take turns");
LOITER_ARGUMENT(slice, "slice", 10000, "ticks of mtime for which a thread has its hart");
LOITER_ARGUMENT(place_harts, "place_harts", 0, "harts of a node of the machine, for locks that know nodes; 0: all are in one");
LOITER_ARGUMENT(seed, "seed", 1, "of the work outside");

static unsigned char here[LOITER_MAX_HARTS];
static uint32_t arrived, ended;

// ---- what a thread does ----------------------------------------------------------------------------------------------

static const struct loiter_policy spinning = {LOITER_SPIN, 1, 0, 0};

static struct loiter_policy delay_of(unsigned hart) {
    uint32_t own = (uint32_t)(1 + loiter_value(&own_slot) * hart);
    struct loiter_policy policy = {LOITER_BACK_OFF, (uint32_t)loiter_value(&repeat), asked.limit, 0};
    if (loiter_value(&own_slot))
        policy.repeat = policy.limit = own;
    return policy;
}

static void acquire_noticed(unsigned thread, const struct loiter_policy *policy) {
    (void)thread;
    loiter_delay_acquire_after_release(&delay, &spinning, policy);
}

// `until` is a number of acquires here. Inlined, with all that it calls, for each lock.
LOITER_INLINE void enter_and_leave(struct thread *thread, const void *lock, const struct loiter_policy *policy,
                                   acquires *acquire, acquires *release) {
    bool looks = loiter_value(&checks);
    thread->begun = loiter_cycles();
    while (thread->acquisitions < thread->until) {
        loiter_lock_acquire(lock);
        acquire(thread->number, policy);
        loiter_lock_acquired(lock);
        if (looks)
            enter(thread, true);
        for (uint64_t n = 0; n < thread->lines; n++)
            section[n].value++;
        thread->acquisitions++;
        work(thread->hold_steps);
        if (looks)
            leave(true);
        loiter_lock_released(lock);
        release(thread->number, policy);
        if (thread->think_steps)
            work(draw(&thread->random) % (2 * thread->think_steps + 1));
    }
    thread->ended = loiter_cycles();
}

// ---- a hart ----------------------------------------------------------------------------------------------------------

static unsigned threads_of_all(void) { return loiter_placed(false) * (unsigned)loiter_value(&threads); }

static void check_arguments(void) {
    if (loiter_value(&lines) > MOST_LINES)
        loiter_refuse("lines=%lu: the section has %u at most", loiter_value(&lines), MOST_LINES);
    if (loiter_value(&threads) < 1 || loiter_value(&threads) > 2)
        loiter_refuse("threads=%lu: a hart has 1 or 2", loiter_value(&threads));
    (void)loiter_value_at_least(&acquisitions, 1);
    (void)loiter_value_at_least(&repeat, 1);
    (void)loiter_value_at_least(&slice, 1);
    if (loiter_value(&place_harts) && loiter_hart() / loiter_value(&place_harts) >= KINDS_PLACES)
        loiter_refuse("place_harts=%lu: there is room for %u nodes", loiter_value(&place_harts), KINDS_PLACES);
}

static void place_threads(void) {
    unsigned each = (unsigned)loiter_value(&place_harts), thread = 0;
    for (unsigned n = 0; n < LOITER_MAX_HARTS; n++)
        for (unsigned nth = 0; here[n] && nth < loiter_value(&threads); nth++)
            place_by_thread[thread++] = each ? n / each : 0;
}

// Sets the lock up and waits for all harts.
static void begin(void (*init)(unsigned threads)) {
    check_arguments();
    __atomic_store_n(&here[loiter_hart()], 1, __ATOMIC_RELAXED);
    if (__atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL) == 0) {
        while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < loiter_placed(false))
            loiter_pause();
        asked.limit = (uint32_t)loiter_value(&limit);
        place_threads();
        init(threads_of_all());
        // Until they sleep.
        loiter_pauses(1000);
        loiter_work_begin(0);
        (void)time_steps(); // brings the code
        step_cycles = time_steps();
        loiter_report("loop", step_cycles);
        loiter_work_end(0);
    }
    loiter_start_together();
}

// A thread of the hart that is the `place`-th of all.
static struct thread thread_of(unsigned place, unsigned nth) {
    unsigned number = place * (unsigned)loiter_value(&threads) + nth;
    uint64_t each = loiter_value(&acquisitions) / threads_of_all(), rest = loiter_value(&acquisitions) % threads_of_all();
    struct thread thread = {
        .number = number,
        .hold_steps = steps_of(loiter_value(&hold)),
        .think_steps = steps_of(loiter_value(&think)),
        .lines = loiter_value(&lines),
        .until = each + (number < rest),
    };
    seed_thread(&thread, loiter_value(&seed), number);
    return thread;
}

// The last one checks the section.
static void report(const struct thread *first, const struct thread *second, uint64_t switches) {
    uint64_t acquired = first->acquisitions + second->acquisitions;
    uint64_t begun = first->begun < second->begun ? first->begun : second->begun;
    loiter_report("acquisitions", acquired);
    loiter_report("cycles", (first->ended > second->ended ? first->ended : second->ended) - begun);
    loiter_report("switches", switches);
    (void)__atomic_fetch_add(&total, acquired, __ATOMIC_RELAXED);
    if (__atomic_fetch_add(&ended, 1, __ATOMIC_ACQ_REL) + 1 == loiter_placed(false))
        check_section(first->lines);
}

static void run_hart(void (*init)(unsigned threads), void (*run)(void *thread)) {
    struct software_threads hart = {0};
    unsigned place = 0;
    begin(init);
    for (unsigned n = 0; n < loiter_hart(); n++)
        place += here[n];
    struct thread first = thread_of(place, 0), second = first;
    if (loiter_value(&threads) == 1) {
        run(&first);
        second.begun = first.begun;
    } else {
        uint64_t ticks = loiter_value(&slice);
        second = thread_of(place, 1);
        // Timers of different harts are not in step.
        software_threads_run(&hart, run, &first, &second, ticks, ticks * place / loiter_placed(false));
    }
    report(&first, &second, hart.switches);
}

// ---- the locks -------------------------------------------------------------------------------------------------------

#define TASK(name, memory, kind, how, way)                                                                                     \
    static __attribute__((noinline, flatten)) void run_##name(void *thread) {                                          \
        const struct loiter_policy policy = how;                                                                       \
        enter_and_leave(thread, &memory, &policy, way, release_##kind);                                                  \
    }                                                                                                                  \
    LOITER_TASK(name) { run_hart(init_##kind, run_##name); }
#define SPINNING                                                                                                       \
    { LOITER_SPIN, 1, 0, 0 }

TASK(test_and_set, test_and_set, test_and_set, SPINNING, acquire_test_and_set)
TASK(test_and_test_and_set, test_and_test_and_set, test_and_test_and_set, SPINNING, acquire_test_and_test_and_set)
TASK(test_and_set_delay, test_and_set, test_and_set, delay_of(loiter_hart()), acquire_test_and_set)
TASK(delay_after_release, delay, delay, delay_of(loiter_hart()), acquire_noticed)
TASK(delay_between_references, delay, delay, delay_of(loiter_hart()), acquire_between_references)
TASK(ticket, ticket, ticket, SPINNING, acquire_ticket)
TASK(ticket_proportional, ticket, ticket, SPINNING, acquire_proportional)
TASK(anderson, anderson, anderson, SPINNING, acquire_anderson)
TASK(mcs, mcs, mcs, SPINNING, acquire_mcs)
TASK(clh, clh, clh, SPINNING, acquire_clh)
TASK(k42, k42, k42, SPINNING, acquire_k42)
TASK(hclh, hclh_lock, hclh, SPINNING, acquire_hclh)
