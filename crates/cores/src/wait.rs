//! How contexts wait, in cores of every kind: what each way to wait costs, and when a nap ends.
//!
//! ```text
//!   executes --wait--> entry --------> asleep --event--> exit --> executes
//!                        |  event                         ^
//!                        +------ is heard at the end -----+
//! ```
//!
//! A transition is not aborted (as of the idle states of present processors: Woo et al., Catnap, IEEE
//! Access 8, 2020): an event that comes during the entry ends the nap when the entry is over.

use loiter_hart::{Hart, Nap};
use loiter_types::{Cycle, StateVisitor, counters, params};
use serde::{Deserialize, Serialize};

params! {
    /// Section `wait`: what each way to wait costs, and what it gives back while it lasts.
    pub struct WaitParams {
        /// The pause instruction: its context is not fetched from, or does not issue, for so long. With 1
        /// it passes as a nop.
        pause_cycles: int(1..=100000),
        /// From wrs.nto or wrs.sto to the first cycle in which what it waits for can end it.
        wrs_entry_cycles: int(0..=1000000),
        /// From the event that ends a wrs.nto or wrs.sto to the next instruction.
        wrs_exit_cycles: int(1..=1000000),
        /// Whether the others have what a context in wrs.nto or wrs.sto could have of queues and registers
        /// that are partitioned or capped.
        wrs_frees_shares: bool,
        /// Longest nap of wrs.sto.
        nap_short_limit_cycles: int(1..=1000000),
        /// Longest nap of wrs.nto, which the extension lets end for any reason; 0: there is no limit.
        nap_long_limit_cycles: int(0..=1000000000),
        /// From wfi to the first cycle in which an interrupt can end it.
        wfi_entry_cycles: int(0..=1000000),
        /// From the interrupt that ends a wfi to the next instruction.
        wfi_exit_cycles: int(1..=1000000),
        /// As wrs_frees_shares, for wfi.
        wfi_frees_shares: bool,
        /// From a hardware lock found held, or flags found zero, to the first cycle in which that can end.
        lock_entry_cycles: int(0..=1000000),
        /// From the event that ends waiting for a hardware lock or for flags to the next instruction,
        /// which looks again.
        lock_exit_cycles: int(1..=1000000),
        /// As wrs_frees_shares, for the hardware lock and flags.
        lock_frees_shares: bool,
    }
}

counters! {
    /// Counters of a core's naps.
    pub struct WaitCounters {
        /// Naps begun in wfi.
        wfi_naps: "events",
        /// Naps begun in wrs.nto and wrs.sto.
        wrs_naps: "events",
        /// Naps begun at a hardware lock found held; one wait may have several.
        lock_naps: "events",
        /// Naps begun at flags found zero; one wait may have several.
        flag_naps: "events",
        /// Naps that a store to the watched line ended.
        woken_by_store: "events",
        /// Naps that an interrupt ended.
        woken_by_interrupt: "events",
        /// Naps that their time limit ended.
        woken_by_limit: "events",
    }
}

/// What has ended a nap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Wakes {
    /// The watched line was written.
    Store,
    /// An interrupt pends.
    Interrupt,
    /// Its time is over.
    Limit,
}

/// A nap in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Sleep {
    pub(crate) nap: Nap,
    /// The first cycle of it.
    pub(crate) since: Cycle,
    /// The first cycle in which it can end.
    pub(crate) entered: Cycle,
    /// When it ends at the latest.
    pub(crate) limit: Cycle,
}

impl Sleep {
    /// Shows `visitor` the nap, which goes on.
    pub(crate) fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            nap,
            since: _,
            entered,
            limit,
        } = self;
        visitor.value(*nap as u64);
        visitor.deadline(*entered);
        visitor.deadline(*limit);
    }

    /// The same, but its entry begins in cycle `at`, when the response is back that puts it to sleep.
    pub(crate) fn answered(self, at: Cycle) -> Self {
        let entry = self.entered.since(self.since);
        Self {
            entered: at.after(entry),
            ..self
        }
    }
}

impl WaitParams {
    /// The nap of `hart`, whose instruction has put it to sleep at `now`.
    pub(crate) fn fall_asleep(&self, nap: Nap, now: Cycle, hart: &Hart) -> Sleep {
        let entry = match nap {
            Nap::Wfi => self.wfi_entry_cycles,
            Nap::WrsNto | Nap::WrsSto => self.wrs_entry_cycles,
            Nap::Lock | Nap::Flags => self.lock_entry_cycles,
        };
        Sleep {
            entered: now.after(entry),
            ..self.sleep_on(nap, now, hart)
        }
    }

    /// The nap of `hart`, which comes into a context asleep.
    pub(crate) fn sleep_on(&self, nap: Nap, now: Cycle, hart: &Hart) -> Sleep {
        Sleep {
            nap,
            since: now,
            entered: now,
            limit: match nap {
                Nap::WrsSto => now.after(self.nap_short_limit_cycles),
                Nap::WrsNto if self.nap_long_limit_cycles > 0 => {
                    now.after(self.nap_long_limit_cycles)
                }
                Nap::Wfi | Nap::WrsNto => Cycle::NEVER,
                Nap::Lock | Nap::Flags => hart.deadline().map_or(Cycle::NEVER, Cycle),
            },
        }
    }

    /// When the hart continues after an event in cycle `event`.
    pub(crate) fn continues(&self, sleep: &Sleep, event: Cycle) -> Cycle {
        let exit = match sleep.nap {
            Nap::Wfi => self.wfi_exit_cycles,
            Nap::WrsNto | Nap::WrsSto => self.wrs_exit_cycles,
            Nap::Lock | Nap::Flags => self.lock_exit_cycles,
        };
        event.max(sleep.entered).after(exit)
    }

    /// When the hart continues if no event comes.
    pub(crate) fn continues_by_itself(&self, sleep: &Sleep) -> Cycle {
        match sleep.limit {
            Cycle::NEVER => Cycle::NEVER,
            limit => self.continues(sleep, limit),
        }
    }

    /// Whether others may have the shares of a context in this nap.
    pub(crate) fn frees_shares(&self, nap: Nap) -> bool {
        match nap {
            Nap::Wfi => self.wfi_frees_shares,
            Nap::WrsNto | Nap::WrsSto => self.wrs_frees_shares,
            Nap::Lock | Nap::Flags => self.lock_frees_shares,
        }
    }
}

impl WaitCounters {
    /// A nap has begun.
    pub(crate) fn begun(&mut self, nap: Nap) {
        match nap {
            Nap::Wfi => self.wfi_naps += 1,
            Nap::WrsNto | Nap::WrsSto => self.wrs_naps += 1,
            Nap::Lock => self.lock_naps += 1,
            Nap::Flags => self.flag_naps += 1,
        }
    }

    /// A nap has ended.
    pub(crate) fn ended(&mut self, by: Wakes) {
        match by {
            Wakes::Store => self.woken_by_store += 1,
            Wakes::Interrupt => self.woken_by_interrupt += 1,
            Wakes::Limit => self.woken_by_limit += 1,
        }
    }
}
