//! What only the kernel does, or is kept from doing: `fence.i`, and references that do not touch the caches.

use super::bench;
use crate::support::{DATA, Outcome, WAIT};

/// Lines of code after a `fence.i` in each time round.
const LINES: u64 = 5;

/// `rounds` times a `fence.i` and [`LINES`] lines of code.
fn fences(set: &[&str], rounds: u64) -> Outcome {
    let line = "nop; ".repeat(15);
    let lines: String = (0..LINES - 1).map(|_| format!("{line} nop; ")).collect();
    // The line of the fence is one of them.
    let code = format!(
        "{WAIT}
         li s1, {rounds}
         .line
         again: fence.i; addi s1, s1, -1; beqz s1, done; {} {lines} j again
         .line
         done: exit",
        "nop; ".repeat(13)
    );
    bench(set).hart(0, &code).run()
}

#[test]
fn a_fence_i_empties_the_instruction_cache_where_it_is_to() {
    let misses = |set: &[&str]| {
        let each = [10, 20].map(|rounds| fences(set, rounds).counter("core0", "l1i_misses"));
        each[1] - each[0]
    };
    // What follows the fence in its line, the other lines, and that of the jump back.
    assert_eq!(misses(&["core.fence_i_empties=true"]), 10 * (LINES + 1));
    assert_eq!(misses(&["core.fence_i_empties=false"]), 0);
    let lost = fences(&["core.fence_i_empties=true"], 20).counter("core0.l1i", "invalidations");
    assert!(lost >= 19 * (LINES + 1), "{lost}");
}

/// In machine mode, which counts as the kernel's.
#[test]
fn kernel_references_may_pass_the_caches_by() {
    let code = format!(
        "li a0, {DATA}; li s1, 200; li a2, 4096
         again: ld t0, 0(a0); sd t0, 64(a0); amoadd.d t1, t0, (a0); add a0, a0, a2
         addi s1, s1, -1; bnez s1, again; exit"
    );
    let run = |set: &[&str]| bench(set).hart(0, &code).run();
    let counts = |outcome: &Outcome| {
        ["l1i_accesses", "l1d_accesses", "l2_accesses"].map(|name| outcome.counter("core0", name))
    };
    let plain = run(&[]);
    assert!(counts(&plain).iter().all(|&count| count >= 5));
    let bypassing = run(&["core.kernel_bypasses=caches"]);
    assert_eq!(counts(&bypassing), [0, 0, 0]);
    let perfect = run(&["l1i.perfect=true", "l1d.perfect=true"]);
    assert_eq!(bypassing.result.cycles, perfect.result.cycles);
    assert!(bypassing.result.cycles < plain.result.cycles / 2);
    // The predictors are another matter.
    let predicted = run(&["core.kernel_bypasses=predictors"]);
    assert_eq!(counts(&predicted), counts(&plain));
}
