//! What is found out of a host: rows, and the proof that no time is lost.

use loiter_types::Cycle;
use serde::Serialize;
use serde_json::Value;

use super::guest::{End, Guest};
use super::host::Host;
use super::vcpu::{State, Vcpu};
use super::waits::{WaitRow, wait_rows};
use crate::error::Error;
use crate::locks::{LockRow, lock_rows_of};
use crate::result::{ExitReason, ReportRow, TimedRows, recorder_rows};
use crate::system::System;
use crate::timing_phase::Timing;

/// A virtual CPU. `run_cycles`, `steal_cycles` and `blocked_cycles` add up to `over_cycle`, or to the run's cycles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VcpuRow {
    /// Its guest.
    pub guest: String,
    /// Its hart.
    pub hart: u16,
    /// Cycles that CPUs executed it.
    pub run_cycles: u64,
    /// Those of them in which it waited for a lock, as probes say.
    pub spinning_cycles: u64,
    /// Cycles in which it could execute, and no CPU did.
    pub steal_cycles: u64,
    /// Cycles that it slept in `wfi`.
    pub blocked_cycles: u64,
    /// When its guest was over, if it is.
    pub over_cycle: Option<u64>,
    /// The longest of the times that make up `steal_cycles`.
    pub longest_steal_cycles: u64,
    /// Instructions that it retired.
    pub instructions: u64,
    /// Times that a CPU changed to it.
    pub switches: u64,
    /// Times that another one took the CPU from it.
    pub preemptions: u64,
    /// Times that it came to another CPU.
    pub migrations: u64,
    /// Its calls to yield.
    pub yields: u64,
    /// Its loops of pauses that the host found too long.
    pub pause_loops: u64,
    /// Naps in `wrs.nto` that were found too long.
    pub wrs_traps: u64,
    /// Its calls to sleep until it is kicked.
    pub kick_waits: u64,
    /// Kicks that it got.
    pub kicks: u64,
    /// Times that it kept its CPU because it was in its kernel.
    pub postponements: u64,
    /// Those of `run_cycles` that it got by that.
    pub postponed_cycles: u64,
    /// Times that it ran instead of one that had called to yield.
    pub helped: u64,
    /// Times that it was woken.
    pub wakes: u64,
    /// Cycles from being woken to executing, in all.
    pub wake_wait_cycles: u64,
    /// The longest of them.
    pub longest_wake_wait_cycles: u64,
}

/// A physical CPU. Its cycles add up to the run's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuRow {
    /// Its number.
    pub cpu: u16,
    /// Cycles in which it executed virtual CPUs.
    pub run_cycles: u64,
    /// Cycles in which it changed between them.
    pub switching_cycles: u64,
    /// Cycles without any.
    pub idle_cycles: u64,
    /// Changes between virtual CPUs.
    pub switches: u64,
}

/// A guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GuestRow {
    /// Its name.
    pub name: String,
    /// `exited`, `failed`, or `running` at the end of the run.
    pub state: &'static str,
    /// Why it exited.
    pub reason: Option<ExitReason>,
    /// Its exit code: 0 for all well.
    pub code: Option<u32>,
    /// In words.
    pub message: String,
    /// When it was over, if it is.
    pub over_cycle: Option<u64>,
    /// Instructions of all its virtual CPUs.
    pub instructions: u64,
    /// What it said on its first console.
    pub console: String,
    /// Values that it reported.
    pub reports: Vec<ReportRow>,
    /// Uses of locks, as probes say.
    pub locks: Vec<LockRow>,
    /// A hash of all that it can find out: memory, registers, devices.
    pub state_hash: String,
}

/// What came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct VmResult {
    /// Every key of the file with its value.
    pub file: Value,
    /// Simulated time of the host.
    pub cycles: u64,
    /// Its clock.
    pub clock_mhz: u64,
    /// Guests, in the file's order.
    pub guests: Vec<GuestRow>,
    /// Their virtual CPUs.
    pub vcpus: Vec<VcpuRow>,
    /// The physical CPUs.
    pub cpus: Vec<CpuRow>,
    /// Waits for locks.
    pub waits: Vec<WaitRow>,
    /// What timing cores have counted, by context: whoever sat there.
    pub timed: Option<TimedRows>,
}

impl Host {
    /// What has been found out so far. Takes what guests have said.
    ///
    /// # Errors
    /// Time that is in no account, or in two: our fault.
    pub fn result(&mut self) -> Result<VmResult, Error> {
        let vcpus: Vec<_> = self.vcpus.iter().map(|vcpu| self.vcpu_row(vcpu)).collect();
        let cpus = self.cpus.iter().zip(0..).map(|(cpu, number)| CpuRow {
            cpu: number,
            run_cycles: cpu.counts.run,
            switching_cycles: cpu.counts.switching,
            idle_cycles: cpu.counts.idle,
            switches: cpu.counts.switches,
        });
        let cpus: Vec<_> = cpus.collect();
        self.check(&vcpus, &cpus)?;
        Ok(VmResult {
            file: self.file.values.clone(),
            cycles: self.now.0,
            clock_mhz: self.file.host.clock_mhz,
            waits: (self.guests.iter())
                .flat_map(|guest| wait_rows(guest, &self.system))
                .collect(),
            guests: (self.guests.iter())
                .map(|guest| guest_row(guest, &mut self.system))
                .collect(),
            vcpus,
            cpus,
            timed: self
                .timing
                .as_mut()
                .map(|timing| timed_rows(timing, self.now)),
        })
    }

    fn vcpu_row(&self, vcpu: &Vcpu) -> VcpuRow {
        let guest = &self.guests[vcpu.guest];
        let is_over = vcpu.state() == State::Over;
        let mut closed = vcpu.clone();
        if !is_over {
            // Brings what lasts to the books.
            closed.enter(State::Over, self.now);
        }
        let counts = &closed.counts;
        VcpuRow {
            guest: guest.name.clone(),
            hart: vcpu.number.0,
            run_cycles: counts.run,
            spinning_cycles: self.system.spinning_cycles(vcpu.hart, self.now),
            steal_cycles: counts.runnable,
            blocked_cycles: counts.blocked,
            over_cycle: is_over.then_some(vcpu.since().0),
            longest_steal_cycles: counts.longest_runnable,
            instructions: guest.instructions(&self.system, vcpu.hart),
            switches: counts.switches,
            preemptions: counts.preemptions,
            migrations: counts.migrations,
            yields: counts.yields,
            pause_loops: counts.pause_loops,
            wrs_traps: counts.wrs_traps,
            kick_waits: counts.kick_waits,
            kicks: counts.kicks,
            postponements: counts.postponements,
            postponed_cycles: counts.postponed,
            helped: counts.helped,
            wakes: counts.wakes,
            wake_wait_cycles: counts.wake_wait,
            longest_wake_wait_cycles: counts.longest_wake_wait,
        }
    }

    /// Cycles that were executed are counted in two ways, by CPUs as they pass and by the states of virtual CPUs; nothing else
    /// is left.
    fn check(&self, vcpus: &[VcpuRow], cpus: &[CpuRow]) -> Result<(), Error> {
        let lost = |what: String| Err(Error::Internal(format!("time is lost: {what}")));
        for row in vcpus {
            let lived = row.over_cycle.unwrap_or(self.now.0);
            let sum = row.run_cycles + row.steal_cycles + row.blocked_cycles;
            if sum != lived {
                return lost(format!("{row:?} adds up to {sum} of {lived} cycles"));
            }
        }
        for row in cpus {
            let sum = row.run_cycles + row.switching_cycles + row.idle_cycles;
            if sum != self.now.0 {
                return lost(format!("{row:?} adds up to {sum} of {} cycles", self.now.0));
            }
        }
        let by_vcpu: u64 = vcpus.iter().map(|row| row.run_cycles).sum();
        let by_cpu: u64 = cpus.iter().map(|row| row.run_cycles).sum();
        if by_vcpu != by_cpu {
            return lost(format!(
                "CPUs executed {by_cpu} cycles, virtual CPUs {by_vcpu}"
            ));
        }
        Ok(())
    }
}

/// Many harts sit in a context, and come back: accounts are nobody's, and who sat where when is not told.
fn timed_rows(timing: &mut Timing, now: Cycle) -> TimedRows {
    let mut rows = timing.close(now);
    rows.seats.clear();
    rows.accounts.iter_mut().for_each(|row| row.hart = None);
    rows.activities.iter_mut().for_each(|row| row.hart = None);
    rows
}

fn guest_row(guest: &Guest, system: &mut System) -> GuestRow {
    let (state, reason, code, message) = match &guest.over {
        None => ("running", None, None, String::new()),
        Some((_, End::Exit(exit))) => {
            let message = exit.message.clone();
            ("exited", Some(exit.reason), Some(exit.code), message)
        }
        Some((_, End::Failed(message))) => ("failed", None, None, message.clone()),
    };
    let console = guest.take_output(system, 0);
    let (number, over) = (guest.number(), guest.over.as_ref().map(|(at, _)| *at));
    let state_hash = system.state_hash_of(number, over.unwrap_or(system.now));
    GuestRow {
        name: guest.name.clone(),
        state,
        reason,
        code,
        message,
        over_cycle: over.map(|at| at.0),
        instructions: guest.all_instructions(system),
        console: String::from_utf8_lossy(&console).into_owned(),
        reports: recorder_rows(system.recorders.of(number), Vec::new()).reports,
        locks: lock_rows_of(system, number, over.unwrap_or(system.now)),
        state_hash: state_hash.to_string(),
    }
}
