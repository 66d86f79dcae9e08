//! Policies: which contexts are fetched from first, and how much of what is shared a context may have.

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::params::SmtParams;

/// A policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum FetchPolicy {
    /// Those with the fewest instructions before issue (Tullsen et al. 1996, ICOUNT).
    Icount,
    /// In turn.
    RoundRobin,
}

impl FetchPolicy {
    /// The policy of a word of `core.fetch_policy`.
    pub(super) fn named(word: &str) -> Self {
        match word {
            "round_robin" => Self::RoundRobin,
            _ => Self::Icount,
        }
    }

    /// What contexts are preferred by, the least first; equals go in turn.
    #[inline(always)]
    pub(super) fn rank(self, context: &Context) -> u64 {
        match self {
            Self::Icount => u64::from(context.unissued),
            Self::RoundRobin => 0,
        }
    }
}

/// What of the front end, of queues and of registers a context may have.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Shares {
    /// Instructions before renaming; no bound where they are not divided, or stand in stages.
    pub(super) front: u32,
    /// Entries of the integer queue and of the floating-point queue.
    pub(super) queues: [u32; 2],
    /// Integer and floating-point registers beside those of the architecture.
    pub(super) registers: [u32; 2],
}

impl Shares {
    /// Where only `awake` contexts of all make use of their share, what the others could have is theirs.
    pub(super) fn new(params: &SmtParams, awake: u64) -> Self {
        let core = &params.core;
        let awake = awake.max(1);
        let share = |word: &str, cap: u64, all: u64| {
            let most = match word {
                "partitioned" => all / awake,
                "capped" => all.min(cap * params.contexts / awake),
                _ => all,
            };
            most as u32
        };
        let queue = |all| share(&core.queue_sharing, core.queue_cap_entries, all);
        let registers = |all| share(&core.register_sharing, core.register_cap, all);
        Self {
            front: match (core.front_end.as_str(), core.fetch_buffer_sharing.as_str()) {
                ("queue", "partitioned") => (core.fetch_buffer_entries / awake) as u32,
                _ => u32::MAX,
            },
            queues: [
                queue(core.integer_queue_entries),
                queue(core.fp_queue_entries),
            ],
            registers: [
                registers(core.integer_registers),
                registers(core.fp_registers),
            ],
        }
    }

    /// What contexts would have nothing of, if they would.
    pub(super) fn missing(&self) -> Option<&'static str> {
        if self.front == 0 {
            return Some(
                "fetch_buffer_sharing = \"partitioned\" leaves a context no entry of the front end",
            );
        }
        if self.queues.contains(&0) {
            return Some("queue_sharing = \"partitioned\" leaves a context no entry of a queue");
        }
        self.registers
            .contains(&0)
            .then_some("register_sharing = \"partitioned\" leaves a context no register")
    }
}
