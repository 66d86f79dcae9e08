//! What a home decides about a request for a line: pure, without time and queues.
//!
//! ```text
//!                 Read: E, or S                     Own: M, all others lose
//!   nobody ---------------------> owner alone (E/M) <----------------------+
//!      ^                               | Read by another                   |
//!      | all have given it up          v                                   |
//!      +----------- owner (O/F) and sharers, or sharers only --------------+
//! ```
//!
//! The states are those that machines are said to have; who keeps what in which case is assumed. In particular the
//! newest sharer has the F state, and an owner keeps the O state when others read.

use serde::{Deserialize, Serialize};

use super::state::{Holders, State};

/// What a child asks its home for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Want {
    /// A copy to fetch instructions from.
    Fetch,
    /// A copy to read.
    Read,
    /// The only copy, to write.
    Own,
    /// The value only, once; who holds the line keeps it.
    Walk,
    /// An atomic that home performs; nobody holds the line afterwards.
    AtHome,
}

/// The states that a machine has beside M, S and I, and what its directory knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Protocol {
    /// E: a read of a line that nobody holds is granted the right to write.
    pub exclusive: bool,
    /// O: who has written a line keeps supplying it; home does not get the value.
    pub owned: bool,
    /// F: the newest sharer supplies the line.
    pub forward: bool,
    /// The directory knows the owner of a line, but of sharers only whether there are any: all children are told to
    /// give up a line that has some.
    pub broadcasts: bool,
}

/// Who holds a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Entry {
    /// The child that supplies the line: alone in E or M, or among sharers in O or F.
    pub owner: Option<u16>,
    /// The other children that may hold a copy.
    pub sharers: Holders,
}

impl Entry {
    /// Everybody who may hold a copy.
    #[must_use]
    pub fn holders(&self) -> Holders {
        self.owner
            .map_or(self.sharers, |owner| self.sharers.with(owner))
    }

    /// Whether nobody holds a copy.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owner.is_none() && self.sharers.is_empty()
    }

    /// `child` has given its copy up, or never had one.
    pub fn forget(&mut self, child: u16) {
        self.sharers.remove(child);
        if self.owner == Some(child) {
            self.owner = None;
        }
    }
}

/// Where the requester's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Supply {
    /// It has a copy already.
    Nobody,
    /// Home's cache, or what lies beyond it.
    Home,
    /// The copy of this child.
    Child(u16),
}

/// What the child that supplies a line keeps of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Keep {
    /// What it has.
    All,
    /// A copy to read.
    Copy,
    /// Nothing.
    Nothing,
}

/// A decision: what happens to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Step {
    /// Where the value comes from.
    pub supply: Supply,
    /// What the child that supplies it keeps.
    pub keep: Keep,
    /// Who gives up its copy, the child that supplies it not included.
    pub lose: Holders,
    /// What the requester holds then.
    pub grant: State,
    /// Who holds the line then.
    pub after: Entry,
}

/// What home knows when it decides.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Known {
    /// Who holds the line.
    pub entry: Entry,
    /// Whether home can supply the value if nobody must: its cache has it, or memory lies beyond.
    pub home_has: bool,
    /// Whether home may let a child write.
    pub may_write: bool,
    /// How many children there are.
    pub children: usize,
}

/// Decides about a request of child `from`, which has a readable copy if `has_copy`. Where home may not let a child
/// write, only [`Want::Fetch`], [`Want::Read`] and [`Want::Walk`] can be decided.
#[must_use]
pub fn step(protocol: Protocol, known: Known, from: u16, has_copy: bool, want: Want) -> Step {
    let entry = known.entry;
    match want {
        Want::Fetch | Want::Read => read(protocol, known, from, has_copy, want),
        Want::Walk => Step {
            supply: supplier(entry, known.home_has),
            keep: Keep::All,
            lose: Holders::NONE,
            grant: State::Invalid,
            after: entry,
        },
        Want::Own => {
            debug_assert!(known.may_write, "home must own what it grants");
            let holds = has_copy && entry.holders().contains(from);
            let mut others = entry;
            others.forget(from);
            debug_assert!(holds || entry.owner != Some(from), "an owner has a copy");
            let supply = match holds {
                true => Supply::Nobody,
                false => supplier(others, known.home_has),
            };
            Step {
                supply,
                keep: Keep::Nothing,
                lose: losers(protocol, known, supply).without(from),
                grant: State::Modified,
                after: Entry {
                    owner: Some(from),
                    sharers: Holders::NONE,
                },
            }
        }
        Want::AtHome => {
            debug_assert!(known.may_write, "home must own what it writes");
            let supply = supplier(entry, known.home_has);
            Step {
                supply,
                keep: Keep::Nothing,
                lose: losers(protocol, known, supply),
                grant: State::Invalid,
                after: Entry::default(),
            }
        }
    }
}

/// Who must give a line up so that home has the only copy.
#[must_use]
pub fn recall(protocol: Protocol, known: Known) -> Step {
    step(protocol, known, u16::MAX, false, Want::AtHome)
}

/// What happens when the line goes to somebody who is no child of this home, and its children keep what `keep` says.
#[must_use]
pub fn lend(protocol: Protocol, known: Known, keep: Keep) -> Step {
    let mut after = known.entry;
    if keep == Keep::Copy
        && !protocol.owned
        && let Some(owner) = after.owner.take()
    {
        after.sharers.insert(owner);
    }
    Step {
        supply: supplier(known.entry, known.home_has),
        keep,
        lose: Holders::NONE,
        grant: State::Invalid,
        after,
    }
}

/// A child that has a copy tells that another of its own has one as well, which matters where home knows no more of
/// sharers than whether there are any. What it may do then it works out itself.
fn told(protocol: Protocol, entry: Entry, from: u16) -> Step {
    let mut after = entry;
    if protocol.owned {
        after.sharers.insert(from);
    }
    Step {
        supply: Supply::Nobody,
        keep: Keep::All,
        lose: Holders::NONE,
        grant: State::Shared,
        after,
    }
}

fn read(protocol: Protocol, known: Known, from: u16, has_copy: bool, want: Want) -> Step {
    if has_copy && known.entry.holders().contains(from) {
        return told(protocol, known.entry, from);
    }
    debug_assert!(known.entry.owner != Some(from), "an owner has a copy");
    let mut others = known.entry;
    others.forget(from);
    let supply = supplier(others, known.home_has);
    let mut after = others;
    let fetches = want == Want::Fetch;
    let grant = if others.is_empty() && protocol.exclusive && known.may_write && !fetches {
        after.owner = Some(from);
        State::Exclusive
    } else {
        if !protocol.owned
            && let Some(owner) = after.owner.take()
        {
            after.sharers.insert(owner);
        }
        if protocol.forward && !fetches {
            after.owner = Some(from);
            State::Forward
        } else {
            after.sharers.insert(from);
            State::Shared
        }
    };
    Step {
        supply,
        keep: Keep::Copy,
        lose: Holders::NONE,
        grant,
        after,
    }
}

fn supplier(entry: Entry, home_has: bool) -> Supply {
    match entry.owner {
        Some(owner) => Supply::Child(owner),
        None if home_has => Supply::Home,
        // Home counts on its children where it has no value of its own.
        None => entry
            .sharers
            .iter()
            .next()
            .map_or(Supply::Home, Supply::Child),
    }
}

fn losers(protocol: Protocol, known: Known, supply: Supply) -> Holders {
    let holders = if protocol.broadcasts && !known.entry.sharers.is_empty() {
        Holders::first(known.children)
    } else {
        known.entry.holders()
    };
    match supply {
        Supply::Child(child) => holders.without(child),
        _ => holders,
    }
}

/// What a child has left of a copy in `state` that it supplies and keeps as [`Keep`] says, and whether home gets the
/// value because it has an older one.
#[must_use]
pub fn supplied(protocol: Protocol, state: State, keep: Keep) -> (State, bool) {
    match keep {
        Keep::All => (state, false),
        Keep::Nothing => (State::Invalid, state.is_dirty()),
        Keep::Copy => match state {
            State::Invalid | State::Shared => (state, false),
            State::Owned | State::Modified if protocol.owned => (State::Owned, false),
            State::Forward | State::Exclusive if protocol.owned => (State::Forward, false),
            _ => (State::Shared, state.is_dirty()),
        },
    }
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
