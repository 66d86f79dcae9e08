//! Translation as time: look-ups of the translation look-aside buffers, and page walks.
//!
//! What an address means, and what it raises, is decided by [`loiter_hart::Hart`] when the access
//! performs. Here is only how long it takes until then: a walk reads the entries of the page tables one
//! after the other, each when its access performs, because where the next lies stands in the one before.

use std::collections::VecDeque;

use loiter_hart::{Access, Hart, Page, PageWalk, WalkStep};
use loiter_memory::{Flush, Request, RequestKind, Translation, WalkerCounters, WalkerParams};
use loiter_observe::Slot;
use loiter_types::{Cycle, PAGE_BYTES, PhysAddr, VirtAddr};

use super::context::{Context, Waits};
use super::core::{Core, CoreState};
use crate::{Observer, Shared};

/// No page: larger than the number of any page.
pub(super) const NO_PAGE: u64 = u64::MAX;

/// Number of the smallest page that holds `addr`.
#[inline(always)]
pub(super) fn page(addr: u64) -> u64 {
    addr / PAGE_BYTES
}

/// Pages whose translation is at hand for one instruction, whatever becomes of the buffers' entries
/// until it issues: an instruction and its data lie in two pages each at most. So contexts that push
/// each other's translations out get on all the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    pages: [u64; 2],
}

impl Granted {
    pub(super) const NOTHING: Granted = Granted {
        pages: [NO_PAGE; 2],
    };

    #[inline(always)]
    fn has(&self, page: u64) -> bool {
        self.pages.contains(&page)
    }

    #[inline(always)]
    fn grant(&mut self, page: u64) {
        self.pages = [page, self.pages[0]];
    }
}

/// What a walk does when it is due.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// It reads an entry.
    Read,
    /// It has the answer to its last read.
    Answer(WalkStep),
}

/// A walk of a context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    addr: VirtAddr,
    access: Access,
    /// Where it stands; `None` when no table can hold the address.
    tables: Option<PageWalk>,
    /// When it began, or began to wait for its turn.
    since: Cycle,
    next: Next,
    /// When it goes on, as far as is known.
    due: Cycle,
}

/// What walks page tables for the contexts of a core.
#[derive(Debug)]
pub(super) struct Walker {
    params: WalkerParams,
    through_l1d: bool,
    /// Walks under way.
    walks: u64,
    /// Contexts whose walk waits for its turn, in order.
    queue: VecDeque<usize>,
    /// The first cycle in which a walk goes on, as far as is known.
    pub(super) due: Cycle,
    pub(super) counters: WalkerCounters,
}

impl Walker {
    pub(super) fn new(params: &WalkerParams) -> Self {
        Self {
            params: params.clone(),
            through_l1d: params.reads == "l1d",
            walks: 0,
            queue: VecDeque::new(),
            due: Cycle::NEVER,
            counters: WalkerCounters::default(),
        }
    }

    /// A walk that wants to begin takes its turn, if it can.
    fn begin(&mut self, walk: &mut Walk, now: Cycle) -> bool {
        if self.walks == self.params.walks {
            return false;
        }
        self.walks += 1;
        self.counters.walks += 1;
        self.counters.wait_cycles += now.since(walk.since);
        walk.since = now;
        walk.due = now.after(self.params.fixed_cycles);
        true
    }
}

impl Core {
    /// Walks that are due go on, and those whose turn has come begin. Walks need no pipe: they go on
    /// whoever is selected.
    #[cold]
    pub(super) fn go_on_walking<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        for c in 0..self.contexts.len() {
            self.contexts[c].go_on_walking(&mut self.state, now, shared);
            self.reschedule(c);
        }
        while self.state.walker.walks < self.state.walker.params.walks {
            let Some(c) = self.state.walker.queue.pop_front() else {
                break;
            };
            self.contexts[c].turn_to_walk(&mut self.state, now, shared);
            self.reschedule(c);
        }
        let walks = self.contexts.iter().filter_map(|context| context.walk);
        self.state.walker.due = walks.map(|walk| walk.due).min().unwrap_or(Cycle::NEVER);
    }
}

impl Context {
    /// Whether the translation of `addr` is at hand for the instruction that is being fetched. If not,
    /// a walk has begun and the context waits.
    #[inline(never)]
    pub(super) fn fetch_translated<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        addr: VirtAddr,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let page = page(addr.0);
        let at_hand = self.fetch_granted.has(page)
            || core.itlb.access(addr, self.fetch_space, false)
            || self.walk_at_once(core, now, addr, Access::Fetch, shared);
        if at_hand {
            self.fetch_page = page;
        }
        at_hand
    }

    /// Whether the translation of all `bytes` bytes of data from `addr` on is at hand. If not, a walk
    /// has begun and the context waits.
    #[inline]
    pub(super) fn data_translated<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        addr: VirtAddr,
        bytes: u64,
        access: Access,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        if !self.page_translated(core, now, addr, access, shared) {
            return false;
        }
        let second = VirtAddr((addr.0 | (PAGE_BYTES - 1)).wrapping_add(1));
        !addr.leaves_page(bytes) || self.page_translated(core, now, second, access, shared)
    }

    #[inline]
    fn page_translated<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        addr: VirtAddr,
        access: Access,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let page = page(addr.0);
        if self.data_granted.has(page) {
            return true;
        }
        let stores = access == Access::Store;
        if core.dtlb.access(addr, self.data_space, stores) {
            self.data_granted.grant(page);
            return true;
        }
        self.walk_at_once(core, now, addr, access, shared)
    }

    /// Begins a walk, or gets into line for one, and waits. Answers whether it has ended already.
    #[cold]
    fn walk_at_once<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        addr: VirtAddr,
        access: Access,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let hart = &shared.harts[self.hart_index];
        let slot = match access {
            Access::Fetch => Slot::ItlbWalk,
            _ => Slot::DtlbWalk,
        };
        self.block(now, Waits::Walk, slot);
        self.walk = Some(Walk {
            addr,
            access,
            tables: hart.begin_walk(addr, access).ok(),
            since: now,
            next: Next::Read,
            due: Cycle::NEVER,
        });
        self.turn_to_walk(core, now, shared);
        self.walk.is_none()
    }

    /// The walk of this context begins, or gets into line if there are too many.
    fn turn_to_walk<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let Some(walk) = &mut self.walk else {
            unreachable!("whose turn it is wants to walk");
        };
        if core.walker.begin(walk, now) {
            self.go_on_walking(core, now, shared);
        } else {
            core.walker.queue.push_back(self.seat);
        }
    }

    /// The walk of this context, if there is one and it is due, goes on.
    fn go_on_walking<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        while let Some(walk) = self.walk
            && walk.due <= now
        {
            match walk.next {
                Next::Read | Next::Answer(WalkStep::Table) => {
                    let hart = &shared.harts[self.hart_index];
                    let next = |tables| hart.next_entry(shared.machine, &tables).ok();
                    match walk.tables.and_then(next) {
                        Some(entry) => self.read_entry(core, now, entry, shared),
                        None => self.end_walk(core, now, walk, None),
                    }
                }
                Next::Answer(WalkStep::Page(page)) => self.end_walk(core, now, walk, Some(page)),
                Next::Answer(WalkStep::Fault(_)) => self.end_walk(core, now, walk, None),
            }
        }
        if let Some(walk) = self.walk {
            core.walker.due = core.walker.due.min(walk.due);
        }
    }

    /// The walk reads an entry of a page table.
    fn read_entry<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        entry: PhysAddr,
        shared: &mut Shared<'_, O>,
    ) {
        core.walker.counters.reads += 1;
        let mut kind = RequestKind::Walk;
        if core.walker.through_l1d {
            kind = RequestKind::Load;
            if shared.memory.load(core.id, entry) {
                let done = now.after(core.params.latency.load_cycles);
                return self.entry_is_read(done, shared);
            }
        }
        if let Some(walk) = &mut self.walk {
            walk.due = Cycle::NEVER;
        }
        let request = Request {
            kind,
            core: core.id,
            context: self.id,
            addr: entry,
            tag: 0,
        };
        shared.memory.send(now, request);
    }

    /// The read of an entry performs: its value is taken now, and the walk has it at `done`.
    fn entry_is_read<O: Observer>(&mut self, done: Cycle, shared: &Shared<'_, O>) {
        let hart = &shared.harts[self.hart_index];
        let Some(walk) = &mut self.walk else {
            unreachable!("an entry is read for a walk");
        };
        let Some(tables) = &mut walk.tables else {
            unreachable!("an entry is read of a table");
        };
        walk.next = Next::Answer(hart.step_walk(shared.machine, tables));
        walk.due = done;
    }

    /// The read of an entry performs in memory.
    pub(super) fn entry_arrives<O: Observer>(
        &mut self,
        core: &mut CoreState,
        done: Cycle,
        shared: &Shared<'_, O>,
    ) {
        debug_assert_eq!(self.waits, Waits::Walk);
        self.entry_is_read(done, shared);
        core.walker.due = core.walker.due.min(done);
    }

    /// The walk ends now. Its page is at hand for the instruction, also if it was not found: then the
    /// access raises its exception.
    fn end_walk(&mut self, core: &mut CoreState, now: Cycle, walk: Walk, found: Option<Page>) {
        let (tlb, granted, space) = match walk.access {
            Access::Fetch => (&mut core.itlb, &mut self.fetch_granted, self.fetch_space),
            _ => (&mut core.dtlb, &mut self.data_granted, self.data_space),
        };
        granted.grant(page(walk.addr.0));
        let walker = &mut core.walker;
        walker.walks -= 1;
        walker.counters.walk_cycles += now.since(walk.since);
        match found {
            Some(page) => tlb.fill(Translation {
                addr: walk.addr,
                size_log2: page.size_log2,
                space,
                global: page.global,
                clean: page.clean,
            }),
            None => walker.counters.failed_walks += 1,
        }
        self.walk = None;
        self.unblock(now);
    }

    /// `sfence.vma`: the translations that it names are forgotten.
    #[cold]
    pub(super) fn flush_translations(&mut self, core: &mut CoreState, hart: &Hart) {
        let value = |slot: u8| (slot != 0).then(|| hart.regs[slot as usize]);
        let flush = Flush {
            addr: value(self.inst.rs1).map(VirtAddr),
            asid: value(self.inst.rs2).map(|asid| asid as u16),
        };
        for tlb in [&mut core.itlb, &mut core.dtlb] {
            tlb.flush(flush);
        }
        self.fetch_page = NO_PAGE;
    }
}
