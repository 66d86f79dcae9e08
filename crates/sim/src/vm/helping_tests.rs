//! The published order, place by place.

use loiter_types::{Cycle, HartId};

use super::*;
use crate::vm::vcpu::Vcpu;

/// The one that runs instead of a caller on CPU 1, of those with (last CPU, in kernel, yielded); two CPUs share a cache.
fn chosen(waiting: &[(u16, bool, Option<u64>)]) -> Help {
    let vcpus: Vec<_> = waiting
        .iter()
        .map(|&(cpu, _, yielded)| {
            let mut vcpu = Vcpu::new(0, HartId(0), CpuId(cpu));
            vcpu.yielded = yielded.map(Cycle);
            vcpu
        })
        .collect();
    let candidates: Vec<_> = waiting
        .iter()
        .enumerate()
        .map(|(n, &(_, in_kernel, _))| Candidate {
            vcpu: VcpuId::new(n),
            in_kernel,
        })
        .collect();
    let view = View {
        vcpus: &vcpus,
        cpus: &[],
    };
    by_name("published")(CpuId(1), &candidates, 2, view)
}

#[test]
fn each_place_of_the_published_order_goes_before_the_next() {
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
        let last = VcpuId::new(rest.len() - 1);
        assert_eq!(chosen(&rest), Help::This(last), "{rest:?}");
    }
    assert_eq!(chosen(&[]), Help::Next);
}
