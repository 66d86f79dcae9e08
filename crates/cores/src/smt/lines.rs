//! Loads that have read a line which a store of another hart writes then: they read it again.

use loiter_types::PhysAddr;

use super::chip::Chip;
use super::context::{Context, Progress};

/// The lines of an access: the first and the last, mostly the same.
#[derive(Clone, Copy)]
pub(super) struct Lines(u64, u64);

/// The lines of `bytes` bytes at `addr`.
#[inline(always)]
pub(super) fn lines(addr: PhysAddr, bytes: u64, line_log2: u32) -> Lines {
    Lines(
        addr.block(line_log2),
        PhysAddr(addr.0 + bytes - 1).block(line_log2),
    )
}

impl Lines {
    /// Their bits in `lines_read`.
    #[inline(always)]
    pub(super) fn bits(self) -> u64 {
        let bit = |line: u64| 1 << ((line ^ line >> 6 ^ line >> 12) & 63);
        bit(self.0) | bit(self.1)
    }

    /// The second line, if there are two.
    #[inline(always)]
    pub(super) fn second(self) -> Option<u64> {
        (self.0 != self.1).then_some(self.1)
    }

    /// Whether a line is one of both.
    #[inline(always)]
    fn meets(self, other: Lines) -> bool {
        self.0 <= other.1 && other.0 <= self.1
    }
}

impl Chip {
    /// Loads that have read a line which a store of another hart has just written read it again,
    /// unless all before them has retired. Where memory tells cores of lines that they lose, other cores hear of it
    /// from there.
    #[inline(always)]
    pub(super) fn tell_of_stores(&mut self, core_index: usize) {
        if !self.cores[core_index].state.performed.is_empty() {
            self.tell_of_performed(core_index);
        }
    }

    fn tell_of_performed(&mut self, core_index: usize) {
        let mut performed = std::mem::take(&mut self.cores[core_index].state.performed);
        for store in performed.drain(..) {
            let concerned = match store.owned {
                true => core_index..core_index + 1,
                false => 0..self.cores.len(),
            };
            for core in &mut self.cores[concerned] {
                let line_log2 = core.state.data_line_log2;
                let lines = lines(store.addr, store.bytes, line_log2);
                for context in &mut core.contexts {
                    if context.hart != Some(store.hart) {
                        context.written(lines, line_log2);
                    }
                }
            }
        }
        self.cores[core_index].state.performed = performed;
    }
}

impl Context {
    /// Its core has lost a line.
    pub(super) fn loses(&mut self, line: u64, line_log2: u32) {
        self.written(Lines(line, line), line_log2);
    }

    /// A store of another hart has written these lines.
    fn written(&mut self, written: Lines, line_log2: u32) {
        if self.lines_read & written.bits() == 0 {
            return;
        }
        self.lines_read = 0;
        for n in self.loads.iter() {
            let oldest = n == self.head;
            let entry = &mut self.entries[n as usize & (self.entries.len() - 1)];
            if entry.bytes == 0 || entry.progress != Progress::Done {
                continue;
            }
            let own = lines(entry.addr, entry.bytes, line_log2);
            entry.stale |= own.meets(written) && !oldest;
            self.lines_read |= own.bits();
        }
    }
}
