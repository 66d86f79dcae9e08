//! What each shape of instruction does to a hart: the one implementation for all engines.

mod access;
mod lock;
mod simple;
mod system;

use loiter_isa::{
    CsrOperand, Executor, FpContext, Inst, Lock, RoundingMode, System, Width, dispatch,
};

use crate::hart::Hart;
use crate::trap::{Cause, Trap};
use access::sign_extend;

pub use access::{DataPort, Environment};
pub use simple::Stored;

/// How a hart sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Nap {
    /// `wfi`: until an interrupt pends.
    Wfi,
    /// `wrs.nto`: until the watched line is lost or an interrupt pends.
    WrsNto,
    /// `wrs.sto`: the same, or a short time has passed.
    WrsSto,
    /// `lock.acquire`, at which the pc stands: until the watched line is lost, an interrupt is to be taken
    /// or its time is over.
    Lock,
    /// `lock.wait`: likewise.
    Flags,
}

impl Nap {
    /// Whether a store to the watched line ends it.
    #[must_use]
    pub fn watches(self) -> bool {
        self != Nap::Wfi
    }

    /// What a hart does in it, for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Nap::Wfi => "sleeps in wfi until an interrupt pends",
            Nap::WrsNto => "sleeps in wrs.nto until its watched line is written",
            Nap::WrsSto => {
                "sleeps in wrs.sto until its watched line is written or its time is over"
            }
            Nap::Lock => "waits in lock.acquire until the lock is written",
            Nap::Flags => "waits in lock.wait until a flag is written",
        }
    }
}

/// What an instruction asks of the engine after it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Nothing; the pc stands at the next instruction.
    Next,
    /// Nothing; it retired and the pc stands elsewhere: a taken branch or a jump.
    Jump,
    /// It did not run: hot executors leave CSR and system instructions to a full one.
    Full,
    /// It did not run and raised this.
    Trap(Trap),
    /// It retired and changed what interrupts can be taken.
    Interrupts,
    /// It retired; decoded instructions may be stale.
    FenceI,
    /// It retired; the context should yield for a moment.
    Pause,
    /// It retired; the hart wants to sleep.
    Nap(Nap),
    /// It did not run; the hart wants to sleep at it, and run it again then.
    Blocks(Nap),
    /// A probe passed with this code and value; it is no instruction.
    Probe(u16, u64),
}

/// Runs instructions on one hart. `FULL` executors run every instruction; the others return
/// [`Flow::Full`] for those that need exact counters or change privileged state, for accesses that
/// their port refuses and for whatever traps, which keeps all of that out of the hot loop. So theirs is
/// [`Flow::Next`], [`Flow::Jump`] or [`Flow::Full`], of which nothing but the kind is to be kept.
///
/// `LENGTH` is that of the instructions it runs, if that is known, else 0. A pc that moves by a constant
/// does not wait for the record of the instruction; with a branch on the length before, the processor
/// that runs this predicts where the next record lies.
pub struct Exec<'a, P, const FULL: bool, const LENGTH: u64 = 0> {
    /// The hart.
    pub hart: &'a mut Hart,
    /// Where its loads and stores go.
    pub port: &'a mut P,
    /// Its pc while this executor lives; [`Exec::finish`] puts it back.
    pub pc: u64,
}

impl<'a, P: Environment, const FULL: bool> Exec<'a, P, FULL> {
    /// An executor at the hart's pc.
    #[inline(always)]
    pub fn new(hart: &'a mut Hart, port: &'a mut P) -> Self {
        let pc = hart.pc;
        Self { hart, port, pc }
    }

    /// Puts the pc back into the hart.
    #[inline(always)]
    pub fn finish(self) {
        self.hart.pc = self.pc;
    }

    /// Runs `i` by one of two copies of all semantics: that for its length.
    #[inline(always)]
    pub(crate) fn run_by_length(&mut self, i: &Inst) -> Flow {
        if i.len == 2 {
            self.run_sized::<2>(i)
        } else {
            self.run_sized::<4>(i)
        }
    }

    #[inline(always)]
    fn run_sized<const LENGTH: u64>(&mut self, i: &Inst) -> Flow {
        let mut sized = Exec::<P, FULL, LENGTH> {
            hart: self.hart,
            port: self.port,
            pc: self.pc,
        };
        let flow = dispatch(&mut sized, i);
        self.pc = sized.pc;
        flow
    }
}

impl<P: Environment, const FULL: bool, const LENGTH: u64> Exec<'_, P, FULL, LENGTH> {
    #[inline(always)]
    fn length(i: &Inst) -> u64 {
        if LENGTH == 0 { i.len.into() } else { LENGTH }
    }

    #[inline(always)]
    fn reg(&self, slot: u8) -> u64 {
        self.hart.regs[slot as usize]
    }

    #[inline(always)]
    fn next(&mut self, i: &Inst) -> Flow {
        self.pc = self.pc.wrapping_add(Self::length(i));
        Flow::Next
    }

    #[inline(always)]
    fn write_and_next(&mut self, i: &Inst, value: u64) -> Flow {
        self.hart.write(i.rd, value);
        self.next(i)
    }

    /// The flow of a trap, for full executors; the others leave the instruction to one.
    #[inline(always)]
    fn trap(trap: impl FnOnce() -> Trap) -> Flow {
        if FULL { Flow::Trap(trap()) } else { Flow::Full }
    }

    #[inline(always)]
    fn value_or_flow(&mut self, i: &Inst, value: Result<u64, Flow>) -> Flow {
        match value {
            Ok(value) => self.write_and_next(i, value),
            Err(flow) => flow,
        }
    }
}

impl<P: Environment, const FULL: bool, const LENGTH: u64> Executor for Exec<'_, P, FULL, LENGTH> {
    type Out = Flow;

    #[inline(always)]
    fn alu_reg(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Flow {
        let value = f(self.reg(i.rs1), self.reg(i.rs2));
        self.write_and_next(i, value)
    }

    #[inline(always)]
    fn alu_imm(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Flow {
        let value = f(self.reg(i.rs1), i.imm as i64 as u64);
        self.write_and_next(i, value)
    }

    #[inline(always)]
    fn alu_pc(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Flow {
        let value = f(self.pc, i.imm as i64 as u64);
        self.write_and_next(i, value)
    }

    #[inline(always)]
    fn branch(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> bool) -> Flow {
        if f(self.reg(i.rs1), self.reg(i.rs2)) {
            self.pc = self.pc.wrapping_add(i.imm as i64 as u64);
            Flow::Jump
        } else {
            self.next(i)
        }
    }

    #[inline(always)]
    fn jump(&mut self, i: &Inst, f: impl FnOnce(u64, u64, u64) -> u64) -> Flow {
        let target = f(self.pc, self.reg(i.rs1), i.imm as i64 as u64);
        let link = self.pc.wrapping_add(Self::length(i));
        self.hart.write(i.rd, link);
        self.pc = target;
        Flow::Jump
    }

    #[inline(always)]
    fn load(&mut self, i: &Inst, width: Width, f: impl FnOnce(u64) -> u64) -> Flow {
        match self.load_value(i, width) {
            Ok(raw) => self.write_and_next(i, f(raw)),
            Err(flow) => flow,
        }
    }

    #[inline(always)]
    fn store(&mut self, i: &Inst, width: Width) -> Flow {
        self.store_value(i, width)
    }

    #[inline(always)]
    fn fp_load(&mut self, i: &Inst, width: Width, f: impl FnOnce(u64) -> u64) -> Flow {
        if self.hart.csr.fp_off() {
            return Self::trap(|| illegal(i));
        }
        match self.load_value(i, width) {
            Ok(raw) => {
                self.hart.csr.mark_fp_dirty();
                self.write_and_next(i, f(raw))
            }
            Err(flow) => flow,
        }
    }

    #[inline(always)]
    fn fp_store(&mut self, i: &Inst, width: Width) -> Flow {
        if self.hart.csr.fp_off() {
            return Self::trap(|| illegal(i));
        }
        self.store_value(i, width)
    }

    #[inline(always)]
    fn amo(&mut self, i: &Inst, width: Width, f: impl FnOnce(u64, u64) -> u64) -> Flow {
        let old = self.amo_value(i, width, f);
        self.value_or_flow(i, old)
    }

    #[inline(always)]
    fn lr(&mut self, i: &Inst, width: Width) -> Flow {
        let value = self.lr_value(i, width);
        self.value_or_flow(i, value)
    }

    #[inline(always)]
    fn sc(&mut self, i: &Inst, width: Width) -> Flow {
        let failed = self.sc_value(i, width);
        self.value_or_flow(i, failed)
    }

    #[inline(always)]
    fn cas(&mut self, i: &Inst, width: Width) -> Flow {
        if width == Width::Q {
            if !FULL {
                return Flow::Full;
            }
            return match self.cas_pair(i) {
                Ok(()) => self.next(i),
                Err(flow) => flow,
            };
        }
        let expected = sign_extend(self.reg(i.rs3), width);
        let old = self.amo_value(i, width, |old, new| if old == expected { new } else { old });
        self.value_or_flow(i, old)
    }

    #[inline(always)]
    fn lock(&mut self, i: &Inst, what: Lock) -> Flow {
        if !self.hart.csr.has_locks() {
            return Self::trap(|| illegal(i));
        }
        match what {
            Lock::Release => self.store_value(i, Width::W),
            // How long it has been waiting is known to full executors.
            _ if !FULL => Flow::Full,
            Lock::Acquire => self.acquire_lock(i),
            Lock::Wait => self.wait_for_flags(i),
        }
    }

    #[inline(always)]
    fn fp(&mut self, i: &Inst, f: impl FnOnce(&mut FpContext, u64, u64, u64) -> u64) -> Flow {
        if self.hart.csr.fp_off() {
            return Self::trap(|| illegal(i));
        }
        let field = if i.rm() == 7 {
            self.hart.csr.frm()
        } else {
            i.rm()
        };
        let Some(rounding) = RoundingMode::from_bits(field) else {
            return Self::trap(|| illegal(i));
        };
        let mut context = FpContext {
            rounding,
            flags: self.hart.csr.fflags,
        };
        let value = f(
            &mut context,
            self.reg(i.rs1),
            self.reg(i.rs2),
            self.reg(i.rs3),
        );
        self.hart.csr.fflags = context.flags;
        self.hart.csr.mark_fp_dirty();
        self.write_and_next(i, value)
    }

    #[inline(always)]
    fn csr(&mut self, i: &Inst, operand: CsrOperand, f: impl FnOnce(u64, u64) -> u64) -> Flow {
        if FULL {
            self.full_csr(i, operand, f)
        } else {
            Flow::Full
        }
    }

    #[inline(always)]
    fn system(&mut self, i: &Inst, what: System) -> Flow {
        if FULL {
            self.full_system(i, what)
        } else if what == System::Fence {
            self.next(i)
        } else {
            Flow::Full
        }
    }
}

#[cold]
fn illegal(i: &Inst) -> Trap {
    Trap::Exception(Cause::IllegalInstruction, u64::from(i.raw))
}

#[cfg(test)]
mod tests;
