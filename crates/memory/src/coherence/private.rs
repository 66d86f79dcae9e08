//! The private caches of a core: what it hits, what it misses, and what it gives up.
//!
//! With a second level, that includes both first ones and has the state of each line. Without, the data cache has it,
//! and a line that only the instruction cache has is a shared copy.

mod copies;

use loiter_types::{CoreId, Cycle, StateVisitor};
use serde::{Deserialize, Serialize};

use copies::{Leaving, Stated};

use super::directory::{Protocol, Want};
use super::message::{Body, Node};
use super::prefetch::{PrefetchCounters, Prefetcher};
use super::state::State;
use super::{Asked, Out};
use crate::cache::{Cache, Lookup};
use crate::counters::{L1Counters, MissCounters, SecondCounters, StoreCounters};
use crate::request::{Level, Request, RequestKind, Response, Told};

const INSTRUCTIONS: usize = 0;
const DATA: usize = 1;

/// The first-level cache that a request is for.
fn cache_of(kind: RequestKind) -> usize {
    match kind {
        RequestKind::Fetch => INSTRUCTIONS,
        _ => DATA,
    }
}

/// Rules of a core's private caches.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct PrivateRules {
    pub(crate) protocol: Protocol,
    /// Home is told of shared copies that are given up.
    pub(crate) tells_clean: bool,
    /// Lines that can be outstanding to the instruction cache and to the data cache.
    pub(crate) mshrs: [usize; 2],
    /// Every access of either hits.
    pub(crate) perfect: [bool; 2],
    /// From a first-level miss to its departure, or to its hit in the second level.
    pub(crate) lookup_cycles: u64,
    /// From a snoop to the departure of its reply.
    pub(crate) snoop_cycles: u64,
    /// More, where the copy has been written or is given up.
    pub(crate) snoop_change_cycles: u64,
}

/// What a core's private caches count. A look-up that misses counts when its request is taken.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct PrivateCounters {
    /// Of the instruction cache and of the data cache.
    pub(crate) first: [L1Counters; 2],
    pub(crate) stores: StoreCounters,
    pub(crate) misses: [MissCounters; 2],
    pub(crate) second: SecondCounters,
    pub(crate) prefetch: PrefetchCounters,
}

/// A line that is outstanding.
#[derive(Debug, Deserialize, Serialize)]
struct Miss {
    line: u64,
    since: Cycle,
    /// Whether home has been asked; the second level is looked up until then.
    sent: bool,
    /// The prefetcher has asked for it, and it has not come.
    prefetch: bool,
    /// Who waits, in the order in which they asked.
    waiters: Vec<Request>,
}

/// The private caches of a core.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Private {
    core: CoreId,
    node: Node,
    rules: PrivateRules,
    instructions: Cache,
    data: Stated,
    second: Option<Stated>,
    misses: Vec<Miss>,
    leaving: Vec<Leaving>,
    /// A miss found no register, so that its core is to be told of the next free one.
    refused: bool,
    prefetcher: Option<Prefetcher>,
    /// The last access trains the prefetcher.
    trained: bool,
    pub(crate) counters: PrivateCounters,
    /// Accesses that were more than a read of what the first level has.
    pub(crate) changes: u64,
    /// Kept for their room.
    spare: Vec<Vec<Request>>,
}

impl Private {
    /// As [`crate::Memory::reach`].
    pub(crate) fn reach(&self) -> u64 {
        let second = self.second.as_ref().map(|second| &second.tags);
        let caches = [&self.instructions, &self.data.tags].into_iter();
        let reaches = caches.chain(second).map(Cache::reach);
        reaches.min().unwrap_or(u64::MAX)
    }

    pub(crate) fn new(
        core: CoreId,
        node: Node,
        rules: PrivateRules,
        [instructions, data]: [Cache; 2],
        second: Option<Cache>,
        prefetcher: Option<Prefetcher>,
    ) -> Self {
        Self {
            core,
            node,
            rules,
            instructions,
            data: Stated::new(data),
            second: second.map(Stated::new),
            misses: Vec::new(),
            leaving: Vec::new(),
            refused: false,
            prefetcher,
            trained: false,
            counters: PrivateCounters::default(),
            changes: 0,
            spare: Vec::new(),
        }
    }

    /// Shows `visitor` what reads that hit the first level may depend on and change.
    pub(crate) fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        visitor.require(self.is_idle());
        let Self {
            core: _,
            node: _,
            rules: _,
            instructions,
            data,
            // Only misses look it up.
            second: _,
            misses: _,
            leaving: _,
            refused,
            // A read of a line that was used before does not train it; other reads are changes.
            prefetcher: _,
            trained,
            counters,
            changes: _,
            spare: _,
        } = self;
        visitor.require(!*refused && !*trained);
        instructions.visit_state(visitor);
        data.tags.visit_state(visitor);
        let PrivateCounters {
            first,
            stores: _,
            misses: _,
            second: _,
            prefetch: _,
        } = counters;
        for counters in first {
            visitor.counters(counters);
        }
    }

    /// Whether nothing is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.misses.is_empty() && self.leaving.is_empty()
    }

    /// Whether these caches have `line`, or have anything to do with it.
    pub(crate) fn concerns(&self, line: u64) -> bool {
        self.state(line).can_read()
            || self.misses.iter().any(|miss| miss.line == line)
            || self.leaving.iter().any(|leaving| leaving.line == line)
    }

    /// Whether there is a second level.
    pub(crate) fn has_second(&self) -> bool {
        self.second.is_some()
    }

    /// Looks up the instruction cache.
    #[inline]
    pub(crate) fn fetch(&mut self, line: u64) -> bool {
        let hit =
            self.instructions.access(line) != Lookup::Miss || self.rules.perfect[INSTRUCTIONS];
        self.counters.first[INSTRUCTIONS].accesses += u64::from(hit);
        hit
    }

    /// Looks up the data cache for a load.
    #[inline]
    pub(crate) fn load(&mut self, line: u64) -> bool {
        let found = self.data.tags.access(line);
        if self.prefetcher.is_some() {
            self.trained = self.is_used(found);
        }
        let hit = found != Lookup::Miss || self.rules.perfect[DATA];
        self.counters.first[DATA].accesses += u64::from(hit);
        hit
    }

    /// Looks up the data cache for a store: whether it may perform now. If so the line is modified.
    #[inline]
    pub(crate) fn store(&mut self, line: u64) -> bool {
        self.changes += 1;
        let found = self.data.tags.access(line);
        self.is_used(found);
        match found {
            Lookup::Hit(index) if self.data.state[index].can_write() => {
                self.counters.stores.stores += 1;
                if self.data.state[index] == State::Exclusive {
                    self.set_state(line, State::Modified);
                }
                true
            }
            _ => {
                self.counters.stores.stores += u64::from(self.rules.perfect[DATA]);
                self.rules.perfect[DATA]
            }
        }
    }

    /// Whether there is a prefetcher.
    pub(crate) fn has_prefetcher(&self) -> bool {
        self.prefetcher.is_some()
    }

    /// The data cache is looked up. Returns whether it has found a line that was prefetched, for the first time.
    #[inline]
    fn is_used(&mut self, found: Lookup) -> bool {
        let used = match (&mut self.prefetcher, found) {
            (Some(prefetcher), Lookup::Hit(index)) => prefetcher.ends_unused(index),
            _ => false,
        };
        self.counters.prefetch.useful += u64::from(used);
        self.changes += u64::from(used);
        used
    }

    /// Whether the last access trains the prefetcher; it is then followed by [`Private::prefetch`].
    #[inline]
    pub(crate) fn take_trained(&mut self) -> bool {
        std::mem::take(&mut self.trained)
    }

    /// An access to `line` trains the prefetcher. Each line that it asks for goes to `ask`, and is followed by
    /// [`Private::looked_up`].
    pub(crate) fn prefetch(&mut self, now: Cycle, line: u64, mut ask: impl FnMut(u64)) {
        let prefetcher = self.prefetcher.as_mut().expect("it has been trained");
        let own = prefetcher.mshrs;
        for line in prefetcher.train(line) {
            let is_here = self.data.tags.find(line) != Lookup::Miss;
            if is_here || self.misses.iter().any(|miss| miss.line == line) {
                continue;
            }
            let full = match own {
                Some(own) => self.misses.iter().filter(|miss| miss.prefetch).count() >= own,
                None => self.taken(DATA) >= self.rules.mshrs[DATA],
            };
            if full {
                break;
            }
            self.counters.prefetch.issued += 1;
            self.misses.push(Miss {
                line,
                since: now,
                sent: false,
                prefetch: true,
                waiters: self.spare.pop().unwrap_or_default(),
            });
            ask(line);
        }
    }

    /// Registers of the instruction cache or the data cache that are taken.
    fn taken(&self, cache: usize) -> usize {
        let prefetcher = self.prefetcher.as_ref();
        let own = prefetcher.is_some_and(|prefetcher| prefetcher.mshrs.is_some());
        let takes = |miss: &&Miss| {
            if miss.prefetch {
                return cache == DATA && !own;
            }
            let mut waiters = miss.waiters.iter();
            waiters.any(|waiter| cache_of(waiter.kind) == cache)
        };
        self.misses.iter().filter(takes).count()
    }

    /// A request that missed the first level. The first for its line is followed by [`Private::looked_up`].
    pub(crate) fn ask(&mut self, now: Cycle, line: u64, request: Request) -> Asked {
        let asked = self.register(now, line, request);
        let cache = cache_of(request.kind);
        let misses = &mut self.counters.misses[cache];
        match asked {
            Asked::Full => {
                misses.refused_misses += 1;
                return asked;
            }
            Asked::Merged => misses.merged_misses += 1,
            Asked::Sent => {}
        }
        match request.kind {
            RequestKind::Own | RequestKind::Reserve => {
                self.counters.stores.stores += 1;
                self.counters.stores.store_misses += 1;
            }
            RequestKind::Walk => {}
            RequestKind::OwnAhead => self.counters.stores.owned_ahead += 1,
            _ => {
                self.counters.first[cache].accesses += 1;
                self.counters.first[cache].misses += 1;
            }
        }
        asked
    }

    fn register(&mut self, now: Cycle, line: u64, request: Request) -> Asked {
        self.trained = self.prefetcher.is_some() && request.kind == RequestKind::Load;
        if let Some(miss) = self.misses.iter_mut().find(|miss| miss.line == line) {
            let late = miss.prefetch && miss.waiters.is_empty();
            self.counters.prefetch.late += u64::from(late);
            self.trained &= late;
            miss.waiters.push(request);
            return Asked::Merged;
        }
        let cache = cache_of(request.kind);
        if self.taken(cache) >= self.rules.mshrs[cache] {
            self.refused = true;
            self.trained = false;
            return Asked::Full;
        }
        let mut waiters = self.spare.pop().unwrap_or_default();
        waiters.push(request);
        self.misses.push(Miss {
            line,
            since: now,
            sent: false,
            prefetch: false,
            waiters,
        });
        Asked::Sent
    }

    /// From a first-level miss to [`Private::looked_up`].
    pub(crate) fn lookup_cycles(&self) -> u64 {
        self.rules.lookup_cycles
    }

    /// The second level has been looked up: it has the line, or home is asked.
    pub(crate) fn looked_up(&mut self, line: u64, out: &mut Out<'_>) {
        let state = self.state(line);
        if let Some(second) = &mut self.second {
            let hit = second.tags.access(line) != Lookup::Miss;
            self.counters.second.accesses += 1;
            self.counters.second.misses += u64::from(!hit);
        }
        self.serve(line, state, Level::L2, out);
    }

    /// Home grants a request.
    pub(crate) fn granted(&mut self, line: u64, state: State, level: Level, out: &mut Out<'_>) {
        self.set_state(line, state);
        self.serve(line, state, level, out);
    }

    /// All waiters for `line` perform whom `state` allows to, in the order in which they asked; for the rest home is
    /// asked.
    fn serve(&mut self, line: u64, mut state: State, level: Level, out: &mut Out<'_>) {
        let at = self.misses.iter().position(|miss| miss.line == line);
        let at = at.expect("a line that comes is outstanding");
        let mut waiters = std::mem::take(&mut self.misses[at].waiters);
        let prefetch = self.misses[at].prefetch;
        let unused = prefetch && waiters.is_empty();
        let mut wanted = [false, prefetch];
        waiters.retain(|&request| {
            let owns = wants_to_own(request.kind);
            if !state.can_read() || owns && !state.can_write() {
                return true;
            }
            wanted[cache_of(request.kind)] |= request.kind != RequestKind::Walk;
            if matches!(request.kind, RequestKind::Own | RequestKind::Reserve) {
                state = State::Modified;
            }
            if request.kind == RequestKind::Reserve {
                let (core, context) = (request.core, request.context);
                out.fabric.keep(out.now, core, context, line);
            }
            out.told.push(Told::Performs(Response {
                request,
                done: out.now,
                level,
            }));
            false
        });
        let held = state.can_read() && self.hold(line, state, wanted, out);
        if state.can_read() {
            self.misses[at].prefetch = false;
            if unused {
                self.was_brought(line);
            }
        }
        if state.can_read() && !held {
            // It has been used once.
            self.drop_copies(line);
            self.leave(line, state, out);
        }
        if waiters.is_empty() && !self.misses[at].prefetch {
            let miss = self.misses.swap_remove(at);
            self.counters.misses[usize::from(wanted[DATA])].outstanding_misses +=
                out.now.since(miss.since);
            self.spare.push(waiters);
            if std::mem::take(&mut self.refused) {
                out.told.push(Told::Retry(self.core));
            }
            return;
        }
        let any = |is: fn(RequestKind) -> bool| waiters.iter().any(|request| is(request.kind));
        let want = if any(wants_to_own) {
            Want::Own
        } else if prefetch || any(|kind| kind != RequestKind::Fetch) {
            Want::Read
        } else {
            Want::Fetch
        };
        self.misses[at].waiters = waiters;
        self.misses[at].sent = true;
        let body = Body::Get {
            want,
            has_copy: held,
            request: None,
        };
        out.send_home(self.node, line, body, 0);
    }
}

/// Whether it needs the right to write.
fn wants_to_own(kind: RequestKind) -> bool {
    matches!(
        kind,
        RequestKind::Own | RequestKind::OwnAhead | RequestKind::Reserve
    )
}
