//! What locks cost whom: waits, sections and hand-overs, from the probes of a program, or its kernel's lock functions.

use std::collections::BTreeMap;

use loiter_types::{Cycle, HartId};
use serde::{Deserialize, Serialize};

use crate::durations::Durations;
use crate::recorder::{Moment, OTHER_LOCKS};

mod line;
#[cfg(test)]
mod tests;

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
    /// Of a virtual CPU, [`Self::waits`] as long as CPUs executed it meanwhile; of other harts each is of no cycle.
    pub executed_waits: Durations,
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
    /// What [`Locks::waited_cycles`] was then.
    waited_cycles: u64,
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

    /// Whether the acquire, which has not ended, has had to wait.
    fn contends(&self, acquire: &Acquire) -> bool {
        acquire.contended || self.obstacles(acquire.access) > acquire.obstacles
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
    /// Cycles in which CPUs have executed the virtual CPU of which is told next while it waited for locks.
    pub waited_cycles: u64,
}

impl Locks {
    /// Waits that go on at `now`, as long as they are by then: of acquires of a lock that somebody who would not
    /// share it has, or had since the beginning. By lock, place and hart, where the acquire began. None once the
    /// region of interest is over.
    pub fn waiting(&self, now: Cycle) -> BTreeMap<LockUser, Durations> {
        let mut waiting: BTreeMap<LockUser, Durations> = BTreeMap::new();
        if self.is_over || self.is_suspended {
            return waiting;
        }
        for (&lock, state) in &self.locks {
            let waits = |each: &&Acquire| each.acquired.is_none() && state.contends(each);
            for each in state.uses.iter().filter(waits) {
                let user = LockUser {
                    lock,
                    site: each.site,
                    hart: each.hart,
                };
                let row = waiting.entry(user).or_default();
                row.add(elapsed(each.began, now));
            }
        }
        waiting
    }

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
        let waited_cycles = self.waited_cycles;
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
            waited_cycles,
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
        let waited_cycles = self.waited_cycles;
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
            waited_cycles,
            acquired: None,
        });
        let contended = lock.contends(&begun);
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
            let executed = waited_cycles.saturating_sub(begun.waited_cycles);
            row.executed_waits.add(executed);
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
