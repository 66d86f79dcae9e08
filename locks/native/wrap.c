// Puts a lock of locks/ under the mutexes of a program that knows nothing of it: preloaded, it takes the place of the pthread
// mutex and condition variable functions of glibc.
//
// A mutex that is private, normal or adaptive, not robust and without a priority protocol gets a lock of ours, its shadow; `lock`
// below says where. All others stay with the C library: recursive and error-checking ones, whose owner it keeps; robust and
// process-shared ones, which outlive a process; those with a priority protocol.
//
//     pthread_cond_wait on a mutex of ours          a signal between the two must not be lost, so
//       entering = 1                                  the waiter holds a mutex of the C library, the companion, from before it
//       companion.lock                                releases the lock until it is in the condition's queue, and whoever
//       lock.release                                  acquires the lock in between and finds `entering` first takes and
//       real pthread_cond_wait(companion)             releases the companion: by then the waiter is in the queue. Nobody
//       companion.unlock                              waits for the lock while holding the companion, so there is no deadlock.
//       lock.acquire
//
// Memory is mapped, never allocated: the allocator may itself use mutexes. With -DPROBES=1 statistics are kept, those of
// private mutexes that stay with the C library too.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// By the system call: the C library's function is a place where threads are cancelled, and an acquire is none.
static inline void sleep_ns(long ns) {
    struct timespec time = {0, ns};
    (void)syscall(SYS_nanosleep, &time, NULL);
}

// A waiter of a real-time policy that yields lets nobody of a lower priority run, such as the holder; so it sleeps now and then.
static inline int give_way(void) {
    enum { TIMES = 16, SLEEP_NS = 50000 };
    static __thread unsigned calls;
    if (++calls % TIMES == 0) {
        int policy = sched_getscheduler(0);
        if (policy == SCHED_FIFO || policy == SCHED_RR) {
            sleep_ns(SLEEP_NS);
            return 0;
        }
    }
    return sched_yield();
}
#define sched_yield give_way // in wait.h

#include "wrap_statistics.h"

#include "wrap_locks.h"

#if !defined(__GLIBC__)
#error "it needs the C library glibc, whose mutexes it looks into"
#endif

// Bits of a mutex's kind (glibc's pthreadP.h): its type, and what keeps it with the C library.
#define KIND_TYPE 3
#define KIND_ROBUST 16
#define KIND_PROTOCOL (32 | 64)
#define KIND_SHARED 128

struct shadow {
    wrapped_lock lock;
    LOITER_ALIGNED pthread_mutex_t companion;
    pthread_mutex_t *mutex;
    uint32_t entering; // by the holder: a waiter may not be in the condition's queue yet
    uint32_t holder;   // its number + 1; 0: free
    uint32_t depth;    // of a recursive mutex of the C library
    bool is_left;
    uint64_t class_number;
    struct lock_state state;
    struct shadow *next; // of its bucket, or free
};

static struct {
    int (*init)(pthread_mutex_t *, const pthread_mutexattr_t *);
    int (*destroy)(pthread_mutex_t *);
    int (*lock)(pthread_mutex_t *);
    int (*trylock)(pthread_mutex_t *);
    int (*timedlock)(pthread_mutex_t *, const struct timespec *);
    int (*clocklock)(pthread_mutex_t *, clockid_t, const struct timespec *);
    int (*unlock)(pthread_mutex_t *);
    int (*wait)(pthread_cond_t *, pthread_mutex_t *);
    int (*timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    int (*clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
} real;

// ---- this thread -----------------------------------------------------------------------------------------------------

static __thread struct own_thread own __attribute__((tls_model("initial-exec")));
static pthread_key_t end_of_thread;
static uint32_t is_ready;

static void give_number_back(void *unused) {
    (void)unused;
    own.has_number = false;
    give_slot_back(own.number);
}

static uint32_t own_number(void) {
    if (!own.has_number) {
        own.number = take_slot();
        own.has_number = true;
        // Any value but NULL calls the destructor.
        if (is_ready)
            (void)pthread_setspecific(end_of_thread, &own);
    }
    return own.number;
}

// ---- begin and fork --------------------------------------------------------------------------------------------------

static void *find(const char *name, const char *version) {
    // glibc has condition variables twice; the older ones are those without a version here.
    void *found = version ? dlvsym(RTLD_NEXT, name, version) : NULL;
    return found ? found : dlsym(RTLD_NEXT, name);
}

static void find_real(void) {
    *(void **)&real.init = find("pthread_mutex_init", NULL);
    *(void **)&real.destroy = find("pthread_mutex_destroy", NULL);
    *(void **)&real.trylock = find("pthread_mutex_trylock", NULL);
    *(void **)&real.timedlock = find("pthread_mutex_timedlock", NULL);
    *(void **)&real.clocklock = find("pthread_mutex_clocklock", NULL);
    *(void **)&real.unlock = find("pthread_mutex_unlock", NULL);
    *(void **)&real.wait = find("pthread_cond_wait", "GLIBC_2.3.2");
    *(void **)&real.timedwait = find("pthread_cond_timedwait", "GLIBC_2.3.2");
    *(void **)&real.clockwait = find("pthread_cond_clockwait", NULL);
    *(void **)&real.lock = find("pthread_mutex_lock", NULL);
    if (!real.lock || !real.wait)
        end_with(FAILED, "loiter native wrap: the C library's mutexes are not to be found");
}

// Another library's constructor may call us before ours, with one thread.
static void begin(void) {
    if (real.lock)
        return;
    find_real();
    begin_statistics(getenv("LOITER_WRAP_STATISTICS"));
}

static void before_fork(void);
static void after_fork_in_parent(void);
static void after_fork_in_child(void);

__attribute__((constructor)) static void begin_early(void) {
    begin();
    if (pthread_key_create(&end_of_thread, give_number_back) == 0)
        is_ready = 1;
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

// ---- shadows ---------------------------------------------------------------------------------------------------------

enum { BUCKETS = 1 << 16, CHUNK_BYTES = 1 << 20 };

// Under one lock, which only who makes or ends a shadow takes.
static struct {
    struct loiter_spin_then_park lock;
    struct shadow *of[BUCKETS]; // by address of the mutex
    struct shadow *free;
    char *next, *end;
} shadows;

static void enter_shadows(void) {
    static const struct loiter_policy policy = {LOITER_PAUSE, 1, 0, 0};
    loiter_spin_then_park_acquire(&shadows.lock, &policy, 100);
}
static void leave_shadows(void) { loiter_spin_then_park_release(&shadows.lock); }

static struct shadow **bucket_of(const pthread_mutex_t *mutex) {
    return &shadows.of[((uintptr_t)mutex >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 48];
}

static struct shadow *new_shadow(void) {
    struct shadow *found = shadows.free;
    if (found) {
        shadows.free = found->next;
        return found;
    }
    if (shadows.end - shadows.next < (ptrdiff_t)sizeof *found) {
        shadows.next = mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (shadows.next == (char *)MAP_FAILED)
            end_with(FAILED, "loiter native wrap: no memory for a lock");
        shadows.end = shadows.next + CHUNK_BYTES;
    }
    found = (struct shadow *)(void *)shadows.next;
    shadows.next += sizeof *found;
    return found;
}

static bool is_private(int kind) { return !(kind & (KIND_ROBUST | KIND_SHARED)); }
static bool is_ours(int kind) {
    int type = kind & KIND_TYPE;
    return is_private(kind) && !(kind & KIND_PROTOCOL) && (type == PTHREAD_MUTEX_TIMED_NP || type == PTHREAD_MUTEX_ADAPTIVE_NP);
}

// Where a mutex keeps its shadow: a link that glibc uses for robust mutexes alone, and that is NULL in a new one.
static struct shadow **place_of_shadow(pthread_mutex_t *mutex) {
    return (struct shadow **)(void *)&mutex->__data.__list.__next;
}

// The one that an earlier mutex at the same address had: C++ makes and ends its mutexes without a word.
static struct shadow *earlier_shadow(const pthread_mutex_t *mutex) {
    struct shadow *found = *bucket_of(mutex);
    while (found && found->mutex != mutex)
        found = found->next;
    return found;
}

static __attribute__((noinline)) struct shadow *make_shadow(pthread_mutex_t *mutex, const void *site) {
    bool is_left = !is_ours(mutex->__data.__kind);
    uint64_t class_number = class_of(site, is_left); // before: it asks the dynamic linker, which may wait for us
    enter_shadows();
    struct shadow *made = *place_of_shadow(mutex);
    if (!made || made->mutex != mutex) {
        made = earlier_shadow(mutex);
        struct shadow *next = made ? made->next : *bucket_of(mutex);
        if (!made)
            *bucket_of(mutex) = made = new_shadow();
        memset(made, 0, sizeof *made);
        wrapped_init(&made->lock);
        made->mutex = mutex;
        made->is_left = is_left;
        made->class_number = class_number;
        made->next = next;
        (void)__atomic_fetch_add(&statistics->classes[class_number].mutexes, 1, __ATOMIC_RELAXED);
        // Release: who finds it finds it set up.
        __atomic_store_n(place_of_shadow(mutex), made, __ATOMIC_RELEASE);
    }
    leave_shadows();
    return made;
}

static void end_shadow(struct shadow *shadow) {
    enter_shadows();
    struct shadow **place = bucket_of(shadow->mutex);
    while (*place != shadow)
        place = &(*place)->next;
    *place = shadow->next;
    shadow->next = shadows.free;
    shadows.free = shadow;
    leave_shadows();
}

// The shadow that the mutex has; NULL: none, or a copy of another's.
static inline struct shadow *known_shadow(pthread_mutex_t *mutex) {
    struct shadow *shadow = __atomic_load_n(place_of_shadow(mutex), __ATOMIC_ACQUIRE);
    return shadow && shadow->mutex == mutex ? shadow : NULL;
}

// The shadow of a mutex; NULL if it is none of our business.
static inline struct shadow *shadow_of(pthread_mutex_t *mutex, const void *site) {
    begin();
    int kind = mutex->__data.__kind;
    if (!(PROBES ? is_private(kind) : is_ours(kind)))
        return NULL;
    struct shadow *shadow = known_shadow(mutex);
    return shadow ? shadow : make_shadow(mutex, site);
}

// ---- fork ------------------------------------------------------------------------------------------------------------

static void before_fork(void) { enter_shadows(); }
static void after_fork_in_parent(void) { leave_shadows(); }

// The child has a file of its own, and the rows of its one thread begin again. Waiters have stayed in the parent, so the queues
// of the locks that the thread holds are made anew; what others held stays so, as the C library has it.
static void after_fork_in_child(void) {
    restart_statistics();
    leave_shadows();
    if (!own.has_number)
        return;
    slots_taken[own.number] = 1;
    for (size_t bucket = 0; bucket < BUCKETS; bucket++)
        for (struct shadow *shadow = shadows.of[bucket]; shadow; shadow = shadow->next)
            if (!shadow->is_left && shadow->holder == own.number + 1)
                wrapped_hold_alone(&shadow->lock, own.number);
}

// ---- statistics of a shadow ------------------------------------------------------------------------------------------

static inline struct lock_attempt attempt_begins(const struct shadow *shadow) {
    return PROBES ? begin_acquire(&shadow->state) : (struct lock_attempt){0, false};
}

static inline void is_acquired(struct shadow *shadow, struct lock_attempt attempt) {
    if (PROBES)
        end_acquire(&shadow->state, use_of(own_number(), shadow->class_number), attempt, own_number());
}

static inline void is_released(struct shadow *shadow) {
    if (PROBES)
        begin_release(&shadow->state, use_of(own_number(), shadow->class_number));
}

// Of a mutex that the C library keeps; only the outermost acquire of a recursive one counts.
static inline bool is_again(const struct shadow *shadow) {
    return LOITER_LOAD(&shadow->state.holder, __ATOMIC_RELAXED) == own_number() + 1;
}

static int left_acquired(struct shadow *shadow, struct lock_attempt attempt, int error) {
    if (error && error != EOWNERDEAD)
        return error;
    if (is_again(shadow))
        shadow->depth++;
    else
        is_acquired(shadow, attempt);
    return error;
}

// ---- mutexes ---------------------------------------------------------------------------------------------------------

static inline void acquired(struct shadow *shadow, struct lock_attempt attempt) {
    __atomic_store_n(&shadow->holder, own_number() + 1, __ATOMIC_RELAXED);
    if (shadow->entering) {
        (void)real.lock(&shadow->companion);
        shadow->entering = 0;
        (void)real.unlock(&shadow->companion);
    }
    is_acquired(shadow, attempt);
}

static inline void acquire(struct shadow *shadow) {
    struct lock_attempt attempt = attempt_begins(shadow);
    wrapped_acquire(&shadow->lock, own_number());
    acquired(shadow, attempt);
}

static inline bool try_acquire(struct shadow *shadow) {
    struct lock_attempt attempt = attempt_begins(shadow);
    if (!wrapped_try_acquire(&shadow->lock))
        return false;
    acquired(shadow, attempt);
    return true;
}

static inline void release(struct shadow *shadow) {
    is_released(shadow);
    __atomic_store_n(&shadow->holder, 0, __ATOMIC_RELAXED);
    wrapped_release(&shadow->lock);
}

// Attempts until then: the queue of most locks cannot be left.
static int acquire_until(struct shadow *shadow, clockid_t clock, const struct timespec *end) {
    struct timespec now;
    long nap_ns = 1000;
    if (try_acquire(shadow))
        return 0;
    if (end->tv_nsec < 0 || end->tv_nsec >= 1000000000)
        return EINVAL;
    struct lock_attempt attempt = attempt_begins(shadow);
    for (;;) {
        if (wrapped_try_acquire(&shadow->lock)) {
            acquired(shadow, attempt);
            return 0;
        }
        (void)clock_gettime(clock, &now);
        if (now.tv_sec > end->tv_sec || (now.tv_sec == end->tv_sec && now.tv_nsec >= end->tv_nsec))
            return ETIMEDOUT;
        sleep_ns(nap_ns);
        nap_ns = nap_ns < 500000 ? 2 * nap_ns : 1000000;
    }
}

#define EXPORTED __attribute__((visibility("default")))
#define HERE __builtin_return_address(0)

EXPORTED int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes) {
    begin();
    int error = real.init(mutex, attributes);
    if (!error && is_private(mutex->__data.__kind))
        *place_of_shadow(mutex) = NULL;
    if (!error)
        (void)shadow_of(mutex, HERE);
    return error;
}

EXPORTED int pthread_mutex_destroy(pthread_mutex_t *mutex) {
    begin();
    struct shadow *shadow = is_private(mutex->__data.__kind) ? known_shadow(mutex) : NULL;
    if (shadow && !shadow->is_left && __atomic_load_n(&shadow->holder, __ATOMIC_RELAXED))
        return EBUSY;
    int error = real.destroy(mutex);
    if (!error && shadow) {
        *place_of_shadow(mutex) = NULL;
        end_shadow(shadow);
    }
    return error;
}

EXPORTED int pthread_mutex_lock(pthread_mutex_t *mutex) {
    struct shadow *shadow = shadow_of(mutex, HERE);
    if (!shadow)
        return real.lock(mutex);
    if (shadow->is_left) {
        struct lock_attempt attempt = attempt_begins(shadow);
        return left_acquired(shadow, attempt, real.lock(mutex));
    }
    acquire(shadow);
    return 0;
}

EXPORTED int pthread_mutex_trylock(pthread_mutex_t *mutex) {
    struct shadow *shadow = shadow_of(mutex, HERE);
    if (!shadow)
        return real.trylock(mutex);
    if (shadow->is_left) {
        struct lock_attempt attempt = attempt_begins(shadow);
        return left_acquired(shadow, attempt, real.trylock(mutex));
    }
    return try_acquire(shadow) ? 0 : EBUSY;
}

EXPORTED int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *end) {
    struct shadow *shadow = shadow_of(mutex, HERE);
    if (!shadow)
        return real.timedlock(mutex, end);
    if (shadow->is_left) {
        struct lock_attempt attempt = attempt_begins(shadow);
        return left_acquired(shadow, attempt, real.timedlock(mutex, end));
    }
    return acquire_until(shadow, CLOCK_REALTIME, end);
}

EXPORTED int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *end) {
    struct shadow *shadow = shadow_of(mutex, HERE);
    if (!shadow)
        return real.clocklock(mutex, clock, end);
    if (shadow->is_left) {
        struct lock_attempt attempt = attempt_begins(shadow);
        return left_acquired(shadow, attempt, real.clocklock(mutex, clock, end));
    }
    if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
        return EINVAL;
    return acquire_until(shadow, clock, end);
}

EXPORTED int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    struct shadow *shadow = shadow_of(mutex, HERE);
    if (!shadow)
        return real.unlock(mutex);
    if (shadow->is_left) {
        if (is_again(shadow) && !shadow->depth)
            is_released(shadow);
        else if (is_again(shadow))
            shadow->depth--;
        return real.unlock(mutex);
    }
    release(shadow);
    return 0;
}

// ---- condition variables ---------------------------------------------------------------------------------------------

// A cancelled wait ends with the companion held; the program's handlers expect the mutex.
static void end_wait(void *argument) {
    struct shadow *shadow = argument;
    (void)real.unlock(&shadow->companion);
    acquire(shadow);
}

static void begin_wait(struct shadow *shadow) {
    (void)real.lock(&shadow->companion);
    shadow->entering = 1;
    release(shadow);
}

// `wait` waits on the companion, and sets `error`.
#define WAIT_BY(shadow, error, wait)                                                                                   \
    do {                                                                                                               \
        begin_wait(shadow);                                                                                            \
        pthread_cleanup_push(end_wait, shadow);                                                                        \
        (error) = (wait);                                                                                              \
        pthread_cleanup_pop(1);                                                                                        \
    } while (0)

// The C library waits on a mutex that it keeps; its section ends and begins meanwhile.
#define WAIT_LEFT(shadow, error, wait)                                                                                 \
    do {                                                                                                               \
        bool counts = (shadow) && is_again(shadow) && !(shadow)->depth;                                                \
        if (counts)                                                                                                    \
            is_released(shadow);                                                                                       \
        (error) = (wait);                                                                                              \
        if (counts)                                                                                                    \
            is_acquired(shadow, attempt_begins(shadow));                                                               \
    } while (0)

EXPORTED int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    struct shadow *shadow = shadow_of(mutex, HERE);
    int error;
    if (shadow && !shadow->is_left)
        WAIT_BY(shadow, error, real.wait(condition, &shadow->companion));
    else
        WAIT_LEFT(shadow, error, real.wait(condition, mutex));
    return error;
}

EXPORTED int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *end) {
    struct shadow *shadow = shadow_of(mutex, HERE);
    int error;
    if (shadow && !shadow->is_left)
        WAIT_BY(shadow, error, real.timedwait(condition, &shadow->companion, end));
    else
        WAIT_LEFT(shadow, error, real.timedwait(condition, mutex, end));
    return error;
}

EXPORTED int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                                    const struct timespec *end) {
    struct shadow *shadow = shadow_of(mutex, HERE);
    int error;
    if (shadow && !shadow->is_left)
        WAIT_BY(shadow, error, real.clockwait(condition, &shadow->companion, clock, end));
    else
        WAIT_LEFT(shadow, error, real.clockwait(condition, mutex, clock, end));
    return error;
}
