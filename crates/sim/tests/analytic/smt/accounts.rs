//! What the slots of a context are charged to while it waits, one cause at a time.

use std::collections::BTreeMap;

use super::bench;
use crate::support::paging::{PAGE, Paged};
use crate::support::{Bench, DATA, Outcome, WAIT};

/// Repetitions of a block in the shorter of two runs.
const COUNT: u64 = 120;

/// What became of the slots of the first context.
fn slots(outcome: &Outcome) -> BTreeMap<&'static str, u64> {
    let mut slots = BTreeMap::new();
    for row in &outcome.result.accounts {
        if row.context == 0 {
            *slots.entry(row.slot).or_default() += row.cycles;
        }
    }
    assert_eq!(slots.values().sum::<u64>(), outcome.result.cycles);
    slots
}

/// Cycles that [`COUNT`] times `block` add to each slot; `wrap` makes a program of the code.
fn account(
    set: &[&str],
    wrap: impl Fn(&str) -> String,
    setup: &str,
    block: &str,
) -> BTreeMap<&'static str, u64> {
    let run = |count: u64| {
        let code = format!(
            "{setup}
             {WAIT}
             li s1, {count}
             j again
             .line
             again: {block}; addi s1, s1, -1; bnez s1, again
             exit"
        );
        slots(&bench(set).hart(0, &wrap(&code)).run())
    };
    let (few, many) = (run(COUNT), run(2 * COUNT));
    let more = many.into_iter().map(|(slot, cycles)| {
        let before = few.get(slot).copied().unwrap_or_default();
        (slot, cycles.saturating_sub(before))
    });
    more.filter(|(_, cycles)| *cycles > 0).collect()
}

fn bare(code: &str) -> String {
    code.to_owned()
}

/// Of the `each` cycles of a round at least nine of ten are charged to `slot`, and to no other wait more than a few.
fn assert_waits_for(found: &BTreeMap<&str, u64>, slot: &str, each: u64) {
    let cycles = found.get(slot).copied().unwrap_or_default();
    let (least, most) = (COUNT * each * 9 / 10, COUNT * each);
    assert!(
        (least..=most).contains(&cycles),
        "{slot}: {cycles} of {most} in {found:?}"
    );
}

#[test]
fn a_cycle_without_retirement_is_charged_to_what_the_oldest_instruction_waits_for() {
    // So long that the few cycles in which older instructions retire do not count.
    const HIT: u64 = 300;
    const MISS: u64 = 700;
    let long = [
        "l2.hit_latency_cycles=300",
        "l2.atomic_latency_cycles=300",
        "l2.miss_latency_cycles=700",
        "latency.mul_cycles=100",
    ];
    // Lines of one set of the first level, which the second level has all; and lines that nobody has touched.
    let lines = format!("li a0, {DATA}; li a1, 0; li t1, 65536; li t2, 0x3f0000; li t3, 4096");
    let known = "li a6, 128; mv a7, a0; fill: amoor.d x0, x0, (a7); add a7, a7, t1; addi a6, a6, -1; bnez a6, fill";
    for (set, setup, block, slot, each) in [
        (
            &["l1d.size_kib=2"][..],
            format!("{lines}; {known}"),
            "add a1, a1, t1; and a1, a1, t2; add a3, a0, a1; ld a4, 0(a3); add a1, a1, a4",
            "l2_hit",
            HIT,
        ),
        (
            &[],
            lines.clone(),
            "ld a4, 0(a0); add a0, a0, t3; add a0, a0, a4",
            "l2_miss",
            MISS,
        ),
        (
            &[],
            "li a1, 1".to_owned(),
            "mul a1, a1, a1",
            "executing",
            100,
        ),
    ] {
        let found = account(&[&long, set].concat(), bare, &setup, block);
        assert_waits_for(&found, slot, each);
    }
}

#[test]
fn a_walk_of_a_page_table_is_charged_as_one() {
    let loads = 3 * Bench::new("smt8")
        .parameters()
        .number("latency.load_cycles");
    let walk = 200 + loads;
    let setup = format!("li t1, 0; li a3, {PAGE}; li a4, {}; mv a5, a0", 7 * PAGE);
    let block = "add t1, t1, a3; and t1, t1, a4; add t2, a5, t1; ld t3, 0(t2); add t1, t1, t3";
    let few = ["dtlb.entries=2", "dtlb.ways=2", "walker.fixed_cycles=200"];
    let paged = |code: &str| Paged::new().program(code);
    for kind in ["walker.kind=trap", "walker.kind=hardware"] {
        let found = account(&[&few[..], &[kind]].concat(), paged, &setup, block);
        assert_waits_for(&found, "dtlb_walk", walk);
    }
    let found = account(&[], paged, &setup, block);
    assert_eq!(found.get("dtlb_walk"), None);
}

/// An instruction that could issue waits for a unit; one whose operands are not there waits for those.
#[test]
fn an_instruction_in_a_queue_waits_for_a_unit_or_for_an_operand() {
    const CYCLES: u64 = 40_000;
    let run = |code: &str| {
        let bench = Bench::new("smt8").set("latency.div_min_cycles=40");
        let bench = bench.set("latency.div_max_cycles=40").for_cycles(CYCLES);
        // The other keeps the divider busy half of the time.
        let other = "li a1, 9; li a2, 3; again: div a3, a1, a2; div a3, a1, a2; div a3, a1, a2; div a3, a1, a2; j again";
        slots(&bench.hart(0, code).hart(1, other).run())
    };
    let divides = "li a1, 9; li a2, 3; again: mark; div a4, a1, a2; div a4, a1, a2; div a4, a1, a2; div a4, a1, a2; j again";
    let found = run(divides);
    let of = |found: &BTreeMap<&str, u64>, slot| found.get(slot).copied().unwrap_or_default();
    // Every other divide is the own one.
    let unit = of(&found, "unit_busy");
    assert!(
        (CYCLES * 4 / 10..CYCLES * 6 / 10).contains(&unit),
        "{found:?}"
    );
    assert!(of(&found, "dependence") < CYCLES / 20, "{found:?}");
}
