//! An assembler for test programs: one instruction a line, labels, `.rept n` ... `.endr`, `.line` (which fills
//! up with nops to the start of a 64-byte line), `.word n`, and a few pseudo-instructions.
//!
//! Mnemonics and opcodes are those of `loiter_isa`; nothing is compressed, so every instruction has four bytes.
//!
//! Beside instructions: `nop`, `li rd, n`, `mv rd, rs`, `j label`, `beqz`/`bnez rs, label`; branch targets may be `.+n`;
//! `mark rs` leaves the work mark "begins" with the value of rs, `end rs` the mark "ends" (neither takes any time);
//! atomics end in `.aq`, `.rl` or `.aqrl` where they are so ordered;
//! `exit` ends the run by the test finisher.

use std::collections::HashMap;

use loiter_isa::Op;

/// The test finisher, and what makes it end a run with code 0.
const FINISHER: i64 = 0x10_0000;
const PASS: i64 = 0x5555;

/// The machine code of `source`, to be loaded at `base`.
pub fn assemble(source: &str, base: u64) -> Vec<u32> {
    assemble_with_labels(source, base).0
}

/// The same, and the address of each label.
pub fn assemble_with_labels(source: &str, base: u64) -> (Vec<u32>, HashMap<String, u64>) {
    let lines = expand(source);
    let mut labels = HashMap::new();
    // Lengths do not depend on labels, so a first pass without them finds where everything is.
    for resolve in [false, true] {
        let mut words = Vec::new();
        for line in &lines {
            if let Some(label) = line.strip_suffix(':') {
                labels.insert(label.to_owned(), base + 4 * words.len() as u64);
                continue;
            }
            let mut line = Line::new(line, base + 4 * words.len() as u64, &labels, resolve);
            line.assemble();
            words.extend(line.words);
        }
        if resolve {
            return (words, labels);
        }
    }
    unreachable!("the second pass returns")
}

/// Lines without comments, repetitions written out.
fn expand(source: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut repeat: Option<(usize, usize)> = None;
    let without_comments = source
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    for mut line in without_comments.flat_map(|line| line.split(';')) {
        while let Some((label, rest)) = line.split_once(':') {
            out.push(format!("{}:", label.trim()));
            line = rest;
        }
        line = line.trim();
        if let Some(times) = line.strip_prefix(".rept ") {
            repeat = Some((times.trim().parse().expect("a count"), out.len()));
        } else if line == ".endr" {
            let (times, from) = repeat.take().expect(".rept before .endr");
            let block = out.split_off(from);
            (0..times).for_each(|_| out.extend_from_slice(&block));
        } else if !line.is_empty() {
            out.push(line.to_owned());
        }
    }
    out
}

struct Line<'a> {
    mnemonic: &'a str,
    operands: Vec<&'a str>,
    pc: u64,
    labels: &'a HashMap<String, u64>,
    /// Whether labels are known.
    resolve: bool,
    words: Vec<u32>,
}

impl<'a> Line<'a> {
    fn new(line: &'a str, pc: u64, labels: &'a HashMap<String, u64>, resolve: bool) -> Self {
        let (mnemonic, rest) = line.split_once(' ').unwrap_or((line, ""));
        Self {
            mnemonic,
            operands: rest
                .split(',')
                .map(str::trim)
                .filter(|operand| !operand.is_empty())
                .collect(),
            pc,
            labels,
            resolve,
            words: Vec::new(),
        }
    }

    fn assemble(&mut self) {
        match self.mnemonic {
            "nop" => self.i("addi", 0, 0, 0),
            ".word" => self.words.push(number(self.operands[0]) as u32),
            ".line" => {
                while !(self.pc + 4 * self.words.len() as u64).is_multiple_of(64) {
                    self.i("addi", 0, 0, 0);
                }
            }
            "mv" => self.i("addi", self.register(0), self.register(1), 0),
            "li" => self.load_immediate(self.register(0), number(self.operands[1])),
            "mark" => self.i("slti", 0, self.value(), 0x03),
            "end" => self.i("slti", 0, self.value(), 0x04),
            "j" => self.jump(0, 0),
            "beqz" => self.branch("beq", self.register(0), 0, 1),
            "bnez" => self.branch("bne", self.register(0), 0, 1),
            "exit" => {
                self.load_immediate(31, FINISHER);
                self.load_immediate(30, PASS);
                self.s("sw", 30, 31, 0);
            }
            _ => self.instruction(),
        }
    }

    fn instruction(&mut self) {
        let (mnemonic, order) = without_order(self.mnemonic);
        let (pattern, mask) = pattern(mnemonic);
        let operands = self.operands.len();
        match pattern & 0x7f {
            // Register forms; floating point with the dynamic rounding mode where it has one.
            0x33 | 0x3b | 0x53 | 0x43 => {
                let third = if operands > 3 { self.register(3) } else { 0 };
                let second = if operands > 2 { self.register(2) } else { 0 };
                let rounding = if mask >> 12 & 7 == 0 { 7 } else { 0 };
                let registers = self.register(0) << 7 | self.register(1) << 15 | second << 20;
                self.words
                    .push(pattern | registers | third << 27 | rounding << 12);
            }
            0x13 | 0x1b => {
                let immediate = if operands > 2 {
                    number(self.operands[2])
                } else {
                    0
                };
                self.i(mnemonic, self.register(0), self.register(1), immediate);
            }
            0x03 | 0x07 | 0x67 => {
                let (offset, base) = self.address(1);
                self.i(mnemonic, self.register(0), base, offset);
            }
            0x23 | 0x27 => {
                let (offset, base) = self.address(1);
                self.s(mnemonic, self.register(0), base, offset);
            }
            0x17 | 0x37 => {
                let immediate = number(self.operands[1]) as u32;
                self.words
                    .push(pattern | self.register(0) << 7 | immediate << 12);
            }
            0x63 => self.branch(mnemonic, self.register(0), self.register(1), 2),
            // The hardware lock.
            0x0b if operands == 3 => {
                let (_, base) = self.address(0);
                self.branch(mnemonic, base, self.register(1), 2);
            }
            0x0b => {
                let (_, base) = self.address(0);
                self.words.push(pattern | base << 15);
            }
            0x6f => self.jump(self.register(0), 1),
            0x2f => {
                let (_, base) = self.address(operands - 1);
                let source = if operands > 2 { self.register(1) } else { 0 };
                self.words.push(
                    pattern | self.register(0) << 7 | base << 15 | source << 20 | order << 25,
                );
            }
            0x0f if operands == 2 => {
                let sets = access_set(self.operands[0]) << 4 | access_set(self.operands[1]);
                self.words.push(pattern | sets << 20);
            }
            0x73 if operands == 2 => {
                let registers = self.register(0) << 15 | self.register(1) << 20;
                self.words.push(pattern | registers);
            }
            0x73 if operands == 3 => {
                let csr = number(self.operands[1]);
                self.i(mnemonic, self.register(0), self.register(2), csr);
            }
            _ => {
                assert_eq!(operands, 0, "{mnemonic}: a form that is not known here");
                self.words.push(pattern);
            }
        }
    }

    /// `lui` and `addi` for 32 bits; from the top, twelve bits at a time, for more.
    fn load_immediate(&mut self, rd: u32, value: i64) {
        if i64::from(value as i32) == value {
            let high = (value as i32).wrapping_add(0x800) >> 12;
            let low = value - (i64::from(high) << 12);
            if high == 0 {
                return self.i("addi", rd, 0, low);
            }
            self.words
                .push(pattern("lui").0 | rd << 7 | (high as u32) << 12);
            return self.i("addiw", rd, rd, low as i32 as i64);
        }
        let low = value << 52 >> 52;
        self.load_immediate(rd, (value.wrapping_sub(low)) >> 12);
        self.i("slli", rd, rd, 12);
        self.i("addi", rd, rd, low);
    }

    fn i(&mut self, mnemonic: &str, rd: u32, rs1: u32, immediate: i64) {
        let field = (immediate as u32 & 0xfff) << 20;
        self.words
            .push(pattern(mnemonic).0 | rd << 7 | rs1 << 15 | field);
    }

    fn s(&mut self, mnemonic: &str, rs2: u32, rs1: u32, offset: i64) {
        let offset = offset as u32;
        let field = (offset >> 5 & 0x7f) << 25 | (offset & 0x1f) << 7;
        self.words
            .push(pattern(mnemonic).0 | rs1 << 15 | rs2 << 20 | field);
    }

    fn branch(&mut self, mnemonic: &str, rs1: u32, rs2: u32, target: usize) {
        let offset = self.target(target);
        assert!((-4096..4096).contains(&offset), "{mnemonic}: too far");
        let bits = offset as u32;
        let field = (bits >> 12 & 1) << 31
            | (bits >> 5 & 0x3f) << 25
            | (bits >> 1 & 0xf) << 8
            | (bits >> 11 & 1) << 7;
        self.words
            .push(pattern(mnemonic).0 | rs1 << 15 | rs2 << 20 | field);
    }

    fn jump(&mut self, rd: u32, target: usize) {
        let bits = self.target(target) as u32;
        let field = (bits >> 20 & 1) << 31
            | (bits >> 1 & 0x3ff) << 21
            | (bits >> 11 & 1) << 20
            | (bits >> 12 & 0xff) << 12;
        self.words.push(pattern("jal").0 | rd << 7 | field);
    }

    /// Distance to a label, or the n of `.+n`.
    fn target(&self, operand: usize) -> i64 {
        let text = self.operands[operand];
        if let Some(offset) = text.strip_prefix('.') {
            return number(offset.trim_start_matches('+'));
        }
        match self.labels.get(text) {
            Some(&label) => label.wrapping_sub(self.pc) as i64,
            None => {
                assert!(!self.resolve, "no label {text}");
                0
            }
        }
    }

    /// The register whose value a mark takes; x0 when it names none.
    fn value(&self) -> u32 {
        if self.operands.is_empty() {
            0
        } else {
            self.register(0)
        }
    }

    fn register(&self, operand: usize) -> u32 {
        let text = *self
            .operands
            .get(operand)
            .unwrap_or_else(|| panic!("{}: too few operands", self.mnemonic));
        register(text)
    }

    /// `offset(register)`.
    fn address(&self, operand: usize) -> (i64, u32) {
        let text = self.operands[operand].trim_end_matches(')');
        let (offset, base) = text.split_once('(').expect("offset(register)");
        let offset = if offset.is_empty() { 0 } else { number(offset) };
        (offset, register(base))
    }
}

/// A mnemonic without the order that it ends with, if it is of an atomic, and that order.
fn without_order(mnemonic: &str) -> (&str, u32) {
    let orders = [(".aqrl", 3), (".aq", 2), (".rl", 1)].into_iter();
    let mut found = orders.filter_map(|(word, bits)| Some((mnemonic.strip_suffix(word)?, bits)));
    found.next().unwrap_or((mnemonic, 0))
}

fn pattern(mnemonic: &str) -> (u32, u32) {
    Op::ALL
        .iter()
        .find(|op| op.mnemonic() == mnemonic)
        .and_then(|op| op.pattern())
        .unwrap_or_else(|| panic!("no instruction {mnemonic}"))
}

/// Integer registers as `x7` and by their usual names, floating-point ones as `f7`.
fn register(text: &str) -> u32 {
    let (kind, number) = text.split_at(1);
    let number = number.parse::<u32>().ok();
    match (kind, number) {
        ("x" | "f", Some(n)) => n,
        ("a", Some(n)) => 10 + n,
        ("t", Some(n)) if n < 3 => 5 + n,
        ("t", Some(n)) => 25 + n,
        ("s", Some(n)) if n < 2 => 8 + n,
        ("s", Some(n)) => 16 + n,
        _ => panic!("no register {text}"),
    }
}

fn number(text: &str) -> i64 {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    let value = value.unwrap_or_else(|_| panic!("no number: {text}")) as i64;
    // The least number has no positive counterpart: its digits already wrapped to itself.
    if negative {
        value.wrapping_neg()
    } else {
        value
    }
}

/// The letters of a fence's operand.
fn access_set(text: &str) -> u32 {
    text.chars().fold(0, |set, letter| {
        set | match letter {
            'i' => 8,
            'o' => 4,
            'r' => 2,
            'w' => 1,
            _ => panic!("no kind of access: {letter}"),
        }
    })
}

#[test]
fn what_is_assembled_disassembles_to_the_same() {
    let text = [
        "lbu t0,5(a0)",
        "sd s3,-8(t6)",
        "add a1,a2,a3",
        "clz a1,a2",
        "slli t1,t1,0xc",
        "csrrs a0,cycle,zero",
        "fdiv.d fa0,fa1,fa2",
        "fmadd.s fa0,fa1,fa2,fa3",
        "fsd fa0,16(a0)",
        "amoadd.d a0,a1,(a2)",
        "lr.d a0,(a1)",
        "fence rw,w",
        "wfi",
        "bne a0,a1,0x80000024",
        "jal ra,0x80000008",
        "lock.acquire (a0),a1,0x80000024",
        "lock.release (a0)",
    ];
    // The names that this assembler takes for those that the disassembler writes.
    let source = |line: &str| {
        let line = line.replace("fa", "f1").replace("zero", "x0");
        let line = line.replace("cycle", "0xc00").replace("ra,", "x1,");
        line.replace("(a0),a1,0x80000024", "(a0), a1, .-24")
            .replace("0x80000024", ".-16")
            .replace("0x80000008", ".-48")
    };
    let lines: Vec<String> = text.iter().map(|line| source(line)).collect();
    let words = assemble(&lines.join("\n"), 0x8000_0000);
    assert_eq!(words.len(), text.len());
    for (n, (word, expected)) in words.iter().zip(text).enumerate() {
        let got = loiter_isa::disassemble(*word, 0x8000_0000 + 4 * n as u64);
        assert_eq!(got, expected);
    }
    for value in [0, -1, 2047, 2048, -2049, 0x7fff_ffff, 0x8010_0000, i64::MAX] {
        assert_eq!(evaluate(&assemble(&format!("li a0, {value}"), 0)), value);
    }
}

/// What a sequence of `lui`, `addi`, `addiw`, `slli` leaves in its register.
#[cfg(test)]
fn evaluate(words: &[u32]) -> i64 {
    words.iter().fold(0, |value: i64, word| {
        let inst = loiter_isa::decode(*word);
        let (base, imm) = (if inst.rs1 == 0 { 0 } else { value }, i64::from(inst.imm));
        match inst.op {
            Op::Lui => imm,
            Op::Addi => base.wrapping_add(imm),
            Op::Addiw => i64::from(base.wrapping_add(imm) as i32),
            Op::Slli => base << imm,
            other => panic!("{other:?}"),
        }
    })
}
