//! The state of a copy of a line, and sets of those that hold one.

use serde::{Deserialize, Serialize};

/// What a cache may do with its copy of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum State {
    /// There is no copy.
    #[default]
    Invalid,
    /// One of several copies; its holder reads it.
    Shared,
    /// As shared; its holder supplies the line to others, which home has too.
    Forward,
    /// As shared; its holder supplies the line to others, whose value home does not have.
    Owned,
    /// The only copy; its holder may write it without asking.
    Exclusive,
    /// The only copy, written.
    Modified,
}

impl State {
    /// Whether the holder may read the line.
    #[inline(always)]
    #[must_use]
    pub fn can_read(self) -> bool {
        self != State::Invalid
    }

    /// Whether the holder may write the line without asking.
    #[inline(always)]
    #[must_use]
    pub fn can_write(self) -> bool {
        matches!(self, State::Exclusive | State::Modified)
    }

    /// Whether home has an older value.
    #[inline(always)]
    #[must_use]
    pub fn is_dirty(self) -> bool {
        matches!(self, State::Owned | State::Modified)
    }

    /// Whether the holder supplies the line when others ask for it, so that home counts on it.
    #[inline(always)]
    #[must_use]
    pub fn supplies(self) -> bool {
        !matches!(self, State::Invalid | State::Shared)
    }
}

/// The most children that a home can have.
pub const MOST_CHILDREN: usize = 256;

const WORDS: usize = MOST_CHILDREN / 64;

/// A set of children of a home, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Holders([u64; WORDS]);

impl Holders {
    /// Nobody.
    pub const NONE: Self = Self([0; WORDS]);

    /// The first `children` children.
    #[must_use]
    pub fn first(children: usize) -> Self {
        let mut all = Self::NONE;
        (0..children).for_each(|child| all.insert(child as u16));
        all
    }

    /// Adds `child`.
    #[inline]
    pub fn insert(&mut self, child: u16) {
        self.0[child as usize / 64] |= 1 << (child % 64);
    }

    /// Takes `child` out.
    #[inline]
    pub fn remove(&mut self, child: u16) {
        self.0[child as usize / 64] &= !(1 << (child % 64));
    }

    /// The same set with `child`.
    #[must_use]
    pub fn with(mut self, child: u16) -> Self {
        self.insert(child);
        self
    }

    /// The same set without `child`.
    #[must_use]
    pub fn without(mut self, child: u16) -> Self {
        self.remove(child);
        self
    }

    /// Whether `child` is in the set.
    #[inline]
    #[must_use]
    pub fn contains(self, child: u16) -> bool {
        self.0[child as usize / 64] >> (child % 64) & 1 != 0
    }

    /// Whether nobody is in the set.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// How many are in the set.
    #[must_use]
    pub fn count(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// All of the set, in ascending order.
    pub fn iter(mut self) -> impl Iterator<Item = u16> {
        std::iter::from_fn(move || {
            let word = self.0.iter().position(|&bits| bits != 0)?;
            let bit = self.0[word].trailing_zeros();
            self.0[word] &= self.0[word] - 1;
            Some(word as u16 * 64 + bit as u16)
        })
    }
}
