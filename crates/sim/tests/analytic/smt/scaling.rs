//! Throughput over the number of contexts, from the superscalar on.

use crate::support::Bench;

const CYCLES: u64 = 20_000;

const PRESETS: [(&str, u64); 8] = [
    ("superscalar", 1),
    ("smt2", 2),
    ("smt4", 4),
    ("smt6", 6),
    ("smt8", 8),
    ("smt12", 12),
    ("smt16", 16),
    ("smt24", 24),
];

/// Instructions in [`CYCLES`] cycles of all contexts of a core, each of which runs a loop of so many.
fn retired(preset: &str, contexts: u64, code: &str, instructions: u64) -> u64 {
    let bench = Bench::new(preset).for_cycles(CYCLES);
    let bench = (0..contexts as usize).fold(bench, |bench, hart| bench.hart(hart, code));
    let outcome = bench.run();
    let marks = (0..contexts as usize).map(|hart| outcome.marks(hart).len() as u64);
    instructions * marks.sum::<u64>()
}

/// A context alone is bound by the chains of its program, all together by the units for it. So
/// throughput is that of one context times their number as long as it lies below that of the units, and
/// that of the units from there on; nothing is lost between the two.
#[test]
fn throughput_grows_with_contexts_until_the_units_are_busy() {
    // Code, instructions of the loop, cycles of a loop alone, cycles for which all its units are busy with it.
    let fp_on = "li t0, 0x6000; csrrs x0, 0x300, t0; li a6, 1; fcvt.d.l f1, a6";
    let chains = ".rept 7; addi a1, a1, 1; addi a2, a2, 1; .endr";
    for (name, setup, block, instructions, alone, (work, a_cycle)) in [
        ("two chains", "", chains, 15, 7, (15, 6)),
        // Two contexts are fetched from in a cycle, so that two can go round.
        ("floating point", fp_on, "fadd.d f1, f1, f1", 2, 4, (1, 2)),
        (
            "loads",
            "li a0, 0x81000000; sd a0, 0(a0)",
            "ld a0, 0(a0); ld a0, 0(a0); ld a0, 0(a0); ld a0, 0(a0)",
            5,
            4,
            (4, 2),
        ),
    ] {
        let code = format!("{setup}\n.line\nagain: mark\n{block}\nj again");
        let mut before = 0;
        for (preset, contexts) in PRESETS {
            let found = retired(preset, contexts, &code, instructions);
            // Rounds in all cycles: as many as each context makes alone, or as the units allow.
            let by_chains = contexts * CYCLES / alone;
            let by_units = CYCLES * a_cycle / work;
            let most = instructions * by_chains.min(by_units);
            // The first misses of code and data take some hundreds of cycles.
            assert!(
                (most * 96 / 100..=most + instructions * contexts).contains(&found),
                "{name}, {preset}: {found} of {most}"
            );
            let levelled = by_chains >= by_units;
            assert!(
                levelled || found > before,
                "{name}, {preset}: {found} after {before}"
            );
            before = found;
        }
    }
}
