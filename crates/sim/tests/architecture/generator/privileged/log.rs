//! What a privileged program tells, in records of four words: to the log in memory, where QEMU's is
//! read, and by probes, which loiter reports.

use loiter_isa::Op;

use super::super::asm::{Assembler, GP};
use super::layout::LOG_CURSOR;

pub(super) const REPORT_VALUE: u16 = 0x0a;
/// Words of a record.
pub(crate) const WORDS: usize = 4;
const BYTES: i32 = 8 * WORDS as i32;

/// Where the kind of a record stands in its first word.
pub(crate) const KIND_SHIFT: u32 = 56;
/// Where the first word of a trap says whether it is an interrupt.
pub(crate) const INTERRUPT_SHIFT: u32 = 8;
/// Where the first word of a trap has the entry of the vector table that it came by.
pub(crate) const VECTOR_SHIFT: u32 = 16;
/// Where the last word of a trap has the pending interrupts; below is the status register.
pub(crate) const PENDING_SHIFT: u32 = 32;

/// What a record is about. The words after the first:
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A trap to machine mode: pc, value, status and pending interrupts.
    Machine = 1,
    /// A trap to supervisor mode, the same.
    Supervisor = 2,
    /// A block begins: address of its environment, state of the physical memory protection, satp.
    Block = 3,
    /// A block has ended: hashes of registers of machine mode, of supervisor mode; status register.
    Control = 7,
    /// After that: hashes of integer registers, floating-point registers, window.
    Hashes = 4,
    /// Before that, if asked for: number of the first of three registers, which follow.
    Registers = 6,
    /// At the end: address, hash of a piece of memory, 0.
    Memory = 5,
}

impl Kind {
    pub(crate) const ALL: [Kind; 7] = [
        Kind::Control,
        Kind::Registers,
        Kind::Machine,
        Kind::Supervisor,
        Kind::Block,
        Kind::Hashes,
        Kind::Memory,
    ];

    /// The first word of a record with nothing else in it.
    pub(crate) fn word(self) -> i64 {
        (self as i64) << KIND_SHIFT
    }
}

/// Writes `value` as word `n` of the record at `cursor`.
pub(crate) fn word(asm: &mut Assembler, cursor: u8, n: i32, value: u8) {
    asm.s(Op::Sd, value, 8 * n, cursor);
    asm.probe(REPORT_VALUE, value);
}

/// Loads where the record that begins now goes.
pub(crate) fn begin(asm: &mut Assembler, cursor: u8) {
    asm.i(Op::Ld, cursor, GP, LOG_CURSOR);
}

/// The record at `cursor` is complete.
pub(crate) fn end(asm: &mut Assembler, cursor: u8) {
    asm.i(Op::Addi, cursor, cursor, BYTES);
    asm.s(Op::Sd, cursor, LOG_CURSOR, GP);
}
