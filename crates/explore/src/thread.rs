//! One thread: its registers, and its views.

use std::rc::Rc;

use smallvec::SmallVec;

use crate::memory::{Location, Time};
use crate::origin::{Origin, UNKNOWN};

/// The own write to a cell that a later load may have its value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Forward {
    pub(crate) time: Time,
    /// The view of the write's address and data: what a load from it has to wait for.
    pub(crate) view: Time,
    /// Of an atomic, whose value is read only once it is in memory (RVWMO, rule 3).
    pub(crate) atomic: bool,
}

/// What the last `lr` read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reservation {
    pub(crate) location: Location,
    pub(crate) time: Time,
}

/// What a thread knows of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Known {
    pub(crate) cell: u64,
    /// Nothing older than the write that is current then may be read, nor may a write stand before.
    pub(crate) coherence: Time,
    pub(crate) forward: Option<Forward>,
}

/// A thread between two instructions. The names of the views in the paper are given with them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Thread {
    pub(crate) pc: u64,
    pub(crate) regs: [u64; 32],
    /// Of each register, what its value depends on.
    pub(crate) reg_views: [Time; 32],
    /// Of each register, what was read that its value was computed from (`origin.rs`).
    pub(crate) origins: [Origin; 32],
    /// By address; few, so a list.
    pub(crate) known: SmallVec<[Known; 6]>,
    /// What it has written where no other thread looks, by address.
    pub(crate) own: Rc<Vec<(Location, u64)>>,
    /// Of what is there, as of registers, by address.
    pub(crate) own_origins: SmallVec<[(u64, Origin); 4]>,
    /// Of all reads and of all writes so far (vrOld, vwOld).
    pub(crate) reads: Time,
    pub(crate) writes: Time,
    /// What later reads and later writes follow (vrNew, vwNew).
    pub(crate) before_reads: Time,
    pub(crate) before_writes: Time,
    /// What branches and addresses so far depend on (vCAP).
    pub(crate) control: Time,
    /// Of all RCsc accesses so far (vRel).
    pub(crate) consistent: Time,
    pub(crate) reservation: Option<Reservation>,
    /// Times of writes that it has promised and not executed yet.
    pub(crate) promises: SmallVec<[Time; 4]>,
    /// Its next access stands after this: else it could have come before the promise, and made it needless.
    pub(crate) floor: Time,
}

impl Thread {
    pub(crate) fn new(pc: u64, registers: &[(u8, u64)]) -> Self {
        let mut regs = [0; 32];
        for &(register, value) in registers {
            regs[usize::from(register)] = value;
        }
        regs[0] = 0;
        Self {
            pc,
            regs,
            reg_views: [0; 32],
            origins: [UNKNOWN; 32],
            known: SmallVec::new(),
            own: Rc::default(),
            own_origins: SmallVec::new(),
            reads: 0,
            writes: 0,
            before_reads: 0,
            before_writes: 0,
            control: 0,
            consistent: 0,
            reservation: None,
            promises: SmallVec::new(),
            floor: 0,
        }
    }

    /// What its value depends on; 0 of slots that are none of its registers.
    pub(crate) fn view(&self, slot: u8) -> Time {
        self.reg_views.get(usize::from(slot)).copied().unwrap_or(0)
    }

    pub(crate) fn set_view(&mut self, slot: u8, view: Time) {
        if let 1..32 = slot {
            self.reg_views[usize::from(slot)] = view;
        }
    }

    /// That of its value; unknown of slots that are none of its registers.
    pub(crate) fn origin(&self, slot: u8) -> Origin {
        let found = self.origins.get(usize::from(slot));
        found.copied().unwrap_or(UNKNOWN)
    }

    pub(crate) fn set_origin(&mut self, slot: u8, origin: Origin) {
        if let 1..32 = slot {
            self.origins[usize::from(slot)] = origin;
        }
    }

    /// That of what it has in a cell that nobody else accesses.
    pub(crate) fn own_origin(&self, cell: Location) -> Origin {
        let found = self.own_origins.binary_search_by_key(&cell.addr, |o| o.0);
        found.map_or(UNKNOWN, |index| self.own_origins[index].1)
    }

    pub(crate) fn set_own_origin(&mut self, cell: Location, origin: Origin) {
        let found = self.own_origins.binary_search_by_key(&cell.addr, |o| o.0);
        match found {
            Ok(index) if origin == UNKNOWN => drop(self.own_origins.remove(index)),
            Ok(index) => self.own_origins[index].1 = origin,
            Err(_) if origin == UNKNOWN => {}
            Err(index) => self.own_origins.insert(index, (cell.addr, origin)),
        }
    }

    pub(crate) fn known(&self, cell: Location) -> Option<&Known> {
        let found = self.known.binary_search_by_key(&cell.addr, |k| k.cell);
        found.ok().map(|index| &self.known[index])
    }

    pub(crate) fn coherence(&self, cell: Location) -> Time {
        self.known(cell).map_or(0, |known| known.coherence)
    }

    pub(crate) fn known_mut(&mut self, cell: Location) -> &mut Known {
        let found = self.known.binary_search_by_key(&cell.addr, |k| k.cell);
        let index = found.unwrap_or_else(|index| {
            let new = Known {
                cell: cell.addr,
                coherence: 0,
                forward: None,
            };
            self.known.insert(index, new);
            index
        });
        &mut self.known[index]
    }

    /// What it has in a cell that nobody else accesses, if it has written there.
    pub(crate) fn own(&self, cell: Location) -> Option<u64> {
        let found = self.own.binary_search_by_key(&cell, |&(there, _)| there);
        found.ok().map(|index| self.own[index].1)
    }

    pub(crate) fn set_own(&mut self, cell: Location, value: u64) {
        let found = self.own.binary_search_by_key(&cell, |&(there, _)| there);
        let own = Rc::make_mut(&mut self.own);
        match found {
            Ok(index) => own[index].1 = value,
            Err(index) => own.insert(index, (cell, value)),
        }
    }
}
