// nsync's mutex.
#include <nsync_mu.h>

#define PEERS_LOCKS(PEER) PEER(nsync_mu)

static LOITER_ALIGNED nsync_mu mu;
static void init_nsync_mu(unsigned threads) {
    (void)threads;
    nsync_mu_init(&mu);
}
static void acquire_nsync_mu(unsigned thread, const struct loiter_policy *policy) {
    (void)thread, (void)policy;
    nsync_mu_lock(&mu);
}
static void release_nsync_mu(unsigned thread, const struct loiter_policy *policy) {
    (void)thread, (void)policy;
    nsync_mu_unlock(&mu);
}
