//! The phases of a session, one after the other.

use serde::Serialize;

use super::arrival::Arrival;
use super::awaited::{Awaiting, Scope};
use super::plan::{End, Engine, Phase, Plan, RepeatEnd, Step};
use crate::error::Error;
use crate::result::{Exit, ExitReason, TimedRows};
use crate::session::Session;
use crate::system::System;

/// A phase of a run that has begun.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseRow {
    /// As the plan has it.
    pub phase: String,
    /// The cycle in which it began.
    pub begin_cycle: u64,
    /// The cycle in which it ended, or the present one. Between two phases is the time in which timing
    /// cores drain; it belongs to theirs.
    pub end_cycle: u64,
    /// Instructions that all harts retired in it.
    pub instructions: u64,
    /// Whether its end has come.
    pub ended: bool,
}

/// Where a session stands in its plan.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    plan: Plan,
    /// Of each step that has begun.
    rows: Vec<PhaseRow>,
    /// The phase of the last of them that has begun, and how many times all before it were gone through.
    phase: usize,
    rounds: u64,
    /// Instructions retired when that step began.
    retired: u64,
}

impl Schedule {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            rows: Vec::new(),
            phase: 0,
            rounds: 0,
            retired: 0,
        }
    }

    /// Addresses of all symbols are known.
    ///
    /// # Errors
    /// When one is not.
    pub(crate) fn check_symbols(&self, system: &System) -> Result<(), Error> {
        for end in self.plan.ends() {
            arrival(system, end)?;
        }
        Ok(())
    }

    fn step(&self) -> Option<&Step> {
        self.plan.steps().get(self.rows.len().checked_sub(1)?)
    }

    /// The step after the present one.
    fn next_step(&self) -> Option<&Step> {
        self.plan.steps().get(self.rows.len())
    }

    fn present(&self) -> Option<&Phase> {
        self.step()?.phases().get(self.phase)
    }

    /// Whether the present phase is a sample.
    fn takes_sample(&self) -> bool {
        let sampled = Engine::Timing { warm: false };
        matches!(self.step(), Some(Step::Repeat(_)))
            && self.present().is_some_and(|it| it.engine == sampled)
    }

    /// The phase that follows within the present step, whose end has not come.
    fn following(&self) -> Option<(usize, u64)> {
        let Some(Step::Repeat(repeat)) = self.step() else {
            return None;
        };
        if self.phase + 1 < repeat.phases.len() {
            return Some((self.phase + 1, self.rounds));
        }
        let continues = match repeat.end {
            Some(RepeatEnd::Times(times)) => self.rounds + 1 < times,
            Some(RepeatEnd::End(_)) | None => true,
        };
        continues.then_some((0, self.rounds + 1))
    }

    /// Notes how far the present step has come.
    fn note(&mut self, system: &System, ended: bool) {
        if let Some(row) = self.rows.last_mut() {
            row.end_cycle = system.now.0;
            row.instructions = system.instructions() - self.retired;
            row.ended |= ended;
        }
    }

    fn begin(&mut self, step: &Step, system: &System) {
        (self.phase, self.rounds, self.retired) = (0, 0, system.instructions());
        self.rows.push(PhaseRow {
            phase: step.to_string(),
            begin_cycle: system.now.0,
            end_cycle: system.now.0,
            instructions: 0,
            ended: false,
        });
    }
}

/// The coming of a hart that `end` is, if it is one.
fn arrival(system: &System, end: &End) -> Result<Option<Arrival>, Error> {
    let name = match end {
        End::Symbol(name) => name,
        End::Program => return Ok(Some(Arrival::at_program())),
        End::User => return Ok(Some(Arrival::in_user_mode())),
        End::Probe(_) | End::Console(_) | End::Instructions(_) | End::Cycles(_) => return Ok(None),
    };
    match Arrival::at_symbol(name, &system.symbols[0], &system.harts) {
        Some(arrival) => Ok(Some(arrival)),
        None => Err(Error::User(format!(
            "--phases: symbol:{name}: no symbol of the program, the kernel or the files of --symbols has \
             this name"
        ))),
    }
}

impl System {
    /// Whether what ends the present phase or repetition has come.
    fn is_over(&mut self, scope: Scope) -> bool {
        let inspector = self.inspector.as_ref();
        let arrival = inspector.and_then(|it| it.arrivals.of(scope));
        let awaiting = self.awaited.of(scope);
        awaiting.has_come(&self.machine, arrival, self.now, &self.harts)
    }

    /// Waits for the end of the phase or repetition that begins now.
    fn await_end(&mut self, scope: Scope, end: Option<&End>) -> Result<(), Error> {
        let retired = self.instructions();
        *self.awaited.of(scope) = Awaiting::new(end, &self.machine, self.now, retired);
        let arrival = match end {
            Some(end) => arrival(self, end)?,
            None => None,
        };
        if arrival.is_some() || self.inspector.is_some() {
            self.inspector().arrivals.set(scope, arrival);
        }
        Ok(())
    }
}

impl Session {
    /// Continues with the next phase if the present one is over, or none has begun. Returns the end of the run
    /// if that is all.
    ///
    /// # Errors
    /// Those of a step.
    pub(crate) fn switch_phases(&mut self) -> Result<Option<Exit>, Error> {
        let Some(mut schedule) = self.schedule.take() else {
            return Ok(None);
        };
        let outcome = self.switch(&mut schedule);
        self.schedule = Some(schedule);
        outcome
    }

    fn switch(&mut self, schedule: &mut Schedule) -> Result<Option<Exit>, Error> {
        loop {
            let repeat_is_over = self.system.is_over(Scope::Repeat);
            let begins = schedule.rows.is_empty();
            if !begins && !repeat_is_over && !self.system.is_over(Scope::Phase) {
                return Ok(None);
            }
            self.system.give_up_turn();
            match repeat_is_over {
                true => self.sampler.cut_off(),
                false => self.end_sample(),
            }
            self.system.await_end(Scope::Phase, None)?;
            let following = schedule.following().filter(|_| !repeat_is_over);
            if following.is_none() {
                self.system.await_end(Scope::Repeat, None)?;
            }
            let next = match following {
                Some((phase, _)) => schedule.step().map(|step| (step.clone(), phase)),
                None => {
                    if let Some(exit) = self.move_harts(schedule)? {
                        return Ok(Some(exit));
                    }
                    schedule.next_step().map(|step| (step.clone(), 0))
                }
            };
            let engine = next.as_ref().map(|(step, n)| step.phases()[*n].engine);
            let leaves = self.is_timed() && engine.is_some_and(|it| !it.is_timing());
            if leaves && let Some(exit) = self.leave_cores()? {
                schedule.note(&self.system, true);
                return Ok(Some(exit));
            }
            let Some((step, phase)) = next else {
                schedule.note(&self.system, true);
                return Ok(Some(Exit {
                    reason: ExitReason::Phases,
                    code: 0,
                    message: format!("the last phase has ended: {}", schedule.plan),
                }));
            };
            let present = &step.phases()[phase];
            if present.engine.is_timing() && !self.is_timed() {
                self.enter_cores()?;
            }
            self.warms = present.engine == Engine::Reference { warm: true };
            if self.warms {
                self.build_cores()?;
            }
            if let Some((phase, rounds)) = following {
                (schedule.phase, schedule.rounds) = (phase, rounds);
            } else {
                schedule.note(&self.system, true);
                schedule.begin(&step, &self.system);
                if matches!(step, Step::Repeat(_)) {
                    self.system.await_end(Scope::Repeat, step.end())?;
                }
            }
            self.system.await_end(Scope::Phase, present.end.as_ref())?;
            if let Some(inspector) = &mut self.system.inspector {
                inspector.warming_changes(present.engine == Engine::Timing { warm: true });
            }
            if schedule.takes_sample() {
                self.begin_sample();
            }
        }
    }

    /// Takes the moves that come next in the plan. Returns the end of the run if that comes meanwhile.
    fn move_harts(&mut self, schedule: &mut Schedule) -> Result<Option<Exit>, Error> {
        while let Some(step @ &Step::Move(movement)) = schedule.next_step() {
            let step = step.clone();
            schedule.note(&self.system, true);
            schedule.begin(&step, &self.system);
            let exit = self.move_hart(movement)?;
            schedule.note(&self.system, exit.is_none());
            if exit.is_some() {
                return Ok(exit);
            }
        }
        Ok(None)
    }

    fn begin_sample(&mut self) {
        if let Some((cycle, rows)) = self.counted() {
            self.sampler.begin(cycle, self.system.instructions(), &rows);
        }
    }

    fn end_sample(&mut self) {
        if self.sampler.is_taking()
            && let Some((cycle, rows)) = self.counted()
        {
            self.sampler.end(cycle, self.system.instructions(), &rows);
        }
    }

    /// What the cores have counted, and the cycle up to which they have.
    fn counted(&mut self) -> Option<(u64, TimedRows)> {
        let now = self.system.now;
        let cycle = self.cores()?.counted_to(now).0;
        Some((cycle, self.timed_rows()?))
    }

    /// The phases so far, if there is a plan.
    #[must_use]
    pub fn phases(&self) -> Vec<PhaseRow> {
        let Some(mut schedule) = self.schedule.clone() else {
            return Vec::new();
        };
        schedule.note(&self.system, false);
        schedule.rows
    }

    /// What the plan has waited for in vain, if the run is over: the end of a phase that another should
    /// have followed, or an event that was to end the last.
    #[must_use]
    pub fn missed_phase(&self) -> Option<String> {
        let schedule = self.schedule.as_ref()?;
        let (step, row) = (schedule.step()?, schedule.rows.last()?);
        let (number, all) = (schedule.rows.len(), schedule.plan.steps().len());
        if row.ended || !step.is_bounded() {
            return None;
        }
        let end = step.end();
        let counts = matches!(end, None | Some(End::Instructions(_) | End::Cycles(_)));
        if number == all && counts {
            return None;
        }
        let advice = match end {
            Some(End::Probe(_)) => "; a guest marks it with a function of loiter_probe.h",
            Some(End::Symbol(_)) => "; no hart has executed at its address",
            Some(End::Program) => "; nobody has announced a program that then began",
            Some(End::User) => "; no hart has executed in user mode",
            Some(End::Console(_)) => "; no console has said that",
            Some(End::Instructions(_) | End::Cycles(_)) | None => "; the guest ended before",
        };
        let never = match schedule.plan.steps()[number..].first() {
            Some(next) => format!(", and phase {} never began: {next}", number + 1),
            None => String::new(),
        };
        Some(format!(
            "phase {number} of {all} never ended: {step}{advice}{never}"
        ))
    }
}
