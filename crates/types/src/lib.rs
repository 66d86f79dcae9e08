//! Ids, addresses, time, and the declarations of parameters and counters.
//!
//! Every other crate may depend on this one; it depends on nothing of ours.
//!
//! Invariants: an id of one kind never stands for another (a [`HartId`] is a thread, a
//! [`ContextId`] its seat); time is a [`Cycle`], never a bare integer; a parameter or a counter is
//! declared in exactly one place, from which parsing, checking, export and documentation derive.

mod counters;
mod ids;
mod params;
mod state;
mod suggest;

pub use counters::{CounterInfo, CounterSet, CounterVisitor};
pub use ids::{
    AddressSpace, ContextId, CoreId, CpuId, Cycle, HartId, PAGE_BYTES, PhysAddr, VcpuId, VirtAddr,
};
pub use params::{FieldType, ParamInfo, ParamKind, ParamValue, Params};
pub use state::StateVisitor;
pub use suggest::{Unknown, nearest};
