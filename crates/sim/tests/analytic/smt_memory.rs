//! The out-of-order core and its memory in closed forms: walks, miss registers, what-if options, shares.

use crate::support::paging::{PAGE, Paged};
use crate::support::rounds::{COUNT, bare, one_context as bench, rounds, steady};
use crate::support::{Bench, DATA, Outcome};

fn number(key: &str) -> u64 {
    bench(&[]).parameters().number(key)
}

#[test]
fn a_load_waits_for_the_walk_of_its_page() {
    // Four pages, each of which points to the next.
    let mut setup = String::from("mv a3, a0; mv a5, a0; ");
    for page in 0..4 {
        let last = if page == 3 {
            "mv a4, a5"
        } else {
            "add a4, a3, a2"
        };
        setup += &format!("{last}; sd a4, 0(a3); mv a3, a4; ");
    }
    setup += "mv a3, a5";
    let (load, fixed) = (number("latency.load_cycles"), number("walker.fixed_cycles"));
    let beside = "walker.kind=hardware";
    let paged = |code: &str| Paged::new().program(code);
    for (set, walk) in [
        (&[beside][..], 0),
        (&[beside, "dtlb.entries=2", "dtlb.ways=2"], fixed + 3 * load),
        (
            &[
                beside,
                "dtlb.entries=2",
                "dtlb.ways=2",
                "walker.fixed_cycles=7",
            ],
            7 + 3 * load,
        ),
    ] {
        let found = steady(set, paged, &setup, "ld a3, 0(a3)");
        assert_eq!(found, COUNT * (load + walk), "{set:?}");
    }
}

#[test]
fn walks_overlap_as_far_as_the_walker_can() {
    // Loads that do not wait for each other, from more pages in turn than there are instructions under way.
    let setup = format!("li t1, 0; li a3, {PAGE}; li a4, {}; mv a5, a0", 511 * PAGE);
    let block = "add t1, t1, a3; and t1, t1, a4; add t2, a5, t1; ld t0, 0(t2)";
    let paged = |code: &str| Paged::new().program(code);
    let walk = number("walker.fixed_cycles") + 3 * number("latency.load_cycles");
    for walks in [1, 2] {
        let walks_set = format!("walker.walks={walks}");
        // Tables and pages do not push each other out.
        let set = [
            "walker.kind=hardware",
            "l2.ways=2",
            "dtlb.entries=2",
            "dtlb.ways=2",
            walks_set.as_str(),
        ];
        let found = steady(&set, paged, &setup, block);
        let expected = COUNT * walk / walks;
        // A walk that ends makes room in the next cycle for one that waits.
        assert!(
            (expected..=expected + COUNT).contains(&found),
            "{walks}: {found} for {expected}"
        );
    }
}

#[test]
fn misses_overlap_as_far_as_registers_and_the_bus_allow() {
    // Lines of one set of the first level, 256 of them, which the second level holds all.
    let setup = format!("li a5, {DATA}; li t1, 0; li a3, 65536; li a4, 16711680");
    let block = "add t1, t1, a3; and t1, t1, a4; add t2, a5, t1; ld t0, 0(t2)";
    let latency = number("l2.hit_latency_cycles");
    for (mshrs, line_cycles, each) in [
        (1, 2, latency),
        (2, 2, latency / 2),
        (32, 2, 2),
        (32, 5, 5),
        (1, 40, 40),
    ] {
        let mshrs = format!("l1d.mshrs={mshrs}");
        let line = format!("bus.line_cycles={line_cycles}");
        let set = [mshrs.as_str(), line.as_str()];
        assert_eq!(steady(&set, bare, &setup, block), COUNT * each, "{set:?}");
    }
    let perfect = steady(&["l1d.perfect=true"], bare, &setup, block);
    // Four instructions, of which each chain has two.
    assert_eq!(perfect, COUNT * 2);
}

#[test]
fn misses_of_one_line_are_one() {
    let setup = format!("li a5, {DATA}; li t1, 0; li a3, 65536; li a4, 16711680");
    let block = "add t1, t1, a3; and t1, t1, a4; add t2, a5, t1; ld t0, 0(t2); ld x28, 8(t2); ld x29, 16(t2)";
    let outcome = bench(&[]).hart(0, &rounds(&setup, block, COUNT)).run();
    let misses = outcome.counter("core0.l1d", "misses");
    let merged = outcome.counter("core0.l1d", "merged_misses");
    assert!(merged >= 2 * 3 * COUNT - 2, "{merged} of {misses}");
    let asked = |core| outcome.counter(core, "l2_accesses");
    let served = outcome.counter("l2", "accesses");
    assert_eq!(asked("core0") + asked("core1"), served);
}

/// Branches that go one way or the other as a generator of random numbers says, and returns.
const UNPREDICTABLE: &str = "li a1, 88172645463325252; li s1, 2000
     again: slli t0, a1, 13; xor a1, a1, t0; srli t0, a1, 7; xor a1, a1, t0; slli t0, a1, 17; xor a1, a1, t0
     sd a1, 0(a5); lbu t0, 1(a5); andi t0, t0, 1; beqz t0, even; addi a2, a2, 1
     even: addi s1, s1, -1; beqz s1, done; j again
     done: exit";

#[test]
fn an_oracle_is_never_wrong_where_nobody_comes_between() {
    let code = format!("li a5, {DATA}; {UNPREDICTABLE}");
    let mut cycles = Vec::new();
    for kind in ["hybrid", "oracle"] {
        let kind = format!("branch.kind={kind}");
        let outcome = bench(&[kind.as_str()]).hart(0, &code).run();
        let wrong = outcome.counter("core0.branch", "branches_mispredicted");
        assert!(outcome.counter("core0.branch", "branches") >= 4000);
        if kind.ends_with("hybrid") {
            assert!((500..1500).contains(&wrong), "{wrong}");
        } else {
            assert_eq!(wrong, 0);
            // After the last branch nothing is known to end the run.
            assert!(outcome.counter("core0", "squashed") < 100);
        }
        cycles.push(outcome.result.cycles);
    }
    assert!(cycles[1] < cycles[0]);
}

/// The sum of a histogram's values, and its cycles.
fn histogram(outcome: &Outcome, name: &str) -> (u64, u64) {
    let rows = outcome.result.histograms.iter();
    let rows = rows.filter(|row| row.component == "core0" && row.name == name && row.cycles > 0);
    let mut found = (0, 0);
    for row in rows {
        found.0 += row.value * row.cycles;
        found.1 += row.cycles;
    }
    assert!(found.1 > 0, "no histogram {name}");
    found
}

#[test]
fn a_context_has_no_more_than_its_share() {
    // A chain of divides, and what waits for it.
    let block = "div a1, a1, a3; add t0, a1, a3; add t1, a1, a3; add t2, a1, a3; add x28, a1, a3";
    let code = rounds("li a1, 9; li a3, 1", block, 60);
    for (set, queue) in [
        (&["core.queue_sharing=shared"][..], 32),
        (&["core.queue_sharing=partitioned"], 8),
        (
            &["core.queue_sharing=capped", "core.queue_cap_entries=5"],
            5,
        ),
    ] {
        let bench = Bench::new("smt8").set("core.contexts=4");
        let bench = set.iter().fold(bench, |bench, set| bench.set(set));
        let outcome = bench.hart(0, &code).run();
        let rows = outcome.result.histograms.iter();
        let rows = rows.filter(|row| row.component == "core0" && row.name == "integer_queue");
        // The other contexts have theirs until they sleep.
        let seen = rows.filter(|row| row.cycles > 100).map(|row| row.value);
        assert_eq!(seen.max(), Some(queue), "{set:?}");
        assert!(outcome.counter("core0", "queue_full_cycles") > 1000);
    }
    // With registers for three instructions, a divide and two others are under way at most.
    let few = [
        "core.register_sharing=capped",
        "core.register_cap=3",
        "core.contexts=1",
        "core.fetch_contexts=1",
    ];
    let cycles = |set: &[&str]| {
        steady(
            set,
            bare,
            "li a1, 9; li a3, 1",
            "div a1, a1, a3; nop; nop; nop",
        )
    };
    assert_eq!(cycles(&[]), cycles(&few));
    let adds = "div a1, a1, a3; add t0, a3, a3; add t1, a3, a3; add t2, a3, a3";
    let steady_adds = |set: &[&str]| steady(set, bare, "li a1, 9; li a3, 1", adds);
    assert!(steady_adds(&few) > steady_adds(&[]));
}

#[test]
fn distributions_agree_with_counters_and_activities() {
    let block = "add t0, a1, a3; ld t1, 0(a5); fcvt.d.l f1, a1; mul t2, a1, a3";
    let setup = format!("li a5, {DATA}; li t0, 0x6000; csrrs x0, 0x300, t0; li a1, 3");
    let outcome = bench(&[]).hart(0, &rounds(&setup, block, COUNT)).run();
    let cycles = outcome.counter("core0", "cycles");
    for (name, total) in [
        ("fetched", "fetched"),
        ("issued", "issued"),
        ("retired", "retired"),
        ("fetchable_contexts", "fetchable_contexts"),
        ("integer_queue", "integer_queue_occupancy"),
        ("fp_queue", "fp_queue_occupancy"),
    ] {
        let (sum, all) = histogram(&outcome, name);
        assert_eq!(all, cycles, "{name}");
        assert_eq!(sum, outcome.counter("core0", total), "{name}");
    }
    let (integer, all) = histogram(&outcome, "integer_issued");
    assert_eq!(all, cycles);
    // What is left are floating-point operations of wrong paths.
    let fp = outcome.counter("core0", "fp_operations");
    let wrong = outcome.counter("core0", "issued") - integer - fp;
    assert!(wrong < 10, "{wrong}");
    let core0 = outcome.result.activities.iter();
    let core0: Vec<_> = core0.filter(|row| row.context == 0).collect();
    assert!(!core0.is_empty());
    let retired: u64 = core0.iter().map(|row| row.instructions).sum();
    assert_eq!(retired, outcome.counter("core0", "retired"));
    // All of it runs in machine mode.
    assert_eq!(retired, outcome.counter("core0.kernel", "retired"));
    assert_eq!(outcome.counter("core0.user", "retired"), 0);
    assert_eq!(outcome.counter("core0", "fp_operations"), 3 * COUNT);
}
