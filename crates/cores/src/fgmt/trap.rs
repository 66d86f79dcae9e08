//! What ends a context's course at an instruction: a nap, or a trap.

use loiter_hart::{Nap, Trap};
use loiter_observe::{Doing, Slot};
use loiter_types::Cycle;

use super::context::Context;
use super::core::CoreState;
use crate::walker::Granted;
use crate::{Observer, PipelineStep, Shared};

impl Context {
    /// Puts the hart of this context to sleep, unless what it would wait for has already happened.
    pub(super) fn nap<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        nap: Nap,
        shared: &mut Shared<'_, O>,
    ) {
        let hart = &shared.harts[self.hart_index()];
        if hart.nap_is_over(nap, &shared.machine.watches) {
            self.check_interrupts = true;
            self.ready_at = now.after(1);
            return;
        }
        shared.naps(self.hart_index(), nap);
        self.fall_asleep(core, now, now.after(1), nap, shared);
    }

    /// Puts the hart of this context to sleep by an instruction of cycle `now`, which is charged up to
    /// `from`.
    pub(super) fn fall_asleep<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        from: Cycle,
        nap: Nap,
        shared: &Shared<'_, O>,
    ) {
        let hart = &shared.harts[self.hart_index()];
        core.naps.begun(nap);
        let sleep = core.params.wait.fall_asleep(nap, now, hart);
        self.sleep(from, sleep, core, hart);
    }

    /// Enters a trap.
    #[cold]
    pub(super) fn trap<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        trap: Trap,
        shared: &mut Shared<'_, O>,
    ) {
        core.changes += 1;
        core.quiet = false;
        core.counters.traps += 1;
        self.course.traps(matches!(trap, Trap::Interrupt(_)));
        shared.enter_trap(self.hart_index(), trap, now);
        if O::PIPELINE {
            // Its last cycle is the one in which it raises the trap.
            let when = (now, now.after(1));
            self.tell(core, when, PipelineStep::Squashed, shared);
        }
        self.refetch();
        self.fetch_granted = Granted::NOTHING;
        self.data_granted = Granted::NOTHING;
        self.check_interrupts = true;
        self.stall(
            now,
            now.after(core.params.latency.trap_cycles),
            Slot::TrapEntry,
        );
        self.reconsider(now, &shared.harts[self.hart_index()], Doing::Executing);
    }
}
