//! Control and status registers of M, S and U mode (privileged manual 1.12), without paging, PMP
//! entries or performance-monitoring events: those registers read as the manual says of a hart
//! that lacks them (zero, writes ignored).

use loiter_types::HartId;

use crate::trap::{Interrupt, Trap};

/// Privilege mode of a hart; ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Core clock cycles, `mcycle`.
    pub cycle: u64,
    /// Ticks of the platform's timer, `time`.
    pub time: u64,
}

/// Numbers of the CSRs that exist here.
mod number {
    pub(super) const FFLAGS: u16 = 0x001;
    pub(super) const FRM: u16 = 0x002;
    pub(super) const FCSR: u16 = 0x003;
    pub(super) const CYCLE: u16 = 0xc00;
    pub(super) const TIME: u16 = 0xc01;
    pub(super) const INSTRET: u16 = 0xc02;
    pub(super) const HPMCOUNTER31: u16 = 0xc1f;
    pub(super) const SSTATUS: u16 = 0x100;
    pub(super) const SIE: u16 = 0x104;
    pub(super) const STVEC: u16 = 0x105;
    pub(super) const SCOUNTEREN: u16 = 0x106;
    pub(super) const SENVCFG: u16 = 0x10a;
    pub(super) const SSCRATCH: u16 = 0x140;
    pub(super) const SEPC: u16 = 0x141;
    pub(super) const SCAUSE: u16 = 0x142;
    pub(super) const STVAL: u16 = 0x143;
    pub(super) const SIP: u16 = 0x144;
    pub(super) const SATP: u16 = 0x180;
    pub(super) const MVENDORID: u16 = 0xf11;
    pub(super) const MIMPID: u16 = 0xf13;
    pub(super) const MHARTID: u16 = 0xf14;
    pub(super) const MCONFIGPTR: u16 = 0xf15;
    pub(super) const MSTATUS: u16 = 0x300;
    pub(super) const MISA: u16 = 0x301;
    pub(super) const MEDELEG: u16 = 0x302;
    pub(super) const MIDELEG: u16 = 0x303;
    pub(super) const MIE: u16 = 0x304;
    pub(super) const MTVEC: u16 = 0x305;
    pub(super) const MCOUNTEREN: u16 = 0x306;
    pub(super) const MENVCFG: u16 = 0x30a;
    pub(super) const MCOUNTINHIBIT: u16 = 0x320;
    pub(super) const MHPMEVENT3: u16 = 0x323;
    pub(super) const MHPMEVENT31: u16 = 0x33f;
    pub(super) const MSCRATCH: u16 = 0x340;
    pub(super) const MEPC: u16 = 0x341;
    pub(super) const MCAUSE: u16 = 0x342;
    pub(super) const MTVAL: u16 = 0x343;
    pub(super) const MIP: u16 = 0x344;
    pub(super) const PMPCFG0: u16 = 0x3a0;
    pub(super) const PMPCFG15: u16 = 0x3af;
    pub(super) const PMPADDR0: u16 = 0x3b0;
    pub(super) const PMPADDR63: u16 = 0x3ef;
    pub(super) const MCYCLE: u16 = 0xb00;
    pub(super) const MINSTRET: u16 = 0xb02;
    pub(super) const MHPMCOUNTER31: u16 = 0xb1f;
}
use number::*;

const SIE_BIT: u64 = 1 << 1;
const MIE_BIT: u64 = 1 << 3;
const SPIE: u64 = 1 << 5;
const MPIE: u64 = 1 << 7;
const SPP: u64 = 1 << 8;
const MPP_SHIFT: u32 = 11;
const MPP: u64 = 3 << MPP_SHIFT;
const FS: u64 = 3 << 13;
const MPRV: u64 = 1 << 17;
const SUM: u64 = 1 << 18;
const MXR: u64 = 1 << 19;
const TVM: u64 = 1 << 20;
const TW: u64 = 1 << 21;
const TSR: u64 = 1 << 22;
const UXL_SXL_64: u64 = (2 << 32) | (2 << 34);
const SD: u64 = 1 << 63;

const MSTATUS_WRITABLE: u64 =
    SIE_BIT | MIE_BIT | SPIE | MPIE | SPP | MPP | FS | MPRV | SUM | MXR | TVM | TW | TSR;
const SSTATUS_WRITABLE: u64 = SIE_BIT | SPIE | SPP | FS | SUM | MXR;
const SSTATUS_VISIBLE: u64 = SSTATUS_WRITABLE | (2 << 32) | SD;

const S_INTERRUPTS: u64 = Interrupt::SupervisorSoftware.bit()
    | Interrupt::SupervisorTimer.bit()
    | Interrupt::SupervisorExternal.bit();
const M_INTERRUPTS: u64 = Interrupt::MachineSoftware.bit()
    | Interrupt::MachineTimer.bit()
    | Interrupt::MachineExternal.bit();

/// Exceptions that may be delegated: all that exist below machine mode.
const MEDELEG_WRITABLE: u64 = 0xb3ff;
/// FIOM is the only bit of the environment configuration that means something here.
const ENVCFG_WRITABLE: u64 = 1;
/// RV64, extensions A C D F I M S U.
const MISA_VALUE: u64 = (2 << 62) | 0x14_112d;

/// The CSRs of one hart. Fields that the engines or the trap logic use are public.
#[derive(Clone, Debug)]
pub struct CsrFile {
    /// Current privilege mode.
    pub privilege: Privilege,
    /// Interrupts that go to supervisor mode.
    pub mideleg: u64,
    /// Accrued floating-point exception flags.
    pub fflags: u8,
    /// The clocks as the engine last set them.
    pub clock: Clock,
    hart: HartId,
    lines: u64,
    mstatus: u64,
    medeleg: u64,
    mie: u64,
    mip: u64,
    mtvec: u64,
    mcounteren: u64,
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
    frm: u8,
    cycle_offset: u64,
    instret_offset: u64,
}

impl CsrFile {
    /// The CSRs of `hart` at reset.
    #[must_use]
    pub fn new(hart: HartId) -> Self {
        Self {
            privilege: Privilege::Machine,
            mideleg: 0,
            fflags: 0,
            clock: Clock::default(),
            hart,
            lines: 0,
            mstatus: UXL_SXL_64,
            medeleg: 0,
            mie: 0,
            mip: 0,
            mtvec: 0,
            mcounteren: 0,
            menvcfg: 0,
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
            frm: 0,
            cycle_offset: 0,
            instret_offset: 0,
        }
    }

    /// Sets the interrupt lines that devices drive, as bits of `mip`.
    pub fn set_lines(&mut self, lines: u64) {
        self.lines = lines;
    }

    /// Whether floating-point instructions are illegal now (`mstatus.FS` is off).
    #[inline(always)]
    #[must_use]
    pub fn fp_off(&self) -> bool {
        self.mstatus & FS == 0
    }

    #[inline(always)]
    pub(crate) fn mark_fp_dirty(&mut self) {
        self.mstatus |= FS;
    }

    /// Dynamic rounding mode, as its field stands.
    #[inline(always)]
    #[must_use]
    pub fn frm(&self) -> u8 {
        self.frm
    }

    pub(crate) fn pending_enabled(&self) -> u64 {
        (self.mip | self.lines) & self.mie
    }

    pub(crate) fn machine_interrupts(&self) -> bool {
        self.mstatus & MIE_BIT != 0
    }

    pub(crate) fn supervisor_interrupts(&self) -> bool {
        self.mstatus & SIE_BIT != 0
    }

    /// Whether `wfi` may run. Where there is a supervisor mode, user mode may only wait for a bounded
    /// time (privileged manual, "Wait for Interrupt"); here the bound is zero.
    pub(crate) fn wfi_allowed(&self) -> bool {
        self.privilege != Privilege::User && self.wrs_allowed()
    }

    /// Whether `wrs.nto`, which waits without bound, may run.
    pub(crate) fn wrs_allowed(&self) -> bool {
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

    /// Address of the handler that `trap` enters from the present mode.
    #[must_use]
    pub(crate) fn handler(&self, trap: Trap) -> u64 {
        let vector = if self.goes_to_supervisor(trap) {
            self.stvec
        } else {
            self.mtvec
        };
        let base = vector & !3;
        match trap {
            Trap::Interrupt(interrupt) if vector & 1 != 0 => base + 4 * interrupt as u64,
            _ => base,
        }
    }

    /// Records `trap` at `pc` and switches to the mode that handles it.
    pub(crate) fn enter_trap(&mut self, trap: Trap, pc: u64) {
        let previous = self.privilege as u64;
        if self.goes_to_supervisor(trap) {
            self.scause = trap.code();
            self.stval = trap.value();
            self.sepc = pc;
            let enabled = self.mstatus & SIE_BIT != 0;
            self.mstatus &= !(SIE_BIT | SPIE | SPP);
            self.mstatus |= if enabled { SPIE } else { 0 } | if previous == 1 { SPP } else { 0 };
            self.privilege = Privilege::Supervisor;
        } else {
            self.mcause = trap.code();
            self.mtval = trap.value();
            self.mepc = pc;
            let enabled = self.mstatus & MIE_BIT != 0;
            self.mstatus &= !(MIE_BIT | MPIE | MPP);
            self.mstatus |= if enabled { MPIE } else { 0 } | previous << MPP_SHIFT;
            self.privilege = Privilege::Machine;
        }
    }

    /// `mret`: answers the pc to go on at; `None` when it is illegal here.
    pub(crate) fn leave_machine_trap(&mut self) -> Option<u64> {
        if self.privilege != Privilege::Machine {
            return None;
        }
        let to = privilege_of(self.mstatus >> MPP_SHIFT);
        let enabled = self.mstatus & MPIE != 0;
        self.mstatus &= !(MIE_BIT | MPP);
        self.mstatus |= MPIE | if enabled { MIE_BIT } else { 0 };
        if to != Privilege::Machine {
            self.mstatus &= !MPRV;
        }
        self.privilege = to;
        Some(self.mepc)
    }

    /// `sret`: answers the pc to go on at; `None` when it is illegal here.
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
        self.mstatus &= !(SIE_BIT | SPP | MPRV);
        self.mstatus |= SPIE | if enabled { SIE_BIT } else { 0 };
        self.privilege = to;
        Some(self.sepc)
    }

    /// The value of CSR `number`, or `None` when it does not exist, the mode may not access it, or
    /// `writes` and it is read-only. `retired` is the hart's count of retired instructions.
    pub(crate) fn read(&self, number: u16, retired: u64, writes: bool) -> Option<u64> {
        let needed = (number >> 8) & 3;
        if (self.privilege as u16) < needed || (writes && number >> 10 == 3) {
            return None;
        }
        let cycle = self.clock.cycle.wrapping_add(self.cycle_offset);
        let instret = retired.wrapping_add(self.instret_offset);
        Some(match number {
            FFLAGS | FRM | FCSR if self.fp_off() => return None,
            FFLAGS => u64::from(self.fflags),
            FRM => u64::from(self.frm),
            FCSR => u64::from(self.frm) << 5 | u64::from(self.fflags),
            CYCLE..=HPMCOUNTER31 if !self.counter_allowed(number - CYCLE) => return None,
            CYCLE | MCYCLE => cycle,
            TIME => self.clock.time,
            INSTRET | MINSTRET => instret,
            SSTATUS => self.status() & SSTATUS_VISIBLE,
            SIE => self.mie & self.mideleg,
            SIP => (self.mip | self.lines) & self.mideleg,
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
            SATP => 0,
            MHARTID => u64::from(self.hart.0),
            MSTATUS => self.status(),
            MISA => MISA_VALUE,
            MEDELEG => self.medeleg,
            MIDELEG => self.mideleg,
            MIE => self.mie,
            MIP => self.mip | self.lines,
            MTVEC => self.mtvec,
            MCOUNTEREN => self.mcounteren,
            MENVCFG => self.menvcfg,
            MSCRATCH => self.mscratch,
            MEPC => self.mepc,
            MCAUSE => self.mcause,
            MTVAL => self.mtval,
            MVENDORID..=MIMPID | MCONFIGPTR | MCOUNTINHIBIT | MHPMEVENT3..=MHPMEVENT31 => 0,
            // RV64 has the even-numbered configuration registers only.
            PMPCFG0..=PMPCFG15 if number & 1 == 0 => 0,
            PMPADDR0..=PMPADDR63 => 0,
            CYCLE..=HPMCOUNTER31 => 0,
            MCYCLE..=MHPMCOUNTER31 if number != MCYCLE + 1 => 0,
            _ => return None,
        })
    }

    /// What csrrs and csrrc modify: as read, but for `mip`, where device lines do not stick.
    pub(crate) fn modify_base(&self, number: u16, read: u64) -> u64 {
        match number {
            MIP | SIP => read & self.mip,
            _ => read,
        }
    }

    /// Writes CSR `number`, which [`CsrFile::read`] has allowed.
    pub(crate) fn write(&mut self, number: u16, value: u64, retired: u64) {
        match number {
            FFLAGS => self.set_fp(self.frm, value as u8),
            FRM => self.set_fp(value as u8, self.fflags),
            FCSR => self.set_fp((value >> 5) as u8, value as u8),
            SSTATUS => self.set_status(value, SSTATUS_WRITABLE),
            MSTATUS => self.set_status(value, MSTATUS_WRITABLE),
            SIE => self.mie = merge(self.mie, value, self.mideleg),
            MIE => self.mie = value & (S_INTERRUPTS | M_INTERRUPTS),
            SIP => {
                let mask = self.mideleg & Interrupt::SupervisorSoftware.bit();
                self.mip = merge(self.mip, value, mask);
            }
            MIP => self.mip = merge(self.mip, value, S_INTERRUPTS),
            MEDELEG => self.medeleg = value & MEDELEG_WRITABLE,
            MIDELEG => self.mideleg = value & S_INTERRUPTS,
            MTVEC => self.mtvec = trap_vector(value),
            STVEC => self.stvec = trap_vector(value),
            MCOUNTEREN => self.mcounteren = value & 0xffff_ffff,
            SCOUNTEREN => self.scounteren = value & 0xffff_ffff,
            MENVCFG => self.menvcfg = value & ENVCFG_WRITABLE,
            SENVCFG => self.senvcfg = value & ENVCFG_WRITABLE,
            MSCRATCH => self.mscratch = value,
            SSCRATCH => self.sscratch = value,
            MEPC => self.mepc = value & !1,
            SEPC => self.sepc = value & !1,
            MCAUSE => self.mcause = value,
            SCAUSE => self.scause = value,
            MTVAL => self.mtval = value,
            STVAL => self.stval = value,
            MCYCLE => self.cycle_offset = value.wrapping_sub(self.clock.cycle),
            // The writing instruction itself counts, after its write.
            MINSTRET => self.instret_offset = value.wrapping_sub(retired).wrapping_sub(1),
            _ => {}
        }
    }

    fn counter_allowed(&self, index: u16) -> bool {
        let bit = 1 << index;
        match self.privilege {
            Privilege::Machine => true,
            Privilege::Supervisor => self.mcounteren & bit != 0,
            Privilege::User => self.mcounteren & self.scounteren & bit != 0,
        }
    }

    fn status(&self) -> u64 {
        let dirty = self.mstatus & FS == FS;
        self.mstatus | if dirty { SD } else { 0 }
    }

    fn set_status(&mut self, value: u64, writable: u64) {
        let mut value = merge(self.mstatus, value, writable);
        if value & MPP == 2 << MPP_SHIFT {
            value = value & !MPP | self.mstatus & MPP;
        }
        self.mstatus = value;
    }

    fn set_fp(&mut self, frm: u8, fflags: u8) {
        self.frm = frm & 7;
        self.fflags = fflags & 0x1f;
        self.mark_fp_dirty();
    }
}

fn merge(old: u64, new: u64, mask: u64) -> u64 {
    old & !mask | new & mask
}

/// Mode 0 (direct) or 1 (vectored); bit 1 is reserved.
fn trap_vector(value: u64) -> u64 {
    value & !2
}

fn privilege_of(field: u64) -> Privilege {
    match field & 3 {
        0 => Privilege::User,
        1 => Privilege::Supervisor,
        _ => Privilege::Machine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trap::Cause;

    fn csrs() -> CsrFile {
        CsrFile::new(HartId(3))
    }

    #[test]
    fn lower_modes_may_not_read_machine_registers() {
        let mut csr = csrs();
        assert_eq!(csr.read(MHARTID, 0, false), Some(3));
        assert_eq!(csr.read(MHARTID, 0, true), None, "read-only");
        csr.privilege = Privilege::Supervisor;
        assert_eq!(csr.read(MSTATUS, 0, false), None);
        assert_eq!(csr.read(CYCLE, 0, false), None, "mcounteren is 0");
        csr.mcounteren = 1;
        assert_eq!(csr.read(CYCLE, 0, false), Some(0));
    }

    #[test]
    fn a_delegated_exception_goes_to_supervisor_and_returns() {
        let mut csr = csrs();
        csr.write(MEDELEG, 1 << 8, 0);
        csr.write(STVEC, 0x8000_1000, 0);
        csr.write(MTVEC, 0x8000_2000, 0);
        csr.privilege = Privilege::User;
        let trap = Trap::Exception(Cause::EcallUser, 0);
        assert_eq!(csr.handler(trap), 0x8000_1000);
        csr.enter_trap(trap, 0x8000_0100);
        assert_eq!(csr.privilege, Privilege::Supervisor);
        assert_eq!(csr.read(SCAUSE, 0, false), Some(8));
        assert_eq!(csr.leave_supervisor_trap(), Some(0x8000_0100));
        assert_eq!(csr.privilege, Privilege::User);
        assert_eq!(
            csr.leave_supervisor_trap(),
            None,
            "sret is illegal in user mode"
        );
    }

    #[test]
    fn machine_mode_exceptions_are_never_delegated() {
        let mut csr = csrs();
        csr.write(MEDELEG, u64::MAX, 0);
        csr.write(STVEC, 0x8000_1000, 0);
        csr.write(MTVEC, 0x8000_2000, 0);
        let trap = Trap::Exception(Cause::Breakpoint, 0);
        assert_eq!(csr.handler(trap), 0x8000_2000);
        csr.enter_trap(trap, 4);
        assert_eq!(csr.mstatus & MPP, MPP);
        assert_eq!(csr.leave_machine_trap(), Some(4));
        assert_eq!(csr.privilege, Privilege::Machine);
    }

    #[test]
    fn waiting_without_bound_can_be_forbidden() {
        let mut csr = csrs();
        assert!(csr.wfi_allowed() && csr.wrs_allowed());
        csr.privilege = Privilege::User;
        assert!(!csr.wfi_allowed() && csr.wrs_allowed());
        csr.privilege = Privilege::Supervisor;
        assert!(csr.wfi_allowed() && csr.wrs_allowed());
        csr.mstatus |= TW;
        assert!(!csr.wfi_allowed() && !csr.wrs_allowed());
    }

    #[test]
    fn vectored_interrupts_spread_and_exceptions_do_not() {
        let mut csr = csrs();
        csr.write(MTVEC, 0x8000_2001, 0);
        assert_eq!(
            csr.handler(Trap::Interrupt(Interrupt::MachineTimer)),
            0x8000_201c
        );
        assert_eq!(
            csr.handler(Trap::Exception(Cause::Breakpoint, 0)),
            0x8000_2000
        );
    }

    #[test]
    fn writing_reserved_mpp_keeps_the_old_one() {
        let mut csr = csrs();
        csr.write(MSTATUS, 1 << MPP_SHIFT, 0);
        csr.write(MSTATUS, 2 << MPP_SHIFT, 0);
        assert_eq!(csr.mstatus & MPP, 1 << MPP_SHIFT);
    }

    #[test]
    fn the_writer_of_minstret_reads_its_value_next() {
        let mut csr = csrs();
        csr.write(MINSTRET, 100, 41);
        assert_eq!(csr.read(MINSTRET, 42, false), Some(100));
    }
}
