//! Schedulers: which virtual CPU runs on which physical one, and for how long.
//!
//! A scheduler is a file here and a line in [`by_name`]; its name is one of `scheduler.policy`. The host owns the
//! states of virtual CPUs and tells the scheduler of changes; the scheduler owns its queues.

mod credit;
mod fair;
mod gang;

use loiter_types::{CpuId, Cycle, VcpuId};
use serde_json::Value;

use super::file::VmFile;
use super::vcpu::View;
use credit::Credit;
use fair::Fair;
use gang::Gang;

/// Who is to run, and until when at the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) vcpu: VcpuId,
    pub(crate) slice_cycles: u64,
}

/// Chooses who runs.
pub(crate) trait Scheduler: Send {
    /// `vcpu` can run from now on, on its CPU. Returns the CPUs that have to choose anew.
    fn wake(&mut self, vcpu: VcpuId, view: View<'_>) -> Vec<CpuId>;

    /// The guest of `vcpu` is over.
    fn remove(&mut self, vcpu: VcpuId);

    /// Chooses for `cpu`, whose `current` virtual CPU could go on. A choice leaves its queue, `current` enters one.
    fn choose(&mut self, cpu: CpuId, current: Option<VcpuId>, view: View<'_>) -> Option<Choice>;

    /// Whether `vcpu` waits in a queue.
    fn is_queued(&self, vcpu: VcpuId) -> bool;

    /// `cpu` has chosen `vcpu` itself, to run instead of `current`.
    fn take(&mut self, vcpu: VcpuId, cpu: CpuId, current: VcpuId);

    /// When the scheduler next has something to do.
    fn next_tick(&self) -> Cycle;

    /// That time has come. Returns the CPUs that have to choose anew.
    fn tick(&mut self, view: View<'_>) -> Vec<CpuId>;

    /// All that it knows, for a snapshot.
    fn save(&self) -> Value;

    /// It knows what it knew then.
    ///
    /// # Errors
    /// What another scheduler has saved.
    fn restore(&mut self, saved: Value) -> serde_json::Result<()>;
}

/// The scheduler that the file names, at power-on, for the guests' virtual CPUs: the guest of each.
pub(crate) fn by_name(file: &VmFile, guests: &[usize]) -> Box<dyn Scheduler> {
    match file.scheduler.policy.as_str() {
        "credit" => Box::new(Credit::new(file, guests)),
        "fair" => Box::new(Fair::new(file, guests)),
        "gang" => Box::new(Gang::new(file, guests)),
        policy => unreachable!("{policy} is no choice of scheduler.policy"),
    }
}
