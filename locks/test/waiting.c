// What this machine offers to waiters, beside what the kernel says of it; that naps end; that a fallback is said once; that
// calibrated pauses take as long as they should.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "loiter/calibrate.h"
#include "loiter/wait.h"

enum { SECONDS_AT_MOST = 50, HANDOVERS = 300 };

static void check(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "error: waiting: %s\n", what);
        exit(1);
    }
}

// By the C library, not by the system call that the header uses.
static uint64_t now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// Whether the kernel lists this feature of the processor.
static bool kernel_knows(const char *flag) {
    static char line[65536], word[64];
    FILE *file = fopen("/proc/cpuinfo", "r");
    bool found = false;
    if (!file)
        return false;
    (void)snprintf(word, sizeof word, " %s ", flag);
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, "flags", 5) && strncmp(line, "Features", 8) && strncmp(line, "isa", 3))
            continue;
        line[strcspn(line, "\n")] = ' ';
        found = strstr(line, word) != NULL;
    }
    (void)fclose(file);
    return found;
}

static void check_kind(void) {
    enum loiter_nap_kind kind = loiter_nap_kind();
    check(kind != LOITER_NAP_UNKNOWN && kind == loiter_nap_kind(), "the machine gives two answers");
    check(loiter_has_naps() == (kind != LOITER_NAP_NONE), "naps without a kind");
#if defined(__x86_64__)
    // The kernel hides a feature that it switches off; cpuid may still show it.
    if (kernel_knows("waitpkg"))
        check(kind == LOITER_NAP_UMWAIT, "the kernel knows WAITPKG, cpuid does not");
    else if (kernel_knows("mwaitx"))
        check(kind == LOITER_NAP_MWAITX, "the kernel knows MONITORX, cpuid does not");
    else if (kernel_knows("fpu")) // else there is no list
        check(kind == LOITER_NAP_NONE, "cpuid shows naps that the kernel does not know");
    check(kernel_knows("waitpkg") || loiter_umwait_limit_cycles() == -1, "a limit of a nap that there is not");
#elif defined(__aarch64__)
    check(kind == (kernel_knows("wfxt") ? LOITER_NAP_WFET : LOITER_NAP_WFE), "hwcap and /proc/cpuinfo differ");
#endif
    check(strcmp(loiter_nap_name(kind), "none") != 0 || kind == LOITER_NAP_NONE, "a nap without a name");
}

static void check_fallback(void) {
    static const struct loiter_policy nap = {LOITER_NAP, 0, 0, 0}, spin = {LOITER_SPIN, 0, 0, 0};
    const char *always = loiter_fallback(&nap), *first = loiter_fallback_once(&nap);
    check((always == NULL) == (loiter_has_naps() != 0), "a nap that the machine lacks is not said, or one that it has is");
    check(first == always, "the first time nothing is said");
    check(!loiter_fallback_once(&nap), "it is said twice");
    check(loiter_fallback(&nap) == always, "the plain question has no memory");
    check(!loiter_fallback(&spin) && !loiter_fallback_once(&spin), "spinning has no fallback");
}

// Two threads hand a word to and fro, each by its policy: none may be lost, as a nap could if it began after the store.
static uint32_t turn;
static const struct loiter_policy *handing;

static void *hand_back(void *argument) {
    (void)argument;
    for (uint32_t n = 0; n < HANDOVERS; n++) {
        (void)loiter_wait_while(handing, &turn, 2 * n);
        loiter_end_wait(handing, &turn, 2 * n + 2);
    }
    return NULL;
}

static void check_handovers(void) {
    static const struct loiter_policy ways[] = {{LOITER_NAP, 0, 0, 20}, {LOITER_PARK, 1, 0, 0}, {LOITER_YIELD, 0, 0, 0}};
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        pthread_t other;
        handing = &ways[way];
        turn = 0;
        if (pthread_create(&other, NULL, hand_back, NULL))
            check(false, "a thread cannot be started");
        for (uint32_t n = 0; n < HANDOVERS; n++) {
            loiter_end_wait(handing, &turn, 2 * n + 1);
            uint32_t seen = loiter_wait_while(handing, &turn, 2 * n + 1); // with the other's mark, if that parks again
            check((seen & ~LOITER_PARKED) == 2 * n + 2, "a word has another value than was stored");
        }
        pthread_join(other, NULL);
    }
}

// One nap without anybody who stores ends by its limit or an interrupt, and returns what was read.
static void check_nap_ends(void) {
    unsigned int word = 7;
    if (!loiter_has_naps())
        return;
    check(loiter_nap_while(&word, 8) == 7, "a nap read something else");
    for (int n = 0; n < 5; n++)
        check(loiter_nap_while(&word, 7) == 7, "a nap read something else");
}

static void check_calibration(void) {
    enum { ASKED_NS = 50000 };
    uint64_t least = UINT64_MAX;
    uint32_t pauses = loiter_pauses_for_ns(ASKED_NS);
    check(loiter_pauses_for_ns(0) == 1, "no pause at all");
    check(pauses > 1 && pauses == loiter_pauses_for_ns(ASKED_NS), "it is measured once");
    for (int n = 0; n < 50; n++) {
        uint64_t begin = now_ns();
        loiter_pauses(pauses);
        uint64_t took = now_ns() - begin;
        least = took < least ? took : least;
    }
    printf("nap: %s; umwait limit %ld cycles; %d pauses: %llu ns, %llu ticks; %d ns asked, %llu ns taken\n",
           loiter_nap_name(loiter_nap_kind()), loiter_umwait_limit_cycles(), LOITER_CALIBRATE_PAUSES,
           (unsigned long long)loiter_measure_pauses_ns(), (unsigned long long)loiter_measure_pauses_ticks(), ASKED_NS,
           (unsigned long long)least);
    // The clock of a busy machine changes in between by less than that.
    check(least > ASKED_NS / 2 && least < 2 * ASKED_NS, "calibrated pauses take less than half or more than twice the time");
    check(loiter_measure_pauses_ticks() > 0, "no ticks");
}

int main(void) {
    alarm(SECONDS_AT_MOST);
    check_kind();
    check_fallback();
    check_nap_ends();
    check_handovers();
    check_calibration();
    return 0;
}
