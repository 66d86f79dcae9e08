//! From encodings to [`Inst`].

use std::sync::LazyLock;

use crate::inst::{f, x};
use crate::table::ENCODINGS;
use crate::{Inst, Op, SINK, compressed};

/// One line of the table, as decoding and disassembly see it.
pub(crate) struct Encoding {
    pub(crate) op: Op,
    pub(crate) mnemonic: &'static str,
    pub(crate) value: u32,
    pub(crate) mask: u32,
    pub(crate) operands: &'static str,
    fields: Fields,
}

/// Where the destination slot comes from.
#[derive(Clone, Copy)]
enum Destination {
    None,
    Integer,
    /// Integer, read as well: the third source.
    Exchanged,
    /// As `Exchanged`, the even register of a pair.
    ExchangedPair,
    Float,
}

/// Where a source slot comes from.
#[derive(Clone, Copy)]
enum Source {
    None,
    Integer,
    /// The even register of a pair.
    Pair,
    Float,
}

#[derive(Clone, Copy)]
enum Immediate {
    None,
    I,
    S,
    B,
    U,
    J,
    Shift6,
    Shift5,
    Csr,
    Fence,
}

#[derive(Clone, Copy)]
enum Mode {
    None,
    Rounding,
    Ordering,
}

/// What the operand string says to extract.
#[derive(Clone, Copy)]
struct Fields {
    rd: Destination,
    rs1: Source,
    rs2: Source,
    rs3: Source,
    immediate: Immediate,
    mode: Mode,
}

impl Fields {
    const fn parse(operands: &str) -> Self {
        let mut fields = Self {
            rd: Destination::None,
            rs1: Source::None,
            rs2: Source::None,
            rs3: Source::None,
            immediate: Immediate::None,
            mode: Mode::None,
        };
        let letters = operands.as_bytes();
        let mut n = 0;
        while n < letters.len() {
            fields = fields.with(letters[n]);
            n += 1;
        }
        fields
    }

    const fn with(mut self, letter: u8) -> Self {
        match letter {
            b'd' => self.rd = Destination::Integer,
            b'c' => self.rd = Destination::Exchanged,
            b'C' => self.rd = Destination::ExchangedPair,
            b'D' => self.rd = Destination::Float,
            b's' => self.rs1 = Source::Integer,
            b'S' => self.rs1 = Source::Float,
            b't' => self.rs2 = Source::Integer,
            b'w' => self.rs2 = Source::Pair,
            b'T' => self.rs2 = Source::Float,
            b'R' => self.rs3 = Source::Float,
            b'j' => self.immediate = Immediate::I,
            b'l' => {
                self.rs1 = Source::Integer;
                self.immediate = Immediate::I;
            }
            b'q' => {
                self.rs1 = Source::Integer;
                self.immediate = Immediate::S;
            }
            b'A' => {
                self.rs1 = Source::Integer;
                self.mode = Mode::Ordering;
            }
            b'b' => self.rs1 = Source::Integer,
            b'>' => self.immediate = Immediate::Shift6,
            b'<' => self.immediate = Immediate::Shift5,
            b'u' => self.immediate = Immediate::U,
            b'p' => self.immediate = Immediate::B,
            b'a' => self.immediate = Immediate::J,
            b'E' | b'Z' => self.immediate = Immediate::Csr,
            b'f' | b'F' => self.immediate = Immediate::Fence,
            b'm' | b'n' => self.mode = Mode::Rounding,
            b',' => {}
            _ => panic!("operand letter unknown"),
        }
        self
    }
}

impl Encoding {
    pub(crate) const fn new(
        op: Op,
        mnemonic: &'static str,
        value: u32,
        mask: u32,
        operands: &'static str,
    ) -> Self {
        assert!(
            value & !mask == 0 && value & 3 == 3,
            "match and mask disagree"
        );
        Self {
            op,
            mnemonic,
            value,
            mask,
            operands,
            fields: Fields::parse(operands),
        }
    }

    #[inline]
    pub(crate) const fn matches(&self, bits: u32) -> bool {
        bits & self.mask == self.value
    }

    /// Extracts the operands; none if a field has a reserved value.
    fn extract(&self, bits: u32) -> Option<Inst> {
        let fields = &self.fields;
        let (rd, exchanged) = destination(fields.rd, field(bits, 7, 5) as u8)?;
        let third = source(fields.rs3, field(bits, 27, 5) as u8)?;
        Some(Inst {
            op: self.op,
            rd,
            rs1: source(fields.rs1, field(bits, 15, 5) as u8)?,
            rs2: source(fields.rs2, field(bits, 20, 5) as u8)?,
            rs3: exchanged.unwrap_or(third),
            len: 4,
            rm_and_mark: match fields.mode {
                Mode::None => 0,
                Mode::Rounding if matches!(field(bits, 12, 3), 5 | 6) => return None,
                Mode::Rounding => field(bits, 12, 3) as u8,
                Mode::Ordering => field(bits, 25, 2) as u8,
            },
            imm: immediate(fields.immediate, bits),
            raw: bits,
        })
    }
}

/// The destination slot, and the third source if the destination is read too.
fn destination(kind: Destination, number: u8) -> Option<(u8, Option<u8>)> {
    let slot = if number == 0 { SINK } else { x(number) };
    Some(match kind {
        Destination::None => (SINK, None),
        Destination::Integer => (slot, None),
        Destination::Exchanged => (slot, Some(x(number))),
        Destination::ExchangedPair if number & 1 != 0 => return None,
        Destination::ExchangedPair => (slot, Some(x(number))),
        Destination::Float => (f(number), None),
    })
}

fn source(kind: Source, number: u8) -> Option<u8> {
    Some(match kind {
        Source::None => x(0),
        Source::Integer => x(number),
        Source::Pair if number & 1 != 0 => return None,
        Source::Pair => x(number),
        Source::Float => f(number),
    })
}

/// `width` bits of `bits` from bit `low` on.
#[inline(always)]
pub(crate) const fn field(bits: u32, low: u32, width: u32) -> u32 {
    (bits >> low) & ((1 << width) - 1)
}

/// The low `width` bits of `value`, sign-extended.
#[inline(always)]
pub(crate) const fn sign_extend(value: u32, width: u32) -> i32 {
    ((value << (32 - width)) as i32) >> (32 - width)
}

fn immediate(kind: Immediate, bits: u32) -> i32 {
    match kind {
        Immediate::None => 0,
        Immediate::I => bits as i32 >> 20,
        Immediate::S => sign_extend(field(bits, 25, 7) << 5 | field(bits, 7, 5), 12),
        Immediate::B => sign_extend(
            field(bits, 31, 1) << 12
                | field(bits, 7, 1) << 11
                | field(bits, 25, 6) << 5
                | field(bits, 8, 4) << 1,
            13,
        ),
        Immediate::U => (bits & 0xffff_f000) as i32,
        Immediate::J => sign_extend(
            field(bits, 31, 1) << 20
                | field(bits, 12, 8) << 12
                | field(bits, 20, 1) << 11
                | field(bits, 21, 10) << 1,
            21,
        ),
        Immediate::Shift6 => field(bits, 20, 6) as i32,
        Immediate::Shift5 => field(bits, 20, 5) as i32,
        Immediate::Csr => (field(bits, 15, 5) << 12 | field(bits, 20, 12)) as i32,
        Immediate::Fence => field(bits, 20, 12) as i32,
    }
}

/// Major opcode and funct3 together: what nearly every encoding fixes.
const BUCKETS: usize = 256;

#[inline(always)]
const fn bucket(bits: u32) -> usize {
    (field(bits, 2, 5) << 3 | field(bits, 12, 3)) as usize
}

/// For each bucket the encodings that can match in it, in table order.
static LOOKUP: LazyLock<Vec<Vec<&'static Encoding>>> = LazyLock::new(|| {
    let fits = |encoding: &Encoding, index: usize| {
        let sample = (index as u32 >> 3) << 2 | (index as u32 & 7) << 12 | 3;
        (sample ^ encoding.value) & encoding.mask & 0x707f == 0
    };
    (0..BUCKETS)
        .map(|index| ENCODINGS.iter().filter(|e| fits(e, index)).collect())
        .collect()
});

/// The table line of a 4-byte encoding whose fields all have legal values, and its operands.
pub(crate) fn lookup(bits: u32) -> Option<(&'static Encoding, Inst)> {
    let encoding = LOOKUP[bucket(bits)].iter().find(|e| e.matches(bits))?;
    Some((encoding, encoding.extract(bits)?))
}

/// Length in bytes of the instruction that starts with this halfword.
///
/// The reserved longer formats count as 4: nothing of them is legal.
#[inline(always)]
#[must_use]
pub const fn length(low16: u16) -> u8 {
    if low16 & 3 == 3 { 4 } else { 2 }
}

/// Decodes the instruction at the start of `bits`; bytes beyond its length are ignored.
#[must_use]
pub fn decode(bits: u32) -> Inst {
    if length(bits as u16) == 2 {
        return compressed::decode(bits as u16);
    }
    lookup(bits).map_or_else(|| illegal(bits, 4), |(_, inst)| inst)
}

/// What takes the place of anything that is not an instruction.
pub(crate) const fn illegal(raw: u32, len: u8) -> Inst {
    Inst {
        op: Op::Illegal,
        rd: SINK,
        rs1: 0,
        rs2: 0,
        rs3: 0,
        len,
        rm_and_mark: 0,
        imm: 0,
        raw,
    }
}
