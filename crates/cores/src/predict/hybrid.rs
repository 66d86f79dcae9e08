//! McFarling's combination of two sides, and counters that choose between them ("Combining Branch
//! Predictors", 1993, section 8), of the tables of Redstone 2002, Table 2.1.
//!
//! What the table does not say is assumed, after McFarling:
//! - Local side: the history of a branch, found by its address, selects a counter (section 4).
//! - Global side: the history of all branches of the context, exclusive-ored with the address,
//!   selects a counter (section 7).
//! - Choice: the address selects a counter, which moves only when the sides disagree.
//! - All counters have two bits; none is sure at the start, all directions are "not taken" and all
//!   choices are "local".
//!
//! Local histories move on at retirement, since they are too many to restore: a branch whose
//! predecessors are still in flight sees an older history. It trains the counter that answered it,
//! so a constant delay is learned with the pattern.

use loiter_types::StateVisitor;
use serde::{Deserialize, Serialize};

use super::direction::{Basis, Guess};
use super::params::BranchParams;
use super::two_bit::{TwoBitTable, index, power_of_two};

/// The tables.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Hybrid {
    local_histories: Vec<u32>,
    /// Which bits of a local history are kept.
    local_mask: u32,
    local: TwoBitTable,
    global: TwoBitTable,
    /// "Yes" is for the global side.
    choice: TwoBitTable,
}

impl Hybrid {
    pub(super) fn new(params: &BranchParams) -> Result<Self, String> {
        power_of_two("local_history_entries", params.local_history_entries)?;
        let local = TwoBitTable::new("local_prediction_entries", params.local_prediction_entries)?;
        Ok(Self {
            local_histories: vec![0; params.local_history_entries as usize],
            local_mask: (1 << local.log2()) - 1,
            local,
            global: TwoBitTable::new("global_entries", params.global_entries)?,
            choice: TwoBitTable::new("choice_entries", params.choice_entries)?,
        })
    }

    /// Shows `visitor` what it has learned.
    pub(super) fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            local_histories,
            local_mask: _,
            local,
            global,
            choice,
        } = self;
        let histories = local_histories.iter();
        histories.for_each(|&history| visitor.value(history.into()));
        for table in [local, global, choice] {
            table.visit_state(visitor);
        }
    }

    #[inline]
    pub(super) fn guess(&self, pc: u64, history: u32) -> Guess {
        let local_history = self.local_histories[self.own(pc)];
        let local = self.local.says(u64::from(local_history));
        let global = self.global.says(index(pc) ^ u64::from(history));
        Guess {
            taken: if self.choice.says(index(pc)) {
                global
            } else {
                local
            },
            basis: Basis {
                local_history,
                local,
                global,
            },
        }
    }

    #[inline]
    pub(super) fn train(&mut self, pc: u64, history: u32, basis: &Basis, taken: bool) {
        self.local.train(u64::from(basis.local_history), taken);
        self.global.train(index(pc) ^ u64::from(history), taken);
        if basis.local != basis.global {
            self.choice.train(index(pc), basis.global == taken);
        }
        let own = self.own(pc);
        let older = self.local_histories[own] << 1;
        self.local_histories[own] = (older | u32::from(taken)) & self.local_mask;
    }

    /// Where the history of the branch at `pc` is.
    #[inline(always)]
    fn own(&self, pc: u64) -> usize {
        index(pc) as usize & (self.local_histories.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Random, params};
    use super::*;

    const PC: u64 = 0x1_0034;

    /// Predicts and learns one branch; what it rested on and whether it was right.
    fn branch(hybrid: &mut Hybrid, history: u32, taken: bool) -> (Basis, bool) {
        let guess = hybrid.guess(PC, history);
        hybrid.train(PC, history, &guess.basis, taken);
        (guess.basis, guess.taken == taken)
    }

    /// A loop of `n` iterations, run `times` times in the middle of what looks random to the global
    /// side; how often its branch was mispredicted.
    fn loops(hybrid: &mut Hybrid, random: &mut Random, n: u64, times: u64) -> u64 {
        (0..n * times)
            .filter(|step| !branch(hybrid, random.next() as u32, step % n != n - 1).1)
            .count() as u64
    }

    #[test]
    fn the_local_side_learns_a_loop_that_its_history_spans() {
        for n in [2, 3, 5, 12, 13] {
            let mut hybrid = Hybrid::new(&params("hybrid")).unwrap();
            let mut random = Random::new(n);
            assert!(loops(&mut hybrid, &mut random, n, 50) > 0, "{n} iterations");
            assert_eq!(loops(&mut hybrid, &mut random, n, 100), 0, "{n} iterations");
        }
        // A longer loop has 12 taken in a row at two places, and ends after one of them.
        let (mut hybrid, mut random) = (Hybrid::new(&params("hybrid")).unwrap(), Random::new(14));
        loops(&mut hybrid, &mut random, 14, 50);
        assert!(loops(&mut hybrid, &mut random, 14, 100) >= 100);
    }

    /// Directions that follow the latest global one, `times` times; how often they were mispredicted.
    fn echoes(hybrid: &mut Hybrid, random: &mut Random, times: u64) -> u64 {
        (0..times)
            .filter(|_| {
                let history = random.next() as u32;
                !branch(hybrid, history, history & 1 == 1).1
            })
            .count() as u64
    }

    #[test]
    fn the_choice_follows_the_better_side_and_changes_its_mind() {
        let mut random = Random::new(1);
        // So small that the global side soon has seen every history.
        let params = BranchParams {
            global_entries: 16,
            ..params("hybrid")
        };
        let mut hybrid = Hybrid::new(&params).unwrap();
        for _ in 0..3 {
            echoes(&mut hybrid, &mut random, 1000);
            assert_eq!(echoes(&mut hybrid, &mut random, 1000), 0);
            assert!(hybrid.choice.says(index(PC)), "global");
            loops(&mut hybrid, &mut random, 5, 100);
            assert_eq!(loops(&mut hybrid, &mut random, 5, 100), 0);
            assert!(!hybrid.choice.says(index(PC)), "local");
        }
    }

    #[test]
    fn what_answered_is_what_learns() {
        let mut hybrid = Hybrid::new(&params("hybrid")).unwrap();
        // Two of one branch in flight: the second is predicted before the first has retired.
        let guesses = [hybrid.guess(PC, 0), hybrid.guess(PC, 1)];
        for (guess, history) in guesses.iter().zip([0, 1]) {
            assert_eq!(guess.basis.local_history, 0);
            hybrid.train(PC, history, &guess.basis, true);
        }
        assert_eq!(hybrid.guess(PC, 3).basis.local_history, 3);
        assert!(hybrid.local.says(0) && !hybrid.local.says(1));
    }
}
