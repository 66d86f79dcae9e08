//! The result of a run.

use loiter_cores::Cores;
use loiter_memory::Memory;
use loiter_observe::Recorder;
use loiter_types::{CounterSet, CounterVisitor, Cycle};
use serde::{Deserialize, Serialize};

use crate::locks::LockRow;
use crate::phases::{PhaseRow, Sample};
use crate::waiting::WaitingRow;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// The program wrote to the test finisher.
    Finisher,
    /// The program wrote to `tohost`.
    Htif,
    /// The program asked to start again.
    Reset,
    /// Nothing could ever happen again.
    Watchdog,
    /// The limit of the request was reached.
    MaxCycles,
    /// A debugger ended the run.
    Killed,
    /// The last phase of the plan ended.
    Phases,
}

/// How a run ended, for programs and for people.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Exit {
    /// Why.
    pub reason: ExitReason,
    /// The program's exit code, 1 for all that is not a program's end.
    pub code: u32,
    /// In words.
    pub message: String,
}

impl Exit {
    pub(crate) fn killed() -> Self {
        Self {
            reason: ExitReason::Killed,
            code: 1,
            message: "ended by the debugger".into(),
        }
    }
}

/// A counter of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CounterRow {
    /// Such as `core0.l1d`.
    pub component: String,
    /// Name of the counter.
    pub name: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// Its value.
    pub value: u64,
    /// What one of it means.
    #[serde(skip)]
    pub description: &'static str,
}

/// A counter of a machine, as it is declared.
#[derive(Clone, Debug, Serialize)]
pub struct CounterDescription {
    /// Such as `core0.l1d`.
    pub component: String,
    /// Name of the counter.
    pub name: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// What one of it means.
    pub description: &'static str,
}

/// An entry of a context's account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccountRow {
    /// The context.
    pub context: u16,
    /// The hart in it, if any.
    pub hart: Option<u16>,
    /// What the hart was doing.
    pub activity: &'static str,
    /// What became of the slot.
    pub slot: &'static str,
    /// Context-cycles.
    pub cycles: u64,
}

/// What a context did in one activity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ActivityRow {
    /// The context.
    pub context: u16,
    /// The hart in it, if any.
    pub hart: Option<u16>,
    /// What the hart was doing.
    pub activity: &'static str,
    /// Context-cycles.
    pub cycles: u64,
    /// Instructions that retired.
    pub instructions: u64,
}

/// Where a hart sat. A hart that leaves the cores and comes back to the same context has one row; in between, the
/// reference engine has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SeatRow {
    /// The hart.
    pub hart: u16,
    /// The context.
    pub context: u16,
    /// The core of the context.
    pub core: u16,
    /// The first cycle.
    pub from_cycle: u64,
    /// The first cycle in which it did not sit there any more, or up to which is counted.
    pub until_cycle: Option<u64>,
}

/// An entry of a histogram.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HistogramRow {
    /// Such as `core0`.
    pub component: String,
    /// What was counted in every cycle.
    pub name: &'static str,
    /// What one of it is.
    pub unit: &'static str,
    /// How many.
    pub value: u64,
    /// In how many cycles it was so many; of the greatest value, so many or more.
    pub cycles: u64,
}

/// A mark that a probe left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MarkRow {
    /// The hart.
    pub hart: u16,
    /// Which probe.
    pub kind: &'static str,
    /// Its value.
    pub value: u64,
    /// When.
    pub cycle: u64,
    /// Instructions that the hart had retired before.
    pub retired: u64,
}

/// A value that a probe reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportRow {
    /// The hart.
    pub hart: u16,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: u64,
    /// When.
    pub cycle: u64,
}

/// How often a waiting hart looked at its lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LockReadRow {
    /// The hart.
    pub hart: u16,
    /// Address of the lock.
    pub lock: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of times between two reads of one wait.
    pub intervals: u64,
    /// Their sum.
    pub interval_sum_cycles: u64,
    /// The shortest; 0 when there is none.
    pub interval_min_cycles: u64,
    /// The longest.
    pub interval_max_cycles: u64,
    /// Entry n: how many were at least 2^n and less than 2^(n+1) cycles.
    pub log2_histogram: Vec<u64>,
}

/// Everything that a run found out. All but `host_seconds` is the same on every host, and
/// all but that and `skipped_cycles` whatever is skipped.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// How it ended.
    pub exit: Exit,
    /// SHA-256 of the machine.
    pub machine_hash: String,
    /// SHA-256 of the program.
    pub program_hash: String,
    /// What the program printed.
    pub console: String,
    /// Simulated time at the end.
    pub cycles: u64,
    /// Simulated time at which the timing model first took over; equal to `cycles` when it never did.
    pub timing_from_cycle: u64,
    /// Instructions retired by all harts.
    pub instructions: u64,
    /// Those that the timing model retired.
    pub timing_instructions: u64,
    /// Cycles of the timing model.
    pub timing_cycles: u64,
    /// The phases of the plan, if there was one.
    pub phases: Vec<PhaseRow>,
    /// The end of a phase that never came, in words.
    pub missed_phase: Option<String>,
    /// What could not be written of a trace, a profile, a pipeline log or a timeline.
    pub log_faults: Vec<String>,
    /// The code that was known to wait.
    pub waiting: Vec<WaitingRow>,
    /// Those of the instructions that were checked against the reference engine.
    pub checked_instructions: u64,
    /// Clock of the cores.
    pub clock_mhz: u64,
    /// Host time.
    pub host_seconds: f64,
    /// Cycles of cores that were passed over, or gone through and proved to be no others.
    #[serde(skip)]
    pub skipped_cycles: u64,
    /// Counters.
    pub counters: Vec<CounterRow>,
    /// Context-cycle accounts; they sum to contexts x `timing_cycles`.
    pub accounts: Vec<AccountRow>,
    /// Activities: the same cycles, and the instructions that retired.
    pub activities: Vec<ActivityRow>,
    /// How the cycles of cores are distributed.
    pub histograms: Vec<HistogramRow>,
    /// Which hart sat where when.
    pub seats: Vec<SeatRow>,
    /// Samples that a plan took.
    pub samples: Vec<Sample>,
    /// Marks.
    pub marks: Vec<MarkRow>,
    /// Reported values.
    pub reports: Vec<ReportRow>,
    /// Lock reads.
    pub lock_reads: Vec<LockReadRow>,
    /// Uses of locks.
    pub locks: Vec<LockRow>,
}

/// What the timing model found out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimedRows {
    /// Counters.
    pub counters: Vec<CounterRow>,
    /// Context-cycle accounts; they sum to contexts x cycles of the timing model.
    pub accounts: Vec<AccountRow>,
    /// Activities: the same cycles, and the instructions that retired.
    pub activities: Vec<ActivityRow>,
    /// How the cycles of cores are distributed.
    pub histograms: Vec<HistogramRow>,
    /// Which hart sat where when.
    pub seats: Vec<SeatRow>,
    /// Samples that a plan took.
    pub samples: Vec<Sample>,
}

/// What probes left, and statistics of locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProbeRows {
    /// Marks.
    pub marks: Vec<MarkRow>,
    /// Reported values.
    pub reports: Vec<ReportRow>,
    /// Lock reads.
    pub lock_reads: Vec<LockReadRow>,
    /// Uses of locks.
    pub locks: Vec<LockRow>,
}

/// What has been found out of a system whose cores are timed, or were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Simulated time at which the timing model first took over.
    pub timing_from_cycle: u64,
    /// Instructions that the timing model retired.
    pub timing_instructions: u64,
    /// Cycles of the timing model.
    pub timing_cycles: u64,
    /// Clock of the cores.
    pub clock_mhz: u64,
    /// What the timing model found out.
    #[serde(flatten)]
    pub timed: TimedRows,
    /// What probes left.
    #[serde(flatten)]
    pub probes: ProbeRows,
}

/// Rows of counters as they are visited.
struct Rows(Vec<CounterRow>);

impl CounterVisitor for Rows {
    fn visit<C: CounterSet>(&mut self, component: &str, counters: &C) {
        let counters = C::INFOS.iter().zip(counters.values());
        self.0.extend(counters.map(|(info, value)| CounterRow {
            component: component.to_owned(),
            name: info.name,
            unit: info.unit,
            value,
            description: info.description,
        }));
    }
}

/// The counters of cores and of their memory system at `now`.
pub(crate) fn counter_rows(cores: &Cores, memory: &Memory, now: Cycle) -> Vec<CounterRow> {
    let mut rows = Rows(Vec::new());
    cores.visit_counters(now, &mut rows);
    memory.visit_counters(&mut rows);
    rows.0
}

/// The accounts of cores at `now`. Those of a context in which only one hart has sat are that hart's.
///
/// # Panics
/// When they do not add up to contexts x cycles, which is our error.
pub(crate) fn account_rows(
    cores: &mut Cores,
    cycles: u64,
    now: Cycle,
    seats: &[SeatRow],
) -> (Vec<AccountRow>, Vec<ActivityRow>) {
    let mut out = Vec::new();
    let mut activities = Vec::new();
    for accounts in cores.accounts(now) {
        assert_eq!(accounts.total(), cycles, "{}", accounts.context);
        let context = accounts.context.0;
        let sat = seats.iter().filter(|row| row.context == context);
        let mut harts = sat.map(|row| row.hart);
        let first = harts.next();
        let hart = first.filter(|first| harts.all(|hart| hart == *first));
        activities.extend(
            accounts
                .activities()
                .map(|(activity, cycles, instructions)| ActivityRow {
                    context: accounts.context.0,
                    hart,
                    activity: activity.word(),
                    cycles,
                    instructions,
                }),
        );
        out.extend(
            accounts
                .entries()
                .map(|(activity, slot, cycles)| AccountRow {
                    context: accounts.context.0,
                    hart,
                    activity: activity.word(),
                    slot: slot.word(),
                    cycles,
                }),
        );
    }
    (out, activities)
}

/// How the cycles of cores are distributed.
pub(crate) fn histogram_rows(cores: &Cores) -> Vec<HistogramRow> {
    let mut out = Vec::new();
    for (core, histogram) in cores.histograms() {
        let entries = histogram.cycles.iter().zip(0..);
        out.extend(entries.map(|(&cycles, value)| HistogramRow {
            component: format!("core{}", core.0),
            name: histogram.name,
            unit: histogram.unit,
            value,
            cycles,
        }));
    }
    out
}

/// What the recorder has, as rows, and those of locks.
pub(crate) fn recorder_rows(recorder: &Recorder, locks: Vec<LockRow>) -> ProbeRows {
    let marks = recorder.marks.iter().map(|mark| MarkRow {
        hart: mark.moment.hart.0,
        kind: mark.kind.word(),
        value: mark.value,
        cycle: mark.moment.cycle.0,
        retired: mark.moment.retired,
    });
    let reports = recorder.reports.iter().map(|report| ReportRow {
        hart: report.moment.hart.0,
        name: report.name.clone(),
        value: report.value,
        cycle: report.moment.cycle.0,
    });
    let reads = recorder.lock_reads().map(|reads| LockReadRow {
        hart: reads.hart.0,
        lock: reads.lock,
        reads: reads.reads,
        intervals: reads.intervals.count,
        interval_sum_cycles: reads.intervals.sum_cycles,
        interval_min_cycles: reads.intervals.min_cycles,
        interval_max_cycles: reads.intervals.max_cycles,
        log2_histogram: reads.intervals.log2_histogram.clone(),
    });
    ProbeRows {
        marks: marks.collect(),
        reports: reports.collect(),
        lock_reads: reads.collect(),
        locks,
    }
}
