//! Closed forms of waits, by their probes.

use super::super::testing::{FREE, SLICE, file, host, run};

/// Acquires the lock at address `lock` in so many cycles, holds it for about a thousand, and releases it. Its labels end with
/// `name`. Probes take no time.
fn section(name: &str, lock: u64, wait_cycles: u64) -> String {
    let spins = wait_cycles / 2;
    format!(
        "li s1, {lock}
        li s0, {spins}
        slti zero, s1, 5
        spin_{name}: addi s0, s0, -1
        bnez s0, spin_{name}
        slti zero, s1, 6
        li s0, 500
        work_{name}: addi s0, s0, -1
        bnez s0, work_{name}
        slti zero, s1, 7"
    )
}

#[test]
fn waits_for_a_lock_that_another_one_has_are_known_apart() {
    // Hart 1 begins to acquire the lock of address 8 while hart 0 has it, then one of its own.
    let zero = section("first", 8, 4);
    let one = section("theirs", 8, 600);
    let own = section("own", 16, 600);
    let program = format!(
        "bnez a0, one
        {zero}
        end: j end
        one: li s0, 100
        late: addi s0, s0, -1
        bnez s0, late
        {one}
        {own}
        stop: j stop"
    );
    let file = file(2, 2 * SLICE / 10, FREE, "", &[(2, "")]);
    let rows = run(&mut host(file, &[&program])).waits;
    let found: Vec<_> = rows
        .iter()
        .map(|row| {
            let all = (row.waits, row.wait_cycles);
            (
                row.log2_cycles,
                all,
                (row.contended_waits, row.contended_wait_cycles),
            )
        })
        .collect();
    assert_eq!(found, [(2, (1, 4), (0, 0)), (9, (2, 1200), (1, 600))]);
}

#[test]
fn a_wait_is_also_known_by_the_cycles_in_which_it_was_executed() {
    // Both share one CPU. Hart 0 has the lock for more than its slice; the wait of hart 1 is interrupted by one slice.
    let wait_cycles = SLICE + 1000;
    let spins = wait_cycles / 2;
    let program = format!(
        "li s1, 8
        li s0, {spins}
        slti zero, s1, 5
        bnez a0, spin
        slti zero, s1, 6
        work: addi s0, s0, -1
        bnez s0, work
        slti zero, s1, 7
        end: j end
        spin: addi s0, s0, -1
        bnez s0, spin
        slti zero, s1, 6
        stop: j stop"
    );
    let file = file(1, 10 * SLICE / 10, FREE, "", &[(2, "")]);
    let rows = run(&mut host(file, &[&program])).waits;
    let waits: Vec<_> = rows
        .iter()
        .map(|row| {
            let whole = (row.waits, row.wait_cycles);
            let executed = (row.executed_waits, row.executed_wait_cycles);
            (row.log2_cycles, whole, executed)
        })
        .collect();
    // The branch to the loop is a cycle of the wait.
    let executed = wait_cycles + 1;
    let whole = executed + SLICE;
    let found = [
        // That of hart 0, which had the lock at once.
        (0, (1, 1), (1, 1)),
        (executed.ilog2(), (0, 0), (1, executed)),
        (whole.ilog2(), (1, whole), (0, 0)),
    ];
    assert_eq!(waits, found);
}
