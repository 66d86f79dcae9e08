//! Loads that have read a line which a store of another hart writes then: they read it again.

use loiter_types::PhysAddr;
use serde::{Deserialize, Serialize};

use super::context::{Context, Progress};
use super::core::{Core, PerformedStore};

/// The lines of an access: the first and the last, mostly the same.
#[derive(Clone, Copy, Deserialize, Serialize)]
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

impl Core {
    /// Loads of its contexts that have read a line which a store of another hart has just written read it again, unless
    /// all before them has retired. Stores of which other cores have not heard stay for [`Core::take_performed`].
    #[inline(always)]
    pub(super) fn hear_own_stores(&mut self) {
        if !self.state.performed.is_empty() {
            let mut performed = std::mem::take(&mut self.state.performed);
            self.hear_of(&performed);
            performed.retain(|store| !store.owned);
            self.state.performed = performed;
        }
    }

    /// Those stores.
    pub(crate) fn take_performed(&mut self) -> Vec<PerformedStore> {
        std::mem::take(&mut self.state.performed)
    }

    /// Gives the room for stores back.
    pub(crate) fn keep_room(&mut self, mut performed: Vec<PerformedStore>) {
        performed.clear();
        self.state.performed = performed;
    }

    /// Loads of its contexts that have read a line which one of these stores has written read it again.
    pub(crate) fn hear_of(&mut self, performed: &[PerformedStore]) {
        let line_log2 = self.state.data_line_log2;
        for store in performed {
            let lines = lines(store.addr, store.bytes, line_log2);
            for context in &mut self.contexts {
                if context.hart != Some(store.hart) {
                    context.written(lines, line_log2);
                }
            }
        }
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
