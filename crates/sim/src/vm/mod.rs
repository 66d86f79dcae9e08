//! The hypervisor layer: guests whose harts are virtual CPUs, on the physical CPUs of a host.
//!
//! All guests are parts of one [`System`](crate::system::System); the host gives their harts CPUs in turn. On the reference
//! engine a CPU executes an instruction a cycle; with timing cores it is a context, and all go through the same cycles
//! (`timed`).
//!
//! Invariants: a virtual CPU is on one CPU at most at any time; every cycle of a CPU and of a virtual CPU is in one account;
//! a run is a function of the file and what guests are made of.

mod detection;
mod file;
mod guest;
mod helping;
mod host;
mod kick;
mod params;
mod placing;
mod postpone;
mod result;
mod scheduler;
mod session;
mod snapshot;
mod steal;
mod timed;
mod vcpu;
mod waits;

#[cfg(test)]
mod paravirtual_tests;
#[cfg(test)]
mod sharing_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod timed_snapshot_tests;
#[cfg(test)]
mod timed_tests;

pub use file::VmFile;
pub use host::Progress as VmProgress;
pub use result::{CpuRow, GuestRow, VcpuRow, VmResult};
pub use session::{Vm, VmStatus};
pub use waits::WaitRow;
