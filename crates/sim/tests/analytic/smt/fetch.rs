//! How contexts share fetch.

use super::ALL_FP_ON;
use crate::support::{Bench, Outcome};

const CYCLES: u64 = 20_000;

/// Instructions of [`LOOP`].
const INSTRUCTIONS: u64 = 4;

/// A line with a loop of four instructions, of which no fetch gets more, since the jump is taken.
const LOOP: &str = ".line; again: mark; addi x5, x0, 1; addi x6, x0, 1; addi x7, x0, 1; j again";

/// A core on which only fetch is a limit.
fn bench(set: &[&str]) -> Bench {
    let bench = Bench::new("smt8")
        .set("units.integer=16")
        .for_cycles(CYCLES);
    set.iter().fold(bench, |bench, change| bench.set(change))
}

/// Instructions that hart `hart` has retired by its loop of so many.
fn retired(outcome: &Outcome, hart: usize, instructions: u64) -> u64 {
    instructions * outcome.marks(hart).len() as u64
}

/// `found` is `a_cycle` times [`CYCLES`] but for the first misses.
fn assert_rate(found: u64, a_cycle: u64, what: &str) {
    let most = a_cycle * CYCLES;
    assert!(
        (most * 97 / 100..=most).contains(&found),
        "{what}: {found} of {most}"
    );
}

#[test]
fn a_context_is_fetched_from_up_to_a_taken_transfer() {
    for contexts in [1, 2] {
        let set = format!("core.fetch_contexts={contexts}");
        let outcome = bench(&[&set]).hart(0, LOOP).run();
        assert_rate(retired(&outcome, 0, INSTRUCTIONS), 4, &set);
    }
}

#[test]
fn so_many_contexts_share_a_cycle_of_fetch_in_equal_parts() {
    for policy in ["icount", "round_robin"] {
        for (contexts, width, a_cycle) in [(1, 8, 4), (2, 8, 8), (2, 4, 4), (4, 8, 8)] {
            let set = [
                format!("core.fetch_policy={policy}"),
                format!("core.fetch_contexts={contexts}"),
                format!("core.fetch_width={width}"),
            ];
            let set = set.each_ref().map(String::as_str);
            // Eight lines after one another, each in a bank of its own.
            let bench = (0..8).fold(bench(&set), |bench, hart| bench.hart(hart, LOOP));
            let outcome = bench.run();
            let shares: Vec<u64> = (0..8)
                .map(|hart| retired(&outcome, hart, INSTRUCTIONS))
                .collect();
            let total = shares.iter().sum();
            assert_rate(total, a_cycle, &format!("{set:?}"));
            for share in shares {
                assert!(
                    share.abs_diff(total / 8) * 20 < total / 8,
                    "{set:?}: {share} of {total}"
                );
            }
        }
    }
}

#[test]
fn two_lines_of_one_bank_are_not_fetched_in_a_cycle() {
    // Hart 0's line, and lines up to the one that is as many lines after it as given.
    let padded = |lines: u64| format!("{LOOP}\n.rept {}\nnop\n.endr", 16 * (lines - 1));
    for (banks, apart, a_cycle) in [
        (8, 1, 8),
        (8, 7, 8),
        (8, 8, 4),
        (4, 4, 4),
        (4, 6, 8),
        (1, 1, 4),
    ] {
        let set = format!("core.fetch_banks={banks}");
        let outcome = bench(&[&set]).hart(0, &padded(apart)).hart(1, LOOP).run();
        let total = retired(&outcome, 0, INSTRUCTIONS) + retired(&outcome, 1, INSTRUCTIONS);
        assert_rate(total, a_cycle, &format!("{set}, {apart} apart"));
    }
}

#[test]
fn contexts_that_want_one_line_are_not_fetched_in_one_cycle() {
    // Hart 1's code is the line after hart 0's, to which it jumps; or it has the same in a line of its own.
    for (code, a_cycle) in [("j .+-64", 4), (LOOP, 8)] {
        let outcome = bench(&["core.fetch_banks=64"])
            .hart(0, LOOP)
            .hart(1, code)
            .run();
        let [first, second] = [0, 1].map(|hart| retired(&outcome, hart, INSTRUCTIONS));
        assert_rate(first + second, a_cycle, code);
        assert!(first.abs_diff(second) <= CYCLES / 100, "{first}, {second}");
    }
}

/// Two contexts go round in a line each, a third goes from line to line of one set, which has room for two of the
/// three. It is preferred, and takes a turn of the others for each line, and where a miss uses a slot, another.
#[test]
fn a_fetch_that_misses_is_one_of_those_of_its_cycle() {
    let far = ".rept 16383; nop; .endr";
    let misses = format!("again: j .+65536; {far}; j .+65536; {far}; mark; j again");
    for (uses, lost_turns) in [(true, 2), (false, 1)] {
        let rule = format!("core.fetch_miss_uses_slot={uses}");
        let counts = [1, 2].map(|times| {
            let bench = bench(&[&rule]).for_cycles(times * CYCLES);
            let outcome = bench.hart(0, LOOP).hart(1, LOOP).hart(2, &misses).run();
            let loops = retired(&outcome, 0, INSTRUCTIONS) + retired(&outcome, 1, INSTRUCTIONS);
            (loops, retired(&outcome, 2, 3))
        });
        // Of steady cycles.
        let (loops, lines) = (counts[1].0 - counts[0].0, counts[1].1 - counts[0].1);
        assert!(lines > CYCLES / 50, "{lines}");
        let lost = 2 * INSTRUCTIONS * CYCLES - loops;
        let expected = lost_turns * INSTRUCTIONS * lines;
        assert!(
            lost.abs_diff(expected) * 50 < expected,
            "{rule}: {lost} of {expected}"
        );
    }
}

/// A line with a loop of three divides and a jump, and what a divide takes.
fn divides() -> (String, u64) {
    let code = format!(
        "{ALL_FP_ON}; .line; again: mark; fdiv.d f4, f1, f1; fdiv.d f5, f1, f1; fdiv.d f6, f1, f1; j again"
    );
    let parameters = bench(&[]).parameters();
    (code, parameters.number("latency.fp_div_double_cycles"))
}

/// One context divides, and its divides fill their queue of two; the other adds. In order, four instructions of
/// each follow one another, and those of the second pass as seldom as those of the first.
#[test]
fn what_does_not_fit_stops_all_that_was_fetched_after_it_where_renaming_is_in_order() {
    let (divides, latency) = divides();
    let both = |order: &str| {
        let order = format!("core.rename_order={order}");
        // Room in the front end for all that both windows hold.
        let set = [
            order.as_str(),
            "core.fp_queue_entries=2",
            "core.reorder_entries=64",
            "core.front_end=queue",
            "core.fetch_buffer_entries=256",
        ];
        let counts = [1, 2].map(|times| {
            let bench = bench(&set).for_cycles(times * CYCLES);
            let outcome = bench.hart(0, &divides).hart(1, LOOP).run();
            let full = outcome.counter("core0", "queue_full_cycles");
            let [divided, beside] = [0, 1].map(|hart| retired(&outcome, hart, INSTRUCTIONS));
            [divided, beside, full]
        });
        // Of steady cycles.
        let [divided, beside, full] = [0, 1, 2].map(|n| counts[1][n] - counts[0][n]);
        assert!((CYCLES * 96 / 100..=CYCLES).contains(&full), "{full}");
        [divided, beside]
    };
    let divided = INSTRUCTIONS * CYCLES / (3 * latency);
    let [stopped, beside] = both("in_order");
    assert!(
        stopped.abs_diff(divided) <= 2 * INSTRUCTIONS,
        "{stopped} of {divided}"
    );
    // Of the windows, of 64 each, the first has up to eight instructions after renaming.
    assert!(
        (stopped..=stopped * 64 / 56).contains(&beside),
        "{stopped} and {beside}"
    );
    let [stopped, beside] = both("by_context");
    assert!(
        stopped.abs_diff(divided) <= 2 * INSTRUCTIONS,
        "{stopped} of {divided}"
    );
    assert_rate(beside, INSTRUCTIONS, "by context");
}

/// The same where the front end has less room than a window: what cannot be renamed fills it, and nothing else comes in,
/// unless it is divided among contexts.
#[test]
fn a_front_end_that_is_divided_lets_others_pass() {
    let (divides, latency) = divides();
    let both = |sharing: &str| {
        let sharing = format!("core.fetch_buffer_sharing={sharing}");
        let set = [
            sharing.as_str(),
            "core.rename_order=by_context",
            "core.fetch_policy=round_robin",
            "core.fp_queue_entries=2",
            "core.reorder_entries=256",
            "core.front_end=queue",
            "core.fetch_buffer_entries=128",
        ];
        let counts = [1, 2].map(|times| {
            let bench = bench(&set).for_cycles(times * CYCLES);
            let outcome = bench.hart(0, &divides).hart(1, LOOP).run();
            let full = outcome.counter("core0", "front_full_cycles");
            let [divided, beside] = [0, 1].map(|hart| retired(&outcome, hart, INSTRUCTIONS));
            [divided, beside, full]
        });
        [0, 1, 2].map(|n| counts[1][n] - counts[0][n])
    };
    let expected = INSTRUCTIONS * CYCLES / (3 * latency);
    for (sharing, passes) in [("shared", false), ("partitioned", true)] {
        let [divided, beside, full] = both(sharing);
        assert!(divided.abs_diff(expected) <= 2 * INSTRUCTIONS, "{divided}");
        assert!(2 * full > CYCLES, "{sharing}: {full}");
        match passes {
            true => assert_rate(beside, INSTRUCTIONS, sharing),
            false => assert!(beside < 4 * divided, "{beside} beside {divided}"),
        }
    }
}

/// What one cycle fetched, eight and then seven of a line, passes as a whole: the next come when the last of them has
/// been renamed. In a queue any of the next follow in the same cycle.
#[test]
fn a_cycle_renames_of_one_group_where_the_front_end_has_stages() {
    const LINE: u64 = 15;
    let line = ".line; again: mark; .rept 14; addi x5, x0, 1; .endr; j again";
    for width in [1, 2, 3, 5, 7] {
        for (front, instructions, cycles) in [
            ("queue", width, 1),
            (
                "stages",
                LINE,
                8_u64.div_ceil(width) + 7_u64.div_ceil(width),
            ),
        ] {
            let set = [
                format!("core.front_end={front}"),
                format!("core.rename_width={width}"),
            ];
            let set = set.each_ref().map(String::as_str);
            let found = retired(&bench(&set).hart(0, line).run(), 0, LINE);
            let most = CYCLES * instructions / cycles;
            assert!(
                (most * 97 / 100..=most).contains(&found),
                "{set:?}: {found} of {most}"
            );
        }
    }
}

/// One context divides, and its divides fill their queue of two; the other adds. A cycle fetches four instructions of
/// each, and the next does when all of a group have left the last stage: one cycle in so many as three divides take.
#[test]
fn nothing_is_fetched_while_each_stage_has_its_group() {
    let (divides, latency) = divides();
    for stages in [1, 3, 6] {
        let front = format!("core.front_cycles={stages}");
        let counts = [1, 2].map(|times| {
            let set = ["core.front_end=stages", "core.fp_queue_entries=2", &front];
            let bench = bench(&set).for_cycles(times * CYCLES);
            let outcome = bench.hart(0, &divides).hart(1, LOOP).run();
            let [divided, beside] = [0, 1].map(|hart| retired(&outcome, hart, INSTRUCTIONS));
            let full = outcome.counter("core0", "front_full_cycles");
            let nothing = outcome.counter("core0", "zero_fetch_cycles");
            [divided, beside, full, nothing]
        });
        // Of steady cycles.
        let [divided, beside, full, nothing] = [0, 1, 2, 3].map(|n| counts[1][n] - counts[0][n]);
        let groups = CYCLES / (3 * latency);
        for retired in [divided, beside] {
            assert!(
                retired.abs_diff(INSTRUCTIONS * groups) <= INSTRUCTIONS,
                "{front}: {retired} of {}",
                INSTRUCTIONS * groups
            );
        }
        assert!((CYCLES - full).abs_diff(groups) <= 1, "{front}: {full}");
        assert_eq!(nothing, full, "{front}");
    }
}

/// The third of three divides finds no entry for a thousand cycles. After it a queue holds as many instructions as it
/// has entries; stages hold the group of the divides, of which two have left, and a group each.
#[test]
fn a_front_end_that_is_full_has_a_group_in_each_stage() {
    const GROUP: u64 = 8;
    let code = format!(
        "{ALL_FP_ON}; j divides; .line
         divides: fdiv.d f4, f1, f1; fdiv.d f5, f1, f1; fdiv.d f6, f1, f1
         .rept 200; addi x5, x0, 1; .endr
         done: j done"
    );
    let fetched = |set: &[&str]| {
        let blocked = [
            "latency.fp_div_double_cycles=1000",
            "core.fp_queue_entries=1",
        ];
        let bench = bench(&[&blocked, set].concat()).for_cycles(1100);
        let outcome = bench.hart(0, &code).run();
        outcome.counter("core0", "fetched") - outcome.counter("core0", "squashed")
    };
    for (entries, stages) in [(8, 1), (8, 3), (20, 3), (20, 6)] {
        let front = format!("core.front_cycles={stages}");
        let buffer = format!("core.fetch_buffer_entries={entries}");
        let queue = fetched(&[&front, "core.front_end=queue", &buffer]);
        let found = fetched(&[&front, "core.front_end=stages"]);
        assert_eq!(found + 2 + entries, queue + GROUP * stages, "{front}");
    }
}

/// One context executes a chain, the other could use every unit. ICOUNT "prevents any one thread from
/// filling the IQ" (Tullsen et al. 1996, 5.2): of the chain is fetched only as long as no more of it waits
/// than of the other. In turn, both are fetched from alike; the chain fills the queue, and then the other
/// gets an entry whenever one of the chain issues. Fetch is from one context a cycle: of two, the second would get
/// what the line of the first leaves, whatever of it waits.
#[test]
fn icount_keeps_a_context_that_waits_from_filling_the_queue() {
    const LATENCY: u64 = 8;
    let code =
        |what: &str| format!("{ALL_FP_ON}; .line; again: mark; .rept 15; {what}; .endr; j again");
    // Of either queue.
    for (link, other) in [
        ("mul a1, a1, a1", "addi x5, x0, 1"),
        ("fmul.d f1, f1, f1", "fadd.d f4, f2, f2"),
    ] {
        let (chain, free) = (code(link), code(other));
        let both = |policy: &str| {
            let set = [
                format!("core.fetch_policy={policy}"),
                "core.fetch_contexts=1".to_owned(),
                format!("latency.mul_cycles={LATENCY}"),
                format!("latency.fp_mul_cycles={LATENCY}"),
            ];
            let set = set.each_ref().map(String::as_str);
            let outcome = bench(&set).hart(0, &chain).hart(1, &free).run();
            [0, 1].map(|hart| retired(&outcome, hart, 16))
        };
        let [chained, alongside] = both("icount");
        let [chained_in_turn, alongside_in_turn] = both("round_robin");
        for chained in [chained, chained_in_turn] {
            let most = CYCLES / LATENCY * 16 / 15;
            assert!((most * 97 / 100..=most).contains(&chained), "{chained}");
        }
        assert!(
            alongside_in_turn < 2 * chained_in_turn,
            "{link}: {alongside_in_turn}"
        );
        assert!(alongside > 4 * chained, "{link}: {alongside}");
    }
}
