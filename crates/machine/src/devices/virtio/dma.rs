//! RAM as devices see it: vm-memory's view of our mapping, which remembers what was written.

use std::cell::RefCell;

use loiter_types::PhysAddr;
use vm_memory::bitmap::BS;
use vm_memory::guest_memory::{GuestMemorySliceIterator, Result};
use vm_memory::{
    GuestAddress, GuestMemory, GuestMemoryBackend, GuestMemoryError, GuestMemoryRegion,
    GuestMemoryRegionBytes, GuestUsize, MemoryRegionAddress, Permissions, VolatileSlice,
};

use crate::map::RAM_BASE;

/// Access to RAM for as long as a device serves requests.
pub(crate) struct Dma<'a> {
    region: Region<'a>,
    /// What devices may have written: first address and number of bytes.
    written: RefCell<Vec<(PhysAddr, u64)>>,
}

impl<'a> Dma<'a> {
    /// Access to these bytes of RAM, all that the device's guest has.
    pub(crate) fn new(ram: &'a mut [u8]) -> Self {
        Self {
            region: Region(VolatileSlice::from(ram)),
            written: RefCell::default(),
        }
    }

    /// What may have been written, for those who have read it ahead.
    pub(crate) fn written(self) -> Vec<(PhysAddr, u64)> {
        self.written.into_inner()
    }
}

impl GuestMemory for Dma<'_> {
    type PhysicalMemory = Region<'static>;
    type Bitmap = ();

    fn check_range(&self, addr: GuestAddress, count: usize, _access: Permissions) -> bool {
        GuestMemoryBackend::check_range(&self.region, addr, count)
    }

    fn get_slices<'a>(
        &'a self,
        addr: GuestAddress,
        count: usize,
        access: Permissions,
    ) -> Result<impl GuestMemorySliceIterator<'a, BS<'a, ()>>> {
        // All or nothing, so that nothing is written that is not remembered.
        if !self.check_range(addr, count, access) {
            return Err(GuestMemoryError::InvalidGuestAddress(addr));
        }
        if access.has_write() {
            self.written
                .borrow_mut()
                .push((PhysAddr(addr.0), count as u64));
        }
        Ok(GuestMemoryBackend::get_slices(&self.region, addr, count))
    }
}

/// All of RAM.
pub(crate) struct Region<'a>(VolatileSlice<'a>);

impl GuestMemoryRegion for Region<'_> {
    type B = ();

    fn len(&self) -> GuestUsize {
        self.0.len() as u64
    }

    fn start_addr(&self) -> GuestAddress {
        GuestAddress(RAM_BASE)
    }

    fn bitmap(&self) {}

    fn get_slice(&self, offset: MemoryRegionAddress, count: usize) -> Result<VolatileSlice<'_>> {
        Ok(self.0.subslice(offset.0 as usize, count)?)
    }
}

impl GuestMemoryRegionBytes for Region<'_> {}

impl GuestMemoryBackend for Region<'_> {
    type R = Self;

    fn find_region(&self, addr: GuestAddress) -> Option<&Self> {
        GuestMemoryRegion::to_region_addr(self, addr).map(|_| self)
    }

    fn iter(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self)
    }
}

#[cfg(test)]
mod tests {
    use vm_memory::Bytes;

    use super::*;
    use crate::ram::Ram;

    #[test]
    fn what_is_written_is_in_ram_and_remembered() {
        let mut ram = Ram::new(8192).unwrap();
        let dma = Dma::new(ram.as_mut_slice());
        dma.write_slice(b"abc", GuestAddress(RAM_BASE + 4094))
            .unwrap();
        let mut read = [0; 3];
        dma.read_slice(&mut read, GuestAddress(RAM_BASE + 4094))
            .unwrap();
        assert_eq!(&read, b"abc");
        assert_eq!(dma.written(), [(PhysAddr(RAM_BASE + 4094), 3)]);
        assert_eq!(ram.slice(PhysAddr(RAM_BASE + 4094), 3), Some(&b"abc"[..]));
    }

    #[test]
    fn nothing_is_written_outside_ram() {
        let mut ram = Ram::new(8192).unwrap();
        let dma = Dma::new(ram.as_mut_slice());
        for (addr, bytes) in [
            (RAM_BASE + 8192, 1),
            (RAM_BASE + 8191, 2),
            (RAM_BASE - 1, 2),
            (0, 1),
            (u64::MAX, 1),
            (RAM_BASE, 8193),
        ] {
            let data = vec![1; bytes];
            assert!(dma.write_slice(&data, GuestAddress(addr)).is_err());
            assert!(!dma.check_range(GuestAddress(addr), bytes, Permissions::Write));
        }
        assert!(dma.check_range(GuestAddress(RAM_BASE), 8192, Permissions::Write));
        assert!(dma.written().is_empty());
    }
}
