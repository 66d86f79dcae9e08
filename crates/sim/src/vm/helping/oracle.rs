//! A bound, which no host could be: it knows at all times who of a guest has a lock, who waits for one, and who works.
//!
//! Between any two turns, whatever the scheduler has done in the last one, it gives the CPUs on which a guest runs to those of
//! the guest that bring it on, at no cost: who has a lock before who can have one, before who works, before who waits
//! for a lock that another one has. So no CPU that the guest has is wasted as long as anybody of it could use it. Of those who
//! work, who has worked least goes first: the last to end decides when the guest ends.
//!
//! Of guests' time it takes nothing: how much of it a guest has is the scheduler's choice, as with all other policies.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use loiter_types::{CpuId, Cycle, HartId, VcpuId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Between, Call, Help, Member, Policy, published};
use crate::vm::vcpu::State;

/// Turns in which a waiter that runs should have taken a lock that is free, if it can.
const TURNS_TO_TAKE: u64 = 4;
/// Who works gives its CPU to one that has worked less by so many turns.
const TURNS_BEHIND: u64 = 20;

/// What somebody's running is worth, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    HasLock,
    CanHaveLock,
    Works,
    Waits,
}

#[derive(Default, Serialize, Deserialize)]
pub(super) struct Oracle {
    /// Locks, of each guest, that are free as probes say, and that a waiter which runs does not take; since when they are free.
    /// Probes are some instructions before what they tell of: who has released such a lock may not have come behind
    /// that, and who is the first in line as probes say may not be.
    odd: BTreeMap<(usize, u64), Cycle>,
}

impl Policy for Oracle {
    fn save(&self) -> Value {
        // Keys of an object would have to be text.
        let odd: Vec<_> = self.odd.iter().collect();
        serde_json::to_value(odd).expect("plain data")
    }

    fn restore(&mut self, saved: Value) -> serde_json::Result<()> {
        let odd: Vec<_> = serde_json::from_value(saved)?;
        self.odd = odd.into_iter().collect();
        Ok(())
    }

    /// All that can be done for a caller whose wait is known has been done before its turn.
    fn choose(&mut self, call: Call<'_>) -> Help {
        let caller = &call.view.vcpus[call.caller.vcpu.index()];
        match call.locks.awaited(caller.number) {
            Some(_) => Help::Nobody,
            None => published(call),
        }
    }

    fn sees_all(&self) -> bool {
        true
    }

    fn place(&mut self, between: Between<'_>) -> Vec<(CpuId, VcpuId)> {
        self.note_odd(between);
        let members = between.members.iter();
        let ranked = members.map(|it| (self.worth(between, it), it.worked, it));
        let (mut run, mut wait): (Vec<_>, Vec<_>) = ranked.partition(|(.., it)| it.cpu.is_some());
        // Both stable: of equals, by their numbers.
        wait.sort_by_key(|&(worth, worked, _)| (worth, worked));
        run.sort_by_key(|&(worth, worked, _)| Reverse((worth, worked)));
        let most_behind = TURNS_BEHIND * between.turn_cycles;
        let mut placed = Vec::new();
        for ((worth, worked, wait), (than, more, run)) in wait.into_iter().zip(run) {
            let is_behind = worth == than && worth == Worth::Works && worked + most_behind < more;
            let Some(cpu) = run.cpu.filter(|_| worth < than || is_behind) else {
                break;
            };
            placed.push((cpu, wait.vcpu));
        }
        placed
    }
}

impl Oracle {
    /// Notes the locks of a guest that a waiter which runs does not take though they are free.
    fn note_odd(&mut self, between: Between<'_>) {
        let guest = between.guest;
        self.odd.retain(|&(of, lock), since| {
            of != guest || between.locks.free_since(lock) == Some(*since)
        });
        for member in between.members {
            if let Some((lock, since)) = between.leaves_free(member) {
                self.odd.insert((guest, lock), since);
            }
        }
    }

    fn worth(&self, between: Between<'_>, member: &Member) -> Worth {
        let (hart, locks) = (between.hart(member), between.locks);
        let Some(lock) = locks.awaited(hart) else {
            let of_guest = self
                .odd
                .range((between.guest, 0)..=(between.guest, u64::MAX));
            let mut odd = of_guest.map(|((_, lock), _)| *lock);
            let has_lock =
                locks.has_one(hart) || odd.any(|lock| locks.last_holder(lock) == Some(hart));
            return match has_lock {
                true => Worth::HasLock,
                false => Worth::Works,
            };
        };
        let can_have_it = locks.holder(lock).is_none()
            && match self.odd.contains_key(&(between.guest, lock)) {
                true => between.leaves_free(member).is_none(),
                false => locks.next_in_line(lock).is_none_or(|next| next == hart),
            };
        match can_have_it {
            true => Worth::CanHaveLock,
            false => Worth::Waits,
        }
    }
}

impl Between<'_> {
    fn hart(&self, member: &Member) -> HartId {
        self.view.vcpus[member.vcpu.index()].number
    }

    /// The lock that a member waits for and has not taken though it has run for long, and since when it is free.
    fn leaves_free(&self, member: &Member) -> Option<(u64, Cycle)> {
        let vcpu = &self.view.vcpus[member.vcpu.index()];
        let lock = self.locks.awaited(vcpu.number)?;
        let free_since = self.locks.free_since(lock)?;
        let since = free_since.max(vcpu.since()).min(self.now);
        let is_late = self.now.since(since) > TURNS_TO_TAKE * self.turn_cycles;
        (vcpu.state() == State::Running && is_late).then_some((lock, free_since))
    }
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
