//! What crosses the end of a line needs both lines, where memory grants lines.

use crate::support::{Bench, DATA};

/// Cycles of `access`, twice: where no cache has its lines, and where the first level has.
fn cycles(access: &str) -> [u64; 2] {
    cycles_on("p-core", access)
}

fn cycles_on(machine: &str, access: &str) -> [u64; 2] {
    let once = format!("mark; nop; {access}; fence rw, rw; mark; nop");
    // Its own code first.
    let code = format!(
        "li a0, {DATA}; li a2, {}; li a3, 4096; li a1, 3; li s1, 2
         j begin
         .line
         begin: {once}; addi a0, a0, 1024; add a2, a2, a3; addi s1, s1, -1; bnez s1, begin
         addi a0, a0, -1024; sub a2, a2, a3; {once}; exit",
        DATA + 2048
    );
    let times = Bench::new(machine).hart(0, &code).run().times(0);
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

#[test]
fn a_store_over_the_end_of_a_page_owns_both_lines_before_it_performs() {
    for machine in ["p-core", "knl", "in-order"] {
        let memory = Bench::new(machine)
            .parameters()
            .number("dram.row_hit_cycles");
        let ([near, hit], [both, again]) = (
            cycles_on(machine, "sd a1, 56(a2)"),
            cycles_on(machine, "sd a1, 2044(a2)"),
        );
        assert!(near > memory, "{machine}: {near}");
        assert!(both > near + memory, "{machine}: {both} after {near}");
        assert!(again < hit + memory / 2, "{machine}: {again} after {hit}");
    }
}
