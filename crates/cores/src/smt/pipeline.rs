//! What an observer is told of the way of instructions, and of what contexts do.
//!
//! A result is computed when its instruction issues, and the cycles of register read are charged
//! after that (see `issue`). Here an instruction executes after register read: as in the core that
//! is modelled, what executes stands that much later than what the model computes.

use loiter_isa::Class;
use loiter_types::Cycle;

use super::context::{Context, How, Progress};
use super::core::{Core, CoreState};
use super::registers::{NONE, Registers};
use crate::Shared;
use crate::observer::{InstructionId, Observer, PipelineStage, PipelineStep};

/// No instruction of a context has been squashed.
pub(super) const NOTHING_SQUASHED: u64 = u64::MAX;

impl Context {
    /// Tells of instruction `n`.
    pub(super) fn tell<O: Observer>(
        &self,
        core: &CoreState,
        n: u64,
        (now, at): (Cycle, Cycle),
        step: PipelineStep<'_>,
        shared: &mut Shared<'_, O>,
    ) {
        let id = InstructionId {
            core: core.id,
            context: self.id,
            number: self.entry(n).seq,
        };
        shared.observer.pipeline(now, at, id, step);
    }

    fn enters<O: Observer>(
        &self,
        core: &CoreState,
        n: u64,
        when: (Cycle, Cycle),
        stage: PipelineStage,
        shared: &mut Shared<'_, O>,
    ) {
        self.tell(core, n, when, PipelineStep::Enters(stage), shared);
    }

    /// The last `count` instructions of the window have been fetched now.
    pub(super) fn tell_fetched<O: Observer>(
        &self,
        core: &CoreState,
        count: u64,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        for n in self.tail - count..self.tail {
            let entry = self.entry(n);
            let id = InstructionId {
                core: core.id,
                context: self.id,
                number: entry.seq,
            };
            let step = PipelineStep::Fetched {
                hart: &shared.harts[self.hart_index],
                machine: shared.machine,
                pc: entry.pc,
                inst: &entry.inst,
            };
            shared.observer.pipeline(now, now, id, step);
            self.enters(core, n, (now, now), PipelineStage::Fetch, shared);
            let next = now.after(1);
            self.enters(core, n, (now, next), PipelineStage::Decode, shared);
        }
    }

    /// The youngest renamed instruction has been renamed now.
    pub(super) fn tell_renamed<O: Observer>(
        &self,
        core: &CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let n = self.renamed - 1;
        let entry = self.entry(n);
        let apart = entry.how.is_apart();
        let waits = |source: u16, registers: &Registers| apart && !registers.is_ready(source);
        let step = PipelineStep::Renamed {
            waits_for: entry
                .sources
                .map(|source| waits(source, &core.registers).then_some(source)),
            writes: (entry.destination != NONE).then_some(entry.destination),
        };
        self.tell(core, n, (now, now), step, shared);
        self.enters(core, n, (now, now), PipelineStage::Rename, shared);
        let following = if apart {
            PipelineStage::Queue
        } else {
            PipelineStage::Oldest
        };
        self.enters(core, n, (now, now.after(1)), following, shared);
    }

    /// Instruction `n` has issued now.
    pub(super) fn tell_issued<O: Observer>(
        &self,
        core: &CoreState,
        n: u64,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let executes = now.after(core.params.core.register_read_cycles);
        self.tell(core, n, (now, now), PipelineStep::Wakes, shared);
        self.enters(core, n, (now, now), PipelineStage::Issue, shared);
        self.enters(core, n, (now, executes), PipelineStage::Execute, shared);
        self.tell_outcome(core, n, (now, executes.after(1)), shared);
    }

    /// Load `n` has accessed the data cache now, or load or store `n` has tried to.
    pub(super) fn tell_accessed<O: Observer>(
        &self,
        core: &CoreState,
        n: u64,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let at = now.after(core.params.core.register_read_cycles);
        let entry = self.entry(n);
        if entry.class == Class::Load && entry.progress != Progress::Walking {
            self.enters(core, n, (now, at), PipelineStage::Memory, shared);
        }
        self.tell_outcome(core, n, (now, at), shared);
    }

    /// The line of the load with age `seq` is there, if that still wants it.
    pub(super) fn tell_arrived<O: Observer>(
        &self,
        core: &CoreState,
        seq: u64,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let load = self.loads.iter().find(|&n| self.entry(n).seq == seq);
        if let Some(n) = load {
            self.tell_outcome(core, n, (now, now), shared);
        }
    }

    /// What has come of instruction `n`, if that is known; if it is to wait for a walk, it does so from
    /// `walks` on.
    fn tell_outcome<O: Observer>(
        &self,
        core: &CoreState,
        n: u64,
        (now, walks): (Cycle, Cycle),
        shared: &mut Shared<'_, O>,
    ) {
        let entry = self.entry(n);
        let (at, stage) = match (entry.progress, entry.how) {
            (Progress::Walking, _) => (walks, PipelineStage::Walk),
            (Progress::Done, How::Apart | How::Handler) => (entry.due, PipelineStage::Complete),
            (Progress::Done, _) => (entry.due, PipelineStage::Oldest),
            _ => return,
        };
        self.enters(core, n, (now, at), stage, shared);
    }
}

impl Core {
    /// Tells what was squashed since last told.
    pub(super) fn tell_squashed<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        for context in &mut self.contexts {
            let first = std::mem::replace(&mut context.squashed_from, NOTHING_SQUASHED);
            if first != NOTHING_SQUASHED {
                let id = InstructionId {
                    core: self.state.id,
                    context: context.id,
                    number: first,
                };
                shared
                    .observer
                    .pipeline(now, now, id, PipelineStep::Squashed);
            }
        }
    }
}
