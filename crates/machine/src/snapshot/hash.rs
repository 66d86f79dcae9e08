//! The hash of a system's state, which two runs that went the same way have in common.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use xxhash_rust::xxh3::Xxh3;

use crate::snapshot::error::SnapshotFault;
use crate::snapshot::ram::used_pages;

/// A hash of a state. It says whether two states are the same, not who made them: XXH3-128, as fast as
/// memory can be read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateHash(pub u128);

impl fmt::Display for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for StateHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StateHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16)
            .map(Self)
            .map_err(|_| D::Error::custom(format!("{text:?} is no state hash")))
    }
}

/// Hashes a state part by part. The order of the parts counts.
#[derive(Default)]
pub struct StateHasher {
    hasher: Box<Xxh3>,
}

impl StateHasher {
    /// Nothing hashed yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Hashes what `state` is encoded to in a snapshot. What it is encoded to says where it ends, so
    /// bytes cannot move from one part to the next unseen.
    ///
    /// # Errors
    /// Our own fault, when it cannot be encoded.
    pub fn state(&mut self, name: &str, state: &impl Serialize) -> Result<(), SnapshotFault> {
        self.hasher.update(&encode(name, state)?);
        Ok(())
    }

    /// Hashes what RAM holds, reading no page that the host has not given. Pages of zeroes count as
    /// those that nobody has touched.
    pub fn ram(&mut self, ram: &[u8]) {
        self.hasher.update(&(ram.len() as u64).to_le_bytes());
        for (page, bytes) in used_pages(ram) {
            self.hasher.update(&(page as u64).to_le_bytes());
            self.hasher.update(bytes);
        }
        self.hasher.update(&u64::MAX.to_le_bytes());
    }

    /// The hash of all parts.
    #[must_use]
    pub fn finish(&self) -> StateHash {
        StateHash(self.hasher.digest128())
    }
}

impl fmt::Debug for StateHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateHasher({})", self.finish())
    }
}

/// A state as a section holds it.
pub(crate) fn encode(name: &str, state: &impl Serialize) -> Result<Vec<u8>, SnapshotFault> {
    rmp_serde::to_vec_named(state).map_err(|error| SnapshotFault::Encode {
        name: name.into(),
        problem: error.to_string(),
    })
}
