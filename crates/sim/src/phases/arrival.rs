//! A hart's coming to the address of a symbol.

use std::sync::Arc;

use loiter_hart::{Hart, Retired};
use loiter_types::{HartId, PAGE_BYTES};

use crate::symbols::Symbols;

/// Where a symbol lies.
enum Place {
    /// At an address.
    Fixed(u64),
    /// In a page that lies wherever the guest's kernel has put it.
    Moving {
        symbols: Arc<Symbols>,
        name: String,
        offset_in_page: u64,
    },
}

/// Waits until a hart is about to execute at the address of a symbol.
pub(crate) struct Arrival {
    place: Place,
    /// Harts that have stood there from the beginning, and have not come.
    standing: Vec<HartId>,
    reached: bool,
}

impl Arrival {
    /// None if no file has the symbol.
    pub(crate) fn new(name: &str, symbols: &Arc<Symbols>, harts: &[Hart]) -> Option<Self> {
        let place = match symbols.address(name) {
            Some(addr) => Place::Fixed(addr),
            None => Place::Moving {
                symbols: Arc::clone(symbols),
                name: name.to_owned(),
                offset_in_page: symbols.moving_address(name)? % PAGE_BYTES,
            },
        };
        let there = harts.iter().filter(|hart| match place {
            Place::Fixed(addr) => hart.pc == addr,
            Place::Moving { .. } => false,
        });
        Some(Self {
            standing: there.map(|hart| hart.id).collect(),
            place,
            reached: false,
        })
    }

    /// Whether it may lie in the page of `pc`.
    pub(crate) fn may_be_in_page(&self, pc: u64) -> bool {
        match self.place {
            Place::Fixed(addr) => pc / PAGE_BYTES == addr / PAGE_BYTES,
            Place::Moving { .. } => true,
        }
    }

    /// A hart is about to execute at `pc`.
    #[inline]
    pub(crate) fn holds_at(&mut self, hart: HartId, pc: u64) {
        if let Place::Fixed(addr) = self.place {
            self.reached |= pc == addr && !self.standing.contains(&hart);
        }
    }

    /// A hart goes on.
    #[inline]
    pub(crate) fn moved(&mut self, hart: HartId) {
        if !self.standing.is_empty() {
            self.standing.retain(|&standing| standing != hart);
        }
    }

    /// A hart goes on behind an instruction.
    #[inline]
    pub(crate) fn retired(&mut self, event: &Retired<'_>) {
        self.moved(event.hart.id);
        if let Place::Moving {
            symbols,
            name,
            offset_in_page,
        } = &self.place
            && event.next % PAGE_BYTES == *offset_in_page
        {
            self.reached |= symbols.is_at(event.hart, event.machine, event.next, name);
        }
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.reached
    }
}
