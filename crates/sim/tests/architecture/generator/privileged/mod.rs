//! Random programs with virtual memory, delegation, physical memory protection and interrupts.
//!
//! A program is made of blocks like any other, and runs them in rounds. Before each block, machine
//! mode takes the next of a table of random *environments* (`environment.rs`): address space, access
//! rights, protected regions, what is delegated, trapped, counted, pending and enabled. The same code
//! so meets many environments. It reaches for the *arena* (`spaces.rs`), where each address space maps
//! something else or nothing. Every trap goes to a log in memory (`log.rs`, `handler.rs`), and so do
//! hashes after each block and of all memory at the end.
//!
//! Only what the architecture defines is done: a changed page table is followed by the fence that it
//! needs, a store to a device by an instruction that enables its interrupt.

mod arena;
mod control;
mod environment;
mod frames;
mod handler;
mod layout;
pub(super) mod log;
mod monitor;
mod program;
mod spaces;

pub(super) use arena::Arena;
pub(crate) use layout::{LOG, LOG_END, RAM};
pub(crate) use log::{INTERRUPT_SHIFT, KIND_SHIFT, Kind, PENDING_SHIFT, VECTOR_SHIFT, WORDS};
pub(crate) use program::{PrivilegedProgram, PrivilegedSettings, generate_privileged};
pub(crate) use spaces::{ACCESSED, DIRTY, VALID};
