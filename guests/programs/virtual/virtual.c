// Harts that are virtual CPUs: one lock for all harts of a guest, and a guest that takes CPUs from it (`loiter vm`).
//
// Each hart has the same share of the acquisitions: it acquires the lock, works inside, releases it and works outside. A
// waiter that has waited for 2^yield_after cycles calls its host to yield, and again after as many more; with 0 it never
// does. The call is an extension of the SBI, so it takes a host: elsewhere nobody handles it.
//
// Tasks `ticket` and `test_and_set` are locks, `rival` keeps its hart busy for ever, and so does `pausing_rival`, in which
// there is little to simulate: where a CPU executes one hart at a time both take the same time from others. With user=1,
// what they do outside of the lock is in user mode, as a program's work is; the rest is in machine mode, which counts as the kernel.
//
// Waiters of tasks `ticket_kick` and `test_and_set_kick` sleep instead of yielding, until who releases the lock kicks them, as those of
// Linux's para-virtual spin locks do.
//
// Reports of each hart: "acquisitions", "cycles" from the first acquire to the end of the last work outside, "yields", of
// them also sleeps.
#include "loiter.h"
#include "loiter/nap.h"

LOITER_ARGUMENT(acquisitions, "acquisitions", 1000, "of all harts together");
LOITER_ARGUMENT(hold, "hold", 2000, "steps of work inside");
LOITER_ARGUMENT(think, "think", 20000, "steps of work outside");
LOITER_ARGUMENT(yield_after, "yield_after", 0, "log2 of the cycles after which a waiter yields; 0: never");

LOITER_ARGUMENT(nap, "nap", 0, "1: waiters nap until the lock is written (wrs.nto) instead of pausing; they then never yield");
LOITER_ARGUMENT(user, "user", 0, "1: work outside is in user mode");

#define YIELD_EXTENSION 0x08594c44
enum { YIELD = 0, WAIT = 1, KICK = 2 };

// user.S
void as_user(void (*code)(uint64_t), uint64_t argument);
void user_work(uint64_t steps);
void user_rival(uint64_t unused);

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

// Who sleeps until it is kicked: for a ticket, or for any.
static struct sleeper {
    uint32_t sleeps;
    uint32_t ticket;
} __attribute__((aligned(64))) sleepers[LOITER_MAX_HARTS];

static void call_host(uint64_t function, uint64_t argument) {
    register uint64_t error __asm__("a0") = argument;
    register uint64_t value __asm__("a1") = 0;
    register uint64_t function_register __asm__("a6") = function;
    register uint64_t extension __asm__("a7") = YIELD_EXTENSION;
    __asm__ volatile("ecall" : "+r"(error), "+r"(value) : "r"(function_register), "r"(extension) : "memory");
    if (error)
        loiter_fail("the host does not serve function %lu", function);
}

struct waiter {
    uint64_t patience;
    uint64_t since;
    uint64_t yields;
};

static void begin_to_wait(struct waiter *waiter) { waiter->since = loiter_cycles(); }

// Gives way for a moment, or until `word` is written if it still is `seen`.
static void give_way(uint32_t *word, uint32_t seen) {
    if (!loiter_value(&nap)) {
        loiter_pause();
        return;
    }
    uint32_t found;
    __asm__ volatile("lr.w %0, (%1)" : "=r"(found) : "r"(word) : "memory");
    if (found == seen)
        __asm__ volatile(LOITER_ASM_WRS_NTO : : : "memory");
}

static void wait(struct waiter *waiter, uint32_t *word, uint32_t seen) {
    give_way(word, seen);
    if (waiter->patience && loiter_cycles() - waiter->since >= waiter->patience) {
        waiter->yields++;
        call_host(YIELD, 0);
        begin_to_wait(waiter);
    }
}

static void acquire_ticket(struct waiter *waiter) {
    uint32_t own = __atomic_fetch_add(&lock.next, 1, __ATOMIC_RELAXED);
    uint32_t serving;
    for (begin_to_wait(waiter); (serving = __atomic_load_n(&lock.serving, __ATOMIC_ACQUIRE)) != own;)
        wait(waiter, &lock.serving, serving);
}

static void release_ticket(void) {
    __atomic_store_n(&lock.serving, lock.serving + 1, __ATOMIC_RELEASE);
}

static void acquire_test_and_set(struct waiter *waiter) {
    for (begin_to_wait(waiter); __atomic_exchange_n(&lock.taken, 1, __ATOMIC_ACQUIRE);)
        do
            wait(waiter, &lock.taken, 1);
        while (__atomic_load_n(&lock.taken, __ATOMIC_RELAXED));
}

static void release_test_and_set(void) { __atomic_store_n(&lock.taken, 0, __ATOMIC_RELEASE); }

// Waits for long enough to sleep until a release, if `is_held` still.
static void wait_for_kick(struct waiter *waiter, uint32_t ticket, bool (*is_held)(uint32_t ticket)) {
    loiter_pause();
    if (!waiter->patience || loiter_cycles() - waiter->since < waiter->patience)
        return;
    struct sleeper *own = &sleepers[loiter_hart()];
    own->ticket = ticket;
    // With the look at the lock behind it, against a release with its look at sleepers behind it: one of the two sees the other.
    __atomic_store_n(&own->sleeps, 1, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (is_held(ticket)) {
        waiter->yields++;
        call_host(WAIT, 0);
    }
    __atomic_store_n(&own->sleeps, 0, __ATOMIC_RELAXED);
    begin_to_wait(waiter);
}

// Kicks who sleeps for `ticket`, or, if there are none, the next sleeper behind this hart.
static void kick(bool by_ticket, uint32_t ticket) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    unsigned harts = loiter_placed(false);
    for (unsigned n = 1; n < harts; n++) {
        unsigned hart = (loiter_hart() + n) % harts;
        if (__atomic_load_n(&sleepers[hart].sleeps, __ATOMIC_ACQUIRE) && (!by_ticket || sleepers[hart].ticket == ticket)) {
            call_host(KICK, hart);
            return;
        }
    }
}

static bool is_not_served(uint32_t ticket) { return __atomic_load_n(&lock.serving, __ATOMIC_ACQUIRE) != ticket; }

static void acquire_ticket_kick(struct waiter *waiter) {
    uint32_t own = __atomic_fetch_add(&lock.next, 1, __ATOMIC_RELAXED);
    for (begin_to_wait(waiter); is_not_served(own);)
        wait_for_kick(waiter, own, is_not_served);
}

static void release_ticket_kick(void) {
    uint32_t next = lock.serving + 1;
    __atomic_store_n(&lock.serving, next, __ATOMIC_RELEASE);
    kick(true, next);
}

static bool is_taken(uint32_t unused) {
    (void)unused;
    return __atomic_load_n(&lock.taken, __ATOMIC_RELAXED);
}

static void acquire_test_and_set_kick(struct waiter *waiter) {
    for (begin_to_wait(waiter); __atomic_exchange_n(&lock.taken, 1, __ATOMIC_ACQUIRE);)
        do
            wait_for_kick(waiter, 0, is_taken);
        while (is_taken(0));
}

static void release_test_and_set_kick(void) {
    release_test_and_set();
    kick(false, 0);
}

static void work(uint64_t steps) {
    while (steps--)
        __asm__ volatile("");
}

static void work_outside(uint64_t steps) {
    if (loiter_value(&user))
        as_user(user_work, steps);
    else
        work(steps);
}

static void contend(void (*acquire)(struct waiter *), void (*release)(void)) {
    unsigned harts = loiter_placed(false);
    uint64_t own = loiter_value_at_least(&acquisitions, 1) / harts;
    if (own == 0 || loiter_value(&yield_after) > 40)
        loiter_refuse("acquisitions=%lu: each of %u harts needs one; yield_after is 40 at most", loiter_value(&acquisitions),
                      harts);
    // Sleepers are looked for on harts 0 to harts - 1.
    if (loiter_hart() >= harts)
        loiter_refuse("hart %u: the harts of a lock are 0 to its number less one, %u", loiter_hart(), harts - 1);
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
        work_outside(loiter_value(&think));
    }
    loiter_report("acquisitions", own);
    loiter_report("cycles", loiter_cycles() - begun);
    loiter_report("yields", waiter.yields);
    if (__atomic_add_fetch(&section.ended, 1, __ATOMIC_ACQ_REL) == harts && section.left != own * harts)
        loiter_fail("%lu sections of %lu", section.left, own * harts);
}

LOITER_TASK(ticket) { contend(acquire_ticket, release_ticket); }

LOITER_TASK(test_and_set) { contend(acquire_test_and_set, release_test_and_set); }

LOITER_TASK(ticket_kick) { contend(acquire_ticket_kick, release_ticket_kick); }

LOITER_TASK(test_and_set_kick) { contend(acquire_test_and_set_kick, release_test_and_set_kick); }

LOITER_TASK(rival) {
    loiter_start_together();
    if (loiter_value(&user))
        as_user(user_rival, 0);
    for (;;)
        __asm__ volatile(".rept 256\n nop\n .endr");
}

LOITER_TASK(pausing_rival) {
    loiter_start_together();
    for (;;)
        loiter_pause();
}
