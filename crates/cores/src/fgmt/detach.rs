//! Harts leave their contexts.

use loiter_hart::{Hart, HartState, Retired};
use loiter_memory::{Memory, RequestKind};
use loiter_observe::{Activity, Slot};
use loiter_types::{ContextId, Cycle};

use super::chip::Chip;
use super::context::Waits;
use crate::walker::Granted;
use crate::warm::{Fetched, Traces};
use crate::{Observer, Shared};

impl Chip {
    /// A bound of the instructions that can retire in a cycle: one of each context.
    #[must_use]
    pub fn most_retired_in_a_cycle(&self) -> u64 {
        let contexts = self.cores.iter().map(|core| core.contexts.len() as u64);
        contexts.sum()
    }

    /// A cycle in which harts are about to leave: stores drain, and nothing is begun. Returns the next in which the cores
    /// have anything to do by themselves.
    pub fn drain<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> Cycle {
        let mut next = Cycle::NEVER;
        for core in &mut self.cores {
            if core.state.port.due <= now {
                core.use_port(now, shared);
            }
            next = next.min(core.state.port.due);
        }
        next
    }

    /// Takes `hart` from its context, which is vacant from `now` on. Memory has delivered all that cores
    /// have requested; so no access is in flight, and store buffers are empty. If the hart slept, it sleeps
    /// on wherever it goes.
    pub fn detach(&mut self, hart: &mut Hart, now: Cycle) {
        let (core_index, c) = self.seats.of(hart.id);
        let core = &mut self.cores[core_index];
        let context = &mut core.contexts[c];
        debug_assert!(
            context.waits != Waits::Access && context.stores.is_empty(),
            "{} has work in flight",
            context.id
        );
        context.settle(now);
        core.state.walker.abandon(c);
        core.state.fills.abandon(c);
        core.state.note_due();
        if core.state.units.fp_waits_for(c) {
            core.fp_data_arrive(c, now);
        }
        let context = &mut core.contexts[c];
        context.fetch_granted = Granted::NOTHING;
        context.data_granted = Granted::NOTHING;
        match context.waits {
            Waits::Wake(sleep) if sleep.limit > now => hart.state = HartState::Napping(sleep.nap),
            _ => {}
        }
        context.hart = None;
        context.ready_at = Cycle::NEVER;
        context.speculates_at = Cycle::NEVER;
        context.waits = Waits::Hart;
        context.slot = Slot::Vacant;
        context.accounts.changed(Activity::Vacant);
        core.reschedule(c);
        self.next[core_index] = Cycle::NEVER;
        self.awake.retain(|&awake| awake != core_index);
    }

    /// An instruction of the hart of `context` leaves its traces.
    pub fn warm(&mut self, context: ContextId, event: &Retired<'_>, memory: &mut Memory) {
        let per_core = self.cores[0].contexts.len();
        let core = &mut self.cores[context.index() / per_core];
        let c = context.index() % per_core;
        let state = &mut core.state;
        let (stores, atomics) = match state.port.owns_lines {
            true => (RequestKind::Own, RequestKind::Own),
            false => (RequestKind::Store, RequestKind::Atomic),
        };
        let mut traces = Traces {
            core: state.id,
            itlb: &mut state.itlb,
            dtlb: &mut state.dtlb,
            memory,
            stores,
            atomics,
            fetched: &mut core.contexts[c].warmed,
        };
        traces.leave(event);
    }

    /// Time has passed up to `now` of which the cores know nothing.
    pub fn resume(&mut self, now: Cycle) {
        let contexts = self.cores.iter_mut().flat_map(|core| &mut core.contexts);
        for context in contexts {
            context.accounts.skip(now);
            context.warmed = Fetched::NOWHERE;
        }
    }
}
