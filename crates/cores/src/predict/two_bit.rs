//! Tables of two-bit saturating counters.

use loiter_types::StateVisitor;
use serde::{Deserialize, Serialize};

/// Counters from 0 to 3; the upper half says "yes".
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct TwoBitTable {
    counters: Vec<u8>,
    mask: u64,
}

impl TwoBitTable {
    /// Shows `visitor` the counters.
    pub(super) fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        visitor.bytes(&self.counters);
    }

    /// Counters that say "no", but weakly. `name` is the parameter that `entries` comes from.
    pub(super) fn new(name: &str, entries: u64) -> Result<Self, String> {
        power_of_two(name, entries)?;
        Ok(Self {
            counters: vec![1; entries as usize],
            mask: entries - 1,
        })
    }

    /// log2 of the number of counters.
    pub(super) fn log2(&self) -> u32 {
        self.counters.len().trailing_zeros()
    }

    #[inline(always)]
    pub(super) fn says(&self, index: u64) -> bool {
        self.counters[(index & self.mask) as usize] >= 2
    }

    #[inline(always)]
    pub(super) fn train(&mut self, index: u64, yes: bool) {
        let counter = &mut self.counters[(index & self.mask) as usize];
        *counter = match yes {
            true => (*counter + 1).min(3),
            false => counter.saturating_sub(1),
        };
    }
}

/// Refuses sizes that no bits of an address or history can index.
pub(super) fn power_of_two(name: &str, entries: u64) -> Result<(), String> {
    match entries.is_power_of_two() {
        true => Ok(()),
        false => Err(format!("{name} = {entries} is not a power of two")),
    }
}

/// An address as an index: instructions begin at even ones.
#[inline(always)]
pub(super) fn index(pc: u64) -> u64 {
    pc >> 1
}
