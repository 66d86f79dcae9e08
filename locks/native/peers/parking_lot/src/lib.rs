//! C names for the mutex of parking_lot.

use parking_lot::lock_api::RawMutex as _;
use parking_lot::RawMutex;

#[repr(align(128))]
struct Apart(RawMutex);

static MUTEX: Apart = Apart(RawMutex::INIT);

/// Locks the one mutex.
#[no_mangle]
pub extern "C" fn peer_parking_lot_lock() {
    MUTEX.0.lock();
}

/// Unlocks it.
///
/// # Safety
///
/// The caller has it locked.
#[no_mangle]
pub unsafe extern "C" fn peer_parking_lot_unlock() {
    MUTEX.0.unlock();
}
