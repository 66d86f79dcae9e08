//! Timing of the memory system: private first-level caches, translation look-aside buffers, a shared
//! banked second level with its interconnect, and memory channels. Tags and time, no data.
//!
//! May depend on `loiter-types` only.
//!
//! Invariants: a request is answered by exactly one [`Response`], in the cycle in which the access
//! *performs*, which is when the asker moves the value; responses of one cycle come in the order in
//! which their requests were sent; a line that a store of another core has overwritten is lost to a
//! first-level cache no later than the reply that reports the store.

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
    BusParams, L1MissParams, L1Params, L2Params, MemoryParams, TlbParams, WalkerParams, sets,
};
pub use request::{Level, Lost, Missed, Request, RequestKind, Response, Told};
pub use system::{MemoryConfig, MemorySystem};
pub use tlb::{Flush, Tlb, Translation};
pub use wheel::Wheel;
