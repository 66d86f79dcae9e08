//! Integer semantics at the corners.

use super::{Bench, inst, run, run_imm};
use crate::{Op, dispatch};

const MIN: u64 = i64::MIN as u64;
const MIN32: u64 = i32::MIN as u64;
const ONES: u64 = u64::MAX;

/// Checks `op` on each row: operands, result.
fn expect(op: Op, rows: &[(u64, u64, u64)]) {
    for &(a, b, result) in rows {
        assert_eq!(run(op, &[a, b]), result, "{op:?}({a:#x}, {b:#x})");
    }
}

#[test]
fn division_by_zero_and_overflow() {
    expect(
        Op::Div,
        &[
            (7, 0, ONES),
            (MIN, ONES, MIN),
            (-7i64 as u64, 2, -3i64 as u64),
        ],
    );
    expect(
        Op::Rem,
        &[(7, 0, 7), (MIN, ONES, 0), (-7i64 as u64, 2, -1i64 as u64)],
    );
    expect(
        Op::Divu,
        &[(7, 0, ONES), (MIN, ONES, 0), (ONES, 2, ONES >> 1)],
    );
    expect(Op::Remu, &[(7, 0, 7), (MIN, ONES, MIN), (ONES, 2, 1)]);
    expect(
        Op::Divw,
        &[(7, 0, ONES), (MIN32, ONES, MIN32), (1 << 32 | 9, 2, 4)],
    );
    expect(
        Op::Remw,
        &[
            (0x8000_0001, 0, 0xffff_ffff_8000_0001),
            (MIN32, ONES, 0),
            (9, 4, 1),
        ],
    );
    expect(
        Op::Divuw,
        &[(7, 0, ONES), (ONES, 1, ONES), (0x8000_0000, 2, 0x4000_0000)],
    );
    expect(
        Op::Remuw,
        &[(0x8000_0001, 0, 0xffff_ffff_8000_0001), (1 << 32 | 9, 4, 1)],
    );
}

#[test]
fn high_products() {
    expect(
        Op::Mulh,
        &[
            (ONES, ONES, 0),
            (MIN, MIN, 1 << 62),
            (MIN, ONES, 0),
            (ONES, 1, ONES),
        ],
    );
    expect(
        Op::Mulhu,
        &[(ONES, ONES, ONES - 1), (MIN, 2, 1), (ONES, 1, 0)],
    );
    expect(
        Op::Mulhsu,
        &[
            (ONES, ONES, ONES),
            (MIN, ONES, MIN),
            (1, ONES, 0),
            (ONES, 0, 0),
        ],
    );
    expect(
        Op::Mulw,
        &[(0x8000_0000, 1, MIN32), (0x1_0000_0001, 0x1_0000_0001, 1)],
    );
    expect(Op::Mul, &[(ONES, ONES, 1), (1 << 32, 1 << 32, 0)]);
}

#[test]
fn shifts_use_the_low_bits_of_the_amount() {
    expect(Op::Sll, &[(1, 63, MIN), (1, 64, 1), (1, ONES, MIN)]);
    expect(Op::Srl, &[(MIN, 63, 1), (MIN, 64, MIN)]);
    expect(Op::Sra, &[(MIN, 63, ONES), (MIN, 64, MIN)]);
    expect(Op::Sllw, &[(1, 31, MIN32), (1, 32, 1), (3, 31, MIN32)]);
    expect(
        Op::Srlw,
        &[(ONES, 31, 1), (ONES, 32, ONES), (MIN32, 0, MIN32)],
    );
    expect(
        Op::Sraw,
        &[(0x8000_0000, 31, ONES), (0x7fff_ffff, 4, 0x07ff_ffff)],
    );
    assert_eq!(run_imm(Op::Slli, 1, 63), MIN);
    assert_eq!(run_imm(Op::Srai, MIN, 63), ONES);
    assert_eq!(run_imm(Op::Srliw, ONES, 0), ONES);
    assert_eq!(run_imm(Op::Sraiw, 0x8000_0000, 31), ONES);
    assert_eq!(run_imm(Op::SlliUw, ONES, 4), 0xf_ffff_fff0);
}

#[test]
fn words_are_sign_extended() {
    expect(Op::Addw, &[(0x7fff_ffff, 1, MIN32), (ONES, 1, 0)]);
    expect(Op::Subw, &[(MIN32, 1, 0x7fff_ffff), (0, 1, ONES)]);
    assert_eq!(run_imm(Op::Addiw, 0x7fff_ffff, 1), MIN32);
    assert_eq!(run_imm(Op::Addiw, 0x1_8000_0000, 0), MIN32);
}

#[test]
fn comparisons() {
    expect(Op::Slt, &[(MIN, 0, 1), (0, MIN, 0), (5, 5, 0)]);
    expect(Op::Sltu, &[(MIN, 0, 0), (0, MIN, 1), (5, 5, 0)]);
    assert_eq!(
        (run_imm(Op::Slti, MIN, -1), run_imm(Op::Slti, 0, -1)),
        (1, 0)
    );
    assert_eq!(
        (run_imm(Op::Sltiu, 5, -1), run_imm(Op::Sltiu, ONES, -1)),
        (1, 0)
    );
    for (op, below, equal, above) in [
        (Op::Beq, 0, 1, 0),
        (Op::Bne, 1, 0, 1),
        (Op::Blt, 1, 0, 0),
        (Op::Bge, 0, 1, 1),
        (Op::Bltu, 0, 0, 1),
        (Op::Bgeu, 1, 1, 0),
    ] {
        expect(op, &[(ONES, 0, below), (7, 7, equal), (0, ONES, above)]);
    }
}

#[test]
fn jumps_and_upper_immediates() {
    let at = |op, pc, operand, imm| {
        let mut bench = Bench {
            pc,
            operands: [operand, 0, 0],
            ..Bench::default()
        };
        dispatch(&mut bench, &inst(op, imm)).1
    };
    assert_eq!(at(Op::Jal, 0x8000_0000, 0, -4), 0x7fff_fffc);
    assert_eq!(
        at(Op::Jalr, 0, 0x1003, -2),
        0x1000,
        "the lowest bit is cleared"
    );
    assert_eq!(at(Op::Auipc, 0x8000_0004, 0, i32::MIN), 4);
    assert_eq!(at(Op::Lui, 0, 0, i32::MIN), MIN32);
}

#[test]
fn loads_extend() {
    let v = 0x8000_8080;
    assert_eq!(run(Op::Lb, &[v & 0xff]), -128i64 as u64);
    assert_eq!(run(Op::Lbu, &[v & 0xff]), 0x80);
    assert_eq!(run(Op::Lh, &[v & 0xffff]), 0xffff_ffff_ffff_8080);
    assert_eq!(run(Op::Lhu, &[v & 0xffff]), 0x8080);
    assert_eq!(run(Op::Lw, &[v]), 0xffff_ffff_8000_8080);
    assert_eq!(run(Op::Lwu, &[v]), v);
    assert_eq!(run(Op::Flw, &[v]), 0xffff_ffff_8000_8080);
    assert_eq!(run(Op::Fld, &[v]), v);
}

#[test]
fn atomic_operations() {
    // Old value and operand of .w arrive sign-extended, as executors pass them.
    expect(Op::AmominW, &[(MIN32, 1, MIN32), (1, ONES, ONES)]);
    expect(Op::AmomaxW, &[(MIN32, 1, 1), (1, ONES, 1)]);
    expect(Op::AmominuW, &[(MIN32, 1, 1), (MIN32, ONES, MIN32)]);
    expect(
        Op::AmomaxuW,
        &[(MIN32, 1, MIN32), (0x7fff_ffff, MIN32, MIN32)],
    );
    expect(Op::AmominD, &[(MIN, 1, MIN), (3, 4, 3)]);
    expect(Op::AmomaxD, &[(MIN, 1, 1), (3, 4, 4)]);
    expect(Op::AmominuD, &[(MIN, 1, 1)]);
    expect(Op::AmomaxuD, &[(MIN, 1, MIN)]);
    expect(Op::AmoswapD, &[(1, 2, 2)]);
    expect(Op::AmoaddD, &[(ONES, 2, 1)]);
    expect(Op::AmoxorW, &[(0b1100, 0b1010, 0b0110)]);
    expect(Op::AmoandW, &[(0b1100, 0b1010, 0b1000)]);
    expect(Op::AmoorW, &[(0b1100, 0b1010, 0b1110)]);
}

#[test]
fn csr_operations() {
    expect(Op::Csrrw, &[(0b1100, 0b1010, 0b1010)]);
    expect(Op::Csrrs, &[(0b1100, 0b1010, 0b1110)]);
    expect(Op::Csrrc, &[(0b1100, 0b1010, 0b0100)]);
    expect(Op::Csrrci, &[(0b1100, 0b1010, 0b0100)]);
}

#[test]
fn address_generation() {
    let index = 0xffff_ffff_8000_0001;
    expect(Op::Sh1add, &[(MIN | 1, 10, 12)]);
    expect(Op::Sh2add, &[(3, 10, 22)]);
    expect(Op::Sh3add, &[(3, ONES, 23)]);
    expect(Op::AddUw, &[(index, 1, 0x8000_0002)]);
    expect(Op::Sh1addUw, &[(index, 1, 0x1_0000_0003)]);
    expect(Op::Sh2addUw, &[(index, 1, 0x2_0000_0005)]);
    expect(Op::Sh3addUw, &[(index, 1, 0x4_0000_0009)]);
}

#[test]
fn counting_and_logic() {
    for (op, zero, one, high) in [
        (Op::Clz, 64, 63, 0),
        (Op::Ctz, 64, 0, 63),
        (Op::Cpop, 0, 1, 1),
        (Op::Clzw, 32, 31, 32),
        (Op::Ctzw, 32, 0, 32),
        (Op::Cpopw, 0, 1, 0),
    ] {
        assert_eq!(
            (run(op, &[0]), run(op, &[1]), run(op, &[MIN])),
            (zero, one, high),
            "{op:?}"
        );
    }
    expect(Op::Andn, &[(0b1100, 0b1010, 0b0100)]);
    expect(Op::Orn, &[(0b1100, 0b1010, !0b0010)]);
    expect(Op::Xnor, &[(0b1100, 0b1010, !0b0110)]);
    expect(Op::Min, &[(MIN, 1, MIN)]);
    expect(Op::Max, &[(MIN, 1, 1)]);
    expect(Op::Minu, &[(MIN, 1, 1)]);
    expect(Op::Maxu, &[(MIN, 1, MIN)]);
}

#[test]
fn bytes_and_rotations() {
    let v = 0x0001_8000_00ff_1080;
    assert_eq!(run(Op::OrcB, &[v]), 0x00ff_ff00_00ff_ffff);
    assert_eq!(run(Op::OrcB, &[0x0102_0408_1020_4080]), ONES);
    assert_eq!(run(Op::Rev8, &[v]), 0x8010_ff00_0080_0100);
    assert_eq!(run(Op::SextB, &[v]), 0xffff_ffff_ffff_ff80);
    assert_eq!(run(Op::SextH, &[0x8000]), 0xffff_ffff_ffff_8000);
    assert_eq!(run(Op::ZextH, &[v]), 0x1080);
    expect(Op::Rol, &[(MIN | 1, 1, 3), (1, 64, 1)]);
    expect(Op::Ror, &[(3, 1, MIN | 1), (1, 64, 1)]);
    expect(
        Op::Rolw,
        &[(0x8000_0000, 1, 1), (0x4000_0000, 1, MIN32), (1, 32, 1)],
    );
    expect(Op::Rorw, &[(1, 1, MIN32), (1 << 32 | 2, 1, 1)]);
    assert_eq!(run_imm(Op::Rori, 1, 1), MIN);
    assert_eq!(run_imm(Op::Roriw, 1, 1), MIN32);
}

#[test]
fn single_bits() {
    expect(Op::Bset, &[(0, 63, MIN), (0, 64, 1)]);
    expect(Op::Bclr, &[(ONES, 63, ONES >> 1), (ONES, 64, ONES - 1)]);
    expect(Op::Binv, &[(1, 0, 0), (0, 127, MIN)]);
    expect(Op::Bext, &[(MIN, 63, 1), (MIN, 62, 0), (1, 64, 1)]);
    assert_eq!(run_imm(Op::Bseti, 0, 63), MIN);
    assert_eq!(run_imm(Op::Bclri, ONES, 0), ONES - 1);
    assert_eq!(run_imm(Op::Binvi, 0, 5), 32);
    assert_eq!(run_imm(Op::Bexti, 32, 5), 1);
}

#[test]
fn conditional_zero() {
    expect(Op::CzeroEqz, &[(5, 0, 0), (5, 1, 5), (5, MIN, 5)]);
    expect(Op::CzeroNez, &[(5, 0, 5), (5, 1, 0), (5, MIN, 0)]);
}
