//! What other threads cannot come to before one lets them.
//!
//! A thread lets others come to a cell by a write that has to stand after all that it does before: there is a fence between, or it
//! releases. If no other thread can come to the cell before, then what the thread does there now may come first, and need not come
//! late: what others do there stands after that write. There are two reasons why a thread cannot come to a cell.
//!
//! - **It has no address.** Of every write it is learnt which value it leaves, and the origin of that value (`origin.rs`). So it
//!   is known from where a thread can have the address of what it accesses: it holds it, it reads it in memory, or another
//!   thread writes it, which holds it or reads it in turn. Who reads an address stands after what wrote it. So a node is as good
//!   as private while its thread sets it up, though others write to it later.
//! - **It waits** for what none can write that does not wait itself. What it does after the wait depends on it: its writes by the
//!   branch, and its loads by a fence, or else they are among those that may read what is old (`local.rs`). So is a section while
//!   its holder is inside, and all others wait.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use crate::cells::Cells;
use crate::found::MOST_THREADS;
use crate::future::{Fact, Masks};
use crate::local::Wait;
use crate::memory::{Location, Memory};
use crate::origin::{Origin, Origins, UNKNOWN};
use crate::program::Program;
use crate::thread::Thread;

/// What a thread wrote somewhere, as the origin that it is for who reads it, and the origin of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Written {
    thread: u8,
    what: Origin,
    of: Origin,
}

/// The same, by positions in [`Reach::origins`].
#[derive(Clone, Copy, Debug)]
struct Gives {
    thread: usize,
    what: usize,
    /// None, if the thread may have it without reading anything.
    of: Option<usize>,
    cell: u128,
}

/// All that was written, and what follows from it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    written: FxHashSet<Written>,
    /// Those that addresses come from, at last: by number.
    origins: Vec<(Origin, Location, u64)>,
    gives: Vec<Gives>,
    /// By thread and the bit of a cell, origins of addresses there; none, if there is one that is unknown.
    addresses: FxHashMap<(usize, u32), Option<SmallVec<[usize; 8]>>>,
}

impl Reach {
    /// Notes that `thread` wrote that. Whether it matters, and is new.
    pub(crate) fn learn(&mut self, thread: u8, what: Origin, of: Origin) -> bool {
        what != UNKNOWN
            && self.written.insert(Written { thread, what, of })
            && self.position(what).is_some()
    }

    fn position(&self, what: Origin) -> Option<usize> {
        let found = self.origins.binary_search_by_key(&what, |origin| origin.0);
        found.ok()
    }

    /// Draws all conclusions. `bits` has a number for each shared cell.
    pub(crate) fn conclude(
        &mut self,
        facts: &FxHashSet<Fact>,
        bits: &FxHashMap<u64, u32>,
        origins: &Origins,
        cells: &Cells,
    ) {
        let mut written: Vec<Written> = self.written.iter().copied().collect();
        written.sort_unstable();
        let mut all: FxHashSet<Origin> = facts.iter().map(|fact| fact.origin).collect();
        loop {
            let more = written.iter().filter(|it| all.contains(&it.what));
            let more: Vec<Origin> = more.map(|it| it.of).collect();
            let before = all.len();
            all.extend(more);
            if all.len() == before {
                break;
            }
        }
        all.remove(&UNKNOWN);
        let named = origins.named();
        self.origins = all.iter().map(|&n| (n, named[&n].0, named[&n].1)).collect();
        self.origins.sort_unstable();
        let bit = |cell: Location| bits.get(&cell.addr).copied();
        self.gives = written
            .iter()
            .filter_map(|it| {
                let what = self.position(it.what)?;
                Some(Gives {
                    thread: usize::from(it.thread),
                    what,
                    of: self.position(it.of),
                    cell: bit(self.origins[what].1).map_or(u128::MAX, |bit| 1 << bit),
                })
            })
            .collect();
        self.addresses.clear();
        for fact in facts {
            for cell in cells.of(fact.location) {
                let Some(bit) = bit(cell) else { continue };
                let position = self.position(fact.origin);
                let key = (usize::from(fact.thread), bit);
                let known = self.addresses.entry(key).or_insert(Some(SmallVec::new()));
                match (known.as_mut(), position) {
                    (Some(known), Some(position)) => known.push(position),
                    _ => *known = None,
                }
            }
        }
    }

    /// Whether no other thread can come to `cells` before thread `number` lets it.
    pub(crate) fn hides(&self, number: usize, cells: u128, now: &Now<'_>) -> bool {
        let others = || (0..now.ahead.len()).filter(|&n| n != number);
        let moves = now.moving(number);
        // The last bit may be of several cells.
        if cells >> 127 != 0 {
            return false;
        }
        let mut addresses: SmallVec<[&[usize]; 8]> = SmallVec::new();
        for other in others() {
            let mut left = match now.waits[other] {
                Some(wait) if !moves[other] => cells & (wait.awaited | wait.accesses | wait.old),
                _ => cells & now.ahead[other].any,
            };
            while left != 0 {
                let Some(Some(known)) = self.addresses.get(&(other, left.trailing_zeros())) else {
                    return false;
                };
                addresses.push(known);
                left &= left - 1;
            }
        }
        if addresses.is_empty() {
            return true;
        }
        let mut reached: SmallVec<[bool; 64]> = smallvec![false; self.origins.len()];
        for (reached, &(_, cell, value)) in reached.iter_mut().zip(&self.origins) {
            *reached = now.memory.has(now.program, cell, value);
        }
        for other in others() {
            let thread = &now.threads[other];
            let own = thread.own_origins.iter().map(|own| own.1);
            for position in thread.origins.iter().copied().chain(own) {
                if let Some(position) = self.position(position) {
                    reached[position] = true;
                }
            }
        }
        loop {
            let mut changed = false;
            for it in &self.gives {
                let may = now.writes(number, it.thread, moves[it.thread]) & it.cell != 0
                    && (it.thread == number || it.of.is_none_or(|of| reached[of]));
                changed |= may && !std::mem::replace(&mut reached[it.what], true);
            }
            if !changed {
                break;
            }
        }
        !addresses
            .iter()
            .any(|from| from.iter().any(|&at| reached[at]))
    }
}

/// A state.
pub(crate) struct Now<'a> {
    /// What each thread may still do.
    pub(crate) ahead: &'a [Masks],
    pub(crate) threads: &'a [Rc<Thread>],
    pub(crate) waits: &'a [Option<Wait>],
    pub(crate) memory: &'a Memory,
    pub(crate) program: &'a Program,
}

impl Now<'_> {
    /// The cells that `other`, which `moves` or waits, may write to before thread `number` lets it.
    fn writes(&self, number: usize, other: usize, moves: bool) -> u128 {
        match self.waits[other] {
            _ if other == number => self.ahead[other].hasty,
            Some(wait) if !moves => wait.accesses,
            _ => self.ahead[other].writes,
        }
    }

    /// The threads whose waits may end before thread `number` lets them, and those that do not wait.
    fn moving(&self, number: usize) -> SmallVec<[bool; MOST_THREADS]> {
        let mut moves: SmallVec<[bool; MOST_THREADS]> =
            self.waits.iter().map(Option::is_none).collect();
        loop {
            let all = moves.iter().enumerate();
            let written = all.fold(0, |all, (n, &moves)| all | self.writes(number, n, moves));
            let wakes = |wait: &Option<Wait>| wait.is_some_and(|wait| wait.awaited & written != 0);
            let mut changed = false;
            for (moves, wait) in moves.iter_mut().zip(self.waits) {
                changed |= wakes(wait) && !std::mem::replace(moves, true);
            }
            if !changed {
                return moves;
            }
        }
    }
}
