//! The timeline: what every context did, for Perfetto.
//!
//! What a hart does is decided by the accounts, whose changes come here. So the slices of a track are
//! the account of its context.

use std::collections::BTreeMap;

use loiter_cores::{Cores, Seat};
use loiter_hart::{Retired, Trapped};
use loiter_observe::perfetto::{Note, Perfetto, Track};
use loiter_observe::{Activity, Change, MarkKind, Moment, Probe};
use loiter_types::{ContextId, Cycle, HartId};

use super::output::{self, Output};
use crate::error::Error;

const WHAT: &str = "a timeline";

/// Cycles over which instructions a cycle are counted.
const INTERVAL_CYCLES: u64 = 10_000;

/// The tracks of a context, and what is drawn there.
struct Lane {
    track: Track,
    ipc: Track,
    /// The last change, which is drawn when it is known to have lasted.
    last: Option<Change>,
    /// What it does, if that is drawn.
    activity: Option<Activity>,
    /// Instructions retired in the present interval.
    retired: u64,
    /// Instructions retired in the last interval, if that has been drawn.
    drawn: Option<u64>,
}

/// Writes a timeline.
pub(crate) struct Timeline {
    path: String,
    trace: Perfetto<Output>,
    clock_hz: u64,
    /// Of every context, once cores are timed.
    lanes: Vec<Lane>,
    seats: BTreeMap<HartId, ContextId>,
    /// The end of the interval in which instructions are counted.
    interval_end: u64,
}

impl Timeline {
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn new(path: &str, clock_hz: u64) -> Result<Self, Error> {
        Ok(Self {
            path: path.to_owned(),
            trace: Perfetto::new(output::create(path, WHAT)?),
            clock_hz,
            lanes: Vec::new(),
            seats: BTreeMap::new(),
            interval_end: 0,
        })
    }

    /// Follows what the contexts of `cores` do from `now` on, if it has not before.
    pub(crate) fn follow(&mut self, cores: &mut Cores, now: Cycle) {
        if !self.lanes.is_empty() {
            return;
        }
        cores.follow_activities();
        let trace = &mut self.trace;
        let mut last = None;
        for Seat {
            core,
            context,
            hart,
        } in cores.seats()
        {
            let parent = match last {
                Some((known, track)) if known == core => track,
                _ => trace.track(core.to_string(), None),
            };
            last = Some((core, parent));
            let sits = hart.map_or(String::new(), |hart| format!(" ({hart})"));
            let ipc = format!("{context} IPC");
            self.lanes.push(Lane {
                track: trace.track(format!("{context}{sits}"), Some(parent)),
                ipc: trace.counter_track(ipc, "instructions/cycle", Some(parent)),
                last: None,
                activity: None,
                retired: 0,
                drawn: None,
            });
            if let Some(hart) = hart {
                self.seats.insert(hart, context);
            }
        }
        self.interval_end = now.0 + INTERVAL_CYCLES;
    }

    /// `hart` sits in `context` from now on: its instructions count there.
    pub(crate) fn moved(&mut self, hart: HartId, context: ContextId) {
        self.seats.insert(hart, context);
    }

    /// Draws what contexts have come to do.
    pub(crate) fn take_changes(&mut self, cores: &mut Cores) {
        cores.take_changes(|context, changes| {
            for change in changes {
                let last = self.lanes[context.index()].last.replace(change);
                if let Some(last) = last.filter(|last| last.from < change.from) {
                    self.draw(context.index(), last);
                }
            }
        });
    }

    fn draw(&mut self, lane: usize, Change { from, activity }: Change) {
        let lane = &mut self.lanes[lane];
        if lane.activity == Some(activity) {
            return;
        }
        let ns = nanoseconds(from.0, self.clock_hz);
        if lane.activity.take().is_some() {
            self.trace.end(ns, lane.track);
        }
        if activity != Activity::Vacant {
            lane.activity = Some(activity);
            let notes = vec![Note::number("cycle", from.0)];
            self.trace.begin(ns, lane.track, activity.word(), notes);
        }
    }

    fn lane_of(&mut self, hart: HartId) -> Option<&mut Lane> {
        let context = self.seats.get(&hart)?;
        self.lanes.get_mut(context.index())
    }

    /// An instruction has retired.
    pub(crate) fn retired(&mut self, event: &Retired<'_>) {
        if self.lanes.is_empty() {
            return;
        }
        if event.cycle >= self.interval_end {
            self.count(event.cycle);
        }
        if let Some(lane) = self.lane_of(event.hart.id) {
            lane.retired += 1;
        }
    }

    /// Draws instructions a cycle of the intervals that end before `cycle`.
    fn count(&mut self, cycle: u64) {
        let ended = (cycle - self.interval_end) / INTERVAL_CYCLES + 1;
        let begin = self.interval_end - INTERVAL_CYCLES;
        for lane in &mut self.lanes {
            let retired = std::mem::take(&mut lane.retired);
            if lane.drawn != Some(retired) {
                let ipc = retired as f64 / INTERVAL_CYCLES as f64;
                self.trace
                    .count(nanoseconds(begin, self.clock_hz), lane.ipc, ipc);
            }
            lane.drawn = Some(retired);
            if ended > 1 && retired > 0 {
                // Nothing has retired since.
                let ns = nanoseconds(self.interval_end, self.clock_hz);
                self.trace.count(ns, lane.ipc, 0.0);
                lane.drawn = Some(0);
            }
        }
        self.interval_end += ended * INTERVAL_CYCLES;
    }

    /// A trap was entered.
    pub(crate) fn trapped(&mut self, event: &Trapped<'_>) {
        let mut notes = vec![
            Note::number("cycle", event.cycle),
            Note::text("pc", format!("{:#x}", event.pc)),
            Note::text("on to", format!("{:#x}", event.hart.pc)),
        ];
        // Traps of one kind have one name, so that they can be counted.
        let name = match event.trap.cause() {
            Some(cause) => {
                let value = event.trap.value();
                notes.push(Note::text("value", format!("{value:#x}")));
                cause.to_string()
            }
            None => event.trap.to_string(),
        };
        self.instant(event.hart.id, event.cycle, &name, notes);
    }

    /// A probe has passed.
    pub(crate) fn probe(&mut self, moment: Moment, probe: &Probe) {
        let Some((kind, value)) = MarkKind::of(probe) else {
            return;
        };
        let value = match kind {
            MarkKind::Acquire | MarkKind::Acquired | MarkKind::Released => {
                Note::text("lock", format!("{value:#x}"))
            }
            _ => Note::number("value", value),
        };
        let notes = vec![Note::number("cycle", moment.cycle.0), value];
        self.instant(moment.hart, moment.cycle.0, kind.word(), notes);
    }

    fn instant(&mut self, hart: HartId, cycle: u64, name: &str, notes: Vec<Note>) {
        let ns = nanoseconds(cycle, self.clock_hz);
        if let Some(track) = self.lane_of(hart).map(|lane| lane.track) {
            self.trace.instant(ns, track, name, notes);
        }
    }

    /// Whether it is of no use to continue.
    pub(crate) fn has_failed(&self) -> bool {
        self.trace.has_failed()
    }

    /// Ends everything at `now`, and writes what is still held back. Returns what went wrong, if
    /// anything did.
    pub(crate) fn end(mut self, cores: Option<&mut Cores>, now: Cycle) -> Option<String> {
        if let Some(cores) = cores {
            self.take_changes(cores);
        }
        if now.0 >= self.interval_end && !self.lanes.is_empty() {
            self.count(now.0);
        }
        for lane in 0..self.lanes.len() {
            // What would only begin then is not drawn.
            if let Some(last) = self.lanes[lane].last.filter(|last| last.from < now) {
                self.draw(lane, last);
            }
        }
        let ns = nanoseconds(now.0, self.clock_hz);
        for lane in self.lanes.iter().filter(|lane| lane.activity.is_some()) {
            self.trace.end(ns, lane.track);
        }
        let error = self.trace.finish().err()?;
        Some(output::not_whole(&self.path, WHAT, &error))
    }
}

/// Simulated time, rounded down.
fn nanoseconds(cycle: u64, clock_hz: u64) -> u64 {
    (u128::from(cycle) * 1_000_000_000 / u128::from(clock_hz)) as u64
}
