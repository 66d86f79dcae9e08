//! Running on the timing model: the loop over cycles, and the watchdog.

use loiter_cores::{Chip, Shared, fgmt, smt};
use loiter_hart::{Hart, InstructionObserver, Performed, Retired, Trapped, Unobserved};
use loiter_memory::{MemorySystem, Response};
use loiter_observe::{Moment, Observer, Probe, Recorder};
use loiter_types::{ContextId, Cycle, HartId};

use crate::error::Error;
use crate::params::CoreKind;
use crate::result::{Exit, TimedRows, account_rows, counter_rows, histogram_rows};
use crate::run::Report;
use crate::system::System;

/// Simulated steps between two looks at the host's clock.
const STEPS_PER_LOOK: u32 = 1 << 12;

/// Steps of the cores alone within one of those: few, so that a look comes within tens of milliseconds
/// even when memory never has anything to say.
const CORE_STEPS: u32 = 1 << 5;

/// The timing model of a system.
pub(crate) struct Timing {
    chip: Chip,
    memory: MemorySystem,
    opened: Cycle,
    /// Kept for its room.
    performed: Vec<Response>,
}

/// The recorder of probes, and who watches instructions.
struct Observers<'a, W> {
    recorder: &'a mut Recorder,
    watcher: &'a mut W,
}

impl<W> Observer for Observers<'_, W> {
    fn probe(&mut self, moment: Moment, probe: Probe) {
        self.recorder.probe(moment, probe);
    }
}

impl<W: InstructionObserver> InstructionObserver for Observers<'_, W> {
    const ACTIVE: bool = W::ACTIVE;

    fn enters_page(&mut self, hart: &Hart, pc: u64) -> bool {
        self.watcher.enters_page(hart, pc)
    }

    fn holds_at(&mut self, hart: &Hart, pc: u64) -> bool {
        self.watcher.holds_at(hart, pc)
    }

    fn retired(&mut self, event: &Retired<'_>) {
        self.watcher.retired(event);
    }

    fn trapped(&mut self, event: &Trapped<'_>) {
        self.watcher.trapped(event);
    }

    fn performed(&mut self, event: &Performed) {
        self.watcher.performed(event);
    }

    fn holds(&self) -> bool {
        self.watcher.holds()
    }
}

/// What came of many cycles.
pub(crate) enum Steps {
    /// There is more to do.
    Executed,
    /// Nothing can ever happen again, unless from outside.
    Asleep,
    /// The run is over.
    Ended(Exit),
    /// A debugger holds the system.
    Held,
}

impl Timing {
    /// Builds the model and seats every hart in the context of its number, at the present cycle. `None`
    /// for a machine without timing.
    pub(crate) fn new(
        name: &str,
        core: CoreKind,
        system: &mut System,
    ) -> Result<Option<Self>, Error> {
        let now = system.now;
        let built = match core {
            CoreKind::Reference => return Ok(None),
            CoreKind::Fgmt(params, memory) => {
                let (cores, line) = (memory.cores, memory.l2.line_bytes);
                MemorySystem::new(*memory).and_then(|memory| {
                    let fetch_line = memory.fetch_line_log2();
                    let chip = fgmt::Chip::new(&params, cores, line, fetch_line, now)?;
                    Ok((Chip::Fgmt(chip), memory))
                })
            }
            CoreKind::Smt(params, memory) => {
                let (cores, line) = (memory.cores, memory.l2.line_bytes);
                MemorySystem::new(*memory).and_then(|memory| {
                    let fetch_line = memory.fetch_line_log2();
                    let chip = smt::Chip::new(&params, cores, line, fetch_line, now)?;
                    Ok((Chip::Smt(chip), memory))
                })
            }
        };
        let (mut chip, memory) = built.map_err(|(section, problem)| {
            Error::User(format!("{name}: section {section}: {problem}"))
        })?;
        for (n, hart) in system.harts.iter_mut().enumerate() {
            chip.attach(hart, &system.machine, ContextId::new(n), now);
        }
        system.begin_check_of_harts();
        Ok(Some(Self {
            chip,
            memory,
            opened: now,
            performed: Vec::new(),
        }))
    }

    /// What has been found out up to `now`.
    pub(crate) fn close(&mut self, now: Cycle) -> TimedRows {
        let (accounts, activities) = account_rows(&mut self.chip, self.opened, now);
        TimedRows {
            counters: counter_rows(&self.chip, &self.memory),
            accounts,
            activities,
            histograms: histogram_rows(&self.chip),
        }
    }

    /// Runs to the end.
    pub(crate) fn run(
        &mut self,
        system: &mut System,
        report: &mut Report<'_>,
    ) -> Result<Exit, Error> {
        loop {
            match self.steps(system, false)? {
                Steps::Executed | Steps::Held => {}
                Steps::Asleep => return Ok(system.watchdog(&self.who_waits(system))),
                Steps::Ended(exit) => return Ok(exit),
            }
            report.tell(system, "timing")?;
        }
    }

    /// Many cycles. Within one, the order is: memory (accesses perform, in the order in which they
    /// were sent), wake-ups that follow from them, interrupts, then the cores. So what memory
    /// delivers in a cycle can be used in that cycle.
    ///
    /// With `sleep` they end when all harts sleep, else when no timer is set either.
    pub(crate) fn steps(&mut self, system: &mut System, sleep: bool) -> Result<Steps, Error> {
        match system.inspector.take() {
            Some(mut inspector) if inspector.is_active_timed() => {
                let steps = self.steps_observed(system, &mut *inspector, sleep);
                system.inspector = Some(inspector);
                system.refuse_divergence()?;
                steps
            }
            inspector => {
                system.inspector = inspector;
                self.steps_observed(system, &mut Unobserved, sleep)
            }
        }
    }

    fn steps_observed<W: InstructionObserver>(
        &mut self,
        system: &mut System,
        watcher: &mut W,
        sleep: bool,
    ) -> Result<Steps, Error> {
        let performed = &mut self.performed;
        let mut now = system.now;
        let mut timer = system.next_timer().unwrap_or(Cycle::NEVER);
        let max_cycles = Cycle(system.max_cycles);
        let mut observers = Observers {
            recorder: &mut system.recorder,
            watcher,
        };
        let mut shared = Shared {
            harts: &mut system.harts,
            machine: &mut system.machine,
            memory: &mut self.memory,
            code: &mut system.code,
            observer: &mut observers,
            cycles_per_tick: system.cycles_per_tick,
            unhandled: None,
            device_accessed: false,
        };
        // What came in from outside meanwhile, or was accessed last.
        wake_watchers(&mut self.chip, now, &mut shared);
        if shared.machine.interrupts_changed() {
            self.chip.interrupts_changed(now, &mut shared);
        }
        let mut end = None;
        let mut held = false;
        for _ in 0..STEPS_PER_LOOK {
            // A store that a core performed by itself is heard of in the next cycle.
            wake_watchers(&mut self.chip, now.after(1), &mut shared);
            let busy = self.chip.next().min(shared.memory.next());
            if sleep && busy == Cycle::NEVER && now < timer {
                system.now = now;
                return Ok(Steps::Asleep);
            }
            let next = busy.min(timer);
            if next >= max_cycles || next == Cycle::NEVER {
                end = Some(next);
                break;
            }
            now = next.max(now);
            if shared.memory.next() <= now {
                shared.memory.advance(now, performed);
                for response in performed.drain(..) {
                    self.chip.respond(response, now, &mut shared);
                }
                if shared.machine.ended().is_some() {
                    end = Some(now);
                    break;
                }
                wake_watchers(&mut self.chip, now, &mut shared);
            }
            if timer <= now || shared.device_accessed {
                shared.device_accessed = false;
                shared.machine.set_time(now.0 / shared.cycles_per_tick);
                timer = next_timer(shared.machine.next_timer_ticks(), shared.cycles_per_tick);
                if shared.machine.interrupts_changed() {
                    self.chip.interrupts_changed(now, &mut shared);
                }
            }
            if W::ACTIVE && shared.observer.holds() {
                held = true;
                break;
            }
            // While memory and timers have nothing to say, only the cores are asked.
            now = self
                .chip
                .run(now, timer.min(max_cycles), CORE_STEPS, &mut shared);
            if shared.unhandled.is_some() || shared.machine.ended().is_some() {
                end = Some(now);
                break;
            }
        }
        let unhandled = shared.unhandled;
        system.now = now;
        let Some(end) = end else {
            // A hold in the last cycle is seen before the next one.
            return Ok(if held { Steps::Held } else { Steps::Executed });
        };
        system.now = now.after(1);
        if let Some((hart, unhandled)) = unhandled {
            return Err(system.unhandled(hart, unhandled));
        }
        if let Some(exit) = system.ended() {
            return Ok(Steps::Ended(exit));
        }
        if end == Cycle::NEVER {
            return Ok(Steps::Asleep);
        }
        system.now = max_cycles;
        Ok(Steps::Ended(system.limit_reached()))
    }

    /// The cores.
    pub(crate) fn chip(&mut self) -> &mut Chip {
        &mut self.chip
    }

    fn who_waits(&self, system: &System) -> Vec<String> {
        let describe = |(context, hart, what): (ContextId, HartId, String)| {
            let pc = system.harts[hart.index()].pc;
            format!(
                "{context} ({hart}) at {pc:#x}{} {what}",
                system.symbol(hart, pc)
            )
        };
        self.chip.who_waits().into_iter().map(describe).collect()
    }
}

/// Harts that sleep until a line is written hear that it was.
#[inline]
fn wake_watchers<O: Observer>(chip: &mut Chip, now: Cycle, shared: &mut Shared<'_, O>) {
    if shared.machine.watches.any_lost() {
        for hart in shared.machine.watches.take_lost() {
            chip.watch_lost(hart, now);
        }
    }
}

/// The cycle in which the earliest timer is due.
fn next_timer(ticks: Option<u64>, cycles_per_tick: u64) -> Cycle {
    ticks.map_or(Cycle::NEVER, |ticks| {
        Cycle(ticks.saturating_mul(cycles_per_tick))
    })
}
