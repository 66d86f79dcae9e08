//! Lockstep: each instruction that a timing core retires is run again, on a shadow of its hart, with the
//! semantics of the reference engine.
//!
//! What an instruction finds outside its hart is handed over as the timing core has seen it: loaded
//! values, outcomes of `sc`, old values of atomics, clocks, interrupt lines. All else the shadow works
//! out by itself, and it must come to the same: the instruction that memory holds, the address of the
//! next one, registers, CSRs, privilege, the exception or interrupt that is taken, and where and what is
//! stored, down to the moment in which a store leaves its buffer for memory. A load whose bytes are in
//! the hart's own buffer, or which reads in the moment in which it retires, must have read what is there.

mod around;
mod buffer;
mod divergence;
mod shadow;

#[cfg(test)]
mod tests;

use loiter_hart::{Hart, Performed, Retired, Trapped};

use buffer::StoredPages;
pub(crate) use divergence::{Divergence, What};
use shadow::Shadow;

/// Checks timing cores against the reference engine.
#[derive(Default)]
pub(crate) struct Checker {
    /// By hart; none while no timing core runs.
    shadows: Vec<Shadow>,
    stored: StoredPages,
    divergence: Option<Divergence>,
    checked: u64,
}

impl Checker {
    /// Timing cores have taken these harts over.
    pub(crate) fn begin(&mut self, harts: &[Hart]) {
        self.shadows = harts.iter().map(Shadow::new).collect();
    }

    /// Timing cores give the harts up, with empty buffers.
    pub(crate) fn suspend(&mut self, cycle: u64) {
        for shadow in std::mem::take(&mut self.shadows) {
            let left = shadow.buffer.len();
            if left > 0 {
                let found = format!("{left} bytes of retired stores are not in memory");
                let what = What::Detached;
                self.diverge(&shadow.hart, shadow.hart.pc, cycle, what, vec![found]);
            }
        }
    }

    /// A hart was changed from outside.
    pub(crate) fn changed(&mut self, hart: &Hart) {
        if let Some(shadow) = self.shadows.get_mut(hart.id.index()) {
            shadow.hart = hart.clone();
        }
    }

    /// Number of instructions that have been checked.
    pub(crate) fn checked(&self) -> u64 {
        self.checked
    }

    /// Whether a core has departed from the reference engine.
    pub(crate) fn has_diverged(&self) -> bool {
        self.divergence.is_some()
    }

    pub(crate) fn take_divergence(&mut self) -> Option<Divergence> {
        self.divergence.take()
    }

    pub(crate) fn retired(&mut self, event: &Retired<'_>) {
        let Some(shadow) = self.shadows.get_mut(event.hart.id.index()) else {
            return;
        };
        self.checked += 1;
        let wrong = shadow.retire(event, &mut self.stored);
        if !wrong.is_empty() {
            let what = What::Instruction(*event.inst);
            self.diverge(event.hart, event.pc, event.cycle, what, wrong);
        }
    }

    pub(crate) fn trapped(&mut self, event: &Trapped<'_>) {
        let Some(shadow) = self.shadows.get_mut(event.hart.id.index()) else {
            return;
        };
        let wrong = shadow.trap(event, &mut self.stored);
        if !wrong.is_empty() {
            let what = What::Trap(event.trap);
            self.diverge(event.hart, event.pc, event.cycle, what, wrong);
        }
    }

    pub(crate) fn performed(&mut self, event: &Performed) {
        let Some(shadow) = self.shadows.get_mut(event.hart.index()) else {
            return;
        };
        if let Err(wrong) = shadow.buffer.perform(event) {
            let hart = shadow.hart.clone();
            let what = What::Store(event.addr);
            self.diverge(&hart, hart.pc, event.cycle, what, vec![wrong]);
        }
    }

    /// The first one counts: what follows from it is no news.
    #[cold]
    fn diverge(&mut self, hart: &Hart, pc: u64, cycle: u64, what: What, wrong: Vec<String>) {
        self.divergence.get_or_insert(Divergence {
            hart: hart.id,
            pc,
            cycle,
            checked: self.checked,
            what,
            wrong,
        });
    }
}
