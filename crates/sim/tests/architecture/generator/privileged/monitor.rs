//! Machine-mode routines around the blocks: into a mode with the next environment, and back.

use loiter_isa::Op;

use super::super::asm::{Assembler, GP, Label, RA};
use super::super::state::{
    MACHINE_ENABLE, MCAUSE, MCOUNTEREN, MEDELEG, MIDELEG, MIE, MIP, MSTATUS, MTVAL, MTVEC,
    PMPADDR0, PMPCFG0, SATP, SCAUSE, SCOUNTEREN, SENVCFG, SEPC, SIE, SIP, SSCRATCH, STIMECMP,
    STVAL, STVEC,
};
use super::environment::{self as env, PLAIN, PMP_ENTRIES};
use super::handler::Handlers;
use super::layout::{ENVIRONMENT, ENVIRONMENTS, NEST, USER_STEP};
use super::log::{self, Kind};

const T0: u8 = 5;
const T1: u8 = 6;
const T2: u8 = 7;
const CURRENT: u8 = 8;
/// Arguments: where the block lies in RAM, its mode as in MPP, an exception that must not be
/// delegated as a mask, and the first word of the record. Results: where to go, and `gp` there.
pub(super) const ENTRY: u8 = 10;
pub(super) const MODE: u8 = 11;
pub(super) const KEPT: u8 = 12;
pub(super) const RECORD: u8 = 13;
pub(super) const POINTER: u8 = 15;

const CLINT: i64 = 0x0200_0000;
const MTIMECMP: i64 = CLINT + 0x4000;
const SUPERVISOR_INTERRUPTS: i64 = 0x222;
/// MPRV, SUM, MXR, TVM, TW, TSR, MPP, SPP, and the enables with what they were.
const STATUS: i64 = 0x7e_19aa;

/// Registers that are compared after a block, with the bits that are. `mepc` is left out, which says
/// by which way the block ended; so are the fields of `medeleg` for what loiter does not have.
const MACHINE_REGISTERS: &[(u16, i64)] = &[
    (MEDELEG, 0xb3ff),
    (MIDELEG, -1),
    (MIE, 0xaaa),
    (MIP, 0xaaa),
    (MTVEC, -1),
    (MCOUNTEREN, -1),
    (MCAUSE, -1),
    (MTVAL, -1),
];
const SUPERVISOR_REGISTERS: &[(u16, i64)] = &[
    (SEPC, -1),
    (SCAUSE, -1),
    (STVAL, -1),
    (STVEC, -1),
    (SCOUNTEREN, -1),
    (SENVCFG, 1),
    (SSCRATCH, -1),
    (SATP, -1),
    (SIE, -1),
    (SIP, -1),
];

/// The routines.
#[derive(Clone, Copy)]
pub(super) struct Monitor {
    pub(super) enter: Label,
    pub(super) leave: Label,
}

pub(super) fn monitor(asm: &mut Assembler, handlers: Handlers) -> Monitor {
    asm.symbol("enter");
    let enter = enter(asm, handlers);
    asm.symbol("leave");
    let leave = leave(asm);
    Monitor { enter, leave }
}

fn enter(asm: &mut Assembler, handlers: Handlers) -> Label {
    let entry = asm.bound();
    asm.csrw(MIE, 0);
    asm.li(T0, STATUS);
    asm.csr(Op::Csrrc, 0, MSTATUS, T0);
    next_environment(asm);
    for (number, offset) in PLAIN {
        asm.i(Op::Ld, T0, CURRENT, offset);
        asm.csrw(number, T0);
    }
    asm.i(Op::Ld, T0, CURRENT, env::MEDELEG);
    asm.r(Op::Andn, T0, T0, KEPT);
    asm.csrw(MEDELEG, T0);
    vectors(asm, handlers);
    devices(asm);
    asm.i(Op::Ld, T0, CURRENT, env::NEST);
    asm.s(Op::Sd, T0, NEST, GP);
    protection(asm);
    asm.bare(Op::SfenceVma);
    asm.csrr(T1, SATP);
    log::word(asm, POINTER, 3, T1);
    log::end(asm, POINTER);
    asm.i(Op::Ld, T0, CURRENT, env::STATUS);
    asm.csr(Op::Csrrs, 0, MSTATUS, T0);
    destination(asm);
    asm.i(Op::Jalr, 0, RA, 0);
    entry
}

fn next_environment(asm: &mut Assembler) {
    let more = asm.label();
    asm.i(Op::Ld, CURRENT, GP, ENVIRONMENT);
    asm.i(Op::Addi, T0, CURRENT, env::BYTES as i32);
    asm.li(T1, (ENVIRONMENTS + env::COUNT * env::BYTES) as i64);
    asm.branch(Op::Bne, T0, T1, more);
    asm.li(T0, ENVIRONMENTS as i64);
    asm.bind(more);
    asm.s(Op::Sd, T0, ENVIRONMENT, GP);
    log::begin(asm, POINTER);
    log::word(asm, POINTER, 0, RECORD);
    log::word(asm, POINTER, 1, CURRENT);
}

fn vectors(asm: &mut Assembler, handlers: Handlers) {
    asm.la(T0, handlers.supervisor);
    asm.i(Op::Ld, T1, CURRENT, env::SUPERVISOR_STEP);
    asm.r(Op::Add, T0, T0, T1);
    asm.i(Op::Ld, T1, CURRENT, env::SUPERVISOR_VECTORED);
    asm.r(Op::Or, T0, T0, T1);
    asm.csrw(STVEC, T0);
    asm.la(T0, handlers.machine);
    asm.i(Op::Ld, T1, CURRENT, env::MACHINE_VECTORED);
    asm.r(Op::Or, T0, T0, T1);
    asm.csrw(MTVEC, T0);
}

/// Software and timer interrupts of machine mode, pending or not.
fn devices(asm: &mut Assembler) {
    asm.li(T1, CLINT);
    asm.i(Op::Ld, T0, CURRENT, env::SOFTWARE);
    asm.s(Op::Sw, T0, 0, T1);
    asm.li(T1, MTIMECMP);
    asm.i(Op::Ld, T0, CURRENT, env::TIMER);
    asm.s(Op::Sd, T0, 0, T1);
}

/// Physical memory protection, and into the record what it reads as.
fn protection(asm: &mut Assembler) {
    asm.li(T2, 0);
    let addresses =
        (0..=PMP_ENTRIES as u16).map(|n| (PMPADDR0 + n, env::PMPADDR + 8 * i32::from(n)));
    let configurations = [(PMPCFG0, env::PMPCFG), (PMPCFG0 + 2, env::PMPCFG + 8)];
    for (number, offset) in addresses.chain(configurations) {
        asm.i(Op::Ld, T0, CURRENT, offset);
        asm.csrw(number, T0);
        asm.csrr(T1, number);
        asm.i(Op::Rori, T2, T2, 7);
        asm.r(Op::Xor, T2, T2, T1);
    }
    log::word(asm, POINTER, 2, T2);
}

fn destination(asm: &mut Assembler) {
    let (machine, supervisor) = (asm.label(), asm.label());
    asm.i(Op::Ld, T1, CURRENT, env::SUPERVISOR_STEP);
    asm.i(Op::Ld, T2, CURRENT, env::USER_STEP);
    asm.r(Op::Sub, T0, T2, T1);
    asm.s(Op::Sd, T0, USER_STEP, GP);
    asm.mv(POINTER, GP);
    asm.li(T0, 3);
    asm.branch(Op::Beq, MODE, T0, machine);
    asm.branch(Op::Bne, MODE, 0, supervisor);
    asm.mv(T1, T2);
    asm.bind(supervisor);
    asm.r(Op::Add, ENTRY, ENTRY, T1);
    asm.r(Op::Add, POINTER, POINTER, T1);
    asm.bind(machine);
}

fn leave(asm: &mut Assembler) -> Label {
    let entry = asm.bound();
    control(asm);
    asm.csrw(MIE, 0);
    asm.csr(Op::Csrrci, 0, MSTATUS, MACHINE_ENABLE);
    asm.li(T0, -1);
    asm.csrw(STIMECMP, T0);
    asm.li(T1, SUPERVISOR_INTERRUPTS);
    asm.csr(Op::Csrrc, 0, MIP, T1);
    asm.li(T1, CLINT);
    asm.s(Op::Sw, 0, 0, T1);
    asm.li(T1, MTIMECMP);
    asm.s(Op::Sd, T0, 0, T1);
    asm.i(Op::Jalr, 0, RA, 0);
    entry
}

/// What the block has left in control registers goes to the log.
fn control(asm: &mut Assembler) {
    log::begin(asm, POINTER);
    asm.li(T2, Kind::Control.word());
    log::word(asm, POINTER, 0, T2);
    for (n, registers) in [(1, MACHINE_REGISTERS), (2, SUPERVISOR_REGISTERS)] {
        asm.li(T2, 0);
        for &(number, compared) in registers {
            asm.csrr(T0, number);
            if compared != -1 {
                asm.li(T1, compared);
                asm.r(Op::And, T0, T0, T1);
            }
            asm.i(Op::Rori, T2, T2, 7);
            asm.r(Op::Xor, T2, T2, T0);
        }
        log::word(asm, POINTER, n, T2);
    }
    asm.csrr(T0, MSTATUS);
    asm.li(T1, STATUS);
    asm.r(Op::And, T0, T0, T1);
    log::word(asm, POINTER, 3, T0);
    log::end(asm, POINTER);
}
