//! What is recorded of a run: accounts of context-cycles, and what guest probes report.
//!
//! May depend on `loiter-types`. Nothing here ever steers what is observed.
//!
//! Invariants: every context-cycle is charged exactly once ([`Accounts::charge`]); one function
//! decides the activity ([`Activity::of`]).

mod accounts;
pub mod kanata;
pub mod perfetto;
mod probe;
pub mod profile;
mod recorder;

pub use accounts::{Accounts, Activity, Change, Doing, Mode, Slot};
pub use probe::{Probe, ProbeCode};
pub use recorder::{LockReads, Mark, MarkKind, Moment, Observer, Recorder, Report, Silent};
