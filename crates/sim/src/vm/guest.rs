//! A guest: a system whose harts are virtual CPUs.

use loiter_hart::{HartState, HostCall, Nap, Privilege, Stop};
use loiter_types::{Cycle, HartId};

use crate::result::Exit;
use crate::system::System;

/// How a guest ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// By itself, or because nothing could happen in it any more.
    Exit(Exit),
    /// A trap that it does not handle.
    Failed(String),
}

pub(crate) struct Guest {
    pub(crate) name: String,
    pub(crate) system: System,
    /// Its clock when the host's was 0.
    offset: u64,
    /// Instructions that each hart had retired by then.
    retired: Vec<u64>,
    /// Whether somebody types to it, so that it may wait for more.
    pub(crate) is_driven: bool,
    pub(crate) over: Option<(Cycle, End)>,
}

/// What a virtual CPU has done.
pub(crate) struct Executed {
    /// Cycles that it took.
    pub(crate) cycles: u64,
    /// Those of them in which it waited for a lock.
    pub(crate) spinning: u64,
    /// Why it has come back to the host.
    pub(crate) left: Left,
}

/// Why a virtual CPU has come back to the host.
pub(crate) enum Left {
    /// What it was given is used up.
    Budget,
    /// It sleeps in `wfi`.
    Blocked,
    /// It calls the host.
    Called(HostCall),
    /// Its guest is over.
    Over(End),
}

impl Guest {
    pub(crate) fn new(name: &str, mut system: System, is_driven: bool) -> Self {
        for hart in &mut system.harts {
            hart.is_virtual = true;
        }
        Self {
            name: name.to_owned(),
            offset: system.now.0,
            retired: system.harts.iter().map(|hart| hart.retired).collect(),
            system,
            is_driven,
            over: None,
        }
    }

    /// Its clock is the host's, whoever runs.
    pub(crate) fn set_time(&mut self, now: Cycle) {
        let system = &mut self.system;
        system.now = now.after(self.offset);
        system
            .machine
            .set_time(system.now.0 / system.cycles_per_tick);
    }

    /// Instructions that a hart has retired on this host.
    pub(crate) fn instructions(&self, hart: HartId) -> u64 {
        self.system.harts[hart.index()].retired - self.retired[hart.index()]
    }

    /// Those of all harts.
    pub(crate) fn all_instructions(&self) -> u64 {
        self.system.instructions() - self.retired.iter().sum::<u64>()
    }

    /// When a timer of it next fires, in the host's time.
    pub(crate) fn next_wake(&self) -> Option<Cycle> {
        let due = self.system.next_wake()?;
        Some(Cycle(due.0.saturating_sub(self.offset)))
    }

    /// Whether a hart that has slept is awake.
    pub(crate) fn awake(&mut self, hart: HartId) -> bool {
        self.system.awake(hart.index())
    }

    /// Whether a hart is in the guest's kernel, or in its firmware.
    pub(crate) fn in_kernel(&self, hart: HartId) -> bool {
        self.system.harts[hart.index()].csr.privilege != Privilege::User
    }

    /// Executes a hart from `at` on, in the host's time, for at most `budget` cycles.
    pub(crate) fn execute(&mut self, hart: HartId, at: Cycle, budget: u64) -> Executed {
        let (mut cycles, mut spinning) = (0, 0);
        loop {
            let spins = self.system.recorder.is_spinning(hart);
            let (took, left) = self.burst(hart, at.after(self.offset + cycles), budget - cycles);
            cycles += took;
            spinning += if spins { took } else { 0 };
            let left = match left {
                None if cycles >= budget => Some(Left::Budget),
                left => left,
            };
            if let Some(left) = left {
                return Executed {
                    cycles,
                    spinning,
                    left,
                };
            }
        }
    }

    /// Executes a hart up to a probe, or until it comes back. Returns the cycles that it took.
    fn burst(&mut self, hart: HartId, at: Cycle, budget: u64) -> (u64, Option<Left>) {
        let n = hart.index();
        // It keeps its CPU in all naps but wfi.
        if self.system.harts[n].state != HartState::Running && !self.system.awake(n) {
            return (budget, Some(Left::Budget));
        }
        self.system.harts[n].csr.clock.cycle = at.0;
        let burst = self.system.burst(n, budget, None);
        let used = burst.retired + burst.traps;
        match burst.stop {
            Stop::Probe(code, value) => {
                self.system.probe(hart, at.after(used), code, value);
                (used, None)
            }
            Stop::Budget => (used, Some(Left::Budget)),
            Stop::Napping(Nap::Wfi) if self.system.awake(n) => (used, None),
            Stop::Napping(Nap::Wfi) => (used, Some(Left::Blocked)),
            // What spins sees nothing new before others have had their turn.
            Stop::Pause | Stop::Napping(_) => (budget, Some(Left::Budget)),
            Stop::Called(call) => (used, Some(Left::Called(call))),
            Stop::Ended => {
                let exit = self.system.ended().expect("it has ended");
                (used, Some(Left::Over(End::Exit(exit))))
            }
            Stop::Unhandled(unhandled) => {
                self.system.now = at.after(used);
                let error = self.system.unhandled(hart, unhandled);
                (used, Some(Left::Over(End::Failed(error.to_string()))))
            }
            Stop::Held => unreachable!("nobody watches guests"),
        }
    }

    /// The end of a guest in which nothing can ever happen again.
    pub(crate) fn stuck(&self) -> End {
        let harts = self.system.harts.iter();
        let who: Vec<_> = harts
            .map(|hart| {
                let symbol = self.system.symbol(hart.id, hart.pc);
                format!("{} at {:#x}{symbol} {}", hart.id, hart.pc, Nap::Wfi.words())
            })
            .collect();
        End::Exit(self.system.watchdog(&who))
    }
}
