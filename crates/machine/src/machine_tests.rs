use loiter_isa::Width;
use loiter_types::{HartId, PhysAddr};

use super::{AccessFault, Ended, EndedBy, Ending};
use crate::testing::{RAM_BYTES, config, machine, ram};
use crate::{Machine, MachineConfig, MachineError};

const A: HartId = HartId(0);
const B: HartId = HartId(1);
const FINISHER: PhysAddr = PhysAddr(0x10_0000);
const MSIP_B: PhysAddr = PhysAddr(0x200_0004);
const MTIMECMP_A: PhysAddr = PhysAddr(0x200_4000);
const UART: PhysAddr = PhysAddr(0x1000_0000);

fn fault<T>(addr: u64) -> Result<T, AccessFault> {
    Err(AccessFault {
        addr: PhysAddr(addr),
    })
}

#[test]
fn what_is_stored_is_loaded() {
    let mut machine = machine();
    for width in [Width::B, Width::H, Width::W, Width::D] {
        for addr in [ram(0), ram(13), ram(RAM_BYTES - width.bytes())] {
            machine
                .store(A, addr, width, 0xfedc_ba98_7654_3210)
                .unwrap();
            let mask = u64::MAX >> (64 - 8 * width.bytes());
            assert_eq!(machine.load(addr, width), Ok(0xfedc_ba98_7654_3210 & mask));
        }
    }
    let value = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff;
    machine.store128(A, ram(32), value).unwrap();
    assert_eq!(machine.load128(ram(32)), Ok(value));
    assert_eq!(machine.load(ram(32), Width::D), Ok(0x8899_aabb_ccdd_eeff));
}

#[test]
fn no_device_at_an_address_is_an_access_fault() {
    let mut machine = machine();
    for addr in [
        0,
        0xf_ffff,
        0x10_2000,
        0x201_0000,
        0x1000_0100,
        0x7fff_fff8,
        0x8010_0000,
    ] {
        let at = PhysAddr(addr & !7);
        assert_eq!(machine.load(at, Width::D), fault(at.0));
        assert_eq!(machine.store(A, at, Width::D, 0), fault(at.0));
        assert_eq!(machine.load128(at), fault(at.0));
        assert_eq!(machine.store128(A, at, 0), fault(at.0));
    }
    let across_the_end = ram(RAM_BYTES - 4);
    assert_eq!(
        machine.load(across_the_end, Width::D),
        fault(across_the_end.0)
    );
    assert_eq!(machine.load128(ram(RAM_BYTES - 8)), fault(0x800f_fff8));
}

#[test]
fn misaligned_accesses_are_for_ram_only() {
    let mut machine = machine();
    let inside = PhysAddr(MTIMECMP_A.0 + 2);
    assert_eq!(machine.load(inside, Width::W), fault(inside.0));
    assert_eq!(machine.store(A, inside, Width::W, 0), fault(inside.0));
}

#[test]
fn fetching_up_to_the_last_byte() {
    let mut machine = machine();
    machine.store(A, ram(0), Width::W, 0x1234_5673).unwrap();
    assert_eq!(machine.fetch(ram(0)), Ok(0x1234_5673));
    assert_eq!(machine.fetch16(ram(2)), Ok(0x1234));
    let last = ram(RAM_BYTES - 2);
    machine.store(A, last, Width::H, 0x4501).unwrap();
    assert_eq!(
        machine.fetch(last),
        Ok(0x4501),
        "two bytes are enough for this one"
    );
    machine.store(A, last, Width::H, 0x0013).unwrap();
    assert_eq!(machine.fetch(last), fault(0x8010_0000));
    assert_eq!(machine.fetch(ram(RAM_BYTES)), fault(0x8010_0000));
    assert_eq!(machine.fetch16(ram(RAM_BYTES)), fault(0x8010_0000));
    assert_eq!(
        machine.fetch(UART),
        fault(UART.0),
        "devices hold no instructions"
    );
}

#[test]
fn every_kind_of_store_breaks_watches() {
    for kind in 0..3 {
        let mut machine = machine();
        machine.watches.arm(A, ram(64));
        match kind {
            0 => machine.store(B, ram(127), Width::B, 1),
            1 => machine.store128(B, ram(48), 1),
            _ => machine.store(B, ram(60), Width::D, 1),
        }
        .unwrap();
        assert_eq!(
            machine.watches.is_held(A, ram(64)),
            kind == 1,
            "kind {kind}"
        );
        machine.store128(B, ram(64), 1).unwrap();
        assert!(!machine.watches.is_held(A, ram(64)));
    }
}

#[test]
fn the_finisher_ends_the_run() {
    let mut machine = machine();
    assert_eq!(machine.ended(), None);
    machine
        .store(B, FINISHER, Width::W, (9 << 16) | 0x3333)
        .unwrap();
    let ended = Some(Ended {
        by: EndedBy::Finisher,
        ending: Ending::Failure(9),
    });
    assert_eq!(machine.ended(), ended);
    machine.store(B, FINISHER, Width::W, 0x5555).unwrap();
    assert_eq!(machine.ended(), ended);
}

#[test]
fn the_console_works_both_ways() {
    let mut machine = machine();
    machine.store(A, UART, Width::B, u64::from(b'o')).unwrap();
    machine.store(A, UART, Width::B, u64::from(b'k')).unwrap();
    assert_eq!(machine.take_output(0), b"ok");
    assert!(machine.take_output(0).is_empty());
    machine.push_input(0, b"y");
    assert_eq!(machine.load(UART, Width::B), Ok(u64::from(b'y')));
}

#[test]
fn interrupt_changes_are_announced_once() {
    let mut machine = machine();
    assert!(!machine.interrupts_changed());
    let before = machine.interrupt_generation();
    machine.store(A, MSIP_B, Width::W, 1).unwrap();
    assert_ne!(machine.interrupt_generation(), before);
    assert!(machine.interrupts_changed());
    assert!(!machine.interrupts_changed());
    assert_eq!(
        (machine.interrupt_lines(A), machine.interrupt_lines(B)),
        (0, 1 << 3)
    );

    machine.store(A, MTIMECMP_A, Width::D, 10).unwrap();
    assert_eq!(machine.next_timer_ticks(), Some(10));
    machine.set_time(9);
    assert!(!machine.interrupts_changed());
    machine.set_time(10);
    assert!(machine.interrupts_changed());
    assert_eq!((machine.time(A), machine.interrupt_lines(A)), (10, 1 << 7));
    assert_eq!(machine.next_timer_ticks(), None);
}

#[test]
fn is_ram_at_the_edges() {
    let machine = machine();
    assert!(machine.is_ram(ram(0), RAM_BYTES));
    assert!(!machine.is_ram(ram(0), RAM_BYTES + 1));
    assert!(!machine.is_ram(ram(1), RAM_BYTES));
    assert!(!machine.is_ram(PhysAddr(ram(0).0 - 1), 1));
    assert!(!machine.is_ram(ram(8), u64::MAX));
    assert!(!machine.is_ram(UART, 1));
}

#[test]
fn contradictory_configurations_are_refused() {
    let refuse = |change: fn(&mut MachineConfig)| {
        let mut config = config();
        change(&mut config);
        Machine::new(&config).expect_err("must be refused")
    };
    use MachineError as E;
    assert!(matches!(refuse(|c| c.ram_bytes = 0), E::RamSize(0)));
    assert!(matches!(refuse(|c| c.ram_bytes = 4097), E::RamSize(4097)));
    assert!(matches!(
        refuse(|c| c.ram_bytes = 1 << 56),
        E::RamBeyondAddresses(_)
    ));
    assert!(matches!(
        refuse(|c| c.ram_bytes = 1 << 55),
        E::RamFromHost { .. }
    ));
    let tree = refuse(|c| (c.ram_bytes, c.harts) = (4096, 100));
    assert!(matches!(tree, E::RamBelowTree { ram: 4096, .. }));
    assert!(matches!(refuse(|c| c.harts = 0), E::Harts(0)));
    assert!(matches!(refuse(|c| c.harts = 4096), E::Harts(4096)));
    assert!(matches!(
        refuse(|c| c.watch_line_bytes = 8),
        E::WatchLine(8)
    ));
    assert!(matches!(
        refuse(|c| c.watch_line_bytes = 48),
        E::WatchLine(48)
    ));
    assert!(matches!(refuse(|c| c.timebase_hz = 0), E::Timebase(0)));
    assert!(matches!(
        refuse(|c| c.timebase_hz = 1 << 32),
        E::Timebase(_)
    ));
    assert!(matches!(refuse(|c| c.isa = "rv32i".into()), E::Isa(_)));
    assert!(matches!(
        refuse(|c| c.bootargs = "a\0b".into()),
        E::Bootargs(_)
    ));
}

#[test]
fn as_many_harts_as_the_interrupt_controller_has_registers_for() {
    let mut config = config();
    (config.harts, config.ram_bytes) = (4095, 16 << 20);
    let mut machine = Machine::new(&config).unwrap();
    machine.store(A, PhysAddr(0x200_3ff8), Width::W, 1).unwrap();
    assert_eq!(machine.interrupt_lines(HartId(4094)), 1 << 3);
    machine.store(A, PhysAddr(0x200_bff0), Width::D, 0).unwrap();
    assert_eq!(machine.interrupt_lines(HartId(4094)), 1 << 3 | 1 << 7);
}
