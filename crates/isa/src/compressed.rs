//! The compressed instructions: their own table, each line with its expansion.
//!
//! A line reads: mnemonic, match, mask, text operands; the expansion's [`Op`], rd, rs1, rs2 and
//! immediate; and what makes the encoding reserved. The first line that matches decides. HINT
//! encodings need no lines for their effect: the expansion writes x0, so [`SINK`], or changes
//! nothing. Shifts by 0 have one for their text.
//!
//! Text operands: `d` `s` `t` are the expansion's rd, rs1, rs2; `j` the immediate; `o` is
//! `immediate(rs1)`; `p` the branch or jump target; `>` a shift amount; `u` the upper immediate.

use crate::decode::{field, illegal, sign_extend};
use crate::inst::{f, x};
use crate::{Inst, Op, SINK};

/// Where a register slot of the expansion comes from.
#[derive(Clone, Copy)]
enum Reg {
    /// None, or x0.
    Zero,
    /// x1, the link register.
    Ra,
    /// x2, the stack pointer.
    Sp,
    /// Bits 11:7.
    High,
    /// Bits 6:2.
    Low,
    /// Bits 9:7, of x8 to x15.
    High3,
    /// Bits 4:2, of x8 to x15.
    Low3,
    /// Bits 11:7, floating point.
    HighF,
    /// Bits 6:2, floating point.
    LowF,
    /// Bits 4:2, of f8 to f15.
    Low3F,
}

impl Reg {
    fn slot(self, bits: u32) -> u8 {
        match self {
            Reg::Zero => x(0),
            Reg::Ra => x(1),
            Reg::Sp => x(2),
            Reg::High => x(field(bits, 7, 5) as u8),
            Reg::Low => x(field(bits, 2, 5) as u8),
            Reg::High3 => x(8 + field(bits, 7, 3) as u8),
            Reg::Low3 => x(8 + field(bits, 2, 3) as u8),
            Reg::HighF => f(field(bits, 7, 5) as u8),
            Reg::LowF => f(field(bits, 2, 5) as u8),
            Reg::Low3F => f(8 + field(bits, 2, 3) as u8),
        }
    }
}

/// How the bits of the immediate are strewn over the encoding.
#[derive(Clone, Copy)]
enum Imm {
    None,
    Signed6,
    Unsigned6,
    Upper,
    Addi4spn,
    Addi16sp,
    Word,
    Double,
    LoadWordSp,
    LoadDoubleSp,
    StoreWordSp,
    StoreDoubleSp,
    Jump,
    Branch,
}

impl Imm {
    fn value(self, bits: u32) -> i32 {
        // Pieces as (lowest bit in the encoding, width, lowest bit in the value).
        let gather = |pieces: &[(u32, u32, u32)]| {
            pieces.iter().fold(0, |v, &(from, width, to)| {
                v | field(bits, from, width) << to
            })
        };
        let six = gather(&[(12, 1, 5), (2, 5, 0)]);
        let unsigned = match self {
            Imm::None => 0,
            Imm::Signed6 => return sign_extend(six, 6),
            Imm::Unsigned6 => six,
            Imm::Upper => return sign_extend(six, 6) << 12,
            Imm::Addi4spn => gather(&[(11, 2, 4), (7, 4, 6), (6, 1, 2), (5, 1, 3)]),
            Imm::Addi16sp => {
                let pieces = [(12, 1, 9), (6, 1, 4), (5, 1, 6), (3, 2, 7), (2, 1, 5)];
                return sign_extend(gather(&pieces), 10);
            }
            Imm::Word => gather(&[(10, 3, 3), (6, 1, 2), (5, 1, 6)]),
            Imm::Double => gather(&[(10, 3, 3), (5, 2, 6)]),
            Imm::LoadWordSp => gather(&[(12, 1, 5), (4, 3, 2), (2, 2, 6)]),
            Imm::LoadDoubleSp => gather(&[(12, 1, 5), (5, 2, 3), (2, 3, 6)]),
            Imm::StoreWordSp => gather(&[(9, 4, 2), (7, 2, 6)]),
            Imm::StoreDoubleSp => gather(&[(10, 3, 3), (7, 3, 6)]),
            Imm::Jump => {
                let high = gather(&[(12, 1, 11), (11, 1, 4), (9, 2, 8), (8, 1, 10), (7, 1, 6)]);
                let low = gather(&[(6, 1, 7), (3, 3, 1), (2, 1, 5)]);
                return sign_extend(high | low, 12);
            }
            Imm::Branch => {
                let pieces = [(12, 1, 8), (10, 2, 3), (5, 2, 6), (3, 2, 1), (2, 1, 5)];
                return sign_extend(gather(&pieces), 9);
            }
        };
        unsigned as i32
    }
}

/// What an encoding must not have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reserved {
    Never,
    /// An immediate of 0.
    ZeroImmediate,
    /// x0 in bits 11:7.
    ZeroRegister,
}

/// One line of the table.
pub(crate) struct Compressed {
    pub(crate) mnemonic: &'static str,
    pub(crate) value: u16,
    pub(crate) mask: u16,
    pub(crate) operands: &'static str,
    op: Op,
    rd: Reg,
    rs1: Reg,
    rs2: Reg,
    immediate: Imm,
    reserved: Reserved,
}

macro_rules! compressed {
    ($($mnemonic:literal $value:literal $mask:literal $operands:literal
       $op:ident $rd:ident $rs1:ident $rs2:ident $immediate:ident $reserved:ident;)*) => {
        pub(crate) static COMPRESSED: &[Compressed] = &[$(Compressed {
            mnemonic: $mnemonic,
            value: $value,
            mask: $mask,
            operands: $operands,
            op: Op::$op,
            rd: Reg::$rd,
            rs1: Reg::$rs1,
            rs2: Reg::$rs2,
            immediate: Imm::$immediate,
            reserved: Reserved::$reserved,
        },)*];
    };
}

compressed! {
    // Quadrant 0
    "c.addi4spn" 0x0000 0xe003 "d,s,j" Addi Low3 Sp Zero Addi4spn ZeroImmediate;
    "c.fld" 0x2000 0xe003 "d,o" Fld Low3F High3 Zero Double Never;
    "c.lw" 0x4000 0xe003 "d,o" Lw Low3 High3 Zero Word Never;
    "c.ld" 0x6000 0xe003 "d,o" Ld Low3 High3 Zero Double Never;
    "c.fsd" 0xa000 0xe003 "t,o" Fsd Zero High3 Low3F Double Never;
    "c.sw" 0xc000 0xe003 "t,o" Sw Zero High3 Low3 Word Never;
    "c.sd" 0xe000 0xe003 "t,o" Sd Zero High3 Low3 Double Never;

    // Quadrant 1
    "c.addi" 0x0001 0xe003 "d,j" Addi High High Zero Signed6 Never;
    "c.addiw" 0x2001 0xe003 "d,j" Addiw High High Zero Signed6 ZeroRegister;
    "c.li" 0x4001 0xe003 "d,j" Addi High Zero Zero Signed6 Never;
    "c.addi16sp" 0x6101 0xef83 "d,j" Addi Sp Sp Zero Addi16sp ZeroImmediate;
    "c.lui" 0x6001 0xe003 "d,u" Lui High Zero Zero Upper ZeroImmediate;
    "c.srli64" 0x8001 0xfc7f "d" Srli High3 High3 Zero None Never;
    "c.srli" 0x8001 0xec03 "d,>" Srli High3 High3 Zero Unsigned6 Never;
    "c.srai64" 0x8401 0xfc7f "d" Srai High3 High3 Zero None Never;
    "c.srai" 0x8401 0xec03 "d,>" Srai High3 High3 Zero Unsigned6 Never;
    "c.andi" 0x8801 0xec03 "d,j" Andi High3 High3 Zero Signed6 Never;
    "c.sub" 0x8c01 0xfc63 "d,t" Sub High3 High3 Low3 None Never;
    "c.xor" 0x8c21 0xfc63 "d,t" Xor High3 High3 Low3 None Never;
    "c.or" 0x8c41 0xfc63 "d,t" Or High3 High3 Low3 None Never;
    "c.and" 0x8c61 0xfc63 "d,t" And High3 High3 Low3 None Never;
    "c.subw" 0x9c01 0xfc63 "d,t" Subw High3 High3 Low3 None Never;
    "c.addw" 0x9c21 0xfc63 "d,t" Addw High3 High3 Low3 None Never;
    "c.j" 0xa001 0xe003 "p" Jal Zero Zero Zero Jump Never;
    "c.beqz" 0xc001 0xe003 "s,p" Beq Zero High3 Zero Branch Never;
    "c.bnez" 0xe001 0xe003 "s,p" Bne Zero High3 Zero Branch Never;

    // Quadrant 2
    "c.slli64" 0x0002 0xf07f "d" Slli High High Zero None Never;
    "c.slli" 0x0002 0xe003 "d,>" Slli High High Zero Unsigned6 Never;
    "c.fldsp" 0x2002 0xe003 "d,o" Fld HighF Sp Zero LoadDoubleSp Never;
    "c.lwsp" 0x4002 0xe003 "d,o" Lw High Sp Zero LoadWordSp ZeroRegister;
    "c.ldsp" 0x6002 0xe003 "d,o" Ld High Sp Zero LoadDoubleSp ZeroRegister;
    "c.jr" 0x8002 0xf07f "s" Jalr Zero High Zero None ZeroRegister;
    "c.mv" 0x8002 0xf003 "d,t" Add High Zero Low None Never;
    "c.ebreak" 0x9002 0xffff "" Ebreak Zero Zero Zero None Never;
    "c.jalr" 0x9002 0xf07f "s" Jalr Ra High Zero None Never;
    "c.add" 0x9002 0xf003 "d,t" Add High High Low None Never;
    "c.fsdsp" 0xa002 0xe003 "t,o" Fsd Zero Sp LowF StoreDoubleSp Never;
    "c.swsp" 0xc002 0xe003 "t,o" Sw Zero Sp Low StoreWordSp Never;
    "c.sdsp" 0xe002 0xe003 "t,o" Sd Zero Sp Low StoreDoubleSp Never;
}

impl Compressed {
    fn expand(&self, half: u16) -> Option<Inst> {
        let bits = u32::from(half);
        let imm = self.immediate.value(bits);
        let reserved = match self.reserved {
            Reserved::Never => false,
            Reserved::ZeroImmediate => imm == 0,
            Reserved::ZeroRegister => field(bits, 7, 5) == 0,
        };
        let rd = match self.rd.slot(bits) {
            0 => SINK,
            slot => slot,
        };
        let (rs1, rs2) = (self.rs1.slot(bits), self.rs2.slot(bits));
        let inst = Inst {
            op: self.op,
            rd,
            rs1,
            rs2,
            rs3: x(0),
            len: 2,
            rm_and_mark: 0,
            imm,
            raw: bits,
        };
        (!reserved).then_some(inst)
    }
}

/// The table line of a compressed encoding that is not reserved, and its expansion.
pub(crate) fn lookup(half: u16) -> Option<(&'static Compressed, Inst)> {
    let line = COMPRESSED
        .iter()
        .find(|line| half & line.mask == line.value)?;
    Some((line, line.expand(half)?))
}

pub(crate) fn decode(half: u16) -> Inst {
    lookup(half).map_or_else(|| illegal(u32::from(half), 2), |(_, inst)| inst)
}
