//! A chip of fine-grained multithreaded cores: who sits where, which cores are awake, and what is read from outside.

use loiter_hart::{Hart, HartState, Nap};
use loiter_machine::Machine;
use loiter_memory::{Memory, TlbCounters, WalkerCounters};
use loiter_observe::{Accounts, Change, Course, Doing};
use loiter_types::{ContextId, CoreId, Cycle, HartId};

use super::context::{NO_LINE, Waits};
use super::core::Core;
use super::counters::CoreCounters;
use super::params::FgmtParams;
use super::units::ChipFpu;
use crate::seats::Seats;
use crate::shared::mode;
use crate::{Observer, Shared, WaitCounters};

/// The cores of a chip, and the unit they share.
#[derive(Debug)]
pub struct Chip {
    pub(super) cores: Vec<Core>,
    /// For every core, the cycle before which none of its contexts can issue.
    pub(super) next: Vec<Cycle>,
    /// The cores for which that is known, in order.
    pub(super) awake: Vec<usize>,
    pub(super) fpu: ChipFpu,
    pub(super) seats: Seats,
}

impl Chip {
    /// A chip of `cores` cores with vacant contexts before `memory`, at cycle `now`.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub fn new(
        params: &FgmtParams,
        cores: usize,
        memory: &Memory,
        now: Cycle,
    ) -> Result<Self, (&'static str, String)> {
        params.check()?;
        Ok(Self {
            cores: (0..cores)
                .map(|id| Core::new(id, params, memory, now))
                .collect(),
            next: vec![Cycle::NEVER; cores],
            awake: Vec::with_capacity(cores),
            fpu: ChipFpu::new(&params.fpu),
            seats: Seats::default(),
        })
    }

    /// Seats `hart` of `machine` in a vacant context, where it continues, or sleeps on, from `now`.
    /// With `spinning` it waits for a lock.
    pub fn attach(
        &mut self,
        hart: &mut Hart,
        machine: &Machine,
        context: ContextId,
        spinning: bool,
        now: Cycle,
    ) {
        let per_core = self.cores[0].contexts.len();
        let (core_index, seat) = self.seats.take(hart.id, context, per_core);
        let core = &mut self.cores[core_index];
        let context = &mut core.contexts[seat];
        debug_assert!(context.hart.is_none(), "{} is taken", context.id);
        context.settle(now);
        context.course = Course::seated(mode(hart), spinning);
        context.hart = Some(hart.id);
        context.hart_index = hart.id.index();
        context.fetch_line = NO_LINE;
        context.refetch();
        context.check_interrupts = true;
        hart.csr.set_lines(machine.interrupt_lines(hart.id));
        match std::mem::replace(&mut hart.state, HartState::Running) {
            // What wakes it may have happened before it came here.
            HartState::Napping(nap) if !hart.nap_is_over(nap, &machine.watches) => {
                let wait = &core.state.params.wait;
                context.sleep(now, wait.sleep_on(nap, now, hart), wait, hart);
            }
            _ => {
                context.reconsider(now, hart, Doing::Executing);
                context.unblock(now);
            }
        }
        self.rescheduled(core_index, seat);
    }

    /// The first cycle in which a context may issue.
    #[must_use]
    pub fn next(&self) -> Cycle {
        let known = self.awake.iter().map(|&core| self.next[core]);
        known.min().unwrap_or(Cycle::NEVER)
    }

    /// Notes when context `c` of a core is due, after something from outside the core has changed it.
    pub(super) fn rescheduled(&mut self, core: usize, c: usize) {
        let there = &mut self.cores[core];
        there.reschedule(c);
        let due = there.context_due(c).min(there.state.due);
        if due < self.next[core] {
            self.next[core] = due;
            if let Err(index) = self.awake.binary_search(&core) {
                self.awake.insert(index, core);
            }
        }
    }

    /// Cycle after cycle from `now` on, as long as only the cores have something to do: memory has not
    /// before their next cycle, it lies before `until`, and no timer has changed. At most `most`
    /// cycles. Returns the last.
    pub fn run<O: Observer>(
        &mut self,
        mut now: Cycle,
        until: Cycle,
        most: u32,
        shared: &mut Shared<'_, O>,
    ) -> Cycle {
        if let [core] = self.awake[..] {
            return self.run_one(core, now, until, most, shared);
        }
        for _ in 0..most {
            let next = self.tick(now, shared);
            if next >= until || next >= shared.memory.next() || shared.stops() {
                break;
            }
            now = next;
        }
        now
    }

    /// As [`Chip::run`], where only `core` has something to do.
    fn run_one<O: Observer>(
        &mut self,
        core: usize,
        now: Cycle,
        until: Cycle,
        most: u32,
        shared: &mut Shared<'_, O>,
    ) -> Cycle {
        let first = self.next[core].max(now);
        if first > now && (first >= until || first >= shared.memory.next()) {
            return now;
        }
        let (now, next) = self.cores[core].run(first, until, most, &mut self.fpu, shared);
        self.next[core] = next;
        if next == Cycle::NEVER {
            self.awake.clear();
        }
        now
    }

    /// One cycle of every core that has something to do. Returns the first cycle in which a context
    /// may issue again.
    fn tick<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> Cycle {
        debug_assert!(
            (0..self.cores.len())
                .all(|core| self.next[core] <= now || self.cores[core].is_idle(now)),
            "a core was passed over although it has work"
        );
        let mut next = Cycle::NEVER;
        let mut index = 0;
        while let Some(&core) = self.awake.get(index) {
            let mut at = self.next[core];
            if at <= now {
                (_, at) = self.cores[core].run(now, now, 1, &mut self.fpu, shared);
                self.next[core] = at;
            }
            if at == Cycle::NEVER {
                self.awake.remove(index);
                continue;
            }
            next = next.min(at);
            index += 1;
        }
        next
    }

    /// Charges every context up to `now`.
    pub fn close(&mut self, now: Cycle) {
        for context in self.cores.iter_mut().flat_map(|core| &mut core.contexts) {
            context.accounts = context.accounts_at(now);
        }
    }

    /// The accounts of all contexts as they would be if they were closed at `now`.
    pub fn accounts(&mut self, now: Cycle) -> Vec<Accounts> {
        let contexts = self.cores.iter().flat_map(|core| &core.contexts);
        contexts.map(|context| context.accounts_at(now)).collect()
    }

    /// Every context, with its core and the hart that sits there.
    pub fn seats(&self) -> impl Iterator<Item = (CoreId, ContextId, Option<HartId>)> + '_ {
        self.cores.iter().flat_map(|core| {
            let contexts = core.contexts.iter();
            contexts.map(|context| (core.state.id, context.id, context.hart))
        })
    }

    /// Keeps changes of activity of every context from now on.
    pub fn follow_activities(&mut self) {
        for context in self.cores.iter_mut().flat_map(|core| &mut core.contexts) {
            context.accounts.follow();
        }
    }

    /// The changes of each context since they were last taken.
    pub fn take_changes(&mut self) -> impl Iterator<Item = (ContextId, Vec<Change>)> + '_ {
        let contexts = self.cores.iter_mut().flat_map(|core| &mut core.contexts);
        contexts.map(|context| (context.id, context.accounts.take_changes()))
    }

    /// Counters by core.
    pub fn counters(&self) -> impl Iterator<Item = (CoreId, &CoreCounters)> {
        self.cores
            .iter()
            .map(|core| (core.state.id, &core.state.counters))
    }

    /// Counters of naps by core.
    pub fn wait_counters(&self) -> impl Iterator<Item = (CoreId, &WaitCounters)> {
        let states = self.cores.iter().map(|core| &core.state);
        states.map(|state| (state.id, &state.naps))
    }

    /// Counters of the instruction and data buffers of translations, and of what walks page tables, by
    /// core.
    pub fn translation_counters(
        &self,
    ) -> impl Iterator<Item = (CoreId, &TlbCounters, &TlbCounters, &WalkerCounters)> {
        self.cores.iter().map(|core| {
            let state = &core.state;
            let (itlb, dtlb) = (&state.itlb.counters, &state.dtlb.counters);
            (state.id, itlb, dtlb, &state.walker.counters)
        })
    }

    /// How `hart` sleeps, if it does.
    #[must_use]
    pub fn nap(&self, hart: HartId) -> Option<Nap> {
        let (core_index, c) = self.seats.of(hart);
        match self.cores[core_index].contexts[c].waits {
            Waits::Wake(sleep) => Some(sleep.nap),
            _ => None,
        }
    }

    /// What every seated context waits for, for the watchdog's message.
    #[must_use]
    pub fn who_waits(&self) -> Vec<(ContextId, HartId, String)> {
        let mut all = Vec::new();
        for context in self.cores.iter().flat_map(|core| &core.contexts) {
            let Some(hart) = context.hart else { continue };
            let what = match context.waits {
                Waits::Wake(sleep) => sleep.nap.words().to_owned(),
                other => format!("{other:?}, ready at {}", context.ready_at),
            };
            all.push((context.id, hart, what));
        }
        all
    }
}
