//! Where a privileged program keeps what, beside the data of its hart (`../layout.rs`):
//!
//! ```text
//! 0x8000_0000  code                                  mapped for all modes
//! 0x8040_0000  page tables                           mapped for supervisor mode
//! 0x8060_0000  frames: what random accesses reach    mapped as each address space has it
//! 0x8080_0000  data of the hart                      mapped for all modes
//! 0x8090_0000  environments of blocks
//! 0x8100_0000  log
//! ```

use super::super::layout::MULTIPLIER;

/// First byte of RAM.
pub(crate) const RAM: u64 = 0x8000_0000;
/// First byte of the page tables.
pub(super) const TABLES: u64 = 0x8040_0000;
/// First byte of the frames, a megapage of them.
pub(super) const FRAMES: u64 = 0x8060_0000;
/// First byte of the environments.
pub(super) const ENVIRONMENTS: u64 = 0x8090_0000;
/// First byte of the log.
pub(crate) const LOG: u64 = 0x8100_0000;
/// Where the log must end.
pub(crate) const LOG_END: u64 = 0x8700_0000;
/// What a page of each level spans; the first is the ordinary page.
pub(super) const SPAN: [u64; 4] = [1 << 12, 1 << 21, 1 << 30, 1 << 39];

/// Bytes of code that a program may have: up to the page tables.
pub(super) const CODE_BYTES: u64 = TABLES - RAM;
/// What user mode sees of RAM besides code: the data of the hart.
pub(super) const USER_DATA: std::ops::Range<u64> = 0x8080_0000..0x80a0_0000;

/// Frames that hold data. They come first and last in the megapage, so that accesses cross from one
/// megapage into the next.
pub(super) const DATA_FRAMES: [u64; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 510, 511];
/// Frames that hold code.
pub(super) const CODE_FRAMES: [u64; 4] = [8, 9, 10, 11];

/// Where the next record of the log goes.
pub(super) const LOG_CURSOR: i32 = MULTIPLIER + 8;
/// The environment that the next block gets.
pub(super) const ENVIRONMENT: i32 = LOG_CURSOR + 8;
/// Rounds still to go.
pub(super) const ROUNDS: i32 = ENVIRONMENT + 8;
/// Not zero: the handler of supervisor mode calls the environment.
pub(super) const NEST: i32 = ROUNDS + 8;
/// Distance from where supervisor mode sees code and data to where user mode does.
pub(super) const USER_STEP: i32 = NEST + 8;

/// The `n`th frame.
pub(super) const fn frame(n: u64) -> u64 {
    FRAMES + n * SPAN[0]
}
