//! In-order, fine-grained multithreaded cores in the manner of the UltraSPARC T1 and T2: several
//! contexts share a pipe, which issues one instruction a cycle from the least recently selected
//! context that is not stalled.
//!
//! The rules, each with its parameter:
//! - A context that issues an instruction is stalled for the instruction's latency (`core.stall =
//!   "issue"`), or continues until it needs a result that is not there (`"use"`).
//! - After a load that hits, a context is ready only on the assumption of the hit until the hit is
//!   confirmed (`latency.load_confirmed_cycles`); until then it is taken only when no other is ready.
//!   After a branch that is not taken likewise (`latency.branch_confirmed_cycles`).
//! - With `core.alternates`, a context that issued in the last cycle gives way to any other that is
//!   ready, even one after an unconfirmed hit.
//! - Selection learns who was selected `core.selection_lag_cycles` later; until then it goes by what
//!   it knew before.
//! - A context whose next instruction needs a busy unit is stalled until the unit is free; or the
//!   instruction is selected, loses the slot and waits (`core.retract_cycles`). A unit that somebody
//!   waits for so stays busy a little longer, and its last user continues no earlier than the waiters
//!   (`core.unit_handover_cycles`).
//! - Pipes share the load/store unit, the floating-point unit, the multiplier and the divider. Where
//!   several want one in a cycle, a favour bit that alternates decides, and the other loses its cycle.
//! - A multiply or divide takes a slot of its pipe for its result (`core.integer_result_slot_cycles`), and an atomic
//!   several in a row (`core.atomic_slots`), during which no other pipe has the load/store unit.
//! - A floating-point unit of the chip serves operations in the order in which cores send them.
//! - A fetch, load, store or atomic whose address is translated looks into a buffer of translations
//!   that the contexts share. Without one its context is stalled until page tables have been walked.
//! - A load that misses blocks its context. What it would have issued on the assumption of a hit may
//!   cost slots (`core.miss_slots`), and the line may have to wait for a cycle without another
//!   load or store (`core.fill_waits_for`), which it stops in the end (`core.fill_urgent_cycles`).
//! - What an instruction waits for may be known a cycle too late for selection (`core.wait_costs_slot`).
//! - Stores go through a store buffer; atomics are performed by the second-level cache after the store
//!   buffer has drained. Where memory grants lines, stores and atomics perform in the core's own data cache.

mod context;
mod core;
mod counters;
mod fills;
mod group;
mod holes;
mod issue;
mod model;
mod obstacle;
mod ownership;
mod params;
mod pipeline;
mod respond;
mod seat;
mod selection;
mod steady;
mod trap;
mod turns;
mod units;
mod walk;

pub(crate) use self::core::Core;
pub use self::counters::CoreCounters;
pub(crate) use self::group::Group;
pub use self::params::{CoreParams, FgmtParams, FpuParams, LatencyParams};
