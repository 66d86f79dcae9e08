//! What becomes of cycles: accounts, counters and distributions.

use loiter_observe::{Accounts, Purpose, Slot};
use loiter_types::Cycle;

use super::context::{Context, Fetch, How, Oldest, Progress};
use super::core::{Core, CoreState};
use super::counters::Counted;
use crate::shared::slot_of;

impl Core {
    /// Counts the cycles before `now` in which nothing happened.
    pub(super) fn count_skipped(&mut self, now: Cycle) {
        let cycles = now.since(self.state.counted_to);
        if cycles == 0 {
            return;
        }
        let counters = &mut self.state.counters;
        counters.zero_fetch_cycles += cycles;
        counters.zero_issue_cycles += cycles;
        counters.zero_retire_cycles += cycles;
        for what in [
            Counted::Fetched,
            Counted::Issued,
            Counted::IntegerIssued,
            Counted::Retired,
            Counted::Fetchable,
        ] {
            self.state.histograms.count(what, 0, cycles);
        }
        self.state.count(cycles);
        self.state.counted_to = now.max(self.state.counted_to);
    }

    /// Counts the cycles before `now`, up to which everything is to be counted.
    pub(super) fn count_last(&mut self, now: Cycle) {
        let skipped = self.state.counted_to < now;
        self.count_skipped(now);
        // What ended the run retired in a cycle that the core has not been through.
        if skipped && self.state.retired_now > 0 {
            let retired = std::mem::take(&mut self.state.retired_now);
            self.state.counters.zero_retire_cycles -= 1;
            self.state.histograms.correct(Counted::Retired, retired);
        }
    }

    /// Notes what this cycle, and those until the next in which something happens, are charged to.
    pub(super) fn account(&mut self, now: Cycle) {
        let state = &mut self.state;
        state.count(1);
        state.counted_to = now.after(1);
        let retired = std::mem::take(&mut state.retired_now);
        state.histograms.count(Counted::Retired, retired, 1);
        for c in state.awake {
            let context = &mut self.contexts[c];
            let slot = context.waits_for(now, state);
            // What it has waited for is charged when that ends.
            if context.retired_now || slot != context.slot_now {
                context.settle(now);
                context.slot_now = slot;
                if std::mem::take(&mut context.retired_now) {
                    context.accounts.charge(now.after(1), Slot::Retired);
                }
            }
            if context.is_dormant() {
                context.settle(now);
                state.is_dormant_now(c, context);
            }
        }
        state.counters.zero_retire_cycles += u64::from(retired == 0);
    }
}

impl CoreState {
    /// Counts what stands as it is for so many cycles.
    fn count(&mut self, cycles: u64) {
        let counters = &mut self.counters;
        counters.cycles += cycles;
        counters.front_full_cycles += cycles * u64::from(self.front_full);
        counters.queue_full_cycles += cycles * u64::from(self.queue_full);
        counters.registers_full_cycles += cycles * u64::from(self.registers_full);
        let (integer, fp) = (self.queues.occupancy(0), self.queues.occupancy(1));
        if self.queue_full {
            for (purpose, entries) in self.purposes.iter_mut().zip(self.in_queue) {
                purpose.full_queue_entries += cycles * entries;
            }
        }
        counters.integer_queue_occupancy += cycles * integer;
        counters.fp_queue_occupancy += cycles * fp;
        let histograms = &mut self.histograms;
        histograms.count(Counted::IntegerQueue, integer, cycles);
        histograms.count(Counted::FpQueue, fp, cycles);
        let polling = self.in_queue[Purpose::Polling as usize];
        histograms.count(Counted::PollingQueued, polling, cycles);
    }
}

impl Context {
    /// Its account if it was closed at `now`: with what has been, without what was charged ahead of time.
    pub(super) fn accounts_at(&self, now: Cycle) -> Accounts {
        let mut accounts = self.accounts.clone();
        accounts.charge(now, self.slot_now);
        accounts.refund(now, Slot::Retired);
        accounts
    }

    /// What a cycle in which nothing of this context retired is charged to.
    fn waits_for(&self, now: Cycle, core: &CoreState) -> Slot {
        match self.fetch {
            Fetch::Vacant => return Slot::Vacant,
            Fetch::Asleep(_) if self.is_empty() => return Slot::Waiting,
            _ => {}
        }
        if self.is_empty() {
            return match self.fetch {
                Fetch::Line => Slot::FetchMiss,
                Fetch::Walk => Slot::ItlbWalk,
                Fetch::Handler | Fetch::Refill => self.refill.slot,
                Fetch::Ready if self.fetch_from > now => self.empty,
                _ => Slot::NotSelected,
            };
        }
        let entry = self.entry(self.head);
        if entry.how == How::Handler {
            return self.refill.slot;
        }
        if self.head == self.renamed {
            return if entry.due > now {
                Slot::FrontEnd
            } else {
                Slot::QueueFull
            };
        }
        if let Oldest::Sent(slot) = self.oldest {
            return slot;
        }
        match entry.progress {
            Progress::Queued if core.queues.is_ready(entry.slot) => Slot::UnitBusy,
            Progress::Queued => Slot::Dependence,
            Progress::Walking => Slot::DtlbWalk,
            Progress::Missing(level) => slot_of(level),
            Progress::Issued if entry.class == loiter_isa::Class::Load => Slot::LoadHit,
            Progress::Done if entry.due <= now && !self.buffer.is_empty() => Slot::StoreBuffer,
            _ => Slot::Executing,
        }
    }
}
