//! Floating-point semantics of F and D, exact to the bit and the flag.
//!
//! Operands and results are 64-bit register images: a single is NaN-boxed, and a register that does
//! not hold a properly boxed single reads as the canonical NaN. Rounded operations are done by
//! Berkeley SoftFloat (`soft.rs`) unless `native.rs` can prove that the host's own instruction
//! gives the same. Everything else is exact integer work and is written out here.

mod format;
mod native;
mod soft;
#[cfg(test)]
mod tests;

use format::Format;
pub(crate) use format::box_single;

/// A rounding mode, resolved: an engine replaces "dynamic" by the contents of `frm` first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum RoundingMode {
    /// To nearest, ties to even (`rne`).
    #[default]
    NearestEven = 0,
    /// Towards zero (`rtz`).
    TowardZero = 1,
    /// Towards minus infinity (`rdn`).
    Down = 2,
    /// Towards plus infinity (`rup`).
    Up = 3,
    /// To nearest, ties away from zero (`rmm`).
    NearestAway = 4,
}

impl RoundingMode {
    /// The mode that an `rm` field or `frm` encodes; none for the reserved values and for dynamic.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::NearestEven),
            1 => Some(Self::TowardZero),
            2 => Some(Self::Down),
            3 => Some(Self::Up),
            4 => Some(Self::NearestAway),
            _ => None,
        }
    }
}

/// What a floating-point instruction reads and writes besides registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FpContext {
    /// The rounding mode in force.
    pub rounding: RoundingMode,
    /// Accrued exceptions in the bit order of `fflags`. An instruction adds to them and never takes
    /// one away, so an engine may pass in `fflags` and store back what it finds.
    pub flags: u8,
}

impl FpContext {
    /// `fflags` bit: inexact.
    pub const INEXACT: u8 = 1;
    /// `fflags` bit: underflow.
    pub const UNDERFLOW: u8 = 2;
    /// `fflags` bit: overflow.
    pub const OVERFLOW: u8 = 4;
    /// `fflags` bit: division by zero.
    pub const DIVIDE_BY_ZERO: u8 = 8;
    /// `fflags` bit: invalid operation.
    pub const INVALID: u8 = 16;

    #[inline]
    fn raise(&mut self, flags: u8) {
        self.flags |= flags;
    }
}

macro_rules! rounded {
    ($($name:ident($($operand:ident),*);)*) => {
        $(#[inline]
        pub(crate) fn $name<F: Format>(c: &mut FpContext, $($operand: u64),*) -> u64 {
            $(let $operand = F::unbox($operand);)*
            let result = native::$name::<F>(c, $($operand),*);
            F::boxed(result.unwrap_or_else(|| soft::$name::<F>(c, $($operand),*)))
        })*
    };
}

rounded! {
    add(x, y);
    sub(x, y);
    mul(x, y);
    div(x, y);
    sqrt(x);
    fmadd(x, y, z);
}

/// `x * y - z`
#[inline]
pub(crate) fn fmsub<F: Format>(c: &mut FpContext, x: u64, y: u64, z: u64) -> u64 {
    fmadd::<F>(c, x, y, negated::<F>(z))
}

/// `-(x * y) + z`
#[inline]
pub(crate) fn fnmsub<F: Format>(c: &mut FpContext, x: u64, y: u64, z: u64) -> u64 {
    fmadd::<F>(c, negated::<F>(x), y, z)
}

/// `-(x * y) - z`
#[inline]
pub(crate) fn fnmadd<F: Format>(c: &mut FpContext, x: u64, y: u64, z: u64) -> u64 {
    fmadd::<F>(c, negated::<F>(x), y, negated::<F>(z))
}

#[inline]
fn negated<F: Format>(x: u64) -> u64 {
    F::boxed(F::unbox(x) ^ F::SIGN)
}

/// The magnitude of `x` with the sign that `sign` makes of both signs.
#[inline]
fn with_sign<F: Format>(x: u64, y: u64, sign: impl FnOnce(u64, u64) -> u64) -> u64 {
    let (x, y) = (F::unbox(x), F::unbox(y));
    F::boxed((x & !F::SIGN) | (sign(x, y) & F::SIGN))
}

#[inline]
pub(crate) fn sgnj<F: Format>(x: u64, y: u64) -> u64 {
    with_sign::<F>(x, y, |_, y| y)
}

#[inline]
pub(crate) fn sgnjn<F: Format>(x: u64, y: u64) -> u64 {
    with_sign::<F>(x, y, |_, y| !y)
}

#[inline]
pub(crate) fn sgnjx<F: Format>(x: u64, y: u64) -> u64 {
    with_sign::<F>(x, y, |x, y| x ^ y)
}

/// minimumNumber of IEEE 754-2019: a number beats a NaN, and -0 is less than +0.
#[inline]
pub(crate) fn min<F: Format>(c: &mut FpContext, x: u64, y: u64) -> u64 {
    select::<F>(c, x, y, |x, y| x < y)
}

/// maximumNumber of IEEE 754-2019.
#[inline]
pub(crate) fn max<F: Format>(c: &mut FpContext, x: u64, y: u64) -> u64 {
    select::<F>(c, x, y, |x, y| x > y)
}

#[inline]
fn select<F: Format>(
    c: &mut FpContext,
    x: u64,
    y: u64,
    first: impl FnOnce(i64, i64) -> bool,
) -> u64 {
    let (x, y) = (F::unbox(x), F::unbox(y));
    if F::signalling(x) || F::signalling(y) {
        c.raise(FpContext::INVALID);
    }
    F::boxed(match (F::nan(x), F::nan(y)) {
        (true, true) => F::CANONICAL_NAN,
        (true, false) => y,
        (false, true) => x,
        (false, false) if first(F::order(x), F::order(y)) => x,
        (false, false) => y,
    })
}

/// Quiet comparison: only a signalling NaN is invalid.
#[inline]
pub(crate) fn eq<F: Format>(c: &mut FpContext, x: u64, y: u64) -> u64 {
    let (x, y) = (F::unbox(x), F::unbox(y));
    if F::nan(x) || F::nan(y) {
        if F::signalling(x) || F::signalling(y) {
            c.raise(FpContext::INVALID);
        }
        return 0;
    }
    u64::from(x == y || (x | y) & !F::SIGN == 0)
}

#[inline]
pub(crate) fn lt<F: Format>(c: &mut FpContext, x: u64, y: u64) -> u64 {
    compare::<F>(c, x, y, |x, y| x < y)
}

#[inline]
pub(crate) fn le<F: Format>(c: &mut FpContext, x: u64, y: u64) -> u64 {
    compare::<F>(c, x, y, |x, y| x <= y)
}

/// Signalling comparison: any NaN is invalid, and the result is false.
#[inline]
fn compare<F: Format>(
    c: &mut FpContext,
    x: u64,
    y: u64,
    holds: impl FnOnce(i64, i64) -> bool,
) -> u64 {
    let (x, y) = (F::unbox(x), F::unbox(y));
    if F::nan(x) || F::nan(y) {
        c.raise(FpContext::INVALID);
        return 0;
    }
    // The order of both zeros is that of +0, so that they compare equal.
    let order = |v: u64| if v == F::SIGN { 0 } else { F::order(v) };
    u64::from(holds(order(x), order(y)))
}

/// One bit of ten, as `fclass` numbers them.
#[inline]
pub(crate) fn class<F: Format>(x: u64) -> u64 {
    let x = F::unbox(x);
    let exponent = (x & !F::SIGN) >> F::FRACTION_BITS;
    let fraction = x & F::FRACTION;
    let magnitude = match (exponent, fraction) {
        (0, 0) => 3,
        (0, _) => 2,
        (e, 0) if e == F::EXPONENT_MAX => 0,
        (e, _) if e == F::EXPONENT_MAX => return 1 << (8 + u32::from(!F::signalling(x))),
        _ => 1,
    };
    // Bits 0 to 3 run from minus infinity to -0, bits 4 to 7 from +0 to plus infinity.
    let negative = x & F::SIGN != 0;
    1 << if negative { magnitude } else { 7 - magnitude }
}

macro_rules! conversions {
    ($($to:ident $from:ident $int:ident $register:ident;)*) => {
        $(#[inline]
        pub(crate) fn $to<F: Format>(c: &mut FpContext, x: u64) -> u64 {
            let x = F::unbox(x);
            match native::truncate::<F>(c, x).and_then(|v| $int::try_from(v).ok()) {
                Some(v) => v as $register as u64,
                None => soft::$to::<F>(c, x),
            }
        }

        #[inline]
        pub(crate) fn $from<F: Format>(c: &mut FpContext, x: u64) -> u64 {
            let value = i64::try_from(x as $int).ok();
            let fast = value.and_then(|v| native::from_integer::<F>(c, v));
            F::boxed(fast.unwrap_or_else(|| soft::$from::<F>(c, x)))
        })*
    };
}

// A 32-bit result is sign-extended, an unsigned one too.
conversions! {
    to_i32 from_i32 i32 i32;
    to_u32 from_u32 u32 i32;
    to_i64 from_i64 i64 i64;
    to_u64 from_u64 u64 u64;
}

/// Double to single.
#[inline]
pub(crate) fn narrow(c: &mut FpContext, x: u64) -> u64 {
    f32::boxed(native::narrow(c, x).unwrap_or_else(|| soft::narrow(c, x)))
}

/// Single to double.
#[inline]
pub(crate) fn widen(c: &mut FpContext, x: u64) -> u64 {
    let x = f32::unbox(x);
    native::widen(x).unwrap_or_else(|| soft::widen(c, x))
}
