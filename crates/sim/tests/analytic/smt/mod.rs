//! The out-of-order core in closed forms: what limits a stream of instructions, one limit at a time.

mod accounts;
mod fetch;
mod kernel;
mod limits;
mod misfetch;
mod order;
mod ordering;
mod ownership;
mod paths;
mod redirects;
mod refill;
mod scaling;
mod window;

use crate::support::rounds::{self, COUNT, bare, last_round, one_context as bench, rounds};
use crate::support::{Bench, DATA};

/// Cycles of `count` times `block` in a loop that has run before.
fn cycles(set: &[&str], setup: &str, block: &str, count: u64) -> u64 {
    last_round(&bench(set).hart(0, &rounds(setup, block, count)).run())
}

/// Cycles of [`COUNT`] times `block` where it repeats.
fn steady(set: &[&str], setup: &str, block: &str) -> u64 {
    rounds::steady(set, bare, setup, block)
}

const ALL_FP_ON: &str =
    "li t0, 0x6000; csrrs x0, 0x300, t0; li a6, 1; fcvt.d.l f1, a6; fcvt.s.d f3, f1";

#[test]
fn a_chain_costs_the_latency_of_each_link() {
    let chase = format!("li a0, {DATA}; sd a0, 0(a0)");
    let number = |key: &str| bench(&[]).parameters().number(&format!("latency.{key}"));
    for (setup, link, latency) in [
        ("li a1, 1", "addi a1, a1, 1", "alu_cycles"),
        ("li a1, 1", "mul a1, a1, a1", "mul_cycles"),
        ("li a1, 1", "div a1, a1, a1", "div_min_cycles"),
        (chase.as_str(), "ld a0, 0(a0)", "load_cycles"),
        (ALL_FP_ON, "fadd.d f1, f1, f1", "fp_add_cycles"),
        (ALL_FP_ON, "fmul.d f1, f1, f1", "fp_mul_cycles"),
        (ALL_FP_ON, "fmadd.d f1, f1, f1, f1", "fp_fma_cycles"),
        (ALL_FP_ON, "fdiv.d f1, f1, f1", "fp_div_double_cycles"),
        (ALL_FP_ON, "fdiv.s f3, f3, f3", "fp_div_single_cycles"),
    ] {
        assert_eq!(steady(&[], setup, link), COUNT * number(latency), "{link}");
    }
}

/// A fence that orders stores before loads takes what it takes from when the one before has retired. Others take nothing.
#[test]
fn a_full_fence_takes_its_time() {
    for (fence, counts) in [
        ("fence rw, rw", true),
        ("fence w, r", true),
        ("fence r, rw", false),
        ("fence.tso", false),
    ] {
        let cycles = |extra: u64| {
            let set = format!("latency.fence_extra_cycles={extra}");
            steady(&[&set], "", fence)
        };
        for extra in [1, 20, 33] {
            let expected = if counts { COUNT * extra } else { cycles(0) };
            assert_eq!(cycles(extra), expected, "{fence}, {extra}");
        }
    }
}

#[test]
fn independent_instructions_are_limited_by_the_narrowest_stage() {
    // x5 to x10 and x28 to x31, none of which the loop uses.
    let adds = "addi x5, x0, 1; addi x6, x0, 1; addi x7, x0, 1; addi x28, x0, 1; addi x29, x0, 1; addi x30, x0, 1";
    for (set, a_cycle) in [
        ("units.integer=6", 6),
        ("units.integer=4", 4),
        ("core.fetch_width=4", 4),
        ("core.rename_width=2", 2),
        ("core.retire_width=5", 5),
        ("core.retire_width=1", 1),
    ] {
        assert_eq!(steady(&[set], "", adds), 6 * COUNT / a_cycle, "{set}");
    }
    // Fetch ends with a line: sixteen instructions take six cycles.
    assert_eq!(
        steady(&["core.fetch_width=3"], "", adds),
        6 * COUNT / 16 * 6
    );
}

#[test]
fn floating_point_is_limited_by_its_units() {
    let adds = "fadd.d f4, f1, f1; fadd.d f5, f1, f1; fmul.d f6, f1, f1; fadd.d f7, f1, f1";
    for (set, a_cycle) in [
        ("units.floating_point=4", 4),
        ("units.floating_point=2", 2),
        ("units.floating_point=1", 1),
    ] {
        let found = steady(&[set], ALL_FP_ON, adds);
        assert_eq!(found, 4 * COUNT / a_cycle, "{set}");
    }
}

#[test]
fn a_divider_is_busy_to_the_end() {
    let number = |key: &str| bench(&[]).parameters().number(&format!("latency.{key}"));
    for (divide, latency) in [
        ("div x5, a6, a6", "div_min_cycles"),
        ("fdiv.d f4, f1, f1", "fp_div_double_cycles"),
        ("fsqrt.s f5, f3", "fp_sqrt_single_cycles"),
    ] {
        let found = steady(&[], ALL_FP_ON, divide);
        assert_eq!(found, COUNT * number(latency), "{divide}");
    }
}

#[test]
fn loads_are_limited_by_units_and_by_ports() {
    let setup = format!("li a0, {DATA}");
    for (set, a_cycle) in [
        (["units.load_store=4", "units.data_ports=4"], 4),
        (["units.load_store=4", "units.data_ports=2"], 2),
        (["units.load_store=3", "units.data_ports=3"], 3),
        (["units.load_store=1", "units.data_ports=1"], 1),
    ] {
        let found = steady(&set, &setup, "ld x5, 0(a0); ld x6, 8(a0); ld x7, 16(a0)");
        assert_eq!(found, 3 * COUNT / a_cycle, "{set:?}");
    }
}

#[test]
fn atomics_are_limited_by_synchronisation_units_which_are_integer_units() {
    let setup = format!("li a0, {DATA}; li x5, 1");
    let atomics = "amoadd.d x0, x5, (a0); amoadd.d x0, x5, (a0); amoadd.d x0, x5, (a0); amoadd.d x0, x5, (a0)";
    for (units, a_cycle) in [(1, 1), (2, 2), (4, 4)] {
        let set = format!("units.synchronisation={units}");
        let found = steady(&[&set], &setup, atomics);
        assert_eq!(found, 4 * COUNT / a_cycle, "{set}");
    }
    // Two of each six are atomics, so that what is left of the units has four to do.
    let mixed = "amoadd.d x0, x5, (a0); amoadd.d x0, x5, (a0)
         addi x6, x0, 1; addi x7, x0, 1; addi x28, x0, 1; addi x29, x0, 1";
    for (integer, cycles) in [(6, 2), (4, 3), (3, 4)] {
        let set = format!("units.integer={integer}");
        let set = [set.as_str(), "units.load_store=2"];
        assert_eq!(steady(&set, &setup, mixed), COUNT * cycles / 2, "{set:?}");
    }
}

#[test]
fn a_mispredicted_transfer_costs_the_way_from_issue_to_issue() {
    for (front, register_read) in [(3, 2), (3, 1), (10, 2), (1, 0), (6, 5)] {
        let front_cycles = format!("core.front_cycles={front}");
        let read_cycles = format!("core.register_read_cycles={register_read}");
        let set = [
            front_cycles.as_str(),
            read_cycles.as_str(),
            "branch.kind=not_taken",
        ];
        // Redirected a cycle after it has executed, fetched in the next, renamed `front` later, issued in the next.
        let penalty = register_read + 1 + 1 + front + 1;
        let found = steady(&set, "", "beq x0, x0, .+8; nop");
        assert_eq!(found, COUNT * penalty, "{set:?}");
    }
}

#[test]
fn a_miss_of_the_first_level_costs_the_second_on_top_of_the_address() {
    // Three lines of one set of two ways, each pointing to the next.
    let setup = format!(
        "li a0, {DATA}; li t1, 65536; add a1, a0, t1; add a2, a1, t1; sd a1, 0(a0); sd a2, 0(a1); sd a0, 0(a2)"
    );
    let parameters = bench(&[]).parameters();
    let latency =
        parameters.number("latency.load_cycles") - 1 + parameters.number("l2.hit_latency_cycles");
    assert_eq!(steady(&[], &setup, "ld a0, 0(a0)"), COUNT * latency);
}

#[test]
fn contexts_share_the_units_equally() {
    let code = "again: mark; addi x5, x0, 1; addi x6, x0, 1; addi x7, x0, 1; addi x28, x0, 1; addi x29, x0, 1; addi x30, x0, 1
         addi x5, x0, 1; addi x6, x0, 1; addi x7, x0, 1; addi x28, x0, 1; addi x29, x0, 1; j again";
    const CYCLES: u64 = 20_000;
    for busy in [2, 4, 8] {
        let bench = Bench::new("smt8").for_cycles(CYCLES);
        let bench = (0..busy).fold(bench, |bench, hart| bench.hart(hart, code));
        let outcome = bench.run();
        // A mark for each time round, which is twelve instructions.
        let retired: Vec<u64> = (0..busy)
            .map(|hart| 12 * outcome.marks(hart).len() as u64)
            .collect();
        let total: u64 = retired.iter().sum();
        // Six integer units, and the way to the first instruction.
        let most = 6 * CYCLES;
        assert!((most * 97 / 100..=most).contains(&total), "{busy}: {total}");
        for share in retired {
            let fair = total / busy as u64;
            // Loops that keep step with turns may have some percent more than others.
            assert!(
                share.abs_diff(fair) * 12 < fair,
                "{busy}: {share} of {total}"
            );
        }
    }
}
