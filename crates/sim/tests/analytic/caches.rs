//! Loads by the level that serves them, unloaded; capacity, associativity and replacement of the first level.

use crate::support::{Bench, DATA, WAIT};

/// Lines of 64 bytes that no cache has seen: four loads to the four 16-byte lines of each, and one more. The addresses
/// advance by 4 KiB, so nothing is replaced. Cycles of each load, of the third round, in which the code is cached.
fn five_loads(bench: Bench) -> Vec<u64> {
    let code = format!(
        "li a0, {DATA}; li a1, 4096; li s1, 3
         {WAIT}
         again:
         mark; ld t0, 0(a0); mv t0, t0
         mark; ld t0, 16(a0); mv t0, t0
         mark; ld t0, 32(a0); mv t0, t0
         mark; ld t0, 56(a0); mv t0, t0
         mark; ld t0, 8(a0); mv t0, t0
         mark
         add a0, a0, a1; addi s1, s1, -1; bnez s1, again
         exit"
    );
    let steps = bench.hart(0, &code).run().steps(0);
    // Each takes a cycle more for the instruction that reads the value.
    steps[12..].iter().map(|step| step - 1).collect()
}

#[test]
fn a_load_takes_the_time_of_the_level_that_has_the_line() {
    assert_eq!(five_loads(Bench::new("t1")), [100, 22, 22, 22, 3]);
    assert_eq!(five_loads(Bench::new("t2")), [230, 22, 22, 22, 3]);
}

/// A quarter of a line is fetched at a time: of four L1D lines in an L2 line three are found in the L2.
#[test]
fn counters_say_which_level_served() {
    for machine in ["t1", "t2"] {
        let code = format!(
            "li a0, {DATA}; ld t0, 0(a0); ld t0, 16(a0); ld t0, 32(a0); ld t0, 48(a0); ld t0, 8(a0); exit"
        );
        let outcome = Bench::new(machine).hart(0, &code).run();
        assert_eq!(outcome.counter("core0.l1d", "accesses"), 5, "{machine}");
        assert_eq!(outcome.counter("core0.l1d", "misses"), 4, "{machine}");
        assert_eq!(outcome.counter("core1.l1d", "accesses"), 0, "{machine}");
    }
}

/// Cycles of an atomic on a line that the second level has, and on one that it has not.
#[test]
fn an_atomic_takes_the_time_of_the_second_level() {
    let code = format!(
        "li a0, {DATA}; li a1, 4096; li s1, 3
         {WAIT}
         again:
         mark; amoadd.d t0, a1, (a0)
         mark; amoadd.d t0, a1, (a0)
         mark; amocas.d t0, a1, (a0)
         mark; lr.d t0, (a0)
         mark; sc.d t0, a1, (a0)
         mark
         add a0, a0, a1; addi s1, s1, -1; bnez s1, again
         exit"
    );
    for (machine, hit, miss) in [("t1", 39, 39 + 100 - 22), ("t2", 30, 30 + 230 - 22)] {
        let steps = Bench::new(machine).hart(0, &code).run().steps(0);
        assert_eq!(steps[12..], [miss, hit, hit, hit, hit], "{machine}");
    }
}

/// An instruction line that the first level has not: the rest of an L2 line from there, a new one from memory.
#[test]
fn a_cold_instruction_line_takes_the_time_of_the_level_that_has_it() {
    // With their marks, four instructions are 32 bytes, a line of the first level.
    let code = format!("{WAIT}; j cold; .line; nop; .line; cold: .rept 16; mark; nop; .endr; exit");
    for (machine, miss) in [("t1", 100), ("t2", 230)] {
        let steps = Bench::new(machine).hart(0, &code).run().steps(0);
        let line = |first: u64| [first + 1, 1, 1, 1];
        let expected = [line(miss), line(22), line(miss), line(22)].concat();
        assert_eq!(steps, expected[1..], "{machine}");
    }
}

/// Compressed instructions issue like others; one of four bytes whose halves lie in two lines waits for both.
#[test]
fn an_instruction_across_two_lines_waits_for_both() {
    // c.nop, a mark, addi x0, x0, 0 from the last two bytes of the line on, c.nop.
    const ACROSS: &str = ".word 0x20130001; .word 0x00130030; .word 0x00010000";
    let code = format!(
        "li s1, 3; {WAIT}; j again
         .line
         again: nop; nop; nop; mark; nop; nop; {ACROSS}; mark; nop
         addi s1, s1, -1; bnez s1, again; exit"
    );
    for machine in ["t1", "t2"] {
        let steps = Bench::new(machine).hart(0, &code).run().steps(0);
        // Three nops, until the second line comes from the second level in the first round; then two instructions.
        let rounds = [&steps[0..2], &steps[3..5], &steps[6..8]];
        assert_eq!(rounds, [[3 + 22, 2], [3, 2], [3, 2]], "{machine}");
    }
}

/// One round: load, next address, branch; with nothing but hits, and what a miss adds.
const ROUND: [(&str, u64); 2] = [("t1", 3 + 1 + 3), ("t2", 1 + 1 + 6)];
const MISS_ADDS: [(&str, u64); 2] = [("t1", 22 - 3), ("t2", 22 - 1)];

/// Cycles of each of `passes` passes over `lines` lines `stride` apart; the second level has them all.
fn passes(bench: Bench, lines: u64, stride: u64, passes: u64) -> Vec<u64> {
    let code = format!(
        "li a0, {DATA}; li a1, {stride}; li a2, {}; li s1, {}
         {WAIT}
         # The second level first, by atomics, which do not fill the first.
         mv a3, a0
         fill: amoor.d x0, x0, (a3); add a3, a3, a1; bne a3, a2, fill
         # The whole loop is in one line, which is fetched before it begins.
         j enter
         .line
         again:
         mv a3, a0
         mark
         pass: ld t0, 0(a3); add a3, a3, a1; bne a3, a2, pass
         mark
         enter: addi s1, s1, -1; bnez s1, again
         exit",
        DATA + lines * stride,
        passes + 1
    );
    let steps = bench.hart(0, &code).run().steps(0);
    steps.into_iter().step_by(2).collect()
}

/// What a pass takes in which `misses` of `lines` loads miss. The last branch is not taken, which makes it shorter on
/// the T2.
fn expected(machine: &str, lines: u64, misses: u64) -> u64 {
    let last = if machine == "t1" { 0 } else { 6 - 1 };
    let of = |table: &[(&str, u64)]| table.iter().find(|(name, _)| *name == machine).unwrap().1;
    lines * of(&ROUND) - last + misses * of(&MISS_ADDS)
}

#[test]
fn the_first_level_holds_as_much_as_it_is_large() {
    for machine in ["t1", "t2"] {
        let got = passes(Bench::new(machine), 512, 16, 4);
        let hit = expected(machine, 512, 0);
        assert_eq!(got[1..], [hit; 3], "{machine}: 8 KiB in lines of 16 bytes");
        assert_eq!(got[0], expected(machine, 512, 512), "{machine}: cold");
    }
}

/// One line more than fits: with LRU its set, five lines in four ways, misses always; the others hit.
#[test]
fn one_line_too_many_costs_lru_its_set() {
    for machine in ["t1", "t2"] {
        let bench = Bench::new(machine).set("l1d.replacement=lru");
        let got = passes(bench, 513, 16, 4);
        assert_eq!(got[1..], [expected(machine, 513, 5); 3], "{machine}");
    }
}

/// Lines 2 KiB apart are of one set.
#[test]
fn a_set_holds_as_many_lines_as_there_are_ways() {
    for machine in ["t1", "t2"] {
        for (lines, misses) in [(3, 0), (4, 0), (5, 5), (6, 6)] {
            let bench = Bench::new(machine).set("l1d.replacement=lru");
            let got = passes(bench, lines, 2048, 4);
            assert_eq!(
                got[1..],
                [expected(machine, lines, misses); 3],
                "{machine}: {lines}"
            );
        }
    }
}

/// The T1 chooses by a 16-bit linear feedback shift register (taps 16, 15, 13, 4), here worked out bit by bit.
#[test]
fn random_replacement_is_that_of_the_shift_register() {
    const LINES: u64 = 6;
    let mut register: Vec<u8> = (0..16).map(|bit| u8::from(bit == 0)).collect();
    let mut random = || {
        let feedback = register[0] ^ register[1] ^ register[3] ^ register[12];
        register.remove(0);
        register.push(feedback);
        usize::from(register[0] + 2 * register[1])
    };
    let mut set: Vec<u64> = Vec::new();
    let mut expected_passes = Vec::new();
    for _ in 0..12 {
        let mut misses = 0;
        for line in 0..LINES {
            if set.contains(&line) {
                continue;
            }
            misses += 1;
            if set.len() < 4 {
                set.push(line);
            } else {
                set[random()] = line;
            }
        }
        expected_passes.push(expected("t1", LINES, misses));
    }
    let got = passes(Bench::new("t1"), LINES, 2048, 12);
    assert_eq!(got, expected_passes);
    assert!(
        got.iter()
            .any(|&cycles| cycles < expected("t1", LINES, LINES))
    );
}
