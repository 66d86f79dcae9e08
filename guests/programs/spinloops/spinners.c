// The waiting threads: background tasks that wait for the lock in one way each until the measured task releases it.
#include "lock.h"
#include "loiter/xloiterlock.h"

LOITER_ARGUMENT(stride_kib, "l2miss_stride_kib", 256, "spin_l2miss: distance of the chain's lines, one way of the L2");
LOITER_ARGUMENT(backoff_limit, "backoff_limit", 64, "spin_backoff: most pauses in a row");
LOITER_ARGUMENT(lines, "l2miss_lines", 64, "spin_l2miss: lines in the chain, more than the L2 has ways");

struct lock lock;
struct counter spinners_inside;
struct counter spinners_gone;
struct counter handed_back;

typedef void spin_loop(const struct lock *lock, void *operand);
spin_loop spin_default, spin_idiv, spin_casx, spin_fdiv, spin_l2miss; // spin_loops.S
spin_loop spin_retry, spin_pause, spin_backoff, spin_wrs_nto, spin_wrs_sto;

static bool has_sleepers;

// Returns when it has the lock. Without a loop, by the hardware lock.
static void wait_for_lock(spin_loop *loop, void *operand) {
    if (!loop) {
        loiter_hardware_acquire(&lock.word);
        return;
    }
    do
        loop(&lock, operand);
    while (!lock_take_if_free(&lock));
}

// Who gets the lock hands it back, still held, and waits again; after the last repetition it goes from one to the next.
static void spin(spin_loop *loop, void *operand) {
    loiter_start_together();
    counter_add_one(&spinners_inside);
    for (;;) {
        loiter_lock_acquire(&lock);
        wait_for_lock(loop, operand);
        loiter_lock_acquired(&lock);
        if (counter_read(&tasks_finished))
            break;
        counter_add_one(&handed_back);
    }
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
        loiter_refuse("argument l2miss_stride_kib=%llu is no power of two\n", (unsigned long long)stride / 1024);

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
LOITER_BACKGROUND_TASK(spin_retry) { spin(spin_retry, NULL); }
LOITER_BACKGROUND_TASK(spin_pause) { spin(spin_pause, NULL); }
LOITER_BACKGROUND_TASK(spin_backoff) { spin(spin_backoff, (void *)loiter_value_at_least(&backoff_limit, 1)); }
LOITER_BACKGROUND_TASK(spin_wrs_nto) { spin(spin_wrs_nto, NULL); }
LOITER_BACKGROUND_TASK(spin_wrs_sto) { spin(spin_wrs_sto, NULL); }
LOITER_BACKGROUND_TASK(spin_smt_lock) { spin(NULL, NULL); }

// ---- asleep until called: what an operating system does with who waits long ------------------------------------------

enum { WORD_BITS = 64 };

static struct {
    _Alignas(LOITER_APART) uint64_t harts[LOITER_MAX_HARTS / WORD_BITS];
} asleep;

// Either the waiter reads the lock free after it has entered itself, or who frees the lock finds it entered afterwards.
static void sleep_until_free(const struct lock *l, void *operand) {
    (void)operand;
    uint64_t *word = &asleep.harts[loiter_hart() / WORD_BITS], bit = UINT64_C(1) << loiter_hart() % WORD_BITS;
    for (;;) {
        __atomic_fetch_or(word, bit, __ATOMIC_SEQ_CST);
        loiter_lock_read(l);
        if (!__atomic_load_n(&l->word, __ATOMIC_SEQ_CST))
            break;
        loiter_sleep();
    }
    __atomic_fetch_and(word, ~bit, __ATOMIC_SEQ_CST);
}

void lock_call_sleeper(void) {
    if (!has_sleepers)
        return;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (unsigned hart = 0; hart < LOITER_MAX_HARTS; hart++) {
        uint64_t *word = &asleep.harts[hart / WORD_BITS], bit = UINT64_C(1) << hart % WORD_BITS;
        uint64_t found = __atomic_load_n(word, __ATOMIC_RELAXED);
        if (!found) {
            hart += WORD_BITS - 1;
        } else if (found & bit && __atomic_fetch_and(word, ~bit, __ATOMIC_SEQ_CST) & bit) {
            loiter_call(hart);
            return;
        }
    }
}

LOITER_BACKGROUND_TASK(spin_wfi) {
    has_sleepers = true;
    spin(sleep_until_free, NULL);
}
