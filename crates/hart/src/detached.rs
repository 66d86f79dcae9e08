//! Results of instructions apart from a hart's registers, for cores that keep them elsewhere until the
//! instruction retires.
//!
//! What an instruction computes is decided by the instruction table, as everywhere; here are only the
//! shapes that need nothing of a hart but operands. The others ([`Detached::complete`] is false) run
//! by [`crate::Exec`] when they are the oldest.

use loiter_isa::{
    CsrOperand, Executor, FpContext, Inst, Lock, RoundingMode, SINK, System, Width, dispatch,
};
use serde::{Deserialize, Serialize};

use crate::hart::Hart;

/// What an instruction works with.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// Values of rs1, rs2 and rs3.
    pub sources: [u64; 3],
    /// Its address.
    pub pc: u64,
    /// The dynamic rounding mode, as its field stands in `fcsr`.
    pub frm: u8,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Detached {
    /// What goes to rd; the address of a load or store.
    pub value: u64,
    /// Address of the next instruction.
    pub next: u64,
    /// Accrued floating-point exceptions.
    pub fflags: u8,
    /// Whether that is all. If not, nothing else here means anything.
    pub complete: bool,
}

struct Compute<'a> {
    operands: &'a Operands,
    /// What a load has read.
    bytes: Option<u64>,
}

impl Compute<'_> {
    #[inline(always)]
    fn value(&self, i: &Inst, value: u64) -> Detached {
        Detached {
            value,
            next: self.operands.pc.wrapping_add(u64::from(i.len)),
            fflags: 0,
            complete: true,
        }
    }

    #[inline(always)]
    fn address(&self, i: &Inst) -> Detached {
        self.value(
            i,
            self.operands.sources[0].wrapping_add(i.imm as i64 as u64),
        )
    }

    #[inline(always)]
    fn loaded(&self, i: &Inst, f: impl FnOnce(u64) -> u64) -> Detached {
        match self.bytes {
            Some(bytes) => self.value(i, f(bytes)),
            None => self.address(i),
        }
    }

    #[inline(always)]
    fn incomplete(&self, i: &Inst) -> Detached {
        Detached {
            complete: false,
            ..self.value(i, 0)
        }
    }
}

impl Executor for Compute<'_> {
    type Out = Detached;

    #[inline(always)]
    fn alu_reg(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Detached {
        self.value(i, f(self.operands.sources[0], self.operands.sources[1]))
    }

    #[inline(always)]
    fn alu_imm(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Detached {
        self.value(i, f(self.operands.sources[0], i.imm as i64 as u64))
    }

    #[inline(always)]
    fn alu_pc(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Detached {
        self.value(i, f(self.operands.pc, i.imm as i64 as u64))
    }

    #[inline(always)]
    fn branch(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> bool) -> Detached {
        let mut done = self.value(i, 0);
        if f(self.operands.sources[0], self.operands.sources[1]) {
            done.next = self.operands.pc.wrapping_add(i.imm as i64 as u64);
        }
        done
    }

    #[inline(always)]
    fn jump(&mut self, i: &Inst, f: impl FnOnce(u64, u64, u64) -> u64) -> Detached {
        let mut done = self.value(i, 0);
        done.value = done.next;
        done.next = f(
            self.operands.pc,
            self.operands.sources[0],
            i.imm as i64 as u64,
        );
        done
    }

    #[inline(always)]
    fn load(&mut self, i: &Inst, _: Width, f: impl FnOnce(u64) -> u64) -> Detached {
        self.loaded(i, f)
    }

    #[inline(always)]
    fn store(&mut self, i: &Inst, _: Width) -> Detached {
        self.address(i)
    }

    #[inline(always)]
    fn fp_load(&mut self, i: &Inst, _: Width, f: impl FnOnce(u64) -> u64) -> Detached {
        self.loaded(i, f)
    }

    #[inline(always)]
    fn fp_store(&mut self, i: &Inst, _: Width) -> Detached {
        self.address(i)
    }

    fn amo(&mut self, i: &Inst, _: Width, _: impl FnOnce(u64, u64) -> u64) -> Detached {
        self.incomplete(i)
    }

    fn lr(&mut self, i: &Inst, _: Width) -> Detached {
        self.incomplete(i)
    }

    fn sc(&mut self, i: &Inst, _: Width) -> Detached {
        self.incomplete(i)
    }

    fn cas(&mut self, i: &Inst, _: Width) -> Detached {
        self.incomplete(i)
    }

    fn lock(&mut self, i: &Inst, what: Lock) -> Detached {
        match what {
            Lock::Release => self.address(i),
            Lock::Acquire | Lock::Wait => self.incomplete(i),
        }
    }

    #[inline(always)]
    fn fp(&mut self, i: &Inst, f: impl FnOnce(&mut FpContext, u64, u64, u64) -> u64) -> Detached {
        let field = if i.rm() == 7 {
            self.operands.frm
        } else {
            i.rm()
        };
        let Some(rounding) = RoundingMode::from_bits(field) else {
            return self.incomplete(i);
        };
        let mut context = FpContext { rounding, flags: 0 };
        let [a, b, c] = self.operands.sources;
        let value = f(&mut context, a, b, c);
        Detached {
            fflags: context.flags,
            ..self.value(i, value)
        }
    }

    fn csr(&mut self, i: &Inst, _: CsrOperand, _: impl FnOnce(u64, u64) -> u64) -> Detached {
        self.incomplete(i)
    }

    fn system(&mut self, i: &Inst, what: System) -> Detached {
        match what {
            System::Pause | System::Fence => self.value(i, 0),
            _ => self.incomplete(i),
        }
    }
}

/// Computes what an instruction that is not the oldest can: all but atomics, CSR and system
/// instructions other than `pause` and fences, and what has no rounding mode.
#[inline(never)]
#[must_use]
pub fn compute(inst: &Inst, operands: &Operands) -> Detached {
    let bytes = None;
    dispatch(&mut Compute { operands, bytes }, inst)
}

/// What a load writes to rd when it has read these bytes, given zero-extended.
#[inline(never)]
#[must_use]
pub fn extend(inst: &Inst, bytes: u64) -> u64 {
    const NONE: Operands = Operands {
        sources: [0; 3],
        pc: 0,
        frm: 0,
    };
    let mut loaded = Compute {
        operands: &NONE,
        bytes: Some(bytes),
    };
    dispatch(&mut loaded, inst).value
}

impl Hart {
    /// An instruction that was computed apart retires: what it came to is the hart's from now on.
    #[inline(always)]
    pub fn retire(&mut self, inst: &Inst, done: &Detached) {
        if inst.rd != SINK {
            self.write(inst.rd, done.value);
        }
        if inst.op.class().is_fp() || matches!(inst.rd, 32..SINK) {
            self.csr.fflags |= done.fflags;
            self.csr.mark_fp_dirty();
        }
        self.pc = done.next;
        self.retired += 1;
    }
}

#[cfg(test)]
#[path = "detached_tests.rs"]
mod tests;
