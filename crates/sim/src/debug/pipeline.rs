//! The pipeline log: which instructions are in it, and what is said of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use loiter_cores::{InstructionId, PipelineStage, PipelineStep};
use loiter_hart::{Hart, Retired};
use loiter_isa::{Inst, disassemble};
use loiter_machine::Machine;
use loiter_observe::kanata::{Id, Kanata};
use loiter_observe::{MarkKind, Probe};
use loiter_types::{ContextId, CoreId, Cycle};
use serde::Deserialize;

use super::output::{self, Output};
use crate::error::Error;
use crate::symbols::Symbols;

const WHAT: &str = "a pipeline log";
const PROBE: &str = "probe:";

/// A log of instructions in the pipelines of timing cores.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineRequest {
    /// Where it goes, in the format of Konata; compressed with gzip if the name ends in `.gz`.
    pub path: String,
    /// Where it begins: a cycle, a symbol that any hart executes, or `probe:KIND` or
    /// `probe:KIND=VALUE` with a kind of mark; none: at once.
    #[serde(default)]
    pub from: Option<String>,
    /// Where it ends, likewise. Instructions that are fetched by then are followed to their end.
    #[serde(default)]
    pub to: Option<String>,
}

/// Where a log begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    Cycle(u64),
    Address(u64),
    Probe(MarkKind, Option<u64>),
}

impl Edge {
    /// # Errors
    /// A text that is nothing of the kind.
    fn parse(option: &str, text: &str, symbols: &Symbols) -> Result<Self, Error> {
        if let Some(probe) = text.strip_prefix(PROBE) {
            return Self::probe(probe)
                .map_err(|problem| Error::User(format!("{option} {text}: {problem}")));
        }
        match (text.parse(), symbols.address(text)) {
            (Ok(cycle), _) => Ok(Edge::Cycle(cycle)),
            (_, Some(addr)) => Ok(Edge::Address(addr)),
            _ => Err(Error::User(format!(
                "{option} {text}: neither a cycle, nor a probe ({PROBE}roi_begin, {PROBE}work_begin=3), nor a \
                 symbol of the program, the kernel or the files of --symbols"
            ))),
        }
    }

    fn probe(text: &str) -> Result<Self, String> {
        let (word, value) = match text.split_once('=') {
            Some((word, value)) => (word, Some(value)),
            None => (text, None),
        };
        let kind = MarkKind::ALL.into_iter().find(|kind| kind.word() == word);
        let kind = kind.ok_or_else(|| {
            let known = MarkKind::ALL.map(MarkKind::word);
            format!("no probe \"{word}\"; known: {}", known.join(", "))
        })?;
        let number = |text: &str| {
            let number = match text.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => text.parse(),
            };
            number.map_err(|_| format!("the value of a probe is a number, not \"{text}\""))
        };
        Ok(Edge::Probe(kind, value.map(number).transpose()?))
    }

    fn is_passed(self, probe: &Probe) -> bool {
        let (Edge::Probe(kind, wanted), Some((left, value))) = (self, MarkKind::of(probe)) else {
            return false;
        };
        kind == left && wanted.is_none_or(|wanted| wanted == value)
    }
}

/// How far a log has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has not begun.
    Waits,
    /// What is fetched goes into it.
    Takes,
    /// What is in it is followed to its end.
    Follows,
    /// There is nothing more to write.
    Over,
}

/// Writes a pipeline log.
pub(crate) struct Pipeline {
    path: String,
    log: Kanata<Output>,
    from: Option<Edge>,
    to: Option<Edge>,
    state: State,
    /// Instructions that have not ended, by context and number.
    live: BTreeMap<(ContextId, u64), Live>,
    /// Who writes a physical register.
    writers: BTreeMap<(CoreId, u16), Id>,
    symbols: Arc<Symbols>,
}

struct Live {
    id: Id,
    waits_for: [Option<Id>; 3],
}

impl Pipeline {
    /// # Errors
    /// A file that cannot be written, a place to begin or end that is none.
    pub(crate) fn new(request: &PipelineRequest, symbols: Arc<Symbols>) -> Result<Self, Error> {
        let edge = |option: &str, text: &Option<String>| {
            let text = text.as_ref();
            text.map(|text| Edge::parse(option, text, &symbols))
                .transpose()
        };
        let from = edge("--pipeline-from", &request.from)?;
        let to = edge("--pipeline-to", &request.to)?;
        if let (Some(Edge::Cycle(from)), Some(Edge::Cycle(to))) = (from, to)
            && to <= from
        {
            return Err(Error::User(format!(
                "--pipeline-to {to}: the log begins in cycle {from}; it must end in a later one"
            )));
        }
        let out = output::create(&request.path, WHAT)?;
        Ok(Self {
            path: request.path.clone(),
            log: Kanata::new(out),
            from,
            to,
            state: if from.is_some() {
                State::Waits
            } else {
                State::Takes
            },
            live: BTreeMap::new(),
            writers: BTreeMap::new(),
            symbols,
        })
    }

    /// The first cycle of which it wants to know anything.
    pub(crate) fn not_before(&self) -> Cycle {
        match (self.state, self.from) {
            (State::Over, _) => Cycle::NEVER,
            (State::Waits, Some(Edge::Cycle(cycle))) => Cycle(cycle),
            _ => Cycle(0),
        }
    }

    /// Ends the log at `now` and writes what is still held back. Returns what went wrong, if anything did.
    pub(crate) fn end(self, now: Cycle) -> Option<String> {
        let error = self.log.finish(now.0).err()?;
        Some(output::not_whole(&self.path, WHAT, &error))
    }

    /// A probe has passed.
    pub(crate) fn probe(&mut self, probe: &Probe) {
        self.pass(|edge| edge.is_passed(probe));
    }

    /// An instruction has retired.
    pub(crate) fn retired(&mut self, event: &Retired<'_>) {
        self.pass(|edge| edge == Edge::Address(event.pc));
    }

    /// Begins, or ends, if that is where it does.
    fn pass(&mut self, is_there: impl Fn(Edge) -> bool) {
        match self.state {
            State::Waits if self.from.is_some_and(&is_there) => self.state = State::Takes,
            State::Takes if self.to.is_some_and(&is_there) => self.take_no_more(),
            _ => {}
        }
    }

    fn take_no_more(&mut self) {
        self.state = State::Follows;
        self.end_if_done();
    }

    fn end_if_done(&mut self) {
        if self.log.has_failed() || self.state == State::Follows && self.live.is_empty() {
            self.state = State::Over;
        }
    }

    /// Something becomes of an instruction in `cycle`.
    pub(crate) fn step(
        &mut self,
        Cycle(now): Cycle,
        Cycle(cycle): Cycle,
        id: InstructionId,
        step: PipelineStep<'_>,
    ) {
        self.pass(|edge| matches!(edge, Edge::Cycle(edge) if now >= edge));
        self.log.advance(now);
        let key = (id.context, id.number);
        match step {
            PipelineStep::Fetched {
                hart,
                machine,
                pc,
                inst,
            } => {
                if self.state == State::Takes {
                    let (label, detail) = self.describe(hart, machine, pc, inst);
                    let id = self
                        .log
                        .begin(cycle, id.number, id.context.0, label, detail);
                    let waits_for = [None; 3];
                    self.live.insert(key, Live { id, waits_for });
                }
            }
            PipelineStep::Enters(stage) => {
                if let Some(live) = self.live.get(&key) {
                    self.log.stage(cycle, live.id, name(stage));
                }
            }
            PipelineStep::Renamed { waits_for, writes } => {
                let writer = |register| self.writers.get(&(id.core, register)).copied();
                let found = waits_for.map(|register| register.and_then(writer));
                let live = self.live.get_mut(&key);
                if let Some(register) = writes {
                    let place = (id.core, register);
                    match &live {
                        Some(live) => self.writers.insert(place, live.id),
                        None => self.writers.remove(&place),
                    };
                }
                if let Some(live) = live {
                    live.waits_for = found;
                }
            }
            PipelineStep::Wakes => {
                if let Some(live) = self.live.get_mut(&key) {
                    let producers = std::mem::take(&mut live.waits_for);
                    for (n, producer) in producers.into_iter().enumerate() {
                        if let Some(id) = producer.filter(|_| !producers[..n].contains(&producer)) {
                            self.log.wake(cycle, live.id, id);
                        }
                    }
                }
            }
            PipelineStep::Retired => {
                if let Some(live) = self.live.remove(&key) {
                    self.log.end(cycle, live.id, true);
                }
            }
            PipelineStep::Squashed => {
                let from_key = key..=(id.context, u64::MAX);
                let gone: Vec<_> = self.live.range(from_key).map(|(&key, _)| key).collect();
                for live in gone.iter().filter_map(|key| self.live.remove(key)) {
                    self.log.end(cycle, live.id, false);
                }
            }
        }
        self.end_if_done();
    }

    /// What stands at the left of an instruction, and what is shown where the mouse points.
    fn describe(&self, hart: &Hart, machine: &Machine, pc: u64, inst: &Inst) -> (String, String) {
        let label = format!("{pc:x}: {}", disassemble(inst.raw, pc));
        let symbol = self.symbols.text(hart, machine, pc);
        (label, format!("{}{symbol}", hart.id))
    }
}

/// What a stage is called in the log. The viewer draws arrows to and from the one with an X.
fn name(stage: PipelineStage) -> &'static str {
    match stage {
        PipelineStage::Fetch => "F",
        PipelineStage::Decode => "De",
        PipelineStage::Rename => "Rn",
        PipelineStage::Queue => "Iq",
        PipelineStage::Issue => "Is",
        PipelineStage::Execute => "X",
        PipelineStage::Walk => "Wk",
        PipelineStage::Memory => "Mem",
        PipelineStage::Oldest => "Wo",
        PipelineStage::Complete => "Cm",
    }
}
