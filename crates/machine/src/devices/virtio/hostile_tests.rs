//! Rings that a guest has filled with nonsense: the device asks to be reset, and nothing else happens.

use loiter_isa::Width;

use super::driver::{
    Driver, INDIRECT, NEXT, Part, QUEUE_AVAILABLE, QUEUE_DESCRIPTORS, QUEUE_READY, QUEUE_SELECT,
    QUEUE_SIZE, QUEUE_USED, RUNNING, SIZE, STATUS, WRITE, get, machine_with, put, put_descriptor,
};
use crate::testing::{RAM_BYTES, Random, ram};
use crate::{DiskConfig, Machine};

const DISK: u64 = 0;
const ENTROPY: u64 = 2;
const BUFFER: u64 = 0x8_0000;
const TABLE: u64 = 0x9_0000;

/// A disk, a console, an entropy source.
fn machine() -> Machine {
    machine_with(|config| {
        (config.ports, config.entropy) = (1, true);
        config.disks = vec![DiskConfig {
            bytes: Some(1 << 30),
            ..DiskConfig::default()
        }];
    })
}

/// What the descriptor table holds, and whether the device works on.
fn breaks(slot: u64, descriptors: &[(u64, u32, u16, u16)]) -> bool {
    let mut machine = machine();
    let mut driver = Driver::start(&mut machine, slot);
    for (index, &descriptor) in (0..).zip(descriptors) {
        driver.descriptor(&mut machine, 0, index, descriptor);
    }
    driver.offer(&mut machine, 0, 0);
    driver.notify(&mut machine, 0);
    let used = driver.take_used(&mut machine, 0).is_some();
    let broken = driver.has_broken(&mut machine, slot);
    assert_ne!(used, broken);
    broken
}

#[test]
fn chains_that_do_not_end() {
    let at = ram(BUFFER).0;
    assert!(!breaks(ENTROPY, &[(at, 8, WRITE, 0)]));
    assert!(breaks(ENTROPY, &[(at, 8, WRITE | NEXT, 0)]), "to itself");
    let there_and_back = [(at, 8, WRITE | NEXT, 1), (at, 8, WRITE | NEXT, 0)];
    assert!(breaks(ENTROPY, &there_and_back));
    assert!(breaks(ENTROPY, &[(at, 8, WRITE | NEXT, SIZE)]));
    assert!(breaks(ENTROPY, &[(at, 8, WRITE | NEXT, u16::MAX)]));
    let full: Vec<_> = (1..=SIZE)
        .map(|next| (at, 8, if next < SIZE { WRITE | NEXT } else { WRITE }, next))
        .collect();
    assert!(!breaks(ENTROPY, &full), "as long as the table");
}

#[test]
fn buffers_outside_ram() {
    for (addr, bytes) in [
        (0, 8),
        (ram(0).0 - 1, 8),
        (ram(RAM_BYTES).0, 1),
        (ram(RAM_BYTES - 7).0, 8),
        (u64::MAX, 8),
        (u64::MAX - 7, 8),
        (0x1000_0000, 8),
    ] {
        assert!(breaks(ENTROPY, &[(addr, bytes, WRITE, 0)]), "{addr:#x}");
        let read = [(addr, bytes, NEXT, 1), (ram(BUFFER).0, 1, WRITE, 0)];
        assert!(breaks(DISK, &read), "{addr:#x}");
    }
    assert!(!breaks(ENTROPY, &[(ram(RAM_BYTES - 8).0, 8, WRITE, 0)]));
}

#[test]
fn huge_lengths() {
    let at = ram(BUFFER).0;
    assert!(breaks(ENTROPY, &[(at, u32::MAX, WRITE, 0)]));
    let sum = [(at, 1 << 31, WRITE | NEXT, 1), (at, 1 << 31, WRITE, 0)];
    assert!(breaks(ENTROPY, &sum));
    // Every part lies in RAM, but there are many: 16 MiB with the header, and a byte more.
    for (extra, expected) in [(0, false), (1, true)] {
        let part = 1 << 18;
        let mut table = vec![(at, 16, NEXT, 1)];
        table.extend((2..65).map(|next| (ram(0x4_0000).0, part, WRITE | NEXT, next)));
        table.push((ram(0x4_0000).0, part - 16 + extra, WRITE, 0));
        let bytes = 16 * table.len() as u32;
        assert_eq!(indirect(DISK, &table, bytes), expected);
    }
    let parts = |parts| {
        let mut table: Vec<_> = (1..=parts)
            .map(|next| (at, 1, WRITE | NEXT, next))
            .collect();
        table.last_mut().unwrap().2 = WRITE;
        indirect(ENTROPY, &table, u32::from(parts) * 16)
    };
    assert!(!parts(1024));
    assert!(parts(1025));
}

/// Whether a request in an indirect table of so many bytes breaks the device.
fn indirect(slot: u64, entries: &[(u64, u32, u16, u16)], bytes: u32) -> bool {
    let mut machine = machine();
    let mut driver = Driver::start(&mut machine, slot);
    for (index, &entry) in (0..).zip(entries) {
        put_descriptor(&mut machine, ram(TABLE + 16 * index), entry);
    }
    driver.descriptor(&mut machine, 0, 0, (ram(TABLE).0, bytes, INDIRECT, 0));
    driver.offer(&mut machine, 0, 0);
    driver.notify(&mut machine, 0);
    driver.has_broken(&mut machine, slot)
}

#[test]
fn indirect_tables() {
    let at = ram(BUFFER).0;
    assert!(!indirect(ENTROPY, &[(at, 8, WRITE, 0)], 16));
    assert!(indirect(ENTROPY, &[(at, 8, WRITE, 0)], 15));
    assert!(indirect(ENTROPY, &[(at, 8, WRITE, 0)], 0));
    assert!(indirect(ENTROPY, &[(at, 8, WRITE | NEXT, 0)], 16));
    assert!(
        indirect(ENTROPY, &[(at, 8, WRITE | NEXT, 1)], 16),
        "past the table"
    );
    assert!(
        indirect(ENTROPY, &[(ram(TABLE).0, 16, INDIRECT, 0)], 16),
        "twice"
    );
    assert!(
        indirect(ENTROPY, &[(at, 8, WRITE, 0)], 16 << 16),
        "too many"
    );
    let outside = [(0, 16, INDIRECT, 0)];
    assert!(breaks(ENTROPY, &outside));
    assert!(breaks(ENTROPY, &[(u64::MAX - 3, 16, INDIRECT, 0)]));
}

#[test]
fn descriptors_in_the_wrong_order() {
    let at = ram(BUFFER).0;
    let mixed = [
        (at, 16, NEXT, 1),
        (at + 64, 1, WRITE | NEXT, 2),
        (at + 32, 16, 0, 0),
    ];
    assert!(breaks(DISK, &mixed));
}

#[test]
fn block_requests_without_room() {
    let at = ram(BUFFER).0;
    assert!(breaks(DISK, &[(at, 15, NEXT, 1), (at + 64, 1, WRITE, 0)]));
    assert!(breaks(DISK, &[(at, 16, 0, 0)]), "nowhere for the status");
    assert!(breaks(DISK, &[(at, 16, NEXT, 1), (at + 64, 0, WRITE, 0)]));
    assert!(breaks(DISK, &[(at, 1, WRITE, 0)]), "no header");
    assert!(!breaks(DISK, &[(at, 16, NEXT, 1), (at + 64, 1, WRITE, 0)]));
}

#[test]
fn heads_that_are_no_descriptors() {
    for head in [SIZE, 0x100, u16::MAX] {
        let mut machine = machine();
        let mut driver = Driver::start(&mut machine, ENTROPY);
        driver.offer(&mut machine, 0, head);
        driver.notify(&mut machine, 0);
        assert!(driver.has_broken(&mut machine, ENTROPY), "{head}");
    }
}

#[test]
fn more_requests_than_a_queue_has_room_for() {
    for (index, expected) in [(SIZE, false), (SIZE + 1, true), (u16::MAX, true)] {
        let mut machine = machine();
        let driver = Driver::start(&mut machine, ENTROPY);
        driver.descriptor(&mut machine, 0, 0, (ram(BUFFER).0, 8, WRITE, 0));
        let at = driver.available(0) + 2;
        put(&mut machine, at, &index.to_le_bytes());
        driver.notify(&mut machine, 0);
        assert_eq!(driver.has_broken(&mut machine, ENTROPY), expected);
    }
}

#[test]
fn a_console_that_receives_into_nothing() {
    let mut machine = machine();
    let mut driver = Driver::start(&mut machine, 1);
    driver.queue(&mut machine, 0, 0, &[Part::Give(BUFFER, b"not writable")]);
    driver.notify(&mut machine, 0);
    machine.push_input(1, b"x");
    assert!(driver.has_broken(&mut machine, 1));
}

#[test]
fn rings_outside_ram() {
    let end = ram(RAM_BYTES).0;
    for (register, addr) in [
        (QUEUE_DESCRIPTORS, end - 16 * u64::from(SIZE) + 16),
        (QUEUE_AVAILABLE, end - 4),
        (QUEUE_USED, end - 8),
        (QUEUE_USED, 0),
        (QUEUE_DESCRIPTORS, u64::MAX << 4),
        (QUEUE_AVAILABLE, u64::MAX << 1),
        (QUEUE_USED, u64::MAX << 2),
    ] {
        let mut machine = machine();
        let mut driver = Driver::start(&mut machine, ENTROPY);
        driver.store(&mut machine, QUEUE_SELECT, 0);
        driver.store(&mut machine, QUEUE_READY, 0);
        driver.store(&mut machine, register, addr as u32);
        driver.store(&mut machine, register + 4, (addr >> 32) as u32);
        driver.store(&mut machine, QUEUE_READY, 1);
        driver.queue(&mut machine, 0, 0, &[Part::Take(BUFFER, 8)]);
        driver.notify(&mut machine, 0);
        assert!(driver.has_broken(&mut machine, ENTROPY), "{addr:#x}");
    }
}

#[test]
fn queues_of_an_impossible_shape() {
    for (register, value) in [
        (QUEUE_SIZE, 0),
        (QUEUE_SIZE, 3),
        (QUEUE_SIZE, 512),
        (QUEUE_SIZE, 1 << 16 | 8),
        (QUEUE_DESCRIPTORS, 0x8000_0008),
        (QUEUE_AVAILABLE, 0x8000_0001),
        (QUEUE_USED, 0x8000_0002),
    ] {
        let mut machine = machine();
        let driver = Driver::start(&mut machine, ENTROPY);
        driver.store(&mut machine, QUEUE_SELECT, 0);
        driver.store(&mut machine, QUEUE_READY, 0);
        driver.store(&mut machine, register, value);
        assert!(driver.has_broken(&mut machine, ENTROPY), "{value:#x}");
    }
}

#[test]
fn a_request_that_makes_the_device_write_its_own_ring() {
    // Random bytes fall on descriptors and rings, index included; the device serves what was there
    // when it was notified, or stops.
    let (mut broke, mut served) = (0, 0);
    for seed in 0..200 {
        let mut machine = machine_with(|config| (config.seed, config.entropy) = (seed, true));
        let mut driver = Driver::start(&mut machine, 0);
        let rings = driver.rings(0);
        let target = [rings, driver.available(0), driver.used_ring(0)][seed as usize % 3];
        for head in 0..SIZE {
            driver.descriptor(&mut machine, 0, head, (ram(target).0, 64, WRITE, 0));
            driver.offer(&mut machine, 0, head);
        }
        driver.notify(&mut machine, 0);
        if driver.load(&mut machine, STATUS) == RUNNING {
            served += 1;
        } else {
            broke += 1;
        }
    }
    assert!(broke > 0 && served > 0, "{broke} {served}");
}

#[test]
fn random_rings_do_no_harm() {
    let mut random = Random(99);
    let (mut broke, mut served) = (0, 0);
    for _ in 0..3000 {
        let mut machine = machine();
        let slot = random.below(3);
        let queue = random.below(2).min(u64::from(slot == 1));
        let driver = Driver::start(&mut machine, slot);
        for index in 0..SIZE {
            let addr = match random.below(8) {
                0 => random.below(u64::MAX),
                1 => ram(RAM_BYTES).0 - random.below(64),
                _ => ram(random.below(RAM_BYTES)).0,
            };
            let bytes = match random.below(6) {
                0 => random.below(1 << 32),
                1 => 16,
                _ => random.below(2048),
            };
            let flags = [0, NEXT, WRITE, NEXT | WRITE, NEXT, WRITE, INDIRECT, 7];
            let flags = flags[random.below(8) as usize];
            let next = random.below(u64::from(SIZE) + 2) as u16;
            driver.descriptor(
                &mut machine,
                queue,
                index,
                (addr, bytes as u32, flags, next),
            );
        }
        let ring = driver.available(queue);
        for entry in 0..u64::from(SIZE) {
            let head = random.below(u64::from(SIZE) + 1) as u16;
            put(&mut machine, ring + 4 + 2 * entry, &head.to_le_bytes());
        }
        let index = random.below(u64::from(SIZE) + 1) as u16;
        put(&mut machine, ring + 2, &index.to_le_bytes());
        machine.push_input(1, b"some input");
        driver.notify(&mut machine, queue);
        let used = get(&machine, driver.used_ring(queue) + 2, 2);
        served += u64::from(u16::from_le_bytes([used[0], used[1]]));
        broke += u64::from(driver.has_broken(&mut machine, slot));
        assert!(machine.load(ram(0), Width::D).is_ok());
    }
    assert!(broke > 500 && served > 500, "{broke} {served}");
}
