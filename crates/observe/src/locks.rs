//! What locks cost whom: waits, sections and hand-overs, from the probes of a program.

use std::collections::BTreeMap;

use loiter_types::{Cycle, HartId};

use crate::durations::Durations;
use crate::recorder::{Moment, OTHER_LOCKS};

/// One hart's use of one lock from one place of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockUse {
    /// From the beginning of each acquire to its end.
    pub waits: Durations,
    /// From the end of each acquire to the release.
    pub holds: Durations,
    /// From a release to the end of the acquire of this hart, which was waiting by then, where that came next.
    pub handovers: Durations,
    /// Acquires that began while another hart held the lock.
    pub contended: u64,
    /// Acquires of a lock that another hart had acquired last.
    pub moved: u64,
}

/// Who uses a lock from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockUser {
    /// Address of the lock, or [`OTHER_LOCKS`].
    pub lock: u64,
    /// Address of the program's probe that begins the acquire.
    pub site: u64,
    /// The hart.
    pub hart: HartId,
}

/// Rows that are kept apart; further ones are counted together, by hart. A program may name any number of locks.
const MOST_USERS: usize = 1 << 16;
/// Locks whose state is kept; of further ones nothing is counted.
const MOST_LOCKS: usize = 1 << 16;

/// A hart that acquires a lock, or has it.
#[derive(Clone, Copy, Debug)]
struct Acquire {
    site: u64,
    began: Cycle,
    contended: bool,
    acquired: Option<Cycle>,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    /// Harts that have it: one, or some that read.
    holders: usize,
    last_holder: Option<HartId>,
    /// The last release, unless somebody has acquired it since.
    released: Option<Cycle>,
    /// Harts that acquire it or have it.
    uses: BTreeMap<HartId, Acquire>,
}

/// Follows all locks of a program.
///
/// Where the program has a region of interest, only what ends in it is counted.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    locks: BTreeMap<u64, Lock>,
    rows: BTreeMap<LockUser, LockUse>,
    is_over: bool,
}

impl Locks {
    /// Uses of locks, by lock, place and hart.
    pub fn uses(&self) -> impl Iterator<Item = (&LockUser, &LockUse)> {
        self.rows.iter()
    }

    /// The region of interest begins: what has been counted was before it.
    pub(crate) fn begin_region(&mut self) {
        self.rows.clear();
    }

    /// The region of interest ends.
    pub(crate) fn end_region(&mut self) {
        self.is_over = true;
    }

    fn lock(&mut self, lock: u64) -> Option<&mut Lock> {
        let is_known = self.locks.contains_key(&lock);
        (is_known || self.locks.len() < MOST_LOCKS).then(|| self.locks.entry(lock).or_default())
    }

    fn count(&mut self, mut user: LockUser, count: impl FnOnce(&mut LockUse)) {
        if self.is_over {
            return;
        }
        if self.rows.len() >= MOST_USERS && !self.rows.contains_key(&user) {
            (user.lock, user.site) = (OTHER_LOCKS, 0);
        }
        count(self.rows.entry(user).or_default());
    }

    /// A hart begins to acquire `lock`.
    pub(crate) fn acquire(&mut self, moment: Moment, lock: u64) {
        let Some(lock) = self.lock(lock) else { return };
        let acquire = Acquire {
            site: moment.pc,
            began: moment.cycle,
            contended: lock.holders > 0,
            acquired: None,
        };
        lock.uses.insert(moment.hart, acquire);
    }

    /// A hart has got `lock`. Without an acquire before, it has not waited, and the place is that of this probe.
    pub(crate) fn acquired(&mut self, moment: Moment, address: u64) {
        let Moment {
            hart,
            cycle: now,
            pc,
            ..
        } = moment;
        let Some(lock) = self.lock(address) else {
            return;
        };
        let acquire = lock.uses.entry(hart).or_insert(Acquire {
            site: pc,
            began: now,
            contended: false,
            acquired: None,
        });
        acquire.acquired = Some(now);
        let Acquire {
            site,
            began,
            contended,
            ..
        } = *acquire;
        lock.holders += 1;
        let released = lock.released.take().filter(|&at| began <= at);
        let moved = lock
            .last_holder
            .replace(hart)
            .is_some_and(|last| last != hart);
        let user = LockUser {
            lock: address,
            site,
            hart,
        };
        self.count(user, |row| {
            row.waits.add(now.since(began));
            row.contended += u64::from(contended);
            row.moved += u64::from(moved);
            if let Some(at) = released {
                row.handovers.add(now.since(at));
            }
        });
    }

    /// A hart is about to release `lock`.
    pub(crate) fn released(&mut self, moment: Moment, address: u64) {
        let Moment {
            hart, cycle: now, ..
        } = moment;
        let Some(lock) = self.lock(address) else {
            return;
        };
        let Some(acquired) = lock.uses.get(&hart).and_then(|acquire| acquire.acquired) else {
            return;
        };
        let site = lock.uses.remove(&hart).map_or(0, |acquire| acquire.site);
        lock.holders -= 1;
        lock.released = (lock.holders == 0).then_some(now);
        let user = LockUser {
            lock: address,
            site,
            hart,
        };
        self.count(user, |row| row.holds.add(now.since(acquired)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: u64 = 0x8000_1000;
    const SITE: u64 = 0x8000_0040;
    const OTHER_SITE: u64 = 0x8000_0080;

    fn at(hart: u16, cycle: u64, pc: u64) -> Moment {
        Moment {
            hart: HartId(hart),
            cycle: Cycle(cycle),
            retired: 0,
            pc,
        }
    }

    fn row(locks: &Locks, site: u64, hart: u16) -> LockUse {
        let user = LockUser {
            lock: LOCK,
            site,
            hart: HartId(hart),
        };
        let found = locks.uses().find(|(found, _)| **found == user);
        found.expect("it has been used").1.clone()
    }

    #[test]
    fn a_waiter_gets_the_lock_some_cycles_after_its_release() {
        let mut locks = Locks::default();
        locks.acquire(at(0, 100, SITE), LOCK);
        locks.acquired(at(0, 103, SITE + 8), LOCK);
        locks.acquire(at(1, 110, OTHER_SITE), LOCK);
        locks.released(at(0, 150, 0), LOCK);
        locks.acquired(at(1, 162, OTHER_SITE + 8), LOCK);
        locks.released(at(1, 200, 0), LOCK);
        // Nobody waits: no hand-over, though it comes from another hart.
        locks.acquire(at(0, 300, SITE), LOCK);
        locks.acquired(at(0, 309, SITE + 8), LOCK);
        let first = row(&locks, SITE, 0);
        assert_eq!((first.waits.count, first.waits.sum_cycles), (2, 3 + 9));
        assert_eq!((first.waits.min_cycles, first.waits.max_cycles), (3, 9));
        assert_eq!((first.holds.count, first.holds.sum_cycles), (1, 47));
        assert_eq!((first.contended, first.moved), (0, 1));
        assert_eq!(first.handovers, Durations::default());
        let second = row(&locks, OTHER_SITE, 1);
        assert_eq!((second.waits.sum_cycles, second.holds.sum_cycles), (52, 38));
        assert_eq!((second.contended, second.moved), (1, 1));
        assert_eq!(
            (second.handovers.count, second.handovers.sum_cycles),
            (1, 12)
        );
        assert_eq!(second.handovers.log2_histogram, [0, 0, 0, 1]);
    }

    #[test]
    fn readers_hold_it_together() {
        let mut locks = Locks::default();
        for hart in 0..2 {
            locks.acquire(at(hart, 10, SITE), LOCK);
            locks.acquired(at(hart, 20 + u64::from(hart), SITE), LOCK);
        }
        locks.acquire(at(2, 30, SITE), LOCK);
        locks.released(at(0, 40, 0), LOCK);
        locks.released(at(1, 50, 0), LOCK);
        locks.acquired(at(2, 57, SITE), LOCK);
        // It counts from the release of the last.
        assert_eq!(row(&locks, SITE, 2).handovers.sum_cycles, 7);
        assert_eq!(row(&locks, SITE, 1).holds.sum_cycles, 29);
    }

    #[test]
    fn only_the_region_of_interest_counts() {
        let mut locks = Locks::default();
        locks.acquire(at(0, 1, SITE), LOCK);
        locks.acquired(at(0, 2, SITE), LOCK);
        locks.begin_region();
        locks.released(at(0, 12, 0), LOCK);
        locks.acquire(at(0, 20, SITE), LOCK);
        locks.acquired(at(0, 21, SITE), LOCK);
        locks.end_region();
        locks.released(at(0, 33, 0), LOCK);
        let row = row(&locks, SITE, 0);
        assert_eq!((row.waits.count, row.holds.count), (1, 1));
        assert_eq!(row.holds.sum_cycles, 10);
    }

    #[test]
    fn a_release_of_what_nobody_holds_counts_nothing() {
        let mut locks = Locks::default();
        locks.released(at(0, 5, 0), LOCK);
        locks.acquire(at(0, 6, SITE), LOCK);
        locks.released(at(0, 7, 0), LOCK);
        locks.acquired(at(0, 9, SITE), LOCK);
        let row = row(&locks, SITE, 0);
        assert_eq!((row.waits.sum_cycles, row.holds.count), (3, 0));
    }

    #[test]
    fn rows_without_end_are_counted_together() {
        let mut locks = Locks::default();
        for site in 0..MOST_USERS as u64 + 10 {
            locks.acquire(at(0, 1, site), LOCK);
            locks.acquired(at(0, 2, site), LOCK);
            locks.released(at(0, 3, 0), LOCK);
        }
        let rows: Vec<_> = locks.uses().collect();
        assert_eq!(rows.len(), MOST_USERS + 1);
        let (user, others) = rows.last().unwrap();
        assert_eq!((user.lock, others.waits.count), (OTHER_LOCKS, 10));
        // Locks without end: those beyond are not followed.
        for lock in 0..MOST_LOCKS as u64 + 10 {
            locks.acquire(at(0, 5, 0), lock);
        }
        assert_eq!(locks.locks.len(), MOST_LOCKS);
    }
}
