//! Harts come into contexts and leave them.

use std::sync::Arc;

use loiter_hart::{Hart, HartState, Privilege, Retired};
use loiter_isa::SINK;
use loiter_memory::{Memory, RequestKind};
use loiter_observe::{Activity, Course, Doing, Slot};
use loiter_types::Cycle;

use super::context::{Context, Fetch, Oldest};
use super::core::Core;
use super::counters::ModeGroup;
use super::registers::{File, ZERO};
use super::squash;
use crate::model::TimedCore;
use crate::predict::BranchKind;
use crate::shared::mode;
use crate::walker::Granted;
use crate::warm::Traces;
use crate::{Observer, Shared};

impl Core {
    /// Makes this core what `saved` is, which has the same parameters.
    pub(crate) fn restore(&mut self, saved: Self) {
        let params = Arc::clone(&self.state.params);
        *self = saved;
        self.state.params = params;
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
        let Core { state, contexts } = self;
        let context = &mut contexts[c];
        debug_assert!(context.hart.is_none(), "{} is taken", context.id);
        context.settle(now);
        context.hart = Some(hart.id);
        context.hart_index = hart.id.index();
        let lost = state.idle.moves(c, now);
        state.loses(lost);
        state.registers.unreserve();
        for slot in 1..SINK {
            let register = state.registers.take(File::of(slot));
            let register = register.expect("the files hold the registers of every context");
            state.registers.set(register, hart.regs[slot as usize]);
            context.map[slot as usize] = register;
        }
        context.course = Course::seated(mode(hart), spinning);
        context.reconsider(now, hart, Doing::Executing);
        context.fetch_pc = hart.pc;
        context.fetch = Fetch::Ready;
        context.fetch_from = now;
        context.slot_now = Slot::FrontEnd;
        context.check_interrupts = true;
        if let HartState::Napping(nap) = std::mem::replace(&mut hart.state, HartState::Running)
            // What wakes it may have happened before it came here.
            && !hart.nap_is_over(nap, watches)
        {
            let sleep = state.params.wait.sleep_on(nap, now, hart);
            context.sleep(now, sleep, state, hart);
        }
    }

    /// Takes `hart`, which has drained, from context `c`.
    pub(super) fn unseats(&mut self, c: usize, hart: &mut Hart, now: Cycle) {
        let Core { state, contexts } = self;
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
        state.registers.reserve();
        state.walker.abandon(c);
        context.fetch_walks = false;
        context.data_walks.clear();
        context.fetch_granted = Granted::NOTHING;
        context.oldest_granted = Granted::NOTHING;
        // The cycles up to now are counted.
        let lost = state.idle.moves(c, now);
        state.loses(lost);
        state.idle.is_vacant(c, now);
        context.hart = None;
        state.leaving -= usize::from(std::mem::take(&mut context.leaves));
        context.fetch = Fetch::Vacant;
        context.nap_until = Cycle::NEVER;
        context.lines_read = 0;
        context.accounts.changed(Activity::Vacant);
        context.slot_now = Slot::Vacant;
    }

    /// The caches lose what an idle state does not keep, or everything.
    #[cold]
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
        let atomics = match state.far_atomics {
            true => RequestKind::Atomic,
            false => RequestKind::Own,
        };
        let mut traces = Traces {
            core: state.id,
            itlb: &mut state.itlb,
            dtlb: &mut state.dtlb,
            memory,
            stores: RequestKind::Own,
            atomics,
            reserves: atomics,
            fetched: &mut self.contexts[c].warmed,
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

    /// The first cycle after `now` in which anything happens by itself while harts are about to leave.
    pub(super) fn next_drained(&self, now: Cycle) -> Cycle {
        let refused = |context: &&Context| !context.buffer.is_empty() && !context.owning;
        let refused = self.contexts.iter().filter(refused);
        let again = refused.map(|context| context.drain_from.max(now.after(1)));
        again
            .min()
            .unwrap_or(Cycle::NEVER)
            .min(self.state.events.next())
    }

    /// Of contexts that `leaves` names, takes back all instructions but an oldest one whose access is in flight.
    pub(super) fn give_up(&mut self, leaves: impl Fn(&Context) -> bool) {
        let Core { state, contexts } = self;
        for (c, context) in contexts.iter_mut().enumerate() {
            if matches!(context.fetch, Fetch::Asleep(_) | Fetch::Vacant) || !leaves(context) {
                continue;
            }
            // Nobody waits for its walk any more.
            if context.oldest == Oldest::Sent(Slot::DtlbWalk) {
                context.oldest = Oldest::Idle;
            }
            let sent = u64::from(context.oldest != Oldest::Idle);
            squash::from_and_recover(context, state, c, context.head + sent);
        }
        if let Some(stages) = &mut state.stages
            && state.draining
        {
            stages.clear();
        }
    }
}

impl Context {
    /// Whether nothing is in flight but what nobody waits for.
    pub(super) fn has_drained(&self) -> bool {
        self.is_empty() && self.buffer.is_empty() && self.oldest == Oldest::Idle
    }
}
