//! The first level of a core: two caches that know no state but whether a line is there.

use loiter_types::{CoreId, StateVisitor};
use serde::{Deserialize, Serialize};

use super::directory::{Taken, Which};
use crate::cache::{Cache, Lookup};
use crate::counters::L1Counters;
use crate::params::L1Params;
use crate::request::Told;

/// The first level of a core.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct First {
    core: CoreId,
    pub(super) instructions: Cache,
    pub(super) data: Cache,
    pub(super) instruction_counters: L1Counters,
    pub(super) data_counters: L1Counters,
    /// Accesses that were more than a read of what is here.
    pub(super) changes: u64,
    /// It is to be named before anything happens to it.
    pub(super) named: bool,
}

fn cache(section: &'static str, params: &L1Params) -> Result<Cache, (&'static str, String)> {
    let bytes = params.size_kib * 1024;
    Cache::new(bytes, params.ways, params.line_bytes, &params.replacement)
        .map_err(|problem| (section, problem))
}

impl First {
    /// Empty caches.
    pub(super) fn new(
        core: CoreId,
        l1i: &L1Params,
        l1d: &L1Params,
    ) -> Result<Self, (&'static str, String)> {
        Ok(Self {
            core,
            instructions: cache("l1i", l1i)?,
            data: cache("l1d", l1d)?,
            instruction_counters: L1Counters::default(),
            data_counters: L1Counters::default(),
            changes: 0,
            named: false,
        })
    }

    /// Shows `visitor` what reads that hit may depend on and change.
    pub(super) fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            core: _,
            instructions,
            data,
            instruction_counters,
            data_counters,
            changes: _,
            named: _,
        } = self;
        instructions.visit_state(visitor);
        data.visit_state(visitor);
        visitor.counters(instruction_counters);
        visitor.counters(data_counters);
    }

    /// An instruction line comes, unless it has come by another miss.
    pub(super) fn fill_instructions(&mut self, line: u64) {
        if self.instructions.find(line) == Lookup::Miss {
            self.instructions.fill(line);
        }
    }

    /// As [`First::fill_instructions`], of data. Nobody is told of the line that is replaced: the directory has it still.
    #[inline]
    pub(super) fn fill_data(&mut self, line: u64) {
        if self.data.find(line) == Lookup::Miss {
            self.data.fill(line);
        }
    }

    /// Gives a line up. Returns whether it is there. The core is told if that is data, there or not: it may watch a line
    /// that it has replaced.
    pub(super) fn gives_up(&mut self, taken: &Taken, told: &mut Vec<Told>) -> bool {
        match taken.which {
            Which::Instructions => self.instructions.invalidate(taken.line),
            Which::Data => {
                told.push(Told::Lost {
                    core: self.core,
                    line: taken.line,
                    why: taken.why,
                });
                self.data.invalidate(taken.line)
            }
        }
    }
}
