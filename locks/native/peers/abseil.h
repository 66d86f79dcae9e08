// Abseil's mutex, by the functions of abseil.cc.
#define PEERS_LOCKS(PEER) PEER(absl_mutex)

void peer_absl_lock(void);
void peer_absl_unlock(void);

static void init_absl_mutex(unsigned threads) { (void)threads; }
static void acquire_absl_mutex(unsigned thread, const struct loiter_policy *policy) {
    (void)thread, (void)policy;
    peer_absl_lock();
}
static void release_absl_mutex(unsigned thread, const struct loiter_policy *policy) {
    (void)thread, (void)policy;
    peer_absl_unlock();
}
