//! Replies that do not go through home: who requested a line collects them, and tells home when all are there.
//!
//! ```text
//!   requester --Get--> home --Snoop--> holder
//!             <--Grant, so many replies--
//!             <-------------------Reply--------
//!             --Done-->  the next request of the line begins
//! ```

use serde::{Deserialize, Serialize};

use super::message::Node;
use super::state::State;
use crate::request::Level;

/// Replies to one request, some of which may come before the grant that says how many there are.
#[derive(Debug, Deserialize, Serialize)]
struct Collecting {
    line: u64,
    replies: u16,
    granted: Option<(State, Level, u16)>,
    supplied: bool,
    dirty: bool,
}

/// A request whose grant and replies are all there.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Collected {
    pub(crate) state: State,
    pub(crate) level: Level,
    /// Whether home waits to be told.
    pub(crate) tells: bool,
    /// One of the replies had the value.
    pub(crate) supplied: bool,
    /// Home has an older value, and whom it granted the line does not keep the newer one.
    pub(crate) dirty: bool,
}

/// What each node collects.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Collector(Vec<Vec<Collecting>>);

impl Collector {
    pub(crate) fn new(nodes: usize) -> Self {
        Self((0..nodes).map(|_| Vec::new()).collect())
    }

    /// Whether nobody waits for a reply.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }

    /// Home grants `node` a line, for which it awaits so many replies.
    pub(crate) fn granted(
        &mut self,
        node: Node,
        line: u64,
        (state, level, replies): (State, Level, u16),
    ) -> Option<Collected> {
        if replies == 0 {
            return Some(Collected {
                state,
                level,
                tells: false,
                supplied: false,
                dirty: false,
            });
        }
        self.entry(node, line).granted = Some((state, level, replies));
        self.complete(node, line)
    }

    /// A holder replies to `node`, which has requested the line.
    pub(crate) fn replied(
        &mut self,
        node: Node,
        line: u64,
        supplies: bool,
        dirty: bool,
    ) -> Option<Collected> {
        let entry = self.entry(node, line);
        entry.replies += 1;
        entry.supplied |= supplies;
        entry.dirty |= dirty;
        self.complete(node, line)
    }

    fn entry(&mut self, node: Node, line: u64) -> &mut Collecting {
        let all = &mut self.0[node.index()];
        let at = all.iter().position(|collecting| collecting.line == line);
        let at = at.unwrap_or_else(|| {
            all.push(Collecting {
                line,
                replies: 0,
                granted: None,
                supplied: false,
                dirty: false,
            });
            all.len() - 1
        });
        &mut all[at]
    }

    fn complete(&mut self, node: Node, line: u64) -> Option<Collected> {
        let all = &mut self.0[node.index()];
        let at = all.iter().position(|collecting| collecting.line == line)?;
        let (state, level, replies) = all[at].granted?;
        if all[at].replies < replies {
            return None;
        }
        let collecting = all.swap_remove(at);
        Some(Collected {
            state,
            level,
            tells: true,
            supplied: collecting.supplied,
            dirty: collecting.dirty && state != State::Modified,
        })
    }
}
