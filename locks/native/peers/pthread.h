// The C library's: mutex (sleeps at once), adaptive mutex (spins first), spin lock.
#include <pthread.h>

#define PEERS_LOCKS(PEER) PEER(pthread_mutex) PEER(pthread_mutex_adaptive) PEER(pthread_spin)

static LOITER_ALIGNED pthread_mutex_t plain_mutex, adaptive_mutex;
static LOITER_ALIGNED pthread_spinlock_t spin;

#define UNUSED (void)thread, (void)policy

static void init_pthread_mutex(unsigned threads) {
    (void)threads;
    pthread_mutex_init(&plain_mutex, NULL);
}
static void acquire_pthread_mutex(unsigned thread, const struct loiter_policy *policy) {
    UNUSED;
    pthread_mutex_lock(&plain_mutex);
}
static void release_pthread_mutex(unsigned thread, const struct loiter_policy *policy) {
    UNUSED;
    pthread_mutex_unlock(&plain_mutex);
}

static void init_pthread_mutex_adaptive(unsigned threads) {
    pthread_mutexattr_t attributes;
    (void)threads;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&adaptive_mutex, &attributes);
}
static void acquire_pthread_mutex_adaptive(unsigned thread, const struct loiter_policy *policy) {
    UNUSED;
    pthread_mutex_lock(&adaptive_mutex);
}
static void release_pthread_mutex_adaptive(unsigned thread, const struct loiter_policy *policy) {
    UNUSED;
    pthread_mutex_unlock(&adaptive_mutex);
}

static void init_pthread_spin(unsigned threads) {
    (void)threads;
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
}
static void acquire_pthread_spin(unsigned thread, const struct loiter_policy *policy) {
    UNUSED;
    pthread_spin_lock(&spin);
}
static void release_pthread_spin(unsigned thread, const struct loiter_policy *policy) {
    UNUSED;
    pthread_spin_unlock(&spin);
}
