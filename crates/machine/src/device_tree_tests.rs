use fdt::Fdt;

use super::extensions;
use crate::testing::{RAM_BYTES, config, machine};
use crate::{Machine, MachineConfig, RAM_BASE};

fn tree_of(config: &MachineConfig) -> Vec<u8> {
    Machine::new(config).unwrap().device_tree().to_vec()
}

#[test]
fn bootargs_console_memory_and_harts_are_read_back() {
    let machine = machine();
    let tree = Fdt::new(machine.device_tree()).unwrap();
    assert_eq!(tree.chosen().bootargs(), Some("task.add=0 reps=5"));
    let console = tree.chosen().stdout().unwrap();
    assert_eq!(console.name, "serial@10000000");
    assert_eq!(console.compatible().unwrap().first(), "ns16550a");

    let memory: Vec<_> = tree.memory().regions().collect();
    assert_eq!(memory.len(), 1);
    assert_eq!(memory[0].starting_address as u64, RAM_BASE);
    assert_eq!(memory[0].size, Some(RAM_BYTES as usize));

    let harts: Vec<usize> = tree.cpus().flat_map(|cpu| cpu.ids().all()).collect();
    assert_eq!(harts, [0, 1, 2]);
    for cpu in tree.cpus() {
        assert_eq!(cpu.timebase_frequency(), 10_000_000);
        let isa = cpu.property("riscv,isa").and_then(|isa| isa.as_str());
        assert_eq!(isa, Some("rv64imafdc_zicsr_zba"));
    }
}

#[test]
fn devices_are_where_the_map_puts_them() {
    let machine = machine();
    let tree = Fdt::new(machine.device_tree()).unwrap();
    for (compatible, base, bytes) in [
        ("sifive,test0", 0x10_0000, 0x1000),
        ("sifive,clint0", 0x200_0000, 0x1_0000),
        ("ns16550a", 0x1000_0000, 0x100),
    ] {
        let node = tree.find_compatible(&[compatible]).unwrap();
        let reg = node.reg().unwrap().next().unwrap();
        assert_eq!(
            (reg.starting_address as usize, reg.size),
            (base, Some(bytes))
        );
    }
}

#[test]
fn handles_are_distinct_and_lead_where_they_should() {
    let machine = machine();
    let tree = Fdt::new(machine.device_tree()).unwrap();
    let mut handles: Vec<usize> = tree
        .all_nodes()
        .filter_map(|node| node.property("phandle"))
        .map(|handle| handle.as_usize().unwrap())
        .collect();
    assert_eq!(handles.len(), 4, "three harts and the finisher");
    handles.sort_unstable();
    handles.dedup();
    assert_eq!(handles.len(), 4);

    let clint = tree.find_compatible(&["riscv,clint0"]).unwrap();
    let wires = clint.property("interrupts-extended").unwrap().value;
    let cells: Vec<u32> = wires
        .chunks(4)
        .map(|cell| u32::from_be_bytes(cell.try_into().unwrap()))
        .collect();
    assert_eq!(cells.len(), 3 * 4);
    for wire in cells.chunks(4) {
        assert_eq!((wire[0], wire[1], wire[3]), (wire[2], 3, 7));
        let target = tree.find_phandle(wire[0]).unwrap();
        assert_eq!(target.compatible().unwrap().first(), "riscv,cpu-intc");
    }
    for name in ["/poweroff", "/reboot"] {
        let regmap = tree.find_node(name).unwrap().property("regmap").unwrap();
        let target = tree
            .find_phandle(regmap.as_usize().unwrap() as u32)
            .unwrap();
        assert_eq!(target.name, "test@100000");
    }
}

#[test]
fn equal_configurations_give_equal_trees() {
    assert_eq!(tree_of(&config()), tree_of(&config()));
    let other = MachineConfig {
        bootargs: "reps=6".into(),
        ..config()
    };
    assert_ne!(tree_of(&config()), tree_of(&other));
}

#[test]
fn isa_strings_in_the_newer_form() {
    let (base, list) = extensions("rv64imac_zicsr_zba");
    assert_eq!(base, "rv64i");
    assert_eq!(list, ["i", "m", "a", "c", "zicsr", "zba"]);
}
