//! Traps as values: exceptions and interrupts with their codes of the privileged manual.

use std::fmt;

/// Exception codes (`mcause` with the top bit clear), privileged manual table "mcause values".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// The pc is not aligned to an instruction.
    FetchMisaligned = 0,
    /// Nothing to fetch at this physical address.
    FetchAccess = 1,
    /// Not an instruction, or not allowed now.
    IllegalInstruction = 2,
    /// `ebreak`.
    Breakpoint = 3,
    /// Load address misaligned where the access must be aligned.
    LoadMisaligned = 4,
    /// Nothing to load at this physical address.
    LoadAccess = 5,
    /// Store or atomic address misaligned where the access must be aligned.
    StoreMisaligned = 6,
    /// Nothing to store to at this physical address.
    StoreAccess = 7,
    /// `ecall` from user mode.
    EcallUser = 8,
    /// `ecall` from supervisor mode.
    EcallSupervisor = 9,
    /// `ecall` from machine mode.
    EcallMachine = 11,
    /// The page tables do not let the hart execute this address.
    FetchPage = 12,
    /// The page tables do not let the hart load from this address.
    LoadPage = 13,
    /// The page tables do not let the hart store to this address.
    StorePage = 15,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::FetchMisaligned => "instruction address misaligned",
            Cause::FetchAccess => "instruction access fault",
            Cause::IllegalInstruction => "illegal instruction",
            Cause::Breakpoint => "breakpoint",
            Cause::LoadMisaligned => "load address misaligned",
            Cause::LoadAccess => "load access fault",
            Cause::StoreMisaligned => "store/atomic address misaligned",
            Cause::StoreAccess => "store/atomic access fault",
            Cause::EcallUser => "environment call from user mode",
            Cause::EcallSupervisor => "environment call from supervisor mode",
            Cause::EcallMachine => "environment call from machine mode",
            Cause::FetchPage => "instruction page fault",
            Cause::LoadPage => "load page fault",
            Cause::StorePage => "store/atomic page fault",
        })
    }
}

/// Interrupt codes (`mcause` with the top bit set); the value is the bit in `mip` and `mie`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Interrupt {
    /// Supervisor software.
    SupervisorSoftware = 1,
    /// Machine software.
    MachineSoftware = 3,
    /// Supervisor timer.
    SupervisorTimer = 5,
    /// Machine timer.
    MachineTimer = 7,
    /// Supervisor external.
    SupervisorExternal = 9,
    /// Machine external.
    MachineExternal = 11,
}

impl Interrupt {
    /// All, in the order in which simultaneous ones are taken (privileged manual, "mip and mie").
    pub const BY_PRIORITY: [Interrupt; 6] = [
        Interrupt::MachineExternal,
        Interrupt::MachineSoftware,
        Interrupt::MachineTimer,
        Interrupt::SupervisorExternal,
        Interrupt::SupervisorSoftware,
        Interrupt::SupervisorTimer,
    ];

    /// Mask in `mip` and `mie`.
    #[must_use]
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// A trap that an instruction or an interrupt raised, not yet entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// Synchronous: the cause and what goes to `xtval`.
    Exception(Cause, u64),
    /// Asynchronous.
    Interrupt(Interrupt),
}

impl Trap {
    /// Value of `mcause` or `scause`.
    #[must_use]
    pub fn code(self) -> u64 {
        match self {
            Trap::Exception(cause, _) => cause as u64,
            Trap::Interrupt(interrupt) => (1 << 63) | interrupt as u64,
        }
    }

    /// Whether an instruction is there for it: an environment call, or a breakpoint.
    #[must_use]
    pub fn is_asked_for(self) -> bool {
        use Cause::{Breakpoint, EcallMachine, EcallSupervisor, EcallUser};
        matches!(
            self,
            Trap::Exception(Breakpoint | EcallUser | EcallSupervisor | EcallMachine, _)
        )
    }

    /// Value of `mtval` or `stval`.
    #[must_use]
    pub fn value(self) -> u64 {
        match self {
            Trap::Exception(_, value) => value,
            Trap::Interrupt(_) => 0,
        }
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trap::Exception(cause, value) => write!(f, "{cause} (value {value:#x})"),
            Trap::Interrupt(interrupt) => write!(f, "interrupt {interrupt:?}"),
        }
    }
}

/// A trap whose handler address holds no memory: the guest never installed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unhandled {
    /// The trap.
    pub trap: Trap,
    /// Address of the instruction that raised it.
    pub pc: u64,
    /// Where the trap vector points.
    pub handler: u64,
}
