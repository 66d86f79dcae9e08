//! An assembler: instructions by operation and operands, labels, and nothing else. It knows the
//! formats of the manual and takes everything else from the instruction table.

use std::collections::HashMap;
use std::sync::LazyLock;

use loiter_isa::{Op, SINK, decode};

/// The link register.
pub(crate) const RA: u8 = 1;
/// Points to a hart's data; nothing but the start-up code writes it.
pub(crate) const GP: u8 = 3;

/// A place in the program, perhaps not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// What has to be filled in once a label's address is known.
#[derive(Clone, Copy)]
enum Fixup {
    /// B format.
    Branch,
    /// J format.
    Jump,
    /// auipc and addi.
    Address,
    /// Compressed: the operation and the register that the encoding has.
    Short(Op, u8),
}

/// Machine code under construction.
pub(crate) struct Assembler {
    base: u64,
    code: Vec<u8>,
    labels: Vec<Option<u64>>,
    fixups: Vec<(usize, Label, Fixup)>,
    pub(crate) symbols: Vec<(String, u64)>,
}

/// Compressed branches and jumps by operation, register read, and distance.
static SHORT_JUMPS: LazyLock<HashMap<(Op, u8, i32), u16>> = LazyLock::new(|| {
    let halves = (0..=u16::MAX).filter(|half| half & 3 != 3);
    let jumps = halves.filter_map(|half| {
        let inst = decode(u32::from(half));
        let jumps = matches!(inst.op, Op::Beq | Op::Bne | Op::Jal) && inst.rd == SINK;
        jumps.then_some(((inst.op, inst.rs1, inst.imm), half))
    });
    jumps.collect()
});

impl Assembler {
    /// Code that begins at `base`.
    pub(crate) fn new(base: u64) -> Self {
        Self {
            base,
            code: Vec::new(),
            labels: Vec::new(),
            fixups: Vec::new(),
            symbols: Vec::new(),
        }
    }

    /// Where the next instruction goes.
    pub(crate) fn here(&self) -> u64 {
        self.base + self.code.len() as u64
    }

    /// A label to be bound later.
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Binds `label` here.
    pub(crate) fn bind(&mut self, label: Label) {
        assert!(self.labels[label.0].is_none(), "bound twice");
        self.labels[label.0] = Some(self.here());
    }

    /// A label here.
    pub(crate) fn bound(&mut self) -> Label {
        let label = self.label();
        self.bind(label);
        label
    }

    /// Names the next instruction in the symbol table.
    pub(crate) fn symbol(&mut self, name: &str) {
        self.symbols.push((name.to_owned(), self.here()));
    }

    /// Fills with `c.nop` up to a multiple of `bytes`.
    pub(crate) fn align(&mut self, bytes: u64) {
        while !self.here().is_multiple_of(bytes) {
            self.half(1);
        }
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend(bytes);
    }

    /// Four bytes.
    pub(crate) fn word(&mut self, bits: u32) {
        self.bytes(&bits.to_le_bytes());
    }

    /// Two bytes.
    pub(crate) fn half(&mut self, bits: u16) {
        self.bytes(&bits.to_le_bytes());
    }

    fn op(&mut self, op: Op, fields: u32) {
        let (value, mask) = op.pattern().expect("an instruction of the table");
        assert_eq!(fields & mask, 0, "{op:?}: a field over fixed bits");
        self.word(value | fields);
    }

    /// An instruction without operands.
    pub(crate) fn bare(&mut self, op: Op) {
        self.op(op, 0);
    }

    /// `op rd, rs1, rs2`
    pub(crate) fn r(&mut self, op: Op, rd: u8, rs1: u8, rs2: u8) {
        self.op(
            op,
            u32::from(rd) << 7 | u32::from(rs1) << 15 | u32::from(rs2) << 20,
        );
    }

    /// `op rd, rs1, imm` or `op rd, imm(rs1)`
    pub(crate) fn i(&mut self, op: Op, rd: u8, rs1: u8, imm: i32) {
        assert!((-2048..2048).contains(&imm), "{op:?}: {imm} is too far");
        self.op(
            op,
            u32::from(rd) << 7 | u32::from(rs1) << 15 | (imm as u32) << 20,
        );
    }

    /// `op rs2, imm(rs1)`
    pub(crate) fn s(&mut self, op: Op, rs2: u8, imm: i32, rs1: u8) {
        assert!((-2048..2048).contains(&imm), "{op:?}: {imm} is too far");
        let (low, high) = (imm as u32 & 0x1f, imm as u32 >> 5 & 0x7f);
        self.op(
            op,
            u32::from(rs1) << 15 | u32::from(rs2) << 20 | low << 7 | high << 25,
        );
    }

    /// `op rd, imm` with the upper 20 bits of `imm`.
    pub(crate) fn u(&mut self, op: Op, rd: u8, imm: i32) {
        self.op(op, u32::from(rd) << 7 | imm as u32 & 0xffff_f000);
    }

    /// `op rd, number, operand`; the operand is a register or the 5-bit immediate.
    pub(crate) fn csr(&mut self, op: Op, rd: u8, number: u16, operand: u8) {
        self.op(
            op,
            u32::from(rd) << 7 | u32::from(operand) << 15 | u32::from(number) << 20,
        );
    }

    /// `csrw number, rs1`
    pub(crate) fn csrw(&mut self, number: u16, rs1: u8) {
        self.csr(Op::Csrrw, 0, number, rs1);
    }

    /// `csrr rd, number`
    pub(crate) fn csrr(&mut self, rd: u8, number: u16) {
        self.csr(Op::Csrrs, rd, number, 0);
    }

    /// A conditional branch.
    pub(crate) fn branch(&mut self, op: Op, rs1: u8, rs2: u8, target: Label) {
        self.fixups.push((self.code.len(), target, Fixup::Branch));
        self.r(op, 0, rs1, rs2);
    }

    /// `jal rd, target`
    pub(crate) fn jal(&mut self, rd: u8, target: Label) {
        self.fixups.push((self.code.len(), target, Fixup::Jump));
        self.r(Op::Jal, rd, 0, 0);
    }

    /// `j target`
    pub(crate) fn j(&mut self, target: Label) {
        self.jal(0, target);
    }

    /// `c.beqz`, `c.bnez` (op and register x8 to x15) or `c.j` (`Jal` and 0).
    pub(crate) fn short(&mut self, op: Op, rs1: u8, target: Label) {
        let at = self.code.len();
        self.fixups.push((at, target, Fixup::Short(op, rs1)));
        self.half(0);
    }

    /// Address of `target` into `rd`.
    pub(crate) fn la(&mut self, rd: u8, target: Label) {
        self.fixups.push((self.code.len(), target, Fixup::Address));
        self.u(Op::Auipc, rd, 0);
        self.i(Op::Addi, rd, rd, 0);
    }

    /// `rd = value`
    pub(crate) fn li(&mut self, rd: u8, value: i64) {
        let low = (value << 52 >> 52) as i32;
        if i64::from(low) == value {
            return self.i(Op::Addi, rd, 0, low);
        }
        if let Ok(word) = i32::try_from(value) {
            self.u(Op::Lui, rd, word.wrapping_sub(low));
            return self.i(Op::Addiw, rd, rd, low);
        }
        self.li(rd, value.wrapping_sub(i64::from(low)) >> 12);
        self.i(Op::Slli, rd, rd, 12);
        self.i(Op::Addi, rd, rd, low);
    }

    /// `rd = rs`
    pub(crate) fn mv(&mut self, rd: u8, rs: u8) {
        self.i(Op::Addi, rd, rs, 0);
    }

    /// `rd`: the address after the instruction at `pc` whose low half is `low`: four bytes if its two
    /// lowest bits are set, else two.
    pub(crate) fn next_pc(&mut self, rd: u8, pc: u8, low: u8, scratch: u8) {
        self.i(Op::Andi, scratch, low, 3);
        self.i(Op::Sltiu, scratch, scratch, 3);
        self.i(Op::Slli, scratch, scratch, 1);
        self.r(Op::Sub, rd, pc, scratch);
        self.i(Op::Addi, rd, rd, 4);
    }

    /// Mixes `word` into `hash`.
    pub(crate) fn mix(&mut self, hash: u8, word: u8, factor: u8, scratch: u8) {
        self.r(Op::Xor, hash, hash, word);
        self.r(Op::Mul, hash, hash, factor);
        self.i(Op::Srli, scratch, hash, 29);
        self.r(Op::Xor, hash, hash, scratch);
    }

    /// A probe.
    pub(crate) fn probe(&mut self, code: u16, rs1: u8) {
        self.i(Op::Probe, 0, rs1, i32::from(code));
    }

    /// The address that `label` was bound to.
    pub(crate) fn address(&self, label: Label) -> u64 {
        self.labels[label.0].expect("every label is bound")
    }

    /// The finished code.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        for (at, label, fixup) in std::mem::take(&mut self.fixups) {
            let pc = self.base + at as u64;
            let distance = i32::try_from(self.address(label).wrapping_sub(pc) as i64)
                .expect("programs are small");
            self.fix(at, fixup, distance);
        }
        std::mem::take(&mut self.code)
    }

    fn fix(&mut self, at: usize, fixup: Fixup, distance: i32) {
        match fixup {
            Fixup::Branch => self.merge(at, branch_field(distance), distance),
            Fixup::Jump => self.merge(at, jump_field(distance), distance),
            Fixup::Short(op, rs1) => {
                let half = SHORT_JUMPS.get(&(op, rs1, distance));
                let half = half.unwrap_or_else(|| panic!("c.{op:?} x{rs1} over {distance}"));
                self.code[at..at + 2].copy_from_slice(&half.to_le_bytes());
            }
            Fixup::Address => {
                let low = distance << 20 >> 20;
                let high = distance.wrapping_sub(low);
                self.merge(at, high as u32, high);
                self.merge(at + 4, (low as u32) << 20, low);
            }
        }
    }

    /// Puts an immediate into the instruction at `at`, which must then decode to it.
    fn merge(&mut self, at: usize, field: u32, imm: i32) {
        let place = &mut self.code[at..at + 4];
        let bits = u32::from_le_bytes(place.try_into().expect("four bytes")) | field;
        assert_eq!(decode(bits).imm, imm, "{imm} does not fit {bits:#x}");
        place.copy_from_slice(&bits.to_le_bytes());
    }
}

fn branch_field(distance: i32) -> u32 {
    let d = distance as u32;
    (d >> 12 & 1) << 31 | (d >> 5 & 0x3f) << 25 | (d >> 1 & 0xf) << 8 | (d >> 11 & 1) << 7
}

fn jump_field(distance: i32) -> u32 {
    let d = distance as u32;
    (d >> 20 & 1) << 31 | (d >> 1 & 0x3ff) << 21 | (d >> 11 & 1) << 20 | (d >> 12 & 0xff) << 12
}
