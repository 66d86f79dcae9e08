// A guest for loiter's virt machine: one hart takes and releases each lock that nobody else wants, between two marks that the
// trace of its instructions shows, and prints what each lock needs of memory. test/check_table.py counts and compares.
//
// Everything is set up and has been used before, the policy is known where it is used, and checks are off (-DNDEBUG).
#include "loiter.h"
#include "loiter/anderson.h"
#include "loiter/c_bo_mcs.h"
#include "loiter/c_mcs_tkt.h"
#include "loiter/catnap.h"
#include "loiter/clh.h"
#include "loiter/cna.h"
#include "loiter/delay.h"
#include "loiter/graunke_thakkar.h"
#include "loiter/hardware_lock.h"
#include "loiter/hbo.h"
#include "loiter/hclh.h"
#include "loiter/hidden.h"
#include "loiter/hmcs.h"
#include "loiter/k42.h"
#include "loiter/malthusian.h"
#include "loiter/mcs.h"
#include "loiter/phase_fair_queue.h"
#include "loiter/phase_fair_ticket.h"
#include "loiter/qspinlock.h"
#include "loiter/spin_then_park.h"
#include "loiter/test_and_set.h"
#include "loiter/test_and_test_and_set.h"
#include "loiter/ticket.h"

static const struct loiter_policy spin = {LOITER_SPIN, 0, 0, 0};
static const struct loiter_policy back_off = {LOITER_BACK_OFF, 1, 64, 0};

static struct loiter_hidden_slots slots;
struct loiter_hidden_slots *loiter_hidden_own(void) { return &slots; }

// A function that takes and releases `lock`, with what its thread needs beside in `own`; both come in registers, so that where
// they are does not matter.
#define PAIR(name, acquire, release) PAIR_OF(name, name, acquire, release)
#define PAIR_OF(name, kind, acquire, release)                                                                          \
    static void pair_##name(void *which, void *own) {                                                                  \
        struct loiter_##kind *lock = which;                                                                            \
        (void)own;                                                                                                     \
        acquire;                                                                                                       \
        release;                                                                                                       \
    }

struct loiter_nothing {
    int none;
};
PAIR(nothing, (void)lock, (void)lock)
PAIR(test_and_set, loiter_test_and_set_acquire(lock, &spin), loiter_test_and_set_release(lock))
PAIR(test_and_test_and_set, loiter_test_and_test_and_set_acquire(lock, &spin),
     loiter_test_and_test_and_set_release(lock))
PAIR(delay, loiter_delay_acquire_after_release(lock, &spin, &back_off), loiter_delay_release(lock))
PAIR_OF(delay_between, delay, loiter_delay_acquire_between_references(lock, &back_off), loiter_delay_release(lock))
PAIR(ticket, loiter_ticket_acquire(lock, &spin), loiter_ticket_release(lock))
PAIR(anderson, loiter_anderson_acquire(lock, own, &spin), loiter_anderson_release(lock, own, &spin))
PAIR(graunke_thakkar, loiter_graunke_thakkar_acquire(lock, own, &spin),
     loiter_graunke_thakkar_release(lock, own, &spin))
PAIR(mcs, loiter_mcs_acquire(lock, own, &spin), loiter_mcs_release(lock, own, &spin))
PAIR_OF(hidden_mcs, mcs, loiter_hidden_mcs_acquire(lock, &spin), loiter_hidden_mcs_release(lock, &spin))
PAIR(clh, loiter_clh_acquire(lock, own, &spin), loiter_clh_release(lock, own, &spin))
PAIR(k42, loiter_k42_acquire(lock, &spin), loiter_k42_release(lock, &spin))
PAIR(qspinlock, loiter_qspinlock_acquire(lock, own, 0, &spin, &spin), loiter_qspinlock_release(lock))
PAIR(catnap, loiter_catnap_acquire(lock, own, 0), loiter_catnap_release(lock))
PAIR(malthusian, loiter_malthusian_acquire(lock, own, &spin), loiter_malthusian_release(lock, own, &spin))
PAIR(cna, loiter_cna_acquire(lock, own, 1, &spin), loiter_cna_release(lock, own, &spin))
PAIR(hmcs, loiter_hmcs_acquire(lock, own, 1, &spin), loiter_hmcs_release(lock, own, 1, &spin))
PAIR(hclh, loiter_hclh_acquire(lock, own, &spin), loiter_hclh_release(lock, own))
PAIR(c_bo_mcs, loiter_c_bo_mcs_acquire(lock, own, 1, &back_off, &spin), loiter_c_bo_mcs_release(lock, own, 1, &spin))
PAIR(c_mcs_tkt, loiter_c_mcs_tkt_acquire(lock, 1, &spin), loiter_c_mcs_tkt_release(lock, 1, &spin))
PAIR(hbo, loiter_hbo_acquire(lock, 1, &back_off, &back_off), loiter_hbo_release(lock))
PAIR(spin_then_park, loiter_spin_then_park_acquire(lock, &spin, 100), loiter_spin_then_park_release(lock))
PAIR(hardware_lock, loiter_hardware_lock_acquire(lock, &spin), loiter_hardware_lock_release(lock))
PAIR(phase_fair_ticket, loiter_phase_fair_ticket_acquire(lock, &spin), loiter_phase_fair_ticket_release(lock))
PAIR_OF(phase_fair_ticket_shared, phase_fair_ticket, loiter_phase_fair_ticket_acquire_shared(lock, &spin),
        loiter_phase_fair_ticket_release_shared(lock))
PAIR(phase_fair_queue, loiter_phase_fair_queue_acquire(lock, own, &spin),
     loiter_phase_fair_queue_release(lock, own, &spin))
PAIR_OF(phase_fair_queue_shared, phase_fair_queue, loiter_phase_fair_queue_acquire_shared(lock, &spin),
        loiter_phase_fair_queue_release_shared(lock, &spin))

enum { PLACES = 2, NODES = 2 }; // of a ring, of the machine

static struct loiter_test_and_set test_and_set;
static struct loiter_test_and_test_and_set test_and_test_and_set;
static struct loiter_delay delay;
static struct loiter_ticket ticket;
static struct loiter_anderson anderson;
static struct loiter_anderson_place ring[PLACES];
static struct loiter_anderson_node anderson_node;
static struct loiter_graunke_thakkar graunke_thakkar;
static struct loiter_graunke_thakkar_flag flag;
static struct loiter_mcs mcs;
static struct loiter_mcs_node mcs_node;
static struct loiter_clh clh;
static struct loiter_clh_node clh_node;
static struct loiter_clh_thread clh_thread;
static struct loiter_k42 k42;
static struct loiter_qspinlock qspinlock;
static struct loiter_qspinlock_cpu cpus[1];
static struct loiter_catnap catnap;
static struct loiter_malthusian malthusian;
static struct loiter_malthusian_node malthusian_node;
static struct loiter_cna cna;
static struct loiter_cna_node cna_node;
static struct loiter_hmcs hmcs;
static struct loiter_hmcs_cohort hmcs_cohorts[NODES];
static struct loiter_hmcs_node hmcs_node;
static struct loiter_hclh hclh;
static struct loiter_hclh_cluster clusters[NODES];
static struct loiter_hclh_node hclh_node;
static struct loiter_hclh_thread hclh_thread;
static struct loiter_c_bo_mcs c_bo_mcs;
static struct loiter_c_bo_mcs_cohort c_bo_mcs_cohorts[NODES];
static struct loiter_c_mcs_tkt c_mcs_tkt;
static struct loiter_c_mcs_tkt_cohort c_mcs_tkt_cohorts[NODES];
static struct loiter_hbo hbo;
static struct loiter_spin_then_park spin_then_park;
static struct loiter_hardware_lock hardware_lock;
static struct loiter_phase_fair_ticket phase_fair_ticket;
static struct loiter_phase_fair_queue phase_fair_queue;
static struct loiter_phase_fair_queue_node phase_fair_queue_node;

// `each` is what it needs beside for each node of the machine, or place in its ring.
#define ENTRY(name, lock, own, each, thread) {#name, pair_##name, lock, own, sizeof *(lock), each, thread}
static const struct entry {
    const char *name;
    void (*pair)(void *lock, void *own);
    void *lock, *own;
    size_t lock_bytes, each_bytes, thread_bytes;
} entries[] = {
    ENTRY(nothing, &ticket, NULL, 0, 0), // first: what the call costs
    ENTRY(test_and_set, &test_and_set, NULL, 0, 0),
    ENTRY(test_and_test_and_set, &test_and_test_and_set, NULL, 0, 0),
    ENTRY(delay, &delay, NULL, 0, 0),
    ENTRY(delay_between, &delay, NULL, 0, 0),
    ENTRY(ticket, &ticket, NULL, 0, 0),
    ENTRY(anderson, &anderson, &anderson_node, sizeof *ring, sizeof anderson_node),
    ENTRY(graunke_thakkar, &graunke_thakkar, &flag, 0, sizeof flag),
    ENTRY(mcs, &mcs, &mcs_node, 0, sizeof mcs_node),
    ENTRY(hidden_mcs, &mcs, NULL, 0, sizeof slots),
    ENTRY(clh, &clh, &clh_thread, 0, sizeof clh_thread + sizeof clh_node),
    ENTRY(k42, &k42, NULL, 0, sizeof(struct loiter_k42_node)),
    ENTRY(qspinlock, &qspinlock, cpus, 0, sizeof *cpus),
    ENTRY(catnap, &catnap, cpus, 0, sizeof *cpus),
    ENTRY(malthusian, &malthusian, &malthusian_node, 0, sizeof malthusian_node),
    ENTRY(cna, &cna, &cna_node, 0, sizeof cna_node),
    ENTRY(hmcs, &hmcs, &hmcs_node, sizeof *hmcs_cohorts, sizeof hmcs_node),
    ENTRY(hclh, &hclh, &hclh_thread, sizeof *clusters, sizeof hclh_thread + sizeof hclh_node),
    ENTRY(c_bo_mcs, &c_bo_mcs, &mcs_node, sizeof *c_bo_mcs_cohorts, sizeof mcs_node),
    ENTRY(c_mcs_tkt, &c_mcs_tkt, NULL, sizeof *c_mcs_tkt_cohorts, 0),
    ENTRY(hbo, &hbo, NULL, 0, 0),
    ENTRY(spin_then_park, &spin_then_park, NULL, 0, 0),
    ENTRY(hardware_lock, &hardware_lock, NULL, 0, 0),
    ENTRY(phase_fair_ticket, &phase_fair_ticket, NULL, 0, 0),
    ENTRY(phase_fair_ticket_shared, &phase_fair_ticket, NULL, 0, 0),
    ENTRY(phase_fair_queue, &phase_fair_queue, &phase_fair_queue_node, 0, sizeof phase_fair_queue_node),
    ENTRY(phase_fair_queue_shared, &phase_fair_queue, NULL, 0, 0),
};

static void init(void) {
    loiter_test_and_set_init(&test_and_set);
    loiter_test_and_test_and_set_init(&test_and_test_and_set);
    loiter_delay_init(&delay);
    loiter_ticket_init(&ticket);
    loiter_anderson_init(&anderson, ring, PLACES);
    loiter_graunke_thakkar_init(&graunke_thakkar);
    loiter_graunke_thakkar_init_flag(&flag);
    loiter_mcs_init(&mcs);
    loiter_clh_init(&clh);
    loiter_clh_init_thread(&clh_thread, &clh_node);
    loiter_k42_init(&k42);
    loiter_qspinlock_init(&qspinlock);
    loiter_catnap_init(&catnap);
    loiter_malthusian_init(&malthusian);
    loiter_cna_init(&cna);
    loiter_hmcs_init(&hmcs, hmcs_cohorts, NODES);
    loiter_hclh_init(&hclh, clusters, NODES);
    loiter_hclh_init_thread(&hclh_thread, &hclh_node, 1);
    loiter_c_bo_mcs_init(&c_bo_mcs, c_bo_mcs_cohorts, NODES);
    loiter_c_mcs_tkt_init(&c_mcs_tkt, c_mcs_tkt_cohorts, NODES);
    loiter_hbo_init(&hbo);
    loiter_spin_then_park_init(&spin_then_park);
    loiter_hardware_lock_init(&hardware_lock);
    loiter_phase_fair_ticket_init(&phase_fair_ticket);
    loiter_phase_fair_queue_init(&phase_fair_queue);
}

// Instructions without effect, which stand in the trace.
#define BEGIN() __asm__ volatile("lui x0, 0x7b" : : : "memory")
#define END() __asm__ volatile("lui x0, 0x7e" : : : "memory")

LOITER_TASK(uncontended) {
    init();
    loiter_start_together();
    for (size_t n = 0; n < sizeof entries / sizeof *entries; n++) {
        const struct entry *entry = &entries[n];
        entry->pair(entry->lock, entry->own);
        entry->pair(entry->lock, entry->own);
        BEGIN();
        entry->pair(entry->lock, entry->own);
        END();
        loiter_print("%s %zu %zu %zu\n", entry->name, entry->lock_bytes, entry->each_bytes, entry->thread_bytes);
    }
}
