//! Which part of a machine is a guest's: where what it takes for physical addresses lies.

use loiter_types::PhysAddr;

use crate::map::RAM_BASE;

/// Addresses of devices of guests begin at multiples of this, above all RAM.
const DEVICES_LOG2: u32 = 44;
/// Most guests of one machine, so that their devices lie below the addresses at which nothing answers.
pub const MAX_GUESTS: usize = 1 << 10;
/// Addresses at which nothing ever answers.
const NOWHERE: u64 = 1 << 55;

/// What a hart's physical addresses are in the machine. A hart that has the machine for itself has them as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// RAM of the guest; every address from its beginning on where there is no other guest.
    ram_bytes: u64,
    /// By how much its RAM lies further up.
    ram_offset: u64,
    /// The first address of its devices, from 0 on as it sees them.
    devices: u64,
    /// Number of the guest, if it is one's.
    guest: Option<u16>,
}

impl Partition {
    /// The whole machine.
    pub const WHOLE: Self = Self {
        ram_bytes: u64::MAX,
        ram_offset: 0,
        devices: 0,
        guest: None,
    };

    /// Guest `guest`, whose RAM of `ram_bytes` begins `ram_offset` behind the first byte of RAM.
    pub(crate) fn of_guest(guest: usize, ram_offset: u64, ram_bytes: u64) -> Self {
        assert!(
            guest < MAX_GUESTS,
            "more guests than a machine has room for"
        );
        Self {
            ram_bytes,
            ram_offset,
            devices: (1 + guest as u64) << DEVICES_LOG2,
            guest: Some(guest as u16),
        }
    }

    /// The number of the guest, if it is one's.
    #[must_use]
    pub fn guest(self) -> Option<u16> {
        self.guest
    }

    /// Where `addr` of the guest lies in the machine. Nothing answers where the guest has nothing.
    #[inline(always)]
    #[must_use]
    pub fn place(self, addr: PhysAddr) -> PhysAddr {
        if addr.0.wrapping_sub(RAM_BASE) < self.ram_bytes {
            return PhysAddr(addr.0.wrapping_add(self.ram_offset));
        }
        match self.guest {
            None => addr,
            Some(_) => self.place_outside_ram(addr),
        }
    }

    #[cold]
    fn place_outside_ram(self, addr: PhysAddr) -> PhysAddr {
        match addr.0 < RAM_BASE {
            true => PhysAddr(self.devices + addr.0),
            false => PhysAddr(NOWHERE),
        }
    }
}

impl Default for Partition {
    fn default() -> Self {
        Self::WHOLE
    }
}

/// The guest whose devices `addr` belongs to, and the address as that guest sees it.
pub(crate) fn device_of(addr: PhysAddr) -> (usize, PhysAddr) {
    let (guest, local) = (addr.0 >> DEVICES_LOG2, addr.0 & ((1 << DEVICES_LOG2) - 1));
    (guest.saturating_sub(1) as usize, PhysAddr(local))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_machine_is_as_it_is() {
        for addr in [0, 0x1000_0000, RAM_BASE, RAM_BASE + 5, u64::MAX] {
            assert_eq!(Partition::WHOLE.place(PhysAddr(addr)), PhysAddr(addr));
        }
    }

    #[test]
    fn no_guest_reaches_anothers_ram_or_devices() {
        let guest = Partition::of_guest(1, 0x4000, 0x2000);
        let at = |addr| guest.place(PhysAddr(addr)).0;
        assert_eq!(at(RAM_BASE), RAM_BASE + 0x4000);
        assert_eq!(at(RAM_BASE + 0x1fff), RAM_BASE + 0x5fff);
        for outside in [RAM_BASE + 0x2000, 3 << DEVICES_LOG2, u64::MAX] {
            assert_eq!(at(outside), NOWHERE);
        }
        let device = guest.place(PhysAddr(0x1000_0000));
        assert_eq!(device_of(device), (1, PhysAddr(0x1000_0000)));
    }
}
