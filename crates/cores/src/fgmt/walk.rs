//! Translation as time: what a context does while its addresses are looked up and walked for.

use loiter_hart::{Access, Hart};
use loiter_observe::Slot;
use loiter_types::{Cycle, PAGE_BYTES, VirtAddr};

use super::context::{Context, Waits};
use super::core::{Core, CoreState};
use crate::walker::{Ended, NO_PAGE, Wanted, flush_of, page};
use crate::{Observer, Shared};

impl Core {
    /// Walks that are due continue, and those whose turn has come begin. Walks need no pipe: they continue
    /// whoever is selected.
    #[cold]
    pub(super) fn continue_walks<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        let mut ended = std::mem::take(&mut self.state.ended_walks);
        self.state.walker.advance(now, shared, &mut ended);
        for walk in ended.drain(..) {
            let c = walk.wanted.seat;
            self.contexts[c].end_walk(&mut self.state, now, walk);
            self.reschedule(c);
        }
        self.state.ended_walks = ended;
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

    /// Begins a walk, or gets into line for one, and waits. Returns whether it has ended already.
    #[cold]
    fn walk_at_once<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        addr: VirtAddr,
        access: Access,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let (slot, space) = match access {
            Access::Fetch => (Slot::ItlbWalk, self.fetch_space),
            _ => (Slot::DtlbWalk, self.data_space),
        };
        self.block(now, Waits::Walk, slot);
        core.quiet = false;
        let wanted = Wanted {
            context: self.id,
            seat: self.seat,
            hart: self.hart_index(),
            addr,
            access,
            space,
            purpose: (),
        };
        let ended = core.walker.begin(now, wanted, shared);
        core.note_due();
        match ended {
            Some(ended) => {
                self.end_walk(core, now, ended);
                true
            }
            None => false,
        }
    }

    /// The walk ends now. Its page is at hand for the instruction, also if it was not found: then the
    /// access raises its exception.
    fn end_walk(&mut self, core: &mut CoreState, now: Cycle, ended: Ended<()>) {
        debug_assert_eq!(self.waits, Waits::Walk);
        let (tlb, granted) = match ended.wanted.access {
            Access::Fetch => (&mut core.itlb, &mut self.fetch_granted),
            _ => (&mut core.dtlb, &mut self.data_granted),
        };
        granted.grant(page(ended.wanted.addr.0));
        ended.fill(tlb);
        self.unblock(now);
    }

    /// `sfence.vma`: the translations that it names are forgotten.
    #[cold]
    pub(super) fn flush_translations(&mut self, core: &mut CoreState, hart: &Hart) {
        let flush = flush_of(&self.inst, hart);
        for tlb in [&mut core.itlb, &mut core.dtlb] {
            tlb.flush(flush);
        }
        self.fetch_page = NO_PAGE;
    }
}
