//! Which hart sits where.

use loiter_types::{ContextId, HartId};

/// Core and context within it, by hart.
#[derive(Debug, Default)]
pub(crate) struct Seats(Vec<(usize, usize)>);

impl Seats {
    /// `hart` sits in `context` of cores with `per_core` contexts from now on. Returns core and context
    /// within it.
    pub(crate) fn take(
        &mut self,
        hart: HartId,
        context: ContextId,
        per_core: usize,
    ) -> (usize, usize) {
        if self.0.len() <= hart.index() {
            self.0.resize(hart.index() + 1, (0, 0));
        }
        let seat = (context.index() / per_core, context.index() % per_core);
        self.0[hart.index()] = seat;
        seat
    }

    /// Core and context within it of a hart that has a seat.
    #[inline(always)]
    pub(crate) fn of(&self, hart: HartId) -> (usize, usize) {
        self.0[hart.index()]
    }
}
