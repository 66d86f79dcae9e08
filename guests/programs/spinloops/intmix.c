// intmix: the integer mix of coremix, as a measured task.
#include "../coremix/mix.h"
#include "fame.h"

LOITER_ARGUMENT(rounds, "iterations", 1, "intmix: rounds of sort, hash and crc in a repetition, each about 340 k instructions");

struct work {
    struct mix *mix;
    uint32_t checksum;
};

static void repeat(void *state) {
    struct work *work = state;
    for (uint64_t i = 0; i < loiter_value(&rounds); i++)
        work->checksum = work->checksum * 31 + run_round(work->mix);
}

static uint64_t finish(void *state) {
    const struct work *work = state;
    return work->checksum;
}

LOITER_TASK(intmix) {
    struct work work = {.mix = make_mix()};
    loiter_value_at_least(&rounds, 1);
    fame_run(&(struct fame_work){.state = &work, .repeat = repeat, .finish = finish});
}
