// The waits of Redstone (2002), Table 4.2, by themselves: on every context, for ever. A plan of phases ends the run.
#include "lock.h"

void pure_retry(const void *lock); // spin_loops.S
void pure_idle(const void *flags, void *frame);

// The stacks of idle threads meet in the data cache (ibid.): their frames are so far apart that a cache of the first level
// with up to this many bytes a way does not tell them from one another.
#define FRAMES_APART (64 << 10)

// Of each hart, and never set.
static struct {
    _Alignas(LOITER_APART) uint64_t value[8];
} flags[LOITER_MAX_HARTS];

// Nobody releases it; each hart's retry counter runs out and begins again.
LOITER_TASK(pure_lock) {
    lock.word = 1;
    loiter_start_together();
    for (;;)
        pure_retry(&lock);
}

LOITER_TASK(pure_idle) {
    const unsigned hart = loiter_hart();
    char *const frame = loiter_allocate(FRAMES_APART, FRAMES_APART);
    loiter_start_together();
    for (;;)
        pure_idle(&flags[hart], frame);
}
