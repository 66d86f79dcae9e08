// Performance counters of a thread, in user mode, as far as the kernel allows them.
#ifndef NATIVE_COUNTERS_H
#define NATIVE_COUNTERS_H

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>

#include "platform.h"

static const struct {
    const char *name;
    uint32_t type;
    uint64_t config;
} counters[] = {
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {"cache_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
};
enum { COUNTERS = sizeof counters / sizeof *counters };

// Of this thread, stopped. Negative where the kernel refuses it; `errno` says why.
static inline int open_counter(size_t which) {
    struct perf_event_attr wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.size = sizeof wanted;
    wanted.type = counters[which].type;
    wanted.config = counters[which].config;
    wanted.disabled = 1;
    wanted.exclude_kernel = wanted.exclude_hv = 1;
    return (int)syscall(SYS_perf_event_open, &wanted, 0L, -1L, -1L, 0L);
}

#endif
