//! Every branch goes the same way.

use serde::{Deserialize, Serialize};

/// Predicts one direction.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Always {
    pub(super) taken: bool,
}

impl Always {
    #[inline]
    pub(super) fn guess(&self) -> bool {
        self.taken
    }
}
