// What the programs of this folder need of Linux: threads on given CPUs, counters, and a last word.
#ifndef NATIVE_PLATFORM_H
#define NATIVE_PLATFORM_H

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loiter/calibrate.h"
#include "loiter/wait.h"

enum { FAILED = 1, REFUSED = 2 };

// Prints "error: ..." and ends the program.
__attribute__((format(printf, 2, 3), noreturn)) static inline void end_with(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    // Other threads may be inside a lock: no handlers, which could wait for them.
    _Exit(status);
}

// A number of the command line, `least` to `most`.
static inline uint64_t number(const char *text, uint64_t least, uint64_t most, const char *what) {
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end || *text == '-' || value < least || value > most)
        end_with(REFUSED, "%s = %s: it is a number from %llu to %llu", what, text, (unsigned long long)least,
                 (unsigned long long)most);
    return value;
}

// Starts a thread on a CPU; a negative one leaves it to the scheduler.
static inline pthread_t start_on(int cpu, void *(*run)(void *), void *argument) {
    pthread_attr_t attributes;
    pthread_t thread;
    cpu_set_t set;
    pthread_attr_init(&attributes);
    if (cpu >= CPU_SETSIZE)
        end_with(REFUSED, "CPU %d: there is room for %d", cpu, CPU_SETSIZE);
    if (cpu >= 0) {
        CPU_ZERO(&set);
        CPU_SET((size_t)cpu, &set);
        pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
    }
    int error = pthread_create(&thread, &attributes, run, argument);
    if (error)
        end_with(FAILED, "a thread on CPU %d cannot be started: %s", cpu, strerror(error));
    pthread_attr_destroy(&attributes);
    return thread;
}

// Ticks of `loiter_ticks` a second.
static inline double measure_tick_rate_hz(void) {
    enum { WINDOW_NS = 20000000 };
    uint64_t begin_ns = loiter_now_ns(), begin = loiter_ticks(), now_ns;
    while ((now_ns = loiter_now_ns()) < begin_ns + WINDOW_NS)
        loiter_pause();
    return 1e9 * (double)(loiter_ticks() - begin) / (double)(now_ns - begin_ns);
}

#endif
