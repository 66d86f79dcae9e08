//! The state of the core, field by field, as far as it decides what follows while its contexts only spin.
//!
//! Instructions are told apart by their places in windows and their ages, registers and queue entries by their numbers;
//! none of these means anything but which is which, and ages, which is older. So places are shown relative to the end of
//! the window, ages relative to the next one, registers in the order in which instructions name them, and none moves.

use loiter_hart::Hart;
use loiter_memory::Memory;
use loiter_types::{Cycle, StateVisitor};

use super::context::{Context, Entry, Fetch, NOTHING_OPEN, Oldest, Progress};
use super::core::{Core, CoreState, InstructionEvent};
use super::counters::Histograms;
use super::policy::Shares;
use super::ports::DataPorts;
use super::registers::{NONE, Registers};

/// Registers in the order in which they are named.
struct Names {
    /// By register.
    known: Vec<u16>,
    count: u16,
}

impl Names {
    fn new(registers: &Registers) -> Self {
        Self {
            known: vec![u16::MAX; registers.values.len()],
            count: 0,
        }
    }

    /// Shows `visitor` which register this is, and when it is first named, what it holds.
    fn name(&mut self, register: u16, registers: &mut Registers, visitor: &mut impl StateVisitor) {
        if register == NONE {
            return visitor.value(u64::MAX);
        }
        let known = &mut self.known[register as usize];
        if *known == u16::MAX {
            *known = self.count;
            self.count += 1;
            let ready = registers.is_ready(register);
            visitor.value(u64::from(ready));
            if ready {
                visitor.quantity(&mut registers.values[register as usize]);
            }
        }
        visitor.value(u64::from(*known));
    }
}

impl Core {
    /// Shows `visitor` the core, the harts of its contexts and its first-level caches.
    pub(super) fn shows_state(
        &mut self,
        harts: &mut [Hart],
        memory: &mut Memory,
        visitor: &mut impl StateVisitor,
    ) {
        let Self { state, contexts } = self;
        memory.visit_state(state.id, visitor);
        let tails: Vec<_> = contexts.iter().map(|context| context.tail).collect();
        let mut names = Names::new(&state.registers);
        for context in contexts.iter_mut() {
            context.shows_state(harts, state, &mut names, visitor);
        }
        state.shows_state(&tails, visitor);
    }

    /// A few bits of its state at the end of cycle `now`.
    pub(super) fn looks_like(&self, now: Cycle, harts: &[Hart]) -> u64 {
        let mut looks = self.state.turn as u64;
        for c in self.state.awake {
            let context = &self.contexts[c];
            let window = context.tail - context.head;
            let ahead = context.fetch_from.0.saturating_sub(now.0);
            let pc = harts[context.hart_index].pc;
            let sizes = window << 40 | context.in_front() << 48 | ahead << 56;
            looks = (looks ^ context.fetch_pc ^ pc.rotate_left(16) ^ sizes)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(23);
        }
        looks
    }
}

impl Context {
    fn shows_state(
        &mut self,
        harts: &mut [Hart],
        core: &mut CoreState,
        names: &mut Names,
        visitor: &mut impl StateVisitor,
    ) {
        self.shows_window(core, names, visitor);
        let dormant = self.is_dormant();
        if !dormant {
            self.settle(core.charged_to);
        }
        let is_oldest = |seq| !self.is_empty() && self.entry(self.head).seq == seq;
        let (refused, held_up) = (is_oldest(self.oldest_refused), is_oldest(self.held_up));
        let Self {
            id: _,
            hart,
            leaves,
            hart_index,
            entries: _,
            predictions: _,
            led_then: _,
            capacity: _,
            head: _,
            renamed: _,
            tail: _,
            map: _,
            loads: _,
            stores: _,
            barriers: _,
            buffer,
            owning,
            owning_ahead,
            seen_ahead: _,
            fenced,
            drain_from,
            unissued,
            queued,
            renamings,
            fetch,
            fetch_pc,
            fetch_from,
            fetch_line,
            empty,
            oldest,
            oldest_from,
            // Ages of an instruction that was refused, of atomics and accesses to devices, or that takes its time.
            oldest_refused: _,
            held_up: _,
            oldest_granted,
            fetch_granted,
            fetch_walks,
            data_walks,
            refill,
            fetch_space,
            data_space,
            check_interrupts,
            course,
            opens_at,
            fetch_mark,
            fetch_purpose,
            led: _,
            mode,
            slot_now,
            retired_now,
            nap_until,
            awake_from,
            lines_read,
            // For observers of pipelines, of whom there are none.
            squashed_from: _,
            accounts,
            oracle,
            warmed: _,
        } = self;
        visitor.require(!*leaves && buffer.is_empty() && !*owning && *owning_ahead == 0);
        visitor.require(!*fetch_walks && data_walks.is_empty() && refill.is_nothing());
        visitor.require(*opens_at == NOTHING_OPEN);
        visitor.require(oracle.is_none());
        visitor.value(hart.map_or(u64::MAX, |hart| hart.0.into()));
        visitor.value(u64::from(dormant));
        visitor.deadline(*nap_until);
        match fetch {
            Fetch::Ready => visitor.value(0),
            Fetch::Blocked => visitor.value(1),
            Fetch::Vacant => visitor.value(2),
            Fetch::Asleep(sleep) => sleep.visit_state(visitor),
            Fetch::Line | Fetch::Walk | Fetch::Handler | Fetch::Refill => visitor.require(false),
        }
        if dormant {
            // Its account stands still.
            return;
        }
        harts[*hart_index].visit_state(visitor);
        accounts.visit_state(visitor);
        course.visit_state(visitor);
        visitor.require(*oldest == Oldest::Idle);
        for at in [drain_from, fetch_from, oldest_from, awake_from] {
            visitor.cycle(at);
        }
        let flags = [*fenced, *check_interrupts, *retired_now, refused, held_up];
        flags.iter().for_each(|&flag| visitor.value(flag.into()));
        visitor.value(u64::from(*unissued));
        for count in queued.iter().chain(renamings.iter()) {
            visitor.value(u64::from(*count));
        }
        visitor.value(*fetch_pc);
        visitor.value(*fetch_line);
        visitor.value(*empty as u64);
        visitor.value(*slot_now as u64);
        oldest_granted.visit_state(visitor);
        fetch_granted.visit_state(visitor);
        visitor.value(fetch_space.tables);
        visitor.value(fetch_space.guest);
        visitor.value(data_space.tables);
        visitor.value(data_space.guest);
        visitor.value(u64::from(*fetch_mark));
        visitor.value(*fetch_purpose as u64);
        visitor.value(*mode as u64);
        visitor.value(*lines_read);
    }

    fn shows_window(
        &mut self,
        core: &mut CoreState,
        names: &mut Names,
        visitor: &mut impl StateVisitor,
    ) {
        // There are none while a context only spins. Its barriers are fences, which follow from the entries.
        visitor.require(self.stores.is_empty());
        visitor.value(self.tail - self.head);
        visitor.value(self.tail - self.renamed);
        for register in &self.map[..loiter_isa::SINK as usize] {
            names.name(*register, &mut core.registers, visitor);
        }
        for n in self.head..self.tail {
            if self.entry(n).branch.is_some() {
                let led = self.led_since_branch(n);
                visitor.value(led);
                self.prediction_mut(n).visit_state(visitor);
            }
            let renamed = n < self.renamed;
            self.entry_mut(n).shows_state(core, names, renamed, visitor);
        }
    }
}

impl Entry {
    fn shows_state(
        &mut self,
        core: &mut CoreState,
        names: &mut Names,
        renamed: bool,
        visitor: &mut impl StateVisitor,
    ) {
        let Self {
            // With the address of an instruction that is the same comes the same instruction.
            inst: _,
            seq,
            pc,
            due,
            sources,
            destination,
            replaced,
            class: _,
            progress,
            how,
            queue: _,
            slot,
            stale,
            translated,
            branch: _,
            purpose,
            done,
            predicted,
            virt,
            addr,
            bytes,
            data,
        } = self;
        visitor.value(core.next_seq - *seq);
        visitor.value(*pc);
        visitor.value(*how as u64);
        visitor.value(*purpose as u64);
        visitor.value(*predicted);
        visitor.cycle(due);
        if !renamed {
            return;
        }
        for register in [*destination, *replaced].into_iter().chain(*sources) {
            names.name(register, &mut core.registers, visitor);
        }
        visitor.value(u64::from(*stale));
        visitor.value(u64::from(*translated));
        match progress {
            Progress::Fetched => visitor.value(0),
            Progress::Queued => {
                visitor.value(1);
                visitor.value(u64::from(core.queues.pending(*slot)));
                return;
            }
            Progress::Issued => visitor.value(2),
            Progress::Done => visitor.value(3),
            Progress::Walking | Progress::Missing(_) => visitor.require(false),
        }
        if !how.is_apart() {
            // The hart runs it when it is the oldest; what is here is of another.
            return;
        }
        visitor.quantity(&mut done.value);
        if *destination != NONE && !core.registers.is_ready(*destination) {
            // What it comes to, or will have come to.
            visitor.quantity(&mut core.registers.values[*destination as usize]);
        }
        visitor.value(done.next);
        visitor.value(u64::from(done.complete));
        visitor.quantity(virt);
        visitor.value(*bytes);
        if *bytes > 0 {
            visitor.value(addr.0);
        }
        visitor.value(*data);
    }
}

impl CoreState {
    fn shows_state(&mut self, tails: &[u64], visitor: &mut impl StateVisitor) {
        let Self {
            id: _,
            params,
            fetch_policy: _,
            fetch_line_log2: _,
            data_line_log2: _,
            registers: _,
            queues,
            predictors,
            itlb,
            dtlb,
            walker,
            refused_loads,
            ended_walks: _,
            events,
            waking,
            synchronised,
            div_free,
            fp_div_free,
            ports,
            waits_for_stores,
            waits_clear_at,
            next_seq,
            nothing: _,
            handler_instruction: _,
            kernel_bypasses_caches: _,
            traps_to_refill: _,
            counters,
            modes,
            purposes,
            in_queue,
            histograms,
            retired_now,
            shares,
            without_share,
            // Counts naps, of which none begins or ends, and idle states, which need that all sleep.
            naps: _,
            idle: _,
            counted_to,
            charged_to,
            queue_full,
            registers_full,
            front_full,
            stages,
            renames_in_order: _,
            atomics_annotated: _,
            far_atomics: _,
            pause_is_nop: _,
            active,
            draining,
            leaving,
            turn,
            awake,
            naps_end,
            performed,
            owns_lines: _,
            changes: _,
            due,
            order: _,
            ready: _,
        } = self;
        visitor.require(!*draining && *leaving == 0 && performed.is_empty() && due.is_empty());
        visitor.require(refused_loads.is_empty() && !waits_for_stores.contains(&true));
        predictors.visit_state(visitor);
        itlb.visit_state(visitor);
        dtlb.visit_state(visitor);
        walker.visit_state(visitor);
        ports.shows_state(visitor);
        let relative = |c: u8, n: u64, seq: u64| {
            let tail = tails[c as usize];
            [
                u64::from(c),
                tail.wrapping_sub(n),
                next_seq.wrapping_sub(seq),
            ]
        };
        visitor.value(events.events().count() as u64);
        for (mut at, &InstructionEvent { event, c, n, seq }) in events.events() {
            visitor.cycle(&mut at);
            visitor.value(event as u64);
            for word in relative(c, n, seq) {
                visitor.value(word);
            }
        }
        if visitor.moves() > 0 {
            events.shift(visitor.moves());
        }
        visitor.value(waking.len() as u64);
        for &(c, n, seq) in waking.iter() {
            for word in relative(c, n, seq) {
                visitor.value(word);
            }
        }
        visitor.value(*synchronised);
        for at in [div_free, fp_div_free, counted_to] {
            visitor.cycle(at);
        }
        visitor.instant(charged_to);
        visitor.multiple(waits_clear_at, params.core.store_wait_clear_cycles);
        visitor.deadline(*naps_end);
        if let Some(stages) = stages {
            stages.shows_state(*next_seq, visitor);
        }
        for queue in 0..2 {
            visitor.value(queues.occupancy(queue));
        }
        in_queue.iter().for_each(|&count| visitor.value(count));
        let Shares {
            front,
            queues: of_queues,
            registers: of_registers,
        } = *shares;
        for share in [front].into_iter().chain(of_queues).chain(of_registers) {
            visitor.value(share.into());
        }
        visitor.value(*without_share);
        visitor.value(*retired_now);
        let flags = [*queue_full, *registers_full, *front_full, *active];
        flags.iter().for_each(|&flag| visitor.value(flag.into()));
        visitor.value(*turn as u64);
        awake.into_iter().for_each(|c| visitor.value(c as u64));
        visitor.counters(counters);
        modes.iter_mut().for_each(|mode| visitor.counters(mode));
        for counters in purposes {
            visitor.counters(counters);
        }
        let Histograms { starts: _, cycles } = histograms;
        cycles.iter_mut().for_each(|count| visitor.count(count));
    }
}

impl DataPorts {
    fn shows_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            ports: _,
            stores_take_ports: _,
            patience_cycles: _,
            taken,
            refused_cycles,
            refused,
            granted,
            first,
        } = self;
        visitor.require(!*refused && !*granted);
        visitor.value(*taken);
        visitor.value(*refused_cycles);
        visitor.value(*first as u64);
    }
}
