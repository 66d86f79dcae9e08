//! How an engine or a core runs an instruction: by shape.
//!
//! The instruction table says for each instruction its *shape* (which operands it has and where the
//! result goes) and a pure closure from operands to result. [`crate::dispatch`] is one flat match
//! over all instructions that hands the closure to the shape's method. An engine implements the
//! shapes once and thereby every instruction; the semantics exist in one place for all engines.

use crate::{FpContext, Inst, Lock, System, Width};

/// The shapes of instructions. `f` is always the pure semantics from the table.
pub trait Executor {
    /// What running one instruction returns.
    type Out;

    /// `rd = f(rs1, rs2)`
    fn alu_reg(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Self::Out;
    /// `rd = f(rs1, imm)`
    fn alu_imm(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Self::Out;
    /// `rd = f(pc, imm)`
    fn alu_pc(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Self::Out;
    /// `if f(rs1, rs2) { pc += imm }`
    fn branch(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> bool) -> Self::Out;
    /// `rd = pc + len; pc = f(pc, rs1, imm)`
    fn jump(&mut self, i: &Inst, f: impl FnOnce(u64, u64, u64) -> u64) -> Self::Out;
    /// `rd = f(memory[rs1 + imm])`; `f` gets the bytes zero-extended.
    fn load(&mut self, i: &Inst, width: Width, f: impl FnOnce(u64) -> u64) -> Self::Out;
    /// `memory[rs1 + imm] = rs2`, the low `width` bytes.
    fn store(&mut self, i: &Inst, width: Width) -> Self::Out;
    /// As [`Executor::load`], into a floating-point register.
    fn fp_load(&mut self, i: &Inst, width: Width, f: impl FnOnce(u64) -> u64) -> Self::Out;
    /// As [`Executor::store`], from a floating-point register.
    fn fp_store(&mut self, i: &Inst, width: Width) -> Self::Out;
    /// `rd = sext(old = memory[rs1]); memory[rs1] = f(sext(old), sext(rs2))`, atomically.
    fn amo(&mut self, i: &Inst, width: Width, f: impl FnOnce(u64, u64) -> u64) -> Self::Out;
    /// Load-reserved: `rd = sext(memory[rs1])`, watch the line.
    fn lr(&mut self, i: &Inst, width: Width) -> Self::Out;
    /// Store-conditional: rd = 0 on success, 1 on failure.
    fn sc(&mut self, i: &Inst, width: Width) -> Self::Out;
    /// Compare-and-swap: compare with the old value of rd, which is source rs3; swap in rs2;
    /// `rd = sext(old)`. `Q` uses pairs of registers, the slot and the one after it; the pair of x0
    /// reads as zero and is not written.
    fn cas(&mut self, i: &Inst, width: Width) -> Self::Out;
    /// An instruction of the hardware lock at the address in rs1; [`Lock`] says what it does.
    fn lock(&mut self, i: &Inst, what: Lock) -> Self::Out;
    /// `rd = f(context, rs1, rs2, rs3)`: everything of F and D but loads and stores, whatever the
    /// register file of its operands. Values are 64-bit register images (NaN-boxed singles).
    fn fp(&mut self, i: &Inst, f: impl FnOnce(&mut FpContext, u64, u64, u64) -> u64) -> Self::Out;
    /// `rd = csr; csr = f(csr, operand)`, the operand being rs1 or, for the `i` forms, the
    /// immediate.
    /// [`CsrOperand`] says when the write is left out.
    fn csr(&mut self, i: &Inst, operand: CsrOperand, f: impl FnOnce(u64, u64) -> u64) -> Self::Out;
    /// Everything else.
    fn system(&mut self, i: &Inst, what: System) -> Self::Out;
}

/// Where a CSR instruction's operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsrOperand {
    /// rs1, always written (csrrw).
    Write,
    /// rs1, written unless the register field is x0 (csrrs, csrrc).
    Modify,
    /// The immediate, always written (csrrwi).
    WriteImm,
    /// The immediate, written unless it is 0 (csrrsi, csrrci).
    ModifyImm,
}
