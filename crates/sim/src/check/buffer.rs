//! What a hart has stored and memory does not hold yet.

use std::collections::VecDeque;

use loiter_hart::Performed;
use loiter_isa::Width;
use loiter_machine::RAM_BASE;
use loiter_types::{PAGE_BYTES, PhysAddr};

/// The bytes of the stores of a hart that are not in memory, in program order.
#[derive(Debug, Default)]
pub(super) struct Buffer(VecDeque<(PhysAddr, u8)>);

impl Buffer {
    pub(super) fn push(&mut self, addr: PhysAddr, width: Width, value: u64) {
        let bytes = value.to_le_bytes();
        let places = (0..width.bytes()).map(|n| PhysAddr(addr.0 + n));
        self.0.extend(places.zip(bytes));
    }

    /// The byte that the hart reads at `addr`, if it is still here.
    pub(super) fn byte(&self, addr: PhysAddr) -> Option<u8> {
        let of_addr = |&&(at, _): &&(PhysAddr, u8)| at == addr;
        self.0.iter().rev().find(of_addr).map(|&(_, byte)| byte)
    }

    /// Bytes in it.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The oldest store, or a part of it, goes to memory.
    ///
    /// # Errors
    /// When it is another one.
    pub(super) fn perform(&mut self, event: &Performed) -> Result<(), String> {
        let stored = event.value.to_le_bytes();
        for (n, &byte) in (0..event.width.bytes()).zip(&stored) {
            let addr = PhysAddr(event.addr.0 + n);
            match self.0.pop_front() {
                Some(oldest) if oldest == (addr, byte) => {}
                Some((at, expected)) => {
                    return Err(format!(
                        "store to memory: expected byte {expected:#04x} at {at}, found {byte:#04x} at {addr}"
                    ));
                }
                None => {
                    return Err(format!(
                        "store to memory: expected none, found byte {byte:#04x} at {addr}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Pages of RAM that harts have stored to. An instruction there may be older than what memory holds,
/// until its hart executes `fence.i`.
#[derive(Debug, Default)]
pub(super) struct StoredPages(Vec<u64>);

impl StoredPages {
    fn place(addr: PhysAddr) -> (usize, u64) {
        let page = addr.0.wrapping_sub(RAM_BASE) / PAGE_BYTES;
        ((page / 64) as usize, 1 << (page % 64))
    }

    /// Notes a store to RAM.
    pub(super) fn insert(&mut self, addr: PhysAddr) {
        let (word, bit) = Self::place(addr);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit;
    }

    pub(super) fn contains(&self, addr: PhysAddr) -> bool {
        let (word, bit) = Self::place(addr);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }
}
