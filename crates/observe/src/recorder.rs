//! Observers of a run, and the one that keeps what probes report.

use std::collections::{BTreeMap, BTreeSet};

use loiter_types::{Cycle, HartId, StateVisitor};
use serde::{Deserialize, Serialize};

use crate::durations::Durations;
use crate::locks::{Access, Claim, Locks, Owner};
use crate::probe::Probe;

/// When something happened to a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The hart.
    pub hart: HartId,
    /// The cycle.
    pub cycle: Cycle,
    /// Instructions that the hart had retired before.
    pub retired: u64,
    /// Address of the instruction by which it happened.
    pub pc: u64,
}

/// Watches a run without changing it.
pub trait ProbeObserver {
    /// A probe passed. Returns whether the engine is to stop as soon as it can.
    fn probe(&mut self, moment: Moment, probe: Probe) -> bool;

    /// Shows `visitor` what probes of `hart` that tell of reads of locks may depend on and change.
    fn visit_state(&mut self, hart: HartId, visitor: &mut impl StateVisitor);
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl ProbeObserver for Silent {
    fn probe(&mut self, _: Moment, _: Probe) -> bool {
        false
    }

    fn visit_state(&mut self, _: HartId, _: &mut impl StateVisitor) {}
}

/// Which event a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in Probe")]
pub enum MarkKind {
    RoiBegin,
    RoiEnd,
    WorkBegin,
    WorkEnd,
    Acquire,
    Acquired,
    Released,
    ProgramBegin,
    ProgramEnd,
}

impl MarkKind {
    /// All, in order.
    pub const ALL: [MarkKind; 9] = [
        MarkKind::RoiBegin,
        MarkKind::RoiEnd,
        MarkKind::WorkBegin,
        MarkKind::WorkEnd,
        MarkKind::Acquire,
        MarkKind::Acquired,
        MarkKind::Released,
        MarkKind::ProgramBegin,
        MarkKind::ProgramEnd,
    ];

    /// The mark that `probe` leaves, if it leaves one, and its value.
    #[must_use]
    pub fn of(probe: &Probe) -> Option<(MarkKind, u64)> {
        Some(match *probe {
            Probe::RoiBegin(value) => (MarkKind::RoiBegin, value),
            Probe::RoiEnd(value) => (MarkKind::RoiEnd, value),
            Probe::WorkBegin(value) => (MarkKind::WorkBegin, value),
            Probe::WorkEnd(value) => (MarkKind::WorkEnd, value),
            Probe::Acquire(lock) => (MarkKind::Acquire, lock),
            Probe::Acquired(lock) => (MarkKind::Acquired, lock),
            Probe::Released(lock) => (MarkKind::Released, lock),
            Probe::ProgramBegin(addr) => (MarkKind::ProgramBegin, addr),
            Probe::ProgramEnd(value) => (MarkKind::ProgramEnd, value),
            Probe::LockRead(_) | Probe::ReportName(_) | Probe::ReportValue(_) => return None,
        })
    }

    /// Its word in result tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            MarkKind::RoiBegin => "roi_begin",
            MarkKind::RoiEnd => "roi_end",
            MarkKind::WorkBegin => "work_begin",
            MarkKind::WorkEnd => "work_end",
            MarkKind::Acquire => "acquire",
            MarkKind::Acquired => "acquired",
            MarkKind::Released => "released",
            MarkKind::ProgramBegin => "program_begin",
            MarkKind::ProgramEnd => "program_end",
        }
    }
}

/// One mark.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Mark {
    /// When.
    pub moment: Moment,
    /// What.
    pub kind: MarkKind,
    /// Repetition number or lock address.
    pub value: u64,
}

/// One reported value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// When.
    pub moment: Moment,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: u64,
}

/// Times between the reads of a lock by one waiting hart.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LockReads {
    /// The hart.
    pub hart: HartId,
    /// Address of the lock, or [`OTHER_LOCKS`].
    pub lock: u64,
    /// Number of reads.
    pub reads: u64,
    /// Times between consecutive reads within one wait.
    pub intervals: Durations,
    last: Option<Cycle>,
}

impl LockReads {
    fn new(hart: HartId, lock: u64) -> Self {
        Self {
            hart,
            lock,
            reads: 0,
            intervals: Durations::default(),
            last: None,
        }
    }

    fn read(&mut self, now: Cycle) {
        self.reads += 1;
        if let Some(last) = self.last.replace(now) {
            self.intervals.add(now.since(last));
        }
    }
}

/// Locks of harts whose reads are kept apart. A program names locks by addresses, and may name any.
const MOST_LOCKS: usize = 1 << 16;

/// Stands for all locks for which there was no room: the address of no word.
pub const OTHER_LOCKS: u64 = u64::MAX;

/// Keeps marks, reports and lock reads.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recorder {
    /// Marks in the order of time.
    pub marks: Vec<Mark>,
    /// Reports in the order of time.
    pub reports: Vec<Report>,
    names: BTreeMap<HartId, String>,
    lock_reads: BTreeMap<(HartId, u64), LockReads>,
    spinning: BTreeSet<HartId>,
    /// Uses of locks.
    pub locks: Locks,
}

impl Recorder {
    /// Whether `hart` has begun to wait for a lock and has not got it.
    #[must_use]
    pub fn is_spinning(&self, hart: HartId) -> bool {
        self.spinning.contains(&hart)
    }

    /// Lock reads by hart and lock.
    pub fn lock_reads(&self) -> impl Iterator<Item = &LockReads> {
        self.lock_reads.values()
    }

    fn mark(&mut self, moment: Moment, kind: MarkKind, value: u64) {
        self.marks.push(Mark {
            moment,
            kind,
            value,
        });
    }

    fn lock_read(&mut self, moment: Moment, lock: u64) {
        let known = self.lock_reads.get_mut(&(moment.hart, lock));
        if let Some(known) = known.filter(|_| lock != OTHER_LOCKS) {
            return known.read(moment.cycle);
        }
        let full = self.lock_reads.len() >= MOST_LOCKS || lock == OTHER_LOCKS;
        let lock = if full { OTHER_LOCKS } else { lock };
        let reads = self.lock_reads.entry((moment.hart, lock));
        let reads = reads.or_insert_with(|| LockReads::new(moment.hart, lock));
        match full {
            // Times between reads of different locks say nothing.
            true => reads.reads += 1,
            false => reads.read(moment.cycle),
        }
    }

    fn forget_last_read(&mut self, hart: HartId, lock: u64) {
        if let Some(reads) = self.lock_reads.get_mut(&(hart, lock)) {
            reads.last = None;
        }
    }
}

/// What a probe of `hart` says of `lock`: not whether others share it.
fn claim(hart: HartId, lock: u64) -> Claim {
    Claim {
        lock,
        owner: Owner::Hart(hart),
        access: Access::Unsaid,
    }
}

impl ProbeObserver for Recorder {
    fn probe(&mut self, moment: Moment, probe: Probe) -> bool {
        if let Some((kind, value)) = MarkKind::of(&probe) {
            match kind {
                MarkKind::RoiBegin => self.locks.begin_region(),
                MarkKind::RoiEnd => self.locks.end_region(),
                MarkKind::Acquire => {
                    self.locks.acquire(moment, claim(moment.hart, value));
                    self.forget_last_read(moment.hart, value);
                    self.spinning.insert(moment.hart);
                }
                MarkKind::Released => {
                    self.locks.released(moment, claim(moment.hart, value));
                }
                MarkKind::Acquired => {
                    self.locks.acquired(moment, claim(moment.hart, value));
                    self.spinning.remove(&moment.hart);
                    // The wait is over.
                    self.forget_last_read(moment.hart, value);
                }
                _ => {}
            }
            self.mark(moment, kind, value);
        }
        match probe {
            Probe::LockRead(lock) => self.lock_read(moment, lock),
            Probe::ReportName(name) => {
                self.names.insert(moment.hart, name);
            }
            Probe::ReportValue(value) => {
                let name = self.names.get(&moment.hart).cloned().unwrap_or_default();
                self.reports.push(Report {
                    moment,
                    name,
                    value,
                });
            }
            _ => {}
        }
        false
    }

    fn visit_state(&mut self, hart: HartId, visitor: &mut impl StateVisitor) {
        let rows = self.lock_reads.range_mut((hart, 0)..=(hart, u64::MAX));
        for ((_, lock), reads) in rows {
            let LockReads {
                hart: _,
                lock: _,
                reads,
                intervals,
                last,
            } = reads;
            visitor.value(*lock);
            visitor.count(reads);
            intervals.visit_state(visitor);
            visitor.value(u64::from(last.is_some()));
            if let Some(last) = last {
                visitor.instant(last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(cycle: u64) -> Moment {
        Moment {
            hart: HartId(1),
            cycle: Cycle(cycle),
            retired: 0,
            pc: 0,
        }
    }

    #[test]
    fn intervals_do_not_span_two_waits() {
        let mut recorder = Recorder::default();
        for cycle in [100, 109, 118] {
            recorder.probe(at(cycle), Probe::LockRead(64));
        }
        recorder.probe(at(500), Probe::Acquire(64));
        recorder.probe(at(501), Probe::LockRead(64));
        recorder.probe(at(517), Probe::LockRead(64));
        let reads = recorder.lock_reads().next().unwrap();
        assert_eq!(
            (
                reads.reads,
                reads.intervals.count,
                reads.intervals.sum_cycles
            ),
            (5, 3, 34)
        );
        assert_eq!(
            (reads.intervals.min_cycles, reads.intervals.max_cycles),
            (9, 16)
        );
        assert_eq!(reads.intervals.log2_histogram, [0, 0, 0, 2, 1]);
    }

    #[test]
    fn locks_without_end_are_counted_together() {
        let mut recorder = Recorder::default();
        let locks = MOST_LOCKS as u64 + 1000;
        for round in 0..2 {
            for lock in 0..locks {
                let cycle = round * locks + lock;
                recorder.probe(at(cycle), Probe::LockRead(64 * lock));
            }
        }
        // A lock that a program puts there itself is one of them.
        recorder.probe(at(2 * locks), Probe::LockRead(OTHER_LOCKS));
        let rows: Vec<_> = recorder.lock_reads().collect();
        assert_eq!(rows.len(), MOST_LOCKS + 1);
        let (others, known) = rows.split_last().unwrap();
        assert!(
            known
                .iter()
                .all(|reads| (reads.reads, reads.intervals.count) == (2, 1))
        );
        assert_eq!((others.lock, others.reads), (OTHER_LOCKS, 2 * 1000 + 1));
        assert_eq!(others.intervals.count, 0);
    }

    #[test]
    fn a_report_has_the_last_name_of_its_hart() {
        let mut recorder = Recorder::default();
        recorder.probe(at(1), Probe::ReportName("sum".into()));
        recorder.probe(at(2), Probe::ReportValue(7));
        assert_eq!(
            (recorder.reports[0].name.as_str(), recorder.reports[0].value),
            ("sum", 7)
        );
    }

    #[test]
    fn codes_without_meaning_are_no_probe() {
        assert_eq!(Probe::decode(0x7ff, 1, |_| String::new()), None);
        assert_eq!(
            Probe::decode(0x09, 5, |addr| format!("at {addr}")),
            Some(Probe::ReportName("at 5".into()))
        );
    }
}
