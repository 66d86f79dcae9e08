//! Running in the reference engine: all harts in turn, a fixed number of instructions each.

use loiter_hart::{Burst, HartState, Nap, Stop, run};
use loiter_observe::{Moment, Observer, Probe};
use loiter_types::{Cycle, HartId, VirtAddr};

use crate::error::Error;
use crate::result::Exit;
use crate::run::Report;
use crate::system::{PhaseEnd, System};

/// Instructions that a hart runs before the next one's turn.
const QUANTUM: u64 = 5_000;
/// Longest name of a report.
const NAME_BYTES: usize = 256;

/// What came of a turn of every hart.
pub(crate) enum Round {
    /// Somebody executed.
    Executed,
    /// Everybody sleeps.
    Asleep,
    /// A hart began the region of interest.
    RegionBegins,
    /// The program ended the machine.
    Ended(Exit),
}

impl System {
    /// Runs until the program ends or, with `until_region`, until a hart begins the region of
    /// interest.
    pub(crate) fn reference_phase(
        &mut self,
        until_region: bool,
        report: &mut Report<'_>,
    ) -> Result<PhaseEnd, Error> {
        loop {
            if self.now.0 >= self.max_cycles {
                return Ok(PhaseEnd::Exit(self.limit_reached()));
            }
            match self.round(until_region)? {
                Round::Executed => {}
                Round::Asleep => {
                    if !self.sleep() {
                        let who = self.who_sleeps();
                        return Ok(PhaseEnd::Exit(self.watchdog(&who)));
                    }
                }
                Round::RegionBegins => return Ok(PhaseEnd::RegionBegins),
                Round::Ended(exit) => return Ok(PhaseEnd::Exit(exit)),
            }
            report.tell(self, "reference")?;
        }
    }

    /// A turn of every hart that is awake, and the time it takes.
    pub(crate) fn round(&mut self, until_region: bool) -> Result<Round, Error> {
        let quantum = QUANTUM.min(self.max_cycles - self.now.0);
        self.machine.set_time(self.now.0 / self.cycles_per_tick);
        let mut round = Round::Asleep;
        for hart in 0..self.harts.len() {
            if !self.awake(hart) {
                continue;
            }
            round = Round::Executed;
            if self.turn(hart, quantum, until_region)? {
                // Harts before this one have had their turn: the time is that of its end.
                round = Round::RegionBegins;
                break;
            }
            if let Some(exit) = self.ended() {
                round = Round::Ended(exit);
                break;
            }
        }
        self.now = self.now.after(quantum);
        Ok(round)
    }

    /// The cycle in which the next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Cycle> {
        let tick = self.machine.next_timer_ticks()?;
        Some(Cycle(tick.saturating_mul(self.cycles_per_tick)))
    }

    /// Goes on to the next thing that can wake a hart, when all sleep. Answers whether there is one.
    pub(crate) fn sleep(&mut self) -> bool {
        match self.next_timer() {
            Some(due) => {
                self.now = self.now.max(due);
                true
            }
            None => self.someone_wakes(),
        }
    }

    /// Whether a hart executes, after waking it if what it waits for has happened.
    fn awake(&mut self, n: usize) -> bool {
        let hart = &mut self.harts[n];
        hart.csr.set_lines(self.machine.interrupt_lines(hart.id));
        if let HartState::Napping(nap) = hart.state {
            // The limit of wrs.sto is less than a turn.
            if nap == Nap::WrsSto || hart.nap_is_over(nap, &self.machine.watches) {
                hart.state = HartState::Running;
            }
        }
        hart.state == HartState::Running
    }

    fn someone_wakes(&mut self) -> bool {
        (0..self.harts.len()).any(|n| self.awake(n))
    }

    pub(crate) fn who_sleeps(&self) -> Vec<String> {
        let sleeper = |hart: &loiter_hart::Hart| {
            let what = match hart.state {
                HartState::Napping(Nap::Wfi) => "sleeps in wfi until an interrupt pends",
                HartState::Napping(_) => "sleeps in wrs until its watched line is written",
                HartState::Running => "executes",
            };
            format!(
                "{} at {:#x}{} {what}",
                hart.id,
                hart.pc,
                self.symbol(hart.id, hart.pc)
            )
        };
        self.harts.iter().map(sleeper).collect()
    }

    /// A hart's turn. Answers whether it began the region of interest.
    fn turn(&mut self, n: usize, quantum: u64, until_region: bool) -> Result<bool, Error> {
        let mut left = quantum;
        while left > 0 {
            let start = self.now.after(quantum - left);
            self.harts[n].csr.clock.cycle = start.0;
            let Burst { retired, stop } =
                run(&mut self.harts[n], &mut self.machine, &mut self.code, left);
            left -= retired;
            match stop {
                Stop::Probe(code, value) => {
                    let at = start.after(retired);
                    let begins = self.probe(HartId::new(n), at, code, value);
                    if begins && until_region {
                        return Ok(true);
                    }
                }
                Stop::Unhandled(unhandled) => {
                    self.now = start.after(retired);
                    return Err(self.unhandled(HartId::new(n), unhandled));
                }
                Stop::Budget | Stop::Napping(_) | Stop::Pause | Stop::Ended => break,
            }
        }
        Ok(false)
    }

    /// Records a probe; answers whether it begins the region of interest.
    fn probe(&mut self, hart: HartId, cycle: Cycle, code: u16, value: u64) -> bool {
        let (machine, guest) = (&self.machine, &self.harts[hart.index()]);
        let probe = Probe::decode(code, value, |addr| {
            let addr = guest.peek(machine, VirtAddr(addr));
            addr.and_then(|addr| machine.ram.c_string(addr, NAME_BYTES))
                .unwrap_or_default()
        });
        let Some(probe) = probe else { return false };
        let begins = matches!(probe, Probe::RoiBegin(_));
        let moment = Moment {
            hart,
            cycle,
            retired: self.harts[hart.index()].retired,
        };
        self.recorder.probe(moment, probe);
        begins
    }
}
