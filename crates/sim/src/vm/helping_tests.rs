//! The published order, place by place, and the rounds of a directed yield.

use std::iter;

use loiter_observe::{Access, Claim, Moment, Owner};
use loiter_types::{Cycle, HartId};

use super::*;
use crate::vm::testing::file;
use crate::vm::vcpu::Vcpu;

fn by_name(policy: &str) -> Box<dyn Policy> {
    let sections = format!("[helping]\npolicy = \"{policy}\"\nseed = 7");
    super::by_name(&file(1, 1, "", &sections, &[(1, "")]).helping)
}

/// A virtual CPU that waits: where it ran last, whether it is in the kernel, when it yielded.
type Waiting = (u16, bool, Option<u64>);

/// What `policy` makes of a call in the kernel of virtual CPU 0, on CPU 1; the others of its guest wait. Two CPUs share a
/// cache.
fn ask(policy: &mut dyn Policy, waiting: &[Waiting]) -> Help {
    ask_of(policy, waiting, &Locks::default(), &[])
}

/// The same of a guest with `locks`, of whose other virtual CPUs those of `running` run.
fn ask_of(policy: &mut dyn Policy, waiting: &[Waiting], locks: &Locks, running: &[u16]) -> Help {
    let vcpus: Vec<_> = iter::once(&(1, true, None))
        .chain(waiting)
        .enumerate()
        .map(|(n, &(cpu, _, yielded))| {
            let mut vcpu = Vcpu::new(0, HartId::new(n), n, CpuId(cpu));
            vcpu.yielded = yielded.map(Cycle);
            vcpu
        })
        .collect();
    let candidate = |(n, &(_, in_kernel, _)): (usize, &Waiting)| Candidate {
        vcpu: VcpuId::new(n + 1),
        in_kernel,
    };
    let candidates = waiting.iter().enumerate().map(candidate);
    let candidates: Vec<_> = candidates
        .filter(|it| !running.contains(&it.vcpu.0))
        .collect();
    policy.choose(Call {
        cpu: CpuId(1),
        caller: Candidate {
            vcpu: VcpuId(0),
            in_kernel: true,
        },
        candidates: &candidates,
        cpus_per_cache: 2,
        locks,
        view: View {
            vcpus: &vcpus,
            cpus: &[],
        },
    })
}

#[test]
fn each_place_of_the_published_order_goes_before_the_next() {
    let mut published = by_name("published");
    let places = [
        (0, true, None),
        (2, true, None),
        (0, false, None),
        (2, false, None),
        (0, true, Some(5)),
        (1, true, Some(6)),
    ];
    for first in 0..places.len() {
        let mut rest = places[first..].to_vec();
        rest.reverse();
        let last = VcpuId::new(rest.len());
        assert_eq!(ask(&mut *published, &rest), Help::This(last), "{rest:?}");
    }
    assert_eq!(ask(&mut *published, &[]), Help::Next);
}

#[test]
fn a_directed_yield_goes_round_the_guest() {
    let mut directed = by_name("directed");
    let waiting = [(0, true, None), (0, false, None), (0, true, None)];
    let helped: Vec<_> = (0..3).map(|_| ask(&mut *directed, &waiting)).collect();
    let this = |n| Help::This(VcpuId(n));
    // The second is in user mode, where nobody holds what the kernel waits for.
    assert_eq!(helped, [this(1), this(3), this(1)]);
    assert_eq!(ask(&mut *directed, &[(0, false, None)]), Help::Nobody);
}

#[test]
fn a_directed_yield_passes_over_one_that_spins_every_other_time() {
    let mut directed = by_name("directed");
    let spins = [(0, true, Some(5))];
    let helped: Vec<_> = (0..4).map(|_| ask(&mut *directed, &spins)).collect();
    let this = Help::This(VcpuId(1));
    assert_eq!(helped, [Help::Nobody, this, Help::Nobody, this]);
}

/// Everybody is in the kernel and has run on the CPU of the call.
const ALIKE: [Waiting; 3] = [(1, true, None); 3];

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

#[test]
fn an_oracle_runs_the_holder_wherever_it_stands() {
    let mut oracle = by_name("oracle");
    for holder in 1..4 {
        let mut locks = Locks::default();
        locks.acquired(moment(holder), of(holder, 64));
        for waiter in (0..4).filter(|&it| it != holder) {
            locks.acquire(moment(waiter), of(waiter, 64));
        }
        let helped = ask_of(&mut *oracle, &ALIKE, &locks, &[]);
        assert_eq!(helped, Help::This(VcpuId(holder)));
        // It runs: all others wait for it.
        let running = [holder];
        assert_eq!(ask_of(&mut *oracle, &ALIKE, &locks, &running), Help::Nobody);
    }
}

#[test]
fn an_oracle_runs_the_next_in_line_of_a_lock_that_is_free() {
    let mut oracle = by_name("oracle");
    let mut locks = Locks::default();
    locks.acquired(moment(1), of(1, 64));
    for waiter in [3, 0, 2] {
        locks.acquire(moment(waiter), of(waiter, 64));
    }
    locks.released(moment(1), of(1, 64));
    assert_eq!(
        ask_of(&mut *oracle, &ALIKE, &locks, &[]),
        Help::This(VcpuId(3))
    );
    // It runs, and somebody has something else to do.
    assert_eq!(
        ask_of(&mut *oracle, &ALIKE, &locks, &[3]),
        Help::This(VcpuId(1))
    );
    // The caller itself is next, unless who had the lock has not come behind its release.
    locks.abandoned(of(3, 64));
    assert_eq!(
        ask_of(&mut *oracle, &ALIKE, &locks, &[]),
        Help::This(VcpuId(1))
    );
    assert_eq!(ask_of(&mut *oracle, &ALIKE, &locks, &[1]), Help::Nobody);
}

#[test]
fn an_oracle_goes_from_holder_to_holder() {
    let mut oracle = by_name("oracle");
    let mut locks = Locks::default();
    for (holder, lock) in [(1, 64), (2, 128), (3, 192)] {
        locks.acquired(moment(holder), of(holder, lock));
        locks.acquire(moment(holder - 1), of(holder - 1, lock));
    }
    let mut ask = |running: &[u16]| ask_of(&mut *oracle, &ALIKE, &locks, running);
    assert_eq!(ask(&[]), Help::This(VcpuId(1)));
    assert_eq!(ask(&[1]), Help::This(VcpuId(2)));
    assert_eq!(ask(&[1, 2]), Help::This(VcpuId(3)));
    assert_eq!(ask(&[1, 2, 3]), Help::Nobody);
    // A deadlock has no end.
    locks.acquire(moment(3), of(3, 64));
    assert_eq!(
        ask_of(&mut *oracle, &ALIKE, &locks, &[1, 2, 3]),
        Help::Nobody
    );
}

#[test]
fn an_oracle_that_knows_no_lock_takes_the_published_order() {
    let mut oracle = by_name("oracle");
    let waiting = [(2, true, None), (0, true, None)];
    assert_eq!(ask(&mut *oracle, &waiting), Help::This(VcpuId(2)));
    assert_eq!(ask(&mut *oracle, &[]), Help::Next);
}

#[test]
fn random_choices_are_all_alike_and_repeat_with_their_seed() {
    let draw = || {
        let mut random = by_name("random");
        let draws = (0..3000).map(|_| ask(&mut *random, &ALIKE));
        draws.collect::<Vec<_>>()
    };
    let drawn = draw();
    assert_eq!(drawn, draw());
    for n in 1..4 {
        let count = drawn.iter().filter(|&&it| it == Help::This(VcpuId(n)));
        // Five standard deviations of 26.
        assert!(count.count().abs_diff(1000) < 130, "{n}");
    }
    assert_eq!(ask(&mut *by_name("random"), &[]), Help::Next);
}
