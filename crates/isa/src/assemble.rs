//! From text to encodings: the inverse of [`disassemble`](crate::disassemble) for integer instructions of
//! 4 bytes, with the few pseudo-instructions of litmus tests.

use crate::Op;
use crate::table::ENCODINGS;

/// What is wrong with a line of assembly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssembleError {
    /// No instruction has this name, or it is a floating-point one.
    Mnemonic(String),
    /// It has this many operands, by the table.
    Operands(usize),
    /// No register, number, address, fence set or label.
    Operand(String),
    /// The number does not fit the field.
    Range(i64),
}

impl std::fmt::Display for AssembleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mnemonic(name) => write!(f, "no instruction `{name}` that can be assembled here"),
            Self::Operands(wanted) => write!(f, "it takes {wanted} operands"),
            Self::Operand(text) => write!(f, "operand `{text}` is not understood"),
            Self::Range(value) => write!(f, "{value} does not fit its field"),
        }
    }
}

impl std::error::Error for AssembleError {}

/// The number of an integer register by either of its names.
#[must_use]
pub fn integer_register(name: &str) -> Option<u8> {
    let by_number = name
        .strip_prefix('x')
        .and_then(|digits| digits.parse().ok());
    by_number.filter(|&n| n < 32).or_else(|| {
        let name = if name == "fp" { "s0" } else { name };
        (0..32).find(|&slot| crate::register_name(slot) == name)
    })
}

/// The encoding of one line of assembly. `offset_to` says how far a label is from this instruction.
///
/// # Errors
/// [`AssembleError`].
pub fn assemble(line: &str, offset_to: impl Fn(&str) -> Option<i64>) -> Result<u32, AssembleError> {
    let line = line.trim();
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let operands: Vec<&str> = match rest.trim() {
        "" => Vec::new(),
        rest => rest.split(',').map(str::trim).collect(),
    };
    let (name, operands) = expand(name, operands);
    let (plain, ordering) = split_ordering(name);
    let candidate = |mnemonic: &str| {
        ENCODINGS
            .iter()
            .find(|e| e.mnemonic == mnemonic && e.op != Op::Probe)
    };
    let unknown = || AssembleError::Mnemonic(name.to_owned());
    let (encoding, ordering) = match candidate(plain) {
        Some(encoding) if encoding.operands.contains('A') => (encoding, ordering),
        _ => (candidate(name).ok_or_else(unknown)?, 0),
    };
    let letters: Vec<char> = encoding.operands.chars().filter(|&c| c != ',').collect();
    let wanted: usize = letters.iter().map(|&letter| words(letter)).sum();
    if operands.len() != wanted {
        return Err(AssembleError::Operands(wanted));
    }
    let mut bits = encoding.value | ordering << 25;
    let mut rest = operands.iter().copied();
    for letter in letters {
        let text: Vec<&str> = rest.by_ref().take(words(letter)).collect();
        bits |= field(letter, &text, &offset_to).ok_or_else(unknown)??;
    }
    Ok(bits)
}

/// How many comma-separated words the operand of this letter is.
fn words(letter: char) -> usize {
    match letter {
        'f' => 2,
        'F' => 0,
        _ => 1,
    }
}

/// Pseudo-instructions, as GNU as expands them.
fn expand<'a>(name: &'a str, mut operands: Vec<&'a str>) -> (&'a str, Vec<&'a str>) {
    match (name, operands.len()) {
        ("nop", 0) => return ("addi", vec!["x0", "x0", "0"]),
        ("li", 2) => {
            operands.insert(1, "x0");
            return ("addi", operands);
        }
        ("mv", 2) => {
            operands.push("0");
            return ("addi", operands);
        }
        ("j", 1) => {
            operands.insert(0, "x0");
            return ("jal", operands);
        }
        ("beqz", 2) => operands.insert(1, "x0"),
        ("bnez", 2) => operands.insert(1, "x0"),
        ("fence", 0) => operands = vec!["iorw", "iorw"],
        _ => {}
    }
    let name = match name {
        "beqz" => "beq",
        "bnez" => "bne",
        name => name,
    };
    (name, operands)
}

/// A name without the ordering of an atomic, and that: bit 1 `aq`, bit 0 `rl`.
fn split_ordering(name: &str) -> (&str, u32) {
    for (suffix, ordering) in [(".aqrl", 3), (".aq.rl", 3), (".aq", 2), (".rl", 1)] {
        if let Some(plain) = name.strip_suffix(suffix) {
            return (plain, ordering);
        }
    }
    (name, 0)
}

type Field = Result<u32, AssembleError>;

fn register(text: &str, low: u32) -> Field {
    integer_register(text)
        .map(|n| u32::from(n) << low)
        .ok_or_else(|| AssembleError::Operand(text.to_owned()))
}

fn number(text: &str) -> Result<i64, AssembleError> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    let value = value.map_err(|_| AssembleError::Operand(text.to_owned()))?;
    Ok(if negative { -value } else { value })
}

fn within(value: i64, low: i64, high: i64) -> Result<u32, AssembleError> {
    if (low..=high).contains(&value) {
        Ok(value as u32)
    } else {
        Err(AssembleError::Range(value))
    }
}

fn signed12(value: i64) -> Result<u32, AssembleError> {
    within(value, -2048, 2047)
}

/// `offset(register)`, `(register)` too: the offset, and the register as rs1.
fn address(text: &str) -> Result<(i64, u32), AssembleError> {
    let wrong = || AssembleError::Operand(text.to_owned());
    let (offset, rest) = text.split_once('(').ok_or_else(wrong)?;
    let name = rest.strip_suffix(')').ok_or_else(wrong)?;
    let offset = match offset.trim() {
        "" => 0,
        digits => number(digits)?,
    };
    Ok((offset, register(name.trim(), 15)?))
}

fn fence_set(text: &str) -> Field {
    let bit = |c| match c {
        'i' => Some(8),
        'o' => Some(4),
        'r' => Some(2),
        'w' => Some(1),
        _ => None,
    };
    text.chars()
        .try_fold(0, |set, c| bit(c).map(|bit| set | bit))
        .ok_or_else(|| AssembleError::Operand(text.to_owned()))
}

/// The bits of an operand; `None` for one that only floating point and the like have.
fn field(letter: char, text: &[&str], offset_to: &impl Fn(&str) -> Option<i64>) -> Option<Field> {
    let first = text.first().copied().unwrap_or("");
    let target = || match offset_to(first) {
        Some(offset) => Ok(offset),
        None => number(first),
    };
    Some(match letter {
        'd' | 'c' => register(first, 7),
        's' => register(first, 15),
        't' => register(first, 20),
        'j' => number(first).and_then(signed12).map(|v| v << 20),
        'l' => address(first).and_then(|(offset, rs1)| Ok(signed12(offset)? << 20 | rs1)),
        'q' => address(first).and_then(|(offset, rs1)| {
            let v = signed12(offset)?;
            Ok((v >> 5 & 0x7f) << 25 | (v & 0x1f) << 7 | rs1)
        }),
        'A' | 'b' => address(first).and_then(|(offset, rs1)| within(offset, 0, 0).map(|_| rs1)),
        '>' => number(first)
            .and_then(|v| within(v, 0, 63))
            .map(|v| v << 20),
        '<' => number(first)
            .and_then(|v| within(v, 0, 31))
            .map(|v| v << 20),
        'u' => number(first)
            .and_then(|v| within(v, 0, 0xf_ffff))
            .map(|v| v << 12),
        'p' => target().and_then(|v| within(v, -4096, 4094)).map(|v| {
            (v >> 12 & 1) << 31 | (v >> 5 & 0x3f) << 25 | (v >> 1 & 0xf) << 8 | (v >> 11 & 1) << 7
        }),
        'a' => target()
            .and_then(|v| within(v, -(1 << 20), (1 << 20) - 2))
            .map(|v| {
                (v >> 20 & 1) << 31
                    | (v >> 1 & 0x3ff) << 21
                    | (v >> 11 & 1) << 20
                    | (v >> 12 & 0xff) << 12
            }),
        'f' => fence_set(first).and_then(|before| Ok(before << 24 | fence_set(text[1])? << 20)),
        'F' => Ok(0),
        _ => return None,
    })
}
