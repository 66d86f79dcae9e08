//! Counters by what instructions are for, and contexts that a misprediction leads astray.

use loiter_observe::Purpose;

use crate::support::{Bench, DATA, Outcome, WAIT};

/// A counter of each purpose: useful, spinning, polling.
fn by_purpose(outcome: &Outcome, counter: &str) -> [u64; 3] {
    let counters = Purpose::ALL
        .iter()
        .map(|purpose| outcome.counter(&format!("core0.{}", purpose.word()), counter));
    counters
        .collect::<Vec<_>>()
        .try_into()
        .expect("three purposes")
}

/// What a hundred rounds add.
fn hundred_rounds<T>(run: impl Fn(u64) -> T, difference: impl Fn(T, T) -> T) -> T {
    difference(run(150), run(50))
}

fn less(many: [u64; 3], few: [u64; 3]) -> [u64; 3] {
    [0, 1, 2].map(|n| many[n] - few[n])
}

/// One context alone, so that nothing but its own code decides.
fn alone(code: &str) -> Bench {
    Bench::new("smt8")
        .set("core.contexts=1")
        .set("core.fetch_contexts=1")
        .hart(0, code)
}

/// Five instructions that spin and hold one load, three that poll, and four that do neither, in a loop.
fn mixed(rounds: u64) -> String {
    format!(
        "{WAIT}; li a0, {DATA}; li s1, {rounds}; j again; .line
         again: addi a1, a1, 1
         lock_1: ld t0, 0(a0); addi a1, a1, 1; addi a1, a1, 1; addi a1, a1, 1; addi a1, a1, 1
         idle_1: addi a1, a1, 1; addi a1, a1, 1; addi a1, a1, 1
         acquire_1: addi a1, a1, 1
         plain_1: addi s1, s1, -1; bnez s1, again; .rept 60; nop; .endr; exit"
    )
}

#[test]
fn an_instruction_counts_for_what_its_code_is_for() {
    let count = |counter: &'static str| {
        hundred_rounds(
            |rounds| by_purpose(&alone(&mixed(rounds)).run(), counter),
            less,
        )
    };
    assert_eq!(count("load_lookups"), [0, 100, 0]);
    assert_eq!(count("load_misses"), [0, 0, 0]);
    let (fetched, squashed) = (count("fetched"), count("squashed"));
    assert_eq!(less(fetched, squashed), [400, 500, 300]);
    // Nothing is mispredicted in the rounds by which the runs differ.
    assert_eq!(squashed, [0, 0, 0]);
    assert_eq!(count("integer_issued"), [400, 500, 300]);
    let activities = hundred_rounds(
        |rounds| {
            let outcome = alone(&mixed(rounds)).run();
            ["acquiring", "spinning", "idle_polling"].map(|word| outcome.activity(0, word).1)
        },
        less,
    );
    assert_eq!(activities, [100, 500, 300]);
}

#[test]
fn what_is_squashed_counts_for_what_it_was_fetched_for() {
    // Each round falls through to code that waits, and is led back.
    let run = |rounds| {
        let code = format!(
            "{WAIT}; li s1, {rounds}; j again; .line
             again: beq x0, x0, over; lock_1: .rept 60; nop; .endr
             plain_1: over: addi s1, s1, -1; bnez s1, again; .rept 60; nop; .endr; exit"
        );
        let outcome = alone(&code).set("branch.kind=not_taken").run();
        let squashed = by_purpose(&outcome, "squashed");
        let kernel = outcome.counter("core0.kernel", "squashed");
        assert_eq!(squashed.iter().sum::<u64>(), kernel);
        let fetched = by_purpose(&outcome, "fetched");
        assert_eq!(
            fetched.iter().sum::<u64>(),
            outcome.counter("core0.kernel", "fetched")
        );
        less(fetched, squashed)
    };
    let [useful, spinning, polling] = hundred_rounds(run, less);
    assert_eq!((useful, spinning, polling), (300, 0, 0));
}

#[test]
fn a_mispredicted_transfer_leads_its_context_astray_until_it_has_executed() {
    // Fetched in cycle 0, renamed in 3, issued in 4; two cycles of register read and one of execution later fetch is
    // redirected, which finds it astray in cycles 1 to 6. Two such branches a round, of which the second waits a cycle
    // for its counter.
    let run = |rounds| {
        let code = format!(
            "{WAIT}; li s1, {rounds}; j again; .line
             again: beq x0, x0, over; .rept 60; nop; .endr; .line
             over: addi s1, s1, -1; nop; nop; nop; nop; nop; nop; bnez s1, again; .rept 60; nop; .endr; exit"
        );
        let outcome = alone(&code).set("branch.kind=not_taken").run();
        let astray = outcome.counter("core0", "misled_contexts");
        assert!(astray < outcome.counter("core0", "fetchable_contexts"));
        astray
    };
    assert_eq!(hundred_rounds(run, |many, few| many - few), 100 * (6 + 7));
    // Without a misprediction nobody is.
    let straight = alone(&format!("{WAIT}; .rept 200; nop; .endr; exit")).set("branch.kind=oracle");
    assert_eq!(straight.run().counter("core0", "misled_contexts"), 0);
}

#[test]
fn a_full_queue_is_shared_out_to_those_who_fill_it() {
    let divides = "div t0, t0, a1; add t1, t0, t0; add t2, t0, t0; add t3, t0, t0";
    let code = |mark: &str| {
        format!(
            "{WAIT}; li a1, 1; li t0, 1; li s1, 40; j again; .line
             again: {mark}_1: .rept 8; {divides}; .endr; addi s1, s1, -1; bnez s1, again; plain_1: nop"
        )
    };
    let run = |marks: [&str; 2]| {
        let others = code(marks[1]) + "; sleep: wfi; j sleep";
        let first = code(marks[0]) + "; li s1, 20000; last: addi s1, s1, -1; bnez s1, last; exit";
        let bench = Bench::new("smt8").hart(0, &first).hart(1, &others);
        let outcome = bench.run();
        let full = outcome.counter("core0", "queue_full_cycles");
        assert!(full > 1000, "{full}");
        (by_purpose(&outcome, "full_queue_entries"), 32 * full)
    };
    let (alike, all) = run(["lock", "lock"]);
    assert_eq!(alike.iter().sum::<u64>(), all);
    // What stands after the loops waits in the same queue as they end.
    assert!(alike[0] < all / 1000 && alike[2] == 0, "{alike:?} of {all}");
    let (apart, all) = run(["idle", "plain"]);
    assert_eq!(apart.iter().sum::<u64>(), all);
    assert_eq!(apart[1], 0);
    assert!(apart[0] > all / 10 && apart[2] > all / 10, "{apart:?}");
}

#[test]
fn transfers_and_calls_of_the_system_count_by_kind() {
    // A round: a call and a return, a jump, an indirect jump, a branch that is taken and one that is not, an
    // environment call and the return from it.
    let run = |rounds| {
        let code = format!(
            "{WAIT}; auipc t1, 0; addi t1, t1, 16; csrrw x0, 0x305, t1; j start
             handler: csrrs t0, 0x341, x0; addi t0, t0, 4; csrrw x0, 0x341, t0; mret
             start: li s1, {rounds}
             again: jal x1, called; j on; called: jalr x0, 0(x1)
             on: auipc t2, 0; jalr x0, 8(t2); ecall; bnez x0, again; addi s1, s1, -1; bnez s1, again; exit"
        );
        let outcome = alone(&code).run();
        let branch = |name| outcome.counter("core0.branch", name);
        let core = |name| outcome.counter("core0", name);
        [
            branch("fixed_jumps"),
            branch("returns"),
            branch("indirect_jumps"),
            branch("branches"),
            branch("branches_taken"),
            core("environment_calls"),
            core("traps"),
            core("trap_returns"),
        ]
    };
    let (many, few) = (run(150), run(50));
    let added: Vec<_> = many.iter().zip(few).map(|(many, few)| many - few).collect();
    assert_eq!(added, [200, 100, 100, 200, 100, 100, 100, 100]);
}
