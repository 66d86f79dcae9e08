use loiter_types::{Cycle, StateVisitor};

use super::{FIRST_WORTH_INSTRUCTIONS, Growth, Record, Taking, View, WORDS_AN_INSTRUCTION, Watch};

/// A core with a period, and what has been asked of it.
struct Spinner {
    now: Cycle,
    /// Cycles of its period, in the first of which it looks otherwise than in the rest; 1: it looks the same in each.
    period: u64,
    state_words: usize,
    /// Instructions that it retires in a hundred cycles.
    retires: u64,
    changes: u64,
    records: u32,
}

impl View for Spinner {
    fn changes(&self) -> u64 {
        self.changes
    }

    fn retired(&self) -> u64 {
        self.now.0 * self.retires / 100
    }

    fn looks(&self, _: bool) -> u64 {
        u64::from(self.now.0.is_multiple_of(self.period))
    }

    fn record(&mut self, room: Record) -> Record {
        self.records += 1;
        let mut taking = Taking::new(self.now, room);
        (1..self.state_words).for_each(|word| taking.value(word as u64));
        taking.value(self.now.0 % self.period);
        taking.record()
    }

    fn climbs_for(&mut self, _: &Growth) -> u64 {
        0
    }
}

/// Lets a core wait for so many cycles, several times, with something from outside between. Returns its records, and how
/// often it was found to repeat itself.
fn waits(mut core: Spinner, worth: &mut u64, waits: u64, cycles: u64) -> (u32, u32) {
    let mut watch = Watch::new();
    let mut found = 0;
    for wait in 0..waits {
        watch.forget(core.now);
        core.changes = wait;
        for _ in 0..cycles {
            core.now = core.now.after(1);
            if watch.from() <= core.now && watch.look(core.now, core.now.after(1), worth, &mut core)
            {
                found += 1;
                break;
            }
        }
        core.now = core.now.after(cycles);
    }
    (core.records, found)
}

fn spinner(state_words: usize, retires: u64) -> Spinner {
    Spinner {
        now: Cycle(0),
        period: 1,
        state_words,
        retires,
        changes: 0,
        records: 0,
    }
}

/// A state of 64,000 words is worth a thousand instructions: waits for fewer are gone through, after the first record, which
/// tells how large it is.
#[test]
fn a_large_state_is_recorded_only_in_long_waits() {
    let words = 1_000 * WORDS_AN_INSTRUCTION;
    let mut worth = FIRST_WORTH_INSTRUCTIONS;
    let (records, found) = waits(spinner(words, 100), &mut worth, 1, 4_000);
    assert_eq!((records, found, worth), (2, 1, 1_000));
    let (records, found) = waits(spinner(words, 100), &mut worth, 50, 900);
    assert_eq!((records, found), (0, 0));
    let (records, found) = waits(spinner(words, 100), &mut worth, 50, 4_000);
    assert_eq!((records, found), (100, 50));
}

/// A core that sleeps between its reads costs the host little, however long it waits.
#[test]
fn cycles_in_which_nothing_retires_do_not_count() {
    let mut worth = 1_000;
    let (records, _) = waits(spinner(64_000, 1), &mut worth, 5, 20_000);
    assert_eq!(records, 0);
}

/// A small one is looked at as soon as it has waited for [`super::FIRST_WAIT_CYCLES`].
#[test]
fn a_small_state_is_recorded_at_once() {
    let mut worth = 1;
    let (records, found) = waits(spinner(64, 100), &mut worth, 50, 400);
    assert_eq!((records, found), (100, 50));
}

/// While it divides it looks the same, and is not: a record of the first of these cycles is enough.
#[test]
fn a_core_that_stands_still_is_recorded_once_a_period() {
    for period in [2, 20, 40, 60] {
        let mut worth = 1;
        let core = Spinner {
            period,
            ..spinner(64, 100)
        };
        let (records, found) = waits(core, &mut worth, 50, 1_000);
        assert_eq!((records, found), (100, 50), "period {period}");
    }
}
