//! Virtual and physical CPUs: who is in which state, since when, and what that comes to.

use loiter_types::{CpuId, Cycle, HartId, VcpuId};
use serde::{Deserialize, Serialize};

/// What a virtual CPU is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    /// A CPU executes it.
    Running,
    /// It could execute, and no CPU has begun to.
    Runnable,
    /// It sleeps in `wfi`.
    Blocked,
    /// Its guest is over.
    Over,
}

/// A hart of a guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Vcpu {
    pub(crate) guest: usize,
    /// Its hart in the system.
    pub(crate) hart: HartId,
    /// Its number in its guest.
    pub(crate) number: HartId,
    state: State,
    /// When it came into its state. Who is runnable has executed until then.
    since: Cycle,
    /// Where it runs, or has run last.
    pub(crate) cpu: CpuId,
    /// When it last called to yield, if it has not run since.
    pub(crate) yielded: Option<Cycle>,
    /// When it was woken, if it has not run since.
    pub(crate) woken: Option<Cycle>,
    /// Whether it sleeps until it is kicked, and whether it has been kicked since it last did.
    pub(crate) waits_for_kick: bool,
    pub(crate) kicked: bool,
    /// Its steal cycles when it asked to see them: what it sees counts from then on.
    pub(crate) steal_before: u64,
    pub(crate) counts: VcpuCounts,
}

/// What becomes of a virtual CPU's time, in cycles, and what happens to it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct VcpuCounts {
    /// Cycles that CPUs have executed it.
    pub(crate) run: u64,
    /// Cycles by its states; `running` is `run`, found another way.
    pub(crate) running: u64,
    pub(crate) runnable: u64,
    pub(crate) blocked: u64,
    /// The longest that it had to wait for a CPU.
    pub(crate) longest_runnable: u64,
    /// Times that a CPU had to change to it.
    pub(crate) switches: u64,
    /// Times that another one took the CPU from it.
    pub(crate) preemptions: u64,
    /// Times that it has come to another CPU.
    pub(crate) migrations: u64,
    /// Calls to yield.
    pub(crate) yields: u64,
    /// Loops of pauses that were found too long.
    pub(crate) pause_loops: u64,
    /// Naps in `wrs.nto` that lasted too long.
    pub(crate) wrs_traps: u64,
    /// Calls to sleep until it is kicked, and kicks that it got.
    pub(crate) kick_waits: u64,
    pub(crate) kicks: u64,
    /// Times that it kept its CPU because it was in its guest's kernel, and cycles that it executed by that.
    pub(crate) postponements: u64,
    pub(crate) postponed: u64,
    /// Times that it was chosen to run instead of one that yields.
    pub(crate) helped: u64,
    /// Times that it was woken.
    pub(crate) wakes: u64,
    /// Cycles from being woken to executing, in all and at most.
    pub(crate) wake_wait: u64,
    pub(crate) longest_wake_wait: u64,
}

impl Vcpu {
    /// Hart `hart`, number `number` of `guest`.
    pub(crate) fn new(guest: usize, hart: HartId, number: usize, cpu: CpuId) -> Self {
        Self {
            guest,
            hart,
            number: HartId::new(number),
            state: State::Blocked,
            since: Cycle(0),
            cpu,
            yielded: None,
            woken: None,
            waits_for_kick: false,
            kicked: false,
            steal_before: 0,
            counts: VcpuCounts::default(),
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn since(&self) -> Cycle {
        self.since
    }

    /// Whether a CPU that is at `now` can begin to execute it. In the same turn another one may have executed it further
    /// than that.
    pub(crate) fn can_run(&self, now: Cycle) -> bool {
        self.state == State::Runnable && self.since <= now
    }

    /// It comes into another state.
    pub(crate) fn enter(&mut self, state: State, at: Cycle) {
        assert!(at >= self.since, "a VCPU goes back in time");
        let been = at.since(self.since);
        let counts = &mut self.counts;
        match self.state {
            State::Running => counts.running += been,
            State::Runnable => {
                counts.runnable += been;
                counts.longest_runnable = counts.longest_runnable.max(been);
            }
            State::Blocked => counts.blocked += been,
            State::Over => unreachable!("what is over stays so"),
        }
        self.state = state;
        self.since = at;
    }
}

/// A physical CPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Cpu {
    /// How far it has come.
    pub(crate) now: Cycle,
    /// Whom it executes, or is changing to.
    pub(crate) current: Option<VcpuId>,
    /// Whose registers it has.
    pub(crate) loaded: Option<VcpuId>,
    /// Cycles until it executes whom it changes to.
    pub(crate) switch_left: u64,
    /// Cycles of a call that its current virtual CPU still has to pay.
    pub(crate) call_left: u64,
    /// When the slice of its current virtual CPU ends.
    pub(crate) slice_end: Cycle,
    /// When it was to choose, if it puts that off.
    pub(crate) postponed: Option<Cycle>,
    /// Whether it is to choose anew.
    pub(crate) chooses: bool,
    /// Who is to run instead of its current virtual CPU as soon as that has left, on a timing core.
    pub(crate) comes: Option<VcpuId>,
    /// Whose hart sits in its context, if it is one of a timing core, and whether that is about to leave.
    pub(crate) seated: Option<VcpuId>,
    pub(crate) leaves: bool,
    /// Whether it leaves because it waits.
    pub(crate) is_found: bool,
    pub(crate) counts: CpuCounts,
}

/// What becomes of a CPU's time, in cycles.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CpuCounts {
    pub(crate) run: u64,
    pub(crate) switching: u64,
    pub(crate) idle: u64,
    /// Changes from one virtual CPU to another.
    pub(crate) switches: u64,
}

/// What a scheduler sees of the host.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) vcpus: &'a [Vcpu],
    pub(crate) cpus: &'a [Cpu],
}

impl View<'_> {
    /// Whether `vcpu` can begin to run on `cpu` now.
    pub(crate) fn can_run(&self, vcpu: VcpuId, cpu: CpuId) -> bool {
        self.vcpus[vcpu.index()].can_run(self.cpus[cpu.index()].now)
    }
}
