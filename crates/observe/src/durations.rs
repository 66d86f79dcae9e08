//! Durations: how many, how long, how spread.

use loiter_types::StateVisitor;
use serde::{Deserialize, Serialize};

/// A number of durations in cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum_cycles: u64,
    /// The shortest; 0 without any.
    pub min_cycles: u64,
    /// The longest.
    pub max_cycles: u64,
    /// Entry n: how many were at least 2^n and less than 2^(n+1) cycles; those of no cycle are in the first.
    pub log2_histogram: Vec<u64>,
    /// The sum of those that each entry of it counts.
    pub log2_sums_cycles: Vec<u64>,
}

impl Durations {
    /// One more.
    pub(crate) fn add(&mut self, cycles: u64) {
        self.min_cycles = match self.count {
            0 => cycles,
            _ => self.min_cycles.min(cycles),
        };
        self.count += 1;
        self.sum_cycles += cycles;
        self.max_cycles = self.max_cycles.max(cycles);
        let bin = cycles.max(1).ilog2() as usize;
        if self.log2_histogram.len() <= bin {
            self.log2_histogram.resize(bin + 1, 0);
            self.log2_sums_cycles.resize(bin + 1, 0);
        }
        self.log2_histogram[bin] += 1;
        self.log2_sums_cycles[bin] += cycles;
    }

    /// Shows `visitor` what periods of a core that repeats itself change.
    pub(crate) fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            count,
            sum_cycles,
            min_cycles,
            max_cycles,
            log2_histogram,
            log2_sums_cycles,
        } = self;
        visitor.count(count);
        visitor.count(sum_cycles);
        visitor.value(*min_cycles);
        visitor.value(*max_cycles);
        visitor.value(log2_histogram.len() as u64);
        let counts = log2_histogram.iter_mut().chain(log2_sums_cycles);
        counts.for_each(|count| visitor.count(count));
    }
}
