//! What an observer is told of the way of instructions: fetched, and waiting for what keeps it from
//! issuing; executing, from issue until its context may continue or its result is there; or its access
//! under way.

use loiter_hart::Nap;
use loiter_types::Cycle;

use super::context::{Context, Waits};
use super::core::CoreState;
use crate::Shared;
use crate::observer::{InstructionId, Observer, PipelineStage, PipelineStep};

impl Context {
    /// Tells of the instruction that was fetched last.
    pub(super) fn tell<O: Observer>(
        &self,
        core: &CoreState,
        (now, at): (Cycle, Cycle),
        step: PipelineStep<'_>,
        shared: &mut Shared<'_, O>,
    ) {
        let id = InstructionId {
            core: core.id,
            context: self.id,
            number: self.fetched_count,
        };
        shared.observer.pipeline(now, at, id, step);
    }

    /// The next instruction has been fetched now.
    #[cold]
    pub(super) fn tell_fetched<O: Observer>(
        &mut self,
        core: &CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        // One that gave way to an interrupt is fetched again.
        self.tell(core, (now, now), PipelineStep::Squashed, shared);
        self.fetched_count += 1;
        let id = InstructionId {
            core: core.id,
            context: self.id,
            number: self.fetched_count,
        };
        let step = PipelineStep::Fetched {
            hart: &shared.harts[self.hart_index()],
            machine: shared.machine,
            pc: self.inst_pc,
            inst: &self.inst,
        };
        shared.observer.pipeline(now, now, id, step);
        let step = PipelineStep::Enters(PipelineStage::Fetch);
        self.tell(core, (now, now), step, shared);
    }

    /// The fetched instruction has issued now.
    #[cold]
    pub(super) fn tell_issued<O: Observer>(
        &self,
        core: &CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let step = PipelineStep::Enters(PipelineStage::Execute);
        self.tell(core, (now, now), step, shared);
        let next = now.after(1);
        let done = match self.waits {
            Waits::Access => {
                let step = PipelineStep::Enters(PipelineStage::Memory);
                return self.tell(core, (now, next), step, shared);
            }
            // It comes again when its context wakes.
            Waits::Wake(sleep) if matches!(sleep.nap, Nap::Lock | Nap::Flags) => {
                return self.tell(core, (now, next), PipelineStep::Squashed, shared);
            }
            // Its context sleeps after it.
            Waits::Wake(_) => next,
            _ if core.stall_on_use => self.ready_at.max(self.operands[self.inst.rd as usize % 65]),
            _ => self.ready_at,
        };
        self.tell(core, (now, done.max(next)), PipelineStep::Retired, shared);
    }
}
