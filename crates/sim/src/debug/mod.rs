//! Looking into a guest: the server that GDB speaks to, traces, profiles, statistics of locks, pipeline logs and
//! timelines.
//!
//! Nothing here costs anything until a breakpoint is set, an instruction stepped, a trace or a profile
//! asked for: the engines run their plain loops. None of it shows in what the guest does, holding a
//! system and letting it continue included.

mod begin;
mod guests;
mod inspector;
mod lock_functions;
mod lock_stats;
mod memory;
mod monitor;
pub(crate) mod output;
mod pipeline;
mod profiler;
mod registers;
mod server;
mod stops;
pub(crate) mod symbol_elf;
mod symbol_file_server;
mod target;
mod timeline;
mod trace;

pub(crate) use guests::GuestInspectors;
pub(crate) use inspector::{Inspector, Watcher};
pub(crate) use lock_stats::{LockStats, SavedLockStats};
pub(crate) use pipeline::Pipeline;
pub use pipeline::PipelineRequest;
pub(crate) use profiler::Profiler;
pub use registers::program_description;
pub use server::{DebugServer, Debugged, Served, copy_part};
pub(crate) use timeline::Timeline;
pub(crate) use trace::Trace;
pub use trace::TraceRequest;
