//! Devices that were saved and restored while they were in use, beside those that were not.

use serde_bytes::ByteBuf;

use super::{SavedKind, SavedVirtio};
use crate::devices::virtio::driver::{Driver, Part, get};
use crate::snapshot::StateHasher;
use crate::testing::{Random, config};
use crate::{DiskConfig, Machine, MachineConfig, Network};

const DISK: usize = 0;
const CONSOLE: usize = 1;
const NET: usize = 2;
const ENTROPY: usize = 3;
const DISK_SECTORS: u64 = 64;
const BUFFERS: u64 = 0x8_0000;

fn configuration() -> MachineConfig {
    MachineConfig {
        disks: vec![DiskConfig {
            bytes: Some(DISK_SECTORS * 512),
            ..DiskConfig::default()
        }],
        ports: 1,
        network: Some(Network::Wire),
        entropy: true,
        seed: 5,
        ..config()
    }
}

/// A machine and the drivers of its guest.
struct Guest {
    machine: Machine,
    drivers: Vec<Driver>,
}

impl Guest {
    fn new() -> Self {
        let mut machine = Machine::new(&configuration()).unwrap();
        let drivers = (0..4).map(|slot| Driver::start(&mut machine, slot));
        Self {
            drivers: drivers.collect(),
            machine,
        }
    }

    fn saved_and_restored(&self) -> Self {
        let mut machine = Machine::new(&configuration()).unwrap();
        let ram = self.machine.ram.as_slice();
        machine.ram.as_mut_slice().copy_from_slice(ram);
        let bytes = rmp_serde::to_vec_named(&self.machine.save()).unwrap();
        machine
            .restore(&rmp_serde::from_slice(&bytes).unwrap())
            .unwrap();
        Self {
            machine,
            drivers: self.drivers.clone(),
        }
    }

    fn hash(&self) -> String {
        let mut hasher = StateHasher::new();
        hasher.state("machine", &self.machine.save()).unwrap();
        hasher.ram(self.machine.ram_of(0));
        hasher.finish().to_string()
    }

    /// Does what the numbers say; returns what the guest and the user see of it.
    fn step(&mut self, random: &mut Random) -> String {
        let (choice, value) = (random.below(11), random.below(1 << 32));
        let bytes = (value % 3000) as u32;
        let machine = &mut self.machine;
        match choice {
            0 | 1 => {
                let mut header = [choice as u32, 0].map(u32::to_le_bytes).concat();
                header.extend((value % DISK_SECTORS).to_le_bytes());
                let data = vec![value as u8; 1024];
                let part = match choice {
                    0 => Part::Take(BUFFERS + 0x1000, 1024),
                    _ => Part::Give(BUFFERS + 0x1000, &data),
                };
                let status = Part::Take(BUFFERS + 0x100, 1);
                let parts = [Part::Give(BUFFERS, &header), part, status];
                self.drivers[DISK].request(machine, 0, &parts);
            }
            2 => {
                let parts = [Part::Take(BUFFERS + 0x2000, bytes)];
                let driver = &mut self.drivers[ENTROPY];
                driver.queue(machine, 0, 0, &parts);
                driver.notify(machine, 0);
                while driver.take_used(machine, 0).is_some() {}
            }
            3 => {
                let text = vec![value as u8; bytes as usize];
                let parts = [Part::Give(BUFFERS + 0x3000, &text)];
                self.drivers[CONSOLE].request(machine, 1, &parts);
            }
            4 => machine.push_input(1, &value.to_le_bytes()),
            5 => {
                let parts = [Part::Take(BUFFERS + 0x4000, 16 + bytes % 8)];
                let driver = &mut self.drivers[CONSOLE];
                // As many as the driver can have waiting.
                if driver.take_used(machine, 0).is_some() || value & 7 == 0 {
                    driver.queue(machine, 0, 0, &parts);
                    driver.notify(machine, 0);
                }
            }
            8 => machine.push_frame(vec![value as u8; bytes as usize]),
            9 => {
                let parts = [Part::Give(BUFFERS, &value.to_le_bytes().repeat(9))];
                self.drivers[NET].request(machine, 1, &parts);
            }
            10 => {
                let parts = [Part::Take(BUFFERS + 0x4000, 1526)];
                let driver = &mut self.drivers[NET];
                if driver.take_used(machine, 0).is_some() || value & 7 == 0 {
                    driver.queue(machine, 0, 0, &parts);
                    driver.notify(machine, 0);
                }
            }
            6 if value & 15 == 0 => {
                let slot = value >> 8 & 1;
                self.drivers[slot as usize] = Driver::start(machine, slot);
            }
            _ => {
                // A request that is ready, but of which the device does not know yet.
                let parts = [Part::Take(BUFFERS + 0x5000, 8)];
                let driver = &mut self.drivers[ENTROPY];
                driver.queue(machine, 0, 4, &parts);
                if value & 1 != 0 {
                    driver.notify(machine, 0);
                }
                while driver.take_used(machine, 0).is_some() {}
            }
        }
        let seen = get(machine, BUFFERS, 0x6000);
        let output = machine.take_output(1);
        let frames = match value & 7 {
            0 => machine.take_frames(),
            _ => Vec::new(),
        };
        let generation = machine.interrupt_generation();
        format!("{generation} {seen:?} {output:?} {frames:?}")
    }
}

#[test]
fn a_restored_device_continues_as_the_original() {
    for seed in 1..=5 {
        let mut random = Random(seed);
        let mut original = Guest::new();
        for _ in 0..random.below(100) {
            original.step(&mut random);
        }
        let mut restored = original.saved_and_restored();
        assert_eq!(restored.hash(), original.hash());
        let offset = original.machine.interrupt_generation() as i64
            - restored.machine.interrupt_generation() as i64;
        let mut again = Random(random.0);
        for step in 0..100 {
            let expected = original.step(&mut random);
            let seen = restored.step(&mut again);
            let tail = |seen: &str| seen.split_once(' ').unwrap().1.to_owned();
            assert_eq!(tail(&seen), tail(&expected), "seed {seed}, step {step}");
            let now = original.machine.interrupt_generation() as i64
                - restored.machine.interrupt_generation() as i64;
            assert_eq!(now, offset, "as many changes of interrupts");
            assert_eq!(restored.hash(), original.hash());
        }
    }
}

#[test]
fn what_users_have_not_yet_read_is_no_state() {
    let mut guest = Guest::new();
    let before = guest.machine.save();
    let parts = [Part::Give(BUFFERS, b"text")];
    guest.drivers[CONSOLE].request(&mut guest.machine, 1, &parts);
    let said = guest.hash();
    assert_eq!(guest.machine.take_output(1), b"text");
    assert_eq!(guest.hash(), said);
    guest.machine.restore(&before).unwrap();
}

fn refuse(change: impl FnOnce(&mut SavedVirtio), slot: usize) -> String {
    let mut guest = Guest::new();
    let mut saved = guest.machine.platforms[0].devices.virtio[slot].save();
    change(&mut saved);
    let device = &mut guest.machine.platforms[0].devices.virtio[slot];
    device.restore(&saved).unwrap_err()
}

#[test]
fn states_that_cannot_be_are_refused() {
    let entropy = Guest::new().machine.platforms[0].devices.virtio[ENTROPY]
        .save()
        .kind;
    let other = refuse(|saved| saved.kind = entropy, DISK);
    assert_eq!(other, "another device where disk vda is here");
    let queues = refuse(|saved| saved.queues.truncate(1), CONSOLE);
    assert_eq!(queues, "1 queues of virtio console hvc0");
    for size in [0, 3, 512] {
        let size = refuse(|saved| saved.queues[0].size = size, CONSOLE);
        assert!(size.starts_with("a virtio queue that cannot be"), "{size}");
    }
    let misaligned = refuse(|saved| saved.queues[0].descriptors = 8, DISK);
    assert!(misaligned.starts_with("a virtio queue"), "{misaligned}");

    let block = |number, bytes| {
        let change = |saved: &mut SavedVirtio| match &mut saved.kind {
            SavedKind::Block { overlay, .. } => {
                overlay.insert(number, ByteBuf::from(vec![1; bytes]));
            }
            _ => unreachable!(),
        };
        refuse(change, DISK)
    };
    assert_eq!(block(8, 4096), "disk vda: block 8 of 4096 bytes cannot be");
    assert_eq!(block(0, 4095), "disk vda: block 0 of 4095 bytes cannot be");
}

#[test]
fn machines_with_other_devices_are_refused() {
    let saved = Guest::new().machine.save();
    let refuse = |change: fn(&mut MachineConfig)| {
        let mut config = configuration();
        change(&mut config);
        Machine::new(&config).unwrap().restore(&saved).unwrap_err()
    };
    let fewer = refuse(|config| config.ports = 0);
    assert_eq!(fewer, "4 virtio devices, where there are 3");
    let larger = refuse(|config| config.disks[0].bytes = Some(1 << 20));
    assert_eq!(larger, "disk vda had 32768 bytes and has 1048576 here");
    let other = refuse(|config| (config.ports, config.network) = (2, None));
    assert_eq!(other, "another device where virtio console hvc1 is here");
}
