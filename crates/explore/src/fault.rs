//! Why a program cannot be explored.

/// Why a program cannot be explored. Threads are counted from 0, and stand at the pc that follows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No code there.
    #[error("hart {0} leaves its code: pc {1:#x}")]
    Left(usize, u64),
    /// An instruction that the explorer refuses.
    #[error("hart {0}, {1:#x}: `{2}` cannot be explored")]
    Refused(usize, u64, String),
    /// It trapped.
    #[error("hart {0}, {1:#x}: `{2}` traps")]
    Traps(usize, u64, String),
    /// An access that is not aligned.
    #[error("hart {0}, {1:#x}: the access of {3} bytes at {2:#x} is not aligned")]
    Misaligned(usize, u64, u64, u8),
    /// An access to what is no memory of the program.
    #[error(
        "hart {0}, {1:#x}: the access of {3} bytes at {2:#x} is outside of the program's memory; there are no devices to \
         explore with"
    )]
    Outside(usize, u64, u64, u8),
    /// Nothing that others could see.
    #[error(
        "hart {0}, {1:#x}: {2} instructions without an access to shared memory; the program may never end"
    )]
    Endless(usize, u64, u64),
    /// What comes before all threads fails.
    #[error("`setup` fails")]
    Setup,
    /// `progress` said so.
    #[error("interrupted")]
    Interrupted,
    /// A limit was reached.
    #[error("given up after {0}; the program may never end, or raise the limit")]
    Limit(String),
}

impl Fault {
    /// The address of the instruction that it is about.
    #[must_use]
    pub fn pc(&self) -> Option<u64> {
        match self {
            Fault::Left(_, pc)
            | Fault::Refused(_, pc, _)
            | Fault::Traps(_, pc, _)
            | Fault::Misaligned(_, pc, ..)
            | Fault::Outside(_, pc, ..)
            | Fault::Endless(_, pc, _) => Some(*pc),
            Fault::Setup | Fault::Interrupted | Fault::Limit(_) => None,
        }
    }
}
