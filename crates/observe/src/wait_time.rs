//! How long a virtual CPU has waited for locks.

use loiter_types::Cycle;
use serde::{Deserialize, Serialize};

/// How long a virtual CPU has waited for locks while a CPU executed it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct WaitTime {
    /// Whether a CPU executes it.
    executes: bool,
    /// While it does and waits for a lock, since when.
    since: Option<Cycle>,
    cycles: u64,
}

impl WaitTime {
    /// A CPU begins to execute it; whether it waits then.
    pub fn begins(&mut self, waits: bool, now: Cycle) {
        self.executes = true;
        self.since = waits.then_some(now);
    }

    /// The CPU ceases to.
    pub fn stops(&mut self, now: Cycle) {
        self.ends(now);
        self.executes = false;
    }

    /// Whether it waits from now on.
    pub fn changes(&mut self, waits: bool, now: Cycle) {
        match waits && self.executes {
            true => self.since = self.since.or(Some(now)),
            false => self.ends(now),
        }
    }

    /// Cycles in which it has waited, up to `now`.
    #[must_use]
    pub fn cycles(mut self, now: Cycle) -> u64 {
        self.ends(now);
        self.cycles
    }

    fn ends(&mut self, now: Cycle) {
        self.cycles += self.since.take().map_or(0, |since| now.since(since));
    }
}
