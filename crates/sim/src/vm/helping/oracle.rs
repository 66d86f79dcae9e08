//! The one that the caller waits for, which no host knows. It sees a call alone, not what comes of it.
//!
//! Who holds the lock goes first. If it waits for another lock itself, its holder does, and so on. A lock that is free, and serves in
//! order, waits for the next in line; any other can be had by the caller itself. If whoever is waited for runs, somebody
//! of the guest that waits for no lock makes the best of the caller's time, or else the caller itself.

use loiter_observe::Owner;
use loiter_types::{HartId, VcpuId};

use super::{Call, Help, first_published, published};

pub(super) fn choose(call: Call<'_>) -> Help {
    let vcpus = call.view.vcpus;
    let caller = &vcpus[call.caller.vcpu.index()];
    // The virtual CPUs of a guest have numbers in the order of its harts.
    let first = call.caller.vcpu.index() - caller.number.index();
    let candidate = |hart: HartId| {
        let vcpu = VcpuId::new(first + hart.index());
        let waits = call.candidates.iter().any(|it| it.vcpu == vcpu);
        waits.then_some(vcpu)
    };
    if call.locks.awaited(caller.number).is_none() {
        // It waits for something else.
        return published(call);
    }
    let mut hart = caller.number;
    // As many steps as there are virtual CPUs: a deadlock has no end.
    for _ in vcpus {
        let Some(lock) = call.locks.awaited(hart) else {
            break;
        };
        let awaited = match call.locks.holder(lock) {
            Some(Owner::Hart(holder)) => Some(holder),
            Some(Owner::Task(_)) => None,
            None => match call.locks.next_in_line(lock) {
                Some(next) if next != hart => Some(next),
                _ if hart != caller.number => None,
                // Free, or not yet: who got it last may not have come behind its release.
                _ => {
                    let last = call.locks.last_holder(lock).and_then(candidate);
                    return last.map_or(Help::Nobody, Help::This);
                }
            },
        };
        let Some(awaited) = awaited else { break };
        if let Some(vcpu) = candidate(awaited) {
            return Help::This(vcpu);
        }
        hart = awaited;
    }
    let is_of_use = |vcpu: VcpuId| call.locks.awaited(vcpus[vcpu.index()].number).is_none();
    first_published(call, is_of_use).map_or(Help::Nobody, Help::This)
}
