//! The beginning of the file: magic, version, and the directory of sections.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::snapshot::error::SnapshotFault;
use crate::snapshot::header::Header;
use crate::snapshot::other_format;

/// First bytes of every snapshot.
pub(crate) const MAGIC: [u8; 8] = *b"\x89LOITER\n";
/// Counts up whenever an older loiter could misread what this one writes.
pub(crate) const VERSION: u32 = 1;
/// Bytes before the directory: magic, version, length, checksum.
pub(crate) const PREFACE_BYTES: usize = 24;
/// The longest section, decompressed: room for a disk's whole overlay, and a bound on what a damaged
/// length can make us ask of the host.
pub(crate) const MAX_SECTION_BYTES: u64 = 64 << 30;

/// A section, as the directory has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SectionInfo {
    /// Its name.
    pub name: String,
    /// Its length in the file.
    pub stored_bytes: u64,
    /// Its length.
    pub bytes: u64,
    /// XXH3-64 of its bytes in the file, in hexadecimal.
    pub xxh3: String,
}

/// All that is known of a snapshot without reading its sections.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Directory {
    pub(crate) header: Header,
    pub(crate) sections: Vec<SectionInfo>,
}

/// What the preface says of the directory.
pub(crate) struct Preface {
    pub(crate) directory_bytes: u64,
    checksum: u64,
}

/// A checksum as the directory has it.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

impl Directory {
    /// Preface and directory, as they are in the file.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, SnapshotFault> {
        let encode = |problem: String| SnapshotFault::Encode {
            name: "directory".into(),
            problem,
        };
        let json = serde_json::to_vec(self).map_err(|error| encode(error.to_string()))?;
        let length = u32::try_from(json.len()).map_err(|error| encode(error.to_string()))?;
        Ok([
            &MAGIC[..],
            &VERSION.to_le_bytes(),
            &length.to_le_bytes(),
            &xxh3_64(&json).to_le_bytes(),
            &json,
        ]
        .concat())
    }

    /// Reads the directory, whose bytes `preface` has announced.
    pub(crate) fn decode(preface: &Preface, json: &[u8]) -> Result<Self, SnapshotFault> {
        if xxh3_64(json) != preface.checksum {
            let what = "its directory has another checksum than it was written with";
            return Err(SnapshotFault::Damaged(what.into()));
        }
        serde_json::from_slice(json).map_err(|error| {
            SnapshotFault::Damaged(format!("its directory cannot be read ({error})"))
        })
    }
}

impl Preface {
    /// Reads the preface from the first bytes of a file of `file_bytes` bytes. `start` is at least
    /// [`PREFACE_BYTES`] long where the file is.
    pub(crate) fn decode(start: &[u8], file_bytes: u64) -> Result<Self, SnapshotFault> {
        if !start.starts_with(&MAGIC) {
            let found = other_format::describe(start);
            return Err(SnapshotFault::NotASnapshot { found });
        }
        let Some(preface) = start.first_chunk::<PREFACE_BYTES>() else {
            return Err(SnapshotFault::Truncated {
                part: "its preface".into(),
                needed: PREFACE_BYTES as u64,
                found: file_bytes,
            });
        };
        let word =
            |at: usize| u32::from_le_bytes(*preface[at..].first_chunk().expect("in the preface"));
        let version = word(8);
        if version != VERSION {
            return Err(SnapshotFault::Version {
                found: version,
                read: VERSION,
                advice: if version > VERSION {
                    "use a newer loiter"
                } else {
                    "take a new snapshot"
                },
            });
        }
        Ok(Self {
            directory_bytes: u64::from(word(12)),
            checksum: u64::from(word(16)) | u64::from(word(20)) << 32,
        })
    }
}
