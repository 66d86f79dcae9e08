//! Branches and jumps that the branch target buffer does not hold.

use super::{COUNT, bench, cycles, steady};
use crate::support::WAIT;

/// A buffer of one entry, which every other branch or jump has evicted; nothing but fetch is a limit.
const MISSES: [&str; 3] = ["btb.entries=1", "btb.ways=1", "units.integer=16"];

/// A line that ends with a jump over the next line.
const OVER_A_LINE: &str = ".line; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop
     nop; nop; nop; jal x0, .+68; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop
     nop; nop; nop; nop";

fn number(key: &str) -> u64 {
    bench(&[]).parameters().number(key)
}

/// From fetch of a branch or jump to fetch of its target where execution finds that.
fn resolved() -> u64 {
    // Renamed, issued in the next cycle, executed after register read; fetch continues in the next.
    number("core.front_cycles") + 1 + number("core.register_read_cycles") + 1 + 1
}

/// How much `counter` of `component` grows with each `block` of many.
fn each(set: &[&str], (component, counter): (&str, &str), block: &str) -> u64 {
    let counted = |rounds: u64, count: u64| {
        let code = format!(
            "{WAIT}\nli s1, {rounds}\nagain:\n.rept {count}\n{block}\n.endr
             addi s1, s1, -1; beqz s1, done; j again; done: exit"
        );
        bench(set).hart(0, &code).run().counter(component, counter)
    };
    // Of rounds whose code is in the instruction cache.
    let longer = counted(5, 2 * COUNT) - counted(3, 2 * COUNT);
    let shorter = counted(5, COUNT) - counted(3, COUNT);
    (longer - shorter) / (2 * COUNT)
}

#[test]
fn decode_finds_a_jump_and_fetch_has_fallen_through_until_then() {
    for (miss, wrong_path) in [("fall_through", 8), ("misfetch", 8), ("stall", 0)] {
        for misfetch in [0, 1, 2, 3] {
            let rule = format!("btb.miss={miss}");
            let decode = format!("core.misfetch_cycles={misfetch}");
            let set = [&MISSES, &[rule.as_str(), decode.as_str()][..]].concat();
            // The line takes two cycles.
            let found = steady(&set, "", OVER_A_LINE);
            assert_eq!(found, COUNT * (2 + misfetch), "{set:?}");
            let squashed = each(&set, ("core0", "squashed"), OVER_A_LINE);
            assert_eq!(squashed, misfetch * wrong_path, "{set:?}");
        }
    }
    // Where the buffer holds them all, no cycle is lost.
    let set = ["units.integer=16", "btb.ways=1024"];
    let found = steady(&set, "", OVER_A_LINE);
    assert_eq!(found, COUNT * 2);
}

#[test]
fn a_taken_branch_that_the_buffer_does_not_hold_is_mispredicted() {
    let branch = "beq x0, x0, .+8; nop";
    let decoded = 1 + number("core.misfetch_cycles");
    for (miss, cost, mispredicted) in [
        ("fall_through", resolved(), 1),
        ("misfetch", decoded, 0),
        ("stall", decoded, 0),
    ] {
        let rule = format!("btb.miss={miss}");
        let set = [&MISSES, &[rule.as_str(), "branch.kind=taken"][..]].concat();
        assert_eq!(steady(&set, "", branch), COUNT * cost, "{miss}");
        let wrong = each(&set, ("core0.branch", "branches_mispredicted"), branch);
        assert_eq!(wrong, mispredicted, "{miss}");
        let misses = each(&set, ("core0.branch", "btb_misses"), branch);
        assert_eq!(misses, 1, "{miss}");
    }
    // One that is not taken is not looked for.
    let set = [&MISSES[..], &["branch.kind=taken"]].concat();
    let free = steady(&set, "", "bne x0, x0, .+8; nop");
    assert!(free < COUNT, "{free}");
}

#[test]
fn execution_finds_where_an_indirect_jump_leads() {
    let jump = "auipc x6, 0; jalr x0, 12(x6); nop";
    let mut squashed = Vec::new();
    for miss in ["fall_through", "stall"] {
        let rule = format!("btb.miss={miss}");
        let set = [&MISSES, &[rule.as_str()][..]].concat();
        // It issues in the cycle after the one that it needs.
        assert_eq!(steady(&set, "", jump), COUNT * (resolved() + 1), "{miss}");
        let wrong = each(&set, ("core0.branch", "indirect_jumps_mispredicted"), jump);
        assert_eq!(wrong, 1, "{miss}");
        squashed.push(each(&set, ("core0", "squashed"), jump));
    }
    assert!(squashed[0] > 8 && squashed[1] == 0, "{squashed:?}");
}

/// The code behind each call returns on the wrong path, until decode finds the call.
#[test]
fn the_return_stack_is_as_it_was_when_decode_finds_a_call() {
    let call = "jal x1, .+12; jal x0, .+12; nop; jalr x0, 0(x1)";
    for miss in ["fall_through", "stall"] {
        let rule = format!("btb.miss={miss}");
        let set = [&MISSES, &[rule.as_str()][..]].concat();
        let returns = each(&set, ("core0.branch", "returns"), call);
        let wrong = each(&set, ("core0.branch", "returns_mispredicted"), call);
        assert_eq!((returns, wrong), (1, 0), "{miss}");
        // The call, the return by its stack, and the jump.
        let misfetch = number("core.misfetch_cycles");
        let found = cycles(&set, "", call, 2 * COUNT) - cycles(&set, "", call, COUNT);
        assert_eq!(found, COUNT * (3 + 2 * misfetch), "{miss}");
    }
}
