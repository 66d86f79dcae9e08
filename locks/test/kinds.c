#include "kinds.h"

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

// Functions, as KIND expects them, of a lock whose acquire and release are called with these arguments.
#define TRY(name) TRY_BY(name, (&name))
#define TRY_BY(name, arguments)                                                                                        \
    static bool try_##name(unsigned thread) {                                                                          \
        (void)thread;                                                                                                  \
        return loiter_##name##_try_acquire(UNPACK arguments);                                                          \
    }
#define UNPACK(...) __VA_ARGS__
#define LOCK(name, acquire_arguments, release_arguments)                                                               \
    static KINDS_APART struct loiter_##name name;                                                                      \
    LOCK_OF(name, acquire_arguments, release_arguments)
#define LOCK_OF(name, acquire_arguments, release_arguments)                                                            \
    static void acquire_##name(unsigned thread, const struct loiter_policy *policy) {                                  \
        (void)thread, (void)policy;                                                                                    \
        loiter_##name##_acquire(UNPACK acquire_arguments);                                                             \
    }                                                                                                                  \
    static void release_##name(unsigned thread, const struct loiter_policy *policy) {                                  \
        (void)thread, (void)policy;                                                                                    \
        loiter_##name##_release(UNPACK release_arguments);                                                             \
    }
#define SHARED(name, acquire_arguments, release_arguments)                                                             \
    static void acquire_shared_##name(unsigned thread, const struct loiter_policy *policy) {                           \
        (void)thread;                                                                                                  \
        loiter_##name##_acquire_shared(UNPACK acquire_arguments);                                                      \
    }                                                                                                                  \
    static bool try_shared_##name(unsigned thread) {                                                                   \
        (void)thread;                                                                                                  \
        return loiter_##name##_try_acquire_shared(&name);                                                              \
    }                                                                                                                  \
    static void release_shared_##name(unsigned thread, const struct loiter_policy *policy) {                           \
        (void)thread, (void)policy;                                                                                    \
        loiter_##name##_release_shared(UNPACK release_arguments);                                                      \
    }
#define INIT(name) INIT_BY(name, (&name))
#define INIT_BY(name, arguments)                                                                                       \
    static void init_##name(unsigned threads) {                                                                        \
        (void)threads;                                                                                                 \
        loiter_##name##_init(UNPACK arguments);                                                                        \
    }

// A release after an attempt in vain must wake who may park by then.
static const struct loiter_policy parking = {LOITER_PARK, 1, 0, 0};
static const struct loiter_policy giving_way = {LOITER_YIELD, 0, 0, 0};
// The head of some queues cannot park.
static const struct loiter_policy *head_of(const struct loiter_policy *policy) {
    return policy->method == LOITER_PARK ? &giving_way : policy;
}

// ---- locks that need nothing of a thread -----------------------------------------------------------------------------

LOCK(test_and_set, (&test_and_set, policy), (&test_and_set))
INIT(test_and_set)
TRY(test_and_set)

LOCK(test_and_test_and_set, (&test_and_test_and_set, policy), (&test_and_test_and_set))
INIT(test_and_test_and_set)
TRY(test_and_test_and_set)

static const struct loiter_policy slot = {LOITER_BACK_OFF, 8, 8, 0};
static KINDS_APART struct loiter_delay delay;
INIT(delay)
TRY(delay)
static void acquire_after_release(unsigned thread, const struct loiter_policy *policy) {
    (void)thread;
    loiter_delay_acquire_after_release(&delay, policy, &slot);
}
static void acquire_between_references(unsigned thread, const struct loiter_policy *policy) {
    (void)thread;
    loiter_delay_acquire_between_references(&delay, policy);
}
static void release_delay(unsigned thread, const struct loiter_policy *policy) {
    (void)thread, (void)policy;
    loiter_delay_release(&delay);
}

LOCK(ticket, (&ticket, policy), (&ticket))
INIT(ticket)
TRY(ticket)

static void acquire_proportional(unsigned thread, const struct loiter_policy *policy) {
    (void)thread;
    loiter_ticket_acquire_proportional(&ticket, policy, 8);
}

LOCK(k42, (&k42, policy), (&k42, policy))
INIT(k42)
TRY(k42)

LOCK(spin_then_park, (&spin_then_park, policy, KINDS_LOOKS), (&spin_then_park))
INIT(spin_then_park)
TRY(spin_then_park)

// ---- locks with something of each thread -----------------------------------------------------------------------------

static struct loiter_mcs_node mcs_nodes[MAX_THREADS];
LOCK(mcs, (&mcs, &mcs_nodes[thread], policy), (&mcs, &mcs_nodes[thread], policy))
INIT(mcs)
TRY_BY(mcs, (&mcs, &mcs_nodes[thread]))

static struct loiter_clh_node clh_nodes[MAX_THREADS];
static struct loiter_clh_thread clh_threads[MAX_THREADS];
LOCK(clh, (&clh, &clh_threads[thread], policy), (&clh, &clh_threads[thread], policy))
static void init_clh(unsigned threads) {
    loiter_clh_init(&clh);
    for (unsigned n = 0; n < threads; n++)
        loiter_clh_init_thread(&clh_threads[n], &clh_nodes[n]);
}

static struct loiter_anderson_place ring[MAX_THREADS];
static struct loiter_anderson_node anderson_nodes[MAX_THREADS];
LOCK(anderson, (&anderson, &anderson_nodes[thread], policy), (&anderson, &anderson_nodes[thread], policy))
TRY_BY(anderson, (&anderson, &anderson_nodes[thread]))
static void init_anderson(unsigned threads) {
    unsigned power = 1;
    while (power < threads)
        power *= 2;
    loiter_anderson_init(&anderson, ring, power);
}

static struct loiter_graunke_thakkar_flag flags[MAX_THREADS];
LOCK(graunke_thakkar, (&graunke_thakkar, &flags[thread], policy), (&graunke_thakkar, &flags[thread], policy))
static void init_graunke_thakkar(unsigned threads) {
    loiter_graunke_thakkar_init(&graunke_thakkar);
    for (unsigned n = 0; n < threads; n++)
        loiter_graunke_thakkar_init_flag(&flags[n]);
}

static KINDS_APART struct loiter_qspinlock qspinlock;
static struct loiter_qspinlock_cpu cpus[MAX_THREADS];
LOCK_OF(qspinlock, (&qspinlock, cpus, thread, head_of(policy), policy), (&qspinlock))
INIT(qspinlock)
TRY(qspinlock)

LOCK(catnap, (&catnap, cpus, thread), (&catnap))
INIT(catnap)
TRY(catnap)
// Half the threads are call sites that nap.
static void acquire_selective(unsigned thread, const struct loiter_policy *policy) {
    static const struct loiter_catnap_class classes[] = {{500}, {5000}};
    (void)policy;
    loiter_catnap_acquire_selective(&catnap, cpus, thread, &classes[thread % 2], LOITER_CATNAP_HARMLESS_HOLD_NS);
}

static struct loiter_malthusian_node malthusian_nodes[MAX_THREADS];
LOCK(malthusian, (&malthusian, &malthusian_nodes[thread], policy), (&malthusian, &malthusian_nodes[thread], policy))
INIT(malthusian)
TRY_BY(malthusian, (&malthusian, &malthusian_nodes[thread]))

LOCK(hardware_lock, (&hardware_lock, policy), (&hardware_lock))
INIT(hardware_lock)
TRY(hardware_lock)

// ---- locks that know nodes of the machine ------------------------------------------------------------------------------

static struct loiter_cna_node cna_nodes[MAX_THREADS];
LOCK(cna, (&cna, &cna_nodes[thread], place_of(thread), policy), (&cna, &cna_nodes[thread], policy))
INIT(cna)
TRY_BY(cna, (&cna, &cna_nodes[thread], place_of(thread)))

static const struct loiter_policy far = {LOITER_BACK_OFF, KINDS_FAR};
LOCK(hbo, (&hbo, place_of(thread), policy, &far), (&hbo))
INIT(hbo)
TRY_BY(hbo, (&hbo, place_of(thread)))

// Locks and what they keep for each node of the machine, so that an arrival shows in one piece of memory.
static KINDS_APART struct {
    struct loiter_hmcs lock;
    struct loiter_hmcs_cohort cohorts[KINDS_PLACES];
} hmcs_lock;
static struct loiter_hmcs_node hmcs_nodes[MAX_THREADS];
LOCK_OF(hmcs, (&hmcs_lock.lock, &hmcs_nodes[thread], place_of(thread), policy),
        (&hmcs_lock.lock, &hmcs_nodes[thread], place_of(thread), policy))
TRY_BY(hmcs, (&hmcs_lock.lock, &hmcs_nodes[thread], place_of(thread), &parking))
INIT_BY(hmcs, (&hmcs_lock.lock, hmcs_lock.cohorts, KINDS_PLACES))

static KINDS_APART struct {
    struct loiter_c_bo_mcs lock;
    struct loiter_c_bo_mcs_cohort cohorts[KINDS_PLACES];
} c_bo_mcs_lock;
static struct loiter_mcs_node c_bo_mcs_nodes[MAX_THREADS];
LOCK_OF(c_bo_mcs, (&c_bo_mcs_lock.lock, &c_bo_mcs_nodes[thread], place_of(thread), head_of(policy), policy),
        (&c_bo_mcs_lock.lock, &c_bo_mcs_nodes[thread], place_of(thread), policy))
TRY_BY(c_bo_mcs, (&c_bo_mcs_lock.lock, &c_bo_mcs_nodes[thread], place_of(thread), &parking))
INIT_BY(c_bo_mcs, (&c_bo_mcs_lock.lock, c_bo_mcs_lock.cohorts, KINDS_PLACES))

static KINDS_APART struct {
    struct loiter_c_mcs_tkt lock;
    struct loiter_c_mcs_tkt_cohort cohorts[KINDS_PLACES];
} c_mcs_tkt_lock;
LOCK_OF(c_mcs_tkt, (&c_mcs_tkt_lock.lock, place_of(thread), policy), (&c_mcs_tkt_lock.lock, place_of(thread), policy))
TRY_BY(c_mcs_tkt, (&c_mcs_tkt_lock.lock, place_of(thread)))
INIT_BY(c_mcs_tkt, (&c_mcs_tkt_lock.lock, c_mcs_tkt_lock.cohorts, KINDS_PLACES))

static KINDS_APART struct {
    struct loiter_hclh lock;
    struct loiter_hclh_cluster clusters[KINDS_PLACES];
} hclh_lock;
static struct loiter_hclh_node hclh_nodes[MAX_THREADS];
static struct loiter_hclh_thread hclh_threads[MAX_THREADS];
LOCK_OF(hclh, (&hclh_lock.lock, &hclh_threads[thread], policy), (&hclh_lock.lock, &hclh_threads[thread]))
static void init_hclh(unsigned threads) {
    loiter_hclh_init(&hclh_lock.lock, hclh_lock.clusters, KINDS_PLACES);
    for (unsigned n = 0; n < threads; n++)
        loiter_hclh_init_thread(&hclh_threads[n], &hclh_nodes[n], place_of(n));
}

// ---- readers and writers -----------------------------------------------------------------------------------------------

LOCK(phase_fair_ticket, (&phase_fair_ticket, policy), (&phase_fair_ticket))
INIT(phase_fair_ticket)
TRY(phase_fair_ticket)
SHARED(phase_fair_ticket, (&phase_fair_ticket, policy), (&phase_fair_ticket))

static struct loiter_phase_fair_queue_node phase_fair_queue_nodes[MAX_THREADS];
LOCK(phase_fair_queue, (&phase_fair_queue, &phase_fair_queue_nodes[thread], policy),
     (&phase_fair_queue, &phase_fair_queue_nodes[thread], policy))
INIT(phase_fair_queue)
TRY_BY(phase_fair_queue, (&phase_fair_queue, &phase_fair_queue_nodes[thread], &parking))
SHARED(phase_fair_queue, (&phase_fair_queue, policy), (&phase_fair_queue, policy))

// ----------------------------------------------------------------------------------------------------------------------

#define OF(title, memory, name, acquire, order, flags, try_acquire)                                                    \
    BOUNDED(title, memory, name, acquire, order, flags, try_acquire, 0)
#define BOUNDED(title, memory, name, acquire, order, flags, try_acquire, bound)                                        \
    {                                                                                                                  \
        title, order, flags, &memory, sizeof memory, init_##name, acquire, try_acquire, release_##name, NULL, NULL,    \
            NULL, bound                                                                                                \
    }
#define KIND(name, try_acquire, order, flags) OF(#name, name, name, acquire_##name, order, flags, try_acquire)
#define KIND_OF(name, try_acquire, order, flags) OF(#name, name##_lock, name, acquire_##name, order, flags, try_acquire)
#define READERS(name, order, flags)                                                                                    \
    {                                                                                                                  \
        #name, order, flags, &name, sizeof name, init_##name, acquire_##name, try_##name, release_##name,              \
            acquire_shared_##name, try_shared_##name, release_shared_##name, 0                                         \
    }

const struct kind kinds[] = {
    KIND(test_and_set, try_test_and_set, ANY, 0),
    KIND(test_and_test_and_set, try_test_and_test_and_set, ANY, 0),
    OF("delay, after release", delay, delay, acquire_after_release, ANY, 0, try_delay),
    OF("delay, between references", delay, delay, acquire_between_references, ANY, DELAYS, try_delay),
    KIND(ticket, try_ticket, ARRIVAL, 0),
    OF("ticket, proportional", ticket, ticket, acquire_proportional, ARRIVAL, 0, try_ticket),
    KIND(anderson, try_anderson, ARRIVAL, PARKS | OWNED),
    KIND(graunke_thakkar, NULL, ARRIVAL, PARKS | OWNED),
    KIND(mcs, try_mcs, ARRIVAL, PARKS | OWNED),
    KIND(clh, NULL, ARRIVAL, PARKS | OWNED),
    OF("k42", k42.tail, k42, acquire_k42, ARRIVAL, PARKS, try_k42),
    KIND(qspinlock, try_qspinlock, ARRIVAL, PARKS),
    KIND(catnap, try_catnap, ARRIVAL, FIXED),
    OF("catnap, selective", catnap, catnap, acquire_selective, ARRIVAL, FIXED, try_catnap),
    BOUNDED("malthusian", malthusian, malthusian, acquire_malthusian, CULLED, PARKS | OWNED, try_malthusian,
            LOITER_MALTHUSIAN_PERIOD),
    BOUNDED("cna", cna, cna, acquire_cna, NEAR_FIRST, PARKS | OWNED, try_cna, LOITER_CNA_LOCAL),
    KIND(hbo, try_hbo, ANY, DELAYS),
    BOUNDED("hmcs", hmcs_lock, hmcs, acquire_hmcs, NEAR_FIRST, PARKS | OWNED, try_hmcs, LOITER_HMCS_PASSES),
    // Each arrival finds its local queue appended, so it appends itself, which shows in the lock.
    OF("hclh", hclh_lock.lock, hclh, acquire_hclh, ARRIVAL, OWNED, NULL),
    KIND_OF(c_bo_mcs, try_c_bo_mcs, NEAR_FIRST, PARKS | OWNED),
    BOUNDED("c_mcs_tkt", c_mcs_tkt_lock, c_mcs_tkt, acquire_c_mcs_tkt, NEAR_FIRST, 0, try_c_mcs_tkt,
            LOITER_COHORT_PASSES),
    KIND(spin_then_park, try_spin_then_park, ANY, 0),
    KIND(hardware_lock, try_hardware_lock, ANY, 0),
    READERS(phase_fair_ticket, ARRIVAL, 0),
    READERS(phase_fair_queue, ARRIVAL, PARKS | OWNED),
};
const unsigned kind_count = sizeof kinds / sizeof *kinds;
