//! What walks page tables for the contexts of a core: how long that takes.
//!
//! What an address means, and what it raises, is decided by [`loiter_hart::Hart`] when the access
//! performs. A walk reads the entries of the page tables one after the other, each when its access
//! performs, because where the next lies stands in the one before. It changes nothing: marks are the
//! hart's affair.

use std::collections::VecDeque;

use loiter_hart::{Access, Hart, Page, PageWalk, WalkStep};
use loiter_isa::{Inst, Op};
use loiter_memory::{
    Flush, FlushOf, Request, RequestKind, Tlb, Translation, WalkerCounters, WalkerParams,
};
use loiter_types::{
    AddressSpace, ContextId, CoreId, Cycle, PAGE_BYTES, PhysAddr, StateVisitor, VirtAddr,
};
use serde::{Deserialize, Serialize};

use crate::{Observer, Shared};

/// No page: larger than the number of any page.
pub(crate) const NO_PAGE: u64 = u64::MAX;

/// Marks the tags of requests that a walk has sent; the rest is its entry.
const TAG: u64 = 1 << 63;

/// Number of the smallest page that holds `addr`.
#[inline(always)]
pub(crate) fn page(addr: u64) -> u64 {
    addr / PAGE_BYTES
}

/// Pages whose translation is at hand for one instruction, whatever becomes of the buffers' entries
/// until it issues: an instruction and its data lie in two pages each at most. So contexts that push
/// each other's translations out get on all the same.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Granted {
    pages: [u64; 2],
}

impl Granted {
    pub(crate) const NOTHING: Granted = Granted {
        pages: [NO_PAGE; 2],
    };

    /// Shows `visitor` which pages.
    pub(crate) fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        self.pages.iter().for_each(|&page| visitor.value(page));
    }

    #[inline(always)]
    pub(crate) fn has(&self, page: u64) -> bool {
        self.pages.contains(&page)
    }

    #[inline(always)]
    pub(crate) fn grant(&mut self, page: u64) {
        self.pages = [page, self.pages[0]];
    }
}

/// The translations that `inst`, a fence of translations which `hart` is about to run or has run, names.
pub(crate) fn flush_of(inst: &Inst, hart: &Hart) -> Flush {
    let value = |slot: u8| (slot != 0).then(|| hart.regs[slot as usize]);
    if inst.op == Op::HfenceGvma {
        // Entries are known by addresses of the guest, and not of its memory.
        return Flush {
            addr: None,
            asid: None,
            of: value(inst.rs2).map_or(FlushOf::Guests, |vmid| FlushOf::Guest(vmid as u16)),
        };
    }
    let guest = hart.fenced_guest(inst.op == Op::HfenceVvma);
    Flush {
        addr: value(inst.rs1).map(VirtAddr),
        asid: value(inst.rs2).map(|asid| asid as u16),
        of: guest.map_or(FlushOf::Host, FlushOf::Guest),
    }
}

/// What a context wants translated, and for what.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Wanted<P> {
    /// The context, and its position in the core.
    pub(crate) context: ContextId,
    pub(crate) seat: usize,
    /// Its hart, as an index.
    pub(crate) hart: usize,
    pub(crate) addr: VirtAddr,
    pub(crate) access: Access,
    pub(crate) space: AddressSpace,
    pub(crate) purpose: P,
}

/// A walk that has ended: the page, unless the access raises an exception.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Ended<P> {
    pub(crate) wanted: Wanted<P>,
    found: Option<Page>,
}

impl<P> Ended<P> {
    /// Puts the translation into the buffer that it was wanted in.
    pub(crate) fn fill(&self, tlb: &mut Tlb) {
        if let Some(page) = self.found {
            tlb.fill(Translation {
                addr: self.wanted.addr,
                size_log2: page.size_log2,
                space: self.wanted.space,
                global: page.global,
                clean: page.clean,
            });
        }
    }
}

/// What a walk does when it is due.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
enum Next {
    /// It reads an entry.
    Read,
    /// Its last read has returned.
    Step(WalkStep),
}

/// A walk in flight, or waiting for its turn.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Walk<P> {
    wanted: Wanted<P>,
    /// Where it stands; `None` when no table can hold the address.
    tables: Option<PageWalk>,
    /// When it began, or began to wait for its turn.
    since: Cycle,
    next: Next,
    /// When it continues, as far as is known.
    due: Cycle,
    /// Its read found no miss register.
    refused: bool,
}

/// What walks page tables for the contexts of a core. `P` is what it is told of the purpose of a walk.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Walker<P> {
    params: WalkerParams,
    core: CoreId,
    through_l1d: bool,
    /// Of an entry in the data cache.
    load_cycles: u64,
    /// For what-if runs: its reads hit and do not touch the cache.
    bypasses_caches: bool,
    walks: Vec<Option<Walk<P>>>,
    /// Walks that wait for their turn, in order.
    queue: VecDeque<Walk<P>>,
    /// The first cycle in which a walk continues, as far as is known.
    pub(crate) due: Cycle,
    pub(crate) counters: WalkerCounters,
}

impl<P: Copy> Walker<P> {
    pub(crate) fn new(params: &WalkerParams, core: CoreId, load_cycles: u64) -> Self {
        Self {
            params: params.clone(),
            core,
            through_l1d: params.reads == "l1d",
            load_cycles,
            bypasses_caches: false,
            walks: vec![None; params.walks as usize],
            queue: VecDeque::new(),
            due: Cycle::NEVER,
            counters: WalkerCounters::default(),
        }
    }

    /// The same, for what-if runs perhaps with reads that hit and do not touch the cache.
    pub(crate) fn bypassing_caches(self, bypasses_caches: bool) -> Self {
        Self {
            bypasses_caches,
            ..self
        }
    }

    /// Shows `visitor` what there is while nobody walks.
    pub(crate) fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            params: _,
            core: _,
            through_l1d: _,
            load_cycles: _,
            bypasses_caches: _,
            walks,
            queue,
            due,
            counters,
        } = self;
        let idle = walks.iter().all(Option::is_none) && queue.is_empty();
        visitor.require(idle && *due == Cycle::NEVER);
        visitor.counters(counters);
    }

    /// Whether a request with this tag is a walk's.
    #[inline(always)]
    pub(crate) fn owns(&self, tag: u64) -> bool {
        tag & TAG != 0
    }

    /// Begins a walk, or puts it into line for its turn. Returns it if it has ended already.
    pub(crate) fn begin<O: Observer>(
        &mut self,
        now: Cycle,
        wanted: Wanted<P>,
        shared: &mut Shared<'_, O>,
    ) -> Option<Ended<P>> {
        let hart = &shared.harts[wanted.hart];
        let walk = Walk {
            tables: hart.begin_walk(wanted.addr, wanted.access).ok(),
            wanted,
            since: now,
            next: Next::Read,
            due: Cycle::NEVER,
            refused: false,
        };
        let Some(free) = self.walks.iter().position(Option::is_none) else {
            self.queue.push_back(walk);
            return None;
        };
        self.start(free, walk, now, shared)
    }

    /// Walks that are due continue, and those whose turn has come begin. Those that end are added to
    /// `ended`.
    #[cold]
    pub(crate) fn advance<O: Observer>(
        &mut self,
        now: Cycle,
        shared: &mut Shared<'_, O>,
        ended: &mut Vec<Ended<P>>,
    ) {
        // In the order of contexts, so that it does not matter which entry a walk has.
        while let Some(at) = self.first_due(now) {
            ended.extend(self.step(at, now, shared));
        }
        while let Some(free) = self.walks.iter().position(Option::is_none) {
            let Some(walk) = self.queue.pop_front() else {
                break;
            };
            ended.extend(self.start(free, walk, now, shared));
        }
        let walks = self.walks.iter().flatten();
        self.due = walks.map(|walk| walk.due).min().unwrap_or(Cycle::NEVER);
    }

    fn first_due(&self, now: Cycle) -> Option<usize> {
        let due = |walk: &Option<Walk<P>>| walk.is_some_and(|walk| walk.due <= now);
        (0..self.walks.len())
            .filter(|&at| due(&self.walks[at]))
            .min_by_key(|&at| self.walks[at].map(|walk| walk.wanted.seat))
    }

    /// A walk takes its turn.
    fn start<O: Observer>(
        &mut self,
        at: usize,
        mut walk: Walk<P>,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Option<Ended<P>> {
        self.counters.walks += 1;
        self.counters.wait_cycles += now.since(walk.since);
        walk.since = now;
        walk.due = now.after(self.params.fixed_cycles);
        let due = walk.due;
        self.walks[at] = Some(walk);
        if due <= now {
            return self.step(at, now, shared);
        }
        self.due = self.due.min(due);
        None
    }

    /// A walk continues for as long as it is due. Returns it when it ends.
    fn step<O: Observer>(
        &mut self,
        at: usize,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Option<Ended<P>> {
        while let Some(walk) = self.walks[at]
            && walk.due <= now
        {
            match walk.next {
                Next::Read | Next::Step(WalkStep::Table) => {
                    let hart = &shared.harts[walk.wanted.hart];
                    let next = |tables| hart.next_entry(shared.machine, &tables).ok();
                    match walk.tables.and_then(next) {
                        Some(entry) => self.read_entry(at, now, entry, shared),
                        None => return Some(self.end(at, now, None)),
                    }
                }
                Next::Step(WalkStep::Page(page)) => return Some(self.end(at, now, Some(page))),
                Next::Step(WalkStep::Fault(_)) => return Some(self.end(at, now, None)),
            }
        }
        if let Some(walk) = &self.walks[at] {
            self.due = self.due.min(walk.due);
        }
        None
    }

    /// The walk reads an entry of a page table.
    fn read_entry<O: Observer>(
        &mut self,
        at: usize,
        now: Cycle,
        entry: PhysAddr,
        shared: &mut Shared<'_, O>,
    ) {
        let walk = self.walks[at].as_mut().expect("it is in flight");
        walk.next = Next::Read;
        let mut request = Request {
            kind: RequestKind::Walk,
            core: self.core,
            context: walk.wanted.context,
            addr: entry,
            tag: TAG | at as u64,
        };
        walk.due = Cycle::NEVER;
        if self.bypasses_caches {
            self.counters.reads += 1;
            return self.entry_is_read(at, now.after(self.load_cycles), shared);
        }
        if self.through_l1d {
            request.kind = RequestKind::Load;
            if shared.memory.load(now, self.core, entry) {
                self.counters.reads += 1;
                return self.entry_is_read(at, now.after(self.load_cycles), shared);
            }
            if let Err(until) = shared.memory.miss(now, request) {
                walk.due = until;
                walk.refused = until == Cycle::NEVER;
                return;
            }
        } else if let Err(until) = shared.memory.walk(now, request) {
            walk.due = until;
            return;
        }
        self.counters.reads += 1;
    }

    /// The read of an entry performs: its value is taken now, and the walk has it at `done`.
    fn entry_is_read<O: Observer>(&mut self, at: usize, done: Cycle, shared: &Shared<'_, O>) {
        let walk = self.walks[at].as_mut().expect("an entry is read for it");
        let tables = walk.tables.as_mut().expect("the entry is one of a table");
        let hart = &shared.harts[walk.wanted.hart];
        walk.next = Next::Step(hart.step_walk(shared.machine, tables));
        walk.due = done;
    }

    /// The read of an entry performs in memory; `tag` is that of its request.
    pub(crate) fn entry_arrives<O: Observer>(
        &mut self,
        tag: u64,
        done: Cycle,
        shared: &Shared<'_, O>,
    ) {
        debug_assert!(self.owns(tag));
        self.entry_is_read((tag & !TAG) as usize, done, shared);
        self.due = self.due.min(done);
    }

    /// A miss register is free: walks that were refused one ask again at `at`.
    pub(crate) fn retry(&mut self, at: Cycle) {
        for walk in self.walks.iter_mut().flatten() {
            if std::mem::take(&mut walk.refused) {
                walk.due = at;
                self.due = self.due.min(at);
            }
        }
    }

    /// Whether a walk of the context in `seat` has begun, so that a read of it may be in flight.
    pub(crate) fn reads_for(&self, seat: usize) -> bool {
        let mut walks = self.walks.iter().flatten();
        walks.any(|walk| walk.wanted.seat == seat)
    }

    /// The walks of a context are forgotten. None has a read in flight.
    pub(crate) fn abandon(&mut self, seat: usize) {
        for walk in &mut self.walks {
            *walk = walk.take().filter(|walk| walk.wanted.seat != seat);
        }
        self.queue.retain(|walk| walk.wanted.seat != seat);
        let walks = self.walks.iter().flatten();
        self.due = walks.map(|walk| walk.due).min().unwrap_or(Cycle::NEVER);
    }

    /// The walk ends.
    fn end(&mut self, at: usize, now: Cycle, found: Option<Page>) -> Ended<P> {
        let walk = self.walks[at].take().expect("it is in flight");
        self.counters.walk_cycles += now.since(walk.since);
        self.counters.failed_walks += u64::from(found.is_none());
        Ended {
            wanted: walk.wanted,
            found,
        }
    }
}
