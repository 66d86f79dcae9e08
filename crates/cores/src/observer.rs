//! Who watches a core.

use loiter_hart::InstructionObserver;

/// Is told of probes and of instructions.
pub trait Observer: loiter_observe::Observer + InstructionObserver {}

impl<T: loiter_observe::Observer + InstructionObserver> Observer for T {}
