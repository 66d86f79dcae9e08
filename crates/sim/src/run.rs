//! One run of one program, from power-on to its end.

use std::time::{Duration, Instant};

use loiter_cores::Skipping;
use loiter_machine::ElfImage;

use crate::config::{MachineFile, hex};
use crate::error::Error;
use crate::phases::Engines;
use crate::request::{Progress, Request};
use crate::result::{Exit, ProbeRows, RunResult, TimedRows};
use crate::session::{Limits, Session, Status, mark_waiting, require_timed};
use crate::snapshot::Origin;
use crate::system::System;

/// How often the caller hears of a run's progress, in host time.
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// Tells the caller how far a run is.
pub(crate) struct Report<'a> {
    progress: &'a mut dyn FnMut(Progress) -> bool,
    started: Instant,
    last: Instant,
    last_cycle: u64,
    last_retired: Vec<u64>,
}

impl<'a> Report<'a> {
    fn new(progress: &'a mut dyn FnMut(Progress) -> bool) -> Self {
        let now = Instant::now();
        Self {
            progress,
            started: now,
            last: now,
            last_cycle: 0,
            last_retired: Vec::new(),
        }
    }

    /// Reports if it is time.
    pub(crate) fn tell(&mut self, system: &System, phase: &'static str) -> Result<(), Error> {
        let now = Instant::now();
        if now - self.last < REPORT_EVERY {
            return Ok(());
        }
        let cycles = (system.now.0 - self.last_cycle).max(1) as f64;
        let harts = system.harts.iter();
        let retired: Vec<u64> = harts.map(|hart| hart.retired).collect();
        self.last_retired.resize(retired.len(), 0);
        let since = retired.iter().zip(&self.last_retired);
        let since: Vec<u64> = since.map(|(now, last)| now - last).collect();
        let progress = Progress {
            cycle: system.now.0,
            simulated_seconds: system.now.0 as f64 / system.clock_hz as f64,
            instructions: retired.iter().sum(),
            host_seconds: (now - self.started).as_secs_f64(),
            ipc: since.iter().sum::<u64>() as f64 / cycles,
            ipc_by_context: since.iter().map(|&count| count as f64 / cycles).collect(),
            phase,
        };
        self.last = now;
        self.last_cycle = system.now.0;
        self.last_retired = retired;
        if (self.progress)(progress) {
            Ok(())
        } else {
            Err(Error::Interrupted)
        }
    }
}

/// Runs `elf` as `request` says. `progress` hears how far it is about five times a second, and
/// returns whether to continue.
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
    let elf = ElfImage::parse(&request.program, elf)?;
    let engines = Engines::of_program(request, &file)?;
    let mut system = System::bare(request, &file, &elf)?;
    mark_waiting(&mut system, &file, request.waiting.as_ref())?;
    let origin = Origin::program(&request.program, &file);
    let mut session =
        Session::assemble(&request.machine_name, &file, system, origin).on(engines)?;
    if observe.check {
        session.begin_check()?;
    }
    if observe.no_skip {
        session.skip(Skipping::Nothing);
    } else if observe.prove_skips {
        session.skip(Skipping::Proved);
    }
    if let Some(trace) = &observe.trace {
        session.begin_trace(trace)?;
    }
    if let Some(profile) = &observe.profile {
        session.begin_profile(profile.from.as_deref())?;
    }
    if request.lock_stats {
        session.begin_lock_stats()?;
    }
    let timed = file.timing().is_some();
    if let Some(pipeline) = &observe.pipeline {
        require_timed("--pipeline", timed)?;
        session.system.begin_pipeline(pipeline)?;
    }
    if let Some(path) = &observe.timeline {
        require_timed("--timeline", timed)?;
        session.system.begin_timeline(path)?;
    }
    let mut report = Report::new(progress);
    if let Some(address) = &observe.gdb {
        session.listen_gdb(address)?;
    }
    let outcome = to_end(request, &mut session, &mut report);
    // Of a program that fails one wants to see most of all.
    let mut log_faults = session.end_logs();
    if let Some(profile) = &observe.profile {
        let written = session.write_profile(
            &profile.path,
            &format!("{} {}", request.program, request.bootargs),
        );
        log_faults.extend(written.err().map(|error| error.to_string()));
    }
    let exit = outcome?;
    let statistics = session.statistics();
    let (phases, missed_phase) = (session.phases(), session.missed_phase());
    let skipped_cycles = session.skipped_cycles();
    let mut system = session.system;
    let instructions = system.instructions();
    let TimedRows {
        counters,
        accounts,
        activities,
        histograms,
        seats,
        samples,
    } = statistics.timed;
    let ProbeRows {
        marks,
        reports,
        lock_reads,
        locks,
    } = statistics.probes;
    Ok(RunResult {
        exit,
        machine_hash: file.hash(),
        program_hash: hex(&elf.hash),
        console: String::from_utf8_lossy(&system.machine.take_output(0)).into_owned(),
        cycles: system.now.0,
        timing_from_cycle: statistics.timing_from_cycle,
        instructions,
        timing_instructions: statistics.timing_instructions,
        timing_cycles: statistics.timing_cycles,
        phases,
        missed_phase,
        log_faults,
        checked_instructions: system.checked_instructions(),
        waiting: system.waiting,
        clock_mhz: statistics.clock_mhz,
        host_seconds: report.started.elapsed().as_secs_f64(),
        skipped_cycles,
        counters,
        accounts,
        activities,
        histograms,
        seats,
        samples,
        marks,
        reports,
        lock_reads,
        locks,
    })
}

/// Runs to the end.
fn to_end(
    request: &Request,
    session: &mut Session,
    report: &mut Report<'_>,
) -> Result<Exit, Error> {
    let limits = Limits {
        cycle: request.max_cycles,
        ..Limits::default()
    };
    loop {
        match session.step(REPORT_EVERY, &limits)? {
            Status::Running | Status::Held => {}
            Status::Ended(exit) => return Ok(exit),
            Status::Reached => return Ok(session.system.limit_reached()),
            Status::Asleep { .. } => {
                let who = session.who_waits();
                return Ok(session.system.watchdog(&who));
            }
        }
        let engine = match (&request.observe.gdb, session.is_timed()) {
            (Some(_), _) => "debugged",
            (None, true) => "timing",
            (None, false) => "reference",
        };
        report.tell(&session.system, engine)?;
    }
}
