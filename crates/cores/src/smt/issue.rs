//! Issue: which instructions begin, what they come to, and when that can be used.
//!
//! A result is computed when its instruction issues, from operands that are there. The cycles of
//! register read between issue and execution are charged where they show: fetch is redirected, and an
//! instruction retires, that much later. A load reads memory in the cycle in which its access performs.

use loiter_hart::{Access, Operands, access_width, compute, extend};
use loiter_isa::{Class, Inst, Op, Width};
use loiter_machine::Machine;
use loiter_memory::{Request, RequestKind};
use loiter_types::{CoreId, Cycle, PhysAddr, VirtAddr};

use super::context::{Context, How, Progress};
use super::core::{Core, CoreState, Event, next_multiple};
use super::counters::Counted;
use super::lines::lines;
use super::params::SmtLatencyParams;
use super::registers::NONE;
use super::squash;
use crate::store_buffer::Forward;
use crate::{Observer, Shared};

impl Core {
    pub(super) fn issue<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        let before = self.state.counters.issued;
        if self.state.waits_clear_at <= now {
            let cycles = self.state.params.core.store_wait_clear_cycles;
            self.state.waits_clear_at = next_multiple(now, cycles);
            self.state.waits_for_stores.fill(false);
        }
        let units = &self.state.params.units;
        // What the hart runs has begun.
        let integer = units.integer.saturating_sub(self.state.synchronised);
        let fp = units.floating_point;
        if self.state.queues.has_ready(0) {
            self.issue_from(0, integer, now, shared);
        }
        let integer_issued = self.state.counters.issued - before;
        let histograms = &mut self.state.histograms;
        histograms.count(Counted::IntegerIssued, integer_issued, 1);
        if self.state.queues.has_ready(1) {
            self.issue_from(1, fp, now, shared);
        }
        let issued = self.state.counters.issued - before;
        self.state.counters.zero_issue_cycles += u64::from(issued == 0);
        self.state.histograms.count(Counted::Issued, issued, 1);
        self.state.active |= issued > 0;
    }

    /// Issues the oldest ready instructions of a queue, as far as there are units.
    fn issue_from<O: Observer>(
        &mut self,
        queue: usize,
        mut left: u64,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let CoreState { queues, ready, .. } = &mut self.state;
        queues.oldest_first(queue, ready);
        let units = &self.state.params.units;
        let mut accesses = units.load_store;
        let mut ports = self.state.ports.for_loads();
        for at in 0..self.state.ready.len() {
            if left == 0 {
                break;
            }
            let (seq, slot) = self.state.ready.get(at);
            let queued = self.state.queues.get(slot);
            // A store that issues may take back loads that were ready.
            if queued.seq != seq || !self.state.queues.is_ready(slot) {
                continue;
            }
            let (c, n) = (queued.context as usize, queued.n);
            let context = &mut self.contexts[c];
            let (class, purpose) = (context.entry(n).class, context.entry(n).purpose);
            let begins = match class {
                Class::Load => accesses > 0 && ports > 0 && context.load_may_issue(n, &self.state),
                Class::Store => accesses > 0,
                Class::Div => self.state.div_free <= now,
                Class::FpDiv | Class::FpSqrt => self.state.fp_div_free <= now,
                _ => true,
            };
            if !begins {
                continue;
            }
            left -= 1;
            accesses -= u64::from(matches!(class, Class::Load | Class::Store));
            ports -= u64::from(class == Class::Load);
            self.state.leave_queue(slot, queue, purpose);
            context.queued[queue] -= 1;
            self.state.counters.issued += 1;
            self.state.purposes[purpose as usize].integer_issued += u64::from(queue == 0);
            context.unissued -= 1;
            context.issue(c, n, &mut self.state, now, shared);
            if O::PIPELINE {
                context.tell_issued(&self.state, n, now, shared);
            }
            if class == Class::Load && self.state.params.latency.load_cycles == 1 {
                self.access(now, (c, n), shared);
            }
        }
    }
}

impl Core {
    /// Load `n` of context `c`, if it has its address, accesses the data cache.
    pub(super) fn access<O: Observer>(
        &mut self,
        now: Cycle,
        (c, n): (usize, u64),
        shared: &mut Shared<'_, O>,
    ) {
        let Core { state, contexts } = self;
        let context = &mut contexts[c];
        if context.entry(n).progress == Progress::Issued {
            context.access(c, n, state, now, shared);
            if O::PIPELINE {
                context.tell_accessed(state, n, now, shared);
            }
        }
    }
}

/// Reads RAM.
fn read(machine: &mut Machine, addr: PhysAddr, width: Width) -> u64 {
    machine.load(addr, width).expect("RAM was seen there")
}

impl Context {
    /// Whether a load may go now: no fence stands before it, nor an atomic that acquires; and if it was once
    /// ahead of a store that it should have waited for, no atomic does, and no store whose address is not known.
    fn load_may_issue(&self, n: u64, core: &CoreState) -> bool {
        let waits = core.waits_for_stores[wait_index(core, self.entry(n).pc)];
        let mut barriers = self.barriers.iter().take_while(|&barrier| barrier < n);
        if barriers.any(|barrier| waits || self.entry(barrier).how != How::Oldest) {
            return false;
        }
        !waits
            || self
                .stores
                .iter()
                .take_while(|&store| store < n)
                .all(|store| self.entry(store).progress == Progress::Done)
    }

    /// Issues instruction `n`, whose operands are there.
    fn issue<O: Observer>(
        &mut self,
        c: usize,
        n: u64,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        // Nothing else asks for it.
        let frm = match self.entry(n).class.is_fp() {
            true => shared.harts[self.hart_index].csr.frm(),
            false => 0,
        };
        let entry = self.entry_mut(n);
        let operands = Operands {
            sources: entry
                .sources
                .map(|source| core.registers.values[source as usize]),
            pc: entry.pc,
            frm,
        };
        entry.done = compute(&entry.inst, &operands);
        entry.virt = entry.done.value;
        let (class, inst, seq) = (entry.class, entry.inst, entry.seq);
        if !entry.done.complete {
            self.leave_to_hart(n, now);
            return;
        }
        let latency = &core.params.latency;
        match class {
            Class::Load => {
                entry.progress = Progress::Issued;
                if latency.load_cycles > 1 {
                    let at = now.after(latency.load_cycles - 1);
                    core.schedule(at, Event::Access, c, n, seq);
                }
                return;
            }
            Class::Store => {
                entry.data = operands.sources[1];
                self.issue_store(c, n, core, now, shared);
                return;
            }
            _ => {}
        }
        let cycles = match class {
            Class::Div => {
                let [dividend, divisor, _] = operands.sources;
                core.params.divide.cycles(inst.op, dividend, divisor)
            }
            _ => latency.cycles(class, &inst),
        };
        match class {
            Class::Div => core.div_free = now.after(cycles),
            Class::FpDiv | Class::FpSqrt => core.fp_div_free = now.after(cycles),
            _ => {}
        }
        let register_read = core.params.core.register_read_cycles;
        entry.progress = Progress::Done;
        entry.due = now.after(register_read + cycles);
        if entry.destination != NONE {
            core.registers.values[entry.destination as usize] = entry.done.value;
            if cycles == 1 {
                core.waking.push((c as u8, n, seq));
            } else {
                core.schedule(now.after(cycles), Event::Wake, c, n, seq);
            }
        }
        if entry.branch.is_some() && entry.done.next != entry.predicted {
            let at = now.after(register_read + cycles);
            core.schedule(at, Event::Redirect, c, n, seq);
        }
    }

    /// Load `n` accesses the data cache.
    pub(super) fn access<O: Observer>(
        &mut self,
        c: usize,
        n: u64,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        core.ports.load_accesses();
        if !self.data_translated(c, n, Access::Load, core, now, shared) {
            return;
        }
        let width = access_width(self.entry(n).inst.op).expect("a load has a width");
        let Some(addr) = self.locate(n, width, Access::Load, shared) else {
            self.leave_to_hart(n, now);
            return;
        };
        self.entry_mut(n).addr = addr;
        let (found, from) = self.forward(n, addr, width);
        if found == Forward::Partial {
            self.leave_to_hart(n, now);
            return;
        }
        let entry = self.entry_mut(n);
        entry.bytes = width.bytes();
        entry.data = from;
        if let Forward::Value(value) = found {
            core.modes[self.mode].forwarded_loads += 1;
            self.loaded(c, n, value, now.after(1), core);
        } else if let Some(missing) = self.other_line_missing(core, (addr, width), now, shared) {
            self.ask_for_line(c, n, missing, core, now, shared);
        } else if self.looks_up_data(core, |id| shared.memory.load(now, id, addr)) {
            let value = read(shared.machine, addr, width);
            self.loaded(c, n, value, now.after(1), core);
            core.purposes[self.entry(n).purpose as usize].load_lookups += 1;
        } else {
            self.ask_for_line(c, n, addr, core, now, shared);
        }
    }

    /// The address in the second of two lines of a load, if that line is not in the data cache and has to be.
    #[inline(always)]
    fn other_line_missing<O: Observer>(
        &self,
        core: &mut CoreState,
        (addr, width): (PhysAddr, Width),
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Option<PhysAddr> {
        let second = lines(addr, width.bytes(), core.data_line_log2).second()?;
        let second = PhysAddr(second << core.data_line_log2);
        let missing =
            core.owns_lines && !self.looks_up_data(core, |id| shared.memory.load(now, id, second));
        missing.then_some(second)
    }

    /// Load `n` misses: requests the line of `addr`.
    fn ask_for_line<O: Observer>(
        &mut self,
        c: usize,
        n: u64,
        addr: PhysAddr,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let seq = self.entry(n).seq;
        let request = Request {
            kind: RequestKind::Load,
            core: core.id,
            context: self.id,
            addr,
            tag: seq,
        };
        let asked = shared.memory.miss(now, request);
        core.modes[self.mode].count_data_miss(&asked);
        match asked {
            Ok(missed) => {
                let counters = &mut core.purposes[self.entry(n).purpose as usize];
                counters.load_lookups += 1;
                counters.load_misses += 1;
                self.entry_mut(n).progress = Progress::Missing(missed.level);
            }
            Err(until) => {
                // Until then it has not read, and stores find nothing to hold against it.
                self.entry_mut(n).bytes = 0;
                if until == Cycle::NEVER {
                    core.refused_loads.push((c, n, seq));
                } else {
                    core.schedule(until, Event::Access, c, n, seq);
                }
            }
        }
    }

    /// Looks up the data cache, and counts that. Returns whether it hit.
    #[inline(always)]
    pub(super) fn looks_up_data(
        &self,
        core: &mut CoreState,
        look_up: impl FnOnce(CoreId) -> bool,
    ) -> bool {
        if self.bypasses_caches(core) {
            return true;
        }
        let hit = look_up(core.id);
        let counters = &mut core.modes[self.mode];
        counters.l1d_accesses += 1;
        counters.l1d_misses += u64::from(!hit);
        hit
    }

    /// The hart runs it when it is the oldest.
    fn leave_to_hart(&mut self, n: u64, now: Cycle) {
        let entry = self.entry_mut(n);
        entry.how = How::Oldest;
        entry.progress = Progress::Done;
        entry.due = now.after(1);
        entry.bytes = 0;
    }

    /// Where the data of load or store `n` lie, if that is in one page of RAM that it may access.
    fn locate<O: Observer>(
        &mut self,
        n: u64,
        width: Width,
        access: Access,
        shared: &mut Shared<'_, O>,
    ) -> Option<PhysAddr> {
        let addr = VirtAddr(self.entry(n).virt);
        if addr.leaves_page(width.bytes()) {
            return None;
        }
        let hart = &mut shared.harts[self.hart_index];
        let found = hart.locate(shared.machine, addr, width.bytes(), access);
        let found = found.ok()?;
        shared.machine.is_ram(found, width.bytes()).then_some(found)
    }

    /// What a load finds among the older stores of its context, and after which of them it has to
    /// stay: the number of the store it has its value from, plus one.
    fn forward(&self, n: u64, addr: PhysAddr, width: Width) -> (Forward, u64) {
        let end = addr.0 + width.bytes();
        for store in self.stores.iter().rev() {
            if store >= n {
                continue;
            }
            let entry = self.entry(store);
            let store_end = entry.addr.0 + entry.bytes;
            if entry.bytes == 0 || store_end <= addr.0 || end <= entry.addr.0 {
                continue;
            }
            if entry.addr.0 > addr.0 || end > store_end {
                return (Forward::Partial, 0);
            }
            let value = entry.data >> (8 * (addr.0 - entry.addr.0));
            return (Forward::Value(low(value, width)), store + 1);
        }
        (self.buffer.forward(addr, width), 0)
    }

    /// A load has its bytes; what needs its result can issue in cycle `at`.
    pub(super) fn loaded(&mut self, c: usize, n: u64, bytes: u64, at: Cycle, core: &mut CoreState) {
        let entry = self.entry(n);
        self.lines_read |= lines(entry.addr, entry.bytes, core.data_line_log2).bits();
        let register_read = core.params.core.register_read_cycles;
        let entry = self.entry_mut(n);
        entry.done.value = extend(&entry.inst, bytes);
        entry.progress = Progress::Done;
        entry.due = at.after(register_read);
        let seq = entry.seq;
        if entry.destination != NONE {
            core.registers.values[entry.destination as usize] = entry.done.value;
            core.schedule(at, Event::Wake, c, n, seq);
        }
    }

    /// The line of a load is there: it reads now, if it is still wanted.
    pub(super) fn line_arrives<O: Observer>(
        &mut self,
        c: usize,
        seq: u64,
        at: Cycle,
        core: &mut CoreState,
        shared: &mut Shared<'_, O>,
    ) {
        let Some(n) = self.loads.iter().find(|&n| self.entry(n).seq == seq) else {
            return;
        };
        let entry = self.entry(n);
        if !matches!(entry.progress, Progress::Missing(_)) {
            return;
        }
        let (addr, op) = (entry.addr, entry.inst.op);
        let width = access_width(op).expect("a load has a width");
        if core.owns_lines
            && lines(addr, width.bytes(), core.data_line_log2)
                .second()
                .is_some()
        {
            // Both lines have to be there in the cycle in which it reads.
            let entry = self.entry_mut(n);
            entry.bytes = 0;
            entry.progress = Progress::Issued;
            core.schedule(at, Event::Access, c, n, seq);
            return;
        }
        let value = read(shared.machine, addr, width);
        self.loaded(c, n, value, at, core);
    }

    /// The address and value of store `n` are there.
    pub(super) fn issue_store<O: Observer>(
        &mut self,
        c: usize,
        n: u64,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        if !self.data_translated(c, n, Access::Store, core, now, shared) {
            return;
        }
        let op = self.entry(n).inst.op;
        let illegal = op == Op::LockRelease && !shared.harts[self.hart_index].csr.has_locks();
        let width = access_width(op).expect("a store has a width");
        let located = match illegal {
            true => None,
            false => self.locate(n, width, Access::Store, shared),
        };
        let Some(addr) = located else {
            self.leave_to_hart(n, now);
            return;
        };
        let due = now.after(core.params.core.register_read_cycles + 1);
        let entry = self.entry_mut(n);
        entry.addr = addr;
        entry.bytes = width.bytes();
        entry.progress = Progress::Done;
        entry.due = due;
        self.squash_violations(c, n, (addr, width.bytes()), core, now);
    }

    /// Squashes from the first load on that is after `n` and has read, or is about to read, one of the bytes that
    /// `n` has stored, or has from an older store.
    pub(super) fn squash_violations(
        &mut self,
        c: usize,
        n: u64,
        (addr, bytes): (PhysAddr, u64),
        core: &mut CoreState,
        now: Cycle,
    ) {
        let end = addr.0 + bytes;
        let violated = self.loads.iter().find(|&load| {
            let entry = self.entry(load);
            load > n
                && entry.bytes > 0
                && entry.data <= n
                && addr.0 < entry.addr.0 + entry.bytes
                && entry.addr.0 < end
        });
        if let Some(load) = violated {
            core.modes[self.mode].order_violations += 1;
            let pc = self.entry(load).pc;
            let index = wait_index(core, pc);
            core.waits_for_stores[index] = true;
            squash::from_and_recover(self, core, c, load);
            self.fetch_at(pc, now.after(1), loiter_observe::Slot::Branch);
        }
    }
}

/// The bit that makes the load at `pc` wait for older stores.
fn wait_index(core: &CoreState, pc: u64) -> usize {
    (pc >> 1) as usize & (core.waits_for_stores.len() - 1)
}

/// The low `width` bytes.
fn low(value: u64, width: Width) -> u64 {
    match width {
        Width::B => value & 0xff,
        Width::H => value & 0xffff,
        Width::W => value & 0xffff_ffff,
        Width::D | Width::Q => value,
    }
}

impl SmtLatencyParams {
    /// From issue to issue of one that uses the result, of what takes the same time always.
    #[inline(always)]
    fn cycles(&self, class: Class, inst: &Inst) -> u64 {
        match class {
            Class::Mul => self.mul_cycles,
            Class::FpAdd => self.fp_add_cycles,
            Class::FpMul => self.fp_mul_cycles,
            Class::FpFma => self.fp_fma_cycles,
            Class::FpMove => self.fp_move_cycles,
            Class::FpDiv if is_double(inst.op) => self.fp_div_double_cycles,
            Class::FpDiv => self.fp_div_single_cycles,
            Class::FpSqrt if is_double(inst.op) => self.fp_sqrt_double_cycles,
            Class::FpSqrt => self.fp_sqrt_single_cycles,
            _ => self.alu_cycles,
        }
    }
}

fn is_double(op: Op) -> bool {
    matches!(op, Op::FdivD | Op::FsqrtD)
}
