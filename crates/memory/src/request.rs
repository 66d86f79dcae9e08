//! What cores ask of memory, and what they are told.

use loiter_types::{ContextId, CoreId, Cycle, PhysAddr};
use serde::{Deserialize, Serialize};

/// What is asked of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum RequestKind {
    /// An instruction line that missed the first level.
    Fetch,
    /// A load that missed the first level.
    Load,
    /// A store that leaves its store buffer.
    Store,
    /// The acknowledgement of a store reaches its store buffer. Never sent: it follows the store.
    Acknowledge,
    /// An atomic, which the second level serves.
    Atomic,
    /// The load of an `lr` where the second level serves atomics: it passes the data cache, which has the line then, so
    /// that its core is told when it loses it.
    Reserve,
    /// An `sc` where the second level serves atomics.
    Conditional,
    /// An `sc` that fails, as its reservation is gone: it takes its time, and changes nothing.
    Fails,
    /// The line of a store or atomic, to be this core's own: no other core's first level has it then.
    /// The store or atomic performs with the answer.
    Own,
    /// The same line for a store that waits for others to perform first. Nothing performs with the answer.
    OwnAhead,
    /// An entry of a page table, read from the second level past the first.
    Walk,
    /// An access to a device.
    Device,
}

impl RequestKind {
    /// Whether it is an atomic that the second level serves, and has the time of one.
    #[inline]
    pub(crate) fn is_far_atomic(self) -> bool {
        matches!(
            self,
            Self::Atomic | Self::Reserve | Self::Conditional | Self::Fails
        )
    }

    /// Whether the second level has a newer value than memory when it has served such a request.
    pub(crate) fn writes(self) -> bool {
        matches!(
            self,
            Self::Store | Self::Atomic | Self::Conditional | Self::Own
        )
    }
}

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Request {
    /// What is asked.
    pub kind: RequestKind,
    /// The core that asks.
    pub core: CoreId,
    /// The context that asks.
    pub context: ContextId,
    /// The first byte.
    pub addr: PhysAddr,
    /// What the asker knows it by.
    pub tag: u64,
}

/// What served a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Level {
    /// A second level.
    L2,
    /// A third level.
    L3,
    /// The private caches of another core, or another cluster of cores.
    OtherCache,
    /// The requester had the value; its home has granted the right to write it.
    Home,
    /// Memory.
    Memory,
    /// A device.
    Device,
}

/// What becomes of a first-level miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// What will serve it.
    pub level: Level,
    /// Its line was in flight already, so that nothing was sent.
    pub merged: bool,
}

/// A request that performs in this cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Response {
    /// The request.
    pub request: Request,
    /// When the asker has the response and may continue.
    pub done: Cycle,
    /// What served it.
    pub level: Level,
}

/// Caches of a core that are emptied together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Caches {
    /// The instruction cache.
    Instructions,
    /// The first level.
    First,
    /// The first level, and a second one of its own.
    Private,
}

/// What has become of caches that were emptied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emptied {
    /// Lines that they have lost.
    pub lines: u64,
    /// Those of them that were written, and go to where the next copy lies.
    pub written_back: u64,
}

/// Why a core loses a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Lost {
    /// Another core writes it.
    Written,
    /// Another core reads it: this one keeps a copy, and may not write it any more.
    Read,
    /// Its caches, or those of a home, have no room for it.
    Evicted,
}

/// What cores are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Told {
    /// A request performs in this cycle: its value moves now.
    Performs(Response),
    /// A miss register of a core is free.
    Retry(CoreId),
    /// A core has lost a line.
    Lost {
        /// The core.
        core: CoreId,
        /// The line's number.
        line: u64,
        /// Why.
        why: Lost,
    },
}
