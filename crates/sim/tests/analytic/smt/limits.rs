//! Sizes and widths from both sides: what just fits runs at once, one more waits.

use super::{ALL_FP_ON, COUNT, bench, steady};
use crate::support::{Bench, DATA, WAIT};

/// A serial instruction: what comes after it begins when all before has retired.
const APART: &str = "csrrw x0, 0x340, x0";

fn number(key: &str) -> u64 {
    bench(&[]).parameters().number(key)
}

/// Cycles from the first mark of `block` to its last, in a round whose code is there and whose lines, from a0 on,
/// nobody has touched.
fn cold_lines(set: &[&str], block: &str) -> u64 {
    cold_lines_beside(bench(set), block)
}

/// The same on a machine whose other contexts have their code.
fn cold_lines_beside(bench: Bench, block: &str) -> u64 {
    let code = format!(
        "li a0, {DATA}; li a2, 4096; li s1, 3; {ALL_FP_ON}
         {WAIT}
         j again
         .line
         again: {APART}
         {block}
         {APART}
         add a0, a0, a2; addi s1, s1, -1; bnez s1, again
         exit"
    );
    let times = bench.hart(0, &code).run().times(0);
    let round = &times[times.len() / 3 * 2..];
    round[round.len() - 1] - round[0]
}

/// Whether the misses of two loads overlap that have `between` them.
fn overlap(bench: Bench, load: &str, between: &str) -> bool {
    let second = load.replace("0(a0)", "64(a0)");
    let block = format!("mark; nop; {load}; {between}; {second}; add x5, x0, x0; mark; nop");
    let miss = number("l2.miss_latency_cycles");
    let took = cold_lines_beside(bench, &block);
    let (one, two) = (miss..miss * 3 / 2, 2 * miss..miss * 5 / 2);
    assert!(
        one.contains(&took) || two.contains(&took),
        "{between}: {took} is neither one miss nor two"
    );
    one.contains(&took)
}

/// Two loads and what stands between them, each with a result: as many as there are registers are in flight, of all
/// contexts. The other one holds some of them for long, behind a load from a device.
#[test]
fn the_last_register_is_used_and_there_is_no_other() {
    const MTIME: u64 = 0x200_bff8;
    for (registers, held) in [(3, 0), (7, 0), (20, 0), (20, 8), (33, 30)] {
        for (key, load, write) in [
            ("integer_registers", "ld x5, 0(a0)", "addi x6, x0, 1"),
            ("fp_registers", "fld f5, 0(a0)", "fadd.d f6, f1, f1"),
        ] {
            let bench = Bench::new("smt8")
                .set("core.contexts=2")
                .set("core.integer_queue_entries=64")
                .set("memory.device_latency_cycles=50000")
                .set(&format!("core.{key}={registers}"));
            let holder = format!(
                "{ALL_FP_ON}; li a1, {MTIME}; {APART}
                 ld x0, 0(a1); .rept {held}; {write}; .endr; {APART}; done: wfi; j done"
            );
            let bench = bench.hart(1, &holder);
            let writes = |count| format!(".rept {count}; {write}; .endr");
            let fits = registers - held - 2;
            let what = format!("{key}: {registers}, of which {held} are held");
            assert!(overlap(bench.clone(), load, &writes(fits)), "{what}");
            assert!(!overlap(bench, load, &writes(fits + 1)), "{what}");
        }
    }
}

/// Stores that retire after one whose line misses: the buffer holds as many as it has entries, that one included.
#[test]
fn the_last_entry_of_the_store_buffer_is_used_and_there_is_no_other() {
    let miss = number("l2.miss_latency_cycles");
    for entries in [1, 2, 5, 16] {
        let set = format!("core.store_buffer_entries={entries}");
        let took = |stores: u64| {
            let block = format!("mark; .rept {stores}; sd a2, 0(a0); .endr; mark; nop");
            cold_lines(&[&set], &block)
        };
        let (fits, one_more) = (took(entries), took(entries + 1));
        assert!(fits < miss / 2, "{set}: {fits}");
        assert!(
            (miss..miss * 3 / 2).contains(&one_more),
            "{set}: {one_more}"
        );
    }
}

/// Instructions retired in a cycle are those of all contexts.
#[test]
fn contexts_share_the_width_of_retirement() {
    const CYCLES: u64 = 20_000;
    let code = ".line; again: mark; .rept 15; addi x5, x0, 1; .endr; j again";
    for width in [1, 2, 3] {
        let bench = Bench::new("smt8")
            .set(&format!("core.retire_width={width}"))
            .for_cycles(CYCLES);
        let outcome = bench.hart(0, code).hart(1, code).run();
        let total: u64 = (0..2)
            .map(|hart| 16 * outcome.marks(hart).len() as u64)
            .sum();
        let most = width * CYCLES;
        // Marks are of instructions that begin a round of sixteen.
        assert!(
            (most * 95 / 100..=most + 2 * 16).contains(&total),
            "{width}: {total} of {most}"
        );
    }
}

/// A chain of divides: one executes, the others wait in the queue, and each has a register. Registers are looked for
/// first, so that what finds neither is kept by them and not by the queue.
#[test]
fn what_finds_neither_a_register_nor_an_entry_waits_for_the_register() {
    const CYCLES: u64 = 20_000;
    let chain = format!("{ALL_FP_ON}; again: fdiv.d f1, f1, f1; j again");
    for (entries, registers, limit) in [
        (2, 6, "queue_full_cycles"),
        (2, 8, "queue_full_cycles"),
        (2, 3, "registers_full_cycles"),
        (6, 3, "registers_full_cycles"),
    ] {
        let found = [1, 2].map(|times| {
            let bench = bench(&[
                &format!("core.fp_queue_entries={entries}"),
                &format!("core.fp_registers={registers}"),
            ]);
            let outcome = bench.for_cycles(times * CYCLES).hart(0, &chain).run();
            ["queue_full_cycles", "registers_full_cycles"]
                .map(|name| (name, outcome.counter("core0", name)))
        });
        for ((name, few), (_, many)) in found[0].into_iter().zip(found[1]) {
            let expected = if name == limit { CYCLES } else { 0 };
            // A cycle of each divide has room.
            assert!(
                (expected * 95 / 100..=expected).contains(&(many - few)),
                "{entries} entries, {registers} registers: {name} {}",
                many - few
            );
        }
    }
}

/// An instruction is in the front end for as long as that takes, so a front end of few entries has so many
/// instructions in that time.
#[test]
fn the_last_entry_of_the_front_end_is_used_and_there_is_no_other() {
    for (front, entries) in [(3, 2), (3, 4), (10, 4), (10, 8), (16, 1)] {
        let set = [
            "core.front_end=queue".to_owned(),
            format!("core.front_cycles={front}"),
            format!("core.fetch_buffer_entries={entries}"),
        ];
        let set = set.each_ref().map(String::as_str);
        let found = steady(&set, "", "nop");
        assert_eq!(found, COUNT / entries * front, "{set:?}");
    }
}
