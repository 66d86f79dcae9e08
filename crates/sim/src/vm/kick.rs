//! Waiters that sleep until they are kicked, as those of para-virtual spin locks do (`pv_wait` and `pv_kick` of Linux).

use loiter_hart::{HartState, HostCallError, Nap};
use loiter_types::{CpuId, VcpuId};

use super::host::Host;

impl Host {
    /// `vcpu` sleeps until it is kicked or an interrupt comes, unless it has been kicked since it last slept.
    pub(super) fn wait_for_kick(&mut self, id: CpuId, vcpu: VcpuId) {
        let it = &mut self.vcpus[vcpu.index()];
        if std::mem::take(&mut it.kicked) {
            return;
        }
        let n = it.hart.index();
        self.system.harts[n].state = HartState::Napping(Nap::Wfi);
        if !self.system.awake(n) {
            it.waits_for_kick = true;
            self.blocks(id, vcpu);
        }
    }

    /// A virtual CPU of `guest` kicks that of its hart `hart`.
    pub(super) fn kick(&mut self, guest: usize, hart: u64) -> HostCallError {
        let mut vcpus = self.vcpus.iter_mut();
        let kicked = vcpus.find(|it| it.guest == guest && u64::from(it.number.0) == hart);
        let Some(it) = kicked else {
            return HostCallError::InvalidParam;
        };
        it.counts.kicks += 1;
        if std::mem::take(&mut it.waits_for_kick) {
            self.system.harts[it.hart.index()].state = HartState::Running;
        } else {
            it.kicked = true;
        }
        HostCallError::Success
    }
}
