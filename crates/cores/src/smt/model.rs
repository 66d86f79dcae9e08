//! What cores of every kind can do, for this kind.

use loiter_hart::{Hart, Nap, Retired};
use loiter_isa::{SINK, Width};
use loiter_machine::Machine;
use loiter_memory::{Memory, RequestKind, Response};
use loiter_observe::{Accounts, Purpose};
use loiter_types::{CounterVisitor, Cycle, PhysAddr, StateVisitor};

use super::context::{Fetch, Oldest};
use super::core::{Core, Event};
use super::counters::{Histogram, ModeGroup};
use super::squash;
use crate::fgmt::Group;
use crate::idle::Loses;
use crate::model::{Seat, TimedCore};
use crate::store_buffer::Forward;
use crate::wait::Wakes;
use crate::warm::Fetched;
use crate::{Observer, Shared};

impl TimedCore for Core {
    fn contexts(&self) -> usize {
        self.contexts.len()
    }

    fn seat(&self, c: usize) -> Seat {
        let context = &self.contexts[c];
        Seat {
            core: self.state.id,
            context: context.id,
            hart: context.hart,
        }
    }

    fn attach(&mut self, c: usize, hart: &mut Hart, machine: &Machine, spinning: bool, now: Cycle) {
        self.seats(c, hart, &machine.watches, spinning, now);
    }

    fn leave(&mut self, c: usize, _: Cycle) {
        self.contexts[c].leaves = true;
        self.state.leaving += 1;
    }

    fn has_left(&self, c: usize) -> bool {
        self.contexts[c].has_drained() && !self.state.walker.reads_for(c)
    }

    fn detach(&mut self, c: usize, hart: &mut Hart, now: Cycle) {
        self.unseats(c, hart, now);
    }

    fn resume(&mut self, now: Cycle) {
        self.state.idle.skip(now);
        self.state.counted_to = now;
        for context in &mut self.contexts {
            context.accounts.skip(now);
            context.warmed = Fetched::NOWHERE;
        }
    }

    fn warm(&mut self, c: usize, event: &Retired<'_>, memory: &mut Memory) {
        self.leaves_traces(c, event, memory);
    }

    /// As many as retirement takes, and one of each context whose access performs.
    fn most_retired_in_a_cycle(&self) -> u64 {
        self.state.params.core.retire_width + self.contexts.len() as u64
    }

    fn roused(&mut self, _: usize, now: Cycle) -> Cycle {
        self.state.rouse();
        // A cycle that the core has been through does not come again.
        now.max(self.state.counted_to)
    }

    /// A debug build goes through passed-over cycles instead.
    fn is_idle(&self, _: Cycle) -> bool {
        true
    }

    #[inline(never)]
    fn run<O: Observer>(
        &mut self,
        mut now: Cycle,
        until: Cycle,
        most: u32,
        _: &mut [Group],
        shared: &mut Shared<'_, O>,
    ) -> (Cycle, Cycle) {
        let mut left = most;
        loop {
            let next = self.tick(now, shared);
            self.hear_own_stores();
            left -= 1;
            let stops = left == 0 || self.has_performed() || shared.stops();
            if stops || next >= until || next >= shared.memory.next() {
                return (now, next);
            }
            now = next;
        }
    }

    fn has_performed(&self) -> bool {
        !self.state.performed.is_empty()
    }

    fn loses_at(&self) -> Cycle {
        self.state.idle.loses_at()
    }

    fn is_cold(&mut self, c: usize) {
        self.state.loses(Loses::ALL);
        self.state.predictors.forget_course(c);
    }

    fn is_to_be_cold(&mut self, c: usize, now: Cycle) {
        self.is_cold(c);
        self.state.idle.is_to_be_cold(now);
    }

    fn drain<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> Cycle {
        self.state.draining = true;
        self.cycle(now, shared);
        let next = match self.state.active {
            true => now.after(1),
            false => self.next_drained(now),
        };
        self.state.draining = false;
        self.hear_own_stores();
        next
    }

    fn respond<O: Observer>(
        &mut self,
        c: usize,
        response: Response,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let Core { state, contexts } = self;
        let context = &mut contexts[c];
        let tag = response.request.tag;
        match response.request.kind {
            RequestKind::Fetch => {
                if context.fetch == Fetch::Line && context.fetch_line == tag {
                    context.fetch = Fetch::Ready;
                    context.fetch_from = context.fetch_from.max(response.done);
                }
            }
            RequestKind::Walk | RequestKind::Load if state.walker.owns(tag) => {
                state.walker.entry_arrives(tag, response.done, shared);
            }
            RequestKind::Load => context.line_arrives(c, tag, response.done, state, shared),
            RequestKind::Own if tag == 0 => context.perform_store(state, now, shared),
            RequestKind::Own | RequestKind::Reserve => {
                context.oldest_performs(c, tag, false, state, now, shared)
            }
            RequestKind::OwnAhead => context.owning_ahead -= 1,
            RequestKind::Atomic => {
                context.far_performs(c, tag, response.done, state, now, shared);
            }
            RequestKind::Device => context.oldest_performs(c, tag, true, state, now, shared),
            kind => unreachable!("this core asks for no {kind:?}"),
        }
        if O::PIPELINE && response.request.kind == RequestKind::Load {
            context.tell_arrived(state, tag, now, shared);
        }
        self.hear_own_stores();
        true
    }

    fn lost<O: Observer>(&mut self, line: u64, shared: &mut Shared<'_, O>) {
        let line_log2 = self.state.data_line_log2;
        for context in &mut self.contexts {
            if let Some(hart) = context.hart {
                shared.machine.watches.lose(hart, line, line_log2);
                context.loses(line, line_log2);
            }
        }
    }

    fn retry(&mut self, now: Cycle) {
        let Core { state, contexts } = self;
        // A cycle that the core has been through does not come again.
        let at = now.max(state.counted_to);
        for context in contexts {
            for from in [
                &mut context.fetch_from,
                &mut context.drain_from,
                &mut context.oldest_from,
            ] {
                if *from == Cycle::NEVER {
                    *from = at;
                }
            }
        }
        let mut refused = std::mem::take(&mut state.refused_loads);
        for (c, n, seq) in refused.drain(..) {
            state.schedule(at, Event::Access, c, n, seq);
        }
        state.refused_loads = refused;
        state.walker.retry(at);
    }

    fn watch_lost(&mut self, c: usize, now: Cycle) -> bool {
        let context = &mut self.contexts[c];
        match context.fetch {
            Fetch::Asleep(sleep) if sleep.nap.watches() => {
                context.nap_until = now;
                true
            }
            _ => false,
        }
    }

    fn interrupts_changed<O: Observer>(
        &mut self,
        c: usize,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let Core { state, contexts } = self;
        let context = &mut contexts[c];
        context.check_interrupts = true;
        if let Fetch::Asleep(sleep) = context.fetch
            && shared.harts[context.hart_index].interrupts(sleep.nap)
        {
            context.wake_up(sleep, Wakes::Interrupt, now, state, shared);
        }
        true
    }

    fn close(&mut self, now: Cycle) {
        self.count_last(now);
        for context in &mut self.contexts {
            context.accounts = context.accounts_at(now);
        }
    }

    /// Counts the cycles of the core up to there.
    fn accounts(&mut self, now: Cycle, out: &mut Vec<Accounts>) {
        self.count_last(now);
        let contexts = self.contexts.iter();
        out.extend(contexts.map(|context| context.accounts_at(now)));
    }

    fn accounts_of(&mut self, c: usize) -> &mut Accounts {
        &mut self.contexts[c].accounts
    }

    fn visit_counters(&self, now: Cycle, visitor: &mut impl CounterVisitor) {
        let state = &self.state;
        let core = format!("core{}", state.id.0);
        visitor.visit(&core, &state.counters);
        visitor.visit(&format!("{core}.wait"), &state.naps);
        visitor.visit(&format!("{core}.idle"), &state.idle.counters_at(now));
        let [user, kernel] = &state.modes;
        visitor.visit(&core, &(user + kernel));
        let [user_branches, kernel_branches] = &state.predictors.counters;
        visitor.visit(
            &format!("{core}.branch"),
            &(user_branches + kernel_branches),
        );
        for (n, mode) in ModeGroup::ALL.iter().enumerate() {
            let mode = format!("{core}.{}", mode.word());
            visitor.visit(&mode, &state.modes[n]);
            visitor.visit(&format!("{mode}.branch"), &state.predictors.counters[n]);
        }
        for (purpose, counters) in Purpose::ALL.iter().zip(&state.purposes) {
            visitor.visit(&format!("{core}.{}", purpose.word()), counters);
        }
        visitor.visit(&format!("{core}.itlb"), &state.itlb.counters);
        visitor.visit(&format!("{core}.dtlb"), &state.dtlb.counters);
        visitor.visit(&format!("{core}.walker"), &state.walker.counters);
    }

    fn histograms(&self) -> Vec<Histogram<'_>> {
        self.state.histograms.all()
    }

    fn who_waits(&self, c: usize) -> String {
        let context = &self.contexts[c];
        match context.fetch {
            Fetch::Asleep(sleep) => sleep.nap.words().to_owned(),
            fetch => format!("fetch: {fetch:?}, oldest: {:?}", context.oldest),
        }
    }

    fn nap(&self, c: usize) -> Option<(Nap, Cycle)> {
        match self.contexts[c].fetch {
            Fetch::Asleep(sleep) => Some((sleep.nap, sleep.since)),
            _ => None,
        }
    }

    fn stands_between_instructions(&self, c: usize) -> bool {
        self.contexts[c].oldest == Oldest::Idle
    }

    fn buffered_byte(&self, c: usize, addr: PhysAddr) -> Option<u8> {
        match self.contexts[c].buffer.forward(addr, Width::B) {
            Forward::Value(byte) => Some(byte as u8),
            Forward::Memory | Forward::Partial => None,
        }
    }

    fn changes(&self) -> u64 {
        self.state.changes
    }

    fn most_in_flight(&self) -> u64 {
        self.state.params.core.reorder_entries
    }

    fn looks_like(&self, now: Cycle, harts: &[Hart]) -> u64 {
        Core::looks_like(self, now, harts)
    }

    fn visit_state(
        &mut self,
        harts: &mut [Hart],
        memory: &mut Memory,
        visitor: &mut impl StateVisitor,
    ) {
        self.shows_state(harts, memory, visitor);
    }

    /// Its registers are what they are now.
    fn changed_from_outside(&mut self, c: usize, hart: &Hart, now: Cycle) {
        let Core { state, contexts } = self;
        let context = &mut contexts[c];
        if context.oldest != Oldest::Idle {
            return;
        }
        // Who sleeps has nothing in flight, and fetches anew when its nap ends.
        if !matches!(context.fetch, Fetch::Asleep(_)) {
            squash::from_and_recover(context, state, c, context.head);
            context.fetch_at(hart.pc, now, context.empty);
        }
        for slot in 1..SINK {
            let register = context.map[slot as usize];
            state.registers.set(register, hart.regs[slot as usize]);
        }
        context.check_interrupts = true;
    }
}
