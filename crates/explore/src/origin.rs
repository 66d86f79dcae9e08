//! From where a thread can have the address of what it loads.
//!
//! The *origin* of a value is something that was read to compute it: a cell, and what was read there. Registers keep that of
//! the value that they hold, and so does what a thread stores where no other thread looks. Of several it is any: each had to
//! be read. Of what was read from an own store that others may not see yet it is unknown, as it is of constants.
//!
//! Of every load it is learnt which origins its address has (`future.rs`). If none of them is unknown, the thread cannot load
//! there before it has read one of them: it holds what was computed from it, or it is a message that is in memory, or one that
//! is still to come. Its address then depends on that message, so the load stands after it, and reads nothing that was
//! replaced before. So what a thread writes before it shows others where is as good as new to them: the node of a queue before
//! its address is in the queue.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::cells::Cells;
use crate::future::Fact;
use crate::memory::{Location, Memory, Time};
use crate::program::Program;
use crate::thread::Thread;

/// The number of a cell with what was read there.
pub(crate) type Origin = u16;

/// Of a value that may have been there without anything being read.
pub(crate) const UNKNOWN: Origin = 0;

/// The origin of what is computed from two values.
pub(crate) fn either(one: Origin, other: Origin) -> Origin {
    if one == UNKNOWN { other } else { one }
}

/// Where a thread may load only by addresses of these origins.
#[derive(Clone, Debug)]
struct Rule {
    bit: u32,
    /// Positions in [`Rules::origins`].
    origins: SmallVec<[u16; 8]>,
}

/// The rules of one thread.
#[derive(Clone, Debug, Default)]
struct Rules {
    rules: Vec<Rule>,
    /// By number.
    origins: Vec<(Origin, Location, u64)>,
}

/// All origins that were met, and what follows from them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    numbers: FxHashMap<(Location, u64), Origin>,
    threads: Vec<Rules>,
}

/// The earliest times at which loads of a thread can still stand, by the bits of cells.
#[derive(Clone, Debug)]
pub(crate) struct Lowest(SmallVec<[(u128, Time); 8]>);

impl Lowest {
    /// Of loads from one cell.
    pub(crate) fn of(&self, cell: u128) -> Time {
        let found = self.0.iter().find(|&&(bit, _)| bit & cell != 0);
        found.map_or(0, |&(_, time)| time)
    }

    pub(crate) fn change(&mut self, change: impl Fn(&mut Time)) {
        self.0.iter_mut().for_each(|(_, time)| change(time));
    }
}

impl Origins {
    /// That of what was read in `cell`.
    pub(crate) fn of(&mut self, cell: Location, value: u64) -> Origin {
        let next = Origin::try_from(self.numbers.len() + 1).unwrap_or(UNKNOWN);
        match next {
            UNKNOWN => self.numbers.get(&(cell, value)).copied().unwrap_or(UNKNOWN),
            _ => *self.numbers.entry((cell, value)).or_insert(next),
        }
    }

    /// What has which number.
    pub(crate) fn named(&self) -> FxHashMap<Origin, (Location, u64)> {
        self.numbers.iter().map(|(&what, &n)| (n, what)).collect()
    }

    /// Draws all conclusions. `bits` has a number for each shared cell.
    pub(crate) fn conclude(
        &mut self,
        facts: &FxHashSet<Fact>,
        bits: &FxHashMap<u64, u32>,
        program: &Program,
        cells: &Cells,
    ) {
        let named = self.named();
        self.threads.clear();
        for thread in 0..program.threads.len() {
            let mut of: FxHashMap<u32, FxHashSet<Origin>> = FxHashMap::default();
            let own = facts
                .iter()
                .filter(|fact| usize::from(fact.thread) == thread && fact.loads);
            for fact in own {
                for cell in cells.of(fact.location) {
                    if let Some(&bit) = bits.get(&cell.addr) {
                        of.entry(bit).or_default().insert(fact.origin);
                    }
                }
            }
            // The last bit may be of several cells.
            of.retain(|&bit, origins| bit < 127 && !origins.contains(&UNKNOWN));
            let mut rules = Rules::default();
            let all: FxHashSet<Origin> = of.values().flatten().copied().collect();
            rules.origins = all.iter().map(|&n| (n, named[&n].0, named[&n].1)).collect();
            rules.origins.sort_unstable();
            let position = |n: &Origin| rules.origins.partition_point(|o| o.0 < *n) as u16;
            rules.rules = of
                .iter()
                .map(|(&bit, origins)| Rule {
                    bit,
                    origins: origins.iter().map(position).collect(),
                })
                .collect();
            rules.rules.sort_unstable_by_key(|rule| rule.bit);
            self.threads.push(rules);
        }
    }

    /// When loads of `thread` can still stand at the earliest.
    pub(crate) fn lowest(
        &self,
        number: usize,
        thread: &Thread,
        memory: &Memory,
        program: &Program,
    ) -> Lowest {
        let mut lowest = Lowest(SmallVec::new());
        let Some(rules) = self.threads.get(number) else {
            return lowest;
        };
        let mut found: SmallVec<[Time; 32]> = SmallVec::new();
        for &(_, cell, value) in &rules.origins {
            let base = memory.base(cell);
            let (first, time) = base.map_or_else(
                || (program.initial(cell), 0),
                |base| (base.value, base.time),
            );
            let mut when = (1..=memory.end()).filter(|&time| {
                let message = memory.at(time);
                message.location.overlaps(cell)
                    && message.location.part(message.value, cell) == value
            });
            found.push(match first == value {
                true => time,
                false => when.next().unwrap_or(Time::MAX),
            });
        }
        let mut holds = |origin: Origin, view| {
            if origin != UNKNOWN
                && let Ok(at) = rules.origins.binary_search_by_key(&origin, |o| o.0)
            {
                found[at] = found[at].min(view);
            }
        };
        for (&origin, &view) in thread.origins.iter().zip(&thread.reg_views) {
            holds(origin, view);
        }
        for &(_, origin) in &thread.own_origins {
            holds(origin, 0);
        }
        for rule in &rules.rules {
            let time = rule.origins.iter().map(|&at| found[usize::from(at)]).min();
            let time = time.unwrap_or(0);
            if time != 0 {
                lowest.0.push((1 << rule.bit, time));
            }
        }
        lowest
    }
}
