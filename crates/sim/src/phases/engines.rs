//! Which engine runs a session, and how its harts move from one to the other.

use super::plan::{Move, Plan};
use super::schedule::Schedule;
use crate::config::MachineFile;
use crate::error::Error;
use crate::params::TimingParams;
use crate::request::{BootRequest, Request};
use crate::result::Exit;
use crate::session::Session;
use crate::timing_phase::Timing;

/// What the timing of a machine is made of.
pub(crate) struct MachineTiming {
    pub(crate) machine_name: String,
    /// None without timing.
    pub(crate) timing: Option<TimingParams>,
}

/// Which engines run a session.
pub(crate) enum Engines {
    /// The reference engine.
    Untimed,
    /// The cores of the machine.
    Machine,
    /// As a plan says.
    Plan(Plan),
}

impl Engines {
    pub(crate) fn of_boot(request: &BootRequest) -> Self {
        match request.untimed || request.is_virtual {
            true => Engines::Untimed,
            false => Engines::Machine,
        }
    }

    /// # Errors
    /// A plan that is none, or contradicts something else that is asked for.
    pub(crate) fn of_program(request: &Request, file: &MachineFile) -> Result<Self, Error> {
        let option = match (&request.phases, request.fast_forward) {
            (Some(_), true) => {
                let plan = Plan::fast_forward();
                return Err(Error::User(format!(
                    "--phases and --fast-forward contradict each other: --fast-forward is --phases \
                     \"{plan}\""
                )));
            }
            (Some(_), false) => "--phases",
            (None, true) => "--fast-forward",
            (None, false) => return Ok(Engines::Machine),
        };
        if request.observe.gdb.is_some() {
            return Err(contradicts_gdb(option));
        }
        match &request.phases {
            Some(text) => Plan::parse(text).map(Engines::Plan),
            None if file.timing().is_some() => Ok(Engines::Plan(Plan::fast_forward())),
            None => Ok(Engines::Machine),
        }
    }
}

/// A debugger and phases, which `option` asks for.
pub(crate) fn contradicts_gdb(option: &str) -> Error {
    Error::User(format!(
        "--gdb and {option} contradict each other: a debugger sees the run from its beginning, in one engine"
    ))
}

impl Session {
    /// Continues on `engines`: in the cores of the machine, if those are to run the harts first.
    ///
    /// # Errors
    /// Cores that cannot be built; those of a plan.
    pub(crate) fn on(mut self, engines: Engines) -> Result<Self, Error> {
        match engines {
            // Where the guest ends the machine before its harts can leave, the next step finds it ended.
            Engines::Untimed if self.is_timed() => drop(self.leave_cores()?),
            Engines::Machine if !self.is_timed() => self.enter_cores()?,
            Engines::Untimed | Engines::Machine => {}
            Engines::Plan(plan) => self.begin_plan(plan)?,
        }
        Ok(self)
    }

    /// Continues as `plan` says.
    ///
    /// # Errors
    /// A plan for which the machine has no cores, or symbols that nothing has.
    pub fn begin_plan(&mut self, plan: Plan) -> Result<(), Error> {
        if plan.is_timed() && self.machine.timing.is_none() {
            return Err(Error::User(format!(
                "--phases: machine {} has no cores with timing; take one that has, such as t1, or let all \
                 phases be \"reference\"",
                self.machine.machine_name
            )));
        }
        if self.is_debugged() {
            return Err(contradicts_gdb("--phases"));
        }
        for movement in plan.moves() {
            self.check_move(movement)?;
        }
        let schedule = Schedule::new(plan);
        schedule.check_symbols(&self.system)?;
        self.schedule = Some(schedule);
        Ok(())
    }

    /// # Errors
    /// A hart or a context that the system does not have.
    fn check_move(&self, movement: Move) -> Result<(), Error> {
        let Move { hart, context, .. } = movement;
        let groups = self.machine.timing.iter().flat_map(|it| &it.cores);
        let contexts: usize = groups
            .map(|group| group.cores * group.params.contexts())
            .sum();
        for (what, number, count) in [
            ("hart", hart, self.system.harts.len()),
            ("context", context, contexts),
        ] {
            if usize::from(number) >= count {
                let last = count - 1;
                return Err(Error::User(format!(
                    "--phases: move {hart} to {context}: there is no {what} {number}; {what}s are numbered from 0 to {last}"
                )));
            }
        }
        Ok(())
    }

    /// A hart moves to another context. Returns the end of the run if it comes before it has left its own.
    ///
    /// # Errors
    /// Those of a step.
    pub(crate) fn move_hart(&mut self, movement: Move) -> Result<Option<Exit>, Error> {
        self.build_cores()?;
        let Some(timing) = &mut self.timing else {
            return Ok(None);
        };
        timing.move_hart(&mut self.system, movement)
    }

    /// Whether harts sit in timed cores.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.timing.as_ref().is_some_and(Timing::is_attached)
    }

    /// Whether harts sit in timed cores, or once did.
    #[must_use]
    pub fn was_timed(&self) -> bool {
        self.timed_from.is_some()
    }

    /// The cores, while harts sit in them.
    pub(crate) fn cores(&mut self) -> Option<&mut Timing> {
        self.timing.as_mut().filter(|timing| timing.is_attached())
    }

    /// The cores of the machine, if those are timed, are there from now on.
    ///
    /// # Errors
    /// Cores that cannot be built.
    pub(crate) fn build_cores(&mut self) -> Result<(), Error> {
        if self.timing.is_none() {
            let MachineTiming {
                machine_name,
                timing,
            } = &self.machine;
            self.timing = Timing::new(machine_name, timing.clone(), self.system.now)?;
        }
        Ok(())
    }

    /// Harts move to the cores of the machine, if those are timed.
    ///
    /// # Errors
    /// Cores that cannot be built.
    pub(crate) fn enter_cores(&mut self) -> Result<(), Error> {
        self.build_cores()?;
        let system = &mut self.system;
        if let Some(timing) = &mut self.timing {
            timing.attach(system);
            self.attached_at = system.instructions();
            self.timed_from.get_or_insert(system.now);
            if let Some(inspector) = &mut system.inspector {
                inspector.timing_changes(true, system.now, &system.harts);
            }
        }
        Ok(())
    }

    /// Harts move to the reference engine. Returns the end of the run if it comes before they can.
    ///
    /// # Errors
    /// Those of a step.
    pub(crate) fn leave_cores(&mut self) -> Result<Option<Exit>, Error> {
        let Some(timing) = &mut self.timing else {
            return Ok(None);
        };
        let exit = timing.detach(&mut self.system)?;
        let system = &mut self.system;
        if let Some(inspector) = &mut system.inspector {
            inspector.timing_changes(false, system.now, &system.harts);
        }
        if exit.is_none() {
            self.timed_instructions += self.system.instructions() - self.attached_at;
        }
        Ok(exit)
    }

    /// Instructions that timed cores have retired.
    #[must_use]
    pub fn timed_instructions(&self) -> u64 {
        let present = match self.is_timed() {
            true => self.system.instructions() - self.attached_at,
            false => 0,
        };
        self.timed_instructions + present
    }

    /// Cycles in which harts sat in timed cores.
    #[must_use]
    pub fn timed_cycles(&self) -> u64 {
        let timing = self.timing.as_ref();
        timing.map_or(0, |timing| {
            timing.cycles(timing.counted_to(self.system.now))
        })
    }
}
