// What waiting costs on this machine, as JSON: instructions by themselves, and a word that goes between two CPUs.
//
//     host --rate                    only ticks a second, and the nap
//     host CPU [CPU,CPU ...]         CPU is where single instructions are measured; each pair hands a word to and fro
//
// All that disturbs makes a measurement longer, so the least is the cost, and the median what an undisturbed program sees.
// A machine whose counter runs at another rate than its cores (x86, AArch64) gives ticks of the counter, not of the core.
#define _GNU_SOURCE
#include "counters.h"

enum { ROUNDS = 31, STEPS = 1000, MOST_HANDOVERS = 2001 };

static uint32_t own LOITER_ALIGNED;

// ---- single instructions ---------------------------------------------------------------------------------------------

static void do_nothing(uint32_t count) {
    for (; count; count--)
        __asm__ volatile("" : "+r"(count));
}
static void do_pause(uint32_t count) { loiter_pauses(count); }
static void do_fence(uint32_t count) {
    for (; count; count--)
        loiter_fence();
}
static void do_divide(uint32_t count) { loiter_divide(count); }
static void do_fdivide(uint32_t count) { loiter_fdivide(count); }
static void do_cas(uint32_t count) { loiter_cas(count); }
static void do_exchange(uint32_t count) {
    for (; count; count--)
        (void)__atomic_exchange_n(&own, count, __ATOMIC_ACQ_REL);
}
static void do_fetch_add(uint32_t count) {
    for (; count; count--)
        (void)__atomic_fetch_add(&own, 1, __ATOMIC_ACQ_REL);
}
static void do_ticks(uint32_t count) {
    for (; count; count--)
        (void)loiter_ticks();
}
static void do_yield(uint32_t count) {
    for (; count; count--)
        loiter_yield();
}
static void do_futex_wake(uint32_t count) {
    for (; count; count--)
        loiter_futex_wake(&own, 1);
}

static const struct {
    const char *name;
    void (*run)(uint32_t count);
} instructions[] = {
    {"loop", do_nothing},       {"pause", do_pause},         {"fence", do_fence},
    {"divide", do_divide},      {"divide_doubles", do_fdivide}, {"compare_and_swap", do_cas},
    {"exchange", do_exchange},  {"fetch_add", do_fetch_add}, {"read_counter", do_ticks},
    {"yield", do_yield},        {"futex_wake_nobody", do_futex_wake},
};

static int ascending(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void print_span(const char *name, uint64_t *ticks, size_t count, double divisor, bool last) {
    qsort(ticks, count, sizeof *ticks, ascending);
    printf("    {\"name\": \"%s\", \"least_ticks\": %.3f, \"median_ticks\": %.3f}%s\n", name, (double)ticks[0] / divisor,
           (double)ticks[count / 2] / divisor, last ? "" : ",");
}

static void *measure_instructions(void *argument) {
    (void)argument;
    size_t count = sizeof instructions / sizeof *instructions;
    for (size_t n = 0; n < count; n++) {
        uint64_t ticks[ROUNDS];
        for (size_t round = 0; round < ROUNDS; round++) {
            uint64_t begin = loiter_ticks();
            instructions[n].run(STEPS);
            ticks[round] = loiter_ticks() - begin;
        }
        print_span(instructions[n].name, ticks, ROUNDS, STEPS, n + 1 == count);
    }
    return NULL;
}

// ---- a word between two CPUs -----------------------------------------------------------------------------------------

static const struct way {
    const char *name;
    struct loiter_policy policy;
    uint32_t handovers;
} ways[] = {
    {"spin", {LOITER_SPIN, 0, 0, 0}, 2001},
    {"pause", {LOITER_PAUSE, 1, 0, 0}, 2001},
    {"nap", {LOITER_NAP, 0, 0, 0}, 2001}, // left out where there is none
    {"yield", {LOITER_YIELD, 0, 0, 0}, 1001},
    {"park", {LOITER_PARK, 1, 0, 0}, 501},
};

static struct {
    LOITER_ALIGNED uint32_t turn;
    LOITER_ALIGNED const struct way *way;
    uint64_t ticks[MOST_HANDOVERS];
} between;

static void *hand_back(void *argument) {
    (void)argument;
    const struct way *way = between.way;
    for (uint32_t n = 0; n < way->handovers; n++) {
        (void)loiter_wait_while(&way->policy, &between.turn, 2 * n);
        loiter_end_wait(&way->policy, &between.turn, 2 * n + 2);
    }
    return NULL;
}

static void *hand_over(void *argument) {
    (void)argument;
    const struct way *way = between.way;
    for (uint32_t n = 0; n < way->handovers; n++) {
        uint64_t begin = loiter_ticks();
        loiter_end_wait(&way->policy, &between.turn, 2 * n + 1);
        (void)loiter_wait_while(&way->policy, &between.turn, 2 * n + 1);
        between.ticks[n] = loiter_ticks() - begin;
    }
    return NULL;
}

static void measure_pair(int first, int second) {
    size_t count = sizeof ways / sizeof *ways;
    for (size_t n = 0; n < count; n++) {
        if (ways[n].policy.method == LOITER_NAP && !loiter_has_naps())
            continue;
        between.way = &ways[n];
        between.turn = 0;
        pthread_t other = start_on(second, hand_back, NULL);
        pthread_join(start_on(first, hand_over, NULL), NULL);
        pthread_join(other, NULL);
        print_span(ways[n].name, between.ticks, ways[n].handovers, 2, n + 1 == count);
    }
}

// ---- what the kernel allows ------------------------------------------------------------------------------------------

// Each counter, and why the kernel refuses it, or null.
static void print_counters(void) {
    for (size_t n = 0; n < COUNTERS; n++) {
        int file = open_counter(n);
        const char *refused = file < 0 ? strerror(errno) : NULL;
        if (file >= 0)
            (void)close(file);
        printf("    \"%s\": %s%s%s%s\n", counters[n].name, refused ? "\"" : "", refused ? refused : "null",
               refused ? "\"" : "", n + 1 == COUNTERS ? "" : ",");
    }
}

int main(int count, char **words) {
    if (count < 2)
        end_with(REFUSED, "usage: %s --rate | CPU [CPU,CPU ...]", words[0]);
    if (!strcmp(words[1], "--rate")) {
        printf("{\"tick_rate_hz\": %.0f, \"nap\": \"%s\"}\n", measure_tick_rate_hz(), loiter_nap_name(loiter_nap_kind()));
        return 0;
    }
    printf("{\n  \"nap\": \"%s\",\n  \"umwait_limit_cycles\": %ld,\n", loiter_nap_name(loiter_nap_kind()),
           loiter_umwait_limit_cycles());
    printf("  \"tick_rate_hz\": %.0f,\n  \"instructions\": [\n", measure_tick_rate_hz());
    pthread_join(start_on((int)number(words[1], 0, CPU_SETSIZE - 1, "CPU"), measure_instructions, NULL), NULL);
    printf("  ],\n  \"pairs\": [");
    for (int n = 2; n < count; n++) {
        char *comma = strchr(words[n], ',');
        if (!comma)
            end_with(REFUSED, "%s: a pair is two CPUs with a comma between", words[n]);
        *comma = 0;
        int first = (int)number(words[n], 0, CPU_SETSIZE - 1, "CPU");
        int second = (int)number(comma + 1, 0, CPU_SETSIZE - 1, "CPU");
        printf("%s{\"cpus\": [%d, %d], \"one_way\": [\n", n > 2 ? ", " : "", first, second);
        measure_pair(first, second);
        printf("  ]}");
    }
    printf("],\n  \"counters\": {\n");
    print_counters();
    printf("  }\n}\n");
    return 0;
}
