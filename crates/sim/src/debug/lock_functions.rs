//! The functions by which Linux takes and releases locks, as `include/linux/spinlock_api_smp.h`, `rwlock_api_smp.h`,
//! `mutex.h` and `rwsem.h` declare them. Each gets the address of its lock in register a0.

use loiter_observe::Access;
use serde::{Deserialize, Serialize};

/// Kinds of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Kind {
    /// Its owner spins, and keeps its hart until the release, though the scheduler passes one from task to task.
    Spin,
    /// Likewise, with readers.
    ReadWrite,
    /// Its owner is a task, and may sleep and change its hart.
    Sleeping,
}

/// What a function has done when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Done {
    /// It has the lock.
    Acquired,
    /// It has the lock unless it returns 0, and does not wait.
    AcquiredIfTrue,
    /// It has the lock if it returns 0, and has been interrupted otherwise.
    AcquiredIfZero,
    /// The lock is free.
    Released,
    /// Others may have it too.
    Shared,
}

/// A function.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockFunction {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) access: Access,
    pub(super) done: Done,
}

macro_rules! functions {
    ($($kind:ident $access:ident $done:ident: $($name:literal)*;)*) => {
        /// All of them. A kernel need not have each.
        pub(super) const LOCK_FUNCTIONS: &[LockFunction] = &[$($(LockFunction {
            name: $name,
            kind: Kind::$kind,
            access: Access::$access,
            done: Done::$done,
        },)*)*];
    };
}

functions! {
    Spin Exclusive Acquired: "_raw_spin_lock" "_raw_spin_lock_irq" "_raw_spin_lock_irqsave" "_raw_spin_lock_bh"
        "_raw_spin_lock_nested" "_raw_spin_lock_irqsave_nested" "_raw_spin_lock_nest_lock";
    Spin Exclusive AcquiredIfTrue: "_raw_spin_trylock" "_raw_spin_trylock_bh";
    Spin Exclusive Released: "_raw_spin_unlock" "_raw_spin_unlock_irq" "_raw_spin_unlock_irqrestore" "_raw_spin_unlock_bh";

    ReadWrite Shared Acquired: "_raw_read_lock" "_raw_read_lock_irq" "_raw_read_lock_irqsave" "_raw_read_lock_bh";
    ReadWrite Shared AcquiredIfTrue: "_raw_read_trylock";
    ReadWrite Shared Released: "_raw_read_unlock" "_raw_read_unlock_irq" "_raw_read_unlock_irqrestore"
        "_raw_read_unlock_bh";
    ReadWrite Exclusive Acquired: "_raw_write_lock" "_raw_write_lock_irq" "_raw_write_lock_irqsave" "_raw_write_lock_bh"
        "_raw_write_lock_nested";
    ReadWrite Exclusive AcquiredIfTrue: "_raw_write_trylock";
    ReadWrite Exclusive Released: "_raw_write_unlock" "_raw_write_unlock_irq" "_raw_write_unlock_irqrestore"
        "_raw_write_unlock_bh";

    Sleeping Exclusive Acquired: "mutex_lock" "mutex_lock_nested" "mutex_lock_io_nested"
        "_mutex_lock_nest_lock" "down_write" "down_write_nested" "_down_write_nest_lock";
    Sleeping Exclusive AcquiredIfTrue: "mutex_trylock" "down_write_trylock";
    Sleeping Exclusive AcquiredIfZero: "mutex_lock_interruptible" "mutex_lock_killable"
        "mutex_lock_interruptible_nested" "mutex_lock_killable_nested" "down_write_killable" "down_write_killable_nested";
    Sleeping Exclusive Released: "mutex_unlock" "up_write";
    Sleeping Exclusive Shared: "downgrade_write";
    Sleeping Shared Acquired: "down_read" "down_read_nested";
    Sleeping Shared AcquiredIfTrue: "down_read_trylock";
    Sleeping Shared AcquiredIfZero: "down_read_interruptible" "down_read_killable" "down_read_killable_nested";
    Sleeping Shared Released: "up_read";
}
