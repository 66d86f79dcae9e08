//! A short list in order of rank.

/// Most things in a list: the entries of a queue, or the contexts of a core.
const MOST: usize = 128;

/// Things, numbered, the one of the lowest rank first. Kept for its room.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Ranked {
    count: usize,
    /// Rank, and in the lowest eight bits the number.
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

    /// Takes the first out.
    #[inline(always)]
    pub(super) fn take_first(&mut self) -> Option<u8> {
        self.count = self.count.checked_sub(1)?;
        let first = self.keys[0] as u8;
        self.keys.copy_within(1..=self.count, 0);
        Some(first)
    }

    /// Rank of the first; more than any when there is none.
    #[inline(always)]
    pub(super) fn first_rank(&self) -> u64 {
        match self.count {
            0 => u64::MAX,
            _ => self.keys[0] >> 8,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_rank_comes_first() {
        let mut ranked = Ranked::new();
        for ranks in [&[3, 1, 2, 0][..], &[5], &[], &[1 << 55, 7, 1 << 40]] {
            ranked.clear();
            for (what, &rank) in ranks.iter().enumerate() {
                ranked.insert(rank, what as u8);
            }
            let mut expected: Vec<_> = ranks.iter().copied().zip(0..).collect();
            expected.sort_unstable();
            let got: Vec<_> = (0..ranked.len()).map(|at| ranked.get(at)).collect();
            assert_eq!(got, expected);
            for (rank, what) in expected {
                assert_eq!(ranked.first_rank(), rank);
                assert_eq!(ranked.take_first(), Some(what));
            }
            assert_eq!((ranked.first_rank(), ranked.take_first()), (u64::MAX, None));
        }
    }
}
