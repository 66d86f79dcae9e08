// C names for Abseil's mutex.
#include <absl/synchronization/mutex.h>

alignas(128) static absl::Mutex mutex;

extern "C" void peer_absl_lock() { mutex.Lock(); }
extern "C" void peer_absl_unlock() { mutex.Unlock(); }
