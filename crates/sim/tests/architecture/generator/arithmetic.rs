//! Random arithmetic: integer, compressed, floating point; and fresh operands for it.

use loiter_isa::{Class, Op};

use super::asm::GP;
use super::exclusions::Exclusion;
use super::memory::with_base;
use super::writer::Writer;

impl Writer {
    /// One integer operation.
    pub(super) fn integer(&mut self) {
        let op = self.random.pick(&self.tables.integer);
        let bits = self.fill(op);
        if self.stands_alone(op) {
            return self.asm.word(bits);
        }
        let (operand, from) = (self.scratch(&[]), self.source());
        self.asm.i(Op::Bseti, operand, from, 31);
        self.asm.word(with_base(bits, operand));
    }

    /// Whether `op` may have any operands; else bit 31 of the first must be set.
    fn stands_alone(&self, op: Op) -> bool {
        op != Op::Ctzw || !self.target.excludes(Exclusion::CtzwOfZero)
    }

    /// An integer operation that may have any operands.
    pub(super) fn any_integer_op(&mut self) -> Op {
        loop {
            let op = self.random.pick(&self.tables.integer);
            if self.stands_alone(op) {
                return op;
            }
        }
    }

    /// One compressed integer operation.
    pub(super) fn compressed_integer(&mut self) {
        let ops = self.tables.compressed_ops(|class| class == Class::Alu);
        let op = self.random.pick(&ops);
        if let Some(half) = self.fill_short(op, |_, _| true) {
            self.asm.half(half);
        }
    }

    /// One floating-point operation.
    pub(super) fn float(&mut self) {
        let op = self.random.pick(&self.tables.float);
        let bits = self.fill(op);
        self.asm.word(bits);
    }

    /// A new value for an integer register.
    pub(super) fn refresh_integer(&mut self) {
        let register = self.destination();
        let offset = self.pool_offset();
        self.asm.i(Op::Ld, register, GP, offset);
    }

    /// A new value for a floating-point register.
    pub(super) fn refresh_float(&mut self) {
        let register = self.source();
        let offset = self.pool_offset();
        let op = self.random.pick(&[Op::Fld, Op::Fld, Op::Flw]);
        self.asm.i(op, register, GP, offset);
    }
}
