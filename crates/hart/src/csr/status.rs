//! `mstatus` and its views, entry into and return from traps, and what the mode allows.

use super::{CsrFile, Privilege};
use crate::trap::{Interrupt, Trap};

pub(super) const SIE: u64 = 1 << 1;
pub(super) const MIE: u64 = 1 << 3;
const SPIE: u64 = 1 << 5;
const MPIE: u64 = 1 << 7;
const SPP: u64 = 1 << 8;
pub(super) const MPP_SHIFT: u32 = 11;
pub(super) const MPP: u64 = 3 << MPP_SHIFT;
pub(super) const FS: u64 = 3 << 13;
pub(super) const MPRV: u64 = 1 << 17;
const SUM: u64 = 1 << 18;
const MXR: u64 = 1 << 19;
pub(super) const TVM: u64 = 1 << 20;
pub(super) const TW: u64 = 1 << 21;
const TSR: u64 = 1 << 22;
pub(super) const UXL_SXL_64: u64 = (2 << 32) | (2 << 34);
const SD: u64 = 1 << 63;

pub(super) const MSTATUS_WRITABLE: u64 =
    SIE | MIE | SPIE | MPIE | SPP | MPP | FS | MPRV | SUM | MXR | TVM | TW | TSR;
pub(super) const SSTATUS_WRITABLE: u64 = SIE | SPIE | SPP | FS | SUM | MXR;
pub(super) const SSTATUS_VISIBLE: u64 = SSTATUS_WRITABLE | (2 << 32) | SD;

/// What decides how a hart's addresses are translated and which accesses are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessMode {
    /// As whom memory is accessed.
    pub(crate) privilege: Privilege,
    /// Supervisor may access pages of the user (`mstatus.SUM`).
    pub(crate) sum: bool,
    /// What may be executed may be loaded (`mstatus.MXR`).
    pub(crate) mxr: bool,
}

impl CsrFile {
    /// The mode of instruction fetches.
    pub(crate) fn fetch_mode(&self) -> AccessMode {
        AccessMode {
            privilege: self.privilege,
            sum: false,
            mxr: false,
        }
    }

    /// The mode of loads and stores (`mstatus.MPRV` lends machine mode that of the trapped one).
    pub(crate) fn data_mode(&self) -> AccessMode {
        let privilege = if self.mstatus & MPRV != 0 && self.privilege == Privilege::Machine {
            privilege_of(self.mstatus >> MPP_SHIFT)
        } else {
            self.privilege
        };
        AccessMode {
            privilege,
            sum: self.mstatus & SUM != 0,
            mxr: self.mstatus & MXR != 0,
        }
    }

    /// Whether floating-point instructions are illegal now (`mstatus.FS` is off).
    #[inline(always)]
    #[must_use]
    pub fn fp_off(&self) -> bool {
        self.mstatus & FS == 0
    }

    /// Whether the hart has the instructions of the hardware lock.
    #[inline(always)]
    #[must_use]
    pub fn has_locks(&self) -> bool {
        self.extensions.xloiterlock
    }

    #[inline(always)]
    pub(crate) fn mark_fp_dirty(&mut self) {
        self.mstatus |= FS;
    }

    /// The interrupts that pend and are enabled one by one.
    #[inline(always)]
    pub(crate) fn pending_enabled(&self) -> u64 {
        self.pending() & self.mie
    }

    /// The interrupt that the hart takes now, if any.
    pub(crate) fn takeable_interrupt(&self) -> Option<Interrupt> {
        let pending = self.pending_enabled();
        if pending == 0 {
            return None;
        }
        let machine = pending & !self.mideleg;
        let supervisor = pending & self.mideleg;
        let machine_on = self.privilege < Privilege::Machine || self.mstatus & MIE != 0;
        let supervisor_on = self.privilege < Privilege::Supervisor
            || (self.privilege == Privilege::Supervisor && self.mstatus & SIE != 0);
        let takeable = if machine_on && machine != 0 {
            machine
        } else if supervisor_on {
            supervisor
        } else {
            0
        };
        Interrupt::BY_PRIORITY
            .into_iter()
            .find(|interrupt| takeable & interrupt.bit() != 0)
    }

    /// Whether `wfi` may run. Where there is a supervisor mode, user mode may only wait for a bounded
    /// time (privileged manual, "Wait for Interrupt"); here the bound is zero.
    pub(crate) fn wfi_allowed(&self) -> bool {
        self.privilege != Privilege::User && self.unbounded_wait_allowed()
    }

    /// Whether `wrs.nto`, which waits without bound, may run.
    pub(crate) fn unbounded_wait_allowed(&self) -> bool {
        self.privilege == Privilege::Machine || self.mstatus & TW == 0
    }

    pub(crate) fn sfence_allowed(&self) -> bool {
        match self.privilege {
            Privilege::Machine => true,
            Privilege::Supervisor => self.mstatus & TVM == 0,
            Privilege::User => false,
        }
    }

    fn goes_to_supervisor(&self, trap: Trap) -> bool {
        let delegated = match trap {
            Trap::Exception(cause, _) => self.medeleg >> (cause as u64),
            Trap::Interrupt(interrupt) => self.mideleg >> (interrupt as u64),
        };
        self.privilege < Privilege::Machine && delegated & 1 != 0
    }

    /// Address of the handler that `trap` enters from the present mode, and the mode in which it runs.
    #[must_use]
    pub(crate) fn handler(&self, trap: Trap) -> (u64, Privilege) {
        let (vector, privilege) = if self.goes_to_supervisor(trap) {
            (self.stvec, Privilege::Supervisor)
        } else {
            (self.mtvec, Privilege::Machine)
        };
        let base = vector & !3;
        let entry = match trap {
            Trap::Interrupt(interrupt) if vector & 1 != 0 => base + 4 * interrupt as u64,
            _ => base,
        };
        (entry, privilege)
    }

    /// Records `trap` at `pc` and switches to the mode that handles it.
    pub(crate) fn enter_trap(&mut self, trap: Trap, pc: u64) {
        let previous = self.privilege as u64;
        if self.goes_to_supervisor(trap) {
            self.scause = trap.code();
            self.stval = trap.value();
            self.sepc = pc;
            let enabled = self.mstatus & SIE != 0;
            self.mstatus &= !(SIE | SPIE | SPP);
            self.mstatus |= if enabled { SPIE } else { 0 } | if previous == 1 { SPP } else { 0 };
            self.privilege = Privilege::Supervisor;
        } else {
            self.mcause = trap.code();
            self.mtval = trap.value();
            self.mepc = pc;
            let enabled = self.mstatus & MIE != 0;
            self.mstatus &= !(MIE | MPIE | MPP);
            self.mstatus |= if enabled { MPIE } else { 0 } | previous << MPP_SHIFT;
            self.privilege = Privilege::Machine;
        }
    }

    /// `mret`: returns the pc to continue at; `None` when it is illegal here.
    pub(crate) fn leave_machine_trap(&mut self) -> Option<u64> {
        if self.privilege != Privilege::Machine {
            return None;
        }
        let to = privilege_of(self.mstatus >> MPP_SHIFT);
        let enabled = self.mstatus & MPIE != 0;
        self.mstatus &= !(MIE | MPP);
        self.mstatus |= MPIE | if enabled { MIE } else { 0 };
        if to != Privilege::Machine {
            self.mstatus &= !MPRV;
        }
        self.privilege = to;
        Some(self.mepc)
    }

    /// `sret`: returns the pc to continue at; `None` when it is illegal here.
    pub(crate) fn leave_supervisor_trap(&mut self) -> Option<u64> {
        match self.privilege {
            Privilege::User => return None,
            Privilege::Supervisor if self.mstatus & TSR != 0 => return None,
            _ => {}
        }
        let to = if self.mstatus & SPP != 0 {
            Privilege::Supervisor
        } else {
            Privilege::User
        };
        let enabled = self.mstatus & SPIE != 0;
        self.mstatus &= !(SIE | SPP | MPRV);
        self.mstatus |= SPIE | if enabled { SIE } else { 0 };
        self.privilege = to;
        Some(self.sepc)
    }

    pub(super) fn status(&self) -> u64 {
        let dirty = self.mstatus & FS == FS;
        self.mstatus | if dirty { SD } else { 0 }
    }

    pub(super) fn set_status(&mut self, value: u64, writable: u64) {
        let mut value = super::merge(self.mstatus, value, writable);
        if value & MPP == 2 << MPP_SHIFT {
            value = value & !MPP | self.mstatus & MPP;
        }
        self.mstatus = value;
    }
}

fn privilege_of(field: u64) -> Privilege {
    match field & 3 {
        0 => Privilege::User,
        1 => Privilege::Supervisor,
        _ => Privilege::Machine,
    }
}
