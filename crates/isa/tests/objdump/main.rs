//! Decoding and text against GNU objdump: every line of the instruction table with random operands,
//! every compressed halfword, and random words.

mod elf;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use loiter_isa::{Op, decode, disassemble, length};

const OBJDUMP: &str = "riscv64-linux-gnu-objdump";
const BASE: u64 = 0x8000_0000;

/// Our instructions as far as binutils 2.40 knows them; Zicond and Zacas came later.
const ARCH: &str = "rv64i2p1_m2p0_a2p1_f2p2_d2p2_c2p0_h1p0_zicsr2p0_zifencei2p0_zihintpause2p0_\
                    zawrs1p0_zba1p0_zbb1p0_zbs1p0";

/// Instructions that objdump prints whatever the architecture string says, and that are not ours.
const UNKNOWN_HERE: &[&str] = &["dret", "hret", "uret", "sfence.vm"];

/// Ours, unknown to binutils 2.40; `src/tests/decoding.rs` of the crate has them written out by hand.
const UNKNOWN_TO_OBJDUMP: &[&str] = &[
    "czero.eqz",
    "czero.nez",
    "amocas.w",
    "amocas.d",
    "amocas.q",
    "lock.acquire",
    "lock.release",
    "lock.wait",
];

/// Reproducible random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// What objdump says of one encoding.
struct Line {
    bits: u32,
    pc: u64,
    text: String,
}

impl Line {
    fn unknown(&self) -> bool {
        self.text.starts_with(".2byte") || self.text.starts_with(".4byte")
    }

    fn mnemonic(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }
}

/// Disassembles `encodings` with objdump, one line for each of them.
fn objdump(name: &str, encodings: &[u32]) -> Vec<Line> {
    let mut text = Vec::new();
    for &bits in encodings {
        text.extend(&bits.to_le_bytes()[..usize::from(length(bits as u16))]);
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.elf"));
    std::fs::write(&path, elf::file(ARCH, BASE, &text)).expect("write the ELF file");
    let output = Command::new(OBJDUMP)
        .args([
            "-D",
            "-z",
            "-j",
            ".text",
            "-M",
            "no-aliases",
            "-M",
            "priv-spec=1.12",
        ])
        .arg(&path)
        .output()
        .unwrap_or_else(|e| panic!("{OBJDUMP}: {e}; install binutils-riscv64-linux-gnu"));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines: Vec<Line> = String::from_utf8(output.stdout)
        .expect("UTF-8")
        .lines()
        .filter_map(parse)
        .collect();
    assert_eq!(
        lines.len(),
        encodings.len(),
        "objdump split the code otherwise"
    );
    for (line, &bits) in lines.iter().zip(encodings) {
        assert_eq!(line.bits, bits, "at {:#x}", line.pc);
    }
    lines
}

/// Reads `80000000:<tab>bits<tab>mnemonic<tab>operands`, without the comment that objdump adds
/// where it can guess an address from the code before.
fn parse(line: &str) -> Option<Line> {
    let (pc, rest) = line.split_once(":\t")?;
    let (bits, text) = rest.split_once('\t')?;
    let text = text.split(" # ").next()?.replace('\t', " ");
    let text = match text.split_once(" <") {
        // A code address: bare hexadecimal, then the symbol.
        Some((code, _)) => {
            let start = code.rfind([',', ' ']).map_or(0, |n| n + 1);
            format!("{}0x{}", &code[..start], &code[start..])
        }
        None => text,
    };
    Some(Line {
        bits: u32::from_str_radix(bits.trim(), 16).ok()?,
        pc: u64::from_str_radix(pc.trim(), 16).ok()?,
        text: text.trim().to_owned(),
    })
}

/// Encodings that the manual makes legal and objdump does not print.
fn legal_but_unknown(line: &Line) -> bool {
    match decode(line.bits).op {
        // Reserved fields of fences are to be ignored.
        Op::Fence | Op::FenceTso => line.bits & 0xf00f_8f80 != 0,
        Op::FenceI => line.bits & 0xffff_8f80 != 0,
        // Conversions that are always exact ignore their rounding mode.
        Op::FcvtDS | Op::FcvtDW | Op::FcvtDWu => line.bits & 0x7000 != 0,
        op => UNKNOWN_TO_OBJDUMP.contains(&op.mnemonic()),
    }
}

/// Encodings that objdump prints and that are not legal.
fn printed_but_illegal(line: &Line) -> bool {
    UNKNOWN_HERE.contains(&line.mnemonic())
        // Reserved rounding modes.
        || line.text.ends_with(",unknown")
        // The all-zero halfword has a name of its own, and adding 0 to sp is reserved.
        || line.text == "c.unimp"
        || line.text == "c.addi16sp sp,0"
}

/// Compares and gives for each mnemonic the number of lines that agree.
fn compare(lines: &[Line]) -> BTreeMap<&str, usize> {
    let mut agreed = BTreeMap::new();
    let mut errors = Vec::new();
    for line in lines {
        let ours = disassemble(line.bits, line.pc);
        let legal = decode(line.bits).op != Op::Illegal;
        let agrees = match (legal, line.unknown()) {
            (true, true) => legal_but_unknown(line),
            (false, false) => printed_but_illegal(line),
            (true, false) => ours == line.text,
            (false, true) => ours == line.text,
        };
        if !agrees {
            errors.push(format!(
                "{:08x}: objdump `{}`, ours `{ours}`",
                line.bits, line.text
            ));
        } else if legal && !line.unknown() {
            *agreed.entry(line.mnemonic()).or_insert(0) += 1;
        }
    }
    let shown = errors
        .iter()
        .take(40)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        errors.is_empty(),
        "{} of {} differ:\n{shown}",
        errors.len(),
        lines.len()
    );
    agreed
}

#[test]
fn every_line_of_the_table_agrees() {
    const EACH: usize = 300;
    let mut random = Random(1);
    let mut encodings = Vec::new();
    for op in Op::ALL {
        let (value, mask) = op.pattern().expect("all of the table have a pattern");
        for n in 0..EACH {
            // Fields of all zeros and all ones are common at corners and rare at random.
            let fill = match n {
                0 => 0,
                1 => u32::MAX,
                _ => random.next() as u32 & if n % 4 == 0 { random.next() as u32 } else { !0 },
            };
            encodings.push(value | fill & !mask);
        }
    }
    let lines = objdump("table", &encodings);
    let agreed = compare(&lines);
    for op in Op::ALL {
        let name = op.mnemonic();
        let any = agreed.iter().any(|(mnemonic, _)| {
            mnemonic
                .strip_prefix(name)
                .is_some_and(|s| matches!(s, "" | ".aq" | ".rl" | ".aqrl"))
        });
        assert!(
            any || UNKNOWN_TO_OBJDUMP.contains(&name),
            "{name}: nothing compared"
        );
    }
    let total: usize = agreed.values().sum();
    assert!(
        total > EACH * (Op::ALL.len() - UNKNOWN_TO_OBJDUMP.len() - 15),
        "only {total} lines compared"
    );
}

#[test]
fn every_compressed_halfword_agrees() {
    let encodings: Vec<u32> = (0..=0xffff)
        .filter(|&half| length(half as u16) == 2)
        .collect();
    let lines = objdump("compressed", &encodings);
    let agreed = compare(&lines);
    let total: usize = agreed.values().sum();
    assert!(total > 45_000, "only {total} halfwords compared");
    assert!(agreed.len() >= 34, "only {} mnemonics", agreed.len());
}

#[test]
fn every_csr_has_the_name_objdump_gives_it() {
    let (csrrs, _) = Op::Csrrs.pattern().expect("in the table");
    let encodings: Vec<u32> = (0..4096).map(|number| csrrs | number << 20).collect();
    let lines = objdump("csr", &encodings);
    let agreed = compare(&lines);
    assert_eq!(agreed["csrrs"], 4096);
}

#[test]
fn every_privileged_word_agrees() {
    let encodings: Vec<u32> = (0..4096).map(|function| function << 20 | 0x73).collect();
    let lines = objdump("privileged", &encodings);
    let agreed = compare(&lines);
    for op in [
        "ecall", "ebreak", "mret", "sret", "wfi", "wrs.nto", "wrs.sto",
    ] {
        assert_eq!(agreed.get(op), Some(&1), "{op}");
    }
    for unknown in UNKNOWN_HERE {
        assert!(
            lines.iter().any(|line| line.mnemonic() == *unknown),
            "{unknown}: not seen"
        );
    }
}

#[test]
fn random_words_agree() {
    const WORDS: usize = 200_000;
    let mut random = Random(2);
    let mut encodings = Vec::new();
    while encodings.len() < WORDS {
        let mut word = random.next() as u32 | 3;
        // Longer than 32 bits: nothing of ours.
        if word & 0x1f == 0x1f {
            continue;
        }
        // Most of the encoding space is in few opcodes; visit the others as often.
        if encodings.len() % 2 == 0 {
            let opcodes = [0x13, 0x1b, 0x33, 0x3b, 0x2f, 0x53, 0x73];
            word = word & !0x7f | opcodes[random.next() as usize % opcodes.len()];
        }
        encodings.push(word);
    }
    let lines = objdump("random", &encodings);
    let unknown = lines.iter().filter(|line| line.unknown()).count();
    let total: usize = compare(&lines).values().sum();
    assert!(
        total > WORDS / 4 && unknown > WORDS / 10,
        "{total} legal, {unknown} unknown"
    );
}
