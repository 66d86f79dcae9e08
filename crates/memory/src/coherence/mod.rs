//! A memory system made of messages: private caches, homes, and the network between them.
//!
//! ```text
//!   core  core     core  core        private.rs: first levels, optionally a second
//!     \    /         \    /          fabric.rs: a constant latency, and a port for each core
//!    cluster        cluster          home.rs: an optional shared cache with a directory of its cores
//!        \            /              network.rs: bus, crossbar, ring, mesh, sockets
//!     home  home  home  home         home.rs: a slice of the directory, optionally of a cache; dram.rs: memory
//! ```
//!
//! Or, without homes, a bus that all caches watch: snoop.rs. Or first levels that write through, before a second level
//! that all cores share: through.
//!
//! Invariants: a line that a core may write, no other core may read. A request gets exactly one
//! [`Told::Performs`](crate::Told). A core is told of every line that it loses, in the cycle in which it does.

mod collect;
mod directory;
mod dram;
mod empty;
mod fabric;
mod hold;
mod home;
mod layout;
mod message;
mod network;
mod params;
mod prefetch;
mod private;
mod snoop;
mod state;
mod system;
#[cfg(test)]
mod tester;
mod through;

pub use directory::{
    Entry, Keep, Known, Protocol, Step, Supply, Want, lend, recall, step, supplied,
};
pub use dram::{DramCounters, DramParams};
pub use home::HomeCounters;
pub use message::Node;
pub use network::{NetworkConfig, NetworkCounters, Topology};
pub use params::{
    ClusterParams, CoherenceParams, DeviceParams, DirectoryParams, HomeParams, NetworkParams,
    SecondParams, ThirdParams,
};
pub use prefetch::{PrefetchCounters, PrefetchParams};
pub use snoop::{
    SnoopParams, SnoopingBusConfig, SnoopingBusCounters, SnoopingBusParams, SnoopingParams,
};
pub use state::{Holders, MOST_CHILDREN, State};
pub use system::Coherent;
pub use through::{WriteThrough, WriteThroughParams};

use loiter_types::CoreId;
use serde::{Deserialize, Serialize};

use fabric::Out;
use message::Message;

use crate::request::{Level, Request};

/// What becomes of a request that missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It has been sent.
    Sent,
    /// Its line is outstanding already; it performs with that.
    Merged,
    /// There is no miss register: [`Told::Retry`](crate::Told) follows, and the request comes again.
    Full,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
enum Event {
    /// A message arrives.
    Arrives(Message),
    /// A home has looked a message up.
    LookedUp(Message),
    /// A core has looked its second level up.
    Second(CoreId, u64),
    /// The value of a home's cache or memory is there; on a bus, of another cache or memory.
    Value(Node, u64),
    /// Caches have seen a request on the bus that they watch.
    Snooped(u64),
    /// A value has come over that bus.
    Delivered(u64),
    /// A core keeps a line no more for a reservation, or not for so long.
    HoldEnds(CoreId),
    /// A device responds.
    Device(Request),
}

/// The geometry of a cache.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// Capacity.
    pub size_kib: u64,
    /// Associativity.
    pub ways: u64,
    /// Which line of a set is replaced.
    pub replacement: String,
}

/// The private caches of each core.
#[derive(Clone, Debug)]
pub struct PrivateConfig {
    /// Instruction cache.
    pub l1i: CacheConfig,
    /// Data cache.
    pub l1d: CacheConfig,
    /// Lines that can be outstanding to the instruction cache and to the data cache.
    pub mshrs: [usize; 2],
    /// Every access of the instruction cache, or of the data cache, hits.
    pub perfect: [bool; 2],
    /// A second level, which includes both.
    pub second: Option<CacheConfig>,
    /// From a first-level miss to its departure, or to its hit in the second level.
    pub lookup_cycles: u64,
    /// From a snoop to the departure of its reply.
    pub snoop_cycles: u64,
    /// More, where the copy has been written or is given up.
    pub snoop_change_cycles: u64,
    /// For how long a line is kept at most after an `lr`.
    pub reservation_cycles: u64,
    /// What is brought into the data cache before it is requested.
    pub prefetch: PrefetchParams,
}

/// A home of a cluster or of memory.
#[derive(Clone, Debug)]
pub struct HomeConfig {
    /// Its cache; the home of a cluster has one.
    pub cache: Option<CacheConfig>,
    /// What its cache is to cores.
    pub level: Level,
    /// Whoever holds a line, the cache has it too; else it takes what children give up.
    pub inclusive: bool,
    /// Between it and its children.
    pub protocol: Protocol,
    /// Its children tell it of shared copies that they give up.
    pub children_tell_clean: bool,
    /// From the beginning of a look-up to its result.
    pub tag_cycles: u64,
    /// From there to the value, if the cache has it.
    pub data_cycles: u64,
    /// Cycles for which a message keeps its bank from beginning the next.
    pub busy_cycles: u64,
    /// Banks; lines are interleaved over them.
    pub banks: u64,
    /// Of a cluster: it decides about a line only where its cache has that and no core writes it.
    pub only_cached: bool,
    /// Of memory: those who are snooped reply to whom the request came from.
    pub direct: bool,
    /// Of memory: from the decision about a request to write to its execution, if the line gets another owner.
    pub owner_cycles: u64,
    /// Of memory: it is read with the look-up, and with that of a cluster at the same stop.
    pub reads_early: bool,
}

/// Clusters of cores.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Cores of a cluster.
    pub cores: usize,
    /// The home of each.
    pub home: HomeConfig,
    /// From a core to the home of its cluster.
    pub up_cycles: u64,
    /// Back.
    pub down_cycles: u64,
    /// Cycles for which a line that comes keeps a core's port.
    pub line_cycles: u64,
}

/// A memory system.
#[derive(Clone, Debug)]
pub struct CoherenceConfig {
    /// Number of cores.
    pub cores: usize,
    /// Bytes of a line of every cache, a power of two.
    pub line_bytes: u64,
    /// Private caches.
    pub private: PrivateConfig,
    /// Clusters, if cores are not children of memory's homes themselves.
    pub cluster: Option<ClusterConfig>,
    /// Number of homes of memory.
    pub homes: usize,
    /// Contiguous parts of memory, each with as many homes of its own.
    pub nodes: usize,
    /// First address of memory, and its bytes, which those parts divide.
    pub memory: (u64, u64),
    /// Each of them.
    pub home: HomeConfig,
    /// Bytes that follow each other in one home of a part, at least a line, a power of two.
    pub interleave_bytes: u64,
    /// Between clusters, or cores where there are none, and memory's homes. Nodes are cores, then clusters, then homes.
    pub network: NetworkConfig,
    /// A bus that all caches watch, instead of homes; there are no clusters then.
    pub bus: Option<SnoopingBusConfig>,
    /// Memory controllers that are nodes of the network, after the homes; without, each home has memory of its own.
    pub controllers: usize,
    /// The memory of each home or controller.
    pub dram: DramParams,
    /// An access to a device.
    pub device_latency_cycles: u64,
}
