use fdt::Fdt;
use fdt::node::FdtNode;

use super::extensions;
use crate::testing::{RAM_BYTES, config, machine};
use crate::{Machine, MachineConfig, Mmu, RAM_BASE};

fn cells(node: &FdtNode, property: &str) -> Vec<u32> {
    let value = node.property(property).unwrap().value;
    let cells = value.chunks(4);
    cells
        .map(|cell| u32::from_be_bytes(cell.try_into().unwrap()))
        .collect()
}

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
        ("google,goldfish-rtc", 0x10_1000, 0x1000),
        ("sifive,clint0", 0x200_0000, 0x1_0000),
        ("riscv,plic0", 0xc00_0000, 0x400_0000),
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
    let expected = 3 + 3 + 2;
    assert_eq!(
        handles.len(),
        expected,
        "harts, their interrupts, finisher, PLIC"
    );
    handles.sort_unstable();
    handles.dedup();
    assert_eq!(handles.len(), expected);

    for (controller, lines) in [("riscv,clint0", (3, 7)), ("riscv,plic0", (11, 9))] {
        let controller = tree.find_compatible(&[controller]).unwrap();
        let cells = cells(&controller, "interrupts-extended");
        assert_eq!(cells.len(), 3 * 4);
        for wire in cells.chunks(4) {
            assert_eq!((wire[0], (wire[1], wire[3])), (wire[2], lines));
            let target = tree.find_phandle(wire[0]).unwrap();
            assert_eq!(target.compatible().unwrap().first(), "riscv,cpu-intc");
        }
    }
    for (device, source) in [("ns16550a", 10), ("google,goldfish-rtc", 11)] {
        let device = tree.find_compatible(&[device]).unwrap();
        assert_eq!(cells(&device, "interrupts"), [source]);
        let parent = tree.find_phandle(cells(&device, "interrupt-parent")[0]);
        let parent = parent.unwrap().compatible().unwrap();
        assert_eq!(parent.first(), "sifive,plic-1.0.0");
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

#[test]
fn the_seed_decides_the_random_numbers_of_the_guest() {
    let seed = |seed| {
        let bytes = tree_of(&MachineConfig { seed, ..config() });
        let tree = Fdt::new(&bytes).unwrap();
        let chosen = tree.find_node("/chosen").unwrap();
        chosen.property("rng-seed").unwrap().value.to_vec()
    };
    assert_eq!(seed(0).len(), 32);
    assert_eq!(seed(1), seed(1));
    assert_ne!(seed(0), seed(1));
}

#[test]
fn the_cpu_map_says_which_harts_share_a_core() {
    for (cores, last) in [
        (vec![], "core3"),
        (vec![1; 4], "core3"),
        (vec![2; 2], "core1/thread1"),
        (vec![4], "core0/thread3"),
        (vec![2, 1, 1], "core2"),
        (vec![1, 3], "core1/thread2"),
    ] {
        let count = if cores.is_empty() { 4 } else { cores.len() };
        let bytes = tree_of(&MachineConfig {
            harts: 4,
            harts_of_cores: cores,
            ..config()
        });
        let tree = Fdt::new(&bytes).unwrap();
        let node = tree.find_node(&format!("/cpus/cpu-map/cluster0/{last}"));
        let cpu = cells(&node.expect("the last hart"), "cpu")[0];
        let cpu = tree.find_phandle(cpu).unwrap();
        assert_eq!(cpu.name, "cpu@3");
        let map = tree.find_node("/cpus/cpu-map/cluster0").unwrap();
        assert_eq!(map.children().count(), count);
    }
}

#[test]
fn the_address_space_is_named_where_there_is_one() {
    for (mmu, expected) in [
        (None, None),
        (Some(Mmu::Sv39), Some("riscv,sv39")),
        (Some(Mmu::Sv48), Some("riscv,sv48")),
    ] {
        let bytes = tree_of(&MachineConfig { mmu, ..config() });
        let tree = Fdt::new(&bytes).unwrap();
        for cpu in tree.cpus() {
            let found = cpu.property("mmu-type").and_then(|mmu| mmu.as_str());
            assert_eq!(found, expected);
        }
    }
}
