//! The fast path: the host's own instruction where it provably gives the soft-float answer.
//!
//! Host and guest both implement IEEE 754, so a result that is correctly rounded to nearest even is
//! one and the same bit pattern, whatever the operands. What could differ is a NaN (its payload)
//! and the exceptions, which Rust cannot read from the host. Hence:
//!
//! * Only round-to-nearest-even is taken here, the mode the host is always in.
//! * Only *usual* results are: finite, and at least twice the least normal number in magnitude.
//!   Finite rules out invalid, division by zero and overflow, which under this rounding always
//!   give a NaN or an infinity. The lower bound rules out underflow: a value that rounds to 2m or
//!   more, m being the least normal number, is above m before rounding, and still after it.
//!   Zero results are taken where the operands show that they are exact.
//! * What remains is inexact. If that flag is set already there is nothing to find out. If not,
//!   the result is taken only when an error-free transformation shows it to be exact; otherwise
//!   soft-float repeats the operation and sets the flag.
//!
//! Two tests of exactness serve:
//!
//! * *Sums*: Knuth's TwoSum gives s + e = x + y exactly, e being 0 just if s is exact. It holds with
//!   subnormal numbers; should a step overflow, e is a NaN or an infinity, and not 0.
//! * *Products*: a fused `x * y - p` is 0 just if p = x * y, provided that no nonzero difference
//!   can round to 0. With F bits of fraction every number v is a multiple of 2^(e(v) - F), and the
//!   difference one of 2^(e(x) + e(y) - 2F) and of ulp(p). It is 0 or at least the least subnormal
//!   number, 2^(emin - F), if e(x) + e(y) >= emin + F. As |p| < 2^(e(x) + e(y) + 2), this holds if
//!   the exponent field of p is F + 3 or more; we ask for 2F. Quotients and roots are checked by
//!   multiplying back, where the dividend, or radicand, stands for p (half an ulp of the quotient
//!   makes at most one binade of difference, which the margin between F + 3 and 2F covers).

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
fn is_zero<F: Format>(bits: u64) -> bool {
    bits & !F::SIGN == 0
}

/// Finite and at least twice the least normal number.
#[inline(always)]
fn usual<F: Format>(bits: u64) -> bool {
    F::exponent(bits).wrapping_sub(2) < F::EXPONENT_MAX - 2
}

/// Large enough for the product test.
#[inline(always)]
fn far_from_underflow<F: Format>(bits: u64) -> bool {
    F::exponent(bits) >= 2 * u64::from(F::FRACTION_BITS)
}

/// Is `s`, the rounded sum of `x` and `y`, exact?
#[inline(always)]
fn exact_sum<F: Format>(x: F, y: F, s: F) -> bool {
    let y_part = s - x;
    let x_part = s - y_part;
    is_zero::<F>(F::of_host((x - x_part) + (y - y_part)))
}

/// Is `x * y` equal to `p`? Call only with a `p` far from underflow.
#[inline(always)]
fn exact_product<F: Format>(x: F, y: F, p: F) -> bool {
    is_zero::<F>(F::of_host(x.host_fma(y, -p)))
}

/// The result, if it is usual and raises no new flag.
#[inline(always)]
fn settle<F: Format>(c: &FpContext, result: u64, exact: impl FnOnce() -> bool) -> Option<u64> {
    (usual::<F>(result) && (already_inexact(c) || exact())).then_some(result)
}

#[inline(always)]
fn add_host<F: Format>(c: &FpContext, x: F, y: F) -> Option<u64> {
    let s = x + y;
    let result = F::of_host(s);
    // A sum of two multiples of the least subnormal number is 0 only if it is exactly that.
    if nearest(c) && is_zero::<F>(result) {
        return Some(result);
    }
    if nearest(c) {
        settle::<F>(c, result, || exact_sum(x, y, s))
    } else {
        None
    }
}

#[inline(always)]
pub(super) fn add<F: Format>(c: &FpContext, x: u64, y: u64) -> Option<u64> {
    add_host(c, F::to_host(x), F::to_host(y))
}

#[inline(always)]
pub(super) fn sub<F: Format>(c: &FpContext, x: u64, y: u64) -> Option<u64> {
    add::<F>(c, x, y ^ F::SIGN)
}

#[inline(always)]
pub(super) fn mul<F: Format>(c: &FpContext, x: u64, y: u64) -> Option<u64> {
    if !nearest(c) {
        return None;
    }
    let (a, b) = (F::to_host(x), F::to_host(y));
    let p = a * b;
    let result = F::of_host(p);
    if is_zero::<F>(result) && (is_zero::<F>(x) || is_zero::<F>(y)) {
        return Some(result);
    }
    settle::<F>(c, result, || {
        far_from_underflow::<F>(result) && exact_product(a, b, p)
    })
}

#[inline(always)]
pub(super) fn div<F: Format>(c: &FpContext, x: u64, y: u64) -> Option<u64> {
    if !nearest(c) {
        return None;
    }
    let (a, b) = (F::to_host(x), F::to_host(y));
    let q = a / b;
    let result = F::of_host(q);
    if is_zero::<F>(result) && is_zero::<F>(x) {
        return Some(result);
    }
    settle::<F>(c, result, || {
        far_from_underflow::<F>(x) && exact_product(q, b, a)
    })
}

#[inline(always)]
pub(super) fn sqrt<F: Format>(c: &FpContext, x: u64) -> Option<u64> {
    if !nearest(c) {
        return None;
    }
    let a = F::to_host(x);
    let root = a.host_sqrt();
    let result = F::of_host(root);
    if is_zero::<F>(result) {
        return Some(result);
    }
    settle::<F>(c, result, || {
        far_from_underflow::<F>(x) && exact_product(root, root, a)
    })
}

#[inline(always)]
pub(super) fn fmadd<F: Format>(c: &FpContext, x: u64, y: u64, z: u64) -> Option<u64> {
    if !nearest(c) {
        return None;
    }
    let (a, b, addend) = (F::to_host(x), F::to_host(y), F::to_host(z));
    if already_inexact(c) {
        let result = F::of_host(a.host_fma(b, addend));
        return usual::<F>(result).then_some(result);
    }
    // An exact product makes this a plain sum, with the same rule for the sign of a zero.
    let p = a * b;
    let product = F::of_host(p);
    let exact = if is_zero::<F>(product) {
        is_zero::<F>(x) || is_zero::<F>(y)
    } else {
        usual::<F>(product) && far_from_underflow::<F>(product) && exact_product(a, b, p)
    };
    if exact { add_host(c, p, addend) } else { None }
}

/// Double to single.
#[inline(always)]
pub(super) fn narrow(c: &FpContext, x: u64) -> Option<u64> {
    if !nearest(c) {
        return None;
    }
    let value = f64::from_bits(x);
    let narrowed = value as f32;
    let result = f32::of_host(narrowed);
    if x & !f64::SIGN == 0 {
        return Some(result);
    }
    settle::<f32>(c, result, || f64::from(narrowed) == value)
}

/// To an integer, the caller checking the range. Every rounding mode takes an integral value as it
/// is; another is taken here when truncation is asked for.
#[inline(always)]
pub(super) fn truncate<F: Format>(c: &FpContext, x: u64) -> Option<i64> {
    // Below 2^62 in magnitude, so the host's conversion is in range; no NaN, no infinity.
    if F::exponent(x) >= (F::EXPONENT_MAX >> 1) + 62 {
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
