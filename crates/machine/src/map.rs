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

/// Every device window, in ascending order of addresses.
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

/// Device tree path of the console, for `/chosen/stdout-path`.
pub(crate) const CONSOLE_PATH: &str = "/soc/serial@10000000";

/// The device that answers `addr`, and the offset within its window.
pub(crate) fn device_at(addr: PhysAddr) -> Option<(DeviceId, u64)> {
    WINDOWS.iter().find_map(|window| {
        let offset = addr.0.checked_sub(window.base)?;
        (offset < window.bytes).then_some((window.device, offset))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::LAST_SOURCE;

    #[test]
    fn windows_ascend_without_overlap_below_ram() {
        let mut end = 0;
        for window in WINDOWS {
            assert!(window.base >= end, "{window:?} overlaps the one before");
            end = window.base + window.bytes;
        }
        assert!(end <= RAM_BASE);
    }

    #[test]
    fn no_two_devices_share_an_interrupt() {
        let mut sources: Vec<u32> = WINDOWS.iter().filter_map(|w| w.interrupt).collect();
        assert!(sources.iter().all(|&s| s as usize <= LAST_SOURCE && s > 0));
        let all = sources.len();
        sources.sort_unstable();
        sources.dedup();
        assert_eq!((sources.len(), all), (2, 2));
    }

    #[test]
    fn both_edges_of_each_window() {
        for window in WINDOWS {
            let last = window.base + window.bytes - 1;
            assert_eq!(device_at(PhysAddr(window.base)), Some((window.device, 0)));
            assert_eq!(
                device_at(PhysAddr(last)),
                Some((window.device, window.bytes - 1))
            );
            for outside in [window.base - 1, last + 1] {
                let found = device_at(PhysAddr(outside)).map(|(device, _)| device);
                assert_ne!(found, Some(window.device));
                let neighbour = WINDOWS
                    .iter()
                    .find(|other| (other.base..other.base + other.bytes).contains(&outside));
                assert_eq!(found, neighbour.map(|other| other.device));
            }
        }
    }
}
