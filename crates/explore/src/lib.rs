//! Every outcome that a memory model allows to a short concurrent program.
//!
//! The models are RVWMO, RVTSO and sequential consistency, in the operational form of C. Pulte, J. Pichon-Pharabod,
//! J. Kang, S.-H. Lee and C.-K. Hur, "Promising-ARM/RISC-V: a simpler and faster operational concurrency model", PLDI
//! 2019. Memory is a list of all writes in the order in which they become visible; each thread executes in program order,
//! and keeps *views*: positions in that list that bound what it may still read, and where its writes may stand. A thread
//! may *promise* a write before it executes it. What an instruction computes is decided by [`loiter_hart::Exec`], as
//! everywhere.
//!
//! | file          | holds                                                                             |
//! |---------------|-----------------------------------------------------------------------------------|
//! | `model.rs`    | the models, as orders that an instruction has by itself                           |
//! | `program.rs`  | code, data, where threads begin                                                   |
//! | `cells.rs`    | which bytes are accessed together, and by several threads                         |
//! | `memory.rs`   | messages, their times, what can be read                                           |
//! | `thread.rs`   | registers and views of one thread                                                 |
//! | `step.rs`     | what can come of one instruction; `access.rs`: of one access                       |
//! | `local.rs`    | what a thread does unseen, and what it could do by itself                         |
//! | `origin.rs`   | from where a thread can have the address of what it loads                         |
//! | `reach.rs`    | what other threads cannot come to yet                                             |
//! | `writes.rs`   | in which order a thread comes to its writes                                       |
//! | `liveness.rs` | registers that are still used                                                     |
//! | `future.rs`   | what threads may still access                                                     |
//! | `canon.rs`    | one form for states that behave alike                                             |
//! | `order.rs`    | positions in memory that no thread can tell apart                                 |
//! | `search.rs`   | all states, failures, deadlocks                                                   |
//! | `moves.rs`    | what comes next from a state                                                      |
//! | `found.rs`    | limits, statistics, failures                                                      |
//! | `walks.rs`    | single executions, to learn what is accessed before all are looked at             |
//! | `trace.rs`    | the steps to a state                                                              |
//! | `replay.rs`   | an execution that was found, instruction by instruction, forwards and backwards     |
//! | `litmus.rs`   | litmus tests in the format of herd; `condition.rs`: what they ask                 |
//! | `guest.rs`    | programs in ELF files; `lines.rs`: their source lines; `report.rs`: what came of it |
//!
//! Invariants: a view is never past the end of memory; a write stands after its bound; a thread ends with all of its
//! promises fulfilled. May depend on `loiter-types`, `loiter-isa`, `loiter-machine` and `loiter-hart`.
//!
//! Limits, each refused with a message: integer instructions, of CSRs only `mhartid`; no `amocas`, system calls or devices;
//! aligned accesses. An `sc` succeeds only at the address of its `lr`, with its width. Code does not change.

mod access;
mod canon;
mod cells;
mod condition;
mod fault;
mod found;
mod future;
mod guest;
mod lines;
mod litmus;
mod liveness;
mod local;
mod memory;
mod model;
mod moves;
mod order;
mod origin;
mod program;
mod reach;
mod replay;
#[cfg(test)]
mod replay_tests;
mod report;
mod search;
mod step;
mod thread;
mod trace;
mod walks;
mod writes;

pub use condition::{Condition, Subject};
pub use fault::Fault;
pub use found::{Exploration, Failure, Kind, Limits, MOST_THREADS, Outcome, Statistics, Step};
pub use guest::guest;
pub use lines::Lines;
pub use litmus::{Litmus, LitmusError, Quantifier};
pub use memory::{Location, Time};
pub use model::Model;
pub use program::{Entry, Program, Segment};
pub use replay::{Execution, Moment, Registers, Replay};
pub use report::{FailureReport, GuestFault, Progress, Report, Stand, StepReport, explore_guest};
pub use search::explore;
