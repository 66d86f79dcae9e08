//! A block that is repeated, in a loop that has run before: what it costs where it repeats.

use super::{Bench, Outcome, WAIT};

/// Repetitions of a block in the shorter of two runs; a multiple of every width and of a line.
pub const COUNT: u64 = 240;

/// One context of an `smt8`, with changes.
pub fn one_context(set: &[&str]) -> Bench {
    let bench = Bench::new("smt8")
        .set("core.contexts=1")
        .set("core.fetch_contexts=1");
    set.iter().fold(bench, |bench, change| bench.set(change))
}

/// `count` times `block`, between marks, in a loop that goes round three times.
pub fn rounds(setup: &str, block: &str, count: u64) -> String {
    format!(
        "{setup}
         {WAIT}
         li s1, 3
         again: mark
         .rept {count}
         {block}
         .endr
         end
         addi s1, s1, -1
         beqz s1, done
         j again
         done: exit"
    )
}

/// Cycles of the last round.
pub fn last_round(outcome: &Outcome) -> u64 {
    let marks = outcome.marks(0);
    assert_eq!(marks.len(), 6);
    marks[5].cycle - marks[4].cycle
}

/// Cycles of [`COUNT`] times `block` where it repeats; `wrap` makes a program of the code.
pub fn steady(set: &[&str], wrap: impl Fn(&str) -> String, setup: &str, block: &str) -> u64 {
    let cycles = |count| {
        let code = wrap(&rounds(setup, block, count));
        last_round(&one_context(set).hart(0, &code).run())
    };
    cycles(2 * COUNT) - cycles(COUNT)
}

/// Code that is a program as it stands.
pub fn bare(code: &str) -> String {
    code.to_owned()
}
