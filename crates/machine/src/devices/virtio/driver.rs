//! A driver for tests: what a guest does with the registers and rings of a device, and what a guest
//! should not do.

use loiter_isa::Width;
use loiter_types::{HartId, PhysAddr};

use crate::testing::{config, ram};
use crate::{Machine, MachineConfig};

pub(crate) const STATUS: u64 = 0x70;
pub(crate) const QUEUE_SELECT: u64 = 0x30;
pub(crate) const QUEUE_SIZE: u64 = 0x38;
pub(crate) const QUEUE_READY: u64 = 0x44;
pub(crate) const QUEUE_NOTIFY: u64 = 0x50;
pub(crate) const QUEUE_DESCRIPTORS: u64 = 0x80;
pub(crate) const QUEUE_AVAILABLE: u64 = 0x90;
pub(crate) const QUEUE_USED: u64 = 0xa0;
pub(crate) const INTERRUPT_STATUS: u64 = 0x60;
pub(crate) const INTERRUPT_ACK: u64 = 0x64;

pub(crate) const NEEDS_RESET: u32 = 64;
pub(crate) const RUNNING: u32 = 15;

pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

/// Descriptors of a queue.
pub(crate) const SIZE: u16 = 8;
/// Distance of the rings of two queues.
const QUEUE_BYTES: u64 = 0x1000;
const AVAILABLE: u64 = 0x400;
const USED: u64 = 0x800;

const EVENT_IDX: u64 = 1 << 29;
const HART: HartId = HartId(0);

/// A part of a request.
pub(crate) enum Part<'a> {
    /// Bytes for the device, which are put at an offset of RAM.
    Give(u64, &'a [u8]),
    /// Room for the device to write to.
    Take(u64, u32),
}

#[derive(Clone)]
pub(crate) struct Driver {
    pub(crate) base: u64,
    /// Where in RAM the rings lie.
    rings: u64,
    /// By queue: the next index of the available ring, and of the used one.
    available: Vec<u16>,
    used: Vec<u16>,
}

pub(crate) fn machine_with(change: impl FnOnce(&mut MachineConfig)) -> Machine {
    let mut config = config();
    change(&mut config);
    Machine::new(&config).unwrap()
}

impl Driver {
    /// A driver that has done nothing yet, for the device in `slot`.
    pub(crate) fn idle(slot: u64) -> Self {
        Self {
            base: 0x1000_1000 + slot * 0x1000,
            rings: slot * 4 * QUEUE_BYTES,
            available: Vec::new(),
            used: Vec::new(),
        }
    }

    /// Sets the device up with every feature but the hints of when to notify.
    pub(crate) fn start(machine: &mut Machine, slot: u64) -> Self {
        Self::start_with(machine, slot, !EVENT_IDX)
    }

    /// Sets the device up with those of its features that are in `wanted`.
    pub(crate) fn start_with(machine: &mut Machine, slot: u64, wanted: u64) -> Self {
        let mut driver = Self::idle(slot);
        assert_eq!(driver.load(machine, 0), 0x7472_6976);
        assert_eq!(driver.load(machine, 4), 2);
        driver.store(machine, STATUS, 0);
        driver.store(machine, STATUS, 1);
        driver.store(machine, STATUS, 3);
        for page in 0..2 {
            driver.store(machine, 0x14, page);
            driver.store(machine, 0x24, page);
            let features = driver.load(machine, 0x10) & (wanted >> (32 * page)) as u32;
            driver.store(machine, 0x20, features);
        }
        driver.store(machine, STATUS, 11);
        assert_eq!(driver.load(machine, STATUS), 11, "features are agreed on");
        for queue in 0_u32.. {
            driver.store(machine, QUEUE_SELECT, queue);
            if driver.load(machine, 0x34) == 0 {
                break;
            }
            driver.set_up_queue(machine, u64::from(queue));
        }
        assert!(!driver.used.is_empty());
        driver.store(machine, STATUS, RUNNING);
        driver
    }

    fn set_up_queue(&mut self, machine: &mut Machine, queue: u64) {
        let rings = ram(self.rings(queue)).0;
        machine
            .ram
            .slice_mut(PhysAddr(rings), QUEUE_BYTES)
            .unwrap()
            .fill(0);
        self.store(machine, QUEUE_SIZE, SIZE.into());
        for (register, addr) in [
            (QUEUE_DESCRIPTORS, rings),
            (QUEUE_AVAILABLE, rings + AVAILABLE),
            (QUEUE_USED, rings + USED),
        ] {
            self.store(machine, register, addr as u32);
            self.store(machine, register + 4, (addr >> 32) as u32);
        }
        self.store(machine, QUEUE_READY, 1);
        self.available.push(0);
        self.used.push(0);
    }

    /// Offset in RAM of the descriptors of a queue.
    pub(crate) fn rings(&self, queue: u64) -> u64 {
        self.rings + queue * QUEUE_BYTES
    }

    pub(crate) fn available(&self, queue: u64) -> u64 {
        self.rings(queue) + AVAILABLE
    }

    pub(crate) fn used_ring(&self, queue: u64) -> u64 {
        self.rings(queue) + USED
    }

    pub(crate) fn load(&self, machine: &mut Machine, register: u64) -> u32 {
        let addr = PhysAddr(self.base + register);
        machine.load(addr, Width::W).unwrap() as u32
    }

    pub(crate) fn store(&self, machine: &mut Machine, register: u64, value: u32) {
        let addr = PhysAddr(self.base + register);
        machine.store(HART, addr, Width::W, value.into()).unwrap();
    }

    pub(crate) fn descriptor(
        &self,
        machine: &mut Machine,
        queue: u64,
        index: u16,
        (addr, bytes, flags, next): (u64, u32, u16, u16),
    ) {
        let at = ram(self.rings(queue) + 16 * u64::from(index));
        put_descriptor(machine, at, (addr, bytes, flags, next));
    }

    /// Makes the chain that begins at `head` available, without notifying.
    pub(crate) fn offer(&mut self, machine: &mut Machine, queue: u64, head: u16) {
        let index = &mut self.available[queue as usize];
        let entry = u64::from(*index % SIZE);
        *index = index.wrapping_add(1);
        let index = *index;
        let ring = self.available(queue);
        put(machine, ring + 4 + 2 * entry, &head.to_le_bytes());
        put(machine, ring + 2, &index.to_le_bytes());
    }

    pub(crate) fn notify(&self, machine: &mut Machine, queue: u64) {
        self.store(machine, QUEUE_NOTIFY, queue as u32);
    }

    /// Makes a request available, whose descriptors begin at `head`.
    pub(crate) fn queue(&mut self, machine: &mut Machine, queue: u64, head: u16, parts: &[Part]) {
        let last = head + parts.len() as u16 - 1;
        for (index, part) in (head..).zip(parts) {
            let more = if index < last { NEXT } else { 0 };
            let descriptor = match *part {
                Part::Give(at, bytes) => {
                    put(machine, at, bytes);
                    (ram(at).0, bytes.len() as u32, more, index + 1)
                }
                Part::Take(at, bytes) => (ram(at).0, bytes, more | WRITE, index + 1),
            };
            self.descriptor(machine, queue, index, descriptor);
        }
        self.offer(machine, queue, head);
    }

    /// Makes a request and notifies the device; returns how many bytes it says to have written.
    pub(crate) fn request(&mut self, machine: &mut Machine, queue: u64, parts: &[Part]) -> u32 {
        self.queue(machine, queue, 0, parts);
        self.notify(machine, queue);
        let (head, written) = self.take_used(machine, queue).expect("an answer");
        assert_eq!(head, 0);
        written
    }

    /// The next request that the device has used: its head, and the bytes written.
    pub(crate) fn take_used(&mut self, machine: &mut Machine, queue: u64) -> Option<(u32, u32)> {
        let ring = self.used_ring(queue);
        let next = &mut self.used[queue as usize];
        let index = machine.load(ram(ring + 2), Width::H).unwrap() as u16;
        if *next == index {
            return None;
        }
        let entry = ram(ring + 4 + 8 * u64::from(*next % SIZE));
        *next = next.wrapping_add(1);
        let word = machine.load(entry, Width::D).unwrap();
        Some((word as u32, (word >> 32) as u32))
    }

    /// Whether the device asks to be reset; if so, that it has said so by interrupt and to the user,
    /// and that it works again after a reset.
    pub(crate) fn has_broken(&self, machine: &mut Machine, slot: u64) -> bool {
        if self.load(machine, STATUS) & NEEDS_RESET == 0 {
            assert!(machine.take_messages().is_empty());
            return false;
        }
        assert_eq!(self.load(machine, INTERRUPT_STATUS) & 2, 2);
        let messages = machine.take_messages();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].contains("until it is reset"), "{messages:?}");
        self.notify(machine, 0);
        assert!(machine.take_messages().is_empty(), "it is silent now");
        Self::start(machine, slot);
        true
    }
}

/// Puts bytes at an offset of RAM.
pub(crate) fn put(machine: &mut Machine, offset: u64, bytes: &[u8]) {
    let target = machine.ram.slice_mut(ram(offset), bytes.len() as u64);
    target.unwrap().copy_from_slice(bytes);
}

/// The bytes at an offset of RAM.
pub(crate) fn get(machine: &Machine, offset: u64, bytes: u64) -> Vec<u8> {
    machine.ram.slice(ram(offset), bytes).unwrap().to_vec()
}

pub(crate) fn put_descriptor(
    machine: &mut Machine,
    at: PhysAddr,
    (addr, bytes, flags, next): (u64, u32, u16, u16),
) {
    let mut descriptor = addr.to_le_bytes().to_vec();
    descriptor.extend(bytes.to_le_bytes());
    descriptor.extend([flags, next].map(u16::to_le_bytes).concat());
    let target = machine.ram.slice_mut(at, 16).unwrap();
    target.copy_from_slice(&descriptor);
}
