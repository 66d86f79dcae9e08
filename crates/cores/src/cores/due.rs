//! When cores are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use loiter_types::Cycle;
use serde::{Deserialize, Serialize};

/// For each core the cycle before which nothing happens in it. Cores that are due at once have a bit each; the others
/// stand in a heap, some of its entries for cycles that are no longer right. So a cycle costs nothing for cores that
/// have nothing to do in it.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Schedule {
    at: Vec<Cycle>,
    /// Cores due by `horizon`, 64 a word.
    soon: Vec<u64>,
    later: BinaryHeap<Reverse<(Cycle, u32)>>,
    /// The last cycle that counts as at once.
    horizon: Cycle,
}

impl Schedule {
    /// Nothing happens in any of `cores` cores.
    pub(super) fn new(cores: usize) -> Self {
        Self {
            at: vec![Cycle::NEVER; cores],
            soon: vec![0; cores.div_ceil(64)],
            later: BinaryHeap::new(),
            horizon: Cycle(0),
        }
    }

    /// When `core` is due.
    #[inline(always)]
    pub(super) fn of(&self, core: usize) -> Cycle {
        self.at[core]
    }

    /// `core` is due at `at`.
    #[inline(always)]
    pub(super) fn set(&mut self, core: usize, at: Cycle) {
        if at <= self.horizon {
            self.at[core] = at;
            self.soon[core / 64] |= 1 << (core % 64);
        } else {
            self.set_later(core, at);
        }
    }

    fn set_later(&mut self, core: usize, at: Cycle) {
        self.soon[core / 64] &= !(1 << (core % 64));
        if std::mem::replace(&mut self.at[core], at) == at || at == Cycle::NEVER {
            // Its entry is there, or it needs none.
            return;
        }
        self.later.push(Reverse((at, core as u32)));
        if self.later.len() > 4 * self.at.len() {
            let (known, soon) = (&self.at, &self.soon);
            self.later.retain(|&Reverse((at, core))| {
                let core = core as usize;
                known[core] == at && soon[core / 64] >> (core % 64) & 1 == 0
            });
        }
    }

    /// `core` is due at `at`, or earlier.
    #[inline(always)]
    pub(super) fn no_later(&mut self, core: usize, at: Cycle) {
        if at < self.at[core] {
            self.set(core, at);
        }
    }

    /// Cycle `now` begins: all that is due in it, or in the next, is due at once.
    #[inline(always)]
    pub(super) fn begin(&mut self, now: Cycle) {
        self.horizon = now.after(1);
        while let Some(&Reverse((at, core))) = self.later.peek() {
            if at > self.horizon {
                break;
            }
            self.later.pop();
            if self.at[core as usize] == at {
                self.soon[core as usize / 64] |= 1 << (core % 64);
            }
        }
    }

    /// Cores that are due at once in a word, from 64 times `word` on; some may be due in the next cycle only.
    #[inline(always)]
    pub(super) fn soon(&self, word: usize) -> u64 {
        self.soon[word]
    }

    /// The words of [`Schedule::soon`].
    #[inline(always)]
    pub(super) fn words(&self) -> usize {
        self.soon.len()
    }

    /// The only core that is due at once, if it is one.
    #[inline(always)]
    pub(super) fn only(&self) -> Option<usize> {
        let mut only = None;
        for (word, &bits) in self.soon.iter().enumerate() {
            if bits == 0 {
                continue;
            }
            if only.is_some() || !bits.is_power_of_two() {
                return None;
            }
            only = Some(64 * word + bits.trailing_zeros() as usize);
        }
        only
    }

    /// The first cycle in which a core is due.
    #[inline]
    pub(super) fn next(&mut self) -> Cycle {
        let mut next = self.next_later();
        for (word, &bits) in self.soon.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                next = next.min(self.at[64 * word + bits.trailing_zeros() as usize]);
                bits &= bits - 1;
            }
        }
        next
    }

    /// The first cycle in which a core is due that is not due at once.
    #[inline]
    pub(super) fn next_later(&mut self) -> Cycle {
        while let Some(&Reverse((at, core))) = self.later.peek() {
            let core = core as usize;
            let is_soon = self.soon[core / 64] >> (core % 64) & 1 == 1;
            if self.at[core] == at && !is_soon {
                return at;
            }
            self.later.pop();
        }
        Cycle::NEVER
    }
}

#[cfg(test)]
#[path = "due_tests.rs"]
mod tests;
