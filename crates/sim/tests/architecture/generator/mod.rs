//! Random bare-metal programs that are valid, end, and tell what they computed: the same seed is the
//! same program. They run in machine, supervisor and user mode and trap on purpose; their handlers
//! go on. What a program may use depends on whom it is compared with, see `exclusions.rs`.
//!
//! `program.rs` makes a program of blocks, `writer.rs` a block of items; `arithmetic.rs`,
//! `memory.rs`, `flow.rs`, `state.rs` and `traps.rs` hold the items. `asm.rs` and `elf.rs` serve the
//! hand-written programs of the other tests too.

mod arithmetic;
pub(crate) mod asm;
mod checksum;
pub(crate) mod elf;
mod exclusions;
mod flow;
mod handler;
mod layout;
mod memory;
mod pool;
mod program;
mod random;
mod state;
mod tables;
mod traps;
mod writer;

pub(crate) use exclusions::{Target, UNKNOWN_TO_QEMU};
pub(crate) use program::{Block, Program, Settings, generate};
