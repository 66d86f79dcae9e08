// The waits of Redstone (2002), Table 4.2, by themselves: on every context, for ever. A plan of phases ends the run.
#include "lock.h"

typedef void pure_loop(const void *address);
pure_loop pure_retry, pure_idle; // spin_loops.S

static struct {
    _Alignas(LOITER_APART) uint64_t value[8];
} flags; // never set

// Nobody releases it; each hart's retry counter runs out and begins again.
LOITER_TASK(pure_lock) {
    lock.word = 1;
    loiter_start_together();
    for (;;)
        pure_retry(&lock);
}

LOITER_TASK(pure_idle) {
    loiter_start_together();
    for (;;)
        pure_idle(&flags);
}
