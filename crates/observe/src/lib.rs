//! What is recorded of a run: accounts of context-cycles, and what guest probes report.
//!
//! May depend on `loiter-types`. Nothing here ever steers what is observed.
//!
//! Invariants: every context-cycle is charged exactly once ([`Accounts::charge`]); one function
//! decides the activity ([`Course::activity`]).

#[macro_use]
mod words;

mod accounts;
mod activity;
mod durations;
pub mod kanata;
mod locks;
pub mod perfetto;
mod probe;
pub mod profile;
mod recorder;
mod recorders;
mod wait_time;

pub use accounts::{Accounts, Change, Slot};
pub use activity::{Activity, CodeKind, Course, Doing, Mode, Purpose};
pub use durations::Durations;
pub use locks::{Access, Claim, LockUse, LockUser, Locks, Owner};
pub use probe::{Probe, ProbeCode};
pub use recorder::{
    LockReads, Mark, MarkKind, Moment, OTHER_LOCKS, ProbeObserver, Recorder, Report, Silent,
};
pub use recorders::Recorders;
pub use wait_time::WaitTime;
