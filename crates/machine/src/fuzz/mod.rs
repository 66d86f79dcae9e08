//! Fuzz targets: what comes from outside, by the thousand, most of it a valid file with a few changes
//! so that it gets past the first checks. Nothing may panic; more is asserted where more is known.
//!
//! Each target runs for a few seconds in the ordinary tests, with inputs that are new every time. A
//! failure prints the input, as small as it could be made, and `BOLERO_RANDOM_SEED=...`: the test run
//! with that in its environment begins with the same input. `BOLERO_RANDOM_TEST_TIME_MS=600000` makes
//! it a long run, and `cargo bolero` knows the targets by the names of the tests.

mod boot;
mod changes;
mod elf;
mod overrides;
mod snapshot;
mod virtio;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a target runs, and again until it has had [`LEAST`] inputs: shares of few say nothing.
const TIME: Duration = Duration::from_secs(4);
const LEAST: u64 = 100;

/// How many inputs there were and how many of them came how far.
#[derive(Default)]
struct Reached {
    inputs: AtomicU64,
    /// When it was asked last whether it wants more; one more than there were.
    asked: AtomicU64,
    stages: [AtomicU64; 3],
}

impl Reached {
    fn input(&self) {
        self.inputs.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the target is to run, or to run again: a slow host takes longer for enough inputs.
    fn wants_more(&self) -> bool {
        let inputs = self.inputs.load(Ordering::Relaxed);
        let asked = self.asked.swap(inputs + 1, Ordering::Relaxed);
        assert_ne!(asked, inputs + 1, "{TIME:?} without an input");
        inputs < LEAST
    }

    fn stage(&self, stage: usize) {
        self.stages[stage].fetch_add(1, Ordering::Relaxed);
    }

    /// Asserts that there were many inputs and that at least so many of a hundred reached each stage,
    /// and, where that can be, that at least one of a hundred did not.
    fn assert(&self, shares: &[u64]) {
        let inputs = self.inputs.load(Ordering::Relaxed);
        assert!(inputs >= LEAST, "only {inputs} inputs");
        for (stage, share) in shares.iter().enumerate() {
            let reached = self.stages[stage].load(Ordering::Relaxed);
            println!("{reached} of {inputs} inputs reached stage {stage}");
            assert!(
                reached * 100 >= inputs * share,
                "{reached} of {inputs} inputs reached stage {stage}"
            );
            assert!(
                (inputs - reached) * 100 >= inputs,
                "all but {} of {inputs} inputs reached stage {stage}: nothing is refused",
                inputs - reached
            );
        }
    }
}

/// Runs that bring few inputs are repeated, one that brings none is an error.
#[test]
fn a_target_runs_until_it_has_had_enough() {
    let reached = Reached::default();
    let mut runs = 0;
    while reached.wants_more() {
        (0..30).for_each(|_| reached.input());
        runs += 1;
    }
    assert_eq!(runs, LEAST.div_ceil(30));
    let idle = Reached::default();
    assert!(idle.wants_more());
    let again = std::panic::catch_unwind(|| idle.wants_more());
    assert!(again.is_err());
}
