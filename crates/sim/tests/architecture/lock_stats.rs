//! Statistics of locks from the names of functions: beside what probes around the calls say, on the reference engine and
//! on timing machines, with releases that are calls and that are stores.

use std::collections::BTreeMap;

use loiter_isa::Op;
use loiter_sim::{LockRow, Request, RunResult};
use serde_json::Value;

use crate::generator::asm::Label;
use crate::handmade::{A0, DATA, FREE, FULL_FENCE, Guest, S0, S1, T0, T1, T2};
use crate::machines::{Machine, run_to_end, try_run};

const RA: u8 = 1;
const SP: u8 = 2;
const ACQUIRE: u16 = 0x05;
const ACQUIRED: u16 = 0x06;
const RELEASED: u16 = 0x07;
const HARTS: usize = 4;
const ROUNDS: i64 = 150;
/// Offsets of the locks from the shared data, and of the stacks.
const LOCK: i32 = FREE;
const OTHER: i32 = FREE + 64;
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

/// Rows of calls, whose sites follow a call, and of probes.
fn rows(result: &RunResult) -> (Vec<LockRow>, Vec<LockRow>) {
    let sites: BTreeMap<u16, u64> = (result.locks.iter()).fold(BTreeMap::new(), |mut all, row| {
        let site = all.entry(row.hart).or_insert(row.site);
        *site = (*site).max(row.site);
        all
    });
    let rows = result.locks.iter().cloned();
    rows.partition(|row| sites[&row.hart] == row.site)
}

fn total(rows: &[LockRow], of: impl Fn(&LockRow) -> u64) -> u64 {
    rows.iter().map(of).sum()
}

#[test]
fn calls_say_what_probes_around_them_say() {
    for machine in MACHINES {
        for release in [Release::Call, Release::Store] {
            let result = run_to_end(&requested(machine, true), &contended(release));
            let what = format!("{machine:?}, {release:?}");
            let (calls, probes) = rows(&result);
            assert_eq!((calls.len(), probes.len()), (HARTS, HARTS), "{what}");
            for (call, probe) in calls.iter().zip(&probes) {
                println!("{what} {call:?}\n {probe:?}");
            }
            let all = HARTS as u64 * ROUNDS as u64;
            assert_eq!(total(&calls, |row| row.acquisitions), all, "{what}");
            assert_eq!(total(&calls, |row| row.holds), all, "{what}");
        }
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

#[test]
fn a_program_without_lock_functions_is_refused() {
    let mut guest = Guest::new(&[0]);
    guest.role(0);
    guest.pass();
    let elf = guest.elf();
    let refused = try_run(&requested(Machine::Virt, true), &elf).expect_err("no lock function");
    assert!(refused.to_string().contains("--lock-stats"), "{refused}");
}
