//! Who watches the instructions of a run: for a debugger, a trace, a profile, a pipeline log, a
//! timeline, statistics of locks, or the lockstep check.

use gdbstub::target::ext::breakpoints::WatchKind;
use loiter_cores::{InstructionId, PipelineStep};
use loiter_hart::{
    Hart, InstructionObserver, Performed, Retired, Trapped, Unobserved, access_width,
};
use loiter_isa::Class;
use loiter_observe::{Moment, Probe};
use loiter_types::{Cycle, HartId, PAGE_BYTES, StateVisitor};

use super::lock_stats::LockStats;
use super::pipeline::Pipeline;
use super::profiler::Profiler;
use super::timeline::Timeline;
use super::trace::Trace;
use crate::check::Checker;
use crate::phases::Arrivals;

/// Watches instructions, and is told of probes and of ways through pipelines.
pub(crate) trait Watcher: InstructionObserver {
    /// A probe has passed.
    fn probe(&mut self, _: Moment, _: &Probe) {}

    /// Shows `visitor` what it has heard of `hart`: while that is the same, it need not hear the same again.
    fn visit_state(&self, _: HartId, _: &mut impl StateVisitor) {}

    /// As [`loiter_cores::PipelineObserver::pipeline`].
    fn pipeline(&mut self, _: Cycle, _: Cycle, _: InstructionId, _: PipelineStep<'_>) {}
}

impl Watcher for Unobserved {}

/// Memory whose use holds the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watchpoint {
    pub(crate) addr: u64,
    pub(crate) bytes: u64,
    pub(crate) kind: WatchKind,
}

/// Why a system is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The hart is about to execute the instruction at a breakpoint.
    Breakpoint,
    /// The hart has executed one instruction, or entered a trap.
    Step,
    /// The hart has used watched memory.
    Watch(Watchpoint),
}

/// A turn of the reference engine before a trace that begins at a cycle, it is made ready.
const AHEAD: u64 = 10_000;

/// Watches instructions.
#[derive(Default)]
pub(crate) struct Inspector {
    pub(crate) trace: Option<Trace>,
    pub(crate) profiler: Option<Profiler>,
    pub(crate) pipeline: Option<Pipeline>,
    pub(crate) timeline: Option<Timeline>,
    pub(crate) checker: Option<Checker>,
    pub(crate) lock_stats: Option<LockStats>,
    /// What ends the phase, where that is a hart's coming somewhere.
    pub(crate) arrivals: Arrivals,
    /// Whether timed cores execute.
    pub(crate) is_timed: bool,
    breakpoints: Vec<u64>,
    watchpoints: Vec<Watchpoint>,
    stepping: Option<HartId>,
    held: Option<(HartId, Reason)>,
}

impl Inspector {
    /// Whether there is anything to watch for at `now`; if not, the engine needs no observer.
    pub(crate) fn is_active(&self, now: Cycle) -> bool {
        let due =
            |trace: &Trace| trace.wants(None, self.is_timed) && trace.not_before() <= now.0 + AHEAD;
        self.watches_all()
            || !self.arrivals.are_none()
            || self.lock_stats.is_some()
            || !self.breakpoints.is_empty()
            || self.trace.as_ref().is_some_and(due)
    }

    /// The same for timing cores.
    pub(crate) fn watches_cores(&self) -> bool {
        let timeline = self.timeline.as_ref();
        // Time may leap.
        self.is_active(Cycle(u64::MAX / 2))
            || self.checker.is_some()
            || timeline.is_some_and(|it| !it.has_failed())
    }

    /// Whether it need not hear of instructions that cores repeat: it watches nothing but calls of lock functions.
    pub(crate) fn lets_skip(&self) -> bool {
        !self.watches_all()
            && self.arrivals.are_none()
            && self.breakpoints.is_empty()
            && self.trace.is_none()
            && self.checker.is_none()
            && self.pipeline.is_none()
            && self.timeline.is_none()
    }

    /// The first cycle in which ways through pipelines are of interest.
    pub(crate) fn pipeline_from(&self) -> Cycle {
        let pipeline = self.pipeline.as_ref();
        pipeline.map_or(Cycle::NEVER, Pipeline::not_before)
    }

    fn watches_all(&self) -> bool {
        self.stepping.is_some() || !self.watchpoints.is_empty() || self.profiler.is_some()
    }

    pub(crate) fn add_breakpoint(&mut self, addr: u64) {
        self.breakpoints.push(addr);
    }

    /// Returns whether there was one.
    pub(crate) fn remove_breakpoint(&mut self, addr: u64) -> bool {
        remove(&mut self.breakpoints, &addr)
    }

    pub(crate) fn add_watchpoint(&mut self, watchpoint: Watchpoint) {
        self.watchpoints.push(watchpoint);
    }

    /// Returns whether there was one.
    pub(crate) fn remove_watchpoint(&mut self, watchpoint: &Watchpoint) -> bool {
        remove(&mut self.watchpoints, watchpoint)
    }

    /// Holds once `hart` has executed an instruction; none: no longer.
    pub(crate) fn step(&mut self, hart: Option<HartId>) {
        self.stepping = hart;
    }

    /// Which hart was held and why, since last asked.
    pub(crate) fn take_held(&mut self) -> Option<(HartId, Reason)> {
        self.held.take()
    }

    /// Forgets breakpoints and all else that a debugger has asked for.
    pub(crate) fn release(&mut self) {
        *self = Self {
            trace: self.trace.take(),
            profiler: self.profiler.take(),
            pipeline: self.pipeline.take(),
            timeline: self.timeline.take(),
            checker: self.checker.take(),
            lock_stats: self.lock_stats.take(),
            arrivals: std::mem::take(&mut self.arrivals),
            is_timed: self.is_timed,
            ..Self::default()
        };
    }

    /// Timed cores take `harts` over, or have left off at `now`.
    pub(crate) fn timing_changes<'a>(
        &mut self,
        is_timed: bool,
        now: Cycle,
        harts: impl IntoIterator<Item = &'a Hart>,
    ) {
        self.is_timed = is_timed;
        if let (false, Some(profiler)) = (is_timed, &mut self.profiler) {
            profiler.timing_ends(now);
        }
        if let Some(lock_stats) = &mut self.lock_stats {
            lock_stats.timing_changes(is_timed);
            // Engines tell where harts come to, not where they stand at first.
            for hart in harts {
                lock_stats.comes_to(hart, hart.pc, now.0);
            }
        }
    }

    /// Timed cores begin to warm for a sample, or have left off: of that time nothing is counted.
    pub(crate) fn warming_changes(&mut self, warms: bool) {
        if let Some(lock_stats) = &mut self.lock_stats {
            lock_stats.timing_changes(self.is_timed && !warms);
        }
    }

    /// The first reason counts.
    fn hold(&mut self, hart: HartId, reason: Reason) {
        self.held.get_or_insert((hart, reason));
    }

    #[cold]
    fn watch(&mut self, event: &Retired<'_>) {
        let inst = event.inst;
        let (Some(width), class) = (access_width(inst.op), inst.op.class()) else {
            return;
        };
        let addr = event.base.wrapping_add(inst.data_offset());
        let used = self.watchpoints.iter().find(|watchpoint| {
            let apart = addr.wrapping_sub(watchpoint.addr) >= watchpoint.bytes
                && watchpoint.addr.wrapping_sub(addr) >= width.bytes();
            let concerned = match watchpoint.kind {
                WatchKind::Write => class != Class::Load,
                WatchKind::Read => class != Class::Store,
                WatchKind::ReadWrite => true,
            };
            !apart && concerned
        });
        if let Some(&used) = used {
            self.hold(event.hart.id, Reason::Watch(used));
        }
    }
}

fn remove<T: PartialEq>(all: &mut Vec<T>, one: &T) -> bool {
    match all.iter().position(|each| each == one) {
        Some(at) => {
            all.swap_remove(at);
            true
        }
        None => false,
    }
}

impl InstructionObserver for Inspector {
    fn enters_page(&mut self, hart: &Hart, pc: u64) -> bool {
        let page = |addr: u64| addr / PAGE_BYTES;
        let breakpoints = &self.breakpoints;
        self.watches_all()
            || self.arrivals.may_be_in_page(hart, pc)
            || (self.lock_stats.as_ref()).is_some_and(|it| it.wants(hart.number(), pc))
            || breakpoints.iter().any(|&addr| page(addr) == page(pc))
            || self
                .trace
                .as_ref()
                .is_some_and(|trace| trace.wants(Some(pc), self.is_timed))
    }

    fn holds_at(&mut self, hart: &Hart, pc: u64, cycle: u64) -> bool {
        if self.breakpoints.contains(&pc) {
            self.hold(hart.id, Reason::Breakpoint);
        }
        self.arrivals.holds_at(hart, pc);
        if let Some(lock_stats) = &mut self.lock_stats {
            lock_stats.comes_to(hart, pc, cycle);
        }
        self.holds()
    }

    fn retired(&mut self, event: &Retired<'_>) {
        if let Some(checker) = &mut self.checker {
            checker.retired(event);
        }
        self.arrivals.retired(event);
        if let Some(profiler) = &mut self.profiler {
            profiler.retired(event, self.is_timed);
        }
        if let Some(lock_stats) = &mut self.lock_stats {
            lock_stats.retired(event);
        }
        if let Some(trace) = &mut self.trace {
            trace.retired(event, self.is_timed);
        }
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.retired(event);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.retired(event);
        }
        if !self.watchpoints.is_empty() {
            self.watch(event);
        }
        if self.stepping == Some(event.hart.id) {
            self.hold(event.hart.id, Reason::Step);
        }
    }

    fn trapped(&mut self, event: &Trapped<'_>) {
        if let Some(checker) = &mut self.checker {
            checker.trapped(event);
        }
        self.arrivals.moved(event.hart.id);
        if let Some(profiler) = &mut self.profiler {
            profiler.trapped(event);
        }
        if let Some(trace) = &mut self.trace {
            trace.trapped(event, self.is_timed);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.trapped(event);
        }
        if self.stepping == Some(event.hart.id) {
            self.hold(event.hart.id, Reason::Step);
        }
    }

    fn performed(&mut self, event: &Performed) {
        if let Some(checker) = &mut self.checker {
            checker.performed(event);
        }
    }

    fn holds(&self) -> bool {
        self.held.is_some()
            || self.arrivals.is_any_reached()
            || self.checker.as_ref().is_some_and(Checker::has_diverged)
    }
}

impl Watcher for Inspector {
    fn probe(&mut self, moment: Moment, probe: &Probe) {
        self.arrivals.probe(probe);
        if let Some(lock_stats) = &mut self.lock_stats {
            lock_stats.probe(&moment, probe);
        }
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.probe(probe);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.probe(moment, probe);
        }
    }

    fn visit_state(&self, hart: HartId, visitor: &mut impl StateVisitor) {
        if let Some(lock_stats) = &self.lock_stats {
            visitor.value(lock_stats.heard(hart));
        }
    }

    fn pipeline(&mut self, now: Cycle, cycle: Cycle, id: InstructionId, step: PipelineStep<'_>) {
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.step(now, cycle, id, step);
        }
    }
}
