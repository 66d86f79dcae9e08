//! Random bare-metal programs that are valid, end, and tell what they computed: the same seed is the
//! same program. They run in machine, supervisor and user mode and trap on purpose; their handlers
//! continue. What a program may use depends on whom it is compared with, see `exclusions.rs`.
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
pub(crate) mod privileged;
mod program;
mod random;
pub(crate) mod state;
mod tables;
mod traps;
mod writer;

pub(crate) use exclusions::{Target, UNKNOWN_TO_QEMU};
pub(crate) use program::{Block, Program, Settings, generate};
pub(crate) use tables::needs_guests;

/// How many times as many programs as in an ordinary run: `LOITER_FUZZ_PROGRAMS`, 1 if not set.
pub(crate) fn fuzz_factor() -> u64 {
    from_environment("LOITER_FUZZ_PROGRAMS")
}

/// The first seed: `LOITER_FUZZ_SEED`, 1 if not set.
pub(crate) fn first_seed() -> u64 {
    from_environment("LOITER_FUZZ_SEED")
}

fn from_environment(name: &str) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text}: a whole number is expected")),
        Err(_) => 1,
    }
}
