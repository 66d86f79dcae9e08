//! One run of one program, from power-on to its end.

use std::time::{Duration, Instant};

use loiter_machine::ElfImage;
use loiter_types::Cycle;

use crate::config::{MachineFile, hex};
use crate::error::Error;
use crate::request::{Progress, Request};
use crate::result::{Exit, RunResult, recorder_rows};
use crate::session::{Limits, Session, Status};
use crate::snapshot::Origin;
use crate::system::{PhaseEnd, System};
use crate::timing_phase::Timing;

/// How often the caller hears of a run's progress, in host time.
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// Tells the caller how far a run is.
pub(crate) struct Report<'a> {
    progress: &'a mut dyn FnMut(Progress) -> bool,
    started: Instant,
    last: Instant,
    last_cycle: u64,
    last_instructions: u64,
}

impl<'a> Report<'a> {
    fn new(progress: &'a mut dyn FnMut(Progress) -> bool) -> Self {
        let now = Instant::now();
        Self {
            progress,
            started: now,
            last: now,
            last_cycle: 0,
            last_instructions: 0,
        }
    }

    /// Reports if it is time.
    pub(crate) fn tell(&mut self, system: &System, phase: &'static str) -> Result<(), Error> {
        let now = Instant::now();
        if now - self.last < REPORT_EVERY {
            return Ok(());
        }
        let instructions = system.instructions();
        let cycles = (system.now.0 - self.last_cycle).max(1);
        let progress = Progress {
            cycle: system.now.0,
            instructions,
            host_seconds: (now - self.started).as_secs_f64(),
            ipc: (instructions - self.last_instructions) as f64 / cycles as f64,
            phase,
        };
        self.last = now;
        self.last_cycle = system.now.0;
        self.last_instructions = instructions;
        if (self.progress)(progress) {
            Ok(())
        } else {
            Err(Error::Interrupted)
        }
    }
}

/// Runs `elf` as `request` says. `progress` hears how far it is about five times a second, and
/// answers whether to go on.
///
/// # Errors
/// The user's mistakes, traps that the guest does not handle, and being told to stop.
pub fn run(
    request: &Request,
    elf: &[u8],
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<RunResult, Error> {
    let file = MachineFile::read(&request.machine_name, &request.machine_toml, &request.set)?;
    let observe = &request.observe;
    if observe.gdb.is_some() && request.fast_forward {
        return Err(Error::User(
            "--gdb and --fast-forward contradict each other: a debugger sees the run from its beginning"
                .into(),
        ));
    }
    let elf = ElfImage::parse(&request.program, elf)?;
    let system = System::bare(request, &file, &elf)?;
    let origin = Origin::program(&request.program, &file);
    // Without a debugger, cores are timed once the phase comes for it.
    let untimed = observe.gdb.is_none();
    let mut session = Session::seat(&request.machine_name, &file, untimed, system, origin)?;
    if observe.check {
        session.begin_check()?;
    }
    if let Some(trace) = &observe.trace {
        session.begin_trace(trace)?;
    }
    if observe.profile.is_some() {
        session.begin_profile();
    }
    let mut report = Report::new(progress);
    let outcome = match &observe.gdb {
        Some(address) => {
            session.listen_gdb(address)?;
            debugged(request, &mut session, &mut report)
        }
        None => {
            let Session { system, timing, .. } = &mut session;
            to_end(request, &file, system, timing, &mut report)
        }
    };
    // Of a program that fails one wants to see most of all.
    let trace_fault = session.end_trace();
    if let Some(path) = &observe.profile {
        session.write_profile(path, &format!("{} {}", request.program, request.bootargs))?;
    }
    let Session {
        mut system,
        mut timing,
        ..
    } = session;
    let (exit, timing_from, timing_from_instructions) = outcome?;
    if let Some(fault) = trace_fault {
        return Err(Error::User(fault));
    }
    let instructions = system.instructions();
    let timed = timing
        .as_mut()
        .map(|timing| timing.close(system.now))
        .unwrap_or_default();
    let (marks, reports, lock_reads) = recorder_rows(&system.recorder);
    Ok(RunResult {
        exit,
        machine_hash: file.hash(),
        program_hash: hex(&elf.hash),
        console: String::from_utf8_lossy(&system.machine.take_output(0)).into_owned(),
        cycles: system.now.0,
        timing_from_cycle: timing_from.0,
        instructions,
        timing_instructions: instructions - timing_from_instructions,
        checked_instructions: system.checked_instructions(),
        clock_mhz: file.system().clock_mhz,
        host_seconds: report.started.elapsed().as_secs_f64(),
        counters: timed.counters,
        accounts: timed.accounts,
        activities: timed.activities,
        histograms: timed.histograms,
        marks,
        reports,
        lock_reads,
    })
}

/// Runs to the end as a debugger lets it.
fn debugged(
    request: &Request,
    session: &mut Session,
    report: &mut Report<'_>,
) -> Result<(Exit, Cycle, u64), Error> {
    let limits = Limits {
        cycle: request.max_cycles,
        ..Limits::default()
    };
    let timing_from = session.is_timed().then_some((Cycle(0), 0));
    let exit = loop {
        match session.step(REPORT_EVERY, &limits)? {
            Status::Running | Status::Held => {}
            Status::Ended(exit) => break exit,
            Status::Reached => break session.system.limit_reached(),
            Status::Asleep { .. } => {
                let who = session.where_harts_stand();
                break session.system.watchdog(&who);
            }
        }
        report.tell(&session.system, "debugged")?;
    };
    let system = &session.system;
    let (from, instructions) = timing_from.unwrap_or((system.now, system.instructions()));
    Ok((exit, from, instructions))
}

/// Runs the phases of a run. Answers how it ended, and when the timing model took over: the cycle, and
/// the instructions until then.
fn to_end(
    request: &Request,
    file: &MachineFile,
    system: &mut System,
    timing: &mut Option<Timing>,
    report: &mut Report<'_>,
) -> Result<(Exit, Cycle, u64), Error> {
    let core = file.core();
    let untimed = !core.is_timed();
    let mut end = PhaseEnd::RegionBegins;
    if untimed || request.fast_forward {
        end = system.reference_phase(!untimed, report)?;
    }
    let timing_from = system.now;
    let timing_from_instructions = system.instructions();
    let exit = match (end, core) {
        (PhaseEnd::Exit(exit), _) => exit,
        (PhaseEnd::RegionBegins, core) => {
            let built = Timing::new(&request.machine_name, core, system)?
                .expect("the reference engine runs to the end by itself");
            timing.insert(built).run(system, report)?
        }
    };
    Ok((exit, timing_from, timing_from_instructions))
}
