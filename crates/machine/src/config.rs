//! What a machine is made of, and what may be wrong with that.

use loiter_isa::Width;
use serde::{Deserialize, Serialize};

use crate::devices::{MAX_HARTS, Network};
use crate::disk::{DiskConfig, DiskError};
use crate::map::{PAGE_BYTES, PHYS_ADDR_END, RAM_BASE, VIRTIO_SLOTS};
use crate::overrides::OverrideError;

/// 2026-01-01 00:00:00 UTC, in seconds since 1970.
const RTC_EPOCH_S: u64 = 1_767_225_600;

/// What a machine is made of. The default is a machine for bare-metal programs.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// Size of RAM.
    pub ram_bytes: u64,
    /// Number of harts.
    pub harts: usize,
    /// Harts of each core in order, for the CPU map of the device tree; none: one a core.
    pub harts_of_cores: Vec<usize>,
    /// Ticks of `mtime` in a second, for the device tree.
    pub timebase_hz: u64,
    /// ISA string of the device tree, such as `rv64imafdc_zicsr`.
    pub isa: String,
    /// The largest address space that harts translate, for the device tree.
    pub mmu: Option<Mmu>,
    /// Bits of the numbers of address spaces that harts implement, at most 16.
    pub asid_bits: u32,
    /// Command line of the run, for `/chosen/bootargs`.
    pub bootargs: String,
    /// Length of the lines that harts watch.
    pub watch_line_bytes: u64,
    /// What the guest gets as random numbers follows from this.
    pub seed: u64,
    /// The time of day at reset, in seconds since 1970.
    pub rtc_epoch_s: u64,
    /// Disks, in the order in which the guest names them: `vda`, `vdb` and so on.
    pub disks: Vec<DiskConfig>,
    /// Consoles beside the serial one: the guest's `hvc0` and so on.
    pub ports: usize,
    /// Whether there is a network card, and what it is connected to.
    pub network: Option<Network>,
    /// Whether there is a source of random numbers.
    pub entropy: bool,
    /// Changes to the device tree, `path:property=value`.
    pub device_tree_overrides: Vec<String>,
}

impl MachineConfig {
    /// Number of virtio devices.
    fn virtio_devices(&self) -> usize {
        let single = usize::from(self.network.is_some()) + usize::from(self.entropy);
        self.disks.len() + self.ports + single
    }
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            ram_bytes: 128 << 20,
            harts: 1,
            harts_of_cores: Vec::new(),
            timebase_hz: 10_000_000,
            isa: "rv64imafdc_zicsr_zifencei".into(),
            mmu: None,
            asid_bits: 16,
            bootargs: String::new(),
            watch_line_bytes: 64,
            seed: 0,
            rtc_epoch_s: RTC_EPOCH_S,
            disks: Vec::new(),
            ports: 0,
            network: None,
            entropy: false,
            device_tree_overrides: Vec::new(),
        }
    }
}

/// A virtual address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mmu {
    /// 39 bits.
    Sv39,
    /// 48 bits; includes Sv39.
    Sv48,
}

impl Mmu {
    /// "sv39" or "sv48".
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "sv39" => Some(Self::Sv39),
            "sv48" => Some(Self::Sv48),
            _ => None,
        }
    }
}

/// Why a machine cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// RAM of no size, or of part of a page.
    #[error(
        "RAM of {0} bytes is not a positive multiple of {PAGE_BYTES} bytes; choose another `system.ram_mib`"
    )]
    RamSize(u64),
    /// RAM that reaches beyond the physical addresses.
    #[error(
        "RAM of {0} bytes from {RAM_BASE:#x} on reaches beyond the 56-bit physical addresses; choose a smaller `system.ram_mib`"
    )]
    RamBeyondAddresses(u64),
    /// The host has no room.
    #[error(
        "this computer cannot give {bytes} bytes of address space for RAM ({source}); choose a smaller `system.ram_mib`"
    )]
    RamFromHost {
        /// What was asked for.
        bytes: u64,
        /// The host's answer.
        source: std::io::Error,
    },
    /// The device tree does not fit.
    #[error(
        "RAM of {ram} bytes has no room for a device tree of {tree} bytes; choose a larger `system.ram_mib`"
    )]
    RamBelowTree {
        /// Size of RAM.
        ram: u64,
        /// Size of the device tree.
        tree: u64,
    },
    /// No harts, or more than the interrupt controller can address.
    #[error("{0} harts; there must be 1 to {MAX_HARTS}")]
    Harts(usize),
    /// Harts that do not fill cores.
    #[error("{harts} harts, of which cores have {seated}; each core has one at least")]
    Cores {
        /// Number of harts.
        harts: usize,
        /// Those that cores have.
        seated: usize,
    },
    /// A watch line that is no power of two, or is too short.
    #[error("lines of {0} bytes; a line must be a power of two of at least 16 bytes")]
    WatchLine(u64),
    /// A time base that the device tree cannot express.
    #[error("a time base of {0} Hz; it must be 1 to {max} Hz", max = u32::MAX)]
    Timebase(u64),
    /// A time of day that the clock cannot express.
    #[error(
        "a time of day of {0} seconds since 1970; the clock counts nanoseconds in 64 bits, so at most {MAX_EPOCH_S}"
    )]
    Epoch(u64),
    /// An ISA string that is not one of RV64.
    #[error("ISA string {0:?}; it must begin with \"rv64\" and hold no spaces or NULs")]
    Isa(String),
    /// A command line that the device tree cannot hold.
    #[error("the command line of the run contains a NUL character: {0:?}")]
    Bootargs(String),
    /// More virtio devices than there are slots.
    #[error(
        "{0} disks, consoles, networks and entropy sources in all; there are slots for {VIRTIO_SLOTS}"
    )]
    VirtioDevices(usize),
    /// A disk that cannot be had.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A change to the device tree that cannot be made.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// Our own fault: the device tree is not well-formed.
    #[error("internal error: the device tree cannot be written: {0}")]
    DeviceTree(#[from] vm_fdt::Error),
}

/// Half of what 64 bits of nanoseconds hold: the other half is for the run.
const MAX_EPOCH_S: u64 = u64::MAX / 2 / 1_000_000_000;

pub(crate) fn check(config: &MachineConfig) -> Result<(), MachineError> {
    let ram = config.ram_bytes;
    if ram == 0 || !ram.is_multiple_of(PAGE_BYTES) {
        return Err(MachineError::RamSize(ram));
    }
    if ram > PHYS_ADDR_END - RAM_BASE {
        return Err(MachineError::RamBeyondAddresses(ram));
    }
    if !(1..=MAX_HARTS).contains(&config.harts) {
        return Err(MachineError::Harts(config.harts));
    }
    let (harts, cores) = (config.harts, &config.harts_of_cores);
    let seated = cores.iter().sum();
    if !cores.is_empty() && (seated != harts || cores.contains(&0)) {
        return Err(MachineError::Cores { harts, seated });
    }
    let line = config.watch_line_bytes;
    if line < Width::Q.bytes() || !line.is_power_of_two() {
        return Err(MachineError::WatchLine(line));
    }
    if config.timebase_hz == 0 || config.timebase_hz > u64::from(u32::MAX) {
        return Err(MachineError::Timebase(config.timebase_hz));
    }
    if config.rtc_epoch_s > MAX_EPOCH_S {
        return Err(MachineError::Epoch(config.rtc_epoch_s));
    }
    if config.virtio_devices() > VIRTIO_SLOTS {
        return Err(MachineError::VirtioDevices(config.virtio_devices()));
    }
    let isa = &config.isa;
    if !isa.starts_with("rv64") || isa.contains(|c: char| c == '\0' || c.is_whitespace()) {
        return Err(MachineError::Isa(isa.clone()));
    }
    if config.bootargs.contains('\0') {
        return Err(MachineError::Bootargs(config.bootargs.clone()));
    }
    Ok(())
}
