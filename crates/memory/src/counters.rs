//! Counters of the memory system.

use loiter_types::counters;

counters! {
    /// Counters of a first-level cache.
    pub struct L1Counters {
        /// Look-ups by fetches or loads.
        accesses: "accesses",
        /// Look-ups that found no valid line.
        misses: "accesses",
        /// Lines lost because another core's store, or a second-level replacement, took them.
        invalidations: "lines",
    }
}

counters! {
    /// Counters of the miss registers of a first-level cache.
    pub struct MissCounters {
        /// Misses whose line was in flight already.
        merged_misses: "accesses",
        /// Times that a miss found no free miss register and had to come again.
        refused_misses: "events",
        /// Lines in flight, summed over cycles.
        outstanding_misses: "lines",
    }
}

counters! {
    /// Counters of the second level of a core's private caches.
    pub struct SecondCounters {
        /// Look-ups by what missed the first level.
        accesses: "accesses",
        /// Look-ups that found no valid line.
        misses: "accesses",
    }
}

counters! {
    /// Counters of the bus between the first level of a core and the second.
    pub struct BusCounters {
        /// Lines that first-level caches were filled with.
        fills: "lines",
        /// Changed lines that the data cache gave back; where they need no bus, none.
        writebacks: "lines",
        /// Cycles that both waited for the bus.
        wait_cycles: "cycles",
    }
}

counters! {
    /// Counters of a data cache whose core owns the lines it stores to.
    pub struct StoreCounters {
        /// Look-ups by stores and atomics.
        stores: "accesses",
        /// Those whose line was not the core's own.
        store_misses: "accesses",
        /// Lines that were asked for while older stores waited for theirs.
        owned_ahead: "lines",
        /// Requests of others that waited for a line since it is kept after an `lr`.
        held_snoops: "requests",
        /// Cycles that they waited.
        held_snoop_cycles: "cycles",
    }
}

counters! {
    /// Counters of the second level and of memory.
    pub struct L2Counters {
        /// Fetches, loads, stores and atomics that arrived.
        accesses: "accesses",
        /// Those that were atomics.
        atomics: "accesses",
        /// Those that were stores.
        stores: "accesses",
        /// Those whose line was not there.
        misses: "accesses",
        /// Those whose line was already in flight.
        merged_misses: "accesses",
        /// Cycles that requests waited for their bank.
        bank_wait_cycles: "cycles",
        /// Cycles that misses waited for a free miss register of their bank.
        mshr_wait_cycles: "cycles",
        /// Cycles that misses waited for their memory channel.
        channel_wait_cycles: "cycles",
        /// Lines in flight from memory, summed over cycles.
        outstanding_misses: "lines",
        /// Changed lines written back to memory.
        writebacks: "lines",
    }
}

counters! {
    /// Counters of a translation look-aside buffer.
    pub struct TlbCounters {
        /// Look-ups by fetches, or by loads, stores and atomics.
        accesses: "accesses",
        /// Look-ups that found no translation, or none that is enough for a store.
        misses: "accesses",
        /// Translations forgotten because a hart asked for it.
        flushed: "entries",
    }
}

counters! {
    /// Counters of what walks page tables for a core.
    pub struct WalkerCounters {
        /// Walks begun.
        walks: "walks",
        /// Those that found no page, or one that does not grant the access.
        failed_walks: "walks",
        /// Entries of page tables read.
        reads: "accesses",
        /// Cycles from the beginning of each walk to its end.
        walk_cycles: "cycles",
        /// Cycles that contexts waited for their walk to begin.
        wait_cycles: "cycles",
    }
}
