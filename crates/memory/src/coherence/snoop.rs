//! A bus that all caches watch: no home, no directory.
//!
//! ```text
//!   wait for the bus --> request: all caches see it --> value: a cache's or memory's, over the bus --> granted
//!                           \--> nothing to fetch: granted at once
//! ```
//!
//! The bus carries one thing at a time: a request, a value, or a line that is written back, which is both in one. It is
//! split: between a request and its value others have it. The end of a request is the one moment in which it happens: all
//! caches then give up what they have to, in the same cycle, and say whether they have the line; what follows is decided
//! by [`step`], as at a home. A line whose value is still to come takes no further request; those wait, and others pass
//! them. So transactions of a line have one order, that of their requests on the bus.
//!
//! A request becomes what it has to be when it has the bus: one to write, of a cache that has lost its copy while it waited,
//! fetches the line; a line to be written back that another cache has taken needs no bus any more.

use std::collections::VecDeque;

use loiter_types::{Cycle, counters, params};
use serde::{Deserialize, Serialize};

use super::directory::{Entry, Keep, Known, Protocol, Supply, Want, step};
use super::dram::DramParams;
use super::message::{Body, Message};
use super::network::{NetworkConfig, Topology};
use super::params::{DeviceParams, SecondParams, cache};
use super::prefetch::PrefetchParams;
use super::private::Private;
use super::state::State;
use super::{CoherenceConfig, Event, HomeConfig, Out, PrivateConfig};
use crate::params::{L1MissParams, L1Params};
use crate::request::{Level, Request, Response, Told};

params! {
    /// How copies of a line are kept coherent on a bus: section `coherence`.
    pub struct SnoopParams {
        /// States of a copy. mesi: modified, exclusive, shared, invalid; msi: without exclusive; moesi: with owned, so that
        /// who has written a line supplies it, and memory is not written then.
        states: choice("msi", "mesi", "moesi"),
        /// From the end of a request to the value in a cache that supplies it.
        snoop_cycles: int(0..=1000),
    }
}

params! {
    /// A bus that all caches watch: section `bus`.
    pub struct SnoopingBusParams {
        /// Who has it next, of those whose lines are not in a transaction. fifo: who came first; round_robin: the next core
        /// after the one that had it last.
        arbitration: choice("fifo", "round_robin"),
        /// Cycles for which a request keeps it. Caches see the request at their end.
        request_cycles: int(1..=1000),
        /// Cycles for which a line keeps it.
        line_cycles: int(1..=1000),
    }
}

counters! {
    /// Counters of a bus that all caches watch.
    pub struct SnoopingBusCounters {
        /// Requests to read or write a line, or to write without fetching it.
        requests: "requests",
        /// Requests that waited for the bus, or for the transaction of their line.
        queued_requests: "requests",
        /// Cycles that those waited.
        queue_cycles: "cycles",
        /// The most that waited at once.
        longest_queue: "requests",
        /// Cycles in which the bus was kept.
        busy_cycles: "cycles",
        /// Requests whose value another cache supplied.
        from_cache: "requests",
        /// Requests whose value came from memory.
        from_memory: "requests",
        /// Requests of a cache that had the value and only asked to write it.
        upgrades: "requests",
        /// Copies that caches gave up as another wanted to write the line.
        invalidations: "messages",
        /// Lines that were written back.
        write_backs: "messages",
    }
}

/// A bus, as it is configured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SnoopingBusConfig {
    /// Cores have it in turn, not in order of arrival.
    pub round_robin: bool,
    /// Cycles for which a request keeps it.
    pub request_cycles: u64,
    /// Cycles for which a line keeps it.
    pub line_cycles: u64,
}

/// All sections of a memory system with a bus that all caches watch.
#[derive(Clone, Debug)]
pub struct SnoopingParams {
    /// Number of cores.
    pub cores: usize,
    /// Section `l1i`.
    pub l1i: L1Params,
    /// Section `l1d`.
    pub l1d: L1Params,
    /// Misses of both.
    pub misses: [L1MissParams; 2],
    /// Section `l2`.
    pub second: SecondParams,
    /// Section `coherence`.
    pub coherence: SnoopParams,
    /// Section `bus`.
    pub bus: SnoopingBusParams,
    /// Section `dram`.
    pub dram: DramParams,
    /// Section `device`.
    pub device: DeviceParams,
}

impl SnoopingParams {
    /// The memory system that they describe.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub fn config(&self) -> Result<CoherenceConfig, (&'static str, String)> {
        let line_bytes = self.l1d.line_bytes;
        if self.l1i.line_bytes != line_bytes {
            let problem = format!("line_bytes must be that of l1d, {line_bytes}");
            return Err(("l1i", problem));
        }
        self.dram.check()?;
        if self.second.shared_by == "cluster" {
            let problem = "shared_by = \"cluster\" is not possible on a bus that all caches watch; take \"core\" or \
                           \"none\", or memory = \"directory\"";
            return Err(("l2", problem.to_owned()));
        }
        let has_second = self.second.shared_by == "core";
        let second = || {
            let second = &self.second;
            cache(second.size_kib, second.ways, &second.replacement)
        };
        let first = |first: &L1Params| cache(first.size_kib, first.ways, &first.replacement);
        let protocol = Protocol {
            exclusive: self.coherence.states != "msi",
            owned: self.coherence.states == "moesi",
            forward: false,
            broadcasts: false,
        };
        Ok(CoherenceConfig {
            cores: self.cores,
            line_bytes,
            private: PrivateConfig {
                l1i: first(&self.l1i),
                l1d: first(&self.l1d),
                mshrs: self.misses.each_ref().map(|misses| misses.mshrs as usize),
                perfect: self.misses.each_ref().map(|misses| misses.perfect),
                second: has_second.then(second),
                lookup_cycles: if has_second {
                    self.second.lookup_cycles
                } else {
                    0
                },
                snoop_cycles: self.coherence.snoop_cycles,
                snoop_change_cycles: 0,
                reservation_cycles: 0,
                prefetch: PrefetchParams::none(),
            },
            cluster: None,
            homes: 1,
            nodes: 1,
            memory: (0, u64::MAX),
            home: no_home(protocol),
            interleave_bytes: line_bytes,
            network: no_network(self.cores),
            bus: Some(SnoopingBusConfig {
                round_robin: self.bus.arbitration == "round_robin",
                request_cycles: self.bus.request_cycles,
                line_cycles: self.bus.line_cycles,
            }),
            controllers: 0,
            dram: self.dram.clone(),
            device_latency_cycles: self.device.latency_cycles,
        })
    }
}

/// Only its protocol counts: who is asked for a line is the bus.
pub(super) fn no_home(protocol: Protocol) -> HomeConfig {
    HomeConfig {
        cache: None,
        level: Level::L3,
        inclusive: true,
        protocol,
        children_tell_clean: false,
        tag_cycles: 0,
        data_cycles: 0,
        busy_cycles: 1,
        banks: 1,
        only_cached: false,
        direct: false,
        owner_cycles: 0,
        reads_early: false,
    }
}

/// What no message travels over.
pub(super) fn no_network(cores: usize) -> NetworkConfig {
    NetworkConfig {
        topology: Topology::Crossbar { latency_cycles: 0 },
        stops: vec![0; cores + 1],
        stop_cycles: 0,
        control_cycles: 0,
        line_cycles: 0,
    }
}

/// A request that waits for the bus.
#[derive(Debug, Deserialize, Serialize)]
struct Waiting {
    since: Cycle,
    message: Message,
}

/// A transaction from when it has the bus until it is over.
#[derive(Debug, Deserialize, Serialize)]
struct Transaction {
    message: Message,
    /// What the requester holds then, and what serves it.
    grant: State,
    level: Level,
}

/// The bus.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SnoopingBus {
    config: SnoopingBusConfig,
    protocol: Protocol,
    snoop_cycles: u64,
    /// It carries something.
    busy: bool,
    /// The core that has had it last.
    turn: usize,
    /// In order of arrival.
    waiting: VecDeque<Waiting>,
    transactions: Vec<Transaction>,
    /// Lines whose values wait for the bus, in order.
    values: VecDeque<u64>,
    pub(crate) counters: SnoopingBusCounters,
}

impl SnoopingBus {
    pub(crate) fn new(config: SnoopingBusConfig, protocol: Protocol, snoop_cycles: u64) -> Self {
        Self {
            config,
            protocol,
            snoop_cycles,
            busy: false,
            turn: 0,
            waiting: VecDeque::new(),
            transactions: Vec::new(),
            values: VecDeque::new(),
            counters: SnoopingBusCounters::default(),
        }
    }

    /// Whether nothing is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        !self.busy && self.waiting.is_empty() && self.transactions.is_empty()
    }

    /// A cache asks for the bus.
    pub(crate) fn receive(&mut self, message: Message, private: &mut [Private], out: &mut Out<'_>) {
        match message.body {
            // Nobody counts on a clean copy.
            Body::Put { state } if !state.is_dirty() => {
                private[message.from.index()].put_done(message.line);
                return;
            }
            Body::Put { .. } => {}
            _ => self.counters.requests += out.one(),
        }
        let since = out.now;
        self.waiting.push_back(Waiting { since, message });
        let waiting = self.waiting.len() as u64;
        self.arbitrate(private, out);
        if self.waiting.len() as u64 == waiting {
            self.counters.queued_requests += out.one();
            self.counters.longest_queue = self.counters.longest_queue.max(out.one() * waiting);
        }
    }

    /// Who has the bus next: a value, else a request whose line is in no transaction.
    fn arbitrate(&mut self, private: &mut [Private], out: &mut Out<'_>) {
        if self.busy {
            return;
        }
        if let Some(line) = self.values.pop_front() {
            return self.keep(self.config.line_cycles, Event::Delivered(line), out);
        }
        while let Some(at) = self.first_to_go(private.len()) {
            let Waiting { since, message } = self.waiting.remove(at).expect("it waits");
            let (from, line) = (message.from.index(), message.line);
            self.counters.queue_cycles += out.one() * out.now.since(since);
            let mut cycles = self.config.request_cycles;
            if matches!(message.body, Body::Put { .. }) {
                if !private[from].leaving_state(line).is_dirty() {
                    private[from].put_done(line);
                    continue;
                }
                cycles += self.config.line_cycles;
            }
            self.turn = from;
            self.transactions.push(Transaction {
                message,
                grant: State::Invalid,
                level: Level::Memory,
            });
            return self.keep(cycles, Event::Snooped(line), out);
        }
    }

    fn keep(&mut self, cycles: u64, event: Event, out: &mut Out<'_>) {
        self.busy = true;
        self.counters.busy_cycles += out.one() * cycles;
        out.schedule(out.now.after(cycles), event);
    }

    fn first_to_go(&self, cores: usize) -> Option<usize> {
        let free = |waiting: &&Waiting| {
            let line = waiting.message.line;
            let transactions = &self.transactions;
            !transactions.iter().any(|it| it.message.line == line)
        };
        let mut free = self.waiting.iter().enumerate().filter(|(_, it)| free(it));
        if !self.config.round_robin {
            return free.next().map(|(at, _)| at);
        }
        let turn = |from: usize| (from + cores - self.turn - 1) % cores;
        free.min_by_key(|(at, it)| (turn(it.message.from.index()), *at))
            .map(|(at, _)| at)
    }

    fn transaction(&mut self, line: u64) -> usize {
        let mut transactions = self.transactions.iter();
        let at = transactions.position(|it| it.message.line == line);
        at.expect("it is in progress")
    }

    /// All caches see a request for `line`: it happens now.
    pub(crate) fn snooped(&mut self, line: u64, private: &mut [Private], out: &mut Out<'_>) {
        self.busy = false;
        let at = self.transaction(line);
        let Message { from, body, .. } = self.transactions[at].message;
        match body {
            Body::Put { .. } => {
                self.counters.write_backs += out.one();
                out.write_memory(line);
                private[from.index()].put_done(line);
                self.transactions.swap_remove(at);
            }
            Body::Get { want, .. } => self.transact(at, want, private, out),
            body => unreachable!("{body:?} does not ask for the bus"),
        }
        self.arbitrate(private, out);
    }

    fn transact(&mut self, at: usize, want: Want, private: &mut [Private], out: &mut Out<'_>) {
        let Message { from, to, line, .. } = self.transactions[at].message;
        let known = Known {
            entry: holders(private, line),
            home_has: true,
            may_write: true,
            children: private.len(),
        };
        let has_copy = private[from.index()].state(line).can_read();
        let step = step(self.protocol, known, from.0, has_copy, want);
        for child in step.lose.iter() {
            private[child as usize].snoop(line, Keep::Nothing, out);
            self.counters.invalidations += out.one();
        }
        self.transactions[at].grant = step.grant;
        let (level, ready) = match step.supply {
            Supply::Nobody => {
                self.counters.upgrades += out.one();
                self.transactions.swap_remove(at);
                private[from.index()].granted(line, step.grant, Level::Home, out);
                return;
            }
            Supply::Child(child) => {
                self.counters.from_cache += out.one();
                let (_, dirty) = private[child as usize].snoop(line, step.keep, out);
                // Memory takes the value from the bus, unless the next owner has it to give back.
                if dirty && step.grant != State::Modified && want != Want::AtHome {
                    out.write_memory(line);
                }
                (Level::OtherCache, out.now.after(self.snoop_cycles))
            }
            Supply::Home => {
                self.counters.from_memory += out.one();
                (Level::Memory, out.read_memory(line, 0))
            }
        };
        self.transactions[at].level = level;
        out.value_at(to, line, ready);
    }

    /// The value of `line` is there, in a cache or in memory.
    pub(crate) fn value_arrives(&mut self, line: u64, private: &mut [Private], out: &mut Out<'_>) {
        self.values.push_back(line);
        self.arbitrate(private, out);
    }

    /// The value of `line` has come over the bus.
    pub(crate) fn delivered(&mut self, line: u64, private: &mut [Private], out: &mut Out<'_>) {
        self.busy = false;
        let at = self.transaction(line);
        let Transaction {
            message,
            grant,
            level,
        } = self.transactions.swap_remove(at);
        let Body::Get { want, request, .. } = message.body else {
            unreachable!("only requests have values");
        };
        match request {
            Some(request) => {
                if want == Want::AtHome {
                    out.write_memory(line);
                }
                out.told
                    .push(Told::Performs(performed(request, level, out.now)));
            }
            None => private[message.from.index()].granted(line, grant, level, out),
        }
        self.arbitrate(private, out);
    }
}

fn performed(request: Request, level: Level, now: Cycle) -> Response {
    Response {
        request,
        done: now,
        level,
    }
}

/// Who holds `line`, or has not written it back yet.
fn holders(private: &[Private], line: u64) -> Entry {
    let mut entry = Entry::default();
    for (core, private) in (0..).zip(private) {
        let state = match private.leaving_state(line) {
            State::Invalid => private.state(line),
            state => state,
        };
        if state.supplies() {
            debug_assert!(entry.owner.is_none(), "line {line:#x} has two owners");
            entry.owner = Some(core);
        } else if state.can_read() {
            entry.sharers.insert(core);
        }
    }
    entry
}

/// Where a line comes from that a cache asks for now.
pub(crate) fn whereabouts(private: &[Private], line: u64) -> Level {
    match holders(private, line).owner {
        Some(_) => Level::OtherCache,
        None => Level::Memory,
    }
}

#[cfg(test)]
#[path = "snoop_tests.rs"]
mod tests;
