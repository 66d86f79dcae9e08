//! What programs see: generated programs against QEMU and each timing core against the reference
//! engine, memory ordering between harts, waiting and waking, and what is said of a guest that fails.
//!
//! `LOITER_FUZZ_PROGRAMS` multiplies the number of generated programs; `LOITER_FUZZ_SEED` is the
//! first seed. A long run: `LOITER_FUZZ_PROGRAMS=100 LOITER_FUZZ_SEED=1000000 cargo test --release -p
//! loiter-sim --test architecture -- --nocapture agree timing retires disturb`.

mod against_qemu;
mod census;
mod compare;
mod counting;
mod debugging;
mod determinism;
mod endings;
mod generator;
mod golden;
mod guest_accesses;
mod handmade;
mod litmus;
mod lock_stats;
mod lockstep;
mod machines;
mod observing;
mod phases;
mod privileged;
mod qemu;
mod seeing;
mod skips;
mod snapshots;
mod statistics;
mod trap_log;
mod waiting;
mod written_outside;
