//! Short lists by rank.

use serde::{Deserialize, Serialize};
use serde_with::serde_as;

/// Most things in a list: the entries of a queue, or the contexts of a core.
const MOST: usize = 128;

/// Things, numbered, the one of the lowest rank first. Kept for its room.
#[serde_as]
#[derive(Debug, Deserialize, Serialize)]
#[repr(C)]
pub(super) struct Ranked {
    count: usize,
    /// Rank, and in the lowest eight bits the number.
    #[serde_as(as = "[_; MOST]")]
    keys: [u64; MOST],
}

impl Ranked {
    pub(super) fn new() -> Self {
        Self {
            keys: [0; MOST],
            count: 0,
        }
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// Puts `what` in, whose rank, less than 2^56, no other has.
    #[inline(always)]
    pub(super) fn insert(&mut self, rank: u64, what: u8) {
        let key = rank << 8 | u64::from(what);
        // The lists are short and mostly come in order, so that each finds its place in a step or two.
        let mut at = self.count;
        while at > 0 && self.keys[at - 1] > key {
            self.keys[at] = self.keys[at - 1];
            at -= 1;
        }
        self.keys[at] = key;
        self.count += 1;
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Rank and number of the one at `at`.
    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> (u64, u8) {
        (self.keys[at] >> 8, self.keys[at] as u8)
    }
}

/// Most contexts of a core.
const MOST_CONTEXTS: usize = 64;

/// A few things of which one or two are taken, that of the lowest rank first. Their order, which changes from cycle to
/// cycle, is looked for without branches.
#[serde_as]
#[derive(Debug, Deserialize, Serialize)]
#[repr(C)]
pub(super) struct Candidates {
    count: usize,
    /// As in [`Ranked`].
    #[serde_as(as = "[_; MOST_CONTEXTS]")]
    keys: [u64; MOST_CONTEXTS],
}

impl Candidates {
    pub(super) fn new() -> Self {
        Self {
            count: 0,
            keys: [0; MOST_CONTEXTS],
        }
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// Puts `what` in, whose rank, less than 2^56, no other has.
    #[inline(always)]
    pub(super) fn insert(&mut self, rank: u64, what: u8) {
        self.keys[self.count] = rank << 8 | u64::from(what);
        self.count += 1;
    }

    /// Takes that of the lowest rank out.
    #[inline(always)]
    pub(super) fn take_first(&mut self) -> Option<u8> {
        let last = self.count.checked_sub(1)?;
        let (mut first, mut at) = (u64::MAX, 0);
        for (n, &key) in self.keys[..self.count].iter().enumerate() {
            at = if key < first { n } else { at };
            first = first.min(key);
        }
        self.keys[at] = self.keys[last];
        self.count = last;
        Some(first as u8)
    }

    /// The lowest rank; more than any when there is none.
    #[inline(always)]
    pub(super) fn first_rank(&self) -> u64 {
        let keys = self.keys[..self.count].iter();
        keys.copied().min().map_or(u64::MAX, |key| key >> 8)
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_rank_comes_first() {
        let (mut ranked, mut candidates) = (Ranked::new(), Candidates::new());
        for ranks in [&[3, 1, 2, 0][..], &[5], &[], &[1 << 55, 7, 1 << 40]] {
            ranked.clear();
            candidates.clear();
            for (what, &rank) in ranks.iter().enumerate() {
                ranked.insert(rank, what as u8);
                candidates.insert(rank, what as u8);
            }
            let mut expected: Vec<_> = ranks.iter().copied().zip(0..).collect();
            expected.sort_unstable();
            let got: Vec<_> = (0..ranked.len()).map(|at| ranked.get(at)).collect();
            assert_eq!(got, expected);
            for (n, &(rank, what)) in expected.iter().enumerate() {
                assert_eq!(candidates.len(), expected.len() - n);
                assert_eq!(candidates.first_rank(), rank);
                assert_eq!(candidates.take_first(), Some(what));
            }
            let first = (candidates.first_rank(), candidates.take_first());
            assert_eq!(first, (u64::MAX, None));
        }
    }
}
