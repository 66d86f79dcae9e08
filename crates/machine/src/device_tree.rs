//! The flattened device tree: the nodes that belong to no device, in the manner of QEMU's `virt`.

use std::ops::Range;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use vm_fdt::{Error, FdtWriter};

use crate::config::{MachineConfig, MachineError, Mmu};
use crate::devices::{Devices, Surroundings};
use crate::map::{CONSOLE_PATH, RAM_BASE};
use crate::overrides;

/// Length of `/chosen/rng-seed`, as QEMU and boot loaders give it.
const RNG_SEED_BYTES: usize = 32;

/// The phandles: distinct numbers but 0.
struct Handles {
    /// Of each hart's interrupt controller.
    hart_interrupts: Vec<u32>,
    /// Of each hart.
    harts: Vec<u32>,
    finisher: u32,
    plic: u32,
}

impl Handles {
    fn new(harts: usize) -> Self {
        let mut handles = 1..;
        Self {
            hart_interrupts: handles.by_ref().take(harts).collect(),
            harts: handles.by_ref().take(harts).collect(),
            finisher: handles.start,
            plic: handles.start + 1,
        }
    }
}

/// The device tree of a machine. `initrd` is where the initial file system of a kernel lies.
pub(crate) fn write(
    config: &MachineConfig,
    devices: &Devices,
    initrd: Option<Range<u64>>,
) -> Result<Vec<u8>, MachineError> {
    let tree = generated(config, devices, initrd)?;
    Ok(overrides::apply(tree, &config.device_tree_overrides)?)
}

fn generated(
    config: &MachineConfig,
    devices: &Devices,
    initrd: Option<Range<u64>>,
) -> Result<Vec<u8>, Error> {
    let handles = Handles::new(config.harts);
    let mut tree = FdtWriter::new()?;
    let root = tree.begin_node("")?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 2)?;
    tree.property_string("compatible", "riscv-virtio")?;
    tree.property_string("model", "riscv-virtio,loiter")?;

    chosen(&mut tree, config, initrd)?;
    let memory = tree.begin_node(&format!("memory@{RAM_BASE:x}"))?;
    tree.property_string("device_type", "memory")?;
    tree.property_array_u64("reg", &[RAM_BASE, config.ram_bytes])?;
    tree.end_node(memory)?;

    harts(&mut tree, config, &handles)?;
    for (name, value) in [("poweroff", 0x5555), ("reboot", 0x7777)] {
        let node = tree.begin_node(name)?;
        tree.property_string("compatible", &format!("syscon-{name}"))?;
        tree.property_u32("regmap", handles.finisher)?;
        tree.property_u32("offset", 0)?;
        tree.property_u32("value", value)?;
        tree.end_node(node)?;
    }

    let soc = tree.begin_node("soc")?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 2)?;
    tree.property_string("compatible", "simple-bus")?;
    tree.property_null("ranges")?;
    for window in devices.windows() {
        let around = Surroundings {
            window: &window,
            hart_interrupts: &handles.hart_interrupts,
            finisher: handles.finisher,
            plic: handles.plic,
        };
        devices.get(window.device).describe(&mut tree, &around)?;
    }
    tree.end_node(soc)?;

    tree.end_node(root)?;
    tree.finish()
}

fn chosen(
    tree: &mut FdtWriter,
    config: &MachineConfig,
    initrd: Option<Range<u64>>,
) -> Result<(), Error> {
    let chosen = tree.begin_node("chosen")?;
    tree.property_string("bootargs", &config.bootargs)?;
    tree.property_string("stdout-path", CONSOLE_PATH)?;
    if let Some(initrd) = initrd {
        tree.property_u64("linux,initrd-start", initrd.start)?;
        tree.property_u64("linux,initrd-end", initrd.end)?;
    }
    // With it Linux has random numbers from the start, the same in each run.
    let mut seed = [0; RNG_SEED_BYTES];
    ChaCha20Rng::seed_from_u64(config.seed).fill_bytes(&mut seed);
    tree.property("rng-seed", &seed)?;
    tree.end_node(chosen)
}

fn harts(tree: &mut FdtWriter, config: &MachineConfig, handles: &Handles) -> Result<(), Error> {
    let (base, extensions) = extensions(&config.isa);
    let cpus = tree.begin_node("cpus")?;
    tree.property_u32("#address-cells", 1)?;
    tree.property_u32("#size-cells", 0)?;
    // `Machine::new` has checked that it fits.
    tree.property_u32("timebase-frequency", config.timebase_hz as u32)?;
    for (hart, &handle) in (0_u32..).zip(&handles.harts) {
        let cpu = tree.begin_node(&format!("cpu@{hart:x}"))?;
        tree.property_string("device_type", "cpu")?;
        tree.property_u32("reg", hart)?;
        tree.property_string("status", "okay")?;
        tree.property_string("compatible", "riscv")?;
        tree.property_string("riscv,isa", &config.isa)?;
        tree.property_string("riscv,isa-base", &base)?;
        tree.property_string_list("riscv,isa-extensions", extensions.clone())?;
        match config.mmu {
            Some(Mmu::Sv39) => tree.property_string("mmu-type", "riscv,sv39")?,
            Some(Mmu::Sv48) => tree.property_string("mmu-type", "riscv,sv48")?,
            None => {}
        }
        tree.property_phandle(handle)?;
        let controller = tree.begin_node("interrupt-controller")?;
        tree.property_u32("#interrupt-cells", 1)?;
        tree.property_null("interrupt-controller")?;
        tree.property_string("compatible", "riscv,cpu-intc")?;
        tree.property_phandle(handles.hart_interrupts[hart as usize])?;
        tree.end_node(controller)?;
        tree.end_node(cpu)?;
    }
    cpu_map(tree, config, handles)?;
    tree.end_node(cpus)
}

/// Which harts share a core. A core of one hart has no threads below it.
fn cpu_map(tree: &mut FdtWriter, config: &MachineConfig, handles: &Handles) -> Result<(), Error> {
    let map = tree.begin_node("cpu-map")?;
    let cluster = tree.begin_node("cluster0")?;
    let mut harts = &handles.harts[..];
    let one_each = vec![1; harts.len()];
    let cores = match config.harts_of_cores.is_empty() {
        true => &one_each,
        false => &config.harts_of_cores,
    };
    for (number, &count) in cores.iter().enumerate() {
        let core;
        (core, harts) = harts.split_at(count);
        let node = tree.begin_node(&format!("core{number}"))?;
        if let [hart] = core {
            tree.property_u32("cpu", *hart)?;
        } else {
            for (number, &hart) in core.iter().enumerate() {
                let thread = tree.begin_node(&format!("thread{number}"))?;
                tree.property_u32("cpu", hart)?;
                tree.end_node(thread)?;
            }
        }
        tree.end_node(node)?;
    }
    tree.end_node(cluster)?;
    tree.end_node(map)
}

/// An ISA string in the form of the newer properties: `rv64imc_zba` is the base `rv64i` with the
/// extensions `i`, `m`, `c` and `zba`.
fn extensions(isa: &str) -> (String, Vec<String>) {
    let mut parts = isa.split('_');
    let first = parts.next().unwrap_or_default();
    let letters = first.strip_prefix("rv64").unwrap_or_default();
    let base = format!("rv64{}", letters.chars().next().unwrap_or('i'));
    (
        base,
        letters
            .chars()
            .map(String::from)
            .chain(parts.map(String::from))
            .collect(),
    )
}

#[cfg(test)]
#[path = "device_tree_tests.rs"]
mod tests;
