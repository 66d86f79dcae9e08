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

use super::Out;
use super::directory::{Entry, Keep, Known, Protocol, Step, Supply, Want, recall, step};
use super::message::{Body, Message, Node};
use super::state::State;
use crate::cache::{Cache, Lookup};
use crate::request::{Level, Request, Response, Told};

mod above;

use above::want_above;

/// Rules of a home.
#[derive(Clone, Copy, Debug)]
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
}

/// What home knows of a line.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// Who holds it.
    entry: Entry,
    /// What home itself may do; memory's homes may do anything.
    state: State,
}

/// Why home gathers copies of a line.
#[derive(Clone, Copy, Debug)]
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
    Reply { keep: Keep, supply: bool },
}

/// Replies, and a value, that home waits for.
#[derive(Debug)]
struct Gather {
    purpose: Purpose,
    step: Step,
    /// How many replies and values are still to come.
    awaited: u32,
    level: Level,
    /// A reply had a newer value than home.
    dirty: bool,
    /// A reply had the value.
    supplied: bool,
}

/// A request that waits for the home above.
#[derive(Clone, Copy, Debug)]
struct Above {
    from: u16,
    want: Want,
    has_copy: bool,
    request: Option<Request>,
}

/// A line with something in progress.
#[derive(Debug, Default)]
struct Busy {
    gather: Option<Gather>,
    above: Option<Above>,
    /// A snoop from above that waits for the gathering to complete.
    snoop: Option<(Keep, bool)>,
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
#[derive(Debug)]
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
            Body::Snoop { keep, supply } => self.snooped(line, keep, supply, out),
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
                if state.can_write() || state.can_read() && !writes {
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
            if known.state == State::Exclusive {
                known.state = State::Modified;
            }
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

    /// Asks for what a decision needs.
    fn gather(
        &mut self,
        line: u64,
        purpose: Purpose,
        step: Step,
        from_above: Option<Level>,
        out: &mut Out<'_>,
    ) {
        let mut gather = Gather {
            purpose,
            step,
            awaited: 0,
            level: from_above.unwrap_or(self.rules.level),
            dirty: false,
            supplied: false,
        };
        for child in step.lose.iter() {
            gather.awaited += 1;
            let (keep, supply) = (Keep::Nothing, false);
            out.send(
                self.node,
                self.node_of(child),
                line,
                Body::Snoop { keep, supply },
                0,
            );
        }
        let lost = u64::from(gather.awaited);
        let serves = matches!(purpose, Purpose::Serve { .. });
        match purpose {
            Purpose::Evict => self.counters.recalls += out.one() * (lost + 1),
            _ => self.counters.invalidations += out.one() * lost,
        }
        match step.supply {
            Supply::Child(child) => {
                gather.awaited += 1;
                gather.level = Level::OtherCache;
                let (keep, supply) = (step.keep, true);
                out.send(
                    self.node,
                    self.node_of(child),
                    line,
                    Body::Snoop { keep, supply },
                    0,
                );
                self.counters.from_child += out.one() * u64::from(serves);
            }
            Supply::Nobody => {
                gather.level = Level::Home;
                self.counters.upgrades += out.one() * u64::from(serves);
            }
            Supply::Home if serves => {
                gather.awaited += 1;
                let cached = match &mut self.cache {
                    Some(cache) => cache.access(line) != Lookup::Miss,
                    None => false,
                };
                if cached || self.rules.has_above {
                    let from_above = from_above.is_some();
                    self.counters.from_memory += out.one() * u64::from(from_above);
                    self.counters.from_home += out.one() * u64::from(!from_above);
                    let cycles = if from_above {
                        0
                    } else {
                        self.rules.data_cycles
                    };
                    out.value_at(self.node, line, out.now.after(cycles));
                } else {
                    self.counters.from_memory += out.one();
                    gather.level = Level::Memory;
                    let at = out.read_memory(line);
                    out.value_at(self.node, line, at);
                }
            }
            Supply::Home => {}
        }
        self.busy.entry(line).or_default().gather = Some(gather);
    }

    /// The value that home has, or memory has, is there.
    pub(crate) fn value_arrives(&mut self, line: u64, out: &mut Out<'_>) {
        self.arrived(line, false, out);
    }

    /// A child replies to a snoop.
    pub(crate) fn replied(&mut self, line: u64, supplies: bool, dirty: bool, out: &mut Out<'_>) {
        let busy = self.busy.get_mut(&line).expect("it is awaited");
        let gather = busy.gather.as_mut().expect("it is awaited");
        gather.supplied |= supplies;
        self.arrived(line, dirty, out);
    }

    fn arrived(&mut self, line: u64, dirty: bool, out: &mut Out<'_>) {
        let busy = self.busy.get_mut(&line).expect("it is awaited");
        let gather = busy.gather.as_mut().expect("it is awaited");
        gather.dirty |= dirty;
        gather.awaited -= 1;
        self.settle(line, out);
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
            } else if let Some((keep, supply)) = busy.snoop.take() {
                // The gathering may have been to give the line up.
                if !self.reply_leaving(line, keep, supply, out) {
                    self.begin_reply(line, keep, supply, out);
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

    /// All replies and the value are there.
    fn gathered(&mut self, line: u64, gather: Gather, out: &mut Out<'_>) {
        let counts_on_child = matches!(gather.step.supply, Supply::Child(_));
        assert!(
            gather.supplied || !counts_on_child,
            "line {line:#x}: a child that home counts on has no copy"
        );
        let mut known = self.line(line);
        known.entry = gather.step.after;
        self.set(line, known);
        // Who may write the line has the newer value, and gives it back in time.
        if gather.dirty && gather.step.grant != State::Modified {
            self.takes_value(line, out);
        }
        match gather.purpose {
            Purpose::Serve {
                from,
                want,
                request,
            } => {
                let to = self.node_of(from);
                if let Some(request) = request {
                    if want == Want::AtHome {
                        self.takes_value(line, out);
                    }
                    let done = out.arrival(self.node, to, true, 0);
                    out.told.push(Told::Performs(Response {
                        request,
                        done,
                        level: gather.level,
                    }));
                } else {
                    let from_memory = gather.level == Level::Memory;
                    if from_memory && !self.rules.has_above && self.rules.inclusive {
                        self.cache_line(line, out);
                    }
                    let body = Body::Grant {
                        state: gather.step.grant,
                        level: gather.level,
                    };
                    out.send(self.node, to, line, body, 0);
                }
            }
            Purpose::Evict => self.give_up(line, out),
            Purpose::Reply { keep, supply } => self.reply(line, keep, supply, out),
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
