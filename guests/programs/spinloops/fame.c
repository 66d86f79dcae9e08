#include "fame.h"

#include "lock.h"

LOITER_ARGUMENT(reps_min, "reps_min", 5, "least number of measured repetitions");
LOITER_ARGUMENT(reps_max, "reps_max", 50, "most measured repetitions");
LOITER_ARGUMENT(maiv_per_mille, "maiv_per_mille", 10,
                "stop when the accumulated average IPC changed by less than this with the last repetition");

struct totals {
    uint64_t repetitions, cycles, instructions;
};

static struct counter tasks_finished;

uint64_t fame_most_repetitions(void) { return loiter_value_at_least(&reps_max, loiter_value_at_least(&reps_min, 1)) + 1; }

// |IPC_now / IPC_before - 1| < MAIV, without dividing: IPC = instructions / cycles, and cross products fit 128 bits.
static bool settled(const struct totals *before, const struct totals *now) {
    __extension__ typedef unsigned __int128 wide;
    wide a = (wide)now->instructions * before->cycles;
    wide b = (wide)before->instructions * now->cycles;
    wide difference = a > b ? a - b : b - a;
    return difference * 1000 < b * loiter_value(&maiv_per_mille);
}

static void repeat_once(const struct fame_work *work, struct totals *totals) {
    if (work->prepare)
        work->prepare(work->state);
    uint64_t cycles = loiter_cycles(), instructions = loiter_instructions();
    loiter_work_begin(totals->repetitions);
    work->repeat(work->state);
    loiter_work_end(totals->repetitions);
    totals->instructions += loiter_instructions() - instructions;
    totals->cycles += loiter_cycles() - cycles;
    totals->repetitions++;
}

// Returns whether the average settled before the most repetitions were reached.
static bool repeat_until_settled(const struct fame_work *work, struct totals *totals) {
    uint64_t least = loiter_value(&reps_min), most = loiter_value(&reps_max);
    for (;;) {
        struct totals before = *totals;
        repeat_once(work, totals);
        bool is_settled = totals->repetitions > 1 && settled(&before, totals);
        if (totals->repetitions >= least && is_settled)
            return true;
        if (totals->repetitions >= most)
            return false;
    }
}

static void report(const struct totals *totals, bool is_settled, uint64_t checksum) {
    loiter_report("repetitions", totals->repetitions);
    loiter_report("maiv_reached", is_settled);
    loiter_report("checksum", checksum);
    loiter_print("%s: %llu repetitions%s, %llu cycles, %llu instructions, checksum 0x%llx\n", loiter_own_task()->name,
                 (unsigned long long)totals->repetitions, is_settled ? "" : " (IPC has not settled)",
                 (unsigned long long)totals->cycles, (unsigned long long)totals->instructions,
                 (unsigned long long)checksum);
}

// One measured task is the normal case. If there are several, the first to come holds the lock for all of them.
void fame_run(const struct fame_work *work) {
    struct totals totals = {0};
    bool takes_lock = lock_take_if_free(&lock);
    loiter_start_together();
    if (takes_lock) {
        loiter_lock_acquire(&lock);
        loiter_lock_acquired(&lock);
    }
    while (counter_read(&spinners_inside) < loiter_placed(true)) {
    }

    if (work->warm_up)
        work->warm_up(work->state);
    if (work->prepare)
        work->prepare(work->state);
    work->repeat(work->state);
    bool is_settled = repeat_until_settled(work, &totals);

    counter_add_one(&tasks_finished);
    if (takes_lock) {
        while (counter_read(&tasks_finished) < loiter_placed(false)) {
        }
        lock_release(&lock);
        while (counter_read(&spinners_gone) < loiter_placed(true)) {
        }
        loiter_roi_end();
    }
    report(&totals, is_settled, work->finish(work->state));
}
