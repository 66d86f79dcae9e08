//! What keeps a context that is due from issuing: its instruction line, an interrupt, an operand, a
//! busy unit, its store buffer.

use loiter_hart::{Trap, access_width};
use loiter_isa::{Class, Inst, Op};
use loiter_memory::{Request, RequestKind};
use loiter_observe::{Activity, Doing, Observer, Slot};
use loiter_types::{Cycle, HartId, PhysAddr, VirtAddr};

use super::context::{Waits, is_probe};
use super::core::{Core, Shared};
use super::store_buffer::Forward;
use super::units::ChipFpu;

impl Core {
    /// Whether context `c`, which is due, can issue now. If not, it has been stalled for what is in
    /// its way.
    #[inline]
    pub(super) fn can_issue<O: Observer>(
        &mut self,
        c: usize,
        now: Cycle,
        fpu: &ChipFpu,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        if !self.contexts[c].fetched && !self.fetch(c, now, shared) {
            return false;
        }
        let context = &mut self.contexts[c];
        let inst = context.inst;
        if self.stall_on_use {
            let operands = &context.operands;
            let at = operands[inst.rs1 as usize]
                .max(operands[inst.rs2 as usize])
                .max(operands[inst.rs3 as usize])
                .max(operands[inst.rd as usize]);
            if at > now {
                context.stall(now, at, Slot::Dependence);
                return false;
            }
        }
        let class = inst.op.class();
        if class == Class::Alu {
            return !(self.full_stops_thread && self.store_buffer_full(c, now));
        }
        let moves_fp = inst.rd >= 32 && inst.rd < 64 || inst.rs2 >= 32;
        let free = self.units.free_at(class, moves_fp, fpu);
        if free > now {
            self.contexts[c].stall(now, free, Slot::UnitBusy);
            return false;
        }
        if self.full_stops_thread && self.store_buffer_full(c, now) {
            return false;
        }
        match class {
            Class::Load => !self.load_waits(c, now, &inst, shared),
            Class::Store => !self.store_waits(c, now, &inst, shared),
            Class::Atomic => !self.must_drain(c, now),
            Class::Fence if orders_stores_before_loads(&inst) => !self.must_drain(c, now),
            _ => true,
        }
    }

    fn store_buffer_full(&mut self, c: usize, now: Cycle) -> bool {
        let full = self.contexts[c].stores.is_full();
        if full {
            self.contexts[c].block(now, Waits::StoreEntry, Slot::StoreBuffer);
        }
        full
    }

    fn must_drain(&mut self, c: usize, now: Cycle) -> bool {
        let waits = !self.contexts[c].stores.is_empty();
        if waits {
            self.contexts[c].block(now, Waits::Drain, Slot::StoreBuffer);
        }
        waits
    }

    /// A load waits when only part of its bytes are in the store buffer, or for a device.
    fn load_waits<O: Observer>(
        &mut self,
        c: usize,
        now: Cycle,
        inst: &Inst,
        shared: &Shared<'_, O>,
    ) -> bool {
        if self.contexts[c].stores.is_empty() {
            return false;
        }
        let Some(addr) = self.data_address(c, inst, shared) else {
            return false;
        };
        let Some(width) = access_width(inst.op) else {
            return false;
        };
        let partial = self.contexts[c].stores.forward(addr, width) == Forward::Partial;
        (partial || !shared.machine.is_ram(addr, width.bytes())) && self.must_drain(c, now)
    }

    /// A store waits for an entry of the store buffer, or, to a device, until it is empty.
    fn store_waits<O: Observer>(
        &mut self,
        c: usize,
        now: Cycle,
        inst: &Inst,
        shared: &Shared<'_, O>,
    ) -> bool {
        if self.store_buffer_full(c, now) {
            return true;
        }
        let (Some(addr), Some(width)) =
            (self.data_address(c, inst, shared), access_width(inst.op))
        else {
            return false;
        };
        !shared.machine.is_ram(addr, width.bytes()) && self.must_drain(c, now)
    }

    /// Physical address of the data that context `c`'s load or store moves.
    #[inline]
    pub(super) fn data_address<O: Observer>(
        &self,
        c: usize,
        inst: &Inst,
        shared: &Shared<'_, O>,
    ) -> Option<PhysAddr> {
        let hart = &shared.harts[self.hart(c).index()];
        let addr = hart.regs[inst.rs1 as usize].wrapping_add(inst.imm as i64 as u64);
        hart.translate_data(VirtAddr(addr)).ok()
    }

    /// The hart in context `c`.
    #[inline(always)]
    pub(super) fn hart(&self, c: usize) -> HartId {
        self.contexts[c].hart.expect("a context that is due has a hart")
    }

    /// Finds the next instruction of context `c`, behind any probes. Answers whether it is there.
    fn fetch<O: Observer>(&mut self, c: usize, now: Cycle, shared: &mut Shared<'_, O>) -> bool {
        let id = self.hart(c);
        let hart = &shared.harts[id.index()];
        let context = &mut self.contexts[c];
        if matches!(
            context.activity,
            Activity::Idle | Activity::Napping | Activity::Pausing
        ) {
            context.reconsider(now, hart, Doing::Executing);
        }
        if context.check_interrupts {
            context.check_interrupts = false;
            if let Some(interrupt) = hart.pending_interrupt() {
                self.trap(c, now, Trap::Interrupt(interrupt), shared);
                return false;
            }
        }
        let mut pc = hart.pc;
        loop {
            let inst = match hart.translate_fetch(VirtAddr(pc)) {
                Ok(addr) => shared.code.fetch(shared.machine, addr),
                Err(_) => None,
            };
            let Some(inst) = inst else {
                let fault = hart.fetch_fault();
                self.trap(c, now, fault, shared);
                return false;
            };
            if !is_probe(&inst) {
                context.inst = inst;
                break;
            }
            context.probes = true;
            pc += u64::from(inst.len);
        }
        context.inst_pc = pc;
        let last_byte = pc + u64::from(context.inst.len) - 1;
        if self.line_arrives(c, now, pc, shared) || self.line_arrives(c, now, last_byte, shared) {
            return false;
        }
        self.contexts[c].fetched = true;
        true
    }

    /// Whether the instruction line of `pc` has to come from the second level first.
    #[inline]
    fn line_arrives<O: Observer>(
        &mut self,
        c: usize,
        now: Cycle,
        pc: u64,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let addr = PhysAddr(pc);
        let line = shared.memory.fetch_line(addr);
        let context = &mut self.contexts[c];
        if line == context.fetch_line {
            return false;
        }
        if shared.memory.fetch(self.id, addr) {
            context.fetch_line = line;
            return false;
        }
        let request = Request {
            kind: RequestKind::Fetch,
            core: self.id,
            context: context.id,
            addr,
        };
        shared.memory.send(now, request);
        context.block(now, Waits::Fetch, Slot::FetchMiss);
        true
    }
}

/// Whether a fence orders earlier stores (or device output) before later loads (or device input):
/// the only order that a store buffer in program order does not keep by itself.
fn orders_stores_before_loads(inst: &Inst) -> bool {
    const OUTPUT_OR_WRITE: i32 = 0b0101;
    const INPUT_OR_READ: i32 = 0b1010;
    match inst.op {
        Op::Fence => {
            let (predecessor, successor) = (inst.imm >> 4 & 0xf, inst.imm & 0xf);
            predecessor & OUTPUT_OR_WRITE != 0 && successor & INPUT_OR_READ != 0
        }
        _ => true,
    }
}
