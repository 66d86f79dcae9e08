#include "fame.h"

#include "lock.h"

LOITER_ARGUMENT(reps_min, "reps_min", 5, "least number of measured repetitions");
LOITER_ARGUMENT(reps_max, "reps_max", 50, "most measured repetitions");
LOITER_ARGUMENT(maiv_per_mille, "maiv_per_mille", 10,
                "stop when the accumulated average IPC changed by less than this with the last repetition");

LOITER_ARGUMENT(window_cycles, "window_cycles", 0,
                "end the region of interest so long after all tasks are warm, instead of counting repetitions");
LOITER_ARGUMENT(handovers, "handovers", 0, "1: the lock goes to a waiter and back after each repetition");

struct totals {
    uint64_t repetitions, cycles, instructions;
};

struct counter tasks_finished;
static struct counter tasks_warm;
static struct counter window_over;

uint64_t fame_most_repetitions(void) { return loiter_value_at_least(&reps_max, loiter_value_at_least(&reps_min, 1)) + 1; }

// |IPC_now / IPC_before - 1| < MAIV, without dividing: IPC = instructions / cycles, and cross products fit 128 bits.
static bool settled(const struct totals *before, const struct totals *now) {
    __extension__ typedef unsigned __int128 wide;
    wide a = (wide)now->instructions * before->cycles;
    wide b = (wide)before->instructions * now->cycles;
    wide difference = a > b ? a - b : b - a;
    return difference * 1000 < b * loiter_value(&maiv_per_mille);
}

// The waiter that gets the lock gives it back, still held.
static void hand_over(void) {
    if (!loiter_placed(true))
        return;
    uint32_t before = counter_read(&handed_back);
    lock_release(&lock);
    while (counter_read(&handed_back) == before) {
    }
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
    if (loiter_value(&handovers))
        hand_over();
}

// All measured tasks work until the window is over, so that each has the others beside it all the time. The first
// repetition of the last one to become warm begins the window by its work mark; who sees the end first, ends it.
static void repeat_in_window(const struct fame_work *work, struct totals *totals, uint64_t length) {
    static uint64_t window_end;
    if (__atomic_add_fetch(&tasks_warm.value, 1, __ATOMIC_ACQ_REL) == loiter_placed(false)) {
        __atomic_store_n(&window_end, loiter_cycles() + length, __ATOMIC_RELEASE);
        loiter_work_begin(0);
    }
    while (!counter_read(&window_over)) {
        if (work->prepare)
            work->prepare(work->state);
        work->repeat(work->state);
        totals->repetitions++;
        uint64_t end = __atomic_load_n(&window_end, __ATOMIC_ACQUIRE);
        if (end && loiter_cycles() >= end && __atomic_exchange_n(&window_over.value, 1, __ATOMIC_ACQ_REL) == 0) {
            loiter_work_end(0);
            loiter_roi_end();
        }
    }
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
    bool is_settled = true;
    if (loiter_value(&window_cycles))
        repeat_in_window(work, &totals, loiter_value(&window_cycles));
    else
        is_settled = repeat_until_settled(work, &totals);

    counter_add_one(&tasks_finished);
    if (takes_lock) {
        while (counter_read(&tasks_finished) < loiter_placed(false)) {
        }
        lock_release(&lock);
        while (counter_read(&spinners_gone) < loiter_placed(true)) {
        }
        if (!loiter_value(&window_cycles))
            loiter_roi_end();
    }
    report(&totals, is_settled, work->finish(work->state));
}
