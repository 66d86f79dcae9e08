//! Devices. One file each; a device knows offsets within its window, never addresses.
//!
//! A new device is a file here, a field of [`Devices`], and a line in `map.rs`.

mod clint;
mod finisher;
mod uart;

use loiter_isa::Width;
use vm_fdt::FdtWriter;

pub(crate) use clint::{Clint, MAX_HARTS};
pub(crate) use finisher::Finisher;
pub(crate) use uart::Uart;

use crate::map::{DeviceId, Window};

/// What every device does. Accesses are naturally aligned; `None` is an access fault.
pub(crate) trait Device {
    /// Reads a register; the value is zero-extended.
    fn load(&mut self, offset: u64, width: Width) -> Option<u64>;

    /// Writes a register with the low `width` bytes of `value`.
    fn store(&mut self, offset: u64, width: Width, value: u64) -> Option<()>;

    /// Emits the device's node, a child of `/soc`.
    fn describe(&self, tree: &mut FdtWriter, place: &Place) -> Result<(), vm_fdt::Error>;
}

/// What a device needs to know of its surroundings to describe itself.
pub(crate) struct Place<'a> {
    pub(crate) window: &'a Window,
    /// For each hart the handle of its interrupt controller.
    pub(crate) hart_interrupts: &'a [u32],
    /// Handle that the finisher's node has, for the power nodes that refer to it.
    pub(crate) finisher: u32,
}

impl Place<'_> {
    /// The node's full name.
    pub(crate) fn node(&self, name: &str) -> String {
        format!("{name}@{:x}", self.window.base)
    }

    /// The `reg` property: address and size in two cells each.
    pub(crate) fn reg(&self) -> [u64; 2] {
        [self.window.base, self.window.bytes]
    }
}

/// All devices of a machine.
pub(crate) struct Devices {
    pub(crate) finisher: Finisher,
    pub(crate) clint: Clint,
    pub(crate) uart: Uart,
}

impl Devices {
    pub(crate) fn new(harts: usize) -> Self {
        Self {
            finisher: Finisher::default(),
            clint: Clint::new(harts),
            uart: Uart::new(),
        }
    }

    pub(crate) fn get(&self, id: DeviceId) -> &dyn Device {
        match id {
            DeviceId::Finisher => &self.finisher,
            DeviceId::Clint => &self.clint,
            DeviceId::Uart => &self.uart,
        }
    }

    pub(crate) fn get_mut(&mut self, id: DeviceId) -> &mut dyn Device {
        match id {
            DeviceId::Finisher => &mut self.finisher,
            DeviceId::Clint => &mut self.clint,
            DeviceId::Uart => &mut self.uart,
        }
    }
}
