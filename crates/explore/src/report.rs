//! An exploration of a guest, as users see it.

use loiter_machine::ElfImage;
use loiter_types::VirtAddr;
use serde::Serialize;

use crate::fault::Fault;
use crate::found::{Failure, Kind, Limits, MOST_THREADS, Statistics, Step};
use crate::guest::guest;
use crate::lines::Lines;
use crate::model::Model;
use crate::program::Program;
use crate::replay::Execution;
use crate::search::explore;

/// What came of exploring a program. Numbers of steps count from 1.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The model's name.
    pub model: &'static str,
    /// Harts.
    pub harts: usize,
    /// Different states.
    pub states: u64,
    /// Steps from one to another.
    pub steps: u64,
    /// States in which all harts have ended.
    pub ends: u64,
    /// The shortest failing execution; none, if nothing fails.
    pub failure: Option<FailureReport>,
}

/// A failing execution.
#[derive(Clone, Debug, Serialize)]
pub struct FailureReport {
    /// `assertion`, `check` or `deadlock`.
    pub kind: &'static str,
    /// The hart that fails, of an assertion.
    pub hart: Option<usize>,
    /// In the order in which they become visible.
    pub steps: Vec<StepReport>,
    /// Where harts stand then that have not ended.
    pub stands: Vec<Stand>,
}

/// A step.
#[derive(Clone, Debug, Serialize)]
pub struct StepReport {
    /// Its hart.
    pub hart: usize,
    /// The address of the instruction; none, of an early write that the hart has not come to.
    pub pc: Option<u64>,
    /// Its source line.
    pub line: Option<String>,
    /// Its text.
    pub instruction: Option<String>,
    /// The address that it accesses.
    pub address: u64,
    /// How many bytes.
    pub bytes: u8,
    /// The name of what is there.
    pub symbol: Option<String>,
    /// The value that it read.
    pub read: Option<u64>,
    /// The step that wrote it; none, if it was there at the beginning.
    pub from: Option<usize>,
    /// The value that it wrote.
    pub wrote: Option<u64>,
    /// It becomes visible before something that comes before it in the program.
    pub early: bool,
}

/// Where a hart stands.
#[derive(Clone, Debug, Serialize)]
pub struct Stand {
    /// The hart.
    pub hart: usize,
    /// The instruction that is next.
    pub pc: u64,
    /// Its source line.
    pub line: Option<String>,
    /// Its text.
    pub instruction: Option<String>,
}

/// How far an exploration is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Progress {
    /// States that were looked at.
    pub states: u64,
    /// Of those that are known.
    pub known: u64,
}

/// Explores an ELF file with `harts` harts. `progress` is called now and then, and ends it by returning false. Returns the
/// failing execution beside the report, if there is one.
///
/// # Errors
/// What is wrong with the program, with its source line.
pub fn explore_guest(
    image: &ElfImage,
    elf: &[u8],
    harts: usize,
    model: Model,
    limits: &Limits,
    progress: &mut dyn FnMut(&Progress) -> bool,
) -> Result<(Report, Option<Execution>), GuestFault> {
    if harts == 0 || harts > MOST_THREADS {
        let message = format!("{harts} harts: 1 to {MOST_THREADS} can be explored");
        return Err(GuestFault::User(message));
    }
    let program = guest(image, harts);
    let context = Context {
        image,
        program: &program,
        lines: Lines::read(elf),
    };
    let mut known = |statistics: &Statistics| {
        progress(&Progress {
            states: statistics.states,
            known: statistics.known,
        })
    };
    let found = explore(&program, model, limits, &mut known).map_err(|fault| match fault {
        Fault::Interrupted => GuestFault::Interrupted,
        fault => {
            let line = fault.pc().and_then(|pc| context.line(pc));
            let line = line.map_or(String::new(), |line| format!(" ({line})"));
            GuestFault::User(format!("{fault}{line}"))
        }
    })?;
    let report = Report {
        model: model.name(),
        harts,
        states: found.statistics.states,
        steps: found.statistics.steps,
        ends: found.statistics.complete,
        failure: found.failure.as_ref().map(|it| context.failure(it)),
    };
    Ok((report, found.failure.map(|failure| failure.execution)))
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestFault {
    /// The program or the request.
    User(String),
    /// `progress` ended it.
    Interrupted,
}

struct Context<'a> {
    image: &'a ElfImage,
    program: &'a Program,
    lines: Lines<'a>,
}

impl Context<'_> {
    fn line(&self, pc: u64) -> Option<String> {
        self.lines.find(pc)
    }

    fn instruction(&self, pc: u64) -> Option<String> {
        let inst = self.program.fetch(pc)?;
        Some(loiter_isa::disassemble(inst.raw, pc))
    }

    fn symbol(&self, address: u64) -> Option<String> {
        let (name, offset) = self.image.symbols.find(VirtAddr(address))?;
        Some(match offset {
            0 => name.to_owned(),
            _ => format!("{name}+{offset:#x}"),
        })
    }

    fn failure(&self, failure: &Failure) -> FailureReport {
        let (kind, hart) = match failure.kind {
            Kind::Stopped(hart) => ("assertion", Some(hart)),
            Kind::Check => ("check", None),
            Kind::Deadlock => ("deadlock", None),
        };
        let stands = failure.stands.iter().enumerate();
        let stands = stands.filter_map(|(hart, &pc)| {
            let pc = pc?;
            Some(Stand {
                hart,
                pc,
                line: self.line(pc),
                instruction: self.instruction(pc),
            })
        });
        FailureReport {
            kind,
            hart,
            stands: stands.collect(),
            steps: failure.steps.iter().map(|step| self.step(step)).collect(),
        }
    }

    fn step(&self, step: &Step) -> StepReport {
        StepReport {
            hart: step.thread,
            pc: step.pc,
            line: step.pc.and_then(|pc| self.line(pc)),
            instruction: step.pc.and_then(|pc| self.instruction(pc)),
            address: step.location.addr,
            bytes: step.location.bytes,
            symbol: self.symbol(step.location.addr),
            read: step.read,
            from: step.from.map(|index| index + 1),
            wrote: step.wrote,
            early: step.early,
        }
    }
}
