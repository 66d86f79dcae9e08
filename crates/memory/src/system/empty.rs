//! Caches of a core that are emptied.

use loiter_types::{CoreId, Cycle, PhysAddr};

use super::MemorySystem;
use crate::cache::Lookup;
use crate::request::{Caches, Emptied};

impl MemorySystem {
    /// As [`crate::Memory::empty`].
    pub(crate) fn empty(
        &mut self,
        now: Cycle,
        core: CoreId,
        which: Caches,
        stays: impl Fn(u64) -> bool,
    ) -> Emptied {
        let mut emptied = Emptied {
            lines: self.empty_instructions(core),
            written_back: 0,
        };
        if which == Caches::Instructions {
            self.first[core.index()].instruction_counters.invalidations += emptied.lines;
            return emptied;
        }
        for changed in self.empty_data(core, stays, &mut emptied) {
            self.write_back(now, core, Some(changed));
        }
        emptied
    }

    /// As [`crate::Memory::empty_at_once`].
    pub(crate) fn empty_at_once(&mut self, core: CoreId) {
        self.empty_instructions(core);
        self.empty_data(core, |_| false, &mut Emptied::default());
    }

    fn empty_instructions(&mut self, core: CoreId) -> u64 {
        let first = &mut self.first[core.index()];
        first.changes += 1;
        first.instructions.clear()
    }

    /// Returns the lines that have to be written back.
    fn empty_data(
        &mut self,
        core: CoreId,
        stays: impl Fn(u64) -> bool,
        emptied: &mut Emptied,
    ) -> Vec<PhysAddr> {
        let first = &mut self.first[core.index()];
        let lines: Vec<u64> = first.data.present().filter(|&line| !stays(line)).collect();
        emptied.lines += lines.len() as u64;
        let mut changed = Vec::new();
        for line in lines {
            let Lookup::Hit(index) = first.data.find(line) else {
                continue;
            };
            first.data.invalidate(line);
            if std::mem::take(&mut first.owned[index]) {
                changed.push(PhysAddr(line << first.data.line_log2()));
            }
        }
        emptied.written_back += changed.len() as u64;
        for &addr in &changed {
            if let Some(index) = self.l2.find(self.l2.line(addr))
                && self.l2.lines[index].owner == Some(core)
            {
                self.l2.lines[index].owner = None;
            }
        }
        changed
    }
}
