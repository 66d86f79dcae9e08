//! What a program sees of a machine besides its harts: RAM, devices, the device tree, and the
//! loading of ELF files.
//!
//! Depends on `loiter-isa` (access widths) and `loiter-types`. No time passes here: an access
//! happens in the moment in which it is asked for, and whoever asks decides when that is.
//!
//! A machine can be the host of guests ([`Machine::host`]): each has a part of its RAM and a [`Platform`] of its own, and a
//! [`Partition`] says where what it takes for physical addresses lies.
//!
//! Invariants: RAM holds the one copy of the data; every store by a hart goes through
//! [`Machine::store`] or [`Machine::store128`], which alone break watches and see the HTIF words;
//! [`Watches`] is the only functional watch mechanism; `map.rs` alone knows addresses.

mod boot;
mod config;
mod device_tree;
mod devices;
mod disk;
mod elf;
#[cfg(test)]
mod fuzz;
mod gateway;
mod hosting;
mod htif;
mod kernel;
mod load;
mod machine;
mod map;
mod outside;
mod overrides;
mod pages;
mod partition;
mod platform;
mod ram;
mod remembered;
pub mod snapshot;
mod state;
mod symbol_file;
mod symbols;
#[cfg(test)]
mod testing;
mod watches;

pub use boot::{BootAddresses, BootFile, BootFiles};
pub use config::{MachineConfig, MachineError, Mmu};
pub use devices::Network;
pub use disk::{DiskConfig, DiskError, DiskFault};
pub use elf::{ElfImage, Segment};
pub use load::{LoadError, LoadFault};
pub use machine::{AccessFault, Ended, EndedBy, Ending, Machine};
pub use map::RAM_BASE;
pub use overrides::{OverrideError, OverrideFault};
pub use pages::{CodeWrite, News, Pages};
pub use partition::{MAX_GUESTS, Partition};
pub use platform::Platform;
pub use ram::Ram;
pub use state::MachineState;
pub use symbol_file::{SymbolFile, text_page_hash};
pub use symbols::{NamedRange, SymbolTable};
pub use watches::{WatchState, Watches, WatchesState};
