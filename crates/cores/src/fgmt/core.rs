//! A chip of fine-grained multithreaded cores: selection of contexts, cycle by cycle.

use loiter_hart::{Hart, HartState};
use loiter_isa::decode;
use loiter_machine::Machine;
use loiter_memory::{Tlb, TlbCounters, TlbParams, WalkerCounters};
use loiter_observe::{Accounts, Change, Course, Doing, Slot};
use loiter_types::{ContextId, CoreId, Cycle, HartId};

use super::context::{Chance, Context, NO_LINE, Waits};
use super::counters::CoreCounters;
use super::fills::Fills;
use super::params::{CLASSES, FgmtParams, MAX_PIPES};
use super::units::{ChipFpu, CoreUnits};
use crate::seats::Seats;
use crate::shared::mode;
use crate::store_buffer::StoreBuffer;
use crate::walker::{Ended, Walker};
use crate::{Observer, Shared, WaitCounters};

/// What the contexts of a core share.
#[derive(Debug)]
pub(super) struct CoreState {
    pub(super) id: CoreId,
    /// log2 of the bytes of an instruction line.
    pub(super) fetch_line_log2: u32,
    pub(super) units: CoreUnits,
    pub(super) latency: [u64; CLASSES],
    /// For ALU operations, branches and jumps: latency, and what its cycles are charged to; for a
    /// branch the second entry is that of a taken one.
    pub(super) simple: [[(u64, Slot); 2]; CLASSES],
    pub(super) itlb: Tlb,
    pub(super) dtlb: Tlb,
    pub(super) walker: Walker<()>,
    /// Lines that have returned for loads.
    pub(super) fills: Fills,
    /// Kept for its room.
    pub(super) ended_walks: Vec<Ended<()>>,
    pub(super) params: FgmtParams,
    /// `core.stall = "use"`.
    pub(super) stall_on_use: bool,
    /// `core.retract_cycles` is not 0.
    pub(super) retracts: bool,
    /// `core.store_buffer_full_stops = "thread"`.
    pub(super) full_stops_thread: bool,
    pub(super) counters: CoreCounters,
    pub(super) naps: WaitCounters,
}

/// What selection knows of a context. The cycles are copies that [`Core::reschedule`] keeps.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// `ready_at`.
    ready: u64,
    /// `firm_at`.
    firm: u64,
    /// When it was last selected, as far as selection has heard of it.
    recent: u64,
    /// The cycle in which it must let others go first, because it was selected in the one before.
    yields: u64,
}

impl Due {
    /// The order of preference among contexts that may issue, the least first: the one that issued
    /// in the last cycle comes last (where contexts alternate), before it those that rely on an
    /// unconfirmed hit, within each the least recently selected first. All ones: it may not issue.
    #[inline(always)]
    fn rank(&self, now: Cycle) -> u64 {
        let rank = u64::from(self.yields == now.0) << 63
            | u64::from(self.firm > now.0) << 62
            | self.recent;
        let not_ready = u64::from(self.ready > now.0);
        rank | not_ready.wrapping_neg()
    }
}

/// Longest `core.selection_lag_cycles`, each with one selection of every pipe.
const UNHEARD: usize = 16 * MAX_PIPES;

/// A ring of selections, oldest first; it never holds more than fit.
#[derive(Debug)]
struct Unheard {
    entries: [(u64, u32); UNHEARD],
    head: usize,
    tail: usize,
}

impl Default for Unheard {
    fn default() -> Self {
        Self {
            entries: [(0, 0); UNHEARD],
            head: 0,
            tail: 0,
        }
    }
}

impl Unheard {
    #[inline(always)]
    fn push(&mut self, cycle: u64, c: usize) {
        debug_assert!(self.tail - self.head < UNHEARD);
        self.entries[self.tail % UNHEARD] = (cycle, c as u32);
        self.tail += 1;
    }

    /// The oldest selection, if it was made at least `lag` cycles before `now`.
    #[inline(always)]
    fn pop_until(&mut self, now: u64, lag: u64) -> Option<(u64, usize)> {
        let (cycle, c) = self.entries[self.head % UNHEARD];
        if self.head == self.tail || cycle + lag > now {
            return None;
        }
        self.head += 1;
        Some((cycle, c as usize))
    }
}

/// One core.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) state: CoreState,
    pub(super) contexts: Vec<Context>,
    /// What selection looks at, side by side for the scan of every cycle.
    due: Vec<Due>,
    /// Selections that selection has not heard of yet, with their cycle, oldest first.
    unheard: Unheard,
    /// Contexts of a pipe: pipe n has those from n times this on.
    contexts_per_pipe: usize,
    pipes: usize,
    /// The pipe that goes first when several want one unit.
    favoured: usize,
    /// `core.alternates`.
    alternates: bool,
    /// `core.selection_lag_cycles`.
    selection_lag: u64,
}

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
    /// A chip of `cores` cores with vacant contexts, at cycle `now`. `line_bytes` is the line of the
    /// second level, `fetch_line_log2` that of the instruction caches.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub fn new(
        params: &FgmtParams,
        cores: usize,
        line_bytes: u64,
        fetch_line_log2: u32,
        now: Cycle,
    ) -> Result<Self, (&'static str, String)> {
        params.check()?;
        Ok(Self {
            cores: (0..cores)
                .map(|id| Core::new(id, params, line_bytes, fetch_line_log2, now))
                .collect(),
            next: vec![Cycle::NEVER; cores],
            awake: Vec::with_capacity(cores),
            fpu: ChipFpu::new(&params.fpu),
            seats: Seats::default(),
        })
    }

    /// Seats `hart` of `machine` in a vacant context, where it goes on, or sleeps on, from `now`.
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
        let (place, seat) = self.seats.take(hart.id, context, per_core);
        let core = &mut self.cores[place];
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
        self.rescheduled(place, seat);
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
        let due = Cycle(there.due[c].ready).min(there.state.due());
        if due < self.next[core] {
            self.next[core] = due;
            if let Err(place) = self.awake.binary_search(&core) {
                self.awake.insert(place, core);
            }
        }
    }

    /// Cycle after cycle from `now` on, as long as only the cores have something to do: memory has not
    /// before their next cycle, it lies before `until`, and no timer has changed. At most `most`
    /// cycles. Answers the last.
    pub fn run<O: Observer>(
        &mut self,
        mut now: Cycle,
        until: Cycle,
        most: u32,
        shared: &mut Shared<'_, O>,
    ) -> Cycle {
        for _ in 0..most {
            let next = self.tick(now, shared);
            let stops = shared.unhandled.is_some() || shared.device_accessed || shared.stop;
            if next >= until || next >= shared.memory.next() || stops {
                break;
            }
            if O::ACTIVE && shared.observer.holds() {
                break;
            }
            now = next;
        }
        now
    }

    /// One cycle of every core that has something to do. Answers the first cycle in which a context
    /// may issue again.
    fn tick<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> Cycle {
        debug_assert!(
            (0..self.cores.len())
                .all(|core| self.next[core] <= now || self.cores[core].is_idle(now)),
            "a core was passed over although it has work"
        );
        let mut next = Cycle::NEVER;
        let mut place = 0;
        while let Some(&core) = self.awake.get(place) {
            let mut at = self.next[core];
            if at <= now {
                at = self.cores[core].tick(now, &mut self.fpu, shared);
                self.next[core] = at;
            }
            if at == Cycle::NEVER {
                self.awake.remove(place);
                continue;
            }
            next = next.min(at);
            place += 1;
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

impl CoreState {
    /// When something happens that needs no slot.
    #[inline(always)]
    pub(super) fn due(&self) -> Cycle {
        self.walker.due.min(self.fills.due)
    }
}

impl Core {
    fn new(
        id: usize,
        params: &FgmtParams,
        line_bytes: u64,
        fetch_line_log2: u32,
        now: Cycle,
    ) -> Self {
        let contexts = params.contexts as usize;
        let nothing = decode(0);
        let stores = || {
            StoreBuffer::new(
                params.core.store_buffer_entries as usize,
                line_bytes,
                params.core.store_pipelining == "same_line",
            )
        };
        let tlb = |params: &TlbParams| Tlb::new(params).expect("FgmtParams::check has passed it");
        Self {
            state: CoreState {
                id: CoreId::new(id),
                fetch_line_log2,
                units: CoreUnits::new(&params.fpu, &params.core),
                latency: params.latency.table(&params.wait),
                simple: params.latency.simple_table(),
                stall_on_use: params.core.stall == "use",
                retracts: params.core.retract_cycles != 0,
                full_stops_thread: params.core.store_buffer_full_stops == "thread",
                itlb: tlb(&params.itlb),
                dtlb: tlb(&params.dtlb),
                walker: Walker::new(&params.walker, CoreId::new(id), params.latency.load_cycles),
                fills: Fills::default(),
                ended_walks: Vec::new(),
                params: params.clone(),
                counters: CoreCounters::default(),
                naps: WaitCounters::default(),
            },
            contexts: (0..contexts)
                .map(|n| Context::new(ContextId::new(id * contexts + n), n, stores(), nothing, now))
                .collect(),
            contexts_per_pipe: contexts / params.core.pipes as usize,
            pipes: params.core.pipes as usize,
            due: vec![
                Due {
                    ready: u64::MAX,
                    firm: 0,
                    recent: 0,
                    yields: u64::MAX,
                };
                contexts
            ],
            unheard: Unheard::default(),
            favoured: 0,
            alternates: params.core.alternates,
            selection_lag: params.core.selection_lag_cycles,
        }
    }

    /// Whether no context can issue now.
    fn is_idle(&self, now: Cycle) -> bool {
        self.state.due() > now && self.contexts.iter().all(|context| context.ready_at > now)
    }

    /// One cycle: every pipe selects a context and issues its instruction. Answers the first cycle in
    /// which a context may issue again.
    fn tick<O: Observer>(
        &mut self,
        now: Cycle,
        fpu: &mut ChipFpu,
        shared: &mut Shared<'_, O>,
    ) -> Cycle {
        debug_assert!(
            self.contexts
                .iter()
                .zip(&self.due)
                .all(|(context, due)| context.due().0 == due.ready),
            "{}: a context was changed without notice",
            self.state.id
        );
        self.hear(now);
        if self.state.due() <= now {
            self.go_on_without_a_slot(now, shared);
        }
        if self.pipes == 1 {
            if let Some(chosen) = self.select(0, now, shared) {
                self.issue(chosen, now, fpu, shared);
            }
        } else {
            self.tick_pipes(now, fpu, shared);
        }
        // Most often somebody is due at once; a plain minimum would look at everybody.
        let soonest = now.0 + 1;
        let mut earliest = self.state.due().0;
        for due in &self.due {
            if due.ready < earliest {
                earliest = due.ready;
                if earliest <= soonest {
                    earliest = soonest;
                    break;
                }
            }
        }
        Cycle(earliest)
    }

    /// What needs no slot: page walks and returned lines.
    #[cold]
    fn go_on_without_a_slot<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        if self.state.walker.due <= now {
            self.go_on_walking(now, shared);
        }
        if self.state.fills.due <= now {
            self.fill(now);
        }
    }

    /// Every pipe selects before any issues, so that pipes which want one unit meet. The favoured one
    /// goes first, and one that finds a unit taken loses its cycle.
    fn tick_pipes<O: Observer>(
        &mut self,
        now: Cycle,
        fpu: &mut ChipFpu,
        shared: &mut Shared<'_, O>,
    ) {
        let mut selected = [None; MAX_PIPES];
        for (pipe, selected) in selected.iter_mut().enumerate().take(self.pipes) {
            *selected = self.select(pipe, now, shared);
        }
        let first = self.favoured;
        let mut taken = 0;
        for pipe in (first..self.pipes).chain(0..first) {
            let Some(chosen) = selected[pipe] else {
                continue;
            };
            let context = &mut self.contexts[chosen];
            let wanted = self.state.units.wanted(context.class, context.moves_fp());
            if wanted & taken != 0 {
                context.stall(now, now.after(1), Slot::UnitBusy);
                self.reschedule(chosen);
                self.state.counters.pipe_conflicts += 1;
                self.favoured = (first + 1) % self.pipes;
                continue;
            }
            taken |= wanted;
            self.issue(chosen, now, fpu, shared);
        }
    }

    /// Issues the instruction of context `c`.
    #[inline(always)]
    fn issue<O: Observer>(
        &mut self,
        c: usize,
        now: Cycle,
        fpu: &mut ChipFpu,
        shared: &mut Shared<'_, O>,
    ) {
        self.selected(c, now);
        self.contexts[c].issue(&mut self.state, now, fpu, shared);
        if O::PIPELINE {
            self.contexts[c].tell_issued(&self.state, now, shared);
        }
        self.reschedule(c);
    }

    /// The context of `pipe` that issues now: the least recently selected that can, the lower number
    /// first; those that rely on an unconfirmed hit, and one that would issue twice in a row where
    /// contexts alternate, only when no other can.
    #[inline(always)]
    fn select<O: Observer>(
        &mut self,
        pipe: usize,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Option<usize> {
        let first = pipe * self.contexts_per_pipe;
        loop {
            // Without branches: who is ready changes from cycle to cycle and cannot be predicted.
            let mut best = usize::MAX;
            let mut best_rank = u64::MAX;
            let group = &self.due[first..first + self.contexts_per_pipe];
            for (n, due) in group.iter().enumerate() {
                let rank = due.rank(now);
                let better = rank < best_rank;
                best = if better { first + n } else { best };
                best_rank = if better { rank } else { best_rank };
            }
            if best == usize::MAX {
                return None;
            }
            match self.contexts[best].can_issue(&mut self.state, now, shared) {
                Chance::Issues => return Some(best),
                // What it has in its way has made it wait: look again among the others.
                Chance::Waits => self.reschedule(best),
                Chance::LosesSlot => {
                    self.lose_slot(best, now);
                    return None;
                }
            }
        }
    }

    /// Notes that context `c` was selected.
    #[inline(always)]
    fn selected(&mut self, c: usize, now: Cycle) {
        if self.alternates {
            self.due[c].yields = now.0 + 1;
        }
        if self.selection_lag == 1 {
            self.due[c].recent = now.0;
        } else {
            self.unheard.push(now.0, c);
        }
    }

    /// Selection hears of what was selected `core.selection_lag_cycles` ago.
    #[inline(always)]
    fn hear(&mut self, now: Cycle) {
        while let Some((cycle, c)) = self.unheard.pop_until(now.0, self.selection_lag) {
            self.due[c].recent = cycle;
        }
    }

    /// Notes when context `c` is due, after anything that may have changed it.
    #[inline(always)]
    pub(super) fn reschedule(&mut self, c: usize) {
        let context = &self.contexts[c];
        let due = &mut self.due[c];
        due.ready = context.due().0;
        due.firm = context.firm_at.0;
    }
}
