//! Lines that return for loads, where they wait for their turn in the first level (`core.fill_waits_for`). In OpenSPARC T1,
//! lsu_qctl2.v:1213, `dcfill_active_e = dfq_ld_vld & ~memref_e`; in OpenSPARC T2, lsu_cic_ctl.v, `dcfill_active_e =
//! cpq_ld_vld & ~ld_inst_e`, and what has waited too long there stops loads and stores in decode (`cic_cpq_stall`).

use std::collections::VecDeque;

use loiter_isa::Class;
use loiter_types::{Cycle, StateVisitor};
use serde::{Deserialize, Serialize};

use super::context::Waits;
use super::core::Core;
use super::params::CoreParams;

/// From selection to the execute stage, whose load or store keeps the first level.
const TO_EXECUTE: u64 = 2;
/// From a fill to the next slot of the context that waits for it: it is ready in the next cycle and
/// runs in the one after (lsu_dctl.v:2841, sparc_ifu_thrcmpl.v:139).
const TO_SLOT: u64 = 2;

/// A line that has returned.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Fill {
    /// The first cycle in which it can fill.
    from: Cycle,
    seat: usize,
    /// Whether the load is of a floating-point register.
    fp: bool,
}

/// The lines that have returned to a core, in order.
#[derive(Debug, Deserialize, Serialize)]
#[repr(C)]
pub(super) struct Fills {
    /// When the first of them tries next.
    pub(super) due: Cycle,
    /// `core.fill_urgent_cycles`.
    urgent_cycles: u64,
    /// Since when the first of them tries.
    tries_since: Cycle,
    waiting: VecDeque<Fill>,
    /// What they wait for that was selected last: cycle n is in place n modulo its length if something was.
    memory_slots: [u64; 4],
    /// Whether they wait at all, and whether for stores too.
    waits: bool,
    waits_for_stores: bool,
    /// The cycle of the last fill, if loads and stores had to make room for it.
    urgent_until: Option<Cycle>,
}

impl Fills {
    pub(super) fn new(params: &CoreParams) -> Self {
        Self {
            waiting: VecDeque::new(),
            due: Cycle::NEVER,
            memory_slots: [u64::MAX; 4],
            waits: params.fill_waits_for != "nothing",
            waits_for_stores: params.fill_waits_for == "loads_and_stores",
            urgent_cycles: params.fill_urgent_cycles,
            tries_since: Cycle::NEVER,
            urgent_until: None,
        }
    }

    /// Shows `visitor` what there is while no line waits.
    pub(super) fn shows_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            waiting,
            due,
            memory_slots,
            waits: _,
            waits_for_stores: _,
            urgent_cycles: _,
            // Of lines that wait.
            tries_since: _,
            urgent_until,
        } = self;
        visitor.require(waiting.is_empty() && *due == Cycle::NEVER);
        // Those of the last cycles follow from what contexts did in the last period; a slot stands where its cycle says.
        let cycles = visitor.moves();
        memory_slots.rotate_right(cycles as usize % 4);
        for slot in memory_slots.iter_mut().filter(|slot| **slot != u64::MAX) {
            *slot += cycles;
        }
        if let Some(until) = urgent_until {
            visitor.cycle(until);
        }
    }

    /// Whether lines wait for a turn.
    pub(super) fn wait(&self) -> bool {
        self.waits
    }

    /// A load, store or atomic has the slot of this cycle.
    #[inline(always)]
    pub(super) fn memory_slot(&mut self, class: Class, now: Cycle) {
        if class != Class::Store || self.waits_for_stores {
            self.memory_slots[now.0 as usize % 4] = now.0;
        }
    }

    /// Whether loads and stores make room in this cycle, as a line has tried for too long.
    pub(super) fn urgent(&self, now: Cycle) -> bool {
        if self.urgent_cycles == 0 {
            return false;
        }
        let tries = !self.waiting.is_empty() && self.tries_since.after(self.urgent_cycles) <= now;
        tries || self.urgent_until == Some(now)
    }

    /// The line for a load of the context in `seat` has returned, so that without others it could go
    /// on at `done`.
    pub(super) fn returns(&mut self, seat: usize, fp: bool, now: Cycle, done: Cycle) {
        let from = Cycle(done.0.saturating_sub(TO_SLOT)).max(now.after(1));
        if self.waiting.is_empty() {
            self.tries_since = from;
        }
        self.waiting.push_back(Fill { from, seat, fp });
        self.due = self.due.min(from);
    }

    /// The context in `seat` waits for nothing any more.
    pub(super) fn abandon(&mut self, seat: usize) {
        self.waiting.retain(|fill| fill.seat != seat);
        self.next();
        self.tries_since = self.due;
    }

    fn next(&mut self) {
        let first = self.waiting.front();
        self.due = first.map_or(Cycle::NEVER, |fill| fill.from);
    }

    /// The first line fills now, or tries again in the next cycle if what it waits for is in the execute stage.
    fn try_fill(&mut self, now: Cycle) -> Option<Fill> {
        let slot = now.0.wrapping_sub(TO_EXECUTE);
        if self.memory_slots[slot as usize % 4] == slot {
            self.due = now.after(1);
            return None;
        }
        self.urgent_until = self.urgent(now).then_some(now);
        let fill = self.waiting.pop_front();
        self.next();
        self.due = self.due.max(now.after(1));
        self.tries_since = self.due;
        fill
    }
}

impl Core {
    /// A returned line tries to fill.
    #[cold]
    pub(super) fn fill(&mut self, now: Cycle) {
        let fill = self.state.fills.try_fill(now);
        // As long as a line tries, loads and stores may have to make room.
        self.state.holds_at = self.state.holds_at.min(now);
        let Some(Fill { seat, fp, .. }) = fill else {
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
