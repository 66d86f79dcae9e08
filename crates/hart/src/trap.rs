//! Traps as values: exceptions and interrupts with their codes of the privileged manual.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Exception codes (`mcause` with the top bit clear), privileged manual table "mcause values".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
    /// `ecall` from supervisor mode of a guest.
    EcallGuest = 10,
    /// `ecall` from machine mode.
    EcallMachine = 11,
    /// The page tables do not let the hart execute this address.
    FetchPage = 12,
    /// The page tables do not let the hart load from this address.
    LoadPage = 13,
    /// The page tables do not let the hart store to this address.
    StorePage = 15,
    /// The memory of a guest does not let it execute this address.
    FetchGuestPage = 20,
    /// The memory of a guest does not let it load from this address.
    LoadGuestPage = 21,
    /// An instruction that a hypervisor is to do for its guest.
    VirtualInstruction = 22,
    /// The memory of a guest does not let it store to this address.
    StoreGuestPage = 23,
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
            Cause::EcallGuest => "environment call from supervisor mode of a guest",
            Cause::EcallMachine => "environment call from machine mode",
            Cause::FetchPage => "instruction page fault",
            Cause::LoadPage => "load page fault",
            Cause::StorePage => "store/atomic page fault",
            Cause::FetchGuestPage => "instruction guest-page fault",
            Cause::LoadGuestPage => "load guest-page fault",
            Cause::VirtualInstruction => "virtual instruction",
            Cause::StoreGuestPage => "store/atomic guest-page fault",
        })
    }
}

/// Interrupt codes (`mcause` with the top bit set); the value is the bit in `mip` and `mie`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[repr(u8)]
pub enum Interrupt {
    /// Supervisor software.
    SupervisorSoftware = 1,
    /// Supervisor software, of a guest.
    GuestSoftware = 2,
    /// Machine software.
    MachineSoftware = 3,
    /// Supervisor timer.
    SupervisorTimer = 5,
    /// Supervisor timer, of a guest.
    GuestTimer = 6,
    /// Machine timer.
    MachineTimer = 7,
    /// Supervisor external.
    SupervisorExternal = 9,
    /// Supervisor external, of a guest.
    GuestExternal = 10,
    /// Machine external.
    MachineExternal = 11,
}

impl Interrupt {
    /// All, in the order in which simultaneous ones are taken (privileged manual, "mip and mie").
    pub const BY_PRIORITY: [Interrupt; 9] = [
        Interrupt::MachineExternal,
        Interrupt::MachineSoftware,
        Interrupt::MachineTimer,
        Interrupt::SupervisorExternal,
        Interrupt::SupervisorSoftware,
        Interrupt::SupervisorTimer,
        Interrupt::GuestExternal,
        Interrupt::GuestSoftware,
        Interrupt::GuestTimer,
    ];

    /// Mask in `mip` and `mie`.
    #[must_use]
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// An access that a hart made as a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct GuestAccess {
    /// What it raises.
    pub cause: Cause,
    /// Its address in the guest.
    pub addr: u64,
    /// Where that lies in the guest's memory, for the causes that tell it.
    pub guest_addr: u64,
    /// What `htinst` and `mtinst` say: 0, or that an access to the guest's page tables has failed.
    pub instruction: u64,
}

/// A trap that an instruction or an interrupt raised, not yet entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Trap {
    /// Synchronous: the cause and what goes to `xtval`.
    Exception(Cause, u64),
    /// Synchronous, of an access that is made as a guest does.
    Guest(GuestAccess),
    /// Asynchronous.
    Interrupt(Interrupt),
}

impl Trap {
    /// The exception of an access, which told its address, if the access was made as a guest does.
    pub(crate) fn of_guest(self) -> Self {
        match self {
            Trap::Exception(cause, addr) => Trap::Guest(GuestAccess {
                cause,
                addr,
                guest_addr: 0,
                instruction: 0,
            }),
            other => other,
        }
    }

    /// Whether its value is an address of a guest, whoever made the access.
    pub(crate) fn tells_guest_address(self) -> bool {
        matches!(self, Trap::Guest(_))
    }

    /// Whether its value is an address.
    pub(crate) fn tells_address(self) -> bool {
        use Cause::{
            EcallGuest, EcallMachine, EcallSupervisor, EcallUser, IllegalInstruction,
            VirtualInstruction,
        };
        match self {
            Trap::Exception(cause, _) => !matches!(
                cause,
                IllegalInstruction
                    | VirtualInstruction
                    | EcallUser
                    | EcallSupervisor
                    | EcallGuest
                    | EcallMachine
            ),
            Trap::Guest(_) => true,
            Trap::Interrupt(_) => false,
        }
    }

    /// Values of `htval` and `htinst`, or `mtval2` and `mtinst`.
    pub(crate) fn guest_access(self) -> (u64, u64) {
        match self {
            Trap::Guest(access) => (access.guest_addr >> 2, access.instruction),
            Trap::Exception(..) | Trap::Interrupt(_) => (0, 0),
        }
    }

    /// What an instruction has raised, if one has.
    #[must_use]
    pub fn cause(self) -> Option<Cause> {
        match self {
            Trap::Exception(cause, _) => Some(cause),
            Trap::Guest(access) => Some(access.cause),
            Trap::Interrupt(_) => None,
        }
    }

    /// Value of `mcause` or `scause`.
    #[must_use]
    pub fn code(self) -> u64 {
        match self {
            Trap::Exception(cause, _) => cause as u64,
            Trap::Guest(access) => access.cause as u64,
            Trap::Interrupt(interrupt) => (1 << 63) | interrupt as u64,
        }
    }

    /// Whether an instruction is there for it: an environment call, or a breakpoint.
    #[must_use]
    pub fn is_asked_for(self) -> bool {
        use Cause::{Breakpoint, EcallGuest, EcallMachine, EcallSupervisor, EcallUser};
        matches!(
            self,
            Trap::Exception(
                Breakpoint | EcallUser | EcallSupervisor | EcallGuest | EcallMachine,
                _
            )
        )
    }

    /// Value of `mtval` or `stval`.
    #[must_use]
    pub fn value(self) -> u64 {
        match self {
            Trap::Exception(_, value) => value,
            Trap::Guest(access) => access.addr,
            Trap::Interrupt(_) => 0,
        }
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trap::Exception(cause, value) => write!(f, "{cause} (value {value:#x})"),
            Trap::Guest(access) => write!(
                f,
                "{} (address {:#x} of the guest, {:#x} in its memory)",
                access.cause, access.addr, access.guest_addr
            ),
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
