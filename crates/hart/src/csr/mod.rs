//! Control and status registers of M, S and U mode (privileged manual 1.12, with Sstc and Svadu).
//! Performance-monitoring events are left out: their registers read as the manual says of a hart
//! without them (zero, writes ignored). Triggers too: a hart without one has none of the registers of
//! Sdtrig (debug specification 1.0), so an access to `tselect` and those that follow is illegal.

mod hypervisor;
mod pmp;
mod status;

use loiter_isa::csr::first::{HPMCOUNTER3, MHPMCOUNTER3, MHPMEVENT3, PMPADDR0, PMPCFG0};
use loiter_isa::csr::number::*;
use loiter_types::HartId;
use serde::{Deserialize, Serialize};

use crate::trap::Interrupt;
use hypervisor::{H_INTERRUPTS, Hypervisor, MEDELEG_OF_GUESTS, VS_INTERRUPTS};
use pmp::Pmp;
pub(crate) use pmp::Verdict;
pub(crate) use status::{AccessMode, Allowed};
use status::{
    MSTATUS_OF_GUESTS, MSTATUS_WRITABLE, SSTATUS_VISIBLE, SSTATUS_WRITABLE, TVM, UXL_SXL_64,
};

/// Privilege mode of a hart; ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum Privilege {
    /// U mode.
    User = 0,
    /// S mode.
    Supervisor = 1,
    /// M mode.
    Machine = 3,
}

/// What the hart's clocks show; set by the engine before CSRs are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Core clock cycles, `mcycle`.
    pub cycle: u64,
    /// Ticks of the platform's timer, `time`.
    pub time: u64,
}

/// The extensions of an ISA string that change what a hart does, beyond the instructions that it
/// announces, and what an implementation chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extensions {
    /// `h`: a hart can have guests.
    pub h: bool,
    /// `sv48`: tables of four levels, besides those of three.
    pub sv48: bool,
    /// `sstc`: supervisor mode has a timer of its own.
    pub sstc: bool,
    /// `svadu`: the accessed and dirty bits of page tables are set by the hart, from reset on; else
    /// their absence is a page fault (Svade).
    pub svadu: bool,
    /// `zawrs`: the hart can wait for a reservation; else `wrs.nto` and `wrs.sto` are illegal.
    pub zawrs: bool,
    /// `xloiterlock`: the instructions of the hardware lock; else they are illegal.
    pub xloiterlock: bool,
    /// Bits of the numbers of address spaces in `satp` and `vsatp` (privileged manual, ASIDLEN); the others are 0.
    pub asid_bits: u32,
}

impl Default for Extensions {
    fn default() -> Self {
        Self::of("rv64i")
    }
}

impl Extensions {
    /// Bits of `satp` that there are.
    fn satp_bits(self) -> u64 {
        let absent = (1 << ASID_BITS) - (1 << self.asid_bits.min(ASID_BITS));
        !(absent << ASID_SHIFT)
    }

    /// Those of an ISA string such as `rv64imafdc_zawrs_sstc`.
    #[must_use]
    pub fn of(isa: &str) -> Self {
        let has = |name| isa.split('_').skip(1).any(|each| each == name);
        let letters = isa.split('_').next().unwrap_or_default();
        let letters = letters.strip_prefix("rv64").unwrap_or(letters);
        Self {
            h: letters.contains('h'),
            sv48: has("sv48"),
            sstc: has("sstc"),
            svadu: has("svadu"),
            zawrs: has("zawrs"),
            xloiterlock: has("xloiterlock"),
            asid_bits: ASID_BITS,
        }
    }
}

const HPMCOUNTER31: u16 = HPMCOUNTER3 + 28;
const MHPMCOUNTER31: u16 = MHPMCOUNTER3 + 28;
const MHPMEVENT31: u16 = MHPMEVENT3 + 28;
const PMPCFG15: u16 = PMPCFG0 + 15;
const PMPADDR63: u16 = PMPADDR0 + 63;

const STIP: u64 = Interrupt::SupervisorTimer.bit();
const S_INTERRUPTS: u64 =
    Interrupt::SupervisorSoftware.bit() | STIP | Interrupt::SupervisorExternal.bit();
const M_INTERRUPTS: u64 = Interrupt::MachineSoftware.bit()
    | Interrupt::MachineTimer.bit()
    | Interrupt::MachineExternal.bit();

/// Exceptions that may be delegated: all that exist below machine mode.
const MEDELEG_WRITABLE: u64 = 0xb3ff;
/// `menvcfg`, `senvcfg`: fences of devices order memory too.
const FIOM: u64 = 1;
/// `menvcfg`: the hart sets accessed and dirty bits.
const ADUE: u64 = 1 << 61;
/// `menvcfg`: supervisor mode has its timer.
const STCE: u64 = 1 << 63;
/// Counters that `mcountinhibit` can stop: cycle and instret.
const COUNTINHIBIT_WRITABLE: u64 = 0b101;
/// Bit of the counter-enable registers: `time`.
const COUNTEREN_TIME: u64 = 1 << 1;
/// RV64, extensions A C D F I M S U.
const MISA_VALUE: u64 = (2 << 62) | 0x14_112d;
/// Extension H.
const MISA_H: u64 = 1 << 7;
const SATP_MODE_SHIFT: u32 = 60;
/// Where `satp` has the number of the address space.
const ASID_SHIFT: u32 = 44;
/// Bits of that number at most.
const ASID_BITS: u32 = 16;
/// Modes of `satp`.
const SV39: u64 = 8;
const SV48: u64 = 9;

/// How `satp` says that addresses are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paging {
    Bare,
    /// Tables of so many levels: 3 for Sv39, 4 for Sv48.
    Levels(u32),
}

impl Paging {
    /// As `satp`, `vsatp` or `hgatp` says; of the last, the outermost table is of four pages.
    pub(crate) fn of(register: u64) -> Self {
        match register >> SATP_MODE_SHIFT {
            SV39 => Paging::Levels(3),
            SV48 => Paging::Levels(4),
            _ => Paging::Bare,
        }
    }
}

/// The CSRs of one hart. Fields that the engines or the trap logic use are public.
///
/// A snapshot holds all but what follows from the machine: those fields are skipped, and
/// [`CsrFile::restore`] keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsrFile {
    /// Current privilege mode.
    pub privilege: Privilege,
    /// Interrupts that go to supervisor mode.
    pub mideleg: u64,
    /// Accrued floating-point exception flags.
    pub fflags: u8,
    /// The clocks as the engine last set them.
    #[serde(skip)]
    pub clock: Clock,
    #[serde(skip)]
    pub(crate) extensions: Extensions,
    #[serde(skip)]
    hart: HartId,
    #[serde(skip)]
    lines: u64,
    mstatus: u64,
    medeleg: u64,
    mie: u64,
    mip: u64,
    mtvec: u64,
    mcounteren: u64,
    mcountinhibit: u64,
    menvcfg: u64,
    mscratch: u64,
    mepc: u64,
    mcause: u64,
    mtval: u64,
    stvec: u64,
    scounteren: u64,
    senvcfg: u64,
    sscratch: u64,
    sepc: u64,
    scause: u64,
    stval: u64,
    satp: u64,
    frm: u8,
    cycle: Counter,
    instret: Counter,
    pmp: Pmp,
    #[serde(
        default = "Hypervisor::new",
        skip_serializing_if = "Hypervisor::is_unused"
    )]
    hypervisor: Hypervisor,
    /// Loads and stores are made as this at present, whatever the mode.
    #[serde(skip)]
    pub(crate) lent: Option<AccessMode>,
}

/// A counter that a program can set and stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Counter {
    /// Its value minus that of what it counts.
    Counting(u64),
    /// Its value.
    Stopped(u64),
}

impl Counter {
    fn value(self, source: u64) -> u64 {
        match self {
            Counter::Counting(offset) => source.wrapping_add(offset),
            Counter::Stopped(value) => value,
        }
    }

    fn set(&mut self, source: u64, value: u64) {
        *self = match self {
            Counter::Counting(_) => Counter::Counting(value.wrapping_sub(source)),
            Counter::Stopped(_) => Counter::Stopped(value),
        };
    }

    fn stop(&mut self, source: u64, stopped: bool) {
        let value = self.value(source);
        *self = if stopped {
            Counter::Stopped(value)
        } else {
            Counter::Counting(value.wrapping_sub(source))
        };
    }
}

impl CsrFile {
    /// What was cycle `from` is cycle `to` from now on; `mcycle` continues where it stood.
    pub fn move_clock(&mut self, from: u64, to: u64) {
        let value = self.cycle.value(from);
        self.cycle.set(to, value);
        self.clock.cycle = to;
    }

    /// Register `mhartid`.
    pub(crate) fn hart(&self) -> HartId {
        self.hart
    }

    /// The CSRs of `hart` at reset.
    #[must_use]
    pub fn new(hart: HartId, extensions: Extensions) -> Self {
        Self {
            privilege: Privilege::Machine,
            mideleg: 0,
            fflags: 0,
            clock: Clock::default(),
            extensions,
            hart,
            lines: 0,
            mstatus: UXL_SXL_64,
            medeleg: 0,
            mie: 0,
            mip: 0,
            mtvec: 0,
            mcounteren: 0,
            mcountinhibit: 0,
            menvcfg: if extensions.svadu { ADUE } else { 0 },
            mscratch: 0,
            mepc: 0,
            mcause: 0,
            mtval: 0,
            stvec: 0,
            scounteren: 0,
            senvcfg: 0,
            sscratch: 0,
            sepc: 0,
            scause: 0,
            stval: 0,
            satp: 0,
            frm: 0,
            cycle: Counter::Counting(0),
            instret: Counter::Counting(0),
            pmp: Pmp::new(),
            hypervisor: Hypervisor::new(),
            lent: None,
        }
    }

    /// Sets the interrupt lines that devices drive, as bits of `mip`.
    #[inline(always)]
    pub fn set_lines(&mut self, lines: u64) {
        self.lines = lines;
    }

    /// The interrupt lines as last set.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Dynamic rounding mode, as its field stands.
    #[inline(always)]
    #[must_use]
    pub fn frm(&self) -> u8 {
        self.frm
    }

    /// What pends: what programs have set, and the lines. The hart's own supervisor timer counts only
    /// while it is switched on.
    #[inline(always)]
    fn pending(&self) -> u64 {
        let hidden = if self.menvcfg & STCE == 0 { STIP } else { 0 };
        self.mip | self.lines & !hidden & !VS_INTERRUPTS | self.pending_of_guest()
    }

    /// Takes over what a snapshot holds.
    pub(crate) fn restore(&mut self, saved: &Self) {
        *self = Self {
            clock: self.clock,
            extensions: self.extensions,
            hart: self.hart,
            lines: self.lines,
            ..saved.clone()
        };
    }

    /// How addresses below machine mode are translated.
    pub(crate) fn paging(&self) -> Paging {
        Paging::of(self.satp)
    }

    /// Register `satp`.
    pub(crate) fn satp(&self) -> u64 {
        self.satp
    }

    /// Whether the hart sets accessed and dirty bits by itself.
    pub(crate) fn updates_accessed_dirty(&self) -> bool {
        self.menvcfg & ADUE != 0
    }

    /// What physical memory protection says of an access within a page.
    pub(crate) fn protection(
        &self,
        addr: u64,
        bytes: u64,
        privilege: Privilege,
        access: crate::translate::Access,
    ) -> Verdict {
        self.pmp.check(addr, bytes, privilege, access)
    }

    /// Whether register `stimecmp` exists for the present mode.
    pub(crate) fn supervisor_timer_allowed(&self) -> bool {
        match self.privilege {
            _ if self.in_guest() => self.guest_timer_allowed(),
            Privilege::User => false,
            Privilege::Supervisor => {
                self.menvcfg & STCE != 0 && self.mcounteren & COUNTEREN_TIME != 0
            }
            Privilege::Machine => self.extensions.sstc,
        }
    }

    /// The value of CSR `number`, or `None` when it does not exist, the mode may not access it, or
    /// `writes` and it is read-only. `retired` is the hart's count of retired instructions.
    pub(crate) fn read(&self, number: u16, retired: u64, writes: bool) -> Option<u64> {
        if !self.level_allowed(number) || (writes && number >> 10 == 3) {
            return None;
        }
        let number = self.named(number);
        Some(match number {
            FFLAGS | FRM | FCSR if self.fp_off() => return None,
            FFLAGS => u64::from(self.fflags),
            FRM => u64::from(self.frm),
            FCSR => u64::from(self.frm) << 5 | u64::from(self.fflags),
            CYCLE..=HPMCOUNTER31 if !self.counter_allowed(number - CYCLE) => return None,
            CYCLE | MCYCLE => self.cycle.value(self.clock.cycle),
            TIME if self.in_guest() => self.clock.time.wrapping_add(self.guest_timer().1),
            TIME => self.clock.time,
            INSTRET | MINSTRET => self.instret.value(retired),
            SSTATUS => self.status() & SSTATUS_VISIBLE,
            SIE => self.of_supervisor(self.mie),
            SIP => self.of_supervisor(self.pending()),
            STVEC => self.stvec,
            SCOUNTEREN => self.scounteren,
            SENVCFG => self.senvcfg,
            SSCRATCH => self.sscratch,
            SEPC => self.sepc,
            SCAUSE => self.scause,
            STVAL => self.stval,
            SATP if self.privilege == Privilege::Supervisor && self.mstatus & TVM != 0 => {
                return None;
            }
            SATP => self.satp,
            MHARTID => u64::from(self.hart.0),
            MSTATUS => self.status(),
            MISA => MISA_VALUE | if self.extensions.h { MISA_H } else { 0 },
            MEDELEG => self.medeleg,
            MIDELEG => self.mideleg | self.delegated_always(),
            MIE => self.mie,
            MIP => self.pending(),
            MTVEC => self.mtvec,
            MCOUNTEREN => self.mcounteren,
            MENVCFG => self.menvcfg,
            MSCRATCH => self.mscratch,
            MEPC => self.mepc,
            MCAUSE => self.mcause,
            MTVAL => self.mtval,
            MCOUNTINHIBIT => self.mcountinhibit,
            MVENDORID..=MIMPID | MCONFIGPTR | MHPMEVENT3..=MHPMEVENT31 => 0,
            // RV64 has the even-numbered configuration registers only.
            PMPCFG0..=PMPCFG15 if number & 1 == 0 => self.pmp.config((number - PMPCFG0).into()),
            PMPADDR0..=PMPADDR63 => self.pmp.addr((number - PMPADDR0).into()),
            CYCLE..=HPMCOUNTER31 | MHPMCOUNTER3..=MHPMCOUNTER31 => 0,
            other => return self.read_hypervisor(other),
        })
    }

    /// What csrrs and csrrc modify: as read, but for `mip`, where device lines do not stick.
    pub(crate) fn modify_base(&self, number: u16, read: u64) -> u64 {
        match self.named(number) {
            MIP | SIP => read & (self.mip | self.hypervisor.hvip),
            HIP => read & self.hypervisor.hvip,
            VSIP => read & self.hypervisor.hvip >> 1,
            _ => read,
        }
    }

    /// Writes CSR `number`, which [`CsrFile::read`] has allowed.
    pub(crate) fn write(&mut self, number: u16, value: u64, retired: u64) {
        match self.named(number) {
            FFLAGS => self.set_fp(self.frm, value as u8),
            FRM => self.set_fp(value as u8, self.fflags),
            FCSR => self.set_fp((value >> 5) as u8, value as u8),
            SSTATUS => self.set_status(value, SSTATUS_WRITABLE),
            MSTATUS if self.extensions.h => {
                self.set_status(value, MSTATUS_WRITABLE | MSTATUS_OF_GUESTS);
            }
            MSTATUS => self.set_status(value, MSTATUS_WRITABLE),
            SIE => self.mie = merge(self.mie, value, self.mideleg & S_INTERRUPTS),
            MIE => self.mie = value & (S_INTERRUPTS | M_INTERRUPTS | self.delegated_always()),
            SIP => {
                let mask = self.mideleg & Interrupt::SupervisorSoftware.bit();
                self.mip = merge(self.mip, value, mask);
            }
            // While supervisor mode has its timer, that alone drives its interrupt.
            MIP => {
                let timer = if self.menvcfg & STCE != 0 { STIP } else { 0 };
                self.mip = merge(self.mip, value, S_INTERRUPTS & !timer);
                if self.extensions.h {
                    self.write_hypervisor(HIP, value);
                }
            }
            MEDELEG if self.extensions.h => {
                self.medeleg = value & (MEDELEG_WRITABLE | MEDELEG_OF_GUESTS);
            }
            MEDELEG => self.medeleg = value & MEDELEG_WRITABLE,
            MIDELEG => self.mideleg = value & S_INTERRUPTS,
            MTVEC => self.mtvec = trap_vector(value),
            STVEC => self.stvec = trap_vector(value),
            MCOUNTEREN => self.mcounteren = value & 0xffff_ffff,
            SCOUNTEREN => self.scounteren = value & 0xffff_ffff,
            MENVCFG => self.set_menvcfg(value),
            SENVCFG => self.senvcfg = value & FIOM,
            MSCRATCH => self.mscratch = value,
            SSCRATCH => self.sscratch = value,
            MEPC => self.mepc = value & !1,
            SEPC => self.sepc = value & !1,
            MCAUSE => self.mcause = value,
            SCAUSE => self.scause = value,
            MTVAL => self.mtval = value,
            STVAL => self.stval = value,
            // A mode that the hart does not have leaves the register as it was.
            SATP if match value >> SATP_MODE_SHIFT {
                0 | SV39 => true,
                SV48 => self.extensions.sv48,
                _ => false,
            } =>
            {
                self.satp = value & self.extensions.satp_bits();
            }
            PMPCFG0..=PMPCFG15 => self.pmp.set_config((number - PMPCFG0).into(), value),
            PMPADDR0..=PMPADDR63 => self.pmp.set_addr((number - PMPADDR0).into(), value),
            MCOUNTINHIBIT => {
                self.mcountinhibit = value & COUNTINHIBIT_WRITABLE;
                self.cycle.stop(self.clock.cycle, value & 1 != 0);
                // The writing instruction counts as long as it counts.
                self.instret.stop(retired.wrapping_add(1), value & 4 != 0);
            }
            MCYCLE => self.cycle.set(self.clock.cycle, value),
            // The writing instruction itself counts, after its write.
            MINSTRET => self.instret.set(retired.wrapping_add(1), value),
            other => self.write_hypervisor(other, value),
        }
    }

    fn set_menvcfg(&mut self, value: u64) {
        let stce = if self.extensions.sstc { STCE } else { 0 };
        let adue = if self.extensions.svadu { ADUE } else { 0 };
        self.menvcfg = value & (FIOM | stce | adue);
        if self.menvcfg & STCE != 0 {
            self.mip &= !STIP;
        }
    }

    fn counter_allowed(&self, index: u16) -> bool {
        let bit = 1 << index;
        match self.privilege {
            Privilege::Machine => true,
            _ if self.in_guest() && self.counters_of_guest() & bit == 0 => false,
            Privilege::Supervisor => self.mcounteren & bit != 0,
            Privilege::User => self.mcounteren & self.scounteren & bit != 0,
        }
    }

    /// Interrupts that go below machine mode whatever it says: those of guests.
    fn delegated_always(&self) -> u64 {
        if self.extensions.h { H_INTERRUPTS } else { 0 }
    }

    fn set_fp(&mut self, frm: u8, fflags: u8) {
        self.frm = frm & 7;
        self.fflags = fflags & 0x1f;
        self.mark_fp_dirty();
    }
}

/// Whether CSR `number` is one of physical memory protection.
pub(crate) fn is_protection(number: u16) -> bool {
    matches!(number, PMPCFG0..=PMPADDR63)
}

fn merge(old: u64, new: u64, mask: u64) -> u64 {
    old & !mask | new & mask
}

/// Mode 0 (direct) or 1 (vectored); bit 1 is reserved.
fn trap_vector(value: u64) -> u64 {
    value & !2
}

#[cfg(test)]
mod tests;
