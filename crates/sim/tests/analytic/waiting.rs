//! What each way to wait costs, to the cycle, and what it gives to the others.

use crate::support::paging::Paged;
use crate::support::{Bench, DATA, Outcome, Parameters};

const MACHINES: [&str; 5] = ["t1", "t2", "smt2", "smt8", "p-core"];

/// From the issue of an atomic of an in-order core until it performs.
const PERFORMS: u64 = 19;

fn locks(machine: &str) -> Bench {
    Bench::new(machine).set("hart.isa=+xloiterlock")
}

pub fn is_in_order(parameters: &Parameters) -> bool {
    parameters.get("core.front_cycles").is_none()
}

/// From the cycle in which a hart continues to the mark of its next instruction: an in-order core issues it then, an
/// out-of-order core fetches it, renames it, issues it in the next cycle and retires it when it has executed.
fn to_mark(parameters: &Parameters) -> u64 {
    if is_in_order(parameters) {
        return 0;
    }
    parameters.number("core.front_cycles") + parameters.number("core.register_read_cycles") + 2
}

/// Cycles from the mark before `wait` to the one after it, where `setup` has been run before and the code has run once.
fn duration(bench: &Bench, setup: &str, wait: &str) -> u64 {
    let code = format!(
        "{setup}; li s1, 3
         again: mark; {wait}; end; nop
         addi s1, s1, -1; bnez s1, again
         exit"
    );
    let times = bench.clone().hart(0, &code).run().times(0);
    assert_eq!(times.len(), 6);
    times[5] - times[4]
}

#[test]
fn a_pause_takes_as_long_as_it_says() {
    for machine in MACHINES {
        for cycles in [2, 3, 64, 1000] {
            let bench = Bench::new(machine).set(&format!("wait.pause_cycles={cycles}"));
            let expected = cycles + to_mark(&bench.parameters());
            assert_eq!(duration(&bench, "nop", "pause"), expected, "{machine}");
        }
    }
}

#[test]
fn a_pause_of_one_cycle_is_a_nop() {
    for machine in MACHINES {
        let bench = Bench::new(machine).set("wait.pause_cycles=1");
        let of = |wait: &str| duration(&bench, "nop", &format!(".rept 48; {wait}; .endr"));
        assert_eq!(of("pause"), of("nop"), "{machine}");
    }
}

/// Rounds of a hart that sets its timer to go off after `ticks`, and sleeps until then: the cycle in which it fell
/// asleep, that in which the timer was due, and that in which it continued.
fn timer_rounds(bench: &Bench, ticks: u64) -> Vec<[u64; 3]> {
    let code = format!(
        "li t0, 0x200bff8; li t2, 0x2004000; li t1, 0x80; csrrw x0, 0x304, t1; li s1, 3
         again: ld t1, 0(t0); addi t1, t1, {ticks}; sd t1, 0(t2)
         mark; wfi; end t1; nop
         addi s1, s1, -1; bnez s1, again
         exit"
    );
    let parameters = bench.parameters();
    let cycles_per_tick =
        parameters.number("system.clock_mhz") * 1_000_000 / parameters.number("system.timebase_hz");
    let marks = bench.clone().hart(0, &code).run().marks(0);
    assert_eq!(marks.len(), 6);
    let round = |pair: &[crate::support::Mark]| {
        [
            pair[0].cycle,
            pair[1].value * cycles_per_tick,
            pair[1].cycle - to_mark(&parameters),
        ]
    };
    marks.chunks(2).skip(1).map(round).collect()
}

#[test]
fn wfi_continues_an_exit_latency_after_its_interrupt() {
    for machine in MACHINES {
        for exit in [1, 2, 150] {
            let bench = Bench::new(machine).set(&format!("wait.wfi_exit_cycles={exit}"));
            for [_, due, went_on] in timer_rounds(&bench, 20) {
                assert_eq!(went_on, due + exit, "{machine}");
            }
        }
    }
}

#[test]
fn an_interrupt_during_the_entry_is_heard_at_its_end() {
    const ENTRY: u64 = 100_000;
    for machine in MACHINES {
        let bench = Bench::new(machine)
            .set(&format!("wait.wfi_entry_cycles={ENTRY}"))
            .set("wait.wfi_exit_cycles=30");
        for [asleep, due, went_on] in timer_rounds(&bench, 20) {
            assert!(due < asleep + ENTRY, "{machine}");
            assert_eq!(went_on, asleep + ENTRY + 30, "{machine}");
        }
    }
}

/// With an idle state that a wfi permits after so many cycles of sleep, and that takes 700 to leave instead of 20.
fn with_idle_state(machine: &str, residency: u64) -> Bench {
    Bench::new(machine)
        .set("wait.wfi_exit_cycles=20")
        .set("idle.states=1")
        .set("idle.wfi_deepest=1")
        .set("idle.state1_exit_cycles=700")
        .set(&format!("idle.state1_residency_cycles={residency}"))
}

#[test]
fn a_core_that_has_slept_for_the_target_residency_takes_the_exit_of_its_idle_state() {
    for machine in MACHINES {
        let [asleep, due, _] = timer_rounds(&Bench::new(machine), 20)[0];
        let slept = due - asleep;
        // The round before ends later with another exit, which moves this one by less than a tick. Unit tests of the
        // core's idle states have the exact cycle.
        for (residency, exit) in [(slept - 500, 700), (slept + 500, 20)] {
            let bench = with_idle_state(machine, residency);
            let [_, due, went_on] = timer_rounds(&bench, 20)[0];
            assert_eq!(went_on, due + exit, "{machine}");
        }
    }
}

/// A nap that its limit ends, in an idle state that takes `EXIT` to leave. Returns how long each lasted but the first, and
/// the misses of the two buffers of translations.
fn naps_with_a_limit(machine: &str, loses: &str) -> (Vec<u64>, [u64; 2]) {
    let code = format!(
        "li a0, {DATA}; li s1, {NAPS}
         again: lr.d t0, (a0); mark; wrs.sto; end; nop
         addi s1, s1, -1; bnez s1, again
         exit"
    );
    let outcome = Bench::new(machine)
        .set(&format!("wait.nap_short_limit_cycles={LIMIT}"))
        .set("idle.states=1")
        .set("idle.wrs_deepest=1")
        .set("idle.wfi_deepest=1")
        .set(&format!("idle.state1_exit_cycles={EXIT}"))
        .set(&format!("idle.state1_residency_cycles={EXIT}"))
        .set(&format!("idle.state1_loses={loses}"))
        .hart(0, &Paged::new().program(&code))
        .run();
    let times = outcome.times(0);
    let naps = times.chunks(2).skip(1).map(|pair| pair[1] - pair[0]);
    let misses = ["itlb", "dtlb"].map(|part| outcome.counter(&format!("core0.{part}"), "misses"));
    (naps.collect(), misses)
}

const NAPS: usize = 5;
const LIMIT: u64 = 1000;
const EXIT: u64 = 300;

#[test]
fn a_nap_that_its_limit_ends_takes_the_exit_of_the_idle_state_too() {
    for machine in MACHINES {
        let to_mark = to_mark(&Bench::new(machine).parameters());
        let (naps, _) = naps_with_a_limit(machine, "nothing");
        assert_eq!(naps, [LIMIT + EXIT + to_mark; NAPS - 1], "{machine}");
    }
}

#[test]
fn a_core_that_loses_its_translations_misses_them_after_each_nap() {
    for machine in MACHINES {
        let (kept, before) = naps_with_a_limit(machine, "nothing");
        let (lost, after) = naps_with_a_limit(machine, "translations");
        // The page of the code after each nap, that of the data before the next. An out-of-order core may look up again
        // what it fetches or reads on a wrong path meanwhile.
        for (buffer, expected) in [NAPS as u64, NAPS as u64 - 1].into_iter().enumerate() {
            let more = after[buffer] - before[buffer];
            match is_in_order(&Bench::new(machine).parameters()) {
                true => assert_eq!(more, expected, "{machine}"),
                false => assert!(
                    (expected..=2 * expected).contains(&more),
                    "{machine}: {more}"
                ),
            }
        }
        for (kept, lost) in kept.iter().zip(&lost) {
            assert!(lost > kept, "{machine}: {lost}, not more than {kept}");
        }
    }
}

#[test]
fn a_sibling_that_is_awake_keeps_its_core_out_of_idle_states() {
    for machine in MACHINES {
        for (seat, exit) in [("0", 20), ("other", 700)] {
            let bench = with_idle_state(machine, 1000);
            let contexts = bench.parameters().number("core.contexts") as usize;
            let sibling = if seat == "0" { 1 } else { contexts };
            let bench = bench.set("system.cores=2").hart(sibling, "again: j again");
            for [_, due, went_on] in timer_rounds(&bench, 20) {
                assert_eq!(went_on, due + exit, "{machine}, with {sibling} awake");
            }
        }
    }
}

#[test]
fn wrs_has_an_entry_and_an_exit() {
    const ENTRY: u64 = 5_000;
    const ROUNDS: usize = 20;
    // The writer sits on the second core, where it is in nobody's way.
    for (machine, writes) in [
        ("t1", 4),
        ("t2", 8),
        ("smt2", 2),
        ("smt8", 8),
        ("p-core", 2),
    ] {
        let bench = Bench::new(machine)
            .set(&format!("wait.wrs_entry_cycles={ENTRY}"))
            .set("wait.wrs_exit_cycles=70");
        let sleeper = format!(
            "li a0, {DATA}; li s1, {ROUNDS}
             again: lr.d t0, (a0); mark; wrs.nto; end; nop
             addi s1, s1, -1; bnez s1, again
             exit"
        );
        // It writes the line many times while the sleeper is on its way to sleep.
        let writer = format!("li a0, {DATA}; again: sd a0, 8(a0); .rept 400; nop; .endr; j again");
        let expected = ENTRY + 70 + to_mark(&bench.parameters());
        let outcome = bench.hart(0, &sleeper).hart(writes, &writer).run();
        let times = outcome.times(0);
        let waits = times.chunks(2).map(|pair| pair[1] - pair[0]);
        // A line that is written before wrs is no reason to sleep. The first time, the code is on its way.
        let naps: Vec<u64> = waits.skip(2).filter(|&wait| wait > ENTRY / 2).collect();
        assert!(naps.len() > ROUNDS / 2, "{machine}: {} naps", naps.len());
        for nap in naps {
            assert_eq!(nap, expected, "{machine}");
        }
    }
}

#[test]
fn wrs_gives_up_when_its_limit_is_over() {
    const EXIT: u64 = 7;
    let setup = format!("li a0, {DATA}; lr.d t0, (a0)");
    for machine in MACHINES {
        for (wait, limit) in [
            ("wrs.nto", "nap_long_limit_cycles"),
            ("wrs.sto", "nap_short_limit_cycles"),
        ] {
            for cycles in [1, 2, 1000] {
                let bench = Bench::new(machine)
                    .set(&format!("wait.{limit}={cycles}"))
                    .set(&format!("wait.wrs_exit_cycles={EXIT}"));
                let expected = cycles + EXIT + to_mark(&bench.parameters());
                let took = duration(&bench, &setup, wait);
                assert_eq!(took, expected, "{machine}: {wait} for {cycles}");
            }
        }
    }
}

/// A store by a sibling or by another core: how much later a longer exit lets the hart continue.
#[test]
fn the_exit_latency_of_wrs_adds_to_the_way_of_the_store() {
    let woken = |machine: &str, writer: usize, exit: u64| {
        let sleeper = format!("li a0, {DATA}; lr.d t0, (a0); wrs.nto; mark; nop; exit");
        let store = format!(
            "li a0, {DATA}; li t0, 2000; wait: addi t0, t0, -1; bnez t0, wait; mark; sd a0, 8(a0); done: wfi; j done"
        );
        let outcome = Bench::new(machine)
            .set(&format!("wait.wrs_exit_cycles={exit}"))
            .hart(0, &sleeper)
            .hart(writer, &store)
            .run();
        outcome.times(0)[0] - outcome.times(writer)[0]
    };
    for (machine, others) in [
        ("t1", 4),
        ("t2", 8),
        ("smt2", 2),
        ("smt8", 8),
        ("p-core", 2),
    ] {
        for writer in [1, others] {
            let short = woken(machine, writer, 1);
            // The way of the store to the line of another core, and the instruction after wrs.
            assert!(short < 1000, "{machine}: {short}");
            assert_eq!(woken(machine, writer, 301), short + 300, "{machine}");
        }
    }
}

#[test]
fn a_free_lock_costs_what_an_atomic_costs() {
    let setup = format!("li a0, {DATA}; li a6, 1");
    for machine in MACHINES {
        let bench = locks(machine);
        let of = |first: i64, block: &str| {
            let setup = format!("{setup}; li t0, {first}; sw t0, 0(a0)");
            duration(&bench, &setup, &format!(".rept 8; {block}; .endr"))
        };
        let swap = of(0, "amoswap.w x0, a6, (a0); sw x0, 0(a0)");
        for block in [
            "lock.acquire (a0), x0, .+4; sw x0, 0(a0)",
            "lock.acquire (a0), x0, .+4; lock.release (a0)",
        ] {
            assert_eq!(of(0, block), swap, "{machine}: {block}");
        }
        let load = of(1, "lr.d x0, (a0); sw a6, 0(a0)");
        let wait = of(1, "lock.wait (a0), x0, .+4; sw a6, 0(a0)");
        assert_eq!(wait, load, "{machine}");
    }
}

#[test]
fn a_lock_that_stays_held_is_given_up_when_the_time_is_over() {
    for machine in MACHINES {
        for (exit, entry) in [(1, 0), (40, 0), (40, 250)] {
            let bench = locks(machine)
                .set(&format!("wait.lock_exit_cycles={exit}"))
                .set(&format!("wait.lock_entry_cycles={entry}"));
            let parameters = bench.parameters();
            for limit in [400, 1000, 1777] {
                let held = format!("li a0, {DATA}; li a1, 5; sw a1, 0(a0); li a2, {limit}");
                let found = duration(&bench, &held, "lock.acquire (a0), a2, .+4");
                // It looks, waits, and looks again.
                let expected = if is_in_order(&parameters) {
                    PERFORMS + limit + exit + parameters.number("l2.atomic_latency_cycles")
                } else {
                    // It is renamed in its turn, and the oldest in the next cycle; after it fetch begins anew.
                    let looks = parameters.number("core.front_cycles") + 1;
                    limit + exit + looks + 1 + to_mark(&parameters)
                };
                assert_eq!(found, expected, "{machine}: limit {limit}");
            }
        }
    }
}

/// The work of hart 0 after a long pause, in which all others have gone to sleep: the times of its marks.
fn work_beside(machine: &str, sleeper: &str) -> (Vec<u64>, Outcome) {
    let work = format!(
        "li a0, {DATA}; li a1, 3; sw a1, 64(a0); pause
         again: mark; .rept 24; addi t0, t0, 1; mul t1, t0, t0; ld t2, 0(a0); .endr; j again"
    );
    let bench = locks(machine).long_pause().for_cycles(60_000);
    let contexts = bench.parameters().number("core.contexts") as usize;
    let sleeper = format!("li a0, {}; {sleeper}; done: j done", DATA + 64);
    let bench = (1..contexts).fold(bench.hart(0, &work), |bench, hart| {
        bench.hart(hart, &sleeper)
    });
    let outcome = bench.run();
    let times = outcome.times(0);
    assert!(times.len() > 100);
    (times[20..].to_vec(), outcome)
}

#[test]
fn who_sleeps_takes_nothing_whatever_the_way() {
    for machine in MACHINES {
        // Contexts without code sleep in wfi.
        let steps = |times: &[u64]| -> Vec<u64> {
            times.windows(2).map(|pair| pair[1] - pair[0]).collect()
        };
        let alone = steps(&work_beside(machine, "again: wfi; j again").0);
        for sleeper in [
            "wait: lr.d t0, (a0); wrs.nto; j wait",
            "sw a0, 0(a0); wait: lock.acquire (a0), x0, wait",
            "li t0, 64; add a0, a0, t0; wait: lock.wait (a0), x0, wait",
        ] {
            let (times, outcome) = work_beside(machine, sleeper);
            let found = steps(&times);
            let shorter = alone.len().min(found.len());
            assert_eq!(found[..shorter], alone[..shorter], "{machine}: {sleeper}");
            let activity = if sleeper.contains("lock") {
                "blocked"
            } else {
                "napping"
            };
            let rows = outcome.result.accounts.iter();
            let cycles: u64 = rows
                .filter(|row| row.context == 1 && row.activity == activity)
                .map(|row| row.cycles)
                .sum();
            assert!(cycles > 50_000, "{machine}: {cycles} {activity}");
        }
    }
}

/// Work that queues and registers limit: independent misses of memory, with results to rename around each.
fn limited_work(set: &[&str], sleeper: &str) -> u64 {
    let work = format!(
        "li a0, {}; li a2, 64; li s1, 3; pause
         again: mark
         .rept 100; ld x5, 0(a0); add a0, a0, a2; add x6, x5, a2; add x7, x6, a2; add x28, x7, a2; .endr
         addi s1, s1, -1; bnez s1, again
         exit",
        DATA + 0x10_0000
    );
    let bench = locks("smt2").long_pause();
    let bench = set.iter().fold(bench, |bench, change| bench.set(change));
    let sleeper = format!("li a0, {DATA}; li a1, 1; sw a1, 0(a0); {sleeper}; done: j done");
    // In the first round the code is on its way.
    bench.hart(0, &work).hart(1, &sleeper).run().steps(0)[1]
}

#[test]
fn shares_that_a_sleeper_gives_back_are_used() {
    for (sharing, sleeper, kind) in [
        ("partitioned", "lr.d t0, (a0); wrs.nto", "wrs"),
        ("partitioned", "again: wfi; j again", "wfi"),
        ("partitioned", "again: lock.acquire (a0), x0, again", "lock"),
        ("capped", "lr.d t0, (a0); wrs.nto", "wrs"),
    ] {
        let queue = format!("core.queue_sharing={sharing}");
        let registers = format!("core.register_sharing={sharing}");
        let of = |queue: &str, registers: &str, frees: bool| {
            let frees = format!("wait.{kind}_frees_shares={frees}");
            let caps = ["core.queue_cap_entries=16", "core.register_cap=50"];
            limited_work(&[queue, registers, &frees, caps[0], caps[1]], sleeper)
        };
        let alone = of(
            "core.queue_sharing=shared",
            "core.register_sharing=shared",
            false,
        );
        assert_eq!(of(&queue, &registers, true), alone, "{sharing} {kind}");
        let kept = of(&queue, &registers, false);
        assert!(
            kept * 10 > alone * 12,
            "{sharing} {kind}: {kept} beside {alone}"
        );
    }
}

/// A limit at which the end of time comes before it does is none.
#[test]
fn a_lock_whose_limit_lies_beyond_all_cycles_is_waited_for() {
    let holder = format!(
        "li a0, {DATA}; lock.acquire (a0), x0, done
         li t0, 20000; wait: addi t0, t0, -1; bnez t0, wait
         lock.release (a0)
         done: wfi; j done"
    );
    for machine in ["t1", "t2", "smt8"] {
        for limit in (-12_000..0).step_by(800).chain([-1]) {
            let waiter = format!(
                "li a0, {DATA}; li a1, {limit}; li t0, 1000; wait: addi t0, t0, -1; bnez t0, wait
                 lock.acquire (a0), a1, late
                 li t1, 1; end t1; exit
                 late: li t1, 2; end t1; exit"
            );
            let outcome = Bench::new(machine)
                .set("hart.isa=+xloiterlock")
                .set("wait.lock_exit_cycles=5000")
                .hart(0, &holder)
                .hart(1, &waiter)
                .run();
            let values: Vec<u64> = outcome.marks(1).iter().map(|mark| mark.value).collect();
            assert_eq!(values, [1], "{machine}: {limit}");
            assert!(outcome.result.cycles > 20_000, "{machine}: {limit}");
            let naps = outcome.counter("core0.wait", "lock_naps");
            assert_eq!(naps, 1, "{machine}: {limit}");
        }
    }
}

/// A hart sleeps for a few cycles again and again while its stores drain, and moves to and fro: each nap begins once and
/// ends once, wherever its limit comes.
#[test]
fn a_nap_whose_limit_comes_while_its_hart_leaves_is_counted() {
    for machine in ["t1", "t2", "in-order", "symmetry"] {
        let bench = Bench::new(machine)
            .set("wait.nap_short_limit_cycles=20")
            .set("wait.wrs_exit_cycles=20");
        let other = bench.parameters().number("core.contexts") / 2;
        let stores: String = (0..4)
            .map(|n| format!("sd x0, {}(a1); ", 256 * n))
            .collect();
        let code = format!(
            "li a0, {DATA}; li a1, {DATA}; li a2, 4096
             again: add a1, a1, a2; lr.d t0, (a0); {stores} wrs.sto; j again"
        );
        let moves = (0..60).map(|n| {
            let to = if n % 2 == 0 { other.max(1) } else { 0 };
            format!("timing for {} cycles, move 0 to {to}, ", 300 + 7 * n)
        });
        let plan = moves.collect::<String>() + "timing";
        let outcome = bench.hart(0, &code).phases(&plan).for_cycles(60_000).run();
        let sum = |name: &str| {
            let rows = outcome
                .result
                .counters
                .iter()
                .filter(|row| row.name == name);
            rows.map(|row| row.value).sum::<u64>()
        };
        let (begun, ended) = (sum("wrs_naps"), sum("woken_by_limit"));
        assert!(begun > 60, "{machine}: {begun}");
        // The last may be there still.
        assert!(
            (begun - 1..=begun).contains(&ended),
            "{machine}: {ended} of {begun}"
        );
    }
}
