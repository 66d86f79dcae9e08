//! Who has a lock and who is in line for it: what a host has to know to help a waiter as well as can be.

use loiter_types::{Cycle, HartId};

use super::{Acquire, Lock, Locks, Owner};

/// Of so many acquires while others wait, one may overtake them though the lock serves in order: who begins to acquire
/// it is not in line yet.
const ACQUIRES_PER_OVERTAKE: u64 = 8;

impl Lock {
    /// An acquire ends, which is number `at` of [`Self::uses`] if it has been seen to begin.
    pub(super) fn count_order(&mut self, at: Option<usize>) {
        let waits = |each: &Acquire| each.acquired.is_none();
        let ahead = &self.uses[..at.unwrap_or(self.uses.len())];
        let behind = &self.uses[at.map_or(self.uses.len(), |at| at + 1)..];
        if ahead.iter().any(waits) {
            self.overtakes += 1;
        } else if behind.iter().any(waits) {
            self.in_line += 1;
        }
    }

    /// Whether those who wait have been served in order, as far as it has been seen.
    fn serves_in_order(&self) -> bool {
        self.overtakes * ACQUIRES_PER_OVERTAKE <= self.overtakes + self.in_line
    }
}

impl Locks {
    /// The lock that `hart` waits for; if an interrupt has come to a waiter, that of its handler.
    #[must_use]
    pub fn awaited(&self, hart: HartId) -> Option<u64> {
        let own = |each: &&Acquire| each.owner == Owner::Hart(hart) && each.acquired.is_none();
        let waits = self.locks.iter().filter_map(|(&addr, lock)| {
            let last = lock.uses.iter().rfind(own)?;
            Some((last.began, addr))
        });
        waits.max_by_key(|(began, _)| *began).map(|(_, addr)| addr)
    }

    /// Who has the lock at `addr`; of several, who got it last.
    #[must_use]
    pub fn holder(&self, addr: u64) -> Option<Owner> {
        let uses = &self.locks.get(&addr)?.uses;
        let last = uses.iter().rfind(|each| each.acquired.is_some());
        last.map(|each| each.owner)
    }

    /// Whether `hart` has a lock.
    #[must_use]
    pub fn has_one(&self, hart: HartId) -> bool {
        let is_own = |each: &Acquire| each.owner == Owner::Hart(hart) && each.acquired.is_some();
        self.locks.values().any(|lock| lock.uses.iter().any(is_own))
    }

    /// Since when the lock at `addr` is free, if it is.
    #[must_use]
    pub fn free_since(&self, addr: u64) -> Option<Cycle> {
        let lock = self.locks.get(&addr)?;
        (!lock.is_held()).then(|| lock.released.unwrap_or(Cycle(0)))
    }

    /// The hart that got the lock at `addr` last.
    #[must_use]
    pub fn last_holder(&self, addr: u64) -> Option<HartId> {
        self.locks.get(&addr)?.last_holder
    }

    /// The hart that is the next to get the lock at `addr`, if it serves those who wait for it in order.
    #[must_use]
    pub fn next_in_line(&self, addr: u64) -> Option<HartId> {
        let lock = self.locks.get(&addr)?;
        let waits = lock.uses.iter().find(|each| each.acquired.is_none());
        match waits?.owner {
            Owner::Hart(hart) if lock.serves_in_order() => Some(hart),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Claim};
    use super::*;
    use crate::recorder::Moment;

    const LOCK: u64 = 0x8000_1000;

    fn at(hart: u16, cycle: u64) -> Moment {
        Moment {
            hart: HartId(hart),
            cycle: Cycle(cycle),
            retired: 0,
            pc: 0,
        }
    }

    fn of(hart: u16, lock: u64) -> Claim {
        Claim {
            lock,
            owner: Owner::Hart(HartId(hart)),
            access: Access::Unsaid,
        }
    }

    #[test]
    fn a_holder_and_those_in_line() {
        let mut locks = Locks::default();
        for hart in 0..3 {
            locks.acquire(at(hart, 10 + u64::from(hart)), of(hart, LOCK));
        }
        assert_eq!(locks.holder(LOCK), None);
        locks.acquired(at(0, 20), of(0, LOCK));
        assert_eq!(locks.holder(LOCK), Some(Owner::Hart(HartId(0))));
        assert_eq!(locks.next_in_line(LOCK), Some(HartId(1)));
        assert_eq!(locks.awaited(HartId(0)), None);
        assert_eq!(locks.awaited(HartId(2)), Some(LOCK));
        locks.released(at(0, 30), of(0, LOCK));
        assert_eq!(locks.holder(LOCK), None);
        assert_eq!(locks.last_holder(LOCK), Some(HartId(0)));
        assert_eq!(locks.next_in_line(LOCK), Some(HartId(1)));
        // What an interrupt handler waits for.
        locks.acquire(at(2, 40), of(2, LOCK - 64));
        assert_eq!(locks.awaited(HartId(2)), Some(LOCK - 64));
    }

    #[test]
    fn a_lock_that_anybody_gets_has_no_line() {
        let mut locks = Locks::default();
        locks.acquire(at(0, 1), of(0, LOCK));
        for n in 0..8 {
            locks.acquire(at(1, 10 * n + 2), of(1, LOCK));
            locks.acquired(at(1, 10 * n + 3), of(1, LOCK));
            locks.released(at(1, 10 * n + 4), of(1, LOCK));
        }
        assert_eq!(locks.next_in_line(LOCK), None);
    }

    #[test]
    fn one_of_eight_may_have_begun_before_it_was_in_line() {
        let mut locks = Locks::default();
        let round = |locks: &mut Locks, n: u64, order: [u16; 2]| {
            for hart in [0, 1] {
                locks.acquire(at(hart, 10 * n + 1), of(hart, LOCK));
            }
            for hart in order {
                locks.acquired(at(hart, 10 * n + 2), of(hart, LOCK));
                locks.released(at(hart, 10 * n + 3), of(hart, LOCK));
            }
        };
        for n in 0..7 {
            round(&mut locks, n, [0, 1]);
        }
        round(&mut locks, 7, [1, 0]);
        locks.acquire(at(0, 90), of(0, LOCK));
        assert_eq!(locks.next_in_line(LOCK), Some(HartId(0)));
        locks.abandoned(of(0, LOCK));
        round(&mut locks, 10, [1, 0]);
        locks.acquire(at(0, 120), of(0, LOCK));
        assert_eq!(locks.next_in_line(LOCK), None);
    }
}
