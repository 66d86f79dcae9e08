//! Ports of the data cache and the bus behind it: who has them, for how long, and who waits.

use super::{COUNT, bench, steady};
use crate::support::{Bench, DATA, WAIT};

fn number(key: &str) -> u64 {
    bench(&[]).parameters().number(key)
}

#[test]
fn stores_and_loads_share_the_ports_where_stores_take_them() {
    let setup = format!("li a0, {DATA}");
    let one_port = ["units.data_ports=1", "units.stores_take_ports=true"];
    let found = steady(&one_port, &setup, "ld x5, 0(a0); sd x0, 8(a0)");
    assert_eq!(found, 2 * COUNT);
    let apart = ["units.data_ports=1", "units.stores_take_ports=false"];
    let found = steady(&apart, &setup, "ld x5, 0(a0); sd x0, 8(a0)");
    assert_eq!(found, COUNT);
    // Of two ports a context's stores, one a cycle, leave one.
    let two = ["units.data_ports=2", "units.stores_take_ports=true"];
    let found = steady(&two, &setup, "ld x5, 0(a0); sd x0, 8(a0)");
    assert_eq!(found, COUNT);
}

/// Cycles from a store's issue to the retirement of a fence that waits for it, and how long stores waited for ports,
/// beside a context that loads as often as it can.
fn store_beside_loads(set: &[&str], loads: &str) -> (u64, u64) {
    let code = format!(
        "li a1, {}; sd x0, 0(a1); fence rw, rw; {WAIT}
         .line
         mark; sd x0, 0(a1); fence rw, rw; mark; nop; exit",
        DATA + 64
    );
    let other = format!("li a0, {DATA}; .line\nagain: {loads} j again");
    let bench = Bench::new("smt8")
        .set("core.contexts=2")
        .set("system.cores=1");
    let bench = set.iter().fold(bench, |bench, change| bench.set(change));
    let outcome = bench.hart(0, &code).hart(1, &other).run();
    let steps = outcome.steps(0);
    assert_eq!(steps.len(), 1);
    (steps[0], outcome.counter("core0", "store_port_wait_cycles"))
}

#[test]
fn a_store_waits_for_a_port_until_loads_leave_one() {
    // Loads of each port in all cycles: seven of them, and a jump that is predicted.
    let loads = "ld x5, 0(a0); ld x6, 0(a0); ld x7, 0(a0); ld x28, 0(a0); ld x29, 0(a0); ld x5, 0(a0); ld x6, 0(a0);";
    let ports = "units.data_ports=1";
    let (free, waited) = store_beside_loads(&[ports, "units.stores_take_ports=false"], loads);
    assert_eq!(waited, 0);
    // Loads that leave a port issue a cycle before it is free, or more.
    let before_access = number("latency.load_cycles").max(2) - 2;
    let step = |patience: u64| {
        let set = format!("units.store_patience_cycles={patience}");
        let (found, waited) = store_beside_loads(&[ports, &set], loads);
        assert_eq!(waited, patience + before_access, "{patience}");
        found
    };
    let waits = |patience| free + patience + before_access;
    for patience in [2, 8, 30] {
        assert_eq!(step(patience), waits(patience), "{patience}");
    }
    // A port that loads leave is there at once.
    let few = "ld x5, 0(a0); nop; nop; nop; nop; nop; nop;";
    let (free, _) = store_beside_loads(&["units.stores_take_ports=false"], few);
    let (found, waited) = store_beside_loads(&[], few);
    assert_eq!((found, waited), (free, 0));
}

/// a0 points to one of three lines of a set of two ways, each of which points to the next; a3 and a4 walk over 256 lines
/// of another set.
fn lines() -> String {
    format!(
        "li a0, {DATA}; li t1, 65536; add a1, a0, t1; add a2, a1, t1; sd a1, 0(a0); sd a2, 0(a1); sd a0, 0(a2)
         li a5, {}; li t1, 0; li a3, 65536; li a4, 16711680",
        DATA + 0xc000
    )
}

/// t2 is the address of the next of those lines.
const NEXT_LINE: &str = "add t1, t1, a3; and t1, t1, a4; add t2, a5, t1;";

#[test]
fn a_changed_line_that_leaves_keeps_the_bus_as_long_as_one_that_comes() {
    let block = format!("{NEXT_LINE} sd x0, 0(t2)");
    for cycles in [40, 41, 60] {
        let cycles_set = format!("bus.line_cycles={cycles}");
        for (kind, lines_each) in [("shared", 2), ("apart", 1)] {
            let kind = format!("bus.kind={kind}");
            let found = steady(&[&kind, &cycles_set], &lines(), &block);
            assert_eq!(found, COUNT * cycles * lines_each, "{kind} {cycles_set}");
        }
    }
    // Lines that were only read are dropped.
    let block = format!("{NEXT_LINE} ld x5, 0(t2)");
    let found = steady(&["bus.line_cycles=40"], &lines(), &block);
    assert_eq!(found, COUNT * 40);
}

#[test]
fn lines_of_instructions_and_of_data_share_the_bus() {
    // Each line of code has a load of another line; neither cache has any.
    let nops = "nop; ".repeat(12);
    let block = format!("{NEXT_LINE} ld x5, 0(t2); {nops}");
    for (kind, each) in [("shared", 2), ("apart", 1)] {
        let kind = format!("bus.kind={kind}");
        let set = ["l1i.size_kib=1", "bus.line_cycles=40", kind.as_str()];
        let found = steady(&set, &lines(), &block);
        assert!(found.abs_diff(COUNT * each * 40) <= 1, "{kind}: {found}");
    }
}

#[test]
fn what_memory_has_not_sent_yet_does_not_keep_the_bus() {
    // A bank for each kind of line.
    let setup = format!("{}; li a6, {}; li a7, 128", lines(), DATA + 0x40_0040);
    let chain = "ld a0, 0(a0); ".repeat(6);
    let block = format!("ld x5, 0(a6); add a6, a6, a7; {chain}");
    let hit = number("latency.load_cycles") - 1 + number("l2.hit_latency_cycles");
    assert!(6 * hit > number("l2.miss_latency_cycles"));
    let found = steady(&["l2.banks=2"], &setup, &block);
    // The line of memory may have the bus when one of the others comes.
    let most = COUNT * (6 * hit + number("bus.line_cycles"));
    assert!((COUNT * 6 * hit..=most).contains(&found), "{found}");
}

/// The second level takes one request of the data cache at a time, whatever the ports.
#[test]
fn requests_to_the_second_level_are_as_far_apart_as_its_bank_says() {
    let block =
        format!("{NEXT_LINE} ld x5, 0(t2); ld x28, 64(t2); ld x29, 128(t2); ld x30, 192(t2)");
    for busy in [1, 2, 5] {
        let busy_set = format!("l2.bank_busy_cycles={busy}");
        let set = ["bus.line_cycles=0", busy_set.as_str()];
        assert_eq!(steady(&set, &lines(), &block), COUNT * 4 * busy, "{busy}");
    }
}
