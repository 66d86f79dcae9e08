// DPDK's locks, which are all in its headers.
#define ALLOW_EXPERIMENTAL_API
#include <rte_mcslock.h>
#include <rte_spinlock.h>
#include <rte_ticketlock.h>

#define PEERS_LOCKS(PEER) PEER(dpdk_spinlock) PEER(dpdk_ticketlock) PEER(dpdk_mcslock)

#define DPDK_WORD(name)                                                                                                \
    static LOITER_ALIGNED rte_##name##_t word_##name;                                                                  \
    static void init_dpdk_##name(unsigned threads) {                                                                   \
        (void)threads;                                                                                                 \
        rte_##name##_init(&word_##name);                                                                               \
    }                                                                                                                  \
    static void acquire_dpdk_##name(unsigned thread, const struct loiter_policy *policy) {                             \
        (void)thread, (void)policy;                                                                                    \
        rte_##name##_lock(&word_##name);                                                                               \
    }                                                                                                                  \
    static void release_dpdk_##name(unsigned thread, const struct loiter_policy *policy) {                             \
        (void)thread, (void)policy;                                                                                    \
        rte_##name##_unlock(&word_##name);                                                                             \
    }
DPDK_WORD(spinlock)
DPDK_WORD(ticketlock)

static LOITER_ALIGNED rte_mcslock_t *mcslock;
static struct {
    LOITER_ALIGNED rte_mcslock_t node;
} mcslock_nodes[MAX_THREADS];
static void init_dpdk_mcslock(unsigned threads) { (void)threads; }
static void acquire_dpdk_mcslock(unsigned thread, const struct loiter_policy *policy) {
    (void)policy;
    rte_mcslock_lock(&mcslock, &mcslock_nodes[thread].node);
}
static void release_dpdk_mcslock(unsigned thread, const struct loiter_policy *policy) {
    (void)policy;
    rte_mcslock_unlock(&mcslock, &mcslock_nodes[thread].node);
}
