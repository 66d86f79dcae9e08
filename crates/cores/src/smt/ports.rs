//! Ports of the data cache: who has one in a cycle.
//!
//! A load reserves its port when it issues, some cycles before it accesses the cache. Buffered stores take
//! what is left; nobody waits for them. Where loads leave none for so long that a store could wait for
//! ever, they leave one.

use serde::{Deserialize, Serialize};

use super::params::SmtUnitParams;

/// The ports of a core's data cache.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct DataPorts {
    pub(super) ports: u64,
    pub(super) stores_take_ports: bool,
    pub(super) patience_cycles: u64,
    /// Ports that loads, and stores of this cycle, have taken since stores last had their turn. What
    /// accesses the cache in the cycle in which it issues does so after that turn, and counts for the next.
    pub(super) taken: u64,
    /// Cycles in a row in which stores wanted a port and none got one.
    pub(super) refused_cycles: u64,
    /// A store was refused in this cycle; one got its port.
    pub(super) refused: bool,
    pub(super) granted: bool,
    /// The context whose store is the first to get a port.
    pub(super) first: usize,
}

impl DataPorts {
    pub(super) fn new(units: &SmtUnitParams) -> Self {
        Self {
            ports: units.data_ports,
            stores_take_ports: units.stores_take_ports,
            patience_cycles: units.store_patience_cycles,
            taken: 0,
            refused_cycles: 0,
            refused: false,
            granted: false,
            first: 0,
        }
    }

    /// Loads that may issue in this cycle.
    #[inline(always)]
    pub(super) fn for_loads(&self) -> u64 {
        self.ports - u64::from(self.refused_cycles >= self.patience_cycles)
    }

    /// A load accesses the cache.
    #[inline(always)]
    pub(super) fn load_accesses(&mut self) {
        self.taken += 1;
    }

    /// A buffered store of context `c` wants to access the cache. Returns whether it may.
    #[inline(always)]
    pub(super) fn store_accesses(&mut self, c: usize) -> bool {
        if !self.stores_take_ports {
            return true;
        }
        if self.taken >= self.ports {
            self.refused = true;
            return false;
        }
        self.taken += 1;
        self.granted = true;
        // As many contexts as a set has at most.
        self.first = (c + 1) % 64;
        true
    }

    /// The context whose turn it is to drain a store.
    #[inline(always)]
    pub(super) fn first_to_drain(&self) -> usize {
        self.first
    }

    /// Stores have had their turn in this cycle.
    #[inline(always)]
    pub(super) fn end_drain(&mut self) {
        self.taken = 0;
        let (refused, granted) = (
            std::mem::take(&mut self.refused),
            std::mem::take(&mut self.granted),
        );
        self.refused_cycles = match refused && !granted {
            true => self.refused_cycles + 1,
            false => 0,
        };
    }
}
