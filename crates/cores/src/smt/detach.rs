//! Harts leave their contexts.

use loiter_hart::{Hart, HartState, Privilege, Retired};
use loiter_isa::SINK;
use loiter_memory::{Memory, RequestKind};
use loiter_observe::Activity;
use loiter_observe::Slot;
use loiter_types::{ContextId, Cycle};

use super::chip::Chip;
use super::context::{Context, Fetch, Oldest};
use super::core::Core;
use super::counters::ModeGroup;
use super::registers::ZERO;
use super::squash;
use crate::predict::BranchKind;
use crate::walker::Granted;
use crate::warm::{Fetched, Traces};
use crate::{Observer, Shared};

impl Chip {
    /// One cycle in which harts are about to leave: nothing is begun, stores continue to perform. Returns
    /// the next in which a core has anything to do by itself; when it is never, and memory has nothing to
    /// deliver either, harts stand between two instructions with empty store buffers.
    pub fn drain<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> Cycle {
        let mut next = Cycle::NEVER;
        for core_index in 0..self.cores.len() {
            let core = &mut self.cores[core_index];
            core.state.draining = true;
            core.cycle(now, shared);
            let at = match core.state.active {
                true => now.after(1),
                false => core.next_drained(now),
            };
            core.state.draining = false;
            next = next.min(at);
            self.tell_of_stores(core_index);
        }
        next
    }

    /// A bound of the instructions that can retire in a cycle: as many as retirement takes, and one of
    /// each context whose access performs.
    #[must_use]
    pub fn most_retired_in_a_cycle(&self) -> u64 {
        let width = |core: &Core| core.state.params.core.retire_width + core.contexts.len() as u64;
        self.cores.iter().map(width).sum()
    }

    /// Takes `hart`, whose core has drained, from its context, which is vacant from `now` on. If it slept,
    /// it sleeps on wherever it goes.
    pub fn detach(&mut self, hart: &mut Hart, now: Cycle) {
        let (core_index, c) = self.seats.of(hart.id);
        let Core { state, contexts } = &mut self.cores[core_index];
        let context = &mut contexts[c];
        debug_assert!(context.has_drained(), "{} has work in flight", context.id);
        context.settle(now);
        if let Fetch::Asleep(sleep) = context.fetch {
            state.gets_up(&sleep);
            hart.state = HartState::Napping(sleep.nap);
        }
        for register in &mut context.map[1..usize::from(SINK)] {
            state.registers.release(std::mem::replace(register, ZERO));
        }
        state.walker.abandon(c);
        context.fetch_walks = false;
        context.data_walks.clear();
        context.fetch_granted = Granted::NOTHING;
        context.oldest_granted = Granted::NOTHING;
        context.hart = None;
        context.fetch = Fetch::Vacant;
        context.nap_until = Cycle::NEVER;
        context.lines_read = 0;
        context.accounts.changed(Activity::Vacant);
        context.slot_now = Slot::Vacant;
        self.next[core_index] = Cycle::NEVER;
    }

    /// An instruction of the hart of `context` leaves its traces.
    pub fn warm(&mut self, context: ContextId, event: &Retired<'_>, memory: &mut Memory) {
        let per_core = self.cores[0].contexts.len();
        let core = &mut self.cores[context.index() / per_core];
        let c = context.index() % per_core;
        let state = &mut core.state;
        let mut traces = Traces {
            core: state.id,
            itlb: &mut state.itlb,
            dtlb: &mut state.dtlb,
            memory,
            stores: RequestKind::Own,
            atomics: RequestKind::Own,
            fetched: &mut core.contexts[c].warmed,
        };
        let mode = match event.privilege {
            Privilege::User => ModeGroup::User,
            Privilege::Supervisor | Privilege::Machine => ModeGroup::Kernel,
        };
        if mode == ModeGroup::User || !state.kernel_bypasses_caches {
            traces.leave(event);
        }
        if let Some(branch) = BranchKind::of(event.inst) {
            let next_pc = event.pc.wrapping_add(u64::from(event.inst.len));
            let taken = branch != BranchKind::Conditional || event.next != next_pc;
            let predictors = &mut state.predictors;
            predictors.set_mode(c, mode as usize);
            let counters = predictors.counters.clone();
            let prediction = predictors.predict(c, event.pc, next_pc, branch);
            let outcome = Some((branch, next_pc, taken));
            predictors.recover(c, &prediction.checkpoint, outcome);
            predictors.train(c, event.pc, branch, &prediction, taken, event.next);
            predictors.counters = counters;
        }
    }

    /// Time has passed up to `now` of which the cores know nothing.
    pub fn resume(&mut self, now: Cycle) {
        for core in &mut self.cores {
            core.state.counted_to = now;
            for context in &mut core.contexts {
                context.accounts.skip(now);
                context.warmed = Fetched::NOWHERE;
            }
        }
    }
}

impl Core {
    /// The first cycle after `now` in which anything happens by itself while harts are about to leave.
    fn next_drained(&self, now: Cycle) -> Cycle {
        let refused = |context: &&Context| !context.buffer.is_empty() && !context.owning;
        let refused = self.contexts.iter().filter(refused);
        let again = refused.map(|context| context.drain_from.max(now.after(1)));
        again
            .min()
            .unwrap_or(Cycle::NEVER)
            .min(self.state.events.next())
    }

    /// Takes back all instructions but an oldest one whose access is in flight.
    pub(super) fn give_up(&mut self) {
        let Core { state, contexts } = self;
        for (c, context) in contexts.iter_mut().enumerate() {
            if matches!(context.fetch, Fetch::Asleep(_) | Fetch::Vacant) {
                continue;
            }
            // Nobody waits for its walk any more.
            if context.oldest == Oldest::Sent(Slot::DtlbWalk) {
                context.oldest = Oldest::Idle;
            }
            let sent = u64::from(context.oldest != Oldest::Idle);
            squash::from_and_recover(context, state, c, context.head + sent);
        }
        if let Some(stages) = &mut state.stages {
            stages.clear();
        }
    }
}

impl Context {
    /// Whether nothing is in flight but what nobody waits for.
    fn has_drained(&self) -> bool {
        self.is_empty() && self.buffer.is_empty() && self.oldest == Oldest::Idle
    }
}
