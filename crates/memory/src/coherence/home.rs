//! A home: the one place where requests for a line meet.
//!
//! A line is free or busy. A request for a free line begins at once: home snoops those who hold the line for their
//! copies, memory or the home above for the value; when all of that is there, the request is granted and the next of
//! the line's queue begins, in order of arrival.
//!
//! ```text
//!   free --Get--> [asks above] --> gathers replies and the value --Grant--> free, or the next of the queue
//! ```
//!
//! The home of a cluster is a child of the homes of memory. It may let its own children do no more than it may do
//! itself, so it asks above first. A snoop from above that comes while it waits for that is served at once; one that
//! comes while it gathers is served when it has gathered, which needs nothing from above. So nobody waits in a circle.
//! Messages between two nodes arrive in the order in which they were sent, so a grant is never overtaken by the snoop
//! that takes the line away again.

use std::collections::VecDeque;

use loiter_types::Cycle;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::Out;
use super::directory::{Entry, Known, Protocol, Step, Want, recall, step};
use super::message::{Body, Message, Node, Snoop};
use super::state::{Holders, State};
use crate::cache::{Cache, Lookup};
use crate::request::{Level, Request};

mod above;
mod gather;

use above::want_above;

/// Rules of a home.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct HomeRules {
    /// Between it and its children.
    pub(crate) protocol: Protocol,
    /// Between it and the home above.
    pub(crate) protocol_above: Protocol,
    /// The number of its first child, and how many there are.
    pub(crate) first_child: u16,
    pub(crate) children: u16,
    /// It is the home of a cluster, so that there is one above.
    pub(crate) has_above: bool,
    /// What its cache is to cores.
    pub(crate) level: Level,
    /// Whoever holds a line, its cache has it too, from the miss on; else its cache takes what children give up.
    pub(crate) inclusive: bool,
    /// It tells the home above of shared copies that it gives up.
    pub(crate) tells_clean: bool,
    /// From the beginning of a look-up to its result.
    pub(crate) tag_cycles: u64,
    /// From there to the value, if its cache has it.
    pub(crate) data_cycles: u64,
    /// Cycles for which a message keeps its bank from beginning the next.
    pub(crate) busy_cycles: u64,
    pub(crate) banks: u64,
    /// Of a cluster: it decides about a line only where its cache has that and no core writes it; else the home above
    /// does, though the cluster may have the right.
    pub(crate) only_cached: bool,
    /// Of such a cluster: from a snoop to its reply where no core has the line, but all have been looked up.
    pub(crate) probe_cycles: u64,
    /// Those who are snooped for a request reply to whom it came from.
    pub(crate) direct: bool,
    /// From the decision about a request to write to its execution, if the line gets another owner.
    pub(crate) owner_cycles: u64,
    /// How long before the end of a look-up memory is read.
    pub(crate) early_cycles: u64,
    /// The same, for the children at the stop of this home.
    pub(crate) early_near_cycles: u64,
    pub(crate) near: Holders,
}

/// What home knows of a line.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Line {
    /// Who holds it.
    entry: Entry,
    /// What home itself may do; memory's homes may do anything.
    state: State,
}

/// Why home gathers copies of a line.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
enum Purpose {
    /// To grant a request of child `from`, or to perform it.
    Serve {
        from: u16,
        want: Want,
        request: Option<Request>,
    },
    /// To give the line up, which the cache has no room for.
    Evict,
    /// To reply to the home above.
    Reply(Snoop),
    /// Nothing more: who asked has collected the replies.
    Close,
}

/// Replies, and a value, that home waits for.
#[derive(Debug, Deserialize, Serialize)]
struct Gather {
    purpose: Purpose,
    step: Step,
    /// How many replies and values are still to come.
    awaited: u32,
    /// Replies that go to whom the request came from.
    direct: u16,
    level: Level,
    /// A reply had a newer value than home.
    dirty: bool,
    /// A reply had the value.
    supplied: bool,
}

/// A request that waits for the home above.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Above {
    from: u16,
    want: Want,
    has_copy: bool,
    request: Option<Request>,
}

/// A line with something in progress.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Busy {
    gather: Option<Gather>,
    above: Option<Above>,
    /// A snoop from above that waits for the gathering to complete.
    snoop: Option<Snoop>,
    /// Requests in order of arrival, with the cycle in which they came.
    queue: VecDeque<(Cycle, Message)>,
}

loiter_types::counters! {
    /// Counters of a home.
    pub struct HomeCounters {
        /// Requests that arrived.
        requests: "requests",
        /// Requests that found their line busy and waited in its queue.
        queued_requests: "requests",
        /// Cycles that those waited.
        queue_cycles: "cycles",
        /// The longest queue of a line.
        longest_queue: "requests",
        /// Cycles that messages waited for their bank.
        bank_wait_cycles: "cycles",
        /// Requests whose value came from home's cache.
        from_home: "requests",
        /// Requests whose value another child supplied.
        from_child: "requests",
        /// Requests whose value came from memory, or from the home above.
        from_memory: "requests",
        /// Requests of a child that had the value and only asked to write it.
        upgrades: "requests",
        /// Copies that children were told to give up.
        invalidations: "messages",
        /// Copies that were recalled because the cache had no room for the line.
        recalls: "messages",
        /// Copies that children gave up by themselves.
        puts: "messages",
    }
}

/// A home.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Home {
    node: Node,
    rules: HomeRules,
    cache: Option<Cache>,
    /// By line of the cache: memory has an older value. The home of a cluster has that in its state.
    dirty: Vec<bool>,
    lines: FxHashMap<u64, Line>,
    busy: FxHashMap<u64, Busy>,
    /// Lines given up, of which the home above does not know yet.
    leaving: Vec<(u64, State)>,
    bank_free: Vec<Cycle>,
    pub(crate) counters: HomeCounters,
}

impl Home {
    /// As [`crate::Memory::reach`].
    pub(crate) fn reach(&self) -> u64 {
        self.cache.as_ref().map_or(u64::MAX, Cache::reach)
    }

    pub(crate) fn new(node: Node, rules: HomeRules, cache: Option<Cache>) -> Self {
        Self {
            node,
            dirty: vec![false; cache.as_ref().map_or(0, Cache::lines)],
            cache,
            lines: FxHashMap::default(),
            busy: FxHashMap::default(),
            leaving: Vec::new(),
            bank_free: vec![Cycle(0); rules.banks as usize],
            counters: HomeCounters::default(),
            rules,
        }
    }

    /// Whether nothing is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.is_empty() && self.leaving.is_empty()
    }

    /// Whether a request, put or snoop passes a bank before anything happens. Where the cache is not asked first, a
    /// snoop goes to it and to the children at once.
    pub(crate) fn looks_up_first(&self, body: Body) -> bool {
        !self.rules.only_cached || !matches!(body, Body::Snoop(_))
    }

    /// A message that has to pass a bank arrives. Returns when it has been looked up.
    pub(crate) fn looks_up(&mut self, now: Cycle, line: u64) -> Cycle {
        let bank = &mut self.bank_free[(line % self.rules.banks) as usize];
        let begins = now.max(*bank);
        *bank = begins.after(self.rules.busy_cycles);
        self.counters.bank_wait_cycles += begins.since(now);
        begins.after(self.rules.tag_cycles)
    }

    /// Where a line that a child asks for now would come from.
    pub(crate) fn whereabouts(&self, line: u64) -> Level {
        let entry = self.line(line).entry;
        match (entry.owner, self.cached(line)) {
            (Some(_), _) => Level::OtherCache,
            (None, true) => self.rules.level,
            (None, false) if self.rules.has_above && !entry.is_empty() => Level::OtherCache,
            (None, false) => Level::Memory,
        }
    }

    fn child(&self, node: Node) -> u16 {
        node.0 - self.rules.first_child
    }

    fn node_of(&self, child: u16) -> Node {
        Node(self.rules.first_child + child)
    }

    fn line(&self, line: u64) -> Line {
        let found = self.lines.get(&line).copied().unwrap_or_default();
        match self.rules.has_above {
            true => found,
            false => Line {
                state: State::Modified,
                ..found
            },
        }
    }

    /// What home may do with `line`.
    pub(crate) fn state(&self, line: u64) -> State {
        self.line(line).state
    }

    /// Who holds `line`.
    #[cfg(test)]
    pub(crate) fn entry(&self, line: u64) -> Entry {
        self.line(line).entry
    }

    fn set(&mut self, line: u64, what: Line) {
        let gone = what.entry.is_empty() && (!self.rules.has_above || !what.state.can_read());
        if gone {
            self.lines.remove(&line);
        } else {
            self.lines.insert(line, what);
        }
    }

    fn cached(&self, line: u64) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|cache| cache.find(line) != Lookup::Miss)
    }

    /// A message has been looked up.
    pub(crate) fn receive(&mut self, message: Message, out: &mut Out<'_>) {
        let line = message.line;
        match message.body {
            Body::Snoop(snoop) => self.snooped(line, snoop, out),
            Body::Get { .. } | Body::Put { .. } => {
                let puts = matches!(message.body, Body::Put { .. });
                self.counters.requests += out.one() * u64::from(!puts);
                if let Some(busy) = self.busy.get_mut(&line) {
                    busy.queue.push_back((out.now, message));
                    let length = busy.queue.len() as u64;
                    self.counters.queued_requests += out.one() * u64::from(!puts);
                    self.counters.longest_queue =
                        self.counters.longest_queue.max(out.one() * length);
                } else {
                    self.begin(message, out);
                    self.settle(line, out);
                }
            }
            body => unreachable!("{body:?} passes no bank"),
        }
    }

    /// Begins a request for a line that is free.
    fn begin(&mut self, message: Message, out: &mut Out<'_>) {
        let line = message.line;
        let from = self.child(message.from);
        match message.body {
            Body::Get {
                want,
                has_copy,
                request,
            } => {
                let above = Above {
                    from,
                    want,
                    has_copy,
                    request,
                };
                let state = self.state(line);
                let writes = matches!(want, Want::Own | Want::AtHome);
                let may = state.can_write() || state.can_read() && !writes;
                if may && self.decides(line, from, writes) {
                    self.serve(line, above, None, out);
                } else {
                    let body = Body::Get {
                        want: want_above(want),
                        has_copy: state.can_read(),
                        request: None,
                    };
                    self.busy.entry(line).or_default().above = Some(above);
                    out.send_home(self.node, line, body, 0);
                }
            }
            Body::Put { state } => self.put(line, from, state, message.from, out),
            body => unreachable!("{body:?} waits in no queue"),
        }
    }

    /// Whether home decides about a request where it has the right to.
    fn decides(&self, line: u64, from: u16, writes: bool) -> bool {
        let entry = self.line(line).entry;
        !self.rules.only_cached
            || self.cached(line)
                && entry.owner.is_none()
                && (!writes || entry.sharers.without(from).is_empty())
    }

    /// A child gives up a copy, unless it has been taken since.
    fn put(&mut self, line: u64, from: u16, state: State, node: Node, out: &mut Out<'_>) {
        self.counters.puts += out.one();
        let mut known = self.line(line);
        let owned = known.entry.owner == Some(from);
        known.entry.forget(from);
        self.set(line, known);
        if !self.rules.inclusive && state != State::Shared {
            self.cache_line(line, out);
        }
        if owned && state.is_dirty() {
            self.takes_value(line, out);
        }
        out.send(self.node, node, line, Body::PutDone, 0);
    }

    /// Home has a newer value than what lies beyond it.
    fn takes_value(&mut self, line: u64, out: &mut Out<'_>) {
        if self.rules.has_above {
            let mut known = self.line(line);
            known.state = match known.state {
                State::Exclusive => State::Modified,
                // It was the only copy when the home above was told that it is shared.
                State::Forward if self.rules.protocol_above.owned => State::Owned,
                state => state,
            };
            self.set(line, known);
            return;
        }
        match self.cache.as_ref().map(|cache| cache.find(line)) {
            Some(Lookup::Hit(index)) => self.dirty[index] = true,
            _ => out.write_memory(line),
        }
    }

    /// Serves a request whose line home may use as it needs to. `from_above` is where the home above had the value
    /// from that it has just supplied.
    fn serve(&mut self, line: u64, request: Above, from_above: Option<Level>, out: &mut Out<'_>) {
        let mut known = self.known(line);
        known.home_has |= from_above.is_some();
        let step = step(
            self.rules.protocol,
            known,
            request.from,
            request.has_copy,
            request.want,
        );
        let purpose = Purpose::Serve {
            from: request.from,
            want: request.want,
            request: request.request,
        };
        self.gather(line, purpose, step, from_above, out);
    }

    fn known(&self, line: u64) -> Known {
        let Line { entry, state } = self.line(line);
        Known {
            entry,
            home_has: !self.rules.has_above || self.cached(line),
            may_write: state.can_write(),
            children: self.rules.children.into(),
        }
    }

    /// Completes what has nothing more to wait for, and begins what comes next.
    fn settle(&mut self, line: u64, out: &mut Out<'_>) {
        loop {
            let Some(busy) = self.busy.get_mut(&line) else {
                self.release(line, out);
                return;
            };
            if let Some(gather) = busy.gather.take() {
                if gather.awaited > 0 {
                    busy.gather = Some(gather);
                    return;
                }
                self.gathered(line, gather, out);
            } else if let Some(snoop) = busy.snoop.take() {
                // The gathering may have been to give the line up.
                if !self.reply_leaving(line, snoop, out) {
                    self.begin_reply(line, snoop, out);
                }
            } else if busy.above.is_some() {
                return;
            } else if let Some((since, message)) = busy.queue.pop_front() {
                self.counters.queue_cycles += out.now.since(since);
                self.begin(message, out);
            } else {
                self.busy.remove(&line);
            }
        }
    }

    /// The line becomes one of the cache's, if one of its set is free to go.
    fn cache_line(&mut self, line: u64, out: &mut Out<'_>) {
        let Some(cache) = &mut self.cache else { return };
        if cache.find(line) != Lookup::Miss {
            return;
        }
        let busy = &self.busy;
        let Some((index, old)) = cache.room_for(line, |other| busy.contains_key(&other)) else {
            return;
        };
        cache.put(index, line);
        let was_dirty = std::mem::take(&mut self.dirty[index]);
        let Some(old) = old else { return };
        if was_dirty {
            out.write_memory(old);
        }
        let held = !self.line(old).entry.is_empty();
        if held && self.rules.inclusive {
            let step = recall(self.rules.protocol, self.known(old));
            self.gather(old, Purpose::Evict, step, None, out);
        } else {
            self.release(old, out);
        }
    }
}
