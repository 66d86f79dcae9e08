//! To whom a line belongs, to the cycle: what a store costs whose line others have, and what others lose by it.

use crate::support::{Bench, DATA, Outcome};

/// Cycles of the loop with which harts keep their steps apart.
const STEP: u64 = 3_000;

/// Code of a hart that does `accesses`, each in a step of its own: when, and what, between two marks.
fn steps(accesses: &[(u64, &str)]) -> String {
    // Its own code first, so that no step waits for it.
    let mut code = format!("li a0, {DATA}; li a1, 1; li a4, 1; j begin\n.line\n");
    let mut last = 0;
    let mut body = String::new();
    for (n, &(step, access)) in accesses.iter().enumerate() {
        // A round of the loop takes a cycle at least, so each step begins in order.
        let rounds = (step - last) * STEP;
        last = step;
        body += &format!(
            "li t1, {rounds}; wait{n}: addi t1, t1, -1; bnez t1, wait{n}
             csrrw x0, 0x340, x0; j go{n}
             .line
             go{n}: csrrw x0, 0x340, x0; mark; {access}; mark; nop; csrrw x0, 0x340, x0\n"
        );
    }
    code += &format!("begin: {body} done: wfi; j done");
    code
}

/// What each access took.
fn durations(outcome: &Outcome, hart: usize) -> Vec<u64> {
    let times = outcome.times(hart);
    times.chunks(2).map(|pair| pair[1] - pair[0]).collect()
}

/// A store whose value is in memory before the next instruction retires, and a load whose value is there, from the
/// retirement before it on.
const STORE: &str = "sd a1, 0(a0); fence rw, rw";
const LOAD: &str = "nop; ld t0, 0(a0)";

/// Cycles from a store's miss to its performing where another core has a copy, and where that has the only one.
fn latencies(preset: &str, number: &impl Fn(&str) -> u64) -> (u64, u64) {
    if preset == "smt8" {
        let hit = number("l2.hit_latency_cycles");
        // To the core that has it and back.
        let fetched = number("l2.request_cycles") + number("l2.reply_cycles");
        return (hit, hit + fetched);
    }
    // To the home of the cluster, to the other core and back, and from home: twice the way there and back.
    let way = number("cluster.request_cycles") + number("cluster.reply_cycles");
    let looks_up = number("l2.lookup_cycles") + number("cluster.tag_cycles");
    let both = looks_up + 2 * way + number("coherence.snoop_cycles");
    (both, both)
}

#[test]
fn a_store_asks_for_its_line_unless_it_is_the_cores_own() {
    for preset in ["smt8", "p-core"] {
        let bench = Bench::new(preset);
        let parameters = bench.parameters();
        let number = |key: &str| parameters.number(key);
        let other = number("core.contexts") as usize;
        let mine = steps(&[
            (1, STORE),
            (2, STORE),
            (4, STORE),
            (5, STORE),
            (7, STORE),
            (9, LOAD),
            (10, LOAD),
        ]);
        let others = steps(&[(3, LOAD), (6, STORE), (8, STORE)]);
        let outcome = bench
            .hart(0, &mine)
            .hart(other, &others)
            .for_cycles(13 * 2 * STEP)
            .run();
        let (mine, others) = (durations(&outcome, 0), durations(&outcome, other));
        assert_eq!((mine.len(), others.len()), (7, 3), "{preset}");
        let own = mine[1];
        // What it takes where the other core has a copy, and where it has the only one.
        let (copy, only) = latencies(preset, &number);
        let extra: Vec<u64> = mine.iter().map(|cycles| cycles.wrapping_sub(own)).collect();
        assert!(mine[0] > own + only, "{preset}: {mine:?}");
        assert_eq!(extra[2], copy, "{preset}: shared with the other: {mine:?}");
        assert_eq!(extra[3], 0, "{preset}: its own again: {mine:?}");
        assert_eq!(extra[4], only, "{preset}: the other's: {mine:?}");
        let there = others[1] - own;
        assert_eq!(there, only, "{preset}: {others:?}");
        assert_eq!(others[2], others[1], "{preset}: {others:?}");
        // A load finds the other's line as late, and then has a copy; from that it has its value in a cycle.
        assert_eq!(mine[5] - mine[6], others[0] - mine[6], "{preset}");
        let longer = mine[5] - mine[6];
        assert_eq!(longer, only - 1, "{preset}: {mine:?}");
    }
}
