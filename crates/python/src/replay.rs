//! A failing execution that was found by exploring, as Python has it and GDB is shown it.

use std::ops::Range;
use std::time::{Duration, Instant};

use gdbstub::common::{Signal, Tid};
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::target::ext::base::reverse_exec::ReplayLogPosition;
use loiter_explore::{Execution, FailureReport, Moment, Replay, Report, StepReport};
use loiter_isa::Op;
use loiter_sim::{DebugServer, Served};
use pyo3::prelude::*;

use crate::{Interrupted, call, to_json, to_python};

/// Between two looks whether to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A failing execution.
#[pyclass(unsendable, module = "loiter._native")]
pub(crate) struct Failing {
    execution: Execution,
    report: Report,
}

impl Failing {
    /// Of an exploration, if anything fails.
    pub(crate) fn of((report, execution): (Report, Option<Execution>)) -> Option<Self> {
        execution.map(|execution| Self { execution, report })
    }
}

/// Where a debugger can come.
#[pyclass(unsendable, module = "loiter._native")]
pub(crate) struct Debugger(DebugServer<Replayed>);

#[pymethods]
impl Debugger {
    /// Listens at `address`, `[HOST:]PORT`.
    #[staticmethod]
    fn listen(address: &str) -> PyResult<Self> {
        DebugServer::listen(address).map(Self).map_err(to_python)
    }

    /// Where that is, with the free port that was chosen for port 0.
    #[getter]
    fn address(&self) -> String {
        self.0.address()
    }

    /// Shows a debugger `failing`, from when it comes until it goes. `progress`, told JSON of a list of messages to the user,
    /// is called now and then and returns whether to continue.
    fn serve(
        &mut self,
        py: Python<'_>,
        failing: &Failing,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let mut replayed = Replayed::new(failing);
        let mut raised = None;
        let server = &mut self.0;
        let continued = py.detach(|| {
            loop {
                let served = server.attend(&mut replayed, Instant::now() + LOOK_EVERY);
                let mut messages = server.take_messages();
                messages.append(&mut replayed.messages);
                if !call(progress.as_ref(), &to_json(&messages), &mut raised) {
                    return false;
                }
                match served {
                    Served::Hold => {}
                    Served::Run if server.is_connected() => {
                        let stop = replayed.resume();
                        server.report(&mut replayed, stop);
                    }
                    Served::Run | Served::Kill => return true,
                }
            }
        });
        match raised {
            Some(error) => Err(error),
            None if continued => Ok(()),
            None => Err(Interrupted::new_err("interrupted")),
        }
    }
}

/// What the debugger wishes.
#[derive(Clone, Debug, Default)]
pub(crate) enum Wish {
    #[default]
    Continue,
    /// One moment, of whichever hart is next; this one is looked at.
    Moment(usize),
    /// Up to the next instruction of this hart, whatever others do meanwhile.
    Instruction(usize),
    /// Up to where this hart leaves these addresses.
    Range(usize, Range<u64>),
    /// To the beginning.
    Back,
    /// One moment back, likewise.
    MomentBack(usize),
}

/// An execution that a debugger moves in.
pub(crate) struct Replayed {
    pub(crate) replay: Replay,
    failure: FailureReport,
    /// How many there are, without that of `check`.
    harts: usize,
    pub(crate) wish: Wish,
    pub(crate) breakpoints: Vec<u64>,
    /// Of each hart, whether the debugger knows of the breakpoint at which it stands.
    told: Vec<bool>,
    pub(crate) messages: Vec<String>,
}

/// The thread of a hart.
pub(crate) fn thread(hart: usize) -> Tid {
    Tid::new(hart + 1).expect("not zero")
}

/// The hart of a thread.
pub(crate) fn hart_of(thread: Tid) -> usize {
    thread.get() - 1
}

type Stop = MultiThreadStopReason<u64>;

impl Replayed {
    fn new(failing: &Failing) -> Self {
        let replay = Replay::new(failing.execution.clone());
        Self {
            told: vec![false; replay.harts().len()],
            replay,
            failure: failing.report.failure.clone().expect("a failing execution"),
            harts: failing.report.harts,
            wish: Wish::default(),
            breakpoints: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// The hart that is next or, at the end, the one that fails.
    pub(crate) fn present(&self) -> usize {
        let replay = &self.replay;
        let next = replay.next().map(|moment| moment.hart);
        next.or(self.failing())
            .or(replay.last().map(|moment| moment.hart))
            .unwrap_or(0)
    }

    /// The hart that fails; none, in a deadlock.
    fn failing(&self) -> Option<usize> {
        match self.failure.kind {
            "check" => Some(self.harts),
            _ => self.failure.hart,
        }
    }

    /// Moves as the debugger wishes. Returns why it stops.
    fn resume(&mut self) -> Stop {
        if matches!(self.wish, Wish::Back | Wish::MomentBack(_)) {
            return self.resume_backwards();
        }
        if self.replay.next().is_none() {
            return self.no_more(ReplayLogPosition::End);
        }
        let heeds_breakpoints = !matches!(self.wish, Wish::Instruction(_));
        loop {
            let Some(moment) = self.replay.next() else {
                return self.fails();
            };
            let (hart, executes) = (moment.hart, moment.inst.is_some());
            if heeds_breakpoints && executes && self.meets_breakpoint(hart) {
                return Stop::SwBreak(thread(hart));
            }
            self.replay.forward();
            if !executes {
                if matches!(self.wish, Wish::Moment(_)) {
                    return self.stepped(hart);
                }
                continue;
            }
            self.told[hart] = false;
            if heeds_breakpoints && self.meets_breakpoint(hart) {
                return Stop::SwBreak(thread(hart));
            }
            let pc = self.replay.harts()[hart].pc;
            let is_done = match &self.wish {
                Wish::Moment(_) => true,
                Wish::Instruction(wanted) => *wanted == hart,
                Wish::Range(wanted, range) => *wanted == hart && !range.contains(&pc),
                Wish::Continue | Wish::Back | Wish::MomentBack(_) => false,
            };
            if is_done {
                return self.stepped(hart);
            }
        }
    }

    fn resume_backwards(&mut self) -> Stop {
        loop {
            if !self.replay.back() {
                return self.no_more(ReplayLogPosition::Begin);
            }
            let hart = self.present();
            self.told[hart] = false;
            let executes = self.replay.next().is_some_and(|it| it.inst.is_some());
            if executes && self.meets_breakpoint(hart) {
                return Stop::SwBreak(thread(hart));
            }
            if matches!(self.wish, Wish::MomentBack(_)) {
                return self.stepped(hart);
            }
        }
    }

    /// Whether there is a breakpoint where `hart` stands of which the debugger has not been told.
    fn meets_breakpoint(&mut self, hart: usize) -> bool {
        let pc = self.replay.harts()[hart].pc;
        let meets = self.breakpoints.contains(&pc) && !self.told[hart];
        self.told[hart] |= meets;
        meets
    }

    /// `hart` has moved. Signal 0, if that is not the hart that was to: GDB says that it has stopped, and turns to it.
    fn stepped(&self, hart: usize) -> Stop {
        let signal = match self.wish {
            Wish::Moment(wanted) | Wish::MomentBack(wanted) if wanted != hart => Signal::SIGZERO,
            _ => Signal::SIGTRAP,
        };
        let tid = thread(hart);
        Stop::SignalWithThread { tid, signal }
    }

    /// The end of the execution.
    fn fails(&self) -> Stop {
        let Some(hart) = self.failing() else {
            return self.no_more(ReplayLogPosition::End);
        };
        let signal = match self.replay.instruction(hart).map(|inst| inst.op) {
            Some(Op::Illegal) => Signal::SIGILL,
            _ => Signal::SIGTRAP,
        };
        let tid = thread(hart);
        Stop::SignalWithThread { tid, signal }
    }

    fn no_more(&self, pos: ReplayLogPosition) -> Stop {
        let tid = Some(thread(self.present()));
        Stop::ReplayLog { tid, pos }
    }

    /// What GDB says of a hart beside its number.
    pub(crate) fn says(&self, hart: usize) -> String {
        let mut parts = vec![match hart < self.harts {
            true => format!("hart {hart}"),
            false => "check".to_owned(),
        }];
        match self.replay.next() {
            Some(moment) if moment.hart == hart => parts.push(next(moment)),
            None if self.failing() == Some(hart) => parts.push("fails".to_owned()),
            _ if self.replay.is_over(hart) => {
                parts.push(match self.failure.stands.iter().any(|it| it.hart == hart) {
                    true => "does nothing more".to_owned(),
                    false => "has ended".to_owned(),
                })
            }
            _ => {}
        }
        parts.extend(self.replay.early(hart).map(|step| {
            let StepReport {
                symbol,
                wrote,
                address,
                ..
            } = &self.failure.steps[step];
            let place = symbol.clone().unwrap_or_else(|| format!("{address:#x}"));
            let value = wrote.unwrap_or_default();
            format!("its write of {value:#x} to {place} is visible early")
        }));
        parts.join(", ")
    }
}

fn next(moment: &Moment) -> String {
    match moment.step {
        Some(step) => format!("next: step {}", step + 1),
        None => "next".to_owned(),
    }
}
