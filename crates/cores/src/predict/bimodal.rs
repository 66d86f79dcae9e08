//! A branch goes where it mostly went: a two-bit counter for each (McFarling, "Combining Branch
//! Predictors", 1993, section 3).

use loiter_types::StateVisitor;
use serde::{Deserialize, Serialize};

use super::params::BranchParams;
use super::two_bit::{TwoBitTable, index};

/// The counters, by address of the branch.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Bimodal {
    counters: TwoBitTable,
}

impl Bimodal {
    /// Shows `visitor` what it has learned.
    pub(super) fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        self.counters.visit_state(visitor);
    }

    pub(super) fn new(params: &BranchParams) -> Result<Self, String> {
        let counters = TwoBitTable::new("bimodal_entries", params.bimodal_entries)?;
        Ok(Self { counters })
    }

    #[inline]
    pub(super) fn guess(&self, pc: u64) -> bool {
        self.counters.says(index(pc))
    }

    #[inline]
    pub(super) fn train(&mut self, pc: u64, taken: bool) {
        self.counters.train(index(pc), taken);
    }
}
