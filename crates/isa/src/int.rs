//! Integer semantics that are longer than a line of the table.

/// The low 32 bits, sign-extended.
#[inline(always)]
pub(crate) fn sext32(v: u64) -> u64 {
    v as i32 as u64
}

/// The bit that the low six bits of `n` name.
#[inline(always)]
pub(crate) fn bit(n: u64) -> u64 {
    1u64.wrapping_shl(n as u32)
}

#[inline(always)]
pub(crate) fn sllw(a: u64, b: u64) -> u64 {
    sext32(u64::from((a as u32).wrapping_shl(b as u32)))
}

#[inline(always)]
pub(crate) fn srlw(a: u64, b: u64) -> u64 {
    sext32(u64::from((a as u32).wrapping_shr(b as u32)))
}

#[inline(always)]
pub(crate) fn sraw(a: u64, b: u64) -> u64 {
    (a as i32).wrapping_shr(b as u32) as u64
}

#[inline(always)]
pub(crate) fn rolw(a: u64, b: u64) -> u64 {
    sext32(u64::from((a as u32).rotate_left(b as u32 & 31)))
}

#[inline(always)]
pub(crate) fn rorw(a: u64, b: u64) -> u64 {
    sext32(u64::from((a as u32).rotate_right(b as u32 & 31)))
}

/// Signed minimum.
#[inline(always)]
pub(crate) fn min(a: u64, b: u64) -> u64 {
    (a as i64).min(b as i64) as u64
}

/// Signed maximum.
#[inline(always)]
pub(crate) fn max(a: u64, b: u64) -> u64 {
    (a as i64).max(b as i64) as u64
}

#[inline(always)]
pub(crate) fn mulh(a: u64, b: u64) -> u64 {
    ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
}

#[inline(always)]
pub(crate) fn mulhsu(a: u64, b: u64) -> u64 {
    (i128::from(a as i64).wrapping_mul(i128::from(b)) >> 64) as u64
}

#[inline(always)]
pub(crate) fn mulhu(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

// Division never traps: by zero the quotient is all ones and the remainder the dividend; the one
// signed overflow wraps, which leaves the dividend and a remainder of zero.

#[inline(always)]
pub(crate) fn div(a: u64, b: u64) -> u64 {
    if b == 0 {
        u64::MAX
    } else {
        (a as i64).wrapping_div(b as i64) as u64
    }
}

#[inline(always)]
pub(crate) fn divu(a: u64, b: u64) -> u64 {
    a.checked_div(b).unwrap_or(u64::MAX)
}

#[inline(always)]
pub(crate) fn rem(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        (a as i64).wrapping_rem(b as i64) as u64
    }
}

#[inline(always)]
pub(crate) fn remu(a: u64, b: u64) -> u64 {
    a.checked_rem(b).unwrap_or(a)
}

#[inline(always)]
pub(crate) fn divw(a: u64, b: u64) -> u64 {
    let (a, b) = (a as i32, b as i32);
    if b == 0 {
        u64::MAX
    } else {
        a.wrapping_div(b) as u64
    }
}

#[inline(always)]
pub(crate) fn divuw(a: u64, b: u64) -> u64 {
    let quotient = (a as u32).checked_div(b as u32).unwrap_or(u32::MAX);
    sext32(u64::from(quotient))
}

#[inline(always)]
pub(crate) fn remw(a: u64, b: u64) -> u64 {
    let (a, b) = (a as i32, b as i32);
    (if b == 0 { a } else { a.wrapping_rem(b) }) as u64
}

#[inline(always)]
pub(crate) fn remuw(a: u64, b: u64) -> u64 {
    let remainder = (a as u32).checked_rem(b as u32).unwrap_or(a as u32);
    sext32(u64::from(remainder))
}

/// Each byte becomes 0xff unless it is zero.
#[inline(always)]
pub(crate) fn orc_b(a: u64) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    // Bit 0 of every byte becomes the OR of its bits; the byte's other bits may catch neighbours,
    // and are masked away.
    let mut v = a | (a >> 4);
    v |= v >> 2;
    v |= v >> 1;
    // A shift by up to 7 in all reads only bits of the same byte into bit 0.
    (v & LOW) * 0xff
}
