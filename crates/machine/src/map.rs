//! The memory map: the one file that knows which device sits where.
//!
//! The addresses are those of QEMU's `virt` machine, so that one bare-metal program runs on both.

use loiter_types::PhysAddr;

/// First byte of RAM.
pub const RAM_BASE: u64 = 0x8000_0000;

/// RAM is a whole number of these.
pub(crate) use loiter_types::PAGE_BYTES;

/// One past the highest physical address of RV64 with Sv39, Sv48 or Sv57 translation.
pub(crate) const PHYS_ADDR_END: u64 = 1 << 56;

/// A device of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceId {
    /// Ends the run.
    Finisher,
    /// Time of day.
    Rtc,
    /// Software and timer interrupts.
    Clint,
    /// Interrupts of devices.
    Plic,
    /// Serial console.
    Uart,
    /// The virtio device in this slot.
    Virtio(usize),
}

/// The physical addresses that a device answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Who answers.
    pub(crate) device: DeviceId,
    /// First address.
    pub(crate) base: u64,
    /// Length in bytes.
    pub(crate) bytes: u64,
    /// The source at the interrupt controller that the device drives.
    pub(crate) interrupt: Option<u32>,
}

/// Source of the serial console's interrupt.
pub(crate) const UART_INTERRUPT: u32 = 10;
/// Source of the alarm's interrupt.
pub(crate) const RTC_INTERRUPT: u32 = 11;

/// Every device window but those of virtio devices, in ascending order of addresses.
pub(crate) const WINDOWS: [Window; 5] = [
    Window {
        device: DeviceId::Finisher,
        base: 0x0010_0000,
        bytes: 0x1000,
        interrupt: None,
    },
    Window {
        device: DeviceId::Rtc,
        base: 0x0010_1000,
        bytes: 0x1000,
        interrupt: Some(RTC_INTERRUPT),
    },
    Window {
        device: DeviceId::Clint,
        base: 0x0200_0000,
        bytes: 0x1_0000,
        interrupt: None,
    },
    Window {
        device: DeviceId::Plic,
        base: 0x0c00_0000,
        // The specification's, for 15,872 contexts; QEMU's is shorter, for its 512 harts.
        bytes: 0x400_0000,
        interrupt: None,
    },
    Window {
        device: DeviceId::Uart,
        base: 0x1000_0000,
        bytes: 0x100,
        interrupt: Some(UART_INTERRUPT),
    },
];

/// Slots for virtio devices. QEMU has the first eight of them.
pub(crate) const VIRTIO_SLOTS: usize = 16;
const QEMU_VIRTIO_SLOTS: usize = 8;
const VIRTIO_BASE: u64 = 0x1000_1000;
const VIRTIO_BYTES: u64 = 0x1000;

/// The window of a virtio device.
pub(crate) const fn virtio_window(slot: usize) -> Window {
    assert!(slot < VIRTIO_SLOTS);
    Window {
        device: DeviceId::Virtio(slot),
        base: VIRTIO_BASE + slot as u64 * VIRTIO_BYTES,
        bytes: VIRTIO_BYTES,
        interrupt: Some(virtio_interrupt(slot)),
    }
}

/// Source of the interrupt of a virtio device: 1 to 8 as in QEMU, then what follows the alarm's.
pub(crate) const fn virtio_interrupt(slot: usize) -> u32 {
    if slot < QEMU_VIRTIO_SLOTS {
        1 + slot as u32
    } else {
        RTC_INTERRUPT + 1 + (slot - QEMU_VIRTIO_SLOTS) as u32
    }
}

/// Device tree path of the console, for `/chosen/stdout-path`.
pub(crate) const CONSOLE_PATH: &str = "/soc/serial@10000000";

/// The device that answers `addr`, and the offset within its window.
pub(crate) fn device_at(addr: PhysAddr) -> Option<(DeviceId, u64)> {
    let fixed = WINDOWS.iter().find_map(|window| {
        let offset = addr.0.checked_sub(window.base)?;
        (offset < window.bytes).then_some((window.device, offset))
    });
    fixed.or_else(|| {
        let offset = addr.0.checked_sub(VIRTIO_BASE)?;
        let slot = usize::try_from(offset / VIRTIO_BYTES).ok()?;
        (slot < VIRTIO_SLOTS).then_some((DeviceId::Virtio(slot), offset % VIRTIO_BYTES))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::LAST_SOURCE;

    fn windows() -> Vec<Window> {
        let virtio = (0..VIRTIO_SLOTS).map(virtio_window);
        WINDOWS.into_iter().chain(virtio).collect()
    }

    #[test]
    fn windows_ascend_without_overlap_below_ram() {
        let mut end = 0;
        for window in windows() {
            assert!(window.base >= end, "{window:?} overlaps the one before");
            end = window.base + window.bytes;
        }
        assert!(end <= RAM_BASE);
    }

    #[test]
    fn no_two_devices_share_an_interrupt() {
        let windows = windows();
        let mut sources: Vec<u32> = windows.iter().filter_map(|w| w.interrupt).collect();
        assert!(sources.iter().all(|&s| s as usize <= LAST_SOURCE && s > 0));
        let all = sources.len();
        sources.sort_unstable();
        sources.dedup();
        assert_eq!((sources.len(), all), (2 + VIRTIO_SLOTS, 2 + VIRTIO_SLOTS));
    }

    #[test]
    fn both_edges_of_each_window() {
        let windows = windows();
        for window in &windows {
            let last = window.base + window.bytes - 1;
            assert_eq!(device_at(PhysAddr(window.base)), Some((window.device, 0)));
            assert_eq!(
                device_at(PhysAddr(last)),
                Some((window.device, window.bytes - 1))
            );
            for outside in [window.base - 1, last + 1] {
                let found = device_at(PhysAddr(outside)).map(|(device, _)| device);
                let neighbour = windows
                    .iter()
                    .find(|other| (other.base..other.base + other.bytes).contains(&outside));
                assert_ne!(found, Some(window.device));
                assert_eq!(found, neighbour.map(|other| other.device));
            }
        }
    }
}
