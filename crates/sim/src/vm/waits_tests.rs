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
