//! What loads return that overtake stores: values against a small model of memory, and which orders of two
//! contexts are never seen.

use super::bench;
use crate::support::{Bench, DATA, Outcome, WAIT};

/// A chain at whose end a1 is a0, some two hundred cycles after a0 is there.
const LATE: &str = "mul a1, a0, a4; .rept 25; mul a1, a1, a4; .endr";

/// Values that marks of kind "ends" have left.
fn ends(outcome: &Outcome, hart: usize) -> Vec<u64> {
    let marks = outcome.marks(hart).into_iter();
    marks
        .filter(|mark| mark.end)
        .map(|mark| mark.value)
        .collect()
}

/// The load has the value of the store before when the address of the last store turns out to be its own too:
/// that store is the very next one, or others lie between.
#[test]
fn a_load_takes_back_what_it_had_from_an_older_store() {
    for between in ["", "nop", "sd a2, 64(a0)", "sd a2, 64(a0); nop; nop"] {
        let code = format!(
            "li a0, {DATA}; li a4, 1; li a2, 7; li a3, 9
             {WAIT}
             {LATE}
             sd a2, 0(a0); {between}; sd a3, 0(a1); ld t0, 0(a0); end t0
             exit"
        );
        let outcome = bench(&[]).hart(0, &code).run();
        assert_eq!(ends(&outcome, 0), [9], "{between}");
        assert_eq!(outcome.counter("core0", "order_violations"), 1, "{between}");
        assert!(
            outcome.counter("core0", "forwarded_loads") >= 1,
            "{between}"
        );
    }
}

/// Bytes that random accesses touch: more than one line has.
const BYTES: u64 = 40;

/// Random stores and loads of all widths to a few bytes, half of them with an address that is late; the program, and
/// what its loads return by the words of the manual.
fn accesses(seed: u64) -> (String, Vec<u64>) {
    let mut state = seed;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    // The first bytes of a line lie in the middle.
    let mut code = format!("li a0, {}; li a4, 1; mv a1, a0", DATA + 64 - BYTES / 2);
    let mut memory = [0_u8; BYTES as usize];
    let mut expected = Vec::new();
    for n in 0..200 {
        if n % 12 == 0 {
            code += "\nmul a1, a0, a4; mul a1, a1, a4; mul a1, a1, a4";
        }
        let (store, load, width) = [
            ("sb", "lbu", 1_u64),
            ("sh", "lhu", 2),
            ("sw", "lwu", 4),
            ("sd", "ld", 8),
        ][random(4) as usize];
        // Aligned more often than not, so that accesses meet exactly, too.
        let at = match random(3) {
            0 => random(BYTES - width + 1),
            _ => random(BYTES / width) * width,
        };
        let base = if random(2) == 0 { "a0" } else { "a1" };
        let bytes = at as usize..(at + width) as usize;
        if random(2) == 0 {
            let value = random(1 << 31) << 32 | random(1 << 31) << 1;
            code += &format!("\nli t1, {value}; {store} t1, {at}({base})");
            memory[bytes].copy_from_slice(&value.to_le_bytes()[..width as usize]);
        } else {
            code += &format!("\n{load} t0, {at}({base}); end t0");
            let mut value = [0; 8];
            value[..width as usize].copy_from_slice(&memory[bytes]);
            expected.push(u64::from_le_bytes(value));
        }
    }
    (format!("{code}\nexit"), expected)
}

#[test]
fn loads_return_what_the_last_stores_to_their_bytes_have_written() {
    let (mut violations, mut forwarded) = (0, 0);
    for preset in ["smt8", "p-core"] {
        for seed in 0..40 {
            let (code, expected) = accesses(seed);
            let bench = Bench::new(preset)
                .set("core.contexts=1")
                .set("core.fetch_contexts=1");
            let outcome = bench.hart(0, &code).run();
            assert_eq!(ends(&outcome, 0), expected, "{preset}, seed {seed}");
            violations += outcome.counter("core0", "order_violations");
            forwarded += outcome.counter("core0", "forwarded_loads");
        }
    }
    assert!(violations > 100, "{violations} violations");
    assert!(forwarded > 100, "{forwarded} forwarded");
}

/// A wide load gets the bytes of a narrow store before it, and the others from memory.
#[test]
fn a_wide_load_takes_of_a_narrow_store_no_more_than_it_has() {
    let code = format!(
        "li a0, {DATA}; li a2, -1; li a3, 0x55; sd a2, 0(a0); fence rw, rw
         {WAIT}
         sb a3, 3(a0); ld t0, 0(a0); end t0
         sb a3, 7(a0); lwu t0, 4(a0); end t0
         sw a3, 8(a0); ld t0, 4(a0); end t0
         exit"
    );
    let outcome = bench(&[]).hart(0, &code).run();
    let first = 0xffff_ffff_55ff_ffff;
    assert_eq!(ends(&outcome, 0), [first, 0x55ff_ffff, 0x55_55ff_ffff]);
}

/// A load that was once ahead of a store to its bytes waits for older stores until the bits are forgotten, and is
/// ahead again then: once in each period.
#[test]
fn a_load_that_was_ahead_of_a_store_waits_until_that_is_forgotten() {
    let rounds = |clear: u64| {
        let code = format!(
            "li a0, {DATA}; li a4, 1; li a2, 7; li s1, 200
             {WAIT}
             again: csrrw x0, 0x340, x0; {LATE}
             sd a2, 0(a1); ld t0, 0(a0); end t0
             addi s1, s1, -1; bnez s1, again
             exit"
        );
        let set = format!("core.store_wait_clear_cycles={clear}");
        let outcome = bench(&[&set]).hart(0, &code).run();
        let times = outcome.times(0);
        assert_eq!(times.len(), 200);
        let violations = outcome.counter("core0", "order_violations");
        (violations, times[0], times[199])
    };
    let (violations, first, last) = rounds(100_000_000);
    assert_eq!(violations, 1);
    assert!(last - first > 40_000, "{first} to {last}");
    for clear in [5_000, 16_000] {
        let (violations, first, last) = rounds(clear);
        // A round at either end of a period may be without one.
        let periods = last / clear - first / clear + 1;
        assert!(
            (periods - 1..=periods).contains(&violations),
            "{violations} in {periods} periods of {clear}"
        );
    }
}

/// The store's address is a divide's result. Its load waits for it until the bits are forgotten, though nothing else
/// happens in that cycle, and is ahead of it again: in each round.
#[test]
fn a_load_goes_ahead_when_its_wait_is_forgotten_and_nothing_else_happens() {
    const ROUNDS: u64 = 50;
    let code = format!(
        "li a0, {DATA}; li a4, 1; li a2, 7; li s1, {ROUNDS}
         {WAIT}
         again: csrrw x0, 0x340, x0; div a1, a0, a4
         sd a2, 0(a1); ld t0, 0(a0)
         addi s1, s1, -1; bnez s1, again
         exit"
    );
    let set = [
        "latency.div_min_cycles=1000",
        "latency.div_max_cycles=1000",
        "core.store_wait_clear_cycles=300",
    ];
    let outcome = bench(&set).hart(0, &code).run();
    assert_eq!(outcome.counter("core0", "order_violations"), ROUNDS);
}

/// What a reader sees of two words that another hart writes one after the other, the second one read first in
/// program order but with an address that comes late. The writer begins `delay` after it.
fn two_words(preset: &str, writer: usize, delay: u64) -> (u64, u64, u64) {
    // Both have the lines they need, of code too, before they begin: a first pass is far from the words.
    let warm = format!(
        "li a0, {DATA}; li a3, 8192; add a5, a0, a3; li a4, 1; ld t1, 0(a0); ld t2, 64(a0); li a2, 1; li s2, 2
         pass: {WAIT}"
    );
    let again = "mv a5, a0; addi s2, s2, -1; bnez s2, pass; done: wfi; j done";
    // Both stores of a writer that has to take the lines from another core fall between the reader's loads.
    let late = if writer == 1 { 25 } else { 70 };
    let reader = format!(
        "{warm}
         mul a1, a5, a4; .rept {late}; mul a1, a1, a4; .endr
         ld t1, 64(a1); ld t2, 0(a5); mv t0, t1; end t0; mv t0, t2; end t0
         {again}"
    );
    let writer_code = format!(
        "{warm}
         .rept {delay}; mul a2, a2, a4; .endr
         sd a2, 0(a5); sd a2, 64(a5)
         {again}"
    );
    let bench = Bench::new(preset).for_cycles(30_000);
    let outcome = bench.hart(0, &reader).hart(writer, &writer_code).run();
    let seen = ends(&outcome, 0);
    let seen = seen.last_chunk::<2>().expect("two passes");
    let replayed = outcome.counter("core0", "replayed_loads");
    (seen[0], seen[1], replayed)
}

/// Total store order: who has seen the second word has seen the first, also when it had read that before.
#[test]
fn loads_are_not_seen_out_of_order_by_another_hart() {
    for (preset, other_core) in [("smt8", 8), ("p-core", 2)] {
        for writer in [1, other_core] {
            let (mut outcomes, mut replayed) = (Vec::new(), 0);
            for delay in (0..100).step_by(2) {
                let (second, first, replays) = two_words(preset, writer, delay);
                assert!(
                    second == 0 || first == 1,
                    "{preset}: {writer} after {delay}: second word new, first word old"
                );
                outcomes.push((second, first));
                replayed += replays;
            }
            let what = format!("{preset}, hart {writer}: {outcomes:?}");
            assert!(outcomes.contains(&(0, 0)), "{what}");
            assert!(outcomes.contains(&(1, 1)), "{what}");
            // Without a replay some of them would have been wrong.
            assert!(replayed > 3, "{what}: {replayed} replays");
        }
    }
}

/// A fence that orders stores before loads waits until the stores have performed; others do not.
#[test]
fn a_fence_waits_for_stores_that_it_orders_before_loads() {
    let miss = bench(&[]).parameters().number("l2.miss_latency_cycles");
    for (fence, waits) in [
        ("fence rw, rw", true),
        ("fence w, r", true),
        ("fence rw, w", false),
        ("fence r, r", false),
        ("nop", false),
    ] {
        // Lines that nobody has touched; code that is there.
        let code = format!(
            "li a0, {DATA}; li a2, 4096; li s1, 3
             {WAIT}
             j again
             .line
             again: mark; sd a2, 0(a0); {fence}; mark; nop; csrrw x0, 0x340, x0
             add a0, a0, a2; addi s1, s1, -1; bnez s1, again
             exit"
        );
        let steps = bench(&[]).hart(0, &code).run().steps(0);
        let took = *steps.last().unwrap();
        assert_eq!(took >= miss, waits, "{fence}: {took}");
        assert!(waits || took < miss / 4, "{fence}: {took}");
        assert!(took < miss + 40, "{fence}: {took}");
    }
}
