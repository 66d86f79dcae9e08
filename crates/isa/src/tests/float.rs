//! Floating-point semantics at the corners.

use super::{run, run_fp};
use crate::{FpContext, Op, RoundingMode};

const NEAREST: RoundingMode = RoundingMode::NearestEven;
const MODES: [RoundingMode; 5] = [
    RoundingMode::NearestEven,
    RoundingMode::TowardZero,
    RoundingMode::Down,
    RoundingMode::Up,
    RoundingMode::NearestAway,
];
const NX: u8 = FpContext::INEXACT;
const UF: u8 = FpContext::UNDERFLOW;
const OF: u8 = FpContext::OVERFLOW;
const DZ: u8 = FpContext::DIVIDE_BY_ZERO;
const NV: u8 = FpContext::INVALID;

const NAN: u64 = 0x7ff8_0000_0000_0000;
const SIGNALLING: u64 = 0x7ff0_0000_0000_0001;
const NAN_S: u64 = 0xffff_ffff_7fc0_0000;
const SIGNALLING_S: u64 = 0xffff_ffff_7f80_0001;
const INFINITY: u64 = 0x7ff0_0000_0000_0000;
const NEGATIVE: u64 = 1 << 63;
const LEAST_NORMAL: u64 = 0x0010_0000_0000_0000;
const GREATEST: u64 = INFINITY - 1;

fn d(v: f64) -> u64 {
    v.to_bits()
}

fn s(v: f32) -> u64 {
    0xffff_ffff_0000_0000 | u64::from(v.to_bits())
}

fn expect(op: Op, operands: &[u64], result: u64, flags: u8) {
    expect_in(NEAREST, op, operands, result, flags);
}

fn expect_in(rounding: RoundingMode, op: Op, operands: &[u64], result: u64, flags: u8) {
    let got = run_fp(op, rounding, operands);
    assert_eq!(
        got,
        (result, flags),
        "{op:?} {rounding:?} {operands:x?}: {:#x}",
        got.0
    );
}

#[test]
fn arithmetic_and_its_exceptions() {
    expect(Op::FaddD, &[d(1.5), d(2.25)], d(3.75), 0);
    expect(Op::FaddD, &[d(0.1), d(0.2)], d(0.1 + 0.2), NX);
    expect(Op::FsubD, &[INFINITY, INFINITY], NAN, NV);
    expect(Op::FmulD, &[INFINITY, d(0.0)], NAN, NV);
    expect(Op::FmulD, &[GREATEST, d(2.0)], INFINITY, OF | NX);
    expect(Op::FdivD, &[d(1.0), d(-0.0)], INFINITY | NEGATIVE, DZ);
    expect(Op::FdivD, &[d(0.0), d(0.0)], NAN, NV);
    expect(Op::FdivD, &[d(1.0), d(3.0)], d(1.0 / 3.0), NX);
    expect(Op::FsqrtD, &[d(-1.0)], NAN, NV);
    expect(Op::FsqrtD, &[d(-0.0)], d(-0.0), 0);
    expect(Op::FsqrtD, &[d(2.0)], d(2f64.sqrt()), NX);
    expect(Op::FaddS, &[s(0.1), s(0.2)], s(0.1 + 0.2), NX);
    expect(Op::FsubS, &[s(1.0), s(1.0)], s(0.0), 0);
    expect(
        Op::FmulS,
        &[s(f32::MAX), s(f32::MAX)],
        s(f32::INFINITY),
        OF | NX,
    );
    expect(Op::FdivS, &[s(1.0), s(0.0)], s(f32::INFINITY), DZ);
    expect(Op::FsqrtS, &[s(4.0)], s(2.0), 0);
}

#[test]
fn nans_are_canonical_and_only_signalling_ones_are_invalid() {
    let payload = NAN | NEGATIVE | 0x1234;
    expect(Op::FaddD, &[payload, d(1.0)], NAN, 0);
    expect(Op::FaddD, &[SIGNALLING, d(1.0)], NAN, NV);
    expect(Op::FmaddD, &[d(1.0), payload, d(1.0)], NAN, 0);
    expect(Op::FsqrtD, &[payload], NAN, 0);
    expect(Op::FcvtSD, &[payload], NAN_S, 0);
    expect(Op::FcvtSD, &[SIGNALLING], NAN_S, NV);
    expect(Op::FcvtDS, &[SIGNALLING_S], NAN, NV);
    expect(Op::FcvtDS, &[NAN_S | 1 << 31 | 5], NAN, 0);
}

#[test]
fn singles_must_be_boxed() {
    let unboxed = u64::from(1f32.to_bits());
    expect(Op::FaddS, &[unboxed, s(1.0)], NAN_S, 0);
    expect(Op::FmaddS, &[s(1.0), s(1.0), unboxed], NAN_S, 0);
    expect(Op::FminS, &[unboxed, s(1.0)], s(1.0), 0);
    expect(Op::FeqS, &[unboxed, s(1.0)], 0, 0);
    expect(Op::FcvtWS, &[unboxed], 0x7fff_ffff, NV);
    expect(Op::FclassS, &[unboxed], 1 << 9, 0);
    expect(Op::FsgnjS, &[unboxed, s(-1.0)], NAN_S | 1 << 31, 0);
    expect(Op::FsgnjS, &[s(-1.0), unboxed], s(1.0), 0);
    // Moves and stores take the low bits as they are.
    expect(
        Op::FmvXW,
        &[0x1234_5678_8000_0001],
        0xffff_ffff_8000_0001,
        0,
    );
    expect(
        Op::FmvWX,
        &[0x1234_5678_8000_0001],
        0xffff_ffff_8000_0001,
        0,
    );
    expect(Op::FmvXD, &[unboxed], unboxed, 0);
    expect(Op::FmvDX, &[unboxed], unboxed, 0);
}

#[test]
fn sums_round_by_mode() {
    let above = 1f64.to_bits() + 1;
    for (mode, up) in MODES.into_iter().zip([false, false, false, true, false]) {
        let expected = if up { above } else { d(1.0) };
        expect_in(mode, Op::FaddD, &[d(1.0), d(1e-30)], expected, NX);
    }
    // Half an ulp: a tie.
    let half = d(f64::EPSILON / 2.0);
    for (mode, up) in MODES.into_iter().zip([false, false, false, true, true]) {
        let expected = if up { above } else { d(1.0) };
        expect_in(mode, Op::FaddD, &[d(1.0), half], expected, NX);
    }
    for mode in MODES {
        let zero = if mode == RoundingMode::Down {
            d(-0.0)
        } else {
            d(0.0)
        };
        expect_in(mode, Op::FsubD, &[d(1.0), d(1.0)], zero, 0);
        expect_in(mode, Op::FaddD, &[d(-0.0), d(-0.0)], d(-0.0), 0);
    }
    let overflow = [INFINITY, GREATEST, GREATEST, INFINITY, INFINITY];
    for (mode, expected) in MODES.into_iter().zip(overflow) {
        expect_in(mode, Op::FaddD, &[GREATEST, GREATEST], expected, OF | NX);
    }
}

/// RISC-V detects tininess after rounding: as if the exponent had no bound.
#[test]
fn underflow_is_detected_after_rounding() {
    let half = d(0.5);
    expect(Op::FmulD, &[LEAST_NORMAL, half], LEAST_NORMAL >> 1, 0);
    expect(Op::FmulD, &[1, half], 0, UF | NX);
    expect(Op::FmulD, &[LEAST_NORMAL, LEAST_NORMAL], 0, UF | NX);
    // (1 - 2^-53) m rounds up to m, and with an unbounded exponent it is exact: tiny.
    expect(
        Op::FmulD,
        &[LEAST_NORMAL, d(1.0 - f64::EPSILON / 2.0)],
        LEAST_NORMAL,
        UF | NX,
    );
    // (1 - 2^-104) m rounds to m even with an unbounded exponent: not tiny.
    expect(
        Op::FmulD,
        &[LEAST_NORMAL | 1, d(1.0 - f64::EPSILON)],
        LEAST_NORMAL,
        NX,
    );
    expect(
        Op::FaddD,
        &[LEAST_NORMAL, 1 | NEGATIVE],
        LEAST_NORMAL - 1,
        0,
    );
}

#[test]
fn fused_operations() {
    expect(Op::FmaddD, &[d(2.0), d(3.0), d(4.0)], d(10.0), 0);
    expect(Op::FmsubD, &[d(2.0), d(3.0), d(4.0)], d(2.0), 0);
    expect(Op::FnmsubD, &[d(2.0), d(3.0), d(4.0)], d(-2.0), 0);
    expect(Op::FnmaddD, &[d(2.0), d(3.0), d(4.0)], d(-10.0), 0);
    expect(Op::FmaddS, &[s(2.0), s(3.0), s(4.0)], s(10.0), 0);
    expect(Op::FmsubS, &[s(2.0), s(3.0), s(4.0)], s(2.0), 0);
    expect(Op::FnmsubS, &[s(2.0), s(3.0), s(4.0)], s(-2.0), 0);
    expect(Op::FnmaddS, &[s(2.0), s(3.0), s(4.0)], s(-10.0), 0);
    // One rounding: the square of 1 + eps keeps its last term.
    let x = 1.0 + f64::EPSILON;
    let last = d(f64::EPSILON * f64::EPSILON);
    expect(
        Op::FmsubD,
        &[d(x), d(x), d(1.0 + 2.0 * f64::EPSILON)],
        last,
        0,
    );
    // The product counts as invalid whatever the addend.
    expect(Op::FmaddD, &[INFINITY, d(0.0), NAN], NAN, NV);
    // Signs of zero: -(1 x 1) + 1 and -(1 x 1) - (-1).
    for mode in MODES {
        let zero = if mode == RoundingMode::Down {
            d(-0.0)
        } else {
            d(0.0)
        };
        expect_in(mode, Op::FnmsubD, &[d(1.0), d(1.0), d(1.0)], zero, 0);
        expect_in(mode, Op::FnmaddD, &[d(1.0), d(1.0), d(-1.0)], zero, 0);
    }
}

#[test]
fn minimum_and_maximum() {
    expect(Op::FminD, &[d(0.0), d(-0.0)], d(-0.0), 0);
    expect(Op::FminD, &[d(-0.0), d(0.0)], d(-0.0), 0);
    expect(Op::FmaxD, &[d(0.0), d(-0.0)], d(0.0), 0);
    expect(Op::FmaxD, &[d(-0.0), d(0.0)], d(0.0), 0);
    expect(Op::FminD, &[d(-2.0), d(-1.0)], d(-2.0), 0);
    expect(Op::FmaxD, &[d(-2.0), d(1.0)], d(1.0), 0);
    expect(Op::FminD, &[NAN | 7, d(1.0)], d(1.0), 0);
    expect(Op::FmaxD, &[d(1.0), SIGNALLING], d(1.0), NV);
    expect(Op::FmaxD, &[NAN | 7, NAN | NEGATIVE], NAN, 0);
    expect(Op::FminS, &[SIGNALLING_S, SIGNALLING_S], NAN_S, NV);
    expect(Op::FmaxS, &[s(-0.0), s(0.0)], s(0.0), 0);
    expect(
        Op::FminS,
        &[s(f32::NEG_INFINITY), s(3.0)],
        s(f32::NEG_INFINITY),
        0,
    );
}

#[test]
fn comparisons() {
    for (op, below, equal, above) in [
        (Op::FeqD, 0, 1, 0),
        (Op::FltD, 1, 0, 0),
        (Op::FleD, 1, 1, 0),
    ] {
        expect(op, &[d(-1.0), d(1.0)], below, 0);
        expect(op, &[d(-2.0), d(-1.0)], below, 0);
        expect(op, &[d(-0.0), d(0.0)], equal, 0);
        expect(op, &[d(0.0), d(-0.0)], equal, 0);
        expect(op, &[d(1.0), d(-1.0)], above, 0);
        expect(op, &[INFINITY, GREATEST], above, 0);
        expect(op, &[SIGNALLING, d(1.0)], 0, NV);
        let quiet = if op == Op::FeqD { 0 } else { NV };
        expect(op, &[d(1.0), NAN], 0, quiet);
    }
    expect(Op::FltS, &[s(-1.0), s(-0.0)], 1, 0);
    expect(Op::FleS, &[s(0.0), s(-0.0)], 1, 0);
    expect(Op::FeqS, &[NAN_S, NAN_S], 0, 0);
}

#[test]
fn classes() {
    let doubles = [
        INFINITY | NEGATIVE,
        d(-1.0),
        NEGATIVE | 1,
        d(-0.0),
        d(0.0),
        1,
        d(1.0),
        INFINITY,
        SIGNALLING,
        NAN,
    ];
    let singles = [
        s(f32::NEG_INFINITY),
        s(-1.0),
        s(-1e-45),
        s(-0.0),
        s(0.0),
        s(1e-45),
        s(1.0),
        s(f32::INFINITY),
        SIGNALLING_S,
        NAN_S,
    ];
    for (n, (double, single)) in doubles.into_iter().zip(singles).enumerate() {
        expect(Op::FclassD, &[double], 1 << n, 0);
        expect(Op::FclassS, &[single], 1 << n, 0);
    }
}

#[test]
fn sign_injection() {
    expect(Op::FsgnjD, &[d(1.0), d(-2.0)], d(-1.0), 0);
    expect(Op::FsgnjnD, &[d(1.0), d(-2.0)], d(1.0), 0);
    expect(Op::FsgnjxD, &[d(-1.0), d(-2.0)], d(1.0), 0);
    expect(Op::FsgnjnS, &[s(1.0), s(1.0)], s(-1.0), 0);
    expect(Op::FsgnjxS, &[s(1.0), s(-1.0)], s(-1.0), 0);
    // No arithmetic: a signalling NaN stays what it is.
    expect(Op::FsgnjD, &[SIGNALLING, SIGNALLING], SIGNALLING, 0);
}

/// The manual's table of invalid inputs.
#[test]
fn conversions_to_integers_saturate() {
    let limits = [
        (Op::FcvtWD, i32::MIN as u64, i32::MAX as u64),
        (Op::FcvtWuD, 0, u64::MAX),
        (Op::FcvtLD, i64::MIN as u64, i64::MAX as u64),
        (Op::FcvtLuD, 0, u64::MAX),
    ];
    for (op, least, greatest) in limits {
        for (operand, expected) in [
            (d(-1e30), least),
            (INFINITY | NEGATIVE, least),
            (d(1e30), greatest),
            (INFINITY, greatest),
            (NAN, greatest),
            (NAN | NEGATIVE, greatest),
        ] {
            for mode in MODES {
                expect_in(mode, op, &[operand], expected, NV);
            }
        }
    }
    let truncate = RoundingMode::TowardZero;
    expect_in(
        truncate,
        Op::FcvtWD,
        &[d(2_147_483_647.5)],
        i32::MAX as u64,
        NX,
    );
    expect_in(
        truncate,
        Op::FcvtWD,
        &[d(2_147_483_648.0)],
        i32::MAX as u64,
        NV,
    );
    expect_in(
        truncate,
        Op::FcvtWD,
        &[d(-2_147_483_648.5)],
        i32::MIN as u64,
        NX,
    );
    expect_in(truncate, Op::FcvtWuD, &[d(-0.5)], 0, NX);
    expect_in(truncate, Op::FcvtWuD, &[d(-1.0)], 0, NV);
    expect_in(RoundingMode::Down, Op::FcvtWuD, &[d(-0.5)], 0, NV);
    // The unsigned word is sign-extended.
    expect(Op::FcvtWuD, &[d(2_147_483_648.0)], i32::MIN as u64, 0);
    expect(Op::FcvtWuS, &[s(4_294_967_040.0)], 0xffff_ffff_ffff_ff00, 0);
    expect(Op::FcvtLuD, &[d(9_223_372_036_854_775_808.0)], 1 << 63, 0);
    expect(Op::FcvtLS, &[s(-9_223_372_036_854_775_808.0)], 1 << 63, 0);
}

#[test]
fn conversions_to_integers_round_by_mode() {
    let cases = [
        (2.5, [2, 2, 2, 3, 3]),
        (-2.5, [-2, -2, -3, -2, -3]),
        (3.5, [4, 3, 3, 4, 4]),
        (-0.25, [0, 0, -1, 0, 0]),
    ];
    for (operand, expected) in cases {
        for (mode, integer) in MODES.into_iter().zip(expected) {
            let integer = integer as u64;
            expect_in(mode, Op::FcvtLD, &[d(f64::from(operand))], integer, NX);
            expect_in(mode, Op::FcvtWS, &[s(operand)], integer, NX);
        }
    }
}

#[test]
fn conversions_from_integers() {
    expect(Op::FcvtDW, &[0xffff_ffff], d(-1.0), 0);
    expect(Op::FcvtDWu, &[0xffff_ffff], d(4_294_967_295.0), 0);
    expect(Op::FcvtDL, &[u64::MAX], d(-1.0), 0);
    expect(
        Op::FcvtDLu,
        &[u64::MAX],
        d(18_446_744_073_709_551_616.0),
        NX,
    );
    expect(Op::FcvtDL, &[0], d(0.0), 0);
    expect(Op::FcvtSW, &[0x7fff_ffff], s(2_147_483_648.0), NX);
    expect(Op::FcvtSLu, &[1 << 63], s(9_223_372_036_854_775_808.0), 0);
    let truncate = RoundingMode::TowardZero;
    expect_in(
        truncate,
        Op::FcvtSWu,
        &[0xffff_ffff],
        s(4_294_967_040.0),
        NX,
    );
    expect_in(
        truncate,
        Op::FcvtDL,
        &[i64::MAX as u64],
        d(9_223_372_036_854_774_784.0),
        NX,
    );
    expect_in(RoundingMode::Down, Op::FcvtDL, &[0], d(0.0), 0);
}

#[test]
fn conversions_between_formats() {
    expect(Op::FcvtSD, &[d(1.0)], s(1.0), 0);
    expect(Op::FcvtSD, &[d(0.1)], s(0.1), NX);
    expect(Op::FcvtSD, &[d(1e300)], s(f32::INFINITY), OF | NX);
    expect_in(
        RoundingMode::TowardZero,
        Op::FcvtSD,
        &[d(1e300)],
        s(f32::MAX),
        OF | NX,
    );
    expect(Op::FcvtSD, &[d(1e-300)], s(0.0), UF | NX);
    expect(Op::FcvtSD, &[d(f64::from(1e-45f32))], s(1e-45), 0);
    expect(Op::FcvtSD, &[d(-0.0)], s(-0.0), 0);
    expect(Op::FcvtDS, &[s(1e-45)], d(f64::from(1e-45f32)), 0);
    expect(Op::FcvtDS, &[s(f32::NEG_INFINITY)], INFINITY | NEGATIVE, 0);
}

#[test]
fn flags_accrue() {
    let mut context = FpContext {
        rounding: NEAREST,
        flags: DZ,
    };
    crate::fp::div::<f64>(&mut context, d(1.0), d(3.0));
    assert_eq!(context.flags, DZ | NX);
    crate::fp::add::<f64>(&mut context, d(1.0), d(1.0));
    assert_eq!(context.flags, DZ | NX);
}

#[test]
fn rounding_modes_from_bits() {
    for mode in MODES {
        assert_eq!(RoundingMode::from_bits(mode as u8), Some(mode));
    }
    assert!((5..=u8::MAX).all(|bits| RoundingMode::from_bits(bits).is_none()));
    assert_eq!(
        run(Op::FaddD, &[d(1.0), d(2.0)]),
        d(3.0),
        "nearest even is the default"
    );
}
