//! Guest profile: what each function costs, by the calls that led to it.
//!
//! [`Stacks`] follows the calls of every hart; costs are kept in a tree of calls, [`CallTree`]. Two
//! formats are written: [`callgrind`] and [`pprof`].

pub mod callgrind;
pub mod pprof;
mod stacks;
mod tree;

pub use stacks::{Entry, Left, Stacks};
pub use tree::{CallTree, Cost, Function, FunctionId};
