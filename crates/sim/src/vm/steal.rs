//! Steal time that the guest sees, by extension STA of the SBI ("Steal-time Accounting", version 2.0 and later).
//!
//! A virtual CPU names 64 bytes of its memory. In them are a sequence number (odd while the rest is written), flags (0), the
//! nanoseconds for which it could run and did not, and whether it has lost its CPU now. A kernel asks once, when it boots, which
//! may be before it comes to a host with other guests.

use loiter_hart::HostCallError;
use loiter_isa::Width;
use loiter_types::{HartId, PhysAddr, VcpuId};

use super::host::Host;
use crate::system::System;

const BYTES: u64 = 64;
const SEQUENCE: u64 = 0;
const STEAL: u64 = 8;
const PREEMPTED: u64 = 16;

impl System {
    /// `hart` wants to see its steal time at the address of `low` and `high`, or, if they are all ones, no more.
    pub(crate) fn set_steal_time(
        &mut self,
        hart: HartId,
        low: u64,
        high: u64,
        flags: u64,
    ) -> HostCallError {
        if flags != 0 {
            return HostCallError::InvalidParam;
        }
        if (low, high) == (u64::MAX, u64::MAX) {
            self.harts[hart.index()].steal_time = None;
            return HostCallError::Success;
        }
        if !low.is_multiple_of(BYTES) {
            return HostCallError::InvalidParam;
        }
        let addr = self.placed(hart, PhysAddr(low));
        if high != 0 || !self.machine.ram.contains(addr, BYTES) {
            return HostCallError::InvalidAddress;
        }
        for at in (0..BYTES).step_by(8) {
            let stored = self.machine.store(hart, PhysAddr(addr.0 + at), Width::D, 0);
            stored.expect("it is memory");
        }
        self.harts[hart.index()].steal_time = Some(PhysAddr(low));
        HostCallError::Success
    }

    /// Where an address of the guest of `hart` lies in the machine.
    fn placed(&self, hart: HartId, addr: PhysAddr) -> PhysAddr {
        self.harts[hart.index()].partition().place(addr)
    }
}

impl Host {
    /// `vcpu` wants to see its steal time from now on, as [`System::set_steal_time`].
    pub(super) fn set_steal_time(
        &mut self,
        vcpu: VcpuId,
        low: u64,
        high: u64,
        flags: u64,
    ) -> HostCallError {
        let it = &mut self.vcpus[vcpu.index()];
        let error = self.system.set_steal_time(it.hart, low, high, flags);
        if error == HostCallError::Success {
            it.steal_before = it.counts.runnable;
        }
        error
    }

    /// `vcpu` begins to run, or has lost its CPU.
    pub(super) fn show_steal_time(&mut self, vcpu: VcpuId, is_preempted: bool) {
        let it = &self.vcpus[vcpu.index()];
        let Some(addr) = self.system.harts[it.hart.index()].steal_time else {
            return;
        };
        let addr = self.system.placed(it.hart, addr);
        let cycles = u128::from(it.counts.runnable - it.steal_before);
        let steal_ns = cycles * 1000 / u128::from(self.file.host.clock_mhz);
        let machine = &mut self.system.machine;
        let sequence = machine.ram.read(addr, Width::W).expect("it is memory");
        let mut store = |at, width, value| {
            let stored = machine.store(it.hart, PhysAddr(addr.0 + at), width, value);
            stored.expect("it is memory");
        };
        if !is_preempted {
            // Nobody of the guest executes meanwhile: the odd number in between would be seen by none.
            store(SEQUENCE, Width::W, sequence.wrapping_add(2));
            store(STEAL, Width::D, steal_ns as u64);
        }
        store(PREEMPTED, Width::B, u64::from(is_preempted));
    }
}
