//! The state of the core, field by field, as far as it decides what follows while its contexts only spin.

use loiter_hart::Hart;
use loiter_memory::Memory;
use loiter_types::{Cycle, StateVisitor};

use super::context::{Context, Waits};
use super::core::{Core, CoreState};

impl Core {
    /// Shows `visitor` the core, the harts of its contexts and its first-level caches.
    pub(super) fn shows_state(
        &mut self,
        harts: &mut [Hart],
        memory: &mut Memory,
        visitor: &mut impl StateVisitor,
    ) {
        let Self {
            group: _,
            state,
            contexts,
            selection,
            holes,
            contexts_per_pipe: _,
            pipes: _,
            shares_units: _,
            favoured,
            wait_costs_slot: _,
        } = self;
        memory.visit_state(state.id, visitor);
        state.shows_state(visitor);
        for context in contexts.iter_mut() {
            context.shows_state(harts, state.stall_on_use, visitor);
        }
        selection.shows_state(contexts, visitor);
        holes.shows_state(visitor);
        favoured.iter().for_each(|&pipe| visitor.value(pipe as u64));
        if visitor.moves() != 0 {
            // It says when to look.
            state.holds_at = Cycle(0);
        }
    }

    /// A few bits of its state at the end of cycle `now`.
    pub(super) fn looks_like(&self, now: Cycle, harts: &[Hart]) -> u64 {
        let active = self.contexts.iter().filter(|context| context.is_active());
        active.fold(0, |looks, context| {
            let ahead = context.ready_at.0.wrapping_sub(now.0);
            let pc = harts[context.hart_index()].pc;
            (looks ^ pc ^ ahead << 48)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(23)
        })
    }
}

impl Context {
    /// Whether a hart executes here.
    fn is_active(&self) -> bool {
        !matches!(self.waits, Waits::Wake(_) | Waits::Hart)
    }

    fn shows_state(
        &mut self,
        harts: &mut [Hart],
        stall_on_use: bool,
        visitor: &mut impl StateVisitor,
    ) {
        let active = self.is_active();
        let Self {
            id: _,
            seat: _,
            hart,
            leaves,
            ready_at,
            firm_at,
            speculates_at,
            miss_slots_left,
            waits,
            slot,
            accounts,
            warmed: _,
            stores,
            inst: _,
            class,
            inst_pc,
            // It follows from the pc; the other says for how long.
            inst_offset: _,
            generation: _,
            code_page: _,
            next,
            // Told to observers only, of which there are none.
            fetched_count: _,
            probes,
            data_addr,
            fetch_line,
            fetch_space,
            // It follows from that.
            translates: _,
            fetch_page,
            data_space,
            fetch_granted,
            data_granted,
            course,
            check_interrupts,
            reserved,
            hart_number,
            operands_until,
            operands,
        } = self;
        visitor.require(!*leaves && stores.is_empty());
        visitor.value(hart.map_or(u64::MAX, |hart| hart.0.into()));
        visitor.value(u64::from(active));
        if !active {
            // It sleeps on as it does, or is vacant: its account stands still, and when it continues is known.
            visitor.deadline(*ready_at);
            return;
        }
        visitor.require(*waits == Waits::Time);
        visitor.value(u64::from(*probes));
        harts[*hart_number as usize].visit_state(visitor);
        visitor.instant(ready_at);
        visitor.cycle(firm_at);
        visitor.cycle(speculates_at);
        visitor.value(*miss_slots_left);
        visitor.value(*slot as u64);
        accounts.visit_state(visitor);
        visitor.value(*class as u64);
        // With the address of an instruction that is the same comes the same instruction.
        visitor.value(*inst_pc);
        visitor.value(*next as u64);
        let (kind, addr) = data_addr.as_words();
        visitor.value(kind);
        visitor.value(addr);
        visitor.value(*fetch_line);
        visitor.value(fetch_space.tables);
        visitor.value(fetch_space.guest);
        visitor.value(*fetch_page);
        visitor.value(data_space.tables);
        visitor.value(data_space.guest);
        fetch_granted.visit_state(visitor);
        data_granted.visit_state(visitor);
        course.visit_state(visitor);
        visitor.value(u64::from(*check_interrupts));
        visitor.value(u64::from(*reserved));
        visitor.cycle(operands_until);
        if stall_on_use {
            operands.iter_mut().for_each(|at| visitor.cycle(at));
        }
    }
}

impl CoreState {
    fn shows_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            id: _,
            fetch_line_bytes: _,
            units,
            latency: _,
            itlb,
            dtlb,
            walker,
            fills,
            port,
            due,
            // It follows from what holds.
            holds_at: _,
            ended_walks: _,
            params: _,
            stall_on_use: _,
            retracts: _,
            full_stops_thread: _,
            counters,
            // Counts naps, of which none begins or ends, and idle states, which need that all sleep.
            naps: _,
            idle: _,
            // What it says only saves looking.
            quiet: _,
            changes: _,
        } = self;
        // What needs no slot has nothing to do.
        visitor.require(*due == Cycle::NEVER);
        units.shows_state(visitor);
        itlb.visit_state(visitor);
        dtlb.visit_state(visitor);
        walker.visit_state(visitor);
        fills.shows_state(visitor);
        port.shows_state(visitor);
        visitor.counters(counters);
    }
}
