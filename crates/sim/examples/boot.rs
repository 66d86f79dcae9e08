//! Boots a kernel without Python around it, for `perf` and for a first look:
//! `boot MACHINE.toml FIRMWARE KERNEL INITRD HARTS SECONDS "BOOTARGS" [KEY=VALUE ...]`. The console goes
//! to standard output; the run ends after so many seconds of host time, or when the console says WORD
//! of the environment variable `UNTIL`. `SYMBOLS` names files of symbols, with blanks between them; `GDB`
//! is where a debugger is waited for, `PROFILE` and `TRACE` are files to write, and `TRACE_FROM` says
//! from where on.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use loiter_sim::{BootRequest, Limits, Session, Status, TraceRequest, machine_text};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [
        machine,
        firmware,
        kernel,
        initrd,
        harts,
        seconds,
        bootargs,
        set @ ..,
    ] = arguments.as_slice()
    else {
        eprintln!(
            "usage: boot MACHINE.toml FIRMWARE KERNEL INITRD HARTS SECONDS BOOTARGS [KEY=VALUE ...]"
        );
        std::process::exit(2);
    };
    let symbols = std::env::var("SYMBOLS").unwrap_or_default();
    let symbols: Vec<&str> = symbols.split_whitespace().collect();
    let request = serde_json::json!({
        "machine_name": machine,
        "machine_toml": text_of(machine),
        "set": set,
        "harts": harts.parse::<usize>().expect("a number of harts"),
        "firmware": firmware,
        "kernel": kernel,
        "initrd": initrd,
        "bootargs": bootargs,
        "symbols": symbols,
    });
    let request: BootRequest = serde_json::from_value(request).expect("a request");
    let until = std::env::var("UNTIL").ok();
    let limit = Duration::from_secs(seconds.parse().expect("a number of seconds"));
    let started = Instant::now();
    let mut session = Session::boot(&request).unwrap_or_else(|error| panic!("{error}"));
    if let Ok(address) = std::env::var("GDB") {
        let address = session.listen_gdb(&address);
        eprintln!("gdb: {}", address.unwrap_or_else(|error| panic!("{error}")));
    }
    let profile = std::env::var("PROFILE").ok();
    if profile.is_some() {
        session.begin_profile(None).expect("at once");
    }
    if let Ok(path) = std::env::var("TRACE") {
        let trace = TraceRequest {
            path,
            from: std::env::var("TRACE_FROM").ok(),
            count: Some(1_000_000),
        };
        let begun = session.begin_trace(&trace);
        begun.unwrap_or_else(|error| panic!("{error}"));
    }
    let mut console = Vec::new();
    let status = loop {
        let status = session
            .step(Duration::from_millis(20), &Limits::default())
            .unwrap_or_else(|error| panic!("{error}"));
        let output = session.take_output(0);
        std::io::stdout()
            .write_all(&output)
            .expect("to write the console");
        std::io::stdout().flush().expect("to write the console");
        console.extend(output);
        let text = String::from_utf8_lossy(&console);
        let said = until.as_ref().is_some_and(|word| text.contains(word));
        if said || started.elapsed() > limit || !matches!(status, Status::Running | Status::Held) {
            break status;
        }
    };
    if let Some(path) = profile {
        let written = session.write_profile(&path, kernel);
        written.unwrap_or_else(|error| panic!("{error}"));
    }
    session.end_logs();
    let host_s = started.elapsed().as_secs_f64();
    println!(
        "\n{status:?}\n{}\n{} instructions, {:.3} s simulated, {host_s:.2} s host, {:.1} M/s",
        session.where_harts_stand().join("\n"),
        session.instructions(),
        session.seconds_since_power_on(),
        session.instructions() as f64 / host_s / 1e6,
    );
}

/// The text of a machine file; the machines that it builds on lie beside it.
fn text_of(machine: &str) -> String {
    let path = Path::new(machine);
    let folder = path.parent().unwrap_or(Path::new(""));
    machine_text(machine, path, folder).unwrap_or_else(|error| panic!("{error}"))
}
