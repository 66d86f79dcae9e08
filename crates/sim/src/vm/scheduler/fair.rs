//! Linux's completely fair scheduler, as it was before EEVDF (kernel/sched/fair.c up to 6.5).
//!
//! Each virtual CPU has a virtual time, which passes as it runs, the slower the greater its guest's weight. A CPU runs the one in its
//! queue with the least, for its part of a period by weight. Who wakes is placed half a period before the others at the earliest, and
//! takes the CPU when it is far enough before the one that runs. An idle CPU takes one from the longest queue.
//!
//! As there, except: `scheduler.slice_us` is the period, whose eighth is the least slice and whose sixth is how far one that wakes has to be
//! before, as 6, 0.75 and 1 ms are there; a slice ends when it is over, not at a tick; queues are balanced where a CPU is idle, and not
//! periodically.

use loiter_types::{CpuId, Cycle, VcpuId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Choice, Scheduler};
use crate::vm::file::VmFile;
use crate::vm::vcpu::View;

/// The weight with which virtual time passes as time does.
const UNIT_WEIGHT: u64 = 256;
/// Virtual time begins here, so that one can be placed before the others.
const BEGIN: u64 = 1 << 40;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entity {
    weight: u64,
    virtual_time: u64,
    /// Cycles that it had run when that was last brought up to date.
    counted: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Queue {
    waiting: Vec<VcpuId>,
    /// The least virtual time of all here; it never goes back.
    least: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Fair {
    period_cycles: u64,
    entities: Vec<Entity>,
    queues: Vec<Queue>,
}

impl Fair {
    pub(super) fn new(file: &VmFile, guests: &[usize]) -> Self {
        let entity = |&guest: &usize| Entity {
            weight: file.guests[guest].weight,
            virtual_time: BEGIN,
            counted: 0,
        };
        let queue = Queue {
            waiting: Vec::new(),
            least: BEGIN,
        };
        Self {
            period_cycles: file.slice_cycles(),
            entities: guests.iter().map(entity).collect(),
            queues: vec![queue; file.host.cpus as usize],
        }
    }

    fn virtual_time(&self, vcpu: VcpuId) -> u64 {
        self.entities[vcpu.index()].virtual_time
    }

    /// Brings the virtual time of `vcpu` up to date, which runs or has run on `cpu`, and that of the queue.
    fn update(&mut self, cpu: CpuId, vcpu: VcpuId, view: View<'_>) {
        let ran = view.vcpus[vcpu.index()].counts.run;
        let entity = &mut self.entities[vcpu.index()];
        entity.virtual_time += (ran - entity.counted) * UNIT_WEIGHT / entity.weight;
        entity.counted = ran;
        let own = entity.virtual_time;
        let waiting = self.queues[cpu.index()].waiting.iter();
        let least = waiting.map(|&it| self.virtual_time(it)).fold(own, u64::min);
        let queue = &mut self.queues[cpu.index()];
        queue.least = queue.least.max(least);
    }

    /// The part of a period that is `vcpu`'s on `cpu`.
    fn slice(&self, cpu: CpuId, vcpu: VcpuId) -> u64 {
        let waiting = &self.queues[cpu.index()].waiting;
        let weight = |vcpu: VcpuId| self.entities[vcpu.index()].weight;
        let all: u64 = waiting.iter().map(|&it| weight(it)).sum::<u64>() + weight(vcpu);
        let least = self.period_cycles / 8;
        let period = self.period_cycles.max(least * (waiting.len() as u64 + 1));
        (period * weight(vcpu) / all).max(least).max(1)
    }

    /// One from the longest queue of others that can run on `cpu`; its virtual time counts from that of its queue.
    fn pull(&mut self, cpu: CpuId, view: View<'_>) -> Option<VcpuId> {
        let others = (0..self.queues.len()).filter(|&n| n != cpu.index());
        let longest =
            others.max_by_key(|&n| (self.queues[n].waiting.len(), std::cmp::Reverse(n)))?;
        let waiting = self.queues[longest].waiting.iter().copied();
        let vcpu = waiting
            .filter(|&it| view.can_run(it, cpu))
            .min_by_key(|&it| self.virtual_time(it))?;
        self.dequeue(vcpu);
        self.moves(vcpu, CpuId::new(longest), cpu);
        Some(vcpu)
    }

    /// Virtual times of two queues mean nothing beside each other.
    fn moves(&mut self, vcpu: VcpuId, from: CpuId, to: CpuId) {
        let (from, to) = (
            self.queues[from.index()].least,
            self.queues[to.index()].least,
        );
        let entity = &mut self.entities[vcpu.index()];
        entity.virtual_time = (entity.virtual_time + to).saturating_sub(from);
    }

    fn dequeue(&mut self, vcpu: VcpuId) {
        for queue in &mut self.queues {
            queue.waiting.retain(|&it| it != vcpu);
        }
    }
}

impl Scheduler for Fair {
    fn save(&self) -> Value {
        serde_json::to_value(self).expect("plain data")
    }

    fn restore(&mut self, saved: Value) -> serde_json::Result<()> {
        *self = serde_json::from_value(saved)?;
        Ok(())
    }

    fn wake(&mut self, vcpu: VcpuId, view: View<'_>) -> Vec<CpuId> {
        let cpu = view.vcpus[vcpu.index()].cpu;
        // It has slept since it ran.
        self.update(cpu, vcpu, view);
        let current = view.cpus[cpu.index()].current;
        if let Some(current) = current {
            self.update(cpu, current, view);
        }
        let earliest = self.queues[cpu.index()].least - self.period_cycles / 2;
        let entity = &mut self.entities[vcpu.index()];
        entity.virtual_time = entity.virtual_time.max(earliest);
        self.queues[cpu.index()].waiting.push(vcpu);
        let Some(current) = current else {
            return vec![cpu];
        };
        let granularity = self.period_cycles / 6 * UNIT_WEIGHT / self.entities[vcpu.index()].weight;
        let before = self
            .virtual_time(current)
            .saturating_sub(self.virtual_time(vcpu));
        let mut told: Vec<_> = (before > granularity).then_some(cpu).into_iter().collect();
        let idle = view.cpus.iter().enumerate();
        let idle = idle.filter(|(_, it)| it.current.is_none());
        told.extend(idle.map(|(n, _)| CpuId::new(n)));
        told
    }

    fn remove(&mut self, vcpu: VcpuId) {
        self.dequeue(vcpu);
    }

    fn choose(&mut self, cpu: CpuId, current: Option<VcpuId>, view: View<'_>) -> Option<Choice> {
        if let Some(current) = current {
            self.update(cpu, current, view);
            self.queues[cpu.index()].waiting.push(current);
        }
        let waiting = self.queues[cpu.index()].waiting.iter().copied();
        let own = waiting.min_by_key(|&it| self.virtual_time(it));
        let vcpu = own.or_else(|| self.pull(cpu, view))?;
        self.dequeue(vcpu);
        Some(Choice {
            vcpu,
            slice_cycles: self.slice(cpu, vcpu),
        })
    }

    fn is_queued(&self, vcpu: VcpuId) -> bool {
        self.queues
            .iter()
            .any(|queue| queue.waiting.contains(&vcpu))
    }

    fn take(&mut self, _: VcpuId, _: CpuId, _: VcpuId) {
        unreachable!("the file allows no policy that chooses by itself");
    }

    fn next_tick(&self) -> Cycle {
        Cycle(u64::MAX)
    }

    fn tick(&mut self, _: View<'_>) -> Vec<CpuId> {
        Vec::new()
    }
}
