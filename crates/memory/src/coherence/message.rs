//! What caches and homes tell each other.

use serde::{Deserialize, Serialize};

use super::directory::{Keep, Want};
use super::state::State;
use crate::request::{Level, Request};

/// A sender or receiver of messages: the private caches of a core, the home of a cluster, or a home of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Node(pub u16);

impl Node {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a home asks of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Snoop {
    /// What is to be left of it.
    pub(crate) keep: Keep,
    /// Whether its value is wanted.
    pub(crate) supply: bool,
    /// Who is told.
    pub(crate) reply_to: Node,
}

/// What a message says of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
    /// From home.
    Snoop(Snoop),
    /// Upon a snoop: with the value if it `supplies` that; home has an older one if `dirty`.
    Reply { supplies: bool, dirty: bool },
    /// From home: the request is granted, and the receiver holds the line in this state, once so many replies of
    /// others have reached it.
    Grant {
        state: State,
        level: Level,
        replies: u16,
    },
    /// To home, upon a grant: the replies that it awaited are there, and said so.
    Done { supplied: bool, dirty: bool },
    /// From home, upon a put.
    PutDone,
}

impl Body {
    /// Whether the line's value travels with it.
    pub(crate) fn carries_line(self) -> bool {
        match self {
            Body::Put { state } => state.supplies(),
            Body::Reply { supplies, .. } => supplies,
            Body::Grant { level, replies, .. } => match level {
                Level::Home => false,
                // Who supplies it sends it.
                Level::OtherCache => replies == 0,
                _ => true,
            },
            Body::Done { dirty, .. } => dirty,
            Body::Get { .. } | Body::Snoop(_) | Body::PutDone => false,
        }
    }
}

/// A message about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Message {
    pub(crate) from: Node,
    pub(crate) to: Node,
    pub(crate) line: u64,
    pub(crate) body: Body,
}
