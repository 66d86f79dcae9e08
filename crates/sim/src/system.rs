//! Assembly of a system from a request, and the phases of a run.

use std::time::{Duration, Instant};

use loiter_hart::{CodeCache, Extensions, Hart, Unhandled};
use loiter_machine::{ElfImage, Machine, MachineConfig};
use loiter_observe::Recorder;
use loiter_types::{Cycle, HartId, VirtAddr};
use serde::Serialize;

use crate::config::{MachineFile, hex};
use crate::error::Error;
use crate::params::CoreKind;
use crate::request::{Progress, Request};
use crate::result::{Exit, ExitReason, RunResult, recorder_rows};
use crate::timing_phase::Timing;

/// How often the caller hears of a run's progress, in host time.
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// How much of the console the error of a failed guest carries.
const CONSOLE_TAIL_BYTES: usize = 4096;

/// A system while it runs.
pub(crate) struct System<'a> {
    pub(crate) machine: Machine,
    pub(crate) harts: Vec<Hart>,
    pub(crate) code: CodeCache,
    pub(crate) recorder: Recorder,
    pub(crate) elf: ElfImage,
    pub(crate) now: Cycle,
    pub(crate) cycles_per_tick: u64,
    pub(crate) max_cycles: u64,
    report: Report<'a>,
}

struct Report<'a> {
    progress: &'a mut dyn FnMut(Progress) -> bool,
    started: Instant,
    last: Instant,
    last_cycle: u64,
    last_instructions: u64,
}

/// How a phase ended.
pub(crate) enum PhaseEnd {
    /// The run is over.
    Exit(Exit),
    /// The region of interest begins: the timing model takes over.
    RegionBegins,
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
    let mut system = System::new(request, &file, elf, progress)?;
    let core = file.core();
    let mut timing = None;
    let untimed = matches!(core, CoreKind::Reference);
    let mut end = PhaseEnd::RegionBegins;
    if untimed || request.fast_forward {
        end = system.reference_phase(!untimed)?;
    }
    let timing_from = system.now;
    let timing_from_instructions = system.instructions();
    let exit = match (end, core) {
        (PhaseEnd::Exit(exit), _) => exit,
        (PhaseEnd::RegionBegins, CoreKind::Fgmt(params, memory)) => {
            let timing = timing.insert(Timing::new(
                &request.machine_name,
                &params,
                *memory,
                &mut system,
            )?);
            timing.run(&mut system)?
        }
        (PhaseEnd::RegionBegins, CoreKind::Reference) => {
            unreachable!("the reference engine runs to the end by itself")
        }
    };
    let instructions = system.instructions();
    let (counters, accounts) = match &mut timing {
        Some(timing) => timing.close(system.now),
        None => (Vec::new(), Vec::new()),
    };
    let (marks, reports, lock_reads) = recorder_rows(&system.recorder);
    Ok(RunResult {
        exit,
        machine_hash: file.hash(),
        program_hash: hex(&system.elf.hash),
        console: String::from_utf8_lossy(&system.machine.take_console()).into_owned(),
        cycles: system.now.0,
        timing_from_cycle: timing_from.0,
        instructions,
        timing_instructions: instructions - timing_from_instructions,
        clock_mhz: file.system().clock_mhz,
        host_seconds: system.report.started.elapsed().as_secs_f64(),
        counters,
        accounts,
        marks,
        reports,
        lock_reads,
    })
}

impl<'a> System<'a> {
    fn new(
        request: &Request,
        file: &MachineFile,
        elf: &[u8],
        progress: &'a mut dyn FnMut(Progress) -> bool,
    ) -> Result<Self, Error> {
        let params = file.system();
        let hart = file.hart();
        let clock_hz = params.clock_mhz * 1_000_000;
        let elf = ElfImage::parse(&request.program, elf)?;
        let harts = params.cores as usize * file.contexts();
        let extensions = Extensions::of(&hart.isa);
        let mut machine = Machine::new(&MachineConfig {
            ram_bytes: params.ram_mib << 20,
            harts,
            timebase_hz: params.timebase_hz,
            isa: hart.isa,
            bootargs: request.bootargs.clone(),
            watch_line_bytes: hart.watch_line_bytes,
            contexts_per_core: file.contexts(),
            ..MachineConfig::default()
        })?;
        machine.load_elf(&elf)?;
        let tree = machine.place_device_tree();
        let now = Instant::now();
        Ok(Self {
            harts: (0..harts)
                .map(|n| Hart::new(HartId::new(n), elf.entry.0, tree, extensions))
                .collect(),
            machine,
            code: CodeCache::new(),
            recorder: Recorder::default(),
            elf,
            now: Cycle(0),
            cycles_per_tick: clock_hz / params.timebase_hz,
            max_cycles: request.max_cycles.unwrap_or(u64::MAX),
            report: Report {
                progress,
                started: now,
                last: now,
                last_cycle: 0,
                last_instructions: 0,
            },
        })
    }

    /// Instructions retired by all harts.
    pub(crate) fn instructions(&self) -> u64 {
        self.harts.iter().map(|hart| hart.retired).sum()
    }

    /// Reports progress if it is time.
    pub(crate) fn report(&mut self, phase: &'static str) -> Result<(), Error> {
        let now = Instant::now();
        if now - self.report.last < REPORT_EVERY {
            return Ok(());
        }
        let instructions = self.instructions();
        let report = &mut self.report;
        let cycles = (self.now.0 - report.last_cycle).max(1);
        let progress = Progress {
            cycle: self.now.0,
            instructions,
            host_seconds: (now - report.started).as_secs_f64(),
            ipc: (instructions - report.last_instructions) as f64 / cycles as f64,
            phase,
        };
        report.last = now;
        report.last_cycle = self.now.0;
        report.last_instructions = instructions;
        if (report.progress)(progress) {
            Ok(())
        } else {
            Err(Error::Interrupted)
        }
    }

    /// How the program ended the machine, if it did.
    pub(crate) fn ended(&self) -> Option<Exit> {
        use loiter_machine::EndedBy;
        let ended = self.machine.ended()?;
        let (reason, by) = match ended.by {
            EndedBy::Finisher => (ExitReason::Finisher, "the test finisher"),
            EndedBy::Htif => (ExitReason::Htif, "tohost"),
        };
        let code = ended.ending.code();
        Some(Exit {
            reason,
            code,
            message: format!("the program ended by {by} with code {code}"),
        })
    }

    /// The end at the request's limit.
    pub(crate) fn limit_reached(&self) -> Exit {
        Exit {
            reason: ExitReason::MaxCycles,
            code: 1,
            message: format!("stopped after {} cycles as asked", self.max_cycles),
        }
    }

    /// The end when nothing can ever happen again; `who` says who waits for what.
    pub(crate) fn watchdog(&self, who: &[String]) -> Exit {
        Exit {
            reason: ExitReason::Watchdog,
            code: 1,
            message: format!(
                "nothing can ever happen again after cycle {}: no hart executes, no timer is set\n{}",
                self.now.0,
                who.join("\n")
            ),
        }
    }

    /// `symbol+offset` of an address, or nothing.
    pub(crate) fn symbol(&self, addr: u64) -> String {
        match self.elf.symbols.find(VirtAddr(addr)) {
            Some((name, 0)) => format!(" <{name}>"),
            Some((name, offset)) => format!(" <{name}+{offset:#x}>"),
            None => String::new(),
        }
    }

    /// The error for a trap without a handler, with what the program printed before it.
    pub(crate) fn unhandled(&mut self, hart: HartId, unhandled: Unhandled) -> Error {
        let console = self.machine.take_console();
        let tail = &console[console.len().saturating_sub(CONSOLE_TAIL_BYTES)..];
        let printed = if tail.is_empty() {
            String::new()
        } else {
            format!(
                "the program had printed:\n{}",
                String::from_utf8_lossy(tail)
            )
        };
        let state = &self.harts[hart.index()];
        Error::Guest(format!(
            "{hart}: {} at pc {:#x}{} has no handler (the trap vector points to {:#x}, which is not \
             memory) after cycle {}\n{}{printed}",
            unhandled.trap,
            unhandled.pc,
            self.symbol(unhandled.pc),
            unhandled.handler,
            self.now.0,
            state.describe(&self.machine)
        ))
    }
}

/// What a program consists of.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// Address of the first instruction.
    pub entry: u64,
    /// Names of its tasks.
    pub tasks: Vec<String>,
    /// Number of its symbols.
    pub symbols: usize,
    /// SHA-256 of the file.
    pub hash: String,
    /// Its loadable segments.
    pub segments: Vec<SegmentRow>,
}

/// A loadable segment.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentRow {
    /// Physical address.
    pub addr: u64,
    /// Bytes in memory.
    pub bytes: u64,
    /// Whether it holds code.
    pub executable: bool,
}

/// Reads what a program consists of; a task is a function whose symbol begins with `loiter_task_`.
///
/// # Errors
/// When it is no RISC-V executable.
pub fn inspect(path: &str, elf: &[u8]) -> Result<Inspection, Error> {
    const PREFIX: &str = "loiter_task_";
    let elf = ElfImage::parse(path, elf)?;
    let mut tasks: Vec<String> = elf
        .symbols
        .with_prefix(PREFIX)
        .map(|(name, _)| name[PREFIX.len()..].to_owned())
        .collect();
    tasks.sort();
    Ok(Inspection {
        entry: elf.entry.0,
        tasks,
        symbols: elf.symbols.len(),
        hash: hex(&elf.hash),
        segments: elf
            .segments
            .iter()
            .map(|segment| SegmentRow {
                addr: segment.addr.0,
                bytes: segment.mem_bytes,
                executable: segment.executable,
            })
            .collect(),
    })
}
