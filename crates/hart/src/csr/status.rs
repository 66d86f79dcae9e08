//! `mstatus` and its views, entry into and return from traps, and what the mode allows.

use super::hypervisor::{GVA, SPV, SPVP, VS_INTERRUPTS};
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
const MACHINE_GVA: u64 = 1 << 38;
const MPV: u64 = 1 << 39;
const SD: u64 = 1 << 63;

/// Bits of `mstatus` that there are where a hart can have guests.
pub(super) const MSTATUS_OF_GUESTS: u64 = MACHINE_GVA | MPV;

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
    /// As a guest does, whose memory is translated once more.
    pub(crate) guest: bool,
    /// In that translation too, what may be executed may be loaded.
    pub(crate) guest_mxr: bool,
    /// What is loaded must be what may be executed.
    pub(crate) of_code: bool,
}

impl AccessMode {
    /// As `privilege`, and no more.
    fn plain(privilege: Privilege) -> Self {
        Self {
            privilege,
            sum: false,
            mxr: false,
            guest: false,
            guest_mxr: false,
            of_code: false,
        }
    }
}

/// Whether an instruction may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// It may.
    Yes,
    /// It raises an illegal instruction exception.
    Illegal,
    /// It raises a virtual instruction exception: a hypervisor is to do it for its guest.
    Virtual,
}

/// Who handles a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handler {
    Machine,
    Supervisor,
    Guest,
}

impl CsrFile {
    /// The mode of instruction fetches.
    pub(crate) fn fetch_mode(&self) -> AccessMode {
        AccessMode {
            // A fetch has no such right.
            sum: false,
            guest: self.in_guest(),
            ..AccessMode::plain(self.privilege)
        }
    }

    /// The mode of loads and stores (`mstatus.MPRV` lends machine mode that of the trapped one).
    pub(crate) fn data_mode(&self) -> AccessMode {
        if let Some(lent) = self.lent {
            return lent;
        }
        if self.mstatus & MPRV != 0 && self.privilege == Privilege::Machine {
            let privilege = privilege_of(self.mstatus >> MPP_SHIFT);
            let guest = self.mstatus & MPV != 0 && privilege != Privilege::Machine;
            return self.access_mode_of(privilege, guest);
        }
        self.access_mode_of(self.privilege, self.in_guest())
    }

    /// How `privilege` accesses data, outside or in a guest.
    fn access_mode_of(&self, privilege: Privilege, guest: bool) -> AccessMode {
        let all = self.mstatus & MXR != 0;
        let status = match guest {
            true => self.hypervisor.vsstatus,
            false => self.mstatus,
        };
        AccessMode {
            sum: status & SUM != 0,
            mxr: all || status & MXR != 0,
            guest,
            guest_mxr: guest && all,
            ..AccessMode::plain(privilege)
        }
    }

    /// How a hypervisor accesses data as its guest does in mode `privilege`; with `of_code` it loads what may be executed.
    pub(crate) fn lends(&self, privilege: Privilege, of_code: bool) -> AccessMode {
        AccessMode {
            of_code,
            ..self.access_mode_of(privilege, true)
        }
    }

    /// Whether floating-point instructions are illegal now (`mstatus.FS` is off).
    #[inline(always)]
    #[must_use]
    pub fn fp_off(&self) -> bool {
        self.mstatus & FS == 0 || self.in_guest() && self.hypervisor.vsstatus & FS == 0
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
        if self.in_guest() {
            self.hypervisor.vsstatus |= FS;
        }
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
        let delegated = self.mideleg | self.delegated_always();
        let machine = pending & !delegated;
        let guest = pending & delegated & self.hypervisor.hideleg & VS_INTERRUPTS;
        let supervisor = pending & delegated & !guest;
        let machine_on = self.privilege < Privilege::Machine || self.mstatus & MIE != 0;
        let on = |status: u64| {
            self.privilege < Privilege::Supervisor
                || self.privilege == Privilege::Supervisor && status & SIE != 0
        };
        let supervisor_on = self.in_guest() || on(self.mstatus);
        let guest_on = self.in_guest() && on(self.hypervisor.vsstatus);
        let takeable = if machine_on && machine != 0 {
            machine
        } else if supervisor_on && supervisor != 0 {
            supervisor
        } else if guest_on {
            guest
        } else {
            0
        };
        Interrupt::BY_PRIORITY
            .into_iter()
            .find(|interrupt| takeable & interrupt.bit() != 0)
    }

    /// Whether `wfi` may run. Where there is a supervisor mode, user mode may only wait for a bounded
    /// time (privileged manual, "Wait for Interrupt"); here the bound is zero.
    pub(crate) fn wfi_allowed(&self) -> Allowed {
        match self.unbounded_wait_allowed() {
            Allowed::Yes if self.privilege == Privilege::User => self.refused_below(),
            other => other,
        }
    }

    /// Whether `wrs.nto`, which waits without bound, may run.
    pub(crate) fn unbounded_wait_allowed(&self) -> Allowed {
        if self.privilege != Privilege::Machine && self.mstatus & TW != 0 {
            Allowed::Illegal
        } else if self.in_guest() && !self.guest_waits_allowed() {
            Allowed::Virtual
        } else {
            Allowed::Yes
        }
    }

    /// Whether `sfence.vma` may run.
    pub(crate) fn sfence_allowed(&self) -> Allowed {
        match self.privilege {
            Privilege::Machine => Allowed::Yes,
            Privilege::User => self.refused_below(),
            Privilege::Supervisor if self.in_guest() => match self.guest_fences_allowed() {
                true => Allowed::Yes,
                false => Allowed::Virtual,
            },
            Privilege::Supervisor if self.mstatus & TVM == 0 => Allowed::Yes,
            Privilege::Supervisor => Allowed::Illegal,
        }
    }

    /// Whether `hfence.vvma` may run, or `hfence.gvma` if it is `of_tables` of guests' memory.
    pub(crate) fn hfence_allowed(&self, of_tables: bool) -> Allowed {
        match self.privilege {
            _ if !self.extensions.h => Allowed::Illegal,
            _ if self.in_guest() => Allowed::Virtual,
            Privilege::User => Allowed::Illegal,
            Privilege::Supervisor if of_tables && self.mstatus & TVM != 0 => Allowed::Illegal,
            _ => Allowed::Yes,
        }
    }

    /// What an instruction raises that only a higher mode may run.
    pub(crate) fn refused_below(&self) -> Allowed {
        match self.in_guest() {
            true => Allowed::Virtual,
            false => Allowed::Illegal,
        }
    }

    fn handler_of(&self, trap: Trap) -> Handler {
        let (machine, guest) = match trap {
            Trap::Interrupt(interrupt) => {
                let bit = interrupt.bit();
                let delegated = (self.mideleg | self.delegated_always()) & bit;
                (delegated, self.hypervisor.hideleg & bit)
            }
            other => {
                let bit = 1 << other.code();
                (self.medeleg & bit, self.hypervisor.hedeleg & bit)
            }
        };
        if self.privilege == Privilege::Machine || machine == 0 {
            Handler::Machine
        } else if self.in_guest() && guest != 0 {
            Handler::Guest
        } else {
            Handler::Supervisor
        }
    }

    /// Address of the handler that `trap` enters from the present mode, and the mode in which it runs; `None` in place of that
    /// if it runs in a guest.
    #[must_use]
    pub(crate) fn handler(&self, trap: Trap) -> (u64, Option<Privilege>) {
        let (vector, privilege) = match self.handler_of(trap) {
            Handler::Machine => (self.mtvec, Some(Privilege::Machine)),
            Handler::Supervisor => (self.stvec, Some(Privilege::Supervisor)),
            Handler::Guest => (self.hypervisor.vstvec, None),
        };
        let base = vector & !3;
        let entry = match trap {
            Trap::Interrupt(interrupt) if vector & 1 != 0 => {
                let number = match privilege {
                    Some(_) => interrupt as u64,
                    None => interrupt as u64 - 1,
                };
                base + 4 * number
            }
            _ => base,
        };
        (entry, privilege)
    }

    /// Records `trap` at `pc` and switches to the mode that handles it.
    pub(crate) fn enter_trap(&mut self, trap: Trap, pc: u64) {
        let previous = self.privilege as u64;
        let from_guest = self.in_guest();
        let of_guest = trap.tells_guest_address() || from_guest && trap.tells_address();
        let (guest_address, instruction) = trap.guest_access();
        match self.handler_of(trap) {
            Handler::Guest => {
                let own = &mut self.hypervisor;
                own.vscause = match trap {
                    // The guest knows it under the number of what it stands for.
                    Trap::Interrupt(_) => trap.code() - 1,
                    _ => trap.code(),
                };
                own.vstval = trap.value();
                own.vsepc = pc;
                own.vsstatus = entered(own.vsstatus, previous);
                self.privilege = Privilege::Supervisor;
            }
            Handler::Supervisor => {
                self.scause = trap.code();
                self.stval = trap.value();
                self.sepc = pc;
                self.mstatus = entered(self.mstatus, previous);
                let own = &mut self.hypervisor;
                own.hstatus &= !(GVA | SPV);
                own.hstatus |= if of_guest { GVA } else { 0 } | if from_guest { SPV } else { 0 };
                if from_guest {
                    own.hstatus &= !SPVP;
                    own.hstatus |= if previous == 1 { SPVP } else { 0 };
                }
                (own.htval, own.htinst) = (guest_address, instruction);
                own.in_guest = false;
                self.privilege = Privilege::Supervisor;
            }
            Handler::Machine => {
                self.mcause = trap.code();
                self.mtval = trap.value();
                self.mepc = pc;
                let enabled = self.mstatus & MIE != 0;
                self.mstatus &= !(MIE | MPIE | MPP | MPV | MACHINE_GVA);
                self.mstatus |= if enabled { MPIE } else { 0 } | previous << MPP_SHIFT;
                self.mstatus |= if from_guest { MPV } else { 0 };
                self.mstatus |= if of_guest { MACHINE_GVA } else { 0 };
                let own = &mut self.hypervisor;
                (own.mtval2, own.mtinst) = (guest_address, instruction);
                own.in_guest = false;
                self.privilege = Privilege::Machine;
            }
        }
    }

    /// `mret`: returns the pc to continue at, or what it raises here.
    pub(crate) fn leave_machine_trap(&mut self) -> Result<u64, Allowed> {
        if self.privilege != Privilege::Machine {
            // No hypervisor could either.
            return Err(Allowed::Illegal);
        }
        let to = privilege_of(self.mstatus >> MPP_SHIFT);
        let enabled = self.mstatus & MPIE != 0;
        self.hypervisor.in_guest = self.mstatus & MPV != 0 && to != Privilege::Machine;
        self.mstatus &= !(MIE | MPP | MPV);
        self.mstatus |= MPIE | if enabled { MIE } else { 0 };
        if to != Privilege::Machine {
            self.mstatus &= !MPRV;
        }
        self.privilege = to;
        Ok(self.mepc)
    }

    /// `sret`: returns the pc to continue at, or what it raises here.
    pub(crate) fn leave_supervisor_trap(&mut self) -> Result<u64, Allowed> {
        if self.in_guest() {
            if self.privilege == Privilege::User || !self.guest_returns_allowed() {
                return Err(Allowed::Virtual);
            }
            let own = &mut self.hypervisor;
            (own.vsstatus, self.privilege) = left(own.vsstatus);
            return Ok(own.vsepc);
        }
        match self.privilege {
            Privilege::User => return Err(Allowed::Illegal),
            Privilege::Supervisor if self.mstatus & TSR != 0 => return Err(Allowed::Illegal),
            _ => {}
        }
        let (status, to) = left(self.mstatus);
        (self.mstatus, self.privilege) = (status & !MPRV, to);
        let own = &mut self.hypervisor;
        own.in_guest = own.hstatus & SPV != 0;
        own.hstatus &= !SPV;
        Ok(self.sepc)
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

/// A status register of a supervisor after a trap from mode `previous`.
fn entered(status: u64, previous: u64) -> u64 {
    let enabled = status & SIE != 0;
    status & !(SIE | SPIE | SPP)
        | if enabled { SPIE } else { 0 }
        | if previous == 1 { SPP } else { 0 }
}

/// A status register of a supervisor after its return from a trap, and the mode that it returns to.
fn left(status: u64) -> (u64, Privilege) {
    let to = if status & SPP != 0 {
        Privilege::Supervisor
    } else {
        Privilege::User
    };
    let enabled = status & SPIE != 0;
    let status = status & !(SIE | SPP) | SPIE | if enabled { SIE } else { 0 };
    (status, to)
}

fn privilege_of(field: u64) -> Privilege {
    match field & 3 {
        0 => Privilege::User,
        1 => Privilege::Supervisor,
        _ => Privilege::Machine,
    }
}
