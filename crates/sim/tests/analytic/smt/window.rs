//! How many misses of memory overlap: what holds an instruction back until another retires or issues,
//! one limit at a time. Each test leaves room everywhere else.

use super::{ALL_FP_ON, COUNT, bench};
use crate::support::{DATA, WAIT};

/// Room in everything that a test does not limit.
const ROOM: [&str; 6] = [
    "core.front_end=queue",
    "core.reorder_entries=1024",
    "core.integer_queue_entries=64",
    "core.integer_registers=2000",
    "core.fp_registers=2000",
    "core.load_entries=256",
];

/// a0 walks over lines that nobody has touched, and that are not in the sets of the code.
fn walk() -> String {
    format!(
        "li a0, {}; li a2, 64; li a3, {DATA}; {ALL_FP_ON}",
        DATA + 0x10_0000
    )
}

/// Cycles from one block to the one [`COUNT`] after it, with these limits.
fn limited(set: &[&str], block: &str) -> u64 {
    let blocks = format!("mark\n.rept {COUNT}\n{block}\n.endr");
    let code = format!(
        "{}\n{WAIT}\nli s1, 2\nagain: {blocks}\n{blocks}\n{blocks}
         addi s1, s1, -1; beqz s1, done; j again; done: exit",
        walk()
    );
    let set = [&ROOM, set].concat();
    let steps = bench(&set).hart(0, &code).run().steps(0);
    assert_eq!(steps.len(), 5);
    // Of the second round, whose code is in the instruction cache.
    steps[4]
}

/// From issue of a load that misses everything to issue of what needs it.
fn miss() -> u64 {
    number("latency.load_cycles") - 1 + number("l2.miss_latency_cycles")
}

fn number(key: &str) -> u64 {
    bench(&[]).parameters().number(key)
}

/// From renaming of such a load to its retirement: it issues in the next cycle, and its registers are
/// read before it executes.
fn renamed_to_retired() -> u64 {
    1 + miss() + number("core.register_read_cycles")
}

#[test]
fn as_many_misses_overlap_as_the_window_holds() {
    let block = "ld x5, 0(a0); add a0, a0, a2; nop; nop; nop; nop; nop; nop";
    for overlap in [1, 2, 8, 16, 30] {
        let set = format!("core.reorder_entries={}", 8 * overlap);
        // A load is fetched in the cycle in which the one retires whose place it gets.
        let period = number("core.front_cycles") + renamed_to_retired();
        assert_eq!(limited(&[&set], block), COUNT / overlap * period, "{set}");
    }
}

#[test]
fn as_many_misses_overlap_as_there_are_registers_for_what_follows_them() {
    let block = "ld x5, 0(a0); add a0, a0, a2; addi x6, x0, 1; addi x7, x0, 1; addi x28, x0, 1
         addi x29, x0, 1; addi x6, x0, 1; addi x7, x0, 1";
    for overlap in [1, 2, 5, 10, 15] {
        let set = format!("core.integer_registers={}", 8 * overlap);
        let found = limited(&[&set], block);
        assert_eq!(found, COUNT / overlap * renamed_to_retired(), "{set}");
    }
    for overlap in [1, 3, 12] {
        let set = format!("core.fp_registers={overlap}");
        let found = limited(&[&set], "fld f4, 0(a0); add a0, a0, a2");
        assert_eq!(found, COUNT / overlap * renamed_to_retired(), "{set}");
    }
}

#[test]
fn as_many_misses_overlap_as_there_are_entries_for_loads_and_stores() {
    for overlap in [1, 2, 4, 10, 20] {
        let set = format!("core.load_entries={overlap}");
        let found = limited(&[&set], "ld x5, 0(a0); add a0, a0, a2");
        assert_eq!(found, COUNT / overlap * renamed_to_retired(), "{set}");
    }
    for entries in [1, 2, 4, 9] {
        let set = format!("core.store_entries={entries}");
        let found = limited(&[&set], "ld x5, 0(a0); add a0, a0, a2; sd x0, 0(a3)");
        // The load after the store that has to wait waits with it.
        let overlap = entries + 1;
        assert_eq!(found, COUNT / overlap * renamed_to_retired(), "{set}");
    }
}

#[test]
fn what_waits_for_a_miss_keeps_its_entries_of_the_queue() {
    let block = "ld x5, 0(a0); add a0, a0, a2; add x6, x5, x5; add x7, x5, x5; add x28, x5, x5
         add x29, x5, x5; add x6, x5, x5; add x7, x5, x5";
    for overlap in [1, 2, 5, 10] {
        let set = format!("core.integer_queue_entries={}", 6 * overlap);
        // Renamed in the cycle in which the six issue whose entries it needs.
        let period = 1 + miss();
        assert_eq!(limited(&[&set], block), COUNT / overlap * period, "{set}");
    }
}

#[test]
fn as_many_misses_overlap_as_the_second_level_has_registers() {
    let busy = number("l2.miss_latency_cycles") - number("l2.hit_latency_cycles");
    let block = "ld x5, 0(a0); add a0, a0, a2";
    for registers in [1, 2, 5, 20] {
        let set = format!("l2.mshrs_per_bank={registers}");
        let found = limited(&[&set], block);
        assert_eq!(found, COUNT / registers * busy, "{set}");
    }
}

#[test]
fn as_many_misses_overlap_as_the_data_cache_has_registers() {
    // A register is free in the cycle in which its line is there.
    let busy = number("l2.miss_latency_cycles");
    for (block, lines) in [
        ("ld x5, 0(a0); add a0, a0, a2", 1),
        // Loads of a line that is on its way need no other register.
        (
            "ld x5, 0(a0); ld x6, 8(a0); ld x7, 56(a0); add a0, a0, a2",
            1,
        ),
        (
            "ld x5, 0(a0); ld x6, 64(a0); add a0, a0, a2; add a0, a0, a2",
            2,
        ),
    ] {
        for registers in [2, 6, 12] {
            let set = format!("l1d.mshrs={registers}");
            let found = limited(&[&set], block);
            assert_eq!(found, lines * COUNT / registers * busy, "{set}: {block}");
        }
    }
}

#[test]
fn misses_without_another_limit_are_bound_by_memory() {
    for transfer in [4, 10, 50] {
        let set = format!("memory.line_transfer_cycles={transfer}");
        let set = [set.as_str(), "l2.mshrs_per_bank=64"];
        let found = limited(&set, "ld x5, 0(a0); add a0, a0, a2");
        assert_eq!(found, COUNT * transfer, "{set:?}");
    }
}

#[test]
fn a_chain_of_misses_does_not_overlap() {
    let code = "ld x5, 0(a0); add a0, a0, a2; add a0, a0, x5";
    // The lines are zero, so that adding what was loaded changes nothing but when the address is there.
    let found = limited(&[], code);
    assert_eq!(found, COUNT * (miss() + number("latency.alu_cycles")));
}

#[test]
fn misses_overlap_across_fences_but_those_that_order_stores_before_loads() {
    let period = |between: &str| {
        let block = format!(
            "ld x5, 0(a0); add a0, a0, a2; {between}; ld x6, 0(a0); add a0, a0, a2; {between}"
        );
        limited(&["core.reorder_entries=16"], &block)
    };
    let free = period("nop");
    for fence in [
        "fence r, rw",
        "fence rw, w",
        "fence r, r",
        "fence w, w",
        "fence.tso",
    ] {
        assert_eq!(period(fence), free, "{fence}");
    }
    // One miss begins when the one before has retired.
    let apart = 2 * COUNT * miss();
    assert!(free < apart / 2, "{free} cycles");
    for fence in ["fence rw, rw", "fence w, r", "fence iorw, iorw"] {
        assert!(period(fence) > apart, "{fence}: {} cycles", period(fence));
    }
}
