// Threads contend for one lock on this machine: the loop of contention.h, which the guest program `locks` has too.
//
//     contend LOCK cpus=0,1,-1 places=0,0,0 key=value ...         prints JSON; a CPU of -1 is the scheduler's choice
//     contend --list                                              the locks, and whether their waiters may park
//
// Keys are those of `numbers` below, and energy=FILE,FILE: counters in microjoules. How threads wait is compiled in, as in a
// program whose policy is constant: -DCONTENTION_METHOD=LOITER_..., -DCONTENTION_REPEAT=, -DCONTENTION_PATIENCE=. With
// -DPROBES=1 the lock's statistics are counted. With -DPEERS='"peers/NAME.h"' the locks are those of another library, which wait
// as they do: it has functions init_NAME(threads), acquire_NAME(thread, policy) and release_NAME(thread, policy) for each, and
// lists them in PEERS_LOCKS(PEER).
#define _GNU_SOURCE
#include <sys/resource.h>

#include "counters.h"
#include "probes.h"

#define KINDS_THREADS 1024
#define KINDS_PLACES 64
#define KINDS_PLACE_OF(thread) place_of_threads[thread]
static unsigned place_of_threads[KINDS_THREADS];

// ---- what contention.h needs -----------------------------------------------------------------------------------------

static struct lock_state watched;
static __thread struct {
    struct lock_use *use;
    struct lock_attempt attempt;
    uint32_t number;
} probing;

LOITER_INLINE uint64_t loiter_cycles(void) { return loiter_ticks(); }
LOITER_INLINE void loiter_lock_acquire(const void *lock) {
    (void)lock;
    if (PROBES)
        probing.attempt = begin_acquire(&watched);
}
LOITER_INLINE void loiter_lock_acquired(const void *lock) {
    (void)lock;
    if (PROBES)
        end_acquire(&watched, probing.use, probing.attempt, probing.number);
}
LOITER_INLINE void loiter_lock_released(const void *lock) {
    (void)lock;
    if (PROBES)
        begin_release(&watched, probing.use);
}
#define loiter_fail(...) end_with(FAILED, __VA_ARGS__)
#ifndef CONTENTION_METHOD
#define CONTENTION_METHOD LOITER_PAUSE
#endif
#ifndef CONTENTION_REPEAT
#define CONTENTION_REPEAT 1
#endif
#ifndef CONTENTION_PATIENCE
#define CONTENTION_PATIENCE 0
#endif

#include "contention.h"

// ---- the locks -------------------------------------------------------------------------------------------------------

struct contended {
    const char *name;
    unsigned flags;
    void (*init)(unsigned threads);
    void (*contend)(struct thread *thread);
};

#ifdef PEERS
#include PEERS
#define DEFINE_PEER(name)                                                                                              \
    static __attribute__((noinline, flatten)) void contend_for_##name(struct thread *thread) {                         \
        loop(thread, &watched, NULL, acquire_##name, release_##name, NULL, NULL);                                        \
    }
#define LIST_PEER(name) {#name, FIXED, init_##name, contend_for_##name},
PEERS_LOCKS(DEFINE_PEER)
static const struct contended locks[] = {PEERS_LOCKS(LIST_PEER){NULL, 0, NULL, NULL}};
#else
// Locks that need a kernel.
#define SYSTEM_LOCKS(PLAIN) PLAIN(spin_then_park, spin_then_park, spin_then_park, acquire_spin_then_park, 0)
#define LIST_PLAIN(name, memory, kind, way, parks) {#name, parks, init_##kind, contend_for_##name},
#define LIST_BACKING_OFF(name, kind, way) {#name, DELAYS, init_##kind, contend_for_##name},
#define LIST_SHARED(name, parks) {#name, parks, init_##name, contend_for_##name},
CONTENTION_LOCKS(CONTENTION_PLAIN, CONTENTION_BACKING_OFF, CONTENTION_SHARED)
SYSTEM_LOCKS(CONTENTION_PLAIN)
static const struct contended locks[] = {CONTENTION_LOCKS(LIST_PLAIN, LIST_BACKING_OFF, LIST_SHARED)
                                             SYSTEM_LOCKS(LIST_PLAIN){NULL, 0, NULL, NULL}};
#endif

// ---- options of the command line ------------------------------------------------------------------------------------

enum { LIMIT, HOLD, THINK, LINES, CYCLES, SEED, STEP, NUMBERS };
static struct {
    const char *key;
    uint64_t value, least, most;
} numbers[NUMBERS] = {
    [LIMIT] = {"limit", 1024, 0, UINT32_MAX},
    [HOLD] = {"hold", 100, 0, UINT32_MAX},       // ticks of work in the section, of a thread that is alone
    [THINK] = {"think", 500, 0, UINT32_MAX},     // mean ticks of work outside, from none to twice as many
    [LINES] = {"lines", 1, 0, MOST_LINES},
    [CYCLES] = {"cycles", 200000000, 1, UINT64_MAX / 2}, // ticks after which a thread acquires no more
    [SEED] = {"seed", 1, 0, UINT32_MAX},
    [STEP] = {"step", 0, 0, UINT32_MAX}, // ticks of STEPS steps of work; 0: measured
};
static char *energy_files; // with commas between
static unsigned thread_count;
static int cpu_of[KINDS_THREADS];

static unsigned list(const char *text, int *values, const char *what) {
    unsigned count = 0;
    for (;;) {
        char *end;
        long value = strtol(text, &end, 10);
        if (end == text || (*end && *end != ',') || value < -1 || value > INT16_MAX)
            end_with(REFUSED, "%s: %s is no number from -1 to %d", what, text, INT16_MAX);
        if (count == KINDS_THREADS)
            end_with(REFUSED, "%s: there is room for %u threads", what, KINDS_THREADS);
        values[count++] = (int)value;
        if (!*end)
            return count;
        text = end + 1;
    }
}

static void read_word(char *word) {
    static int place_of_thread[KINDS_THREADS];
    char *value = strchr(word, '=');
    if (!value)
        end_with(REFUSED, "%s: expected key=value", word);
    *value++ = 0;
    if (!strcmp(word, "cpus")) {
        thread_count = list(value, cpu_of, word);
        return;
    }
    if (!strcmp(word, "places")) {
        unsigned count = list(value, place_of_thread, word);
        for (unsigned n = 0; n < count; n++)
            place_of_threads[n] = place_of_thread[n] < 0 ? 0 : (unsigned)place_of_thread[n] % KINDS_PLACES;
        return;
    }
    if (!strcmp(word, "energy")) {
        energy_files = value;
        return;
    }
    for (unsigned n = 0; n < NUMBERS; n++)
        if (!strcmp(word, numbers[n].key)) {
            numbers[n].value = number(value, numbers[n].least, numbers[n].most, word);
            return;
        }
    end_with(REFUSED, "unknown key %s", word);
}

static const struct contended *find_lock(const char *name) {
    for (const struct contended *lock = locks; lock->name; lock++)
        if (!strcmp(name, lock->name))
            return lock;
    end_with(REFUSED, "unknown lock %s", name);
}

// ---- the run ---------------------------------------------------------------------------------------------------------

static const struct contended *lock;
static pthread_barrier_t meeting;
static uint64_t until;

static struct LOITER_ALIGNED contender {
    struct thread thread;
    struct lock_use use;
    uint64_t switches;
    int64_t counted[COUNTERS]; // negative: refused
} *contenders;

static uint64_t switches(void) {
    struct rusage used;
    (void)getrusage(RUSAGE_THREAD, &used);
    return (uint64_t)used.ru_nvcsw + (uint64_t)used.ru_nivcsw;
}

static void *contend(void *argument) {
    struct contender *own = argument;
    int files[COUNTERS];
    for (size_t n = 0; n < COUNTERS; n++)
        files[n] = open_counter(n);
    probing.use = &own->use;
    probing.number = own->thread.number;
    // All are here; the main thread sets the end between the two.
    (void)pthread_barrier_wait(&meeting);
    (void)pthread_barrier_wait(&meeting);
    own->thread.until = until;
    for (size_t n = 0; n < COUNTERS; n++)
        if (files[n] >= 0)
            (void)ioctl(files[n], PERF_EVENT_IOC_ENABLE, 0);
    uint64_t before = switches();
    lock->contend(&own->thread);
    own->switches = switches() - before;
    for (size_t n = 0; n < COUNTERS; n++) {
        own->counted[n] = -1;
        if (files[n] >= 0) {
            (void)ioctl(files[n], PERF_EVENT_IOC_DISABLE, 0);
            if (read(files[n], &own->counted[n], sizeof own->counted[n]) != (ssize_t)sizeof own->counted[n])
                own->counted[n] = -1;
            (void)close(files[n]);
        }
    }
    return NULL;
}

enum { MOST_ENERGIES = 64 };
static uint64_t energies_uj[2][MOST_ENERGIES];
static unsigned energy_count;

// Reads all energy counters, at the beginning (0) or the end (1).
static void read_energy(int end) {
    char *files = energy_files ? strdup(energy_files) : NULL, *rest = files;
    energy_count = 0;
    for (char *path; files && energy_count < MOST_ENERGIES && (path = strsep(&rest, ",")) != NULL; energy_count++) {
        FILE *file = fopen(path, "r");
        unsigned long long value;
        if (!file || fscanf(file, "%llu", &value) != 1)
            end_with(FAILED, "%s: no energy can be read from it", path);
        energies_uj[end][energy_count] = value;
        (void)fclose(file);
    }
    free(files);
}

// The least of some measurements, on the first thread's CPU, spread over some time: all that disturbs makes it longer, a busy
// sibling for milliseconds on end.
static void *measure_steps(void *argument) {
    enum { TIMES = 150, APART_US = 300 };
    (void)argument;
    for (int round = 0; round < TIMES; round++) {
        (void)time_steps(); // brings the code
        uint64_t took = time_steps();
        step_cycles = round && step_cycles < took ? step_cycles : took;
        (void)usleep(APART_US);
    }
    return NULL;
}

static void print_run(uint64_t window_ns, uint64_t window_ticks) {
    uint64_t begun = UINT64_MAX, ended = 0;
    for (unsigned n = 0; n < thread_count; n++) {
        begun = contenders[n].thread.begun < begun ? contenders[n].thread.begun : begun;
        ended = contenders[n].thread.ended > ended ? contenders[n].thread.ended : ended;
    }
    printf("{\"cycles\": %llu, \"tick_rate_hz\": %.0f, \"step\": %llu, \"threads\": [", (unsigned long long)(ended - begun),
           1e9 * (double)window_ticks / (double)window_ns, (unsigned long long)step_cycles);
    for (unsigned n = 0; n < thread_count; n++) {
        const struct contender *own = &contenders[n];
        printf("%s\n  {\"hart\": %u, \"cpu\": %d, \"acquisitions\": %llu, \"switches\": %llu", n ? "," : "", n, cpu_of[n],
               (unsigned long long)own->thread.acquisitions, (unsigned long long)own->switches);
        for (size_t which = 0; which < COUNTERS; which++)
            if (own->counted[which] >= 0)
                printf(", \"%s\": %lld", counters[which].name, (long long)own->counted[which]);
        printf("}");
    }
    const struct loiter_policy policy = {CONTENTION_METHOD, 0, 0, 0};
    const char *fallback = loiter_fallback_once(&policy);
    printf("],\n \"fallback\": %s%s%s, \"energy_uj\": [", fallback ? "\"" : "", fallback ? fallback : "null", fallback ? "\"" : "");
    for (unsigned n = 0; n < energy_count; n++)
        printf("%s[%llu, %llu]", n ? ", " : "", (unsigned long long)energies_uj[0][n], (unsigned long long)energies_uj[1][n]);
    printf("],\n \"rows\": [");
    for (unsigned n = 0; PROBES && n < thread_count; n++) {
        fputs(n ? ",\n  " : "\n  ", stdout);
        print_lock_use(stdout, 0, 0, n, &contenders[n].use);
    }
    printf("]}\n");
}

int main(int count, char **words) {
    if (count == 2 && !strcmp(words[1], "--list")) {
        for (const struct contended *each = locks; each->name; each++)
            printf("%s\"%s\": {\"parks\": %s}", each == locks ? "{" : ", ", each->name, each->flags & PARKS ? "true" : "false");
        puts("}");
        return 0;
    }
    if (count < 3)
        end_with(REFUSED, "usage: %s LOCK cpus=0,1 key=value ...", words[0]);
    lock = find_lock(words[1]);
    for (int n = 2; n < count; n++)
        read_word(words[n]);
    if (!thread_count)
        end_with(REFUSED, "cpus= is missing");
    asked.method = CONTENTION_METHOD;
    asked.limit = (uint32_t)numbers[LIMIT].value;
    if (asked.method == LOITER_PARK && !(lock->flags & (PARKS | DELAYS | FIXED)))
        end_with(REFUSED, "%s: its waiters cannot park", lock->name);
    if (posix_memalign((void **)&contenders, LOITER_APART, thread_count * sizeof *contenders))
        end_with(FAILED, "no memory for %u threads", thread_count);
    memset(contenders, 0, thread_count * sizeof *contenders);
    step_cycles = numbers[STEP].value;
    if (!step_cycles)
        pthread_join(start_on(cpu_of[0], measure_steps, NULL), NULL);
    lock->init(thread_count);
    pthread_barrier_init(&meeting, NULL, thread_count + 1);
    uint64_t began_ns = loiter_now_ns(), began = loiter_ticks();
    static pthread_t threads[KINDS_THREADS];
    for (unsigned n = 0; n < thread_count; n++) {
        struct thread *own = &contenders[n].thread;
        own->number = n;
        own->hold_steps = steps_of(numbers[HOLD].value);
        own->think_steps = steps_of(numbers[THINK].value);
        own->lines = numbers[LINES].value;
        seed_thread(own, numbers[SEED].value, n);
        threads[n] = start_on(cpu_of[n], contend, &contenders[n]);
    }
    (void)pthread_barrier_wait(&meeting);
    read_energy(0);
    until = loiter_ticks() + numbers[CYCLES].value;
    (void)pthread_barrier_wait(&meeting);
    for (unsigned n = 0; n < thread_count; n++)
        pthread_join(threads[n], NULL);
    read_energy(1);
    uint64_t ended_ns = loiter_now_ns(), ended = loiter_ticks();
    for (unsigned n = 0; n < thread_count; n++)
        total += contenders[n].thread.acquisitions;
    check_section(numbers[LINES].value);
    print_run(ended_ns - began_ns, ended - began);
    return 0;
}
