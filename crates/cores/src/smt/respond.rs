//! Events from outside a core: memory responses, lost watches, interrupts; and looking at harts from
//! outside.

use loiter_isa::Width;
use loiter_memory::{RequestKind, Response};
use loiter_types::{CoreId, Cycle, HartId, PhysAddr};

use super::chip::Chip;
use super::context::{Fetch, Oldest};
use super::core::Core;
use super::squash;
use crate::store_buffer::Forward;
use crate::wait::Wakes;
use crate::{Observer, Shared};

impl Chip {
    /// An access performs: the value moves now.
    pub fn respond<O: Observer>(
        &mut self,
        response: Response,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let core_index = response.request.core.index();
        let Core { state, contexts } = &mut self.cores[core_index];
        let c = response.request.context.index() % contexts.len();
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
            RequestKind::Own => context.oldest_performs(c, tag, false, state, now, shared),
            RequestKind::Device => context.oldest_performs(c, tag, true, state, now, shared),
            kind => unreachable!("this core asks for no {kind:?}"),
        }
        if O::PIPELINE && response.request.kind == RequestKind::Load {
            context.tell_arrived(state, tag, now, shared);
        }
        self.tell_of_stores(core_index);
        self.rescheduled(core_index, now);
    }

    /// `core` has lost line `line`.
    pub fn lost<O: Observer>(&mut self, core: CoreId, line: u64, shared: &mut Shared<'_, O>) {
        let Core { state, contexts } = &mut self.cores[core.index()];
        for context in contexts {
            if let Some(hart) = context.hart {
                shared
                    .machine
                    .watches
                    .lose(hart, line, state.data_line_log2);
                context.loses(line, state.data_line_log2);
            }
        }
    }

    /// The line that `hart` watches was written by another.
    pub fn watch_lost(&mut self, hart: HartId, now: Cycle) {
        let (core_index, c) = self.seats.of(hart);
        let context = &mut self.cores[core_index].contexts[c];
        if let Fetch::Asleep(sleep) = context.fetch
            && sleep.nap.watches()
        {
            context.nap_until = now;
            self.rescheduled(core_index, now);
        }
    }

    /// Interrupt lines have changed: harts see them, and those that sleep may wake.
    pub fn interrupts_changed<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        for n in 0..shared.harts.len() {
            let hart = &mut shared.harts[n];
            let (core_index, c) = self.seats.of(hart.id);
            hart.csr.set_lines(shared.machine.interrupt_lines(hart.id));
            let Core { state, contexts } = &mut self.cores[core_index];
            let context = &mut contexts[c];
            context.check_interrupts = true;
            if let Fetch::Asleep(sleep) = context.fetch
                && shared.harts[n].interrupts(sleep.nap)
            {
                context.wake_up(sleep, Wakes::Interrupt, now, state, shared);
            }
            self.rescheduled(core_index, now);
        }
    }

    /// Whether `hart` stands between two instructions: no access of its next one is in flight.
    #[must_use]
    pub fn stands_between_instructions(&self, hart: HartId) -> bool {
        let (core, c) = self.seats.of(hart);
        self.cores[core].contexts[c].oldest == Oldest::Idle
    }

    /// The byte at `addr` as `hart` would read it, if that is still in its store buffer.
    #[must_use]
    pub fn buffered_byte(&self, hart: HartId, addr: PhysAddr) -> Option<u8> {
        let (core, c) = self.seats.of(hart);
        match self.cores[core].contexts[c].buffer.forward(addr, Width::B) {
            Forward::Value(byte) => Some(byte as u8),
            Forward::Memory | Forward::Partial => None,
        }
    }

    /// `hart`, or memory that it may have fetched from, was changed from outside: it fetches anew, and
    /// its registers are what they are now.
    pub fn changed_from_outside(&mut self, hart: &loiter_hart::Hart, now: Cycle) {
        let (core_index, c) = self.seats.of(hart.id);
        let Core { state, contexts } = &mut self.cores[core_index];
        let context = &mut contexts[c];
        if context.oldest != Oldest::Idle {
            return;
        }
        // Who sleeps has nothing in flight, and fetches anew when its nap ends.
        if !matches!(context.fetch, Fetch::Asleep(_)) {
            squash::from_and_recover(context, state, c, context.head);
            context.fetch_at(hart.pc, now, context.empty);
        }
        for slot in 1..loiter_isa::SINK {
            let register = context.map[slot as usize];
            state.registers.set(register, hart.regs[slot as usize]);
        }
        context.check_interrupts = true;
        self.rescheduled(core_index, now);
    }
}
