//! Looking at a hart from outside and changing it, as a debugger does.

use loiter_isa::csr::number::{HGATP, MSTATUS, SATP, SSTATUS, STIMECMP, VSATP, VSSTATUS};
use loiter_machine::Machine;
use loiter_types::{AddressSpace, PhysAddr, VirtAddr};

use crate::csr::{Privilege, is_protection};
use crate::exec::Environment;
use crate::hart::Hart;

impl Hart {
    /// Writes CSR `number`, which exists and may be written, with all that follows.
    pub(crate) fn write_csr<E: Environment>(&mut self, around: &mut E, number: u16, value: u64) {
        if number == STIMECMP && !self.csr.in_guest() {
            let lines = around.set_supervisor_timer(self.id, value);
            self.csr.set_lines(lines);
        } else {
            self.csr.write(number, value, self.retired);
        }
        if self.csr.is_guest_timer(number) {
            let (value, ahead) = self.csr.guest_timer();
            let lines = around.set_guest_timer(self.id, value, ahead);
            self.csr.set_lines(lines);
        }
        match number {
            MSTATUS | SSTATUS | SATP | VSSTATUS | VSATP | HGATP => self.mode_changed(),
            _ if is_protection(number) => self.tlb.flush(),
            _ => {}
        }
    }

    /// The value of CSR `number` as machine mode would read it; `None` if there is none.
    #[must_use]
    pub fn csr_from_outside(&self, machine: &Machine, number: u16) -> Option<u64> {
        if number == STIMECMP {
            let exists = self.csr.extensions.sstc;
            return exists.then(|| machine.supervisor_timer(self.id));
        }
        let mut csr = self.csr.clone();
        csr.enter(Privilege::Machine, false);
        csr.clock.time = machine.time(self.id);
        csr.read(number, self.retired, false)
    }

    /// Writes CSR `number` as machine mode would. Returns whether it could.
    pub fn set_csr_from_outside(&mut self, machine: &mut Machine, number: u16, value: u64) -> bool {
        let (privilege, in_guest) = (self.csr.privilege, self.csr.in_guest());
        self.csr.enter(Privilege::Machine, false);
        let exists = match number {
            STIMECMP => self.csr.extensions.sstc,
            _ => self.csr.read(number, self.retired, true).is_some(),
        };
        if exists {
            self.write_csr(machine, number, value);
        }
        self.csr.enter(privilege, in_guest);
        self.mode_changed();
        exists
    }

    /// Register `satp`: which page tables.
    #[inline]
    #[must_use]
    pub fn page_tables(&self) -> u64 {
        self.csr.satp()
    }

    /// The number of the guest whose translations its fences name: of the one that it is the hypervisor of, or if the hart is a
    /// virtual CPU its own. `by_hypervisor`: the fence is one for guests.
    #[must_use]
    pub fn fenced_guest(&self, by_hypervisor: bool) -> Option<u16> {
        let own = by_hypervisor || self.csr.in_guest();
        let of_hypervisor = AddressSpace {
            guest: AddressSpace::guest_of(self.csr.hgatp()),
            ..AddressSpace::PHYSICAL
        };
        match own {
            true => of_hypervisor.vmid(),
            false => self.partition.guest(),
        }
    }

    /// Puts the hart into another mode.
    pub fn set_privilege_from_outside(&mut self, privilege: Privilege) {
        self.csr.privilege = privilege;
        self.mode_changed();
    }

    /// As [`Hart::peek`]; firmware, which runs without translation, is shown what the kernel below it
    /// has mapped wherever there is no RAM at `addr`.
    #[must_use]
    pub fn look(&self, machine: &Machine, addr: VirtAddr) -> Option<PhysAddr> {
        let physical = self.peek(machine, addr);
        if self.csr.privilege == Privilege::Machine
            && physical.is_none_or(|at| !machine.is_ram(at, 1))
        {
            return self.peek_mapped(machine, addr);
        }
        physical
    }
}

#[cfg(test)]
#[path = "outside_tests.rs"]
mod tests;
