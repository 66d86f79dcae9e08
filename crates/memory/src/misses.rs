//! Miss registers of a first-level cache: which lines are in flight, and how many can be.
//!
//! A request for a line in flight goes no further: it performs with the one that is.

use loiter_types::Cycle;
use serde::{Deserialize, Serialize};

use crate::params::L1MissParams;
use crate::request::Level;

/// A line in flight.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct OnItsWay {
    line: u64,
    /// It will be the core's own.
    owned: bool,
    pub(crate) performs: Cycle,
    pub(crate) done: Cycle,
    pub(crate) level: Level,
}

/// The miss registers of a cache.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct MissRegisters {
    params: L1MissParams,
    taken: Vec<OnItsWay>,
}

/// What a request finds in the miss registers.
pub(crate) enum Found {
    /// Its line is in flight.
    Line(OnItsWay),
    /// A free register.
    Free,
    /// None; the first is free in this cycle.
    Full(Cycle),
}

impl MissRegisters {
    pub(crate) fn new(params: &L1MissParams) -> Self {
        Self {
            params: params.clone(),
            taken: Vec::with_capacity(params.mshrs as usize),
        }
    }

    pub(crate) fn is_perfect(&self) -> bool {
        self.params.perfect
    }

    /// What a request for `line` finds at `now`; `owns` says that the line is to be the core's own.
    pub(crate) fn find(&mut self, now: Cycle, line: u64, owns: bool) -> Found {
        self.taken.retain(|miss| miss.done > now);
        let merges = |miss: &&OnItsWay| miss.line == line && (miss.owned || !owns);
        if let Some(&miss) = self.taken.iter().find(merges) {
            return Found::Line(miss);
        }
        if (self.taken.len() as u64) < self.params.mshrs {
            return Found::Free;
        }
        let first = self.taken.iter().map(|miss| miss.done).min();
        Found::Full(first.unwrap_or(now).max(now.after(1)))
    }

    /// A line is in flight, in a register that was seen to be free.
    pub(crate) fn take(
        &mut self,
        line: u64,
        owned: bool,
        performs: Cycle,
        done: Cycle,
        level: Level,
    ) {
        debug_assert!((self.taken.len() as u64) < self.params.mshrs);
        self.taken.push(OnItsWay {
            line,
            owned,
            performs,
            done,
            level,
        });
    }
}
