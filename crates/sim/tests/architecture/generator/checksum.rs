//! The routine that hashes the state of a hart and tells it: on the console, as one line of four
//! hexadecimal numbers (integer registers, floating-point registers with fcsr, window, traps), and
//! as reports for loiter. It leaves every register but `ra` as it was.

use loiter_isa::Op;

use super::asm::{Assembler, GP, Label, RA};
use super::layout::{F_SAVE, FCSR_SAVE, MULTIPLIER, TRAP_HASH, WINDOW, WINDOW_BYTES, X_SAVE};
use super::privileged::log;

const REPORT_VALUE: u16 = 0x0a;
const UART: i64 = 0x1000_0000;
const LINE_STATUS: i32 = 5;
const TRANSMITTER_EMPTY: i32 = 0x20;
const FCSR: u16 = 3;

/// Registers of the routine.
const HASH: u8 = 10;
const POINTER: u8 = 11;
const END: u8 = 12;
const FACTOR: u8 = 13;
const SCRATCH: u8 = 14;
const CHARACTER: u8 = 15;
const DEVICE: u8 = 16;
const SHIFT: u8 = 17;
const RETURN: u8 = 18;
const OUTER_RETURN: u8 = 19;

/// The areas that are hashed: offset from `gp` and number of 8-byte words.
const AREAS: [(i32, i32); 4] = [
    (X_SAVE, 32),
    (F_SAVE, 33),
    (WINDOW, WINDOW_BYTES / 8),
    (TRAP_HASH, 2),
];

/// Where the routine tells the hashes, besides in reports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Nowhere,
    Console,
    /// The log of a privileged program, whose traps are in it already.
    Log,
    /// The log, and in it the integer registers one by one.
    LogOfRegisters,
}

/// Emits the routine. Callers save `ra` at its place first.
pub(crate) fn routine(asm: &mut Assembler, told: Told) -> Label {
    let print = (told == Told::Console).then(|| print_hash(asm));
    let hash = hash(asm);
    let entry = asm.bound();
    asm.symbol("checksum");
    for reg in saved() {
        asm.s(Op::Sd, reg, X_SAVE + 8 * i32::from(reg), GP);
    }
    for reg in 0..32 {
        asm.s(Op::Fsd, reg, F_SAVE + 8 * i32::from(reg), GP);
    }
    asm.csrr(SCRATCH, FCSR);
    asm.s(Op::Sd, SCRATCH, FCSR_SAVE, GP);
    asm.mv(OUTER_RETURN, RA);
    asm.i(Op::Ld, FACTOR, GP, MULTIPLIER);
    asm.li(DEVICE, UART);
    let logs = matches!(told, Told::Log | Told::LogOfRegisters);
    let areas = if logs {
        &AREAS[..log::WORDS - 1]
    } else {
        &AREAS
    };
    if told == Told::LogOfRegisters {
        log_registers(asm);
    }
    for (n, &(offset, words)) in (0..).zip(areas) {
        asm.i(Op::Addi, POINTER, GP, offset);
        asm.i(Op::Addi, END, POINTER, 8 * words);
        asm.jal(RETURN, hash);
        if logs {
            log_hash(asm, n);
            continue;
        }
        asm.probe(REPORT_VALUE, HASH);
        if let Some(print) = print {
            let last = n + 1 == areas.len() as i32;
            asm.li(CHARACTER, i64::from(if last { b'\n' } else { b' ' }));
            asm.jal(RETURN, print);
        }
    }
    asm.mv(RA, OUTER_RETURN);
    for reg in saved() {
        asm.i(Op::Ld, reg, GP, X_SAVE + 8 * i32::from(reg));
    }
    asm.i(Op::Jalr, 0, RA, 0);
    entry
}

/// Emits a call of the routine.
pub(crate) fn call(asm: &mut Assembler, routine: Label) {
    let place = X_SAVE + 8 * i32::from(RA);
    asm.s(Op::Sd, RA, place, GP);
    asm.jal(RA, routine);
    asm.i(Op::Ld, RA, GP, place);
}

fn saved() -> impl Iterator<Item = u8> {
    (1..32).filter(|&reg| reg != RA && reg != GP)
}

/// Three registers a record.
fn log_registers(asm: &mut Assembler) {
    for first in (1..32).step_by(log::WORDS - 1) {
        log::begin(asm, SCRATCH);
        asm.li(CHARACTER, log::Kind::Registers.word() | i64::from(first));
        log::word(asm, SCRATCH, 0, CHARACTER);
        for n in 0..log::WORDS as i32 - 1 {
            // What follows the last one is hashed with them.
            asm.i(Op::Ld, CHARACTER, GP, X_SAVE + 8 * (first + n));
            log::word(asm, SCRATCH, n + 1, CHARACTER);
        }
        log::end(asm, SCRATCH);
    }
}

/// Area `n` goes into word `n` + 1 of a record, which the last one completes.
fn log_hash(asm: &mut Assembler, n: i32) {
    log::begin(asm, SCRATCH);
    if n == 0 {
        asm.li(CHARACTER, log::Kind::Hashes.word());
        log::word(asm, SCRATCH, 0, CHARACTER);
    }
    log::word(asm, SCRATCH, n + 1, HASH);
    if n + 2 == log::WORDS as i32 {
        log::end(asm, SCRATCH);
    }
}

/// Hashes the words from POINTER to END.
fn hash(asm: &mut Assembler) -> Label {
    let entry = asm.bound();
    asm.li(HASH, 0);
    let next = asm.bound();
    asm.i(Op::Ld, SCRATCH, POINTER, 0);
    asm.mix(HASH, SCRATCH, FACTOR, SCRATCH);
    asm.i(Op::Addi, POINTER, POINTER, 8);
    asm.branch(Op::Bne, POINTER, END, next);
    asm.i(Op::Jalr, 0, RETURN, 0);
    entry
}

/// Prints HASH, then CHARACTER.
fn print_hash(asm: &mut Assembler) -> Label {
    let entry = asm.bound();
    asm.mv(END, CHARACTER);
    asm.li(SHIFT, 60);
    let (digit, decimal, send) = (asm.bound(), asm.label(), asm.label());
    asm.r(Op::Srl, CHARACTER, HASH, SHIFT);
    asm.i(Op::Andi, CHARACTER, CHARACTER, 0xf);
    asm.i(Op::Sltiu, SCRATCH, CHARACTER, 10);
    asm.branch(Op::Bne, SCRATCH, 0, decimal);
    asm.i(Op::Addi, CHARACTER, CHARACTER, i32::from(b'a' - b'0') - 10);
    asm.bind(decimal);
    asm.i(Op::Addi, CHARACTER, CHARACTER, b'0'.into());
    asm.bind(send);
    wait_and_send(asm);
    asm.i(Op::Addi, SHIFT, SHIFT, -4);
    asm.branch(Op::Bge, SHIFT, 0, digit);
    asm.mv(CHARACTER, END);
    wait_and_send(asm);
    asm.i(Op::Jalr, 0, RETURN, 0);
    entry
}

fn wait_and_send(asm: &mut Assembler) {
    let busy = asm.bound();
    asm.i(Op::Lbu, SCRATCH, DEVICE, LINE_STATUS);
    asm.i(Op::Andi, SCRATCH, SCRATCH, TRANSMITTER_EMPTY);
    asm.branch(Op::Beq, SCRATCH, 0, busy);
    asm.s(Op::Sb, CHARACTER, 0, DEVICE);
}
