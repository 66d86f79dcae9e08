//! What crosses the end of a line needs both lines, where memory grants lines.

use crate::support::{Bench, DATA};

/// Cycles of `access`, twice: where no cache has its lines, and where the first level has.
fn cycles(access: &str) -> [u64; 2] {
    let once = format!("mark; nop; {access}; fence rw, rw; mark; nop");
    // Its own code first.
    let code = format!(
        "li a0, {DATA}; li a1, 3; li s1, 2
         j begin
         .line
         begin: {once}; addi a0, a0, 1024; addi s1, s1, -1; bnez s1, begin
         addi a0, a0, -1024; {once}; exit"
    );
    let times = Bench::new("p-core").hart(0, &code).run().times(0);
    let [_, _, from, to, again, end] = times[..] else {
        panic!("three times two marks: {times:?}")
    };
    [to - from, end - again]
}

#[test]
fn what_crosses_a_line_waits_for_both_and_then_for_neither() {
    let parameters = Bench::new("p-core").parameters();
    let memory = parameters.number("dram.row_hit_cycles");
    for (within, across) in [
        ("ld t0, 56(a0)", "ld t0, 60(a0)"),
        ("sd a1, 56(a0)", "sd a1, 60(a0)"),
    ] {
        let ([near, hit], [both, again]) = (cycles(within), cycles(across));
        assert!(near > memory, "{within}: {near}");
        // One after the other.
        assert!(both > near + memory, "{across}: {both} after {near}");
        assert!(again <= hit + 2, "{across}: {again} after {hit}");
    }
}
