//! The published order, place by place, and the rounds of a directed yield.

use std::iter;

use loiter_types::{Cycle, HartId};

use super::*;
use crate::vm::vcpu::Vcpu;

/// A virtual CPU that waits: where it ran last, whether it is in the kernel, when it yielded.
type Waiting = (u16, bool, Option<u64>);

/// What `policy` makes of a call in the kernel of virtual CPU 0, on CPU 1; the others of its guest wait. Two CPUs share a
/// cache.
fn ask(policy: &mut dyn Policy, waiting: &[Waiting]) -> Help {
    let vcpus: Vec<_> = iter::once(&(1, true, None))
        .chain(waiting)
        .map(|&(cpu, _, yielded)| {
            let mut vcpu = Vcpu::new(0, HartId(0), CpuId(cpu));
            vcpu.yielded = yielded.map(Cycle);
            vcpu
        })
        .collect();
    let candidate = |(n, &(_, in_kernel, _)): (usize, &Waiting)| Candidate {
        vcpu: VcpuId::new(n + 1),
        in_kernel,
    };
    let candidates: Vec<_> = waiting.iter().enumerate().map(candidate).collect();
    policy.choose(Call {
        cpu: CpuId(1),
        caller: Candidate {
            vcpu: VcpuId(0),
            in_kernel: true,
        },
        candidates: &candidates,
        cpus_per_cache: 2,
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
