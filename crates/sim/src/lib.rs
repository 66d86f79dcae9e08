//! Configuration, assembly of a system, the run loop, the watchdog, and the result of a run.
//!
//! May depend on every other crate; only the Python binding depends on it.
//!
//! Invariants: a run is a function of machine, program and request, whatever the host; a user's
//! mistake is an [`Error::User`] that names what, where and what to do; the guest's failure is an
//! [`Error::Guest`]; anything else that goes wrong is ours: it panics, or is an [`Error::Internal`] when
//! the lockstep checker finds it.

mod check;
mod config;
mod config_keys;
mod debug;
mod energy;
mod error;
#[cfg(test)]
mod fuzz;
mod hosting;
mod inspect;
mod isa_string;
mod locks;
mod machine_text;
mod params;
mod phases;
mod reference_phase;
mod request;
mod result;
mod run;
mod saved_cores;
mod seating;
mod session;
mod snapshot;
mod symbols;
mod system;
mod timing_phase;
mod vm;
mod waiting;

pub use config::{Description, MachineFile, ParameterDescription};
pub use debug::{
    DebugServer, Debugged, PipelineRequest, Served, TraceRequest, copy_part, program_description,
};
pub use error::Error;
pub use inspect::{Inspection, inspect};
pub use locks::LockRow;
pub use loiter_cores::Skipping;
pub use loiter_machine::snapshot::StateHash;
pub use machine_text::machine_text;
pub use params::{SystemParams, TimingParams};
pub use phases::{
    End, Engine, Phase, PhaseRow, Plan, PlanDescription, Repeat, RepeatEnd, Sample, Step,
};
pub use request::{BootRequest, DiskRequest, Observation, ProfileRequest, Progress, Request};
pub use result::{
    AccountRow, ActivityRow, CounterDescription, CounterRow, Exit, ExitReason, HistogramRow,
    LockReadRow, MarkRow, ProbeRows, ReportRow, RunResult, SeatRow, Statistics, TimedRows,
};
pub use run::run;
pub use session::{Limits, Session, Status};
pub use snapshot::{SnapshotDescription, show_snapshot};
pub use vm::{CpuRow, GuestRow, VcpuRow, Vm, VmFile, VmProgress, VmResult, VmStatus, WaitRow};
pub use waiting::{WaitingRow, WaitingTable};

/// State of many cores lies in huge pages of the host, which its translation buffers hold; results do not depend on it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
