//! Where the calls of a context return to.

use loiter_types::StateVisitor;
use serde::{Deserialize, Serialize};

/// The latest return addresses, in a ring: the latest evict the oldest.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct ReturnStack {
    entries: Vec<u64>,
    /// Where the top is, if there is one.
    top: u16,
    /// How many there are.
    depth: u16,
}

/// What is kept of a return stack to restore it: where its top is, and its top entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Mark {
    entry: u64,
    top: u16,
    pub(super) depth: u16,
}

impl Mark {
    /// Shows `visitor` what is kept.
    pub(super) fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self { entry, top, depth } = self;
        visitor.value(*entry);
        visitor.value((*top).into());
        visitor.value((*depth).into());
    }

    /// The return address on top.
    #[inline(always)]
    pub(super) fn top(&self) -> Option<u64> {
        (self.depth > 0).then_some(self.entry)
    }
}

impl ReturnStack {
    /// Shows `visitor` its entries.
    pub(super) fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            entries,
            top,
            depth,
        } = self;
        entries.iter().for_each(|&entry| visitor.value(entry));
        visitor.value((*top).into());
        visitor.value((*depth).into());
    }

    pub(super) fn new(entries: u64) -> Self {
        Self {
            entries: vec![0; entries as usize],
            top: 0,
            depth: 0,
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.entries.fill(0);
        (self.top, self.depth) = (0, 0);
    }

    #[inline]
    pub(super) fn push(&mut self, addr: u64) {
        let size = self.entries.len();
        if size == 0 {
            return;
        }
        self.top = ((usize::from(self.top) + 1) % size) as u16;
        self.depth = (self.depth + 1).min(size as u16);
        self.entries[usize::from(self.top)] = addr;
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        if self.depth > 0 {
            let size = self.entries.len();
            self.top = ((usize::from(self.top) + size - 1) % size) as u16;
            self.depth -= 1;
        }
    }

    #[inline]
    pub(super) fn mark(&self) -> Mark {
        Mark {
            entry: self
                .entries
                .get(usize::from(self.top))
                .copied()
                .unwrap_or(0),
            top: self.top,
            depth: self.depth,
        }
    }

    #[inline]
    pub(super) fn restore(&mut self, mark: &Mark) {
        self.top = mark.top;
        self.depth = mark.depth;
        if let Some(entry) = self.entries.get_mut(usize::from(mark.top)) {
            *entry = mark.entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pops all there are.
    fn drain(stack: &mut ReturnStack) -> Vec<u64> {
        let mut all = Vec::new();
        while let Some(addr) = stack.mark().top() {
            all.push(addr);
            stack.pop();
        }
        all
    }

    fn stack_of(entries: u64, addrs: impl IntoIterator<Item = u64>) -> ReturnStack {
        let mut stack = ReturnStack::new(entries);
        addrs.into_iter().for_each(|addr| stack.push(addr));
        stack
    }

    #[test]
    fn the_latest_comes_first_and_the_oldest_are_lost() {
        for (entries, pushed, left) in [
            (16, 5, 5),
            (16, 16, 16),
            (16, 17, 16),
            (5, 23, 5),
            (1, 2, 1),
        ] {
            let mut stack = stack_of(entries, 0..pushed);
            let expected: Vec<u64> = (pushed - left..pushed).rev().collect();
            assert_eq!(drain(&mut stack), expected, "{pushed} in {entries}");
            stack.pop();
            stack.push(7);
            assert_eq!(drain(&mut stack), [7]);
        }
    }

    #[test]
    fn a_stack_of_no_entries_knows_nothing() {
        let mut stack = stack_of(0, 0..3);
        let mark = stack.mark();
        stack.pop();
        stack.restore(&mark);
        assert_eq!(stack.mark().top(), None);
    }

    #[test]
    fn the_top_is_repaired_and_what_lies_below_is_not() {
        // (entries popped on the wrong path, entries then pushed on it, what is left)
        for (popped, pushed, expected) in [
            (0, 3, [3, 2, 1]),
            (1, 1, [3, 2, 1]),
            (1, 5, [3, 2, 1]),
            (3, 0, [3, 2, 1]),
            (2, 2, [3, 100, 1]),
            (3, 1, [3, 2, 100]),
        ] {
            let mut stack = stack_of(8, 1..4);
            let mark = stack.mark();
            (0..popped).for_each(|_| stack.pop());
            (0..pushed).for_each(|n| stack.push(100 + n));
            stack.restore(&mark);
            assert_eq!(
                drain(&mut stack),
                expected,
                "{popped} popped, {pushed} pushed"
            );
        }
    }
}
