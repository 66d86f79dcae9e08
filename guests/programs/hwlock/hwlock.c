// Harts that take turns by the hardware lock and by flags, and count: a count that is not what it must be, or a hart
// that sleeps for ever, shows that the lock is no lock. Needs xloiterlock (and Zawrs for way=2) in the ISA string.
//
// Every hart adds `reps` times to a plain counter within the lock. way=0: it blocks as long as it takes; way=1: for at
// most `limit` cycles at a time; way=2: an ordinary lock, asleep in wrs.nto while it is held; way=3: the lock of
// loiter/hardware_lock.h, as any other. The last hart raises the flags that all others wait for, and each checks the count.
#define LOITER_HAS_HARDWARE_LOCK 1
#include "loiter.h"
#include "loiter/hardware_lock.h"

LOITER_ARGUMENT(reps, "reps", 50, "times that each hart takes the lock");
LOITER_ARGUMENT(way, "way", 0, "0: lock without limit, 1: with limit, 2: wrs.nto, 3: as a lock among others");
LOITER_ARGUMENT(hold, "hold", 100, "steps of a loop within the lock");
LOITER_ARGUMENT(limit, "limit", 20, "with way=1, cycles that an attempt may last");

static struct loiter_hardware_lock lock;
static unsigned *const word = &lock.word.held;
static const struct loiter_policy policy = {LOITER_SPIN, 0, 0, 0};
static unsigned long done[8] __attribute__((aligned(64)));
static volatile unsigned long count __attribute__((aligned(64)));
static unsigned arrived __attribute__((aligned(64)));

static unsigned long acquire(void) {
    unsigned long given_up = 0;
    switch (loiter_value(&way)) {
    case 0:
        loiter_hardware_acquire(word);
        break;
    case 1:
        while (!loiter_hardware_acquire_within(word, loiter_value(&limit)))
            given_up++;
        break;
    case 2:
        while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE))
            (void)loiter_nap_while(word, 1);
        break;
    default:
        loiter_hardware_lock_acquire(&lock, &policy);
    }
    return given_up;
}

LOITER_TASK(count) {
    unsigned placed = loiter_placed(false);
    unsigned long given_up = 0;

    loiter_start_together();
    for (uint64_t n = 0; n < loiter_value(&reps); n++) {
        given_up += acquire();
        for (uint64_t step = 0; step < loiter_value(&hold); step++)
            __asm__ volatile("");
        count = count + 1;
        if (loiter_value(&way) == 3)
            loiter_hardware_lock_release(&lock);
        else
            loiter_hardware_release(word);
    }
    if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == placed)
        __atomic_store_n(&done[placed % 8], 1, __ATOMIC_RELEASE);
    while (!loiter_hardware_wait(done, 1000)) {
    }
    loiter_report("given_up", given_up);
    loiter_report("count", count);
    if (count != placed * loiter_value(&reps))
        loiter_fail("hwlock: %lu counted, expected %lu\n", count, placed * loiter_value(&reps));
}
