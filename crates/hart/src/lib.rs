//! Architectural state of one hart, what each instruction does to it, and the reference engine.
//!
//! May depend on `loiter-types`, `loiter-isa` and `loiter-machine`; knows nothing of caches, pipes or
//! cycles beyond the counters that a program can read.
//!
//! Invariants: [`Exec`], its short forms [`Hart::run_simple`], [`Hart::run_load`] and [`Hart::run_store`], or
//! [`Hart::retire`] for what [`compute`] has worked out apart, is the only code that changes a hart on behalf of an
//! instruction, for the reference engine and for every timing core; a trap is a returned value until
//! [`Hart::take_trap`] enters it; register slot 0 is zero between any two instructions.

mod code;
mod csr;
mod detached;
mod exec;
mod hart;
mod host_call;
mod observed;
mod observer;
mod outside;
#[cfg(test)]
mod partition_tests;
mod reference;
mod saved;
mod tables;
mod tlb;
mod translate;
mod trap;
mod walk;
mod width;

pub use code::{CodeCache, CodeMarks};
pub use csr::{Clock, CsrFile, Extensions, Privilege};
pub use detached::{Detached, Operands, compute, extend};
pub use exec::{DataPort, Environment, Exec, Flow, Nap, Stored};
pub use hart::{Blocked, Hart, HartState};
pub use host_call::{HostCall, HostCallError, STEAL_TIME_EXTENSION, YIELD_EXTENSION};
pub use observed::run_observed;
pub use observer::{Accessed, InstructionObserver, Performed, Retired, Trapped, Unobserved};
pub use reference::{Burst, Stop, run};
pub use saved::SavedHart;
pub use translate::Access;
pub use trap::{Cause, Interrupt, Trap, Unhandled};
pub use walk::{Page, PageWalk, WalkStep};
pub use width::access_width;
