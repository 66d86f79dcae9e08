//! Tests of the whole crate: the table, decoding, and semantics at the corners.

mod assembling;
mod decoding;
mod float;
mod integer;
mod table;

use crate::{
    CsrOperand, Executor, FpContext, Inst, Lock, Op, RoundingMode, SINK, System, Width, dispatch,
};

/// Reproducible random numbers (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// What dispatch handed over: the shape and its constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    AluReg,
    AluImm,
    AluPc,
    Branch,
    Jump,
    Load(Width),
    Store(Width),
    FpLoad(Width),
    FpStore(Width),
    Amo(Width),
    Lr(Width),
    Sc(Width),
    Cas(Width),
    Lock(Lock),
    Fp,
    Csr(CsrOperand),
    System(System),
}

/// Evaluates closures on given operands, whatever the instruction's registers.
#[derive(Default)]
struct Bench {
    /// rs1, rs2, rs3; also memory (the first) of a load or atomic and the old value of a CSR.
    operands: [u64; 3],
    pc: u64,
    context: FpContext,
}

impl Executor for Bench {
    /// The shape, and what its closure made of the operands.
    type Out = (Shape, u64);

    fn alu_reg(&mut self, _: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Self::Out {
        (Shape::AluReg, f(self.operands[0], self.operands[1]))
    }
    fn alu_imm(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Self::Out {
        (Shape::AluImm, f(self.operands[0], i.imm as u64))
    }
    fn alu_pc(&mut self, i: &Inst, f: impl FnOnce(u64, u64) -> u64) -> Self::Out {
        (Shape::AluPc, f(self.pc, i.imm as u64))
    }
    fn branch(&mut self, _: &Inst, f: impl FnOnce(u64, u64) -> bool) -> Self::Out {
        (
            Shape::Branch,
            u64::from(f(self.operands[0], self.operands[1])),
        )
    }
    fn jump(&mut self, i: &Inst, f: impl FnOnce(u64, u64, u64) -> u64) -> Self::Out {
        (Shape::Jump, f(self.pc, self.operands[0], i.imm as u64))
    }
    fn load(&mut self, _: &Inst, width: Width, f: impl FnOnce(u64) -> u64) -> Self::Out {
        (Shape::Load(width), f(self.operands[0]))
    }
    fn store(&mut self, _: &Inst, width: Width) -> Self::Out {
        (Shape::Store(width), 0)
    }
    fn fp_load(&mut self, _: &Inst, width: Width, f: impl FnOnce(u64) -> u64) -> Self::Out {
        (Shape::FpLoad(width), f(self.operands[0]))
    }
    fn fp_store(&mut self, _: &Inst, width: Width) -> Self::Out {
        (Shape::FpStore(width), 0)
    }
    fn amo(&mut self, _: &Inst, width: Width, f: impl FnOnce(u64, u64) -> u64) -> Self::Out {
        (Shape::Amo(width), f(self.operands[0], self.operands[1]))
    }
    fn lr(&mut self, _: &Inst, width: Width) -> Self::Out {
        (Shape::Lr(width), 0)
    }
    fn sc(&mut self, _: &Inst, width: Width) -> Self::Out {
        (Shape::Sc(width), 0)
    }
    fn cas(&mut self, _: &Inst, width: Width) -> Self::Out {
        (Shape::Cas(width), 0)
    }
    fn lock(&mut self, _: &Inst, what: Lock) -> Self::Out {
        (Shape::Lock(what), 0)
    }
    fn fp(&mut self, _: &Inst, f: impl FnOnce(&mut FpContext, u64, u64, u64) -> u64) -> Self::Out {
        let [x, y, z] = self.operands;
        (Shape::Fp, f(&mut self.context, x, y, z))
    }
    fn csr(&mut self, _: &Inst, operand: CsrOperand, f: impl FnOnce(u64, u64) -> u64) -> Self::Out {
        (Shape::Csr(operand), f(self.operands[0], self.operands[1]))
    }
    fn system(&mut self, _: &Inst, what: System) -> Self::Out {
        (Shape::System(what), 0)
    }
}

/// An instruction of operation `op`, with an immediate and no registers.
fn inst(op: Op, imm: i32) -> Inst {
    Inst {
        op,
        rd: SINK,
        rs1: 0,
        rs2: 0,
        rs3: 0,
        len: 4,
        rm_and_mark: 0,
        imm,
        raw: 0,
    }
}

/// Result of `op` on the operands of its closure.
fn run(op: Op, operands: &[u64]) -> u64 {
    let mut bench = Bench::default();
    bench.operands[..operands.len()].copy_from_slice(operands);
    dispatch(&mut bench, &inst(op, 0)).1
}

/// Result of `op` on a register and an immediate.
fn run_imm(op: Op, operand: u64, imm: i32) -> u64 {
    let mut bench = Bench {
        operands: [operand, 0, 0],
        ..Bench::default()
    };
    dispatch(&mut bench, &inst(op, imm)).1
}

/// Result of floating-point `op`, and the flags it raises.
fn run_fp(op: Op, rounding: RoundingMode, operands: &[u64]) -> (u64, u8) {
    let context = FpContext { rounding, flags: 0 };
    let mut bench = Bench {
        context,
        ..Bench::default()
    };
    bench.operands[..operands.len()].copy_from_slice(operands);
    let (_, result) = dispatch(&mut bench, &inst(op, 0));
    (result, bench.context.flags)
}
