// The waiting threads: background tasks that spin on the lock until the measured task releases it.
#include "lock.h"

LOITER_ARGUMENT(stride_kib, "l2miss_stride_kib", 256, "spin_l2miss: distance of the chain's lines, one way of the L2");
LOITER_ARGUMENT(lines, "l2miss_lines", 64, "spin_l2miss: lines in the chain, more than the L2 has ways");

struct lock lock;
struct counter spinners_inside;
struct counter spinners_gone;

typedef void spin_loop(const struct lock *lock, void *operand);
spin_loop spin_default, spin_idiv, spin_casx, spin_fdiv, spin_l2miss; // spin_loops.S

static void spin(spin_loop *loop, void *operand) {
    loiter_start_together();
    loiter_lock_acquire(&lock);
    counter_add_one(&spinners_inside);
    do
        loop(&lock, operand);
    while (!lock_take_if_free(&lock));
    loiter_lock_acquired(&lock);
    lock_release(&lock);
    counter_add_one(&spinners_gone);
}

// A ring of pointers, each in another way of one set (and so one bank) of the L2. The chains of several spinners lie
// behind one another in that same set. It is the last set, where no small data lies.
static void *build_chain(void) {
    enum { LINE = 64 };
    uint64_t stride = loiter_value_at_least(&stride_kib, 1) * 1024;
    uint64_t count = loiter_value_at_least(&lines, 1);
    if (stride & (stride - 1))
        loiter_fail("argument l2miss_stride_kib=%llu is no power of two\n", (unsigned long long)stride / 1024);

    char *ring = (char *)loiter_allocate(count * stride, stride) + stride - LINE;
    for (uint64_t i = 0; i < count; i++)
        *(void **)(void *)(ring + i * stride) = ring + (i + 1) % count * stride;
    return ring;
}

LOITER_BACKGROUND_TASK(spin_default) { spin(spin_default, NULL); }
LOITER_BACKGROUND_TASK(spin_idiv) { spin(spin_idiv, NULL); }
LOITER_BACKGROUND_TASK(spin_casx) { spin(spin_casx, loiter_allocate(LOITER_APART, LOITER_APART)); }
LOITER_BACKGROUND_TASK(spin_fdiv) { spin(spin_fdiv, NULL); }
LOITER_BACKGROUND_TASK(spin_l2miss) { spin(spin_l2miss, build_chain()); }
