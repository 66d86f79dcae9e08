use loiter_isa::Width;
use loiter_types::{HartId, PhysAddr};

use super::driver::{
    Driver, INTERRUPT_ACK, INTERRUPT_STATUS, Part, QUEUE_NOTIFY, QUEUE_READY, QUEUE_SELECT,
    QUEUE_SIZE, RUNNING, STATUS, get, machine_with, put,
};
use crate::testing::{Random, ram};
use crate::{Machine, MachineError};

const HART: HartId = HartId(0);
const BUFFER: u64 = 0x8_0000;
const SEND: u64 = 1;
const RECEIVE: u64 = 0;

/// Two consoles in slots 0 and 1, an entropy source in slot 2.
fn machine() -> Machine {
    machine_with(|config| (config.ports, config.entropy) = (2, true))
}

/// Pending interrupts at the interrupt controller.
fn pending(machine: &mut Machine) -> u64 {
    machine.load(PhysAddr(0xc00_1000), Width::W).unwrap()
}

#[test]
fn what_the_guest_says_comes_out_of_its_port() {
    let mut machine = machine();
    let mut first = Driver::start(&mut machine, 0);
    let mut second = Driver::start(&mut machine, 1);
    let written = first.request(&mut machine, SEND, &[Part::Give(BUFFER, b"hello, ")]);
    assert_eq!(written, 0);
    let parts = [Part::Give(BUFFER, b"wor"), Part::Give(BUFFER + 9, b"ld")];
    first.request(&mut machine, SEND, &parts);
    second.request(&mut machine, SEND, &[Part::Give(BUFFER, b"other")]);
    assert_eq!(machine.take_output(1), b"hello, world");
    assert_eq!(machine.take_output(1), b"");
    assert_eq!(machine.take_output(2), b"other");
    assert_eq!(machine.take_output(3), b"", "there is none");
    assert_eq!(machine.take_output(0), b"");
}

#[test]
fn typed_bytes_wait_for_buffers_and_buffers_for_bytes() {
    let mut machine = machine();
    machine.push_input(2, b"abc");
    let mut driver = Driver::start(&mut machine, 1);
    driver.queue(&mut machine, RECEIVE, 0, &[Part::Take(BUFFER, 2)]);
    driver.notify(&mut machine, RECEIVE);
    assert_eq!(driver.take_used(&mut machine, RECEIVE), Some((0, 2)));
    assert_eq!(get(&machine, BUFFER, 2), b"ab");
    let parts = [Part::Take(BUFFER, 1), Part::Take(BUFFER + 8, 100)];
    driver.queue(&mut machine, RECEIVE, 1, &parts);
    driver.queue(&mut machine, RECEIVE, 3, &[Part::Take(BUFFER + 200, 1)]);
    driver.notify(&mut machine, RECEIVE);
    assert_eq!(driver.take_used(&mut machine, RECEIVE), Some((1, 1)));
    assert_eq!(driver.take_used(&mut machine, RECEIVE), None);
    machine.push_input(2, b"de");
    assert_eq!(driver.take_used(&mut machine, RECEIVE), Some((3, 1)));
    machine.push_input(1, b"not here");
    machine.push_input(7, b"nowhere");
    driver.queue(&mut machine, RECEIVE, 0, &[Part::Take(BUFFER, 9)]);
    driver.notify(&mut machine, RECEIVE);
    assert_eq!(driver.take_used(&mut machine, RECEIVE), Some((0, 1)));
    assert_eq!(get(&machine, BUFFER, 1), b"e");
}

#[test]
fn random_numbers_follow_from_the_seed() {
    let numbers = |seed, parts: &[u32]| {
        let mut machine = machine_with(|config| (config.seed, config.entropy) = (seed, true));
        let mut driver = Driver::start(&mut machine, 0);
        let mut numbers = Vec::new();
        for &bytes in parts {
            let written = driver.request(&mut machine, 0, &[Part::Take(BUFFER, bytes)]);
            assert_eq!(written, bytes);
            numbers.extend(get(&machine, BUFFER, bytes.into()));
        }
        numbers
    };
    let once = numbers(1, &[10_000]);
    assert_eq!(once, numbers(1, &[10_000]));
    assert_ne!(once, numbers(2, &[10_000]));
    assert_eq!(once, numbers(1, &[4096, 4, 5900]), "one stream");
    let ones: u32 = once.iter().map(|byte| byte.count_ones()).sum();
    assert!((39_000..41_000).contains(&ones), "{ones} of 80,000 bits");
}

#[test]
fn what_devices_write_breaks_watches() {
    let mut machine = machine();
    let mut driver = Driver::start(&mut machine, 2);
    machine.watches.arm(HART, ram(BUFFER + 64));
    driver.request(&mut machine, 0, &[Part::Take(BUFFER, 64)]);
    assert!(machine.watches.is_held(HART, ram(BUFFER + 64)));
    driver.request(&mut machine, 0, &[Part::Take(BUFFER, 65)]);
    assert!(!machine.watches.is_held(HART, ram(BUFFER + 64)));
    let used = ram(driver.used_ring(0) + 2);
    machine.watches.arm(HART, used);
    driver.request(&mut machine, 0, &[Part::Take(BUFFER, 1)]);
    assert!(!machine.watches.is_held(HART, used), "rings are RAM too");
}

#[test]
fn a_used_request_interrupts_until_acknowledged() {
    let mut machine = machine();
    let mut driver = Driver::start(&mut machine, 1);
    assert_eq!(driver.load(&mut machine, INTERRUPT_STATUS), 0);
    assert_eq!(pending(&mut machine), 0);
    driver.request(&mut machine, SEND, &[Part::Give(BUFFER, b"x")]);
    assert_eq!(driver.load(&mut machine, INTERRUPT_STATUS), 1);
    assert_eq!(pending(&mut machine), 1 << 2);
    // Claimed, acknowledged, completed: it is quiet.
    machine
        .store(HART, PhysAddr(0xc00_0008), Width::W, 1)
        .unwrap();
    machine
        .store(HART, PhysAddr(0xc00_2000), Width::W, 4)
        .unwrap();
    let claim = PhysAddr(0xc20_0004);
    assert_eq!(machine.interrupt_lines(HART), 1 << 11);
    assert_eq!(machine.load(claim, Width::W), Ok(2));
    driver.store(&mut machine, INTERRUPT_ACK, 1);
    machine.store(HART, claim, Width::W, 2).unwrap();
    assert_eq!(driver.load(&mut machine, INTERRUPT_STATUS), 0);
    assert_eq!(machine.interrupt_lines(HART), 0);
}

#[test]
fn a_driver_that_says_when_to_interrupt_is_heeded() {
    let mut machine = machine();
    let mut driver = Driver::start_with(&mut machine, 0, u64::MAX);
    // The last word of the available ring: interrupt once this request is used.
    let used_event = driver.available(SEND) + 4 + 2 * 8;
    put(&mut machine, used_event, &2_u16.to_le_bytes());
    for expected in [0, 0, 1] {
        driver.request(&mut machine, SEND, &[Part::Give(BUFFER, b"x")]);
        assert_eq!(driver.load(&mut machine, INTERRUPT_STATUS), expected);
    }
    // The last word of the used ring: notify with this request.
    let available_event = driver.used_ring(SEND) + 4 + 8 * 8;
    assert_eq!(get(&machine, available_event, 2), 3_u16.to_le_bytes());
}

#[test]
fn features_must_be_offered_and_include_the_version() {
    let mut machine = machine();
    let driver = Driver::idle(0);
    for (low, high, agreed) in [
        (0, 1, true),
        (1 << 29, 1, true),
        (0, 0, false),
        (1 << 3, 1, false),
        (0, 1 | 1 << 2, false),
    ] {
        driver.store(&mut machine, STATUS, 0);
        driver.store(&mut machine, STATUS, 3);
        for (page, features) in [(0, low), (1, high), (2, u32::MAX)] {
            driver.store(&mut machine, 0x24, page);
            driver.store(&mut machine, 0x20, features);
        }
        driver.store(&mut machine, STATUS, 11);
        let status = driver.load(&mut machine, STATUS);
        assert_eq!(status == 11, agreed, "{low:#x} {high:#x}");
        assert_eq!(status & 3, 3);
    }
}

#[test]
fn agreed_features_stay() {
    let mut machine = machine();
    let driver = Driver::start(&mut machine, 0);
    driver.store(&mut machine, 0x24, 1);
    driver.store(&mut machine, 0x20, 0xff);
    driver.store(&mut machine, STATUS, RUNNING);
    assert_eq!(driver.load(&mut machine, STATUS), RUNNING);
}

#[test]
fn registers_of_a_device_without_a_driver() {
    let mut machine = machine();
    for (slot, id, queues) in [(0, 3, 2), (1, 3, 2), (2, 4, 1)] {
        let driver = Driver::idle(slot);
        assert_eq!(driver.load(&mut machine, 0x08), id);
        for queue in 0..4 {
            driver.store(&mut machine, QUEUE_SELECT, queue);
            let size = if queue < queues { 256 } else { 0 };
            assert_eq!(driver.load(&mut machine, 0x34), size);
            assert_eq!(driver.load(&mut machine, QUEUE_READY), 0);
        }
        for page in [2, u32::MAX] {
            driver.store(&mut machine, 0x14, page);
            assert_eq!(driver.load(&mut machine, 0x10), 0);
        }
        assert_eq!(
            driver.load(&mut machine, 0xb0),
            u32::MAX,
            "no shared memory"
        );
        assert_eq!(driver.load(&mut machine, 0x1fc), 0);
        for width in [Width::B, Width::H, Width::D] {
            let at = PhysAddr(driver.base);
            assert!(machine.load(at, width).is_err());
            assert!(machine.store(HART, at, width, 0).is_err());
        }
    }
    let absent = PhysAddr(Driver::idle(3).base);
    assert!(machine.load(absent, Width::W).is_err());
    assert!(machine.store(HART, absent, Width::W, 0).is_err());
}

#[test]
fn nothing_is_served_before_the_driver_is_ready() {
    let mut machine = machine();
    let mut driver = Driver::start(&mut machine, 0);
    driver.queue(&mut machine, SEND, 0, &[Part::Give(BUFFER, b"x")]);
    driver.store(&mut machine, STATUS, 0);
    driver.store(&mut machine, STATUS, 3);
    driver.notify(&mut machine, SEND);
    assert_eq!(driver.take_used(&mut machine, SEND), None);
    assert_eq!(machine.take_output(1), b"");
}

#[test]
fn a_queue_that_is_not_ready_is_not_served_and_one_in_use_does_not_change() {
    let mut machine = machine();
    let mut driver = Driver::start(&mut machine, 0);
    driver.store(&mut machine, QUEUE_SELECT, SEND as u32);
    driver.store(&mut machine, QUEUE_SIZE, 3);
    driver.queue(&mut machine, SEND, 0, &[Part::Give(BUFFER, b"x")]);
    driver.store(&mut machine, QUEUE_READY, 0);
    driver.notify(&mut machine, SEND);
    driver.notify(&mut machine, 17);
    driver.notify(&mut machine, 0xffff_ffff);
    assert_eq!(driver.take_used(&mut machine, SEND), None);
    driver.store(&mut machine, QUEUE_READY, 1);
    driver.notify(&mut machine, SEND);
    assert_eq!(driver.take_used(&mut machine, SEND), Some((0, 0)));
}

#[test]
fn a_reset_forgets_everything_but_what_was_typed() {
    let mut machine = machine();
    let mut driver = Driver::start(&mut machine, 0);
    driver.request(&mut machine, SEND, &[Part::Give(BUFFER, b"x")]);
    machine.push_input(1, b"typed");
    driver.store(&mut machine, STATUS, 0);
    assert_eq!(driver.load(&mut machine, STATUS), 0);
    assert_eq!(driver.load(&mut machine, INTERRUPT_STATUS), 0);
    driver.store(&mut machine, QUEUE_SELECT, 0);
    assert_eq!(driver.load(&mut machine, QUEUE_READY), 0);
    let mut driver = Driver::start(&mut machine, 0);
    driver.queue(&mut machine, RECEIVE, 0, &[Part::Take(BUFFER, 64)]);
    driver.notify(&mut machine, RECEIVE);
    assert_eq!(driver.take_used(&mut machine, RECEIVE), Some((0, 5)));
}

#[test]
fn as_many_devices_as_there_are_slots() {
    let mut machine = machine_with(|config| config.ports = 16);
    let mut driver = Driver::start(&mut machine, 15);
    driver.request(&mut machine, SEND, &[Part::Give(BUFFER, b"last")]);
    assert_eq!(machine.take_output(16), b"last");
    assert_eq!(pending(&mut machine), 1 << 19);
    let mut config = crate::testing::config();
    (config.ports, config.entropy) = (16, true);
    let refused = Machine::new(&config).unwrap_err();
    assert!(matches!(refused, MachineError::VirtioDevices(17)));
}

#[test]
fn random_register_accesses_do_no_harm() {
    let mut random = Random(3);
    let mut machine = machine_with(|config| {
        (config.ports, config.entropy) = (1, true);
        config.disks = vec![crate::DiskConfig {
            bytes: Some(1 << 20),
            ..Default::default()
        }];
    });
    let mut needed_resets = 0;
    for round in 0..20_000 {
        if round % 50 == 0 {
            (0..3).for_each(|slot| drop(Driver::start(&mut machine, slot)));
        }
        let slot = random.below(3);
        let driver = Driver::idle(slot);
        let register = match random.below(4) {
            0 => 4 * random.below(0x44),
            1 => QUEUE_READY,
            _ => {
                let queue = [QUEUE_SELECT, QUEUE_SIZE, 0x80, 0x84, 0x90, 0x94, 0xa0, 0xa4];
                queue[random.below(8) as usize]
            }
        };
        let value = match random.below(4) {
            _ if register == QUEUE_SELECT => random.below(3),
            0 => random.below(16),
            1 => 0x8000_0000 + 16 * random.below(1 << 16),
            2 => 1 << random.below(32),
            _ => random.below(1 << 32),
        };
        driver.store(&mut machine, register, value as u32);
        driver.load(&mut machine, 4 * random.below(0x44));
        driver.store(&mut machine, QUEUE_NOTIFY, random.below(3) as u32);
        needed_resets += machine.take_messages().len();
    }
    assert!(needed_resets > 100, "{needed_resets}");
}
