//! The oracle against what the literature says of the classic tests.

use std::collections::BTreeSet;

use super::oracle::{Promise, allowed};
use super::shapes::{BUFFERING, COHERENCE, CROSSINGS, OBSERVERS, PASSING, STORES};
use super::test::{APART, Layout, Litmus, OVER_LINE, pattern};

fn named(name: &str) -> &'static Litmus {
    let groups = [PASSING, BUFFERING, STORES, CROSSINGS, COHERENCE, OBSERVERS];
    let mut tests = groups.into_iter().flatten();
    tests
        .find(|test| test.name == name)
        .expect("a test of that name")
}

fn outcomes(name: &str, layout: Layout, promise: Promise) -> BTreeSet<Vec<u64>> {
    let found = allowed(named(name), layout, promise);
    assert!(!found.is_empty(), "{name}");
    found
}

/// Whether an outcome whose loads got stores of these numbers (0: what was there) is allowed.
fn loads(name: &str, promise: Promise, numbers: &[u64]) -> bool {
    let wanted: Vec<u64> = numbers.iter().map(|&n| value(n)).collect();
    let mut found = outcomes(name, APART, promise).into_iter();
    found.any(|outcome| outcome[..wanted.len()] == wanted)
}

fn value(n: u64) -> u64 {
    if n == 0 { 0 } else { pattern(n) }
}

#[test]
fn the_classic_tests_are_allowed_and_forbidden_as_published() {
    use Promise::{Annotated, Sequential, Total};
    // Owens, Sarkar, Sewell: A better x86 memory model: x86-TSO, 2009; and the manual's chapter on RVWMO.
    let cases: &[(&str, &[u64], [bool; 3])] = &[
        ("MP", &[1, 0], [false, false, false]),
        ("MP", &[0, 1], [true, true, true]),
        ("SB", &[0, 0], [false, true, true]),
        ("SB+fences", &[0, 0], [false, false, false]),
        ("SB+fence.tso", &[0, 0], [false, true, true]),
        ("SB+one fence", &[0, 0], [false, true, true]),
        ("SB with own values", &[1, 0, 1, 0], [false, true, true]),
        ("SB+swaps.aqrl", &[0, 0, 0, 0], [false, false, false]),
        ("SB+swaps", &[0, 0, 0, 0], [false, false, true]),
        ("SB+stores+swaps", &[0, 0], [false, false, true]),
        ("SB+stores+swaps.rl", &[0, 0], [false, false, false]),
        ("SB+exchanges.aqrl", &[0, 0, 0, 0], [false, false, true]),
        ("LB", &[1, 1], [false, false, false]),
        ("LB+swaps", &[1, 0, 1, 0], [false, false, false]),
        ("WRC", &[1, 1, 0], [false, false, false]),
        ("RWC", &[1, 0, 0], [false, true, true]),
        ("RWC+fence", &[1, 0, 0], [false, false, false]),
        ("IRIW", &[1, 0, 1, 0], [false, false, false]),
        ("MP+swap.rl+swap.aq", &[1, 1, 0], [false, false, false]),
        ("MP+store+swap", &[1, 0], [false, false, true]),
        ("CoRR", &[1, 0], [false, false, false]),
        ("CoWR", &[0], [false, false, false]),
    ];
    for &(name, numbers, expected) in cases {
        for (promise, expected) in [Sequential, Total, Annotated].into_iter().zip(expected) {
            let found = loads(name, promise, numbers);
            assert_eq!(found, expected, "{name} {numbers:?} {promise:?}");
        }
    }
}

#[test]
fn final_values_are_those_of_an_order_of_the_stores() {
    let both = [pattern(1), pattern(1)];
    for promise in [Promise::Sequential, Promise::Total, Promise::Annotated] {
        assert!(!outcomes("2+2W", APART, promise).contains(&both[..]));
        assert_eq!(outcomes("2+2W", APART, promise).len(), 3);
        // S: the load sees the second store, and the store before that comes last.
        assert!(!outcomes("S", APART, promise).contains(&vec![pattern(1), pattern(2), pattern(1)]));
    }
    // R is what tells that a store may wait beside a later load.
    let r = vec![0, pattern(1), pattern(2)];
    assert!(!outcomes("R", APART, Promise::Sequential).contains(&r));
    assert!(outcomes("R", APART, Promise::Total).contains(&r));
    assert!(!outcomes("R+fences", APART, Promise::Total).contains(&r));
}

#[test]
fn an_access_within_a_line_is_whole_and_one_over_its_end_is_two() {
    let halves = [0, 0xffff_ffff, !0xffff_ffff, !0];
    let read = |layout| {
        let found = outcomes("CoRR", layout, Promise::Sequential).into_iter();
        let first = found.map(|outcome| outcome[0]);
        first.collect::<BTreeSet<u64>>()
    };
    assert_eq!(read(APART), BTreeSet::from([0, pattern(1)]));
    let expected = halves.map(|mask| pattern(1) & mask);
    assert_eq!(read(OVER_LINE), BTreeSet::from(expected));
}

#[test]
fn nothing_comes_between_the_halves_of_an_atomic() {
    for promise in [Promise::Sequential, Promise::Total, Promise::Annotated] {
        for outcome in outcomes("swaps of a variable", APART, promise) {
            assert!([outcome[0], outcome[2]].contains(&0), "{outcome:x?}");
            assert_ne!(outcome[0], outcome[2]);
        }
        for outcome in outcomes("exchange beside a store of half of it", APART, promise) {
            // The exchange overwrites a store that it has seen, and keeps one that comes later.
            let half = pattern(2) << 32;
            let later = pattern(1) & 0xffff_ffff | half;
            let expected = if outcome[0] == half {
                pattern(1)
            } else {
                later
            };
            assert_eq!(outcome[3], expected, "{outcome:x?}");
        }
    }
}
