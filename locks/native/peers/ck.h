// Concurrency Kit's spin locks, from its headers. Nodes of different threads are apart, as ours are.
#include <ck_spinlock.h>

#define PEERS_LOCKS(PEER)                                                                                              \
    PEER(ck_fas) PEER(ck_cas) PEER(ck_ticket) PEER(ck_mcs) PEER(ck_clh) PEER(ck_anderson)

// Of a lock that is one word.
#define CK_WORD(name)                                                                                                  \
    static LOITER_ALIGNED ck_spinlock_##name##_t word_##name;                                                          \
    static void init_ck_##name(unsigned threads) {                                                                     \
        (void)threads;                                                                                                 \
        ck_spinlock_##name##_init(&word_##name);                                                                       \
    }                                                                                                                  \
    static void acquire_ck_##name(unsigned thread, const struct loiter_policy *policy) {                               \
        (void)thread, (void)policy;                                                                                    \
        ck_spinlock_##name##_lock(&word_##name);                                                                       \
    }                                                                                                                  \
    static void release_ck_##name(unsigned thread, const struct loiter_policy *policy) {                               \
        (void)thread, (void)policy;                                                                                    \
        ck_spinlock_##name##_unlock(&word_##name);                                                                     \
    }
CK_WORD(fas)
CK_WORD(cas)
CK_WORD(ticket)

static LOITER_ALIGNED ck_spinlock_mcs_t mcs_queue;
static struct {
    LOITER_ALIGNED ck_spinlock_mcs_context_t node;
} ck_mcs_nodes[MAX_THREADS];
static void init_ck_mcs(unsigned threads) {
    (void)threads;
    ck_spinlock_mcs_init(&mcs_queue);
}
static void acquire_ck_mcs(unsigned thread, const struct loiter_policy *policy) {
    (void)policy;
    ck_spinlock_mcs_lock(&mcs_queue, &ck_mcs_nodes[thread].node);
}
static void release_ck_mcs(unsigned thread, const struct loiter_policy *policy) {
    (void)policy;
    ck_spinlock_mcs_unlock(&mcs_queue, &ck_mcs_nodes[thread].node);
}

static LOITER_ALIGNED ck_spinlock_clh_t *clh_queue;
static struct {
    LOITER_ALIGNED ck_spinlock_clh_t node;
} ck_clh_nodes[MAX_THREADS + 1];
static struct {
    LOITER_ALIGNED ck_spinlock_clh_t *own; // the node that a thread brings, which another has brought before
} ck_clh_threads[MAX_THREADS];
static void init_ck_clh(unsigned threads) {
    ck_spinlock_clh_init(&clh_queue, &ck_clh_nodes[threads].node);
    for (unsigned n = 0; n < threads; n++)
        ck_clh_threads[n].own = &ck_clh_nodes[n].node;
}
static void acquire_ck_clh(unsigned thread, const struct loiter_policy *policy) {
    (void)policy;
    ck_spinlock_clh_lock(&clh_queue, ck_clh_threads[thread].own);
}
static void release_ck_clh(unsigned thread, const struct loiter_policy *policy) {
    (void)policy;
    ck_spinlock_clh_unlock(&ck_clh_threads[thread].own);
}

static LOITER_ALIGNED ck_spinlock_anderson_t ck_anderson;
static ck_spinlock_anderson_thread_t ck_anderson_slots[MAX_THREADS];
static struct {
    LOITER_ALIGNED ck_spinlock_anderson_thread_t *slot;
} ck_anderson_threads[MAX_THREADS];
static void init_ck_anderson(unsigned threads) {
    unsigned power = 1;
    while (power < threads)
        power *= 2;
    ck_spinlock_anderson_init(&ck_anderson, ck_anderson_slots, power);
}
static void acquire_ck_anderson(unsigned thread, const struct loiter_policy *policy) {
    (void)policy;
    ck_spinlock_anderson_lock(&ck_anderson, &ck_anderson_threads[thread].slot);
}
static void release_ck_anderson(unsigned thread, const struct loiter_policy *policy) {
    (void)policy;
    ck_spinlock_anderson_unlock(&ck_anderson, ck_anderson_threads[thread].slot);
}
