//! Who of a guest gets its CPUs: hart `n` runs on CPU `n`, or waits for one.

use loiter_observe::{Access, Claim, Locks, Moment, Owner};
use loiter_types::Cycle;

use super::*;
use crate::vm::vcpu::{Vcpu, View};

const TURN: u64 = 100;

fn moment(hart: u16) -> Moment {
    Moment {
        hart: HartId(hart),
        cycle: Cycle(10),
        retired: 0,
        pc: 0,
    }
}

fn of(hart: u16, lock: u64) -> Claim {
    Claim {
        lock,
        owner: Owner::Hart(HartId(hart)),
        access: Access::Unsaid,
    }
}

/// Who comes to which CPU at `now`, of a guest whose harts that run have run since the beginning, and all of which have
/// executed for so long.
fn placed_by(
    oracle: &mut Oracle,
    now: u64,
    locks: &Locks,
    running: &[bool],
    worked: &[u64],
) -> Vec<(u16, u16)> {
    let vcpus: Vec<_> = (0..running.len())
        .map(|n| {
            let mut vcpu = Vcpu::new(0, HartId::new(n), n, CpuId::new(n));
            if running[n] {
                vcpu.enter(State::Running, Cycle(0));
            }
            vcpu
        })
        .collect();
    let members: Vec<_> = (0..running.len())
        .map(|n| Member {
            vcpu: VcpuId::new(n),
            cpu: running[n].then_some(CpuId::new(n)),
            worked: worked[n],
        })
        .collect();
    let placed = oracle.place(Between {
        guest: 0,
        members: &members,
        locks,
        view: View {
            vcpus: &vcpus,
            cpus: &[],
        },
        now: Cycle(now),
        turn_cycles: TURN,
    });
    placed.iter().map(|(cpu, vcpu)| (cpu.0, vcpu.0)).collect()
}

fn placed(locks: &Locks, running: [bool; 4]) -> Vec<(u16, u16)> {
    placed_by(&mut Oracle::default(), 20, locks, &running, &[0; 4])
}

#[test]
fn a_holder_gets_the_cpu_of_a_waiter_and_else_of_one_that_works() {
    let mut locks = Locks::default();
    locks.acquired(moment(3), of(3, 64));
    locks.acquire(moment(1), of(1, 64));
    assert_eq!(placed(&locks, [true, true, false, false]), [(1, 3)]);
    assert_eq!(placed(&locks, [true, false, true, false]), [(0, 3)]);
    // Who works gets that of a waiter, though nobody is ahead of it.
    assert_eq!(placed(&locks, [false, true, false, true]), [(1, 0)]);
    assert_eq!(placed(&locks, [true, false, true, true]), []);
    // Two go at once.
    locks.acquire(moment(2), of(2, 64));
    assert_eq!(placed(&locks, [false, true, true, false]), [(1, 3), (2, 0)]);
}

#[test]
fn a_holder_that_waits_for_another_lock_is_a_waiter() {
    let mut locks = Locks::default();
    for (holder, lock) in [(1, 64), (2, 128)] {
        locks.acquired(moment(holder), of(holder, lock));
        locks.acquire(moment(holder - 1), of(holder - 1, lock));
    }
    assert_eq!(placed(&locks, [true, false, false, true]), [(0, 2)]);
    assert_eq!(placed(&locks, [false, true, false, true]), [(1, 2)]);
    // A deadlock has no end.
    locks.acquire(moment(2), of(2, 64));
    assert_eq!(placed(&locks, [true, true, false, false]), [(0, 3)]);
    assert_eq!(placed(&locks, [true, true, false, true]), []);
}

/// A lock of 1, which has released it, and for which 3, 0 and 2 are in line.
fn free() -> Locks {
    let mut locks = Locks::default();
    locks.acquired(moment(1), of(1, 64));
    for waiter in [3, 0, 2] {
        locks.acquire(moment(waiter), of(waiter, 64));
    }
    locks.released(moment(1), of(1, 64));
    locks
}

#[test]
fn of_a_lock_that_is_free_the_next_in_line_runs_before_one_that_works() {
    assert_eq!(placed(&free(), [false, true, false, false]), [(1, 3)]);
    assert_eq!(placed(&free(), [true, true, false, false]), [(0, 3)]);
    assert_eq!(placed(&free(), [true, true, true, true]), []);
}

#[test]
fn of_a_lock_that_a_waiter_which_runs_does_not_take_all_are_tried() {
    let late = 10 + TURNS_TO_TAKE * TURN;
    let mut oracle = Oracle::default();
    let mut place = |now, running| placed_by(&mut oracle, now, &free(), running, &[0; 4]);
    let next = &[false, false, false, true];
    assert_eq!(place(late, next), []);
    // Who has released it may not have come behind that.
    assert_eq!(place(late + 1, next), [(3, 1)]);
    // Nor does it help to run that one.
    assert_eq!(place(late + 1, &[false, true, false, true]), [(3, 0)]);
    assert_eq!(place(late + 2, &[true, true, false, false]), [(0, 2)]);
    // It is remembered until somebody has the lock.
    let saved = oracle.save();
    let mut restored = Oracle::default();
    restored.restore(saved).unwrap();
    assert_eq!(restored.odd, oracle.odd);
    assert_eq!(oracle.odd.len(), 1);
    let mut locks = free();
    locks.acquired(moment(0), of(0, 64));
    placed_by(&mut oracle, late + 3, &locks, next, &[0; 4]);
    assert!(oracle.odd.is_empty());
}

#[test]
fn of_those_who_work_who_has_worked_least_goes_first() {
    let behind = TURNS_BEHIND * TURN;
    let running = [true, false, true, false];
    let mut oracle = Oracle::default();
    let mut place =
        |worked: [u64; 4]| placed_by(&mut oracle, 20, &Locks::default(), &running, &worked);
    assert_eq!(place([behind, 0, 0, 0]), []);
    assert_eq!(place([behind + 1, 0, 0, 0]), [(0, 1)]);
    let far = 3 * behind;
    assert_eq!(place([far + 1, behind, far, 0]), [(0, 3), (2, 1)]);
    assert_eq!(place([0, far, 0, far]), []);
}
