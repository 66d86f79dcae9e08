//! Misses of translation look-aside buffers that a handler serves (`walker.kind = "trap"`).
//!
//! The access that missed waits until it is the oldest, so that no wrong path traps. Then it and all that
//! is younger is squashed, and its context runs the handler. Of that the walker takes the time: the fixed
//! part of a walk, and its reads of page tables. Its instructions occupy entries of the pipeline from fetch
//! to retirement: they do nothing, are no instructions of the hart, and always find their line in the
//! instruction cache. Fetch continues where it was once both are through.

use loiter_hart::Access;
use loiter_isa::{Class, Inst, decode};
use loiter_observe::Slot;
use loiter_types::{Cycle, VirtAddr};
use serde::{Deserialize, Serialize};

use super::context::{Context, Fetch, How, Progress};
use super::core::CoreState;
use super::registers::NONE;
use super::squash;
use super::translate::For;
use crate::walker::{Wanted, page};
use crate::{Observer, Shared};

/// The handler that a context runs, or ran last.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Refill {
    /// Its instructions that have not been fetched.
    left: u64,
    /// What its walk is for; none when that has ended, or nobody waits for it any more.
    wanted: Option<(u64, Access)>,
    /// What its cycles are charged to.
    pub(super) slot: Slot,
}

impl Refill {
    /// Whether nothing is missed, and no handler runs.
    pub(super) fn is_nothing(&self) -> bool {
        self.left == 0 && self.wanted.is_none()
    }

    pub(super) const NONE: Refill = Refill {
        left: 0,
        wanted: None,
        slot: Slot::DtlbWalk,
    };
}

/// An instruction of the handler: it writes nothing.
pub(super) fn handler_instruction() -> Inst {
    // addi x0, x0, 0
    decode(0x13)
}

impl Context {
    /// Fetch has missed the translation of `addr`, part of the instruction at `pc`: that traps when it is
    /// the oldest.
    #[cold]
    pub(super) fn miss_fetch(&mut self, core: &mut CoreState, now: Cycle, pc: u64, addr: VirtAddr) {
        let nothing = core.nothing;
        let n = self.tail;
        self.push(core, now, pc, &nothing, How::FetchRefill, None, pc);
        self.entry_mut(n).virt = addr.0;
        self.fetch = Fetch::Blocked;
    }

    /// Load or store `n` has missed its translation: it traps when it is the oldest.
    #[cold]
    pub(super) fn miss_data(&mut self, n: u64, core: &CoreState, now: Cycle) {
        let executed = now.after(core.params.core.register_read_cycles + 1);
        let entry = self.entry_mut(n);
        entry.how = How::Refill;
        entry.progress = Progress::Done;
        entry.due = executed;
        entry.bytes = 0;
    }

    /// The oldest instruction enters the handler for the translation that it has missed.
    #[cold]
    pub(super) fn enter_refill<O: Observer>(
        &mut self,
        c: usize,
        core: &mut CoreState,
        now: Cycle,
        (addr, access): (VirtAddr, Access),
        shared: &mut Shared<'_, O>,
    ) {
        let pc = self.entry(self.head).pc;
        let slot = match access {
            Access::Fetch => Slot::ItlbWalk,
            _ => Slot::DtlbWalk,
        };
        squash::from_and_recover(self, core, c, self.head);
        core.modes[self.mode].translation_traps += 1;
        core.active = true;
        self.fetch_at(pc, now.after(core.params.latency.trap_cycles), slot);
        self.refill = Refill {
            left: core.params.refill.handler_instructions,
            wanted: Some((page(addr.0), access)),
            slot,
        };
        self.fetch = self.stops_for();
        let wanted = self.wanted(c, addr, access, For::Refill);
        if let Some(ended) = core.walker.begin(now, wanted, shared) {
            ended.fill(match access {
                Access::Fetch => &mut core.itlb,
                _ => &mut core.dtlb,
            });
            self.end_refill_walk(&ended.wanted);
        }
    }

    /// The access of the oldest instruction that has missed its translation.
    pub(super) fn missed(&self) -> (VirtAddr, Access) {
        let entry = self.entry(self.head);
        let access = match (entry.how, entry.class) {
            (How::FetchRefill, _) => Access::Fetch,
            (_, Class::Store) => Access::Store,
            _ => Access::Load,
        };
        (VirtAddr(entry.virt), access)
    }

    /// A walk for a handler has ended. The access that missed finds its translation from now on, whatever
    /// other contexts evict until it retires.
    pub(super) fn end_refill_walk(&mut self, wanted: &Wanted<For>) {
        let key = (page(wanted.addr.0), wanted.access);
        if self.refill.wanted != Some(key) {
            return;
        }
        self.refill.wanted = None;
        let fetches = wanted.access == Access::Fetch;
        if fetches && wanted.space == self.fetch_space {
            self.fetch_granted.grant(key.0);
        } else if !fetches && wanted.space == self.data_space {
            self.oldest_granted.grant(key.0);
        }
        if matches!(self.fetch, Fetch::Handler | Fetch::Refill) {
            self.fetch = self.stops_for();
        }
    }

    /// What fetch does while the handler runs, or is through.
    fn stops_for(&self) -> Fetch {
        match self.refill {
            Refill { left: 1.., .. } => Fetch::Handler,
            Refill {
                wanted: Some(_), ..
            } => Fetch::Refill,
            _ => Fetch::Ready,
        }
    }

    /// Nobody waits for the handler any more: fetch goes somewhere else.
    #[inline(always)]
    pub(super) fn leave_refill(&mut self) {
        self.refill.wanted = None;
    }

    /// Fetches at most `most` instructions of the handler. Returns how many it fetched.
    #[cold]
    pub(super) fn fetch_handler(&mut self, core: &mut CoreState, now: Cycle, most: u64) -> u64 {
        let room = self.capacity - (self.tail - self.head);
        let count = self.refill.left.min(most).min(room);
        let nop = core.handler_instruction;
        for _ in 0..count {
            self.push(core, now, self.fetch_pc, &nop, How::Handler, None, 0);
        }
        self.refill.left -= count;
        self.fetch = self.stops_for();
        count
    }

    /// The oldest instruction is one of the handler, and is through.
    pub(super) fn retire_handler(&mut self, core: &mut CoreState) {
        debug_assert_eq!(self.entry(self.head).destination, NONE);
        core.modes[self.mode].handler_instructions += 1;
        self.head += 1;
    }
}
