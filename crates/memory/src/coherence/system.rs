//! The parts of the memory system put together, and what cores ask of it.

mod build;

use loiter_types::{ContextId, CoreId, CounterVisitor, Cycle, PhysAddr, StateVisitor};
use serde::{Deserialize, Serialize};

use super::collect::{Collected, Collector};
use super::fabric::{Fabric, Out};
use super::home::Home;
use super::message::{Body, Message, Node};
use super::private::Private;
use super::snoop::{SnoopingBus, whereabouts};
use super::{Asked, Event, State};
use crate::request::{Level, Request, RequestKind, Response, Told};

/// A memory system made of messages.
#[derive(Debug, Deserialize, Serialize)]
pub struct Coherent {
    line_log2: u32,
    pub(super) private: Vec<Private>,
    /// Homes of clusters, then those of memory.
    pub(super) homes: Vec<Home>,
    /// Without homes, the bus that all caches watch.
    pub(super) bus: Option<SnoopingBus>,
    pub(super) fabric: Fabric,
    collector: Collector,
    device_latency_cycles: u64,
    /// Cores that are to be named before anything happens to their private caches, and how many they are.
    ahead: Vec<bool>,
    ahead_count: usize,
    /// Events of the present cycle, of which the first `happened` have been seen to.
    due: Vec<Event>,
    happened: usize,
    /// Kept for its room.
    unheard: Vec<Told>,
}

impl Coherent {
    /// The number of the line that holds `addr`.
    #[inline(always)]
    #[must_use]
    pub fn line(&self, addr: PhysAddr) -> u64 {
        addr.block(self.line_log2)
    }

    /// Looks up the instruction cache: whether `addr` can be fetched now. A miss is followed by [`Coherent::ask`].
    #[inline]
    pub fn fetch(&mut self, core: CoreId, addr: PhysAddr) -> bool {
        let line = self.line(addr);
        self.private[core.index()].fetch(line)
    }

    /// Looks up the data cache for a load; the same rule.
    #[inline]
    pub fn load(&mut self, now: Cycle, core: CoreId, addr: PhysAddr) -> bool {
        let line = self.line(addr);
        let private = &mut self.private[core.index()];
        let hit = private.load(line);
        if private.take_trained() {
            self.prefetch(now, core, line);
        }
        hit
    }

    /// An access to `line` has trained the prefetcher of `core`.
    #[cold]
    fn prefetch(&mut self, now: Cycle, core: CoreId, line: u64) {
        let private = &mut self.private[core.index()];
        let at = now.after(private.lookup_cycles().max(1));
        let events = &mut self.fabric.events;
        private.prefetch(now, line, |line| {
            events.insert(at, Event::Second(core, line));
        });
    }

    /// Looks up the data cache for a store: whether it may perform now. A miss is followed by [`Coherent::ask`] with
    /// [`RequestKind::Own`].
    #[inline]
    pub fn store(&mut self, core: CoreId, addr: PhysAddr) -> bool {
        let line = self.line(addr);
        self.private[core.index()].store(line)
    }

    /// As [`crate::Memory::reach`].
    #[must_use]
    pub fn reach(&self) -> u64 {
        let private = self.private.iter().map(Private::reach);
        let homes = self.homes.iter().map(Home::reach);
        private.chain(homes).min().unwrap_or(u64::MAX)
    }

    /// log2 of the bytes of a line that instructions are fetched from.
    #[must_use]
    pub fn fetch_line_log2(&self) -> u32 {
        self.line_log2
    }

    /// log2 of the bytes of a line.
    #[must_use]
    pub fn data_line_log2(&self) -> u32 {
        self.line_log2
    }

    /// Where a line that the first level of `core` does not have is now, which is where it will come from if nobody
    /// else takes it before.
    #[must_use]
    pub fn whereabouts(&self, core: CoreId, addr: PhysAddr) -> Level {
        let line = self.line(addr);
        let private = &self.private[core.index()];
        if private.state(line).can_read() {
            return if private.has_second() {
                Level::L2
            } else {
                Level::Home
            };
        }
        if self.bus.is_some() {
            return whereabouts(&self.private, line);
        }
        let mut node = Node(core.0);
        loop {
            let home = self.fabric.home_of(node, line);
            let found = self.homes[home.index() - self.private.len()].whereabouts(line);
            if found != Level::Memory || home.index() >= self.fabric.first_home {
                return found;
            }
            node = home;
        }
    }

    /// Shows `visitor` the counters of all parts.
    pub fn visit_counters(&self, visitor: &mut impl CounterVisitor) {
        for (n, private) in self.private.iter().enumerate() {
            let counters = &private.counters;
            for (cache, name) in ["l1i", "l1d"].into_iter().enumerate() {
                let name = format!("core{n}.{name}");
                visitor.visit(&name, &counters.first[cache]);
                if cache == 1 {
                    visitor.visit(&name, &counters.stores);
                }
                visitor.visit(&name, &counters.misses[cache]);
            }
            if private.has_prefetcher() {
                visitor.visit(&format!("core{n}.prefetch"), &counters.prefetch);
            }
            if private.has_second() {
                visitor.visit(&format!("core{n}.l2"), &counters.second);
            }
        }
        let clusters = self.fabric.first_home - self.private.len();
        for (n, home) in self.homes.iter().enumerate() {
            let name = match n.checked_sub(clusters) {
                None => format!("cluster{n}"),
                Some(n) => format!("home{n}"),
            };
            visitor.visit(&name, &home.counters);
        }
        for (n, dram) in self.fabric.drams.iter().enumerate() {
            visitor.visit(&format!("dram{n}"), &dram.counters);
        }
        match &self.bus {
            Some(bus) => visitor.visit("bus", &bus.counters),
            None => visitor.visit("network", &self.fabric.network.counters),
        }
    }

    /// What the private caches of `core` may do with the line of `addr`.
    #[must_use]
    pub fn state(&self, core: CoreId, addr: PhysAddr) -> State {
        self.private[core.index()].state(self.line(addr))
    }

    /// A request that missed the first level, or passes it.
    pub fn ask(&mut self, now: Cycle, request: Request) -> Asked {
        self.private[request.core.index()].changes += 1;
        let line = self.line(request.addr);
        let events = &mut self.fabric.events;
        match request.kind {
            RequestKind::Device => {
                // It performs a cycle before its requester continues.
                let at = now.after(self.device_latency_cycles - 1);
                events.insert(at, Event::Device(request));
                Asked::Sent
            }
            RequestKind::Atomic | RequestKind::Store => self.ask_home(now, request, line),
            RequestKind::Walk if !self.private[request.core.index()].has_second() => {
                self.ask_home(now, request, line)
            }
            _ => {
                let private = &mut self.private[request.core.index()];
                let asked = private.ask(now, line, request);
                if asked == Asked::Sent {
                    // Whoever asks is told in a later cycle.
                    let at = now.after(private.lookup_cycles().max(1));
                    events.insert(at, Event::Second(request.core, line));
                }
                if private.take_trained() {
                    self.prefetch(now, request.core, line);
                }
                asked
            }
        }
    }

    fn ask_home(&mut self, now: Cycle, request: Request, line: u64) -> Asked {
        let mut told = Vec::new();
        let mut out = Out {
            now,
            fabric: &mut self.fabric,
            told: &mut told,
        };
        let body = Body::Get {
            want: match request.kind {
                RequestKind::Walk => super::Want::Walk,
                _ => super::Want::AtHome,
            },
            has_copy: false,
            request: Some(request),
        };
        out.send_home(Node(request.core.0), line, body, 0);
        Asked::Sent
    }

    /// The earliest cycle in which something happens.
    #[inline(always)]
    #[must_use]
    pub fn next(&self) -> Cycle {
        self.fabric.events.next()
    }

    /// Goes to cycle `now`; puts what cores are told into `told`, in order. Returns a core of which
    /// [`Coherent::name_ahead`] wants to know that something is about to happen to its private caches; then it has to be
    /// called again.
    #[inline]
    pub fn advance(&mut self, now: Cycle, told: &mut Vec<Told>) -> Option<CoreId> {
        // A value that takes no time is there in the same cycle.
        loop {
            while let Some(&event) = self.due.get(self.happened) {
                if self.ahead_count > 0
                    && let Some(core) = self.concerned(&event)
                {
                    return Some(core);
                }
                self.happened += 1;
                self.happens(now, event, told);
            }
            self.due.clear();
            self.happened = 0;
            if self.fabric.events.next() > now {
                return None;
            }
            self.fabric.events.advance(now, &mut self.due);
        }
    }

    /// `context` of `core`, whose `lr` reads at `addr`, keeps the line for a while, if it may write it; for no longer if it
    /// does already.
    pub fn reserve(&mut self, now: Cycle, core: CoreId, context: ContextId, addr: PhysAddr) {
        let line = addr.block(self.data_line_log2());
        if self.private[core.index()].state(line).can_write() {
            self.fabric.keep(now, core, context, line);
        } else {
            self.fabric.release(now, context);
        }
    }

    /// `context` keeps no line any more.
    pub fn release(&mut self, now: Cycle, context: ContextId) {
        self.fabric.release(now, context);
    }

    /// Whether `core` is named before anything happens to its private caches.
    pub fn name_ahead(&mut self, core: CoreId, named: bool) {
        let before = std::mem::replace(&mut self.ahead[core.index()], named);
        self.ahead_count += usize::from(named);
        self.ahead_count -= usize::from(before);
    }

    /// A core that is to be named, if `event` concerns its private caches.
    #[cold]
    fn concerned(&self, event: &Event) -> Option<CoreId> {
        let named = |core: usize| self.ahead.get(core).copied().unwrap_or(false);
        match *event {
            Event::Arrives(message) => {
                let core = message.to.index();
                named(core).then(|| CoreId::new(core))
            }
            Event::Second(core, _) | Event::HoldEnds(core) => named(core.index()).then_some(core),
            Event::Snooped(line) | Event::Delivered(line) | Event::Value(_, line)
                if self.bus.is_some() =>
            {
                let mut cores = 0..self.private.len();
                let core = cores.find(|&core| named(core) && self.private[core].concerns(line));
                core.map(CoreId::new)
            }
            Event::LookedUp(_)
            | Event::Snooped(_)
            | Event::Delivered(_)
            | Event::Value(..)
            | Event::Device(_) => None,
        }
    }

    /// How many accesses of `core` were more than a read of what its first level has.
    #[inline(always)]
    #[must_use]
    pub fn changes(&self, core: CoreId) -> u64 {
        self.private[core.index()].changes
    }

    /// Shows `visitor` what reads of `core` that hit the first level may depend on and change.
    pub fn visit_state(&mut self, core: CoreId, visitor: &mut impl StateVisitor) {
        self.private[core.index()].visit_state(visitor);
    }

    pub(super) fn happens(&mut self, now: Cycle, event: Event, told: &mut Vec<Told>) {
        let mut out = Out {
            now,
            fabric: &mut self.fabric,
            told,
        };
        match event {
            Event::Arrives(message) => self.arrives(now, message, told),
            Event::LookedUp(message) => {
                let home = &mut self.homes[message.to.index() - self.private.len()];
                home.receive(message, &mut out);
            }
            Event::Second(core, line) => self.private[core.index()].looked_up(line, &mut out),
            Event::HoldEnds(core) => {
                while let Some((snoop, waited)) = self.fabric.holds.next(core, now) {
                    let counters = &mut self.private[core.index()].counters.stores;
                    counters.held_snoops += 1;
                    counters.held_snoop_cycles += waited;
                    self.arrives(now, snoop, told);
                }
            }
            Event::Value(..) | Event::Snooped(_) | Event::Delivered(_) if self.bus.is_some() => {
                let bus = self.bus.as_mut().expect("there is one");
                match event {
                    Event::Snooped(line) => bus.snooped(line, &mut self.private, &mut out),
                    Event::Delivered(line) => bus.delivered(line, &mut self.private, &mut out),
                    Event::Value(_, line) => bus.value_arrives(line, &mut self.private, &mut out),
                    _ => {}
                }
            }
            Event::Snooped(_) | Event::Delivered(_) => unreachable!("there is no bus"),
            Event::Value(node, line) => {
                let home = &mut self.homes[node.index() - self.private.len()];
                home.value_arrives(line, &mut out);
            }
            Event::Device(request) => told.push(Told::Performs(Response {
                request,
                done: now.after(1),
                level: Level::Device,
            })),
        }
    }

    fn arrives(&mut self, now: Cycle, message: Message, told: &mut Vec<Told>) {
        let Message { to, line, body, .. } = message;
        match body {
            Body::Grant {
                state,
                level,
                replies,
            } => {
                let granted = (state, level, replies);
                if let Some(collected) = self.collector.granted(to, line, granted) {
                    self.granted(now, to, line, collected, told);
                }
                return;
            }
            Body::Reply { supplies, dirty } if self.is_collected(&message) => {
                if let Some(collected) = self.collector.replied(to, line, supplies, dirty) {
                    self.granted(now, to, line, collected, told);
                }
                return;
            }
            _ => {}
        }
        let mut out = Out {
            now,
            fabric: &mut self.fabric,
            told,
        };
        if let Some(private) = self.private.get_mut(to.index()) {
            match body {
                Body::Snoop(snoop) => {
                    let core = CoreId::new(to.index());
                    if let Some(until) = out.fabric.holds.held_until(core, line, now) {
                        out.fabric.holds.wait(core, message, now);
                        out.fabric.events.insert(until, Event::HoldEnds(core));
                        return;
                    }
                    private.snooped(line, snoop, &mut out);
                }
                Body::PutDone => private.put_done(line),
                body => unreachable!("a core is no home: {body:?}"),
            }
            return;
        }
        if let Some(bus) = &mut self.bus {
            return bus.receive(message, &mut self.private, &mut out);
        }
        let home = &mut self.homes[to.index() - self.private.len()];
        match body {
            Body::Get { .. } | Body::Put { .. } | Body::Snoop(_) => {
                let passes = !out.fabric.instant && home.looks_up_first(body);
                if !passes {
                    home.receive(message, &mut out);
                    return;
                }
                let at = home.looks_up(now, line);
                out.fabric.events.insert(at, Event::LookedUp(message));
            }
            Body::Reply { supplies, dirty } => home.replied(line, supplies, dirty, &mut out),
            Body::Done { supplied, dirty } => home.replied(line, supplied, dirty, &mut out),
            Body::PutDone => home.put_done(line),
            Body::Grant { .. } => unreachable!("it has been collected"),
        }
    }

    /// Whether a reply goes to a node that has asked for the line, and not to a home of who sends it.
    fn is_collected(&self, message: &Message) -> bool {
        let to = message.to.index();
        let from_own_core = message.from.index() < self.private.len();
        to < self.private.len() || to < self.fabric.first_home && !from_own_core
    }

    /// The grant of `to`, and the replies that come with it, are all there.
    fn granted(
        &mut self,
        now: Cycle,
        to: Node,
        line: u64,
        collected: Collected,
        told: &mut Vec<Told>,
    ) {
        let mut out = Out {
            now,
            fabric: &mut self.fabric,
            told,
        };
        let Collected { state, level, .. } = collected;
        if collected.tells {
            let (supplied, dirty) = (collected.supplied, collected.dirty);
            out.send_home(to, line, Body::Done { supplied, dirty }, 0);
        }
        match self.private.get_mut(to.index()) {
            Some(private) => private.granted(line, state, level, &mut out),
            None => {
                let home = &mut self.homes[to.index() - self.private.len()];
                home.granted(line, state, level, &mut out);
            }
        }
    }

    /// `core` has made an access to RAM at `addr`, without time: lines are where they would be. Nothing is counted,
    /// and nothing may be outstanding.
    pub fn warm(&mut self, core: CoreId, kind: RequestKind, addr: PhysAddr) {
        let line = self.line(addr);
        let private = &mut self.private[core.index()];
        let counters = std::mem::take(&mut private.counters);
        self.warm_line(core, kind, addr, line);
        let private = &mut self.private[core.index()];
        // Without time, nothing is brought ahead.
        private.take_trained();
        private.counters = counters;
    }

    fn warm_line(&mut self, core: CoreId, kind: RequestKind, addr: PhysAddr, line: u64) {
        let private = &mut self.private[core.index()];
        let hit = match kind {
            RequestKind::Fetch => private.fetch(line),
            RequestKind::Load => private.load(line),
            RequestKind::Own => private.store(line),
            _ => false,
        };
        if hit {
            return;
        }
        debug_assert!(self.is_idle(), "warming while something is outstanding");
        self.fabric.instant = true;
        let request = Request {
            kind,
            core,
            context: Default::default(),
            addr,
            tag: 0,
        };
        let mut told = std::mem::take(&mut self.unheard);
        let at_home = matches!(kind, RequestKind::Atomic | RequestKind::Store);
        if at_home || kind == RequestKind::Walk && !self.private[core.index()].has_second() {
            self.ask_home(Cycle(0), request, line);
        } else {
            let asked = self.private[core.index()].ask(Cycle(0), line, request);
            debug_assert_eq!(asked, Asked::Sent);
            self.happens(Cycle(0), Event::Second(core, line), &mut told);
        }
        while let Some(event) = self.fabric.at_once.pop_front() {
            self.happens(Cycle(0), event, &mut told);
        }
        told.clear();
        self.unheard = told;
        self.fabric.instant = false;
    }

    /// Whether nothing is outstanding.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.private.iter().all(Private::is_idle)
            && self.homes.iter().all(Home::is_idle)
            && self.bus.as_ref().is_none_or(SnoopingBus::is_idle)
            && self.collector.is_idle()
            && self.fabric.events.next() == Cycle::NEVER
    }
}

#[cfg(test)]
#[path = "closed_tests.rs"]
mod closed_tests;

#[cfg(test)]
#[path = "random_tests.rs"]
pub(super) mod random_tests;
