// Harts that are virtual CPUs: one lock for all harts of a guest, and a guest that takes CPUs from it (`loiter vm`).
//
// Each hart has the same share of the acquisitions: it acquires the lock, works inside, releases it and works outside. A
// waiter that has waited for 2^yield_after cycles calls its host to yield, and again after as many more; with 0 it never
// does. The call is an extension of the SBI, so it takes a host: elsewhere nobody handles it.
//
// Tasks `ticket` and `test_and_set` are locks, `rival` keeps its hart busy for ever.
//
// Reports of each hart: "acquisitions", "cycles" from the first acquire to the end of the last work outside, "yields".
#include "loiter.h"
#include "loiter/nap.h"

LOITER_ARGUMENT(acquisitions, "acquisitions", 1000, "of all harts together");
LOITER_ARGUMENT(hold, "hold", 2000, "steps of work inside");
LOITER_ARGUMENT(think, "think", 20000, "steps of work outside");
LOITER_ARGUMENT(yield_after, "yield_after", 0, "log2 of the cycles after which a waiter yields; 0: never");

#define YIELD_EXTENSION 0x08594c44

static struct {
    uint32_t next;
    uint32_t serving;
    uint32_t taken;
} lock __attribute__((aligned(64)));

// What the section protects: whoever sees another one inside ends the run.
static struct {
    uint64_t entered;
    uint64_t left;
    uint64_t ended;
} section __attribute__((aligned(64)));

static void yield(void) {
    register uint64_t error __asm__("a0") = 0;
    register uint64_t value __asm__("a1") = 0;
    register uint64_t function __asm__("a6") = 0;
    register uint64_t extension __asm__("a7") = YIELD_EXTENSION;
    __asm__ volatile("ecall" : "+r"(error), "+r"(value) : "r"(function), "r"(extension) : "memory");
    if (error)
        loiter_fail("the host does not yield");
}

struct waiter {
    uint64_t patience;
    uint64_t since;
    uint64_t yields;
};

static void begin_to_wait(struct waiter *waiter) { waiter->since = loiter_cycles(); }

static void wait(struct waiter *waiter) {
    loiter_pause();
    if (waiter->patience && loiter_cycles() - waiter->since >= waiter->patience) {
        waiter->yields++;
        yield();
        begin_to_wait(waiter);
    }
}

static void acquire_ticket(struct waiter *waiter) {
    uint32_t own = __atomic_fetch_add(&lock.next, 1, __ATOMIC_RELAXED);
    for (begin_to_wait(waiter); __atomic_load_n(&lock.serving, __ATOMIC_ACQUIRE) != own;)
        wait(waiter);
}

static void release_ticket(void) {
    __atomic_store_n(&lock.serving, lock.serving + 1, __ATOMIC_RELEASE);
}

static void acquire_test_and_set(struct waiter *waiter) {
    for (begin_to_wait(waiter); __atomic_exchange_n(&lock.taken, 1, __ATOMIC_ACQUIRE);)
        do
            wait(waiter);
        while (__atomic_load_n(&lock.taken, __ATOMIC_RELAXED));
}

static void release_test_and_set(void) { __atomic_store_n(&lock.taken, 0, __ATOMIC_RELEASE); }

static void work(uint64_t steps) {
    while (steps--)
        __asm__ volatile("");
}

static void contend(void (*acquire)(struct waiter *), void (*release)(void)) {
    unsigned harts = loiter_placed(false);
    uint64_t own = loiter_value_at_least(&acquisitions, 1) / harts;
    if (own == 0 || loiter_value(&yield_after) > 40)
        loiter_refuse("acquisitions=%lu: each of %u harts needs one; yield_after is 40 at most", loiter_value(&acquisitions),
                      harts);
    struct waiter waiter = {.patience = loiter_value(&yield_after) ? 1ul << loiter_value(&yield_after) : 0};
    loiter_start_together();
    uint64_t begun = loiter_cycles();
    for (uint64_t n = 0; n < own; n++) {
        loiter_lock_acquire(&lock);
        acquire(&waiter);
        loiter_lock_acquired(&lock);
        if (section.entered++ != section.left)
            loiter_fail("hart %u is inside with another one", loiter_hart());
        work(loiter_value(&hold));
        section.left++;
        loiter_lock_released(&lock);
        release();
        work(loiter_value(&think));
    }
    loiter_report("acquisitions", own);
    loiter_report("cycles", loiter_cycles() - begun);
    loiter_report("yields", waiter.yields);
    if (__atomic_add_fetch(&section.ended, 1, __ATOMIC_ACQ_REL) == harts && section.left != own * harts)
        loiter_fail("%lu sections of %lu", section.left, own * harts);
}

LOITER_TASK(ticket) { contend(acquire_ticket, release_ticket); }

LOITER_TASK(test_and_set) { contend(acquire_test_and_set, release_test_and_set); }

LOITER_TASK(rival) {
    loiter_start_together();
    for (;;)
        __asm__ volatile(".rept 256\n nop\n .endr");
}
