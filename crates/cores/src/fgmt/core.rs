//! A fine-grained multithreaded core: selection of contexts, cycle by cycle.

use std::sync::Arc;

use loiter_isa::decode;
use loiter_memory::{Memory, Tlb, TlbParams};
use loiter_observe::Slot;
use loiter_types::{ContextId, CoreId, Cycle, PhysAddr};
use serde::{Deserialize, Serialize};

use super::context::{Chance, Context, Waits};
use super::counters::CoreCounters;
use super::fills::Fills;
use super::group::Group;
use super::holes::Holes;
use super::ownership::Port;
use super::params::{CLASSES, FgmtParams, MAX_PIPES};
use super::selection::Selection;
use super::units::{CoreUnits, LOAD_STORE, UNITS};
use crate::idle::{EVERYTHING, Idle, Loses};
use crate::store_buffer::StoreBuffer;
use crate::walker::{Ended, Walker};
use crate::{Observer, Shared, WaitCounters};

/// What the contexts of a core share. What every cycle asks comes first, in few lines of a host's cache: a chip has many cores.
#[derive(Debug, Deserialize, Serialize)]
#[repr(C, align(64))]
pub(super) struct CoreState {
    /// When something happens that needs no slot: of lost caches, walks, fills and stores the first. [`CoreState::note_due`]
    /// keeps it.
    pub(super) due: Cycle,
    /// The first cycle in which a slot or the load/store unit may be held. [`Core::look_at_holds`] finds out.
    pub(super) holds_at: Cycle,
    /// What it has done that is more than reading its first level, but for what memory counts.
    pub(super) changes: u64,
    /// Of an instruction line.
    pub(super) fetch_line_bytes: u64,
    pub(super) id: CoreId,
    /// Whether it has done nothing lately that memory, a device or anybody outside could see.
    pub(super) quiet: bool,
    /// `core.stall = "use"`.
    pub(super) stall_on_use: bool,
    /// `core.retract_cycles` is not 0.
    pub(super) retracts: bool,
    /// `core.store_buffer_full_stops = "thread"`.
    pub(super) full_stops_thread: bool,
    pub(super) params: Arc<FgmtParams>,
    pub(super) counters: CoreCounters,
    /// Lines that have returned for loads.
    pub(super) fills: Fills,
    pub(super) units: CoreUnits,
    /// Stores that drain into the data cache, and requests without a miss register.
    pub(super) port: Port,
    pub(super) latency: [u64; CLASSES],
    pub(super) itlb: Tlb,
    pub(super) dtlb: Tlb,
    pub(super) walker: Walker<()>,
    /// Kept for its room.
    pub(super) ended_walks: Vec<Ended<()>>,
    pub(super) naps: WaitCounters,
    pub(super) idle: Idle,
}

/// One core. What every cycle asks comes first here, too.
#[derive(Debug, Deserialize, Serialize)]
#[repr(C, align(64))]
pub(crate) struct Core {
    pub(super) contexts: Vec<Context>,
    /// Contexts of a pipe: pipe n has those from n times this on.
    pub(super) contexts_per_pipe: usize,
    pub(super) pipes: usize,
    /// The group of cores that it is one of.
    pub(super) group: usize,
    /// Whether a slot, or the unit of a selected instruction, may be taken: by another pipe, or by what has gone before.
    pub(super) shares_units: bool,
    /// `core.wait_costs_slot`.
    pub(super) wait_costs_slot: bool,
    /// Which of them may be selected.
    pub(super) selection: Selection,
    pub(super) state: CoreState,
    /// Slots that nobody can have.
    pub(super) holes: Holes,
    /// By unit, the pipe that goes first when several want it.
    pub(super) favoured: [usize; UNITS],
}

impl CoreState {
    /// An event of cycle `event` wakes context `c`. Returns the first cycle in which the core is up.
    pub(super) fn wakes(&mut self, c: usize, event: Cycle) -> Cycle {
        self.changes += 1;
        let up = self.idle.wakes(c, event);
        self.loses(up.lost);
        self.note_due();
        up.at
    }

    /// The first byte of the instruction line of `addr`.
    #[inline(always)]
    pub(super) fn line_of(&self, addr: PhysAddr) -> u64 {
        addr.0 & !(self.fetch_line_bytes - 1)
    }

    /// What the core has lost beside its caches.
    pub(super) fn loses(&mut self, lost: Loses) {
        if lost.translations {
            self.itlb.flush(EVERYTHING);
            self.dtlb.flush(EVERYTHING);
        }
    }

    /// Notes when something happens that needs no slot, after anything that may have changed it.
    pub(super) fn note_due(&mut self) {
        self.due = self.earliest_due();
    }

    fn earliest_due(&self) -> Cycle {
        let due = self.walker.due.min(self.fills.due).min(self.port.due);
        due.min(self.idle.loses_at())
    }
}

impl Core {
    /// Core `id` of a group of cores, with vacant contexts that are numbered from `first` on, before `memory`.
    pub(crate) fn new(
        params: &Arc<FgmtParams>,
        group: usize,
        id: CoreId,
        first: ContextId,
        memory: &Memory,
        now: Cycle,
    ) -> Self {
        let (line_bytes, owns_lines) = (memory.line_bytes(), memory.grants_lines());
        let contexts = params.contexts as usize;
        let nothing = decode(0);
        let stores = || {
            StoreBuffer::new(
                params.core.store_buffer_entries as usize,
                line_bytes,
                params.core.store_pipelining == "same_line",
            )
            .splitting_lines(owns_lines)
        };
        let tlb = |params: &TlbParams| Tlb::new(params).expect("FgmtParams::check has passed it");
        Self {
            group,
            state: CoreState {
                id,
                fetch_line_bytes: 1 << memory.fetch_line_log2(),
                units: CoreUnits::new(&params.fpu, &params.core),
                latency: params.latency.table(&params.wait),
                stall_on_use: params.core.stall == "use",
                retracts: params.core.retract_cycles != 0,
                full_stops_thread: params.core.store_buffer_full_stops == "thread",
                itlb: tlb(&params.itlb),
                dtlb: tlb(&params.dtlb),
                walker: Walker::new(&params.walker, id, params.latency.load_cycles),
                fills: Fills::new(&params.core),
                port: Port::new(owns_lines, line_bytes, contexts),
                due: Cycle::NEVER,
                holds_at: Cycle(0),
                ended_walks: Vec::new(),
                params: Arc::clone(params),
                counters: CoreCounters::default(),
                naps: WaitCounters::default(),
                idle: Idle::new(&params.idle, contexts, now),
                quiet: false,
                changes: 0,
            },
            contexts: (0..contexts)
                .map(|n| Context::new(ContextId::new(first.index() + n), n, stores(), nothing, now))
                .collect(),
            contexts_per_pipe: contexts / params.core.pipes as usize,
            pipes: params.core.pipes as usize,
            shares_units: params.core.pipes > 1
                || params.core.atomic_slots > 1
                || params.core.integer_result_slot_cycles > 0
                || params.core.fill_urgent_cycles > 0,
            selection: Selection::new(contexts, &params.core),
            holes: Holes::new(&params.core),
            favoured: [0; UNITS],
            wait_costs_slot: params.core.wait_costs_slot,
        }
    }

    /// One cycle: every pipe selects a context and issues its instruction. Returns the first cycle in
    /// which a context may issue again. With `PIPES_APART`, which is for a loop over cycles, what pipes do that share units is a
    /// function of its own: the loop's registers of a host are for cores with one pipe.
    #[inline(always)]
    pub(super) fn tick<O: Observer, const PIPES_APART: bool>(
        &mut self,
        now: Cycle,
        group: &mut Group,
        shared: &mut Shared<'_, O>,
    ) -> Cycle {
        debug_assert!(
            (0..self.contexts.len()).all(|c| self.contexts[c].due() == self.selection.due(c)),
            "{}: a context was changed without notice",
            self.state.id
        );
        debug_assert_eq!(self.state.due, self.state.earliest_due());
        self.selection.begin(now);
        if self.state.due <= now {
            self.continue_without_a_slot(now, shared);
        }
        if !self.shares_units {
            if let Some(chosen) = self.select(u64::MAX, now, shared) {
                self.issue::<_, false>(chosen, now, group, shared);
            }
        } else if PIPES_APART {
            self.tick_pipes_apart(now, group, shared);
        } else {
            self.tick_pipes(now, group, shared);
        }
        let next = Cycle(now.0 + 1);
        if self.selection.any_ready() {
            return next;
        }
        self.state.due.max(next).min(self.selection.next())
    }

    /// What needs no slot: caches that an idle state does not keep, page walks, returned lines, and stores that drain.
    #[cold]
    fn continue_without_a_slot<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        self.state.quiet = false;
        if self.state.idle.loses_at() <= now {
            self.loses_caches(now, shared);
        }
        if self.state.walker.due <= now {
            self.continue_walks(now, shared);
        }
        if self.state.fills.due <= now {
            self.fill(now);
        }
        if self.state.port.due <= now {
            self.use_port(now, shared);
        }
        self.state.note_due();
    }

    /// As [`Core::tick_pipes`], as a function of its own.
    #[inline(never)]
    fn tick_pipes_apart<O: Observer>(
        &mut self,
        now: Cycle,
        group: &mut Group,
        shared: &mut Shared<'_, O>,
    ) {
        self.tick_pipes(now, group, shared);
    }

    /// Every pipe selects before any issues, so that pipes which want one unit meet. For each unit a favour says which
    /// pipe goes first; one that finds a unit taken loses its cycle, and the favour moves on.
    #[inline(always)]
    fn tick_pipes<O: Observer>(
        &mut self,
        now: Cycle,
        group: &mut Group,
        shared: &mut Shared<'_, O>,
    ) {
        let (held, memory_held) = match self.state.holds_at <= now {
            true => self.look_at_holds(now),
            false => (0, 0),
        };
        let (mut taken, mut clash) = (memory_held, 0);
        // Bits of contexts; those of later pipes have higher numbers.
        let mut selected = 0_u64;
        let mut of_pipe = self.selection.first_pipe();
        for _ in 0..self.pipes {
            if let Some(chosen) = self.select(of_pipe & !held, now, shared) {
                let wanted = self.wanted(chosen, group);
                clash |= taken & wanted;
                taken |= wanted;
                selected |= 1 << chosen;
            }
            of_pipe = of_pipe.wrapping_shl(self.contexts_per_pipe as u32);
        }
        if clash != 0 {
            selected = self.settle_conflicts(now, memory_held != 0, selected, group);
        }
        while selected != 0 {
            let chosen = selected.trailing_zeros() as usize;
            selected &= selected - 1;
            let class = self.contexts[chosen].class;
            self.issue::<_, true>(chosen, now, group, shared);
            self.take_slots(chosen, class, now);
        }
    }

    /// The units that the instruction of context `c`, which has been selected, wants.
    #[inline(always)]
    fn wanted(&self, c: usize, group: &Group) -> u8 {
        let context = &self.contexts[c];
        group.wanted(context.class, || context.moves_fp())
    }

    /// Takes the cycle from pipes that want what they cannot have. Returns which of the `selected` contexts remain.
    #[cold]
    fn settle_conflicts(
        &mut self,
        now: Cycle,
        memory_held: bool,
        selected: u64,
        group: &Group,
    ) -> u64 {
        let favoured = self.favoured;
        // By pipe, the context and what its instruction wants; nothing, if none is selected.
        let mut chosen = [(0, 0); MAX_PIPES];
        let mut of_pipe = self.selection.first_pipe();
        for pipe in &mut chosen[..self.pipes] {
            if selected & of_pipe != 0 {
                let c = (selected & of_pipe).trailing_zeros() as usize;
                *pipe = (c, self.wanted(c, group));
            }
            of_pipe = of_pipe.wrapping_shl(self.contexts_per_pipe as u32);
        }
        let mut remain = selected;
        for (pipe, &(c, wanted)) in chosen[..self.pipes].iter().enumerate() {
            let lost = lost_to_another(pipe, &chosen[..self.pipes], &favoured);
            if lost == 0 && !(memory_held && wanted & LOAD_STORE != 0) {
                continue;
            }
            remain &= !(1 << c);
            self.contexts[c].stall(now, now.after(1), Slot::UnitBusy);
            self.reschedule(c);
            self.state.counters.pipe_conflicts += 1;
            if lost != 0 {
                let unit = lost.trailing_zeros() as usize;
                self.favoured[unit] = next_of(favoured[unit], self.pipes);
            }
        }
        remain
    }

    /// Issues the instruction of context `c`, which has been selected. `SHARES` says whether others may have put it off since.
    #[inline(always)]
    fn issue<O: Observer, const SHARES: bool>(
        &mut self,
        c: usize,
        now: Cycle,
        group: &mut Group,
        shared: &mut Shared<'_, O>,
    ) {
        let context = &mut self.contexts[c];
        let next = context.issue(&mut self.state, now, group, shared);
        if O::PIPELINE {
            context.tell_issued(&self.state, now, shared);
        }
        let due = match next {
            Some(next) => {
                context.look_ahead(next, shared);
                debug_assert_eq!(context.speculates_at, Cycle::NEVER);
                context.ready_at
            }
            None => context.due(),
        };
        self.selection.issued::<SHARES>(c, due, context.firm_at);
    }

    /// The context of `group`, that of a pipe, that issues now: the least recently selected that can, the lower number
    /// first; those that rely on an unconfirmed hit, and one that would issue twice in a row where
    /// contexts alternate, only when no other can.
    #[inline(always)]
    fn select<O: Observer>(
        &mut self,
        group: u64,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Option<usize> {
        loop {
            let best = self.selection.choose(group)?;
            match self.contexts[best].can_issue(&mut self.state, now, shared) {
                Chance::Issues => return Some(best),
                // What it has in its way has made it wait: look again among the others.
                Chance::Waits => {
                    self.reschedule(best);
                    if self.wait_costs_slot && self.waits_since_now(best) {
                        self.state.counters.wait_slots += 1;
                        return None;
                    }
                }
                Chance::LosesSlot => {
                    self.lose_slot(best, now);
                    return None;
                }
            }
        }
    }

    /// Whether this is the first cycle in which context `c`, which waits, has the instruction that does, and
    /// selection did not know that it would.
    #[cold]
    fn waits_since_now(&self, c: usize) -> bool {
        let context = &self.contexts[c];
        let known_late = matches!(context.slot, Slot::Dependence | Slot::UnitBusy)
            || matches!(context.waits, Waits::StoreEntry);
        known_late && self.selection.has_issued_before(c)
    }

    /// When context `c` may be selected, as far as selection knows.
    #[inline(always)]
    pub(super) fn context_due(&self, c: usize) -> Cycle {
        self.selection.due(c)
    }

    /// Notes when context `c` is due, after anything that may have changed it.
    #[inline(always)]
    pub(super) fn reschedule(&mut self, c: usize) {
        let context = &self.contexts[c];
        self.selection.set(c, context.due(), context.firm_at);
    }
}

/// The pipe after `pipe`.
fn next_of(pipe: usize, pipes: usize) -> usize {
    match pipe + 1 == pipes {
        true => 0,
        false => pipe + 1,
    }
}

/// The unit that `pipe` wants and another has in this cycle, or nothing. Of each pipe there is a context, and what its
/// instruction wants.
fn lost_to_another(pipe: usize, chosen: &[(usize, u8)], favoured: &[usize; UNITS]) -> u8 {
    let (_, wanted) = chosen[pipe];
    for (other, &(_, others)) in chosen.iter().enumerate() {
        let both = wanted & others;
        if other == pipe || both == 0 {
            continue;
        }
        let first = favoured[both.trailing_zeros() as usize];
        let turn = |pipe: usize| match pipe >= first {
            true => pipe - first,
            false => pipe + chosen.len() - first,
        };
        if turn(other) < turn(pipe) {
            return both & both.wrapping_neg();
        }
    }
    0
}
