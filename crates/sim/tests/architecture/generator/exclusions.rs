//! What is not compared with QEMU 7.2, each with the reason. Nothing is left out when loiter's own
//! engines are compared with one another.

use loiter_isa::Op;

/// Whom a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// QEMU and loiter: what QEMU 7.2 does otherwise, and may, is left out or masked.
    Qemu,
    /// The engines of loiter: everything.
    Loiter,
}

impl Target {
    pub(crate) fn excludes(self, _: Exclusion) -> bool {
        self == Target::Qemu
    }

    /// Whether the target has instruction `op`.
    pub(crate) fn has(self, op: Op) -> bool {
        self == Target::Loiter || !UNKNOWN_TO_QEMU.iter().any(|&(unknown, _)| unknown == op)
    }
}

/// Instructions that QEMU 7.2 does not have.
pub(crate) const UNKNOWN_TO_QEMU: &[(Op, &str)] = &[
    (Op::AmocasW, "Zacas came with QEMU 8.2"),
    (Op::AmocasD, "Zacas came with QEMU 8.2"),
    (Op::AmocasQ, "Zacas came with QEMU 8.2"),
    (Op::CzeroEqz, "Zicond came with QEMU 8.0"),
    (Op::CzeroNez, "Zicond came with QEMU 8.0"),
    (Op::LockAcquire, "Xloiterlock is loiter's own"),
    (Op::LockRelease, "Xloiterlock is loiter's own"),
    (Op::LockWait, "Xloiterlock is loiter's own"),
    (Op::WrsNto, "Zawrs came with QEMU 8.0"),
    (Op::WrsSto, "Zawrs came with QEMU 8.0"),
];

/// Behaviour in which QEMU 7.2 differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exclusion {
    /// `mtval` and `stval` of a breakpoint: the manual lets it be 0 or the pc; QEMU has 0, loiter
    /// the pc.
    BreakpointValue,
    /// An atomic to where nothing answers raises the access fault of a store by the manual; QEMU does
    /// it as a load followed by a store there, and raises the load's.
    AtomicCause,
    /// A misaligned `sc` without a reservation fails in QEMU, without the exception that the manual
    /// asks for: it looks at the reservation before the address.
    MisalignedStoreConditional,
    /// The field `mstatus.FS` (with SD) may become dirty at any floating-point instruction; QEMU
    /// leaves it when only flags change.
    DirtyState,
    /// The number of instructions retired: QEMU derives it from the host's time. (No engines agree on
    /// `cycle` and `time`, which are never compared.)
    Retired,
    /// `ctzw` of a word that is zero: QEMU before 8.0 counts on into the upper word ("target/riscv:
    /// fix ctzw behavior").
    CtzwOfZero,
    /// The value of a load access fault: a misaligned load from where nothing answers is two aligned
    /// ones in QEMU, and the value is the address of one of them.
    LoadAccessValue,
    /// With `mstatus.MPRV` set, accesses of machine mode have the rights of MPP, which a trap and its
    /// `mret` change; QEMU 7.2 forgets its translations when a program writes mstatus, but not then.
    RightsAfterTrap,
    /// A return from machine mode to a lower one clears `mstatus.MPRV` since privileged specification
    /// 1.12, but not in QEMU 7.2.
    RightsAfterReturn,
    /// `mepc` and `sepc` with bit 0 set: QEMU 7.2 keeps the bit, which must read as 0.
    OddExceptionPc,
}
