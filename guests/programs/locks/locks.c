// One lock under contention: acquire it, work in the section, release it, work outside, again and again.
//
// Each task is one of the locks of locks/native/contention.h, where the loop is, and takes the harts that it is placed on as
// threads. How they wait is the argument `method`; each method has code of its own, as a policy that is constant has.
//
// Locks that wait by backing off alone do so whatever the method; catnap's has its own policies.
//
// Reports of a hart: "acquisitions", and "reads" for those of a reader-writer lock that share; "cycles" from its first
// acquire to its last release; "loop", cycles of 1000 steps of the loop that works, while all others sleep. That is one
// repetition of work, before the region of interest: cores that are to be timed are so from its beginning on.
#define KINDS_THREADS 1024
#define KINDS_PLACES 64
#define KINDS_PLACE_OF(thread) place_by_hart[thread]
static unsigned place_by_hart[KINDS_THREADS];
#define KINDS_APART __attribute__((aligned(4096)))

#include "loiter.h"

// A program that includes this one does something once steps are timed, and each hart something before its first acquire.
#ifndef LOCKS_SET_UP
#define LOCKS_SET_UP()
#define LOCKS_BEGIN(thread)
#endif
#define CONTENTION_REPEAT (uint32_t)loiter_value(&repeat)
#define CONTENTION_PATIENCE 0 // there is no scheduler
#include "../../../locks/native/contention.h"

LOITER_ARGUMENT(method, "method", 1,
                "0: spin, 1: pause, 2: fence, 3: divide, 4: divide doubles, 5: compare-and-swap, 6: back off, 7: nap");
LOITER_ARGUMENT(repeat, "repeat", 1, "steps of the method between two looks at the lock");
LOITER_ARGUMENT(limit, "limit", 1024, "most pauses of method 6");
LOITER_ARGUMENT(hold, "hold", 100, "cycles of work in the section, of a hart that is alone");
LOITER_ARGUMENT(think, "think", 500, "mean cycles of work outside, from none to twice as many");
LOITER_ARGUMENT(lines, "lines", 1, "lines that the section writes");
LOITER_ARGUMENT(window, "cycles", 200000, "cycles after which a hart acquires no more");
LOITER_ARGUMENT(share, "share", 0, "of 100 acquires of a reader-writer lock, how many only read");
LOITER_ARGUMENT(place_harts, "place_harts", 0, "harts of a node of the machine, for locks that know nodes; 0: all are in one");
LOITER_ARGUMENT(seed, "seed", 1, "of the work outside");

static unsigned char here[KINDS_THREADS];
static uint32_t arrived, ended;

// Sets the lock up and waits for all threads. Returns this one.
static struct thread begin(void (*init)(unsigned threads)) {
    unsigned hart = loiter_hart(), count = loiter_placed(false), number = 0;
    uint64_t each = loiter_value(&place_harts);
    if (hart >= KINDS_THREADS)
        loiter_refuse("hart %u: the program has room for %u", hart, KINDS_THREADS);
    if (loiter_value(&lines) > MOST_LINES)
        loiter_refuse("lines=%lu: the section has %u at most", loiter_value(&lines), MOST_LINES);
    if (loiter_value(&share) > 100)
        loiter_refuse("share=%lu: it is of 100", loiter_value(&share));
    if (loiter_value(&method) > LOITER_NAP)
        loiter_refuse("method=%lu: there are 0 to %u", loiter_value(&method), LOITER_NAP);
    if (each && hart / each >= KINDS_PLACES)
        loiter_refuse("place_harts=%lu: hart %u would be in node %lu, and there is room for %u", each, hart,
                      (unsigned long)(hart / each), KINDS_PLACES);
    __atomic_store_n(&here[hart], 1, __ATOMIC_RELAXED);
    bool first = __atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL) == 0;
    if (first) {
        while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < count)
            loiter_pause();
        for (unsigned n = 0, thread = 0; n < KINDS_THREADS; n++)
            if (here[n])
                place_by_hart[thread++] = each ? (unsigned)(n / each) : 0;
        asked.method = loiter_value(&method);
        asked.limit = (uint32_t)loiter_value(&limit);
        init(count);
        // Until they sleep.
        loiter_pauses(1000);
        loiter_work_begin(0);
        (void)time_steps(); // brings the code
        step_cycles = time_steps();
        loiter_report("loop", step_cycles);
        loiter_work_end(0);
        LOCKS_SET_UP();
    }
    loiter_start_together();
    for (unsigned n = 0; n < hart; n++)
        number += here[n];
    struct thread thread = {
        .number = number,
        .hold_steps = steps_of(loiter_value(&hold)),
        .think_steps = steps_of(loiter_value(&think)),
        .lines = loiter_value(&lines),
        .share = loiter_value(&share),
        .until = loiter_cycles() + loiter_value_at_least(&window, 1),
    };
    seed_thread(&thread, loiter_value(&seed), hart);
    LOCKS_BEGIN(&thread);
    return thread;
}

// The last one checks the section.
static void end(const struct thread *thread) {
    loiter_report("acquisitions", thread->acquisitions);
    if (thread->share)
        loiter_report("reads", thread->reads);
    loiter_report("cycles", thread->ended - thread->begun);
    (void)__atomic_fetch_add(&total, thread->acquisitions, __ATOMIC_RELAXED);
    if (__atomic_fetch_add(&ended, 1, __ATOMIC_ACQ_REL) + 1 == loiter_placed(false))
        check_section(thread->lines);
}

#define TASK(name, kind)                                                                                               \
    LOITER_TASK(name) {                                                                                                \
        struct thread thread = begin(init_##kind);                                                                     \
        contend_for_##name(&thread);                                                                                   \
        end(&thread);                                                                                                  \
    }
#define TASK_PLAIN(name, memory, kind, way, parks)                                                                          \
    CONTENTION_PLAIN(name, memory, kind, way, parks)                                                                   \
    TASK(name, kind)
#define TASK_BACKING_OFF(name, kind, way)                                                                                   \
    CONTENTION_BACKING_OFF(name, kind, way)                                                                            \
    TASK(name, kind)
#define TASK_SHARED(name, parks)                                                                                            \
    CONTENTION_SHARED(name, parks)                                                                                     \
    TASK(name, name)
CONTENTION_LOCKS(TASK_PLAIN, TASK_BACKING_OFF, TASK_SHARED)
