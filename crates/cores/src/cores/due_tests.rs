use loiter_types::Cycle;

use super::Schedule;

/// The cores that are due in `now`, which is taken from them.
fn take(schedule: &mut Schedule, now: u64) -> Vec<usize> {
    let now = Cycle(now);
    schedule.begin(now);
    let mut due = Vec::new();
    for word in 0..schedule.words() {
        let bits = schedule.soon(word);
        let cores = (0..64)
            .filter(|n| bits >> n & 1 == 1)
            .map(|n| 64 * word + n);
        due.extend(cores.filter(|&core| schedule.of(core) <= now));
    }
    for &core in &due {
        schedule.set(core, Cycle::NEVER);
    }
    due
}

#[test]
fn each_core_is_due_once_in_its_cycle_in_order_of_numbers() {
    let mut schedule = Schedule::new(130);
    for core in (0..130).rev() {
        schedule.set(core, Cycle(10 + core as u64 % 3));
    }
    assert_eq!(schedule.next(), Cycle(10));
    let mut seen = 0;
    for now in 0..20 {
        let due = take(&mut schedule, now);
        let expected: Vec<_> = (0..130)
            .filter(|core| 10 + core % 3 == now as usize)
            .collect();
        assert_eq!(due, expected, "cycle {now}");
        seen += due.len();
    }
    assert_eq!((seen, schedule.next()), (130, Cycle::NEVER));
}

#[test]
fn what_is_sooner_counts_and_what_it_was_before_does_not() {
    let mut schedule = Schedule::new(3);
    schedule.set(0, Cycle(100));
    schedule.set(1, Cycle(50));
    schedule.no_later(0, Cycle(20));
    schedule.no_later(1, Cycle(60));
    assert_eq!(schedule.next(), Cycle(20));
    assert_eq!(take(&mut schedule, 20), [0]);
    schedule.set(1, Cycle(70));
    assert_eq!(schedule.next(), Cycle(70), "50 and 100 are gone");
    assert_eq!(take(&mut schedule, 50), [0; 0]);
    schedule.begin(Cycle(69));
    assert_eq!(schedule.only(), Some(1));
    assert_eq!(schedule.next_later(), Cycle::NEVER);
    assert_eq!(take(&mut schedule, 70), [1]);
}

/// However often cores change their minds, there are few entries.
#[test]
fn entries_do_not_grow() {
    let mut schedule = Schedule::new(4);
    for n in 0..10_000 {
        schedule.set(n % 4, Cycle(1_000_000 - n as u64));
    }
    assert!(schedule.later.len() <= 16);
    assert_eq!(schedule.next(), Cycle(1_000_000 - 9_999));
}
