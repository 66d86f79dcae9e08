//! The trace of retired instructions: a line for each.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use loiter_hart::{Hart, Privilege, Retired, Trapped, access_width};
use loiter_isa::{SINK, disassemble, register_name};
use loiter_machine::Machine;
use serde::Deserialize;

use super::begin::Begin;
use super::output;
use crate::error::Error;
use crate::symbols::Symbols;

/// Compression of a trace whose name ends in `.zst`: lines repeat themselves, the lowest will do.
const LEVEL: i32 = 1;

/// A trace of retired instructions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    /// Where it goes; compressed with zstd if the name ends in `.zst`.
    pub path: String,
    /// A cycle, or a symbol that any hart executes, from which on it is written, or "timing": only what timed
    /// cores execute; none: at once.
    #[serde(default)]
    pub from: Option<String>,
    /// Instructions after which it ends.
    #[serde(default)]
    pub count: Option<u64>,
}

/// Writes a trace.
pub(crate) struct Trace {
    path: String,
    /// A session can be looked at from several threads; only its owner writes.
    out: Mutex<Box<dyn Write + Send>>,
    begin: Begin,
    /// Lines that may still be written.
    left: u64,
    symbols: Arc<Symbols>,
    /// The last function: privilege, addresses, name and what comes after the offset.
    last: Option<(Privilege, Range<u64>, String)>,
    failed: Option<io::Error>,
}

impl Trace {
    /// # Errors
    /// A file that cannot be written, a symbol that nothing has.
    pub(crate) fn new(request: &TraceRequest, symbols: Arc<Symbols>) -> Result<Self, Error> {
        let path = &request.path;
        let begin = Begin::parse("--trace-from", request.from.as_deref(), &symbols)?;
        let problem =
            |error: io::Error| Error::User(format!("{path}: cannot write a trace: {error}"));
        let file = BufWriter::new(File::create(path).map_err(problem)?);
        let out: Box<dyn Write + Send> = if path.ends_with(".zst") {
            Box::new(
                zstd::Encoder::new(file, LEVEL)
                    .map_err(problem)?
                    .auto_finish(),
            )
        } else {
            Box::new(file)
        };
        Ok(Self {
            path: path.clone(),
            out: Mutex::new(out),
            begin,
            left: request.count.unwrap_or(u64::MAX),
            symbols,
            last: None,
            failed: None,
        })
    }

    /// Whether it wants to know of instructions in the page of `pc`, or with none, of any.
    pub(crate) fn wants(&self, pc: Option<u64>, is_timed: bool) -> bool {
        !self.is_over() && self.begin.may_be_in_page(pc, is_timed)
    }

    /// The cycle before which it wants to know nothing.
    pub(crate) fn not_before(&self) -> u64 {
        self.begin.not_before()
    }

    /// Whether there is nothing more to write.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0 || self.failed.is_some()
    }

    /// Writes what is still held back. Returns what went wrong, if anything did.
    pub(crate) fn end(mut self) -> Option<String> {
        let flushed = self.out().flush().err();
        let error = self.failed.or(flushed)?;
        Some(output::not_whole(&self.path, "the trace", &error))
    }

    pub(crate) fn retired(&mut self, event: &Retired<'_>, is_timed: bool) {
        if self.is_over() || !self.begin.has_come(event, is_timed) {
            return;
        }
        self.left -= 1;
        let hart = event.hart;
        let mut line = self.head(event.cycle, hart, event.machine, event.privilege, event.pc);
        line += "  ";
        line += &disassemble(event.inst.raw, event.pc);
        let inst = event.inst;
        if inst.rd != SINK && inst.rd != 0 {
            line += &format!(
                "  {}={:#x}",
                register_name(inst.rd),
                hart.regs[inst.rd as usize]
            );
        }
        if access_width(inst.op).is_some() {
            let addr = event.base.wrapping_add(inst.data_offset());
            line += &format!("  [{addr:#x}]");
        }
        self.write(line);
    }

    pub(crate) fn trapped(&mut self, event: &Trapped<'_>, is_timed: bool) {
        if self.is_over() || !self.begin.has_begun(is_timed) {
            return;
        }
        let hart = event.hart;
        let mut line = self.head(event.cycle, hart, event.machine, event.privilege, event.pc);
        line += &format!("  -- {}, on to {:#x}", event.trap, hart.pc);
        line += &self.symbols.text(hart, event.machine, hart.pc);
        self.write(line);
    }

    /// Hart, cycle, mode, address and symbol.
    fn head(
        &mut self,
        cycle: u64,
        hart: &Hart,
        machine: &Machine,
        privilege: Privilege,
        pc: u64,
    ) -> String {
        let mode = match privilege {
            Privilege::User => 'U',
            Privilege::Supervisor => 'S',
            Privilege::Machine => 'M',
        };
        let known = self
            .last
            .as_ref()
            .is_some_and(|(last, range, _)| *last == privilege && range.contains(&pc));
        if !known {
            let place = self.symbols.find(hart, machine, pc);
            self.last = place.map(|place| (privilege, place.range, place.name.to_owned()));
        }
        let symbol = match &self.last {
            Some((_, range, name)) => format!("{name}+{:#x}", pc - range.start),
            None => "?".into(),
        };
        format!("{} {cycle} {mode} {pc:#x} {symbol}", hart.id.0)
    }

    fn out(&mut self) -> &mut dyn Write {
        self.out.get_mut().expect("no other thread has written")
    }

    fn write(&mut self, mut line: String) {
        line.push('\n');
        if let Err(error) = self.out().write_all(line.as_bytes()) {
            self.failed = Some(error);
        }
    }
}
