//! Which contexts of a core have to be looked at in a cycle. Those that sleep or are vacant, with
//! nothing in flight, are dormant: nothing happens in them until something outside of the core, or the
//! end of a nap with a limit, rouses them. So they cost nothing.

use loiter_types::Cycle;
use serde::{Deserialize, Serialize};

use super::context::{Context, Fetch};
use super::core::{Core, CoreState};

/// A set of contexts of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct ContextSet(u64);

impl ContextSet {
    /// The first `count` contexts.
    pub(super) fn first(count: usize) -> Self {
        Self(u64::MAX >> (64 - count))
    }

    #[inline(always)]
    fn remove(&mut self, c: usize) {
        self.0 &= !(1 << c);
    }

    #[cfg(debug_assertions)]
    fn has(self, c: usize) -> bool {
        self.0 >> c & 1 == 1
    }

    /// Its contexts in turn, from context `c` on.
    #[inline(always)]
    pub(super) fn from(self, c: usize) -> InTurn {
        InTurn {
            rest: self.0.rotate_right(c as u32),
            first: c,
        }
    }
}

impl IntoIterator for ContextSet {
    type Item = usize;
    type IntoIter = InTurn;

    #[inline(always)]
    fn into_iter(self) -> InTurn {
        self.from(0)
    }
}

/// Contexts in turn. Where the turn begins is no branch: it is another context in each cycle.
pub(super) struct InTurn {
    /// Bit n: the context `n` after `first`, modulo 64, comes.
    rest: u64,
    first: usize,
}

impl Iterator for InTurn {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.rest == 0 {
            return None;
        }
        let c = (self.first + self.rest.trailing_zeros() as usize) % 64;
        self.rest &= self.rest - 1;
        Some(c)
    }
}

impl Core {
    /// Rouses those whose nap ends.
    #[inline(always)]
    pub(super) fn end_naps(&mut self, now: Cycle) {
        if self.state.naps_end <= now {
            self.state.rouse();
        }
        #[cfg(debug_assertions)]
        for (c, context) in self.contexts.iter().enumerate() {
            let overlooked = !self.state.awake.has(c) && !context.is_dormant();
            assert!(!overlooked, "{}: nobody has roused it", context.id);
        }
    }
}

impl CoreState {
    /// Something has changed a context that may be dormant: all are looked at again.
    pub(super) fn rouse(&mut self) {
        self.awake = ContextSet::first(self.params.contexts as usize);
        self.naps_end = Cycle::NEVER;
    }

    /// Context `c` is dormant from the next cycle on.
    #[inline(always)]
    pub(super) fn is_dormant_now(&mut self, c: usize, context: &Context) {
        self.awake.remove(c);
        self.naps_end = self.naps_end.min(context.nap_until);
    }
}

impl Context {
    /// Whether nothing happens here by itself, but for the end of a nap with a limit.
    #[inline(always)]
    pub(super) fn is_dormant(&self) -> bool {
        matches!(self.fetch, Fetch::Asleep(_) | Fetch::Vacant)
            && self.is_empty()
            && self.buffer.is_empty()
    }
}
