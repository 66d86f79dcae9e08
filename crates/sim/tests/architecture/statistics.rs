//! That statistics add up at any time, and that asking for them changes nothing.

use std::ops::RangeInclusive;
use std::time::Duration;

use loiter_sim::{Limits, Session, Statistics, Status};

use crate::debugging::finish;
use crate::generator::{Settings, Target, generate};
use crate::machines::Machine;

const HARTS: usize = 3;

/// Instructions between two questions.
const STRIDE: u64 = 997;

fn counter(statistics: &Statistics, component: &str, name: &str) -> u64 {
    let mut rows = statistics.timed.counters.iter();
    rows.find(|row| row.component == component && row.name == name)
        .unwrap_or_else(|| panic!("no counter {component} {name}"))
        .value
}

/// Of a histogram of the first core: cycles, what was counted in them at least, and at most. In a cycle of
/// the greatest value there may be more where instructions retire as soon as their access performs, one of
/// each hart.
fn histogram(statistics: &Statistics, name: &str) -> (u64, RangeInclusive<u64>) {
    let rows = &statistics.timed.histograms;
    let rows: Vec<_> = rows.iter().filter(|row| row.name == name).collect();
    let greatest = rows.last().expect("a histogram").cycles;
    let cycles = rows.iter().map(|row| row.cycles).sum();
    let counted: u64 = rows.iter().map(|row| row.cycles * row.value).sum();
    let more = if name == "retired" {
        greatest * HARTS as u64
    } else {
        0
    };
    (cycles, counted..=counted + more)
}

fn assert_adds_up(statistics: &Statistics, machine: Machine) {
    let timed = &statistics.timed;
    let contexts = 1 + timed.accounts.iter().map(|row| row.context).max().unwrap();
    let cycles = statistics.timing_cycles * u64::from(contexts);
    let accounted = timed.accounts.iter().map(|row| row.cycles);
    assert_eq!(accounted.sum::<u64>(), cycles);
    let activities = timed.activities.iter();
    let accounted = activities.clone().map(|row| row.cycles);
    assert_eq!(accounted.sum::<u64>(), cycles);
    let retired = activities.map(|row| row.instructions);
    assert_eq!(retired.sum::<u64>(), statistics.timing_instructions);
    if machine == Machine::Smt8 {
        for (name, zero) in [
            ("fetched", "zero_fetch_cycles"),
            ("issued", "zero_issue_cycles"),
            ("retired", "zero_retire_cycles"),
        ] {
            let counted = counter(statistics, "core0", name);
            let (cycles, range) = histogram(statistics, name);
            assert_eq!(cycles, statistics.timing_cycles, "{name}");
            assert!(range.contains(&counted), "{name}: {counted} in {range:?}");
            let rows = timed.histograms.iter();
            let none = rows.filter(|row| row.name == name && row.value == 0);
            let none: u64 = none.map(|row| row.cycles).sum();
            assert_eq!(counter(statistics, "core0", zero), none, "{zero}");
        }
    }
}

#[test]
fn statistics_add_up_at_any_time_and_asking_changes_nothing() {
    for (seed, machine) in [
        (0x820, Machine::T1),
        (0x821, Machine::T2),
        (0x822, Machine::Smt8),
        (0x823, Machine::Smt8),
    ] {
        let elf = generate(Settings {
            seed,
            harts: HARTS,
            blocks: 120,
            items: 60,
            target: Target::Loiter,
        })
        .elf;
        let start = || Session::program(&machine.request(1), &elf).expect("a session");
        let mut session = start();
        let end = finish(&mut session);
        let expected = session.statistics();
        assert_eq!(
            (expected.timing_cycles, expected.timing_instructions),
            (end.0, end.1)
        );
        assert_adds_up(&expected, machine);

        let mut session = start();
        let mut asked = 0;
        loop {
            let limits = Limits {
                instructions: Some(session.instructions() + STRIDE),
                ..Limits::default()
            };
            let status = session.step(Duration::from_secs(60), &limits);
            let statistics = session.statistics();
            assert_adds_up(&statistics, machine);
            assert_eq!(statistics, session.statistics(), "{machine:?}");
            match status.expect("programs handle their traps") {
                Status::Reached => asked += 1,
                Status::Ended(_) => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(asked > 4, "{machine:?}: asked {asked} times");
        assert_eq!(session.statistics(), expected, "{machine:?}");
    }
}
