//! Explores guest programs:  guest sc|tso|rvwmo HARTS SECONDS FILE...
//!
//! Prints a line a program: what came of it, how much was looked at, and how fast. Made for profiling.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use loiter_explore::{Limits, Model, Statistics, explore, guest};
use loiter_machine::ElfImage;

fn run(path: &str, model: Model, harts: usize, most: Duration) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let image = ElfImage::parse(path, &bytes).map_err(|error| format!("{error:?}"))?;
    let program = guest(&image, harts);
    let (began, mut last) = (Instant::now(), Statistics::default());
    let found = explore(&program, model, &Limits::default(), &mut |now| {
        last = *now;
        began.elapsed() < most
    });
    let what = match &found {
        Ok(found) if found.failure.is_some() => "fails".to_owned(),
        Ok(_) => "passes".to_owned(),
        Err(fault) => fault.to_string(),
    };
    let all = found.map_or(last, |found| found.statistics);
    let seconds = began.elapsed().as_secs_f64();
    Ok(format!(
        "{path} {what}: states={} known={} steps={} seconds={seconds:.1} states/s={:.0}",
        all.states,
        all.known,
        all.steps,
        all.states as f64 / seconds
    ))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [model, harts, seconds, files @ ..] = &words[..] else {
        eprintln!("usage: guest sc|tso|rvwmo HARTS SECONDS FILE...");
        return ExitCode::from(2);
    };
    let model = Model::ALL.into_iter().find(|it| it.name() == model);
    let (Some(model), Ok(harts), Ok(seconds)) = (model, harts.parse(), seconds.parse()) else {
        eprintln!("usage: guest sc|tso|rvwmo HARTS SECONDS FILE...");
        return ExitCode::from(2);
    };
    for path in files {
        match run(path, model, harts, Duration::from_secs(seconds)) {
            Ok(line) => println!("{line}"),
            Err(error) => {
                eprintln!("{path}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
