//! Devices. One file each; a device knows offsets within its window, never addresses.
//!
//! A new device is a file here, a field of [`Devices`], and a line in `map.rs`.

mod clint;
mod finisher;
mod plic;
mod rtc;
mod uart;
pub(crate) mod virtio;

use loiter_isa::Width;
use vm_fdt::FdtWriter;

pub(crate) use clint::{Clint, MAX_HARTS};
pub(crate) use finisher::Finisher;
#[cfg(test)]
pub(crate) use plic::LAST_SOURCE;
pub(crate) use plic::Plic;
pub(crate) use rtc::Rtc;
pub(crate) use uart::{SavedUart, Uart};
pub use virtio::Network;
pub(crate) use virtio::{Block, Console, Dma, Entropy, Kind, Net, SavedVirtio, Virtio};

use crate::config::{MachineConfig, MachineError};
use crate::disk::Disk;
use crate::map::{
    DeviceId, RTC_INTERRUPT, UART_INTERRUPT, WINDOWS, Window, virtio_interrupt, virtio_window,
};

/// What every device does. Accesses are naturally aligned; `None` is an access fault.
pub(crate) trait Device {
    /// Reads a register; the value is zero-extended.
    fn load(&mut self, offset: u64, width: Width) -> Option<u64>;

    /// Writes a register with the low `width` bytes of `value`.
    fn store(&mut self, offset: u64, width: Width, value: u64) -> Option<()>;

    /// Emits the device's node, a child of `/soc`.
    fn describe(&self, tree: &mut FdtWriter, around: &Surroundings) -> Result<(), vm_fdt::Error>;
}

/// What a device needs to know of its surroundings to describe itself.
pub(crate) struct Surroundings<'a> {
    pub(crate) window: &'a Window,
    /// For each hart the handle of its interrupt controller.
    pub(crate) hart_interrupts: &'a [u32],
    /// Handle that the finisher's node has, for the power nodes that refer to it.
    pub(crate) finisher: u32,
    /// Handle of the interrupt controller of devices.
    pub(crate) plic: u32,
}

impl Surroundings<'_> {
    /// The node's full name.
    pub(crate) fn node(&self, name: &str) -> String {
        format!("{name}@{:x}", self.window.base)
    }

    /// The `reg` property: address and size in two cells each.
    pub(crate) fn reg(&self) -> [u64; 2] {
        [self.window.base, self.window.bytes]
    }

    /// The properties that say which interrupt is the device's.
    pub(crate) fn interrupt(&self, tree: &mut FdtWriter) -> Result<(), vm_fdt::Error> {
        let source = self.window.interrupt;
        tree.property_u32("interrupts", source.expect("the map gives it one"))?;
        tree.property_u32("interrupt-parent", self.plic)
    }
}

/// All devices of a machine.
pub(crate) struct Devices {
    pub(crate) finisher: Finisher,
    pub(crate) rtc: Rtc,
    pub(crate) clint: Clint,
    pub(crate) plic: Plic,
    pub(crate) uart: Uart,
    /// By slot: disks, consoles, network card, entropy source.
    pub(crate) virtio: Vec<Virtio>,
}

impl Devices {
    pub(crate) fn new(config: &MachineConfig) -> Result<Self, MachineError> {
        let mut virtio = Vec::new();
        for (number, disk) in config.disks.iter().enumerate() {
            let disk = Disk::open(disk)?;
            virtio.push(Kind::Block(Block::new(number, disk)));
        }
        virtio.extend((1..=config.ports).map(|port| Kind::Console(Console::new(port))));
        virtio.extend(config.network.map(|network| Kind::Net(Net::new(network))));
        if config.entropy {
            virtio.push(Kind::Entropy(Entropy::new(config.seed)));
        }
        Ok(Self {
            finisher: Finisher::default(),
            rtc: Rtc::new(config.timebase_hz, config.rtc_epoch_s),
            clint: Clint::new(config.harts),
            plic: Plic::new(config.harts),
            uart: Uart::new(),
            virtio: virtio.into_iter().map(Virtio::new).collect(),
        })
    }

    /// The windows of all devices that there are, in ascending order of addresses.
    pub(crate) fn windows(&self) -> impl Iterator<Item = Window> {
        WINDOWS
            .into_iter()
            .chain((0..self.virtio.len()).map(virtio_window))
    }

    /// A device that there is.
    pub(crate) fn get(&self, id: DeviceId) -> &dyn Device {
        match id {
            DeviceId::Virtio(slot) => &self.virtio[slot],
            DeviceId::Finisher => &self.finisher,
            DeviceId::Rtc => &self.rtc,
            DeviceId::Clint => &self.clint,
            DeviceId::Plic => &self.plic,
            DeviceId::Uart => &self.uart,
        }
    }

    fn get_mut(&mut self, id: DeviceId) -> Option<&mut dyn Device> {
        Some(match id {
            DeviceId::Virtio(slot) => self.virtio.get_mut(slot)?,
            DeviceId::Finisher => &mut self.finisher,
            DeviceId::Rtc => {
                self.rtc.set_ticks(self.clint.ticks());
                &mut self.rtc
            }
            DeviceId::Clint => &mut self.clint,
            DeviceId::Plic => &mut self.plic,
            DeviceId::Uart => &mut self.uart,
        })
    }

    /// Performs a load, with what follows from it.
    pub(crate) fn load(&mut self, id: DeviceId, offset: u64, width: Width) -> Option<u64> {
        let value = self.get_mut(id)?.load(offset, width);
        self.wire(id);
        value
    }

    /// Performs a store, with what follows from it.
    pub(crate) fn store(
        &mut self,
        id: DeviceId,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Option<()> {
        let stored = self.get_mut(id)?.store(offset, width, value);
        self.wire(id);
        stored
    }

    /// Types `bytes` on the serial console.
    pub(crate) fn push_serial_input(&mut self, bytes: &[u8]) {
        self.uart.push_input(bytes);
        self.wire(DeviceId::Uart);
    }

    /// Whether the program waits for input on the serial console.
    pub(crate) fn serial_is_read(&self) -> bool {
        self.uart.is_read()
    }

    /// The caller's time begins anew, at 0; the clocks go on where they stand.
    pub(crate) fn begin_time(&mut self) {
        self.rtc.set_ticks(self.clint.ticks());
        self.rtc.begin_time();
        self.clint.begin_time();
    }

    /// The time of the alarm has come.
    #[cold]
    pub(crate) fn alarm(&mut self) {
        self.rtc.set_ticks(self.clint.ticks());
        self.wire(DeviceId::Rtc);
    }

    /// Lets the virtio device in `slot` serve what waits for it.
    pub(crate) fn serve(&mut self, slot: usize, dma: &Dma) {
        self.virtio[slot].serve(dma);
        self.wire(DeviceId::Virtio(slot));
    }

    /// The slot of console `port`, which is 1 or more, and the console.
    pub(crate) fn console_mut(&mut self, port: usize) -> Option<(usize, &mut Console)> {
        let consoles = self.virtio.iter_mut().enumerate();
        consoles
            .filter_map(|(slot, virtio)| match &mut virtio.kind {
                Kind::Console(console) => Some((slot, console)),
                _ => None,
            })
            .nth(port.checked_sub(1)?)
    }

    /// What has been sent to virtio console `port`, counted from 1, and not been taken.
    pub(crate) fn console_output(&self, port: usize) -> &[u8] {
        let mut consoles = self.virtio.iter().filter_map(|virtio| match &virtio.kind {
            Kind::Console(console) => Some(&console.output[..]),
            _ => None,
        });
        let index = port.checked_sub(1);
        index
            .and_then(|index| consoles.nth(index))
            .unwrap_or_default()
    }

    /// Whether a virtio console has output.
    pub(crate) fn has_console_output(&self) -> bool {
        self.virtio.iter().any(
            |virtio| matches!(&virtio.kind, Kind::Console(console) if !console.output.is_empty()),
        )
    }

    /// The slot of the network card, and the card.
    pub(crate) fn net_mut(&mut self) -> Option<(usize, &mut Net)> {
        let mut devices = self.virtio.iter_mut().enumerate();
        devices.find_map(|(slot, virtio)| match &mut virtio.kind {
            Kind::Net(net) => Some((slot, net)),
            _ => None,
        })
    }

    /// Disk `number`.
    pub(crate) fn disk_mut(&mut self, number: usize) -> Option<&mut Disk> {
        self.virtio
            .iter_mut()
            .filter_map(|virtio| match &mut virtio.kind {
                Kind::Block(block) => Some(&mut block.disk),
                _ => None,
            })
            .nth(number)
    }

    /// Brings the level of a device's interrupt to the interrupt controller.
    fn wire(&mut self, id: DeviceId) {
        match id {
            DeviceId::Uart => self.plic.set_level(UART_INTERRUPT, self.uart.interrupt()),
            DeviceId::Rtc => self.plic.set_level(RTC_INTERRUPT, self.rtc.interrupt()),
            DeviceId::Virtio(slot) => {
                let level = self.virtio[slot].interrupt();
                self.plic.set_level(virtio_interrupt(slot), level);
            }
            DeviceId::Finisher | DeviceId::Clint | DeviceId::Plic => {}
        }
    }
}
