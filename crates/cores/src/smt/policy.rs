//! Fetch policies: which contexts are fetched from first.

use super::context::Context;

/// A policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchPolicy {
    /// Those with the fewest instructions before issue (Tullsen et al. 1996, ICOUNT).
    Icount,
    /// In turn.
    RoundRobin,
}

impl FetchPolicy {
    /// The policy of a word of `core.fetch_policy`.
    pub(super) fn named(word: &str) -> Self {
        match word {
            "round_robin" => Self::RoundRobin,
            _ => Self::Icount,
        }
    }

    /// What contexts are preferred by, the least first; equals go in turn.
    #[inline(always)]
    pub(super) fn rank(self, context: &Context) -> u64 {
        match self {
            Self::Icount => u64::from(context.unissued),
            Self::RoundRobin => 0,
        }
    }
}
