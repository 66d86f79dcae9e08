//! Avoidance: a switch is put off while the guest is in its kernel, where it may hold a lock.

use loiter_types::{CpuId, VcpuId};

use super::guest;
use super::host::Host;
use super::vcpu::{State, View};

/// So often it is looked whether the guest has left its kernel.
const STEP_CYCLES: u64 = 50;

impl Host {
    /// Whether a CPU that is to choose puts that off, for somebody else waits for a CPU and the one that runs is in its
    /// guest's kernel.
    pub(super) fn postpones(&mut self, id: CpuId) -> bool {
        let most = self.most_postponed();
        let cpu = &self.cpus[id.index()];
        let Some(vcpu) = cpu.current.filter(|_| most > 0) else {
            return false;
        };
        let since = cpu.postponed.unwrap_or(cpu.now);
        let it = &self.vcpus[vcpu.index()];
        let postpones = it.state() == State::Running
            && cpu.now.since(since) < most
            && guest::in_kernel(&self.system, it.hart)
            && self.somebody_waits(id);
        if postpones && cpu.postponed.is_none() {
            self.cpus[id.index()].postponed = Some(since);
            self.vcpus[vcpu.index()].counts.postponements += 1;
        }
        postpones
    }

    /// How far a CPU may execute before it has to choose, or to look whether it has to.
    pub(super) fn until_choice(&self, id: CpuId) -> u64 {
        let cpu = &self.cpus[id.index()];
        match cpu.postponed {
            Some(since) => (self.most_postponed() - cpu.now.since(since)).min(STEP_CYCLES),
            None => cpu.slice_end.since(cpu.now),
        }
    }

    fn most_postponed(&self) -> u64 {
        self.file.helping.postpone_us * self.file.host.clock_mhz
    }

    fn somebody_waits(&self, id: CpuId) -> bool {
        let view = View {
            vcpus: &self.vcpus,
            cpus: &self.cpus,
        };
        let mut ids = (0..self.vcpus.len()).map(VcpuId::new);
        ids.any(|it| view.can_run(it, id) && self.scheduler.is_queued(it))
    }
}
