//! The front end between fetch and renaming, where its stages hold groups.
//!
//! After the simulator of Tullsen et al. (SMTSIM: fetch.c, decode.c, regrename.c). What one cycle fetched
//! is a group. A stage takes the group before it only when it is empty, so that a group which renaming
//! takes in parts keeps the others where they are, and with a group in each stage nothing is fetched. What
//! of a group is squashed keeps its entry until the group has come to renaming.

use std::collections::VecDeque;

use loiter_types::{Cycle, StateVisitor};
use serde::{Deserialize, Serialize};

/// What one cycle fetched.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Group {
    /// When it comes to renaming if nothing keeps it.
    due: Cycle,
    /// Age of its youngest instruction.
    last_seq: u64,
}

/// The groups in the front end, the oldest first.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Stages {
    groups: VecDeque<Group>,
    stages: usize,
}

impl Stages {
    /// As many stages as there are cycles between fetch and renaming.
    pub(super) fn new(stages: u64) -> Self {
        let stages = stages as usize;
        Self {
            groups: VecDeque::with_capacity(stages),
            stages,
        }
    }

    /// Shows `visitor` the groups, where the next instruction has age `next_seq`.
    pub(super) fn shows_state(&mut self, next_seq: u64, visitor: &mut impl StateVisitor) {
        visitor.value(self.groups.len() as u64);
        for Group { due, last_seq } in &mut self.groups {
            visitor.cycle(due);
            visitor.value(next_seq - *last_seq);
        }
    }

    /// Whether the first stage is taken, so that nothing can be fetched.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.groups.len() == self.stages
    }

    /// A cycle has fetched instructions up to `last_seq`.
    #[inline(always)]
    pub(super) fn push(&mut self, due: Cycle, last_seq: u64) {
        debug_assert!(!self.is_full());
        self.groups.push_back(Group { due, last_seq });
    }

    /// Age of the youngest instruction of the group that is at renaming, if there is one.
    #[inline(always)]
    pub(super) fn at_rename(&self, now: Cycle) -> Option<u64> {
        let oldest = self.groups.front()?;
        (oldest.due <= now).then_some(oldest.last_seq)
    }

    /// When the oldest group comes to renaming.
    #[inline(always)]
    pub(super) fn due(&self) -> Cycle {
        self.groups
            .front()
            .map_or(Cycle::NEVER, |oldest| oldest.due)
    }

    /// Nothing of the oldest group is left.
    #[inline(always)]
    pub(super) fn pop(&mut self) {
        self.groups.pop_front();
    }

    /// All that was fetched and not renamed has been squashed.
    pub(super) fn clear(&mut self) {
        self.groups.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_pass_one_after_the_other() {
        let mut stages = Stages::new(3);
        assert_eq!((stages.due(), stages.is_full()), (Cycle::NEVER, false));
        for round in 0..5 {
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
