//! Limits, statistics and failures of an exploration.

use std::collections::BTreeSet;

use crate::memory::Location;
use crate::replay::Execution;

/// Threads that a program can have.
pub const MOST_THREADS: usize = 8;

/// Registers of each thread in turn, then locations, as the program lists them.
pub type Outcome = Vec<u64>;

/// Where to give up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// States of the program.
    pub states: usize,
    /// States of one thread by itself, from one state of the program.
    pub ahead: usize,
    /// Instructions without an access that others could see.
    pub instructions: u64,
    /// Writes that some thread may not have seen, or that one performs ahead of the others.
    pub writes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            states: 20_000_000,
            ahead: 100_000,
            instructions: 1_000_000,
            writes: 256,
        }
    }
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Different states.
    pub states: u64,
    /// Those that are known: looked at, or yet to be.
    pub known: u64,
    /// Steps from one to another.
    pub steps: u64,
    /// States in which all threads have ended.
    pub complete: u64,
}

/// How a program fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This thread executes an instruction that stops it, as a failing assertion does.
    Stopped(usize),
    /// What runs after all threads does so.
    Check,
    /// Threads wait for what none of them will do.
    Deadlock,
}

/// A failing execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How it fails.
    pub kind: Kind,
    /// What leads there, in the order in which it becomes visible.
    pub steps: Vec<Step>,
    /// Where each thread stands then; none, if it has ended.
    pub stands: Vec<Option<u64>>,
    /// The same, instruction by instruction.
    pub execution: Execution,
}

/// One access that others can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The thread.
    pub thread: usize,
    /// The address of the instruction; none, of an early write that the thread has not come to.
    pub pc: Option<u64>,
    /// What it accessed.
    pub location: Location,
    /// The value that it read.
    pub read: Option<u64>,
    /// The number of the step that wrote what it read; none, if that was there at the beginning.
    pub from: Option<usize>,
    /// The value that it wrote.
    pub wrote: Option<u64>,
    /// It becomes visible before something that comes before it in the program.
    pub early: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exploration {
    /// Every outcome that the model allows.
    pub outcomes: BTreeSet<Outcome>,
    /// How much was looked at.
    pub statistics: Statistics,
    /// The one with the fewest steps.
    pub failure: Option<Failure>,
}
