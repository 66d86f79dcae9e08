//! What changes the course of fetch: traps, what squashes take back, and how long a wrong path lasts.

use super::bench;
use crate::support::{Bench, DATA, Outcome, WAIT};

/// Cycles of `rounds` rounds of `block`, within a line, with a handler that only returns to the next instruction.
///
/// The handler is the line after the first, and returns to the second instruction of the line after that.
fn rounds(trap: u64, block: &str) -> u64 {
    let run = |rounds: u64| {
        let code = format!(
            "auipc s3, 0; addi s3, s3, 64; csrrw x0, 0x305, s3; addi s2, s3, 68; addi s1, x0, {rounds}
             mark; j again
             .line
             csrrw x0, 0x341, s2; mret
             .line
             again: {block}; next: addi s1, s1, -1; bnez s1, again
             mark; nop
             exit"
        );
        let set = format!("latency.trap_cycles={trap}");
        let steps = bench(&[&set]).hart(0, &code).run().steps(0);
        assert_eq!(steps.len(), 1);
        steps[0]
    };
    run(1500) - run(500)
}

/// A trap, and the return from it, each cost what is said where a write of a register costs a cycle until the next
/// fetch; all three stop fetch until they retire.
#[test]
fn a_trap_takes_its_cycles_where_a_write_of_a_register_takes_one() {
    let writes = "csrrw x0, 0x340, s2";
    for trap in [1, 4, 30] {
        let traps = rounds(trap, "ecall");
        let without = rounds(trap, &format!("{writes}; {writes}; {writes}"));
        assert_eq!(traps - without, 1000 * 2 * (trap - 1), "{trap}");
    }
}

/// Calls that were fetched after an instruction that raises an exception, or that a store takes back, have pushed
/// addresses to return to; those are gone with them.
fn returns_after(set: &[&str], early: &str, setup: &str) -> Outcome {
    // g stops fetch, so that of its return nothing is fetched before the squash.
    let code = format!(
        "auipc t0, 0; addi t0, t0, 16; csrrw x0, 0x305, t0; j start
         csrrs t0, 0x341, x0; addi t0, t0, 4; csrrw x0, 0x341, t0; mret
         .line
         f: {early}; mv s3, x1; jal x1, g; mv x1, s3; jalr x0, 0(x1)
         .line
         g: csrrw x0, 0x340, x0; jalr x0, 0(x1)
         start: {setup}; li s1, 200
         again: jal x1, f; addi s1, s1, -1; bnez s1, again
         exit"
    );
    let set = set.iter();
    let outcome = set.fold(bench(&[]), |bench, set| bench.set(set));
    let outcome = outcome.hart(0, &code).run();
    assert!(outcome.counter("core0.branch", "returns") >= 400);
    outcome
}

#[test]
fn a_trap_takes_back_what_calls_after_it_have_pushed() {
    // Nothing answers there.
    let outcome = returns_after(&[], "ld t0, 0(a1)", "li a1, 0x8000000");
    assert_eq!(outcome.counter("core0", "traps"), 200);
    let wrong = outcome.counter("core0.branch", "returns_mispredicted");
    assert!(wrong < 10, "{wrong}");
}

#[test]
fn a_load_that_is_done_again_takes_back_what_calls_after_it_have_pushed() {
    let setup = format!("li a0, {DATA}; li a4, 1");
    let late = "mul a1, a0, a4; mul a1, a1, a4; mul a1, a1, a4; sd a4, 0(a1); ld t0, 0(a0)";
    let outcome = returns_after(&["core.store_wait_clear_cycles=1"], late, &setup);
    let violations = outcome.counter("core0", "order_violations");
    assert!(violations >= 150, "{violations}");
    let wrong = outcome.counter("core0.branch", "returns_mispredicted");
    assert!(wrong < 10, "{wrong}");
}

/// Loads of the wrong path ask for their lines until the branch is found to have been predicted wrongly. Every
/// round's branch is; the load after it in program order, whose address comes `delay` cycles after the branch has
/// what it needs, is to a line that nobody has touched.
fn wrong_path_misses(register_read: u64, delay: u64) -> u64 {
    const ROUNDS: u64 = 100;
    let code = format!(
        "li a0, {DATA}; li a2, 64; li a4, 1; li s1, {ROUNDS}
         {WAIT}
         again: add a0, a0, a2; mul t1, a0, a4; mul t1, t1, a4; mul t1, t1, a4
         mv t2, t1; .rept {delay}; addi t2, t2, 0; .endr
         beq t1, a0, over; ld t0, 0(t2)
         over: addi s1, s1, -1; bnez s1, again
         exit"
    );
    let set = [
        format!("core.register_read_cycles={register_read}"),
        "branch.kind=not_taken".to_owned(),
    ];
    let set = set.each_ref().map(String::as_str);
    let outcome = bench(&set).hart(0, &code).run();
    let misses = outcome.counter("core0.l1d", "misses");
    assert!(misses == 0 || misses == ROUNDS, "{misses} misses");
    misses / ROUNDS
}

#[test]
fn loads_of_a_wrong_path_ask_for_lines_until_it_is_found_to_be_wrong() {
    let bench = Bench::new("smt8").parameters();
    let access = bench.number("latency.load_cycles") - 1;
    for register_read in [2, 5, 9] {
        // The branch issues with the copy of its operand, and fetch is redirected when it has executed.
        let redirected = register_read + 1;
        for delay in 0..12 {
            // The load issues after the copy and the chain.
            let accesses = 1 + delay + access;
            if accesses != redirected {
                let expected = u64::from(accesses < redirected);
                let found = wrong_path_misses(register_read, delay);
                assert_eq!(found, expected, "{register_read}, {delay}");
            }
        }
    }
}
