use fdt::Fdt;
use loiter_isa::Width;
use loiter_types::PhysAddr;

use super::{BootAddresses, BootFile, BootFiles, TREE_ROOM_BYTES};
use crate::map::PAGE_BYTES;
use crate::testing::{KERNEL_MEM_BYTES, TestElf, config, field, kernel};
use crate::{LoadFault, Machine, MachineConfig, RAM_BASE};

/// Where the kernel of a machine with few harts lies.
const KERNEL_ADDR: u64 = RAM_BASE + (2 << 20);

/// `addi x0, x0, 0`
const NOP: [u8; 4] = [0x13, 0, 0, 0];

fn file(path: &str, bytes: Vec<u8>) -> BootFile {
    BootFile {
        path: path.into(),
        bytes,
    }
}

fn files() -> BootFiles {
    BootFiles {
        firmware: file("fw.bin", NOP.repeat(100)),
        kernel: file("Image", kernel()),
        initrd: Some(file("initrd", b"cpio".repeat(1500))),
    }
}

fn machine(ram_bytes: u64) -> Machine {
    Machine::new(&MachineConfig {
        ram_bytes,
        ..config()
    })
    .unwrap()
}

fn boot(files: &BootFiles) -> (Machine, BootAddresses) {
    let mut machine = machine(8 << 20);
    let addresses = machine.load_boot(files).unwrap();
    (machine, addresses)
}

fn refuse(ram_bytes: u64, files: &BootFiles) -> (String, LoadFault) {
    let error = machine(ram_bytes).load_boot(files).unwrap_err();
    (error.path, error.fault)
}

fn chosen(machine: &Machine, property: &str) -> Option<u64> {
    let tree = Fdt::new(machine.device_tree()).unwrap();
    let value = tree.find_node("/chosen").unwrap().property(property)?.value;
    Some(u64::from_be_bytes(value.try_into().unwrap()))
}

fn bytes_at(machine: &Machine, addr: u64, bytes: &[u8]) -> bool {
    machine.ram.slice(PhysAddr(addr), bytes.len() as u64) == Some(bytes)
}

#[test]
fn everything_is_where_it_is_said_to_be() {
    let files = files();
    let (machine, addresses) = boot(&files);
    assert_eq!(addresses.entry, PhysAddr(RAM_BASE));
    assert!(bytes_at(&machine, RAM_BASE, &files.firmware.bytes));
    assert!(bytes_at(&machine, KERNEL_ADDR, &files.kernel.bytes));

    let tree = addresses.device_tree;
    assert!(bytes_at(&machine, tree.0, machine.device_tree()));
    let end = tree.0 + machine.device_tree().len() as u64;
    assert!(end + TREE_ROOM_BYTES <= machine.ram.end().0);

    let initrd = files.initrd.unwrap().bytes;
    let start = chosen(&machine, "linux,initrd-start").unwrap();
    let end = chosen(&machine, "linux,initrd-end").unwrap();
    assert_eq!(end - start, initrd.len() as u64);
    assert!(start.is_multiple_of(PAGE_BYTES));
    assert!(start >= KERNEL_ADDR + KERNEL_MEM_BYTES && end <= addresses.dynamic_info.0);
    assert!(bytes_at(&machine, start, &initrd));
}

#[test]
fn the_firmware_learns_what_to_start() {
    let (mut machine, addresses) = boot(&files());
    let word = |machine: &mut Machine, index: u64| {
        let addr = PhysAddr(addresses.dynamic_info.0 + 8 * index);
        machine.load(addr, Width::D).unwrap()
    };
    let info: Vec<u64> = (0..6).map(|index| word(&mut machine, index)).collect();
    assert_eq!(info, [0x4942_534f, 2, KERNEL_ADDR, 1, 0, 0]);
}

#[test]
fn a_boot_without_an_initial_file_system() {
    let mut files = files();
    files.initrd = None;
    let (machine, _) = boot(&files);
    assert_eq!(chosen(&machine, "linux,initrd-start"), None);
    assert_eq!(chosen(&machine, "linux,initrd-end"), None);
}

#[test]
fn many_harts_make_the_firmware_larger_and_move_the_kernel() {
    for (harts, mib) in [(1, 2), (76, 2), (77, 4), (148, 4), (149, 6), (256, 8)] {
        let mut machine = Machine::new(&MachineConfig {
            ram_bytes: 64 << 20,
            harts,
            ..config()
        })
        .unwrap();
        let files = files();
        let addresses = machine.load_boot(&files).unwrap();
        let kernel = RAM_BASE + (mib << 20);
        assert_eq!(machine.kernel_addr(), PhysAddr(kernel), "{harts} harts");
        let next = PhysAddr(addresses.dynamic_info.0 + 16);
        assert_eq!(machine.load(next, Width::D), Ok(kernel));
        assert!(bytes_at(&machine, kernel, &files.kernel.bytes));
    }
}

#[test]
fn as_many_harts_as_linux_machines_have() {
    let mut machine = Machine::new(&MachineConfig {
        ram_bytes: 64 << 20,
        harts: 256,
        harts_of_cores: vec![8; 32],
        isa: "rv64imafdc_zicntr_zicond_zicsr_zifencei_zihintpause_zba_zbb_zbs_sstc".into(),
        ..config()
    })
    .unwrap();
    let addresses = machine.load_boot(&files()).unwrap();
    let bytes = machine.device_tree().len() as u64;
    assert!(bytes > 100 << 10, "{bytes}");
    let end = addresses.device_tree.0 + bytes + TREE_ROOM_BYTES;
    assert!(end <= machine.ram.end().0);
    let tree = Fdt::new(machine.device_tree()).unwrap();
    let harts: Vec<usize> = tree.cpus().flat_map(|cpu| cpu.ids().all()).collect();
    assert_eq!(harts, (0..256).collect::<Vec<_>>());
}

#[test]
fn firmware_may_be_elf() {
    let mut files = files();
    files.firmware = file("fw.elf", TestElf::default().bytes());
    let (machine, addresses) = boot(&files);
    assert_eq!(addresses.entry, PhysAddr(RAM_BASE + 4));
    let expected: Vec<u8> = (1..=100).collect();
    assert!(bytes_at(&machine, RAM_BASE, &expected));
}

#[test]
fn what_is_no_firmware_is_named() {
    let text = b"This is a text file, and text is not a program. ";
    let mut shared = TestElf::default().bytes();
    shared[field::TYPE] = 3;
    for (bytes, expected) in [
        (kernel(), "it is a Linux kernel"),
        (
            shared,
            "a shared object or position-independent program as ELF",
        ),
        (
            b"#!/bin/sh\necho this is a script\n".to_vec(),
            "it is a script",
        ),
        (text.repeat(9), "it is a text file"),
        (vec![0; 4096], "it begins with the bytes 00 00 00 00"),
        (NOP.repeat(15), "it begins with the bytes 13 00 00 00"),
        (vec![], "it is empty"),
    ] {
        let mut files = files();
        files.firmware = file("fw", bytes);
        let (path, fault) = refuse(8 << 20, &files);
        assert_eq!(path, "fw");
        assert!(matches!(fault, LoadFault::NotFirmware { .. }), "{fault}");
        assert!(fault.to_string().contains(expected), "{fault}");
    }
}

#[test]
fn firmware_stays_below_the_kernel() {
    let mut files = files();
    files.firmware.bytes = NOP.repeat((2 << 20) / NOP.len());
    boot(&files);
    files.firmware.bytes.push(0);
    let (_, fault) = refuse(8 << 20, &files);
    let (start, end) = (RAM_BASE, KERNEL_ADDR + 1);
    let kernel = KERNEL_ADDR;
    assert_eq!(fault, LoadFault::FirmwarePlace { start, end, kernel });
    let mut elf = TestElf::default();
    elf.segments[0].mem_bytes = u64::MAX;
    files.firmware.bytes = elf.bytes();
    let (_, fault) = refuse(8 << 20, &files);
    assert!(matches!(fault, LoadFault::FirmwarePlace { .. }), "{fault}");
}

#[test]
fn the_fault_of_a_kernel_names_its_file() {
    let mut files = files();
    files.kernel.bytes.truncate(100);
    assert_eq!(refuse(8 << 20, &files).0, "Image");
}

/// The RAM that a message advises.
fn advised(fault: &LoadFault) -> u64 {
    match fault {
        LoadFault::TooLarge { ram_mib, .. } => {
            let text = fault.to_string();
            assert!(
                text.contains(&format!("system.ram_mib={ram_mib}")),
                "{text}"
            );
            *ram_mib
        }
        other => panic!("{other}"),
    }
}

#[test]
fn the_advised_ram_is_enough_and_less_is_not() {
    let mut files = files();
    for initrd_bytes in [0, 1 << 20, 20 << 20] {
        files.initrd = Some(file("initrd", vec![1; initrd_bytes]));
        let (_, fault) = refuse(1 << 20, &files);
        let mut enough = advised(&fault);
        if initrd_bytes > 0 {
            let (path, fault) = refuse(enough << 20, &files);
            assert_eq!(path, "initrd");
            enough = advised(&fault);
        }
        machine(enough << 20).load_boot(&files).unwrap();
        refuse((enough - 1) << 20, &files);
    }
}

#[test]
fn a_refused_boot_changes_nothing() {
    let mut files = files();
    files.initrd = Some(file("initrd", vec![1; 20 << 20]));
    let mut machine = machine(8 << 20);
    let tree = machine.device_tree().to_vec();
    machine.load_boot(&files).unwrap_err();
    assert_eq!(machine.load(PhysAddr(RAM_BASE), Width::D), Ok(0));
    assert_eq!(machine.device_tree(), tree);
}

#[test]
fn a_kernel_that_claims_all_memory_there_could_be() {
    let mut files = files();
    files.kernel.bytes[16..24].fill(0xff);
    let (path, fault) = refuse(8 << 20, &files);
    assert_eq!(path, "Image");
    assert!(matches!(fault, LoadFault::TooLarge { .. }), "{fault}");
}
