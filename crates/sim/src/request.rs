//! What is asked of a run.

use loiter_machine::{DiskConfig, MachineConfig, Network};
use serde::{Deserialize, Serialize};

use crate::config::MachineFile;
use crate::debug::{PipelineRequest, TraceRequest};
use crate::error::Error;
use crate::waiting::WaitingTable;

/// A run: which machine, with which changes, and the program's command line.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Name or path of the machine, for messages.
    pub machine_name: String,
    /// Text of the machine file.
    pub machine_toml: String,
    /// Changes to it, `key=value`.
    #[serde(default)]
    pub set: Vec<String>,
    /// Path of the program, for messages.
    pub program: String,
    /// Command line that the program finds in the device tree.
    #[serde(default)]
    pub bootargs: String,
    /// Short for the phases "reference until probe:roi_begin, timing"; without meaning where no core is
    /// timed.
    #[serde(default)]
    pub fast_forward: bool,
    /// Which engine runs it until when; see [`Plan`](crate::Plan).
    #[serde(default)]
    pub phases: Option<String>,
    /// End the run after so many cycles.
    #[serde(default)]
    pub max_cycles: Option<u64>,
    /// Which of the program's code waits.
    #[serde(default)]
    pub waiting: Option<WaitingTable>,
    /// Statistics of the locks whose functions have the names that they have in Linux.
    #[serde(default)]
    pub lock_stats: bool,
    /// What is written down besides the result, which it does not change.
    #[serde(default)]
    pub observe: Observation,
}

/// What functions cost.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileRequest {
    /// Where it goes: in pprof's format if the name ends in `.pprof` or `.pb.gz`, else in Callgrind's.
    pub path: String,
    /// As in [`TraceRequest`].
    #[serde(default)]
    pub from: Option<String>,
}

/// What is written down of a run besides its result, and how closely it is gone through: nothing of that changes the
/// result.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// Where a debugger is waited for, `[HOST:]PORT`.
    #[serde(default)]
    pub gdb: Option<String>,
    /// A trace of retired instructions.
    #[serde(default)]
    pub trace: Option<TraceRequest>,
    /// A profile of functions and their callers.
    #[serde(default)]
    pub profile: Option<ProfileRequest>,
    /// A log of the cores' pipelines.
    #[serde(default)]
    pub pipeline: Option<PipelineRequest>,
    /// Where goes what every context does, for Perfetto; compressed with gzip if the name ends in
    /// `.gz`.
    #[serde(default)]
    pub timeline: Option<String>,
    /// Check what timing cores do against the reference engine, instruction by instruction.
    #[serde(default)]
    pub check: bool,
    /// Go through every cycle of cores that repeat themselves.
    #[serde(default)]
    pub no_skip: bool,
    /// Go through them, and prove that each period is like the one before.
    #[serde(default)]
    pub prove_skips: bool,
}

/// A system that boots firmware and a kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootRequest {
    /// Name or path of the machine, for messages.
    pub machine_name: String,
    /// Text of the machine file.
    pub machine_toml: String,
    /// Changes to it, `key=value`.
    #[serde(default)]
    pub set: Vec<String>,
    /// Number of harts, in the first contexts of the machine; all contexts if not given.
    #[serde(default)]
    pub harts: Option<usize>,
    /// Path of the firmware.
    pub firmware: String,
    /// Path of the kernel.
    pub kernel: String,
    /// Path of the initial file system.
    #[serde(default)]
    pub initrd: Option<String>,
    /// The kernel's command line.
    #[serde(default)]
    pub bootargs: String,
    /// Disks in order: vda, vdb and so on.
    #[serde(default)]
    pub disks: Vec<DiskRequest>,
    /// Number of virtio consoles: hvc0 and so on.
    #[serde(default)]
    pub ports: usize,
    /// Whether there is a network device.
    #[serde(default)]
    pub network: bool,
    /// What the guest gets as random numbers follows from this.
    #[serde(default)]
    pub seed: u64,
    /// Changes to the device tree, `path:property=value`.
    #[serde(default)]
    pub device_tree: Vec<String>,
    /// Files that name the guest's addresses: the kernel's System.map, ELF files.
    #[serde(default)]
    pub symbols: Vec<String>,
    /// Which of the kernel's code waits; of no use where no core is timed.
    #[serde(default)]
    pub waiting: Option<WaitingTable>,
    /// Run in the untimed reference engine, whatever cores the machine has.
    #[serde(default)]
    pub untimed: bool,
    /// Whether its harts are virtual CPUs, which are to be a guest's of a host: their calls to it are served as by one that has no
    /// other guest. The reference engine alone executes such.
    #[serde(default)]
    pub is_virtual: bool,
}

/// A disk of a system.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskRequest {
    /// Path of its contents; none: empty.
    #[serde(default)]
    pub path: Option<String>,
    /// Size of a disk that is larger than its file, or has none.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Whether the guest's writes go to the file; they are kept aside and lost otherwise.
    #[serde(default)]
    pub writable: bool,
}

impl BootRequest {
    /// What programs see of the machine.
    ///
    /// # Errors
    /// More harts than contexts.
    pub(crate) fn config(&self, file: &MachineFile) -> Result<MachineConfig, Error> {
        let seats = file.harts();
        let harts = self.harts.unwrap_or(seats);
        if harts > seats {
            return Err(Error::User(format!(
                "{}: {harts} harts for {seats} contexts; ask for fewer harts, or set system.cores or \
                 core.contexts",
                self.machine_name
            )));
        }
        Ok(MachineConfig {
            bootargs: self.bootargs.clone(),
            seed: self.seed,
            disks: self.disks.iter().map(DiskRequest::config).collect(),
            ports: self.ports,
            network: self.network.then_some(Network::Gateway),
            entropy: true,
            device_tree_overrides: self.device_tree.clone(),
            ..file.machine(harts)
        })
    }
}

impl DiskRequest {
    pub(crate) fn config(&self) -> DiskConfig {
        DiskConfig {
            path: self.path.clone(),
            bytes: self.bytes,
            writable: self.writable,
        }
    }
}

/// How far a run has come.
#[derive(Clone, Debug, Serialize)]
pub struct Progress {
    /// Simulated time.
    pub cycle: u64,
    /// The same in seconds.
    pub simulated_seconds: f64,
    /// Instructions retired by all harts.
    pub instructions: u64,
    /// Host time since the start.
    pub host_seconds: f64,
    /// Instructions a cycle since the last report.
    pub ipc: f64,
    /// The same of each context.
    pub ipc_by_context: Vec<f64>,
    /// `reference` or `timing`.
    pub phase: &'static str,
}
