// How programs use the locks, right and wrong: several held at once, released in any order, by nodes and by hidden nodes; and
// each wrong use ends the program with a message.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kinds.h"
#include "loiter/hidden.h"
#include "loiter/qspinlock.h"
#include "loiter/ticket.h"

enum { SECONDS_AT_MOST = 50, THREADS = 4, ROUNDS = 300 };

static const struct loiter_policy policy = {LOITER_PAUSE, 1, 0, 10};

static void fail(const char *what, const char *of) {
    fprintf(stderr, "error: %s: %s\n", of, what);
    exit(1);
}

// ---- hidden nodes ---------------------------------------------------------------------------------------------------

// One of each kind, in a line that a thread holds several of at once.
enum { LOCKS = 7 };
static struct loiter_anderson anderson;
static struct loiter_anderson_place places[THREADS];
static struct loiter_mcs mcs;
static struct loiter_cna cna;
static struct loiter_hmcs hmcs;
static struct loiter_hmcs_cohort hmcs_cohorts[2];
static struct loiter_c_bo_mcs c_bo_mcs;
static struct loiter_c_bo_mcs_cohort c_bo_mcs_cohorts[2];
static struct loiter_malthusian malthusian;
static struct loiter_phase_fair_queue phase_fair_queue;
static const char *const names[LOCKS] = {"anderson", "mcs", "cna", "hmcs", "c_bo_mcs", "malthusian", "phase_fair_queue"};

static void init(void) {
    loiter_anderson_init(&anderson, places, THREADS);
    loiter_mcs_init(&mcs);
    loiter_cna_init(&cna);
    loiter_hmcs_init(&hmcs, hmcs_cohorts, 2);
    loiter_c_bo_mcs_init(&c_bo_mcs, c_bo_mcs_cohorts, 2);
    loiter_malthusian_init(&malthusian);
    loiter_phase_fair_queue_init(&phase_fair_queue);
}

static void acquire(unsigned lock, unsigned place) {
    switch (lock) {
    case 0: loiter_hidden_anderson_acquire(&anderson, &policy); break;
    case 1: loiter_hidden_mcs_acquire(&mcs, &policy); break;
    case 2: loiter_hidden_cna_acquire(&cna, place, &policy); break;
    case 3: loiter_hidden_hmcs_acquire(&hmcs, place, &policy); break;
    case 4: loiter_hidden_c_bo_mcs_acquire(&c_bo_mcs, place, &policy, &policy); break;
    case 5: loiter_hidden_malthusian_acquire(&malthusian, &policy); break;
    default: loiter_hidden_phase_fair_queue_acquire(&phase_fair_queue, &policy);
    }
}

static int try_acquire(unsigned lock, unsigned place) {
    switch (lock) {
    case 0: return loiter_hidden_anderson_try_acquire(&anderson);
    case 1: return loiter_hidden_mcs_try_acquire(&mcs);
    case 2: return loiter_hidden_cna_try_acquire(&cna, place);
    case 3: return loiter_hidden_hmcs_try_acquire(&hmcs, place, &policy);
    case 4: return loiter_hidden_c_bo_mcs_try_acquire(&c_bo_mcs, place, &policy);
    case 5: return loiter_hidden_malthusian_try_acquire(&malthusian);
    default: return loiter_hidden_phase_fair_queue_try_acquire(&phase_fair_queue, &policy);
    }
}

static void release(unsigned lock, unsigned place) {
    switch (lock) {
    case 0: loiter_hidden_anderson_release(&anderson, &policy); break;
    case 1: loiter_hidden_mcs_release(&mcs, &policy); break;
    case 2: loiter_hidden_cna_release(&cna, &policy); break;
    case 3: loiter_hidden_hmcs_release(&hmcs, place, &policy); break;
    case 4: loiter_hidden_c_bo_mcs_release(&c_bo_mcs, place, &policy); break;
    case 5: loiter_hidden_malthusian_release(&malthusian, &policy); break;
    default: loiter_hidden_phase_fair_queue_release(&phase_fair_queue, &policy);
    }
}

// Plain data, each item protected by one lock.
static unsigned counts[LOCKS];

static unsigned next_random(unsigned *state) { return (*state = *state * 1103515245 + 12345) >> 16; }

// Takes some of the locks in order, so that nobody waits in a circle, and releases them in any.
static void *nest(void *argument) {
    unsigned thread = *(const unsigned *)argument, random = thread, place = place_of(thread);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned held[LOCKS], count = 0;
        unsigned some = next_random(&random) | 1u << round % LOCKS;
        for (unsigned lock = 0; lock < LOCKS; lock++) {
            if (!(some >> lock & 1))
                continue;
            if (next_random(&random) % 4)
                acquire(lock, place);
            else
                while (!try_acquire(lock, place))
                    (void)sched_yield();
            held[count++] = lock;
            if (try_acquire(lock, place))
                fail("a thread got a lock twice", names[lock]);
            counts[lock]++;
        }
        if (round % 8 == 0)
            (void)sched_yield();
        while (count) {
            unsigned which = next_random(&random) % count;
            release(held[which], place);
            held[which] = held[--count];
        }
    }
    return NULL;
}

static void check_nesting(void) {
    pthread_t threads[THREADS];
    unsigned numbers[THREADS], expected[LOCKS] = {0};
    init();
    for (unsigned n = 0; n < THREADS; n++) {
        numbers[n] = n;
        if (pthread_create(&threads[n], NULL, nest, &numbers[n]))
            fail("cannot start", "thread");
    }
    for (unsigned n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    // The same numbers again say how often each should have been taken.
    for (unsigned n = 0; n < THREADS; n++) {
        unsigned random = n;
        for (unsigned round = 0; round < ROUNDS; round++) {
            unsigned count = 0, some = next_random(&random) | 1u << round % LOCKS;
            for (unsigned lock = 0; lock < LOCKS; lock++)
                if (some >> lock & 1)
                    (void)next_random(&random), expected[lock]++, count++;
            for (; count; count--)
                (void)next_random(&random);
        }
    }
    for (unsigned lock = 0; lock < LOCKS; lock++)
        if (counts[lock] != expected[lock] || !counts[lock])
            fail("a count was lost, with several locks held at once", names[lock]);
}

// A handler takes a lock while its thread is in the middle of another's acquire or release.
static unsigned interrupts;

static void interrupt(int signal) {
    (void)signal;
    loiter_hidden_mcs_acquire(&mcs, &policy);
    interrupts++;
    loiter_hidden_mcs_release(&mcs, &policy);
}

static void check_interrupts(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = interrupt;
    if (sigaction(SIGUSR1, &action, NULL))
        fail("cannot be set", "signal handler");
    pid_t self = getpid(), sender = fork();
    if (sender == 0) {
        while (getppid() == self) {
            (void)kill(self, SIGUSR1);
            (void)sched_yield();
        }
        _exit(0);
    }
    // As many acquisitions as it takes for 200 signals to have come in between.
    for (unsigned turns = 0; __atomic_load_n(&interrupts, __ATOMIC_RELAXED) < 200; turns++) {
        acquire(1 + 1 + turns % 5, 0);
        release(1 + 1 + turns % 5, 0);
    }
    (void)kill(sender, SIGKILL);
    (void)waitpid(sender, NULL, 0);
    (void)signal(SIGUSR1, SIG_IGN);
}

// ---- nesting levels of qspinlock ---------------------------------------------------------------------------------------

// One thread queues for a lock, and while it waits there a handler on the same processor for the next, and so on: four levels
// have nodes, a fifth spins. Each lock is held, and has a pending waiter, so that who comes must queue.
#ifndef __SANITIZE_THREAD__ // which keeps signals back until a system call
enum { DEPTH = LOITER_QSPINLOCK_LEVELS + 1 };
static struct loiter_qspinlock nested[DEPTH];
static struct loiter_qspinlock_cpu processors[1 + DEPTH];
static unsigned depth, nested_order[DEPTH], nested_done, most_used;

static void queue_nested(int signal) {
    unsigned level = __atomic_fetch_add(&depth, 1, __ATOMIC_RELAXED);
    (void)signal;
    loiter_qspinlock_acquire(&nested[level], processors, 0, &policy, &policy);
    nested_order[nested_done++] = level;
    loiter_qspinlock_release(&nested[level]);
}

static void *nest_handlers(void *argument) {
    queue_nested(0);
    return argument;
}

static void *pend(void *argument) {
    unsigned level = *(const unsigned *)argument;
    loiter_qspinlock_acquire(&nested[level], processors, 1 + level, &policy, &policy);
    loiter_qspinlock_release(&nested[level]);
    return NULL;
}

static uint32_t word_of(unsigned level) { return __atomic_load_n(&nested[level].word, __ATOMIC_ACQUIRE); }

static void check_levels(void) {
    pthread_t nesting, pending[DEPTH];
    unsigned numbers[DEPTH];
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = queue_nested;
    action.sa_flags = SA_NODEFER;
    if (sigaction(SIGUSR2, &action, NULL))
        fail("cannot be set", "signal handler");
    for (unsigned level = 0; level < DEPTH; level++) {
        loiter_qspinlock_init(&nested[level]);
        if (!loiter_qspinlock_try_acquire(&nested[level]))
            fail("a free lock was not to be had", "qspinlock");
        numbers[level] = level;
        if (pthread_create(&pending[level], NULL, pend, &numbers[level]))
            fail("cannot start", "thread");
        while (!(word_of(level) & LOITER_QSPINLOCK_PENDING))
            (void)sched_yield();
    }
    if (pthread_create(&nesting, NULL, nest_handlers, NULL))
        fail("cannot start", "thread");
    for (unsigned level = 0; level < DEPTH; level++) {
        // In the queue, or, when there is no node left, about to attempt the word.
        while (level < LOITER_QSPINLOCK_LEVELS ? !(word_of(level) & LOITER_QSPINLOCK_TAIL)
                                               : __atomic_load_n(&depth, __ATOMIC_RELAXED) <= level)
            (void)sched_yield();
        if (level + 1 < DEPTH)
            (void)pthread_kill(nesting, SIGUSR2);
    }
    most_used = __atomic_load_n(&processors[0].used, __ATOMIC_RELAXED);
    // The outermost first: it must not be had before those that interrupt it.
    for (unsigned level = 0; level < DEPTH; level++)
        loiter_qspinlock_release(&nested[level]);
    pthread_join(nesting, NULL);
    for (unsigned level = 0; level < DEPTH; level++) {
        pthread_join(pending[level], NULL);
        if (nested_order[level] != DEPTH - 1 - level)
            fail("nested levels did not end from the innermost out", "qspinlock");
        if (word_of(level))
            fail("a lock that nobody holds is not free", "qspinlock");
    }
    if (most_used != LOITER_QSPINLOCK_LEVELS || processors[0].used)
        fail("does not use its four nodes, or keeps some", "qspinlock");
}
#else
static void check_levels(void) {}
#endif

// ---- several locks held by nodes of the caller's ------------------------------------------------------------------------

static void check_order_of_release(void) {
    struct loiter_mcs locks[3];
    struct loiter_mcs_node nodes[3];
    for (unsigned first = 0; first < 3; first++) {
        for (unsigned n = 0; n < 3; n++) {
            loiter_mcs_init(&locks[n]);
            loiter_mcs_acquire(&locks[n], &nodes[n], &policy);
        }
        for (unsigned n = 0; n < 3; n++)
            loiter_mcs_release(&locks[(first + n) % 3], &nodes[(first + n) % 3], &policy);
        // A node can serve any lock, once it is released.
        loiter_mcs_acquire(&locks[0], &nodes[first], &policy);
        loiter_mcs_release(&locks[0], &nodes[first], &policy);
    }
}

// ---- wrong use ------------------------------------------------------------------------------------------------------

static const struct kind *wrong;

static const struct loiter_policy *policy_of(const struct kind *kind) {
    static const struct loiter_policy delay = {LOITER_BACK_OFF, 1, 8, 0};
    return kind->flags & DELAYS ? &delay : &policy;
}

// The last of 2^31 tickets, and the first again.
static void check_tickets_wrap_around(void) {
    static struct loiter_ticket lock = {LOITER_TICKET_MASK, LOITER_TICKET_MASK};
    for (int n = 0; n < 3; n++) {
        if (n != 1)
            loiter_ticket_acquire(&lock, &policy);
        else if (!loiter_ticket_try_acquire(&lock))
            fail("a free lock is not acquired by an attempt after all tickets", "ticket");
        loiter_ticket_release(&lock);
    }
    if (lock.serving != 2 || (lock.next & LOITER_TICKET_MASK) != 2)
        fail("tickets do not begin again", "ticket");
}

static void release_twice(void) {
    wrong->init(2);
    wrong->acquire(0, policy_of(wrong));
    wrong->release(0, policy_of(wrong));
    wrong->release(0, policy_of(wrong));
}

static void release_twice_while_another_holds(void) {
    wrong->init(2);
    wrong->acquire(0, policy_of(wrong));
    wrong->release(0, policy_of(wrong));
    wrong->acquire(1, policy_of(wrong));
    wrong->release(0, policy_of(wrong));
}

static void release_shared_twice(void) {
    wrong->init(2);
    wrong->acquire_shared(0, policy_of(wrong));
    wrong->release_shared(0, policy_of(wrong));
    wrong->release_shared(0, policy_of(wrong));
}

static void release_with_anothers_node(void) {
    struct loiter_mcs one, other;
    struct loiter_mcs_node node;
    loiter_mcs_init(&one);
    loiter_mcs_init(&other);
    loiter_mcs_acquire(&one, &node, &policy);
    loiter_mcs_release(&other, &node, &policy);
}

static void release_hidden_twice(void) {
    loiter_hidden_mcs_acquire(&mcs, &policy);
    loiter_hidden_mcs_release(&mcs, &policy);
    loiter_hidden_mcs_release(&mcs, &policy);
}

static void acquire_hidden_twice(void) {
    loiter_hidden_mcs_acquire(&mcs, &policy);
    loiter_hidden_mcs_acquire(&mcs, &policy);
}

static void hold_too_many(void) {
    static struct loiter_mcs many[LOITER_HIDDEN_LEVELS + 1];
    for (unsigned n = 0; n <= LOITER_HIDDEN_LEVELS; n++)
        loiter_hidden_mcs_acquire(&many[n], &policy);
}

static void park_where_none_can(void) {
    static const struct loiter_policy park = {LOITER_PARK, 1, 0, 0};
    wrong->init(2);
    wrong->acquire(0, &park);
}

static void nothing_wrong(void) {
    loiter_hidden_mcs_acquire(&mcs, &policy);
    loiter_hidden_mcs_release(&mcs, &policy);
}

// Runs it in a process of its own, which has to end by an abort that says this; NULL: to end well.
static void expect_end(void (*body)(void), const char *message, const char *of) {
    int ends[2], status;
    char said[512];
    size_t length = 0;
    ssize_t got;
    if (pipe(ends))
        fail("cannot be opened", "pipe");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], 2);
        alarm(10);
        body();
        _exit(0);
    }
    close(ends[1]);
    while (length < sizeof said - 1 && (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0)
        length += (size_t)got;
    said[length] = 0;
    close(ends[0]);
    (void)waitpid(child, &status, 0);
    if (!message && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
        fail("right use ended the program", of);
    if (message && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT))
        fail("wrong use did not abort the program", of);
    if (message && !(strstr(said, "loiter locks: ") && strstr(said, message)))
        fail("wrong use did not say what was wrong", of);
}

static void check_wrong_use(void) {
    unsigned owned = 0, shared = 0;
    for (unsigned n = 0; n < kind_count; n++) {
        wrong = &kinds[n];
        expect_end(release_twice, "released twice", wrong->name);
        if (wrong->flags & OWNED)
            expect_end(release_twice_while_another_holds, "released twice", wrong->name), owned++;
        if (wrong->acquire_shared)
            expect_end(release_shared_twice, "released twice", wrong->name), shared++;
        if (!strcmp(wrong->name, "ticket"))
            expect_end(park_where_none_can, "cannot park", wrong->name);
    }
    if (!owned || !shared)
        fail("were not looked at", "locks with nodes, or with readers");
    expect_end(release_with_anothers_node, "released twice, or not held", "a node of another lock");
    expect_end(release_hidden_twice, "released twice, or not held by this thread", "hidden nodes");
    expect_end(acquire_hidden_twice, "acquired again", "hidden nodes");
    expect_end(hold_too_many, "LOITER_HIDDEN_LEVELS", "hidden nodes");
    expect_end(nothing_wrong, NULL, "hidden nodes");
}

int main(void) {
    alarm(SECONDS_AT_MOST);
    check_order_of_release();
    check_tickets_wrap_around();
    check_nesting();
    check_wrong_use();
    check_interrupts();
    check_levels();
    printf("%d locks held at once, %u in order and out of it; wrong use of %u told\n", LOCKS, THREADS * ROUNDS, kind_count);
    return 0;
}
