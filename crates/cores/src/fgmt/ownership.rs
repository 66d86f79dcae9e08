//! Stores, atomics and misses where memory grants lines: stores and atomics perform in the core's own data cache once
//! it may write their lines, and what finds no miss register comes again.
//!
//! The oldest store of a context performs in the cycle after its issue, or after the store before it, if the core owns
//! its line and no other context's store has the cache in that cycle; else its line is requested, and it performs when
//! that is granted. So stores of a context perform in order. Atomics perform in the cycle in which they have their line.
//! Loads that cross lines read in a cycle in which both can be read.

use std::collections::VecDeque;

use loiter_isa::Op;
use loiter_memory::{Request, RequestKind};
use loiter_observe::Slot;
use loiter_types::{Cycle, PAGE_BYTES, PhysAddr, StateVisitor, VirtAddr};
use serde::{Deserialize, Serialize};

use super::context::{Context, DataAddr, Waits};
use super::core::{Core, CoreState};
use crate::shared::is_lock;
use crate::{Observer, Shared};

/// The tag of a request for the line of a buffered store; those of instructions have none.
pub(super) const OF_STORE: u64 = 1;

/// What waits for the data cache or for a miss register, which needs no slot.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Port {
    /// Memory grants lines. If not, stores are sent to the second level, and nothing waits here.
    pub(super) owns_lines: bool,
    line_log2: u32,
    /// Requests that found no miss register, in order, and when the first of them tries again if that is known.
    refused: VecDeque<Request>,
    refused_until: Cycle,
    /// By seat, whether the oldest store found none.
    refused_stores: Vec<bool>,
    /// By seat, when the oldest store tries next.
    drains_from: Vec<Cycle>,
    /// The seat whose store had the cache last.
    last: usize,
    /// When anything of that happens.
    pub(super) due: Cycle,
}

impl Port {
    pub(super) fn new(owns_lines: bool, line_bytes: u64, contexts: usize) -> Self {
        Self {
            owns_lines,
            line_log2: line_bytes.trailing_zeros(),
            refused: VecDeque::new(),
            refused_until: Cycle::NEVER,
            refused_stores: vec![false; contexts],
            drains_from: vec![Cycle::NEVER; contexts],
            last: contexts - 1,
            due: Cycle::NEVER,
        }
    }

    /// Shows `visitor` what there is while nothing waits.
    pub(super) fn shows_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            owns_lines: _,
            line_log2: _,
            refused,
            refused_until: _,
            refused_stores,
            drains_from,
            last,
            due,
        } = self;
        let drains = drains_from.iter().any(|&from| from != Cycle::NEVER);
        let waits = refused_stores.contains(&true) || !refused.is_empty();
        visitor.require(!drains && !waits && *due == Cycle::NEVER);
        visitor.value(*last as u64);
    }

    fn note_due(&mut self) {
        let drains = self.drains_from.iter().copied().min();
        self.due = drains.unwrap_or(Cycle::NEVER).min(self.refused_until);
    }

    /// A miss register is free: what was refused one tries again at `at`.
    pub(super) fn retry(&mut self, at: Cycle) {
        if !self.refused.is_empty() {
            self.refused_until = at;
        }
        for (refused, from) in self.refused_stores.iter_mut().zip(&mut self.drains_from) {
            if std::mem::take(refused) {
                *from = at;
            }
        }
        self.note_due();
    }

    fn drain_at(&mut self, seat: usize, at: Cycle) {
        self.drains_from[seat] = at;
        self.note_due();
    }

    /// The seat whose store has the cache now: those that are due in turn.
    fn next_to_drain(&self, now: Cycle) -> Option<usize> {
        let seats = self.drains_from.len();
        let turn = (1..=seats).map(|n| (self.last + n) % seats);
        turn.into_iter().find(|&seat| self.drains_from[seat] <= now)
    }
}

impl CoreState {
    /// Sends a fetch, a load or an atomic that missed the first level.
    #[inline]
    pub(super) fn ask<O: Observer>(
        &mut self,
        now: Cycle,
        request: Request,
        shared: &mut Shared<'_, O>,
    ) {
        self.quiet = false;
        if !self.port.owns_lines || request.kind == RequestKind::Device {
            return shared.memory.send(now, request);
        }
        if let Err(until) = shared.memory.miss(now, request) {
            if self.port.refused.is_empty() {
                self.port.refused_until = until;
            }
            self.port.refused.push_back(request);
            self.port.note_due();
            self.note_due();
        }
    }

    /// What found no miss register tries again, in order.
    fn ask_again<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        self.port.refused_until = Cycle::NEVER;
        while let Some(&request) = self.port.refused.front() {
            if let Err(until) = shared.memory.miss(now, request) {
                self.port.refused_until = until;
                break;
            }
            self.port.refused.pop_front();
        }
        self.port.note_due();
    }
}

impl Core {
    /// Stores drain, and what was refused tries again.
    #[cold]
    pub(super) fn use_port<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        if self.state.port.refused_until <= now {
            self.state.ask_again(now, shared);
        }
        if let Some(c) = self.state.port.next_to_drain(now) {
            self.state.port.last = c;
            self.contexts[c].drain_store(&mut self.state, now, shared);
            self.reschedule(c);
            for from in &mut self.state.port.drains_from {
                if *from <= now {
                    *from = now.after(1);
                    self.state.counters.store_port_wait_cycles += 1;
                }
            }
            self.state.port.note_due();
        }
    }
}

impl Context {
    /// A store has entered the buffer: it drains if it is the oldest.
    pub(super) fn drain_from(&mut self, core: &mut CoreState, at: Cycle) {
        let at = match self.stores.next() {
            Some(_) if core.port.refused_stores[self.seat] => core.port.drains_from[self.seat],
            Some(_) => at.min(core.port.drains_from[self.seat]),
            None => Cycle::NEVER,
        };
        core.port.drain_at(self.seat, at);
        core.note_due();
    }

    fn drain_store<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        core.port.refused_stores[self.seat] = false;
        core.port.drain_at(self.seat, Cycle::NEVER);
        let addr = self.stores.next().expect("a store that waits");
        if shared.memory.store(core.id, addr) {
            self.stores.send_next();
            self.perform_owned_store(core, now, shared);
            return;
        }
        let request = Request {
            kind: RequestKind::Own,
            core: core.id,
            context: self.id,
            addr,
            tag: OF_STORE,
        };
        match shared.memory.miss(now, request) {
            Ok(_) => {
                self.stores.send_next();
            }
            Err(until) => {
                core.port.refused_stores[self.seat] = true;
                core.port.drain_at(self.seat, until);
            }
        }
    }

    /// The oldest store performs, as the core owns its line, and leaves the buffer.
    pub(super) fn perform_owned_store<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let store = self.stores.perform();
        shared.perform_stores(self.seated(), store.parts(), now);
        self.stores.acknowledge();
        self.store_left(now);
        self.drain_from(core, now.after(1));
    }

    /// A store has left the buffer. Returns whether the context has waited for that.
    pub(super) fn store_left(&mut self, now: Cycle) -> bool {
        let satisfied = match self.waits {
            Waits::StoreEntry => true,
            Waits::Drain => self.stores.is_empty(),
            _ => false,
        };
        if satisfied {
            self.unblock(now);
        }
        satisfied
    }

    /// An atomic issues: it performs at once if the core has its line. `lr` only reads, so that whoever of several is
    /// granted its line first has its reservation still; an `sc` without one needs no line.
    pub(super) fn issue_owned_atomic<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        addr: PhysAddr,
        shared: &mut Shared<'_, O>,
    ) {
        let kind = match self.inst.op {
            Op::LrW | Op::LrD => RequestKind::Load,
            _ => RequestKind::Own,
        };
        let conditional = matches!(self.inst.op, Op::ScW | Op::ScD);
        let fails = conditional && !shared.machine.watches.is_held(self.seated(), addr);
        let has_line = fails
            || match kind {
                RequestKind::Load => shared.memory.load(now, core.id, addr),
                _ => shared.memory.store(core.id, addr),
            };
        if !has_line {
            return self.send(core, now, kind, addr, Slot::Atomic, shared);
        }
        if is_lock(self.inst.op) {
            shared.set_clock(self.seated(), now);
        }
        if self.run_now(core, now, shared) {
            let cycles = core.params.latency.atomic_cycles;
            self.pay(core, now, cycles, Slot::Atomic, false);
        }
    }

    /// The line of a load, or the second of two, that cannot be read now.
    pub(super) fn missing_line<O: Observer>(
        &self,
        core: &CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Option<PhysAddr> {
        let (DataAddr::At(first) | DataAddr::Split(first)) = self.data_addr else {
            return None;
        };
        if !shared.memory.load(now, core.id, first) {
            return Some(first);
        }
        let second = self.second_line(core, shared)?;
        (!shared.memory.load(now, core.id, second)).then_some(second)
    }

    /// Where the load in hand lies in a second line, if memory grants lines and it crosses their end.
    pub(super) fn second_line<O: Observer>(
        &self,
        core: &CoreState,
        shared: &mut Shared<'_, O>,
    ) -> Option<PhysAddr> {
        if !core.port.owns_lines {
            return None;
        }
        let (addr, width, access) = self.access(shared);
        match self.data_addr {
            DataAddr::At(first) => {
                let last = PhysAddr(first.0 + width.bytes() - 1);
                let log2 = core.port.line_log2;
                (first.block(log2) != last.block(log2)).then_some(last)
            }
            DataAddr::Split(_) => {
                let second = VirtAddr((addr.0 | (PAGE_BYTES - 1)).wrapping_add(1));
                let hart = &mut shared.harts[self.hart_index()];
                hart.locate(shared.machine, second, 1, access).ok()
            }
            DataAddr::Nowhere => None,
        }
    }
}
