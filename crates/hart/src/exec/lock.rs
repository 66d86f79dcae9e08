//! The hardware lock: blocking on a word until it is free, or on a line of flags until one is set.
//!
//! ```text
//!                    free
//!        +------------------------------> continues after, the lock is taken
//!        |
//!   lock.acquire --held, time left--> asleep at it, the line is watched
//!        |    ^                          |
//!        |    +-- line lost, interrupt, time over
//!        |
//!        +--held, time over------------> continues at its target
//! ```
//!
//! Test and watch are one step: a store that comes after the test ends the nap, so no wake-up is lost.

use loiter_isa::{FLAGS_BYTES, Inst, Width};
use loiter_types::PhysAddr;

use super::access::Environment;
use super::{Exec, Flow, Nap};
use crate::hart::Blocked;
use crate::translate::Access;
use crate::trap::{Cause, Trap};

impl<P: Environment, const FULL: bool, const LENGTH: u64> Exec<'_, P, FULL, LENGTH> {
    pub(super) fn acquire_lock(&mut self, i: &Inst) -> Flow {
        let addr = match self.atomic_address(i, Width::W, Access::Store) {
            Ok(addr) => addr,
            Err(flow) => return flow,
        };
        let id = self.hart.id;
        if !self.port.is_ram(addr, Width::W.bytes()) {
            return self.unanswered(i, Access::Store);
        }
        let held = self.port.load(id, addr, Width::W).unwrap_or(0) != 0;
        if held {
            return self.block(i, Nap::Lock, addr);
        }
        if self.port.store_atomic(id, addr, Width::W, 1).is_err() {
            return self.unanswered(i, Access::Store);
        }
        self.unblock();
        self.next(i)
    }

    pub(super) fn wait_for_flags(&mut self, i: &Inst) -> Flow {
        let base = self.reg(i.rs1);
        if base & (FLAGS_BYTES - 1) != 0 {
            return Flow::Trap(Trap::Exception(Cause::LoadMisaligned, base));
        }
        let addr = match self.atomic_address(i, Width::D, Access::Load) {
            Ok(addr) => addr,
            Err(flow) => return flow,
        };
        let id = self.hart.id;
        if !self.port.is_ram(addr, FLAGS_BYTES) {
            return self.unanswered(i, Access::Load);
        }
        let any = (0..FLAGS_BYTES).step_by(8).any(|offset| {
            let flag = self.port.load(id, PhysAddr(addr.0 + offset), Width::D);
            flag.unwrap_or(0) != 0
        });
        if !any {
            return self.block(i, Nap::Flags, addr);
        }
        self.unblock();
        self.next(i)
    }

    /// What it waits for is not there: sleeps at it, or leaves for its target if the time is over.
    fn block(&mut self, i: &Inst, nap: Nap, addr: PhysAddr) -> Flow {
        let limit = self.reg(i.rs2);
        let now = self.hart.csr.clock.cycle;
        let since = match self.hart.blocked {
            Some(blocked) if blocked.pc == self.pc => blocked.since,
            _ => now,
        };
        if limit != 0 && now.saturating_sub(since) >= limit {
            self.unblock();
            self.pc = self.pc.wrapping_add(i.imm as i64 as u64);
            return Flow::Jump;
        }
        self.port.reserve(self.hart.id, addr);
        self.hart.blocked = Some(Blocked {
            pc: self.pc,
            since,
            limit,
        });
        Flow::Blocks(nap)
    }

    fn unblock(&mut self) {
        self.hart.blocked = None;
        self.port.give_up_reservation(self.hart.id);
    }
}

#[cfg(test)]
#[path = "../waiting_tests.rs"]
mod tests;
