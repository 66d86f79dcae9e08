//! Instructions that raise exceptions, one at a time; the handlers continue after them.

use loiter_isa::{Op, SINK, decode};

use super::asm::RA;
use super::exclusions::Exclusion;
use super::memory::{bytes_of, with_base};
use super::state::{FS, MSTATUS};
use super::writer::{Mode, Writer};

/// Addresses at which neither QEMU's virt machine (with 128 MiB) nor loiter has anything.
const NOWHERE: [i64; 4] = [0x0800_0000, 0x1800_0000, 0x8800_0000, 0x1_8000_0000];

/// Encodings that neither knows: all zeros and ones, custom opcodes, reserved functions.
const ILLEGAL: [u32; 8] = [
    0xffff_ffff,
    0x0000_300b,
    0x0000_002b,
    0x0000_201b,
    0x8000_0033,
    0x0000_2063,
    0x0000_7003,
    0x0000_4023,
];

/// Compressed encodings that are reserved: all zeros, c.addiw and c.lwsp of x0, c.lui of 0.
const ILLEGAL_SHORT: [u16; 4] = [0x0000, 0x2001, 0x4002, 0x6081];

/// Registers of the vector unit, the hypervisor, the entropy source and RV32, and custom ones.
const NO_REGISTERS: [u16; 8] = [0x008, 0x015, 0x200, 0x310, 0x5a8, 0x7c0, 0x8ff, 0xc80];

/// Registers that nobody may write.
const READ_ONLY: [u16; 4] = [0xc00, 0xc02, 0xf11, 0xf14];

/// Registers of machine mode, and one of supervisor mode.
const PRIVILEGED: [u16; 4] = [MSTATUS, 0x340, 0xf14, 0x140];

impl Writer {
    /// One instruction that traps.
    pub(super) fn trap(&mut self) {
        match self.random.below(12) {
            0 | 1 => self.asm.bare(Op::Ecall),
            2 => self.asm.bare(Op::Ebreak),
            3 => self.asm.half(0x9002),
            4 => {
                let bits = if self.random.chance(30) {
                    self.random.pick(&ILLEGAL)
                } else {
                    self.near_miss()
                };
                self.asm.word(bits);
            }
            5 => {
                let half = self.random.pick(&ILLEGAL_SHORT);
                self.asm.half(half);
            }
            6 => self.no_register(),
            7 => self.reserved_rounding(),
            8 => self.access_nowhere(),
            9 => self.misaligned_atomic(),
            10 => self.jump_nowhere(),
            _ => self.forbidden_here(),
        }
    }

    /// An encoding that is no instruction but differs from one in few bits.
    fn near_miss(&mut self) -> u32 {
        loop {
            let op = self.random.pick(&self.tables.near);
            let (value, mask) = op.pattern().expect("in the table");
            let mut bits = value | self.random.bits() & !mask;
            for _ in 0..1 + self.random.below(3) {
                bits ^= 1 << self.random.between(2, 31);
            }
            if decode(bits).op == Op::Illegal {
                return bits;
            }
        }
    }

    pub(super) fn csr_instruction(&mut self, number: u16) {
        let op = self.random.pick(&self.tables.csrs);
        let bits = self.fill(op);
        self.asm.word(bits & 0xf_ffff | u32::from(number) << 20);
    }

    fn no_register(&mut self) {
        if self.random.chance(60) {
            let number = self.random.pick(&NO_REGISTERS);
            return self.csr_instruction(number);
        }
        let (number, register) = (self.random.pick(&READ_ONLY), self.destination());
        let value = self.source();
        let op = self.random.pick(&[Op::Csrrw, Op::Csrrwi]);
        self.asm.csr(op, register, number, value);
    }

    /// A rounding mode that does not exist.
    fn reserved_rounding(&mut self) {
        loop {
            let op = self.random.pick(&self.tables.float);
            let (value, mask) = op.pattern().expect("in the table");
            let bits = value | self.random.bits() & !mask;
            if decode(bits).op == Op::Illegal {
                return self.asm.word(bits);
            }
        }
    }

    fn nowhere(&mut self) -> i64 {
        self.random.pick(&NOWHERE) + 16 * i64::from(self.random.between(16, 1000))
    }

    fn access_nowhere(&mut self) {
        let base = self.scratch(&[]);
        // Aligned to its width, so that it is one access to all.
        let within = self.random.between(0, 15);
        let point = |writer: &mut Self, op| {
            let address = writer.nowhere() + i64::from(within & -bytes_of(op));
            writer.asm.li(base, address);
        };
        let imm = 16 * self.random.between(-10, 10);
        match self.random.below(3) {
            0 => {
                let op = self.random.pick(&self.tables.loads);
                point(self, op);
                // A load that traps writes nothing; should it, the difference shows.
                let register = self.destination();
                self.asm.i(op, register, base, imm);
            }
            1 => {
                let (op, value) = (self.random.pick(&self.tables.stores), self.source());
                point(self, op);
                self.asm.s(op, value, imm, base);
            }
            _ => {
                let atomics = &self.tables.atomics;
                let op = if self.random.chance(20) {
                    Op::LrD
                } else {
                    self.random.pick(atomics)
                };
                point(self, op);
                let bits = self.fill(op);
                self.asm.word(with_base(bits, base));
            }
        }
    }

    fn misaligned_atomic(&mut self) {
        let op = match self.random.below(10) {
            0 => Op::LrW,
            1 => Op::LrD,
            2 if !self.target.excludes(Exclusion::MisalignedStoreConditional) => Op::ScD,
            _ => self.random.pick(&self.tables.atomics),
        };
        let width = bytes_of(op);
        let base = self.scratch(&[]);
        let misaligned = self.random.between(1, width - 1);
        let offset = self.window_offset(2 * width, true) + misaligned;
        self.point(base, offset);
        let bits = self.fill(op);
        self.asm.word(with_base(bits, base));
    }

    /// The handler continues at `ra`, so that is where the jump must come from.
    fn jump_nowhere(&mut self) {
        if !self.may_write(RA) {
            return;
        }
        let (pointer, address) = (self.scratch(&[RA]), self.nowhere());
        self.asm.li(pointer, address);
        let links = |_: &Self, inst: &loiter_isa::Inst| inst.rs1 == pointer && inst.rd != SINK;
        if self.random.chance(50)
            && let Some(half) = self.fill_short(Op::Jalr, links)
        {
            return self.asm.half(half);
        }
        self.asm.i(Op::Jalr, RA, pointer, 0);
    }

    /// What only a higher mode may do; in machine mode, a floating-point access with the unit off.
    fn forbidden_here(&mut self) {
        match self.mode {
            Mode::User => match self.random.below(5) {
                0 => self.asm.bare(Op::Mret),
                1 => self.asm.bare(Op::Sret),
                2 => self.asm.bare(Op::Wfi),
                3 => self.asm.bare(Op::SfenceVma),
                _ => {
                    let number = self.random.pick(&PRIVILEGED);
                    self.csr_instruction(number);
                }
            },
            Mode::Supervisor => {
                let number = self.random.pick(&PRIVILEGED[..3]);
                if self.random.chance(30) {
                    self.asm.bare(Op::Mret);
                } else {
                    self.csr_instruction(number);
                }
            }
            Mode::Machine => {
                let mask = self.scratch(&[]);
                self.asm.li(mask, FS);
                self.asm.csr(Op::Csrrc, 0, MSTATUS, mask);
                self.nested(&[mask], Self::float);
                self.asm.csr(Op::Csrrs, 0, MSTATUS, mask);
            }
        }
    }
}
