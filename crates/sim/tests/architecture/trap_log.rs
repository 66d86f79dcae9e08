//! The log of a privileged program: reading it from QEMU's memory and from loiter's reports, and
//! comparing the two.

use loiter_isa::register_name;
use loiter_sim::RunResult;

use crate::generator::privileged::{
    INTERRUPT_SHIFT, KIND_SHIFT, Kind, LOG, LOG_END, PENDING_SHIFT, PrivilegedProgram,
    VECTOR_SHIFT, WORDS,
};
use crate::qemu::Memory;

/// Records before a difference that a report shows.
const SHOWN: usize = 12;
const SPP: u64 = 1 << 8;
const MPP_SHIFT: u32 = 11;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record(pub(crate) [u64; WORDS]);

/// A privilege mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    User,
    Supervisor,
    Machine,
}

/// What a record says of a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Trap {
    pub(crate) cause: u64,
    pub(crate) interrupt: bool,
    pub(crate) from: Level,
    pub(crate) to: Level,
}

impl Record {
    /// What it is about; none if this is no record.
    pub(crate) fn kind(&self) -> Option<Kind> {
        let number = self.0[0] >> KIND_SHIFT;
        Kind::ALL.into_iter().find(|&kind| kind as u64 == number)
    }

    /// The trap that it tells of.
    pub(crate) fn trap(&self) -> Option<Trap> {
        let (from, to) = match self.kind()? {
            Kind::Supervisor if self.0[3] & SPP != 0 => (Level::Supervisor, Level::Supervisor),
            Kind::Supervisor => (Level::User, Level::Supervisor),
            Kind::Machine => {
                let from = match self.0[3] >> MPP_SHIFT & 3 {
                    0 => Level::User,
                    1 => Level::Supervisor,
                    _ => Level::Machine,
                };
                (from, Level::Machine)
            }
            _ => return None,
        };
        Some(Trap {
            cause: self.0[0] & 0xff,
            interrupt: self.0[0] >> INTERRUPT_SHIFT & 1 != 0,
            from,
            to,
        })
    }

    /// As text for people.
    fn show(&self) -> String {
        let [first, a, b, c] = self.0;
        if let Some(trap) = self.trap() {
            let what = if trap.interrupt {
                "interrupt"
            } else {
                "exception"
            };
            let (status, pending) = (c & ((1 << PENDING_SHIFT) - 1), c >> PENDING_SHIFT);
            return format!(
                "{what} {} from {:?} to {:?} by vector {}, pc {a:x}, value {b:x}, status {status:x}, \
                 pending {pending:x}",
                trap.cause,
                trap.from,
                trap.to,
                first >> VECTOR_SHIFT & 0xff
            );
        }
        match self.kind() {
            Some(Kind::Block) => format!(
                "block {}, environment at {a:x}, protection {b:x}, satp {c:x}",
                first & 0xffff
            ),
            Some(Kind::Control) => {
                format!("registers of machine mode {a:x}, of supervisor mode {b:x}, mstatus {c:x}")
            }
            Some(Kind::Hashes) => format!("integer {a:x}, floating point {b:x}, window {c:x}"),
            Some(Kind::Registers) => {
                let first = first as u8;
                let name = |n| register_name(first + n);
                format!("{} {a:x}, {} {b:x}, {} {c:x}", name(0), name(1), name(2))
            }
            Some(Kind::Memory) => format!("memory at {a:x}: {b:x}"),
            _ => format!("{:x?}", self.0),
        }
    }
}

/// The log that a program left in QEMU's memory, as far as there is room for it: a program that runs
/// wild fills it.
pub(crate) fn from_memory(memory: &Memory) -> Vec<Record> {
    const PIECE: usize = 4096;
    let mut records = Vec::new();
    let mut at = LOG;
    while at < LOG_END {
        let words = memory.words(at, PIECE * WORDS);
        for words in words.chunks(WORDS) {
            if words[0] == 0 {
                return records;
            }
            records.push(Record(words.try_into().expect("whole records")));
        }
        at += 8 * (PIECE * WORDS) as u64;
    }
    records
}

/// The log that a program told loiter by probes.
pub(crate) fn from_reports(result: &RunResult) -> Vec<Record> {
    let values: Vec<u64> = result.reports.iter().map(|report| report.value).collect();
    assert!(values.len().is_multiple_of(WORDS));
    let records = values.chunks(WORDS);
    records
        .map(|words| Record(words.try_into().expect("whole records")))
        .collect()
}

/// The first difference, with what came before it.
pub(crate) fn first_difference(
    program: &PrivilegedProgram,
    expected: (&str, &[Record]),
    found: (&str, &[Record]),
) -> Option<String> {
    let longest = expected.1.len().max(found.1.len());
    let n = (0..longest).find(|&n| expected.1.get(n) != found.1.get(n))?;
    let mut text = format!("seed {}, record {n} differs\n", program.program.seed);
    let block = expected.1[..n.min(expected.1.len())]
        .iter()
        .rposition(|record| record.kind() == Some(Kind::Block));
    if let Some(begin) = block
        && begin + SHOWN < n
    {
        text += &format!("{begin:>8} {}\n", expected.1[begin].show());
    }
    for (m, record) in expected
        .1
        .iter()
        .enumerate()
        .take(n)
        .skip(n.saturating_sub(SHOWN))
    {
        text += &format!("{m:>8} {}\n", record.show());
    }
    for (who, records) in [expected, found] {
        let shown = records.get(n).map_or("nothing".into(), Record::show);
        text += &format!("{who:>8} {shown}\n");
    }
    Some(text)
}
