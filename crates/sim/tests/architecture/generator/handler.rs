//! Trap handlers of generated programs. A handler folds cause, pc, value and status of each trap
//! into a hash, and continues after the instruction that trapped; behind a jump to where no memory
//! is, at `ra`. The machine-mode handler goes back to machine mode when the program has set a flag.

use loiter_isa::Op;

use super::asm::{Assembler, GP, Label, RA};
use super::exclusions::{Exclusion, Target};
use super::layout::{
    MACHINE_SAVE, MULTIPLIER, RETURN_FLAG, SUPERVISOR_SAVE, TRAP_COUNT, TRAP_HASH,
};

pub(super) const T0: u8 = 5;
pub(super) const T1: u8 = 6;
pub(super) const T2: u8 = 7;
pub(super) const T3: u8 = 28;
pub(super) const T4: u8 = 29;
pub(super) const T5: u8 = 30;
/// What a handler saves.
pub(super) const SAVED: [u8; 6] = [T0, T1, T2, T3, T4, T5];

pub(super) const FETCH_ACCESS: i64 = 1;
pub(super) const BREAKPOINT: i64 = 3;
pub(super) const LOAD_ACCESS: i64 = 5;
const STORE_ACCESS: i64 = 7;
pub(super) const AMO_OPCODE: i64 = 0x2f;
/// funct5 of `lr`.
pub(super) const LR_FUNCTION: i64 = 2;
/// Entries of a vector table: interrupts 0 to 11, of which 1, 5 and 9 occur.
pub(super) const VECTORS: usize = 12;

/// What differs between the handlers.
pub(super) struct Mode {
    pub(super) cause: u16,
    pub(super) pc: u16,
    pub(super) value: u16,
    pub(super) status: u16,
    pub(super) pending: u16,
    pub(super) save: i32,
    /// Fields of the status register that are compared. FS and SD are [`Exclusion::DirtyState`].
    pub(super) compared: i64,
    /// Pending bits that the handler can clear.
    clears: i64,
    pub(super) leave: Op,
}

pub(super) const MACHINE: Mode = Mode {
    cause: 0x342,
    pc: 0x341,
    value: 0x343,
    status: 0x300,
    pending: 0x344,
    save: MACHINE_SAVE,
    compared: 0x7e_19aa,
    clears: 0x222,
    leave: Op::Mret,
};

pub(super) const SUPERVISOR: Mode = Mode {
    cause: 0x142,
    pc: 0x141,
    value: 0x143,
    status: 0x100,
    pending: 0x144,
    save: SUPERVISOR_SAVE,
    compared: 0xc_0122,
    clears: 0x2,
    leave: Op::Sret,
};

/// The FS and SD fields of a status register.
const DIRTY_STATE: i64 = i64::MIN | 3 << 13;

/// Emits the handler of machine mode: the label of its vector table.
pub(crate) fn machine(asm: &mut Assembler, target: Target) -> Label {
    handler(asm, &MACHINE, target)
}

/// Emits the handler of supervisor mode: the label of its vector table.
pub(crate) fn supervisor(asm: &mut Assembler, target: Target) -> Label {
    handler(asm, &SUPERVISOR, target)
}

fn handler(asm: &mut Assembler, mode: &Mode, target: Target) -> Label {
    let body = asm.label();
    asm.align(64);
    let table = asm.bound();
    for _ in 0..VECTORS {
        asm.j(body);
    }
    asm.bind(body);
    for (n, reg) in (0..).zip(SAVED) {
        asm.s(Op::Sd, reg, mode.save + 8 * n, GP);
    }
    asm.csrr(T0, mode.cause);
    asm.csrr(T1, mode.pc);
    resume_address(asm, mode);
    exceptions_only(asm, |asm| cause_and_value(asm, mode, target));
    record(asm, mode, target);
    asm.csrw(mode.pc, T5);
    if mode.leave == Op::Mret {
        back_to_machine_mode(asm);
    }
    for (n, reg) in (0..).zip(SAVED) {
        asm.i(Op::Ld, reg, GP, mode.save + 8 * n);
    }
    asm.bare(mode.leave);
    table
}

/// Cause in T0, pc in T1: where to continue into T5. An interrupt is cleared.
fn resume_address(asm: &mut Assembler, mode: &Mode) {
    let (not_interrupt, not_fetch, done) = (asm.label(), asm.label(), asm.label());
    asm.branch(Op::Bge, T0, 0, not_interrupt);
    asm.li(T5, mode.clears);
    asm.csr(Op::Csrrc, 0, mode.pending, T5);
    asm.mv(T5, T1);
    asm.j(done);
    asm.bind(not_interrupt);
    asm.li(T2, FETCH_ACCESS);
    asm.branch(Op::Bne, T0, T2, not_fetch);
    asm.mv(T5, RA);
    asm.j(done);
    asm.bind(not_fetch);
    asm.i(Op::Lhu, T2, T1, 0);
    asm.next_pc(T5, T1, T2, T2);
    asm.bind(done);
}

/// Runs `body` unless T0 is the cause of an interrupt; then T2 is 0.
fn exceptions_only(asm: &mut Assembler, body: impl FnOnce(&mut Assembler)) {
    let skip = asm.label();
    asm.li(T2, 0);
    asm.branch(Op::Blt, T0, 0, skip);
    body(asm);
    asm.bind(skip);
}

/// The value register into T2; what the target does otherwise is evened out.
fn cause_and_value(asm: &mut Assembler, mode: &Mode, target: Target) {
    if target.excludes(Exclusion::AtomicCause) {
        atomic_cause(asm, T1);
    }
    asm.csrr(T2, mode.value);
    if target.excludes(Exclusion::BreakpointValue) {
        let skip = asm.label();
        asm.li(T3, BREAKPOINT);
        asm.branch(Op::Bne, T0, T3, skip);
        asm.li(T2, 0);
        asm.bind(skip);
    }
    if target == Target::Qemu {
        // Programs read the registers too.
        asm.csrw(mode.cause, T0);
        asm.csrw(mode.value, T2);
    }
}

/// The load access fault of an atomic that is no `lr`, which lies at `place`, becomes that of a store.
pub(super) fn atomic_cause(asm: &mut Assembler, place: u8) {
    let skip = asm.label();
    asm.li(T2, LOAD_ACCESS);
    asm.branch(Op::Bne, T0, T2, skip);
    asm.i(Op::Lhu, T2, place, 0);
    asm.i(Op::Andi, T2, T2, 0x7f);
    asm.li(T4, AMO_OPCODE);
    asm.branch(Op::Bne, T2, T4, skip);
    asm.i(Op::Lhu, T2, place, 2);
    asm.i(Op::Srli, T2, T2, 11);
    asm.li(T4, LR_FUNCTION);
    asm.branch(Op::Beq, T2, T4, skip);
    asm.li(T0, STORE_ACCESS);
    asm.bind(skip);
}

/// Cause (T0), pc (T1), value (T2) and status into the hash.
fn record(asm: &mut Assembler, mode: &Mode, target: Target) {
    asm.i(Op::Ld, T3, GP, MULTIPLIER);
    asm.i(Op::Ld, T4, GP, TRAP_HASH);
    for value in [T0, T1, T2] {
        asm.r(Op::Xor, T4, T4, value);
        asm.r(Op::Mul, T4, T4, T3);
    }
    let dirty = target.excludes(Exclusion::DirtyState);
    asm.li(T0, mode.compared | if dirty { 0 } else { DIRTY_STATE });
    asm.csrr(T1, mode.status);
    asm.r(Op::And, T1, T1, T0);
    asm.r(Op::Xor, T4, T4, T1);
    asm.r(Op::Mul, T4, T4, T3);
    asm.i(Op::Srli, T0, T4, 29);
    asm.r(Op::Xor, T4, T4, T0);
    asm.s(Op::Sd, T4, TRAP_HASH, GP);
    asm.i(Op::Ld, T0, GP, TRAP_COUNT);
    asm.i(Op::Addi, T0, T0, 1);
    asm.s(Op::Sd, T0, TRAP_COUNT, GP);
}

fn back_to_machine_mode(asm: &mut Assembler) {
    let skip = asm.label();
    asm.i(Op::Ld, T0, GP, RETURN_FLAG);
    asm.branch(Op::Beq, T0, 0, skip);
    asm.s(Op::Sd, 0, RETURN_FLAG, GP);
    asm.li(T0, 3 << 11);
    asm.csr(Op::Csrrs, 0, MACHINE.status, T0);
    asm.bind(skip);
}
