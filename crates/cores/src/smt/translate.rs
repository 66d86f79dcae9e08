//! Translation as time: look-ups of the translation look-aside buffers, and what waits for walks.
//!
//! Fetch waits for its walk; a load or store waits while others continue; what the hart runs waits when it
//! is the oldest. A walk continues when who wanted it has been squashed. Walks of a context for one page
//! and one kind of access are one.

use loiter_hart::{Access, Hart, access_width};
use loiter_isa::{Class, Inst};
use loiter_observe::Slot;
use loiter_types::{AddressSpace, Cycle, PAGE_BYTES, VirtAddr};
use serde::{Deserialize, Serialize};

use super::context::{Context, Fetch, Oldest, Progress};
use super::core::{Core, CoreState};
use crate::walker::{Ended, Granted, Wanted, flush_of, page};
use crate::{Observer, Shared};

/// What a translation is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum For {
    /// The next instruction.
    Fetch,
    /// Issued loads or stores.
    Issued,
    /// The oldest instruction, which the hart runs.
    Oldest,
    /// A handler.
    Refill,
}

impl Core {
    /// Walks continue, and those who waited for one that ends.
    #[cold]
    pub(super) fn continue_walks<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        self.state.active = true;
        let mut ended = std::mem::take(&mut self.state.ended_walks);
        self.state.walker.advance(now, shared, &mut ended);
        for walk in ended.drain(..) {
            self.end_walk(now, &walk, shared);
        }
        self.state.ended_walks = ended;
    }

    /// A walk has ended: who waited for it continues, also if no page was found; then the access raises
    /// its exception.
    fn end_walk<O: Observer>(&mut self, now: Cycle, walk: &Ended<For>, shared: &mut Shared<'_, O>) {
        let Core { state, contexts } = self;
        let wanted = &walk.wanted;
        let c = wanted.seat;
        let context = &mut contexts[c];
        match wanted.purpose {
            For::Fetch => {
                walk.fill(&mut state.itlb);
                context.end_fetch_walk(wanted);
            }
            For::Refill => {
                walk.fill(match wanted.access {
                    Access::Fetch => &mut state.itlb,
                    _ => &mut state.dtlb,
                });
                context.end_refill_walk(wanted);
            }
            For::Oldest => {
                walk.fill(&mut state.dtlb);
                context.end_oldest_walk(wanted);
            }
            For::Issued => {
                walk.fill(&mut state.dtlb);
                let key = (page(wanted.addr.0), wanted.access);
                context.data_walks.retain(|&walk| walk != key);
                while let Some(n) = contexts[c].waiter(key) {
                    let entry = contexts[c].entry_mut(n);
                    entry.translated = true;
                    entry.progress = Progress::Issued;
                    match wanted.access {
                        Access::Store => contexts[c].issue_store(c, n, state, now, shared),
                        _ => contexts[c].access(c, n, state, now, shared),
                    }
                    if O::PIPELINE {
                        contexts[c].tell_accessed(state, n, now, shared);
                    }
                }
            }
        }
    }
}

impl Context {
    pub(super) fn wanted(
        &self,
        c: usize,
        addr: VirtAddr,
        access: Access,
        purpose: For,
    ) -> Wanted<For> {
        Wanted {
            context: self.id,
            seat: c,
            hart: self.hart_index,
            addr,
            access,
            space: match access {
                Access::Fetch => self.fetch_space,
                _ => self.data_space,
            },
            purpose,
        }
    }

    /// Whether the translation of `addr`, part of the instruction at `pc`, is at hand for fetch. If not,
    /// it waits for a walk, or the instruction traps.
    #[inline]
    pub(super) fn fetch_translated<O: Observer>(
        &mut self,
        c: usize,
        core: &mut CoreState,
        now: Cycle,
        (pc, addr): (u64, VirtAddr),
        shared: &mut Shared<'_, O>,
    ) -> bool {
        if self.fetch_space == AddressSpace::PHYSICAL {
            return true;
        }
        let page = page(addr.0);
        core.modes[self.mode].itlb_accesses += 1;
        if self.fetch_granted.has(page) {
            core.itlb.counters.accesses += 1;
            return true;
        }
        if core.itlb.access(addr, self.fetch_space, false) {
            self.fetch_granted.grant(page);
            return true;
        }
        core.active = true;
        core.modes[self.mode].itlb_misses += 1;
        if core.traps_to_refill {
            self.miss_fetch(core, now, pc, addr);
            return false;
        }
        self.fetch = Fetch::Walk;
        // A walk that a wrong path has begun comes first.
        if !self.fetch_walks {
            self.fetch_walks = true;
            let wanted = self.wanted(c, addr, Access::Fetch, For::Fetch);
            if let Some(ended) = core.walker.begin(now, wanted, shared) {
                self.end_fetch_walk(&ended.wanted);
                return true;
            }
        }
        false
    }

    fn end_fetch_walk(&mut self, wanted: &Wanted<For>) {
        self.fetch_walks = false;
        if wanted.space == self.fetch_space {
            self.fetch_granted.grant(page(wanted.addr.0));
        }
        if self.fetch == Fetch::Walk {
            self.fetch = Fetch::Ready;
        }
    }

    /// Whether the translation of issued load or store `n` is at hand. If not, it waits for a walk.
    #[inline]
    pub(super) fn data_translated<O: Observer>(
        &mut self,
        c: usize,
        n: u64,
        access: Access,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        if self.data_space == AddressSpace::PHYSICAL {
            return true;
        }
        let entry = self.entry(n);
        let addr = VirtAddr(entry.virt);
        let granted = core.traps_to_refill && self.oldest_granted.has(page(addr.0));
        if entry.translated || self.looks_up(core, addr, access) || granted {
            self.entry_mut(n).translated = true;
            return true;
        }
        if core.traps_to_refill {
            self.miss_data(n, core, now);
            return false;
        }
        self.entry_mut(n).progress = Progress::Walking;
        let key = (page(addr.0), access);
        if self.data_walks.contains(&key) {
            return false;
        }
        let wanted = self.wanted(c, addr, access, For::Issued);
        if core.walker.begin(now, wanted, shared).is_some() {
            let entry = self.entry_mut(n);
            entry.translated = true;
            entry.progress = Progress::Issued;
            return true;
        }
        self.data_walks.push(key);
        false
    }

    /// Looks up a translation for data.
    #[inline]
    fn looks_up(&self, core: &mut CoreState, addr: VirtAddr, access: Access) -> bool {
        let stores = access == Access::Store;
        let hit = core.dtlb.access(addr, self.data_space, stores);
        let counters = &mut core.modes[self.mode];
        counters.dtlb_accesses += 1;
        counters.dtlb_misses += u64::from(!hit);
        hit
    }

    /// The oldest load or store that waits for a walk.
    fn waiter(&self, key: (u64, Access)) -> Option<u64> {
        let waiting = match key.1 {
            Access::Store => &self.stores,
            _ => &self.loads,
        };
        waiting.iter().find(|&n| {
            let entry = self.entry(n);
            entry.progress == Progress::Walking && page(entry.virt) == key.0
        })
    }

    /// Whether the translations of the data of the oldest instruction, which the hart runs, are at hand.
    /// If not, it waits for a walk, or is gone and a handler runs.
    pub(super) fn oldest_translated<O: Observer>(
        &mut self,
        c: usize,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let entry = self.entry(self.head);
        let (inst, class) = (entry.inst, entry.class);
        if self.data_space == AddressSpace::PHYSICAL || !class.accesses() {
            return true;
        }
        let translated = entry.translated;
        let bytes = access_width(inst.op).map_or(1, |width| width.bytes());
        let addr = oldest_addr(&inst, &shared.harts[self.hart_index]);
        if translated && !addr.leaves_page(bytes) {
            return true;
        }
        let access = oldest_kind(&inst, class);
        let second = VirtAddr((addr.0 | (PAGE_BYTES - 1)).wrapping_add(1));
        for addr in [Some(addr), addr.leaves_page(bytes).then_some(second)] {
            let Some(addr) = addr else { continue };
            let page = page(addr.0);
            if self.oldest_granted.has(page) {
                continue;
            }
            if self.looks_up(core, addr, access) {
                self.oldest_granted.grant(page);
                continue;
            }
            core.active = true;
            if core.traps_to_refill {
                self.enter_refill(c, core, now, (addr, access), shared);
                return false;
            }
            let wanted = self.wanted(c, addr, access, For::Oldest);
            self.oldest = Oldest::Sent(Slot::DtlbWalk);
            match core.walker.begin(now, wanted, shared) {
                Some(ended) => self.end_oldest_walk(&ended.wanted),
                None => return false,
            }
        }
        true
    }

    fn end_oldest_walk(&mut self, wanted: &Wanted<For>) {
        debug_assert_eq!(self.oldest, Oldest::Sent(Slot::DtlbWalk));
        self.oldest_granted.grant(page(wanted.addr.0));
        self.oldest = Oldest::Idle;
    }

    /// `sfence.vma`: the translations that it names are forgotten.
    #[cold]
    pub(super) fn flush_translations(&mut self, core: &mut CoreState, inst: &Inst, hart: &Hart) {
        let flush = flush_of(inst, hart);
        for tlb in [&mut core.itlb, &mut core.dtlb] {
            tlb.flush(flush);
        }
        self.fetch_granted = Granted::NOTHING;
    }
}

/// Where the data lie of an instruction that `hart` is about to run.
pub(super) fn oldest_addr(inst: &Inst, hart: &Hart) -> VirtAddr {
    VirtAddr(hart.regs[inst.rs1 as usize].wrapping_add(inst.data_offset()))
}

/// As what such an instruction accesses them.
pub(super) fn oldest_kind(inst: &Inst, class: Class) -> Access {
    match (class, inst.op) {
        (Class::Load, _) => Access::Load,
        (_, op) if op.only_reads() => Access::Load,
        _ => Access::Store,
    }
}
