//! What keeps a context that is due from issuing: its instruction line, an interrupt, an operand, a
//! busy unit, its store buffer.

use loiter_hart::{Access, Trap, access_width};
use loiter_isa::{Class, Inst, Op};
use loiter_memory::{Request, RequestKind};
use loiter_observe::{Activity, Doing, Slot};
use loiter_types::{Cycle, PAGE_BYTES, PhysAddr, VirtAddr};

use super::context::{Context, Waits, is_probe};
use super::core::{CoreState, Shared};
use super::store_buffer::Forward;
use crate::Observer;

impl Context {
    /// Whether this context, which is due, can issue now. If not, it has been stalled for what is in
    /// its way.
    #[inline(always)]
    pub(super) fn can_issue<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        if !self.fetched && !self.fetch(core, now, shared) {
            return false;
        }
        if core.stall_on_use {
            let (operands, inst) = (&self.operands, &self.inst);
            let at = operands[inst.rs1 as usize]
                .max(operands[inst.rs2 as usize])
                .max(operands[inst.rs3 as usize])
                .max(operands[inst.rd as usize]);
            if at > now {
                self.stall(now, at, Slot::Dependence);
                return false;
            }
        }
        let class = self.class;
        if matches!(class, Class::Alu | Class::Branch | Class::Jump) {
            return !(core.full_stops_thread && self.store_buffer_full(now));
        }
        let free = core.units.free_at(class, self.moves_fp());
        if free > now {
            self.stall(now, free, Slot::UnitBusy);
            return false;
        }
        if core.full_stops_thread && self.store_buffer_full(now) {
            return false;
        }
        match class {
            Class::Load => !self.load_waits(now, shared),
            Class::Store => !self.store_waits(now, shared),
            Class::Atomic => !self.must_drain(now),
            Class::Fence if orders_stores_before_loads(&self.inst) => !self.must_drain(now),
            _ => true,
        }
    }

    #[inline(always)]
    fn store_buffer_full(&mut self, now: Cycle) -> bool {
        let full = self.stores.is_full();
        if full {
            self.block(now, Waits::StoreEntry, Slot::StoreBuffer);
        }
        full
    }

    fn must_drain(&mut self, now: Cycle) -> bool {
        let waits = !self.stores.is_empty();
        if waits {
            self.block(now, Waits::Drain, Slot::StoreBuffer);
        }
        waits
    }

    /// A load waits when only part of its bytes are in the store buffer, or for a device, or when it
    /// reaches over the end of a page or raises an exception.
    fn load_waits<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> bool {
        if self.stores.is_empty() {
            return false;
        }
        let (Some(addr), Some(width)) = (self.data_address(shared), access_width(self.inst.op))
        else {
            return self.must_drain(now);
        };
        let partial = self.stores.forward(addr, width) == Forward::Partial;
        (partial || !shared.machine.is_ram(addr, width.bytes())) && self.must_drain(now)
    }

    /// A store waits for an entry of the store buffer, or until it is empty, likewise.
    fn store_waits<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> bool {
        if self.store_buffer_full(now) {
            return true;
        }
        let (Some(addr), Some(width)) = (self.data_address(shared), access_width(self.inst.op))
        else {
            return self.must_drain(now);
        };
        !shared.machine.is_ram(addr, width.bytes()) && self.must_drain(now)
    }

    /// Physical address of the data that its load, store or atomic moves; `None` when they lie in two
    /// pages, or it raises an exception.
    #[inline]
    pub(super) fn data_address<O: Observer>(&self, shared: &mut Shared<'_, O>) -> Option<PhysAddr> {
        let hart = &mut shared.harts[self.hart_index];
        let bytes = access_width(self.inst.op)?.bytes();
        let access = match (self.class, self.inst.op) {
            (Class::Load, _) | (_, Op::LrW | Op::LrD) => Access::Load,
            _ => Access::Store,
        };
        // The immediate of an atomic is zero.
        let base = hart.regs[self.inst.rs1 as usize];
        let addr = VirtAddr(base.wrapping_add(self.inst.imm as i64 as u64));
        if addr.leaves_page(bytes) {
            return None;
        }
        hart.translate(shared.machine, addr, bytes, access).ok()
    }

    /// A context that rested executes again, and a pending interrupt is taken. Answers whether one
    /// was.
    #[cold]
    fn interrupted<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let hart = &shared.harts[self.hart_index];
        if matches!(
            self.activity,
            Activity::Idle | Activity::Napping | Activity::Pausing
        ) {
            self.reconsider(now, hart, Doing::Executing);
        }
        self.check_interrupts = false;
        let interrupt = hart.pending_interrupt();
        if let Some(interrupt) = interrupt {
            self.trap(core, now, Trap::Interrupt(interrupt), shared);
        }
        interrupt.is_some()
    }

    /// Finds the next instruction of this context, behind any probes. Answers whether it is there.
    #[inline(always)]
    fn fetch<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        if self.check_interrupts && self.interrupted(core, now, shared) {
            return false;
        }
        let hart = &mut shared.harts[self.hart_index];
        let mut pc = hart.pc;
        let (first, last) = loop {
            let undecoded;
            let addr = match hart.translate(shared.machine, VirtAddr(pc), 2, Access::Fetch) {
                Ok(addr) => addr,
                Err(fault) => {
                    self.trap(core, now, fault, shared);
                    return false;
                }
            };
            let decoded = match shared.machine.pages.code_written() {
                true => None,
                false => shared.code.decoded(addr),
            };
            let inst = match decoded {
                Some(inst) => inst,
                None => match hart.fetch_at(pc, shared.machine, shared.code) {
                    Ok(inst) => {
                        undecoded = inst;
                        &undecoded
                    }
                    Err(fault) => {
                        self.trap(core, now, fault, shared);
                        return false;
                    }
                },
            };
            let after = pc + u64::from(inst.len);
            if !is_probe(inst) {
                self.class = inst.op.class();
                self.inst = *inst;
                // The second half of an instruction in two pages lies elsewhere.
                let last = match VirtAddr(pc).leaves_page(inst.len.into()) {
                    true => hart.translate(shared.machine, VirtAddr(pc + 2), 2, Access::Fetch),
                    false => Ok(addr),
                };
                break (addr, last.unwrap_or(addr));
            }
            self.probes = true;
            pc = after;
        };
        self.inst_pc = pc;
        let last_byte = pc + u64::from(self.inst.len) - 1;
        let line = self.fetch_line;
        let last = PhysAddr((last.0 & !(PAGE_BYTES - 1)) | last_byte & (PAGE_BYTES - 1));
        let log2 = core.fetch_line_log2;
        if !(first.block(log2) == line && last.block(log2) == line)
            && (self.line_arrives(core, now, first, shared)
                || self.line_arrives(core, now, last, shared))
        {
            return false;
        }
        self.fetched = true;
        true
    }

    /// Whether the instruction line of `addr` has to come from the second level first.
    fn line_arrives<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        addr: PhysAddr,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let line = addr.block(core.fetch_line_log2);
        if line == self.fetch_line {
            return false;
        }
        if shared.memory.fetch(core.id, addr) {
            self.fetch_line = line;
            return false;
        }
        let request = Request {
            kind: RequestKind::Fetch,
            core: core.id,
            context: self.id,
            addr,
        };
        shared.memory.send(now, request);
        self.block(now, Waits::Fetch, Slot::FetchMiss);
        true
    }
}

/// Whether a fence orders earlier stores (or device output) before later loads (or device input):
/// the only order that a store buffer in program order does not keep by itself.
fn orders_stores_before_loads(inst: &Inst) -> bool {
    const OUTPUT_OR_WRITE: i32 = 0b0101;
    const INPUT_OR_READ: i32 = 0b1010;
    match inst.op {
        Op::FenceTso => false,
        Op::Fence => {
            let (predecessor, successor) = (inst.imm >> 4 & 0xf, inst.imm & 0xf);
            predecessor & OUTPUT_OR_WRITE != 0 && successor & INPUT_OR_READ != 0
        }
        _ => true,
    }
}
