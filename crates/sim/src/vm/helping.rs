//! Whom a yield call helps: the virtual CPU that runs instead of the caller.
//!
//! A policy is a line in [`by_name`]; its name is one of `helping.policy`. The published order is that of
//! T. Friebel, "How to Deal with Lock-Holder Preemption" (2008).

use loiter_types::{CpuId, VcpuId};

use super::vcpu::View;

/// What becomes of a call to yield.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Help {
    /// The caller goes on.
    Nobody,
    /// The scheduler chooses, as when a slice is over.
    Next,
    /// This one runs for the rest of the caller's slice.
    This(VcpuId),
}

/// A virtual CPU that could run instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) vcpu: VcpuId,
    /// Whether it is in its guest's kernel.
    pub(crate) in_kernel: bool,
}

/// Chooses for the caller on `cpu` among the virtual CPUs of its guest that wait for a CPU, in the order of their numbers.
pub(crate) type Policy = fn(cpu: CpuId, &[Candidate], cpus_per_cache: usize, View<'_>) -> Help;

/// The policy of that name.
pub(crate) fn by_name(policy: &str) -> Policy {
    match policy {
        "nobody" => |_, _, _, _| Help::Nobody,
        "next" => |_, _, _, _| Help::Next,
        "published" => published,
        policy => unreachable!("{policy} is no choice of helping.policy"),
    }
}

/// Who has not yielded goes first: in the kernel before in user mode, for no spin lock is held there, and of equals those
/// that have last run near before those remote. Then the one that yielded longest ago: its lock may be free by
/// now.
fn published(cpu: CpuId, candidates: &[Candidate], cpus_per_cache: usize, view: View<'_>) -> Help {
    let cache = |cpu: CpuId| cpu.index() / cpus_per_cache;
    let order = |it: &&Candidate| {
        let vcpu = &view.vcpus[it.vcpu.index()];
        let is_near = cache(vcpu.cpu) == cache(cpu);
        match vcpu.yielded {
            None => (false, !it.in_kernel, !is_near, None),
            Some(since) => (true, false, false, Some(since)),
        }
    };
    match candidates.iter().min_by_key(order) {
        Some(it) => Help::This(it.vcpu),
        None => Help::Next,
    }
}

#[cfg(test)]
#[path = "helping_tests.rs"]
mod tests;
