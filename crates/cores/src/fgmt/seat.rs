//! Harts come into contexts and leave them.

use std::sync::Arc;

use loiter_hart::{Hart, HartState, Retired};
use loiter_memory::{Memory, RequestKind};
use loiter_observe::{Activity, Course, Doing, Slot};
use loiter_types::Cycle;

use super::context::{NO_GENERATION, NO_LINE, Waits};
use super::core::Core;
use crate::model::TimedCore;
use crate::shared::mode;
use crate::wait::Wakes;
use crate::walker::Granted;
use crate::warm::Traces;
use crate::{Observer, Shared};

impl Core {
    /// Makes this core what `saved` is, which has the same parameters. What it knew of decoded code is looked up anew, in no
    /// time.
    pub(crate) fn restore(&mut self, saved: Self) {
        let params = Arc::clone(&self.state.params);
        *self = saved;
        self.state.params = params;
        for context in &mut self.contexts {
            (context.generation, context.code_page) = (NO_GENERATION, u32::MAX);
        }
    }

    /// Seats `hart` in vacant context `c`.
    pub(super) fn seats(
        &mut self,
        c: usize,
        hart: &mut Hart,
        watches: &loiter_machine::Watches,
        spinning: bool,
        now: Cycle,
    ) {
        let context = &mut self.contexts[c];
        debug_assert!(context.hart.is_none(), "{} is taken", context.id);
        context.settle(now);
        context.course = Course::seated(mode(hart), spinning);
        context.hart = Some(hart.id);
        context.hart_number = hart.id.0.into();
        context.fetch_line = NO_LINE;
        context.refetch();
        context.check_interrupts = true;
        context.reserved = false;
        let lost = self.state.idle.moves(c, now);
        self.state.loses(lost);
        self.state.note_due();
        match std::mem::replace(&mut hart.state, HartState::Running) {
            // What wakes it may have happened before it came here.
            HartState::Napping(nap) if !hart.nap_is_over(nap, watches) => {
                let sleep = self.state.params.wait.sleep_on(nap, now, hart);
                context.sleep(now, sleep, &mut self.state, hart);
            }
            _ => {
                context.reconsider(now, hart, Doing::Executing);
                context.unblock(now);
            }
        }
    }

    /// Takes `hart` from context `c`. Memory has delivered all that it has requested; so no access is in flight, and its
    /// store buffer is empty.
    pub(super) fn unseats(&mut self, c: usize, hart: &mut Hart, now: Cycle) {
        let context = &mut self.contexts[c];
        debug_assert!(
            context.waits != Waits::Access && context.stores.is_empty(),
            "{} has work in flight",
            context.id
        );
        context.settle(now);
        self.state.walker.abandon(c);
        self.state.fills.abandon(c);
        self.state.note_due();
        if self.state.units.fp_waits_for(c) {
            self.fp_data_arrive(c, now);
        }
        let context = &mut self.contexts[c];
        context.fetch_granted = Granted::NOTHING;
        context.data_granted = Granted::NOTHING;
        match context.waits {
            Waits::Wake(sleep) if sleep.limit > now => hart.state = HartState::Napping(sleep.nap),
            // It has ended while stores drained.
            Waits::Wake(_) => self.state.naps.ended(Wakes::Limit),
            _ => {}
        }
        // The cycles up to now are counted.
        let lost = self.state.idle.moves(c, now);
        self.state.loses(lost);
        self.state.idle.is_vacant(c, now);
        self.state.note_due();
        context.hart = None;
        context.leaves = false;
        context.ready_at = Cycle::NEVER;
        context.speculates_at = Cycle::NEVER;
        context.waits = Waits::Hart;
        context.slot = Slot::Vacant;
        context.accounts.changed(Activity::Vacant);
        self.reschedule(c);
    }

    /// The caches lose what an idle state does not keep, or everything.
    pub(super) fn loses_caches<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        let Some(which) = self.state.idle.take_loss(now) else {
            return;
        };
        let harts = self.contexts.iter().filter_map(|context| context.hart);
        let (emptied, told) = shared.empty(self.state.id, which, harts, now);
        self.state.idle.has_lost(emptied);
        for line in told {
            self.lost(line, shared);
        }
    }

    /// An instruction of the hart of context `c` leaves its traces.
    pub(super) fn leaves_traces(&mut self, c: usize, event: &Retired<'_>, memory: &mut Memory) {
        let state = &mut self.state;
        let (stores, atomics, reserves) = match state.port.owns_lines {
            true => (RequestKind::Own, RequestKind::Own, RequestKind::Own),
            false => (
                RequestKind::Store,
                RequestKind::Atomic,
                RequestKind::Reserve,
            ),
        };
        let mut traces = Traces {
            core: state.id,
            itlb: &mut state.itlb,
            dtlb: &mut state.dtlb,
            memory,
            stores,
            atomics,
            reserves,
            fetched: &mut self.contexts[c].warmed,
        };
        traces.leave(event);
    }
}
