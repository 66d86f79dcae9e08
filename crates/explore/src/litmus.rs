//! Litmus tests in the format of herd (J. Alglave, L. Maranget, M. Tautschnig, "Herding cats", TOPLAS 2014), for RISC-V:
//!
//! ```text
//! RISCV MP+fence.rw.rws
//! { 0:x5=1; 0:x6=x; 0:x7=y; 1:x6=y; 1:x8=x; }
//!  P0          | P1          ;
//!  sw x5,0(x6) | lw x5,0(x6) ;
//!  fence rw,rw | fence rw,rw ;
//!  sw x5,0(x7) | lw x7,0(x8) ;
//! exists (1:x5=1 /\ 1:x7=0)
//! ```

use std::collections::{BTreeMap, BTreeSet};

use loiter_isa::{AssembleError, assemble};

use crate::condition::{Condition, Subject};
use crate::fault::Fault;
use crate::found::{Exploration, Limits, Outcome};
use crate::memory::Location;
use crate::model::Model;
use crate::program::{Entry, Program, Segment};
use crate::search::explore;

/// What the test asks of its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// Whether some outcome has it.
    Exists,
    /// Whether none has it.
    NotExists,
    /// Whether all have it.
    Forall,
}

/// A litmus test.
#[derive(Clone, Debug)]
pub struct Litmus {
    /// Its name.
    pub name: String,
    /// What runs.
    pub program: Program,
    /// What it asks.
    pub quantifier: Quantifier,
    /// Of this.
    pub condition: Condition,
    positions: BTreeMap<Subject, usize>,
}

/// What is wrong with the text of a litmus test.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LitmusError {
    /// It is for another architecture, or no litmus test.
    #[error("the first line is not `RISCV NAME`: {0}")]
    Header(String),
    /// A part is missing.
    #[error("it has no {0}")]
    Missing(&'static str),
    /// An entry of the initial state.
    #[error("initial state `{0}` is not understood")]
    Initial(String),
    /// A line of code.
    #[error("thread {0}, `{1}`: {2}")]
    Code(usize, String, AssembleError),
    /// The condition.
    #[error("condition `{0}` is not understood")]
    Condition(String),
}

/// Locations stand this far apart, from here on.
const FIRST_ADDRESS: u64 = 0x1000;
const APART: u64 = 0x100;

/// The code of the first thread, and how far those of the others are from it.
const FIRST_CODE: u64 = 0x10_0000;
const CODE_APART: u64 = 0x1_0000;

impl Litmus {
    /// Reads a test.
    ///
    /// # Errors
    /// [`LitmusError`].
    pub fn parse(text: &str) -> Result<Self, LitmusError> {
        let text = without_comments(text);
        let text = text.trim_start();
        let (header, rest) = text.split_once('\n').unwrap_or((text, ""));
        let name = header.trim().strip_prefix("RISCV ");
        let name = name.ok_or_else(|| LitmusError::Header(header.to_owned()))?;
        let (_, rest) = rest
            .split_once('{')
            .ok_or(LitmusError::Missing("initial state"))?;
        let (initial, rest) = rest
            .split_once('}')
            .ok_or(LitmusError::Missing("end of its initial state"))?;
        let (code, quantifier, condition) = split_condition(rest)?;
        let mut columns = columns(code);
        let mut state = State::default();
        for entry in initial.split(';').map(str::trim).filter(|e| !e.is_empty()) {
            state.entry(entry)?;
        }
        let value = |word: &str| state.peek(word);
        let condition = Condition::parse(condition, &value).map_err(LitmusError::Condition)?;
        let mut named = BTreeSet::new();
        condition.subjects(&mut |subject| {
            named.insert(subject.clone());
        });
        let mut program = Program::default();
        for (number, lines) in columns.iter_mut().enumerate() {
            let code = assemble_all(number, lines)?;
            let pc = FIRST_CODE + CODE_APART * number as u64;
            program.threads.push(Entry {
                pc,
                end: pc + code.len() as u64,
                registers: state.registers(number),
                ..Entry::default()
            });
            program.segments.push(Segment {
                addr: pc,
                bytes: code,
                writable: false,
            });
        }
        let positions = observe(&mut program, &named, &state)?;
        let data = state.memory(&program);
        program.segments.push(data);
        Ok(Self {
            name: name.trim().to_owned(),
            program,
            quantifier,
            condition,
            positions,
        })
    }

    /// Explores it.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn explore(&self, model: Model, limits: &Limits) -> Result<Exploration, Fault> {
        explore(&self.program, model, limits, &mut |_| true)
    }

    /// Whether its condition holds of an outcome.
    #[must_use]
    pub fn holds(&self, outcome: &Outcome) -> bool {
        self.condition
            .holds(outcome, &|subject| self.positions[subject])
    }

    /// Whether some outcome has the condition; of a `forall` test, whether some has not.
    #[must_use]
    pub fn allows(&self, exploration: &Exploration) -> bool {
        let wanted = self.quantifier != Quantifier::Forall;
        exploration
            .outcomes
            .iter()
            .any(|outcome| self.holds(outcome) == wanted)
    }

    /// What its outcomes consist of, in their order: each subject and where it stands.
    pub fn subjects(&self) -> impl Iterator<Item = (&Subject, usize)> {
        self.positions
            .iter()
            .map(|(subject, &position)| (subject, position))
    }
}

/// Text without `(* comments *)`.
fn without_comments(text: &str) -> String {
    let mut left = text;
    let mut kept = String::new();
    while let Some((before, rest)) = left.split_once("(*") {
        kept += before;
        left = rest.split_once("*)").map_or("", |(_, after)| after);
    }
    kept + left
}

fn split_condition(text: &str) -> Result<(&str, Quantifier, &str), LitmusError> {
    let quantifiers = [
        ("~exists", Quantifier::NotExists),
        ("forall", Quantifier::Forall),
        ("exists", Quantifier::Exists),
    ];
    let found = quantifiers
        .iter()
        .find_map(|&(word, quantifier)| text.find(word).map(|at| (at, word, quantifier)));
    let (at, word, quantifier) = found.ok_or(LitmusError::Missing("condition"))?;
    let code = text[..at].split("locations").next().unwrap_or("");
    Ok((code, quantifier, &text[at + word.len()..]))
}

/// The lines of each thread.
fn columns(code: &str) -> Vec<Vec<String>> {
    let mut columns: Vec<Vec<String>> = Vec::new();
    for row in code.split(';').map(str::trim).filter(|row| !row.is_empty()) {
        for (number, cell) in row.split('|').enumerate() {
            if columns.len() <= number {
                columns.push(Vec::new());
            }
            let cell = cell.trim();
            let is_title = columns[number].is_empty() && cell == format!("P{number}");
            if !cell.is_empty() && !is_title {
                columns[number].push(cell.to_owned());
            }
        }
    }
    columns
}

fn assemble_all(number: usize, lines: &[String]) -> Result<Vec<u8>, LitmusError> {
    let mut labels = BTreeMap::new();
    let mut instructions = Vec::new();
    for line in lines {
        let mut rest = line.as_str();
        while let Some((label, after)) = rest.split_once(':') {
            labels.insert(label.trim().to_owned(), 4 * instructions.len() as i64);
            rest = after.trim();
        }
        if !rest.is_empty() {
            instructions.push(rest.to_owned());
        }
    }
    let mut code = Vec::new();
    for (n, line) in instructions.iter().enumerate() {
        let here = 4 * n as i64;
        let offset = |label: &str| labels.get(label).map(|there| there - here);
        let bits =
            assemble(line, offset).map_err(|e| LitmusError::Code(number, line.clone(), e))?;
        code.extend(bits.to_le_bytes());
    }
    Ok(code)
}

/// The initial state: registers, values of locations, and the addresses that names have.
#[derive(Default)]
struct State {
    addresses: BTreeMap<String, u64>,
    registers: BTreeMap<(usize, u8), u64>,
    values: BTreeMap<String, u64>,
    /// Bytes of locations whose type is given.
    bytes: BTreeMap<String, u8>,
}

impl State {
    fn address(&mut self, name: &str) -> u64 {
        let next = FIRST_ADDRESS + APART * self.addresses.len() as u64;
        *self.addresses.entry(name.to_owned()).or_insert(next)
    }

    /// The value of a word that is a number or the name of a known location.
    fn peek(&self, word: &str) -> Option<u64> {
        let number = match word.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => word.parse::<i64>().ok().map(|value| value as u64),
        };
        number.or_else(|| self.addresses.get(word.trim_start_matches('&')).copied())
    }

    fn value(&mut self, word: &str) -> u64 {
        let word = word.trim();
        match self.peek(word) {
            Some(value) => value,
            None => self.address(word.trim_start_matches('&')),
        }
    }

    /// `0:x5=1`, `x=1`, `int x`, `uint64_t y = 2`, `int *p = &z`.
    fn entry(&mut self, entry: &str) -> Result<(), LitmusError> {
        let wrong = || LitmusError::Initial(entry.to_owned());
        let (left, right) = match entry.split_once('=') {
            Some((left, right)) => (left.trim(), Some(right.trim())),
            None => (entry, None),
        };
        let (kind, subject) = match left.rsplit_once([' ', '*']) {
            Some((kind, subject)) => (Some((kind, left.contains('*'))), subject.trim()),
            None => (None, left),
        };
        let value = right.map_or(0, |right| self.value(right));
        if let Some((thread, register)) = subject.split_once(':') {
            let thread = thread.trim().parse().map_err(|_| wrong())?;
            let register = loiter_isa::integer_register(register.trim()).ok_or_else(wrong)?;
            self.registers.insert((thread, register), value);
            return Ok(());
        }
        let name = subject.trim_matches(['[', ']']);
        if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
            return Err(wrong());
        }
        self.address(name);
        self.values.insert(name.to_owned(), value);
        if let Some((kind, is_pointer)) = kind {
            let bytes = if is_pointer || kind.contains("64") {
                8
            } else {
                4
            };
            self.bytes.insert(name.to_owned(), bytes);
        }
        Ok(())
    }

    fn registers(&self, thread: usize) -> Vec<(u8, u64)> {
        let own = self.registers.iter().filter(|((t, _), _)| *t == thread);
        own.map(|(&(_, register), &value)| (register, value))
            .collect()
    }

    /// Memory: all locations.
    fn memory(&self, program: &Program) -> Segment {
        let mut bytes = vec![0; (APART * self.addresses.len() as u64) as usize];
        for (name, value) in &self.values {
            let location = self.location(name, program);
            let at = (location.addr - FIRST_ADDRESS) as usize;
            let value = value.to_le_bytes();
            let len = usize::from(location.bytes);
            bytes[at..at + len].copy_from_slice(&value[..len]);
        }
        Segment {
            addr: FIRST_ADDRESS,
            bytes,
            writable: true,
        }
    }

    /// A location with the width that its type says, or else that all accesses of the program have.
    fn location(&self, name: &str, program: &Program) -> Location {
        let pcs = program
            .threads
            .iter()
            .flat_map(|t| (t.pc..t.end).step_by(4));
        let all = pcs.filter_map(|pc| program.fetch(pc));
        let widths = all
            .filter(|inst| inst.op.class().accesses())
            .filter_map(|inst| loiter_hart::access_width(inst.op));
        let mut widths: Vec<u8> = widths.map(|width| width.bytes() as u8).collect();
        widths.sort_unstable();
        widths.dedup();
        let bytes = match (self.bytes.get(name), &widths[..]) {
            (_, &[only]) => only,
            (Some(&bytes), _) => bytes,
            _ => 4,
        };
        Location {
            addr: self.addresses[name],
            bytes,
        }
    }
}

/// Lists what the condition speaks of in the program; returns where each stands in outcomes.
fn observe(
    program: &mut Program,
    named: &BTreeSet<Subject>,
    state: &State,
) -> Result<BTreeMap<Subject, usize>, LitmusError> {
    let mut order = Vec::new();
    for (number, code) in program.threads.iter_mut().enumerate() {
        for subject in named {
            if let Subject::Register(thread, register) = *subject
                && thread == number
            {
                code.observed.push(register);
                order.push(subject.clone());
            }
        }
    }
    for subject in named {
        match subject {
            Subject::Register(thread, _) if *thread >= program.threads.len() => {
                return Err(LitmusError::Condition(format!("{thread}:")));
            }
            Subject::Location(name) if !state.addresses.contains_key(name) => {
                return Err(LitmusError::Condition(name.clone()));
            }
            Subject::Location(name) => {
                program.observed.push(state.location(name, program));
                order.push(subject.clone());
            }
            Subject::Register(..) => {}
        }
    }
    Ok(order
        .into_iter()
        .enumerate()
        .map(|(n, subject)| (subject, n))
        .collect())
}
