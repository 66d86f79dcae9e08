//! Context-cycle accounts: values that can be worked out, and their sums.

use std::collections::BTreeMap;

use crate::support::{Bench, DATA, Outcome};

/// What the slots of a context were used for.
fn slots(outcome: &Outcome, context: usize) -> BTreeMap<&'static str, u64> {
    let mut slots = BTreeMap::new();
    for row in &outcome.result.accounts {
        if usize::from(row.context) == context {
            *slots.entry(row.slot).or_default() += row.cycles;
        }
    }
    slots
}

/// What `block` adds to the account of hart 0 each time: the difference of two runs in which a loop of it goes around 100
/// and 300 times. `others` are more harts with their code.
fn account(machine: &str, block: &str, others: &[(usize, &str)]) -> BTreeMap<&'static str, i64> {
    let run = |rounds: u64| {
        let code = format!(
            "li a0, {DATA}; li a1, {}; li a2, 3; sd a2, 0(a0); fence rw, rw; ld t0, 0(a0)
             li t0, 0x6000; csrrs x0, 0x300, t0
             li s1, {rounds}; j again
             .line
             again: {block}
             addi s1, s1, -1; bnez s1, again
             exit",
            DATA + 64
        );
        let mut bench = Bench::new(machine).hart(0, &code);
        for (hart, code) in others {
            bench = bench.hart(*hart, code);
        }
        let outcome = bench.run();
        check_sums(&outcome);
        slots(&outcome, 0)
    };
    let (few, many) = (run(100), run(300));
    let mut each = BTreeMap::new();
    for (slot, cycles) in many {
        let more = cycles as i64 - few.get(slot).copied().unwrap_or_default() as i64;
        if more != 0 {
            assert_eq!(more % 200, 0, "{machine}: {slot} of {block}");
            each.insert(slot, more / 200);
        }
    }
    each
}

/// Every context is charged for every cycle.
fn check_sums(outcome: &Outcome) {
    let mut sums: BTreeMap<u16, u64> = BTreeMap::new();
    for row in &outcome.result.accounts {
        *sums.entry(row.context).or_default() += row.cycles;
    }
    assert!(!sums.is_empty());
    for (context, sum) in sums {
        assert_eq!(sum, outcome.result.cycles, "context {context}");
    }
}

/// The branch at the end of a round, and the subtraction before it.
const T1_LOOP: [(&str, i64); 2] = [("retired", 2), ("branch", 2)];
const T2_LOOP: [(&str, i64); 2] = [("retired", 2), ("branch", 5)];

/// `block` adds `expected` to the account, beside the loop around it.
fn check(machine: &str, block: &str, expected: &[(&'static str, i64)]) {
    let around = if machine == "t1" { T1_LOOP } else { T2_LOOP };
    let mut sum: BTreeMap<&str, i64> = BTreeMap::new();
    for (slot, cycles) in around.iter().chain(expected) {
        *sum.entry(slot).or_default() += cycles;
    }
    assert_eq!(account(machine, block, &[]), sum, "{machine}: {block}");
}

/// The default spin loop of the paper with its lock taken: eleven cycles on the T1, of which four are used.
#[test]
fn the_account_of_a_spin_loop() {
    let spin = "li t2, 10; spin: lbu t0, 0(a0); fence r, r; nop; addi t2, t2, -1; bnez t2, spin";
    // A count, and ten rounds of load, barrier, nop, counter and branch, the last not taken.
    let t1 = [
        ("retired", 51),
        ("load_hit", 20),
        ("branch", 20),
        ("executing", 30),
    ];
    check("t1", spin, &t1);
    // On the T2 nothing waits for the load, and the last branch costs nothing.
    check("t2", spin, &[("retired", 51), ("branch", 45)]);
    let waits = "lbu t0, 0(a0); fence r, r; add t0, t0, t0";
    check("t2", waits, &[("retired", 3), ("dependence", 1)]);
}

/// The loop itself, without a counter, for ever: 10,000 rounds of eleven and nine cycles.
#[test]
fn the_account_of_an_endless_spin_loop() {
    let t1 = [
        ("retired", 4),
        ("load_hit", 2),
        ("branch", 2),
        ("executing", 3),
    ];
    let t2 = [
        ("retired", 4),
        ("load_hit", 0),
        ("branch", 5),
        ("executing", 0),
    ];
    let code = format!(
        "li a0, {DATA}; li a1, 1; sb a1, 0(a0); fence rw, rw
         .line
         spin: lbu t0, 0(a0); fence r, r; nop; bnez t0, spin"
    );
    for (machine, expected) in [("t1", t1), ("t2", t2)] {
        let run = |cycles| {
            let outcome = Bench::new(machine).hart(0, &code).for_cycles(cycles).run();
            slots(&outcome, 0)
        };
        let round: i64 = expected.iter().map(|(_, cycles)| cycles).sum();
        let (early, late) = (run(10_000), run(10_000 + 10_000 * round as u64));
        let count = |slots: &BTreeMap<&str, u64>, slot| slots.get(slot).copied().unwrap_or(0);
        for (slot, cycles) in expected {
            let got = count(&late, slot) - count(&early, slot);
            assert_eq!(got, 10_000 * cycles as u64, "{machine}: {slot}");
        }
    }
}

#[test]
fn the_account_of_each_kind_of_wait() {
    check("t1", "mul a3, a1, a2", &[("retired", 1), ("executing", 10)]);
    check("t1", "div a3, a1, a2", &[("retired", 1), ("executing", 71)]);
    check(
        "t1",
        "csrrs a3, 0x340, x0",
        &[("retired", 1), ("executing", 3)],
    );
    check(
        "t1",
        "fadd.d f1, f2, f3",
        &[("retired", 1), ("executing", 23)],
    );
    check(
        "t1",
        "amoadd.d a3, a2, (a1)",
        &[("retired", 1), ("atomic", 38)],
    );
    check(
        "t2",
        "amoadd.d a3, a2, (a1)",
        &[("retired", 1), ("atomic", 29)],
    );
    check(
        "t2",
        "fadd.d f1, f2, f3; fadd.d f2, f1, f3",
        &[("retired", 2), ("dependence", 5)],
    );
    check("t1", "pause", &[("retired", 1)]);
    // An atomic takes the line from the first level, so the load finds it in the second.
    check(
        "t1",
        "amoadd.d a3, a2, (a1); ld a3, 0(a1)",
        &[("retired", 2), ("atomic", 38), ("l2_hit", 21)],
    );
    // The barrier waits until the store is acknowledged.
    check(
        "t1",
        "sd a2, 0(a1); fence rw, rw",
        &[("retired", 2), ("store_buffer", 21), ("executing", 7)],
    );
    check(
        "t1",
        "add a1, a1, a2; ld a3, 0(a0); ld a3, 0(a0)",
        &[("retired", 3), ("load_hit", 4)],
    );
    check(
        "t1",
        "ecall_free: nop; j next; next: nop",
        &[("retired", 3), ("branch", 2)],
    );
}

/// A line of memory each round: 99 cycles behind the load.
#[test]
fn the_account_of_a_miss() {
    let block = "add a1, a1, t3; ld a3, 0(a1); li t3, 64";
    check("t1", block, &[("retired", 3), ("l2_miss", 99)]);
    check("t2", block, &[("retired", 3), ("l2_miss", 229)]);
}

/// What contexts do in 100,000 cycles in the middle of a run in which each executes an instruction over and over.
fn in_the_middle(
    machine: &str,
    instructions: &[(usize, &str)],
) -> Vec<BTreeMap<&'static str, u64>> {
    in_the_middle_of(|| Bench::new(machine), instructions)
}

/// The same of any bench.
fn in_the_middle_of(
    machine: impl Fn() -> Bench,
    instructions: &[(usize, &str)],
) -> Vec<BTreeMap<&'static str, u64>> {
    let run = |cycles| {
        let mut bench = machine();
        for (hart, instruction) in instructions {
            let code = format!(
                "li a1, 64; li a2, 3; li a4, {DATA}; li t0, 0x6000; csrrs x0, 0x300, t0
                 again: .rept 200; {instruction}; .endr; j again"
            );
            bench = bench.hart(*hart, &code);
        }
        let outcome = bench.for_cycles(cycles).run();
        check_sums(&outcome);
        outcome
    };
    let (early, late) = (run(50_000), run(150_000));
    let between = |(context, _): &(usize, &str)| {
        let before = slots(&early, *context);
        let since = |(slot, cycles)| (slot, cycles - before.get(slot).copied().unwrap_or_default());
        slots(&late, *context).into_iter().map(since).collect()
    };
    instructions.iter().map(between).collect()
}

/// That `slots` is `expected` but for the jumps at the ends of rounds.
fn check_about(slots: &BTreeMap<&str, u64>, expected: &[(&str, u64)]) {
    for &(slot, cycles) in expected {
        let got = slots.get(slot).copied().unwrap_or_default();
        assert!(got.abs_diff(cycles) <= 1000, "{slot} {cycles}: {slots:?}");
    }
}

/// Two contexts divide in turns of 73 cycles, one more than alone, as the other waits. In its own turn each executes; in
/// the other's it waits for the unit, but for the first cycle, in which the unit is free and the other is selected.
#[test]
fn the_account_of_a_busy_unit() {
    let turn = 100_000 / 146;
    for slots in in_the_middle("t1", &[(0, "div a3, a1, a2"), (1, "div a3, a1, a2")]) {
        let own = [("retired", turn), ("executing", 72 * turn)];
        let others = [("not_selected", turn), ("unit_busy", 71 * turn)];
        check_about(&slots, &[own, others].concat());
    }
    // The floating-point unit of the chip is shared with another core, which it serves in the order of asking: to ask, a
    // context is selected, so it never just misses its turn.
    let turn = 100_000 / 166;
    for slots in in_the_middle("t1", &[(0, "fdiv.d f1, f2, f3"), (4, "fdiv.d f1, f2, f3")]) {
        check_about(
            &slots,
            &[
                ("retired", turn),
                ("executing", 83 * turn),
                ("unit_busy", 82 * turn),
            ],
        );
    }
    // Two pipes load every other cycle each.
    for slots in in_the_middle("t2", &[(0, "lbu x0, 0(a4)"), (4, "lbu x0, 0(a4)")]) {
        check_about(&slots, &[("retired", 50_000), ("unit_busy", 50_000)]);
    }
}

/// Accounts add up wherever a run ends; here in all phases of waiting for the floating-point unit of the chip.
#[test]
fn accounts_add_up_wherever_a_run_ends() {
    let code = "li t0, 0x6000; csrrs x0, 0x300, t0; again: fdiv.d f1, f2, f3; j again";
    for cycles in (5_000..5_200).step_by(3) {
        let bench = [0, 1, 4]
            .iter()
            .fold(Bench::new("t1"), |bench, &hart| bench.hart(hart, code));
        check_sums(&bench.for_cycles(cycles).run());
    }
}

/// A context that could issue but is not selected: four of them add on one pipe, no slot is left, and who does not issue
/// is ready. Where selection knows at once whom it has selected, each has a quarter of the slots; as late as on the T1 they
/// need not have equal parts.
#[test]
fn the_account_of_not_being_selected() {
    let adds: Vec<_> = (0..4).map(|hart| (hart, "add a1, a1, a2")).collect();
    for (lag, most) in [(1, 100), (4, 5_000)] {
        let set = format!("core.selection_lag_cycles={lag}");
        let all = in_the_middle_of(|| Bench::new("t1").set(&set), &adds);
        let sum = |slot| all.iter().map(|slots| slots[slot]).sum::<u64>();
        assert!(sum("retired") > 99_800, "{all:?}");
        assert!(sum("not_selected") > 298_000, "{all:?}");
        for slots in all {
            assert!(slots["retired"].abs_diff(25_000) < most, "{lag}: {slots:?}");
        }
    }
    let lag = Bench::new("t1").parameters();
    assert_eq!(lag.number("core.selection_lag_cycles"), 4);
}

/// Activities follow mode and probes; sleeping harts are idle for all of their time but a few instructions.
#[test]
fn activities_say_what_a_hart_was_doing() {
    let code = format!(
        "li a0, {DATA}
         slti x0, a0, 5; .rept 50; nop; .endr; slti x0, a0, 6
         pause
         exit"
    );
    let outcome = Bench::new("t1")
        .set("wait.pause_cycles=500")
        .hart(0, &code)
        .run();
    check_sums(&outcome);
    let activity = |context: u16, activity: &str| -> u64 {
        let rows = outcome.result.accounts.iter();
        rows.filter(|row| row.context == context && row.activity == activity)
            .map(|row| row.cycles)
            .sum()
    };
    assert_eq!(activity(0, "pausing"), 499);
    // Fifty instructions and the misses of the lines that they begin.
    let spinning = activity(0, "spinning");
    assert!((50..50 + 8 * 100).contains(&spinning), "{spinning}");
    assert!(activity(1, "idle") > outcome.result.cycles / 4);
    assert_eq!(activity(0, "idle"), 0);
}
