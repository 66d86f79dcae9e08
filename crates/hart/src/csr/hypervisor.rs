//! Registers of the hypervisor extension (privileged manual 1.12, chapter "Hypervisor Extension"): what a hypervisor keeps of a guest,
//! and the guest's own supervisor registers, which take the place of the others while the hart is in the guest.
//!
//! Left out, as the manual allows: guest external interrupts (`hgeie` and `hgeip` are zero), and transformed instructions in `htinst`
//! (zero, but for accesses to a guest's page tables).

use loiter_isa::csr::number::*;
use serde::{Deserialize, Serialize};

use super::status::{FS, SSTATUS_VISIBLE, SSTATUS_WRITABLE};
use super::{
    ADUE, COUNTEREN_TIME, CsrFile, FIOM, Privilege, S_INTERRUPTS, SATP_MODE_SHIFT, STCE, SV39,
    SV48, merge, trap_vector,
};
use crate::trap::Interrupt;

/// `hstatus`: the value that a trap has left is an address of the guest.
pub(super) const GVA: u64 = 1 << 6;
/// `hstatus`: the hart was in the guest.
pub(super) const SPV: u64 = 1 << 7;
/// `hstatus`: the guest was in its supervisor mode.
pub(super) const SPVP: u64 = 1 << 8;
/// `hstatus`: user mode may access as the guest does.
const HU: u64 = 1 << 9;
const VTVM: u64 = 1 << 20;
const VTW: u64 = 1 << 21;
const VTSR: u64 = 1 << 22;
const HSTATUS_WRITABLE: u64 = GVA | SPV | SPVP | HU | VTVM | VTW | VTSR;
/// `hstatus.VSXL`: 64 bits.
const VSXL_64: u64 = 2 << 32;

const VSSIP: u64 = Interrupt::GuestSoftware.bit();
const VSTIP: u64 = Interrupt::GuestTimer.bit();
/// Interrupts of a guest.
pub(super) const VS_INTERRUPTS: u64 = VSSIP | VSTIP | Interrupt::GuestExternal.bit();
/// Those of a guest that go to its hypervisor at first.
pub(super) const H_INTERRUPTS: u64 = VS_INTERRUPTS | 1 << 12;
/// Exceptions that a guest may handle itself.
const HEDELEG_WRITABLE: u64 = 0xb1ff;
/// Exceptions that only hypervisors and guests raise, and that machine mode may delegate.
pub(super) const MEDELEG_OF_GUESTS: u64 = 1 << 10 | 1 << 20 | 1 << 21 | 1 << 22 | 1 << 23;
/// The mode of `vsatp` and `hgatp`.
const MODE: u64 = 0xf << SATP_MODE_SHIFT;
/// The bits of `hgatp` that hold something: mode, guest number, table.
const HGATP_WRITABLE: u64 = 0xf << 60 | 0x3fff << 44 | ((1 << 44) - 4);

/// What there is beside the registers of a hart that has no guests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hypervisor {
    /// The hart is in the guest.
    pub(super) in_guest: bool,
    pub(super) hstatus: u64,
    pub(super) hedeleg: u64,
    pub(super) hideleg: u64,
    pub(super) hvip: u64,
    hcounteren: u64,
    pub(super) htimedelta: u64,
    henvcfg: u64,
    pub(super) htval: u64,
    pub(super) htinst: u64,
    pub(super) hgatp: u64,
    pub(super) mtval2: u64,
    pub(super) mtinst: u64,
    pub(super) vsstatus: u64,
    pub(super) vstvec: u64,
    vsscratch: u64,
    pub(super) vsepc: u64,
    pub(super) vscause: u64,
    pub(super) vstval: u64,
    pub(super) vsatp: u64,
    pub(super) vstimecmp: u64,
}

impl Hypervisor {
    /// As at reset.
    pub(super) fn new() -> Self {
        Self {
            vstimecmp: u64::MAX,
            ..Self::default()
        }
    }

    /// Whether it is as at reset, so that a snapshot need not hold it.
    pub(super) fn is_unused(&self) -> bool {
        *self == Self::new()
    }
}

/// The register that stands for `number` while the hart is in a guest.
fn of_guest(number: u16) -> u16 {
    match number {
        SSTATUS => VSSTATUS,
        SIE => VSIE,
        STVEC => VSTVEC,
        SSCRATCH => VSSCRATCH,
        SEPC => VSEPC,
        SCAUSE => VSCAUSE,
        STVAL => VSTVAL,
        SIP => VSIP,
        STIMECMP => VSTIMECMP,
        SATP => VSATP,
        other => other,
    }
}

impl CsrFile {
    /// Whether the hart is in a guest.
    #[inline(always)]
    #[must_use]
    pub fn in_guest(&self) -> bool {
        self.hypervisor.in_guest
    }

    /// Puts the hart into a mode, outside or in a guest.
    pub(crate) fn enter(&mut self, privilege: Privilege, in_guest: bool) {
        self.privilege = privilege;
        self.hypervisor.in_guest = in_guest;
    }

    /// Register `hgatp`: how addresses of a guest's memory are translated.
    pub(crate) fn hgatp(&self) -> u64 {
        self.hypervisor.hgatp
    }

    /// Register `vsatp`.
    pub(crate) fn vsatp(&self) -> u64 {
        self.hypervisor.vsatp
    }

    /// When the timer of a guest fires, and by how much its time is ahead.
    pub(crate) fn guest_timer(&self) -> (u64, u64) {
        (self.hypervisor.vstimecmp, self.hypervisor.htimedelta)
    }

    /// Whether CSR `number`, or what stands for it in a guest, decides when the timer of a guest fires.
    pub(crate) fn is_guest_timer(&self, number: u16) -> bool {
        matches!(self.named(number), VSTIMECMP | HTIMEDELTA)
    }

    /// Whether the hart sets accessed and dirty bits in a guest's own page tables.
    pub(crate) fn updates_accessed_dirty_of_guest(&self) -> bool {
        self.updates_accessed_dirty() && self.hypervisor.henvcfg & ADUE != 0
    }

    /// What pends for a guest: what its hypervisor has set, and its timer, if it has one.
    #[inline(always)]
    pub(super) fn pending_of_guest(&self) -> u64 {
        let has_timer = self.menvcfg & self.hypervisor.henvcfg & STCE != 0;
        let timer = if has_timer { self.lines & VSTIP } else { 0 };
        self.hypervisor.hvip | timer
    }

    /// The register that `number` names in the present mode.
    #[inline]
    pub(super) fn named(&self, number: u16) -> u16 {
        if self.in_guest() {
            of_guest(number)
        } else {
            number
        }
    }

    /// Whether the present mode may access register `number` as far as its number says.
    pub(super) fn level_allowed(&self, number: u16) -> bool {
        let level = number >> 8 & 3;
        if level == 2 {
            let hypervisor = self.privilege >= Privilege::Supervisor && !self.in_guest();
            return hypervisor && self.extensions.h;
        }
        self.privilege as u16 >= level
    }

    /// Whether an access that the hart refuses is one that its hypervisor could make, so that it raises an exception of its own.
    pub(crate) fn refused_to_guest(&self, number: u16, retired: u64, writes: bool) -> bool {
        if !self.in_guest() {
            return false;
        }
        let mut outside = self.clone();
        outside.hypervisor.in_guest = false;
        outside.privilege = Privilege::Supervisor;
        outside.mstatus &= !super::TVM;
        outside.scounteren = u64::MAX;
        match number {
            STIMECMP => outside.supervisor_timer_allowed(),
            _ => outside.read(number, retired, writes).is_some(),
        }
    }

    /// Whether a guest may access its timer, `vstimecmp` under the name `stimecmp`.
    pub(super) fn guest_timer_allowed(&self) -> bool {
        let hypervisor = &self.hypervisor;
        self.privilege == Privilege::Supervisor
            && self.menvcfg & hypervisor.henvcfg & STCE != 0
            && self.mcounteren & hypervisor.hcounteren & COUNTEREN_TIME != 0
    }

    /// Counters that a guest may read, as far as its hypervisor says.
    pub(super) fn counters_of_guest(&self) -> u64 {
        self.hypervisor.hcounteren
    }

    /// The value of a register of a hypervisor or a guest; `None` if there is none of this number.
    pub(super) fn read_hypervisor(&self, number: u16) -> Option<u64> {
        if !self.extensions.h {
            return None;
        }
        let own = &self.hypervisor;
        let of_guest = own.hideleg & VS_INTERRUPTS;
        Some(match number {
            HSTATUS => own.hstatus | VSXL_64,
            HEDELEG => own.hedeleg,
            HIDELEG => own.hideleg,
            HIE => self.mie & H_INTERRUPTS,
            HIP => self.pending() & H_INTERRUPTS,
            HVIP => own.hvip,
            HTIMEDELTA => own.htimedelta,
            HCOUNTEREN => own.hcounteren,
            HENVCFG => own.henvcfg & (self.menvcfg | FIOM),
            HTVAL => own.htval,
            HTINST => own.htinst,
            HGATP if self.privilege == Privilege::Supervisor && self.mstatus & super::TVM != 0 => {
                return None;
            }
            HGATP => own.hgatp,
            HGEIE | HGEIP => 0,
            MTVAL2 => own.mtval2,
            MTINST => own.mtinst,
            VSSTATUS => self.guest_status(),
            VSIE => (self.mie & of_guest) >> 1,
            VSIP => (self.pending() & of_guest) >> 1,
            VSTVEC => own.vstvec,
            VSSCRATCH => own.vsscratch,
            VSEPC => own.vsepc,
            VSCAUSE => own.vscause,
            VSTVAL => own.vstval,
            VSATP if self.in_guest() && own.hstatus & VTVM != 0 => return None,
            VSATP => own.vsatp,
            VSTIMECMP if self.in_guest() && !self.guest_timer_allowed() => return None,
            VSTIMECMP if !self.in_guest() && !self.supervisor_timer_allowed() => return None,
            VSTIMECMP => own.vstimecmp,
            _ => return None,
        })
    }

    fn guest_status(&self) -> u64 {
        let status = self.hypervisor.vsstatus;
        let dirty = status & FS == FS;
        (status & SSTATUS_WRITABLE | 2 << 32 | if dirty { 1 << 63 } else { 0 }) & SSTATUS_VISIBLE
    }

    /// Writes a register of a hypervisor or a guest.
    pub(super) fn write_hypervisor(&mut self, number: u16, value: u64) {
        let sv48 = self.extensions.sv48;
        let has_mode = move |value: u64| match value >> SATP_MODE_SHIFT {
            0 | SV39 => true,
            SV48 => sv48,
            _ => false,
        };
        let implemented = self.extensions.satp_bits();
        let delegated = self.hypervisor.hideleg & VS_INTERRUPTS;
        let own = &mut self.hypervisor;
        match number {
            HSTATUS => own.hstatus = value & HSTATUS_WRITABLE,
            HEDELEG => own.hedeleg = value & HEDELEG_WRITABLE,
            HIDELEG => own.hideleg = value & VS_INTERRUPTS,
            HIE => self.mie = merge(self.mie, value, H_INTERRUPTS),
            HIP => own.hvip = merge(own.hvip, value, VSSIP),
            HVIP => own.hvip = value & VS_INTERRUPTS,
            HTIMEDELTA => own.htimedelta = value,
            HCOUNTEREN => own.hcounteren = value & 0xffff_ffff,
            HENVCFG => own.henvcfg = value & self.menvcfg & (ADUE | STCE) | value & FIOM,
            HTVAL => own.htval = value,
            HTINST => own.htinst = value,
            // A mode that the hart does not have leaves the mode as it was, and here nothing but that.
            HGATP => {
                let mode = if has_mode(value) { value } else { own.hgatp } & MODE;
                own.hgatp = mode | value & HGATP_WRITABLE & !MODE;
            }
            MTVAL2 => own.mtval2 = value,
            MTINST => own.mtinst = value,
            VSSTATUS => own.vsstatus = value & SSTATUS_WRITABLE,
            VSIE => self.mie = merge(self.mie, value << 1, delegated),
            VSIP => own.hvip = merge(own.hvip, value << 1, delegated & VSSIP),
            VSTVEC => own.vstvec = trap_vector(value),
            VSSCRATCH => own.vsscratch = value,
            VSEPC => own.vsepc = value & !1,
            VSCAUSE => own.vscause = value,
            VSTVAL => own.vstval = value,
            // The guest itself writes it as its `satp`.
            VSATP if own.in_guest && !has_mode(value) => {}
            VSATP => {
                let mode = if has_mode(value) { value } else { own.vsatp } & MODE;
                own.vsatp = mode | value & implemented & !MODE;
            }
            VSTIMECMP => own.vstimecmp = value,
            _ => {}
        }
    }

    /// What supervisor mode sees of `mie`, `mip` and `mideleg`: nothing of guests, which `hie` and `hip` show.
    pub(super) fn of_supervisor(&self, interrupts: u64) -> u64 {
        interrupts & self.mideleg & S_INTERRUPTS
    }

    /// Whether accesses of a guest may be made from the present mode by the instructions for that; `None` if they are illegal, and
    /// otherwise as whom.
    pub(crate) fn guest_accesses(&self) -> Option<Privilege> {
        let status = self.hypervisor.hstatus;
        let allowed = match self.privilege {
            Privilege::User => status & HU != 0,
            _ => true,
        };
        let supervisor = status & SPVP != 0;
        (self.extensions.h && !self.in_guest() && allowed).then_some(match supervisor {
            true => Privilege::Supervisor,
            false => Privilege::User,
        })
    }

    /// Whether a guest in supervisor mode may fence its translations and change its tables.
    pub(super) fn guest_fences_allowed(&self) -> bool {
        self.hypervisor.hstatus & VTVM == 0
    }

    /// Whether a guest may wait without bound.
    pub(super) fn guest_waits_allowed(&self) -> bool {
        self.hypervisor.hstatus & VTW == 0
    }

    /// Whether a guest may return from traps by itself.
    pub(super) fn guest_returns_allowed(&self) -> bool {
        self.hypervisor.hstatus & VTSR == 0
    }
}
