//! Memory responds, and naps end.

use loiter_isa::Class;
use loiter_memory::{Level, Request, RequestKind, Response, Told};
use loiter_observe::Slot;
use loiter_types::Cycle;

use super::context::{Context, Waits};
use super::core::{Core, CoreState};
use super::ownership::OF_STORE;
use crate::model::TimedCore;
use crate::shared::{is_lock, slot_of};
use crate::wait::{Sleep, Wakes};
use crate::{Observer, PipelineStep, Shared};

impl Core {
    /// What ends the nap of context `c` has happened, unless its time was over before.
    pub(super) fn wake(&mut self, c: usize, sleep: Sleep, by: Wakes, now: Cycle) {
        if sleep.limit <= now {
            return;
        }
        let up = self.state.wakes(c, now);
        let continues = self.state.params.wait.continues(&sleep, now);
        self.contexts[c].unblock(continues.max(up));
        self.state.naps.ended(by);
    }

    /// Hears what memory has said in the cycle in which it has delivered, if all of that is to this core, whose first cycle
    /// in which it has something to do is `next`. Returns which it is now. If others have to hear of that cycle too, it
    /// remains delivered.
    pub(super) fn hear_all<O: Observer>(
        &mut self,
        mut next: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Cycle {
        let is_own =
            |told: &Told| matches!(told, Told::Performs(it) if it.request.core == self.state.id);
        if !shared.told.iter().all(is_own) {
            return next;
        }
        let (now, first) = (shared.told_at, self.contexts[0].id.index());
        let mut all = std::mem::take(shared.told);
        for told in all.drain(..) {
            if let Told::Performs(response) = told {
                let c = response.request.context.index() - first;
                if self.respond(c, response, now, shared) {
                    next = next.min(self.roused(c, now));
                }
            }
        }
        *shared.told = all;
        shared.heard = true;
        shared.delivered = shared.stops();
        next.max(now)
    }
}

impl Context {
    /// Returns whether that may change when it, or its core, is due.
    pub(super) fn respond<O: Observer>(
        &mut self,
        core: &mut CoreState,
        response: Response,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let done = response.done;
        match response.request.kind {
            RequestKind::Fetch => {
                self.fetch_line = core.line_of(response.request.addr);
                self.unblock(done);
            }
            RequestKind::Walk | RequestKind::Load if core.walker.owns(response.request.tag) => {
                core.walker
                    .entry_arrives(response.request.tag, done, shared);
                core.note_due();
            }
            RequestKind::Own if response.request.tag == OF_STORE => {
                self.perform_owned_store(core, now, shared);
            }
            RequestKind::Walk => unreachable!("an entry arrives for a walk"),
            RequestKind::OwnAhead => unreachable!("these cores ask for no line ahead"),
            RequestKind::Fails => {
                shared.machine.watches.disarm(self.seated());
                self.perform(core, response, now, shared);
            }
            RequestKind::Load
            | RequestKind::Own
            | RequestKind::Atomic
            | RequestKind::Reserve
            | RequestKind::Conditional
            | RequestKind::Device => {
                self.perform(core, response, now, shared);
            }
            RequestKind::Store => {
                let store = self.stores.perform();
                let hart = self.seated();
                shared.perform_stores(hart, store.parts(), now);
                return false;
            }
            RequestKind::Acknowledge => {
                self.stores.acknowledge();
                self.send_stores(core, now, shared);
                return self.store_left(now);
            }
        }
        true
    }

    /// A blocking access performs: its instruction runs, and the context continues when the response is
    /// back.
    fn perform<O: Observer>(
        &mut self,
        core: &mut CoreState,
        response: Response,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        debug_assert_eq!(self.waits, Waits::Access);
        if self.moved(shared) {
            // It begins anew, from its translation on.
            self.unblock(response.done);
            if O::PIPELINE {
                self.tell(core, (now, now.after(1)), PipelineStep::Squashed, shared);
            }
            return;
        }
        if response.request.kind == RequestKind::Load
            && self.second_line(core, shared).is_some()
            && let Some(addr) = self.missing_line(core, now, shared)
        {
            // Both lines have to be there in the cycle in which it reads.
            return core.ask(
                now,
                Request {
                    addr,
                    ..response.request
                },
                shared,
            );
        }
        let device = response.level == Level::Device;
        if device || is_lock(self.inst.op) {
            shared.set_clock(self.seated(), now);
            shared.device_accessed |= device;
        }
        self.slot = match (response.request.kind, response.level) {
            _ if self.class == Class::Atomic && !device => Slot::Atomic,
            (_, level) => slot_of(level),
        };
        if self.run_now(core, now, shared) {
            let load = self.class == Class::Load && !device;
            let fp = load && self.moves_fp();
            if load && core.fills.wait() {
                self.waits = Waits::Fill;
                core.fills.returns(self.seat, fp, now, response.done);
                core.note_due();
            } else {
                let extra = core.params.latency.fp_load_miss_extra_cycles;
                // One that performs in the second level has its latency from there.
                let near = core.port.owns_lines && !device && self.class == Class::Atomic;
                let cycles = match (fp, near) {
                    (true, _) => extra,
                    (_, true) => core.params.latency.atomic_cycles,
                    _ => 0,
                };
                self.unblock(response.done.after(cycles));
            }
            if O::PIPELINE {
                let when = (now, response.done);
                self.tell(core, when, PipelineStep::Retired, shared);
            }
        } else if let Waits::Wake(sleep) = self.waits {
            // It hears that it has to wait when the response is back.
            self.sleeps(sleep.answered(response.done), core);
            if O::PIPELINE {
                self.tell(core, (now, now.after(1)), PipelineStep::Squashed, shared);
            }
        }
    }
}
