//! One run without Python around it, for `perf` and `callgrind`:
//! `profile [--json] [--no-skip] [--phases PLAN] MACHINE.toml PROGRAM.elf "BOOTARGS" [KEY=VALUE ...]`.
//!
//! Without a plan, everything from the beginning of the program's measurement on is timed.

use std::path::Path;

use loiter_sim::{Observation, Request, machine_text, run};

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut takes = |option: &str| {
        let is_first = arguments.first().is_some_and(|first| first == option);
        arguments.drain(..usize::from(is_first));
        is_first
    };
    let (json, no_skip) = (takes("--json"), takes("--no-skip"));
    let has_plan = takes("--phases") && !arguments.is_empty();
    let phases = has_plan.then(|| arguments.remove(0));
    let [machine, program, bootargs, set @ ..] = arguments.as_slice() else {
        eprintln!(
            "usage: profile [--json] [--no-skip] [--phases PLAN] MACHINE.toml PROGRAM.elf BOOTARGS [KEY=VALUE ...]"
        );
        std::process::exit(2);
    };
    let request = Request {
        machine_name: machine.clone(),
        machine_toml: text_of(machine),
        set: set.to_vec(),
        program: program.clone(),
        bootargs: bootargs.clone(),
        fast_forward: phases.is_none(),
        phases,
        waiting: None,
        lock_stats: false,
        max_cycles: None,
        observe: Observation {
            no_skip,
            ..Observation::default()
        },
    };
    let elf = std::fs::read(program).expect("the program");
    let result = run(&request, &elf, &mut |_| true).expect("a run that ends");
    if json {
        let text = serde_json::to_string_pretty(&result).expect("plain data");
        println!("{text}");
        return;
    }
    println!(
        "{} instructions, {} of them timed, {} cycles, {:.2} M/s",
        result.instructions,
        result.timing_instructions,
        result.cycles,
        result.instructions as f64 / result.host_seconds / 1e6
    );
}

/// The text of a machine file; the machines that it builds on lie beside it.
fn text_of(machine: &str) -> String {
    let path = Path::new(machine);
    let folder = path.parent().unwrap_or(Path::new(""));
    machine_text(machine, path, folder).unwrap_or_else(|error| panic!("{error}"))
}
