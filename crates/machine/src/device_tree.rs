//! The flattened device tree: the nodes that belong to no device, in the manner of QEMU's `virt`.

use vm_fdt::{Error, FdtWriter};

use crate::devices::{Devices, Place};
use crate::machine::MachineConfig;
use crate::map::{CONSOLE_PATH, RAM_BASE, WINDOWS};

/// The device tree of a machine.
pub(crate) fn write(config: &MachineConfig, devices: &Devices) -> Result<Vec<u8>, Error> {
    // Handles are any distinct numbers but 0: first the harts, then the finisher.
    let hart_interrupts: Vec<u32> = (1..).take(config.harts).collect();
    let finisher = config.harts as u32 + 1;

    let mut tree = FdtWriter::new()?;
    let root = tree.begin_node("")?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 2)?;
    tree.property_string("compatible", "riscv-virtio")?;
    tree.property_string("model", "riscv-virtio,loiter")?;

    let chosen = tree.begin_node("chosen")?;
    tree.property_string("bootargs", &config.bootargs)?;
    tree.property_string("stdout-path", CONSOLE_PATH)?;
    tree.end_node(chosen)?;

    let memory = tree.begin_node(&format!("memory@{RAM_BASE:x}"))?;
    tree.property_string("device_type", "memory")?;
    tree.property_array_u64("reg", &[RAM_BASE, config.ram_bytes])?;
    tree.end_node(memory)?;

    harts(&mut tree, config, &hart_interrupts)?;
    for (name, value) in [("poweroff", 0x5555), ("reboot", 0x7777)] {
        let node = tree.begin_node(name)?;
        tree.property_string("compatible", &format!("syscon-{name}"))?;
        tree.property_u32("regmap", finisher)?;
        tree.property_u32("offset", 0)?;
        tree.property_u32("value", value)?;
        tree.end_node(node)?;
    }

    let soc = tree.begin_node("soc")?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 2)?;
    tree.property_string("compatible", "simple-bus")?;
    tree.property_null("ranges")?;
    for window in &WINDOWS {
        let place = Place {
            window,
            hart_interrupts: &hart_interrupts,
            finisher,
        };
        devices.get(window.device).describe(&mut tree, &place)?;
    }
    tree.end_node(soc)?;

    tree.end_node(root)?;
    tree.finish()
}

fn harts(tree: &mut FdtWriter, config: &MachineConfig, handles: &[u32]) -> Result<(), Error> {
    let (base, extensions) = extensions(&config.isa);
    let cpus = tree.begin_node("cpus")?;
    tree.property_u32("#address-cells", 1)?;
    tree.property_u32("#size-cells", 0)?;
    // `Machine::new` has checked that it fits.
    tree.property_u32("timebase-frequency", config.timebase_hz as u32)?;
    for (hart, &handle) in (0_u32..).zip(handles) {
        let cpu = tree.begin_node(&format!("cpu@{hart:x}"))?;
        tree.property_string("device_type", "cpu")?;
        tree.property_u32("reg", hart)?;
        tree.property_string("status", "okay")?;
        tree.property_string("compatible", "riscv")?;
        tree.property_string("riscv,isa", &config.isa)?;
        tree.property_string("riscv,isa-base", &base)?;
        tree.property_string_list("riscv,isa-extensions", extensions.clone())?;
        let controller = tree.begin_node("interrupt-controller")?;
        tree.property_u32("#interrupt-cells", 1)?;
        tree.property_null("interrupt-controller")?;
        tree.property_string("compatible", "riscv,cpu-intc")?;
        tree.property_phandle(handle)?;
        tree.end_node(controller)?;
        tree.end_node(cpu)?;
    }
    tree.end_node(cpus)
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
