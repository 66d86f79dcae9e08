//! The policies that predict directions, behind one interface.

use loiter_types::StateVisitor;
use serde::{Deserialize, Serialize};

use super::bimodal::Bimodal;
use super::hybrid::Hybrid;
use super::params::BranchParams;
use super::taken::Always;

/// What a direction rests on: kept from prediction to retirement, so that what has answered is what
/// learns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Basis {
    /// Hybrid: the history of the branch itself.
    pub(super) local_history: u32,
    /// Hybrid: what the local side said.
    pub(super) local: bool,
    /// Hybrid: what the global side said.
    pub(super) global: bool,
}

/// A direction, predicted.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Guess {
    pub(super) taken: bool,
    pub(super) basis: Basis,
}

impl From<bool> for Guess {
    fn from(taken: bool) -> Self {
        Self {
            taken,
            basis: Basis::default(),
        }
    }
}

/// A policy with its tables.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) enum Direction {
    Hybrid(Hybrid),
    Bimodal(Bimodal),
    Always(Always),
}

impl Direction {
    /// Shows `visitor` what it has learned.
    pub(super) fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        match self {
            Direction::Hybrid(hybrid) => hybrid.visit_state(visitor),
            Direction::Bimodal(bimodal) => bimodal.visit_state(visitor),
            Direction::Always(_) => {}
        }
    }

    pub(super) fn new(params: &BranchParams) -> Result<Self, String> {
        // Sizes that the policy does not use are refused too: a study may change the policy alone.
        let (hybrid, bimodal) = (Hybrid::new(params)?, Bimodal::new(params)?);
        Ok(match params.kind.as_str() {
            "bimodal" => Direction::Bimodal(bimodal),
            "taken" => Direction::Always(Always { taken: true }),
            "not_taken" => Direction::Always(Always { taken: false }),
            _ => Direction::Hybrid(hybrid),
        })
    }

    /// Which way the branch at `pc` goes, after branches that went the ways of `history`.
    #[inline]
    pub(super) fn guess(&self, pc: u64, history: u32) -> Guess {
        match self {
            Direction::Hybrid(hybrid) => hybrid.guess(pc, history),
            Direction::Bimodal(bimodal) => bimodal.guess(pc).into(),
            Direction::Always(always) => always.guess().into(),
        }
    }

    /// Learns which way it went. `history` and `basis` are those of its guess.
    #[inline]
    pub(super) fn train(&mut self, pc: u64, history: u32, basis: &Basis, taken: bool) {
        match self {
            Direction::Hybrid(hybrid) => hybrid.train(pc, history, basis, taken),
            Direction::Bimodal(bimodal) => bimodal.train(pc, taken),
            Direction::Always(_) => {}
        }
    }
}
