//! Trap handlers of privileged programs. A handler logs cause, pc, value, status and pending
//! interrupts, and continues after the instruction that trapped; where nothing could be fetched, at
//! `ra`. It finds its data by the scratch register, whatever address space and mode the trap came
//! from, and reads the instruction where all of the code is the same page offset: in RAM.

use loiter_isa::Op;

use super::super::asm::{Assembler, GP, Label, RA};
use super::super::exclusions::{Exclusion, Target};
use super::super::handler::{
    AMO_OPCODE, BREAKPOINT, FETCH_ACCESS, LOAD_ACCESS, LR_FUNCTION, MACHINE, Mode, SAVED,
    SUPERVISOR, T0, T1, T2, T3, T4, T5, VECTORS, atomic_cause,
};
use super::super::layout::RETURN_FLAG;
use super::super::state::{MIE, MSCRATCH, MSTATUS, SIE, SSCRATCH};
use super::layout::NEST;
use super::log::{self, INTERRUPT_SHIFT, Kind, PENDING_SHIFT, VECTOR_SHIFT};

const ILLEGAL: i64 = 2;
const FETCH_PAGE: i64 = 12;
/// funct5 of `sc`.
const SC_FUNCTION: i64 = 3;
const SRET: i64 = 0x1020_0073;
const MPRV: i64 = 1 << 17;
const TSR: i64 = 1 << 22;
const MPP: i64 = 3 << 11;
const FROM_SUPERVISOR: i64 = 1 << 11;
/// Address bits in which all places of the code agree.
const PLACE_BITS: i32 = 30;
const RAM_BIT: i32 = 31;

/// The handlers' vector tables.
#[derive(Clone, Copy)]
pub(super) struct Handlers {
    pub(super) machine: Label,
    pub(super) supervisor: Label,
}

pub(super) fn handlers(asm: &mut Assembler, target: Target) -> Handlers {
    Handlers {
        machine: handler(asm, &MACHINE, target),
        supervisor: handler(asm, &SUPERVISOR, target),
    }
}

fn is_machine(mode: &Mode) -> bool {
    mode.leave == Op::Mret
}

fn handler(asm: &mut Assembler, mode: &Mode, target: Target) -> Label {
    let name = if is_machine(mode) {
        "machine_handler"
    } else {
        "supervisor_handler"
    };
    asm.symbol(name);
    let scratch = if is_machine(mode) { MSCRATCH } else { SSCRATCH };
    let table = vectors(asm, mode, scratch);
    for (n, reg) in (0..).zip(SAVED).skip(1) {
        asm.s(Op::Sd, reg, mode.save + 8 * n, GP);
    }
    asm.csrr(T0, mode.cause);
    asm.csrr(T1, mode.pc);
    place_in_ram(asm, T3, T1);
    let (interrupt, found) = (asm.label(), asm.label());
    asm.branch(Op::Blt, T0, 0, interrupt);
    after_exception(asm, found);
    asm.bind(interrupt);
    after_interrupt(asm, mode);
    asm.bind(found);
    if is_machine(mode) {
        make_up(asm);
    }
    record(asm, mode, target);
    if is_machine(mode) {
        back_to_machine_mode(asm);
    } else {
        nest(asm);
    }
    asm.csrw(mode.pc, T5);
    for (n, reg) in (0..).zip(SAVED) {
        asm.i(Op::Ld, reg, GP, mode.save + 8 * n);
    }
    asm.csr(Op::Csrrw, GP, scratch, GP);
    asm.bare(mode.leave);
    table
}

/// The vector table, and what each entry leads to: it finds the data, saves the first register, and
/// notes which one it was. Falls through to the body.
fn vectors(asm: &mut Assembler, mode: &Mode, scratch: u16) -> Label {
    let body = asm.label();
    asm.align(64);
    let table = asm.bound();
    let entries: Vec<Label> = (0..VECTORS).map(|_| asm.label()).collect();
    for &entry in &entries {
        asm.j(entry);
    }
    for (n, &entry) in entries.iter().enumerate() {
        asm.bind(entry);
        asm.csr(Op::Csrrw, GP, scratch, GP);
        asm.s(Op::Sd, SAVED[0], mode.save, GP);
        asm.li(SAVED[0], (n as i64) << VECTOR_SHIFT);
        asm.s(Op::Sd, SAVED[0], vector_place(mode), GP);
        asm.j(body);
    }
    asm.bind(body);
    table
}

/// Where the vector of the trap is noted.
fn vector_place(mode: &Mode) -> i32 {
    mode.save + 8 * SAVED.len() as i32
}

/// `rd` = where the code at `rs` lies in RAM.
fn place_in_ram(asm: &mut Assembler, rd: u8, rs: u8) {
    asm.i(Op::Slli, rd, rs, 64 - PLACE_BITS);
    asm.i(Op::Srli, rd, rd, 64 - PLACE_BITS);
    asm.i(Op::Bseti, rd, rd, RAM_BIT);
}

/// Cause in T0, pc in T1, its place in T3: where to continue into T5, and to `done`.
fn after_exception(asm: &mut Assembler, done: Label) {
    let (fetched, not_reserved) = (asm.label(), asm.label());
    asm.mv(T5, RA);
    asm.li(T2, FETCH_ACCESS);
    asm.branch(Op::Beq, T0, T2, done);
    asm.li(T2, FETCH_PAGE);
    asm.branch(Op::Bne, T0, T2, fetched);
    asm.j(done);
    asm.bind(fetched);
    asm.i(Op::Lhu, T4, T3, 0);
    asm.next_pc(T5, T1, T4, T2);
    // An lr that trapped has no reservation, so the sc after it is left out: what an sc without one
    // does at an address that faults is an implementation's choice.
    for (offset, function) in [(0, LR_FUNCTION), (4, SC_FUNCTION)] {
        asm.i(Op::Lhu, T4, T3, offset);
        asm.i(Op::Andi, T4, T4, 0x7f);
        asm.li(T2, AMO_OPCODE);
        asm.branch(Op::Bne, T4, T2, not_reserved);
        asm.i(Op::Lhu, T4, T3, offset + 2);
        asm.i(Op::Srli, T4, T4, 11);
        asm.li(T2, function);
        asm.branch(Op::Bne, T4, T2, not_reserved);
    }
    asm.i(Op::Addi, T5, T5, 4);
    asm.bind(not_reserved);
    asm.j(done);
}

/// The interrupt in T0 is no longer enabled, and no longer pending if that can be written.
fn after_interrupt(asm: &mut Assembler, mode: &Mode) {
    let enable = if is_machine(mode) { MIE } else { SIE };
    asm.li(T2, 1);
    asm.r(Op::Sll, T2, T2, T0);
    asm.csr(Op::Csrrc, 0, mode.pending, T2);
    asm.csr(Op::Csrrc, 0, enable, T2);
    asm.mv(T5, T1);
}

/// What supervisor mode was kept from doing and must not go without: its fences, and its `sret`,
/// which is tried again.
fn make_up(asm: &mut Assembler) {
    let over = asm.label();
    asm.li(T2, ILLEGAL);
    asm.branch(Op::Bne, T0, T2, over);
    asm.bare(Op::SfenceVma);
    asm.csrr(T2, MACHINE.value);
    asm.li(T4, SRET);
    asm.branch(Op::Bne, T2, T4, over);
    asm.csrr(T2, MSTATUS);
    asm.li(T4, MPP);
    asm.r(Op::And, T2, T2, T4);
    asm.li(T4, FROM_SUPERVISOR);
    asm.branch(Op::Bne, T2, T4, over);
    asm.li(T2, TSR);
    asm.csr(Op::Csrrc, 0, MSTATUS, T2);
    asm.mv(T5, T1);
    asm.bind(over);
}

fn record(asm: &mut Assembler, mode: &Mode, target: Target) {
    let kind = if is_machine(mode) {
        Kind::Machine
    } else {
        Kind::Supervisor
    };
    if target.excludes(Exclusion::AtomicCause) {
        atomic_cause(asm, T3);
        // Programs read the register too.
        asm.csrw(mode.cause, T0);
    }
    if is_machine(mode) && target.excludes(Exclusion::RightsAfterTrap) {
        asm.li(T2, MPRV);
        asm.csr(Op::Csrrc, 0, MSTATUS, T2);
    }
    asm.csrr(T2, mode.value);
    if target.excludes(Exclusion::BreakpointValue) {
        let skip = asm.label();
        asm.li(T3, BREAKPOINT);
        asm.branch(Op::Bne, T0, T3, skip);
        asm.li(T2, 0);
        // Programs read the register too.
        asm.csrw(mode.value, 0);
        asm.bind(skip);
    }
    if target.excludes(Exclusion::LoadAccessValue) {
        let skip = asm.label();
        asm.li(T3, LOAD_ACCESS);
        asm.branch(Op::Bne, T0, T3, skip);
        asm.i(Op::Andi, T2, T2, -8);
        asm.csrw(mode.value, T2);
        asm.bind(skip);
    }
    log::begin(asm, T4);
    asm.i(Op::Andi, T3, T0, 0xff);
    asm.i(Op::Srli, T0, T0, 63);
    asm.i(Op::Slli, T0, T0, INTERRUPT_SHIFT as i32);
    asm.r(Op::Or, T3, T3, T0);
    asm.i(Op::Ld, T0, GP, vector_place(mode));
    asm.r(Op::Or, T3, T3, T0);
    asm.li(T0, kind.word());
    asm.r(Op::Or, T3, T3, T0);
    log::word(asm, T4, 0, T3);
    log::word(asm, T4, 1, T1);
    log::word(asm, T4, 2, T2);
    asm.csrr(T1, mode.status);
    asm.li(T0, mode.compared);
    asm.r(Op::And, T1, T1, T0);
    asm.csrr(T2, mode.pending);
    asm.i(Op::Slli, T2, T2, PENDING_SHIFT as i32);
    asm.r(Op::Or, T1, T1, T2);
    log::word(asm, T4, 3, T1);
    log::end(asm, T4);
}

/// If the flag is set, on in machine mode, in RAM.
fn back_to_machine_mode(asm: &mut Assembler) {
    let skip = asm.label();
    asm.i(Op::Ld, T0, GP, RETURN_FLAG);
    asm.branch(Op::Beq, T0, 0, skip);
    asm.s(Op::Sd, 0, RETURN_FLAG, GP);
    asm.li(T0, MPP);
    asm.csr(Op::Csrrs, 0, MSTATUS, T0);
    place_in_ram(asm, T5, T5);
    asm.csrw(MSCRATCH, GP);
    asm.bind(skip);
}

/// If the flag is set, a trap within the handler.
fn nest(asm: &mut Assembler) {
    let skip = asm.label();
    asm.i(Op::Ld, T0, GP, NEST);
    asm.branch(Op::Beq, T0, 0, skip);
    asm.bare(Op::Ecall);
    asm.bind(skip);
}
