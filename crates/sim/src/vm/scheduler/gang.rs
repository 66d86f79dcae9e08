//! Gang scheduling: guests take turns of a slice, in which all their virtual CPUs run together.
//!
//! A turn is everybody's: it begins and ends on all CPUs at the same time, at multiples of a slice. A virtual CPU always
//! runs on its own CPU, where it is placed at the beginning. A CPU on which the guest whose turn it is has nothing to run goes to
//! the next guest in turn that has, until one of the first wakes. Our own choices, after J. K. Ousterhout's idea that what communicates
//! should run at the same time (assumed).

use loiter_types::{CpuId, Cycle, VcpuId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Choice, Scheduler};
use crate::vm::file::VmFile;
use crate::vm::vcpu::View;

#[derive(Serialize, Deserialize)]
pub(super) struct Gang {
    slice_cycles: u64,
    /// The guest whose turn it is, and when that ends.
    turn: usize,
    turn_end: Cycle,
    guests: usize,
    /// The guest of each virtual CPU.
    guest_of: Vec<usize>,
    /// Who can run, on each CPU, in the order in which they came.
    queues: Vec<Vec<VcpuId>>,
}

impl Gang {
    pub(super) fn new(file: &VmFile, guests: &[usize]) -> Self {
        Self {
            slice_cycles: file.slice_cycles(),
            turn: 0,
            turn_end: Cycle(file.slice_cycles()),
            guests: file.guests.len(),
            guest_of: guests.to_vec(),
            queues: vec![Vec::new(); file.host.cpus as usize],
        }
    }

    /// How many turns later `vcpu` would have its own.
    fn turns_until(&self, vcpu: VcpuId) -> usize {
        let guest = self.guest_of[vcpu.index()];
        (guest + self.guests - self.turn) % self.guests
    }

    fn queue_of(&self, vcpu: VcpuId) -> Option<usize> {
        self.queues.iter().position(|queue| queue.contains(&vcpu))
    }
}

impl Scheduler for Gang {
    fn save(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn restore(&mut self, saved: Value) -> serde_json::Result<()> {
        *self = serde_json::from_value(saved)?;
        Ok(())
    }

    fn wake(&mut self, vcpu: VcpuId, view: View<'_>) -> Vec<CpuId> {
        let cpu = view.vcpus[vcpu.index()].cpu;
        self.queues[cpu.index()].push(vcpu);
        let is_better = match view.cpus[cpu.index()].current {
            Some(current) => self.turns_until(vcpu) < self.turns_until(current),
            None => true,
        };
        is_better.then_some(cpu).into_iter().collect()
    }

    fn remove(&mut self, vcpu: VcpuId) {
        for queue in &mut self.queues {
            queue.retain(|&it| it != vcpu);
        }
    }

    fn choose(&mut self, cpu: CpuId, current: Option<VcpuId>, view: View<'_>) -> Option<Choice> {
        self.queues[cpu.index()].extend(current);
        let queue = self.queues[cpu.index()].iter().copied();
        let vcpu = queue.min_by_key(|&it| self.turns_until(it))?;
        self.remove(vcpu);
        let now = view.cpus[cpu.index()].now;
        // Between two turns the next one has begun.
        let left = self.turn_end.0.saturating_sub(now.0);
        Some(Choice {
            vcpu,
            slice_cycles: if left == 0 { self.slice_cycles } else { left },
        })
    }

    fn is_queued(&self, vcpu: VcpuId) -> bool {
        self.queue_of(vcpu).is_some()
    }

    fn take(&mut self, vcpu: VcpuId, cpu: CpuId, current: VcpuId) {
        self.remove(vcpu);
        self.queues[cpu.index()].push(current);
    }

    fn next_tick(&self) -> Cycle {
        self.turn_end
    }

    fn tick(&mut self, view: View<'_>) -> Vec<CpuId> {
        self.turn_end = self.turn_end.after(self.slice_cycles);
        // A guest that has nothing to run has no turn.
        for _ in 0..self.guests {
            self.turn = (self.turn + 1) % self.guests;
            let current = view.cpus.iter().filter_map(|cpu| cpu.current);
            let mut ready = self.queues.iter().flatten().copied().chain(current);
            if ready.any(|vcpu| self.turns_until(vcpu) == 0) {
                break;
            }
        }
        (0..view.cpus.len()).map(CpuId::new).collect()
    }
}
