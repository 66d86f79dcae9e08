//! Where a generated program keeps what. Every hart has its own data; `gp` points into the middle of
//! it, at a page boundary, so that everything lies within the reach of a 12-bit immediate and random
//! accesses cross a page:
//!
//! ```text
//! gp - 2048  control: saved registers, hash of the traps   (no random access goes here)
//! gp -  512  window: what random loads, stores and atomics use
//! gp +  512  pool: constants worth computing with          (read only)
//! gp + 2048  end
//! ```

use super::elf::Segment;
use super::pool;
use super::random::Random;

/// First byte of code.
pub(crate) const CODE: u64 = 0x8000_0000;
const DATA: u64 = 0x8080_0000;
const DATA_STRIDE: u64 = 0x1_0000;
const DATA_BYTES: usize = 4096;

/// Integer registers, by number, while a checksum is made.
pub(crate) const X_SAVE: i32 = -2048;
/// Floating-point registers, by number, and behind them fcsr.
pub(crate) const F_SAVE: i32 = X_SAVE + 32 * 8;
/// Where fcsr goes.
pub(crate) const FCSR_SAVE: i32 = F_SAVE + 32 * 8;
/// The registers that the machine-mode handler uses.
pub(crate) const MACHINE_SAVE: i32 = FCSR_SAVE + 8;
/// The registers that the supervisor-mode handler uses.
pub(crate) const SUPERVISOR_SAVE: i32 = MACHINE_SAVE + 64;
/// Hash of all traps so far, and after it their number.
pub(crate) const TRAP_HASH: i32 = SUPERVISOR_SAVE + 64;
/// Number of traps so far.
pub(crate) const TRAP_COUNT: i32 = TRAP_HASH + 8;
/// Not zero: the next trap to machine mode goes back to machine mode.
pub(crate) const RETURN_FLAG: i32 = TRAP_COUNT + 8;
/// Multiplier of the hashes.
pub(crate) const MULTIPLIER: i32 = RETURN_FLAG + 8;

/// First byte of the window.
pub(crate) const WINDOW: i32 = -512;
/// Its size.
pub(crate) const WINDOW_BYTES: i32 = 1024;
/// First constant of the pool.
pub(crate) const POOL: i32 = WINDOW + WINDOW_BYTES;
/// Number of its 8-byte entries.
pub(crate) const POOL_ENTRIES: usize = 192;

const MULTIPLIER_VALUE: u64 = 0x9fb2_1c65_1e98_df25;

/// What `gp` of `hart` holds.
pub(crate) fn gp(hart: usize) -> u64 {
    DATA + DATA_STRIDE * hart as u64 + DATA_STRIDE / 2
}

/// The data of `hart` at the start.
pub(crate) fn data(hart: usize, random: &mut Random) -> Segment {
    let mut bytes = vec![0; DATA_BYTES];
    let mut put = |offset: i32, value: u64| {
        let at = (offset - X_SAVE) as usize;
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    };
    put(MULTIPLIER, MULTIPLIER_VALUE);
    for n in 0..WINDOW_BYTES / 8 {
        put(WINDOW + 8 * n, pool::interesting(random));
    }
    for (n, value) in (0..).zip(pool::constants(random)) {
        put(POOL + 8 * n, value);
    }
    Segment {
        address: gp(hart).wrapping_add(X_SAVE as i64 as u64),
        bytes,
    }
}
