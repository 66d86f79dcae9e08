//! RAM: one copy of the data, little-endian, zero at reset.
//!
//! The host gives pages when they are first written, so RAM of many GiB costs nothing until a
//! program uses it.

use loiter_isa::Width;
use loiter_types::PhysAddr;
use memmap2::{MmapMut, MmapOptions};

use crate::map::RAM_BASE;

/// The RAM of a machine, from [`RAM_BASE`] upwards.
///
/// Every access returns `None` (or `false`) when any of its bytes lies outside. Writes made here
/// break no watches: that is what [`crate::Machine::store`] is for.
pub struct Ram {
    bytes: MmapMut,
}

impl Ram {
    /// `bytes` bytes of zeroes.
    pub(crate) fn new(bytes: u64) -> std::io::Result<Self> {
        let len = usize::try_from(bytes).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
        let bytes = MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
        Ok(Self { bytes })
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// One past the last address.
    #[must_use]
    pub fn end(&self) -> PhysAddr {
        PhysAddr(RAM_BASE + self.bytes())
    }

    /// Whether all of `bytes` bytes from `addr` on lie in RAM.
    #[inline(always)]
    #[must_use]
    pub fn contains(&self, addr: PhysAddr, bytes: u64) -> bool {
        let offset = addr.0.wrapping_sub(RAM_BASE);
        offset <= self.bytes() && bytes <= self.bytes() - offset
    }

    /// The value at `addr`, zero-extended. Any alignment.
    #[inline(always)]
    #[must_use]
    pub fn read(&self, addr: PhysAddr, width: Width) -> Option<u64> {
        Some(match width {
            Width::B => u64::from(u8::from_le_bytes(self.get(addr)?)),
            Width::H => u64::from(u16::from_le_bytes(self.get(addr)?)),
            Width::W => u64::from(u32::from_le_bytes(self.get(addr)?)),
            Width::D => u64::from_le_bytes(self.get(addr)?),
            Width::Q => unreachable!("16-byte accesses go through read128"),
        })
    }

    /// Writes the low `width` bytes of `value`. Any alignment.
    #[inline(always)]
    #[must_use]
    pub fn write(&mut self, addr: PhysAddr, width: Width, value: u64) -> bool {
        match width {
            Width::B => self.put(addr, (value as u8).to_le_bytes()),
            Width::H => self.put(addr, (value as u16).to_le_bytes()),
            Width::W => self.put(addr, (value as u32).to_le_bytes()),
            Width::D => self.put(addr, value.to_le_bytes()),
            Width::Q => unreachable!("16-byte accesses go through write128"),
        }
    }

    /// As [`Ram::read`], of any width.
    pub(crate) fn read_wide(&self, addr: PhysAddr, width: Width) -> Option<u128> {
        match width {
            Width::Q => self.read128(addr),
            width => self.read(addr, width).map(u128::from),
        }
    }

    /// As [`Ram::write`], of any width.
    pub(crate) fn write_wide(&mut self, addr: PhysAddr, width: Width, value: u128) -> bool {
        match width {
            Width::Q => self.write128(addr, value),
            width => self.write(addr, width, value as u64),
        }
    }

    /// The 16 bytes at `addr`.
    #[must_use]
    pub fn read128(&self, addr: PhysAddr) -> Option<u128> {
        self.get(addr).map(u128::from_le_bytes)
    }

    /// Writes 16 bytes.
    #[must_use]
    pub fn write128(&mut self, addr: PhysAddr, value: u128) -> bool {
        self.put(addr, value.to_le_bytes())
    }

    /// `bytes` bytes from `addr` on, as they lie.
    #[must_use]
    pub fn slice(&self, addr: PhysAddr, bytes: u64) -> Option<&[u8]> {
        let start = Self::offset(addr)?;
        let end = start.checked_add(usize::try_from(bytes).ok()?)?;
        self.bytes.get(start..end)
    }

    /// As [`Ram::slice`], to be written.
    #[must_use]
    pub fn slice_mut(&mut self, addr: PhysAddr, bytes: u64) -> Option<&mut [u8]> {
        let start = Self::offset(addr)?;
        let end = start.checked_add(usize::try_from(bytes).ok()?)?;
        self.bytes.get_mut(start..end)
    }

    /// The text that begins at `addr` and ends before the first NUL, at most `limit` bytes of it.
    /// Bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn c_string(&self, addr: PhysAddr, limit: usize) -> Option<String> {
        let rest = self.bytes.get(Self::offset(addr)?..)?;
        let text = rest[..rest.len().min(limit)]
            .split(|&byte| byte == 0)
            .next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// All of it.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// All of it, to be written.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    #[inline(always)]
    fn offset(addr: PhysAddr) -> Option<usize> {
        usize::try_from(addr.0.wrapping_sub(RAM_BASE)).ok()
    }

    #[inline(always)]
    fn get<const N: usize>(&self, addr: PhysAddr) -> Option<[u8; N]> {
        self.bytes
            .get(Self::offset(addr)?..)?
            .first_chunk()
            .copied()
    }

    #[inline(always)]
    fn put<const N: usize>(&mut self, addr: PhysAddr, value: [u8; N]) -> bool {
        let place = Self::offset(addr)
            .and_then(|offset| self.bytes.get_mut(offset..))
            .and_then(<[u8]>::first_chunk_mut);
        match place {
            Some(place) => {
                *place = value;
                true
            }
            None => false,
        }
    }
}

impl std::fmt::Debug for Ram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ram({:#x}..{:#x})", RAM_BASE, self.end().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 4096;

    fn at(offset: u64) -> PhysAddr {
        PhysAddr(RAM_BASE.wrapping_add(offset))
    }

    #[test]
    fn little_endian_at_every_width_and_alignment() {
        let mut ram = Ram::new(BYTES).unwrap();
        for shift in 0..8 {
            assert!(ram.write(at(64 + shift), Width::D, 0x8877_6655_4433_2211));
            for (width, expected) in [
                (Width::B, 0x11),
                (Width::H, 0x2211),
                (Width::W, 0x4433_2211),
                (Width::D, 0x8877_6655_4433_2211),
            ] {
                assert_eq!(ram.read(at(64 + shift), width), Some(expected));
            }
            assert_eq!(ram.read(at(64 + shift + 7), Width::B), Some(0x88));
        }
    }

    #[test]
    fn narrow_write_leaves_its_neighbours() {
        let mut ram = Ram::new(BYTES).unwrap();
        assert!(ram.write(at(0), Width::D, u64::MAX));
        assert!(ram.write(at(2), Width::H, 0xabcd_1234));
        assert_eq!(ram.read(at(0), Width::D), Some(0xffff_ffff_1234_ffff));
    }

    #[test]
    fn last_byte_is_in_and_the_next_is_out() {
        let mut ram = Ram::new(BYTES).unwrap();
        for width in [Width::B, Width::H, Width::W, Width::D] {
            let last = BYTES - width.bytes();
            assert!(ram.write(at(last), width, 1));
            assert_eq!(ram.read(at(last), width), Some(1));
            assert!(ram.contains(at(last), width.bytes()));
            assert!(!ram.write(at(last + 1), width, 1));
            assert_eq!(ram.read(at(last + 1), width), None);
            assert!(!ram.contains(at(last + 1), width.bytes()));
            assert_eq!(ram.read(at(u64::MAX), width), None, "one byte below RAM");
            assert_eq!(ram.read(PhysAddr(0), width), None);
            assert_eq!(ram.read(PhysAddr(u64::MAX), width), None);
        }
        assert_eq!(ram.read128(at(BYTES - 16)).map(|v| v >> 120), Some(0));
        assert_eq!(ram.read128(at(BYTES - 15)), None);
    }

    #[test]
    fn slices_and_strings_stop_at_the_edge() {
        let mut ram = Ram::new(BYTES).unwrap();
        ram.slice_mut(at(BYTES - 3), 3)
            .unwrap()
            .copy_from_slice(b"abc");
        assert_eq!(ram.slice(at(BYTES - 3), 3), Some(&b"abc"[..]));
        assert_eq!(ram.slice(at(BYTES - 3), 4), None);
        assert_eq!(ram.slice(at(0), u64::MAX), None);
        assert_eq!(ram.c_string(at(BYTES - 3), 64).as_deref(), Some("abc"));
        assert_eq!(ram.c_string(at(BYTES - 3), 2).as_deref(), Some("ab"));
        assert_eq!(ram.c_string(at(BYTES), 64).as_deref(), Some(""));
        assert_eq!(ram.c_string(at(BYTES + 1), 64), None);
    }

    #[test]
    fn untouched_ram_of_many_gib_is_free_and_zero() {
        let ram = Ram::new(256 << 30).unwrap();
        assert_eq!(ram.read(at((200 << 30) + 4), Width::D), Some(0));
    }
}
