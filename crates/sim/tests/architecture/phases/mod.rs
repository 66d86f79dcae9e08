//! Phases: harts move between the reference engine and timing cores, any number of times, and nothing of
//! that shows in what programs compute.

mod samples;

use loiter_isa::Op;
use loiter_sim::{Error, ExitReason, Request, RunResult};

use crate::compare::{assert_same_retired, difference, reported};
use crate::determinism::assert_repeatable;
use crate::generator::{Program, Settings, Target, generate};
use crate::handmade::{A0, FREE, Guest, S0, T0, T1, T2, reports};
use crate::machines::{Machine, run_to_end, try_run};

const TIMED: [(Machine, usize); 5] = [
    (Machine::T1, 2),
    (Machine::T2, 1),
    (Machine::Smt8, 1),
    (Machine::InOrder, 2),
    (Machine::BigLittle, 2),
];
const HARTS: usize = 8;

fn program(seed: u64) -> Program {
    generate(Settings {
        seed,
        harts: HARTS,
        blocks: 15,
        items: 60,
        target: Target::Loiter,
    })
}

fn request(machine: Machine, cores: usize, phases: &str) -> Request {
    Request {
        phases: Some(phases.to_owned()),
        ..machine.request(cores)
    }
}

/// Every context-cycle of the timing phases is charged once, and no other.
fn assert_accounts_add_up(result: &RunResult) {
    let contexts = 1 + result.accounts.iter().map(|row| row.context).max().unwrap();
    let charged: u64 = result.accounts.iter().map(|row| row.cycles).sum();
    assert_eq!(charged, u64::from(contexts) * result.timing_cycles);
    let vacant = result
        .accounts
        .iter()
        .filter(|row| row.activity == "vacant");
    assert_eq!(vacant.count(), 0, "every context has its hart");
}

#[test]
fn switching_any_number_of_times_changes_no_result() {
    let plans = [
        "timing for 3k instructions, reference for 2k instructions, ".repeat(25) + "timing",
        "reference for 1k cycles, timing for 777 cycles, ".repeat(25) + "reference",
        "timing for 50 cycles, reference for 100 instructions, ".repeat(200) + "timing",
        "reference warm for 1k instructions, timing for 500 instructions, ".repeat(25) + "timing",
    ];
    for (seed, plan) in (0x700..).zip(&plans) {
        let program = program(seed);
        let expected = run_to_end(&Machine::Virt.request(HARTS), &program.elf);
        for (machine, cores) in TIMED {
            let found = run_to_end(&request(machine, cores, plan), &program.elf);
            for hart in 0..HARTS {
                let checksums = [&expected, &found].map(|result| reported(result, hart));
                let named = format!("{machine:?} {}", &plan[..48]);
                let pair = [("the reference", &checksums[0]), (&*named, &checksums[1])];
                if let Some(text) = difference(&program, hart, pair[0], pair[1]) {
                    panic!("{text}");
                }
                assert_same_retired(&program, hart, &expected, &found);
            }
            assert_accounts_add_up(&found);
            assert_eq!(found.missed_phase, None);
            assert!(found.phases.len() > 50, "{} phases", found.phases.len());
            let timed = found
                .phases
                .iter()
                .filter(|row| row.phase.starts_with("timing"));
            let timed: Vec<_> = timed.collect();
            let instructions: u64 = timed.iter().map(|row| row.instructions).sum();
            let cycles: u64 = timed
                .iter()
                .map(|row| row.end_cycle - row.begin_cycle)
                .sum();
            assert_eq!(instructions, found.timing_instructions);
            assert_eq!(cycles, found.timing_cycles);
            assert_eq!(found.checked_instructions, instructions);
            assert!(found.timing_instructions < found.instructions);
        }
    }
}

#[test]
fn the_same_plan_gives_the_same_result() {
    let program = program(0x710);
    let plan = "reference until probe:roi_begin, ".to_owned()
        + &"timing for 20k instructions, reference for 10k cycles, ".repeat(4)
        + "timing";
    for (machine, cores) in TIMED {
        assert_repeatable(&request(machine, cores, &plan), &program.elf);
    }
}

/// Harts that change places, within a core and from core to core, compute what they would have computed anyway. All context-cycles
/// are charged, and the seats of each hart and of each context follow one another without a gap.
#[test]
fn harts_that_move_compute_the_same() {
    let moves = [(0, 5), (1, 0), (7, 3), (5, 5), (2, 6), (0, 6), (4, 1)];
    let plan = |how: &str| {
        let moves = moves.iter();
        let moves: String = moves
            .map(|(hart, context)| {
                format!("timing for 1777 cycles, move {hart} to {context}{how}, ")
            })
            .collect();
        format!("{moves}reference for 500 instructions, move 3 to 4{how}, timing")
    };
    for (seed, machine, cores) in [
        (0x730, Machine::T1, 2),
        (0x731, Machine::T2, 1),
        (0x732, Machine::Smt8, 1),
        (0x733, Machine::Smt2, 4),
        (0x734, Machine::InOrder, 4),
        (0x735, Machine::BigLittle, 2),
    ] {
        let program = program(seed);
        let expected = run_to_end(&Machine::Virt.request(HARTS), &program.elf);
        let found = run_to_end(&request(machine, cores, &plan("")), &program.elf);
        let cold = run_to_end(&request(machine, cores, &plan(" cold")), &program.elf);
        let lost = [&found, &cold].map(|result| {
            let rows = result.counters.iter();
            let lost = rows.filter(|row| row.name == "lost_lines");
            lost.map(|row| row.value).sum::<u64>()
        });
        assert!(lost[0] == 0 && lost[1] > 50, "{machine:?}: {lost:?}");
        assert_accounts_add_up(&cold);
        for (hart, found) in (0..HARTS).flat_map(|hart| [(hart, &found), (hart, &cold)]) {
            let checksums = [&expected, found].map(|result| reported(result, hart));
            let pair = [("the reference", &checksums[0]), ("moved", &checksums[1])];
            if let Some(text) = difference(&program, hart, pair[0], pair[1]) {
                panic!("{machine:?}: {text}");
            }
            assert_same_retired(&program, hart, &expected, found);
        }
        assert_accounts_add_up(&found);
        assert_eq!(found.missed_phase, None);
        assert_eq!(
            found.checked_instructions, found.timing_instructions,
            "{machine:?}"
        );
        // Six harts go on while two move, which retire one instruction each at most. The last move finds no hart in a core.
        let moves = found
            .phases
            .iter()
            .filter(|row| row.phase.starts_with("move"));
        let during: Vec<_> = moves.map(|row| row.instructions).collect();
        assert_eq!(during.len(), 8);
        assert!(during.iter().any(|&it| it > 20), "{machine:?}: {during:?}");
        assert_eq!(during[7], 0);
        // To 5, to 1 when hart 5 takes that, and to 6.
        let of_hart = |hart| found.seats.iter().filter(move |row| row.hart == hart);
        let contexts: Vec<_> = of_hart(0).map(|row| row.context).collect();
        assert_eq!(contexts, [0, 5, 1, 6], "{machine:?}");
        assert!(found.seats.len() > HARTS + 8, "{machine:?}");
        for row in &found.seats {
            let mut rows = of_hart(row.hart).skip_while(|it| it.from_cycle <= row.from_cycle);
            let end = row.until_cycle.expect("all seats end");
            assert!(row.from_cycle < end);
            assert!(rows.next().is_none_or(|next| next.from_cycle >= end));
            let others = found.seats.iter().filter(|it| it.context == row.context);
            let overlaps = |it: &&loiter_sim::SeatRow| {
                it.from_cycle < end && it.until_cycle.is_some_and(|until| until > row.from_cycle)
            };
            assert_eq!(others.filter(overlaps).count(), 1, "{machine:?}: {row:?}");
        }
    }
}

/// A sleeper is woken where it has come to.
#[test]
fn a_sleeper_that_moves_is_woken() {
    for machine in [
        Machine::T1,
        Machine::Smt8,
        Machine::InOrder,
        Machine::BigLittle,
    ] {
        let plan = "timing for 500 cycles, move 0 to 1, timing for 700 cycles, move 1 to 0, timing";
        let found = run_to_end(&request(machine, 2, plan), &guest());
        let moves = found
            .phases
            .iter()
            .filter(|row| row.phase.starts_with("move"));
        let moves: Vec<_> = moves.collect();
        assert_eq!(moves.len(), 2, "{machine:?}");
        assert_eq!(found.exit.code, 0, "{machine:?}: {}", found.exit.message);
        assert!(found.console.contains("it is ready"), "{machine:?}");
    }
}

#[test]
fn a_move_to_nowhere_is_refused() {
    for (plan, problem) in [
        (
            "move 0 to 8, timing",
            "no context 8; contexts are numbered from 0 to 7",
        ),
        (
            "timing for 1 cycles, move 9 to 0",
            "no hart 9; harts are numbered from 0 to 7",
        ),
    ] {
        let request = request(Machine::T1, 2, plan);
        match try_run(&request, &guest()) {
            Err(Error::User(message)) => assert!(message.contains(problem), "{message}"),
            other => panic!("{problem}: {other:?}"),
        }
    }
}

/// Where one timed phase ends and the next begins, nothing happens: machines of four cores count the same to the last
/// counter, wherever that is.
#[test]
fn boundaries_between_timed_phases_change_nothing() {
    for machine in [
        Machine::T1,
        Machine::Smt8,
        Machine::PCore,
        Machine::InOrder,
        Machine::BigLittle,
    ] {
        let program = program(0x720);
        let run = |plan: &str| run_to_end(&request(machine, 4, plan), &program.elf);
        let whole = run("timing");
        for part in [
            "timing for 777 cycles, ",
            "timing for 1 cycles, ",
            "timing for 997 instructions, ",
        ] {
            let parts = run(&(part.repeat(60) + "timing"));
            assert_eq!(parts.phases.len(), 61, "{machine:?} {part}");
            assert_eq!(parts.cycles, whole.cycles, "{machine:?} {part}");
            assert_eq!(parts.counters, whole.counters, "{machine:?} {part}");
            assert_eq!(parts.accounts, whole.accounts, "{machine:?} {part}");
            assert_eq!(parts.activities, whole.activities, "{machine:?} {part}");
            assert_eq!(parts.histograms, whole.histograms, "{machine:?} {part}");
        }
    }
}

/// Hart 0 counts, passes probes, comes to a symbol, prints, and ends; hart 1 sleeps and is woken.
fn guest() -> Vec<u8> {
    const UART: i64 = 0x1000_0000;
    const WORK_BEGIN: u16 = 3;
    const ROI_BEGIN: u16 = 1;
    let mut guest = Guest::new(&[0, 1]);
    guest.role(0);
    let count = |guest: &mut Guest, times| {
        guest.repeat(S0, times, |guest| guest.asm.i(Op::Addi, A0, A0, 1));
    };
    guest.asm.li(A0, 0);
    count(&mut guest, 1_000);
    guest.asm.probe(WORK_BEGIN, S0);
    count(&mut guest, 1_000);
    guest.asm.probe(ROI_BEGIN, S0);
    count(&mut guest, 1_000);
    guest.asm.symbol("landmark");
    count(&mut guest, 1_000);
    for byte in b"it is ready\n" {
        guest.asm.li(T0, UART);
        guest.asm.li(T1, i64::from(*byte));
        guest.asm.s(Op::Sb, T1, 0, T0);
    }
    count(&mut guest, 1_000);
    guest.report(A0);
    guest.asm.s(Op::Sd, S0, FREE, 3);
    guest.barrier(2);
    guest.pass();
    guest.role(1);
    guest.barrier(2);
    guest.sleep_for_ever();
    guest.elf()
}

#[test]
fn phases_end_where_they_are_told_to() {
    let plan = "reference until probe:work_begin, timing until probe:roi_begin, reference until \
                symbol:landmark, timing until console:is ready, reference for 100 instructions, timing \
                for 1k cycles, timing";
    for (machine, cores) in TIMED {
        let result = run_to_end(&request(machine, cores, plan), &guest());
        assert_eq!(reports(&result, 0), [5_000]);
        assert_eq!(result.phases.len(), 7);
        let mark = |kind| result.marks.iter().find(|mark| mark.kind == kind).unwrap();
        let rows = &result.phases;
        assert!(rows[..6].iter().all(|row| row.ended) && !rows[6].ended);
        assert!(
            rows.windows(2)
                .all(|pair| pair[0].end_cycle == pair[1].begin_cycle)
        );
        // The reference engine continues to the end of the turn of all harts.
        assert!((0..=5_000).contains(&(rows[0].end_cycle - mark("work_begin").cycle)));
        // Timing cores stop after the cycle, once they have drained.
        let drain = rows[1].end_cycle - mark("roi_begin").cycle;
        assert!((1..=500).contains(&drain), "{machine:?}: {drain} cycles");
        assert_eq!(rows[4].instructions, 100);
        assert_eq!(rows[5].end_cycle - rows[5].begin_cycle, 1_000);
        assert_accounts_add_up(&result);
    }
}

#[test]
fn the_run_ends_after_its_last_phase() {
    for (machine, cores) in [(Machine::Virt, 2)].into_iter().chain(TIMED) {
        let engine = if machine == Machine::Virt {
            "reference"
        } else {
            "timing"
        };
        let plan = format!("{engine} until symbol:landmark");
        let result = try_run(&request(machine, cores, &plan), &guest()).unwrap();
        assert_eq!(result.exit.reason, ExitReason::Phases);
        assert_eq!(result.exit.code, 0);
        assert_eq!(result.missed_phase, None);
        let whole = run_to_end(&machine.request(cores), &guest());
        assert!(result.instructions > 6_000 && result.instructions < whole.instructions);
    }
}

#[test]
fn an_end_that_never_comes_is_told() {
    for (plan, says) in [
        (
            "reference until probe:acquired, timing",
            "phase 1 of 2 never ended: reference until probe:acquired",
        ),
        (
            "reference for 1k cycles, timing until console:\"never said\"",
            "phase 2 of 2 never ended: timing until console:\"never said\"; no console has said that",
        ),
        (
            "timing for 90G instructions, reference",
            "and phase 2 never began: reference",
        ),
    ] {
        let result = run_to_end(&request(Machine::Smt8, 1, plan), &guest());
        let missed = result.missed_phase.unwrap();
        assert!(missed.contains(says), "{missed}");
    }
    let result = run_to_end(
        &request(Machine::Smt8, 1, "timing for 90G cycles"),
        &guest(),
    );
    assert_eq!(result.missed_phase, None, "no more than a limit");
}

#[test]
fn what_contradicts_itself_is_refused() {
    let refuses = |request: &Request, says: &str| match try_run(request, &guest()) {
        Err(Error::User(message)) => assert!(message.contains(says), "{message}"),
        other => panic!("{says}: {other:?}"),
    };
    let both = Request {
        fast_forward: true,
        ..request(Machine::T1, 1, "timing")
    };
    refuses(&both, "--phases and --fast-forward contradict each other");
    let mut debugged = request(Machine::T1, 1, "timing");
    debugged.observe.gdb = Some("0".into());
    refuses(&debugged, "--gdb and --phases contradict each other");
    refuses(
        &request(Machine::Virt, 2, "reference for 1k cycles, timing"),
        "--phases: machine virt has no cores with timing",
    );
    refuses(
        &request(Machine::T1, 1, "timing until symbol:land_mark"),
        "--phases: symbol:land_mark: no symbol",
    );
    refuses(
        &request(Machine::T1, 1, "timing until"),
        "--phases: expected \"probe:\"",
    );
    let mut checked = Machine::Virt.request(2);
    checked.observe.check = true;
    refuses(&checked, "--check: this machine has no timing cores");
}

/// Reads a few lines and takes a branch now and then, twice; the second time after a probe.
fn reader() -> Vec<u8> {
    const LINES: i64 = 40;
    const LINE: i32 = 64;
    const ROI_BEGIN: u16 = 1;
    let mut guest = Guest::new(&[0]);
    guest.role(0);
    guest.asm.li(A0, 0);
    guest.repeat(S0, 2, |guest| {
        let first = guest.asm.label();
        guest.asm.branch(Op::Beq, S0, 0, first);
        guest.asm.probe(ROI_BEGIN, S0);
        guest.asm.bind(first);
        guest.address(T0, 4096);
        guest.asm.li(T1, LINES);
        let again = guest.asm.bound();
        guest.asm.i(Op::Ld, T2, T0, 0);
        guest.asm.r(Op::Add, A0, A0, T2);
        guest.asm.i(Op::Addi, T0, T0, LINE);
        guest.asm.i(Op::Addi, T1, T1, -1);
        guest.asm.branch(Op::Bne, T1, 0, again);
    });
    guest.report(A0);
    guest.pass();
    guest.elf()
}

#[test]
fn warming_leaves_what_was_used_at_hand() {
    let counter = |result: &RunResult, component: &str, name: &str| {
        let mut rows = result.counters.iter();
        let row = rows.find(|row| row.component == component && row.name == name);
        row.unwrap_or_else(|| panic!("{component}.{name}")).value
    };
    for (machine, cores) in TIMED {
        let run = |warm: &str| {
            let plan = format!("reference{warm} until probe:roi_begin, timing");
            run_to_end(&request(machine, cores, &plan), &reader())
        };
        let (cold, warm) = (run(""), run(" warm"));
        assert_eq!(cold.instructions, warm.instructions);
        let misses = [&cold, &warm].map(|result| counter(result, "core0.l1d", "misses"));
        assert!(misses[0] >= 40, "{machine:?}: {misses:?}");
        // Two lines of the report; where the end of the loop is mispredicted, also the line that the next load
        // would have read (with `branch.kind=oracle` it is not).
        let missed_anew = 2 + u64::from(machine == Machine::Smt8);
        assert!(misses[1] <= missed_anew, "{machine:?}: {misses:?}");
        let (next, misses) = match machine {
            Machine::InOrder | Machine::BigLittle => ("dram0", "reads"),
            _ => ("l2", "misses"),
        };
        let missed = [&cold, &warm].map(|result| counter(result, next, misses));
        assert!(missed[1] < missed[0], "{machine:?}: {missed:?}");
        assert!(warm.timing_cycles < cold.timing_cycles);
        if machine == Machine::Smt8 {
            let wrong = [&cold, &warm]
                .map(|result| counter(result, "core0.branch", "branches_mispredicted"));
            assert!(wrong[1] < wrong[0], "{wrong:?}");
        }
    }
}

/// Runs a plan that may end the run.
fn run_plan(request: &Request, elf: &[u8]) -> RunResult {
    try_run(request, elf).unwrap()
}
