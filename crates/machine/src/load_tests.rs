use loiter_isa::Width;
use loiter_types::{HartId, PhysAddr};

use super::LoadFault;
use crate::testing::{GLOBAL, OBJECT, RAM_BYTES, TestElf, TestSegment, machine, ram, symbol};
use crate::{Ended, EndedBy, Ending, RAM_BASE};

fn one_segment(start: u64, mem_bytes: u64) -> TestElf {
    let data = vec![0xaa; 16.min(mem_bytes) as usize];
    let segments = vec![TestSegment {
        vaddr: start,
        paddr: start,
        data,
        mem_bytes,
    }];
    TestElf {
        entry: start,
        segments,
        ..TestElf::default()
    }
}

fn load(elf: &TestElf) -> Result<(), LoadFault> {
    machine()
        .load_elf(&elf.image())
        .map_err(|error| error.fault)
}

#[test]
fn segments_are_copied_to_their_addresses() {
    let elf = TestElf::default();
    let mut machine = machine();
    machine.load_elf(&elf.image()).unwrap();
    assert_eq!(
        machine.ram.slice(ram(0), 100).unwrap(),
        elf.segments[0].data
    );
    assert_eq!(machine.load(ram(100), Width::D), Ok(0));
}

#[test]
fn both_ends_of_ram() {
    let tree = machine().place_device_tree().0;
    assert!(tree < RAM_BASE + RAM_BYTES && tree.is_multiple_of(4096));
    assert!(load(&one_segment(RAM_BASE, tree - RAM_BASE)).is_ok());
    assert!(matches!(
        load(&one_segment(RAM_BASE, tree - RAM_BASE + 1)).unwrap_err(),
        LoadFault::OverDeviceTree {
            index: 0,
            start: RAM_BASE,
            ..
        }
    ));
    assert!(matches!(
        load(&one_segment(RAM_BASE, RAM_BYTES + 1)).unwrap_err(),
        LoadFault::OutsideRam {
            index: 0,
            start: RAM_BASE,
            ..
        }
    ));
    assert!(load(&one_segment(RAM_BASE - 1, 16)).is_err());
    assert!(load(&one_segment(u64::MAX - 15, 16)).is_err());
    assert!(load(&one_segment(RAM_BASE, u64::MAX)).is_err());
}

#[test]
fn messages_say_what_to_change() {
    let text = |start, bytes| load(&one_segment(start, bytes)).unwrap_err().to_string();
    let low = text(0x10000, 0x2000);
    assert!(
        low.contains("segment 0 (0x10000 to 0x12000) lies outside RAM (0x80000000 to 0x80100000)")
    );
    assert!(low.contains("link the program at 0x80000000"), "{low}");
    let headers_in_front = text(RAM_BASE - 0x1000, 0x2000);
    assert!(
        headers_in_front.contains("link with -Wl,-n"),
        "{headers_in_front}"
    );
    assert!(text(RAM_BASE - 0x1000, 0x1000).contains("link the program at"));
    let large = text(RAM_BASE, 5 << 20);
    assert!(large.contains("--set system.ram_mib=6"), "{large}");
    let full = text(RAM_BASE, RAM_BYTES);
    assert!(full.contains("overlaps the device tree"), "{full}");
    assert!(full.contains("--set system.ram_mib=2"), "{full}");
    assert!(text(RAM_BASE, u64::MAX).contains("link the program"));
}

#[test]
fn the_advised_ram_is_enough() {
    let mut config = crate::testing::config();
    config.ram_bytes = 6 << 20;
    let mut machine = crate::Machine::new(&config).unwrap();
    machine
        .load_elf(&one_segment(RAM_BASE, 5 << 20).image())
        .unwrap();
}

#[test]
fn a_refused_program_changes_nothing() {
    let mut elf = one_segment(RAM_BASE, 16);
    elf.segments.extend(one_segment(0x1000, 16).segments);
    let mut machine = machine();
    assert!(machine.load_elf(&elf.image()).is_err());
    assert_eq!(machine.load(ram(0), Width::D), Ok(0));
}

fn with_tohost(addr: u64) -> TestElf {
    let symbols = vec![symbol("tohost", addr, 8, OBJECT | GLOBAL)];
    TestElf {
        symbols,
        ..TestElf::default()
    }
}

#[test]
fn a_store_to_tohost_ends_the_run() {
    let mut machine = machine();
    machine
        .load_elf(&with_tohost(RAM_BASE + 0x800).image())
        .unwrap();
    machine.store(HartId(0), ram(0x808), Width::D, 1).unwrap();
    machine.store(HartId(0), ram(0x7f8), Width::D, 1).unwrap();
    assert_eq!(machine.ended(), None, "its neighbours are ordinary words");
    machine.store(HartId(2), ram(0x800), Width::D, 7).unwrap();
    assert_eq!(
        machine.ended(),
        Some(Ended {
            by: EndedBy::Htif,
            ending: Ending::Failure(3)
        })
    );
}

#[test]
fn without_the_symbol_no_store_ends_the_run() {
    let mut machine = machine();
    machine.load_elf(&TestElf::default().image()).unwrap();
    for offset in (0..4096).step_by(8) {
        machine.store(HartId(0), ram(offset), Width::D, 1).unwrap();
    }
    assert_eq!(machine.ended(), None);
}

#[test]
fn tohost_must_be_an_aligned_word_of_ram() {
    for addr in [RAM_BASE + 4, RAM_BASE + RAM_BYTES, 0x1000] {
        let fault = load(&with_tohost(addr)).unwrap_err();
        assert_eq!(
            fault,
            LoadFault::HtifWord {
                name: "tohost",
                addr: PhysAddr(addr)
            }
        );
    }
}

#[test]
fn the_device_tree_is_where_it_is_said_to_be() {
    let mut machine = machine();
    let addr = machine.place_device_tree();
    let tree = machine.device_tree().to_vec();
    assert_eq!(machine.ram.slice(addr, tree.len() as u64).unwrap(), tree);
    assert_eq!(tree[..4], [0xd0, 0x0d, 0xfe, 0xed]);
}
