//! Who has a second-level line in a first level of its own, and to whom it belongs.

use loiter_types::{CoreId, Cycle, PhysAddr};

use super::{Event, FirstLevel, MemorySystem, Request};
use crate::cache::{Cache, Lookup};
use crate::l2::{L2, SHARER_WORDS, Served};

impl MemorySystem {
    /// A line that another core owns comes from there, which takes the way to it and back, and is not
    /// its own any more.
    pub(super) fn take_from_owner(&mut self, served: &mut Served, request: Request) {
        let line = &mut self.l2.lines[served.index];
        let Some(owner) = line.owner.filter(|&owner| owner != request.core) else {
            return;
        };
        line.owner = None;
        let there = self.l2.reply_cycles();
        let at = served.performs.after(there);
        served.performs = at.after(self.l2.request_cycles());
        let number = self.l2.line(request.addr);
        self.events.insert(at, Event::Share(owner, number));
    }

    /// Fills a line that is to be the core's own. Returns the changed line that it replaced.
    pub(crate) fn fill_owned(&mut self, core: CoreId, addr: PhysAddr) -> Option<PhysAddr> {
        let first = &mut self.first[core.index()];
        let changed = fill_data(first, &self.l2, core, addr);
        let index = self.l2.find(self.l2.line(addr));
        let own = index.is_some_and(|index| self.l2.lines[index].owner == Some(core));
        if let Lookup::Hit(index) = first.data.find(first.data.line(addr)) {
            first.owned[index] = own;
        }
        changed
    }

    /// A changed line that the data cache of `core` has lost, if there is one, goes to the second level.
    pub(super) fn write_back(&mut self, now: Cycle, core: CoreId, changed: Option<PhysAddr>) {
        if let Some(addr) = changed
            && self.first[core.index()].bus.write_back(now)
        {
            self.l2.write_back(now, addr);
        }
    }

    /// The parts of a second-level line that the data cache of `core` has changed go there.
    pub(super) fn write_back_parts(&mut self, now: Cycle, core: CoreId, line: u64) {
        let bytes = self.l2.line_bytes();
        let data = &self.first[core.index()].data;
        let from = data.line(PhysAddr(line * bytes));
        let to = data.line(PhysAddr(line * bytes + bytes - 1));
        for part in from..=to {
            let first = &self.first[core.index()];
            if let Lookup::Hit(index) = first.data.find(part)
                && first.owned[index]
            {
                self.write_back(now, core, Some(PhysAddr(line * bytes)));
            }
        }
    }

    /// The lines of `core` that are part of a second-level line are no longer its own.
    pub(crate) fn disown(&mut self, core: CoreId, line: u64) {
        let bytes = self.l2.line_bytes();
        let first = &mut self.first[core.index()];
        let from = first.data.line(PhysAddr(line * bytes));
        let to = first.data.line(PhysAddr(line * bytes + bytes - 1));
        for part in from..=to {
            if let Lookup::Hit(index) = first.data.find(part) {
                first.owned[index] = false;
            }
        }
    }

    pub(crate) fn share(&mut self, index: usize, core: CoreId) {
        let n = core.index();
        self.l2.lines[index].sharers[n / 64] |= 1 << (n % 64);
    }

    /// Tells the `sharers` of a line, but for the core that keeps it, that the line is lost; they
    /// hear it a reply's time after `performs`.
    pub(super) fn invalidate_sharers(
        &mut self,
        performs: Cycle,
        line: u64,
        sharers: [u64; SHARER_WORDS],
        keeps: Option<CoreId>,
    ) {
        let at = performs.after(self.l2.reply_cycles());
        for core in cores_of(sharers) {
            if Some(core) != keeps {
                self.events.insert(at, Event::Invalidate(core, line));
            }
        }
    }

    pub(super) fn invalidate(&mut self, core: CoreId, line: u64) {
        let [instructions, data] = self.lose(core, line);
        let first = &mut self.first[core.index()];
        first.instruction_counters.invalidations += instructions;
        first.data_counters.invalidations += data;
    }

    /// The first level of `core` loses a second-level line. Returns how many lines its caches lose.
    pub(crate) fn lose(&mut self, core: CoreId, line: u64) -> [u64; 2] {
        let bytes = self.l2.line_bytes();
        let first = &mut self.first[core.index()];
        [&mut first.instructions, &mut first.data].map(|cache| {
            let from = cache.line(PhysAddr(line * bytes));
            let to = cache.line(PhysAddr(line * bytes + bytes - 1));
            let lost = (from..=to).filter(|&part| cache.invalidate(part));
            lost.count() as u64
        })
    }
}

/// The cores that have a bit in `sharers`.
pub(crate) fn cores_of(mut sharers: [u64; SHARER_WORDS]) -> impl Iterator<Item = CoreId> {
    std::iter::from_fn(move || {
        let word = sharers.iter().position(|&bits| bits != 0)?;
        let bit = sharers[word].trailing_zeros() as usize;
        sharers[word] &= sharers[word] - 1;
        Some(CoreId::new(word * 64 + bit))
    })
}

/// Fills a first-level line unless it came by another miss, or was lost again in flight. Returns
/// where it is and the line that it replaced.
pub(crate) fn fill(
    cache: &mut Cache,
    l2: &L2,
    core: CoreId,
    addr: PhysAddr,
) -> Option<(usize, Option<u64>)> {
    let shared = l2.find(l2.line(addr)).is_some_and(|index| {
        l2.lines[index].sharers[core.index() / 64] >> (core.index() % 64) & 1 == 1
    });
    let line = cache.line(addr);
    (shared && cache.find(line) == Lookup::Miss).then(|| cache.fill(line))
}

/// As [`fill`], of a data cache: a line that has just come is not the core's own. Returns the changed line
/// that it replaced.
pub(crate) fn fill_data(
    first: &mut FirstLevel,
    l2: &L2,
    core: CoreId,
    addr: PhysAddr,
) -> Option<PhysAddr> {
    let (index, replaced) = fill(&mut first.data, l2, core, addr)?;
    let changed = std::mem::replace(&mut first.owned[index], false);
    let replaced = replaced.filter(|_| changed)?;
    Some(PhysAddr(replaced << first.data.line_log2()))
}
