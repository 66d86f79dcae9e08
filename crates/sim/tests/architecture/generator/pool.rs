//! Values at which arithmetic has corners.

use super::layout::POOL_ENTRIES;
use super::random::Random;

/// Integers around the limits of each width.
const INTEGERS: [u64; 20] = [
    0,
    1,
    2,
    3,
    7,
    31,
    32,
    63,
    64,
    0x7f,
    0x80,
    0x7fff,
    0x8000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_8000_0000,
    0xffff_ffff_ffff_ffff,
];

/// Doubles: zeros, ones, limits of normal and subnormal numbers, infinity, quiet and signalling NaN,
/// limits of the conversions to integers. Their negatives come by chance.
const DOUBLES: [u64; 20] = [
    0,
    0x3ff0_0000_0000_0000,
    0x3ff0_0000_0000_0001,
    0x3fe0_0000_0000_0000,
    0x3ff8_0000_0000_0000,
    0x0000_0000_0000_0001,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0x7ff0_0000_0000_0001,
    0x41df_ffff_ffc0_0000,
    0x41e0_0000_0000_0000,
    0x41ef_ffff_ffe0_0000,
    0x43e0_0000_0000_0000,
    0x43f0_0000_0000_0000,
    0x3810_0000_0000_0000,
    0x47ef_ffff_e000_0000,
    0x36a0_0000_0000_0000,
];

/// The same for singles.
const SINGLES: [u32; 16] = [
    0,
    0x3f80_0000,
    0x3f80_0001,
    0x3f00_0000,
    0x3fc0_0000,
    0x0000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0x7fc0_0000,
    0x7f80_0001,
    0x4f00_0000,
    0x4f80_0000,
    0x5f00_0000,
    0x5f80_0000,
];

fn double(random: &mut Random) -> u64 {
    let sign = random.next() & 1 << 63;
    if random.chance(50) {
        return sign | random.pick(&DOUBLES);
    }
    // Exponents near 1, so that sums cancel and products do not overflow at once.
    let exponent = random.between(1023 - 60, 1023 + 60) as u64;
    sign | exponent << 52 | random.next() >> 12
}

fn single(random: &mut Random) -> u64 {
    let sign = random.bits() & 1 << 31;
    let bits = if random.chance(50) {
        random.pick(&SINGLES)
    } else {
        (random.between(127 - 30, 127 + 30) as u32) << 23 | random.bits() >> 9
    };
    let boxed = if random.chance(90) {
        0xffff_ffff
    } else {
        random.bits()
    };
    u64::from(boxed) << 32 | u64::from(sign | bits)
}

/// A value at or near a corner.
pub(crate) fn interesting(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => random.next(),
        1 => random.next() >> random.below(64),
        2 => random.pick(&INTEGERS),
        3 => random.pick(&INTEGERS).wrapping_neg(),
        4 | 5 => double(random),
        _ => single(random),
    }
}

/// The contents of the pool.
pub(crate) fn constants(random: &mut Random) -> Vec<u64> {
    (0..POOL_ENTRIES).map(|_| interesting(random)).collect()
}
