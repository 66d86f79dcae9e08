// The mutex of the crate parking_lot, by the functions of parking_lot/src/lib.rs.
#define PEERS_LOCKS(PEER) PEER(parking_lot)

void peer_parking_lot_lock(void);
void peer_parking_lot_unlock(void);

static void init_parking_lot(unsigned threads) { (void)threads; }
static void acquire_parking_lot(unsigned thread, const struct loiter_policy *policy) {
    (void)thread, (void)policy;
    peer_parking_lot_lock();
}
static void release_parking_lot(unsigned thread, const struct loiter_policy *policy) {
    (void)thread, (void)policy;
    peer_parking_lot_unlock();
}
