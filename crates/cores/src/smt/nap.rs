//! Naps: who sleeps, what its shares are for meanwhile, and how it continues.

use loiter_hart::{Hart, Nap};
use loiter_observe::{Doing, Slot};
use loiter_types::Cycle;

use super::context::{Context, Fetch};
use super::core::CoreState;
use super::policy::Shares;
use crate::idle::{EVERYTHING, Loses};
use crate::shared::doing;
use crate::wait::{Sleep, Wakes};
use crate::walker::Granted;
use crate::{Observer, Shared};

impl CoreState {
    /// An event of cycle `event` wakes context `c`. Returns the first cycle in which the core is up.
    pub(super) fn wakes(&mut self, c: usize, event: Cycle) -> Cycle {
        self.changes += 1;
        let up = self.idle.wakes(c, event);
        self.loses(up.lost);
        if up.lost.predictors {
            (0..self.params.contexts as usize).for_each(|c| self.predictors.forget_course(c));
        }
        up.at
    }

    /// What the core has lost beside its caches.
    pub(super) fn loses(&mut self, lost: Loses) {
        if lost.translations {
            self.itlb.flush(EVERYTHING);
            self.dtlb.flush(EVERYTHING);
        }
        if lost.predictors {
            let (branch, btb) = (&self.params.branch, &self.params.btb);
            self.predictors.forget_tables(branch, btb);
        }
    }

    /// Queues and registers are shared by all contexts but so many.
    fn share_out(&mut self, without: u64) {
        self.without_share = without;
        self.shares = Shares::new(&self.params, self.params.contexts - without);
    }

    /// The hart of a context is about to leave this nap, or its context.
    pub(super) fn gets_up(&mut self, sleep: &Sleep) {
        if self.params.wait.frees_shares(sleep.nap) {
            self.share_out(self.without_share - 1);
        }
    }
}

impl Context {
    /// Its number within its core.
    fn seat(&self, core: &CoreState) -> usize {
        self.id.index() % core.params.contexts as usize
    }

    /// A nap has been asked for: it begins, unless what would end it has happened.
    pub(super) fn nap<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        nap: Nap,
        shared: &mut Shared<'_, O>,
    ) {
        let hart = &shared.harts[self.hart_index];
        if hart.nap_is_over(nap, &shared.machine.watches) {
            self.check_interrupts = true;
            return;
        }
        shared.naps(self.hart_index, nap);
        self.fall_asleep(core, now, nap, shared);
    }

    /// Begins a nap.
    pub(super) fn fall_asleep<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        nap: Nap,
        shared: &Shared<'_, O>,
    ) {
        let hart = &shared.harts[self.hart_index];
        core.naps.begun(nap);
        let sleep = core.params.wait.fall_asleep(nap, now, hart);
        self.sleep(now, sleep, core, hart);
    }

    /// Sleeps from `now` until something ends the nap.
    pub(super) fn sleep(&mut self, now: Cycle, sleep: Sleep, core: &mut CoreState, hart: &Hart) {
        core.changes += 1;
        self.reconsider(now, hart, doing(sleep.nap));
        self.fetch = Fetch::Asleep(sleep);
        let seat = self.seat(core);
        core.idle
            .sleeps(seat, sleep.nap, sleep.entered, sleep.limit);
        if core.idle.may_lose_translations() {
            self.fetch_granted = Granted::NOTHING;
            self.oldest_granted = Granted::NOTHING;
        }
        self.nap_until = sleep.limit;
        if core.params.wait.frees_shares(sleep.nap) {
            core.share_out(core.without_share + 1);
        }
    }

    /// What ends the nap has happened.
    pub(super) fn wake_up<O: Observer>(
        &mut self,
        sleep: Sleep,
        by: Wakes,
        now: Cycle,
        core: &mut CoreState,
        shared: &Shared<'_, O>,
    ) {
        let hart = &shared.harts[self.hart_index];
        core.naps.ended(by);
        let up = core.wakes(self.seat(core), now);
        self.awake_from = core.params.wait.continues(&sleep, now).max(up);
        core.gets_up(&sleep);
        self.nap_until = Cycle::NEVER;
        self.fetch_at(hart.pc, self.awake_from, Slot::Waiting);
        self.reconsider(now, hart, Doing::Executing);
        self.check_interrupts = true;
        core.active = true;
    }
}
