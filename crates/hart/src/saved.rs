//! A hart in a snapshot.
//!
//! Only what a program can see is kept. What the hart remembers to be fast (translations, decoded
//! code) never shows, so a hart without it continues as the one that had it.

use loiter_isa::SINK;
use loiter_types::PhysAddr;
use serde::{Deserialize, Serialize};

use crate::csr::CsrFile;
use crate::exec::Nap;
use crate::hart::{Blocked, Hart, HartState};
use crate::tlb::Tlb;

/// The state of one hart. Its number and its extensions are the machine's.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedHart {
    /// x0..x31, f0..f31.
    regs: Vec<u64>,
    pc: u64,
    retired: u64,
    /// How it sleeps, if it does.
    nap: Option<Nap>,
    /// Since when it waits at an instruction of the hardware lock, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocked: Option<Blocked>,
    /// Where it wants to see its steal time, if it is a virtual CPU that has asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    steal_time: Option<PhysAddr>,
    csr: CsrFile,
}

impl Hart {
    /// All that a snapshot needs.
    #[must_use]
    pub fn save(&self) -> SavedHart {
        SavedHart {
            regs: self.regs[..usize::from(SINK)].to_vec(),
            pc: self.pc,
            retired: self.retired,
            nap: match self.state {
                HartState::Running => None,
                HartState::Napping(nap) => Some(nap),
            },
            blocked: self.blocked,
            steal_time: self.steal_time,
            csr: self.csr.clone(),
        }
    }

    /// Makes the hart what it was.
    ///
    /// # Errors
    /// When the state is none of a hart.
    pub fn restore(&mut self, saved: &SavedHart) -> Result<(), String> {
        let regs = &saved.regs;
        if regs.len() != usize::from(SINK) || regs[0] != 0 {
            return Err(format!(
                "{}: {} registers from {:?}",
                self.id,
                regs.len(),
                regs.first()
            ));
        }
        self.regs = [0; 256];
        self.regs[..regs.len()].copy_from_slice(regs);
        self.pc = saved.pc;
        self.retired = saved.retired;
        self.state = saved.nap.map_or(HartState::Running, HartState::Napping);
        self.blocked = saved.blocked;
        self.steal_time = saved.steal_time;
        self.csr.restore(&saved.csr);
        self.tlb = Tlb::new(self.id);
        self.mode_changed();
        Ok(())
    }
}

#[cfg(test)]
#[path = "saved_tests.rs"]
mod tests;
