//! What can go wrong with a run.

use loiter_machine::snapshot::SnapshotError;
use loiter_machine::{LoadError, MachineError};
use loiter_types::Unknown;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user's mistake: the message says what, where and what to do.
    #[error("{0}")]
    User(String),
    /// The guest did something that nothing handles.
    #[error("{0}")]
    Guest(String),
    /// Ours: a timing core and the reference engine contradict each other.
    #[error("{0}")]
    Internal(String),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl From<Unknown> for Error {
    fn from(error: Unknown) -> Self {
        Error::User(error.to_string())
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        Error::User(error.to_string())
    }
}

impl From<MachineError> for Error {
    fn from(error: MachineError) -> Self {
        Error::User(error.to_string())
    }
}

impl From<SnapshotError> for Error {
    fn from(error: SnapshotError) -> Self {
        Error::User(error.to_string())
    }
}
