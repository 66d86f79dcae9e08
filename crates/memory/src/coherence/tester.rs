//! Cores that access few lines at random: what must hold on every memory system, whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use loiter_types::{ContextId, CoreId, Cycle, PhysAddr};

use super::Asked;
use crate::request::{Caches, Emptied, Lost, Request, RequestKind, Response, Told};

pub(super) const CORES: usize = 16;
/// Data lines that are accessed.
pub(super) const LINES: usize = 24;
/// The version of a copy that came without a request that performs.
const UNKNOWN: u64 = u64::MAX;
/// Longest time that a request may take.
const PATIENCE: u64 = 100_000;

/// A memory system that is tested.
pub(super) trait Tested {
    /// The first byte of the `n`th data line.
    fn addr_of(n: usize) -> PhysAddr;

    /// Which of them line number `line` is, if it is one.
    fn index_of(line: u64) -> Option<usize>;

    /// Data lines that a fetch for the `n`th brings, that one among them.
    fn fetched_with(n: usize) -> std::ops::Range<usize> {
        n..n + 1
    }

    /// What cores ask of this system instead of a request that it does not know.
    fn kind(kind: RequestKind) -> RequestKind {
        kind
    }

    /// Lines come that nobody has requested.
    fn prefetches(&self) -> bool {
        false
    }

    /// In the cycle in which a core reads a line, another may be about to lose the right to write it.
    fn loses_late(&self) -> bool {
        false
    }

    /// As of the memory system.
    fn fetch(&mut self, core: CoreId, addr: PhysAddr) -> bool;
    /// As of the memory system.
    fn load(&mut self, now: Cycle, core: CoreId, addr: PhysAddr) -> bool;
    /// As of the memory system.
    fn store(&mut self, core: CoreId, addr: PhysAddr) -> bool;
    /// As of the memory system.
    fn ask(&mut self, now: Cycle, request: Request) -> Asked;
    /// As of the memory system.
    fn next(&self) -> Cycle;
    /// As of the memory system.
    fn advance(&mut self, now: Cycle, told: &mut Vec<Told>);
    /// As of the memory system.
    fn is_idle(&self) -> bool;

    /// As of the memory system; one line stays.
    fn empty(
        &mut self,
        now: Cycle,
        core: CoreId,
        which: Caches,
        stays: Option<usize>,
        told: &mut Vec<Told>,
    ) -> Emptied;

    /// Whether the private caches of `core` have the `n`th line.
    fn can_read(&self, core: usize, n: usize) -> bool;

    /// Whether they may write it.
    fn can_write(&self, core: usize, n: usize) -> bool;

    /// Requests that a core can have outstanding where nothing else limits them.
    const MOST_OUTSTANDING: usize = usize::MAX;

    /// Several requests for a line can perform in one cycle, in the order in which cores are told; what an atomic takes
    /// from its own core is lost after it.
    const ORDERED_IN_A_CYCLE: bool = false;

    /// Asserts what must hold at any time.
    fn look_around(&self);

    /// Asserts what must hold when nothing is outstanding.
    fn look_at_homes(&self);
}

/// A generator of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// What has become of the reservation of an `lr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reserved {
    No,
    Line(usize),
    /// Its core has lost that.
    Lost,
}

/// What is known of the system beside what it says of itself.
pub(super) struct Tester<M> {
    pub(super) memory: M,
    now: Cycle,
    random: Random,
    /// How often each line was written.
    version: [u64; LINES],
    /// The version that each core has of each line.
    copy: Vec<[u64; LINES]>,
    /// The line that each core watches.
    watched: [Option<usize>; CORES],
    reserved: [Reserved; CORES],
    /// Cores that wait for a miss register.
    stalled: [bool; CORES],
    /// Requests by tag: what, for which line, since when.
    outstanding: BTreeMap<u64, (Request, usize, Cycle)>,
    /// Stores that have performed elsewhere, by tag.
    unacknowledged: BTreeSet<u64>,
    /// How many each core has.
    outstanding_of: [usize; CORES],
    next_tag: u64,
    accesses: u64,
    /// By reason.
    pub(super) lost: [u64; 3],
    pub(super) refused: u64,
    pub(super) merged: u64,
    /// Performed past the caches of the core.
    pub(super) at_home: u64,
    /// `sc` that have succeeded, and that have failed.
    pub(super) conditionals: [u64; 2],
    /// Caches are emptied now and then.
    pub(super) empties: bool,
    pub(super) emptied: u64,
}

impl<M: Tested> Tester<M> {
    pub(super) fn new(memory: M) -> Self {
        let first = if memory.prefetches() { UNKNOWN } else { 0 };
        Self {
            memory,
            now: Cycle(0),
            random: Random(0x1234_5678_9abc_def1),
            version: [0; LINES],
            copy: vec![[first; LINES]; CORES],
            watched: [None; CORES],
            reserved: [Reserved::No; CORES],
            stalled: [false; CORES],
            outstanding: BTreeMap::new(),
            unacknowledged: BTreeSet::new(),
            outstanding_of: [0; CORES],
            next_tag: 1,
            accesses: 0,
            lost: [0; 3],
            refused: 0,
            merged: 0,
            at_home: 0,
            conditionals: [0; 2],
            empties: false,
            emptied: 0,
        }
    }

    /// `core` writes line `n`, and `keeps` its copy, or home does it for it. `later` is what is told in the same cycle
    /// after it.
    fn writes(&mut self, n: usize, core: usize, keeps: bool, later: &[Told]) {
        self.version[n] += 1;
        for other in 0..CORES {
            if other == core && keeps {
                self.copy[other][n] = self.version[n];
                continue;
            }
            let comes_again =
                M::ORDERED_IN_A_CYCLE && later.iter().any(|told| self.brings(told, other, n));
            assert!(
                comes_again || !self.memory.can_read(other, n),
                "core {other} has line {n}, which {core} writes"
            );
            let hears = other == core && M::ORDERED_IN_A_CYCLE && {
                let loses = |told: &Told| match *told {
                    Told::Lost { core, line, .. } => {
                        core.index() == other && M::index_of(line) == Some(n)
                    }
                    _ => false,
                };
                later.iter().any(loses)
            };
            assert!(
                hears || self.watched[other] != Some(n),
                "core {other} was not told of line {n}"
            );
        }
    }

    /// Whether `core` has line `n` by this.
    fn brings(&self, told: &Told, core: usize, n: usize) -> bool {
        let Told::Performs(Response { request, .. }) = told else {
            return false;
        };
        let lines = match request.kind {
            RequestKind::Fetch => M::fetched_with(n),
            RequestKind::Load | RequestKind::Reserve => n..n + 1,
            _ => return false,
        };
        let brought = self.outstanding.get(&request.tag);
        request.core.index() == core && brought.is_some_and(|(_, n, _)| lines.contains(n))
    }

    fn reads(&mut self, n: usize, core: usize, later: &[Told]) {
        self.copy[core][n] = self.version[n];
        let (core_id, why) = (CoreId::new(core), Lost::Written);
        let loses = |told: &Told| match *told {
            Told::Lost {
                core, line, why: w, ..
            } => core == core_id && w == why && M::index_of(line) == Some(n),
            _ => false,
        };
        // Where all caches watch one bus, another core may have the line in the cycle in which this one loses it.
        if self.memory.loses_late() && later.iter().any(loses) {
            return;
        }
        for other in (0..CORES).filter(|&other| other != core) {
            assert!(
                !self.memory.can_write(other, n),
                "core {other} may write line {n}, which {core} reads"
            );
        }
    }

    /// `later` is what is told in the same cycle after it.
    fn hear(&mut self, told: Told, later: &[Told]) {
        match told {
            Told::Performs(response) => match response.request.kind {
                RequestKind::Acknowledge => self.is_acknowledged(response.request.tag),
                _ => self.performs(response, later),
            },
            Told::Retry(core) => self.stalled[core.index()] = false,
            Told::Lost { core, line, why } => {
                let Some(n) = M::index_of(line) else {
                    // Not one of those that are accessed.
                    assert!(self.memory.prefetches());
                    return;
                };
                let core = core.index();
                self.lost[why as usize] += 1;
                if self.memory.prefetches() && why != Lost::Read {
                    self.copy[core][n] = UNKNOWN;
                }
                if self.watched[core] == Some(n) && why != Lost::Read {
                    self.watched[core] = None;
                }
                if self.reserved[core] == Reserved::Line(n) && why != Lost::Read {
                    self.reserved[core] = Reserved::Lost;
                }
            }
        }
    }

    /// A store has been performed before it is acknowledged.
    fn is_acknowledged(&mut self, tag: u64) {
        let performed = !self.outstanding.contains_key(&tag);
        assert!(performed && self.unacknowledged.remove(&tag), "{tag}");
    }

    fn performs(&mut self, response: Response, later: &[Told]) {
        let Response { request, done, .. } = response;
        assert!(done >= self.now);
        let (sent, n, _) = self.outstanding.remove(&request.tag).expect("it was sent");
        let kind = match (sent.kind, request.kind) {
            (RequestKind::Conditional, RequestKind::Fails) => sent.kind,
            (_, kind) => kind,
        };
        assert_eq!(sent, Request { kind, ..request });
        let core = request.core.index();
        self.outstanding_of[core] -= 1;
        match request.kind {
            RequestKind::Own => self.writes(n, core, true, later),
            RequestKind::Store => {
                self.unacknowledged.insert(request.tag);
                self.writes(n, core, true, later);
            }
            RequestKind::Atomic => {
                self.at_home += 1;
                self.writes(n, core, false, later);
            }
            RequestKind::Conditional => {
                let reserved = std::mem::replace(&mut self.reserved[core], Reserved::No);
                let held = reserved == Reserved::Line(n);
                assert!(held, "sc of core {core} succeeds: {reserved:?}");
                self.conditionals[0] += 1;
                self.writes(n, core, false, later);
            }
            RequestKind::Fails => {
                let reserved = std::mem::replace(&mut self.reserved[core], Reserved::No);
                let held = reserved == Reserved::Line(n);
                assert!(!held, "sc of core {core} fails, which has kept line {n}");
                self.conditionals[1] += 1;
            }
            RequestKind::Load => {
                self.reads(n, core, later);
                self.watched[core] = Some(n);
            }
            RequestKind::Reserve => {
                self.at_home += 1;
                self.reads(n, core, later);
                self.watched[core] = Some(n);
                self.reserved[core] = Reserved::Line(n);
            }
            RequestKind::Fetch => {
                M::fetched_with(n).for_each(|n| self.reads(n, core, later));
            }
            RequestKind::OwnAhead => self.copy[core][n] = UNKNOWN,
            _ => self.at_home += 1,
        }
    }

    /// What a core asks for next, and of which line.
    fn next_access(&mut self, core: usize) -> (RequestKind, usize) {
        let n = self.random.below(LINES as u64) as usize;
        // Times of much writing and of little.
        let reads = if (self.now.0 / 8192).is_multiple_of(2) {
            18
        } else {
            28
        };
        let kind = match self.random.below(32) {
            0..4 => RequestKind::Fetch,
            4.. if self.random.below(30) < reads => RequestKind::Load,
            4..30 => RequestKind::Own,
            30 if self.random.below(2) == 0 => RequestKind::Walk,
            30 => RequestKind::OwnAhead,
            _ => RequestKind::Atomic,
        };
        let kind = M::kind(kind);
        match self.reserved[core] {
            // An `sc` soon follows its `lr`; now and then it is of another line.
            Reserved::Line(line) if self.random.below(2) == 0 => {
                let other = self.random.below(8) == 0;
                (RequestKind::Conditional, if other { n } else { line })
            }
            Reserved::Lost if self.random.below(8) == 0 => (RequestKind::Conditional, n),
            _ => (kind, n),
        }
    }

    fn access(&mut self, core: usize) {
        let (kind, n) = self.next_access(core);
        let (id, addr) = (CoreId::new(core), M::addr_of(n));
        self.accesses += 1;
        let hit = match kind {
            RequestKind::Fetch => self.memory.fetch(id, addr),
            RequestKind::Load => self.memory.load(self.now, id, addr),
            RequestKind::Own => self.memory.store(id, addr),
            _ => false,
        };
        if hit {
            let (copy, version) = (&mut self.copy[core][n], self.version[n]);
            if *copy == UNKNOWN {
                *copy = version;
            }
            let copy = *copy;
            assert_eq!(copy, version, "core {core} hits a stale copy of line {n}");
            match kind {
                RequestKind::Own => self.writes(n, core, true, &[]),
                RequestKind::Load => self.watched[core] = Some(n),
                _ => {}
            }
            return;
        }
        let request = Request {
            kind,
            core: id,
            context: ContextId::new(core),
            addr,
            tag: self.next_tag,
        };
        match self.memory.ask(self.now, request) {
            Asked::Full => {
                self.refused += 1;
                self.stalled[core] = true;
                return;
            }
            Asked::Merged => self.merged += 1,
            Asked::Sent => {}
        }
        self.outstanding
            .insert(self.next_tag, (request, n, self.now));
        self.outstanding_of[core] += 1;
        self.next_tag += 1;
    }

    fn look_around(&self) {
        self.memory.look_around();
        let oldest = self.outstanding.values().map(|(_, _, since)| *since).min();
        let waits = oldest.map_or(0, |since| self.now.since(since));
        assert!(waits < PATIENCE, "a request waits for {waits} cycles");
    }

    fn advance(&mut self, told: &mut Vec<Told>) {
        if self.memory.next() <= self.now {
            self.memory.advance(self.now, told);
            for (at, &each) in told.iter().enumerate() {
                self.hear(each, &told[at + 1..]);
            }
            told.clear();
        }
    }

    /// Some of the caches of `core` are emptied, but for the line that it watches.
    fn empties(&mut self, core: usize, told: &mut Vec<Told>) {
        let which = match self.random.below(3) {
            0 => Caches::Instructions,
            1 => Caches::First,
            _ => Caches::Private,
        };
        let watched = self.watched[core];
        let id = CoreId::new(core);
        let emptied = self.memory.empty(self.now, id, which, watched, told);
        self.emptied += emptied.lines;
        for each in std::mem::take(told) {
            self.hear(each, &[]);
        }
        assert_eq!(self.watched[core], watched);
    }

    pub(super) fn run(&mut self, accesses: u64) {
        let mut told = Vec::new();
        while self.accesses < accesses {
            self.now = self.now.after(1);
            self.advance(&mut told);
            // Times of much traffic and of little.
            let rest = 1 + self.now.0 / 4096 % 8 * 8;
            for core in 0..CORES {
                let waits = self.stalled[core] || self.outstanding_of[core] >= M::MOST_OUTSTANDING;
                if !waits && self.random.below(rest) == 0 {
                    self.access(core);
                }
                if self.empties && self.random.below(1000) == 0 {
                    self.empties(core, &mut told);
                }
            }
            if self.now.0.is_multiple_of(256) {
                self.look_around();
            }
            if self.now.0.is_multiple_of(65_536) {
                self.drain(&mut told);
            }
        }
        self.drain(&mut told);
    }

    /// All that is outstanding completes.
    fn drain(&mut self, told: &mut Vec<Told>) {
        let begins = self.now;
        while self.memory.next() != Cycle::NEVER {
            self.now = self.memory.next();
            self.advance(told);
            let waits = self.now.since(begins);
            assert!(waits < PATIENCE, "still not drained after {waits} cycles");
        }
        assert!(self.outstanding.is_empty(), "{:?}", self.outstanding);
        let unacknowledged = &self.unacknowledged;
        assert!(unacknowledged.is_empty(), "{unacknowledged:?}");
        assert!(self.memory.is_idle(), "a line stays busy");
        assert_eq!(self.stalled, [false; CORES], "nobody was told to retry");
        self.look_around();
        self.memory.look_at_homes();
    }
}
