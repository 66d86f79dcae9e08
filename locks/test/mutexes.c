// A program with pthread mutexes of all kinds, and nothing of loiter: `loiter native wrap` must leave it as right as it is.
// Prints a line for each part; ends with 1 and says what is wrong.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 2000, PLACES = 3, SECONDS_AT_MOST = 60 };

static void check(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "error: mutexes: %s\n", what);
        _Exit(1);
    }
}

static struct timespec after_ms(clockid_t clock, long ms) {
    struct timespec time;
    (void)clock_gettime(clock, &time);
    time.tv_nsec += ms * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static void together(void *(*run)(void *)) {
    pthread_t threads[THREADS];
    for (int n = 0; n < THREADS; n++)
        check(!pthread_create(&threads[n], NULL, run, NULL), "a thread cannot be started");
    for (int n = 0; n < THREADS; n++)
        (void)pthread_join(threads[n], NULL);
}

// ---- exclusion -------------------------------------------------------------------------------------------------------

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static volatile long of_plain, of_adaptive, of_recursive;

static void *add(void *unused) {
    (void)unused;
    for (int n = 0; n < ROUNDS; n++) {
        struct timespec end = after_ms(CLOCK_REALTIME, 60000), end_monotonic = after_ms(CLOCK_MONOTONIC, 60000);
        if (n % 4 == 1)
            while (pthread_mutex_trylock(&plain))
                sched_yield();
        else if (n % 4 == 2)
            check(!pthread_mutex_timedlock(&plain, &end), "timedlock");
        else if (n % 4 == 3)
            check(!pthread_mutex_clocklock(&plain, CLOCK_MONOTONIC, &end_monotonic), "clocklock");
        else
            check(!pthread_mutex_lock(&plain), "lock");
        of_plain++;
        // Several at once, released in another order.
        check(!pthread_mutex_lock(&adaptive), "lock of an adaptive one");
        of_adaptive++;
        check(!pthread_mutex_lock(&recursive) && !pthread_mutex_lock(&recursive), "a recursive one taken twice");
        of_recursive++;
        check(!pthread_mutex_unlock(&plain), "unlock");
        check(!pthread_mutex_unlock(&recursive) && !pthread_mutex_unlock(&recursive), "a recursive one released twice");
        check(!pthread_mutex_unlock(&adaptive), "unlock of an adaptive one");
    }
    return NULL;
}

static void check_exclusion(void) {
    together(add);
    check(of_plain == THREADS * ROUNDS && of_adaptive == THREADS * ROUNDS && of_recursive == THREADS * ROUNDS, "additions are lost");
    puts("exclusion");
}

// ---- what each kind promises -----------------------------------------------------------------------------------------

static void *lock_and_die(void *mutex) {
    (void)pthread_mutex_lock(mutex);
    return NULL;
}

static void *attempt(void *mutex) { return (void *)(intptr_t)pthread_mutex_trylock(mutex); }

static int by_another(void *(*run)(void *), pthread_mutex_t *mutex) {
    pthread_t other;
    void *result;
    check(!pthread_create(&other, NULL, run, mutex), "a thread cannot be started");
    (void)pthread_join(other, &result);
    return (int)(intptr_t)result;
}

static void check_kinds(void) {
    pthread_mutexattr_t attributes;
    pthread_mutex_t mutex;
    (void)pthread_mutexattr_init(&attributes);
    (void)pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    (void)pthread_mutex_init(&mutex, &attributes);
    check(pthread_mutex_unlock(&mutex) == EPERM, "an error-checking one that is free is released");
    check(!pthread_mutex_lock(&mutex) && pthread_mutex_lock(&mutex) == EDEADLK, "an error-checking one is taken twice");
    check(!pthread_mutex_unlock(&mutex) && !pthread_mutex_destroy(&mutex), "an error-checking one");

    (void)pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_NORMAL);
    (void)pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    (void)pthread_mutex_init(&mutex, &attributes);
    (void)by_another(lock_and_die, &mutex);
    check(pthread_mutex_lock(&mutex) == EOWNERDEAD, "the end of a robust one's owner is not told");
    check(!pthread_mutex_consistent(&mutex) && !pthread_mutex_unlock(&mutex) && !pthread_mutex_destroy(&mutex), "a robust one");

    (void)pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_STALLED);
    (void)pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    (void)pthread_mutex_init(&mutex, &attributes);
    check(!pthread_mutex_lock(&mutex) && by_another(attempt, &mutex) == EBUSY, "one with priority inheritance");
    check(!pthread_mutex_unlock(&mutex) && !pthread_mutex_destroy(&mutex), "one with priority inheritance");
    (void)pthread_mutexattr_destroy(&attributes);

    struct timespec soon = after_ms(CLOCK_REALTIME, 20), wrong = {0, 1000000000};
    (void)pthread_mutex_init(&mutex, NULL);
    check(!pthread_mutex_lock(&mutex), "lock");
    check(by_another(attempt, &mutex) == EBUSY, "an attempt at a held one succeeds");
    check(pthread_mutex_timedlock(&mutex, &soon) == ETIMEDOUT, "it is had although it is held");
    check(pthread_mutex_timedlock(&mutex, &wrong) == EINVAL, "a time that is none");
    check(pthread_mutex_destroy(&mutex) == EBUSY, "a held one is destroyed");
    check(!pthread_mutex_unlock(&mutex) && !by_another(lock_and_die, &mutex), "unlock");
    puts("kinds");
}

// ---- conditions ------------------------------------------------------------------------------------------------------

// A bounded buffer, smaller than its users are many: every signal counts.
static pthread_mutex_t buffer = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static int filled, producers;
static long produced, consumed;

static void *exchange(void *unused) {
    (void)unused;
    (void)pthread_mutex_lock(&buffer);
    bool produces = producers++ % 2 == 0;
    (void)pthread_mutex_unlock(&buffer);
    for (int n = 0; n < 10 * ROUNDS; n++) {
        (void)pthread_mutex_lock(&buffer);
        if (produces) {
            while (filled == PLACES)
                check(!pthread_cond_wait(&not_full, &buffer), "wait");
            filled++;
            produced++;
            (void)pthread_cond_signal(&not_empty);
            (void)pthread_mutex_unlock(&buffer);
        } else {
            while (!filled) {
                struct timespec end = after_ms(CLOCK_REALTIME, 60000), end_monotonic = after_ms(CLOCK_MONOTONIC, 60000);
                int error = n % 3 == 0   ? pthread_cond_wait(&not_empty, &buffer)
                            : n % 3 == 1 ? pthread_cond_timedwait(&not_empty, &buffer, &end)
                                         : pthread_cond_clockwait(&not_empty, &buffer, CLOCK_MONOTONIC, &end_monotonic);
                check(!error, "a signal is lost");
            }
            filled--;
            consumed++;
            (void)pthread_mutex_unlock(&buffer);
            // After the release, as is allowed.
            (void)pthread_cond_signal(&not_full);
        }
    }
    return NULL;
}

// Two and two in turn, by one signal each, which comes as soon as the waiter has released the mutex: a lost one stops both.
static pthread_cond_t of_turn[THREADS];
static int turns[THREADS / 2], next_number;

static void *take_turns(void *unused) {
    (void)unused;
    (void)pthread_mutex_lock(&buffer);
    int number = next_number++, *turn = &turns[number / 2];
    for (int n = 0; n < 2 * ROUNDS; n++) {
        while (*turn != number % 2)
            (void)pthread_cond_wait(&of_turn[number], &buffer);
        *turn = !*turn;
        (void)pthread_cond_signal(&of_turn[number ^ 1]);
        if (n % 2) {
            (void)pthread_mutex_unlock(&buffer);
            (void)pthread_mutex_lock(&buffer);
        }
    }
    (void)pthread_mutex_unlock(&buffer);
    return NULL;
}

static bool is_cleaned;
static void clean(void *unused) {
    (void)unused;
    is_cleaned = true;
    // The handler has the mutex.
    check(by_another(attempt, &buffer) == EBUSY, "a cancelled wait ends without the mutex");
    (void)pthread_mutex_unlock(&buffer);
}
static void *wait_for_ever(void *started) {
    (void)pthread_mutex_lock(&buffer);
    pthread_cleanup_push(clean, NULL);
    *(volatile bool *)started = true;
    for (;;)
        (void)pthread_cond_wait(&not_empty, &buffer);
    pthread_cleanup_pop(0);
    return NULL;
}

static void check_conditions(void) {
    together(exchange);
    check(produced == consumed && produced == THREADS / 2 * 10L * ROUNDS && !filled, "something of the buffer is lost");
    for (int n = 0; n < THREADS; n++)
        (void)pthread_cond_init(&of_turn[n], NULL);
    together(take_turns);
    check(!turns[0] && !turns[1], "turns are lost");
    struct timespec past = {1, 0};
    (void)pthread_mutex_lock(&buffer);
    check(pthread_cond_timedwait(&not_empty, &buffer, &past) == ETIMEDOUT, "a wait whose time is over");
    check(by_another(attempt, &buffer) == EBUSY, "a wait whose time is over ends without the mutex");
    (void)pthread_mutex_unlock(&buffer);
    pthread_t waiter;
    static volatile bool started;
    (void)pthread_create(&waiter, NULL, wait_for_ever, (void *)&started);
    while (!started)
        sched_yield();
    (void)pthread_mutex_lock(&buffer); // it waits by now
    (void)pthread_mutex_unlock(&buffer);
    (void)pthread_cancel(waiter);
    (void)pthread_join(waiter, NULL);
    check(is_cleaned && !pthread_mutex_trylock(&buffer) && !pthread_mutex_unlock(&buffer), "a cancelled wait");
    puts("conditions");
}

// ---- processes and memory --------------------------------------------------------------------------------------------

static void *lock_once(void *mutex) {
    (void)pthread_mutex_lock(mutex);
    (void)pthread_mutex_unlock(mutex);
    return NULL;
}

// The child goes on with what its one thread held, though the waiters have stayed behind.
static void check_fork(void) {
    pthread_t waiters[THREADS];
    fflush(stdout);
    (void)pthread_mutex_lock(&plain);
    for (int n = 0; n < THREADS; n++)
        (void)pthread_create(&waiters[n], NULL, lock_once, &plain);
    (void)usleep(20000); // some wait by then
    pid_t child = fork();
    (void)pthread_mutex_unlock(&plain);
    if (!child) {
        alarm(20);
        (void)lock_once(&plain);
        (void)by_another(lock_once, &plain);
        _exit(7);
    }
    int status;
    (void)waitpid(child, &status, 0);
    for (int n = 0; n < THREADS; n++)
        (void)pthread_join(waiters[n], NULL);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a child of a fork hangs at a mutex that it held");

    pthread_mutexattr_t attributes;
    struct {
        pthread_mutex_t mutex;
        long value;
    } *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)pthread_mutexattr_init(&attributes);
    (void)pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    (void)pthread_mutex_init(&shared->mutex, &attributes);
    child = fork();
    for (int n = 0; n < ROUNDS; n++) {
        (void)pthread_mutex_lock(&shared->mutex);
        ++*(volatile long *)&shared->value;
        (void)pthread_mutex_unlock(&shared->mutex);
    }
    if (!child)
        _exit(0);
    (void)waitpid(child, &status, 0);
    check(shared->value == 2 * ROUNDS, "processes that share a mutex are in the section at once");
    puts("processes");
}

// Many mutexes, of which some get the memory of others, without init and destroy as C++ has it; and many threads.
static void check_memory(void) {
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    struct {
        pthread_mutex_t mutex;
        char rest[24];
    } *many = calloc(1000, sizeof *many), *moved;
    for (int round = 0; round < 50; round++)
        for (int n = 0; n < 1000; n++) {
            many[n].mutex = fresh;
            (void)lock_once(&many[n].mutex);
        }
    // A copy of a free mutex is a mutex of its own.
    moved = calloc(1000, sizeof *moved);
    memcpy(moved, many, 1000 * sizeof *moved);
    (void)pthread_mutex_lock(&many[5].mutex);
    check(!pthread_mutex_trylock(&moved[5].mutex), "a copied mutex is the one that it is a copy of");
    (void)pthread_mutex_unlock(&moved[5].mutex);
    (void)pthread_mutex_unlock(&many[5].mutex);
    for (int n = 0; n < 1000; n++)
        check(!pthread_mutex_destroy(&many[n].mutex), "destroy");
    for (int n = 0; n < 300; n++)
        (void)by_another(lock_once, &plain);
    free(many);
    free(moved);
    puts("memory");
}

int main(void) {
    alarm(SECONDS_AT_MOST);
    check_exclusion();
    check_kinds();
    check_conditions();
    check_fork();
    check_memory();
    return 0;
}
