//! Timing models of multithreaded cores.
//!
//! May depend on everything but `loiter-sim` and the Python binding. A core decides *when*: which
//! context issues, how long an instruction takes, what it waits for. What an instruction *does* is
//! `loiter_hart::Exec`, the same for every core.
//!
//! Invariants: a context is the seat of at most one hart, seated only by `attach`; every
//! context-cycle is charged to an account exactly once; a core whose contexts all wait is not
//! called, and a debug build proves that nothing would have happened.

mod cores;
mod divide;
pub mod fgmt;
mod idle;
mod model;
mod observer;
pub mod predict;
mod shared;
pub mod smt;
mod steady;
mod store_buffer;
mod wait;
mod walker;
mod warm;

pub use cores::{CoreGroup, CoreParams, Cores, Ran, Skipping};
pub use divide::DivideParams;
pub use idle::{IdleCounters, IdleParams};
pub use model::Seat;
pub use observer::{InstructionId, Observer, PipelineObserver, PipelineStage, PipelineStep};
pub use shared::Shared;
pub use wait::{WaitCounters, WaitParams};
