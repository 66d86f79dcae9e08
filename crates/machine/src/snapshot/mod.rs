//! Snapshots: the state of a system in a file, and its hash.
//!
//! ```text
//!   bytes  what
//!       8  magic, as PNG's: a byte beyond ASCII, a name, a line end that careless copies change
//!       4  version of the format, little-endian
//!       4  length of the directory, little-endian
//!       8  XXH3-64 of the directory, little-endian
//!          the directory: JSON, what the snapshot is of and which sections it has
//!          the sections in the directory's order, each one zstd frame
//! ```
//!
//! A section is an opaque string of bytes with a name. RAM is cut into windows, each a section by
//! itself: so they are compressed and restored side by side, and pages of zeroes take no room. The
//! directory holds the length and the checksum of every section as stored, so nothing is
//! decompressed, and nothing is believed, that is not what was written.
//!
//! The same state gives the same bytes. States are written as MessagePack with the names of their
//! fields, so that one of another layout is refused by the name of a field and not misread.

mod directory;
mod error;
mod hash;
mod header;
mod identity;
mod other_format;
mod ram;
mod reader;
mod touched;
mod writer;

pub use directory::SectionInfo;
pub use error::{SnapshotError, SnapshotFault};
pub use hash::{StateHash, StateHasher};
pub use header::{Hardware, Header};
pub use identity::FileIdentity;
pub(crate) use ram::used_pages;
pub use reader::Snapshot;
pub use writer::SnapshotWriter;

#[cfg(test)]
#[path = "damage_tests.rs"]
mod damage_tests;
#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
