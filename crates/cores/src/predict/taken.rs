//! Every branch goes the same way.

/// Predicts one direction.
#[derive(Clone, Debug)]
pub(super) struct Always {
    pub(super) taken: bool,
}

impl Always {
    #[inline]
    pub(super) fn guess(&self) -> bool {
        self.taken
    }
}
