//! What a snapshot says of itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{MachineConfig, Mmu};
use crate::snapshot::{FileIdentity, StateHash};

/// What a snapshot is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the loiter that wrote it.
    pub loiter: String,
    /// Whatever the user says of it.
    pub description: String,
    /// Name of the machine.
    pub machine: String,
    /// Hash of the machine's parameters, for people: restoring asks only that `hardware` is the same.
    pub machine_hash: String,
    /// What the machine must have in common with the one that continues.
    pub hardware: Hardware,
    /// Simulated time.
    pub cycle: u64,
    /// Instructions retired by all harts.
    pub instructions: u64,
    /// Hash of the whole state.
    pub state_hash: StateHash,
    /// What was booted: firmware, kernel, initial RAM disk, or a bare-metal program.
    pub booted: Vec<FileIdentity>,
    /// Disks, in their order, below what the guest has written to them.
    pub disks: Vec<FileIdentity>,
}

/// What a guest has seen of its machine, and relies on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Number of harts.
    pub harts: usize,
    /// Size of RAM.
    pub ram_bytes: u64,
    /// ISA string of the device tree.
    pub isa: String,
    /// The largest address space that harts translate.
    pub mmu: Option<Mmu>,
    /// Bits of the numbers of address spaces that harts implement.
    pub asid_bits: u32,
    /// Ticks of `mtime` in a second.
    pub timebase_hz: u64,
    /// Length of the lines that harts watch.
    pub watch_line_bytes: u64,
    /// Number of disks.
    pub disks: usize,
    /// Number of consoles beside the serial one.
    pub ports: usize,
    /// Whether there is a network card.
    pub network: bool,
    /// Whether there is a source of random numbers.
    pub entropy: bool,
}

impl From<&MachineConfig> for Hardware {
    fn from(config: &MachineConfig) -> Self {
        Self {
            harts: config.harts,
            ram_bytes: config.ram_bytes,
            isa: config.isa.clone(),
            mmu: config.mmu,
            asid_bits: config.asid_bits,
            timebase_hz: config.timebase_hz,
            watch_line_bytes: config.watch_line_bytes,
            disks: config.disks.len(),
            ports: config.ports,
            network: config.network.is_some(),
            entropy: config.entropy,
        }
    }
}

impl Hardware {
    /// What differs from `ours`, in words, or nothing.
    pub(crate) fn differences(&self, ours: &Self) -> Option<String> {
        let fields = |hardware: &Self| match serde_json::to_value(hardware) {
            Ok(Value::Object(fields)) => fields,
            _ => unreachable!("a struct of plain fields is a JSON object"),
        };
        let ours = fields(ours);
        let differences: Vec<String> = fields(self)
            .into_iter()
            .filter(|(name, value)| ours[name] != *value)
            .map(|(name, value)| format!("its {name} is {value}, ours is {}", ours[&name]))
            .collect();
        (!differences.is_empty()).then(|| differences.join("; "))
    }
}
