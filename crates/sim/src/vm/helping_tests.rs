//! The published order, place by place, and the rounds of a directed yield.

use std::iter;

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
    let candidates: Vec<_> = candidates.collect();
    policy.choose(Call {
        cpu: CpuId(1),
        caller: Candidate {
            vcpu: VcpuId(0),
            in_kernel: true,
        },
        candidates: &candidates,
        cpus_per_cache: 2,
        locks: &Locks::default(),
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
