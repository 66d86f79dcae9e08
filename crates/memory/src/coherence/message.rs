//! What caches and homes tell each other.

use super::directory::{Keep, Want};
use super::state::State;
use crate::request::{Level, Request};

/// A sender or receiver of messages: the private caches of a core, the home of a cluster, or a home of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node(pub u16);

impl Node {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a message says of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// To home: a request. `has_copy` when it was sent.
    Get {
        want: Want,
        has_copy: bool,
        /// What home performs itself: [`Want::Walk`] and [`Want::AtHome`].
        request: Option<Request>,
    },
    /// To home: a copy in this state is given up.
    Put { state: State },
    /// From home: the copy is to be kept only as it says, and supplied if home wants the value.
    Snoop { keep: Keep, supply: bool },
    /// To home, upon a snoop: with the value if it `supplies` that; home has an older one if `dirty`.
    Reply { supplies: bool, dirty: bool },
    /// From home: the request is granted; the receiver holds the line in this state.
    Grant { state: State, level: Level },
    /// From home, upon a put.
    PutDone,
}

impl Body {
    /// Whether the line's value travels with it.
    pub(crate) fn carries_line(self) -> bool {
        match self {
            Body::Put { state } => state.supplies(),
            Body::Reply { supplies, .. } => supplies,
            Body::Grant { level, .. } => level != Level::Home,
            Body::Get { .. } | Body::Snoop { .. } | Body::PutDone => false,
        }
    }
}

/// A message about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) from: Node,
    pub(crate) to: Node,
    pub(crate) line: u64,
    pub(crate) body: Body,
}
