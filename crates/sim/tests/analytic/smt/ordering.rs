//! The order of memory: what atomics wait for and hold back, and what a store of another hart, or an older one of
//! its own, takes back.

use super::bench;
use crate::support::{Bench, DATA, Outcome, WAIT};

/// Far enough from everything that a test has touched.
const FAR: u64 = DATA + 0x10_0000;

fn number(key: &str) -> u64 {
    bench(&[]).parameters().number(key)
}

/// Cycles from retirement of what comes before `code`, which the instruction cache holds, to the end of it; a0 is a line
/// that the core owns, a1 one that it has not seen, and x5 is 1.
fn takes(set: &[&str], before: &str, code: &str) -> u64 {
    let code = format!(
        "li a0, {DATA}; li a1, {FAR}; li a2, 4096; li x5, 1; sd x0, 0(a0); sd x0, 64(a0)
         {WAIT}; li s1, 3
         again: add a1, a1, a2; {before}; mark; {code}; end; addi s1, s1, -1; beqz s1, done; fence rw, rw; j again
         done: exit"
    );
    let outcome = bench(set).hart(0, &code).run();
    let marks = outcome.marks(0);
    assert_eq!(marks.len(), 6);
    marks[5].cycle - marks[4].cycle
}

/// From the first cycle in which a store may ask for its line to the cycle in which it performs, if the second level
/// misses.
fn owned() -> u64 {
    number("l2.miss_latency_cycles") - number("l2.reply_cycles")
}

#[test]
fn an_atomic_waits_for_buffered_stores_if_it_releases_or_is_to_their_bytes() {
    let store = "sd x0, 0(a1)";
    for (atomic, waits) in [
        ("amoadd.d x0, x5, (a0)", false),
        ("amoadd.d.aq x0, x5, (a0)", false),
        ("amoadd.d.rl x0, x5, (a0)", true),
        ("amoadd.d.aqrl x0, x5, (a0)", true),
        ("lr.d x6, (a0)", false),
        ("lr.d.rl x6, (a0)", true),
        // Fences before it that order stores, and one that does not.
        ("fence w, w; amoadd.d x0, x5, (a0)", true),
        ("fence rw, w; amoadd.d x0, x5, (a0)", true),
        ("fence.tso; amoadd.d x0, x5, (a0)", true),
        ("fence r, rw; amoadd.d x0, x5, (a0)", false),
        // The store's bytes, and others of its line, which is there when the store performs.
        ("amoadd.d x0, x5, (a1)", true),
        // Device accesses and fences before loads are as they were.
        ("fence rw, rw", true),
    ] {
        let found = takes(&[], store, atomic);
        let expected = if waits { owned() } else { 0 };
        assert!(
            (expected..expected + 6).contains(&found),
            "{atomic}: {found} for {expected}"
        );
        let full = takes(&["core.atomic_order=full"], store, atomic);
        assert!((owned()..owned() + 6).contains(&full), "{atomic}: {full}");
    }
}

#[test]
fn loads_after_an_atomic_wait_for_it_if_it_acquires() {
    // Both miss; alone, either takes as long as the miss.
    let both = |atomic: &str| format!("{atomic} x0, x5, (a1); ld x6, 1024(a1); add x6, x6, x6");
    let miss = number("l2.miss_latency_cycles");
    for (atomic, misses) in [
        ("amoadd.d", 1),
        ("amoadd.d.rl", 1),
        ("amoadd.d.aq", 2),
        ("amoadd.d.aqrl", 2),
    ] {
        let found = takes(&[], "nop", &both(atomic));
        let expected = misses * miss - 20..misses * miss + 12;
        assert!(expected.contains(&found), "{atomic}: {found}");
        let full = takes(&["core.atomic_order=full"], "nop", &both(atomic));
        assert!((2 * miss - 20..2 * miss + 12).contains(&full), "{full}");
    }
}

/// Marks of `registers` after `code`, which a chain of divides goes before, in each of 20 rounds.
fn rounds(code: &str, registers: &[&str]) -> Outcome {
    let marks: Vec<_> = registers
        .iter()
        .map(|it| format!("mark {it}; nop"))
        .collect();
    let code = format!(
        "li a0, {DATA}; li a1, {}; li x5, 1; li x31, 3; li s1, 20
         again: div x7, x31, x31; div x7, x7, x31; addi x7, x7, 1
         {code}
         {}
         addi s1, s1, -1; beqz s1, done; j again
         done: exit",
        DATA + 4096,
        marks.join("; "),
    );
    bench(&[]).hart(0, &code).run()
}

/// A load that went ahead of an atomic of its hart to the same bytes has not had its value: it comes again, and
/// waits from then on.
#[test]
fn a_load_has_what_an_older_atomic_to_its_bytes_has_stored() {
    for atomic in ["amoadd.d", "amoadd.d.aq"] {
        let code = format!("{atomic} x6, x5, (a0); lw x29, 0(a0); lbu x28, 7(a0)");
        let outcome = rounds(&code, &["x6", "x29", "x28"]);
        let found: Vec<_> = outcome.marks(0).iter().map(|mark| mark.value).collect();
        let expected: Vec<_> = (0..20).flat_map(|n| [n, n + 1, 0]).collect();
        assert_eq!(found, expected, "{atomic}");
        let violations = outcome.counter("core0", "order_violations");
        // Each of both loads once.
        let expected = if atomic == "amoadd.d" { 1..=2 } else { 0..=0 };
        assert!(expected.contains(&violations), "{atomic}: {violations}");
    }
}

/// A store over the end of a page is done by the hart when it is the oldest; loads after it may have read.
#[test]
fn a_load_has_what_an_older_store_over_the_end_of_a_page_has_stored() {
    let code = "sd s1, -4(a1); lw x6, -4(a1); lw x29, 0(a1); lbu x28, -5(a1)";
    let outcome = rounds(code, &["x6", "x29", "x28"]);
    let found: Vec<_> = outcome.marks(0).iter().map(|mark| mark.value).collect();
    let expected: Vec<_> = (1..=20).rev().flat_map(|n| [n, 0, 0]).collect();
    assert_eq!(found, expected);
}

/// How often a load of hart 0 is replayed that reads early and retires late, while `writer` of another context, or
/// another core, stores again and again.
fn replays(set: &[&str], load: &str, store: &str, writer: usize) -> u64 {
    // A middle of a page, and the end of one.
    let setup = format!("li a0, {}; li a1, {}; li a2, 3", DATA + 1024, DATA + 4096);
    let reader = format!(
        "{setup}; {WAIT}; li s1, 100
         again: div x5, a2, a2; div x5, x5, a2; div x5, x5, a2; {load}; addi s1, s1, -1; beqz s1, done; j again
         done: exit"
    );
    let writer_code = format!(
        "{setup}; again: {store}; li t1, 20; wait: addi t1, t1, -1; bnez t1, wait; j again"
    );
    let bench = set
        .iter()
        .fold(Bench::new("smt8"), |bench, change| bench.set(change));
    let outcome = bench.hart(0, &reader).hart(writer, &writer_code).run();
    outcome.counter("core0", "replayed_loads")
}

#[test]
fn a_store_to_a_line_of_a_load_that_has_read_replays_it() {
    for writer in [1, 8] {
        for (load, store, replayed) in [
            // Of one line of 64 bytes: its first and last byte, and those beside it.
            ("ld x6, 16(a0)", "sb x0, 0(a0)", true),
            ("ld x6, 16(a0)", "sb x0, 63(a0)", true),
            ("ld x6, 16(a0)", "sb x0, 64(a0)", false),
            ("ld x6, 16(a0)", "sb x0, -1(a0)", false),
            // A load of two lines.
            ("ld x6, 60(a0)", "sb x0, 0(a0)", true),
            ("ld x6, 60(a0)", "sb x0, 127(a0)", true),
            ("ld x6, 60(a0)", "sb x0, 128(a0)", false),
            ("ld x6, 60(a0)", "sb x0, -1(a0)", false),
            // A store to two lines.
            ("ld x6, 16(a0)", "sd x0, 60(a0)", true),
            ("ld x6, 80(a0)", "sd x0, 60(a0)", true),
            ("ld x6, 128(a0)", "sd x0, 60(a0)", false),
            ("ld x6, 80(a0)", "sd x0, 56(a0)", false),
            // A store to two pages.
            ("ld x6, -64(a1)", "sd x0, -4(a1)", true),
            ("ld x6, 8(a1)", "sd x0, -4(a1)", true),
            ("ld x6, -72(a1)", "sd x0, -4(a1)", false),
            ("ld x6, 64(a1)", "sd x0, -4(a1)", false),
            // An atomic.
            ("ld x6, 16(a0)", "amoadd.d x6, x5, (a0)", true),
            ("ld x6, 64(a0)", "amoadd.d x6, x5, (a0)", false),
        ] {
            let found = replays(&[], load, store, writer);
            assert_eq!(
                found > 20,
                replayed,
                "{load} against {store} of hart {writer}: {found}"
            );
            assert!(replayed || found == 0, "{load} against {store}: {found}");
        }
    }
}

#[test]
fn the_line_that_counts_is_the_data_cache_s() {
    let set = ["l1i.line_bytes=32"];
    let other_half = replays(&set, "ld x6, 16(a0)", "sb x0, 32(a0)", 1);
    assert!(other_half > 20, "{other_half}");
    let next = replays(&set, "ld x6, 16(a0)", "sb x0, 64(a0)", 1);
    assert_eq!(next, 0);
}
