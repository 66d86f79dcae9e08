//! Parameters of the memory system, one struct for each section of a machine file.

use loiter_types::params;

/// Sets of so many entries in so many ways.
///
/// # Errors
/// Says why there can be no such geometry.
pub fn sets(entries: u64, ways: u64) -> Result<u64, String> {
    let sets = entries / ways;
    if sets * ways == entries && sets.is_power_of_two() {
        return Ok(sets);
    }
    Err(format!(
        "entries = {entries} in ways = {ways} make {:.2} sets; the number of sets must be a power of two \
         (ways = {entries}: fully associative)",
        entries as f64 / ways as f64
    ))
}

params! {
    /// A private first-level cache: sections `l1i` and `l1d`. Stores write through and do not allocate.
    pub struct L1Params {
        /// Capacity.
        size_kib: int(1..=1024),
        /// Associativity.
        ways: int(1..=64),
        /// Bytes of a line, a power of two.
        line_bytes: int(8..=256),
        /// Which line of a set is replaced.
        replacement: choice("lru", "random", "nru", "rotating"),
    }
}

params! {
    /// Misses of a first-level cache that does not keep its core from continuing: also in sections `l1i`
    /// and `l1d`.
    pub struct L1MissParams {
        /// Lines that can be in flight to it.
        mshrs: int(1..=256),
        /// For what-if runs: every access hits, whatever the cache holds.
        perfect: bool = false,
    }
}

params! {
    /// Between the first level of a core that does not wait for its misses and the second: section `bus`.
    pub struct BusParams {
        /// shared: one bus for lines that either first-level cache is filled with and for changed lines
        /// that the data cache evicts; apart: each cache is filled by a bus of its own, and evicted lines
        /// cost nothing.
        kind: choice("shared", "apart"),
        /// For how long a line keeps the bus, so that no other line arrives.
        line_cycles: int(0..=100),
    }
}

params! {
    /// The shared second level with its interconnect: section `l2`.
    pub struct L2Params {
        /// Capacity of all banks together.
        size_kib: int(16..=1048576),
        /// Associativity.
        ways: int(1..=64),
        /// Bytes of a line, a power of two; banks interleave by lines.
        line_bytes: int(16..=256),
        /// Banks, each serving its own requests, a power of two.
        banks: int(1..=64),
        /// Which line of a set is replaced.
        replacement: choice("lru", "random", "nru"),
        /// From issue of a load that misses the first level to issue of the next instruction when
        /// the second level hits and nobody else is using it.
        hit_latency_cycles: int(3..=1000),
        /// The same for a load that misses the second level.
        miss_latency_cycles: int(4..=10000),
        /// The same for an atomic that hits.
        atomic_latency_cycles: int(3..=1000),
        /// Part of the hit latency before the request is at its bank.
        request_cycles: int(1..=500),
        /// Part of the hit latency after the bank has served it.
        reply_cycles: int(1..=500),
        /// Cycles for which a load, store or fetch keeps its bank from starting the next request.
        bank_busy_cycles: int(1..=100),
        /// The same for an atomic.
        atomic_busy_cycles: int(1..=100),
        /// Misses that a bank can have outstanding.
        mshrs_per_bank: int(1..=1024),
    }
}

params! {
    /// What a second level has beside, where first levels write through: also in section `l2`.
    pub struct ReplyParams {
        /// Part of reply_cycles after the reply has reached its core, which then has the line or has lost it, and before
        /// its context issues again.
        core_cycles: int(0..=500),
    }
}

impl L2Params {
    /// Checks what single bounds cannot.
    ///
    /// # Errors
    /// What contradicts what.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self {
            banks,
            request_cycles: request,
            reply_cycles: reply,
            hit_latency_cycles: hit,
            miss_latency_cycles: miss,
            atomic_latency_cycles: atomic,
            ..
        } = *self;
        if !banks.is_power_of_two() {
            return Err(format!("banks = {banks} is not a power of two"));
        }
        if request + reply >= hit {
            return Err(format!(
                "hit_latency_cycles = {hit} leaves nothing to the bank after request_cycles = {request} and \
                 reply_cycles = {reply}"
            ));
        }
        if miss <= hit || atomic < hit {
            return Err(format!(
                "miss_latency_cycles = {miss} and atomic_latency_cycles = {atomic} must not be less than \
                 hit_latency_cycles = {hit}"
            ));
        }
        Ok(())
    }

    /// From the beginning of a look-up to its result.
    pub(crate) fn bank_cycles(&self) -> u64 {
        self.hit_latency_cycles - self.request_cycles - self.reply_cycles
    }

    /// From a miss to its line, when nobody else uses the channel.
    pub(crate) fn memory_cycles(&self) -> u64 {
        self.miss_latency_cycles - self.hit_latency_cycles
    }
}

params! {
    /// Memory behind the second level: section `memory`.
    pub struct MemoryParams {
        /// Independent channels; bank n uses channel n modulo their number.
        channels: int(1..=64),
        /// Cycles for which the transfer of one second-level line keeps its channel busy.
        line_transfer_cycles: int(1..=10000),
        /// An access to a device, from issue to issue of the next instruction.
        device_latency_cycles: int(2..=100000),
    }
}

params! {
    /// A translation look-aside buffer of a core: sections `itlb` and `dtlb`.
    pub struct TlbParams {
        /// Translations that it holds; a page of any size takes one.
        entries: int(1..=65536),
        /// Associativity; as many as entries: a translation can be anywhere.
        ways: int(1..=65536),
        /// Which entry of a set is replaced: used_bit is the first that was not used since all others
        /// were.
        replacement: choice("used_bit", "lru", "random"),
    }
}

params! {
    /// What walks page tables for a core: section `walker`.
    pub struct WalkerParams {
        /// Walks that a core can have in flight; further ones wait their turn.
        walks: int(1..=64),
        /// Part of every walk beside its reads, before the first of them.
        fixed_cycles: int(0..=10000),
        /// Where it reads page tables: through the data cache of its core, or from the second level.
        reads: choice("l1d", "l2"),
    }
}
