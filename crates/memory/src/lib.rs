//! Timing of memory: caches, translation look-aside buffers, interconnects and DRAM. Tags and time, no data.
//!
//! [`Memory`] is what cores ask. There are two kinds of it: [`MemorySystem`], private first levels before one second
//! level that is as far from every core, which knows the whole future of a request when it is sent; and
//! [`coherence`], private caches and homes that send one another messages.
//!
//! May depend on `loiter-types` and general libraries only.
//!
//! Invariants: a request gets exactly one [`Response`], in the cycle in which the access *performs*, which is when
//! its requester moves the value. A line that a store of another core has overwritten is lost to a first-level cache
//! no later than the reply that reports the store; with [`coherence`], before the store performs.

mod bus;
mod cache;
pub mod coherence;
mod counters;
mod l2;
mod memory;
mod misses;
mod params;
mod request;
mod system;
mod tlb;
mod warm;
mod wheel;

pub use cache::{Cache, Lookup};
pub use counters::{
    BusCounters, L1Counters, L2Counters, MissCounters, SecondCounters, StoreCounters, TlbCounters,
    WalkerCounters,
};
pub use memory::{AnyMemoryConfig, Memory};
pub use params::{
    BusParams, L1MissParams, L1Params, L2Params, MemoryParams, ReplyParams, TlbParams,
    WalkerParams, sets,
};
pub use request::{Caches, Emptied, Level, Lost, Missed, Request, RequestKind, Response, Told};
pub use system::{MemoryConfig, MemorySystem};
pub use tlb::{Flush, FlushOf, Tlb, Translation};
pub use wheel::Wheel;
