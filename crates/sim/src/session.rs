//! A system that is run step by step: booted, typed to, looked at.

use std::time::{Duration, Instant};

use loiter_cores::Skipping;
use loiter_hart::{Hart, HartState, Nap, Privilege};
use loiter_machine::{BootFile, BootFiles, ElfImage, Machine, MachineError};
use loiter_types::{Cycle, HartId};
use serde::Serialize;

use crate::config::MachineFile;
use crate::debug::{DebugServer, PipelineRequest, Served, TraceRequest, symbol_elf};
use crate::error::Error;
use crate::locks::lock_rows;
use crate::phases::{Engines, MachineTiming, Sampler, Schedule, contradicts_gdb};
use crate::reference_phase::Round;
use crate::request::{BootRequest, DiskRequest, Request};
use crate::result::{Exit, Statistics, TimedRows, recorder_rows};
use crate::snapshot::Origin;
use crate::symbols::Symbols;
use crate::system::System;
use crate::timing_phase::{Steps, Timing};
use crate::waiting::{WaitingRow, WaitingTable};

/// Turns of the reference engine between two looks at the host's clock.
const ROUNDS_PER_LOOK: u32 = 16;

/// A system between two steps.
pub struct Session {
    pub(crate) system: System,
    /// The cores, from their first phase on.
    pub(crate) timing: Option<Timing>,
    pub(crate) machine: MachineTiming,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) sampler: Sampler,
    /// Whether the reference engine warms the cores.
    pub(crate) warms: bool,
    /// When cores first took harts over.
    pub(crate) timed_from: Option<Cycle>,
    /// Instructions that cores have retired in earlier phases, and how many there were when the present
    /// one began.
    pub(crate) timed_instructions: u64,
    pub(crate) attached_at: u64,
    pub(crate) origin: Origin,
    gdb: Option<Box<DebugServer<Session>>>,
    /// The symbols, for a debugger to read.
    pub(crate) symbol_elf: Option<Vec<u8>>,
    /// The hart that a debugger has stepped or continued.
    pub(crate) chosen: Option<HartId>,
}

/// What ends a step, beside the end of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// This much simulated time since power-on, in cycles.
    pub cycle: Option<u64>,
    /// This many instructions of all harts since power-on.
    pub instructions: Option<u64>,
    /// The guest has sent something to a console.
    pub output: bool,
    /// All harts sleep; otherwise such time passes at once.
    pub sleep: bool,
}

impl Limits {
    fn reached(&self, system: &System) -> bool {
        self.cycle.is_some_and(|limit| system.now.0 >= limit)
            || self
                .instructions
                .is_some_and(|limit| system.instructions() >= limit)
    }
}

/// Where a session stands after a step.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Status {
    /// There is more to do at once.
    Running,
    /// All harts sleep; the next timer is due after so many seconds of simulated time, if any is set.
    Asleep {
        /// Until the next timer.
        timer_s: Option<f64>,
    },
    /// The guest ended the machine.
    Ended(Exit),
    /// The cycle or the number of instructions that was asked for is reached.
    Reached,
    /// A debugger holds the system, or is waited for.
    Held,
}

impl Session {
    /// A system at reset, about to boot.
    ///
    /// # Errors
    /// The user's mistakes: a machine that cannot be built, a file that is not what it should be.
    pub fn boot(request: &BootRequest) -> Result<Self, Error> {
        let file = MachineFile::read(&request.machine_name, &request.machine_toml, &request.set)?;
        let config = request.config(&file)?;
        let files = BootFiles {
            firmware: read(&request.firmware, "the firmware")?,
            kernel: read(&request.kernel, "the kernel")?,
            initrd: (request.initrd.as_deref())
                .map(|path| read(path, "the initial file system"))
                .transpose()?,
        };
        let symbols = Symbols::read(&request.symbols)?;
        let mut machine = Machine::new(&config)?;
        let addresses = machine.load_boot(&files)?;
        let (entry, tree) = (addresses.entry, addresses.device_tree);
        let mut system = System::assemble(&file, &config, machine, entry, tree);
        system.symbols = vec![symbols.into()];
        mark_waiting(&mut system, &file, request.waiting.as_ref())?;
        for hart in &mut system.harts {
            hart.regs[12] = addresses.dynamic_info.0;
        }
        system.are_virtual(request.is_virtual);
        let origin = Origin::boot(request, &file);
        let engines = Engines::of_boot(request);
        Self::assemble(&request.machine_name, &file, system, origin).on(engines)
    }

    /// A system at reset that is about to run the program `elf`, called `request.program`, on bare
    /// metal.
    ///
    /// # Errors
    /// The user's mistakes, likewise.
    pub fn program(request: &Request, elf: &[u8]) -> Result<Self, Error> {
        let file = MachineFile::read(&request.machine_name, &request.machine_toml, &request.set)?;
        let elf = ElfImage::parse(&request.program, elf)?;
        let mut system = System::bare(request, &file, &elf)?;
        mark_waiting(&mut system, &file, request.waiting.as_ref())?;
        let origin = Origin::program(&request.program, &file);
        let engines = Engines::of_program(request, &file)?;
        Self::assemble(&request.machine_name, &file, system, origin).on(engines)
    }

    /// A session whose harts sit in no cores yet.
    pub(crate) fn assemble(
        machine_name: &str,
        file: &MachineFile,
        system: System,
        origin: Origin,
    ) -> Self {
        Self {
            system,
            timing: None,
            machine: MachineTiming {
                machine_name: machine_name.to_owned(),
                timing: file.timing(),
            },
            schedule: None,
            sampler: Sampler::default(),
            warms: false,
            timed_from: None,
            timed_instructions: 0,
            attached_at: 0,
            origin,
            gdb: None,
            symbol_elf: None,
            chosen: None,
        }
    }

    /// Runs for about `host_time`, or until one of `limits`. Those are only looked at between two
    /// turns of all harts: a system that was stopped continues as one that was not.
    ///
    /// # Errors
    /// A trap that the guest does not handle.
    pub fn step(&mut self, host_time: Duration, limits: &Limits) -> Result<Status, Error> {
        let end = Instant::now() + host_time;
        loop {
            match self.attend(end) {
                Served::Run => {}
                Served::Hold => return Ok(Status::Held),
                Served::Kill => return Ok(Status::Ended(Exit::killed())),
            }
            for _ in 0..ROUNDS_PER_LOOK {
                if let Some(exit) = self.switch_phases()? {
                    return Ok(Status::Ended(exit));
                }
                if limits.reached(&self.system) {
                    return Ok(Status::Reached);
                }
                match self.advance(limits.sleep)? {
                    Steps::Executed => {}
                    Steps::Held => break,
                    Steps::Ended(exit) => return Ok(Status::Ended(exit)),
                    Steps::Asleep => {
                        let timer = self.system.next_wake();
                        let asleep = Status::Asleep {
                            timer_s: timer.map(|due| self.seconds(due.0)),
                        };
                        // Cores pass over sleep themselves.
                        if limits.sleep || self.is_timed() || !self.system.sleep() {
                            return Ok(asleep);
                        }
                    }
                }
                if limits.output && self.system.machine.has_output() {
                    return Ok(Status::Running);
                }
            }
            if Instant::now() >= end {
                return Ok(Status::Running);
            }
        }
    }

    /// Whether a debugger is waited for or has come.
    pub(crate) fn is_debugged(&self) -> bool {
        self.gdb.is_some()
    }

    /// Serves a debugger at `address`, `[HOST:]PORT`, and executes nothing before he has come.
    /// Returns where that is, with the free port that was chosen for port 0.
    ///
    /// # Errors
    /// An address that is none or is taken.
    pub fn listen_gdb(&mut self, address: &str) -> Result<String, Error> {
        if self.schedule.is_some() {
            return Err(contradicts_gdb("--phases"));
        }
        let server = DebugServer::listen(address)?;
        let address = server.address();
        self.symbol_elf = symbol_elf::write(self.system.symbols[0].files());
        self.gdb = Some(Box::new(server));
        Ok(address)
    }

    /// Checks what timing cores do against the reference engine from now on.
    ///
    /// # Errors
    /// When the machine has none, so that there is nothing to check.
    pub fn begin_check(&mut self) -> Result<(), Error> {
        if self.machine.timing.is_none() {
            return Err(Error::User(
                "--check: this machine has no timing cores to check against the reference engine; take one \
                 that has, such as t1"
                    .into(),
            ));
        }
        self.system.begin_check();
        if self.is_timed() {
            self.system.begin_check_of_harts();
        }
        Ok(())
    }

    /// Says what becomes of the cycles of cores that repeat themselves from now on.
    pub fn skip(&mut self, skipping: Skipping) {
        self.system.skipping = skipping;
    }

    /// Cycles of cores that were passed over, or gone through and proved to be no others.
    pub(crate) fn skipped_cycles(&self) -> u64 {
        let timing = self.timing.as_ref();
        timing.map_or(0, |timing| timing.cores.skipped_cycles())
    }

    /// Instructions of timing cores that have been checked.
    #[must_use]
    pub fn checked_instructions(&self) -> u64 {
        self.system.checked_instructions()
    }

    /// Writes a trace of retired instructions from now on.
    ///
    /// # Errors
    /// A file that cannot be written, a symbol that nothing has.
    pub fn begin_trace(&mut self, request: &TraceRequest) -> Result<(), Error> {
        self.system.begin_trace(request)?;
        self.tell_whether_timed();
        Ok(())
    }

    /// An inspector that is new does not know which engine runs.
    fn tell_whether_timed(&mut self) {
        let is_timed = self.is_timed();
        let system = &mut self.system;
        let inspector = system.inspector.get_or_insert_default();
        inspector.timing_changes(is_timed, system.now, &system.harts);
    }

    /// Writes a log of the cores' pipelines from now on, for Konata.
    ///
    /// # Errors
    /// Cores that are not timed, a file that cannot be written, a place to begin or end that is none.
    pub fn begin_pipeline(&mut self, request: &PipelineRequest) -> Result<(), Error> {
        require_timed("--pipeline", self.machine.timing.is_some())?;
        self.system.begin_pipeline(request)
    }

    /// Writes what every context does from now on to `path`, for Perfetto.
    ///
    /// # Errors
    /// Cores that are not timed, a file that cannot be written.
    pub fn begin_timeline(&mut self, path: &str) -> Result<(), Error> {
        require_timed("--timeline", self.machine.timing.is_some())?;
        self.system.begin_timeline(path)
    }

    /// Ends the trace, the pipeline log and the timeline, if there are such; returns what went wrong with
    /// them.
    pub fn end_logs(&mut self) -> Vec<String> {
        let cores = self.timing.as_mut().map(Timing::cores);
        self.system.end_logs(cores)
    }

    /// Counts instructions by function and call from now on.
    pub fn begin_profile(&mut self, from: Option<&str>) -> Result<(), Error> {
        self.system.begin_profile(from)?;
        self.tell_whether_timed();
        Ok(())
    }

    /// Counts what the locks of the guest's kernel cost from now on, by the symbols of its lock functions. If the machine
    /// has timed cores, only what those execute counts.
    ///
    /// # Errors
    /// Symbols without any lock function.
    pub fn begin_lock_stats(&mut self) -> Result<(), Error> {
        self.system
            .begin_lock_stats(self.machine.timing.is_some())?;
        self.tell_whether_timed();
        Ok(())
    }

    /// Writes the profile so far, if there is one, to `path`: pprof's format if the name ends in
    /// `.pprof` or `.pb.gz`, else Callgrind's. `command` says what was run.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write_profile(&mut self, path: &str, command: &str) -> Result<(), Error> {
        self.system.write_profile(path, command)
    }

    /// What has been found out so far, as [`run`](crate::run) returns it at the end. The session continues as
    /// if nobody had asked. Without timed cores, it is only what probes left.
    pub fn statistics(&mut self) -> Statistics {
        let mut timed = self.timed_rows().unwrap_or_default();
        timed.samples = self.sampler.samples(&timed);
        Statistics {
            timing_from_cycle: self.timed_from.unwrap_or(self.system.now).0,
            timing_instructions: self.timed_instructions(),
            timing_cycles: self.timed_cycles(),
            clock_mhz: self.system.clock_hz / 1_000_000,
            timed,
            probes: recorder_rows(self.system.recorders.of(0), lock_rows(&self.system)),
        }
    }

    /// What timed cores have counted so far, if there are any.
    pub(crate) fn timed_rows(&mut self) -> Option<TimedRows> {
        let Self { system, timing, .. } = self;
        let timing = timing.as_mut()?;
        Some(timing.close(system.now))
    }

    /// Hears the debugger, if there is to be one; while he holds the system, until `end`.
    fn attend(&mut self, end: Instant) -> Served {
        let Some(mut server) = self.gdb.take() else {
            return Served::Run;
        };
        server.report_held(self);
        let served = server.attend(self, end);
        self.gdb = Some(server);
        served
    }

    /// A debugger goes: nothing holds the system any more.
    pub(crate) fn let_go(&mut self) {
        if let Some(inspector) = &mut self.system.inspector {
            inspector.release();
        }
        self.system.alone = None;
        self.chosen = None;
    }

    /// Only the chosen hart runs from now on. Timing cores run all harts all the same.
    pub(crate) fn let_run_alone(&mut self) {
        if !self.is_timed() {
            self.system.alone = self.chosen;
            let turn = &mut self.system.held_turn;
            if turn.is_some_and(|turn| Some(turn.hart()) != self.system.alone) {
                *turn = None;
            }
        }
    }

    /// The hart whose turn it is, or the first.
    pub(crate) fn present_hart(&self) -> HartId {
        let turn = self.system.held_turn.map(|turn| turn.hart());
        turn.or(self.chosen).unwrap_or_default()
    }

    /// The code that is known to wait.
    #[must_use]
    pub fn waiting(&self) -> &[WaitingRow] {
        &self.system.waiting
    }

    /// Continues, and tells a debugger what ends it.
    fn advance(&mut self, sleep: bool) -> Result<Steps, Error> {
        let steps = match &mut self.timing {
            Some(timing) if timing.is_attached() => timing.steps(&mut self.system, sleep),
            timing => {
                let cores = timing.as_mut().filter(|_| self.warms);
                self.system.round(cores).map(|round| match round {
                    Round::Executed | Round::PhaseEnds => Steps::Executed,
                    Round::Asleep => Steps::Asleep,
                    Round::Ended(exit) => Steps::Ended(exit),
                    Round::Held => Steps::Held,
                })
            }
        };
        let Some(mut server) = self.gdb.take() else {
            return steps;
        };
        let steps = match steps {
            Ok(Steps::Ended(exit)) => {
                server.report_exit(self, exit.code);
                Ok(Steps::Ended(exit))
            }
            Err(Error::Guest(why)) if server.is_connected() => {
                let hart = self.system.faulting.unwrap_or_default();
                server.report_fault(self, hart, why);
                Ok(Steps::Held)
            }
            steps => steps,
        };
        self.gdb = Some(server);
        steps
    }

    /// Lets simulated time pass, in which all harts sleep, up to the next timer and at most so long.
    pub fn doze(&mut self, seconds: f64) {
        let cycles = (seconds * self.clock_hz()) as u64;
        let now = self.system.now.0;
        let due = self.system.next_wake().map_or(u64::MAX, |due| due.0);
        self.system.now.0 = now.saturating_add(cycles).min(due.max(now));
    }

    /// What the guest has sent to console `port` since last asked: 0 is the serial line, n is
    /// hvc(n-1).
    pub fn take_output(&mut self, port: usize) -> Vec<u8> {
        self.system
            .awaited
            .hear_and_forget(&self.system.machine, port);
        self.system.machine.take_output(port)
    }

    /// Types on console `port`.
    pub fn push_input(&mut self, port: usize, bytes: &[u8]) {
        self.system.machine.push_input(port, bytes);
    }

    /// Whether the guest waits for input on the serial console; see [`Machine::serial_is_read`].
    ///
    /// [`Machine::serial_is_read`]: loiter_machine::Machine::serial_is_read
    #[must_use]
    pub fn serial_is_read(&self) -> bool {
        self.system.machine.serial_is_read()
    }

    /// Puts another disk in the place of disk `number`, of the same capacity. What the guest remembers
    /// of the old one is its own affair.
    ///
    /// # Errors
    /// When there is no such disk, or the new one cannot be had.
    pub fn replace_disk(&mut self, number: usize, disk: &DiskRequest) -> Result<(), Error> {
        let machine = &mut self.system.machine;
        Ok(machine
            .replace_disk(number, &disk.config())
            .map_err(MachineError::from)?)
    }

    /// What has happened since last asked that the user should know.
    pub fn take_messages(&mut self) -> Vec<String> {
        let mut messages = self.system.machine.take_messages();
        if let Some(server) = &mut self.gdb {
            messages.extend(server.take_messages());
        }
        messages
    }

    /// Simulated time since power-on, in cycles of the cores' clock.
    #[must_use]
    pub fn cycle(&self) -> u64 {
        self.system.now.0
    }

    /// Simulated time since power-on.
    #[must_use]
    pub fn seconds_since_power_on(&self) -> f64 {
        self.system.now.0 as f64 / self.clock_hz()
    }

    /// Instructions retired by all harts.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.system.instructions()
    }

    /// Instructions retired by each hart; hart n sits in context n.
    #[must_use]
    pub fn instructions_by_hart(&self) -> Vec<u64> {
        self.system.harts.iter().map(|hart| hart.retired).collect()
    }

    /// Where every hart stands, one line each.
    #[must_use]
    pub fn where_harts_stand(&self) -> Vec<String> {
        let line = |hart: &Hart| {
            let (id, pc) = (hart.id, hart.pc);
            let symbol = self.system.symbol(id, pc);
            format!("{id} at {pc:#x}{symbol} {}", self.mode_and_sleep(id))
        };
        self.system.harts.iter().map(line).collect()
    }

    /// The mode of a hart, and how it sleeps, if it does.
    pub(crate) fn mode_and_sleep(&self, hart: HartId) -> String {
        let state = &self.system.harts[hart.index()];
        let mode = match state.csr.privilege {
            Privilege::User => "user",
            Privilege::Supervisor => "supervisor",
            Privilege::Machine => "machine",
        };
        // In cores that are timed the context sleeps; its hart sleeps in the reference engine only.
        let nap = match (&self.timing, state.state) {
            (Some(timing), _) if timing.is_attached() => timing.nap(hart).map(|(nap, _)| nap),
            (_, HartState::Napping(nap)) => Some(nap),
            (_, HartState::Running) => None,
        };
        format!("({mode} mode) {}", nap.map_or("executes", Nap::words))
    }

    /// What every hart waits for, as the engine that runs it sees it.
    pub(crate) fn who_waits(&self) -> Vec<String> {
        match &self.timing {
            Some(timing) if timing.is_attached() => timing.who_waits(&self.system),
            _ => self.where_harts_stand(),
        }
    }

    fn seconds(&self, cycle: u64) -> f64 {
        cycle.saturating_sub(self.system.now.0) as f64 / self.clock_hz()
    }

    fn clock_hz(&self) -> f64 {
        self.system.clock_hz as f64
    }
}

/// What `option` asks for is only to be had of cores that are timed.
///
/// # Errors
/// When they are not.
pub(crate) fn require_timed(option: &str, timed: bool) -> Result<(), Error> {
    if timed {
        return Ok(());
    }
    Err(Error::User(format!(
        "{option}: the reference engine has no time to show; name a machine whose cores are timed, such as \
         -m t1 or -m smt8"
    )))
}

/// Marks the code of `system` that waits, if its cores are timed: without time, nobody asks for it.
///
/// # Errors
/// A table that does not fit.
pub(crate) fn mark_waiting(
    system: &mut System,
    file: &MachineFile,
    table: Option<&WaitingTable>,
) -> Result<(), Error> {
    match table {
        Some(table) if file.timing().is_some() => system.mark_waiting(table),
        _ => Ok(()),
    }
}

fn read(path: &str, what: &str) -> Result<BootFile, Error> {
    let bytes = std::fs::read(path)
        .map_err(|error| Error::User(format!("{path}: cannot read {what}: {error}")))?;
    Ok(BootFile {
        path: path.to_owned(),
        bytes,
    })
}
