//! Loads, stores and atomics: from a virtual address to the value that the port returns.

use loiter_isa::{Inst, SINK, Width};
use loiter_machine::{AccessFault, Machine};
use loiter_types::{HartId, PAGE_BYTES, PhysAddr, VirtAddr};

use super::{Exec, Flow};
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

/// All that an instruction finds outside its hart. Every [`DataPort`] is one, around the machine; a
/// checker, which must not touch the machine, has one of its own.
pub trait Environment {
    /// As [`DataPort::load`].
    ///
    /// # Errors
    /// Likewise.
    fn load(&mut self, hart: HartId, addr: PhysAddr, width: Width) -> Result<u64, AccessFault>;

    /// As [`DataPort::store`].
    ///
    /// # Errors
    /// Likewise.
    fn store(
        &mut self,
        hart: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault>;

    /// As [`DataPort::store_atomic`].
    ///
    /// # Errors
    /// Likewise.
    fn store_atomic(
        &mut self,
        hart: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault>;

    /// As [`Hart::translate`].
    ///
    /// # Errors
    /// Likewise.
    fn translate(
        &mut self,
        hart: &mut Hart,
        addr: VirtAddr,
        bytes: u64,
        access: Access,
    ) -> Result<PhysAddr, Trap>;

    /// Whether these bytes are RAM.
    fn is_ram(&mut self, addr: PhysAddr, bytes: u64) -> bool;

    /// `hart` reserves the line of `addr`.
    fn reserve(&mut self, hart: HartId, addr: PhysAddr);

    /// Whether `hart` still has a reservation for the line of `addr`.
    fn is_reserved(&mut self, hart: HartId, addr: PhysAddr) -> bool;

    /// `hart` gives up its reservation, if it has one.
    fn give_up_reservation(&mut self, hart: HartId);

    /// Register `stimecmp` of `hart`.
    fn supervisor_timer(&mut self, hart: HartId) -> u64;

    /// Writes register `stimecmp` of `hart`; returns the interrupt lines of the hart that follow.
    fn set_supervisor_timer(&mut self, hart: HartId, value: u64) -> u64;

    /// The timer of the guest of `hart`, whose time is `ahead`, fires at `value`; returns the interrupt lines that follow.
    fn set_guest_timer(&mut self, hart: HartId, value: u64, ahead: u64) -> u64;
}

impl<P: DataPort> Environment for P {
    #[inline(always)]
    fn load(&mut self, hart: HartId, addr: PhysAddr, width: Width) -> Result<u64, AccessFault> {
        DataPort::load(self, hart, addr, width)
    }

    #[inline(always)]
    fn store(
        &mut self,
        hart: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault> {
        DataPort::store(self, hart, addr, width, value)
    }

    #[inline(always)]
    fn store_atomic(
        &mut self,
        hart: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault> {
        DataPort::store_atomic(self, hart, addr, width, value)
    }

    #[inline(always)]
    fn translate(
        &mut self,
        hart: &mut Hart,
        addr: VirtAddr,
        bytes: u64,
        access: Access,
    ) -> Result<PhysAddr, Trap> {
        hart.translate(self.machine(), addr, bytes, access)
    }

    #[inline(always)]
    fn is_ram(&mut self, addr: PhysAddr, bytes: u64) -> bool {
        Machine::is_ram(self.machine(), addr, bytes)
    }

    #[inline(always)]
    fn reserve(&mut self, hart: HartId, addr: PhysAddr) {
        self.machine().watches.arm(hart, addr);
    }

    #[inline(always)]
    fn is_reserved(&mut self, hart: HartId, addr: PhysAddr) -> bool {
        self.machine().watches.is_held(hart, addr)
    }

    #[inline(always)]
    fn give_up_reservation(&mut self, hart: HartId) {
        self.machine().watches.disarm(hart);
    }

    fn supervisor_timer(&mut self, hart: HartId) -> u64 {
        Machine::supervisor_timer(self.machine(), hart)
    }

    fn set_supervisor_timer(&mut self, hart: HartId, value: u64) -> u64 {
        let machine = self.machine();
        Machine::set_supervisor_timer(machine, hart, value);
        machine.interrupt_lines(hart)
    }

    fn set_guest_timer(&mut self, hart: HartId, value: u64, ahead: u64) -> u64 {
        let machine = self.machine();
        Machine::set_guest_timer(machine, hart, value, ahead);
        machine.interrupt_lines(hart)
    }
}

impl<P: Environment, const FULL: bool, const LENGTH: u64> Exec<'_, P, FULL, LENGTH> {
    #[inline(always)]
    fn data_address(&self, i: &Inst) -> u64 {
        self.reg(i.rs1).wrapping_add(i.imm as i64 as u64)
    }

    /// Translates an access that lies in one page.
    #[inline(always)]
    fn translate(&mut self, addr: u64, width: Width, access: Access) -> Result<PhysAddr, Flow> {
        if FULL {
            let bytes = width.bytes();
            self.port
                .translate(self.hart, VirtAddr(addr), bytes, access)
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
    pub(super) fn load_value(&mut self, i: &Inst, width: Width) -> Result<u64, Flow> {
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
    pub(super) fn store_value(&mut self, i: &Inst, width: Width) -> Flow {
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
            let physical = self
                .port
                .translate(self.hart, VirtAddr(start), bytes, access)?;
            if !self.port.is_ram(physical, bytes) {
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

    /// Loads from `addr`, wherever it lies; at once.
    pub(super) fn load_at(&mut self, addr: u64, width: Width) -> Result<u64, Trap> {
        if VirtAddr(addr).leaves_page(width.bytes()) {
            return self.load_over_pages(addr, width);
        }
        let bytes = width.bytes();
        let physical = (self.port).translate(self.hart, VirtAddr(addr), bytes, Access::Load)?;
        let value = self.port.load(self.hart.id, physical, width);
        value.map_err(|_| Access::Load.access_fault(addr))
    }

    /// Stores to `addr`, wherever it lies; at once, past any buffer.
    pub(super) fn store_at(&mut self, addr: u64, width: Width, value: u64) -> Result<(), Trap> {
        let id = self.hart.id;
        let fault = Access::Store.access_fault(addr);
        if VirtAddr(addr).leaves_page(width.bytes()) {
            let places = self.bytes_over_pages(addr, width, Access::Store)?;
            for (n, &place) in places.iter().enumerate().take(width.bytes() as usize) {
                let stored = self
                    .port
                    .store_atomic(id, place, Width::B, value >> (8 * n));
                stored.map_err(|_| fault)?;
            }
            return Ok(());
        }
        let bytes = width.bytes();
        let physical = (self.port).translate(self.hart, VirtAddr(addr), bytes, Access::Store)?;
        let stored = self.port.store_atomic(id, physical, width, value);
        stored.map_err(|_| fault)
    }

    /// Address of an atomic, which must be aligned to its width.
    #[inline(always)]
    pub(super) fn atomic_address(
        &mut self,
        i: &Inst,
        width: Width,
        access: Access,
    ) -> Result<PhysAddr, Flow> {
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
    pub(super) fn unanswered(&self, i: &Inst, access: Access) -> Flow {
        let addr = self.reg(i.rs1);
        Self::trap(|| access.access_fault(addr))
    }

    #[inline(always)]
    pub(super) fn amo_value(
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
    pub(super) fn lr_value(&mut self, i: &Inst, width: Width) -> Result<u64, Flow> {
        let addr = self.atomic_address(i, width, Access::Load)?;
        let id = self.hart.id;
        let value = self.port.load(id, addr, width);
        let value = value.map_err(|_| self.unanswered(i, Access::Load))?;
        self.port.reserve(id, addr);
        Ok(sign_extend(value, width))
    }

    #[inline(always)]
    pub(super) fn sc_value(&mut self, i: &Inst, width: Width) -> Result<u64, Flow> {
        let addr = self.atomic_address(i, width, Access::Store)?;
        let id = self.hart.id;
        let held = self.port.is_reserved(id, addr);
        if held {
            let value = self.reg(i.rs2);
            self.port
                .store_atomic(id, addr, width, value)
                .map_err(|_| self.unanswered(i, Access::Store))?;
        }
        self.port.give_up_reservation(id);
        Ok(u64::from(!held))
    }

    /// `amocas.q`: pairs (rd, rd+1) and (rs2, rs2+1), x0 pairing with zero.
    pub(super) fn cas_pair(&mut self, i: &Inst) -> Result<(), Flow> {
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
}

#[inline(always)]
pub(super) fn sign_extend(value: u64, width: Width) -> u64 {
    match width {
        Width::B => value as i8 as u64,
        Width::H => value as i16 as u64,
        Width::W => value as i32 as u64,
        Width::D | Width::Q => value,
    }
}
