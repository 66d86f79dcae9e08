//! Explores litmus tests:  litmus sc|tso|rvwmo FILE...
//!
//! Prints a line a test: its name, whether the model allows what it asks, outcomes with and without it, and how much was
//! looked at. Exits with 1 if a test could not be explored.

use std::process::ExitCode;

use loiter_explore::{Limits, Litmus, Model};

fn run(path: &str, model: Model) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let test = Litmus::parse(&text).map_err(|error| error.to_string())?;
    let found = test
        .explore(model, &Limits::default())
        .map_err(|error| error.to_string())?;
    let holds = found.outcomes.iter().filter(|o| test.holds(o)).count();
    Ok(format!(
        "{} {} {holds} {} states={} steps={}",
        test.name,
        if test.allows(&found) {
            "allowed"
        } else {
            "forbidden"
        },
        found.outcomes.len() - holds,
        found.statistics.states,
        found.statistics.steps,
    ))
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    let Some(model) = Model::ALL.into_iter().find(|model| model.name() == name) else {
        eprintln!("usage: litmus sc|tso|rvwmo FILE...");
        return ExitCode::from(2);
    };
    let mut code = ExitCode::SUCCESS;
    for path in words {
        match run(&path, model) {
            Ok(line) => println!("{line}"),
            Err(error) => {
                eprintln!("{path}: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
