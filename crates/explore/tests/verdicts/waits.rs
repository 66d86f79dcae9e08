//! Waits that nobody ends are deadlocks, and others are none, under every model: no order of accesses changes that.

use loiter_explore::{Kind, Limits, Litmus, Model};

/// How a program fails under each model.
fn failures(text: &str) -> [Option<Kind>; 3] {
    let test = Litmus::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    Model::ALL.map(|model| {
        let found = test.explore(model, &Limits::default());
        let found = found.unwrap_or_else(|error| panic!("{text}: {error}"));
        found.failure.map(|failure| failure.kind)
    })
}

/// Each waits for what the other writes after its own wait; the second does `first` before its wait.
fn each_waits(first: &str) -> String {
    format!(
        "RISCV waits\n{{ 0:x5=1; 0:x6=x; 0:x7=y; 1:x5=1; 1:x6=x; 1:x7=y; }}\n P0 | P1 ;\n A: | {first} ;\n lw x8,0(x6) | B: \
         ;\n beq x8,x0,A | lw x8,0(x7) ;\n sw x5,0(x7) | beq x8,x0,B ;\n | sw x5,0(x6) ;\nexists (0:x8=1)"
    )
}

#[test]
fn who_waits_for_one_another_is_a_deadlock() {
    let found = failures(&each_waits("addi x0,x0,0"));
    assert_eq!(found, [Some(Kind::Deadlock); 3]);
}

#[test]
fn a_wait_that_another_ends_is_none() {
    assert_eq!(failures(&each_waits("sw x5,0(x6)")), [None; 3]);
}

/// Both take a lock by swaps; who has it, and does not give it back, leaves the other waiting.
#[test]
fn a_lock_that_is_not_released_is_a_deadlock() {
    let test = |last: &str| {
        format!(
            "RISCV lock\n{{ 0:x5=1; 0:x6=x; 1:x5=1; 1:x6=x; }}\n P0 | P1 ;\n A: | B: ;\n amoswap.w.aq x8,x5,(x6) | \
             amoswap.w.aq x8,x5,(x6) ;\n bne x8,x0,A | bne x8,x0,B ;\n {last} | {last} ;\nexists (0:x8=0)"
        )
    };
    assert_eq!(failures(&test("amoswap.w.rl x0,x0,(x6)")), [None; 3]);
    assert_eq!(failures(&test("addi x0,x0,0")), [Some(Kind::Deadlock); 3]);
}
