//! First levels that write through, before the banks of a second level that has a directory of their lines: the memory
//! of the UltraSPARC T1 and T2.
//!
//! ```text
//!   core --load, fetch, store, atomic--> bank: looks up, asks the directory who has which line in a first level
//!   core <--line, or acknowledgement---- bank --what is lost--> other cores
//! ```
//!
//! Stores do not allocate. What misses a first level, and every store and atomic, goes over the crossbar to the bank of
//! its line, and is ordered there: what a bank has decided reaches every core equally long afterwards. So all others lose
//! a line in the cycle in which its core hears that a store to it has been made, and that is the cycle in which the value
//! moves. A load that its bank has served before comes before, one that it serves later comes later; a load that still
//! hits a copy has the old value. Nobody waits for a reply: a bank is done with a request when it has decided.
//!
//! Lines of the three caches may have different sizes; the directory knows each line of a first level (directory.rs).
//! A core is told of each data line that is taken from it, whether or not it has replaced it meanwhile.

use std::collections::VecDeque;

use loiter_types::{CoreId, CounterVisitor, Cycle, PhysAddr, StateVisitor};
use serde::{Deserialize, Serialize};

use crate::cache::Lookup;
use crate::params::{L1Params, L2Params, MemoryParams, ReplyParams};
use crate::request::{Caches, Emptied, Level, Request, RequestKind, Response, Told};
use crate::wheel::Wheel;

mod directory;
mod first;
mod second;

use directory::{Taken, Which};
use first::First;
use second::{Found, Second, Transfer};

/// All sections of a memory system whose first levels write through.
#[derive(Clone, Debug)]
pub struct WriteThroughParams {
    /// Number of cores, each with its own first level.
    pub cores: usize,
    /// Section `l1i`.
    pub l1i: L1Params,
    /// Section `l1d`.
    pub l1d: L1Params,
    /// Section `l2`.
    pub l2: L2Params,
    /// The rest of it.
    pub reply: ReplyParams,
    /// Section `memory`.
    pub memory: MemoryParams,
}

/// Bytes of the longest store.
const LONGEST_STORE: u64 = 8;

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
enum Event {
    /// A bank has looked a request up.
    LookedUp(Request),
    /// A line comes from memory.
    Arrives(u64),
    /// A core hears that it loses a line.
    Loses(Taken),
    /// A core has its response.
    Responds(Response),
}

/// A memory system whose first levels write through.
#[derive(Debug, Deserialize, Serialize)]
pub struct WriteThrough {
    first: Vec<First>,
    second: Second,
    /// From a bank's decision until all cores have heard of it.
    reply_cycles: u64,
    /// From there until a context issues again.
    core_cycles: u64,
    /// More, for an atomic.
    atomic_cycles: u64,
    device_latency_cycles: u64,
    /// With each its turn among those of a cycle: what follows from what was sent first, or was requested from memory first,
    /// comes first, whether it has been decided ahead of time or not. What devices say comes before all that.
    events: Wheel<(u64, Event)>,
    /// The last turn that was given, and that of what is happening.
    turns: u64,
    turn: u64,
    /// Events of the present cycle, of which the first `happened` have been seen to.
    due: Vec<(u64, Event)>,
    happened: usize,
    /// Acknowledgements of stores that have performed: when their store buffers have them, in order. They come before all else
    /// of that cycle.
    acknowledgements: VecDeque<Response>,
    /// When the first event or acknowledgement is due.
    next: Cycle,
    /// Kept for their room.
    taken: Vec<Taken>,
    transfers: Vec<Transfer>,
    waiters: Vec<Request>,
}

impl WriteThrough {
    /// An idle memory system with empty caches.
    ///
    /// # Errors
    /// The section and what is impossible about it.
    pub fn new(params: &WriteThroughParams) -> Result<Self, (&'static str, String)> {
        for (section, line) in [
            ("l1i", params.l1i.line_bytes),
            ("l1d", params.l1d.line_bytes),
        ] {
            if line > params.l2.line_bytes {
                let problem = "a line must not be longer than one of the l2";
                return Err((section, problem.to_owned()));
            }
        }
        let (reply, core) = (params.l2.reply_cycles, params.reply.core_cycles);
        if core >= reply {
            let problem = format!("core_cycles = {core} leaves nothing of reply_cycles = {reply}");
            return Err(("l2", problem));
        }
        let cores = 0..params.cores;
        let first = cores.map(|core| First::new(CoreId::new(core), &params.l1i, &params.l1d));
        let lines = [&params.l1i, &params.l1d].map(|first| first.line_bytes.trailing_zeros());
        let second = Second::new(&params.l2, &params.memory, lines, params.cores);
        Ok(Self {
            first: first.collect::<Result<_, _>>()?,
            second: second.map_err(|problem| ("l2", problem))?,
            reply_cycles: reply - core,
            core_cycles: core,
            atomic_cycles: params.l2.atomic_latency_cycles - params.l2.hit_latency_cycles,
            device_latency_cycles: params.memory.device_latency_cycles,
            events: Wheel::default(),
            turns: 0,
            turn: 0,
            due: Vec::new(),
            happened: 0,
            acknowledgements: VecDeque::new(),
            next: Cycle::NEVER,
            taken: Vec::new(),
            transfers: Vec::new(),
            waiters: Vec::new(),
        })
    }

    /// Looks up the instruction cache: whether `addr` can be fetched now. A miss is followed by [`WriteThrough::send`].
    #[inline]
    pub fn fetch(&mut self, core: CoreId, addr: PhysAddr) -> bool {
        let first = &mut self.first[core.index()];
        let line = first.instructions.line(addr);
        let hit = first.instructions.access(line) != Lookup::Miss;
        first.instruction_counters.accesses += 1;
        first.instruction_counters.misses += u64::from(!hit);
        hit
    }

    /// Looks up the data cache for a load; the same rule.
    #[inline]
    pub fn load(&mut self, core: CoreId, addr: PhysAddr) -> bool {
        let first = &mut self.first[core.index()];
        let line = first.data.line(addr);
        let hit = first.data.access(line) != Lookup::Miss;
        first.data_counters.accesses += 1;
        first.data_counters.misses += u64::from(!hit);
        hit
    }

    /// Bytes of a line of the second level.
    #[must_use]
    pub fn line_bytes(&self) -> u64 {
        self.second.params.line_bytes
    }

    /// As [`crate::Memory::reach`].
    #[must_use]
    pub fn reach(&self) -> u64 {
        let First {
            instructions, data, ..
        } = &self.first[0];
        let first = instructions.reach().min(data.reach());
        first.min(self.second.reach())
    }

    /// log2 of the bytes of an instruction-cache line.
    #[must_use]
    pub fn fetch_line_log2(&self) -> u32 {
        self.first[0].instructions.line_log2()
    }

    /// log2 of the bytes of a data-cache line.
    #[must_use]
    pub fn data_line_log2(&self) -> u32 {
        self.first[0].data.line_log2()
    }

    /// As [`crate::Memory::empty`]. As of a line that is replaced, the directory has it still.
    pub(crate) fn empty(
        &mut self,
        core: CoreId,
        which: Caches,
        stays: impl Fn(u64) -> bool,
    ) -> Emptied {
        let first = &mut self.first[core.index()];
        first.changes += 1;
        let mut lines = first.instructions.clear();
        if which == Caches::Instructions {
            first.instruction_counters.invalidations += lines;
        } else {
            let data: Vec<u64> = first.data.present().filter(|&line| !stays(line)).collect();
            lines += data.len() as u64;
            data.iter().for_each(|&line| {
                first.data.invalidate(line);
            });
        }
        Emptied {
            lines,
            written_back: 0,
        }
    }

    /// As [`crate::Memory::empty_at_once`].
    pub(crate) fn empty_at_once(&mut self, core: CoreId) {
        self.empty(core, Caches::Private, |_| false);
    }

    /// Where a line that a first level does not have is now.
    #[must_use]
    pub fn whereabouts(&self, addr: PhysAddr) -> Level {
        match self.second.has(addr) {
            true => Level::L2,
            false => Level::Memory,
        }
    }

    /// Shows `visitor` the counters of all parts.
    pub fn visit_counters(&self, visitor: &mut impl CounterVisitor) {
        for (n, first) in self.first.iter().enumerate() {
            visitor.visit(&format!("core{n}.l1i"), &first.instruction_counters);
            visitor.visit(&format!("core{n}.l1d"), &first.data_counters);
        }
        visitor.visit("l2", &self.second.counters);
    }

    /// Sends a request, which performs when [`WriteThrough::advance`] says. Stores of a context perform in the order in
    /// which they are sent if they are to one line.
    #[inline]
    pub fn send(&mut self, now: Cycle, request: Request) {
        self.first[request.core.index()].changes += 1;
        self.turns += 1;
        self.turn = self.turns;
        if request.kind == RequestKind::Device {
            // It performs a cycle before its requester continues.
            let at = now.after(self.device_latency_cycles - 1);
            let response = Response {
                request,
                done: at.after(1),
                level: Level::Device,
            };
            self.turn = 0;
            return self.insert(at, Event::Responds(response));
        }
        let at = self.second.book(now, &request);
        match self.second.looks_up_ahead(&request) {
            Some(index) => self.perform(at, index, request, Level::L2),
            None => self.insert(at, Event::LookedUp(request)),
        }
    }

    /// Something that follows from what has this turn is to happen at `at`.
    #[inline]
    fn insert(&mut self, at: Cycle, event: Event) {
        self.events.insert(at, (self.turn, event));
        self.next = self.next.min(at);
    }

    /// The earliest cycle in which something happens.
    #[inline(always)]
    #[must_use]
    pub fn next(&self) -> Cycle {
        self.next
    }

    /// Goes to cycle `now`; puts what cores are told into `told`, in order. Returns a core of which
    /// [`WriteThrough::name_ahead`] wants to know that something is about to happen to its first level; then it has to be
    /// called again.
    #[inline]
    pub fn advance(&mut self, now: Cycle, told: &mut Vec<Told>) -> Option<CoreId> {
        self.acknowledge(now, told);
        if self.happened == self.due.len() {
            self.due.clear();
            self.happened = 0;
            self.events.advance(now, &mut self.due);
            if self.due.len() > 1 {
                self.due.sort_by_key(|&(turn, _)| turn);
            }
        }
        while let Some(&(turn, event)) = self.due.get(self.happened) {
            self.turn = turn;
            match event {
                Event::LookedUp(request) => {
                    self.second.decides(&request);
                    self.looked_up(now, request);
                }
                Event::Arrives(line) => self.arrives(now, line),
                Event::Loses(taken) => {
                    if self.first[taken.core.index()].named {
                        return Some(taken.core);
                    }
                    self.loses(&taken, told);
                }
                Event::Responds(response) => {
                    let core = response.request.core;
                    if self.first[core.index()].named && fills(response.request.kind) {
                        return Some(core);
                    }
                    self.responds(response, told);
                }
            }
            self.happened += 1;
        }
        // Without `reply.core_cycles`, those of stores that have just performed.
        self.acknowledge(now, told);
        let acknowledges = self.acknowledgements.front();
        let acknowledges = acknowledges.map_or(Cycle::NEVER, |response| response.done);
        self.next = self.events.next().min(acknowledges);
        None
    }

    /// Store buffers have the acknowledgements that are due.
    #[inline]
    fn acknowledge(&mut self, now: Cycle, told: &mut Vec<Told>) {
        while let Some(&response) = self.acknowledgements.front()
            && response.done <= now
        {
            self.acknowledgements.pop_front();
            told.push(Told::Performs(response));
        }
    }

    /// Whether `core` is named before anything happens to its first level.
    pub fn name_ahead(&mut self, core: CoreId, named: bool) {
        self.first[core.index()].named = named;
    }

    /// Whether the data cache of `core` has a line that a store to `addr` may change. It has lost the first of them before.
    #[must_use]
    pub fn reads(&self, core: CoreId, addr: PhysAddr) -> bool {
        let data = &self.first[core.index()].data;
        let last = PhysAddr(addr.0 + (LONGEST_STORE - 1));
        [addr, last]
            .into_iter()
            .any(|addr| data.find(data.line(addr)) != Lookup::Miss)
    }

    /// How many accesses of `core` were more than a read of what its first level has.
    #[inline(always)]
    #[must_use]
    pub fn changes(&self, core: CoreId) -> u64 {
        self.first[core.index()].changes
    }

    /// Shows `visitor` what reads of `core` that hit the first level may depend on and change.
    pub fn visit_state(&mut self, core: CoreId, visitor: &mut impl StateVisitor) {
        self.first[core.index()].visit_state(visitor);
    }

    /// A bank has looked `request` up.
    #[inline]
    fn looked_up(&mut self, now: Cycle, request: Request) {
        let (taken, transfers) = (&mut self.taken, &mut self.transfers);
        match self.second.look_up(now, request, taken, transfers) {
            Found::Here(index) => self.perform(now, index, request, Level::L2),
            Found::Waits => self.missed(now),
        }
    }

    /// What a miss has led to: a line that comes, and one that first levels lose as the second level has replaced it.
    fn missed(&mut self, now: Cycle) {
        for (line, at) in self.transfers.drain(..) {
            self.turns += 1;
            self.events.insert(at, (self.turns, Event::Arrives(line)));
        }
        let at = now.after(self.reply_cycles);
        for taken in self.taken.drain(..) {
            self.events.insert(at, (self.turn, Event::Loses(taken)));
        }
    }

    /// `line` comes from memory: all that waited for it perform.
    fn arrives(&mut self, now: Cycle, line: u64) {
        let mut waiters = std::mem::take(&mut self.waiters);
        let transfers = &mut self.transfers;
        let index = self.second.arrives(now, line, &mut waiters, transfers);
        self.missed(now);
        for request in waiters.drain(..) {
            self.perform(now, index, request, Level::Memory);
        }
        self.waiters = waiters;
        for request in self.second.take_blocked(line) {
            self.looked_up(now, request);
        }
    }

    /// A bank decides in cycle `now` about a request whose line is there. Others lose lines before the value moves, its own
    /// core after.
    #[inline]
    fn perform(&mut self, now: Cycle, index: usize, request: Request, level: Level) {
        let mut request = request;
        let core = request.core;
        if !self.second.perform(index, &request, &mut self.taken) {
            request.kind = RequestKind::Fails;
        }
        let at = now.after(self.reply_cycles);
        for taken in self.taken.iter().filter(|taken| taken.core != core) {
            self.events.insert(at, (self.turn, Event::Loses(*taken)));
        }
        let done = at.after(match request.kind.is_far_atomic() {
            true => self.core_cycles + self.atomic_cycles,
            false => self.core_cycles,
        });
        let response = Response {
            request,
            done,
            level,
        };
        self.insert(at, Event::Responds(response));
        for taken in self.taken.drain(..).filter(|taken| taken.core == core) {
            self.events.insert(at, (self.turn, Event::Loses(taken)));
        }
    }

    fn loses(&mut self, taken: &Taken, told: &mut Vec<Told>) {
        let first = &mut self.first[taken.core.index()];
        let lost = u64::from(first.gives_up(taken, told));
        let counters = match taken.which {
            Which::Instructions => &mut first.instruction_counters,
            Which::Data => &mut first.data_counters,
        };
        counters.invalidations += lost;
    }

    #[inline]
    fn responds(&mut self, response: Response, told: &mut Vec<Told>) {
        self.fill(&response.request);
        told.push(Told::Performs(response));
        if response.request.kind == RequestKind::Store {
            let kind = RequestKind::Acknowledge;
            let request = Request {
                kind,
                ..response.request
            };
            self.acknowledgements.push_back(Response {
                request,
                ..response
            });
        }
    }

    /// What a request brings into the first level of its core.
    #[inline]
    fn fill(&mut self, request: &Request) {
        let first = &mut self.first[request.core.index()];
        match request.kind {
            RequestKind::Fetch => {
                first.fill_instructions(first.instructions.line(request.addr));
            }
            RequestKind::Load | RequestKind::Reserve => {
                first.fill_data(first.data.line(request.addr));
            }
            _ => {}
        }
    }

    /// `core` has made an access to RAM at `addr`, without time: lines are where they would be. Nothing is counted, and
    /// nothing may be outstanding.
    pub fn warm(&mut self, core: CoreId, kind: RequestKind, addr: PhysAddr) {
        debug_assert!(self.is_idle(), "warming while something is outstanding");
        let first = &mut self.first[core.index()];
        let cache = match kind {
            RequestKind::Fetch => Some(&mut first.instructions),
            RequestKind::Load => Some(&mut first.data),
            _ => None,
        };
        if let Some(cache) = cache
            && cache.access(cache.line(addr)) != Lookup::Miss
        {
            return;
        }
        let request = Request {
            kind: match kind {
                // A reservation is of a time.
                RequestKind::Reserve => RequestKind::Load,
                RequestKind::Conditional => RequestKind::Atomic,
                kind => kind,
            },
            core,
            context: Default::default(),
            addr,
            tag: 0,
        };
        let mut unheard = Vec::new();
        let mut taken = std::mem::take(&mut self.taken);
        let index = self.second.warm(addr, &mut taken);
        self.second.perform(index, &request, &mut taken);
        for taken in taken.drain(..) {
            self.first[taken.core.index()].gives_up(&taken, &mut unheard);
        }
        self.taken = taken;
        self.fill(&request);
    }

    /// Whether nothing is outstanding.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.second.is_idle() && self.next == Cycle::NEVER
    }

    /// Whether the first level of `core` has the line of `addr`, in that cache.
    #[cfg(test)]
    fn holds(&self, core: CoreId, which: Which, addr: PhysAddr) -> bool {
        let first = &self.first[core.index()];
        let cache = match which {
            Which::Instructions => &first.instructions,
            Which::Data => &first.data,
        };
        cache.find(cache.line(addr)) != Lookup::Miss
    }
}

/// Whether a line comes into the first level with the response.
fn fills(kind: RequestKind) -> bool {
    matches!(
        kind,
        RequestKind::Fetch | RequestKind::Load | RequestKind::Reserve
    )
}

#[cfg(test)]
mod tests;
