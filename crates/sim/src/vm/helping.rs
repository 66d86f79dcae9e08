//! Whom a yield call helps: the virtual CPU that runs instead of the caller.
//!
//! A policy is a line in [`by_name`]; its name is one of `helping.policy`. The host lets nobody run who cannot. The published order is that of
//! T. Friebel, "How to Deal with Lock-Holder Preemption" (2008).

use std::collections::{BTreeMap, BTreeSet};

use loiter_observe::Locks;
use loiter_types::{CpuId, Cycle, VcpuId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::params::HelpingParams;
use super::vcpu::View;

mod oracle;
mod random;

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

/// A call to yield, by `caller` on `cpu`.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) cpu: CpuId,
    pub(crate) caller: Candidate,
    /// The virtual CPUs of its guest that wait for a CPU, in the order of their numbers.
    pub(crate) candidates: &'a [Candidate],
    pub(crate) cpus_per_cache: usize,
    /// What is known of the locks of the guest.
    pub(crate) locks: &'a Locks,
    pub(crate) view: View<'a>,
}

/// A virtual CPU that runs, or waits for a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) vcpu: VcpuId,
    /// Where it runs.
    pub(crate) cpu: Option<CpuId>,
    /// Cycles that it has executed without waiting for a lock, as probes say.
    pub(crate) worked: u64,
}

/// A guest between two turns.
#[derive(Clone, Copy)]
pub(crate) struct Between<'a> {
    pub(crate) guest: usize,
    /// Its virtual CPUs that run or wait for a CPU, in the order of their numbers.
    pub(crate) members: &'a [Member],
    pub(crate) locks: &'a Locks,
    pub(crate) view: View<'a>,
    pub(crate) now: Cycle,
    pub(crate) turn_cycles: u64,
}

/// Chooses who runs instead of a caller.
pub(crate) trait Policy: Send {
    /// What becomes of a call.
    fn choose(&mut self, call: Call<'_>) -> Help;

    /// Whether it sees what no host does, and places virtual CPUs between turns.
    fn sees_all(&self) -> bool {
        false
    }

    /// Who of a guest runs at once, on the CPU of which other one of it.
    fn place(&mut self, _: Between<'_>) -> Vec<(CpuId, VcpuId)> {
        Vec::new()
    }

    /// All that it remembers, for a snapshot.
    fn save(&self) -> Value {
        Value::Null
    }

    /// It remembers what it did then.
    ///
    /// # Errors
    /// What another policy has saved.
    fn restore(&mut self, saved: Value) -> serde_json::Result<()> {
        serde_json::from_value::<()>(saved)
    }
}

/// The policy that the file names.
pub(crate) fn by_name(params: &HelpingParams) -> Box<dyn Policy> {
    match params.policy.as_str() {
        "nobody" => Box::new(Fixed(|_| Help::Nobody)),
        "next" => Box::new(Fixed(|_| Help::Next)),
        "published" => Box::new(Fixed(published)),
        "directed" => Box::new(Directed::default()),
        "random" => Box::new(random::Random::new(params.seed)),
        "oracle" => Box::new(oracle::Oracle::default()),
        policy => unreachable!("{policy} is no choice of helping.policy"),
    }
}

/// A policy that remembers nothing.
struct Fixed(fn(Call<'_>) -> Help);

impl Policy for Fixed {
    fn choose(&mut self, call: Call<'_>) -> Help {
        self.0(call)
    }
}

/// Who has not yielded goes first: in the kernel before in user mode, for no spin lock is held there, and of equals those
/// that have last run near before those remote. Then the one that yielded longest ago: its lock may be free by
/// now.
fn published(call: Call<'_>) -> Help {
    match first_published(call, |_| true) {
        Some(vcpu) => Help::This(vcpu),
        None => Help::Next,
    }
}

/// Whom of the candidates that `is_meant` the published order has first.
fn first_published(call: Call<'_>, is_meant: impl Fn(VcpuId) -> bool) -> Option<VcpuId> {
    let cache = |cpu: CpuId| cpu.index() / call.cpus_per_cache;
    let order = |it: &&Candidate| {
        let vcpu = &call.view.vcpus[it.vcpu.index()];
        let is_near = cache(vcpu.cpu) == cache(call.cpu);
        match vcpu.yielded {
            None => (false, !it.in_kernel, !is_near, None),
            Some(since) => (true, false, false, Some(since)),
        }
    };
    let meant = call.candidates.iter().filter(|it| is_meant(it.vcpu));
    meant.min_by_key(order).map(|it| it.vcpu)
}

/// The directed yield of Linux's KVM (`kvm_vcpu_on_spin` in virt/kvm/kvm_main.c, as of 5.x): round the guest, from behind the
/// last one that was helped. A caller in the kernel helps only others there. One that itself has yielded is
/// passed over every other time. If there is nobody, the caller goes on.
#[derive(Default, Serialize, Deserialize)]
struct Directed {
    /// By guest.
    last_helped: BTreeMap<usize, VcpuId>,
    /// Who has yielded and was passed over once.
    passed_over: BTreeSet<VcpuId>,
}

impl Policy for Directed {
    fn save(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn restore(&mut self, saved: Value) -> serde_json::Result<()> {
        *self = serde_json::from_value(saved)?;
        Ok(())
    }

    fn choose(&mut self, call: Call<'_>) -> Help {
        let guest = call.view.vcpus[call.caller.vcpu.index()].guest;
        // A caller that spins again begins anew.
        self.passed_over.remove(&call.caller.vcpu);
        let last = self.last_helped.get(&guest).copied();
        let is_behind = |it: &&Candidate| last.is_some_and(|last| it.vcpu <= last);
        let (behind, ahead): (Vec<&Candidate>, Vec<&Candidate>) =
            call.candidates.iter().partition(is_behind);
        for it in ahead.into_iter().chain(behind) {
            if call.caller.in_kernel && !it.in_kernel {
                continue;
            }
            let spins = call.view.vcpus[it.vcpu.index()].yielded.is_some();
            if spins && !self.passed_over.remove(&it.vcpu) {
                self.passed_over.insert(it.vcpu);
                continue;
            }
            self.last_helped.insert(guest, it.vcpu);
            return Help::This(it.vcpu);
        }
        Help::Nobody
    }
}

#[cfg(test)]
#[path = "helping_tests.rs"]
mod tests;
