//! What a shadow finds around it: the machine, which it must not touch, and what the timing core has
//! found there.

use loiter_hart::{Access, Accessed, Environment, Hart, Trap};
use loiter_isa::{Class, Inst, Op, SINK, Width};
use loiter_machine::{AccessFault, Machine};
use loiter_types::{HartId, PhysAddr, VirtAddr};

use super::buffer::{Buffer, StoredPages};

/// What the timing core has found, as far as the hart shows it after the instruction.
pub(super) enum Told<'a> {
    /// The instruction has retired.
    Retired {
        hart: &'a Hart,
        inst: Inst,
        access: Accessed,
        /// Whether it continued after itself.
        went_on: bool,
    },
    /// It has raised an exception. It has found nothing then, but perhaps that a device does not answer.
    Raised,
}

/// The surroundings of one instruction.
pub(super) struct Around<'a> {
    pub(super) machine: &'a Machine,
    pub(super) told: Told<'a>,
    pub(super) buffer: &'a mut Buffer,
    pub(super) stored: &'a mut StoredPages,
    /// Bytes handed over so far.
    pub(super) handed: u64,
    /// What is not as it must be.
    pub(super) wrong: Vec<String>,
}

impl Around<'_> {
    /// The next `width` bytes that the instruction has read, if they are anywhere to be seen.
    fn read(&mut self, width: Width) -> Option<u64> {
        let Told::Retired {
            hart, inst, access, ..
        } = &self.told
        else {
            return None;
        };
        let at = self.handed;
        self.handed += width.bytes();
        // What goes to no register goes to the sink, where the hart itself executes.
        let seen = inst.rd != SINK || *access == Accessed::Now && inst.op != Op::AmocasQ;
        let slot = usize::from(inst.rd) + (at / 8) as usize;
        let value = hart.regs[slot] >> (8 * (at % 8));
        seen.then_some(value & mask(width))
    }

    fn class(&self) -> Option<(Class, Accessed)> {
        match &self.told {
            Told::Retired { inst, access, .. } => Some((inst.op.class(), *access)),
            Told::Raised => None,
        }
    }

    fn is_as_guest(&self) -> bool {
        matches!(&self.told, Told::Retired { inst, .. } if inst.op.accesses_as_guest())
    }

    /// Whether a load can have read `value` at `addr`.
    fn check_load(&mut self, addr: PhysAddr, width: Width, value: u64, now: bool) {
        for (n, found) in (0..width.bytes()).zip(value.to_le_bytes()) {
            let at = PhysAddr(addr.0 + n);
            let memory = |at| self.machine.ram.read(at, Width::B).map(|byte| byte as u8);
            let expected = match self.buffer.byte(at) {
                Some(byte) => Some(byte),
                None if now => memory(at),
                None => None,
            };
            if let Some(expected) = expected
                && expected != found
            {
                self.wrong.push(format!(
                    "loaded byte at {at}: expected {expected:#04x}, found {found:#04x}"
                ));
                return;
            }
        }
    }

    fn check_place(&mut self, access: Accessed, addr: PhysAddr) {
        if let Accessed::Apart(found) = access
            && found != addr
        {
            self.wrong
                .push(format!("accessed address: expected {addr}, found {found}"));
        }
    }

    /// A store has performed: memory must hold it, if it is RAM.
    fn check_stored(&mut self, addr: PhysAddr, width: Width, value: u64) {
        let mut bytes = (0..width.bytes()).map(|n| PhysAddr(addr.0 + n));
        if let Some(at) = bytes.find(|&at| self.buffer.byte(at).is_some()) {
            self.wrong
                .push(format!("stored byte at {at}: before an older store to it"));
        }
        let value = value & mask(width);
        if let Some(found) = self.machine.ram.read(addr, width)
            && found != value
        {
            self.wrong.push(format!(
                "memory at {addr}: expected {value:#x}, found {found:#x}"
            ));
        }
    }

    /// Devices do not answer where an exception was raised; what answered before is not asked again.
    fn refused(&self, addr: PhysAddr, width: Width) -> Result<(), AccessFault> {
        match self.machine.is_ram(addr, width.bytes()) {
            true => Ok(()),
            false => Err(AccessFault { addr }),
        }
    }
}

impl Environment for Around<'_> {
    fn load(&mut self, _: HartId, addr: PhysAddr, width: Width) -> Result<u64, AccessFault> {
        let Some((class, access)) = self.class() else {
            return self.refused(addr, width).map(|()| 0);
        };
        self.check_place(access, addr);
        if let Told::Retired { inst, went_on, .. } = &self.told
            && matches!(inst.op, Op::LockAcquire | Op::LockWait)
        {
            // It has just looked, and has taken the lock if that was free.
            let taken = *went_on && inst.op == Op::LockAcquire;
            let there = self.machine.ram.read(addr, width).unwrap_or(0);
            return Ok(if taken { 0 } else { there });
        }
        let Some(value) = self.read(width) else {
            return Ok(0);
        };
        if class == Class::Load || self.is_as_guest() {
            self.check_load(addr, width, value, access == Accessed::Now);
        }
        Ok(value)
    }

    fn store(
        &mut self,
        hart: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault> {
        let Some((_, access)) = self.class() else {
            return self.refused(addr, width);
        };
        self.check_place(access, addr);
        if access == Accessed::Now {
            return self.store_atomic(hart, addr, width, value);
        }
        self.stored.insert(addr);
        self.buffer.push(addr, width, value);
        Ok(())
    }

    fn store_atomic(
        &mut self,
        _: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault> {
        let Told::Retired { inst, .. } = &self.told else {
            return self.refused(addr, width);
        };
        if self.machine.is_ram(addr, width.bytes()) {
            self.stored.insert(addr);
        }
        // What it has compared with went nowhere.
        if !(inst.op == Op::AmocasQ && inst.rd == SINK) {
            self.check_stored(addr, width, value);
        }
        Ok(())
    }

    fn translate(
        &mut self,
        hart: &mut Hart,
        addr: VirtAddr,
        bytes: u64,
        access: Access,
    ) -> Result<PhysAddr, Trap> {
        hart.locate(self.machine, addr, bytes, access)
    }

    fn is_ram(&mut self, addr: PhysAddr, bytes: u64) -> bool {
        self.machine.is_ram(addr, bytes)
    }

    fn reserve(&mut self, _: HartId, _: PhysAddr) {}

    /// As `sc` tells: it writes 0 when it has stored.
    fn is_reserved(&mut self, _: HartId, _: PhysAddr) -> bool {
        self.read(Width::D) == Some(0)
    }

    fn give_up_reservation(&mut self, _: HartId) {}

    fn supervisor_timer(&mut self, hart: HartId) -> u64 {
        self.read(Width::D)
            .unwrap_or_else(|| self.machine.supervisor_timer(hart))
    }

    fn set_supervisor_timer(&mut self, hart: HartId, value: u64) -> u64 {
        let found = self.machine.supervisor_timer(hart);
        if found != value {
            self.wrong
                .push(format!("stimecmp: expected {value:#x}, found {found:#x}"));
        }
        self.machine.interrupt_lines(hart)
    }

    fn set_guest_timer(&mut self, hart: HartId, _: u64, _: u64) -> u64 {
        self.machine.interrupt_lines(hart)
    }
}

fn mask(width: Width) -> u64 {
    u64::MAX >> (64 - 8 * width.bytes().min(8))
}
