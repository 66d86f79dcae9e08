//! A system: machine and harts, and what is said of it when it ends.

use std::iter;
use std::sync::Arc;

use loiter_cores::Cores;
use loiter_cores::Skipping;
use loiter_hart::{CodeCache, Extensions, Hart, Unhandled};
use loiter_isa::disassemble;
use loiter_machine::{ElfImage, Machine, MachineConfig, Mmu};
use loiter_observe::{Locks, Recorders};
use loiter_types::{Cycle, HartId, PhysAddr};

use crate::check::{Checker, Divergence, What};
use crate::config::MachineFile;
use crate::debug::output;
use crate::debug::{
    GuestInspectors, Inspector, LockStats, Pipeline, PipelineRequest, Profiler, SavedLockStats,
    Timeline, Trace, TraceRequest,
};
use crate::error::Error;
use crate::phases::Awaited;
use crate::reference_phase::Turn;
use crate::request::Request;
use crate::result::{Exit, ExitReason};
use crate::symbols::Symbols;
use crate::waiting::WaitingRow;

/// How much of the console the error of a failed guest carries.
const CONSOLE_TAIL_BYTES: usize = 4096;

/// Register ra.
const RETURN_ADDRESS: usize = 1;

/// A system while it runs.
pub(crate) struct System {
    pub(crate) machine: Machine,
    pub(crate) harts: Vec<Hart>,
    pub(crate) code: CodeCache,
    pub(crate) recorders: Recorders,
    /// Of each guest, or of the only program.
    pub(crate) symbols: Vec<Arc<Symbols>>,
    /// Code that waits.
    pub(crate) waiting: Vec<WaitingRow>,
    /// Who watches instructions.
    pub(crate) inspector: Option<Box<Inspector>>,
    /// Who watches those of each guest, where there are guests.
    pub(crate) guest_inspectors: GuestInspectors,
    /// What is left of a turn in which a debugger holds the system.
    pub(crate) held_turn: Option<Turn>,
    /// What a snapshot knows of locks, until somebody counts them.
    pub(crate) saved_lock_stats: Option<SavedLockStats>,
    /// The hart that cannot continue: its trap has no handler.
    pub(crate) faulting: Option<HartId>,
    /// The only hart that a debugger lets run, if it has chosen one.
    pub(crate) alone: Option<HartId>,
    /// What ends the present phase.
    pub(crate) awaited: Awaited,
    pub(crate) now: Cycle,
    pub(crate) clock_hz: u64,
    pub(crate) cycles_per_tick: u64,
    pub(crate) max_cycles: u64,
    /// What becomes of the cycles of cores that repeat themselves.
    pub(crate) skipping: Skipping,
}

impl System {
    /// A system at reset whose harts are about to execute at the entry of `elf`, each with its number
    /// and the address of the device tree.
    pub(crate) fn bare(
        request: &Request,
        file: &MachineFile,
        elf: &ElfImage,
    ) -> Result<Self, Error> {
        let config = MachineConfig {
            bootargs: request.bootargs.clone(),
            ..file.machine(file.harts())
        };
        let mut machine = Machine::new(&config)?;
        machine.load_elf(elf)?;
        let tree = machine.place_device_tree();
        let mut system = Self::assemble(file, &config, machine, elf.entry, tree);
        system.symbols = vec![Arc::new(Symbols::of_program(elf))];
        system.max_cycles = request.max_cycles.unwrap_or(u64::MAX);
        Ok(system)
    }

    /// A system at reset around `machine`.
    pub(crate) fn assemble(
        file: &MachineFile,
        config: &MachineConfig,
        machine: Machine,
        entry: PhysAddr,
        device_tree: PhysAddr,
    ) -> Self {
        let clock_hz = file.system().clock_mhz * 1_000_000;
        let extensions = Extensions {
            sv48: config.mmu == Some(Mmu::Sv48),
            asid_bits: config.asid_bits,
            ..Extensions::of(&config.isa)
        };
        let harts = (0..config.harts).map(HartId::new);
        let hart = |id| Hart::new(id, entry.0, device_tree, extensions);
        Self {
            harts: harts.map(hart).collect(),
            ..Self::empty(machine, clock_hz, clock_hz / config.timebase_hz)
        }
    }

    /// A system around `machine` without its harts, at cycle 0.
    pub(crate) fn empty(machine: Machine, clock_hz: u64, cycles_per_tick: u64) -> Self {
        Self {
            harts: Vec::new(),
            machine,
            code: CodeCache::new(),
            recorders: Recorders::default(),
            symbols: vec![Arc::default()],
            waiting: Vec::new(),
            inspector: None,
            guest_inspectors: GuestInspectors::default(),
            held_turn: None,
            saved_lock_stats: None,
            faulting: None,
            alone: None,
            awaited: Awaited::default(),
            now: Cycle(0),
            clock_hz,
            cycles_per_tick,
            max_cycles: u64::MAX,
            skipping: Skipping::default(),
        }
    }

    /// Instructions retired by all harts.
    pub(crate) fn instructions(&self) -> u64 {
        self.harts.iter().map(|hart| hart.retired).sum()
    }

    /// How the program ended the machine, if it did.
    pub(crate) fn ended(&self) -> Option<Exit> {
        self.ended_of(0)
    }

    /// The same of a guest.
    pub(crate) fn ended_of(&self, guest: usize) -> Option<Exit> {
        use loiter_machine::{EndedBy, Ending};
        let ended = self.machine.platform(guest).ended()?;
        if ended.ending == Ending::Reset {
            return Some(Exit {
                reason: ExitReason::Reset,
                code: 1,
                message: "the program asked for a reset".into(),
            });
        }
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

    /// ` <symbol+offset>` of an address that `hart` uses, or nothing.
    pub(crate) fn symbol(&self, hart: HartId, addr: u64) -> String {
        let symbols = &self.symbols[self.machine.guest_of(hart).0];
        symbols.text(&self.harts[hart.index()], &self.machine, addr)
    }

    /// The error for a trap without a handler, with what the program printed before it.
    pub(crate) fn unhandled(&mut self, hart: HartId, unhandled: Unhandled) -> Error {
        self.faulting = Some(hart);
        let guest = self.machine.guest_of(hart).0;
        let console = self.machine.platform_mut(guest).take_output(0);
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
        let return_addr = state.regs[RETURN_ADDRESS];
        Error::Guest(format!(
            "{hart}: {} at pc {:#x}{} has no handler (the trap vector points to {:#x}, which is not \
             memory) after cycle {}, return address {return_addr:#x}{}\n{}{printed}",
            unhandled.trap,
            unhandled.pc,
            self.symbol(hart, unhandled.pc),
            unhandled.handler,
            self.now.0,
            self.symbol(hart, return_addr),
            state.describe(&self.machine)
        ))
    }

    pub(crate) fn inspector(&mut self) -> &mut Inspector {
        self.inspector.get_or_insert_default()
    }

    /// Checks what timing cores do against the reference engine from now on, if it is not being checked.
    pub(crate) fn begin_check(&mut self) {
        self.inspector().checker.get_or_insert_default();
    }

    /// Timing cores have taken the harts over.
    pub(crate) fn begin_check_of_harts(&mut self) {
        if let Some(checker) = self.inspector.as_mut().and_then(|it| it.checker.as_mut()) {
            checker.begin(&self.harts);
        }
    }

    /// A debugger has changed a hart.
    pub(crate) fn changed_from_outside(&mut self, hart: HartId) {
        if let Some(checker) = self.inspector.as_mut().and_then(|it| it.checker.as_mut()) {
            checker.changed(&self.harts[hart.index()]);
        }
    }

    /// Number of instructions that have been checked.
    pub(crate) fn checked_instructions(&self) -> u64 {
        let checker = self.inspector.as_ref().and_then(|it| it.checker.as_ref());
        checker.map_or(0, Checker::checked)
    }

    /// Timing cores have given the harts up.
    ///
    /// # Errors
    /// When they have kept stores back.
    pub(crate) fn suspend_check(&mut self) -> Result<(), Error> {
        let cycle = self.now.0;
        if let Some(checker) = self.inspector.as_mut().and_then(|it| it.checker.as_mut()) {
            checker.suspend(cycle);
        }
        self.refuse_divergence()
    }

    /// Lets timing cores run with the inspector, if there is anything for it to watch.
    ///
    /// # Errors
    /// Those of `run`, or that a core has departed from the reference engine.
    pub(crate) fn with_watcher<T>(
        &mut self,
        run: impl FnOnce(&mut Self, Option<&mut Inspector>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut inspector = self.inspector.take();
        let done = run(self, inspector.as_deref_mut());
        self.inspector = inspector;
        self.refuse_divergence()?;
        done
    }

    /// # Errors
    /// A timing core has departed from the reference engine.
    pub(crate) fn refuse_divergence(&mut self) -> Result<(), Error> {
        let checker = self.inspector.as_mut().and_then(|it| it.checker.as_mut());
        match checker.and_then(Checker::take_divergence) {
            Some(found) => Err(self.divergence(&found)),
            None => Ok(()),
        }
    }

    fn divergence(&self, found: &Divergence) -> Error {
        let Divergence { hart, pc, .. } = *found;
        let what = match found.what {
            What::Instruction(inst) => format!("retired {}", disassemble(inst.raw, pc)),
            What::Trap(trap) => format!("entered {trap}"),
            What::Store(addr) => format!("stored to {addr}, before"),
            What::Detached => "gave the hart up".into(),
        };
        Error::Internal(format!(
            "--check: a timing core departs from the reference engine; the fault is loiter's, not the \
             guest's\n{hart} at {pc:#x}{} {what}, in cycle {}, after {} checked instructions\n  {}",
            self.symbol(hart, pc),
            found.cycle,
            found.checked,
            found.wrong.join("\n  ")
        ))
    }

    /// Writes a trace of retired instructions from now on.
    pub(crate) fn begin_trace(&mut self, request: &TraceRequest) -> Result<(), Error> {
        let trace = Trace::new(request, Arc::clone(&self.symbols[0]))?;
        self.inspector().trace = Some(trace);
        Ok(())
    }

    /// Writes a log of the pipelines of timing cores from now on.
    pub(crate) fn begin_pipeline(&mut self, request: &PipelineRequest) -> Result<(), Error> {
        let pipeline = Pipeline::new(request, Arc::clone(&self.symbols[0]))?;
        self.inspector().pipeline = Some(pipeline);
        Ok(())
    }

    /// Writes what the contexts of timing cores do from now on to `path`, for Perfetto.
    pub(crate) fn begin_timeline(&mut self, path: &str) -> Result<(), Error> {
        let timeline = Timeline::new(path, self.clock_hz)?;
        self.inspector().timeline = Some(timeline);
        Ok(())
    }

    /// Ends the trace, the pipeline log and the timeline, if there are such; returns what went wrong with
    /// them.
    pub(crate) fn end_logs(&mut self, cores: Option<&mut Cores>) -> Vec<String> {
        let Some(inspector) = &mut self.inspector else {
            return Vec::new();
        };
        let faults = [
            inspector.trace.take().and_then(Trace::end),
            inspector.pipeline.take().and_then(|it| it.end(self.now)),
            inspector
                .timeline
                .take()
                .and_then(|it| it.end(cores, self.now)),
        ];
        faults.into_iter().flatten().collect()
    }

    /// Counts instructions by function and call from `from` on, a cycle, a symbol or "timing"; none: from now on.
    pub(crate) fn begin_profile(&mut self, from: Option<&str>) -> Result<(), Error> {
        let symbols = Arc::clone(&self.symbols[0]);
        let profiler = Profiler::new(from, symbols, self.harts.len(), self.now)?;
        self.inspector().profiler = Some(profiler);
        Ok(())
    }

    /// Counts what the locks of the guest's kernel cost from now on; `only_timed`: on timed cores alone. Who has them by now,
    /// and who waits, is known if the system is that of a snapshot that was saved while they were counted.
    pub(crate) fn begin_lock_stats(&mut self, only_timed: bool) -> Result<(), Error> {
        let mut lock_stats = LockStats::new(&self.symbols[0], self.harts.len(), only_timed)?;
        if let Some(saved) = self.saved_lock_stats.take() {
            let damaged = |problem: String| Error::User(format!("a damaged snapshot: {problem}"));
            lock_stats.resume(saved).map_err(damaged)?;
        }
        self.inspector().lock_stats = Some(lock_stats);
        Ok(())
    }

    /// What has been found out of locks: by probes, and by the symbols of lock functions.
    pub(crate) fn locks_of(&self, guest: usize) -> impl Iterator<Item = &Locks> {
        let inspector = match self.guest_inspectors.get(guest) {
            Some(of_guest) => of_guest,
            None => self.inspector.as_deref(),
        };
        let lock_stats = inspector.and_then(|it| it.lock_stats.as_ref());
        iter::once(&self.recorders.of(guest).locks).chain(lock_stats.map(|it| &it.locks))
    }

    /// Writes the profile, if there is one, to `path`; `command` says what was run.
    pub(crate) fn write_profile(&mut self, path: &str, command: &str) -> Result<(), Error> {
        let now = self.now;
        let Some(profiler) = &mut self.inspector().profiler else {
            return Ok(());
        };
        let bytes = profiler.write(now, path, command);
        std::fs::write(path, bytes)
            .map_err(|error| Error::User(output::not_whole(path, "the profile", &error)))
    }
}
