//! The host's fast path against soft-float, on corners and random operands.

use super::format::Format;
use super::{FpContext, RoundingMode, native, soft};
use crate::tests::Random;

const MODES: [RoundingMode; 5] = [
    RoundingMode::NearestEven,
    RoundingMode::TowardZero,
    RoundingMode::Down,
    RoundingMode::Up,
    RoundingMode::NearestAway,
];

/// Operands from all regions where something changes.
struct Operands {
    random: Random,
    corners: Vec<u64>,
}

impl Operands {
    fn new<F: Format>(seed: u64) -> Self {
        let one = (F::EXPONENT_MAX >> 1) << F::FRACTION_BITS;
        let step = 1u64 << F::FRACTION_BITS;
        let testable = (2 * u64::from(F::FRACTION_BITS) + 3) << F::FRACTION_BITS;
        let infinity = F::EXPONENT_MAX << F::FRACTION_BITS;
        let edges = [
            0,
            step,
            2 * step,
            testable,
            one,
            one + step,
            one + 62 * step,
            infinity,
            F::CANONICAL_NAN,
        ];
        let around = |edge: u64| [edge.wrapping_sub(1), edge, edge + 1];
        let positive = edges.into_iter().flat_map(around).filter(|&v| v < F::SIGN);
        let corners = positive.flat_map(|v| [v, v | F::SIGN]).collect();
        Self {
            random: Random(seed),
            corners,
        }
    }

    fn next<F: Format>(&mut self) -> u64 {
        let bits = self.random.next();
        let choice = self.random.next();
        let fraction = bits & F::FRACTION;
        let sign = if bits >> 63 != 0 { F::SIGN } else { 0 };
        let centre = F::EXPONENT_MAX >> 1;
        let build = |exponent: u64, fraction: u64| sign | exponent << F::FRACTION_BITS | fraction;
        match choice % 8 {
            0 => self.corners[(choice >> 8) as usize % self.corners.len()],
            1 => bits & (F::SIGN | (F::SIGN - 1)),
            // Few bits: sums, products, quotients and roots that are exact.
            2 | 3 => build(centre + (choice >> 8) % 12, fraction & !(F::FRACTION >> 5)),
            4 => F::of_host(F::of_integer(bits as i64 >> ((choice >> 8) % 64))),
            // Where results leave the normal numbers.
            5 => build((choice >> 8) % (3 * u64::from(F::FRACTION_BITS)), fraction),
            6 => build(F::EXPONENT_MAX - 1 - (choice >> 8) % 8, fraction),
            _ => build(centre - 8 + (choice >> 8) % 16, fraction),
        }
    }
}

type Native = fn(&FpContext, u64, u64, u64) -> Option<u64>;
type Soft = fn(&mut FpContext, u64, u64, u64) -> u64;

/// Checks an operation; returns how many operands the fast path took.
fn agree<F: Format>(name: &str, count: usize, native: Native, soft: Soft) -> usize {
    let mut operands = Operands::new::<F>(count as u64);
    let mut taken = 0;
    for n in 0..count {
        let (x, y, z) = (
            operands.next::<F>(),
            operands.next::<F>(),
            operands.next::<F>(),
        );
        let rounding = if n % 8 == 0 {
            MODES[n / 8 % 5]
        } else {
            RoundingMode::NearestEven
        };
        let before = FpContext {
            rounding,
            flags: (n / 2 % 2) as u8,
        };
        let Some(fast) = native(&before, x, y, z) else {
            continue;
        };
        taken += 1;
        let mut context = before;
        let slow = soft(&mut context, x, y, z);
        assert_eq!(
            (fast, before),
            (slow, context),
            "{name}({x:#x}, {y:#x}, {z:#x}): native, then soft"
        );
    }
    taken
}

fn agree_everywhere<F: Format>(count: usize) {
    let operations: [(&str, Native, Soft); 8] = [
        (
            "add",
            |c, x, y, _| native::add::<F>(c, x, y),
            |c, x, y, _| soft::add::<F>(c, x, y),
        ),
        (
            "sub",
            |c, x, y, _| native::sub::<F>(c, x, y),
            |c, x, y, _| soft::sub::<F>(c, x, y),
        ),
        (
            "mul",
            |c, x, y, _| native::mul::<F>(c, x, y),
            |c, x, y, _| soft::mul::<F>(c, x, y),
        ),
        (
            "div",
            |c, x, y, _| native::div::<F>(c, x, y),
            |c, x, y, _| soft::div::<F>(c, x, y),
        ),
        (
            "sqrt",
            |c, x, _, _| native::sqrt::<F>(c, x),
            |c, x, _, _| soft::sqrt::<F>(c, x),
        ),
        ("fmadd", native::fmadd::<F>, soft::fmadd::<F>),
        (
            "to_i64",
            |c, x, _, _| native::truncate::<F>(c, x).map(|v| v as u64),
            |c, x, _, _| soft::to_i64::<F>(c, x),
        ),
        (
            "from_i64",
            |c, x, _, _| native::from_integer::<F>(c, x as i64),
            |c, x, _, _| soft::from_i64::<F>(c, x),
        ),
    ];
    for (name, native, soft) in operations {
        let taken = agree::<F>(name, count, native, soft);
        assert!(
            taken > count / 8,
            "{name}: the fast path took only {taken} of {count}"
        );
    }
}

#[test]
fn doubles_agree_with_soft_float() {
    agree_everywhere::<f64>(150_000);
}

#[test]
fn singles_agree_with_soft_float() {
    agree_everywhere::<f32>(150_000);
}

#[test]
fn conversions_between_formats_agree_with_soft_float() {
    const COUNT: usize = 200_000;
    let narrowed = agree::<f64>(
        "narrow",
        COUNT,
        |c, x, _, _| native::narrow(c, x),
        |c, x, _, _| soft::narrow(c, x),
    );
    let widened = agree::<f32>(
        "widen",
        COUNT,
        |_, x, _, _| native::widen(x),
        |c, x, _, _| soft::widen(c, x),
    );
    assert!(
        narrowed > COUNT / 8 && widened > COUNT / 2,
        "{narrowed}, {widened}"
    );
}

/// An inexact result that raises the flag for the first time must go through soft-float.
#[test]
fn first_inexact_result_is_not_taken() {
    let (one, tiny) = (1f64.to_bits(), 1e-30f64.to_bits());
    let mut clean = FpContext::default();
    assert_eq!(native::add::<f64>(&clean, one, tiny), None);
    assert_eq!(super::add::<f64>(&mut clean, one, tiny), one);
    assert_eq!(clean.flags, FpContext::INEXACT);
    assert_eq!(native::add::<f64>(&clean, one, tiny), Some(one));
}

/// The library's rounding mode and flags belong to a thread.
#[test]
fn threads_do_not_share_rounding_modes() {
    let third = |mode| {
        let mut context = FpContext {
            rounding: mode,
            flags: 0,
        };
        let result = soft::div::<f64>(&mut context, 1f64.to_bits(), 3f64.to_bits());
        (result, context.flags)
    };
    let down = (1f64 / 3f64).to_bits();
    std::thread::scope(|scope| {
        for mode in MODES {
            scope.spawn(move || {
                let expected = down + u64::from(mode == RoundingMode::Up);
                for _ in 0..20_000 {
                    assert_eq!(third(mode), (expected, FpContext::INEXACT));
                }
            });
        }
    });
}
