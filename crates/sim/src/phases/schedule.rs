//! The phases of a session, one after the other.

use serde::Serialize;

use super::arrival::Arrival;
use super::awaited::Awaited;
use super::plan::{End, Engine, Phase, Plan};
use crate::error::Error;
use crate::result::{Exit, ExitReason};
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
    /// cores bring what is under way to its end; it belongs to theirs.
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
    /// Of each phase that has begun.
    rows: Vec<PhaseRow>,
    /// Instructions retired when the last of them began.
    retired: u64,
}

impl Schedule {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            rows: Vec::new(),
            retired: 0,
        }
    }

    /// Addresses of all symbols are known.
    ///
    /// # Errors
    /// When one is not.
    pub(crate) fn check_symbols(&self, system: &System) -> Result<(), Error> {
        for phase in self.plan.phases() {
            if let Some(end) = &phase.end {
                arrival(system, end)?;
            }
        }
        Ok(())
    }

    fn present(&self) -> Option<&Phase> {
        self.plan.phases().get(self.rows.len().checked_sub(1)?)
    }

    /// Notes how far the present phase has come.
    fn note(&mut self, system: &System, ended: bool) {
        if let Some(row) = self.rows.last_mut() {
            row.end_cycle = system.now.0;
            row.instructions = system.instructions() - self.retired;
            row.ended |= ended;
        }
    }

    fn begin(&mut self, phase: &Phase, system: &System) {
        self.retired = system.instructions();
        self.rows.push(PhaseRow {
            phase: phase.to_string(),
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
    match Arrival::at_symbol(name, &system.symbols, &system.harts) {
        Some(arrival) => Ok(Some(arrival)),
        None => Err(Error::User(format!(
            "--phases: symbol:{name}: no symbol of the program, the kernel or the files of --symbols has \
             this name"
        ))),
    }
}

impl System {
    /// Whether what ends the present phase has come.
    fn phase_is_over(&mut self) -> bool {
        let Self {
            awaited, machine, ..
        } = self;
        match awaited {
            Awaited::Nothing => false,
            Awaited::Probe { passed, .. } => *passed,
            Awaited::Console(listener) => listener.hear(machine),
            Awaited::Cycle(cycle) => self.now >= *cycle,
            &mut Awaited::Instructions(count) => self.instructions() >= count,
            Awaited::Arrival => {
                let inspector = self.inspector.as_ref();
                let arrival = inspector.and_then(|it| it.arrival.as_ref());
                arrival.is_some_and(Arrival::is_reached)
            }
        }
    }

    fn await_end(&mut self, end: Option<&End>) -> Result<(), Error> {
        let retired = self.instructions();
        self.awaited = Awaited::new(end, &self.machine, self.now, retired);
        let arrival = match end {
            Some(end) => arrival(self, end)?,
            None => None,
        };
        if arrival.is_some() || self.inspector.is_some() {
            self.inspector().arrival = arrival;
        }
        Ok(())
    }
}

impl Session {
    /// Goes on to the next phase if the present one is over, or none has begun. Answers the end of the run
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
        while schedule.rows.is_empty() || self.system.phase_is_over() {
            self.system.give_up_turn();
            self.system.await_end(None)?;
            let next = schedule.plan.phases().get(schedule.rows.len()).cloned();
            let stays_timed = next.as_ref().is_some_and(|it| it.engine == Engine::Timing);
            let leaves = self.is_timed() && !stays_timed && next.is_some();
            if leaves && let Some(exit) = self.leave_cores()? {
                schedule.note(&self.system, true);
                return Ok(Some(exit));
            }
            schedule.note(&self.system, true);
            let Some(next) = next else {
                return Ok(Some(Exit {
                    reason: ExitReason::Phases,
                    code: 0,
                    message: format!("the last phase has ended: {}", schedule.plan),
                }));
            };
            if stays_timed && !self.is_timed() {
                self.enter_cores()?;
            }
            self.warms = next.engine == Engine::Reference { warm: true };
            if self.warms {
                self.build_cores()?;
            }
            schedule.begin(&next, &self.system);
            self.system.await_end(next.end.as_ref())?;
        }
        Ok(None)
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
        let (phase, row) = (schedule.present()?, schedule.rows.last()?);
        let end = phase.end.as_ref().filter(|_| !row.ended)?;
        let (number, all) = (schedule.rows.len(), schedule.plan.phases().len());
        let counts = matches!(end, End::Instructions(_) | End::Cycles(_));
        if number == all && counts {
            return None;
        }
        let advice = match end {
            End::Probe(_) => "; a guest marks it with a function of loiter_probe.h",
            End::Symbol(_) => "; no hart has executed at its address",
            End::Program => "; nobody has announced a program that then began",
            End::User => "; no hart has executed in user mode",
            End::Console(_) => "; no console has said that",
            End::Instructions(_) | End::Cycles(_) => "; the guest ended before",
        };
        let never = match schedule.plan.phases()[number..].first() {
            Some(next) => format!(", and phase {} never began: {next}", number + 1),
            None => String::new(),
        };
        Some(format!(
            "phase {number} of {all} never ended: {phase}{advice}{never}"
        ))
    }
}
