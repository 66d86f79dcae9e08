//! The front end between fetch and renaming, where its stages hold groups.
//!
//! After the simulator of Tullsen et al. (SMTSIM: fetch.c, decode.c, regrename.c). What one cycle fetched
//! is a group. A stage takes the group before it only when it is empty, so that a group which renaming
//! takes in parts keeps the others where they are, and with a group in each stage nothing is fetched. What
//! of a group is squashed keeps its place until the group has come to renaming.

use loiter_types::Cycle;

/// Most stages: the bound of `core.front_cycles`.
const MOST: usize = 32;

/// What one cycle fetched.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// When it comes to renaming if nothing keeps it.
    due: Cycle,
    /// Age of its youngest instruction.
    last_seq: u64,
}

/// The groups on their way, the oldest first.
#[derive(Debug)]
pub(super) struct Stages {
    groups: [Group; MOST],
    /// Where the oldest is.
    first: usize,
    count: usize,
    stages: usize,
}

impl Stages {
    /// As many stages as there are cycles between fetch and renaming.
    pub(super) fn new(stages: u64) -> Self {
        let none = Group {
            due: Cycle::NEVER,
            last_seq: 0,
        };
        Self {
            groups: [none; MOST],
            first: 0,
            count: 0,
            stages: stages as usize,
        }
    }

    /// Whether the first stage is taken, so that nothing can be fetched.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.count == self.stages
    }

    /// A cycle has fetched instructions up to `last_seq`.
    #[inline(always)]
    pub(super) fn push(&mut self, due: Cycle, last_seq: u64) {
        debug_assert!(!self.is_full());
        self.groups[(self.first + self.count) % MOST] = Group { due, last_seq };
        self.count += 1;
    }

    /// Age of the youngest instruction of the group that is at renaming, if there is one.
    #[inline(always)]
    pub(super) fn at_rename(&self, now: Cycle) -> Option<u64> {
        (self.due() <= now).then(|| self.groups[self.first].last_seq)
    }

    /// When the oldest group comes to renaming.
    #[inline(always)]
    pub(super) fn due(&self) -> Cycle {
        match self.count {
            0 => Cycle::NEVER,
            _ => self.groups[self.first].due,
        }
    }

    /// Nothing of the oldest group is left.
    #[inline(always)]
    pub(super) fn pop(&mut self) {
        self.first = (self.first + 1) % MOST;
        self.count -= 1;
    }

    /// All that was fetched and not renamed has been squashed.
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_pass_one_after_the_other() {
        let mut stages = Stages::new(3);
        assert_eq!((stages.due(), stages.is_full()), (Cycle::NEVER, false));
        for round in 0..2 * MOST as u64 {
            let begin = Cycle(10 * round);
            for n in 0..3 {
                assert!(!stages.is_full());
                stages.push(begin.after(3 + n), 100 * round + n);
            }
            assert!(stages.is_full());
            assert_eq!(stages.at_rename(begin.after(2)), None);
            for n in 0..3 {
                assert_eq!(stages.due(), begin.after(3 + n));
                assert_eq!(stages.at_rename(begin.after(9)), Some(100 * round + n));
                stages.pop();
                assert!(!stages.is_full());
            }
            assert_eq!(stages.at_rename(begin.after(9)), None);
        }
        stages.push(Cycle(1), 1);
        stages.clear();
        assert_eq!(stages.due(), Cycle::NEVER);
    }
}
