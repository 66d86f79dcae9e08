//! Who waits: cycles and instructions by what code is there for, where they can be worked out.

use crate::support::{Bench, DATA, Outcome, WAIT};

/// Instructions of a chain, each of which waits for the one before: one a cycle.
const CHAIN: &str = "addi a1, a1, 1";

/// One context of an out-of-order core, whose window is filled by a chain, so that it fetches an instruction a cycle.
fn smt(code: &str) -> Bench {
    Bench::new("smt8")
        .set("core.contexts=1")
        .set("core.fetch_contexts=1")
        .hart(0, code)
}

/// What `block` adds to an activity each time: cycles and instructions; the difference of runs in which a loop of it
/// goes around 50 and 150 times.
fn each_round(run: impl Fn(u64) -> Outcome, activity: &str) -> (u64, u64) {
    let (few, many) = (run(50), run(150));
    let (few, many) = (few.activity(0, activity), many.activity(0, activity));
    let (cycles, instructions) = (many.0 - few.0, many.1 - few.1);
    assert_eq!((cycles % 100, instructions % 100), (0, 0), "{activity}");
    (cycles / 100, instructions / 100)
}

fn round(block: &str, rounds: u64) -> String {
    format!(
        "{WAIT}; li s1, {rounds}; j again; .line; again: {block}; addi s1, s1, -1; bnez s1, again; exit"
    )
}

/// A core that in the long run fetches an instruction when one is renamed. Where the front end has stages, it fetches a
/// group at a time, and what begins and ends within one lasts for no cycle.
fn one_by_one(code: &str) -> Bench {
    smt(code).set("core.front_end=queue")
}

#[test]
fn an_activity_lasts_from_the_fetch_of_its_first_instruction_to_that_of_the_next_one() {
    // 254 links and the two instructions of the loop, which issue beside them; whatever part of the chain waits takes as
    // many cycles as it has links, also one that is shorter than the pipeline is long.
    for waiting in [128, 64, 16, 3, 1] {
        let before = 100;
        let behind = 254 - before - waiting;
        let run = |rounds| {
            let block = format!(
                ".rept {before}; {CHAIN}; .endr; lock_1: .rept {waiting}; {CHAIN}; .endr; plain_1: .rept {behind}; {CHAIN}; .endr"
            );
            one_by_one(&round(&block, rounds)).run()
        };
        assert_eq!(each_round(run, "spinning"), (waiting, waiting));
        let (cycles, instructions) = each_round(run, "machine");
        assert_eq!((cycles, instructions), (254 - waiting, 256 - waiting));
    }
}

#[test]
fn probes_speak_from_fetch_on_too() {
    for waiting in [64, 1] {
        let run = |rounds| {
            let block = format!(
                ".rept 100; {CHAIN}; .endr
                 slti x0, a0, 5; .rept {waiting}; {CHAIN}; .endr; slti x0, a0, 6
                 .rept {}; {CHAIN}; .endr",
                154 - waiting
            );
            one_by_one(&round(&block, rounds)).run()
        };
        assert_eq!(each_round(run, "spinning"), (waiting, waiting));
    }
}

/// Every branch is predicted to be taken, also one that the branch target buffer does not have.
fn taken_without_a_target(code: &str) -> Bench {
    smt(code).set("branch.kind=taken").set("btb.miss=misfetch")
}

#[test]
fn code_that_is_fetched_on_a_wrong_path_is_not_waited_in() {
    let run = |rounds| {
        // Predicted to be taken, and never taken; what it leads to waits.
        let block = format!(
            "{CHAIN}; bnez x0, lock_1; {CHAIN}; j on
             lock_1: .rept 20; {CHAIN}; .endr
             plain_1: on: {CHAIN}"
        );
        let outcome = taken_without_a_target(&round(&block, rounds)).run();
        assert!(outcome.counter("core0", "squashed") >= rounds);
        outcome
    };
    assert_eq!(each_round(run, "spinning"), (0, 0));
    // Where the wrong path is the one that does not wait, all of it waits.
    let run = |rounds| {
        let block = format!(
            "lock_1: {CHAIN}; bnez x0, off; {CHAIN}; j on
             plain_1: off: .rept 20; {CHAIN}; .endr
             lock_2: on: {CHAIN}"
        );
        taken_without_a_target(&round(&block, rounds)).run()
    };
    assert_eq!(each_round(run, "machine"), (0, 0));
    assert_eq!(each_round(run, "spinning").1, 7);
}

#[test]
fn an_in_order_core_waits_from_issue_to_issue() {
    // Eight cycles a round: a load of three, two instructions of one, a taken branch of three.
    let run = |rounds| {
        let block = format!(
            "li a0, {DATA}; li t2, 10
             lock_1: lbu t0, 0(a0); nop; addi t2, t2, -1; bnez t2, lock_1
             plain_1: nop"
        );
        Bench::new("t1").hart(0, &round(&block, rounds)).run()
    };
    // The last branch is not taken; the model charges as much for it.
    assert_eq!(each_round(run, "spinning"), (8 * 10, 4 * 10));
}

#[test]
fn polling_is_not_waiting_for_a_lock() {
    let run = |rounds| {
        let block = format!(
            "idle_1: .rept 10; {CHAIN}; .endr; lock_1: .rept 20; {CHAIN}; .endr; plain_1: nop"
        );
        Bench::new("t1").hart(0, &round(&block, rounds)).run()
    };
    assert_eq!(each_round(run, "idle_polling"), (10, 10));
    assert_eq!(each_round(run, "spinning"), (20, 20));
}

/// Hart 0 waits in a loop; hart 1 interrupts it, a thousand cycles between two interrupts, and lets it go.
fn interrupted(machine: &str, times: u64, switches: bool) -> Outcome {
    let switch = match switches {
        true => "switch_1: nop; plain_2: ",
        false => "nop; ",
    };
    let waiter = format!(
        "li a0, {DATA}; li a2, 0x2000000; auipc t0, 0; addi t0, t0, 28; csrrw x0, 0x305, t0
         li t1, 8; csrrw x0, 0x304, t1; csrrs x0, 0x300, t1; j lock_1
         handler: sw x0, 0(a2); {switch} nop; .rept 10; nop; .endr; mret
         lock_1: ld t0, 0(a0); beqz t0, lock_1
         plain_1: exit"
    );
    let others = format!(
        "li a0, {DATA}; li a2, 0x2000000; li a3, 1; li s1, {times}
         again: li t0, 1000; wait: addi t0, t0, -1; bnez t0, wait
         sw a3, 0(a2); addi s1, s1, -1; bnez s1, again
         li t0, 1000; last: addi t0, t0, -1; bnez t0, last
         sd a3, 0(a0); fence rw, rw; sleep: wfi; j sleep"
    );
    Bench::new(machine).hart(0, &waiter).hart(1, &others).run()
}

#[test]
fn an_interrupt_in_a_waiting_loop_is_an_interrupt() {
    for machine in ["t1", "smt8"] {
        for times in [1, 4] {
            let outcome = interrupted(machine, times, false);
            let (cycles, instructions) = outcome.activity(0, "interrupt");
            assert_eq!(
                instructions,
                14 * times,
                "{machine}: store, twelve nops, return"
            );
            assert!(cycles >= instructions, "{machine}: {cycles}");
            let (spinning, _) = outcome.activity(0, "spinning");
            // The other hart counts to a thousand before each, and once more.
            assert!(
                spinning > 1000 * (times + 1) - cycles,
                "{machine}: {spinning}"
            );
            let (machine_mode, _) = outcome.activity(0, "machine");
            assert!(machine_mode < 1000, "{machine}: {machine_mode}");
            // It ends where tasks are switched: after the store.
            let outcome = interrupted(machine, times, true);
            assert_eq!(outcome.activity(0, "interrupt").1, times, "{machine}");
        }
    }
}
