//! The kinds of cores that there are. A new kind is one more line in each match here.

use std::sync::Arc;

use loiter_memory::Memory;
use loiter_types::{ContextId, CoreId, Cycle};
use serde::{Deserialize, Serialize};

use crate::fgmt::{self, FgmtParams, Group};
use crate::smt::{self, SmtParams};

/// Parameters of a core. Cores that have the same share one copy: what all of them look at in each cycle is in a host's
/// caches once.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum CoreParams {
    /// In order, fine-grained multithreaded.
    Fgmt(Arc<FgmtParams>),
    /// Out of order, simultaneous multithreaded.
    Smt(Arc<SmtParams>),
}

/// A core.
#[derive(Debug, Deserialize, Serialize)]
pub(super) enum AnyCore {
    /// In order, fine-grained multithreaded.
    Fgmt(Box<fgmt::Core>),
    /// Out of order, simultaneous multithreaded.
    Smt(Box<smt::Core>),
}

macro_rules! each {
    ($core:expr, $inner:ident => $body:expr) => {
        match $core {
            $crate::cores::AnyCore::Fgmt($inner) => $body,
            $crate::cores::AnyCore::Smt($inner) => $body,
        }
    };
}
pub(super) use each;

impl CoreParams {
    /// # Errors
    /// The section and what contradicts what.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        match self {
            CoreParams::Fgmt(params) => params.check(),
            CoreParams::Smt(params) => params.check(),
        }
    }

    /// Contexts of a core.
    #[must_use]
    pub fn contexts(&self) -> usize {
        let contexts = match self {
            CoreParams::Fgmt(params) => params.contexts,
            CoreParams::Smt(params) => params.contexts,
        };
        contexts as usize
    }

    /// What cores with these have in common.
    pub(super) fn group(&self) -> Group {
        match self {
            CoreParams::Fgmt(params) => Group::new(params),
            CoreParams::Smt(_) => Group::none(),
        }
    }
}

impl AnyCore {
    /// Core `id` of a group, whose contexts are numbered from `first` on.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub(super) fn new(
        params: &CoreParams,
        group: usize,
        id: CoreId,
        first: ContextId,
        memory: &Memory,
        now: Cycle,
    ) -> Result<Self, (&'static str, String)> {
        Ok(match params {
            CoreParams::Fgmt(params) => Self::Fgmt(Box::new(fgmt::Core::new(
                params, group, id, first, memory, now,
            ))),
            CoreParams::Smt(params) => {
                Self::Smt(Box::new(smt::Core::new(params, id, first, memory, now)?))
            }
        })
    }

    /// Makes this core what `saved` is, which has the same parameters. Returns whether it can be.
    pub(super) fn restore(&mut self, saved: Self) -> bool {
        match (self, saved) {
            (Self::Fgmt(core), Self::Fgmt(saved)) => core.restore(*saved),
            (Self::Smt(core), Self::Smt(saved)) => core.restore(*saved),
            _ => return false,
        }
        true
    }
}
