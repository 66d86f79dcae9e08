//! What locks cost whom: waits, sections and hand-overs, from the probes of a program, or its kernel's lock functions.

use std::collections::BTreeMap;

use loiter_types::{Cycle, HartId};
use serde::{Deserialize, Serialize};

use crate::durations::Durations;
use crate::recorder::{Moment, OTHER_LOCKS};

mod line;

/// One hart's use of one lock from one place of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockUse {
    /// From the beginning of each acquire to its end.
    pub waits: Durations,
    /// From the end of each acquire to the release.
    pub holds: Durations,
    /// From a release to the end of the acquire of this hart, which was waiting by then, where that came next.
    pub handovers: Durations,
    /// Those of [`Self::waits`] that were for a lock which somebody who would not share it held at the beginning, or got
    /// meanwhile.
    pub contended_waits: Durations,
    /// Acquires of a lock that another hart had acquired last.
    pub moved: u64,
}

/// Who uses a lock from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LockUser {
    /// Address of the lock, or [`OTHER_LOCKS`].
    pub lock: u64,
    /// Where the acquire begins: address of the program's probe, or where the lock function returns to.
    pub site: u64,
    /// The hart.
    pub hart: HartId,
}

/// Who has a lock or waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Owner {
    /// A hart.
    Hart(HartId),
    /// A task of the guest's kernel, by its address; it may continue on another hart.
    Task(u64),
}

/// Whether others may have the lock too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Nobody else.
    Exclusive,
    /// Others that share it.
    Shared,
    /// Nobody says.
    Unsaid,
}

/// A lock, and who has it or wants it how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Address of the lock.
    pub lock: u64,
    /// Who.
    pub owner: Owner,
    /// How.
    pub access: Access,
}

/// Rows that are kept apart; further ones are counted together, by hart. A program may name any number of locks.
const MOST_USERS: usize = 1 << 16;
/// Locks whose state is kept. When there are more, those are forgotten that nobody has or waits for; if hardly any are, of
/// further ones nothing is counted.
const MOST_LOCKS: usize = 1 << 16;

/// Who acquires a lock, or has it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Acquire {
    owner: Owner,
    access: Access,
    /// The hart, and where it began.
    hart: HartId,
    site: u64,
    began: Cycle,
    contended: bool,
    /// What [`Lock::obstacles`] were then.
    obstacles: u64,
    acquired: Option<Cycle>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Lock {
    /// How often it has been acquired, and how often to be shared.
    acquires: u64,
    shared_acquires: u64,
    last_holder: Option<HartId>,
    /// Acquires that ended while others waited: of who had begun first, and of others.
    in_line: u64,
    overtakes: u64,
    /// The last release, unless somebody has acquired it since.
    released: Option<Cycle>,
    /// Who acquires it or has it, in order. A reader may have it more than once.
    uses: Vec<Acquire>,
}

impl Lock {
    fn is_held(&self) -> bool {
        self.uses.iter().any(|each| each.acquired.is_some())
    }

    /// The last acquire of `owner` that has ended, or that has not.
    fn last(&self, owner: Owner, has_ended: bool) -> Option<usize> {
        let of_owner = |each: &Acquire| each.owner == owner && each.acquired.is_some() == has_ended;
        self.uses.iter().rposition(of_owner)
    }

    /// How often it has been acquired in a way that an acquire with this `access` has to wait for.
    fn obstacles(&self, access: Access) -> u64 {
        match access {
            Access::Shared => self.acquires - self.shared_acquires,
            Access::Exclusive | Access::Unsaid => self.acquires,
        }
    }

    /// Whether an acquire with this `access` has to wait.
    fn keeps_out(&self, access: Access) -> bool {
        let both_share = |each: &Acquire| [access, each.access] == [Access::Shared; 2];
        let keeps_out = |each: &Acquire| each.acquired.is_some() && !both_share(each);
        self.uses.iter().any(keeps_out)
    }
}

/// Follows all locks of a program.
///
/// Where the program has a region of interest, only what ends in it is counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Locks {
    locks: BTreeMap<u64, Lock>,
    rows: BTreeMap<LockUser, LockUse>,
    is_over: bool,
    is_suspended: bool,
    /// Most locks are had or waited for: to look for others once more is not worth it.
    is_full: bool,
}

impl Locks {
    /// Uses of locks, by lock, place and hart.
    pub fn uses(&self) -> impl Iterator<Item = (&LockUser, &LockUse)> {
        self.rows.iter()
    }

    /// The region of interest begins: what has been counted was before it.
    pub fn begin_region(&mut self) {
        self.rows.clear();
    }

    /// The region of interest ends.
    pub fn end_region(&mut self) {
        self.is_over = true;
    }

    /// Nothing has been counted, and no region of interest has ended: who has which lock, and who waits, stays known.
    pub fn forget_counts(&mut self) {
        self.rows.clear();
        self.is_over = false;
    }

    /// Whether what ends from now on is not counted, though locks are followed.
    pub fn suspend(&mut self, is_suspended: bool) {
        self.is_suspended = is_suspended;
    }

    fn lock(&mut self, lock: u64) -> Option<&mut Lock> {
        let is_known = self.locks.contains_key(&lock);
        if !is_known && self.locks.len() >= MOST_LOCKS && !self.is_full {
            self.locks.retain(|_, each| !each.uses.is_empty());
            self.is_full = self.locks.len() > MOST_LOCKS / 2;
        }
        (is_known || self.locks.len() < MOST_LOCKS).then(|| self.locks.entry(lock).or_default())
    }

    fn count(&mut self, mut user: LockUser, count: impl FnOnce(&mut LockUse)) {
        if self.is_over || self.is_suspended {
            return;
        }
        if self.rows.len() >= MOST_USERS && !self.rows.contains_key(&user) {
            (user.lock, user.site) = (OTHER_LOCKS, 0);
        }
        count(self.rows.entry(user).or_default());
    }

    /// The owner begins to acquire the lock.
    pub fn acquire(&mut self, moment: Moment, claim: Claim) {
        let Some(lock) = self.lock(claim.lock) else {
            return;
        };
        if let Some(stale) = lock.last(claim.owner, false) {
            lock.uses.remove(stale);
        }
        lock.uses.push(Acquire {
            owner: claim.owner,
            access: claim.access,
            hart: moment.hart,
            site: moment.pc,
            began: moment.cycle,
            contended: lock.keeps_out(claim.access),
            obstacles: lock.obstacles(claim.access),
            acquired: None,
        });
    }

    /// The owner has got the lock. Without an acquire before, it has not waited, and the place is that of `moment`.
    pub fn acquired(&mut self, moment: Moment, claim: Claim) {
        let Moment {
            hart,
            cycle: now,
            pc,
            ..
        } = moment;
        let Some(lock) = self.lock(claim.lock) else {
            return;
        };
        let begun = lock.last(claim.owner, false);
        lock.count_order(begun);
        let begun = begun.map(|at| lock.uses.remove(at)).unwrap_or(Acquire {
            owner: claim.owner,
            access: claim.access,
            hart,
            site: pc,
            began: now,
            contended: false,
            obstacles: lock.obstacles(claim.access),
            acquired: None,
        });
        let contended = begun.contended || lock.obstacles(claim.access) > begun.obstacles;
        lock.acquires += 1;
        lock.shared_acquires += u64::from(claim.access == Access::Shared);
        if claim.access == Access::Exclusive {
            // Owners whose release was not seen have it no more.
            lock.uses.retain(|each| each.acquired.is_none());
        }
        if claim.access == Access::Unsaid
            && let Some(at) = lock.last(claim.owner, true)
        {
            // Likewise: a program may say nothing of releases.
            lock.uses.remove(at);
        }
        lock.uses.push(Acquire {
            hart,
            acquired: Some(now),
            ..begun
        });
        // Turns of the reference engine are of the same time: an acquire may end before the release that let it.
        let released = lock.released.take();
        let released = released.filter(|&at| (begun.began..=now).contains(&at));
        let moved = lock
            .last_holder
            .replace(hart)
            .is_some_and(|last| last != hart);
        let user = LockUser {
            lock: claim.lock,
            site: begun.site,
            hart,
        };
        self.count(user, |row| {
            let waited = elapsed(begun.began, now);
            row.waits.add(waited);
            if contended {
                row.contended_waits.add(waited);
            }
            row.moved += u64::from(moved);
            if let Some(at) = released {
                row.handovers.add(now.since(at));
            }
        });
    }

    /// The owner gives up an acquire.
    pub fn abandoned(&mut self, claim: Claim) {
        if let Some(lock) = self.locks.get_mut(&claim.lock)
            && let Some(at) = lock.last(claim.owner, false)
        {
            lock.uses.remove(at);
        }
    }

    /// The owner, which has the lock for itself, lets others share it.
    pub fn shared(&mut self, claim: Claim) {
        if let Some(lock) = self.locks.get_mut(&claim.lock)
            && let Some(at) = lock.last(claim.owner, true)
        {
            lock.uses[at].access = Access::Shared;
        }
    }

    /// The owner is about to release the lock. Returns whether it has been seen to acquire it.
    pub fn released(&mut self, moment: Moment, claim: Claim) -> bool {
        let now = moment.cycle;
        let Some(lock) = self.locks.get_mut(&claim.lock) else {
            return false;
        };
        let Some(at) = lock.last(claim.owner, true) else {
            return false;
        };
        let held = lock.uses.remove(at);
        lock.released = (!lock.is_held()).then_some(now);
        let user = LockUser {
            lock: claim.lock,
            site: held.site,
            hart: held.hart,
        };
        let acquired = held.acquired.unwrap_or(now);
        self.count(user, |row| row.holds.add(elapsed(acquired, now)));
        true
    }
}

/// The time between two moments of a task; on different harts in one turn of the reference engine, the later may have
/// the lesser time.
fn elapsed(from: Cycle, to: Cycle) -> u64 {
    to.max(from).since(from)
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

    fn of(hart: u16, lock: u64) -> Claim {
        Claim {
            lock,
            owner: Owner::Hart(HartId(hart)),
            access: Access::Unsaid,
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
        locks.acquire(at(0, 100, SITE), of(0, LOCK));
        locks.acquired(at(0, 103, SITE + 8), of(0, LOCK));
        locks.acquire(at(1, 110, OTHER_SITE), of(1, LOCK));
        locks.released(at(0, 150, 0), of(0, LOCK));
        locks.acquired(at(1, 162, OTHER_SITE + 8), of(1, LOCK));
        locks.released(at(1, 200, 0), of(1, LOCK));
        // Nobody waits: no hand-over, though it comes from another hart.
        locks.acquire(at(0, 300, SITE), of(0, LOCK));
        locks.acquired(at(0, 309, SITE + 8), of(0, LOCK));
        let first = row(&locks, SITE, 0);
        assert_eq!((first.waits.count, first.waits.sum_cycles), (2, 3 + 9));
        assert_eq!((first.waits.min_cycles, first.waits.max_cycles), (3, 9));
        assert_eq!((first.holds.count, first.holds.sum_cycles), (1, 47));
        assert_eq!((first.contended_waits.count, first.moved), (0, 1));
        assert_eq!(first.handovers, Durations::default());
        let second = row(&locks, OTHER_SITE, 1);
        assert_eq!((second.waits.sum_cycles, second.holds.sum_cycles), (52, 38));
        assert_eq!((second.contended_waits.count, second.moved), (1, 1));
        assert_eq!(first.contended_waits, Durations::default());
        assert_eq!(second.contended_waits, second.waits);
        assert_eq!(
            (second.handovers.count, second.handovers.sum_cycles),
            (1, 12)
        );
        assert_eq!(second.handovers.log2_histogram, [0, 0, 0, 1]);
    }

    #[test]
    fn a_program_need_not_tell_of_releases() {
        let mut locks = Locks::default();
        for cycle in [10, 20, 30] {
            locks.acquire(at(0, cycle, SITE), of(0, LOCK));
            locks.acquired(at(0, cycle + 5, SITE), of(0, LOCK));
        }
        assert_eq!(locks.locks[&LOCK].uses.len(), 1);
        let waits = row(&locks, SITE, 0).waits;
        assert_eq!(waits.log2_histogram, [0, 0, 3]);
        assert_eq!(waits.log2_sums_cycles, [0, 0, 15]);
    }

    #[test]
    fn readers_hold_it_together() {
        let mut locks = Locks::default();
        for hart in 0..2 {
            locks.acquire(at(hart, 10, SITE), of(hart, LOCK));
            locks.acquired(at(hart, 20 + u64::from(hart), SITE), of(hart, LOCK));
        }
        locks.acquire(at(2, 30, SITE), of(2, LOCK));
        locks.released(at(0, 40, 0), of(0, LOCK));
        locks.released(at(1, 50, 0), of(1, LOCK));
        locks.acquired(at(2, 57, SITE), of(2, LOCK));
        // It counts from the release of the last.
        assert_eq!(row(&locks, SITE, 2).handovers.sum_cycles, 7);
        assert_eq!(row(&locks, SITE, 1).holds.sum_cycles, 29);
    }

    #[test]
    fn a_reader_does_not_contend_with_readers() {
        let reader = |hart| Claim {
            access: Access::Shared,
            ..of(hart, LOCK)
        };
        let writer = Claim {
            access: Access::Exclusive,
            ..of(2, LOCK)
        };
        let mut locks = Locks::default();
        // Hart 0 has it twice, as an interrupt handler reads what it interrupted the reader of.
        for (cycle, hart) in [(10, 0), (11, 0), (12, 1)] {
            locks.acquire(at(hart, cycle, SITE), reader(hart));
            locks.acquired(at(hart, cycle + 5, SITE), reader(hart));
        }
        locks.acquire(at(2, 20, SITE), writer);
        for (cycle, hart) in [(30, 0), (40, 1), (50, 0)] {
            assert!(locks.released(at(hart, cycle, 0), reader(hart)));
        }
        locks.acquired(at(2, 54, SITE), writer);
        assert_eq!(
            [0, 1].map(|hart| row(&locks, SITE, hart).contended_waits.count),
            [0, 0]
        );
        assert_eq!(row(&locks, SITE, 0).holds.sum_cycles, (30 - 16) + (50 - 15));
        let wrote = row(&locks, SITE, 2);
        assert_eq!(
            (wrote.contended_waits.count, wrote.handovers.sum_cycles),
            (1, 4)
        );
        // It lets readers in, and one that was waiting has no part in that.
        locks.shared(writer);
        locks.acquire(at(0, 60, OTHER_SITE), reader(0));
        locks.acquired(at(0, 61, OTHER_SITE), reader(0));
        assert_eq!(row(&locks, OTHER_SITE, 0).contended_waits.count, 0);
    }

    #[test]
    fn who_comes_between_release_and_next_acquire_contends_if_others_come_first() {
        let mut locks = Locks::default();
        for hart in 0..2 {
            locks.acquire(at(hart, 10, SITE), of(hart, LOCK));
        }
        locks.acquired(at(0, 20, SITE), of(0, LOCK));
        locks.released(at(0, 30, 0), of(0, LOCK));
        locks.acquired(at(1, 33, SITE), of(1, LOCK));
        assert_eq!(
            [0, 1].map(|hart| row(&locks, SITE, hart).contended_waits.count),
            [0, 1]
        );
    }

    #[test]
    fn a_task_takes_its_lock_to_another_hart() {
        let task = |task| Claim {
            owner: Owner::Task(task),
            access: Access::Exclusive,
            ..of(0, LOCK)
        };
        let mut locks = Locks::default();
        locks.acquire(at(0, 10, SITE), task(64));
        locks.acquired(at(0, 12, SITE), task(64));
        // Two tasks of one hart wait, one gives up.
        locks.acquire(at(0, 20, SITE), task(128));
        locks.acquire(at(0, 30, SITE), task(192));
        locks.abandoned(task(128));
        assert!(locks.released(at(1, 40, 0), task(64)));
        locks.acquired(at(0, 47, SITE), task(192));
        let row = row(&locks, SITE, 0);
        assert_eq!(
            (row.waits.count, row.contended_waits.count, row.moved),
            (2, 1, 0)
        );
        assert_eq!((row.waits.sum_cycles, row.holds.sum_cycles), (2 + 17, 28));
        assert_eq!(row.handovers.sum_cycles, 7);
        assert!(!locks.released(at(0, 50, 0), task(128)));
    }

    #[test]
    fn who_has_it_for_himself_has_it_alone() {
        let claim = |hart| Claim {
            access: Access::Exclusive,
            ..of(hart, LOCK)
        };
        let mut locks = Locks::default();
        for hart in 0..2 {
            // The release of hart 0 was not seen.
            locks.acquire(at(hart, 10, SITE), claim(hart));
            locks.acquired(at(hart, 20, SITE), claim(hart));
        }
        assert!(!locks.released(at(0, 30, SITE), claim(0)));
        assert!(locks.released(at(1, 30, SITE), claim(1)));
    }

    #[test]
    fn turns_of_one_time_give_no_handover_before_its_release() {
        let mut locks = Locks::default();
        locks.acquire(at(0, 10, SITE), of(0, LOCK));
        locks.acquired(at(0, 20, SITE), of(0, LOCK));
        locks.released(at(0, 4000, 0), of(0, LOCK));
        // Hart 1 has its turn after that of hart 0.
        locks.acquire(at(1, 15, OTHER_SITE), of(1, LOCK));
        locks.acquired(at(1, 90, OTHER_SITE), of(1, LOCK));
        let row = row(&locks, OTHER_SITE, 1);
        assert_eq!((row.waits.sum_cycles, row.handovers.count), (75, 0));
    }

    #[test]
    fn what_ends_while_counting_is_suspended_does_not_count() {
        let mut locks = Locks::default();
        locks.suspend(true);
        locks.acquire(at(0, 1, SITE), of(0, LOCK));
        locks.acquired(at(0, 2, SITE), of(0, LOCK));
        assert_eq!(locks.uses().count(), 0);
        locks.suspend(false);
        locks.released(at(0, 12, 0), of(0, LOCK));
        let row = row(&locks, SITE, 0);
        assert_eq!((row.waits.count, row.holds.sum_cycles), (0, 10));
    }

    #[test]
    fn whose_counts_are_forgotten_still_has_the_lock() {
        let mut locks = Locks::default();
        locks.acquire(at(0, 1, SITE), of(0, LOCK));
        locks.acquired(at(0, 2, SITE), of(0, LOCK));
        locks.acquire(at(1, 5, SITE), of(1, LOCK));
        locks.end_region();
        locks.forget_counts();
        assert_eq!(locks.uses().count(), 0);
        locks.released(at(0, 12, 0), of(0, LOCK));
        locks.acquired(at(1, 15, SITE), of(1, LOCK));
        let rows = [0, 1].map(|hart| row(&locks, SITE, hart));
        assert_eq!((rows[0].waits.count, rows[0].holds.sum_cycles), (0, 10));
        let waited = (rows[1].waits.sum_cycles, rows[1].contended_waits.count);
        assert_eq!((waited, rows[1].moved), ((10, 1), 1));
    }

    #[test]
    fn only_the_region_of_interest_counts() {
        let mut locks = Locks::default();
        locks.acquire(at(0, 1, SITE), of(0, LOCK));
        locks.acquired(at(0, 2, SITE), of(0, LOCK));
        locks.begin_region();
        locks.released(at(0, 12, 0), of(0, LOCK));
        locks.acquire(at(0, 20, SITE), of(0, LOCK));
        locks.acquired(at(0, 21, SITE), of(0, LOCK));
        locks.end_region();
        locks.released(at(0, 33, 0), of(0, LOCK));
        let row = row(&locks, SITE, 0);
        assert_eq!((row.waits.count, row.holds.count), (1, 1));
        assert_eq!(row.holds.sum_cycles, 10);
    }

    #[test]
    fn a_release_of_what_nobody_holds_counts_nothing() {
        let mut locks = Locks::default();
        locks.released(at(0, 5, 0), of(0, LOCK));
        locks.acquire(at(0, 6, SITE), of(0, LOCK));
        locks.released(at(0, 7, 0), of(0, LOCK));
        locks.acquired(at(0, 9, SITE), of(0, LOCK));
        let row = row(&locks, SITE, 0);
        assert_eq!((row.waits.sum_cycles, row.holds.count), (3, 0));
    }

    #[test]
    fn rows_without_end_are_counted_together() {
        let mut locks = Locks::default();
        for site in 0..MOST_USERS as u64 + 10 {
            locks.acquire(at(0, 1, site), of(0, LOCK));
            locks.acquired(at(0, 2, site), of(0, LOCK));
            locks.released(at(0, 3, 0), of(0, LOCK));
        }
        let rows: Vec<_> = locks.uses().collect();
        assert_eq!(rows.len(), MOST_USERS + 1);
        let (user, others) = rows.last().unwrap();
        assert_eq!((user.lock, others.waits.count), (OTHER_LOCKS, 10));
        // Locks without end: those beyond are not followed if all others are waited for.
        for lock in 0..MOST_LOCKS as u64 + 10 {
            locks.acquire(at(0, 5, 0), of(0, lock));
        }
        assert_eq!(locks.locks.len(), MOST_LOCKS);
    }

    #[test]
    fn locks_that_nobody_has_give_way_to_further_ones() {
        let mut locks = Locks::default();
        locks.acquire(at(0, 1, SITE), of(0, 0));
        for lock in 1..2 * MOST_LOCKS as u64 {
            locks.acquire(at(1, lock, SITE), of(1, lock));
            locks.acquired(at(1, lock, SITE), of(1, lock));
            locks.released(at(1, lock + 3, 0), of(1, lock));
        }
        locks.acquired(at(0, 9_000_000, SITE), of(0, 0));
        let rows: Vec<_> = locks.uses().collect();
        let of_first = rows.iter().find(|(user, _)| user.hart == HartId(0));
        let (_, waited) = of_first.expect("it waited");
        assert_eq!(waited.waits.sum_cycles, 9_000_000 - 1);
        let holds: u64 = rows.iter().map(|(_, row)| row.holds.count).sum();
        assert_eq!(holds, 2 * MOST_LOCKS as u64 - 1);
        assert!(locks.locks.len() <= MOST_LOCKS);
    }
}
