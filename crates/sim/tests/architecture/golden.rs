//! All that small runs count, as it was reviewed when it last changed: the same in every build and on
//! every host.
//!
//! A change of the model changes these files, and so shows in review:
//! `LOITER_GOLDEN=write cargo test --release -p loiter-sim --test architecture golden`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use loiter_sim::RunResult;

use crate::generator::{Settings, Target, generate};
use crate::machines::{Machine, run_to_end};

/// Differences that a failure shows.
const SHOWN: usize = 20;

/// One line for each number, those that are zero left out.
fn text(result: &RunResult) -> String {
    let mut out = format!(
        "cycles {}\ninstructions {}\n",
        result.cycles, result.instructions
    );
    let mut line = |name: String, value: u64| {
        if value != 0 {
            writeln!(out, "{name} {value}").expect("a string takes all");
        }
    };
    for row in &result.counters {
        line(format!("{} {}", row.component, row.name), row.value);
    }
    for row in &result.accounts {
        let name = format!("context{} {} {}", row.context, row.activity, row.slot);
        line(name, row.cycles);
    }
    for row in &result.histograms {
        line(
            format!("{} {} {}", row.component, row.name, row.value),
            row.cycles,
        );
    }
    out
}

/// The program of so many harts on so many cores, which fill them.
fn compare(machine: Machine, cores: usize, harts: usize) {
    let program = generate(Settings {
        seed: 0x600,
        harts,
        blocks: 6,
        items: 50,
        target: Target::Loiter,
    });
    let request = machine.request(cores);
    let name = match cores {
        1 => request.machine_name.clone(),
        _ => format!("{}-{cores}-cores", request.machine_name),
    };
    let found = text(&run_to_end(&request, &program.elf));
    assert!(found.lines().count() > 100, "{name}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var("LOITER_GOLDEN").is_ok_and(|word| word == "write") {
        fs::write(&path, &found).expect("a file of the repository");
        return;
    }
    let expected = fs::read_to_string(&path).expect("a file of the repository");
    let lost = expected
        .lines()
        .filter(|line| !found.lines().any(|it| it == *line));
    let new = found
        .lines()
        .filter(|line| !expected.lines().any(|it| it == *line));
    let differences: Vec<_> = lost
        .map(|line| format!("- {line}"))
        .chain(new.map(|line| format!("+ {line}")))
        .collect();
    assert!(
        found == expected,
        "{name}: {} lines of {} differ; the head of this file says how to renew it\n{}",
        differences.len(),
        path.display(),
        differences[..differences.len().min(SHOWN)].join("\n")
    );
}

#[test]
fn golden_runs_count_what_was_reviewed() {
    for (machine, cores, harts) in [
        (Machine::T1, 1, 4),
        (Machine::T2, 1, 8),
        (Machine::Smt8, 1, 8),
        (Machine::PCore, 1, 2),
        (Machine::T1, 2, 8),
        (Machine::T2, 2, 16),
        (Machine::Smt8, 2, 16),
        (Machine::PCore, 2, 4),
        (Machine::InOrder, 2, 8),
        (Machine::Symmetry, 2, 2),
    ] {
        compare(machine, cores, harts);
    }
}
