//! What locks cost, as rows of a result.

use loiter_observe::{Durations, LockUse, LockUser, Locks};
use loiter_types::Cycle;
use serde::Serialize;

use crate::symbols::Symbols;
use crate::system::System;

/// One hart's use of one lock from one place of the program, within the region of interest if it has one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LockRow {
    /// Address of the lock.
    pub lock: u64,
    /// The symbol that it belongs to, with the offset; empty if it belongs to none that does not move.
    pub lock_symbol: String,
    /// Where the acquire begins: address of the probe, or where the lock function returns to.
    pub site: u64,
    /// Its symbol likewise.
    pub site_symbol: String,
    /// The hart.
    pub hart: u16,
    /// Number of acquires that ended.
    pub acquisitions: u64,
    /// How many were of a lock that somebody who would not share it held at the beginning, or got meanwhile.
    pub contentions: u64,
    /// How many were of a lock that another hart had acquired last.
    pub bounces: u64,
    /// Sum of the times from the beginning of an acquire to its end.
    pub wait_sum_cycles: u64,
    /// The shortest.
    pub wait_min_cycles: u64,
    /// The longest.
    pub wait_max_cycles: u64,
    /// Entry n: how many were at least 2^n and less than 2^(n+1) cycles.
    pub wait_log2_histogram: Vec<u64>,
    /// Sum of the times that [`Self::contentions`] took from the beginning of the acquire to its end.
    pub contended_sum_cycles: u64,
    /// The shortest.
    pub contended_min_cycles: u64,
    /// The longest.
    pub contended_max_cycles: u64,
    /// Likewise.
    pub contended_log2_histogram: Vec<u64>,
    /// Number of releases.
    pub holds: u64,
    /// Sum of the times from the end of an acquire to the release.
    pub hold_sum_cycles: u64,
    /// The shortest.
    pub hold_min_cycles: u64,
    /// The longest.
    pub hold_max_cycles: u64,
    /// Likewise.
    pub hold_log2_histogram: Vec<u64>,
    /// How often the hart was waiting when the lock was released, and got it.
    pub handovers: u64,
    /// Sum of the times from that release to the end of the acquire.
    pub handover_sum_cycles: u64,
    /// The shortest.
    pub handover_min_cycles: u64,
    /// The longest.
    pub handover_max_cycles: u64,
    /// Likewise.
    pub handover_log2_histogram: Vec<u64>,
    /// Acquires that contend and have not ended when the rows are made. They are not among [`Self::contentions`].
    pub waiting: u64,
    /// Sum of the times from their beginning until then.
    pub waiting_sum_cycles: u64,
    /// The longest.
    pub waiting_max_cycles: u64,
}

/// What has been found out of locks.
pub(crate) fn lock_rows(system: &System) -> Vec<LockRow> {
    lock_rows_of(system, 0, system.now)
}

/// The same in a guest, which has run until `now`.
pub(crate) fn lock_rows_of(system: &System, guest: usize, now: Cycle) -> Vec<LockRow> {
    let symbols = &system.symbols[guest];
    let rows_of = |locks: &Locks| {
        let mut waiting = locks.waiting(now);
        let uses = locks.uses();
        let mut rows: Vec<LockRow> = uses
            .map(|(user, found)| {
                let waiting = waiting.remove(user).unwrap_or_default();
                row(symbols, user, found, &waiting)
            })
            .collect();
        let unseen = LockUse::default();
        let others = waiting.iter();
        rows.extend(others.map(|(user, waiting)| row(symbols, user, &unseen, waiting)));
        rows.sort_by_key(|row| (row.lock, row.site, row.hart));
        rows
    };
    system.locks_of(guest).flat_map(rows_of).collect()
}

fn row(symbols: &Symbols, user: &LockUser, found: &LockUse, waiting: &Durations) -> LockRow {
    let symbol = |addr| symbols.linked_text(addr).unwrap_or_default();
    LockRow {
        lock: user.lock,
        lock_symbol: symbol(user.lock),
        site: user.site,
        site_symbol: symbol(user.site),
        hart: user.hart.0,
        acquisitions: found.waits.count,
        contentions: found.contended_waits.count,
        bounces: found.moved,
        wait_sum_cycles: found.waits.sum_cycles,
        wait_min_cycles: found.waits.min_cycles,
        wait_max_cycles: found.waits.max_cycles,
        wait_log2_histogram: found.waits.log2_histogram.clone(),
        contended_sum_cycles: found.contended_waits.sum_cycles,
        contended_min_cycles: found.contended_waits.min_cycles,
        contended_max_cycles: found.contended_waits.max_cycles,
        contended_log2_histogram: found.contended_waits.log2_histogram.clone(),
        holds: found.holds.count,
        hold_sum_cycles: found.holds.sum_cycles,
        hold_min_cycles: found.holds.min_cycles,
        hold_max_cycles: found.holds.max_cycles,
        hold_log2_histogram: found.holds.log2_histogram.clone(),
        handovers: found.handovers.count,
        handover_sum_cycles: found.handovers.sum_cycles,
        handover_min_cycles: found.handovers.min_cycles,
        handover_max_cycles: found.handovers.max_cycles,
        handover_log2_histogram: found.handovers.log2_histogram.clone(),
        waiting: waiting.count,
        waiting_sum_cycles: waiting.sum_cycles,
        waiting_max_cycles: waiting.max_cycles,
    }
}
