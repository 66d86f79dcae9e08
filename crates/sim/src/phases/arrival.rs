//! A hart's coming to an address.

use loiter_hart::Hart;
use loiter_types::{HartId, PAGE_BYTES};

/// Waits until a hart is about to execute at an address.
pub(crate) struct Arrival {
    addr: u64,
    /// Harts that have stood there from the beginning, and have not come.
    standing: Vec<HartId>,
    reached: bool,
}

impl Arrival {
    pub(crate) fn new(addr: u64, harts: &[Hart]) -> Self {
        let there = harts.iter().filter(|hart| hart.pc == addr);
        Self {
            addr,
            standing: there.map(|hart| hart.id).collect(),
            reached: false,
        }
    }

    pub(crate) fn is_in_page(&self, pc: u64) -> bool {
        pc / PAGE_BYTES == self.addr / PAGE_BYTES
    }

    /// A hart is about to execute at `pc`.
    #[inline]
    pub(crate) fn holds_at(&mut self, hart: HartId, pc: u64) {
        self.reached |= pc == self.addr && !self.standing.contains(&hart);
    }

    /// A hart goes on.
    #[inline]
    pub(crate) fn moved(&mut self, hart: HartId) {
        if !self.standing.is_empty() {
            self.standing.retain(|&standing| standing != hart);
        }
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.reached
    }
}
