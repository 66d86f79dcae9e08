//! Rounded operations by Berkeley SoftFloat, built with its RISC-V specialisation: canonical NaNs,
//! tininess after rounding, saturating conversions.
//!
//! The library keeps rounding mode and flags in thread-local variables. Each operation here sets
//! both before and reads the flags after, so nothing survives from one call to the next. Its build
//! rules know Linux on x86-64 only; another host needs another library behind this file.

use softfloat_wrapper::{ExceptionFlags, F64, Float, RoundingMode as Mode};

use super::format::Format;
use super::{FpContext, RoundingMode};

/// Runs `operation` under the context's rounding mode and accrues its flags, whose bits the library
/// numbers as `fflags` does.
fn run<T>(c: &mut FpContext, operation: impl FnOnce(Mode) -> T) -> T {
    let mode = match c.rounding {
        RoundingMode::NearestEven => Mode::TiesToEven,
        RoundingMode::TowardZero => Mode::TowardZero,
        RoundingMode::Down => Mode::TowardNegative,
        RoundingMode::Up => Mode::TowardPositive,
        RoundingMode::NearestAway => Mode::TiesToAway,
    };
    let mut flags = ExceptionFlags::from_bits(c.flags);
    flags.set();
    let result = operation(mode);
    flags.get();
    c.flags = flags.to_bits();
    result
}

macro_rules! binary {
    ($($name:ident)*) => {
        $(#[cold]
        pub(super) fn $name<F: Format>(c: &mut FpContext, x: u64, y: u64) -> u64 {
            F::of_soft(run(c, |mode| F::to_soft(x).$name(F::to_soft(y), mode)))
        })*
    };
}

binary! { add sub mul div }

#[cold]
pub(super) fn sqrt<F: Format>(c: &mut FpContext, x: u64) -> u64 {
    F::of_soft(run(c, |mode| F::to_soft(x).sqrt(mode)))
}

#[cold]
pub(super) fn fmadd<F: Format>(c: &mut FpContext, x: u64, y: u64, z: u64) -> u64 {
    let (x, y, z) = (F::to_soft(x), F::to_soft(y), F::to_soft(z));
    F::of_soft(run(c, |mode| x.fused_mul_add(y, z, mode)))
}

macro_rules! conversions {
    ($($to:ident $library_to:ident $from:ident $library_from:ident $int:ident $register:ident;)*) => {
        $(#[cold]
        pub(super) fn $to<F: Format>(c: &mut FpContext, x: u64) -> u64 {
            run(c, |mode| F::to_soft(x).$library_to(mode, true)) as $register as u64
        }

        #[cold]
        pub(super) fn $from<F: Format>(c: &mut FpContext, x: u64) -> u64 {
            F::of_soft(run(c, |mode| F::Soft::$library_from(x as $int, mode)))
        })*
    };
}

// A 32-bit result is sign-extended, an unsigned one too.
conversions! {
    to_i32 to_i32 from_i32 from_i32 i32 i32;
    to_u32 to_u32 from_u32 from_u32 u32 i32;
    to_i64 to_i64 from_i64 from_i64 i64 i64;
    to_u64 to_u64 from_u64 from_u64 u64 u64;
}

/// Double to single.
#[cold]
pub(super) fn narrow(c: &mut FpContext, x: u64) -> u64 {
    f32::of_soft(run(c, |mode| F64::from_bits(x).to_f32(mode)))
}

/// Single to double.
#[cold]
pub(super) fn widen(c: &mut FpContext, x: u64) -> u64 {
    f64::of_soft(run(c, |mode| f32::to_soft(x).to_f64(mode)))
}
