//! What cores of every kind can do, for this kind.

use loiter_hart::{Hart, Nap, Retired};
use loiter_isa::Width;
use loiter_machine::Machine;
use loiter_memory::{Memory, Response};
use loiter_observe::Accounts;
use loiter_types::{CounterVisitor, Cycle, PhysAddr, StateVisitor};

use super::context::{NO_LINE, Waits};
use super::core::Core;
use super::group::Group;
use crate::cores::DELIVERY_CYCLES;
use crate::idle::Loses;
use crate::model::{Seat, TimedCore};
use crate::smt::Histogram;
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
    }

    fn has_left(&self, c: usize) -> bool {
        let context = &self.contexts[c];
        let stands = matches!(context.waits, Waits::Leave | Waits::Wake(_));
        stands && context.stores.is_empty()
    }

    fn detach(&mut self, c: usize, hart: &mut Hart, now: Cycle) {
        self.unseats(c, hart, now);
    }

    fn resume(&mut self, now: Cycle) {
        self.state.idle.skip(now);
        self.state.note_due();
        for context in &mut self.contexts {
            context.accounts.skip(now);
            context.warmed = Fetched::NOWHERE;
        }
    }

    fn warm(&mut self, c: usize, event: &Retired<'_>, memory: &mut Memory) {
        self.leaves_traces(c, event, memory);
    }

    /// One of each context.
    fn most_retired_in_a_cycle(&self) -> u64 {
        self.contexts.len() as u64
    }

    fn roused(&mut self, c: usize, _: Cycle) -> Cycle {
        self.reschedule(c);
        self.context_due(c).min(self.state.due)
    }

    fn is_idle(&self, now: Cycle) -> bool {
        self.state.due > now && self.contexts.iter().all(|context| context.ready_at > now)
    }

    #[inline(never)]
    fn run<O: Observer>(
        &mut self,
        mut now: Cycle,
        until: Cycle,
        most: u32,
        groups: &mut [Group],
        shared: &mut Shared<'_, O>,
    ) -> (Cycle, Cycle) {
        let group = &mut groups[self.group];
        let mut left = most;
        let mut ends = until;
        // Something may have happened before.
        self.state.quiet = false;
        loop {
            let mut next = self.tick::<_, true>(now, group, shared);
            left -= 1;
            if O::ACTIVE || !self.state.quiet {
                self.state.quiet = true;
                if shared.stops() {
                    return (now, next);
                }
                ends = until.min(shared.memory.next());
            }
            debug_assert!(!shared.stops() && ends == until.min(shared.memory.next()));
            if left == 0 {
                return (now, next);
            }
            while next >= ends {
                ends = until.min(shared.memory_goes_on(next, until));
                if next >= ends {
                    if !shared.delivered || left <= DELIVERY_CYCLES {
                        return (now, next);
                    }
                    left -= DELIVERY_CYCLES;
                    next = self.hear_all(next, shared);
                    if shared.delivered {
                        return (now, next);
                    }
                    ends = until.min(shared.memory.next());
                }
            }
            now = next;
        }
    }

    #[inline(never)]
    fn run_one<O: Observer>(
        &mut self,
        now: Cycle,
        groups: &mut [Group],
        shared: &mut Shared<'_, O>,
    ) -> Cycle {
        self.tick::<_, false>(now, &mut groups[self.group], shared)
    }

    fn loses_at(&self) -> Cycle {
        self.state.idle.loses_at()
    }

    fn is_cold(&mut self, _: usize) {
        self.state.loses(Loses::ALL);
    }

    fn is_to_be_cold(&mut self, c: usize, now: Cycle) {
        self.is_cold(c);
        self.state.idle.is_to_be_cold(now);
        self.state.note_due();
    }

    /// Stores drain; what else is in flight continues when memory responds.
    fn drain<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> Cycle {
        if self.state.port.due <= now {
            self.use_port(now, shared);
        }
        self.state.port.due
    }

    fn respond<O: Observer>(
        &mut self,
        c: usize,
        response: Response,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let context = &mut self.contexts[c];
        if !context.respond(&mut self.state, response, now, shared) {
            return false;
        }
        if self.state.units.fp_waits_for(c) && self.contexts[c].waits == Waits::Time {
            self.fp_data_arrive(c, self.contexts[c].ready_at);
        }
        true
    }

    fn lost<O: Observer>(&mut self, line: u64, shared: &mut Shared<'_, O>) {
        let line_log2 = shared.memory.data_line_log2();
        for hart in self.contexts.iter().filter_map(|context| context.hart) {
            shared.machine.watches.lose(hart, line, line_log2);
        }
    }

    fn retry(&mut self, now: Cycle) {
        self.state.port.retry(now);
        self.state.walker.retry(now);
        self.state.note_due();
    }

    fn watch_lost(&mut self, c: usize, now: Cycle) -> bool {
        match self.contexts[c].waits {
            Waits::Wake(sleep) if sleep.nap.watches() => {
                self.wake(c, sleep, Wakes::Store, now);
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
        let context = &mut self.contexts[c];
        context.check_interrupts = true;
        // An instruction that was fetched but not issued gives way to the interrupt.
        context.refetch();
        match context.waits {
            Waits::Wake(sleep) if shared.harts[context.hart_index()].interrupts(sleep.nap) => {
                self.wake(c, sleep, Wakes::Interrupt, now);
                true
            }
            _ => false,
        }
    }

    fn close(&mut self, now: Cycle) {
        for context in &mut self.contexts {
            context.accounts = context.accounts_at(now);
        }
    }

    fn accounts(&mut self, now: Cycle, out: &mut Vec<Accounts>) {
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
        visitor.visit(&format!("{core}.itlb"), &state.itlb.counters);
        visitor.visit(&format!("{core}.dtlb"), &state.dtlb.counters);
        visitor.visit(&format!("{core}.walker"), &state.walker.counters);
    }

    fn histograms(&self) -> Vec<Histogram<'_>> {
        Vec::new()
    }

    fn who_waits(&self, c: usize) -> String {
        let context = &self.contexts[c];
        match context.waits {
            Waits::Wake(sleep) => sleep.nap.words().to_owned(),
            other => format!("{other:?}, ready at {}", context.ready_at),
        }
    }

    fn nap(&self, c: usize) -> Option<(Nap, Cycle)> {
        match self.contexts[c].waits {
            Waits::Wake(sleep) => Some((sleep.nap, sleep.since)),
            _ => None,
        }
    }

    fn stands_between_instructions(&self, c: usize) -> bool {
        self.contexts[c].waits != Waits::Access
    }

    fn buffered_byte(&self, c: usize, addr: PhysAddr) -> Option<u8> {
        match self.contexts[c].stores.forward(addr, Width::B) {
            Forward::Value(byte) => Some(byte as u8),
            Forward::Memory | Forward::Partial => None,
        }
    }

    fn changes(&self) -> u64 {
        self.state.changes
    }

    fn most_in_flight(&self) -> u64 {
        1
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

    fn changed_from_outside(&mut self, c: usize, _: &Hart, _: Cycle) {
        let context = &mut self.contexts[c];
        if context.waits != Waits::Access {
            context.refetch();
            context.fetch_line = NO_LINE;
            context.check_interrupts = true;
        }
    }
}
