//! virtio devices with a hostile driver: good requests whose rings, descriptors and registers are
//! changed before the device is notified.
//!
//! Whatever it is given, a device writes only where a descriptor lets it write and into its used
//! ring, and tells of all it has written; after a reset it works.

use bolero::generator::produce_with;
use bolero::{TypeGenerator, check, produce};
use loiter_isa::Width;

use super::changes::Number;
use super::{Reached, TIME};
use crate::devices::virtio::driver::{
    Driver, INDIRECT, NEXT, Part, RUNNING, SIZE, STATUS, WRITE, machine_with, put, put_descriptor,
};
use crate::map::PAGE_BYTES;
use crate::testing::{RAM_BYTES, ram};
use crate::{DiskConfig, Machine, Network};

const DISK: u64 = 0;
const CONSOLE: u64 = 1;
const NETWORK: u64 = 2;
const SLOTS: u64 = 4;
/// Where a frame begins in a request.
const FRAME: usize = 12;
const DISK_BYTES: u64 = 64 << 10;
/// Where in RAM good requests have their buffers, and indirect tables lie; rings lie below.
const BUFFERS: u64 = 0x8_0000;
const TABLE: u64 = 0x9_0000;
const TABLE_ENTRIES: u64 = 8;
const RINGS_END: u64 = 0x4_0000;

/// "Who has 10.0.2.2?", which the gateway answers.
const ARP: [u8; 42] = *b"\xff\xff\xff\xff\xff\xff\x52\x54\x00\x12\x34\x56\x08\x06\
    \x00\x01\x08\x00\x06\x04\x00\x01\x52\x54\x00\x12\x34\x56\x0a\x00\x02\x0f\
    \x00\x00\x00\x00\x00\x00\x0a\x00\x02\x02";

/// What a driver does.
#[derive(Clone, Debug, TypeGenerator)]
enum Step {
    /// A request as it should be.
    Good {
        kind: u8,
        sector: u8,
        bytes: u16,
    },
    Descriptor {
        index: u8,
        descriptor: Descriptor,
    },
    Indirect {
        index: u8,
        descriptor: Descriptor,
    },
    /// An entry of the available ring.
    Available {
        entry: u8,
        head: u8,
    },
    /// The index of the available ring.
    Index(Number),
    Offer {
        head: u8,
    },
    Register {
        register: u8,
        value: Number,
    },
    /// Bytes of the rings.
    Poke {
        at: u16,
        value: u8,
    },
    /// Typed on the console, and a frame from the network.
    Type(u8),
    Notify,
}

#[derive(Clone, Debug, TypeGenerator)]
struct Descriptor {
    addr: Number,
    /// Whether `addr` counts from the buffers.
    near: bool,
    bytes: u16,
    huge: bool,
    flags: u8,
    next: u8,
}

#[derive(Clone, Debug, TypeGenerator)]
struct Session {
    slot: u8,
    queue: bool,
    #[generator(produce_with::<Vec<Step>>().len(1..12_usize))]
    steps: Vec<Step>,
}

impl Descriptor {
    fn values(&self) -> (u64, u32, u16, u16) {
        let addr = if self.near {
            ram(BUFFERS + self.addr.value(0) % 0x1_0000).0
        } else {
            self.addr.value(ram(RAM_BYTES).0)
        };
        let bytes = u32::from(self.bytes) << if self.huge { 16 } else { 0 };
        let flags = u16::from(self.flags) & (NEXT | WRITE | INDIRECT);
        // Mostly one of the table, now and then the first one beyond.
        (addr, bytes, flags, u16::from(self.next) % (SIZE + 1))
    }
}

/// A driver, its device, and all that the device may write.
struct Guest {
    machine: Machine,
    driver: Driver,
    slot: u64,
    queue: u64,
    /// First offset in RAM and number of bytes.
    allowed: Vec<(u64, u64)>,
    /// Whether the device may have changed what it reads: then the driver's descriptors say nothing.
    tangled: bool,
}

impl Guest {
    fn new(session: &Session) -> Self {
        let mut machine = machine_with(|config| {
            (config.ports, config.entropy) = (1, true);
            config.network = Some(Network::Gateway);
            config.disks = vec![DiskConfig {
                bytes: Some(DISK_BYTES),
                ..DiskConfig::default()
            }];
        });
        let slot = u64::from(session.slot) % SLOTS;
        let driver = Driver::start(&mut machine, slot);
        let queue = u64::from(session.queue && [CONSOLE, NETWORK].contains(&slot));
        let mut guest = Self {
            machine,
            driver,
            slot,
            queue,
            allowed: Vec::new(),
            tangled: false,
        };
        for queue in 0..2 {
            let used = guest.driver.used_ring(queue);
            // Flags, index, an element of eight bytes each, and the event.
            guest.allowed.push((used, 6 + 8 * u64::from(SIZE)));
        }
        guest
    }

    fn allow(&mut self, (addr, bytes, flags, _): (u64, u32, u16, u16)) {
        let offset = addr.wrapping_sub(ram(0).0);
        if flags & WRITE != 0 && offset < RAM_BYTES {
            self.allowed.push((offset, bytes.into()));
            let tables = TABLE..TABLE + 16 * TABLE_ENTRIES;
            self.tangled |= offset < RINGS_END
                || offset < tables.end && tables.start < offset + u64::from(bytes);
        }
    }

    fn good(&mut self, kind: u8, sector: u8, bytes: u16) {
        let bytes = u32::from(bytes % 2048);
        let take = Part::Take(BUFFERS + 64, bytes);
        self.allowed.push((BUFFERS + 64, 4096));
        let mut header = [0; 16];
        header[0] = kind % 12;
        header[8] = sector;
        let mut data = vec![sector; bytes as usize];
        if self.slot == NETWORK && bytes as usize >= FRAME + ARP.len() {
            data[FRAME..][..ARP.len()].copy_from_slice(&ARP);
        }
        let parts = match (self.slot, self.queue) {
            (DISK, _) if kind % 12 == 1 => vec![
                Part::Give(BUFFERS, &header),
                Part::Give(BUFFERS + 0x2000, &data),
                Part::Take(BUFFERS + 64, 1),
            ],
            (DISK, _) => vec![
                Part::Give(BUFFERS, &header),
                take,
                Part::Take(BUFFERS + 64 + 2048, 1),
            ],
            (CONSOLE | NETWORK, 1) => vec![Part::Give(BUFFERS + 0x2000, &data)],
            _ => vec![take],
        };
        self.driver.queue(&mut self.machine, self.queue, 0, &parts);
    }

    fn take(&mut self, step: &Step) {
        let Self {
            machine,
            driver,
            queue,
            ..
        } = self;
        match *step {
            Step::Good {
                kind,
                sector,
                bytes,
            } => self.good(kind, sector, bytes),
            Step::Descriptor {
                index,
                ref descriptor,
            } => {
                let (index, values) = (u16::from(index) % SIZE, descriptor.values());
                driver.descriptor(machine, *queue, index, values);
                self.allow(values);
            }
            Step::Indirect {
                index,
                ref descriptor,
            } => {
                let at = TABLE + 16 * (u64::from(index) % TABLE_ENTRIES);
                put_descriptor(machine, ram(at), descriptor.values());
                driver.descriptor(
                    machine,
                    *queue,
                    0,
                    (ram(TABLE).0, 16 * TABLE_ENTRIES as u32, INDIRECT, 0),
                );
                self.allow(descriptor.values());
            }
            Step::Available { entry, head } => {
                let at = driver.available(*queue) + 4 + 2 * u64::from(entry % SIZE as u8);
                put(
                    machine,
                    at,
                    &u16::from(head % (SIZE as u8 + 1)).to_le_bytes(),
                );
            }
            Step::Index(ref value) => {
                let at = driver.available(*queue) + 2;
                put(machine, at, &(value.value(0) as u16).to_le_bytes());
            }
            Step::Offer { head } => driver.offer(machine, *queue, (head % SIZE as u8).into()),
            Step::Register {
                register,
                ref value,
            } => {
                let register = u64::from(register) * 4 % 0x120;
                // Another queue, other rings: all over RAM.
                self.tangled = true;
                driver.store(machine, register, value.value(ram(0).0) as u32);
            }
            Step::Poke { at, value } => {
                self.tangled = true;
                put(machine, u64::from(at) % RINGS_END, &[value]);
            }
            Step::Type(bytes) => {
                let bytes = vec![b'x'; bytes.into()];
                machine.push_input(1, &bytes);
                machine.push_frame(bytes);
            }
            Step::Notify => self.notify(),
        }
    }

    /// Lets the device work, and asserts that it has written what it may, and told of it.
    fn notify(&mut self) {
        let machine = &mut self.machine;
        for page in 0..RAM_BYTES / PAGE_BYTES {
            machine.pages.mark_code(ram(page * PAGE_BYTES));
        }
        machine.pages.take_code_writes();
        let before = machine.ram.as_slice().to_vec();
        self.driver.notify(machine, self.queue);
        let told = machine.pages.take_code_writes();
        let told: Vec<_> = told
            .iter()
            .map(|write| (write.addr.0 - ram(0).0, write.bytes))
            .collect();
        let is_in = |ranges: &[(u64, u64)], at: u64| {
            ranges
                .iter()
                .any(|&(start, bytes)| (start..start.saturating_add(bytes)).contains(&at))
        };
        let after = machine.ram.as_slice();
        for page in 0..RAM_BYTES / PAGE_BYTES {
            let range = (page * PAGE_BYTES) as usize..((page + 1) * PAGE_BYTES) as usize;
            if before[range.clone()] == after[range.clone()] {
                continue;
            }
            for at in range.filter(|&at| before[at] != after[at]) {
                assert!(
                    is_in(&told, at as u64),
                    "nobody was told of a write at {at:#x}"
                );
                let allowed = self.tangled || is_in(&self.allowed, at as u64);
                assert!(allowed, "written at {at:#x}, where no descriptor allows it");
            }
        }
    }

    /// After a reset the device does what it should.
    fn works_after_reset(&mut self) {
        let Self { machine, slot, .. } = self;
        let mut driver = Driver::start(machine, *slot);
        assert_eq!(driver.load(machine, STATUS), RUNNING);
        let queue = u64::from([CONSOLE, NETWORK].contains(slot));
        let header = [0; 16];
        let parts = match *slot {
            DISK => vec![
                Part::Give(BUFFERS, &header),
                Part::Take(BUFFERS + 64, 512),
                Part::Take(BUFFERS + 1024, 1),
            ],
            CONSOLE | NETWORK => vec![Part::Give(BUFFERS, b"hello, whoever you are")],
            _ => vec![Part::Take(BUFFERS, 8)],
        };
        let written = driver.request(machine, queue, &parts);
        assert_eq!(written, [513, 0, 0, 8][*slot as usize]);
    }
}

#[test]
fn virtio() {
    let reached = Reached::default();
    while reached.wants_more() {
        check!()
            .with_test_time(TIME)
            .with_generator(produce::<Session>())
            .for_each(|session| {
                reached.input();
                let mut guest = Guest::new(session);
                for step in &session.steps {
                    guest.take(step);
                }
                guest.notify();
                let Guest {
                    machine,
                    driver,
                    queue,
                    ..
                } = &mut guest;
                let used = machine.load(ram(driver.used_ring(*queue) + 2), Width::H);
                if used.is_ok_and(|used| used != 0) {
                    reached.stage(0);
                }
                if driver.load(machine, STATUS) == RUNNING {
                    reached.stage(1);
                }
                if !guest.tangled {
                    reached.stage(2);
                }
                guest.works_after_reset();
            });
    }
    reached.assert(&[15, 30, 15]);
}
