//! Samples: what timed cores did in each timed phase of a repetition, from its beginning to its end.
//!
//! A sample ends before the cores drain, and one that follows timed warming
//! begins with full pipelines, so its counts are those of a stretch in the middle of a run.

use std::collections::HashMap;

use serde::Serialize;

use crate::result::TimedRows;

/// A timed phase of a repetition that came to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Its number, from 0.
    pub sample: u64,
    /// The cycle in which it began, from power-on.
    pub begin_cycle: u64,
    /// Instructions that all harts had retired before, from power-on.
    pub begin_instruction: u64,
    /// Its cycles.
    pub cycles: u64,
    /// Instructions that all harts retired in it.
    pub instructions: u64,
    /// What was counted in it, in the order of the tables at the end of the run: values of counters, cycles of
    /// activities, instructions of activities, cycles of histograms. One that is settled only later, such as
    /// what a context does, may be taken back in the next sample, and be less than 0.
    pub counts: Vec<i64>,
}

/// What a count is of: a table, and what names the row in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    table: u8,
    component: String,
    name: &'static str,
    /// A context, or the value of a histogram.
    number: u64,
}

/// Where the run stands: a cycle from power-on, instructions retired by all harts, and counts so far.
struct Moment {
    cycle: u64,
    instructions: u64,
    counts: HashMap<Key, u64>,
}

/// Takes samples.
#[derive(Default)]
pub(crate) struct Sampler {
    begun: Option<Moment>,
    samples: Vec<(Sample, HashMap<Key, i64>)>,
}

impl Sampler {
    /// A sample begins.
    pub(crate) fn begin(&mut self, cycle: u64, instructions: u64, rows: &TimedRows) {
        self.begun = Some(Moment {
            cycle,
            instructions,
            counts: counts(rows).collect(),
        });
    }

    /// The sample ends, if one has begun.
    pub(crate) fn end(&mut self, cycle: u64, instructions: u64, rows: &TimedRows) {
        let Some(begun) = self.begun.take() else {
            return;
        };
        let before = |key: &Key| begun.counts.get(key).copied().unwrap_or(0);
        let differences = counts(rows).map(|(key, count)| {
            let difference = count.cast_signed() - before(&key).cast_signed();
            (key, difference)
        });
        let sample = Sample {
            sample: self.samples.len() as u64,
            begin_cycle: begun.cycle,
            begin_instruction: begun.instructions,
            cycles: cycle - begun.cycle,
            instructions: instructions - begun.instructions,
            counts: Vec::new(),
        };
        self.samples.push((sample, differences.collect()));
    }

    /// The sample is cut off, if one has begun.
    pub(crate) fn cut_off(&mut self) {
        self.begun = None;
    }

    /// Whether one has begun.
    pub(crate) fn is_taking(&self) -> bool {
        self.begun.is_some()
    }

    /// The samples, with counts in the order of `rows`.
    pub(crate) fn samples(&self, rows: &TimedRows) -> Vec<Sample> {
        let order: Vec<Key> = counts(rows).map(|(key, _)| key).collect();
        let in_order = |(sample, counts): &(Sample, HashMap<Key, i64>)| Sample {
            counts: order
                .iter()
                .map(|key| counts.get(key).copied().unwrap_or(0))
                .collect(),
            ..sample.clone()
        };
        self.samples.iter().map(in_order).collect()
    }
}

fn counts(rows: &TimedRows) -> impl Iterator<Item = (Key, u64)> {
    let of = |table, component: &str, name, number, count| {
        let key = Key {
            table,
            component: component.to_owned(),
            name,
            number,
        };
        (key, count)
    };
    let counters = rows.counters.iter();
    let counters = counters.map(move |it| of(0, &it.component, it.name, 0, it.value));
    let activities = || rows.activities.iter();
    let cycles = activities().map(move |it| of(1, "", it.activity, it.context.into(), it.cycles));
    let instructions =
        activities().map(move |it| of(2, "", it.activity, it.context.into(), it.instructions));
    let histograms = rows.histograms.iter();
    let histograms = histograms.map(move |it| of(3, &it.component, it.name, it.value, it.cycles));
    counters.chain(cycles).chain(instructions).chain(histograms)
}
