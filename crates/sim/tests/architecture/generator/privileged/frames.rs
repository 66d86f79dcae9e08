//! The contents of the frames: data, and pages of code that any jump into them leaves again.
//!
//! A jump into a page of code comes with the link in `ra` and runs a few instructions on
//! [`RESULT`], then `ret`. At the end of a page stands an instruction that continues in the next one,
//! whatever page that is: the first half-word of each is an instruction by itself and a legal second
//! half of the one that crosses.

use loiter_isa::Op;

use super::super::asm::{Assembler, RA};
use super::super::elf::Segment;
use super::super::pool;
use super::super::random::Random;
use super::layout::{CODE_FRAMES, DATA_FRAMES, SPAN, frame};

/// The register that code in the frames writes.
pub(super) const RESULT: u8 = 15;
/// `c.ret`, `c.li x15, 0`, `c.addi x15, 0`
const RETURN: u16 = 0x8082;
const LOAD_IMMEDIATE: u16 = 0x4781;
const ADD_IMMEDIATE: u16 = 0x0781;
/// The lower half of `addi x15, x14 or x15, imm`.
const CROSSING: [u16; 2] = [0x0793, 0x8793];
/// Code between two entries of a page.
const STRIDE: u64 = 32;
/// Where the code of the page's end begins.
pub(super) const END: u64 = SPAN[0] - 8;
/// Offsets at the end of a page where instructions begin.
const END_ENTRIES: [u64; 4] = [0xff8, 0xffc, 0xffe, 0xffe];

/// Where in a page of code a jump may go; with `crossing`, only to what continues in the next page.
pub(super) fn entry(crossing: bool, random: &mut Random) -> u64 {
    if crossing {
        return random.pick(&END_ENTRIES);
    }
    match random.below(8) {
        0 => 0,
        1 => 2,
        _ => STRIDE * (1 + random.below(SPAN[0] / STRIDE - 2)),
    }
}

/// The instruction at [`END`], with `imm`.
pub(super) fn end_instruction(imm: i32) -> u32 {
    let mut asm = Assembler::new(0);
    asm.i(Op::Xori, RESULT, RESULT, imm);
    u32::from_le_bytes(asm.finish().try_into().expect("four bytes"))
}

/// All frames, as they are at the start.
pub(super) fn segments(random: &mut Random) -> Vec<Segment> {
    let data = DATA_FRAMES.iter().map(|&n| (n, false));
    let code = CODE_FRAMES.iter().map(|&n| (n, true));
    let frames = data.chain(code);
    frames
        .map(|(n, code)| Segment {
            address: frame(n),
            bytes: if code {
                code_page(random)
            } else {
                data_page(random)
            },
        })
        .collect()
}

fn data_page(random: &mut Random) -> Vec<u8> {
    (0..SPAN[0] / 8)
        .flat_map(|_| pool::interesting(random).to_le_bytes())
        .collect()
}

fn short(form: u16, random: &mut Random) -> u16 {
    // Bits 6 to 2 and 12 of the immediate; not zero.
    let low = 1 + random.below(31) as u16;
    form & !0x107c | low << 2 | (random.bits() as u16 & 1) << 12
}

fn code_page(random: &mut Random) -> Vec<u8> {
    let mut asm = Assembler::new(0);
    let form = random.pick(&[LOAD_IMMEDIATE, ADD_IMMEDIATE]);
    asm.half(short(form, random));
    while asm.here() < END {
        for _ in 0..random.below(3) {
            let imm = random.between(-2048, 2047);
            asm.i(Op::Addi, RESULT, RESULT, imm);
        }
        asm.half(short(ADD_IMMEDIATE, random));
        asm.i(Op::Jalr, 0, RA, 0);
        while !asm.here().is_multiple_of(STRIDE) && asm.here() < END {
            asm.half(RETURN);
        }
    }
    let imm = random.between(-2048, 2047);
    asm.word(end_instruction(imm));
    if random.chance(60) {
        asm.half(short(ADD_IMMEDIATE, random));
        asm.half(random.pick(&CROSSING));
    } else {
        // The page ends with a whole instruction, and the jump in its middle finds one too.
        asm.half(short(LOAD_IMMEDIATE, random));
        asm.half(short(ADD_IMMEDIATE, random));
    }
    assert_eq!(asm.here(), SPAN[0]);
    asm.finish()
}
