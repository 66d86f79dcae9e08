//! Who accesses which bytes, and in which pieces.
//!
//! Memory is known in *cells*: ranges of bytes that no access splits. A cell is shared when one thread writes what another
//! accesses. Only shared cells have a history; what a thread does with the others by itself is no step that could come
//! before or after another thread's. Both are found out while exploring: a cell that turns out to be shared or to have
//! parts ends the exploration, which begins again knowing it. It happens once a cell and part at most.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use crate::memory::Location;

/// The cells and parts became finer, or one became shared: what has been explored so far is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed;

/// What is known of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    bytes: u8,
    /// Who came first.
    owner: u8,
    /// Others came, too.
    common: bool,
    written: bool,
}

impl Cell {
    fn is_shared(self) -> bool {
        self.common && self.written
    }
}

/// The cells of one access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Covered {
    cells: [Location; 8],
    len: u8,
    /// Whether it has a history.
    pub(crate) shared: bool,
}

impl Covered {
    /// Byte by byte, none of them shared.
    pub(crate) fn bytes(location: Location) -> Self {
        let mut covered = Self {
            cells: [location; 8],
            len: location.bytes,
            shared: false,
        };
        for (slot, byte) in covered.cells.iter_mut().zip(location.split()) {
            *slot = byte;
        }
        covered
    }

    pub(crate) fn cells(&self) -> &[Location] {
        &self.cells[..usize::from(self.len)]
    }
}

/// Cells, mostly one.
pub(crate) type Parts = SmallVec<[Location; 2]>;

/// All cells that are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cells {
    map: BTreeMap<u64, Cell>,
}

impl Cells {
    /// `location` is looked at by everybody.
    pub(crate) fn observe(&mut self, location: Location) {
        let cell = Cell {
            bytes: location.bytes,
            owner: 0,
            common: true,
            written: false,
        };
        self.map.insert(location.addr, cell);
    }

    fn overlapping(&self, location: Location) -> impl Iterator<Item = Location> + '_ {
        let end = location.addr + u64::from(location.bytes);
        let near = self.map.range(location.addr.saturating_sub(7)..end);
        let near = near.map(|(&addr, cell)| Location {
            addr,
            bytes: cell.bytes,
        });
        near.filter(move |cell| cell.overlaps(location))
    }

    /// All that have a history.
    pub(crate) fn shared(&self) -> impl Iterator<Item = Location> + '_ {
        let shared = self.map.iter().filter(|(_, cell)| cell.is_shared());
        shared.map(|(&addr, cell)| Location {
            addr,
            bytes: cell.bytes,
        })
    }

    /// Whether the cell at `addr`, if there is one, has a history.
    pub(crate) fn shared_at(&self, addr: u64) -> Option<Location> {
        let cell = self.map.get(&addr).filter(|cell| cell.is_shared())?;
        Some(Location {
            addr,
            bytes: cell.bytes,
        })
    }

    /// Treats what is there as shared. Whether that is new.
    pub(crate) fn share(&mut self, location: Location) -> bool {
        let mut changed = false;
        for cell in self.of(location) {
            let known = self.map.get_mut(&cell.addr).expect("a cell that was found");
            changed |= !known.is_shared();
            known.common = true;
            known.written = true;
        }
        changed
    }

    /// The cells of what has been accessed.
    pub(crate) fn of(&self, location: Location) -> Parts {
        match self.map.get(&location.addr) {
            Some(cell) if cell.bytes == location.bytes => smallvec![location],
            _ => self.overlapping(location).collect(),
        }
    }

    /// The cells of an access, which is noted.
    ///
    /// # Errors
    /// [`Changed`], when it tells something new of a cell that was known.
    pub(crate) fn access(
        &mut self,
        thread: u8,
        location: Location,
        writes: bool,
    ) -> Result<Covered, Changed> {
        let mut changed = self.split(location);
        self.fill(thread, location);
        let mut covered = Covered {
            cells: [location; 8],
            len: 0,
            shared: false,
        };
        let addresses: Vec<Location> = self.overlapping(location).collect();
        for &cell in &addresses {
            covered.cells[usize::from(covered.len)] = cell;
            covered.len += 1;
            let known = self.map.get_mut(&cell.addr).expect("a cell that was found");
            let before = known.is_shared();
            known.common |= known.owner != thread;
            known.written |= writes;
            covered.shared |= known.is_shared();
            changed |= before != known.is_shared();
        }
        // One access is wholly in the history, or not at all.
        for cell in &addresses {
            let known = self.map.get_mut(&cell.addr).expect("a cell that was found");
            if covered.shared && !known.is_shared() {
                known.common = true;
                known.written = true;
                changed = true;
            }
        }
        if changed { Err(Changed) } else { Ok(covered) }
    }

    /// Splits cells that `location` has only a part of. Whether there were any.
    fn split(&mut self, location: Location) -> bool {
        let bounds = [location.addr, location.addr + u64::from(location.bytes)];
        let crossed: Vec<Location> = self
            .overlapping(location)
            .filter(|cell| {
                let end = cell.addr + u64::from(cell.bytes);
                bounds.iter().any(|&bound| cell.addr < bound && bound < end)
            })
            .collect();
        for cell in &crossed {
            let whole = self.map[&cell.addr];
            let end = cell.addr + u64::from(cell.bytes);
            let inner = bounds.iter().copied().filter(|&b| cell.addr < b && b < end);
            let mut start = cell.addr;
            for bound in inner.chain([end]) {
                let bytes = (bound - start) as u8;
                self.map.insert(start, Cell { bytes, ..whole });
                start = bound;
            }
        }
        !crossed.is_empty()
    }

    /// Makes cells of the bytes of `location` that are in none.
    fn fill(&mut self, thread: u8, location: Location) {
        let end = location.addr + u64::from(location.bytes);
        let known: Vec<Location> = self.overlapping(location).collect();
        let mut start = location.addr;
        for stop in known.iter().map(|cell| cell.addr).chain([end]) {
            if start < stop {
                let cell = Cell {
                    bytes: (stop - start) as u8,
                    owner: thread,
                    common: false,
                    written: false,
                };
                self.map.insert(start, cell);
            }
            let here = known.iter().find(|cell| cell.addr == stop);
            start = stop + here.map_or(0, |cell| u64::from(cell.bytes));
        }
    }
}
