//! Instructions that cannot trap where they are run, for cores that know so: plain computation and branches, and loads and
//! stores of integer registers in RAM whose translation is remembered.
//!
//! [`Exec`](super::Exec) does the same with them. But it can do everything else too, and what a function may have to do it
//! prepares for each time that it is called: the functions here call nothing.

use loiter_isa::{CsrOperand, Executor, FpContext, Inst, Lock, System, Width, dispatch};
use loiter_machine::Machine;
use loiter_types::PhysAddr;

use crate::hart::Hart;

/// A store that has run but for its value, which still has to go to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Where it goes: not over the end of a page.
    pub addr: PhysAddr,
    /// How much of `value`.
    pub width: Width,
    /// What is stored.
    pub value: u64,
}

/// The methods of an [`Executor`] for shapes that it does not run.
macro_rules! others {
    ($none:expr; $($shape:ident($($argument:ty),*);)*) => {
        $(#[inline(always)]
        fn $shape(&mut self, _: &Inst, $(_: $argument),*) -> Self::Out {
            $none
        })*
    };
}

/// Computes and branches.
struct Simple<'a> {
    hart: &'a mut Hart,
    pc: u64,
    /// Address of the instruction after this one.
    after: u64,
}

impl Simple<'_> {
    #[inline(always)]
    fn write(&mut self, i: &Inst, value: u64) -> u64 {
        self.hart.write(i.rd, value);
        self.after
    }

    #[inline(always)]
    fn reg(&self, slot: u8) -> u64 {
        self.hart.regs[slot as usize]
    }
}

#[cold]
fn not_simple() -> u64 {
    unreachable!("the caller has looked at its class")
}

impl Executor for Simple<'_> {
    /// Address of the next instruction.
    type Out = u64;

    #[inline(always)]
    fn alu_reg(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> u64 {
        let value = f(self.reg(i.rs1), self.reg(i.rs2));
        self.write(i, value)
    }

    #[inline(always)]
    fn alu_imm(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> u64 {
        let value = f(self.reg(i.rs1), i.imm as i64 as u64);
        self.write(i, value)
    }

    #[inline(always)]
    fn alu_pc(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> u64 {
        let value = f(self.pc, i.imm as i64 as u64);
        self.write(i, value)
    }

    #[inline(always)]
    fn branch(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> bool) -> u64 {
        if f(self.reg(i.rs1), self.reg(i.rs2)) {
            self.pc.wrapping_add(i.imm as i64 as u64)
        } else {
            self.after
        }
    }

    #[inline(always)]
    fn jump(&mut self, i: &Inst, f: impl FnOnce(u64, u64, u64) -> u64) -> u64 {
        let target = f(self.pc, self.reg(i.rs1), i.imm as i64 as u64);
        self.write(i, self.after);
        target
    }

    others! { not_simple();
        load(Width, impl FnOnce(u64) -> u64);
        store(Width);
        fp_load(Width, impl FnOnce(u64) -> u64);
        fp_store(Width);
        amo(Width, impl FnOnce(u64, u64) -> u64);
        lr(Width);
        sc(Width);
        cas(Width);
        lock(Lock);
        fp(impl FnOnce(&mut FpContext, u64, u64, u64) -> u64);
        csr(CsrOperand, impl FnOnce(u64, u64) -> u64);
        system(System);
    }
}

/// Loads integer registers from RAM.
struct Load<'a> {
    hart: &'a mut Hart,
    machine: &'a Machine,
}

impl Executor for Load<'_> {
    /// Whether it has run.
    type Out = bool;

    #[inline(always)]
    fn load(&mut self, i: &Inst, width: Width, f: impl FnOnce(u64) -> u64) -> bool {
        let hart = &mut *self.hart;
        let addr = hart.regs[i.rs1 as usize].wrapping_add(i.imm as i64 as u64);
        let Some(physical) = hart.tlb.load(addr, width) else {
            return false;
        };
        let Some(bytes) = self.machine.ram.read(physical, width) else {
            return false;
        };
        hart.write(i.rd, f(bytes));
        true
    }

    others! { false;
        alu_reg(impl FnOnce(u64, u64) -> u64);
        alu_imm(impl FnOnce(u64, u64) -> u64);
        alu_pc(impl FnOnce(u64, u64) -> u64);
        branch(impl FnOnce(u64, u64) -> bool);
        jump(impl FnOnce(u64, u64, u64) -> u64);
        store(Width);
        fp_load(Width, impl FnOnce(u64) -> u64);
        fp_store(Width);
        amo(Width, impl FnOnce(u64, u64) -> u64);
        lr(Width);
        sc(Width);
        cas(Width);
        lock(Lock);
        fp(impl FnOnce(&mut FpContext, u64, u64, u64) -> u64);
        csr(CsrOperand, impl FnOnce(u64, u64) -> u64);
        system(System);
    }
}

/// Stores integer registers to RAM.
struct Store<'a> {
    hart: &'a Hart,
    machine: &'a Machine,
}

impl Executor for Store<'_> {
    /// What has to go to memory, if it is such a store.
    type Out = Option<Stored>;

    #[inline(always)]
    fn store(&mut self, i: &Inst, width: Width) -> Option<Stored> {
        let hart = self.hart;
        let addr = hart.regs[i.rs1 as usize].wrapping_add(i.imm as i64 as u64);
        let addr = hart.tlb.store(addr, width)?;
        let in_ram = self.machine.is_ram(addr, width.bytes());
        in_ram.then(|| Stored {
            addr,
            width,
            value: hart.regs[i.rs2 as usize],
        })
    }

    others! { None;
        alu_reg(impl FnOnce(u64, u64) -> u64);
        alu_imm(impl FnOnce(u64, u64) -> u64);
        alu_pc(impl FnOnce(u64, u64) -> u64);
        branch(impl FnOnce(u64, u64) -> bool);
        jump(impl FnOnce(u64, u64, u64) -> u64);
        load(Width, impl FnOnce(u64) -> u64);
        fp_load(Width, impl FnOnce(u64) -> u64);
        fp_store(Width);
        amo(Width, impl FnOnce(u64, u64) -> u64);
        lr(Width);
        sc(Width);
        cas(Width);
        lock(Lock);
        fp(impl FnOnce(&mut FpContext, u64, u64, u64) -> u64);
        csr(CsrOperand, impl FnOnce(u64, u64) -> u64);
        system(System);
    }
}

impl Hart {
    /// Runs an instruction of the plain ALU, a branch or a jump, which stands at `pc` and before `after`. Returns where the
    /// pc has still to move.
    ///
    /// # Panics
    /// If it is another one.
    #[inline(never)]
    pub fn run_simple(&mut self, inst: &Inst, pc: u64, after: u64) -> u64 {
        let hart = self;
        dispatch(&mut Simple { hart, pc, after }, inst)
    }

    /// Runs the load that stands at the pc if it is one of an integer register, lies in RAM and its translation is
    /// remembered. If not, nothing has happened. The pc has still to move.
    #[inline(never)]
    pub fn run_load(&mut self, inst: &Inst, machine: &Machine) -> bool {
        self.tlb.sync(&machine.pages);
        let hart = self;
        dispatch(&mut Load { hart, machine }, inst)
    }

    /// What the store that stands at the pc stores, if it is one of an integer register, goes to RAM and its translation
    /// is remembered. The pc has still to move.
    #[inline(never)]
    pub fn run_store(&mut self, inst: &Inst, machine: &Machine) -> Option<Stored> {
        self.tlb.sync(&machine.pages);
        let hart = self;
        dispatch(&mut Store { hart, machine }, inst)
    }
}

#[cfg(test)]
#[path = "simple_tests.rs"]
mod tests;
