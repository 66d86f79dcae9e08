//! In-order cores that own what they store to, to the cycle: what accesses cost by who has the line, and whom a store
//! wakes.

use crate::support::{Bench, DATA, PAUSE, Parameters};

/// A quarter of a step, by which harts of different cores stay apart.
const STEP: u64 = PAUSE / 4;

/// Cycles from a miss to its performing where another core has the line alone: to its home, to that core and back, and
/// from home.
fn from_other(parameters: &Parameters) -> u64 {
    let number = |key: &str| parameters.number(key);
    let control = number("network.stop_cycles") + number("network.latency_cycles");
    let line = control + number("network.line_cycles") - 1;
    // It leaves a cycle after the miss.
    1 + 2 * control + number("home.tag_cycles") + number("coherence.snoop_cycles") + 2 * line
}

/// The same where another core has a copy and this one too: no message has a line.
fn upgrade(parameters: &Parameters) -> u64 {
    let number = |key: &str| parameters.number(key);
    let control = number("network.stop_cycles") + number("network.latency_cycles");
    1 + 4 * control + number("home.tag_cycles") + number("coherence.snoop_cycles")
}

/// Code that does each access in the step of its number, after a round of each that fetches its own lines.
fn steps(accesses: &[(u64, &str)]) -> String {
    let mut code = format!("li a0, {DATA}; li a1, 1; li a4, 0; j begin\n.line\nbegin:\n");
    let mut last = 0;
    for (n, &(step, access)) in accesses.iter().enumerate() {
        let rounds = (step - last) * STEP;
        last = step;
        code += &format!(
            "li t1, {rounds}; wait{n}: addi t1, t1, -1; bnez t1, wait{n}
             j go{n}
             .line
             go{n}: mark; {access}; mark; nop; nop\n"
        );
    }
    code + "done: wfi; j done"
}

fn durations(times: &[u64]) -> Vec<u64> {
    times.chunks(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Until the store has performed; until the value is there.
const STORE: &str = "sd a1, 0(a0); fence rw, rw";
const LOAD: &str = "ld t0, 0(a0); add t0, t0, t0";
const SWAP: &str = "amoswap.d t0, a1, (a0)";

#[test]
fn an_access_waits_for_its_line_unless_it_is_the_cores_own() {
    let bench = Bench::new("in-order").set("system.cores=3");
    let parameters = bench.parameters();
    let atomic = parameters.number("latency.atomic_cycles");
    let mine = steps(&[
        (1, STORE),
        (2, STORE),
        (4, STORE),
        (5, SWAP),
        (7, SWAP),
        (9, STORE),
        (11, LOAD),
        (12, LOAD),
    ]);
    let others = steps(&[(3, LOAD), (6, STORE), (8, SWAP), (10, STORE)]);
    let bench = bench.hart(0, &mine).hart(4, &others);
    let outcome = bench.for_cycles(16 * 8 * STEP).run();
    let (mine, others) = (durations(&outcome.times(0)), durations(&outcome.times(4)));
    assert_eq!((mine.len(), others.len()), (8, 4));
    let (only, copy) = (from_other(&parameters), upgrade(&parameters));
    let hit = mine[1];
    assert_eq!(mine[2], hit + copy, "the other has a copy: {mine:?}");
    assert_eq!(mine[5], hit + only, "the other has it alone: {mine:?}");
    assert_eq!(others[1], hit + only, "{others:?}");
    assert_eq!(others[3], hit + only, "{others:?}");
    // An atomic of a line that is the core's own keeps its context for as long as it says; else the line comes first.
    let swap = mine[3];
    assert_eq!(mine[4], swap + only, "{mine:?}");
    assert_eq!(others[2], swap + only, "{others:?}");
    assert!(swap >= atomic, "{mine:?}");
    let read = mine[7];
    let load = parameters.number("latency.load_cycles");
    assert!(read >= load, "{mine:?}");
    assert!(mine[6] + load > read + only, "{mine:?}");
    assert!(others[0] > only, "{others:?}");
}

#[test]
fn stores_of_a_context_drain_one_a_cycle_and_contexts_in_turn() {
    let cycles = |stores: u64, contexts: usize| {
        let body = "sd a1, 0(a0);".repeat(stores as usize);
        let code = |hart: usize| {
            let own = DATA + 64 * hart as u64;
            format!(
                "li a0, {own}; li a1, 1; sd a1, 0(a0); fence rw, rw; li t1, {STEP}
                 wait: addi t1, t1, -1; bnez t1, wait
                 j go\n.line\ngo: li s1, 2\n again: mark; {body} fence rw, rw; mark; addi s1, s1, -1; bnez s1, again
                 done: wfi; j done"
            )
        };
        let mut bench = Bench::new("in-order").set("core.pipes=4");
        for hart in 0..contexts {
            bench = bench.hart(hart, &code(hart));
        }
        let outcome = bench.for_cycles(16 * STEP).run();
        let times = outcome.times(0);
        (
            times[3] - times[2],
            outcome.counter("core0", "store_port_wait_cycles"),
        )
    };
    let (short, waits) = cycles(2, 1);
    assert_eq!(waits, 0);
    // They issue and drain one a cycle.
    assert_eq!(cycles(6, 1), (short + 4, 0));
    let (_, waits) = cycles(6, 4);
    assert!(waits > 0, "four contexts have one port");
}

#[test]
fn what_crosses_lines_needs_both() {
    let parameters = Bench::new("in-order").parameters();
    let memory = parameters.number("dram.row_hit_cycles");
    let cycles = |access: &str| {
        let once = format!("mark; {access}; fence rw, rw; mark; nop");
        let code = format!(
            "li a0, {DATA}; li a1, 3; li s1, 2
             j begin
             .line
             begin: {once}; addi a0, a0, 1024; addi s1, s1, -1; bnez s1, begin
             addi a0, a0, -1024; {once}; exit"
        );
        let times = Bench::new("in-order").hart(0, &code).run().times(0);
        [times[3] - times[2], times[5] - times[4]]
    };
    for (within, across) in [
        (
            "ld t0, 56(a0); add t0, t0, t0",
            "ld t0, 60(a0); add t0, t0, t0",
        ),
        ("sd a1, 56(a0)", "sd a1, 60(a0)"),
    ] {
        let ([near, hit], [both, again]) = (cycles(within), cycles(across));
        assert!(near > memory, "{within}: {near}");
        assert!(both > near + memory, "{across}: {both} after {near}");
        assert!(again <= hit + 1, "{across}: {again} after {hit}");
    }
}

#[test]
fn a_sleeper_of_another_core_wakes_when_it_loses_its_line() {
    let bench = Bench::new("in-order");
    let parameters = bench.parameters();
    let sleeper = format!(
        "li a0, {DATA}; j begin\n.line\nbegin: lr.d t0, (a0); bnez t0, woken; wrs.nto; j begin
         .line\n woken: mark; done: wfi; j done"
    );
    let waker = format!(
        "li a0, {DATA}; li a1, 1; li t1, {STEP}; wait: addi t1, t1, -1; bnez t1, wait
         j go\n.line\ngo: mark; sd a1, 0(a0); fence rw, rw; mark; nop; done: wfi; j done"
    );
    let bench = bench
        .set("wait.nap_long_limit_cycles=0")
        .hart(0, &sleeper)
        .hart(4, &waker);
    let outcome = bench.for_cycles(8 * STEP).run();
    let (woken, stored) = (outcome.times(0), outcome.times(4));
    assert_eq!((woken.len(), stored.len()), (1, 2));
    let number = |key: &str| parameters.number(key);
    let control = number("network.stop_cycles") + number("network.latency_cycles");
    let way_back = 2 * control + number("network.line_cycles");
    assert!(woken[0] > stored[0], "{woken:?} {stored:?}");
    // It is told before the writer is granted the line, and reads the new value when it has it back.
    assert!(woken[0] > stored[1] + way_back, "{woken:?} {stored:?}");
    assert!(woken[0] < stored[1] + 200, "{woken:?} {stored:?}");
    assert_eq!(outcome.counter("core0.wait", "woken_by_store"), 1);
}

#[test]
fn a_lock_that_nobody_else_wants_costs_its_three_instructions() {
    let code = format!(
        "li a0, {DATA}; li a1, 1; li s1, 2; j go
         .line
         go: mark; again: amoswap.d t0, a1, (a0); bnez t0, again; sd x0, 0(a0); mark
         addi s1, s1, -1; bnez s1, go; exit"
    );
    let bench = Bench::new("symmetry");
    let parameters = bench.parameters();
    let times = bench.hart(0, &code).run().times(0);
    let [_, _, from, to] = times[..] else {
        panic!("two rounds of two marks: {times:?}")
    };
    let cycles = ["atomic_cycles", "branch_not_taken_cycles", "store_cycles"]
        .map(|key| parameters.number(&format!("latency.{key}")));
    assert_eq!(to - from, cycles.iter().sum::<u64>());
    assert_eq!(to - from, 10, "as docs/latency.md says");
}

#[test]
fn a_conditional_store_without_its_reservation_fails_without_its_line() {
    let cycles = |access: &str| {
        let code = format!(
            "li a0, {DATA}; li a1, 1; li s1, 2; j go
             .line
             go: mark; {access}; mark; addi a0, a0, 1024; addi s1, s1, -1; bnez s1, go; exit"
        );
        let times = Bench::new("in-order").hart(0, &code).run().times(0);
        times[3] - times[2]
    };
    let parameters = Bench::new("in-order").parameters();
    let atomic = parameters.number("latency.atomic_cycles");
    assert_eq!(cycles("sc.d t0, a1, (a0)"), atomic);
    assert!(cycles("amoswap.d t0, a1, (a0)") > atomic + parameters.number("dram.row_hit_cycles"));
}
