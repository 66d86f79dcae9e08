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

fn user(site: u64, hart: u16) -> LockUser {
    LockUser {
        lock: LOCK,
        site,
        hart: HartId(hart),
    }
}

fn row(locks: &Locks, site: u64, hart: u16) -> LockUse {
    let user = user(site, hart);
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

#[test]
fn who_still_waits_has_waited_since_the_acquire_began() {
    let mut locks = Locks::default();
    locks.acquire(at(0, 10, SITE), of(0, LOCK));
    locks.acquired(at(0, 15, SITE), of(0, LOCK));
    locks.acquire(at(1, 20, SITE), of(1, LOCK));
    locks.acquire(at(2, 30, OTHER_SITE), of(2, LOCK));
    // Nobody has this one.
    locks.acquire(at(3, 30, SITE), of(3, LOCK + 64));
    let waiting = |locks: &Locks| -> Vec<(LockUser, u64, u64)> {
        let found = locks.waiting(Cycle(100));
        let row = |(user, each): (LockUser, Durations)| (user, each.count, each.sum_cycles);
        found.into_iter().map(row).collect()
    };
    let [first, second] = [(user(SITE, 1), 1, 80), (user(OTHER_SITE, 2), 1, 70)];
    assert_eq!(waiting(&locks), [first, second]);
    locks.released(at(0, 40, 0), of(0, LOCK));
    locks.acquired(at(1, 44, SITE), of(1, LOCK));
    locks.released(at(1, 50, 0), of(1, LOCK));
    // The lock is free, but the wait has not ended.
    assert_eq!(waiting(&locks), [second]);
    locks.suspend(true);
    assert_eq!(waiting(&locks), []);
    locks.suspend(false);
    locks.end_region();
    assert_eq!(waiting(&locks), []);
}
