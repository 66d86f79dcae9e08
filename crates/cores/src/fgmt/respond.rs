//! Events from outside a core: memory responses, lost watches, interrupts.

use loiter_isa::Class;
use loiter_memory::{Level, Request, RequestKind, Response};
use loiter_observe::Slot;
use loiter_types::{CoreId, Cycle, HartId};

use super::chip::Chip;
use super::context::{Context, Waits};
use super::core::{Core, CoreState};
use super::ownership::OF_STORE;
use crate::shared::{is_lock, slot_of};
use crate::wait::{Sleep, Wakes};
use crate::{Observer, PipelineStep, Shared};

impl Chip {
    /// An access performs, or a store is acknowledged: the value moves now.
    pub fn respond<O: Observer>(
        &mut self,
        response: Response,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let core = &mut self.cores[response.request.core.index()];
        let c = response.request.context.index() % core.contexts.len();
        core.contexts[c].respond(&mut core.state, response, now, shared);
        if core.state.units.fp_waits_for(c) && core.contexts[c].waits == Waits::Time {
            core.fp_data_arrive(c, core.contexts[c].ready_at);
        }
        let core_index = response.request.core.index();
        self.rescheduled(core_index, c);
    }

    /// `core` has lost line `line`.
    pub fn lost<O: Observer>(&mut self, core: CoreId, line: u64, shared: &mut Shared<'_, O>) {
        let line_log2 = shared.memory.data_line_log2();
        for context in &self.cores[core.index()].contexts {
            if let Some(hart) = context.hart {
                shared.machine.watches.lose(hart, line, line_log2);
            }
        }
    }

    /// The line that `hart` watches was written by another.
    pub fn watch_lost(&mut self, hart: HartId, now: Cycle) {
        let (core_index, c) = self.seats.of(hart);
        let core = &mut self.cores[core_index];
        if let Waits::Wake(sleep) = core.contexts[c].waits
            && sleep.nap.watches()
        {
            core.wake(c, sleep, Wakes::Store, now);
            self.rescheduled(core_index, c);
        }
    }

    /// Interrupt lines have changed: harts see them, and those that sleep may wake.
    pub fn interrupts_changed<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        for hart in shared.harts.iter_mut() {
            let (core_index, c) = self.seats.of(hart.id);
            hart.csr.set_lines(shared.machine.interrupt_lines(hart.id));
            let core = &mut self.cores[core_index];
            let context = &mut core.contexts[c];
            context.check_interrupts = true;
            // An instruction that was fetched but not issued gives way to the interrupt.
            context.refetch();
            if let Waits::Wake(sleep) = context.waits
                && hart.interrupts(sleep.nap)
            {
                core.wake(c, sleep, Wakes::Interrupt, now);
                self.rescheduled(core_index, c);
            }
        }
    }
}

impl Core {
    /// What ends the nap of context `c` has happened, unless its time was over before.
    fn wake(&mut self, c: usize, sleep: Sleep, by: Wakes, now: Cycle) {
        if sleep.limit <= now {
            return;
        }
        let wait = &self.state.params.wait;
        self.contexts[c].unblock(wait.continues(&sleep, now));
        self.state.naps.ended(wait, &sleep, by, now);
    }
}

impl Context {
    fn respond<O: Observer>(
        &mut self,
        core: &mut CoreState,
        response: Response,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let done = response.done;
        match response.request.kind {
            RequestKind::Fetch => {
                self.fetch_line = response.request.addr.block(core.fetch_line_log2);
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
            RequestKind::Load | RequestKind::Own | RequestKind::Atomic | RequestKind::Device => {
                self.perform(core, response, now, shared);
            }
            RequestKind::Store => {
                let store = self.stores.perform();
                let hart = self.seated();
                shared.perform_stores(hart, store.parts(), now);
            }
            RequestKind::Acknowledge => {
                self.stores.acknowledge();
                self.send_stores(core, now, shared);
                self.store_left(now);
            }
        }
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
            && let Some(addr) = self.missing_line(core, shared)
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
            let sleep = sleep.answered(response.done);
            self.waits = Waits::Wake(sleep);
            self.ready_at = core.params.wait.continues_by_itself(&sleep);
            if O::PIPELINE {
                self.tell(core, (now, now.after(1)), PipelineStep::Squashed, shared);
            }
        }
    }
}
