//! What each shape of instruction does to a hart: the one implementation for all engines.

use loiter_isa::csr::number::STIMECMP;
use loiter_isa::{
    CsrOperand, Executor, FpContext, Inst, RoundingMode, SINK, System, Width, dispatch,
};
use loiter_machine::{AccessFault, Machine};
use loiter_types::{HartId, PAGE_BYTES, PhysAddr, VirtAddr};

use crate::csr::Privilege;
use crate::hart::Hart;
use crate::translate::Access;
use crate::trap::{Cause, Trap};

/// Where loads and stores go, now. The reference engine's port is the machine itself; a timing core's
/// port stands between hart and machine with the core's store buffer.
pub trait DataPort {
    /// Reads; zero-extended.
    ///
    /// # Errors
    /// Nothing answers there.
    fn load(&mut self, hart: HartId, addr: PhysAddr, width: Width) -> Result<u64, AccessFault>;

    /// Writes the low `width` bytes of `value`.
    ///
    /// # Errors
    /// Nothing answers there.
    fn store(
        &mut self,
        hart: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault>;

    /// Writes as part of an atomic, whose read came just before: never buffered.
    ///
    /// # Errors
    /// Nothing answers there.
    fn store_atomic(
        &mut self,
        hart: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault> {
        self.store(hart, addr, width, value)
    }

    /// The machine: page tables, the watches that reservations live in, timers.
    fn machine(&mut self) -> &mut Machine;
}

/// How a hart sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Nap {
    /// `wfi`: until an interrupt pends.
    Wfi,
    /// `wrs.nto`: until the watched line is lost or an interrupt pends.
    WrsNto,
    /// `wrs.sto`: the same, or a short time has passed.
    WrsSto,
}

/// What an instruction asks of the engine after it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Nothing; the pc stands at the next instruction.
    Next,
    /// Nothing; it retired and the pc stands elsewhere: a taken branch or a jump.
    Jump,
    /// It did not run: hot executors leave CSR and system instructions to a full one.
    Full,
    /// It did not run and raised this.
    Trap(Trap),
    /// It retired and changed what interrupts can be taken.
    Interrupts,
    /// It retired; decoded instructions may be stale.
    FenceI,
    /// It retired; the context should yield for a moment.
    Pause,
    /// It retired; the hart wants to sleep.
    Nap(Nap),
    /// A probe passed with this code and value; it is no instruction.
    Probe(u16, u64),
}

/// Runs instructions on one hart. `FULL` executors run every instruction; the others answer
/// [`Flow::Full`] for those that need exact counters or change privileged state, and for accesses
/// that their port refuses, which keeps all of that out of the hot loop.
///
/// `LENGTH` is that of the instructions it runs, if that is known, else 0. A pc that moves by a constant
/// does not wait for the record of the instruction; with a branch on the length before, the processor
/// that runs this predicts where the next record lies.
pub struct Exec<'a, P, const FULL: bool, const LENGTH: u64 = 0> {
    /// The hart.
    pub hart: &'a mut Hart,
    /// Where its loads and stores go.
    pub port: &'a mut P,
    /// Its pc while this executor lives; [`Exec::finish`] puts it back.
    pub pc: u64,
}

impl<'a, P: DataPort, const FULL: bool> Exec<'a, P, FULL> {
    /// An executor at the hart's pc.
    #[inline(always)]
    pub fn new(hart: &'a mut Hart, port: &'a mut P) -> Self {
        let pc = hart.pc;
        Self { hart, port, pc }
    }

    /// Puts the pc back into the hart.
    #[inline(always)]
    pub fn finish(self) {
        self.hart.pc = self.pc;
    }

    /// Runs `i` by one of two copies of all semantics: that for its length.
    #[inline(always)]
    pub(crate) fn run_by_length(&mut self, i: &Inst) -> Flow {
        if i.len == 2 {
            self.run_sized::<2>(i)
        } else {
            self.run_sized::<4>(i)
        }
    }

    #[inline(always)]
    fn run_sized<const LENGTH: u64>(&mut self, i: &Inst) -> Flow {
        let mut sized = Exec::<P, FULL, LENGTH> {
            hart: self.hart,
            port: self.port,
            pc: self.pc,
        };
        let flow = dispatch(&mut sized, i);
        self.pc = sized.pc;
        flow
    }
}

impl<P: DataPort, const FULL: bool, const LENGTH: u64> Exec<'_, P, FULL, LENGTH> {
    #[inline(always)]
    fn length(i: &Inst) -> u64 {
        if LENGTH == 0 { i.len.into() } else { LENGTH }
    }

    #[inline(always)]
    fn reg(&self, slot: u8) -> u64 {
        self.hart.regs[slot as usize]
    }

    #[inline(always)]
    fn next(&mut self, i: &Inst) -> Flow {
        self.pc = self.pc.wrapping_add(Self::length(i));
        Flow::Next
    }

    #[inline(always)]
    fn write_and_next(&mut self, i: &Inst, value: u64) -> Flow {
        self.hart.write(i.rd, value);
        self.next(i)
    }

    #[inline(always)]
    fn data_address(&self, i: &Inst) -> u64 {
        self.reg(i.rs1).wrapping_add(i.imm as i64 as u64)
    }

    /// The flow of a trap, for full executors; the others leave the instruction to one.
    #[inline(always)]
    fn trap(trap: impl FnOnce() -> Trap) -> Flow {
        if FULL { Flow::Trap(trap()) } else { Flow::Full }
    }

    /// Translates an access that lies in one page.
    #[inline(always)]
    fn translate(&mut self, addr: u64, width: Width, access: Access) -> Result<PhysAddr, Flow> {
        if FULL {
            let bytes = width.bytes();
            self.hart
                .translate(self.port.machine(), VirtAddr(addr), bytes, access)
                .map_err(Flow::Trap)
        } else {
            let found = match access {
                Access::Store => self.hart.tlb.store(addr, width),
                _ => self.hart.tlb.load(addr, width),
            };
            found.ok_or(Flow::Full)
        }
    }

    #[inline(always)]
    fn load_value(&mut self, i: &Inst, width: Width) -> Result<u64, Flow> {
        let addr = self.data_address(i);
        if FULL && VirtAddr(addr).leaves_page(width.bytes()) {
            return self.load_over_pages(addr, width).map_err(Flow::Trap);
        }
        let physical = self.translate(addr, width, Access::Load)?;
        self.port
            .load(self.hart.id, physical, width)
            .map_err(|_| Self::trap(|| Access::Load.access_fault(addr)))
    }

    #[inline(always)]
    fn store_value(&mut self, i: &Inst, width: Width) -> Flow {
        let addr = self.data_address(i);
        let value = self.reg(i.rs2);
        if FULL && VirtAddr(addr).leaves_page(width.bytes()) {
            return match self.store_over_pages(addr, width, value) {
                Ok(()) => self.next(i),
                Err(trap) => Flow::Trap(trap),
            };
        }
        let physical = match self.translate(addr, width, Access::Store) {
            Ok(physical) => physical,
            Err(flow) => return flow,
        };
        match self.port.store(self.hart.id, physical, width, value) {
            Ok(()) => self.next(i),
            Err(_) => Self::trap(|| Access::Store.access_fault(addr)),
        }
    }

    /// Where the bytes of an access over the end of a page lie: in RAM, byte by byte.
    #[cold]
    fn bytes_over_pages(
        &mut self,
        addr: u64,
        width: Width,
        access: Access,
    ) -> Result<[PhysAddr; 8], Trap> {
        let first_bytes = PAGE_BYTES - addr % PAGE_BYTES;
        let second = addr.wrapping_add(first_bytes);
        let mut places = [PhysAddr(0); 8];
        for (start, bytes, from) in [
            (addr, first_bytes, 0),
            (second, width.bytes() - first_bytes, first_bytes),
        ] {
            let machine = self.port.machine();
            let physical = self
                .hart
                .translate(machine, VirtAddr(start), bytes, access)?;
            if !machine.is_ram(physical, bytes) {
                return Err(access.access_fault(start));
            }
            for n in 0..bytes {
                places[(from + n) as usize] = PhysAddr(physical.0 + n);
            }
        }
        Ok(places)
    }

    #[cold]
    fn load_over_pages(&mut self, addr: u64, width: Width) -> Result<u64, Trap> {
        let places = self.bytes_over_pages(addr, width, Access::Load)?;
        let mut value = 0;
        for (n, &place) in places.iter().enumerate().take(width.bytes() as usize) {
            let byte = self.port.load(self.hart.id, place, Width::B);
            value |= byte.map_err(|_| Access::Load.access_fault(addr))? << (8 * n);
        }
        Ok(value)
    }

    #[cold]
    fn store_over_pages(&mut self, addr: u64, width: Width, value: u64) -> Result<(), Trap> {
        let places = self.bytes_over_pages(addr, width, Access::Store)?;
        for (n, &place) in places.iter().enumerate().take(width.bytes() as usize) {
            self.port
                .store(self.hart.id, place, Width::B, value >> (8 * n))
                .map_err(|_| Access::Store.access_fault(addr))?;
        }
        Ok(())
    }

    /// Address of an atomic, which must be aligned to its width.
    #[inline(always)]
    fn atomic_address(&mut self, i: &Inst, width: Width, access: Access) -> Result<PhysAddr, Flow> {
        let addr = self.reg(i.rs1);
        if addr & (width.bytes() - 1) != 0 {
            let cause = match access {
                Access::Load => Cause::LoadMisaligned,
                _ => Cause::StoreMisaligned,
            };
            return Err(Self::trap(|| Trap::Exception(cause, addr)));
        }
        self.translate(addr, width, access)
    }

    /// The flow of an atomic that nothing answers.
    #[inline(always)]
    fn unanswered(&self, i: &Inst, access: Access) -> Flow {
        let addr = self.reg(i.rs1);
        Self::trap(|| access.access_fault(addr))
    }

    #[inline(always)]
    fn amo_value(
        &mut self,
        i: &Inst,
        width: Width,
        f: impl FnOnce(u64, u64) -> u64,
    ) -> Result<u64, Flow> {
        let addr = self.atomic_address(i, width, Access::Store)?;
        let id = self.hart.id;
        let old = self.port.load(id, addr, width);
        let old = old.map_err(|_| self.unanswered(i, Access::Store))?;
        let old = sign_extend(old, width);
        let new = f(old, sign_extend(self.reg(i.rs2), width));
        self.port
            .store_atomic(id, addr, width, new)
            .map_err(|_| self.unanswered(i, Access::Store))?;
        Ok(old)
    }

    #[inline(always)]
    fn lr_value(&mut self, i: &Inst, width: Width) -> Result<u64, Flow> {
        let addr = self.atomic_address(i, width, Access::Load)?;
        let id = self.hart.id;
        let value = self.port.load(id, addr, width);
        let value = value.map_err(|_| self.unanswered(i, Access::Load))?;
        self.port.machine().watches.arm(id, addr);
        Ok(sign_extend(value, width))
    }

    #[inline(always)]
    fn sc_value(&mut self, i: &Inst, width: Width) -> Result<u64, Flow> {
        let addr = self.atomic_address(i, width, Access::Store)?;
        let id = self.hart.id;
        let held = self.port.machine().watches.is_held(id, addr);
        if held {
            let value = self.reg(i.rs2);
            self.port
                .store_atomic(id, addr, width, value)
                .map_err(|_| self.unanswered(i, Access::Store))?;
        }
        self.port.machine().watches.disarm(id);
        Ok(u64::from(!held))
    }

    /// `amocas.q`: pairs (rd, rd+1) and (rs2, rs2+1), x0 pairing with zero.
    fn cas_pair(&mut self, i: &Inst) -> Result<(), Flow> {
        let addr = self.atomic_address(i, Width::Q, Access::Store)?;
        let high = PhysAddr(addr.0 + 8);
        let id = self.hart.id;
        let fault = self.unanswered(i, Access::Store);
        let pair = |hart: &Hart, low: u8| match low {
            0 => [0, 0],
            low => [hart.regs[low as usize], hart.regs[low as usize + 1]],
        };
        let old = [
            self.port.load(id, addr, Width::D).map_err(|_| fault)?,
            self.port.load(id, high, Width::D).map_err(|_| fault)?,
        ];
        if old == pair(self.hart, i.rs3) {
            let [low, upper] = pair(self.hart, i.rs2);
            for (addr, value) in [(addr, low), (high, upper)] {
                self.port
                    .store_atomic(id, addr, Width::D, value)
                    .map_err(|_| fault)?;
            }
        }
        if i.rd != SINK {
            self.hart.write(i.rd, old[0]);
            self.hart.write(i.rd + 1, old[1]);
        }
        Ok(())
    }

    #[inline(always)]
    fn value_or_flow(&mut self, i: &Inst, value: Result<u64, Flow>) -> Flow {
        match value {
            Ok(value) => self.write_and_next(i, value),
            Err(flow) => flow,
        }
    }

    /// As [`crate::CsrFile`] reads it, but for `stimecmp`, which stands beside the clock.
    fn read_csr(&mut self, number: u16, writes: bool) -> Option<u64> {
        if number != STIMECMP {
            return self.hart.csr.read(number, self.hart.retired, writes);
        }
        let id = self.hart.id;
        let allowed = self.hart.csr.supervisor_timer_allowed();
        allowed.then(|| self.port.machine().supervisor_timer(id))
    }

    fn write_csr(&mut self, number: u16, value: u64) {
        let machine = self.port.machine();
        self.hart.write_csr(machine, number, value);
    }

    fn full_system(&mut self, i: &Inst, what: System) -> Flow {
        let illegal = Flow::Trap(illegal(i));
        let privilege = self.hart.csr.privilege;
        let flow = match what {
            System::Illegal => return illegal,
            System::Ecall => {
                let cause = match privilege {
                    Privilege::User => Cause::EcallUser,
                    Privilege::Supervisor => Cause::EcallSupervisor,
                    Privilege::Machine => Cause::EcallMachine,
                };
                return Flow::Trap(Trap::Exception(cause, 0));
            }
            System::Ebreak => return Flow::Trap(Trap::Exception(Cause::Breakpoint, self.pc)),
            System::Mret | System::Sret => {
                let target = if what == System::Mret {
                    self.hart.csr.leave_machine_trap()
                } else {
                    self.hart.csr.leave_supervisor_trap()
                };
                return match target {
                    Some(pc) => {
                        self.hart.mode_changed();
                        self.pc = pc;
                        Flow::Interrupts
                    }
                    None => illegal,
                };
            }
            System::Wfi if self.hart.csr.wfi_allowed() => Flow::Nap(Nap::Wfi),
            System::WrsNto | System::WrsSto if !self.hart.csr.extensions.zawrs => return illegal,
            System::WrsNto if self.hart.csr.unbounded_wait_allowed() => Flow::Nap(Nap::WrsNto),
            System::Wfi | System::WrsNto => return illegal,
            System::WrsSto => Flow::Nap(Nap::WrsSto),
            System::SfenceVma if self.hart.csr.sfence_allowed() => Flow::Next,
            System::SfenceVma => return illegal,
            System::Pause => Flow::Pause,
            System::Fence => Flow::Next,
            System::FenceI => Flow::FenceI,
            System::Probe => Flow::Probe(i.imm as u16 & 0xfff, self.reg(i.rs1)),
        };
        self.next(i);
        flow
    }
}

impl<P: DataPort, const FULL: bool, const LENGTH: u64> Executor for Exec<'_, P, FULL, LENGTH> {
    type Out = Flow;

    #[inline(always)]
    fn alu_reg(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Flow {
        let value = f(self.reg(i.rs1), self.reg(i.rs2));
        self.write_and_next(i, value)
    }

    #[inline(always)]
    fn alu_imm(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Flow {
        let value = f(self.reg(i.rs1), i.imm as i64 as u64);
        self.write_and_next(i, value)
    }

    #[inline(always)]
    fn alu_pc(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Flow {
        let value = f(self.pc, i.imm as i64 as u64);
        self.write_and_next(i, value)
    }

    #[inline(always)]
    fn branch(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> bool) -> Flow {
        if f(self.reg(i.rs1), self.reg(i.rs2)) {
            self.pc = self.pc.wrapping_add(i.imm as i64 as u64);
            Flow::Jump
        } else {
            self.next(i)
        }
    }

    #[inline(always)]
    fn jump(&mut self, i: &Inst, f: impl FnOnce(u64, u64, u64) -> u64) -> Flow {
        let target = f(self.pc, self.reg(i.rs1), i.imm as i64 as u64);
        let link = self.pc.wrapping_add(Self::length(i));
        self.hart.write(i.rd, link);
        self.pc = target;
        Flow::Jump
    }

    #[inline(always)]
    fn load(&mut self, i: &Inst, width: Width, f: impl FnOnce(u64) -> u64) -> Flow {
        match self.load_value(i, width) {
            Ok(raw) => self.write_and_next(i, f(raw)),
            Err(flow) => flow,
        }
    }

    #[inline(always)]
    fn store(&mut self, i: &Inst, width: Width) -> Flow {
        self.store_value(i, width)
    }

    #[inline(always)]
    fn fp_load(&mut self, i: &Inst, width: Width, f: impl FnOnce(u64) -> u64) -> Flow {
        if self.hart.csr.fp_off() {
            return Flow::Trap(illegal(i));
        }
        match self.load_value(i, width) {
            Ok(raw) => {
                self.hart.csr.mark_fp_dirty();
                self.write_and_next(i, f(raw))
            }
            Err(flow) => flow,
        }
    }

    #[inline(always)]
    fn fp_store(&mut self, i: &Inst, width: Width) -> Flow {
        if self.hart.csr.fp_off() {
            return Flow::Trap(illegal(i));
        }
        self.store_value(i, width)
    }

    #[inline(always)]
    fn amo(&mut self, i: &Inst, width: Width, f: impl FnOnce(u64, u64) -> u64) -> Flow {
        let old = self.amo_value(i, width, f);
        self.value_or_flow(i, old)
    }

    #[inline(always)]
    fn lr(&mut self, i: &Inst, width: Width) -> Flow {
        let value = self.lr_value(i, width);
        self.value_or_flow(i, value)
    }

    #[inline(always)]
    fn sc(&mut self, i: &Inst, width: Width) -> Flow {
        let failed = self.sc_value(i, width);
        self.value_or_flow(i, failed)
    }

    #[inline(always)]
    fn cas(&mut self, i: &Inst, width: Width) -> Flow {
        if width == Width::Q {
            return match self.cas_pair(i) {
                Ok(()) => self.next(i),
                Err(flow) => flow,
            };
        }
        let expected = sign_extend(self.reg(i.rs3), width);
        let old = self.amo_value(i, width, |old, new| if old == expected { new } else { old });
        self.value_or_flow(i, old)
    }

    #[inline(always)]
    fn fp(&mut self, i: &Inst, f: impl FnOnce(&mut FpContext, u64, u64, u64) -> u64) -> Flow {
        if self.hart.csr.fp_off() {
            return Flow::Trap(illegal(i));
        }
        let field = if i.rm == 7 { self.hart.csr.frm() } else { i.rm };
        let Some(rounding) = RoundingMode::from_bits(field) else {
            return Flow::Trap(illegal(i));
        };
        let mut context = FpContext {
            rounding,
            flags: self.hart.csr.fflags,
        };
        let value = f(
            &mut context,
            self.reg(i.rs1),
            self.reg(i.rs2),
            self.reg(i.rs3),
        );
        self.hart.csr.fflags = context.flags;
        self.hart.csr.mark_fp_dirty();
        self.write_and_next(i, value)
    }

    #[inline(always)]
    fn csr(&mut self, i: &Inst, operand: CsrOperand, f: impl FnOnce(u64, u64) -> u64) -> Flow {
        if !FULL {
            return Flow::Full;
        }
        let number = i.imm as u16 & 0xfff;
        let immediate = (i.imm as u64 >> 12) & 0x1f;
        let (operand, writes) = match operand {
            CsrOperand::Write => (self.reg(i.rs1), true),
            CsrOperand::Modify => (self.reg(i.rs1), i.rs1 != 0),
            CsrOperand::WriteImm => (immediate, true),
            CsrOperand::ModifyImm => (immediate, immediate != 0),
        };
        let Some(old) = self.read_csr(number, writes) else {
            return Flow::Trap(illegal(i));
        };
        if writes {
            let base = self.hart.csr.modify_base(number, old);
            self.write_csr(number, f(base, operand));
        }
        self.write_and_next(i, old);
        if writes { Flow::Interrupts } else { Flow::Next }
    }

    #[inline(always)]
    fn system(&mut self, i: &Inst, what: System) -> Flow {
        if FULL {
            self.full_system(i, what)
        } else if what == System::Fence {
            self.next(i)
        } else {
            Flow::Full
        }
    }
}

#[cold]
fn illegal(i: &Inst) -> Trap {
    Trap::Exception(Cause::IllegalInstruction, u64::from(i.raw))
}

#[inline(always)]
fn sign_extend(value: u64, width: Width) -> u64 {
    match width {
        Width::B => value as i8 as u64,
        Width::H => value as i16 as u64,
        Width::W => value as i32 as u64,
        Width::D | Width::Q => value,
    }
}

#[cfg(test)]
#[path = "exec_tests.rs"]
mod tests;
