//! Phases of a run: the reference engine and the timing cores take turns with the same harts.
//!
//! An end of a phase is noticed at the boundary of an instruction. Before harts leave timing cores, those
//! begin nothing more, take back what has not retired, and continue until accesses of oldest instructions
//! are over and store buffers empty. Caches, TLBs, predictors and counters stay as they are until the
//! next phase of the cores; cycles in the reference engine are charged to no account.

mod arrival;
mod awaited;
mod engines;
mod parse;
mod plan;
mod samples;
mod schedule;
mod warmer;

pub(crate) use arrival::Arrivals;
pub(crate) use awaited::Awaited;
pub(crate) use engines::{Engines, MachineTiming, contradicts_gdb};
pub use plan::{End, Engine, Move, Phase, Plan, PlanDescription, Repeat, RepeatEnd, Step};
pub use samples::Sample;
pub(crate) use samples::Sampler;
pub use schedule::PhaseRow;
pub(crate) use schedule::Schedule;
pub(crate) use warmer::Warmer;
