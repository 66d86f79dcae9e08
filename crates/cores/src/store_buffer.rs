//! The store buffer of a context: stores between issue and acknowledgement, in program order.

use std::collections::VecDeque;

use loiter_isa::Width;
use loiter_types::PhysAddr;
use serde::{Deserialize, Serialize};

/// One store, of 1 to 8 bytes.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Store {
    pub(crate) addr: PhysAddr,
    pub(crate) bytes: u64,
    pub(crate) value: u64,
}

impl Store {
    /// The store as such that instructions make: address, width, value. There are several only when
    /// it was part of one over the end of a page.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (PhysAddr, Width, u64)> {
        let Store { addr, bytes, value } = *self;
        let width = match bytes {
            2 => Width::H,
            4 => Width::W,
            8 => Width::D,
            _ => Width::B,
        };
        (0..bytes / width.bytes()).map(move |n| (PhysAddr(addr.0 + n), width, value >> (8 * n)))
    }
}

/// What a load finds among the stores that have not performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Forward {
    /// No older store touches its bytes.
    Memory,
    /// One store holds all of its bytes; this is their value, zero-extended.
    Value(u64),
    /// Its bytes come from several stores: it must wait until the stores have drained.
    Partial,
}

/// The `bytes` bytes at `addr`, which were `value`, after a store to `stored` of `stored_bytes`.
pub(crate) fn overlay(
    value: u64,
    addr: PhysAddr,
    bytes: u64,
    stored: PhysAddr,
    stored_bytes: u64,
    stored_value: u64,
) -> u64 {
    let byte = |n: u64| {
        let at = (addr.0 + n).wrapping_sub(stored.0);
        let from = if at < stored_bytes {
            stored_value >> (8 * at)
        } else {
            value >> (8 * n)
        };
        (from & 0xff) << (8 * n)
    };
    (0..bytes).map(byte).fold(0, |all, byte| all | byte)
}

/// The stores of one context.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct StoreBuffer {
    entries: VecDeque<Store>,
    /// How many of them, the oldest, are in flight to the second level or have performed.
    sent: usize,
    /// How many of those have performed: their values are in memory, and they wait for the acknowledgement.
    performed: usize,
    capacity: usize,
    line_log2: u32,
    same_line: bool,
    /// Bytes are part of one store.
    joins_bytes: bool,
    /// A store over the end of a line takes an entry for each line.
    splits_lines: bool,
}

impl StoreBuffer {
    /// An empty buffer. With `same_line`, a store follows the one ahead without waiting for its
    /// acknowledgement when both are to one line.
    pub(crate) fn new(capacity: usize, line_bytes: u64, same_line: bool) -> Self {
        Self {
            entries: VecDeque::with_capacity(capacity),
            sent: 0,
            performed: 0,
            capacity,
            line_log2: line_bytes.trailing_zeros(),
            same_line,
            joins_bytes: false,
            splits_lines: false,
        }
    }

    /// The same, where each line of a store has to be owned when that part performs. It may then hold one more entry
    /// than there are.
    pub(crate) fn splitting_lines(self, splits_lines: bool) -> Self {
        Self {
            splits_lines,
            ..self
        }
    }

    /// Whether the bytes put in from now on are those of one store over the end of a page, which take
    /// an entry for each page. Only an empty buffer joins bytes; it may then hold one more entry than
    /// there are.
    #[inline(always)]
    pub(crate) fn join_bytes(&mut self, joins: bool) {
        debug_assert!(!joins || self.is_empty());
        self.joins_bytes = joins;
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    pub(crate) fn push(&mut self, addr: PhysAddr, width: Width, value: u64) {
        if self.joins_bytes
            && let Some(last) = self.entries.back_mut()
            && last.addr.0 + last.bytes == addr.0
            && !(self.splits_lines && addr.0.trailing_zeros() >= self.line_log2)
        {
            last.value |= (value & 0xff) << (8 * last.bytes);
            last.bytes += 1;
            return;
        }
        debug_assert!(!self.is_full() || self.joins_bytes);
        let line_bytes = 1 << self.line_log2;
        let here = line_bytes - (addr.0 & (line_bytes - 1));
        if self.splits_lines && width.bytes() > here {
            self.enter(addr, here, value & ((1 << (8 * here)) - 1));
            let rest = PhysAddr(addr.0 + here);
            self.enter(rest, width.bytes() - here, value >> (8 * here));
            return;
        }
        let value = if self.joins_bytes {
            value & 0xff
        } else {
            value
        };
        self.enter(addr, width.bytes(), value);
    }

    fn enter(&mut self, addr: PhysAddr, bytes: u64, value: u64) {
        self.entries.push_back(Store { addr, bytes, value });
    }

    /// Where the oldest store goes, if it waits to be sent.
    pub(crate) fn next(&self) -> Option<PhysAddr> {
        let oldest = self.entries.front()?;
        (self.sent == 0).then_some(oldest.addr)
    }

    /// Where the `n`th oldest store goes, if there are so many.
    pub(crate) fn nth(&self, n: usize) -> Option<PhysAddr> {
        self.entries.get(n).map(|store| store.addr)
    }

    /// The next store that may go, marked as sent.
    #[inline]
    pub(crate) fn send_next(&mut self) -> Option<PhysAddr> {
        let next = self.entries.get(self.sent)?.addr;
        if self.sent != 0 {
            let line = |addr: PhysAddr| addr.block(self.line_log2);
            let before = self.entries[self.sent - 1].addr;
            if !self.same_line || line(before) != line(next) {
                return None;
            }
        }
        self.sent += 1;
        Some(next)
    }

    /// The oldest outstanding store performs: returns it.
    #[inline]
    pub(crate) fn perform(&mut self) -> Store {
        debug_assert!(self.performed < self.sent, "what performs was sent");
        let store = self.entries[self.performed];
        self.performed += 1;
        store
    }

    /// The oldest store is acknowledged and leaves.
    #[inline]
    pub(crate) fn acknowledge(&mut self) {
        debug_assert!(self.performed > 0, "what is acknowledged has performed");
        self.entries.pop_front();
        self.performed -= 1;
        self.sent -= 1;
    }

    /// Those that have not performed, oldest first.
    fn waiting(&self) -> impl DoubleEndedIterator<Item = &Store> {
        self.entries.range(self.performed..)
    }

    /// What stands at `addr` when memory holds `value` there and the stores of this buffer have performed.
    pub(crate) fn overlay(&self, addr: PhysAddr, bytes: u64, value: u64) -> u64 {
        self.waiting().fold(value, |value, store| {
            overlay(value, addr, bytes, store.addr, store.bytes, store.value)
        })
    }

    /// What a load of `width` bytes at `addr` finds here.
    #[inline]
    pub(crate) fn forward(&self, addr: PhysAddr, width: Width) -> Forward {
        let end = addr.0 + width.bytes();
        for store in self.waiting().rev() {
            let store_end = store.addr.0 + store.bytes;
            if store_end <= addr.0 || end <= store.addr.0 {
                continue;
            }
            if store.addr.0 <= addr.0 && end <= store_end {
                let value = store.value >> (8 * (addr.0 - store.addr.0));
                return Forward::Value(match width {
                    Width::B => value & 0xff,
                    Width::H => value & 0xffff,
                    Width::W => value & 0xffff_ffff,
                    Width::D | Width::Q => value,
                });
            }
            return Forward::Partial;
        }
        Forward::Memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(addr: u64) -> PhysAddr {
        PhysAddr(addr)
    }

    #[test]
    fn the_youngest_store_that_covers_a_load_gives_its_bytes() {
        let mut buffer = StoreBuffer::new(8, 64, false);
        buffer.push(at(0x100), Width::D, 0x1111_2222_3333_4444);
        buffer.push(at(0x104), Width::W, 0xaabb_ccdd);
        assert_eq!(buffer.forward(at(0x106), Width::H), Forward::Value(0xaabb));
        assert_eq!(
            buffer.forward(at(0x100), Width::W),
            Forward::Value(0x3333_4444)
        );
        assert_eq!(buffer.forward(at(0x100), Width::D), Forward::Partial);
        assert_eq!(buffer.forward(at(0x108), Width::D), Forward::Memory);
    }

    #[test]
    fn stores_overlay_what_memory_holds() {
        let mut buffer = StoreBuffer::new(8, 64, false);
        buffer.push(at(0x100), Width::D, 0x1111_2222_3333_4444);
        buffer.push(at(0x106), Width::W, 0xaabb_ccdd);
        assert_eq!(buffer.overlay(at(0x104), 4, 0), 0xccdd_2222);
        assert_eq!(buffer.overlay(at(0x108), 8, 0x99_0000_0000), 0x99_0000_aabb);
        assert_eq!(buffer.overlay(at(0x200), 8, 7), 7);
    }

    #[test]
    fn a_performed_store_is_memory_and_keeps_its_entry() {
        let mut buffer = StoreBuffer::new(1, 64, false);
        buffer.push(at(0x100), Width::B, 7);
        assert_eq!(buffer.send_next(), Some(at(0x100)));
        assert_eq!(buffer.forward(at(0x100), Width::B), Forward::Value(7));
        assert_eq!(buffer.perform().value, 7);
        assert_eq!(buffer.forward(at(0x100), Width::B), Forward::Memory);
        assert!(buffer.is_full());
        buffer.acknowledge();
        assert!(buffer.is_empty());
    }

    #[test]
    fn stores_leave_one_at_a_time_or_pipelined_within_a_line() {
        for same_line in [false, true] {
            let mut buffer = StoreBuffer::new(8, 64, same_line);
            buffer.push(at(0x100), Width::D, 1);
            buffer.push(at(0x108), Width::D, 2);
            buffer.push(at(0x140), Width::D, 3);
            assert_eq!(buffer.send_next(), Some(at(0x100)));
            assert_eq!(buffer.send_next(), same_line.then_some(at(0x108)));
            assert_eq!(buffer.send_next(), None);
            buffer.perform();
            buffer.acknowledge();
            assert_eq!(buffer.send_next().is_some(), !same_line);
        }
    }
}
