//! Waits for locks, by their lengths: what shows that a virtual CPU waited for one that had lost its CPU.

use std::collections::BTreeMap;

use serde::Serialize;

use super::guest::Guest;
use crate::system::System;

/// Waits of a guest for locks of one symbol, of about one length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitRow {
    /// The guest.
    pub guest: String,
    /// The symbol of the lock, with the offset; empty for locks that belong to none that does not move.
    pub lock_symbol: String,
    /// They were at least 2^n and less than 2^(n+1) cycles; those of no cycle are among those of one.
    pub log2_cycles: u32,
    /// How many.
    pub waits: u64,
    /// Their sum.
    pub wait_cycles: u64,
    /// Those of them that were for a lock which another one held, or got meanwhile.
    pub contended_waits: u64,
    /// Their sum.
    pub contended_wait_cycles: u64,
    /// How many waits there were in which CPUs executed the virtual CPU for so long.
    pub executed_waits: u64,
    /// The sum of these cycles.
    pub executed_wait_cycles: u64,
}

/// All waits of a guest, as probes say, that have ended.
pub(super) fn wait_rows(guest: &Guest, system: &System) -> Vec<WaitRow> {
    let symbols = &system.symbols[guest.number()];
    let mut found = BTreeMap::<(String, u32), [u64; 6]>::new();
    for (user, used) in system
        .locks_of(guest.number())
        .flat_map(|locks| locks.uses())
    {
        let symbol = symbols.linked_text(user.lock).unwrap_or_default();
        for (at, durations) in [
            (0, &used.waits),
            (2, &used.contended_waits),
            (4, &used.executed_waits),
        ] {
            let bins = (durations.log2_histogram.iter()).zip(&durations.log2_sums_cycles);
            for (log2, (&count, &sum)) in (0..).zip(bins).filter(|(_, (count, _))| **count > 0) {
                let row = found.entry((symbol.clone(), log2)).or_default();
                row[at] += count;
                row[at + 1] += sum;
            }
        }
    }
    let row = |((lock_symbol, log2_cycles), numbers)| {
        let [
            waits,
            wait_cycles,
            contended_waits,
            contended_wait_cycles,
            executed_waits,
            executed_wait_cycles,
        ] = numbers;
        WaitRow {
            guest: guest.name.clone(),
            lock_symbol,
            log2_cycles,
            waits,
            wait_cycles,
            contended_waits,
            contended_wait_cycles,
            executed_waits,
            executed_wait_cycles,
        }
    };
    found.into_iter().map(row).collect()
}

#[cfg(test)]
#[path = "waits_tests.rs"]
mod tests;
