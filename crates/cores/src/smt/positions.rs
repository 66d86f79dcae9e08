//! Positions in the window of some of a context's instructions, in program order.

use serde::{Deserialize, Serialize};

/// The positions, oldest first, in a ring.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Positions {
    ring: Box<[u64]>,
    /// `first..end`, modulo the room of the ring.
    first: usize,
    end: usize,
}

impl Positions {
    /// Room for `most` positions.
    pub(super) fn new(most: usize) -> Self {
        Self {
            ring: vec![0; most.next_power_of_two()].into(),
            first: 0,
            end: 0,
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.end - self.first
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    #[inline(always)]
    fn at(&self, position: usize) -> u64 {
        self.ring[position & (self.ring.len() - 1)]
    }

    /// The oldest.
    #[inline(always)]
    pub(super) fn front(&self) -> Option<u64> {
        (!self.is_empty()).then(|| self.at(self.first))
    }

    /// From the oldest on.
    #[inline(always)]
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        (self.first..self.end).map(|position| self.at(position))
    }

    /// Adds the youngest.
    #[inline(always)]
    pub(super) fn push(&mut self, n: u64) {
        debug_assert!(self.len() < self.ring.len());
        let position = self.end & (self.ring.len() - 1);
        self.ring[position] = n;
        self.end += 1;
    }

    /// The oldest, which is `n`, leaves.
    #[inline(always)]
    pub(super) fn retire(&mut self, n: u64) {
        debug_assert_eq!(self.front(), Some(n));
        self.first += 1;
    }

    /// The youngest, which is `n`, is taken back.
    #[inline(always)]
    pub(super) fn squash(&mut self, n: u64) {
        debug_assert_eq!(self.iter().next_back(), Some(n));
        self.end -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_leave_at_both_ends() {
        let mut positions = Positions::new(3);
        for round in 0..5 {
            let n = 10 * round;
            (n..n + 3).for_each(|n| positions.push(n));
            positions.squash(n + 2);
            positions.retire(n);
            assert_eq!(positions.front(), Some(n + 1));
            positions.push(n + 5);
            assert_eq!(positions.iter().collect::<Vec<_>>(), [n + 1, n + 5]);
            assert_eq!(positions.iter().next_back(), Some(n + 5));
            positions.retire(n + 1);
            assert_eq!(positions.len(), 1);
            positions.squash(n + 5);
            assert!(positions.is_empty() && positions.front().is_none());
        }
    }
}
