//! Sleeping and waking: no wake-up is lost, whenever it comes; a system in which all sleep for ever
//! ends, and says who waits for what.

use loiter_isa::Op;
use loiter_isa::csr::number::{MCYCLE, MEPC, MIE, MIP, MSTATUS, MTVEC};
use loiter_sim::{ExitReason, RunResult};

use crate::generator::asm::{GP, Label};
use crate::handmade::{
    A0, A1, A2, CLINT, FREE, FULL_FENCE, Guest, MACHINE_ENABLE, MTIME, MTIMECMP, S0, S1, T0, T1,
    T2, reports,
};
use crate::machines::{Machine, assert_passed, run_to_end, try_run};

/// Delays of the waker, in instructions, that are tried one by one.
const DELAYS: usize = 400;
/// More than any of these programs needs.
const MAX_CYCLES: u64 = 20_000_000;

/// Offset from `gp` of the word that is waited for; the next word is on the same line.
const FLAG: i32 = FREE;

const ROUND: u8 = 18;
const SPENT: u8 = 19;

const MSIP: u8 = 1 << 3;

/// Waker and waiter, harts of one core or of two.
const PAIRS: &[(Machine, usize, [usize; 2])] = &[
    (Machine::T1, 1, [0, 3]),
    (Machine::T1, 1, [3, 0]),
    (Machine::T1, 2, [0, 4]),
    (Machine::T2, 1, [0, 7]),
    (Machine::T2, 1, [1, 0]),
    (Machine::T2, 2, [0, 8]),
    (Machine::InOrder, 1, [0, 3]),
    (Machine::InOrder, 2, [0, 4]),
    (Machine::InOrder, 2, [4, 0]),
    (Machine::Symmetry, 2, [0, 1]),
    (Machine::Smt8, 1, [0, 7]),
    (Machine::Smt8, 1, [1, 0]),
    (Machine::Smt8, 2, [0, 8]),
    (Machine::Smt2, 1, [0, 1]),
    (Machine::PCore, 1, [1, 0]),
    (Machine::PCore, 2, [0, 2]),
    (Machine::Superscalar, 2, [0, 1]),
    (Machine::Virt, 2, [0, 1]),
    (Machine::Virt, 2, [1, 0]),
];

type Wake = fn(&mut Guest);

/// Ways to write the number of the round to the flag.
const WRITES: &[(&str, Wake)] = &[
    ("a store", |guest| guest.asm.s(Op::Sd, ROUND, FLAG, GP)),
    ("an atomic", |guest| {
        guest.asm.i(Op::Addi, T0, GP, FLAG);
        guest.asm.r(Op::AmoswapD, 0, T0, ROUND);
    }),
    ("a store conditional", |guest| {
        guest.asm.i(Op::Addi, T0, GP, FLAG);
        let retry = guest.asm.bound();
        guest.asm.r(Op::LrD, T1, T0, 0);
        guest.asm.r(Op::ScD, T1, T0, ROUND);
        guest.asm.branch(Op::Bne, T1, 0, retry);
    }),
    ("a neighbour's store, then its own", |guest| {
        guest.asm.s(Op::Sd, ROUND, FLAG + 8, GP);
        guest.asm.s(Op::Sd, ROUND, FLAG, GP);
    }),
];

/// A program in which hart `pair[0]` wakes `pair[1]`, after every delay in turn. The waiter reports
/// how often it found what it waited for.
fn program(
    pair: [usize; 2],
    prepare: impl FnOnce(&mut Guest),
    wake: impl FnOnce(&mut Guest),
    wait: impl FnOnce(&mut Guest),
) -> Vec<u8> {
    let mut guest = Guest::new(&pair);
    guest.role(0);
    guest.asm.li(A1, pair[1] as i64);
    guest.repeat(ROUND, DELAYS as i64, |guest| {
        guest.asm.i(Op::Addi, ROUND, ROUND, 1);
        guest.barrier(2);
        guest.nops(ROUND, DELAYS);
        wake(guest);
        guest.asm.i(Op::Addi, ROUND, ROUND, -1);
        guest.barrier(2);
    });
    guest.sleep_for_ever();
    guest.role(1);
    guest.asm.li(SPENT, 0);
    prepare(&mut guest);
    guest.repeat(ROUND, DELAYS as i64, |guest| {
        guest.asm.i(Op::Addi, ROUND, ROUND, 1);
        guest.barrier(2);
        wait(guest);
        guest.asm.i(Op::Addi, SPENT, SPENT, 1);
        guest.asm.i(Op::Addi, ROUND, ROUND, -1);
        guest.barrier(2);
    });
    guest.report(SPENT);
    guest.pass();
    guest.elf()
}

/// Runs it; on timing cores the waiter must have slept in most rounds.
fn check(machine: Machine, cores: usize, pair: [usize; 2], elf: &[u8], what: &str) {
    let mut request = machine.request(cores);
    request.max_cycles = Some(MAX_CYCLES);
    if matches!(
        machine,
        Machine::Smt8 | Machine::Smt2 | Machine::Superscalar | Machine::PCore
    ) {
        // So that each further nop is a further cycle, and no order of the two is passed over.
        request.set.push("core.rename_width=1".into());
    }
    let result = try_run(&request, elf).unwrap_or_else(|error| panic!("{what}: {error}"));
    let place = format!("{machine:?}, harts {pair:?}, {what}");
    assert!(
        result.exit.reason == ExitReason::Finisher,
        "{place}: a wake-up was lost: {}",
        result.exit.message
    );
    assert_passed(&request, &result);
    assert_eq!(reports(&result, pair[1]), [DELAYS as u64], "{place}");
    if machine != Machine::Virt {
        let naps = naps(&result);
        assert!(naps > DELAYS as u64 / 2, "{place}: slept only {naps} times");
    }
}

fn naps(result: &RunResult) -> u64 {
    let rows = result.counters.iter();
    rows.filter(|row| row.name.ends_with("_naps"))
        .map(|row| row.value)
        .sum()
}

/// Waits until the flag holds the number of the round, asleep by `nap` between looks.
fn wait_for_flag(guest: &mut Guest, nap: Op) {
    let (again, done) = (guest.asm.bound(), guest.asm.label());
    guest.asm.i(Op::Addi, T0, GP, FLAG);
    guest.asm.r(Op::LrD, T1, T0, 0);
    guest.asm.branch(Op::Beq, T1, ROUND, done);
    guest.asm.bare(nap);
    guest.asm.j(again);
    guest.asm.bind(done);
}

#[test]
fn a_waiter_in_wrs_is_woken_by_any_write_to_its_line() {
    for &(machine, cores, pair) in PAIRS {
        for &(what, wake) in WRITES {
            for nap in [Op::WrsNto, Op::WrsSto] {
                let elf = program(pair, |_| {}, wake, |guest| wait_for_flag(guest, nap));
                check(machine, cores, pair, &elf, &format!("{nap:?} and {what}"));
            }
        }
    }
}

/// Writes 1 to the software interrupt of hart A1.
fn send_interrupt(guest: &mut Guest) {
    guest.asm.li(T0, CLINT);
    guest.asm.r(Op::Sh2add, T0, A1, T0);
    guest.asm.li(T1, 1);
    guest.asm.s(Op::Sw, T1, 0, T0);
}

/// Writes 0 to the software interrupt of this hart.
fn acknowledge_interrupt(guest: &mut Guest) {
    guest.asm.csrr(T0, 0xf14);
    guest.asm.li(T1, CLINT);
    guest.asm.r(Op::Sh2add, T0, T0, T1);
    guest.asm.s(Op::Sw, 0, 0, T0);
}

#[test]
fn a_waiter_in_wfi_is_woken_by_a_software_interrupt_that_it_does_not_take() {
    for &(machine, cores, pair) in PAIRS {
        let elf = program(
            pair,
            |guest| guest.asm.csr(Op::Csrrwi, 0, MIE, MSIP),
            send_interrupt,
            |guest| {
                let again = guest.asm.bound();
                guest.asm.bare(Op::Wfi);
                guest.asm.csrr(T0, MIP);
                guest.asm.i(Op::Andi, T0, T0, MSIP.into());
                guest.asm.branch(Op::Beq, T0, 0, again);
                acknowledge_interrupt(guest);
            },
        );
        check(machine, cores, pair, &elf, "wfi and msip");
    }
}

/// A handler of software interrupts: acknowledges and counts in S1.
fn counting_handler(guest: &mut Guest) -> Label {
    guest.asm.align(4);
    let handler = guest.asm.bound();
    acknowledge_interrupt(guest);
    guest.asm.i(Op::Addi, S1, S1, 1);
    guest.asm.bare(Op::Mret);
    handler
}

#[test]
fn an_interrupt_is_taken_once() {
    for &(machine, cores, pair) in PAIRS {
        let elf = program(
            pair,
            |guest| {
                let over = guest.asm.label();
                guest.asm.j(over);
                let handler = counting_handler(guest);
                guest.asm.bind(over);
                guest.asm.la(T0, handler);
                guest.asm.csrw(MTVEC, T0);
                guest.asm.li(S1, 0);
                guest.asm.csr(Op::Csrrwi, 0, MIE, MSIP);
            },
            send_interrupt,
            |guest| {
                // With interrupts masked between the look and the wfi, none slips between.
                let (again, done) = (guest.asm.bound(), guest.asm.label());
                guest.asm.csr(Op::Csrrci, 0, MSTATUS, MACHINE_ENABLE);
                guest.asm.branch(Op::Beq, S1, ROUND, done);
                guest.asm.bare(Op::Wfi);
                guest.asm.csr(Op::Csrrsi, 0, MSTATUS, MACHINE_ENABLE);
                guest.asm.j(again);
                guest.asm.bind(done);
                let fine = guest.asm.label();
                guest.asm.branch(Op::Beq, S1, ROUND, fine);
                guest.asm.li(SPENT, -1000);
                guest.asm.bind(fine);
            },
        );
        check(machine, cores, pair, &elf, "an interrupt");
    }
}

/// One hart that sleeps in wfi until its timer has run for 50 ticks, then reports how long it slept.
fn timer_program() -> Vec<u8> {
    let mut guest = Guest::new(&[0]);
    guest.role(0);
    guest.asm.li(S0, MTIME);
    guest.asm.li(T2, MTIMECMP);
    guest.asm.i(Op::Ld, S1, S0, 0);
    guest.asm.i(Op::Addi, T0, S1, 50);
    guest.asm.s(Op::Sd, T0, 0, T2);
    guest.asm.li(T0, 1 << 7);
    guest.asm.csrw(MIE, T0);
    guest.asm.bare(Op::Wfi);
    guest.asm.i(Op::Ld, T0, S0, 0);
    guest.asm.r(Op::Sub, T0, T0, S1);
    guest.report(T0);
    guest.asm.csrr(T0, MIP);
    guest.report(T0);
    guest.pass();
    guest.elf()
}

#[test]
fn a_timer_ends_wfi_when_it_is_due() {
    for (machine, longest) in [
        (Machine::Virt, 60),
        (Machine::T1, 56),
        (Machine::T2, 56),
        (Machine::Smt8, 56),
    ] {
        let result = run_to_end(&machine.request(1), &timer_program());
        let [slept, pending] = reports(&result, 0)[..] else {
            panic!("two reports")
        };
        assert!(
            (50..=longest).contains(&slept),
            "{machine:?}: {slept} ticks"
        );
        assert_eq!(pending & 1 << 7, 1 << 7);
    }
}

/// Hart 0 waits in wrs for what nobody writes, hart 1 in wfi; on timing cores all others too.
fn hopeless_program() -> Vec<u8> {
    let mut guest = Guest::new(&[0, 1]);
    guest.role(0);
    guest.asm.i(Op::Addi, T0, GP, FLAG);
    guest.asm.r(Op::LrD, T1, T0, 0);
    guest.asm.bare(Op::WrsNto);
    // A hart that sleeps stands after the instruction that put it to sleep.
    guest.asm.mv(A0, A0);
    guest.sleep_for_ever();
    guest.role(1);
    guest.sleep_for_ever();
    guest.elf()
}

#[test]
fn the_watchdog_says_who_waits_for_what() {
    for (machine, cores, names) in [
        (Machine::T1, 1, ["context 0 (hart 0)", "context 1 (hart 1)"]),
        (Machine::T2, 1, ["context 0 (hart 0)", "context 1 (hart 1)"]),
        (
            Machine::Smt8,
            1,
            ["context 0 (hart 0)", "context 1 (hart 1)"],
        ),
        (Machine::Virt, 2, ["hart 0", "hart 1"]),
    ] {
        let result = try_run(&machine.request(cores), &hopeless_program()).expect("no error");
        let exit = &result.exit;
        assert_eq!(exit.reason, ExitReason::Watchdog, "{}", exit.message);
        assert_eq!(exit.code, 1);
        let message = &exit.message;
        assert!(
            message.starts_with("nothing can ever happen again after cycle "),
            "{message}"
        );
        let line = |name: &str| {
            let mut lines = message.lines();
            let found = lines.find(|line| line.starts_with(&format!("{name} at 0x8000")));
            found.unwrap_or_else(|| panic!("{name} is missing in\n{message}"))
        };
        let waiter = line(names[0]);
        assert!(
            waiter.contains("<role0+") && waiter.contains("until its watched line is written"),
            "{waiter}"
        );
        let sleeper = line(names[1]);
        assert!(
            sleeper.contains("<role1+0x4>") && sleeper.contains("sleeps in wfi until an"),
            "{sleeper}"
        );
    }
}

/// The same of machines with other front ends, and of single contexts.
const LOCK_PAIRS: &[(Machine, usize, [usize; 2])] = &[
    (Machine::T1, 1, [0, 3]),
    (Machine::T1, 2, [4, 0]),
    (Machine::T2, 1, [7, 0]),
    (Machine::T2, 2, [0, 8]),
    (Machine::InOrder, 1, [1, 0]),
    (Machine::InOrder, 2, [0, 4]),
    (Machine::Symmetry, 2, [1, 0]),
    (Machine::Smt2, 1, [1, 0]),
    (Machine::Smt8, 1, [0, 7]),
    (Machine::Smt8, 2, [8, 0]),
    (Machine::PCore, 1, [0, 1]),
    (Machine::PCore, 2, [2, 1]),
    (Machine::Superscalar, 2, [0, 1]),
    (Machine::Virt, 2, [0, 1]),
    (Machine::Virt, 2, [1, 0]),
];

/// T2 points to what is waited for, A2 is the limit of the wait.
fn wait_at(guest: &mut Guest, op: Op) {
    guest.asm.i(Op::Addi, T2, GP, FLAG);
    let again = guest.asm.bound();
    guest.asm.branch(op, T2, A2, again);
}

#[test]
fn who_waits_for_the_hardware_lock_gets_it_whenever_it_is_given_back() {
    let releases: &[(&str, Wake)] = &[
        ("a release", |guest| {
            guest.asm.i(Op::Addi, T0, GP, FLAG);
            guest.asm.r(Op::LockRelease, 0, T0, 0);
        }),
        ("a store", |guest| guest.asm.s(Op::Sw, 0, FLAG, GP)),
        ("an atomic", |guest| {
            guest.asm.i(Op::Addi, T0, GP, FLAG);
            guest.asm.r(Op::AmoandW, 0, T0, 0);
        }),
    ];
    for &(machine, cores, pair) in LOCK_PAIRS {
        for &(what, release) in releases {
            for limit in [0, 40] {
                let elf = program(
                    pair,
                    |guest| {
                        // It holds the lock at first, and has it again after every wait.
                        guest.asm.li(T0, 1);
                        guest.asm.s(Op::Sw, T0, FLAG, GP);
                        guest.asm.li(A2, limit);
                    },
                    release,
                    |guest| wait_at(guest, Op::LockAcquire),
                );
                let what = format!("lock.acquire, limit {limit}, and {what}");
                check(machine, cores, pair, &elf, &what);
            }
        }
    }
}

#[test]
fn who_waits_for_flags_sees_any_of_them() {
    for &(machine, cores, pair) in LOCK_PAIRS {
        for (place, limit) in [(0, 0), (24, 40), (56, 0)] {
            let elf = program(
                pair,
                |guest| guest.asm.li(A2, limit),
                |guest| guest.asm.s(Op::Sd, ROUND, FLAG + place, GP),
                |guest| {
                    wait_at(guest, Op::LockWait);
                    guest.asm.s(Op::Sd, 0, FLAG + place, GP);
                },
            );
            let what = format!("flag {place}, limit {limit}");
            check(machine, cores, pair, &elf, &what);
        }
    }
}

/// An interrupt is taken while the lock is waited for, at the instruction, which then waits on.
#[test]
fn an_interrupt_is_taken_in_the_middle_of_the_wait_for_a_lock() {
    for &(machine, cores, pair) in LOCK_PAIRS {
        let elf = program(
            pair,
            |guest| {
                let over = guest.asm.label();
                guest.asm.j(over);
                guest.asm.align(4);
                let handler = guest.asm.bound();
                acknowledge_interrupt(guest);
                // It was taken at the instruction that waits, and the lock is free when that comes again.
                guest.asm.csrr(T0, MEPC);
                guest.asm.r(Op::Sub, T0, T0, A0);
                guest.asm.r(Op::Sltu, T0, 0, T0);
                guest.asm.r(Op::Sub, SPENT, SPENT, T0);
                guest.asm.s(Op::Sw, 0, FLAG, GP);
                guest.asm.bare(Op::Mret);
                guest.asm.bind(over);
                guest.asm.la(T0, handler);
                guest.asm.csrw(MTVEC, T0);
                guest.asm.csr(Op::Csrrwi, 0, MIE, MSIP);
                guest.asm.li(T0, 1);
                guest.asm.s(Op::Sw, T0, FLAG, GP);
                guest.asm.li(A2, 0);
            },
            send_interrupt,
            |guest| {
                let waits = guest.asm.label();
                guest.asm.la(A0, waits);
                guest.asm.i(Op::Addi, T2, GP, FLAG);
                guest.asm.csr(Op::Csrrsi, 0, MSTATUS, MACHINE_ENABLE);
                guest.asm.bind(waits);
                guest.asm.branch(Op::LockAcquire, T2, 0, waits);
                guest.asm.csr(Op::Csrrci, 0, MSTATUS, MACHINE_ENABLE);
            },
        );
        check(machine, cores, pair, &elf, "an interrupt in lock.acquire");
    }
}

const TAKERS: usize = 8;
const TAKES: i64 = if cfg!(debug_assertions) { 20 } else { 100 };
/// Words on lines of their own: the lock, and what it guards.
const LOCK: i32 = 256;
const COUNT: i32 = 512;

/// Eight harts add to a counter within the lock; some give up now and then.
#[test]
fn the_hardware_lock_excludes() {
    let harts: Vec<usize> = (0..TAKERS).collect();
    let mut guest = Guest::new(&harts);
    for n in 0..TAKERS {
        guest.role(n);
        guest.asm.i(Op::Addi, S0, GP, LOCK);
        // Without limit, or with one that is shorter than the others take.
        guest.asm.li(A2, if n % 2 == 0 { 0 } else { 30 * n as i64 });
        guest.barrier(TAKERS);
        guest.repeat(ROUND, TAKES, |guest| {
            let again = guest.asm.bound();
            guest.asm.branch(Op::LockAcquire, S0, A2, again);
            guest.asm.i(Op::Ld, T0, GP, COUNT);
            guest.asm.i(Op::Addi, T0, T0, 1);
            guest.asm.s(Op::Sd, T0, COUNT, GP);
            guest.asm.r(Op::LockRelease, 0, S0, 0);
        });
        guest.barrier(TAKERS);
        if n == 0 {
            guest.asm.i(Op::Ld, T0, GP, COUNT);
            guest.report(T0);
            guest.pass();
        }
        guest.sleep_for_ever();
    }
    let elf = guest.elf();
    for (machine, cores) in [
        (Machine::T1, 2),
        (Machine::T2, 1),
        (Machine::InOrder, 2),
        (Machine::Symmetry, 8),
        (Machine::Smt2, 4),
        (Machine::Smt8, 1),
        (Machine::Smt8, 2),
        (Machine::PCore, 4),
        (Machine::Superscalar, 8),
        (Machine::Virt, 8),
    ] {
        let mut request = machine.request(cores);
        request.max_cycles = Some(MAX_CYCLES);
        let result = run_to_end(&request, &elf);
        assert_eq!(
            reports(&result, 0),
            [TAKERS as u64 * TAKES as u64],
            "{machine:?}"
        );
        if machine != Machine::Virt {
            assert!(naps(&result) > TAKES as u64, "{machine:?}");
        }
    }
}

/// How long after the write that frees it the last of those who wait continues.
#[test]
fn a_waiter_continues_soon_after_the_write() {
    const ROUNDS: i64 = 40;
    for &(machine, cores, pair) in LOCK_PAIRS {
        if machine == Machine::Virt {
            continue;
        }
        let mut guest = Guest::new(&pair);
        guest.role(0);
        guest.repeat(ROUND, ROUNDS, |guest| {
            guest.barrier(2);
            guest.asm.li(T0, 150);
            let wait = guest.asm.bound();
            guest.asm.i(Op::Addi, T0, T0, -1);
            guest.asm.branch(Op::Bne, T0, 0, wait);
            guest.asm.csrr(T1, MCYCLE);
            guest.asm.s(Op::Sd, T1, FLAG, GP);
            guest.barrier(2);
        });
        guest.sleep_for_ever();
        guest.role(1);
        guest.asm.li(S1, 0);
        guest.asm.li(A2, 0);
        guest.repeat(ROUND, ROUNDS, |guest| {
            guest.barrier(2);
            wait_at(guest, Op::LockWait);
            guest.asm.csrr(T1, MCYCLE);
            guest.asm.i(Op::Ld, T0, GP, FLAG);
            guest.asm.r(Op::Sub, T1, T1, T0);
            guest.asm.r(Op::Maxu, S1, S1, T1);
            guest.asm.s(Op::Sd, 0, FLAG, GP);
            guest.asm.word(FULL_FENCE);
            guest.barrier(2);
        });
        guest.report(S1);
        guest.pass();
        let mut request = machine.request(cores);
        request.max_cycles = Some(MAX_CYCLES);
        let result = run_to_end(&request, &guest.elf());
        let worst = reports(&result, pair[1])[0];
        // The store's way to memory or to the line's owner, the exit latency, the look, the way of the line back, and a
        // front end; each way is no more than a miss of the second level.
        let ways = 4 * 335 + 100 + 60;
        assert!((2..ways).contains(&worst), "{machine:?}: {worst} cycles");
    }
}
