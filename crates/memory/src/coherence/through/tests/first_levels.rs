//! What first levels hold, what they lose and when, and reservations.

use super::*;

#[test]
fn a_load_fills_its_first_level_when_it_performs() {
    let mut bench = Bench::new(&params());
    let now = bench.warm(0, &[], 0);
    bench.send(now, RequestKind::Load, 0, 0);
    assert!(!bench.has(now + HITS - 1, 0, 0));
    assert!(bench.has(now + HITS, 0, 0));
    assert!(
        !bench.has(now + HITS, 0, 16),
        "another line of the first level"
    );
    assert!(!bench.has(now + HITS, 1, 0), "another core");
}

#[test]
fn others_lose_a_line_in_the_cycle_in_which_it_is_written_and_before_that() {
    for (kind, keeps) in [
        (RequestKind::Store, true),
        (RequestKind::Atomic, false),
        (RequestKind::Fails, true),
    ] {
        let writes = kind != RequestKind::Fails;
        let mut bench = Bench::new(&params());
        let mut now = bench.warm(0, &[0, 1, 2], 0);
        bench.send(now, RequestKind::Load, 2, 48);
        now += 1000;
        bench.goto(now);
        bench.told.clear();
        bench.send(now, kind, 0, 8);
        let lost = now + HITS;
        for core in 0..3 {
            assert!(bench.has(lost - 1, core, 0), "{kind:?} {core}");
        }
        assert_eq!(bench.has(lost, 0, 0), keeps, "{kind:?}: its own");
        for core in [1, 2] {
            assert_eq!(bench.has(lost, core, 0), !writes, "{kind:?} {core}");
        }
        assert!(bench.has(lost, 2, 48), "{kind:?}: another line of the four");
        let own = if keeps { 0 } else { 1 };
        let others: &[_] = if writes {
            &[(lost, "written", 1), (lost, "written", 2)]
        } else {
            &[(lost, "fails", 0)]
        };
        let after = [(lost, "performs", 0), (lost, "written", 0)];
        let after = if writes { &after[..1 + own] } else { &[] };
        assert_eq!(bench.order(), [others, after].concat(), "{kind:?}");
    }
}

#[test]
fn no_core_has_a_line_in_both_caches_and_a_store_takes_instructions_from_its_own_core() {
    let addr = PhysAddr(16);
    let mut bench = Bench::new(&params());
    let holds = |bench: &Bench, which| bench.system.holds(CoreId(0), which, addr);
    bench.send(0, RequestKind::Load, 0, 16);
    bench.goto(1000);
    bench.told.clear();
    bench.send(1000, RequestKind::Fetch, 0, 0);
    let at = 1000 + HITS;
    assert_eq!(bench.order(), [(at, "performs", 0), (at, "evicted", 0)]);
    assert!(holds(&bench, Which::Instructions) && !holds(&bench, Which::Data));
    bench.send(2000, RequestKind::Load, 0, 16);
    assert_eq!(bench.order(), [(2000 + HITS, "performs", 0)]);
    assert!(!holds(&bench, Which::Instructions) && holds(&bench, Which::Data));
    // Of a line that only its instruction cache has.
    bench.send(3000, RequestKind::Fetch, 0, 0);
    bench.send(4000, RequestKind::Store, 0, 16);
    bench.goto(4000 + HITS - 1);
    assert!(holds(&bench, Which::Instructions));
    bench.goto(4000 + HITS);
    assert!(!holds(&bench, Which::Instructions));
    let counters = &bench.system.first[0].instruction_counters;
    assert_eq!(counters.invalidations, 2);
}

#[test]
fn what_the_second_level_replaces_is_lost_to_the_first_levels() {
    let mut bench = Bench::new(&params());
    let mut now = 0;
    for way in 0..4 {
        now = bench.warm(now, &[0, 1], way * SET);
    }
    bench.send(now, RequestKind::Load, 2, 4 * SET);
    // It is replaced by the miss; the first levels hear of it a reply later.
    let lost = now + HITS;
    assert!(bench.has(lost - 1, 0, 0) && bench.has(lost - 1, 1, 0));
    assert!(!bench.has(lost, 0, 0) && !bench.has(lost, 1, 0));
    assert!(bench.has(lost, 0, SET));
    let expected = [
        (lost, "evicted", 0),
        (lost, "evicted", 1),
        (now + MISSES, "performs", 2),
    ];
    assert_eq!(bench.order(), expected);
    assert_eq!(bench.system.first[1].data_counters.invalidations, 1);
}

/// An `sc` succeeds at its bank if its core has kept the line since the `lr`, for the context that has reserved it. One
/// that fails takes nothing from anybody.
#[test]
fn a_reservation_is_lost_with_the_line() {
    use RequestKind::{Conditional, Load, Reserve, Store};
    let outcome = |between: Option<(RequestKind, u16)>| {
        let mut bench = Bench::new(&params());
        bench.send(0, Reserve, 0, 8);
        if let Some((kind, core)) = between {
            bench.send(1000, kind, core, 0);
        }
        // Whatever has happened, another core and its own have a copy.
        bench.send(2000, Load, 1, 0);
        bench.send(3000, Load, 0, 0);
        bench.goto(4000);
        bench.told.clear();
        bench.send(4000, Conditional, 0, 8);
        bench.order()
    };
    let at = 4000 + HITS;
    let succeeds = [(at, "written", 1), (at, "performs", 0), (at, "written", 0)];
    let fails = [(at, "fails", 0)];
    assert_eq!(outcome(None), succeeds);
    // Reads of others, and stores of its own core, leave the copy.
    assert_eq!(outcome(Some((Load, 1))), succeeds);
    assert_eq!(outcome(Some((Store, 0))), succeeds);
    assert_eq!(outcome(Some((Store, 2))), fails);
    assert_eq!(outcome(Some((RequestKind::Atomic, 2))), fails);
    // Nobody has reserved it.
    assert_eq!(outcome(Some((Conditional, 2))), succeeds);
    // An `sc` ends the reservation of its context.
    assert_eq!(outcome(Some((Conditional, 0))), fails);
}

/// An `lr` leaves a copy that its core is told of when another core writes.
#[test]
fn the_core_of_a_reservation_is_told_when_it_loses_the_line() {
    let mut bench = Bench::new(&params());
    bench.send(0, RequestKind::Reserve, 0, 8);
    bench.send(1000, RequestKind::Store, 1, 0);
    let expected = [
        (MISSES, "performs", 0),
        (1000 + HITS, "written", 0),
        (1000 + HITS, "performs", 1),
    ];
    assert_eq!(bench.order(), expected);
}

/// Who watches a line that its first level has replaced is told of a store all the same, and of the replacement nothing.
#[test]
fn a_line_that_was_replaced_is_still_lost_to_a_writer() {
    let mut params = params();
    params.l1d.size_kib = 1;
    params.l1d.ways = 1;
    let mut bench = Bench::new(&params);
    bench.send(0, RequestKind::Reserve, 0, 0);
    bench.send(1000, RequestKind::Load, 0, 1024);
    bench.send(2000, RequestKind::Store, 1, 0);
    let expected = [
        (MISSES, "performs", 0),
        (1000 + MISSES, "performs", 0),
        (2000 + HITS, "written", 0),
        (2000 + HITS, "performs", 1),
    ];
    assert_eq!(bench.order(), expected);
    assert_eq!(bench.system.first[0].data_counters.invalidations, 0);
}
