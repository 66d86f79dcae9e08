//! How many bytes an instruction moves, read off the instruction table.

use std::sync::LazyLock;

use loiter_isa::{
    CsrOperand, Executor, FpContext, Inst, Lock, Op, System, Width, decode, dispatch,
};

/// Returns the width of the access instead of performing it.
struct Measure;

impl Executor for Measure {
    type Out = Option<Width>;

    fn alu_reg(&mut self, _: &Inst, _: impl FnOnce(u64, u64) -> u64) -> Self::Out {
        None
    }
    fn alu_imm(&mut self, _: &Inst, _: impl FnOnce(u64, u64) -> u64) -> Self::Out {
        None
    }
    fn alu_pc(&mut self, _: &Inst, _: impl FnOnce(u64, u64) -> u64) -> Self::Out {
        None
    }
    fn branch(&mut self, _: &Inst, _: impl FnOnce(u64, u64) -> bool) -> Self::Out {
        None
    }
    fn jump(&mut self, _: &Inst, _: impl FnOnce(u64, u64, u64) -> u64) -> Self::Out {
        None
    }
    fn load(&mut self, _: &Inst, width: Width, _: impl FnOnce(u64) -> u64) -> Self::Out {
        Some(width)
    }
    fn store(&mut self, _: &Inst, width: Width) -> Self::Out {
        Some(width)
    }
    fn fp_load(&mut self, _: &Inst, width: Width, _: impl FnOnce(u64) -> u64) -> Self::Out {
        Some(width)
    }
    fn fp_store(&mut self, _: &Inst, width: Width) -> Self::Out {
        Some(width)
    }
    fn amo(&mut self, _: &Inst, width: Width, _: impl FnOnce(u64, u64) -> u64) -> Self::Out {
        Some(width)
    }
    fn lr(&mut self, _: &Inst, width: Width) -> Self::Out {
        Some(width)
    }
    fn sc(&mut self, _: &Inst, width: Width) -> Self::Out {
        Some(width)
    }
    fn cas(&mut self, _: &Inst, width: Width) -> Self::Out {
        Some(width)
    }
    fn lock(&mut self, _: &Inst, what: Lock) -> Self::Out {
        Some(what.width())
    }
    fn fp(&mut self, _: &Inst, _: impl FnOnce(&mut FpContext, u64, u64, u64) -> u64) -> Self::Out {
        None
    }
    fn csr(&mut self, _: &Inst, _: CsrOperand, _: impl FnOnce(u64, u64) -> u64) -> Self::Out {
        None
    }
    fn system(&mut self, _: &Inst, _: System) -> Self::Out {
        None
    }
}

/// Bytes that a load, store or atomic moves; `None` for any other instruction.
#[must_use]
pub fn access_width(op: Op) -> Option<Width> {
    static WIDTHS: LazyLock<Vec<Option<Width>>> = LazyLock::new(|| {
        let mut widths = vec![None; Op::ALL.len() + 1];
        for &op in Op::ALL {
            let mut inst = decode(0);
            inst.op = op;
            widths[op as usize] = dispatch(&mut Measure, &inst);
        }
        widths
    });
    WIDTHS[op as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_follow_the_mnemonics() {
        assert_eq!(access_width(Op::Lbu), Some(Width::B));
        assert_eq!(access_width(Op::Fsd), Some(Width::D));
        assert_eq!(access_width(Op::ScW), Some(Width::W));
        assert_eq!(access_width(Op::Add), None);
        assert_eq!(access_width(Op::Illegal), None);
    }
}
