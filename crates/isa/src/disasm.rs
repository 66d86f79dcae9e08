//! Text of instructions, as GNU objdump 2.40 prints it with `-M no-aliases`.

use crate::decode::{field, length};
use crate::inst::SINK;
use crate::{Inst, compressed, csr, decode};

const INTEGER: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4",
    "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4",
    "t5", "t6",
];

const FLOAT: [&str; 32] = [
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2",
    "fa3", "fa4", "fa5", "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9",
    "fs10", "fs11", "ft8", "ft9", "ft10", "ft11",
];

/// Name of a register slot by the calling convention.
///
/// # Panics
/// When `slot` is not a slot of a decoded instruction.
#[must_use]
pub fn register_name(slot: u8) -> &'static str {
    match slot {
        SINK => INTEGER[0],
        0..=31 => INTEGER[usize::from(slot)],
        _ => FLOAT[usize::from(slot) - 32],
    }
}

/// Text of the instruction at the start of `bits`, which stands at address `pc`; bytes beyond its
/// length are ignored. What is no instruction of this machine is printed as data.
#[must_use]
pub fn disassemble(bits: u32, pc: u64) -> String {
    if length(bits as u16) == 2 {
        return short(bits as u16, pc);
    }
    let Some((encoding, inst)) = decode::lookup(bits) else {
        return format!(".4byte {bits:#x}");
    };
    let mut name = encoding.mnemonic.to_owned();
    if encoding.operands.contains('A') {
        name += ["", ".rl", ".aq", ".aqrl"][usize::from(inst.rm())];
    }
    with_operands(name, encoding.operands, |letter| operand(letter, &inst, pc))
}

fn short(half: u16, pc: u64) -> String {
    match compressed::lookup(half) {
        Some((line, inst)) => {
            let text = |letter| short_operand(letter, &inst, pc);
            with_operands(line.mnemonic.to_owned(), line.operands, text)
        }
        // Reserved for good, so that jumps into zeroed memory trap.
        None if half == 0 => "c.unimp".to_owned(),
        None => format!(".2byte {half:#x}"),
    }
}

/// Joins the operands that have a text with commas.
fn with_operands(
    mut text: String,
    operands: &str,
    operand: impl Fn(char) -> Option<String>,
) -> String {
    let mut separator = ' ';
    for word in operands
        .chars()
        .filter(|&letter| letter != ',')
        .filter_map(operand)
    {
        text.push(separator);
        text += &word;
        separator = ',';
    }
    text
}

fn target(inst: &Inst, pc: u64) -> String {
    format!("{:#x}", pc.wrapping_add(inst.imm as u64))
}

fn address(inst: &Inst) -> String {
    format!("{}({})", inst.imm, register_name(inst.rs1))
}

/// The 20 bits that `lui` and `auipc` place.
fn upper(inst: &Inst) -> String {
    format!("{:#x}", inst.imm as u32 >> 12)
}

fn operand(letter: char, inst: &Inst, pc: u64) -> Option<String> {
    Some(match letter {
        'd' | 'c' | 'C' | 'D' => register_name(inst.rd).to_owned(),
        's' | 'S' => register_name(inst.rs1).to_owned(),
        't' | 'w' | 'T' => register_name(inst.rs2).to_owned(),
        'R' => register_name(inst.rs3).to_owned(),
        'j' => inst.imm.to_string(),
        'l' | 'q' => address(inst),
        'A' | 'b' => format!("({})", register_name(inst.rs1)),
        '>' | '<' => format!("{:#x}", inst.imm),
        'u' => upper(inst),
        'p' | 'a' => target(inst, pc),
        'E' => {
            csr::name(inst.imm as u16 & 0xfff).unwrap_or_else(|| format!("{:#x}", inst.imm & 0xfff))
        }
        'Z' => field(inst.imm as u32, 12, 5).to_string(),
        'f' => format!("{},{}", fence_set(inst.imm >> 4), fence_set(inst.imm)),
        'm' => return rounding_mode(inst.rm(), 7),
        'n' => return rounding_mode(inst.rm(), 0),
        _ => return None,
    })
}

fn short_operand(letter: char, inst: &Inst, pc: u64) -> Option<String> {
    Some(match letter {
        'd' => register_name(inst.rd).to_owned(),
        's' => register_name(inst.rs1).to_owned(),
        't' => register_name(inst.rs2).to_owned(),
        'j' => inst.imm.to_string(),
        'o' => address(inst),
        'p' => target(inst, pc),
        '>' => format!("{:#x}", inst.imm),
        'u' => upper(inst),
        _ => return None,
    })
}

/// The rounding mode, unless it is the one that goes without saying.
fn rounding_mode(mode: u8, usual: u8) -> Option<String> {
    const NAMES: [&str; 8] = [
        "rne", "rtz", "rdn", "rup", "rmm", "unknown", "unknown", "dyn",
    ];
    (mode != usual).then(|| NAMES[usize::from(mode)].to_owned())
}

/// Predecessor or successor set: input, output, reads, writes.
fn fence_set(bits: i32) -> String {
    let letters = [(8, 'i'), (4, 'o'), (2, 'r'), (1, 'w')];
    let set: String = letters
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|&(_, l)| l)
        .collect();
    if set.is_empty() {
        "unknown".to_owned()
    } else {
        set
    }
}
