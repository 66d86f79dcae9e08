//! The two formats, as bit patterns in the low end of a `u64`.

use std::ops::{Add, Div, Mul, Neg, Sub};

use softfloat_wrapper::{F32, F64, Float};

/// A single as a register holds it: all higher bits set.
#[inline(always)]
pub(crate) fn box_single(bits: u64) -> u64 {
    bits | 0xffff_ffff_0000_0000
}

/// A binary interchange format. Methods take and give bit patterns unless they say otherwise.
pub(crate) trait Format:
    Copy
    + PartialEq
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The soft-float library's type.
    type Soft: Float;
    /// Width of the stored fraction.
    const FRACTION_BITS: u32;
    /// Largest exponent field: infinities and NaNs.
    const EXPONENT_MAX: u64;
    /// The sign bit.
    const SIGN: u64;
    /// All bits of the fraction.
    const FRACTION: u64 = (1 << Self::FRACTION_BITS) - 1;
    /// The canonical NaN.
    const CANONICAL_NAN: u64 =
        (Self::EXPONENT_MAX << Self::FRACTION_BITS) | (1 << (Self::FRACTION_BITS - 1));

    /// The pattern that a register image holds.
    fn unbox(register: u64) -> u64;
    /// The register image of a pattern.
    fn boxed(bits: u64) -> u64;
    /// To the soft-float library.
    fn to_soft(bits: u64) -> Self::Soft;
    /// From the soft-float library.
    fn of_soft(value: Self::Soft) -> u64;
    /// To the host's own type.
    fn to_host(bits: u64) -> Self;
    /// From the host's own type.
    fn of_host(value: Self) -> u64;
    /// The host's square root.
    fn host_sqrt(self) -> Self;
    /// The host's fused `self * y + z`.
    fn host_fma(self, y: Self, z: Self) -> Self;
    /// The host's truncation, for values well within the range of `i64`.
    fn host_truncate(self) -> i64;
    /// The host's conversion, to nearest even.
    fn of_integer(value: i64) -> Self;

    /// Exponent field.
    #[inline(always)]
    fn exponent(bits: u64) -> u64 {
        (bits >> Self::FRACTION_BITS) & Self::EXPONENT_MAX
    }

    /// Is it a NaN?
    #[inline(always)]
    fn nan(bits: u64) -> bool {
        bits & !Self::SIGN > Self::EXPONENT_MAX << Self::FRACTION_BITS
    }

    /// Is it a signalling NaN? The top bit of the fraction says "quiet".
    #[inline(always)]
    fn signalling(bits: u64) -> bool {
        Self::nan(bits) && bits & (1 << (Self::FRACTION_BITS - 1)) == 0
    }

    /// A number that orders as the value does, -0 just below +0. Not for NaNs.
    #[inline(always)]
    fn order(bits: u64) -> i64 {
        let magnitude = (bits & !Self::SIGN) as i64;
        if bits & Self::SIGN == 0 {
            magnitude
        } else {
            -1 - magnitude
        }
    }
}

macro_rules! format {
    ($host:ident, $bits:ident, $soft:ident, $fraction:literal, $exponent_max:literal,
     |$register:ident| $unbox:expr, |$pattern:ident| $boxed:expr) => {
        impl Format for $host {
            type Soft = $soft;
            const FRACTION_BITS: u32 = $fraction;
            const EXPONENT_MAX: u64 = $exponent_max;
            const SIGN: u64 = 1 << ($bits::BITS - 1);

            #[inline(always)]
            fn unbox($register: u64) -> u64 {
                $unbox
            }
            #[inline(always)]
            fn boxed($pattern: u64) -> u64 {
                $boxed
            }
            #[inline(always)]
            fn to_soft(bits: u64) -> $soft {
                $soft::from_bits(bits as $bits)
            }
            #[inline(always)]
            fn of_soft(value: $soft) -> u64 {
                u64::from(value.to_bits())
            }
            #[inline(always)]
            fn to_host(bits: u64) -> $host {
                $host::from_bits(bits as $bits)
            }
            #[inline(always)]
            fn of_host(value: $host) -> u64 {
                u64::from(value.to_bits())
            }
            #[inline(always)]
            fn host_sqrt(self) -> $host {
                self.sqrt()
            }
            #[inline(always)]
            fn host_fma(self, y: $host, z: $host) -> $host {
                self.mul_add(y, z)
            }
            #[inline(always)]
            fn host_truncate(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn of_integer(value: i64) -> $host {
                value as $host
            }
        }
    };
}

format!(
    f32,
    u32,
    F32,
    23,
    0xff,
    |register| if register >> 32 == 0xffff_ffff {
        register & 0xffff_ffff
    } else {
        f32::CANONICAL_NAN
    },
    |pattern| box_single(pattern)
);
format!(f64, u64, F64, 52, 0x7ff, |register| register, |pattern| {
    pattern
});
