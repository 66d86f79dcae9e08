//! Random control flow that always ends: branches and jumps go forward, loops count.

use loiter_isa::{Op, SINK};

use super::asm::{Label, RA};
use super::writer::Writer;

/// Most rounds of a loop.
const ROUNDS: i32 = 6;

impl Writer {
    /// A branch over a few items, taken or not as the data has it.
    pub(super) fn branch_forward(&mut self) {
        let over = self.asm.label();
        if self.random.chance(40) {
            let op = self.random.pick(&[Op::Beq, Op::Bne]);
            let register = 8 + self.random.below(8) as u8;
            self.asm.short(op, register, over);
            self.few_instructions();
        } else {
            let op = self.random.pick(&self.tables.branches);
            let (first, second) = (self.source(), self.source());
            self.asm.branch(op, first, second, over);
            self.body();
        }
        self.asm.bind(over);
    }

    /// What may stand within the reach of any branch.
    fn body(&mut self) {
        if self.may_nest() {
            let count = 1 + self.random.below(4);
            self.nested(&[], |writer| writer.items(count));
        } else {
            self.few_instructions();
        }
    }

    fn few_instructions(&mut self) {
        for _ in 0..1 + self.random.below(4) {
            match self.random.below(3) {
                0 => self.integer(),
                1 => self.compressed_integer(),
                _ => self.float(),
            }
        }
    }

    /// A loop of a few rounds.
    pub(super) fn loop_back(&mut self) {
        if !self.may_nest() {
            return;
        }
        let counter = self.scratch(&[]);
        let rounds = self.random.between(1, ROUNDS);
        self.asm.li(counter, rounds.into());
        let again = self.asm.bound();
        let count = 1 + self.random.below(6);
        self.nested(&[counter], |writer| writer.items(count));
        self.asm.i(Op::Addi, counter, counter, -1);
        match self.random.below(3) {
            0 => self.asm.branch(Op::Bne, counter, 0, again),
            1 => self.asm.branch(Op::Blt, 0, counter, again),
            _ => self.asm.branch(Op::Bltu, 0, counter, again),
        }
    }

    /// A jump over bytes that are no program.
    pub(super) fn jump_over(&mut self) {
        let over = self.asm.label();
        match self.random.below(4) {
            0 => self.asm.short(Op::Jal, 0, over),
            1 => {
                let link = self.destination();
                self.asm.jal(link, over);
            }
            _ => self.jump_by_register(over),
        }
        for _ in 0..self.random.below(6) {
            let junk = self.random.bits() as u16;
            self.asm.half(junk);
        }
        self.asm.bind(over);
    }

    /// A jump to where a register says. Bit 0 of the sum of register and immediate is ignored.
    fn jump_by_register(&mut self, target: Label) {
        let pointer = self.scratch(&[]);
        self.asm.la(pointer, target);
        if self.random.chance(50)
            && let Some(half) = self.fill_short(Op::Jalr, |_, inst| inst.rs1 == pointer)
        {
            return self.asm.half(half);
        }
        let link = self.destination();
        let odd = self.random.between(0, 1);
        self.asm.i(Op::Jalr, link, pointer, odd);
    }

    /// A call of a routine of its own.
    pub(super) fn call(&mut self) {
        if !self.may_nest() {
            return;
        }
        let (routine, over) = (self.asm.label(), self.asm.label());
        let link = if self.random.chance(50) && self.may_write(RA) {
            RA
        } else {
            self.scratch(&[])
        };
        self.asm.jal(link, routine);
        self.asm.j(over);
        self.asm.bind(routine);
        let count = 1 + self.random.below(4);
        self.nested(&[link], |writer| writer.items(count));
        let returns = |_: &Self, inst: &loiter_isa::Inst| inst.rs1 == link && inst.rd == SINK;
        match self.fill_short(Op::Jalr, returns) {
            Some(half) => self.asm.half(half),
            None => self.asm.i(Op::Jalr, 0, link, 0),
        }
        self.asm.bind(over);
    }
}
