//! Out-of-order, simultaneous multithreaded cores in the manner of Tullsen, Eggers, Emer and Levy
//! (1996), as Redstone (2002) simulated them: up to 24 contexts share the front end, queues, registers
//! and units.
//!
//! The rules, each with its parameter:
//! - Each cycle fetches from some contexts, the ones with the fewest instructions before issue first,
//!   each up to the end of a line or a taken branch; not two from one bank of the cache.
//! - The front end is a queue, or stages that hold what one cycle fetched and pass it on as a whole.
//! - Instructions are renamed onto shared registers and wait in two queues, shared by all contexts,
//!   until their operands and a unit are there; the oldest go first.
//! - A load goes ahead of older stores whose address is not known. If one of them then stores to its
//!   bytes, it is squashed, and waits for older stores when it comes again.
//! - A load that has read a line which another hart writes before it retires reads it again: harts see
//!   loads in program order. Stores perform in program order, from a buffer, each when the core owns its
//!   line.
//! - Atomics, fences that order stores before loads, accesses to devices, and what changes the state of
//!   a hart run when they are the oldest, by `loiter_hart::Exec` on the hart, whose registers are those of
//!   the retired instructions. Behind what changes the state of a hart nothing is fetched before.
//! - A wrong path is fetched, renamed and issued as any other until its branch executes.

mod account;
mod awake;
mod context;
mod core;
mod counters;
mod fetch;
mod front;
mod issue;
mod lines;
mod model;
mod nap;
mod oldest;
mod oracle;
mod params;
mod pipeline;
mod policy;
mod ports;
mod positions;
mod queue;
mod ranked;
mod refill;
mod registers;
mod rename;
mod retire;
mod seat;
mod squash;
mod steady;
mod translate;

pub(crate) use self::core::{Core, PerformedStore};
pub use self::counters::{Histogram, ModeGroup, SmtCounters, SmtModeCounters, SmtPurposeCounters};
pub use self::params::{RefillParams, SmtCoreParams, SmtLatencyParams, SmtParams, SmtUnitParams};
