//! Plans: which engine runs a system, and until when, as a person writes it.
//!
//! ```text
//! plan   = step { "," step }
//! step   = phase | repeat | move
//! phase  = ( "reference" | "timing" ) [ "warm" ] [ end ]
//! repeat = "repeat" "(" phase { "," phase } ")" [ end | "for" NUMBER "times" ]
//! move   = "move" HART "to" CONTEXT [ "cold" | "warm" ]
//! end    = "until" event | "for" count
//! event  = "probe:" NAME | "symbol:" NAME | "console:" TEXT | "program" | "user"
//! count  = NUMBER [ "k" | "M" | "G" ] ( "instructions" | "cycles" )
//! ```
//!
//! `TEXT` is all up to the next comma, or the bracket that closes a repetition, or stands in double quotes. Only the last step may have no
//! end; it then lasts as long as the run. After the end of the last step the run ends. All phases of a
//! repetition have an end, and one that is timed without `warm` is a sample each time. A move takes no phase's time: while
//! harts sit in cores, it lasts until what the hart has in flight is at its end, and the others continue meanwhile. With `cold`, the
//! core that the hart comes to has nothing in its caches, translation buffers and predictors; else what is there.

use std::fmt;

use loiter_observe::MarkKind;
use serde::Serialize;

/// What executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The reference engine, which warms caches, TLBs and predictors of the cores if asked.
    Reference {
        /// Whether it does.
        warm: bool,
    },
    /// The cores of the machine, cycle by cycle.
    Timing {
        /// Whether that is to warm them for a sample.
        warm: bool,
    },
}

impl Engine {
    /// Whether harts sit in timed cores.
    #[must_use]
    pub fn is_timing(self) -> bool {
        matches!(self, Engine::Timing { .. })
    }
}

/// What ends a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A hart passes a probe.
    Probe(MarkKind),
    /// A hart comes to the address of a symbol.
    Symbol(String),
    /// A console says this.
    Console(String),
    /// A hart comes to the beginning of the program that a probe has announced.
    Program,
    /// A hart is about to execute in user mode.
    User,
    /// So many instructions of all harts have retired since the phase began.
    Instructions(u64),
    /// So many cycles have passed since the phase began.
    Cycles(u64),
}

/// A part of a run in one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What executes.
    pub engine: Engine,
    /// What ends it; none: the end of the run.
    pub end: Option<End>,
}

/// What ends a repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepeatEnd {
    /// An event or a count, as of a phase.
    End(End),
    /// So many times.
    Times(u64),
}

/// Phases that follow each other again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// The phases, at least one.
    pub phases: Vec<Phase>,
    /// What ends it; none: the end of the run.
    pub end: Option<RepeatEnd>,
}

/// A hart moves to another context, and who sits there to the one that it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The hart.
    pub hart: u16,
    /// Where it goes.
    pub context: u16,
    /// It finds nothing in the caches, translation buffers and predictors of the core there.
    pub cold: bool,
}

/// A part of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A phase.
    Phase(Phase),
    /// A repetition of phases.
    Repeat(Repeat),
    /// A hart moves.
    Move(Move),
}

impl Step {
    /// Its phases.
    #[must_use]
    pub fn phases(&self) -> &[Phase] {
        match self {
            Step::Phase(phase) => std::slice::from_ref(phase),
            Step::Repeat(repeat) => &repeat.phases,
            Step::Move(_) => &[],
        }
    }

    /// The event or the count that ends it.
    #[must_use]
    pub fn end(&self) -> Option<&End> {
        match self {
            Step::Phase(phase) => phase.end.as_ref(),
            Step::Repeat(repeat) => match &repeat.end {
                Some(RepeatEnd::End(end)) => Some(end),
                Some(RepeatEnd::Times(_)) | None => None,
            },
            Step::Move(_) => None,
        }
    }

    /// Whether it may end before the run.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        match self {
            Step::Phase(phase) => phase.end.is_some(),
            Step::Repeat(repeat) => repeat.end.is_some(),
            Step::Move(_) => true,
        }
    }
}

/// The steps of a run, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan(pub(super) Vec<Step>);

/// What a plan comes to.
#[derive(Clone, Debug, Serialize)]
pub struct PlanDescription {
    /// In the form that equal plans share.
    pub plan: String,
    /// Whether the run may end before the guest ends it.
    pub bounded: bool,
    /// Whether it needs symbols.
    pub names_symbols: bool,
    /// Whether it needs somebody in the guest to tell where a program begins or that it has ended.
    pub names_program: bool,
    /// Whether harts sit in timed cores where it ends.
    pub ends_timed: bool,
}

impl Plan {
    /// In the reference engine to the first region of interest, timed from there on.
    #[must_use]
    pub fn fast_forward() -> Self {
        Self(vec![
            Step::Phase(Phase {
                engine: Engine::Reference { warm: false },
                end: Some(End::Probe(MarkKind::RoiBegin)),
            }),
            Step::Phase(Phase {
                engine: Engine::Timing { warm: false },
                end: None,
            }),
        ])
    }

    /// The steps in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// All ends that are waited for, of steps and of phases in them.
    pub fn ends(&self) -> impl Iterator<Item = &End> {
        let phases = self.0.iter().flat_map(Step::phases);
        let of_phases = phases.filter_map(|phase| phase.end.as_ref());
        of_phases.chain(self.0.iter().filter_map(Step::end))
    }

    /// Whether it needs cores with timing.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        let needs = |phase: &Phase| phase.engine != Engine::Reference { warm: false };
        self.0.iter().flat_map(Step::phases).any(needs) || self.moves().next().is_some()
    }

    /// All moves.
    pub fn moves(&self) -> impl Iterator<Item = Move> {
        self.0.iter().filter_map(|step| match step {
            Step::Move(it) => Some(*it),
            Step::Phase(_) | Step::Repeat(_) => None,
        })
    }

    /// What others need to know of it before a run.
    #[must_use]
    pub fn describe(&self) -> PlanDescription {
        PlanDescription {
            plan: self.to_string(),
            bounded: self.0.last().is_some_and(Step::is_bounded),
            names_symbols: self.ends().any(|end| matches!(end, End::Symbol(_))),
            names_program: self.ends().any(|end| {
                let probes = [MarkKind::ProgramBegin, MarkKind::ProgramEnd];
                *end == End::Program || probes.iter().any(|&it| *end == End::Probe(it))
            }),
            ends_timed: (self.0.iter().rev())
                .find_map(|step| step.phases().last())
                .is_some_and(|phase| phase.engine.is_timing()),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Reference { warm: false } => "reference",
            Engine::Reference { warm: true } => "reference warm",
            Engine::Timing { warm: false } => "timing",
            Engine::Timing { warm: true } => "timing warm",
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Probe(kind) => write!(f, "until probe:{}", kind.word()),
            End::Symbol(name) => write!(f, "until symbol:{name}"),
            End::Console(text) => {
                let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                write!(f, "until console:\"{text}\"")
            }
            End::Program => f.write_str("until program"),
            End::User => f.write_str("until user"),
            End::Instructions(count) => write!(f, "for {count} instructions"),
            End::Cycles(count) => write!(f, "for {count} cycles"),
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.engine.fmt(f)?;
        self.end.as_ref().map_or(Ok(()), |end| write!(f, " {end}"))
    }
}

impl fmt::Display for RepeatEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RepeatEnd::End(end) => end.fmt(f),
            RepeatEnd::Times(count) => write!(f, "for {count} times"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Phase(phase) => phase.fmt(f),
            Step::Repeat(Repeat { phases, end }) => {
                write!(f, "repeat ({})", joined(phases))?;
                end.as_ref().map_or(Ok(()), |end| write!(f, " {end}"))
            }
            Step::Move(Move {
                hart,
                context,
                cold,
            }) => {
                let cold = if *cold { " cold" } else { "" };
                write!(f, "move {hart} to {context}{cold}")
            }
        }
    }
}

/// In the one form that equal plans share.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&self.0))
    }
}

fn joined(parts: &[impl fmt::Display]) -> String {
    let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
    parts.join(", ")
}
