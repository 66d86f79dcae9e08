//! Retirement: in order, precise, and where the hart itself runs what only it can.

use loiter_hart::{Access, Accessed, Trap, access_width};
use loiter_isa::Class;
use loiter_memory::{Request, RequestKind};
use loiter_observe::{Doing, Slot};
use loiter_types::{AddressSpace, Cycle, PhysAddr, VirtAddr};
use serde::{Deserialize, Serialize};

use super::context::{Context, Fetch, How, Oldest, Progress};
use super::core::{Core, CoreState, PerformedStore};
use super::registers::{File, NONE};
use super::squash;
use crate::shared::Before;
use crate::wait::Wakes;
use crate::walker::Granted;
use crate::{Observer, PipelineStep, Shared};

/// What came of looking at the oldest instruction.
#[derive(PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Oldness {
    /// It retired.
    Retired,
    /// It was of a handler that the hart does not see, and is through.
    Passed,
    /// It cannot yet.
    Waits,
    /// It is gone: a trap was entered, or it is fetched again.
    Gone,
}

impl Core {
    /// Retires what is done, in order, from the contexts in turn.
    pub(super) fn retire<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        let mut left = self.state.params.core.retire_width;
        for c in self.state.awake.from(self.state.turn) {
            let Core { state, contexts } = self;
            let context = &mut contexts[c];
            if context.hart.is_none() {
                continue;
            }
            if context.nap_until <= now {
                context.nap_ends(now, state, shared);
            }
            if context.check_interrupts && context.interrupt(c, state, now, shared) {
                continue;
            }
            while left > 0 && context.head < context.renamed {
                let oldness = context.retire_oldest(c, state, now, shared);
                if !matches!(oldness, Oldness::Retired | Oldness::Passed) {
                    break;
                }
                left -= 1;
                context.retired_now |= oldness == Oldness::Retired;
                if O::PIPELINE {
                    let n = context.head - 1;
                    context.tell(state, n, (now, now), PipelineStep::Retired, shared);
                }
                if O::ACTIVE && shared.observer.holds() {
                    break;
                }
            }
        }
        self.state.active |= left < self.state.params.core.retire_width;
    }

    /// The oldest store of each context performs if the core owns its line, and else asks for it.
    pub(super) fn drain_stores<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        for c in self.state.awake.from(self.state.ports.first_to_drain()) {
            let context = &mut self.contexts[c];
            if context.buffer.is_empty() || context.drain_from > now {
                continue;
            }
            let ahead = context.next_ahead(&self.state);
            if context.owning && ahead.is_none() {
                continue;
            }
            self.state.active = true;
            if self.state.ports.store_accesses(c) {
                match ahead {
                    Some(addr) if context.owning => {
                        context.own_ahead(addr, &self.state, now, shared);
                    }
                    _ => context.drain_store(&mut self.state, now, shared),
                }
            } else {
                self.state.counters.store_port_wait_cycles += 1;
            }
        }
        self.state.ports.end_drain();
    }
}

impl Context {
    fn drain_store<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let addr = self.buffer.next().expect("a store that waits");
        if self.looks_up_data(core, |id| shared.memory.store(id, addr)) {
            self.buffer.send_next();
            self.perform_store(core, now, shared);
            return;
        }
        let request = Request {
            kind: RequestKind::Own,
            core: core.id,
            context: self.id,
            addr,
            tag: 0,
        };
        let asked = shared.memory.miss(now, request);
        core.modes[self.mode].count_data_miss(&asked);
        match asked {
            Ok(_) => {
                self.buffer.send_next();
                self.owning = true;
            }
            Err(until) => self.drain_from = until,
        }
    }

    /// Where the first store goes whose line can be requested while the oldest waits for its own.
    fn next_ahead(&self, core: &CoreState) -> Option<PhysAddr> {
        match self.owning_ahead + 1 < core.params.core.store_owns && core.owns_lines {
            true => self.buffer.nth(self.seen_ahead + 1),
            false => None,
        }
    }

    /// Asks for the line of a store that waits for others, if the core does not own it.
    fn own_ahead<O: Observer>(
        &mut self,
        addr: PhysAddr,
        core: &CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let before = self
            .buffer
            .nth(self.seen_ahead)
            .expect("it follows another");
        let line = |addr: PhysAddr| addr.block(core.data_line_log2);
        if line(before) != line(addr) && !shared.memory.may_write(core.id, addr) {
            let request = Request {
                kind: RequestKind::OwnAhead,
                core: core.id,
                context: self.id,
                addr,
                tag: 0,
            };
            match shared.memory.miss(now, request) {
                Ok(_) => self.owning_ahead += 1,
                Err(until) => {
                    self.drain_from = until;
                    return;
                }
            }
        }
        self.seen_ahead += 1;
    }

    /// The oldest buffered store performs: its value is in memory from now on.
    pub(super) fn perform_store<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        core.changes += 1;
        let hart = self.seated();
        let store = self.buffer.perform();
        shared.perform_stores(hart, store.parts(), now);
        self.buffer.acknowledge();
        self.owning = false;
        self.seen_ahead = self.seen_ahead.saturating_sub(1);
        self.fenced &= !self.buffer.is_empty();
        core.performed.push(PerformedStore {
            hart,
            addr: store.addr,
            bytes: store.bytes,
            owned: core.owns_lines,
        });
    }

    /// Takes a pending interrupt, if the oldest instruction is not in the middle of an access. Returns
    /// whether it did.
    fn interrupt<O: Observer>(
        &mut self,
        c: usize,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let sleeps = matches!(self.fetch, Fetch::Asleep(_)) || self.awake_from > now;
        if self.oldest != Oldest::Idle || sleeps {
            return false;
        }
        self.check_interrupts = false;
        let interrupt = shared.harts[self.hart_index].pending_interrupt();
        if let Some(interrupt) = interrupt {
            self.trap(c, core, now, Trap::Interrupt(interrupt), shared);
        }
        interrupt.is_some()
    }

    fn retire_oldest<O: Observer>(
        &mut self,
        c: usize,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Oldness {
        let n = self.head;
        let entry = self.entry(n);
        if entry.progress != Progress::Done || entry.due > now {
            return Oldness::Waits;
        }
        let pc = entry.pc;
        if entry.how == How::Handler {
            self.retire_handler(core);
            return Oldness::Passed;
        }
        if entry.how != How::Apart {
            return self.run_oldest(c, core, now, shared);
        }
        if entry.stale {
            core.modes[self.mode].replayed_loads += 1;
            self.fetch_again(c, core, now, pc);
            return Oldness::Gone;
        }
        let class = entry.class;
        if class == Class::Store && self.buffer.is_full() {
            return Oldness::Waits;
        }
        if shared.harts[self.hart_index].pc != pc {
            self.pass_probes(n, core, now, shared);
        }
        if let Some(trap) = self.mark_pages(n, shared) {
            self.trap(c, core, now, trap, shared);
            return Oldness::Gone;
        }
        match class {
            Class::Load => core.modes[self.mode].loads += 1,
            Class::Store => {
                core.changes += 1;
                core.modes[self.mode].stores += 1;
                let entry = self.entry(n);
                let width = access_width(entry.inst.op).expect("a store has a width");
                self.buffer.push(entry.addr, width, entry.data);
                core.active = true;
            }
            Class::Fence => {
                let inst = &self.entry(n).inst;
                self.fenced |= inst.orders_stores() && !self.buffer.is_empty();
            }
            Class::Mul => core.modes[self.mode].multiplies += 1,
            Class::Div => core.modes[self.mode].divides += 1,
            class => core.modes[self.mode].fp_operations += u64::from(class.is_fp()),
        }
        let entry = self.entry(n);
        let hart = &mut shared.harts[self.hart_index];
        let before = Before::of(hart, &entry.inst);
        hart.retire(&entry.inst, &entry.done);
        if let Some(branch) = entry.branch {
            let (next, taken) = (entry.done.next, entry.is_taken(branch));
            core.predictors
                .train(c, pc, branch, self.prediction(n), taken, next);
        }
        let access = match class {
            Class::Load | Class::Store => Accessed::Apart(entry.addr),
            _ => Accessed::Now,
        };
        shared.tell_retired(self.hart_index, &entry.inst, &before, access, now);
        self.leave(core);
        Oldness::Retired
    }

    /// What the walk of an access that retires has to mark in page tables is marked now. Returns the
    /// trap when its page is not granted any more.
    fn mark_pages<O: Observer>(&mut self, n: u64, shared: &mut Shared<'_, O>) -> Option<Trap> {
        if self.fetch_space == AddressSpace::PHYSICAL && self.data_space == AddressSpace::PHYSICAL {
            return None;
        }
        let entry = self.entry(n);
        let hart = &mut shared.harts[self.hart_index];
        let fetched = hart.translate(shared.machine, VirtAddr(entry.pc), 2, Access::Fetch);
        if let Err(trap) = fetched {
            return Some(trap);
        }
        let access = match entry.class {
            Class::Load => Access::Load,
            Class::Store => Access::Store,
            _ => return None,
        };
        let addr = VirtAddr(entry.virt);
        hart.translate(shared.machine, addr, entry.bytes, access)
            .err()
    }

    /// The oldest instruction leaves: the register that its destination stood for is nobody's.
    #[inline(always)]
    pub(super) fn leave(&mut self, core: &mut CoreState) {
        let n = self.head;
        core.modes[self.mode].retired += 1;
        core.retired_now += 1;
        if n == self.opens_at {
            self.settle_interval(core);
        }
        self.accounts.retired();
        let entry = self.entry(n);
        let (replaced, rd) = (entry.replaced, entry.inst.rd);
        let (class, barrier) = (entry.class, entry.is_barrier());
        if entry.destination != NONE && replaced != NONE {
            core.registers.release(replaced);
            self.renamings[File::of(rd) as usize] -= 1;
        }
        match class {
            Class::Load => {
                self.loads.retire(n);
                if self.loads.is_empty() {
                    self.lines_read = 0;
                }
            }
            Class::Store => self.stores.retire(n),
            _ => {}
        }
        if barrier {
            self.barriers.retire(n);
        }
        self.oracle_retires();
        self.head += 1;
        self.oldest_granted = Granted::NOTHING;
    }

    /// All instructions from the oldest on are fetched again.
    pub(super) fn fetch_again(&mut self, c: usize, core: &mut CoreState, now: Cycle, pc: u64) {
        squash::from_and_recover(self, core, c, self.head);
        self.fetch_at(pc, now.after(1), Slot::Branch);
    }

    /// The cycle has come in which the nap ends.
    fn nap_ends<O: Observer>(&mut self, now: Cycle, core: &mut CoreState, shared: &Shared<'_, O>) {
        self.nap_until = Cycle::NEVER;
        if let Fetch::Asleep(sleep) = self.fetch {
            let by = match sleep.limit <= now {
                true => Wakes::Limit,
                false => Wakes::Store,
            };
            self.wake_up(sleep, by, now, core, shared);
        }
    }

    /// Enters a trap: nothing that was fetched remains.
    #[cold]
    pub(super) fn trap<O: Observer>(
        &mut self,
        c: usize,
        core: &mut CoreState,
        now: Cycle,
        trap: Trap,
        shared: &mut Shared<'_, O>,
    ) {
        squash::from_and_recover(self, core, c, self.head);
        core.changes += 1;
        core.modes[self.mode].traps += 1;
        core.modes[self.mode].environment_calls += u64::from(trap.is_asked_for());
        core.active = true;
        shared.enter_trap(self.hart_index, trap, now);
        let hart = &shared.harts[self.hart_index];
        let from = now.after(core.params.latency.trap_cycles);
        self.fetch_at(hart.pc, from, Slot::TrapEntry);
        self.check_interrupts = true;
        self.course.traps(matches!(trap, Trap::Interrupt(_)));
        self.reconsider(now, hart, Doing::Executing);
    }

    /// Tells the observer of the probes before instruction `n`, which retires.
    #[cold]
    pub(super) fn pass_probes<O: Observer>(
        &mut self,
        n: u64,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let (pc, changes) = (self.entry(n).pc, &mut core.changes);
        let spinning = shared.pass_probes(self.hart_index, pc, now, changes);
        if let Some(spinning) = spinning {
            self.course.acquires(spinning);
        }
    }
}
