//! Counters of an out-of-order core, and how its cycles are distributed.

use loiter_memory::{Level, Missed};
use loiter_observe::Mode;
use loiter_types::{Cycle, counters};
use serde::{Deserialize, Serialize};

counters! {
    /// Counters of an out-of-order core.
    pub struct SmtCounters {
        /// Cycles since the timing model took over, or began.
        cycles: "cycles",
        /// Instructions issued.
        issued: "instructions",
        /// Cycles in which nothing was fetched.
        zero_fetch_cycles: "cycles",
        /// Cycles in which the front end had no room, or not for a context that has its share of it.
        front_full_cycles: "cycles",
        /// Cycles in which nothing was issued.
        zero_issue_cycles: "cycles",
        /// Cycles in which nothing retired.
        zero_retire_cycles: "cycles",
        /// Contexts that could have been fetched from, summed over cycles.
        fetchable_contexts: "contexts",
        /// Those of them that had continued after a branch which was mispredicted, summed over cycles.
        misled_contexts: "contexts",
        /// Cycles in which an instruction could not be renamed because its queue, or its context's share
        /// of it, was full.
        queue_full_cycles: "cycles",
        /// Cycles in which an instruction could not be renamed because no register was free, or its
        /// context's share of them was used up.
        registers_full_cycles: "cycles",
        /// Cycles that buffered stores waited for a port of the data cache.
        store_port_wait_cycles: "cycles",
        /// Instructions in the integer queue, summed over cycles.
        integer_queue_occupancy: "instructions",
        /// Instructions in the floating-point queue, summed over cycles.
        fp_queue_occupancy: "instructions",
    }
}

counters! {
    /// Counters of what an out-of-order core did in user mode, or in the modes of kernel and firmware.
    pub struct SmtModeCounters {
        /// Instructions fetched, on the right way or a wrong one.
        fetched: "instructions",
        /// Instructions retired.
        retired: "instructions",
        /// Instructions squashed after they were fetched.
        squashed: "instructions",
        /// Loads retired.
        loads: "instructions",
        /// Stores retired.
        stores: "instructions",
        /// Atomics retired.
        atomics: "instructions",
        /// Floating-point operations retired, loads and stores not counted.
        fp_operations: "instructions",
        /// Integer multiplies retired.
        multiplies: "instructions",
        /// Integer divides and remainders retired.
        divides: "instructions",
        /// Loads whose value came from an older store that had not performed.
        forwarded_loads: "instructions",
        /// Loads squashed because an older store to the same bytes came after them.
        order_violations: "events",
        /// Loads squashed because the line was written before they retired.
        replayed_loads: "events",
        /// Look-ups of fetches in the instruction cache.
        l1i_accesses: "accesses",
        /// Those that found no line.
        l1i_misses: "accesses",
        /// Look-ups of loads and stores in the data cache.
        l1d_accesses: "accesses",
        /// Those that found no line, or for a store none of the core's own.
        l1d_misses: "accesses",
        /// Lines asked of the second level by fetches, loads, stores and atomics.
        l2_accesses: "accesses",
        /// Those that it did not have.
        l2_misses: "accesses",
        /// Look-ups of fetches for a translation.
        itlb_accesses: "accesses",
        /// Those that found none.
        itlb_misses: "accesses",
        /// Look-ups of loads, stores and atomics for a translation.
        dtlb_accesses: "accesses",
        /// Those that found none, or none that is enough for a store.
        dtlb_misses: "accesses",
        /// Traps entered from there, interrupts included.
        traps: "events",
        /// Those that were environment calls and breakpoints.
        environment_calls: "events",
        /// Returns from traps retired.
        trap_returns: "instructions",
        /// Times that a handler was entered for a translation, which the hart does not see.
        translation_traps: "events",
        /// Instructions of such handlers that went through the pipeline; they count as fetched and squashed,
        /// not as retired.
        handler_instructions: "instructions",
    }
}

counters! {
    /// Counters of what an out-of-order core did for one [`Purpose`](loiter_observe::Purpose). What an
    /// instruction is for is decided when it is fetched.
    pub struct SmtPurposeCounters {
        /// Instructions fetched, on the right way or a wrong one.
        fetched: "instructions",
        /// Instructions squashed after they were fetched.
        squashed: "instructions",
        /// Instructions that integer units began, squashed ones included.
        integer_issued: "instructions",
        /// Entries of the integer queue in cycles in which an instruction could not be renamed because its
        /// queue, or its context's share of it, was full; summed over those cycles.
        full_queue_entries: "instructions",
        /// Loads that looked up the data cache.
        load_lookups: "accesses",
        /// Those that found no line.
        load_misses: "accesses",
    }
}

impl SmtModeCounters {
    /// Counts what a miss of the data cache has come to.
    #[inline]
    pub(super) fn count_data_miss(&mut self, asked: &Result<Missed, Cycle>) {
        self.count_l2(asked);
        // It comes again.
        let refused = u64::from(asked.is_err());
        self.l1d_accesses -= refused;
        self.l1d_misses -= refused;
    }

    /// The same of the instruction cache.
    #[inline]
    pub(super) fn count_fetch_miss(&mut self, asked: &Result<Missed, Cycle>) {
        self.count_l2(asked);
        let refused = u64::from(asked.is_err());
        self.l1i_accesses -= refused;
        self.l1i_misses -= refused;
    }

    fn count_l2(&mut self, asked: &Result<Missed, Cycle>) {
        let Ok(missed) = asked else { return };
        self.l2_accesses += u64::from(!missed.merged);
        let missed_second = !matches!(missed.level, Level::L2 | Level::Home);
        self.l2_misses += u64::from(!missed.merged && missed_second);
    }
}

/// In which modes: by place in pairs of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeGroup {
    /// User mode.
    User,
    /// Supervisor and machine mode.
    Kernel,
}

impl ModeGroup {
    /// Both, in order.
    pub const ALL: [ModeGroup; 2] = [ModeGroup::User, ModeGroup::Kernel];

    /// The group of a mode.
    #[must_use]
    pub fn of(mode: Mode) -> Self {
        match mode {
            Mode::User => ModeGroup::User,
            Mode::Supervisor | Mode::Machine => ModeGroup::Kernel,
        }
    }

    /// Its word in names of components.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ModeGroup::User => "user",
            ModeGroup::Kernel => "kernel",
        }
    }
}

/// In how many cycles something was so many.
#[derive(Clone, Copy, Debug)]
pub struct Histogram<'a> {
    /// What was counted.
    pub name: &'static str,
    /// What one of it is.
    pub unit: &'static str,
    /// Entry n: cycles in which it was n; the last entry: that many or more.
    pub cycles: &'a [u64],
}

/// What is so many in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Fetched,
    Issued,
    /// Those of the integer queue, loads and stores among them.
    IntegerIssued,
    Retired,
    Fetchable,
    IntegerQueue,
    FpQueue,
    /// Of the integer queue, entries of instructions that look for work.
    PollingQueued,
}

/// Of each of them, in order: its name, and what one of it is.
const COUNTED: [(&str, &str); 8] = [
    ("fetched", "instructions"),
    ("issued", "instructions"),
    ("integer_issued", "instructions"),
    ("retired", "instructions"),
    ("fetchable_contexts", "contexts"),
    ("integer_queue", "instructions"),
    ("fp_queue", "instructions"),
    ("polling_queued", "instructions"),
];

/// How the cycles of a core are distributed. All distributions lie side by side, since each counts every cycle.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Histograms {
    /// Where the entries of each begin, and where the last one's end.
    pub(super) starts: [u16; COUNTED.len() + 1],
    pub(super) cycles: Box<[u64]>,
}

impl Histograms {
    pub(super) fn new(params: &super::SmtParams) -> Self {
        let (core, units) = (&params.core, &params.units);
        let most = [
            core.fetch_width,
            units.integer + units.floating_point,
            units.integer,
            core.retire_width,
            params.contexts,
            core.integer_queue_entries,
            core.fp_queue_entries,
            core.integer_queue_entries,
        ];
        let mut starts = [0; COUNTED.len() + 1];
        for (n, most) in most.into_iter().enumerate() {
            starts[n + 1] = starts[n] + most as u16 + 1;
        }
        Self {
            starts,
            cycles: vec![0; starts[COUNTED.len()].into()].into(),
        }
    }

    /// In so many cycles it was `value`.
    #[inline(always)]
    pub(super) fn count(&mut self, what: Counted, value: u64, cycles: u64) {
        let (first, end) = (self.starts[what as usize], self.starts[what as usize + 1]);
        let at = (usize::from(first) + value as usize).min(usize::from(end) - 1);
        self.cycles[at] += cycles;
    }

    /// In a cycle that was counted as one in which there was none, it was `value`.
    pub(super) fn correct(&mut self, what: Counted, value: u64) {
        self.cycles[usize::from(self.starts[what as usize])] -= 1;
        self.count(what, value, 1);
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Histogram<'_>> {
        let starts = self.starts.windows(2).zip(COUNTED);
        starts
            .map(|(bounds, (name, unit))| Histogram {
                name,
                unit,
                cycles: &self.cycles[bounds[0].into()..bounds[1].into()],
            })
            .collect()
    }
}
