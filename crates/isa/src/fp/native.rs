//! The fast path: the host's own instruction where it provably gives the soft-float answer.
//!
//! Host and guest both implement IEEE 754, so a result that is correctly rounded to nearest even is
//! one and the same bit pattern. What could differ is a NaN (its payload), a subnormal number (a
//! library in the process may have told the host to flush them) and the exceptions, which Rust
//! cannot read from the host. Hence:
//!
//! * Only round-to-nearest-even is taken here, the mode the host is always in.
//! * Operands are zero or *usual*: finite, and at least 2m in magnitude, where m is the least normal
//!   number. So invalid remains possible only in 0 / 0 and the root of a negative number, which
//!   give a NaN, and division by zero gives an infinity.
//! * Results are usual. That rules out both of those, overflow (under this rounding always an
//!   infinity), and underflow: a value that rounds to 2m or more is above m before rounding.
//!   Zero results are taken where the operands show that they are exact.
//! * What remains is inexact. If that flag is set already there is nothing to find out. If not,
//!   the result is taken only when an error-free transformation shows it to be exact; otherwise
//!   soft-float repeats the operation and sets the flag.
//!
//! Two tests of exactness serve. F is the number of fraction bits, e(v) the exponent of v, and
//! e(m) that of m; every number v is a multiple of 2^(e(v) - F). Both ask for exponent fields of at
//! least 2F + 3, which keeps every step from subnormal numbers, so that none of their results is 0
//! unless the exact value is:
//!
//! * *Sums*: Knuth's TwoSum gives s + t = x + y exactly; s is exact just if t is 0. Should a step
//!   overflow, t is a NaN or an infinity and not 0. All steps give multiples of the smaller ulp of
//!   x and y, which is above m.
//! * *Products*: a fused `x * y - p` is 0 just if p = x * y. It is a multiple of
//!   2^(e(x) + e(y) - 2F), because ulp(p) is. From |p| < 2^(e(x) + e(y) + 2) follows
//!   e(x) + e(y) - 2F >= e(p) - 1 - 2F > e(m). Quotients and roots are checked by multiplying back,
//!   the dividend or radicand standing for p; the rounding of the quotient or root costs one
//!   binade at most, which the bound has to spare.

use super::format::Format;
use super::{FpContext, RoundingMode};

#[inline(always)]
fn nearest(c: &FpContext) -> bool {
    c.rounding == RoundingMode::NearestEven
}

#[inline(always)]
fn already_inexact(c: &FpContext) -> bool {
    c.flags & FpContext::INEXACT != 0
}

#[inline(always)]
fn zero<F: Format>(bits: u64) -> bool {
    bits & !F::SIGN == 0
}

/// Finite and at least twice the least normal number.
#[inline(always)]
fn usual<F: Format>(bits: u64) -> bool {
    F::exponent(bits).wrapping_sub(2) < F::EXPONENT_MAX - 2
}

/// May the host have this operand?
#[inline(always)]
fn ordinary<F: Format>(bits: u64) -> bool {
    usual::<F>(bits) || zero::<F>(bits)
}

/// Large enough for the tests of exactness.
#[inline(always)]
fn testable<F: Format>(bits: u64) -> bool {
    F::exponent(bits) >= 2 * u64::from(F::FRACTION_BITS) + 3
}

/// Is `s`, the rounded sum of `x` and `y`, exact?
#[inline(always)]
fn exact_sum<F: Format>(x: u64, y: u64, s: F) -> bool {
    if zero::<F>(x) || zero::<F>(y) {
        return true;
    }
    let (a, b) = (F::to_host(x), F::to_host(y));
    let b_part = s - a;
    let a_part = s - b_part;
    let error = F::of_host((a - a_part) + (b - b_part));
    testable::<F>(x) && testable::<F>(y) && zero::<F>(error)
}

/// Is `x * y` equal to `p`?
#[inline(always)]
fn exact_product<F: Format>(x: F, y: F, p: F) -> bool {
    testable::<F>(F::of_host(p)) && zero::<F>(F::of_host(x.host_fma(y, -p)))
}

/// The result, if it is usual and raises no new flag.
#[inline(always)]
fn settle<F: Format>(c: &FpContext, result: u64, exact: impl FnOnce() -> bool) -> Option<u64> {
    (usual::<F>(result) && (already_inexact(c) || exact())).then_some(result)
}

#[inline(always)]
pub(super) fn add<F: Format>(c: &FpContext, x: u64, y: u64) -> Option<u64> {
    if !(nearest(c) && ordinary::<F>(x) && ordinary::<F>(y)) {
        return None;
    }
    let s = F::to_host(x) + F::to_host(y);
    let result = F::of_host(s);
    // Opposite numbers cancel; two zeros stay zero.
    if zero::<F>(result) && (zero::<F>(x ^ y) || zero::<F>(x | y)) {
        return Some(result);
    }
    settle::<F>(c, result, || exact_sum(x, y, s))
}

#[inline(always)]
pub(super) fn sub<F: Format>(c: &FpContext, x: u64, y: u64) -> Option<u64> {
    add::<F>(c, x, y ^ F::SIGN)
}

#[inline(always)]
pub(super) fn mul<F: Format>(c: &FpContext, x: u64, y: u64) -> Option<u64> {
    if !(nearest(c) && ordinary::<F>(x) && ordinary::<F>(y)) {
        return None;
    }
    let (a, b) = (F::to_host(x), F::to_host(y));
    let p = a * b;
    let result = F::of_host(p);
    if zero::<F>(x) || zero::<F>(y) {
        return Some(result);
    }
    settle::<F>(c, result, || exact_product(a, b, p))
}

#[inline(always)]
pub(super) fn div<F: Format>(c: &FpContext, x: u64, y: u64) -> Option<u64> {
    if !(nearest(c) && ordinary::<F>(x) && usual::<F>(y)) {
        return None;
    }
    let (a, b) = (F::to_host(x), F::to_host(y));
    let q = a / b;
    let result = F::of_host(q);
    if zero::<F>(x) {
        return Some(result);
    }
    settle::<F>(c, result, || exact_product(q, b, a))
}

#[inline(always)]
pub(super) fn sqrt<F: Format>(c: &FpContext, x: u64) -> Option<u64> {
    if !(nearest(c) && ordinary::<F>(x)) {
        return None;
    }
    let a = F::to_host(x);
    let root = a.host_sqrt();
    let result = F::of_host(root);
    if zero::<F>(x) {
        return Some(result);
    }
    settle::<F>(c, result, || exact_product(root, root, a))
}

#[inline(always)]
pub(super) fn fmadd<F: Format>(c: &FpContext, x: u64, y: u64, z: u64) -> Option<u64> {
    if !(nearest(c) && ordinary::<F>(x) && ordinary::<F>(y) && ordinary::<F>(z)) {
        return None;
    }
    let (a, b) = (F::to_host(x), F::to_host(y));
    if already_inexact(c) {
        let result = F::of_host(a.host_fma(b, F::to_host(z)));
        return usual::<F>(result).then_some(result);
    }
    // An exact product makes this a plain sum, with the same rule for the sign of a zero.
    let p = a * b;
    let product = F::of_host(p);
    let exact = zero::<F>(x) || zero::<F>(y) || exact_product(a, b, p);
    if exact { add::<F>(c, product, z) } else { None }
}

/// Double to single.
#[inline(always)]
pub(super) fn narrow(c: &FpContext, x: u64) -> Option<u64> {
    if !(nearest(c) && ordinary::<f64>(x)) {
        return None;
    }
    let value = f64::from_bits(x);
    let narrowed = value as f32;
    let result = f32::of_host(narrowed);
    if zero::<f64>(x) {
        return Some(result);
    }
    settle::<f32>(c, result, || f64::from(narrowed) == value)
}

/// Single to double, always exact; not for NaNs.
#[inline(always)]
pub(super) fn widen(x: u64) -> Option<u64> {
    ordinary::<f32>(x).then(|| f64::from(f32::from_bits(x as u32)).to_bits())
}

/// To an integer, the caller checking the range. Every rounding mode takes an integral value as it
/// is; another is taken here when truncation is asked for.
#[inline(always)]
pub(super) fn truncate<F: Format>(c: &FpContext, x: u64) -> Option<i64> {
    // Below 2^62 in magnitude, so the host's conversion is in range.
    if !ordinary::<F>(x) || F::exponent(x) >= (F::EXPONENT_MAX >> 1) + 62 {
        return None;
    }
    let value = F::to_host(x);
    let integer = value.host_truncate();
    // The conversion back is exact: the integer has no more significant bits than the value.
    let exact = F::of_integer(integer) == value;
    let known = exact || (already_inexact(c) && c.rounding == RoundingMode::TowardZero);
    known.then_some(integer)
}

/// From an integer: exact in any rounding mode if it fits the significand.
#[inline(always)]
pub(super) fn from_integer<F: Format>(c: &FpContext, value: i64) -> Option<u64> {
    let exact = value.unsigned_abs() >> (F::FRACTION_BITS + 1) == 0;
    (exact || (already_inexact(c) && nearest(c))).then(|| F::of_host(F::of_integer(value)))
}
