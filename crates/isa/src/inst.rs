//! The decoded record of one instruction.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Op;
use crate::decode::decode;

/// Register slot that swallows writes: the destination of an instruction that has none, or x0.
pub const SINK: u8 = 64;

/// Slot of integer register `x`. Slot 0 always reads as zero.
#[inline(always)]
#[must_use]
pub const fn x(n: u8) -> u8 {
    n
}

/// Slot of floating-point register `f`.
#[inline(always)]
#[must_use]
pub const fn f(n: u8) -> u8 {
    32 + n
}

/// One decoded instruction, 16 bytes, plain data.
///
/// Register operands are slots in one space: 0..=31 are x0..x31, 32..=63 are f0..f31, [`SINK`] is
/// "no destination". A source that the instruction does not have is slot 0. So a core tracks
/// dependences without knowing the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Inst {
    /// What it does. A compressed encoding has the `Op` of its expansion.
    pub op: Op,
    /// Destination slot.
    pub rd: u8,
    /// First source slot.
    pub rs1: u8,
    /// Second source slot.
    pub rs2: u8,
    /// Third source slot: the addend of a fused multiply-add; for a compare-and-swap the old value
    /// of rd, which is slot 0 (and not [`SINK`]) if rd is x0.
    pub rs3: u8,
    /// Bytes: 2 or 4.
    pub len: u8,
    /// [`Inst::rm`] in the low half, [`Inst::mark`] in the high one: an instruction takes 16 bytes.
    pub(crate) rm_and_mark: u8,
    /// Immediate, sign-extended. For CSR instructions bits 11:0 are the CSR number and bits 16:12
    /// the zero-extended immediate of the `i` forms; for FENCE bits 3:0 are the successor and bits
    /// 7:4 the predecessor set and bits 11:8 `fm`.
    pub imm: i32,
    /// The encoding, low 16 bits only when `len` is 2.
    pub raw: u32,
}

const _: () = assert!(size_of::<Inst>() == 16);

impl Inst {
    /// Rounding mode field of a floating-point instruction (7 = dynamic; 0 when it has none; never
    /// a reserved value), or bit 1 `aq` and bit 0 `rl` of an atomic.
    #[inline(always)]
    #[must_use]
    pub fn rm(&self) -> u8 {
        self.rm_and_mark & 0xf
    }

    /// What whoever keeps decoded code has marked the place of the instruction with, 0 to 15; 0 from
    /// [`decode`](crate::decode). It says nothing of what the instruction does.
    #[inline(always)]
    #[must_use]
    pub fn mark(&self) -> u8 {
        self.rm_and_mark >> 4
    }

    /// The same instruction with another mark.
    ///
    /// # Panics
    ///
    /// If the mark is above 15.
    #[must_use]
    pub fn marked(self, mark: u8) -> Self {
        assert!(mark < 16, "mark {mark}");
        Self {
            rm_and_mark: self.rm() | mark << 4,
            ..self
        }
    }

    /// From the value of rs1 to the address of the data of a load, store or atomic.
    #[inline(always)]
    #[must_use]
    pub const fn data_offset(&self) -> u64 {
        match self.op.class() {
            // The immediate of an atomic, if it has one, is the target of a branch.
            Class::Atomic => 0,
            _ => self.imm as i64 as u64,
        }
    }

    /// Whether an atomic is annotated `aq`: later accesses of its hart follow it.
    #[must_use]
    pub fn acquires(&self) -> bool {
        self.op.class() == Class::Atomic && self.rm() & 2 != 0
    }

    /// Whether an atomic is annotated `rl`: it follows earlier accesses of its hart.
    #[must_use]
    pub fn releases(&self) -> bool {
        self.op.class() == Class::Atomic && self.rm() & 1 != 0
    }

    /// Whether it does nothing but order accesses.
    #[must_use]
    pub const fn only_orders(&self) -> bool {
        matches!(self.op, Op::Fence | Op::FenceTso)
    }

    /// Whether a fence orders earlier stores (or device output) before later ones. True of all that is not a fence.
    #[must_use]
    pub const fn orders_stores(&self) -> bool {
        const OUTPUT_OR_WRITE: i32 = 0b0101;
        match self.op {
            Op::Fence => {
                let (predecessor, successor) = (self.imm >> 4 & 0xf, self.imm & 0xf);
                predecessor & OUTPUT_OR_WRITE != 0 && successor & OUTPUT_OR_WRITE != 0
            }
            _ => true,
        }
    }

    /// Whether a fence orders earlier stores (or device output) before later loads (or device input):
    /// the only order that a core does not keep by itself whose loads and whose stores perform in
    /// program order. True of all that is not a fence.
    #[must_use]
    pub const fn orders_stores_before_loads(&self) -> bool {
        const OUTPUT_OR_WRITE: i32 = 0b0101;
        const INPUT_OR_READ: i32 = 0b1010;
        match self.op {
            Op::FenceTso => false,
            Op::Fence => {
                let (predecessor, successor) = (self.imm >> 4 & 0xf, self.imm & 0xf);
                predecessor & OUTPUT_OR_WRITE != 0 && successor & INPUT_OR_READ != 0
            }
            _ => true,
        }
    }
}

/// Bytes that a memory access moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// 1 byte.
    B = 1,
    /// 2 bytes.
    H = 2,
    /// 4 bytes.
    W = 4,
    /// 8 bytes.
    D = 8,
    /// 16 bytes (`amocas.q` only).
    Q = 16,
}

impl Width {
    /// Number of bytes.
    #[inline(always)]
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self as u64
    }
}

/// What an instruction asks of a core's units, and so which latency it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[repr(u8)]
pub enum Class {
    /// Integer operation of the plain ALU (also lui, auipc, shifts, bit manipulation).
    Alu,
    /// Integer multiply (also carry-less).
    Mul,
    /// Integer divide or remainder.
    Div,
    /// Conditional branch.
    Branch,
    /// Unconditional jump: jal, jalr.
    Jump,
    /// Load, integer or floating point.
    Load,
    /// Store, integer or floating point.
    Store,
    /// Read-modify-write atomic, lr and sc; acquiring a hardware lock, and waiting for flags.
    Atomic,
    /// Floating-point add, subtract, compare, minimum, maximum, conversion.
    FpAdd,
    /// Floating-point multiply.
    FpMul,
    /// Fused multiply-add.
    FpFma,
    /// Floating-point divide.
    FpDiv,
    /// Floating-point square root.
    FpSqrt,
    /// Floating-point sign injection, class, and moves between register files.
    FpMove,
    /// Memory fence (fence, fence.tso) and fence.i, sfence.vma.
    Fence,
    /// CSR access.
    Csr,
    /// ecall, ebreak, mret, sret, and anything illegal.
    System,
    /// `pause`.
    Pause,
    /// `wfi`, `wrs.nto`, `wrs.sto`.
    Nap,
    /// Probe HINT: no slot, no time.
    Probe,
}

impl Class {
    /// Whether it accesses data in memory: a load, store or atomic.
    #[inline(always)]
    #[must_use]
    pub const fn accesses(self) -> bool {
        // As bits, so that a compiler makes no jump by class of this and what follows.
        const ACCESSES: u32 =
            1 << Class::Load as u32 | 1 << Class::Store as u32 | 1 << Class::Atomic as u32;
        ACCESSES >> self as u32 & 1 != 0
    }

    /// Whether it computes in floating point; loads and stores of such registers do not.
    #[inline(always)]
    #[must_use]
    pub const fn is_fp(self) -> bool {
        matches!(
            self,
            Self::FpAdd | Self::FpMul | Self::FpFma | Self::FpDiv | Self::FpSqrt | Self::FpMove
        )
    }
}

/// Bytes of the line of flags that [`Lock::Wait`] looks at: eight doublewords.
pub const FLAGS_BYTES: u64 = 64;

/// The instructions of the hardware lock: the lock is a word, 0 when it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// `if memory[rs1] == 0 { memory[rs1] = 1 }`, atomically and before all that follows. Else the hart
    /// blocks until the line may have been written, and looks again; when it has been at that for rs2
    /// cycles (0: without limit), `pc += imm`.
    Acquire,
    /// `memory[rs1] = 0`, behind all that came before.
    Release,
    /// Blocks likewise while the eight doublewords of the line at rs1 are zero.
    Wait,
}

impl Lock {
    /// Of its access; of [`Lock::Wait`], that of each flag.
    #[must_use]
    pub const fn width(self) -> Width {
        match self {
            Lock::Acquire | Lock::Release => Width::W,
            Lock::Wait => Width::D,
        }
    }
}

/// How a hypervisor loads from the addresses of its guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestLoad {
    /// Of the access.
    pub width: Width,
    /// The value is sign-extended.
    pub signed: bool,
    /// The guest must be allowed to execute what is loaded, and need not be allowed to load it.
    pub of_code: bool,
}

impl GuestLoad {
    /// Sign-extended.
    #[must_use]
    pub const fn signed(width: Width) -> Self {
        Self {
            width,
            signed: true,
            of_code: false,
        }
    }

    /// Zero-extended.
    #[must_use]
    pub const fn unsigned(width: Width) -> Self {
        Self {
            signed: false,
            ..Self::signed(width)
        }
    }

    /// Zero-extended, of what the guest may execute.
    #[must_use]
    pub const fn of_code(width: Width) -> Self {
        Self {
            of_code: true,
            ..Self::unsigned(width)
        }
    }
}

/// Instructions whose effect is on the hart's privileged state, not a function of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Not an instruction of this machine.
    Illegal,
    /// Environment call.
    Ecall,
    /// Breakpoint.
    Ebreak,
    /// Return from machine trap.
    Mret,
    /// Return from supervisor trap.
    Sret,
    /// Wait for interrupt.
    Wfi,
    /// Wait on reservation set, no time-out.
    WrsNto,
    /// Wait on reservation set, short time-out.
    WrsSto,
    /// Spin-wait hint.
    Pause,
    /// Memory fence.
    Fence,
    /// Instruction-fetch fence.
    FenceI,
    /// Translation fence.
    SfenceVma,
    /// Translation fence of a guest's translations.
    HypervisorFence,
    /// Load by a hypervisor as its guest would.
    GuestLoad(GuestLoad),
    /// Store by a hypervisor as its guest would.
    GuestStore(Width),
    /// Probe: `slti x0, rs1, imm`.
    Probe,
}

/// An instruction is kept as its encoding and its mark, which say all of it.
impl Serialize for Inst {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        debug_assert_eq!(*self, decode(self.raw).marked(self.mark()));
        (self.raw, self.mark()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Inst {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (raw, mark) = <(u32, u8)>::deserialize(deserializer)?;
        if mark > 15 {
            return Err(D::Error::custom(format!("mark {mark} of an instruction")));
        }
        Ok(decode(raw).marked(mark))
    }
}
