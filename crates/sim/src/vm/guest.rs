//! A guest: a part of the host's system, whose harts are virtual CPUs.

use loiter_hart::{HartState, HostCall, Nap, Privilege, Stop};
use loiter_observe::Locks;
use loiter_types::{Cycle, HartId};
use serde::{Deserialize, Serialize};

use super::detection::WaitLoops;
use crate::result::Exit;
use crate::system::System;

/// How a guest ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum End {
    /// By itself, or because nothing could happen in it any more.
    Exit(Exit),
    /// A trap that it does not handle.
    Failed(String),
}

pub(crate) struct Guest {
    pub(crate) name: String,
    /// Its number in the system.
    number: usize,
    /// Its harts in the system.
    harts: Vec<HartId>,
    /// Instructions that each of them had retired when the host's time began.
    pub(super) retired: Vec<u64>,
    /// Whether somebody types to it, so that it may wait for more.
    pub(crate) is_driven: bool,
    pub(crate) over: Option<(Cycle, End)>,
}

/// What a virtual CPU has done.
pub(crate) struct Executed {
    /// Cycles that it took.
    pub(crate) cycles: u64,
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
    /// It has paused or napped for long.
    Waits,
    /// Its guest is over.
    Over(End),
}

impl Guest {
    /// Guest `number` of `system`.
    pub(crate) fn new(name: &str, number: usize, system: &System, is_driven: bool) -> Self {
        let harts: Vec<_> = system.machine.harts_of(number).collect();
        let retired = |hart: &HartId| system.harts[hart.index()].retired;
        Self {
            name: name.to_owned(),
            number,
            retired: harts.iter().map(retired).collect(),
            harts,
            is_driven,
            over: None,
        }
    }

    /// Its harts, by their numbers in the system.
    pub(crate) fn harts(&self) -> &[HartId] {
        &self.harts
    }

    /// Its number in the system.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Instructions that a hart has retired on this host.
    pub(crate) fn instructions(&self, system: &System, hart: HartId) -> u64 {
        let own = self.harts.iter().position(|&it| it == hart);
        let before = own.map_or(0, |n| self.retired[n]);
        system.harts[hart.index()].retired - before
    }

    /// Those of all harts.
    pub(crate) fn all_instructions(&self, system: &System) -> u64 {
        let harts = self.harts.iter();
        harts.map(|&hart| self.instructions(system, hart)).sum()
    }

    /// When time alone next wakes one of its harts.
    pub(crate) fn next_wake(&self, system: &System) -> Option<Cycle> {
        let asleep = self.harts.iter().map(|hart| &system.harts[hart.index()]);
        let asleep = asleep.filter(|hart| hart.state != HartState::Running);
        let deadlines = asleep.filter_map(|hart| hart.deadline().map(Cycle));
        let tick = system.machine.platform(self.number).next_timer_ticks();
        let timer = tick.map(|tick| Cycle(tick.saturating_mul(system.cycles_per_tick)));
        deadlines.chain(timer).min()
    }

    /// What is known of its locks: by the functions of its kernel, or else by probes.
    pub(crate) fn locks<'a>(&self, system: &'a System) -> &'a Locks {
        let last = system.locks_of(self.number).last();
        last.expect("probes tell of locks")
    }

    /// The end of a guest in which nothing can ever happen again.
    pub(crate) fn stuck(&self, system: &System) -> End {
        let harts = self.harts.iter().enumerate();
        let who: Vec<_> = harts
            .map(|(n, &hart)| {
                let pc = system.harts[hart.index()].pc;
                let symbol = system.symbol(hart, pc);
                let id = HartId::new(n);
                format!("{id} at {pc:#x}{symbol} {}", Nap::Wfi.words())
            })
            .collect();
        End::Exit(system.watchdog(&who))
    }

    /// What it has said on console `port` since last asked.
    pub(crate) fn take_output(&self, system: &mut System, port: usize) -> Vec<u8> {
        let platform = system.machine.platform_mut(self.number);
        platform.take_output(port)
    }

    /// Whether it has said something since then.
    pub(crate) fn has_output(&self, system: &System) -> bool {
        system.machine.platform(self.number).has_output()
    }
}

/// Whether a hart is in its guest's kernel, or in its firmware.
pub(crate) fn in_kernel(system: &System, hart: HartId) -> bool {
    system.harts[hart.index()].csr.privilege != Privilege::User
}

/// The reference engine executes a hart from `at` on for at most `budget` cycles; `loops` finds that it pauses for long.
pub(crate) fn execute(
    system: &mut System,
    loops: &mut Option<WaitLoops>,
    hart: HartId,
    at: Cycle,
    budget: u64,
) -> Executed {
    let mut cycles = 0;
    system.begins(hart, at);
    loop {
        let (took, left) = burst(system, loops, hart, at.after(cycles), budget - cycles);
        cycles += took;
        let left = match left {
            None if cycles >= budget => Some(Left::Budget),
            left => left,
        };
        if let Some(left) = left {
            system.stops(hart, at.after(cycles));
            return Executed { cycles, left };
        }
    }
}

/// A hart pauses from `from` to `until`: it sees nothing new before others have had their turn. To watch a line is to pause.
/// Returns whether it has done so for long.
fn pauses(
    system: &System,
    loops: &mut Option<WaitLoops>,
    hart: HartId,
    (from, until): (Cycle, Cycle),
) -> bool {
    let state = system.harts[hart.index()].state;
    let loops = loops.as_mut();
    let loops = loops.filter(|loops| loops.counts(state, in_kernel(system, hart)));
    loops.is_some_and(|loops| loops.is_long(hart, from, until))
}

/// Executes a hart up to a probe, or until it comes back. Returns the cycles that it took.
fn burst(
    system: &mut System,
    loops: &mut Option<WaitLoops>,
    hart: HartId,
    at: Cycle,
    budget: u64,
) -> (u64, Option<Left>) {
    let n = hart.index();
    let mut paused = |system: &System, used| match pauses(
        system,
        loops,
        hart,
        (at.after(used), at.after(budget)),
    ) {
        true => (used, Some(Left::Waits)),
        false => (budget, Some(Left::Budget)),
    };
    // It keeps its CPU in all naps but wfi.
    if system.harts[n].state != HartState::Running && !system.awake(n) {
        return paused(system, 0);
    }
    system.harts[n].csr.clock.cycle = at.0;
    let burst = watched(system, hart, |system| system.burst(n, budget, None));
    let used = burst.retired + burst.traps;
    match burst.stop {
        Stop::Probe(code, value) => {
            watched(system, hart, |system| {
                system.probe(hart, at.after(used), code, value)
            });
            (used, None)
        }
        Stop::Budget => (used, Some(Left::Budget)),
        Stop::Napping(Nap::Wfi) if system.awake(n) => (used, None),
        Stop::Napping(Nap::Wfi) => (used, Some(Left::Blocked)),
        Stop::Pause | Stop::Napping(_) => paused(system, used),
        Stop::Called(call) => (used, Some(Left::Called(call))),
        Stop::Ended => {
            system.machine.ends_are_seen();
            let guest = system.machine.guest_of(hart).0;
            let exit = system.ended_of(guest).expect("it has ended");
            (used, Some(Left::Over(End::Exit(exit))))
        }
        Stop::Unhandled(unhandled) => {
            let now = std::mem::replace(&mut system.now, at.after(used));
            let error = system.unhandled(hart, unhandled);
            system.now = now;
            (used, Some(Left::Over(End::Failed(error.to_string()))))
        }
        Stop::Held => unreachable!("nobody watches guests"),
    }
}

/// Does what is to be watched by who watches the guest of `hart`.
fn watched<T>(system: &mut System, hart: HartId, run: impl FnOnce(&mut System) -> T) -> T {
    let guest = system.machine.guest_of(hart).0;
    std::mem::swap(&mut system.inspector, system.guest_inspectors.place(guest));
    let done = run(system);
    std::mem::swap(&mut system.inspector, system.guest_inspectors.place(guest));
    done
}
