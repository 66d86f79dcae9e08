//! Running in the reference engine: all harts in turn, a fixed number of instructions each.

use loiter_hart::{Burst, HartState, InstructionObserver, Nap, Stop, run, run_observed};
use loiter_observe::{Moment, Probe, ProbeObserver};
use loiter_types::{Cycle, HartId, VirtAddr};

use crate::debug::Watcher;
use crate::error::Error;
use crate::phases::Warmer;
use crate::result::Exit;
use crate::system::System;
use crate::timing_phase::Timing;

/// Instructions that a hart runs before the next one's turn.
const QUANTUM: u64 = 5_000;
/// Longest name of a report.
const NAME_BYTES: usize = 256;
/// A probe is never compressed.
const PROBE_BYTES: u64 = 4;

/// What came of a turn of every hart.
pub(crate) enum Round {
    /// Somebody executed.
    Executed,
    /// Everybody sleeps.
    Asleep,
    /// What ends the phase has come.
    PhaseEnds,
    /// The program ended the machine.
    Ended(Exit),
    /// A debugger holds the system in the middle of a turn.
    Held,
}

/// What came of the turn of one hart.
enum Turned {
    Over,
    PhaseEnds,
    Held,
}

/// How far the turn of all harts has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// The hart whose turn it is.
    hart: usize,
    /// Whether it has begun; if not, it may sleep.
    begun: bool,
    /// Instructions that it has retired.
    retired: u64,
    /// Traps since the last probe, which use its budget up too.
    traps: u64,
    /// Its budget.
    quantum: u64,
    /// Whether any hart has executed.
    executed: bool,
}

impl Turn {
    fn first(quantum: u64) -> Self {
        Self {
            hart: 0,
            begun: false,
            retired: 0,
            traps: 0,
            quantum,
            executed: false,
        }
    }

    /// The hart whose turn it is, or will be.
    pub(crate) fn hart(&self) -> HartId {
        HartId::new(self.hart)
    }

    /// On to the next hart.
    fn next(&mut self) {
        *self = Self {
            hart: self.hart + 1,
            begun: false,
            retired: 0,
            traps: 0,
            ..*self
        };
    }
}

impl System {
    /// A turn of every hart that is awake, and the time it takes.
    /// Warms `cores` if there are any.
    pub(crate) fn round(&mut self, mut cores: Option<&mut Timing>) -> Result<Round, Error> {
        let mut turn = match self.held_turn.take() {
            Some(turn) => turn,
            None => {
                self.machine.set_time(self.now.0 / self.cycles_per_tick);
                Turn::first(self.quantum())
            }
        };
        let mut round = Round::Asleep;
        while turn.hart < self.harts.len() {
            let runs = turn.begun || (self.may_run(turn.hart) && self.awake(turn.hart));
            if !runs {
                turn.next();
                continue;
            }
            turn.executed = true;
            match self.turn(&mut turn, cores.as_deref_mut())? {
                Turned::Over => {}
                Turned::PhaseEnds => {
                    // Harts before this one have had their turn: the time is that of its end.
                    round = Round::PhaseEnds;
                    break;
                }
                Turned::Held => {
                    self.held_turn = Some(turn);
                    return Ok(Round::Held);
                }
            }
            if let Some(exit) = self.ended() {
                round = Round::Ended(exit);
                break;
            }
            turn.next();
        }
        if turn.executed && matches!(round, Round::Asleep) {
            round = Round::Executed;
        }
        self.now = self.now.after(turn.quantum);
        Ok(round)
    }

    /// What every hart may do before the next one's turn.
    fn quantum(&self) -> u64 {
        let left = self.max_cycles.min(self.awaited.cycle().0);
        let left = left.saturating_sub(self.now.0);
        let share = self.instructions_left() / self.harts.len() as u64;
        QUANTUM.min(left).min(share.max(1))
    }

    /// Instructions up to the end of the phase, if it ends by them.
    fn instructions_left(&self) -> u64 {
        let end = self.awaited.instructions();
        end.map_or(u64::MAX, |end| end.saturating_sub(self.instructions()))
    }

    /// What is left of a turn in which the system is held passes: a phase ends there.
    pub(crate) fn give_up_turn(&mut self) {
        if let Some(turn) = self.held_turn.take() {
            self.now = self.now.after(turn.quantum);
        }
    }

    /// Whether a debugger lets the hart run.
    fn may_run(&self, hart: usize) -> bool {
        self.alone.is_none_or(|alone| alone.index() == hart)
    }

    /// The cycle in which the next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Cycle> {
        let tick = self.machine.next_timer_ticks()?;
        Some(Cycle(tick.saturating_mul(self.cycles_per_tick)))
    }

    /// The next cycle in which time alone wakes a hart of the reference engine: a timer is due, or one
    /// that waits at a hardware lock gives up.
    pub(crate) fn next_wake(&self) -> Option<Cycle> {
        let asleep = self.harts.iter();
        let asleep = asleep.filter(|hart| hart.state != HartState::Running);
        let deadlines = asleep.filter_map(|hart| hart.deadline().map(Cycle));
        deadlines.chain(self.next_timer()).min()
    }

    /// Continues to the next thing that can wake a hart, when all sleep. Returns whether there is one.
    pub(crate) fn sleep(&mut self) -> bool {
        match self.next_wake() {
            Some(due) => {
                self.now = self.now.max(due.min(self.awaited.cycle()));
                true
            }
            None => self.someone_wakes(),
        }
    }

    /// Whether a hart executes, after waking it if what it waits for has happened.
    pub(crate) fn awake(&mut self, n: usize) -> bool {
        let hart = &mut self.harts[n];
        hart.csr.set_lines(self.machine.interrupt_lines(hart.id));
        if let HartState::Napping(nap) = hart.state {
            // The limit of wrs.sto is less than a turn.
            let over = nap == Nap::WrsSto || hart.deadline().is_some_and(|at| at <= self.now.0);
            if over || hart.nap_is_over(nap, &self.machine.watches) {
                hart.state = HartState::Running;
            }
        }
        hart.state == HartState::Running
    }

    /// Whether a hart sleeps until an interrupt.
    pub(crate) fn sleeps(&self, hart: HartId) -> bool {
        self.harts[hart.index()].state == HartState::Napping(Nap::Wfi)
    }

    fn someone_wakes(&mut self) -> bool {
        (0..self.harts.len()).any(|n| self.awake(n))
    }

    /// A hart's turn, or what is left of it.
    fn turn(&mut self, turn: &mut Turn, mut cores: Option<&mut Timing>) -> Result<Turned, Error> {
        let n = turn.hart;
        turn.begun = true;
        loop {
            let start = self.now.after(turn.retired);
            self.harts[n].csr.clock.cycle = start.0;
            let left = self.instructions_left();
            let budget = (turn.quantum - turn.retired - turn.traps).min(left);
            let Burst {
                retired,
                traps,
                stop,
            } = self.burst(n, budget, cores.as_deref_mut());
            turn.retired += retired;
            turn.traps += traps;
            match stop {
                Stop::Probe(code, value) => {
                    turn.traps = 0;
                    let at = start.after(retired);
                    let ends = self.probe(HartId::new(n), at, code, value);
                    if ends || self.instructions_left() == 0 {
                        return Ok(Turned::PhaseEnds);
                    }
                    if turn.retired >= turn.quantum {
                        return Ok(Turned::Over);
                    }
                }
                Stop::Unhandled(unhandled) => {
                    self.now = start.after(retired);
                    return Err(self.unhandled(HartId::new(n), unhandled));
                }
                Stop::Held => return Ok(Turned::Held),
                Stop::Called(call) => {
                    self.serves_alone(HartId::new(n), call);
                    // It counts as an instruction.
                    turn.retired += 1;
                    if self.instructions_left() == 0 {
                        return Ok(Turned::PhaseEnds);
                    }
                    if turn.retired + turn.traps >= turn.quantum {
                        return Ok(Turned::Over);
                    }
                }
                Stop::Ended => return Ok(Turned::Over),
                Stop::Budget | Stop::Napping(_) | Stop::Pause => {
                    if self.inspector.as_ref().is_some_and(|it| it.holds()) {
                        turn.next();
                        return Ok(Turned::Held);
                    }
                    return Ok(match self.instructions_left() {
                        0 => Turned::PhaseEnds,
                        _ => Turned::Over,
                    });
                }
            }
        }
    }

    pub(crate) fn burst(&mut self, n: usize, budget: u64, cores: Option<&mut Timing>) -> Burst {
        let (hart, machine, code) = (&mut self.harts[n], &mut self.machine, &mut self.code);
        let inspector = self.inspector.as_deref_mut();
        let inspector = inspector.filter(|inspector| inspector.is_active(self.now));
        if let Some(cores) = cores {
            let mut warmer = Warmer { cores, inspector };
            return run_observed(hart, machine, code, budget, &mut warmer);
        }
        match inspector {
            Some(inspector) => run_observed(hart, machine, code, budget, inspector),
            None => run(hart, machine, code, budget),
        }
    }

    /// Records a probe; returns whether it ends the phase.
    pub(crate) fn probe(&mut self, hart: HartId, cycle: Cycle, code: u16, value: u64) -> bool {
        let (machine, guest) = (&self.machine, &self.harts[hart.index()]);
        let probe = Probe::decode(code, value, |addr| {
            let addr = guest.peek(machine, VirtAddr(addr));
            addr.and_then(|addr| machine.ram.c_string(addr, NAME_BYTES))
                .unwrap_or_default()
        });
        let Some(probe) = probe else { return false };
        let ends = self.awaited.probe(&probe);
        let moment = Moment {
            hart,
            cycle,
            retired: self.harts[hart.index()].retired,
            // It stands behind the probe.
            pc: self.harts[hart.index()].pc - PROBE_BYTES,
        };
        if let Some(inspector) = &mut self.inspector {
            let (_, hart) = self.machine.guest_of(hart);
            inspector.probe(Moment { hart, ..moment }, &probe);
        }
        self.recorders.probe(moment, probe);
        ends
    }
}
