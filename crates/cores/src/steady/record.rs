//! A record of a core's state, and moving a core in time.

use loiter_types::{Cycle, StateVisitor};

/// Registers of a hart that a loop may count in.
pub(crate) const REGISTERS: usize = 32;

/// The state of a core at the end of a cycle, as far as it decides what follows, and its counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Values, and cycles relative to that of the record.
    words: Vec<u64>,
    counts: Vec<u64>,
    quantities: Vec<u64>,
    /// Of each hart that executes, how many instructions it has retired, and its registers.
    pub(crate) retired: Vec<(usize, u64)>,
    pub(crate) registers: Vec<[u64; REGISTERS]>,
    /// The first cycle in which something happens that does not move with the rest.
    pub(crate) deadline: Cycle,
    /// It can repeat itself.
    pub(crate) steady: bool,
}

/// By how much counts, quantities and the instructions of harts grow in a period.
#[derive(Clone, Debug, Default)]
pub(crate) struct Growth {
    counts: Vec<u64>,
    quantities: Vec<u64>,
    pub(crate) retired: Vec<(usize, u64)>,
    pub(crate) registers: Vec<[u64; REGISTERS]>,
}

impl Growth {
    /// Whether a quantity grows.
    pub(crate) fn climbs(&self) -> bool {
        self.quantities.iter().any(|&growth| growth != 0)
    }
}

impl Record {
    /// How many words of eight bytes it compares.
    pub(crate) fn words(&self) -> usize {
        self.words.len()
    }

    /// Whether this is the state of `earlier` again.
    pub(crate) fn repeats(&self, earlier: &Record) -> bool {
        self.steady && earlier.steady && self.words == earlier.words
    }

    /// By how much everything has grown since `earlier`.
    pub(crate) fn growth_since(&self, earlier: &Record) -> Growth {
        let since = |now: &[u64], then: &[u64]| {
            let values = now.iter().zip(then);
            values.map(|(now, then)| now.wrapping_sub(*then)).collect()
        };
        let retired = self.retired.iter().zip(&earlier.retired);
        let registers = self.registers.iter().zip(&earlier.registers);
        Growth {
            registers: registers
                .map(|(now, then)| std::array::from_fn(|n| now[n].wrapping_sub(then[n])))
                .collect(),
            counts: since(&self.counts, &earlier.counts),
            quantities: since(&self.quantities, &earlier.quantities),
            retired: retired.map(|(now, then)| (now.0, now.1 - then.1)).collect(),
        }
    }

    /// Each count and each quantity grows by so much, as do the instructions of harts.
    pub(crate) fn grows(&mut self, growth: &Growth) {
        let counts = self.counts.iter_mut().zip(&growth.counts);
        let quantities = self.quantities.iter_mut().zip(&growth.quantities);
        for (value, growth) in counts.chain(quantities) {
            *value = value.wrapping_add(*growth);
        }
        for (registers, growth) in self.registers.iter_mut().zip(&growth.registers) {
            for (value, growth) in registers.iter_mut().zip(growth) {
                *value = value.wrapping_add(*growth);
            }
        }
        for ((_, retired), (_, growth)) in self.retired.iter_mut().zip(&growth.retired) {
            *retired += growth;
        }
    }

    /// Where two records differ, for a message.
    pub(crate) fn difference(&self, other: &Record) -> String {
        let first = |a: &[u64], b: &[u64]| a.iter().zip(b).position(|(a, b)| a != b);
        format!(
            "{} and {} words, first difference {:?}; {} and {} counts, {:?}; quantities {:?}; deadlines {} and {}",
            self.words.len(),
            other.words.len(),
            first(&self.words, &other.words),
            self.counts.len(),
            other.counts.len(),
            first(&self.counts, &other.counts),
            first(&self.quantities, &other.quantities),
            self.deadline,
            other.deadline,
        )
    }
}

/// Takes a record at the end of cycle `now`.
pub(crate) struct Taking {
    now: Cycle,
    record: Record,
}

impl Taking {
    /// `room` is emptied.
    pub(crate) fn new(now: Cycle, mut room: Record) -> Self {
        room.words.clear();
        room.counts.clear();
        room.quantities.clear();
        room.retired.clear();
        room.registers.clear();
        room.deadline = Cycle::NEVER;
        room.steady = true;
        Self { now, record: room }
    }

    pub(crate) fn record(self) -> Record {
        self.record
    }

    /// How far ahead a cycle lies: never is further than all.
    fn ahead(&self, at: Cycle) -> u64 {
        match at {
            Cycle::NEVER => u64::MAX,
            at => at.0.saturating_sub(self.now.0),
        }
    }
}

impl StateVisitor for Taking {
    fn count(&mut self, count: &mut u64) {
        self.record.counts.push(*count);
    }

    fn cycle(&mut self, at: &mut Cycle) {
        self.record.words.push(self.ahead(*at));
    }

    fn instant(&mut self, at: &mut Cycle) {
        let relative = match *at {
            Cycle::NEVER => u64::MAX,
            at => at.0.wrapping_sub(self.now.0),
        };
        self.record.words.push(relative);
    }

    fn deadline(&mut self, at: Cycle) {
        let ahead = at > self.now;
        self.record.words.push(if ahead { at.0 } else { 0 });
        if ahead {
            self.record.deadline = self.record.deadline.min(at);
        }
    }

    fn multiple(&mut self, _: &mut Cycle, _: u64) {}

    fn quantity(&mut self, value: &mut u64) {
        self.record.quantities.push(*value);
    }

    fn value(&mut self, value: u64) {
        self.record.words.push(value);
    }

    fn require(&mut self, holds: bool) {
        self.record.steady &= holds;
    }

    fn moves(&self) -> u64 {
        0
    }
}

/// Moves a core that repeats itself by some periods.
pub(crate) struct Moving<'a> {
    /// The last cycle that it has been through before, and the cycles that it is moved by.
    now: Cycle,
    by: u64,
    periods: u64,
    growth: std::slice::Iter<'a, u64>,
    climbs: std::slice::Iter<'a, u64>,
}

impl<'a> Moving<'a> {
    pub(crate) fn new(now: Cycle, period: u64, periods: u64, growth: &'a Growth) -> Self {
        Self {
            now,
            by: period * periods,
            periods,
            growth: growth.counts.iter(),
            climbs: growth.quantities.iter(),
        }
    }

    /// All counts have grown.
    pub(crate) fn finish(mut self) {
        let all = self.growth.next().is_none() && self.climbs.next().is_none();
        debug_assert!(all, "fewer counts than before");
    }
}

impl StateVisitor for Moving<'_> {
    fn count(&mut self, count: &mut u64) {
        let growth = self.growth.next().copied().unwrap_or(0);
        *count = count.wrapping_add(growth.wrapping_mul(self.periods));
    }

    fn cycle(&mut self, at: &mut Cycle) {
        // Nothing comes after never.
        *at = at.after(self.by);
    }

    fn instant(&mut self, at: &mut Cycle) {
        *at = at.after(self.by);
    }

    fn deadline(&mut self, _: Cycle) {}

    fn multiple(&mut self, at: &mut Cycle, of: u64) {
        let now = self.now.after(self.by);
        if *at <= now {
            *at = Cycle((now.0 / of + 1) * of);
        }
    }

    fn quantity(&mut self, value: &mut u64) {
        let growth = self.climbs.next().copied().unwrap_or(0);
        *value = value.wrapping_add(growth.wrapping_mul(self.periods));
    }

    fn value(&mut self, _: u64) {}

    fn require(&mut self, holds: bool) {
        debug_assert!(holds, "it does not repeat itself any more");
    }

    fn moves(&self) -> u64 {
        self.by
    }
}
