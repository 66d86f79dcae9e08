//! Units that contexts, pipes and cores share: how long each context's turn takes when several want one.

use crate::support::{Bench, DATA};

/// Operations between two marks, and marks in a round of a loop.
const COUNT: u64 = 8;
const MARKS: usize = 20;

/// Cycles of each operation, when each hart executes its own block of eight for ever: the most frequent time between two
/// marks, for the branch at the end of somebody's round disturbs all.
fn cycles_of_eight(mut bench: Bench, blocks: &[(usize, String)]) -> Vec<u64> {
    for (hart, block) in blocks {
        let code = format!(
            "li a0, {DATA}; li a1, 7; li a2, 1
             li t0, 0x6000; csrrs x0, 0x300, t0; fcvt.d.l f1, a2; fadd.d f2, f1, f1
             ld t0, 0(a0)
             again:
             .rept {MARKS}
             mark; {block}
             .endr
             j again"
        );
        bench = bench.hart(*hart, &code);
    }
    let outcome = bench.for_cycles(150_000).run();
    let each = |(hart, _): &(usize, String)| {
        let steps = outcome.steps(*hart);
        let warm = &steps[steps.len() / 2..];
        let count = |step: u64| warm.iter().filter(|&&other| other == step).count();
        let most = warm
            .iter()
            .copied()
            .max_by_key(|&step| count(step))
            .unwrap();
        assert!(2 * count(most) > warm.len(), "hart {hart}: {warm:?}");
        assert_eq!(most % COUNT, 0, "hart {hart}: {warm:?}");
        most / COUNT
    };
    blocks.iter().map(each).collect()
}

/// The same operation eight times.
fn cycles_each(bench: Bench, operations: &[(usize, &str)]) -> Vec<u64> {
    let eight = |&(hart, operation): &(usize, &str)| (hart, format!("{operation}; ").repeat(8));
    let blocks: Vec<_> = operations.iter().map(eight).collect();
    cycles_of_eight(bench, &blocks)
}

fn t1() -> Bench {
    Bench::new("t1").set("system.cores=4")
}

fn t2() -> Bench {
    Bench::new("t2")
}

const DIV: &str = "div a3, a1, a2";
const MUL: &str = "mul a3, a1, a2";
const FADD: &str = "fadd.d f3, f1, f2";
const FMUL: &str = "fmul.d f3, f1, f2";
const LOAD: &str = "lbu a3, 0(a0)";
const FLOAD: &str = "fld f3, 0(a0)";
const FDIV: &str = "fdiv.d f3, f1, f2";

/// Contexts that want a unit over and over have it in turns. With a waiter each turn takes a cycle more than the operation:
/// the unit stays busy three cycles after the one in which it is done, two before the next slot of who used it.
fn check_turns(operation: &str, cycles: u64) {
    assert_eq!(cycles_each(t1(), &[(0, operation)]), [cycles]);
    for contexts in 2..=4 {
        let blocks: Vec<_> = (0..contexts).map(|hart| (hart, operation)).collect();
        let expected = vec![contexts as u64 * (cycles + 1); contexts];
        assert_eq!(cycles_each(t1(), &blocks), expected, "{operation}");
    }
}

#[test]
fn multiplies_and_divides_of_a_t1_core_take_turns() {
    for (operation, cycles) in [(DIV, 72), (MUL, 11)] {
        check_turns(operation, cycles);
        // Each core has its own.
        assert_eq!(
            cycles_each(t1(), &[(0, operation), (4, operation)]),
            [cycles; 2]
        );
    }
    // A multiply and a divide are in nobody's way.
    assert_eq!(cycles_each(t1(), &[(0, MUL), (1, DIV)]), [11, 72]);
}

#[test]
fn a_t1_core_has_one_floating_point_operation_under_way() {
    for (operation, cycles) in [(FADD, 24), (FMUL, 28), (FDIV, 83)] {
        check_turns(operation, cycles);
    }
    assert_eq!(cycles_each(t1(), &[(0, FADD), (1, FDIV)]), [25 + 84; 2]);
    // Loads and stores of its registers are operations too.
    assert_eq!(cycles_each(t1(), &[(0, FADD), (1, FLOAD)]), [25 + 10; 2]);
    assert_eq!(cycles_each(t1(), &[(0, FLOAD), (1, FLOAD)]), [2 * 10; 2]);
    assert_eq!(cycles_each(t1(), &[(0, FADD), (1, LOAD)]), [24, 3]);
    // Unless they do not pass through the unit: then each runs as if alone.
    let bench = || t1().set("fpu.moves_registers=false");
    assert_eq!(cycles_each(bench(), &[(0, FADD), (1, FLOAD)]), [24, 9]);
    assert_eq!(cycles_each(bench(), &[(0, FDIV), (1, FADD)]), [84 + 25; 2]);
}

/// The one divider of the chip serves its cores in turn; adds and multiplies of several cores overlap, three at a time.
#[test]
fn the_t1_has_one_floating_point_unit_for_all_cores() {
    for cores in 1..=4 {
        let harts: Vec<usize> = (0..cores).map(|core| 4 * core).collect();
        let all = |operation| -> Vec<_> { harts.iter().map(|&hart| (hart, operation)).collect() };
        let count = cores as u64;
        assert_eq!(cycles_each(t1(), &all(FDIV)), vec![83 * count; cores]);
        if cores <= 3 {
            assert_eq!(cycles_each(t1(), &all(FADD)), vec![24; cores]);
            assert_eq!(cycles_each(t1(), &all(FMUL)), vec![28; cores]);
        }
    }
    assert_eq!(
        cycles_each(t1(), &[(0, FADD), (4, FMUL), (8, FDIV)]),
        [24, 28, 83]
    );
    // With overlap for one, all cores share it.
    let bench = || t1().set("fpu.overlap=1");
    assert_eq!(
        cycles_each(bench(), &[(0, FADD), (4, FADD), (8, FADD)]),
        [3 * 24; 3]
    );
    let bench = || t1().set("fpu.overlap=2");
    assert_eq!(
        cycles_each(bench(), &[(0, FADD), (4, FADD), (8, FADD), (12, FADD)]),
        [2 * 24; 4]
    );
}

/// How often the adder and the multiplier of the chip's unit take an operation.
#[test]
fn the_units_of_the_chip_are_busy_as_long_as_they_say() {
    for (key, operation) in [("add", FADD), ("mul", FMUL)] {
        let bench = || t1().set(&format!("fpu.{key}_busy_cycles=20"));
        let all: Vec<_> = [0, 4, 8].map(|hart| (hart, operation)).into();
        assert_eq!(cycles_each(bench(), &all[..2]), [2 * 20; 2], "{operation}");
        assert_eq!(cycles_each(bench(), &all), [3 * 20; 3], "{operation}");
    }
    let bench = t1().set("fpu.add_busy_cycles=20");
    assert_eq!(cycles_each(bench, &[(0, FADD), (4, FMUL)]), [24, 28]);
}

/// The T2 has one divider a core for integers and floating point, of which its pipes have every other turn; everything
/// else is pipelined.
#[test]
fn divides_of_a_t2_core_take_turns() {
    assert_eq!(cycles_each(t2(), &[(0, DIV)]), [13]);
    assert_eq!(cycles_each(t2(), &[(0, DIV), (1, DIV)]), [2 * 13; 2]);
    assert_eq!(cycles_each(t2(), &[(0, DIV), (4, DIV)]), [2 * 13; 2]);
    assert_eq!(cycles_each(t2(), &[(0, DIV), (4, FDIV)]), [13 + 33; 2]);
    assert_eq!(
        cycles_each(t2(), &[(0, FDIV), (1, FDIV), (5, FDIV)]),
        [4 * 33, 4 * 33, 2 * 33]
    );
    assert_eq!(cycles_each(t2(), &[(0, FDIV), (8, FDIV)]), [33; 2]);
    assert_eq!(
        cycles_each(t2(), &[(0, MUL), (1, MUL), (4, MUL), (5, MUL)]),
        [9; 4]
    );
}

/// Independent operations, eight in a row to different registers.
fn row(operation: impl Fn(usize) -> String) -> String {
    (0..8).map(|n| operation(n) + "; ").collect()
}

/// Two pipes get one load or store and one floating-point operation a cycle between them.
#[test]
fn the_pipes_of_a_t2_core_share_load_store_and_floating_point() {
    let loads = row(|n| format!("lbu s{}, {n}(a0)", n + 2));
    let adds = row(|n| format!("addi s{}, a1, {n}", n + 2));
    let fadds = row(|n| format!("fadd.d f{}, f1, f2", n + 8));
    let check = |blocks: &[(usize, &String)], expected: &[u64]| {
        let blocks: Vec<_> = blocks
            .iter()
            .map(|&(hart, block)| (hart, block.clone()))
            .collect();
        assert_eq!(cycles_of_eight(t2(), &blocks), expected);
    };
    check(&[(0, &loads)], &[1]);
    check(&[(0, &loads), (4, &loads)], &[2, 2]);
    check(&[(0, &fadds), (4, &fadds)], &[2, 2]);
    check(&[(0, &adds), (4, &adds)], &[1, 1]);
    check(&[(0, &loads), (4, &adds)], &[1, 1]);
    check(&[(0, &loads), (4, &fadds)], &[1, 1]);
    // Contexts of one pipe share its cycles, and those of two pipes the unit.
    check(&[(0, &adds), (1, &adds), (2, &adds), (3, &adds)], &[4; 4]);
    check(
        &[(0, &loads), (1, &loads), (4, &loads), (5, &loads)],
        &[4; 4],
    );
    check(&[(0, &loads), (8, &loads)], &[1, 1]);
}

const ADD: &str = "addi a3, a1, 1";

/// What a T2 core counts in 20,000 cycles in which each of its contexts executes one operation over and over.
fn counted(operations: [&str; 8], set: &[&str]) -> impl Fn(&str) -> u64 {
    let line = DATA + 512;
    let begin = format!("li a0, {DATA}; li a1, 7; li a2, 1; li a4, {line}; ld t0, 0(a0)");
    let run = |cycles| {
        // So that nobody's jump leaves a slot to nobody.
        let bench = t2().set("latency.jump_cycles=1");
        let mut bench = set.iter().fold(bench, |bench, change| bench.set(change));
        for (hart, operation) in operations.iter().enumerate() {
            let code = format!("{begin}; again: .rept 64; {operation}; .endr; j again");
            bench = bench.hart(hart, &code);
        }
        bench.for_cycles(cycles).run()
    };
    let (first, second) = (run(40_000), run(60_000));
    move |name| second.counter("core0", name) - first.counter("core0", name)
}

/// The first context executes `operation`, all others add.
fn beside_adds(operation: &'static str) -> [&'static str; 8] {
    [operation, ADD, ADD, ADD, ADD, ADD, ADD, ADD]
}

/// In pipes that are never idle each slot is an instruction, or was taken.
#[test]
fn results_of_multiplies_and_divides_take_slots_of_a_t2_pipe() {
    for (operation, cycles) in [(MUL, 9), (DIV, 13)] {
        let with = counted(beside_adds(operation), &[]);
        let holes = with("hole_slots");
        // A slot is counted when it is taken, a few cycles ahead.
        let used = with("issued") + holes;
        assert!(used.abs_diff(2 * 20_000) <= 1, "{operation}: {used}");
        // After each it waits for its turn among four.
        let operations = 20_000 / (cycles + 4)..=20_000 / cycles;
        assert!(operations.contains(&holes), "{operation}: {holes}");
        let without = ["core.integer_result_slot_cycles=0"];
        let without = counted(beside_adds(operation), &without);
        assert_eq!((without("issued"), without("hole_slots")), (2 * 20_000, 0));
    }
    let none = counted(beside_adds(ADD), &[]);
    assert_eq!((none("issued"), none("hole_slots")), (2 * 20_000, 0));
}

#[test]
fn an_atomic_takes_slots_and_the_load_store_unit_for_as_long() {
    const AMO: &str = "amoadd.d a3, a1, (a4)";
    for slots in [1, 2, 3] {
        let set = [&*format!("core.atomic_slots={slots}")];
        let found = counted(beside_adds(AMO), &set);
        let (atomics, holes) = (found("atomics"), found("hole_slots"));
        assert!(atomics > 300, "{atomics}");
        assert!(holes.abs_diff((slots - 1) * atomics) < slots, "{holes}");
        let used = found("issued") + holes;
        assert!(used.abs_diff(2 * 20_000) < slots, "{slots} slots: {used}");
        assert_eq!(found("pipe_conflicts"), 0);
        // The favour is always on the pipe that lost last. So beside another that loads in every cycle an atomic loses its
        // first cycle to a load, and the loads one to its first slot and to each that follows.
        let found = counted([AMO, ADD, ADD, ADD, LOAD, LOAD, LOAD, LOAD], &set);
        let (atomics, conflicts) = (found("atomics"), found("pipe_conflicts"));
        assert!(atomics > 300, "{atomics}");
        // One slot in 65 of the other pipe is a jump, which leaves the unit to the atomic.
        let most = (slots + 1) * atomics;
        assert!(
            (most * 96 / 100..=most).contains(&conflicts),
            "{slots} slots: {conflicts} conflicts of {atomics}"
        );
    }
}
