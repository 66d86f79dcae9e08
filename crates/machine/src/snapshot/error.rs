//! What may be wrong with a snapshot.

use std::io;
use std::path::Path;

/// A snapshot that cannot be written or restored, and its file.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {fault}")]
pub struct SnapshotError {
    /// The file, as the user named it.
    pub path: String,
    /// What is wrong with it.
    pub fault: SnapshotFault,
}

impl SnapshotError {
    /// What is wrong with the file at `path`.
    #[must_use]
    pub fn new(path: &Path, fault: SnapshotFault) -> Self {
        Self {
            path: path.display().to_string(),
            fault,
        }
    }
}

/// What is wrong with a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotFault {
    /// The host refuses to read.
    #[error("the snapshot cannot be read: {0}")]
    Read(io::Error),
    /// The host refuses to write.
    #[error(
        "the snapshot cannot be written: {0}; nothing of it was left, choose a place with room that you may write to"
    )]
    Write(io::Error),
    /// Another kind of file.
    #[error("not a snapshot ({found}); give a file that `loiter snapshot save` has written")]
    NotASnapshot {
        /// What it looks like instead.
        found: String,
    },
    /// Another version of the format.
    #[error("a snapshot of format {found}, but this loiter reads format {read}; {advice}")]
    Version {
        /// The file's version.
        found: u32,
        /// Ours.
        read: u32,
        /// What to do.
        advice: &'static str,
    },
    /// The file ends early.
    #[error(
        "truncated: {part} ends at byte {needed}, but the file has only {found} bytes; copy it again or take a new snapshot"
    )]
    Truncated {
        /// What is cut off.
        part: String,
        /// Where it ends.
        needed: u64,
        /// Length of the file.
        found: u64,
    },
    /// The bytes are not those that were written.
    #[error("damaged: {0}; copy it again or take a new snapshot")]
    Damaged(String),
    /// A part is not there.
    #[error(
        "section \"{name}\" is missing (there are {known}); it was written by another kind or version of loiter ({loiter}), take a new snapshot"
    )]
    Missing {
        /// Name of the section.
        name: String,
        /// Names of those that are there.
        known: String,
        /// Who wrote the file.
        loiter: String,
    },
    /// A part of another layout.
    #[error(
        "section \"{name}\" is not what loiter {ours} expects ({problem}); loiter {loiter} wrote it, take a new snapshot"
    )]
    Layout {
        /// Name of the section.
        name: String,
        /// What differs.
        problem: String,
        /// Who wrote the file.
        loiter: String,
        /// Who reads it.
        ours: &'static str,
    },
    /// A snapshot of another machine.
    #[error(
        "a snapshot of another machine: {differences}; restore it on a machine like its own or take a new snapshot"
    )]
    OtherMachine {
        /// What differs.
        differences: String,
    },
    /// More than a section may hold.
    #[error("internal error: section \"{name}\" of {bytes} bytes is larger than {limit} bytes")]
    TooLarge {
        /// Name of the section.
        name: String,
        /// Its length.
        bytes: u64,
        /// The longest.
        limit: u64,
    },
    /// Our own fault: a state that cannot be encoded.
    #[error("internal error: section \"{name}\" cannot be encoded: {problem}")]
    Encode {
        /// Name of the section.
        name: String,
        /// Why.
        problem: String,
    },
}
