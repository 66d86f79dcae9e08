//! Running on the timing model: the loop over cycles, and the watchdog.

use loiter_cores::{Cores, InstructionId, PipelineObserver, PipelineStep, Ran, Shared, Skipping};
use loiter_hart::{Hart, InstructionObserver, Nap, Performed, Retired, Trapped, Unobserved};
use loiter_memory::{Memory, Told};
use loiter_observe::{Moment, Probe, ProbeObserver, Recorders};
use loiter_types::{ContextId, Cycle, HartId, StateVisitor};
use serde::{Deserialize, Serialize};

use crate::debug::{Inspector, Watcher};
use crate::error::Error;
use crate::params::TimingParams;
use crate::phases::Awaited;
use crate::result::{
    CounterDescription, CounterRow, Exit, SeatRow, TimedRows, account_rows, counter_rows,
    histogram_rows,
};
use crate::system::System;

/// Simulated steps between two looks at the host's clock.
const STEPS_PER_LOOK: u32 = 1 << 6;

/// Skipped cores that are caught up between two such looks.
const CATCHES_PER_LOOK: u64 = 1 << 9;

/// Cycles of cores and memory within one of those: few, so that a look comes within tens of milliseconds even when memory
/// never has anything to say.
const CORE_STEPS: u32 = 1 << 9;

/// The timing model of a system. In a snapshot of a host it is kept with all that is in flight.
#[derive(Deserialize, Serialize)]
pub(crate) struct Timing {
    pub(crate) cores: Cores,
    pub(crate) memory: Memory,
    /// Instructions that can retire in a cycle, and a few more. It follows from the machine.
    #[serde(skip)]
    most_retired: u64,
    /// The context of each hart, while harts sit in the cores or would.
    pub(crate) places: Vec<ContextId>,
    /// Which hart sat where when.
    pub(crate) seats: Vec<SeatRow>,
    /// Harts that are about to leave their contexts while others stay.
    pub(crate) leaving: Vec<HartId>,
    /// While harts sit in the cores, since when.
    pub(crate) attached: Option<Cycle>,
    /// When the last phase of the cores ended.
    pub(crate) left: Cycle,
    /// The first cycle that the cores have not been through.
    pub(crate) through: Cycle,
    /// Cycles of earlier phases of the cores.
    pub(crate) earlier_cycles: u64,
    /// Kept for its room.
    told: Vec<Told>,
}

/// The recorder of probes, what ends the phase, and who watches instructions, and with `PIPELINE`
/// their way through pipelines.
struct Observers<'a, W, const PIPELINE: bool> {
    recorders: &'a mut Recorders,
    awaited: &'a mut Awaited,
    watcher: &'a mut W,
}

impl<W: Watcher, const PIPELINE: bool> ProbeObserver for Observers<'_, W, PIPELINE> {
    fn probe(&mut self, moment: Moment, probe: Probe) -> bool {
        self.watcher.probe(moment, &probe);
        let stops = self.awaited.probe(&probe);
        self.recorders.probe(moment, probe);
        stops
    }

    fn visit_state(&mut self, hart: HartId, visitor: &mut impl StateVisitor) {
        self.recorders.visit_state(hart, visitor);
        self.watcher.visit_state(hart, visitor);
    }
}

impl<W: Watcher, const PIPELINE: bool> PipelineObserver for Observers<'_, W, PIPELINE> {
    const PIPELINE: bool = PIPELINE;

    fn pipeline(&mut self, now: Cycle, cycle: Cycle, id: InstructionId, step: PipelineStep<'_>) {
        self.watcher.pipeline(now, cycle, id, step);
    }
}

impl<W: Watcher, const PIPELINE: bool> InstructionObserver for Observers<'_, W, PIPELINE> {
    const ACTIVE: bool = W::ACTIVE;

    fn enters_page(&mut self, hart: &Hart, pc: u64) -> bool {
        self.watcher.enters_page(hart, pc)
    }

    fn holds_at(&mut self, hart: &Hart, pc: u64, cycle: u64) -> bool {
        self.watcher.holds_at(hart, pc, cycle)
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
    /// Builds the model, without harts. `None` for a machine without timing.
    pub(crate) fn new(
        name: &str,
        params: Option<TimingParams>,
        now: Cycle,
    ) -> Result<Option<Self>, Error> {
        let Some(params) = params else {
            return Ok(None);
        };
        let built = Memory::new(&params.memory).and_then(|memory| {
            let cores = Cores::new(&params.cores, &memory, now)?;
            Ok((cores, memory))
        });
        let (cores, memory) = built.map_err(|(section, problem)| {
            Error::User(format!("{name}: section {section}: {problem}"))
        })?;
        Ok(Some(Self {
            most_retired: cores.most_retired_in_a_cycle(),
            cores,
            memory,
            places: Vec::new(),
            seats: Vec::new(),
            leaving: Vec::new(),
            attached: None,
            left: now,
            through: now,
            earlier_cycles: 0,
            told: Vec::new(),
        }))
    }

    /// Makes this model, which has not run, what `saved` is: of the same machine, with all that is in flight.
    ///
    /// # Errors
    /// Cores of another machine.
    pub(crate) fn restore(&mut self, saved: Self) -> Result<(), String> {
        let Self {
            cores,
            memory,
            most_retired: _,
            places,
            seats,
            leaving,
            attached,
            left,
            through,
            earlier_cycles,
            told,
        } = saved;
        self.cores.restore(cores)?;
        (self.memory, self.told) = (memory, told);
        (self.places, self.seats, self.leaving) = (places, seats, leaving);
        (self.attached, self.left, self.through) = (attached, left, through);
        self.earlier_cycles = earlier_cycles;
        Ok(())
    }

    /// Whether harts sit in the cores.
    pub(crate) fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    /// The reference engine has run an instruction: it leaves its traces.
    pub(crate) fn warm(&mut self, event: &Retired<'_>) {
        let context = self.place(event.hart.id);
        self.cores.warm(context, event, &mut self.memory);
    }

    /// Cycles in which harts sat in the cores, up to `now`.
    pub(crate) fn cycles(&self, now: Cycle) -> u64 {
        self.earlier_cycles + self.attached.map_or(0, |since| now.since(since))
    }

    /// The cycle up to which everything is to be counted in a system that stands at `now`: between two
    /// steps, cores may have been through that cycle already.
    pub(crate) fn counted_to(&self, now: Cycle) -> Cycle {
        if self.is_attached() {
            now.max(self.through)
        } else {
            self.left
        }
    }

    /// What has been found out up to `now`. Changes nothing that is found out later.
    pub(crate) fn close(&mut self, now: Cycle) -> TimedRows {
        let until = self.counted_to(now);
        let cycles = self.cycles(until);
        let (accounts, activities) = account_rows(&mut self.cores, cycles, until, &self.seats);
        TimedRows {
            counters: counter_rows(&self.cores, &self.memory, until),
            accounts,
            activities,
            histograms: histogram_rows(&self.cores),
            seats: self.seats_until(until),
            samples: Vec::new(),
        }
    }

    /// Every counter that there is.
    pub(crate) fn describe_counters(&self) -> Vec<CounterDescription> {
        let describe = |row: CounterRow| CounterDescription {
            component: row.component,
            name: row.name,
            unit: row.unit,
            description: row.description,
        };
        let rows = counter_rows(&self.cores, &self.memory, self.through);
        rows.into_iter().map(describe).collect()
    }

    /// Many cycles. Within one, the order is: memory (accesses perform, in the order in which they
    /// were sent), wake-ups that follow from them, interrupts, then the cores. So what memory
    /// delivers in a cycle can be used in that cycle.
    ///
    /// With `sleep` they end when all harts sleep, else when no timer is set either.
    pub(crate) fn steps(&mut self, system: &mut System, sleep: bool) -> Result<Steps, Error> {
        system.with_watcher(|system, inspector| match inspector {
            Some(inspector) => self.steps_inspected(system, inspector, sleep),
            None => {
                let skips = system.skipping;
                self.steps_observed::<_, false>(
                    system,
                    &mut Unobserved,
                    (sleep, skips),
                    Cycle::NEVER,
                )
            }
        })
    }

    fn steps_inspected(
        &mut self,
        system: &mut System,
        inspector: &mut Inspector,
        sleep: bool,
    ) -> Result<Steps, Error> {
        if let Some(timeline) = &mut inspector.timeline {
            timeline.follow(&mut self.cores, system.now);
        }
        // Before a log begins, cores run as if there was none.
        let from = inspector.pipeline_from();
        let next = self.next(system.next_timer().unwrap_or(Cycle::NEVER));
        let steps = if next >= from {
            self.steps_observed::<_, true>(
                system,
                inspector,
                (sleep, Skipping::Nothing),
                Cycle::NEVER,
            )
        } else if inspector.watches_cores() {
            let skips = match inspector.lets_skip() {
                true => system.skipping,
                false => Skipping::Nothing,
            };
            self.steps_observed::<_, false>(system, inspector, (sleep, skips), from)
        } else {
            self.steps_observed::<_, false>(
                system,
                &mut Unobserved,
                (sleep, Skipping::Nothing),
                from,
            )
        };
        if let Some(timeline) = &mut inspector.timeline {
            timeline.take_changes(&mut self.cores);
        }
        steps
    }

    /// Many cycles of virtual CPUs, all of them before `until`; or up to the end of one in which their host has something to do.
    /// Returns the first cycle that has not been gone through.
    ///
    /// # Errors
    /// A trap that nobody handles.
    pub(crate) fn steps_until(
        &mut self,
        system: &mut System,
        until: Cycle,
    ) -> Result<Cycle, Error> {
        let steps = if system.guest_inspectors.watch_cores() {
            let mut watchers = std::mem::take(&mut system.guest_inspectors);
            let skips = (false, Skipping::Nothing);
            let steps = self.steps_observed::<_, false>(system, &mut watchers, skips, until);
            system.guest_inspectors = watchers;
            steps?
        } else {
            let skips = (false, system.skipping);
            self.steps_observed::<_, false>(system, &mut Unobserved, skips, until)?
        };
        let timer = system.next_timer().unwrap_or(Cycle::NEVER);
        if matches!(steps, Steps::Asleep) || self.next(timer) >= until {
            // Nothing happens before.
            system.now = until;
            self.through = until;
        }
        Ok(self.counted_to(system.now))
    }

    /// The first cycle in which anything happens, if `timer` is when a timer is due.
    fn next(&mut self, timer: Cycle) -> Cycle {
        self.cores.next_due().min(self.memory.next()).min(timer)
    }

    /// Many cycles, all of them before `until`. With `skips`, cores that repeat themselves are skipped.
    fn steps_observed<W: Watcher, const PIPELINE: bool>(
        &mut self,
        system: &mut System,
        watcher: &mut W,
        (sleep, skips): (bool, Skipping),
        until: Cycle,
    ) -> Result<Steps, Error> {
        let mut now = system.now;
        let mut timer = system.next_timer().unwrap_or(Cycle::NEVER);
        let max_cycles = Cycle(system.max_cycles);
        let phase_ends = system.awaited.cycle();
        let last = max_cycles.min(phase_ends);
        let limit = last.min(until);
        let retire_up_to = system.awaited.instructions();
        let listens = system.awaited.listens();
        let retired = system.instructions();
        let mut observers = Observers::<W, PIPELINE> {
            recorders: &mut system.recorders,
            awaited: &mut system.awaited,
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
            retired,
            stop: false,
            device_accessed: false,
            told: &mut self.told,
            told_at: Cycle(0),
            delivered: false,
            memory_goes_on: false,
            heard: false,
        };
        let exact_until = match retire_up_to {
            // Before that, no more instructions can retire than are left.
            Some(count) => now.after(count.saturating_sub(retired) / self.most_retired),
            None => Cycle::NEVER,
        };
        self.cores.may_skip(skips, exact_until, shared.memory);
        // The first cycle that some core has not been through.
        let mut through = now;
        // What came in from outside meanwhile, or was accessed last.
        self.cores.wake_watchers(now, &mut shared);
        if shared.machine.interrupts_changed() {
            self.cores.interrupts_changed(now, &mut shared);
        }
        let mut end = None;
        let mut held = false;
        let leaves = !self.leaving.is_empty();
        let waits = |hart: &HartId| !self.cores.has_left(*hart);
        let awaited: Vec<_> = self.leaving.iter().copied().filter(waits).collect();
        let catches = self.cores.catches();
        // Whether memory has delivered what there is in the present cycle.
        let mut delivered = false;
        let mut steps_left = STEPS_PER_LOOK;
        while steps_left > 0 || delivered {
            steps_left = steps_left.saturating_sub(1);
            if !std::mem::take(&mut delivered) {
                if self.cores.catches() - catches > CATCHES_PER_LOOK {
                    break;
                }
                if awaited.iter().any(|&hart| self.cores.has_left(hart)) {
                    break;
                }
                // A store that a core performed by itself is heard of in the next cycle.
                self.cores.wake_watchers(now.after(1), &mut shared);
                let busy = self.cores.next_due().min(shared.memory.next());
                if sleep && busy == Cycle::NEVER && now < timer {
                    debug_assert!(!self.cores.skip(), "a skipped core is due at some time");
                    system.now = now;
                    return Ok(Steps::Asleep);
                }
                let next = busy.min(timer);
                if next >= until && next < last {
                    through = through.max(until);
                    break;
                }
                if next >= last || next == Cycle::NEVER {
                    through = through.max(last.min(next));
                    end = Some(next);
                    break;
                }
                now = next.max(now);
                through = now;
                if self.cores.skip() && now >= exact_until {
                    self.cores.catch_all_up(now, &mut shared);
                }
                if shared.memory.next() <= now {
                    while let Some(core) = shared.memory.advance(now, shared.told) {
                        self.cores.named_ahead(core, now, &mut shared);
                    }
                    self.cores.hear_all(now, &mut shared);
                }
            }
            if shared.machine.ends() {
                end = Some(now);
                break;
            }
            let mut stops = false;
            if timer <= now || shared.device_accessed {
                stops = listens && shared.device_accessed;
                shared.device_accessed = false;
                shared.machine.set_time(now.0 / shared.cycles_per_tick);
                timer = next_timer(shared.machine.next_timer_ticks(), shared.cycles_per_tick);
                if shared.machine.interrupts_changed() {
                    self.cores.interrupts_changed(now, &mut shared);
                }
            }
            if W::ACTIVE && shared.observer.holds() {
                held = true;
                break;
            }
            let mut steps = if leaves { 1 } else { CORE_STEPS };
            if let Some(count) = retire_up_to {
                let left = count.saturating_sub(shared.retired);
                stops |= left == 0;
                steps = (left / self.most_retired).clamp(1, steps.into()) as u32;
            }
            if stops {
                break;
            }
            // While timers have nothing to say, only cores and memory are asked.
            let ends = timer.min(limit).min(exact_until.max(now.after(1)));
            match self.cores.run(now, ends, steps, &mut shared) {
                Ran::Through(last) => {
                    now = last;
                    through = now.after(1);
                    self.through = through;
                }
                Ran::Delivered(at) => {
                    (now, through, self.through) = (at, at, at);
                    delivered = true;
                    continue;
                }
            }
            if shared.unhandled.is_some() || shared.machine.ends() {
                end = Some(now);
                break;
            }
            if shared.stop {
                break;
            }
        }
        self.cores.catch_all_up(through, &mut shared);
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
        if system.machine.ends() {
            // That of a guest is its host's affair.
            return Ok(system.ended().map_or(Steps::Executed, Steps::Ended));
        }
        if end == Cycle::NEVER {
            return Ok(Steps::Asleep);
        }
        system.now = last;
        Ok(match phase_ends < max_cycles {
            true => Steps::Executed,
            false => Steps::Ended(system.limit_reached()),
        })
    }

    /// Simulates the cycles in which harts come to stand between two instructions, with empty store
    /// buffers. Returns the end of the run if that comes meanwhile. Interrupts that come meanwhile wait.
    pub(crate) fn drain<W: Watcher, const PIPELINE: bool>(
        &mut self,
        system: &mut System,
        watcher: &mut W,
    ) -> Result<Option<Exit>, Error> {
        let retired = system.instructions();
        let mut observers = Observers::<W, PIPELINE> {
            recorders: &mut system.recorders,
            awaited: &mut system.awaited,
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
            retired,
            stop: false,
            device_accessed: false,
            told: &mut self.told,
            told_at: Cycle(0),
            delivered: false,
            memory_goes_on: false,
            heard: false,
        };
        // The cores have been through the present cycle, unless they are due in it.
        let mut now = system.now;
        let mut next = self.cores.next_due().min(shared.memory.next());
        next = next.min(now.after(1));
        while next != Cycle::NEVER {
            now = next.max(now);
            if shared.memory.next() <= now {
                let named = shared.memory.advance(now, shared.told);
                debug_assert!(named.is_none(), "no core is skipped");
                self.cores.hear_told(now, &mut shared);
            }
            next = self.cores.drain(now, &mut shared);
            self.cores.wake_watchers(now, &mut shared);
            if shared.unhandled.is_some() || shared.machine.ends() {
                break;
            }
            next = next.min(shared.memory.next());
        }
        let unhandled = shared.unhandled;
        system.now = now.after(1);
        if let Some((hart, unhandled)) = unhandled {
            return Err(system.unhandled(hart, unhandled));
        }
        Ok(system.ended())
    }

    /// The cores.
    pub(crate) fn cores(&mut self) -> &mut Cores {
        &mut self.cores
    }

    /// How `hart` sleeps in its context, and since when, if it does.
    pub(crate) fn nap(&self, hart: HartId) -> Option<(Nap, Cycle)> {
        self.cores.nap(hart)
    }

    /// What every seated hart waits for.
    pub(crate) fn who_waits(&self, system: &System) -> Vec<String> {
        let describe = |(context, hart, what): (ContextId, HartId, String)| {
            let pc = system.harts[hart.index()].pc;
            format!(
                "{context} ({hart}) at {pc:#x}{} {what}",
                system.symbol(hart, pc)
            )
        };
        self.cores.who_waits().into_iter().map(describe).collect()
    }
}

/// The cycle in which the earliest timer is due.
fn next_timer(ticks: Option<u64>, cycles_per_tick: u64) -> Cycle {
    ticks.map_or(Cycle::NEVER, |ticks| {
        Cycle(ticks.saturating_mul(cycles_per_tick))
    })
}
