//! Who watches a core.

use loiter_hart::{Hart, InstructionObserver};
use loiter_isa::Inst;
use loiter_machine::Machine;
use loiter_types::{ContextId, CoreId, Cycle};

/// Is told of probes, of instructions, and of their way through the pipeline.
pub trait Observer: loiter_observe::ProbeObserver + InstructionObserver + PipelineObserver {}

impl<T: loiter_observe::ProbeObserver + InstructionObserver + PipelineObserver> Observer for T {}

/// An instruction between fetch and retirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstructionId {
    /// The core.
    pub core: CoreId,
    /// The context that fetched it.
    pub context: ContextId,
    /// Larger than that of all that the context has fetched before.
    pub number: u64,
}

/// A stage of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineStage {
    /// It is fetched; in a core that issues in order, it may wait there for what keeps it from issuing.
    Fetch,
    /// The rest of the front end, and its buffer.
    Decode,
    /// It is renamed.
    Rename,
    /// It waits in a queue for operands and a unit.
    Queue,
    /// It has issued and reads registers.
    Issue,
    /// It executes; a load or store computes its address.
    Execute,
    /// The translation of its address is not at hand: page tables are walked.
    Walk,
    /// Its access is in flight.
    Memory,
    /// It waits until it is the oldest, when the hart runs it.
    Oldest,
    /// It waits for retirement.
    Complete,
}

/// What becomes of an instruction.
pub enum PipelineStep<'a> {
    /// It is fetched.
    Fetched {
        /// Who fetched it.
        hart: &'a Hart,
        /// What that executes on.
        machine: &'a Machine,
        /// Its address.
        pc: u64,
        /// The instruction.
        inst: &'a Inst,
    },
    /// It enters a stage.
    Enters(PipelineStage),
    /// It has been renamed.
    Renamed {
        /// Physical registers of the core whose values it has to wait for.
        waits_for: [Option<u16>; 3],
        /// The one that gets its result.
        writes: Option<u16>,
    },
    /// It issues: what it has waited for is there.
    Wakes,
    /// It is over, and has counted.
    Retired,
    /// It, and whatever its context has fetched after it, is over, and does not count.
    Squashed,
}

/// Watches the way of instructions through pipelines.
pub trait PipelineObserver {
    /// Whether it wants to know; if not, cores are compiled as if there was none.
    const PIPELINE: bool;

    /// Something becomes of an instruction in `cycle`, which may lie ahead of the present one; it holds
    /// unless something else becomes of the instruction before. Steps of the present cycle are told in
    /// their order.
    fn pipeline(&mut self, now: Cycle, cycle: Cycle, id: InstructionId, step: PipelineStep<'_>);
}
