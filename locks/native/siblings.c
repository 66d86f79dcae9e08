// What a waiter costs the program beside it, as JSON: programs that keep one part of a core busy, alone and beside each waiting
// method, in turn. They do what those of guests/programs/spinloops of the same names do.
//
//     siblings CPU,CPU FAR_BYTES       the program runs on the first CPU, the waiter on the second; l2_hit loads from FAR_BYTES
#define _GNU_SOURCE
#include "platform.h"

enum { ROUNDS = 9, TARGET_NS = 1000000, NEAR_BYTES = 4096, LINE_BYTES = 64 };

#define SIXTEEN(step) step step step step step step step step step step step step step step step step

// ---- programs: each step depends on the one before -----------------------------------------------------------------

static uint64_t do_add(uint64_t steps, void **at) {
    uint64_t value = 1, operand = 12345;
    (void)at;
    for (; steps; steps--) {
        SIXTEEN(value += operand; __asm__ volatile("" : "+r"(value));)
    }
    return value;
}

static uint64_t do_mulx(uint64_t steps, void **at) {
    uint64_t value = 1, operand = 0x10dcd;
    (void)at;
    for (; steps; steps--) {
        SIXTEEN(value *= operand; __asm__ volatile("" : "+r"(value));)
    }
    return value;
}

#if defined(__x86_64__)
#define JUMP "jmp 1f\n1:\n\t"
#elif defined(__aarch64__)
#define JUMP "b 1f\n1:\n\t"
#else
#define JUMP "j 1f\n1:\n\t"
#endif
static uint64_t do_baa(uint64_t steps, void **at) {
    (void)at;
    for (; steps; steps--)
        __asm__ volatile(SIXTEEN(JUMP) : : : "memory");
    return 0;
}

static uint64_t do_loads(uint64_t steps, void **at) {
    for (; steps; steps--) {
        SIXTEEN(at = *at; __asm__ volatile("" : "+r"(at));)
    }
    return (uint64_t)(uintptr_t)at;
}

// A cycle through all lines of `bytes`, in an order that a prefetcher does not know.
static void **make_chain(size_t bytes) {
    size_t count = bytes / LINE_BYTES;
    char *memory = NULL;
    uint32_t *order = calloc(count, sizeof *order);
    if (count < 2 || !order || posix_memalign((void **)&memory, 4096, bytes))
        end_with(FAILED, "no memory for %zu bytes of loads", bytes);
    uint64_t random = 88172645463325252u;
    for (size_t n = 0; n < count; n++)
        order[n] = (uint32_t)n;
    for (size_t n = count - 1; n; n--) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        size_t other = random % n; // Sattolo's: one cycle
        uint32_t kept = order[n];
        order[n] = order[other], order[other] = kept;
    }
    for (size_t n = 0; n < count; n++)
        *(void **)(void *)(memory + n * LINE_BYTES) = memory + (size_t)order[n] * LINE_BYTES;
    free(order);
    return (void **)(void *)memory;
}

static struct program {
    const char *name;
    uint64_t (*run)(uint64_t steps, void **at);
    void **chain;
    uint64_t steps;
} programs[] = {
    {"add", do_add, NULL, 0},
    {"mulx", do_mulx, NULL, 0},
    {"baa", do_baa, NULL, 0},
    {"l1_hit", do_loads, NULL, 0},
    {"l2_hit", do_loads, NULL, 0},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

// ---- waiters ---------------------------------------------------------------------------------------------------------

static const struct way {
    const char *name;
    struct loiter_policy policy;
} ways[] = {
    {"alone", {LOITER_SPIN, 0, 0, 0}}, // nobody waits
    {"spin", {LOITER_SPIN, 0, 0, 0}},
    {"pause", {LOITER_PAUSE, 1, 0, 0}},
    {"fence", {LOITER_FENCE, 1, 0, 0}},
    {"divide", {LOITER_DIVIDE, 1, 0, 0}},
    {"divide_doubles", {LOITER_FDIVIDE, 1, 0, 0}},
    {"compare_and_swap", {LOITER_CAS, 1, 0, 0}},
    {"back_off", {LOITER_BACK_OFF, 1, 1024, 0}},
    {"nap", {LOITER_NAP, 0, 0, 0}}, // left out where there is none
    {"yield", {LOITER_YIELD, 0, 0, 0}},
    {"park", {LOITER_PARK, 1, 0, 0}},
};
enum { WAYS = sizeof ways / sizeof *ways };

static LOITER_ALIGNED uint32_t awaited;
static LOITER_ALIGNED uint32_t waits;

// Each method has a loop of its own.
static void *wait_for_it(void *argument) {
    const struct way *way = argument;
    LOITER_STORE(&waits, 1, __ATOMIC_RELEASE);
    switch (way->policy.method) {
#define WAIT_BY(method, repeat, limit)                                                                                 \
    case method: {                                                                                                     \
        static const struct loiter_policy policy = {method, repeat, limit, 0};                                         \
        (void)loiter_wait_while(&policy, &awaited, 0);                                                                 \
        break;                                                                                                         \
    }
        WAIT_BY(LOITER_SPIN, 0, 0)
        WAIT_BY(LOITER_PAUSE, 1, 0)
        WAIT_BY(LOITER_FENCE, 1, 0)
        WAIT_BY(LOITER_DIVIDE, 1, 0)
        WAIT_BY(LOITER_FDIVIDE, 1, 0)
        WAIT_BY(LOITER_CAS, 1, 0)
        WAIT_BY(LOITER_BACK_OFF, 1, 1024)
        WAIT_BY(LOITER_NAP, 0, 0)
        WAIT_BY(LOITER_YIELD, 0, 0)
        WAIT_BY(LOITER_PARK, 1, 0)
    }
    return NULL;
}

static int cpus[2];
static double took_ns[PROGRAMS][WAYS][ROUNDS];

static uint64_t time_program(const struct program *program) {
    uint64_t begin = loiter_now_ns(), result = program->run(program->steps, program->chain);
    uint64_t took = loiter_now_ns() - begin;
    __asm__ volatile("" : : "r"(result));
    return took;
}

static void measure(size_t which, size_t how, size_t round) {
    pthread_t waiter;
    bool somebody = how != 0;
    awaited = waits = 0;
    if (somebody) {
        waiter = start_on(cpus[1], wait_for_it, (void *)(uintptr_t)&ways[how]);
        while (!LOITER_LOAD(&waits, __ATOMIC_ACQUIRE))
            loiter_pause();
    }
    (void)time_program(&programs[which]); // brings its lines back
    took_ns[which][how][round] = (double)time_program(&programs[which]);
    if (somebody) {
        loiter_end_wait(&ways[how].policy, &awaited, 1);
        pthread_join(waiter, NULL);
    }
}

static bool is_there(size_t how) { return ways[how].policy.method != LOITER_NAP || loiter_has_naps(); }

static void *measure_all(void *unused) {
    (void)unused;
    for (size_t which = 0; which < PROGRAMS; which++) {
        struct program *program = &programs[which];
        uint64_t took = 0;
        for (program->steps = 1000; took < TARGET_NS / 4; program->steps *= 2) {
            (void)time_program(program);
            took = time_program(program);
        }
        program->steps /= 2;
        program->steps = program->steps * TARGET_NS / took + 1;
    }
    for (size_t round = 0; round < ROUNDS; round++)
        for (size_t which = 0; which < PROGRAMS; which++)
            for (size_t how = 0; how < WAYS; how++)
                if (is_there(how))
                    measure(which, how, round);
    return NULL;
}

int main(int count, char **words) {
    char *comma = count == 3 ? strchr(words[1], ',') : NULL;
    if (!comma)
        end_with(REFUSED, "usage: %s CPU,CPU FAR_BYTES", words[0]);
    *comma = 0;
    cpus[0] = (int)number(words[1], 0, CPU_SETSIZE - 1, "CPU");
    cpus[1] = (int)number(comma + 1, 0, CPU_SETSIZE - 1, "CPU");
    programs[3].chain = make_chain(NEAR_BYTES);
    programs[4].chain = make_chain(number(words[2], NEAR_BYTES, 1u << 30, "FAR_BYTES"));
    pthread_join(start_on(cpus[0], measure_all, NULL), NULL);
    printf("{\"cpus\": [%d, %d], \"programs\": [", cpus[0], cpus[1]);
    for (size_t which = 0; which < PROGRAMS; which++) {
        printf("%s\n  {\"name\": \"%s\", \"took_ns\": {", which ? "," : "", programs[which].name);
        for (size_t how = 0; how < WAYS; how++) {
            if (!is_there(how))
                continue;
            printf("%s\"%s\": [", how ? ", " : "", ways[how].name);
            for (size_t round = 0; round < ROUNDS; round++)
                printf("%s%.0f", round ? ", " : "", took_ns[which][how][round]);
            printf("]");
        }
        printf("}}");
    }
    printf("]}\n");
    return 0;
}
