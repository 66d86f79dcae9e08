//! Which context issues: the core against the rule of `support/rule.rs`, issue for issue.

use crate::support::rule::{Context, Rule, Step, predict};
use crate::support::{Bench, DATA, PAUSE, Parameters};

/// Instructions of which loops are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Add,
    Load,
    /// Reads what was loaded last.
    Use,
    Fence,
    Mul,
    Div,
    Csr,
    /// The branch back, on what was loaded last or on a constant.
    BackOnLoad,
    Back,
    /// A branch that is never taken.
    Stay,
}

use Kind::{Add, Back, BackOnLoad, Csr, Div, Fence, Load, Mul, Stay, Use};

/// The default spin loop of the paper: load, barrier, branch, and the nop of the delay slot.
const SPIN: &[Kind] = &[Add, Load, Fence, BackOnLoad];
const ADDS: &[Kind] = &[Add, Add, Add, Add, Add, Back];
const MULS: &[Kind] = &[Mul, Mul, Add, Back];
const LOADS: &[Kind] = &[Load, Use, Load, Load, Use, Add, Back];
const DIVIDES: &[Kind] = &[Div, Fence, Back];
const MIXED: &[Kind] = &[Load, Add, Mul, Csr, Stay, Add, BackOnLoad];

const LOOPS: &[&[Kind]] = &[SPIN, ADDS, MULS, LOADS, DIVIDES, MIXED];

const MULTIPLIER: usize = 0;
const DIVIDER: usize = 1;
const LOAD_STORE: usize = 0;
const FLOATING_POINT: usize = 1;
const MULTIPLIER_TURN: usize = 2;
const DIVIDER_TURN: usize = 3;

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Add => "addi a1, a1, 1",
            Load => "lbu t0, 0(a0)",
            Use => "add a2, t0, t0",
            Fence => "fence r, r",
            Mul => "mul a3, a3, a6",
            Div => "div a4, a4, a6",
            Csr => "csrrs a5, 0x340, x0",
            BackOnLoad => "bnez t0, top",
            Back => "bnez a6, top",
            Stay => "bne x0, x0, .+8",
        }
    }

    /// What the parameters of the machine say about it. Divides are of zero by one, so the shortest.
    fn step(self, machine: &Parameters) -> Step {
        let latency = |name: &str| machine.number(&format!("latency.{name}_cycles"));
        let stall = |stall| Step {
            stall,
            ..Step::default()
        };
        let on_use = machine.get("core.stall").unwrap() == "use";
        let integer = machine.get("fpu.does_integer").unwrap() == true;
        match self {
            Add => stall(latency("alu")),
            Load => Step {
                stall: if on_use { 1 } else { latency("load") },
                result: if on_use { latency("load") } else { 0 },
                confirmed: latency("load_confirmed"),
                // A second load into the same register waits for the first.
                reads: true,
                shared: Some(LOAD_STORE),
                ..Step::default()
            },
            Use => Step {
                reads: true,
                ..stall(latency("alu"))
            },
            Fence => stall(latency("fence")),
            Mul => Step {
                unit: Some((MULTIPLIER, machine.number("fpu.integer_mul_busy_cycles"))),
                shared: Some(if integer {
                    FLOATING_POINT
                } else {
                    MULTIPLIER_TURN
                }),
                late_slot: true,
                ..stall(latency("mul"))
            },
            Div => Step {
                unit: Some((
                    DIVIDER,
                    latency("div_min") - machine.number("core.unit_release_cycles"),
                )),
                shared: Some(if integer {
                    FLOATING_POINT
                } else {
                    DIVIDER_TURN
                }),
                late_slot: true,
                ..stall(latency("div_min"))
            },
            Csr => stall(latency("csr")),
            BackOnLoad => Step {
                reads: true,
                confirmed: latency("branch_confirmed"),
                ..stall(latency("branch_taken"))
            },
            Back => Step {
                confirmed: latency("branch_confirmed"),
                ..stall(latency("branch_taken"))
            },
            Stay => Step {
                confirmed: latency("branch_confirmed"),
                ..stall(latency("branch_not_taken"))
            },
        }
    }
}

/// Runs each loop to warm the caches, then, after a long pause, for ever; a mark at its head. The mark of kind "ends" is
/// at the pause, in the same instruction line as what follows. `offset` shifts it against the others.
fn program(hart: usize, body: &[Kind], offset: usize) -> String {
    let body: Vec<&str> = body.iter().map(|kind| kind.text()).collect();
    format!(
        "j warm
         go: end; pause; j top
         warm: li a0, {}; li a3, 0; li a4, 0; li a6, 0
         top: mark
         {}
         li a6, 1; sb a6, 0(a0); fence rw, rw
         .rept {offset}
         nop
         .endr
         j go",
        DATA + 64 * hart as u64,
        body.join("\n")
    )
}

/// Cycles that are compared.
const CYCLES: u64 = 6_000;

/// Puts `loops` on the contexts named and compares every issue of a loop's head with the rule's.
fn check(bench: Bench, loops: &[(usize, &[Kind])], salt: usize) {
    let mut bench = bench.long_pause();
    let machine = bench.parameters();
    let pipes = machine.number("core.pipes") as usize;
    let in_pipe = machine.number("core.contexts") as usize / pipes;
    let rule = Rule {
        pipes,
        alternates: machine.get("core.alternates").unwrap() == true,
        lag: machine.number("core.selection_lag_cycles"),
        retract: machine.number("core.retract_cycles"),
        handover: machine.number("core.unit_handover_cycles"),
        late_slot: machine.number("core.integer_result_slot_cycles"),
        wait_slot: machine.get("core.wait_costs_slot").unwrap() == true,
    };
    for (n, &(hart, body)) in loops.iter().enumerate() {
        let offset = (salt * (2 * n + 3) + n) % 13;
        bench = bench.hart(hart, &program(hart, body, offset));
    }
    let until = 2 * PAUSE + CYCLES;
    let outcome = bench.for_cycles(until).run();
    let paused = |hart| {
        let marks = outcome.marks(hart);
        marks.iter().find(|mark| mark.end).unwrap().cycle
    };
    let contexts: Vec<Context> = loops
        .iter()
        .map(|&(hart, body)| Context {
            pipe: hart / in_pipe,
            prologue: vec![Step {
                stall: machine.number("latency.jump_cycles"),
                ..Step::default()
            }],
            body: body.iter().map(|kind| kind.step(&machine)).collect(),
            ready: paused(hart) + PAUSE,
            selected: paused(hart),
        })
        .collect();
    let begin = contexts.iter().map(|context| context.ready).min().unwrap();
    assert!(contexts.iter().all(|context| context.selected < begin));
    let until = begin + CYCLES;
    let got: Vec<Vec<u64>> = loops
        .iter()
        .map(|&(hart, _)| outcome.times(hart))
        .map(|times| {
            times
                .into_iter()
                .filter(|cycle| (begin..until).contains(cycle))
        })
        .map(Iterator::collect)
        .collect();
    // Which pipes the favours are on depends on how the caches were warmed.
    let matches = |start: usize| {
        let favoured = [0, 1, 2, 3].map(|shared| start / pipes.pow(shared) % pipes);
        let expected = predict(&contexts, rule, favoured, until);
        assert!(
            expected
                .iter()
                .all(|heads| heads.len() as u64 > CYCLES / 1000)
        );
        got == expected
    };
    assert!(
        (0..pipes.pow(4)).any(matches),
        "{loops:?}, salt {salt}: not as the rule says"
    );
}

/// All multisets of `count` loops.
fn choices(count: usize, from: usize) -> Vec<Vec<&'static [Kind]>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (n, first) in LOOPS.iter().enumerate().skip(from) {
        for mut rest in choices(count - 1, n) {
            rest.push(first);
            all.push(rest);
        }
    }
    all
}

#[test]
fn on_the_t1_every_issue_is_where_the_rule_says() {
    for count in 1..=4 {
        for (salt, loops) in choices(count, 0).into_iter().enumerate() {
            let loops: Vec<_> = loops.into_iter().enumerate().collect();
            check(Bench::new("t1"), &loops, salt);
            check(Bench::new("t1"), &loops, salt + 5);
        }
    }
}

/// Contexts 0 to 3 are in one pipe, 4 to 7 in the other.
#[test]
fn on_the_t2_every_issue_is_where_the_rule_says() {
    let places: &[&[usize]] = &[&[5], &[0, 1], &[0, 4], &[7, 2], &[0, 5, 1], &[0, 1, 4, 5]];
    for harts in places {
        for (salt, loops) in choices(harts.len(), 0).into_iter().enumerate() {
            let loops: Vec<_> = harts.iter().copied().zip(loops).collect();
            check(Bench::new("t2"), &loops, salt);
        }
    }
    for salt in 0..50 {
        check(Bench::new("t2"), &pick(8, salt), salt);
    }
}

/// `loops` for all of `contexts` contexts, different ones for each salt.
fn pick(contexts: usize, salt: usize) -> Vec<(usize, &'static [Kind])> {
    let body = |hart: usize| LOOPS[(salt * (2 * hart + 1) + hart * hart) % LOOPS.len()];
    (0..contexts).map(|hart| (hart, body(hart))).collect()
}

/// The same rule where its parameters are others than the presets'.
#[test]
fn every_issue_is_where_the_rule_says_with_other_parameters() {
    let variants: &[(&str, usize, &[&str])] = &[
        ("t1", 8, &["core.contexts=8"]),
        ("t1", 4, &["core.alternates=false"]),
        ("t1", 4, &["core.selection_lag_cycles=1"]),
        (
            "t1",
            4,
            &["core.alternates=false", "core.selection_lag_cycles=2"],
        ),
        ("t1", 4, &["latency.load_confirmed_cycles=3"]),
        ("t1", 4, &["latency.branch_confirmed_cycles=8"]),
        ("t2", 8, &["latency.branch_confirmed_cycles=1"]),
        ("t1", 4, &["core.pipes=2", "core.selection_lag_cycles=1"]),
        ("t1", 4, &["core.stall=use"]),
        ("t1", 4, &["core.stall=use", "core.wait_costs_slot=true"]),
        ("t2", 8, &["core.wait_costs_slot=false"]),
        ("t2", 8, &["core.alternates=true"]),
        ("t2", 8, &["core.selection_lag_cycles=5"]),
        ("t2", 8, &["core.stall=issue", "latency.load_cycles=4"]),
        ("t2", 8, &["core.pipes=1"]),
        ("t2", 8, &["core.integer_result_slot_cycles=0"]),
        ("t2", 8, &["core.integer_result_slot_cycles=4"]),
        ("t1", 4, &["core.integer_result_slot_cycles=5"]),
        ("t1", 4, &["core.retract_cycles=0"]),
        ("t1", 4, &["core.retract_cycles=9"]),
        ("t1", 4, &["core.unit_handover_cycles=0"]),
        (
            "t1",
            4,
            &["core.unit_handover_cycles=7", "core.unit_release_cycles=4"],
        ),
    ];
    for (machine, contexts, changes) in variants {
        let change = |bench: Bench, change: &&str| bench.set(change);
        for salt in 0..20 {
            let bench = changes.iter().fold(Bench::new(machine), change);
            check(bench, &pick(*contexts, salt), salt);
        }
    }
}

/// The default spin loop on the presets: eleven cycles alone on the T1 (1 + 3 + 4 + 3), ten on the T2 (1 + 3 + 6: the
/// branch waits for what was loaded, not the barrier), sixteen on average for each of four, whose sixteen instructions
/// then leave next to no cycle unused, however they began.
#[test]
fn the_spin_loop_takes_its_time_alone_and_among_four() {
    const ROUNDS: usize = 100;
    for machine in ["t1", "t2"] {
        let alone = if machine == "t1" { 11 } else { 10 };
        for (contexts, expected) in [(1, alone), (4, 16)] {
            for salt in 0..20 {
                let mut bench = Bench::new(machine).long_pause();
                for hart in 0..contexts {
                    let offset = [0, salt, 3 * salt % 11, 7 * salt % 13][hart];
                    bench = bench.hart(hart, &program(hart, SPIN, offset));
                }
                let outcome = bench.for_cycles(2 * PAUSE + CYCLES).run();
                for hart in 0..contexts {
                    let steps = outcome.steps(hart);
                    let last: u64 = steps[steps.len() - ROUNDS..].iter().sum();
                    // Among four no round is exactly as long as the next, and on the T2 all four wait for a load or
                    // a branch now and then.
                    let off = last.abs_diff(expected * ROUNDS as u64);
                    let most = match (contexts, machine) {
                        (1, _) => 0,
                        (_, "t1") => 4,
                        _ => 40,
                    };
                    assert!(off <= most, "{machine}, {contexts}, {salt}: {last}");
                }
            }
        }
    }
}

/// Contexts that have never been selected are equal: the lower number goes first.
#[test]
fn at_the_start_the_lower_number_goes_first() {
    for machine in ["t1", "t2"] {
        let parameters = Bench::new(machine).parameters();
        let (contexts, pipes) = (
            parameters.number("core.contexts") as usize,
            parameters.number("core.pipes") as usize,
        );
        // The first instruction of all, and so the first request for its line, is everybody's.
        let bench = (0..contexts).fold(Bench::new(machine), |bench, hart| {
            bench.hart(hart, "mark; nop; done: wfi; j done")
        });
        let outcome = bench.for_cycles(20_000).run();
        let first: Vec<u64> = (0..contexts).map(|hart| outcome.times(hart)[0]).collect();
        for of_pipe in first.chunks(contexts / pipes) {
            // What comes after their first instructions may change the order of the others.
            let (lowest, others) = of_pipe.split_first().expect("a pipe has contexts");
            assert!(
                others.iter().all(|other| lowest < other),
                "{machine}: {first:?}"
            );
        }
    }
}
