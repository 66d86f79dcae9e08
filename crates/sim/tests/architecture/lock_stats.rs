//! Statistics of locks from the names of functions: beside what probes around the calls say, on the reference engine and
//! on timing machines, with releases that are calls and that are stores.

use loiter_isa::Op;
use loiter_isa::csr::number::{MIE, MSTATUS, MTVEC};
use loiter_sim::{LockRow, Observation, Request, RunResult};
use serde_json::Value;

use crate::generator::asm::Label;
use crate::handmade::{
    A0, DATA, FREE, FULL_FENCE, Guest, MACHINE_ENABLE, MTIME, MTIMECMP, S0, S1, T0, T1, T2, TP,
    reports,
};
use crate::machines::{Machine, run_to_end, try_run};
use crate::skips::run_thrice;

mod saved;

const RA: u8 = 1;
const SP: u8 = 2;
const S2: u8 = 18;
const ACQUIRE: u16 = 0x05;
const ACQUIRED: u16 = 0x06;
const RELEASED: u16 = 0x07;
const HARTS: usize = 4;
const ROUNDS: i64 = 150;
/// Of a loop while a lock is held: longer than some turns of the reference engine.
const HELD_ROUNDS: i64 = 10_000;
/// Longer than a session on timed cores goes on before it looks whether it is to stop.
const LONG_ROUNDS: i64 = 20 * HELD_ROUNDS;
const TICKS: i32 = 20;
/// Offset of the first lock from the shared data, and where the stacks are.
const LOCK: i32 = FREE;
const STACKS: i64 = DATA as i64 + 0x1_0000;
const MACHINES: [Machine; 5] = [
    Machine::Virt,
    Machine::T1,
    Machine::Smt8,
    Machine::Symmetry,
    Machine::Knl,
];

/// How a lock is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    Call,
    Store,
}

/// A ticket lock as Linux has it: takes the next ticket, waits for its turn.
fn lock_function(guest: &mut Guest, name: &str) -> Label {
    let function = guest.asm.bound();
    guest.asm.symbol(name);
    guest.asm.li(T1, 1 << 16);
    guest.asm.r(Op::AmoaddW, T0, A0, T1);
    guest.asm.i(Op::Srliw, T1, T0, 16);
    let again = guest.asm.bound();
    guest.asm.i(Op::Lhu, T2, A0, 0);
    guest.asm.branch(Op::Bne, T2, T1, again);
    guest.asm.word(FULL_FENCE);
    guest.asm.i(Op::Jalr, 0, RA, 0);
    function
}

fn unlock(guest: &mut Guest) {
    guest.asm.word(FULL_FENCE);
    guest.asm.i(Op::Lhu, T0, A0, 0);
    guest.asm.i(Op::Addi, T0, T0, 1);
    guest.asm.s(Op::Sh, T0, 0, A0);
}

/// A function that returns `value`.
fn returns(guest: &mut Guest, name: &str, value: i64) -> Label {
    let function = guest.asm.bound();
    guest.asm.symbol(name);
    guest.asm.li(A0, value);
    guest.asm.i(Op::Jalr, 0, RA, 0);
    function
}

fn stack(guest: &mut Guest, hart: usize) {
    guest.asm.li(SP, STACKS + 0x1000 * (hart as i64 + 1));
}

/// Every hart acquires a lock `ROUNDS` times, with probes around what it does.
fn contended(release: Release) -> Vec<u8> {
    let harts: Vec<usize> = (0..HARTS).collect();
    let mut guest = Guest::new(&harts);
    let lock = lock_function(&mut guest, "_raw_spin_lock");
    let unlocks = (release == Release::Call).then(|| {
        let function = guest.asm.bound();
        for name in ["_raw_spin_unlock", "_raw_spin_unlock_irq"] {
            guest.asm.symbol(name);
        }
        unlock(&mut guest);
        guest.asm.i(Op::Jalr, 0, RA, 0);
        function
    });
    for hart in harts {
        guest.role(hart);
        stack(&mut guest, hart);
        guest.barrier(HARTS);
        guest.repeat(S1, ROUNDS, |guest| {
            guest.address(S0, LOCK);
            guest.asm.mv(A0, S0);
            guest.asm.probe(ACQUIRE, S0);
            guest.asm.jal(RA, lock);
            guest.asm.probe(ACQUIRED, S0);
            guest.asm.li(T0, 20);
            guest.nops(T0, 20);
            guest.asm.mv(A0, S0);
            guest.asm.probe(RELEASED, S0);
            match unlocks {
                Some(unlocks) => guest.asm.jal(RA, unlocks),
                None => unlock(guest),
            }
            guest.asm.li(T0, 10 * hart as i64);
            guest.nops(T0, 30);
        });
        guest.barrier(HARTS);
        if hart == 0 {
            guest.pass();
        } else {
            guest.sleep_for_ever();
        }
    }
    guest.elf()
}

fn requested(machine: Machine, lock_stats: bool) -> Request {
    let cores = match machine {
        Machine::T1 | Machine::Smt8 | Machine::Knl => 1,
        _ => HARTS,
    };
    Request {
        lock_stats,
        ..machine.request(cores)
    }
}

/// Rows by hart: of calls, which return after the probe that begins their acquire, and of probes.
fn rows(result: &RunResult) -> [[&LockRow; 2]; HARTS] {
    let of_hart = |hart| {
        let mut rows: Vec<&LockRow> = result.locks.iter().filter(|it| it.hart == hart).collect();
        rows.sort_by_key(|row| row.site);
        <[&LockRow; 2]>::try_from(rows).expect("a row of probes and one of calls")
    };
    std::array::from_fn(|hart| of_hart(hart as u16))
}

#[test]
fn calls_say_what_probes_around_them_say() {
    for machine in MACHINES {
        for release in [Release::Call, Release::Store] {
            let result = run_to_end(&requested(machine, true), &contended(release));
            for [probe, call] in rows(&result) {
                let what = format!("{machine:?}, {release:?}: {call:?}, {probe:?}");
                for row in [probe, call] {
                    let counts = [row.acquisitions, row.holds];
                    assert_eq!(counts, [ROUNDS as u64; 2], "{what}");
                }
                assert_eq!(call.bounces, probe.bounces, "{what}");
                let differ = call.contentions.abs_diff(probe.contentions);
                assert!(differ <= 3, "{what}");
                // Calls and returns lie between the probes, some instructions apart.
                let waited = probe.wait_sum_cycles.checked_sub(call.wait_sum_cycles);
                let held = call.hold_sum_cycles.checked_sub(probe.hold_sum_cycles);
                let between = 0..=40 * ROUNDS as u64;
                let is_between = |it: &u64| between.contains(it);
                assert!(waited.as_ref().is_some_and(is_between), "{what}");
                assert!(held.as_ref().is_some_and(is_between), "{what}");
                let symbol = format!("role{}+", call.hart);
                assert!(call.site_symbol.starts_with(&symbol), "{what}");
                if machine != Machine::Virt {
                    assert!(call.handovers * 2 > call.acquisitions, "{what}");
                }
            }
        }
    }
}

/// Hart `other` acquires a lock that is free, and again, from another place, while hart 0 has it.
fn contends_once(other: usize, held_rounds: i64) -> Vec<u8> {
    let mut guest = Guest::new(&[0, other]);
    let lock = lock_function(&mut guest, "_raw_spin_lock");
    for hart in 0..2 {
        guest.role(hart);
        stack(&mut guest, hart);
        if hart == 1 {
            call(&mut guest, lock, 0);
            unlock(&mut guest);
        }
        guest.barrier(2);
        if hart == 0 {
            call(&mut guest, lock, 0);
        }
        guest.barrier(2);
        if hart == 0 {
            guest.repeat(S1, held_rounds, |_| ());
            guest.address(A0, LOCK);
        } else {
            call(&mut guest, lock, 0);
        }
        unlock(&mut guest);
        guest.barrier(2);
        if hart == 0 {
            guest.pass();
        } else {
            guest.sleep_for_ever();
        }
    }
    guest.elf()
}

#[test]
fn only_what_contends_has_contended() {
    let elf = contends_once(1, HELD_ROUNDS);
    for machine in MACHINES {
        let result = run_to_end(&requested(machine, true), &elf);
        let mut rows: Vec<&LockRow> = result.locks.iter().collect();
        rows.sort_by_key(|row| (row.hart, row.site));
        assert_eq!(rows.len(), 3, "{machine:?}: {rows:?}");
        for (row, contends) in rows.into_iter().zip([false, false, true]) {
            let what = format!("{machine:?}: {row:?}");
            let counts = [row.acquisitions, row.contentions];
            assert_eq!(counts, [1, u64::from(contends)], "{what}");
            assert!(row.wait_min_cycles > 0, "{what}");
            // A round takes a cycle at least, and some may pass before hart 1 comes.
            let least = HELD_ROUNDS as u64 / 2;
            assert_eq!(row.wait_max_cycles >= least, contends, "{what}");
            let waited = [
                row.wait_sum_cycles,
                row.wait_min_cycles,
                row.wait_max_cycles,
            ];
            let contended = [
                row.contended_sum_cycles,
                row.contended_min_cycles,
                row.contended_max_cycles,
            ];
            let (expected, histogram) = match contends {
                true => (waited, &row.wait_log2_histogram[..]),
                false => ([0; 3], &[][..]),
            };
            assert_eq!(contended, expected, "{what}");
            assert_eq!(row.contended_log2_histogram, histogram, "{what}");
        }
    }
}

/// Machines, and a hart of their second core.
const PAIRS: [(Machine, usize); 5] = [
    (Machine::T1, 4),
    (Machine::InOrder, 4),
    (Machine::Symmetry, 1),
    (Machine::Opteron48, 1),
    (Machine::Knl, 4),
];

/// Two cores, whose instructions nobody checks: who does that sees every one.
fn requested_of_two(machine: Machine) -> Request {
    Request {
        lock_stats: true,
        observe: Observation::default(),
        ..machine.request(2)
    }
}

#[test]
fn who_waits_is_skipped_and_counted_all_the_same() {
    for (machine, other) in PAIRS {
        let [skipped, whole, proved] = run_thrice(
            requested_of_two(machine),
            &contends_once(other, HELD_ROUNDS),
        );
        for skips in [skipped, proved] {
            // Of what hart 0 holds the lock for, most.
            let least = HELD_ROUNDS as u64 / 2;
            let cycles = skips.skipped_cycles;
            assert!(cycles > least, "{machine:?}: {cycles} cycles");
            assert_eq!(skips.locks.len(), 3, "{machine:?}");
            assert_eq!(skips.locks, whole.locks, "{machine:?}");
            assert_eq!(skips.counters, whole.counters, "{machine:?}");
            assert_eq!(skips.accounts, whole.accounts, "{machine:?}");
        }
    }
}

/// A loop that does the same over and over, but for calls: each of them counts.
#[test]
fn what_is_counted_is_not_skipped() {
    const CALLS: i64 = 4000;
    for (machine, other) in PAIRS {
        let mut guest = Guest::new(&[0, other]);
        let functions = ["_raw_spin_lock", "_raw_spin_unlock", "_raw_spin_unlock_irq"];
        let [lock, unlock, _] = functions.map(|name| returns(&mut guest, name, 0));
        for hart in 0..2 {
            guest.role(hart);
            stack(&mut guest, hart);
            if hart == 1 {
                guest.repeat(S1, CALLS, |guest| {
                    call(guest, lock, 0);
                    call(guest, unlock, 0);
                });
            }
            guest.barrier(2);
            if hart == 0 {
                guest.pass();
            } else {
                guest.sleep_for_ever();
            }
        }
        for result in run_thrice(requested_of_two(machine), &guest.elf()) {
            let [row] = &result.locks[..] else {
                panic!("{machine:?}: {:?}", result.locks)
            };
            let counts = [row.acquisitions, row.holds];
            assert_eq!(counts, [CALLS as u64; 2], "{machine:?}");
        }
    }
}

/// Of timed cores that are warmed for a sample nothing is counted, though calls are followed.
#[test]
fn what_warms_for_a_sample_is_not_counted() {
    let elf = contended(Release::Call);
    for machine in MACHINES {
        if machine == Machine::Virt {
            continue;
        }
        let acquisitions = |plan: &str| {
            let request = Request {
                phases: Some(plan.to_owned()),
                ..requested(machine, true)
            };
            let result = try_run(&request, &elf).expect("a run");
            let calls = rows(&result).map(|[_, call]| call.acquisitions);
            calls.iter().sum::<u64>()
        };
        let all = acquisitions("timing for 20k cycles");
        let first = acquisitions("timing for 10k cycles");
        let second =
            acquisitions("repeat (timing warm for 10k cycles, timing for 10k cycles) for 1 times");
        let what = format!("{machine:?}: {first} and {second} of {all}");
        assert!(first > 0 && second > 0, "{what}");
        // Who comes to a stand at the end ends what it has begun.
        assert!((first + second).abs_diff(all) <= HARTS as u64, "{what}");
    }
}

#[test]
fn whether_locks_count_changes_nothing_else() {
    let tables = |request: &Request, elf: &[u8]| {
        let mut tables = serde_json::to_value(run_to_end(request, elf)).expect("a result");
        let by_name = tables.as_object_mut().expect("tables by name");
        for differs in ["host_seconds", "locks"] {
            assert!(by_name.remove(differs).is_some());
        }
        tables
    };
    for machine in MACHINES {
        let elf = contended(Release::Store);
        let [without, with] = [false, true].map(|counts| tables(&requested(machine, counts), &elf));
        assert!(without.get("cycles").and_then(Value::as_u64).is_some());
        assert!(with == without, "{machine:?}");
    }
}

/// Calls `function` with the `n`th lock.
fn call(guest: &mut Guest, function: Label, n: i32) {
    guest.address(A0, LOCK + 64 * n);
    guest.asm.jal(RA, function);
}

#[test]
fn functions_say_by_their_value_whether_they_have_the_lock() {
    const INTERRUPTED: i64 = -4;
    let mut guest = Guest::new(&[0]);
    let acquires = [
        ("mutex_trylock", 0, "mutex_unlock"),
        ("mutex_lock_interruptible", INTERRUPTED, "mutex_unlock"),
        ("mutex_lock_killable", 0, "mutex_unlock"),
        ("down_write_trylock", 1, "up_write"),
        ("down_read_killable", INTERRUPTED, "up_read"),
        ("down_read", INTERRUPTED, "up_read"),
        ("down_write", 1, "up_read"),
    ];
    let functions = acquires.map(|(name, value, _)| returns(&mut guest, name, value));
    let releases = ["mutex_unlock", "up_write", "up_read", "downgrade_write"]
        .map(|name| (name, returns(&mut guest, name, 0)));
    let release = |name| {
        releases
            .iter()
            .find(|it| it.0 == name)
            .expect("a function")
            .1
    };
    guest.role(0);
    stack(&mut guest, 0);
    guest.asm.li(TP, 0);
    for (n, (function, (_, _, back))) in (0..).zip(functions.into_iter().zip(acquires)) {
        // What nobody has is not released.
        call(&mut guest, release(back), n);
        call(&mut guest, function, n);
        if n == 6 {
            call(&mut guest, release("downgrade_write"), n);
        }
        call(&mut guest, release(back), n);
    }
    guest.pass();
    let elf = guest.elf();
    for machine in [Machine::Virt, Machine::Smt8] {
        let result = run_to_end(&requested(machine, true), &elf);
        let locks: Vec<u64> = (result.locks.iter())
            .map(|row| {
                assert_eq!((row.acquisitions, row.holds), (1, 1), "{row:?}");
                (row.lock - DATA - LOCK as u64) / 64
            })
            .collect();
        assert_eq!(locks, [2, 3, 5, 6], "{machine:?}");
    }
}

#[test]
fn a_reader_releases_by_an_atomic_and_may_read_twice() {
    const READER: i64 = 512;
    let mut guest = Guest::new(&[0]);
    let read_lock = guest.asm.bound();
    guest.asm.symbol("_raw_read_lock");
    guest.asm.li(T1, READER);
    guest.asm.r(Op::AmoaddW, T0, A0, T1);
    guest.asm.i(Op::Jalr, 0, RA, 0);
    guest.role(0);
    stack(&mut guest, 0);
    for _ in 0..2 {
        call(&mut guest, read_lock, 0);
        guest.asm.li(T0, 20);
        guest.nops(T0, 20);
    }
    for _ in 0..2 {
        guest.asm.li(T1, -READER);
        guest.asm.r(Op::AmoaddW, T0, A0, T1);
    }
    guest.pass();
    let result = run_to_end(&requested(Machine::Virt, true), &guest.elf());
    let row = |n: usize| &result.locks[n];
    let holds: Vec<u64> = (0..2).map(|n| row(n).holds).collect();
    assert_eq!((holds, result.locks.len()), (vec![1, 1], 2));
    // A cycle is an instruction: who read first has read longer, by all of the second call and what follows it.
    let held = [0, 1].map(|n| row(n).hold_sum_cycles);
    assert!(held[1] > 20, "{held:?}");
    assert!(held[0] > held[1] + 20, "{held:?}");
}

#[test]
fn interrupts_nest() {
    const ENABLES_TIMER: i64 = 1 << 7;
    let mut guest = Guest::new(&[0]);
    let lock = lock_function(&mut guest, "_raw_spin_lock");
    let handler = guest.asm.bound();
    let saved = [(RA, 0), (T0, 8), (T1, 16), (T2, 24), (A0, 32)];
    guest.asm.i(Op::Addi, SP, SP, -64);
    for (register, offset) in saved {
        guest.asm.s(Op::Sd, register, offset, SP);
    }
    guest.asm.i(Op::Addi, S2, S2, 1);
    call(&mut guest, lock, 1);
    unlock(&mut guest);
    next_timer(&mut guest);
    for (register, offset) in saved {
        guest.asm.i(Op::Ld, register, SP, offset);
    }
    guest.asm.i(Op::Addi, SP, SP, 64);
    guest.asm.bare(Op::Mret);
    guest.role(0);
    stack(&mut guest, 0);
    guest.asm.li(S2, 0);
    guest.asm.la(T0, handler);
    guest.asm.csrw(MTVEC, T0);
    next_timer(&mut guest);
    guest.asm.li(T0, ENABLES_TIMER);
    guest.asm.csrw(MIE, T0);
    guest.asm.csr(Op::Csrrsi, 0, MSTATUS, MACHINE_ENABLE);
    guest.repeat(S1, 40 * ROUNDS, |guest| {
        call(guest, lock, 0);
        unlock(guest);
    });
    guest.asm.csr(Op::Csrrci, 0, MSTATUS, MACHINE_ENABLE);
    guest.report(S2);
    guest.pass();
    let elf = guest.elf();
    for machine in MACHINES {
        let result = run_to_end(&requested(machine, true), &elf);
        let interrupts = reports(&result, 0)[0];
        assert!(interrupts > 10, "{machine:?}: {interrupts}");
        let counts: Vec<_> = (result.locks.iter())
            .map(|row| (row.acquisitions, row.holds))
            .collect();
        let rounds = 40 * ROUNDS as u64;
        assert_eq!(
            counts,
            [(rounds, rounds), (interrupts, interrupts)],
            "{machine:?}"
        );
    }
}

/// A timer interrupts some ticks from now: more than a handler takes.
fn next_timer(guest: &mut Guest) {
    guest.asm.li(T0, MTIME);
    guest.asm.i(Op::Ld, T1, T0, 0);
    guest.asm.i(Op::Addi, T1, T1, TICKS);
    guest.asm.li(T0, MTIMECMP);
    guest.asm.s(Op::Sd, T1, 0, T0);
}

#[test]
fn a_program_without_lock_functions_is_refused() {
    let mut guest = Guest::new(&[0]);
    guest.role(0);
    guest.pass();
    let elf = guest.elf();
    let refused = try_run(&requested(Machine::Virt, true), &elf).expect_err("no lock function");
    assert!(refused.to_string().contains("--lock-stats"), "{refused}");
}
