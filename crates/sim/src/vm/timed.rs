//! Virtual CPUs on timing cores: each physical CPU is a context, and all go through the same cycles.
//!
//! A CPU that is to execute another virtual CPU lets the present one bring what it has in flight to its end, while its siblings go
//! on; then its context stands empty for as long as the host needs, and the other one is seated. Caches, translation
//! buffers (which know guests by number) and predictors keep what they have.

use loiter_hart::{HartState, Nap};
use loiter_types::{ContextId, CpuId, Cycle, HartId, VcpuId};

use super::detection::Sign;
use super::guest::{self, End};
use super::host::Host;
use super::vcpu::State;
use crate::error::Error;
use crate::timing_phase::Timing;

impl Host {
    /// The cores come to `end`, and the host does what it has to on the way.
    ///
    /// # Errors
    /// Our own.
    pub(super) fn run_cores(&mut self, timing: &mut Timing, end: Cycle) -> Result<(), Error> {
        while self.now < end {
            let mut until = end;
            for n in 0..self.cpus.len() {
                until = until.min(self.settle(timing, CpuId::new(n), end));
            }
            let came_to = match timing.steps_until(&mut self.system, until) {
                Ok(now) => now,
                Err(Error::Guest(message)) => self.guest_fails(timing, message)?,
                Err(error) => return Err(error),
            };
            for n in 0..self.cpus.len() {
                self.time_passes(CpuId::new(n), came_to);
                self.hear_pause(CpuId::new(n));
            }
            self.now = came_to;
            self.find_ended();
            self.wake_sleepers();
        }
        Ok(())
    }

    /// A CPU does all that needs no time. Returns when it has something to do by itself again.
    fn settle(&mut self, timing: &mut Timing, id: CpuId, end: Cycle) -> Cycle {
        let now = self.now;
        loop {
            let cpu = &self.cpus[id.index()];
            if let Some(seated) = cpu.seated {
                let leaves = cpu.leaves;
                if !leaves && !self.is_to_leave(timing, id, seated) {
                    let until = now.after(self.until_choice(id));
                    return until.min(self.next_long_nap(timing, seated));
                }
                if !leaves {
                    timing.leaves(self.vcpus[seated.index()].hart, now);
                    let naps_long = self.naps_long(timing, seated);
                    let cpu = &mut self.cpus[id.index()];
                    (cpu.leaves, cpu.is_found) = (true, cpu.is_found || naps_long);
                }
                if !timing.unseat(&mut self.system, self.vcpus[seated.index()].hart, now) {
                    return end;
                }
                self.has_left(id, seated);
                continue;
            }
            self.put_expected(id);
            let cpu = &self.cpus[id.index()];
            if cpu.chooses || (cpu.current.is_some() && now >= cpu.slice_end) {
                self.choose(id);
                continue;
            }
            let Some(vcpu) = cpu.current else {
                return end;
            };
            if cpu.switch_left > 0 {
                return now.after(cpu.switch_left);
            }
            if cpu.call_left > 0 {
                return now.after(cpu.call_left);
            }
            if self.vcpus[vcpu.index()].state() == State::Runnable {
                self.begin(id, vcpu);
            }
            let hart = self.vcpus[vcpu.index()].hart;
            timing.seat(&mut self.system, hart, ContextId::new(id.index()), now);
            self.system.begins(hart, now);
            self.cpus[id.index()].seated = Some(vcpu);
        }
    }

    /// Whether the host has something to do with `seated`, or for another one, so that it has to leave its context.
    fn is_to_leave(&mut self, timing: &Timing, id: CpuId, seated: VcpuId) -> bool {
        let cpu = &self.cpus[id.index()];
        let hart = self.vcpus[seated.index()].hart;
        let is_to_choose = cpu.chooses || self.now >= cpu.slice_end;
        cpu.current != Some(seated)
            || cpu.comes.is_some()
            || cpu.is_found
            || is_to_choose && !self.postpones(id)
            || self.system.harts[hart.index()].called.is_some()
            || self.naps_long(timing, seated)
            || matches!(timing.nap(hart), Some((Nap::Wfi, _)))
    }

    /// Hears whether who sits in the context of a CPU has paused, and finds out whether it has done so for too long.
    fn hear_pause(&mut self, id: CpuId) {
        let Some(seated) = self.cpus[id.index()].seated else {
            return;
        };
        let hart = self.vcpus[seated.index()].hart;
        let Some((from, until)) = self.system.harts[hart.index()].paused.take() else {
            return;
        };
        let in_kernel = guest::in_kernel(&self.system, hart);
        let loops = self.loops.as_mut().filter(|_| in_kernel);
        let is_long = loops.is_some_and(|loops| loops.is_long(hart, from, until));
        self.cpus[id.index()].is_found |= is_long;
    }

    /// Since when `seated` naps in `wrs.nto`, and for how long it may, if the host looks for that.
    fn watched_nap(&self, timing: &Timing, seated: VcpuId) -> (Option<Cycle>, Option<u64>) {
        let loops = self.loops.as_ref().filter(|it| it.sign == Sign::Naps);
        let since = match timing.nap(self.vcpus[seated.index()].hart) {
            Some((Nap::WrsNto, since)) => Some(since),
            _ => None,
        };
        (since, loops.map(|it| it.window_cycles))
    }

    /// Whether `seated` has napped for longer than it may.
    fn naps_long(&self, timing: &Timing, seated: VcpuId) -> bool {
        let (since, window) = self.watched_nap(timing, seated);
        let napped = since.map(|since| self.now.since(since.min(self.now)));
        napped
            .zip(window)
            .is_some_and(|(napped, window)| napped > window)
    }

    /// The first cycle in which `seated` can have napped for longer than it may.
    fn next_long_nap(&self, timing: &Timing, seated: VcpuId) -> Cycle {
        let (since, window) = self.watched_nap(timing, seated);
        let since = since.unwrap_or(self.now);
        window.map_or(Cycle::NEVER, |window| since.after(window + 1))
    }

    /// `vcpu` has left the context of a CPU.
    fn has_left(&mut self, id: CpuId, vcpu: VcpuId) {
        let now = self.now;
        let cpu = &mut self.cpus[id.index()];
        (cpu.seated, cpu.leaves) = (None, false);
        let is_found = std::mem::take(&mut cpu.is_found);
        let hart = self.vcpus[vcpu.index()].hart;
        self.system.stops(hart, now);
        let called = self.system.harts[hart.index()].called.take();
        if cpu.current != Some(vcpu) {
            return;
        }
        if let Some(call) = called {
            self.serve(id, vcpu, call);
        } else if !self.system.awake(hart.index()) && self.system.sleeps(hart) {
            self.blocks(id, vcpu);
        } else if is_found && self.waits_still(hart) {
            self.finds_waiter(id, vcpu);
        }
    }

    /// Whether what a hart has been found to do is not over: a nap may be.
    fn waits_still(&self, hart: HartId) -> bool {
        let naps = self.system.harts[hart.index()].state != HartState::Running;
        let looked_for = self.loops.as_ref().map(|loops| loops.sign);
        naps || looked_for == Some(Sign::Pauses)
    }

    /// A guest has come to a trap that it does not handle. Returns how far the cores have come.
    ///
    /// # Errors
    /// Our own, if no guest has.
    fn guest_fails(&mut self, timing: &Timing, message: String) -> Result<Cycle, Error> {
        let Some(hart) = self.system.faulting.take() else {
            return Err(Error::Internal(message));
        };
        let now = timing.counted_to(self.system.now);
        let guest = self.system.machine.guest_of(hart).0;
        for n in 0..self.cpus.len() {
            self.time_passes(CpuId::new(n), now);
        }
        self.now = now;
        // It may be over already: its other harts go on until they have left.
        if self.guests[guest].over.is_none() {
            self.end_guest(guest, now, End::Failed(message));
        }
        Ok(now)
    }

    /// Ends guests whose programs have ended.
    fn find_ended(&mut self) {
        if !self.system.machine.ends() {
            return;
        }
        self.system.machine.ends_are_seen();
        for guest in 0..self.guests.len() {
            if self.guests[guest].over.is_none()
                && let Some(exit) = self.system.ended_of(guest)
            {
                self.end_guest(guest, self.now, End::Exit(exit));
            }
        }
    }

    /// Time passes for a CPU up to `now`.
    fn time_passes(&mut self, id: CpuId, now: Cycle) {
        let cpu = &mut self.cpus[id.index()];
        let passed = now.since(cpu.now);
        match (cpu.current, cpu.seated) {
            (Some(vcpu), seated) if seated == Some(vcpu) || cpu.call_left > 0 => {
                cpu.call_left -= cpu.call_left.min(passed);
                self.pass(id, vcpu, passed);
            }
            // It changes to another one, or the context is emptied of one whose guest is over.
            (Some(_), _) | (None, Some(_)) => {
                cpu.switch_left -= cpu.switch_left.min(passed);
                cpu.counts.switching += passed;
                cpu.now = now;
            }
            (None, None) => {
                cpu.counts.idle += passed;
                cpu.now = now;
            }
        }
    }
}
