//! Misses of translation look-aside buffers that trap to a handler: what that costs whom.

use super::bench;
use crate::support::paging::{PAGE, Paged};
use crate::support::rounds::{self, COUNT, rounds};
use crate::support::{Bench, DATA, Outcome};

fn number(key: &str) -> u64 {
    bench(&[]).parameters().number(key)
}

/// Two entries, so that every access of four pages in turn misses.
const FEW: [&str; 2] = ["dtlb.entries=2", "dtlb.ways=2"];

/// Four pages, each of which points to the next; a3 to the first.
fn chase() -> String {
    let mut setup = String::from("mv a3, a0; mv a5, a0; ");
    for page in 0..4 {
        let last = if page == 3 {
            "mv a4, a5"
        } else {
            "add a4, a3, a2"
        };
        setup += &format!("{last}; sd a4, 0(a3); mv a3, a4; ");
    }
    setup + "mv a3, a5"
}

/// The same behind page tables.
fn paged_rounds(set: &[&str], setup: &str, block: &str, count: u64) -> Outcome {
    let code = Paged::new().program(&rounds(setup, block, count));
    bench(set).hart(0, &code).run()
}

/// Cycles of [`COUNT`] times `block` where it repeats.
fn steady(set: &[&str], setup: &str, block: &str) -> u64 {
    rounds::steady(set, |code| Paged::new().program(code), setup, block)
}

#[test]
fn a_load_that_misses_is_squashed_and_fetched_again_after_the_handler() {
    let load = number("latency.load_cycles");
    let register_read = number("core.register_read_cycles");
    let front = number("core.front_cycles");
    let width = number("core.fetch_width");
    assert_eq!(width, 8);
    // From the trap to the fetch of the load: the walk, or the fetch of the handler if that lasts longer.
    for (fixed, trap, instructions) in [
        (20, 4, 12),
        (21, 4, 12),
        (0, 4, 8),
        (0, 4, 16),
        (0, 4, 17),
        (0, 10, 16),
        (0, 10, 17),
        (0, 10, 0),
    ] {
        let set = [
            format!("walker.fixed_cycles={fixed}"),
            format!("latency.trap_cycles={trap}"),
            format!("walker.handler_instructions={instructions}"),
        ];
        let set: Vec<&str> = set.iter().map(String::as_str).chain(FEW).collect();
        let handler = trap + u64::div_ceil(instructions, width);
        let stopped = u64::max(fixed + 3 * load, handler);
        // It traps when it has executed, is fetched, renamed and issued again, and gives the next its address.
        let each = load + register_read + stopped + front + 1 + load;
        let found = steady(&set, &chase(), "ld a3, 0(a3)");
        assert_eq!(found, COUNT * each, "{set:?}");
    }
}

#[test]
fn a_handler_runs_for_each_miss_and_takes_places() {
    let outcome = |set: &[&str]| paged_rounds(set, &chase(), "ld a3, 0(a3); add t1, a3, x0", 40);
    let trapped = outcome(&FEW);
    let count = |outcome: &Outcome, name| outcome.counter("core0", name);
    let traps = count(&trapped, "translation_traps");
    assert!((3 * 40..3 * 40 + 20).contains(&traps), "{traps}");
    let handler = count(&trapped, "handler_instructions");
    assert_eq!(handler, traps * number("walker.handler_instructions"));
    let walks = trapped.counter("core0.walker", "walks");
    assert_eq!(walks, traps);
    // The hart retires what it retires without them.
    let beside = outcome(&[&FEW[..], &["walker.kind=hardware"]].concat());
    assert_eq!(count(&beside, "retired"), count(&trapped, "retired"));
    assert_eq!(count(&beside, "translation_traps"), 0);
    assert_eq!(count(&beside, "handler_instructions"), 0);
    let all = |outcome: &Outcome| count(outcome, "fetched") - count(outcome, "squashed");
    assert!(all(&trapped) >= count(&trapped, "retired") + handler);
}

/// Cycles of context 0 that are charged to `slot`, and all that are charged.
fn charged(outcome: &Outcome, slot: &str) -> (u64, u64) {
    let rows = outcome.result.accounts.iter();
    let rows = rows.filter(|row| row.context == 0);
    rows.fold((0, 0), |(found, all), row| {
        let own = if row.slot == slot { row.cycles } else { 0 };
        (found + own, all + row.cycles)
    })
}

#[test]
fn cycles_of_a_handler_are_charged_to_the_walk() {
    let stopped = number("walker.fixed_cycles") + 3 * number("latency.load_cycles");
    let walking = [40, 80].map(|count| {
        let outcome = paged_rounds(&FEW, &chase(), "ld a3, 0(a3)", count);
        let (walking, all) = charged(&outcome, "dtlb_walk");
        assert_eq!(all, outcome.result.cycles);
        walking
    });
    assert_eq!(walking[1] - walking[0], 3 * 40 * stopped);
}

/// Stores, atomics and data in two pages trap as loads do, once for each page that is missing.
#[test]
fn every_kind_of_access_traps() {
    for (access, pages) in [
        ("sd x0, 0(t1)", 1),
        ("amoadd.d t0, x0, (t1)", 1),
        ("ld t0, 0(t1)", 1),
        ("ld t0, -4(t1)", 2),
    ] {
        // Every page is forgotten but that of the code, which is another one.
        let setup = "add t1, a0, a2; li s2, 20; li s3, 0; csrrs s3, 0x180, x0";
        let code = format!(
            "{setup}\nagain: sfence.vma t1, x0; addi t2, t1, -8; sfence.vma t2, x0; {access}
             addi s2, s2, -1; bnez s2, again; exit"
        );
        let outcome = bench(&[]).hart(0, &Paged::new().program(&code)).run();
        let traps = outcome.counter("core0", "translation_traps");
        // Beside them those of the code and of the page that ends the run.
        let rest = traps - 20 * pages;
        assert!((1..=3).contains(&rest), "{access}: {traps}");
    }
}

#[test]
fn a_fetch_that_misses_traps() {
    // A return in each of four pages, which are called in turn.
    let setup = "li t0, 0x8067; li t2, 4; mv t1, a0; fill: sw t0, 0(t1); add t1, t1, a2; addi t2, t2, -1; bnez t2, fill; fence.i
         mv t3, a0; add t4, t3, a2; add t5, t4, a2; add t6, t5, a2";
    let calls = "jalr x1, 0(t3); jalr x1, 0(t4); jalr x1, 0(t5); jalr x1, 0(t6)";
    let set = ["itlb.entries=3", "itlb.ways=3"];
    let code = |entries: &[&str]| {
        let outcome = paged_rounds(entries, setup, calls, 10);
        (
            outcome.counter("core0", "translation_traps"),
            outcome.counter("core0.walker", "walks"),
            charged(&outcome, "itlb_walk").0,
        )
    };
    let (few, walks, walking) = code(&set);
    assert_eq!(few, walks);
    // One of the three entries is that of the calls.
    assert!((3 * 40..3 * 40 + 20).contains(&few), "{few}");
    let fixed = number("walker.fixed_cycles");
    assert!(walking >= 3 * 40 * fixed, "{walking}");
    let (enough, ..) = code(&[]);
    assert!(enough < 20, "{enough}");
}

/// Contexts of which each evicts what the others need all get on, as what was walked for serves who missed it.
#[test]
fn contexts_that_evict_each_others_translations_get_on() {
    let set = [
        "dtlb.entries=1",
        "dtlb.ways=1",
        "itlb.entries=1",
        "itlb.ways=1",
    ];
    let bench = Bench::new("smt8").set("system.cores=1");
    let bench = set.iter().fold(bench, |bench, set| bench.set(set));
    let code = |hart: u64, end: &str| {
        Paged::new().tables(hart).program(&format!(
            "li t3, {}; add t1, a0, t3; li s2, 10
             again: ld t0, 0(t1); sd t0, 8(t1); amoadd.d t2, t0, (t1); add t4, t1, a2; sd x0, -4(t4)
             addi s2, s2, -1; bnez s2, again; {end}",
            4 * hart * PAGE
        ))
    };
    let wait = format!("li s2, 20000; late: addi s2, s2, -1; bnez s2, late; li t0, {DATA}; exit");
    let bench = bench.hart(0, &code(0, &wait));
    let bench = (1..8).fold(bench, |bench, hart| {
        bench.hart(hart as usize, &code(hart, "mark; sleep: wfi; j sleep"))
    });
    let outcome = bench.run();
    for hart in 1..8 {
        assert_eq!(outcome.marks(hart).len(), 1, "{hart}");
    }
    // Each time round needs two pages.
    assert!(outcome.counter("core0", "translation_traps") >= 8 * 10 * 2);
}
