//! The state of a part of the model as a visitor sees it: what has to be the same for the part to behave the same, and
//! what only grows.

use crate::{CounterSet, Cycle};

/// Goes through the state of a part of the model, to compare it with what it was some cycles ago, or to move it in time.
///
/// A part shows every field in one way or another, the same fields in the same order each time. What it does not show
/// must follow from what it shows, be a constant, or only say where something is kept.
pub trait StateVisitor {
    /// A count that nothing in the model depends on. Sums may wrap.
    fn count(&mut self, count: &mut u64);

    /// The cycle from which on, or until which, something is so. All that have passed mean the same.
    fn cycle(&mut self, at: &mut Cycle);

    /// A cycle of which it matters how long ago it was.
    fn instant(&mut self, at: &mut Cycle);

    /// A cycle that stays where it is, and in which something happens if it has not passed.
    fn deadline(&mut self, at: Cycle);

    /// The first multiple of `of` after the last cycle: what is due in each of them has nothing to do.
    fn multiple(&mut self, at: &mut Cycle, of: u64);

    /// A value that may grow by the same amount each time, as a register that a loop counts in does.
    fn quantity(&mut self, value: &mut u64);

    /// Anything else.
    fn value(&mut self, value: u64);

    /// What has to hold for the part to repeat itself without others.
    fn require(&mut self, holds: bool);

    /// By how many cycles the state moves; 0 if it is only looked at.
    fn moves(&self) -> u64;

    /// Bytes, none of which moves.
    fn bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.value(u64::from_le_bytes(word));
        }
    }

    /// All counters of a set.
    fn counters(&mut self, counters: &mut impl CounterSet)
    where
        Self: Sized,
    {
        counters.for_each(|count| self.count(count));
    }

    /// The order of times of last use within groups of `ways`: nothing else of them matters.
    fn order_of_use(&mut self, used: &[impl Ord], ways: usize)
    where
        Self: Sized,
    {
        for group in used.chunks(ways) {
            for time in group {
                let before = group.iter().filter(|&other| other < time).count();
                self.value(before as u64);
            }
        }
    }
}
