// hold: holds the lock and does nothing else, to look at the spinners alone.
#include "fame.h"

LOITER_ARGUMENT(cycles, "iterations", 10000, "hold: cycles of a repetition");

static void repeat(void *state) {
    const uint64_t *length = state;
    uint64_t start = loiter_cycles();
    while (loiter_cycles() - start < *length) {
    }
}

static uint64_t finish(void *state) {
    const uint64_t *length = state;
    return *length;
}

LOITER_TASK(hold) {
    uint64_t length = loiter_value_at_least(&cycles, 1);
    fame_run(&(struct fame_work){.state = &length, .repeat = repeat, .finish = finish});
}
