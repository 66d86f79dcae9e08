//! Idle states that do not keep caches, predictors or translations: what is lost, what is written back, and what that
//! costs afterwards.

use crate::support::{Bench, DATA, Outcome};
use crate::waiting::is_in_order;

/// How long the naps of these tests last, in a state that takes so long to leave and is entered after as long a sleep.
const LIMIT: u64 = 60_000;
const EXIT: u64 = 600;

/// A core that loses so much when it has slept for [`EXIT`].
fn bench(machine: &str, loses: &str) -> Bench {
    Bench::new(machine)
        .set(&format!("wait.nap_short_limit_cycles={LIMIT}"))
        .set("idle.states=1")
        .set("idle.wrs_deepest=1")
        .set("idle.wfi_deepest=1")
        .set(&format!("idle.state1_exit_cycles={EXIT}"))
        .set(&format!("idle.state1_residency_cycles={EXIT}"))
        .set(&format!("idle.state1_loses={loses}"))
}

/// Words at intervals of a long line, and of many sets.
const STRIDE: u64 = 128;

/// A hart that stores to `written` lines and loads `read` others, sleeps once with another line watched, and loads all
/// of them again, and the watched one.
fn sleeper(written: u64, read: u64) -> String {
    let each = |from: u64, lines: u64, what: &str| {
        let lines = (from..from + lines).map(|n| format!("{what}, {}(a0); ", n * STRIDE));
        lines.collect::<String>()
    };
    let (stores, loads) = (each(0, written, "sd x0"), each(written, read, "ld a1"));
    let again = each(0, written + read, "ld a1");
    format!(
        "li a0, {}; li a2, {DATA}; li s1, 2
         j first
         .line
         first: {stores} {loads} fence rw, rw
         j nap
         .line
         nap: lr.d t0, (a2); mark; wrs.sto; end; nop
         {again} ld t0, (a2); fence rw, rw; mark
         exit",
        DATA + 0x800
    )
}

struct Found {
    lost: u64,
    written_back: u64,
    data_misses: u64,
    nap: u64,
}

fn found(outcome: &Outcome) -> Found {
    let idle = |name| outcome.counter("core0.idle", name);
    assert_eq!(idle("state1_entries"), 1);
    let times = outcome.times(0);
    Found {
        lost: idle("lost_lines"),
        written_back: idle("written_back_lines"),
        data_misses: outcome.counter("core0.l1d", "misses"),
        nap: times[1] - times[0],
    }
}

/// Machines, whether their cores write lines back, and whether they have a second level of their own.
const MACHINES: [(&str, bool, bool); 7] = [
    ("t1", false, false),
    ("t2", false, false),
    ("smt8", true, false),
    ("symmetry", true, false),
    ("knl", true, false),
    ("p-core", true, true),
    ("opteron48", true, true),
];

fn with_cores(machine: &str, loses: &str) -> Bench {
    // As many as fill a part of memory or a cluster of each.
    let cores = if machine == "opteron48" { 48 } else { 2 };
    bench(machine, loses).set(&format!("system.cores={cores}"))
}

#[test]
fn lines_are_lost_and_written_back_as_the_state_says() {
    const MORE: u64 = 6;
    for (machine, writes_back, has_second) in MACHINES {
        let run = |loses: &str, written, read| {
            let bench = with_cores(machine, loses).hart(0, &sleeper(written, read));
            found(&bench.run())
        };
        for loses in ["nothing", "translations", "l1", "l1 l2", "l2 predictors"] {
            let few = run(loses, 4, 4);
            let kept = run("nothing", 4, 4);
            let (more_written, more_read) = (run(loses, 4 + MORE, 4), run(loses, 4, 4 + MORE));
            let keeps = !loses.contains('l') || loses == "translations";
            let case = format!("{machine}, {loses}");
            // Code and data: the same line twice where an instruction cache has it too.
            let expected = if keeps { 0 } else { MORE };
            for more in [&more_written, &more_read] {
                let differs = more.lost - few.lost;
                match writes_back || std::ptr::eq(more, &more_read) {
                    // Longer code takes lines as well.
                    true => assert!(
                        (expected..=3 * expected).contains(&differs),
                        "{case}: {differs}"
                    ),
                    // What writes through does not allocate; the loads of each line follow.
                    false => assert!(differs <= 3 * expected, "{case}: {differs}"),
                }
                assert_eq!(more.nap, few.nap, "{case}: the watched line stays");
            }
            let leaves = !keeps && (!has_second || loses.contains("l2"));
            let expected = if writes_back && leaves { MORE } else { 0 };
            assert_eq!(
                more_written.written_back - few.written_back,
                expected,
                "{case}"
            );
            assert_eq!(more_read.written_back, few.written_back, "{case}");
            // Each line that was there misses once more; that which is watched does not.
            let again = match (keeps, writes_back) {
                (true, _) => 0,
                (false, true) => 8,
                // Stores that write through do not allocate.
                (false, false) => 4,
            };
            assert_eq!(few.data_misses - kept.data_misses, again, "{case}");
        }
    }
}

/// The other core reads what the sleeping one has written: from its caches, unless these have lost it to the home.
#[test]
fn what_a_sleeping_core_has_written_back_comes_from_beyond_it() {
    const LINES: u64 = 8;
    for (machine, writes_back, _) in MACHINES {
        let run = |loses: &str| {
            let bench = with_cores(machine, loses);
            let second = bench.parameters().number("core.contexts") as usize;
            let loads = (0..LINES).map(|n| format!("ld a1, {}(a0); add a0, a0, a1; ", n * STRIDE));
            let loads: String = loads.collect();
            // It begins when the other has slept for longer than it takes to lose everything.
            let reader = format!(
                "li a0, {}; li t0, {}; wait: addi t0, t0, -1; bnez t0, wait
                 mark; {loads} fence rw, rw; mark; exit",
                DATA + 0x800,
                5 * EXIT
            );
            let outcome = bench
                .hart(0, &sleeper(LINES, 0))
                .hart(second, &reader)
                .run();
            let times = outcome.times(second);
            let accounts = outcome.result.accounts.iter();
            let there = accounts.filter(|row| usize::from(row.context) == second);
            let other = there.filter(|row| row.slot == "other_cache");
            let other: u64 = other.map(|row| row.cycles).sum();
            (
                times[1] - times[0],
                other,
                outcome.counter("core0.idle", "state1_cycles"),
            )
        };
        let ((kept, from_core, _), (lost, from_beyond, slept)) = (run("nothing"), run("l1 l2"));
        assert!(slept > EXIT, "{machine}: {slept}");
        if !writes_back {
            assert_eq!(lost, kept, "{machine}");
            continue;
        }
        assert!(lost != kept, "{machine}: {lost}");
        assert_eq!(from_beyond, 0, "{machine}");
        assert!(machine == "smt8" || from_core > 0, "{machine}");
    }
}

/// A loop of one branch that goes the same way, before a nap and after it.
#[test]
fn predictors_are_lost_where_the_state_says_so() {
    let code = format!(
        "li a2, {DATA}; li s2, 2
         again: li s1, 200
         loop: addi s1, s1, -1; bnez s1, loop
         lr.d t0, (a2); wrs.sto
         addi s2, s2, -1; bnez s2, again
         exit"
    );
    for machine in ["smt8", "knl", "p-core", "opteron48"] {
        let misses = |loses: &str| {
            let outcome = with_cores(machine, loses).hart(0, &code).run();
            let counter = |name| outcome.counter("core0.branch", name);
            (counter("btb_misses"), counter("branches_mispredicted"))
        };
        let (kept, lost) = (misses("l1 translations"), misses("predictors"));
        assert_eq!(lost.0, kept.0 + 1, "{machine}: the target of the loop");
        assert!(lost.1 > kept.1, "{machine}: {lost:?}, {kept:?}");
    }
}

/// A hart that goes round over some lines; its place becomes cold once, or it comes to a place that it has been at before.
#[test]
fn a_hart_that_moves_to_a_cold_place_misses_every_line_once_more() {
    const LINES: u64 = 12;
    let loads = (0..LINES).map(|n| format!("ld t0, {}(a0); add a0, a0, t0; ", n * STRIDE));
    let loads: String = loads.collect();
    let code = format!("li a0, {DATA}; again: {loads} j again");
    for (machine, ..) in MACHINES {
        let bench = with_cores(machine, "nothing");
        let other = bench.parameters().number("core.contexts");
        let in_order = is_in_order(&bench.parameters());
        let misses = |moves: &str| {
            let plan = format!("timing for 30k cycles, {moves}timing");
            let outcome = bench
                .clone()
                .hart(0, &code)
                .phases(&plan)
                .for_cycles(200_000)
                .run();
            let of = |core: usize| outcome.counter(&format!("core{core}.l1d"), "misses");
            let lost = outcome.counter("core0.idle", "lost_lines");
            (of(0), of(1), lost >= LINES)
        };
        let (kept, _, _) = misses("");
        let cases = [
            ("move 0 to 0 cold, ", 1, LINES),
            (
                "reference for 10 instructions, move 0 to 0 cold, ",
                0,
                LINES,
            ),
            ("move 0 to 0, ", 0, 0),
        ];
        for (moves, counted, more) in cases {
            let (found, _, lost) = misses(moves);
            // An out-of-order core may look up a load again that it has squashed.
            let most = if in_order || more == 0 {
                more
            } else {
                more + 2
            };
            let found = found - kept;
            assert!(
                (more..=most).contains(&found),
                "{machine}, {moves}: {found}"
            );
            assert_eq!(lost, counted == 1, "{machine}, {moves}");
        }
        // There and back: what is at home stays, unless it is to be cold.
        let back = |how: &str| {
            misses(&format!(
                "move 0 to {other}, timing for 30k cycles, move 0 to 0{how}, "
            ))
        };
        let (warm, there, _) = back("");
        let (cold, there_again, _) = back(" cold");
        let again = cold - warm;
        let most = if in_order { LINES } else { LINES + 2 };
        assert!((LINES..=most).contains(&again), "{machine}: {again}");
        assert_eq!(there, there_again, "{machine}");
        assert!(there >= LINES, "{machine}");
    }
}
