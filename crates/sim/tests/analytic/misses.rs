//! What a load that misses costs beside its latency on a T1: a slot, a wait for its fill, and for a floating-point load the
//! place of the core's one operation.

use crate::support::{Bench, DATA, Outcome, WAIT};

/// Cycles of a load of `kind` from the second level, on context 0 of a T1 whose other contexts do what they are told.
fn from_the_second_level(machine: &str, load: &str, use_: &str) -> u64 {
    let code = format!(
        "li a0, {DATA}; li t1, 0x6000; csrrs x0, 0x300, t1; li s1, 3
         {WAIT}
         again: amoor.d x0, x0, (a0); mark; {load}; {use_}; mark; nop
         addi s1, s1, -1; bnez s1, again
         exit"
    );
    let steps = Bench::new(machine).hart(0, &code).run().steps(0);
    *steps.last().unwrap()
}

/// An integer load continues with its fill, one of a floating-point register five cycles later.
#[test]
fn a_floating_point_load_that_misses_takes_five_cycles_more() {
    assert_eq!(
        from_the_second_level("t1", "ld t0, 0(a0)", "mv t0, t0"),
        22 + 1
    );
    assert_eq!(
        from_the_second_level("t1", "fld f1, 0(a0)", "nop"),
        22 + 5 + 1
    );
    // On the T2 both are there at once.
    let ld = from_the_second_level("t2", "ld t0, 0(a0)", "mv t0, t0");
    let fld = from_the_second_level("t2", "fld f1, 0(a0)", "fsgnj.d f1, f1, f1");
    assert_eq!((ld, fld), (22 + 1, 22 + 1));
}

/// Context 0 loads lines that the first level has not, over and over; the others as told.
fn missing(change: Option<&str>, others: &[&str]) -> Outcome {
    missing_on("t1", change, others)
}

/// The same on any machine.
fn missing_on(machine: &str, change: Option<&str>, others: &[&str]) -> Outcome {
    let miss = format!("li a0, {DATA}; again: amoor.d x0, x0, (a0); ld t0, 0(a0); mark; j again");
    let mut bench = Bench::new(machine).hart(0, &miss);
    if let Some(change) = change {
        bench = bench.set(change);
    }
    for (n, other) in others.iter().enumerate() {
        let code = format!("li a0, {}; li a1, 1; again: {other}; j again", DATA + 4096);
        bench = bench.hart(n + 1, &code);
    }
    bench.for_cycles(40_000).run()
}

/// The instruction that follows goes out on the assumption of a hit: a slot for each miss, unless others are ready in the
/// three cycles until the miss is known.
#[test]
fn a_miss_costs_a_slot_that_nobody_else_is_ready_for() {
    let lost = |outcome: &Outcome| outcome.counter("core0", "miss_slots");
    let misses = |outcome: &Outcome| outcome.counter("core0.l1d", "misses");
    let alone = missing(None, &[]);
    // The first load is of a line that has not been written yet; it misses as well.
    assert!(misses(&alone) > 300);
    assert!(lost(&alone).abs_diff(misses(&alone)) <= 1);
    // One adder is not enough to be always ready first: every other cycle it has just had its turn.
    let adds = "add a2, a2, a1; ".repeat(100);
    let beside_one = missing(None, &[&adds]);
    assert!(lost(&beside_one).abs_diff(misses(&beside_one)) <= 1);
    // Two are: one of them is always ready and has not had the last slot.
    let beside_two = missing(None, &[&adds, &adds]);
    assert!(misses(&beside_two) > 300);
    assert!(
        lost(&beside_two) * 10 < misses(&beside_two),
        "{}",
        lost(&beside_two)
    );
    assert_eq!(lost(&missing(Some("core.miss_slots=0"), &[])), 0);
}

/// On a T2 every instruction that goes out until the miss is known is taken back: five slots, fewer where others of the
/// pipe are ready without reservation.
#[test]
fn a_miss_of_a_t2_costs_the_slots_until_it_is_known() {
    let lost = |outcome: &Outcome| outcome.counter("core0", "miss_slots");
    let misses = |outcome: &Outcome| outcome.counter("core0.l1d", "misses");
    let alone = missing_on("t2", None, &[]);
    assert!(misses(&alone) > 300);
    assert!(lost(&alone).abs_diff(5 * misses(&alone)) <= 5);
    let two = missing_on("t2", Some("core.miss_slots=2"), &[]);
    assert!(lost(&two).abs_diff(2 * misses(&two)) <= 2);
    // An adder is always ready without reservation, but at its jumps and while its own code is not there yet.
    let adds = "add a2, a2, a1; ".repeat(100);
    let beside_one = missing_on("t2", None, &[&adds]);
    assert!(misses(&beside_one) > 300);
    assert!(lost(&beside_one) * 10 < 5 * misses(&beside_one));
}

/// A line fills in a cycle whose execute stage has no load or store: beside stores in every cycle but one in eight it
/// waits until that one, beside adds not at all.
#[test]
fn a_fill_waits_for_a_cycle_without_a_load_or_store() {
    let waits = |outcome: &Outcome| outcome.counter("core0", "fill_waits");
    let adds = "add a2, a2, a1; ".repeat(100);
    let loads = "lbu t0, 0(a0); ".repeat(100);
    assert_eq!(waits(&missing(None, &[&adds])), 0);
    // A load every third cycle: who meets one finds the next cycle free.
    let one = missing(None, &[&loads]);
    assert!(waits(&one) <= one.counter("core0.l1d", "misses"));
    // Three: the first level is never idle but at their jumps.
    let three = missing(None, &[&loads, &loads, &loads]);
    let fills = three.counter("core0.l1d", "misses");
    assert!(waits(&three) > 10 * fills, "{} of {fills}", waits(&three));
    let off = missing(
        Some("core.fill_waits_for=nothing"),
        &[&loads, &loads, &loads],
    );
    assert_eq!(waits(&off), 0);
    assert!(off.times(0).len() > three.times(0).len());
}

/// On a T2 only loads are in the way of a fill, and one that has tried for seven cycles keeps loads and stores from their
/// slots: two cycles later none is in the execute stage, and it fills.
#[test]
fn a_fill_of_a_t2_waits_for_nine_cycles_at_most() {
    let waits = |outcome: &Outcome| outcome.counter("core0", "fill_waits");
    let fills = |outcome: &Outcome| outcome.counter("core0.l1d", "misses");
    let loads = "lbu t0, 0(a0); ".repeat(100);
    let stores = "sb a1, 0(a0); ".repeat(100);
    let all = |other| vec![other; 7];
    let beside_loads = missing_on("t2", None, &all(&*loads));
    let (waited, filled) = (waits(&beside_loads), fills(&beside_loads));
    assert!(filled > 300, "{filled}");
    // Nine cycles for each, but where a jump of another makes room.
    assert!(waited <= 9 * filled, "{waited} of {filled}");
    assert!(waited > 8 * filled, "{waited} of {filled}");
    let patient = missing_on("t2", Some("core.fill_urgent_cycles=12"), &all(&*loads));
    let (waited, filled) = (waits(&patient), fills(&patient));
    assert!(waited <= 14 * filled, "{waited} of {filled}");
    assert!(waited > 12 * filled, "{waited} of {filled}");
    assert_eq!(waits(&missing_on("t2", None, &all(&*stores))), 0);
    let both = Some("core.fill_waits_for=loads_and_stores");
    assert!(waits(&missing_on("t2", both, &all(&*stores))) > 0);
}

/// A floating-point load keeps the core's floating-point place until its data are there: an addition of another context
/// beside loads from the second level takes its turn after each of them, beside loads that hit after each of those.
#[test]
fn a_floating_point_load_keeps_its_place_while_it_misses() {
    let each = |load: &str| {
        let float = "li t1, 0x6000; csrrs x0, 0x300, t1";
        let loads = format!("{float}; li a0, {DATA}; again: {load}; j again");
        let adds = format!("{float}; again: mark; fadd.d f1, f2, f3; nop; nop; j again");
        let outcome = Bench::new("t1")
            .hart(0, &loads)
            .hart(1, &adds)
            .for_cycles(60_000)
            .run();
        let steps = outcome.steps(1);
        let late = &steps[steps.len() / 2..];
        late.iter().sum::<u64>() / late.len() as u64
    };
    let alone = 24 + 2 + 3;
    assert!((alone..alone + 6).contains(&each("nop")));
    let hits = each("fld f1, 0(a0)");
    let misses = each("amoor.d x0, x0, (a0); fld f1, 0(a0)");
    assert!(misses > alone + 5, "{hits} {misses}");
    assert!(misses > hits, "{hits} {misses}");
}
