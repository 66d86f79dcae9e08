//! Lines that return for loads, where they wait for their turn in the first level
//! (`core.fill_waits`), as in OpenSPARC T1, lsu_qctl2.v:1213: `dcfill_active_e = dfq_ld_vld & ~memref_e`.

use std::collections::VecDeque;

use loiter_types::Cycle;

use super::context::Waits;
use super::core::Core;

/// From selection to the execute stage, whose load or store keeps the first level.
const TO_EXECUTE: u64 = 2;
/// From a fill to the next slot of the context that waits for it: it is ready in the next cycle and
/// runs in the one after (lsu_dctl.v:2841, sparc_ifu_thrcmpl.v:139).
const TO_SLOT: u64 = 2;

/// A line that has returned.
#[derive(Clone, Copy, Debug)]
struct Fill {
    /// The first cycle in which it can fill.
    from: Cycle,
    seat: usize,
    /// Whether the load is of a floating-point register.
    fp: bool,
}

/// The lines that have returned to a core, in order.
#[derive(Debug)]
pub(super) struct Fills {
    waiting: VecDeque<Fill>,
    /// When the first of them tries next.
    pub(super) due: Cycle,
    /// The last loads and stores: cycle n is in place n modulo its length if there was one.
    memory_slots: [u64; 4],
}

impl Default for Fills {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            due: Cycle::NEVER,
            memory_slots: [u64::MAX; 4],
        }
    }
}

impl Fills {
    /// A load, store or atomic has the slot of this cycle.
    #[inline(always)]
    pub(super) fn memory_slot(&mut self, now: Cycle) {
        self.memory_slots[now.0 as usize % 4] = now.0;
    }

    /// The line for a load of the context in `seat` has returned, so that without others it could go
    /// on at `done`.
    pub(super) fn returns(&mut self, seat: usize, fp: bool, now: Cycle, done: Cycle) {
        let from = Cycle(done.0.saturating_sub(TO_SLOT)).max(now.after(1));
        self.waiting.push_back(Fill { from, seat, fp });
        self.due = self.due.min(from);
    }

    /// The context in `seat` waits for nothing any more.
    pub(super) fn abandon(&mut self, seat: usize) {
        self.waiting.retain(|fill| fill.seat != seat);
        self.next();
    }

    fn next(&mut self) {
        let first = self.waiting.front();
        self.due = first.map_or(Cycle::NEVER, |fill| fill.from);
    }

    /// The first line fills now, or in the next cycle if there is a load or store in the execute stage.
    fn try_fill(&mut self, now: Cycle) -> Option<Fill> {
        let slot = now.0.wrapping_sub(TO_EXECUTE);
        if self.memory_slots[slot as usize % 4] == slot {
            self.due = now.after(1);
            return None;
        }
        let fill = self.waiting.pop_front();
        self.next();
        self.due = self.due.max(now.after(1));
        fill
    }
}

impl Core {
    /// A returned line tries to fill.
    #[cold]
    pub(super) fn fill(&mut self, now: Cycle) {
        let Some(Fill { seat, fp, .. }) = self.state.fills.try_fill(now) else {
            self.state.counters.fill_waits += 1;
            return;
        };
        let context = &mut self.contexts[seat];
        debug_assert_eq!(context.waits, Waits::Fill);
        let mut ready = now.after(TO_SLOT);
        if fp {
            ready = ready.after(self.state.params.latency.fp_load_miss_extra_cycles);
        }
        context.unblock(ready);
        if self.state.units.fp_waits_for(seat) {
            self.fp_data_arrive(seat, ready);
        }
        self.reschedule(seat);
    }
}
