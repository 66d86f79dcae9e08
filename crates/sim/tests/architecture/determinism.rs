//! The same request gives the same result, to the last counter.

use loiter_sim::{Request, RunResult};

use crate::generator::{Settings, Target, generate};
use crate::machines::{Machine, run_to_end};

/// Everything but the host's time, as text.
pub(crate) fn text(mut result: RunResult) -> String {
    assert!(result.host_seconds > 0.0);
    result.host_seconds = 0.0;
    serde_json::to_string_pretty(&result).expect("plain data")
}

pub(crate) fn assert_repeatable(request: &Request, elf: &[u8]) {
    let first = text(run_to_end(request, elf));
    let second = text(run_to_end(request, elf));
    for (first, second) in first.lines().zip(second.lines()) {
        assert_eq!(first, second, "{}", request.machine_name);
    }
    assert_eq!(first.len(), second.len());
}

#[test]
fn the_same_request_gives_the_same_result() {
    let program = generate(Settings {
        seed: 0x500,
        harts: 8,
        blocks: 15,
        items: 60,
        target: Target::Loiter,
    });
    let cases = [
        (Machine::Virt, 8),
        (Machine::T1, 2),
        (Machine::T2, 1),
        (Machine::Smt8, 1),
    ];
    for (machine, cores) in cases {
        for fast_forward in [false, true] {
            let mut request = machine.request(cores);
            request.fast_forward = fast_forward;
            assert_repeatable(&request, &program.elf);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_program() {
    for target in [Target::Qemu, Target::Loiter] {
        let settings = Settings {
            seed: 7,
            harts: 2,
            blocks: 5,
            items: 100,
            target,
        };
        assert_eq!(generate(settings).elf, generate(settings).elf);
        let other = Settings {
            seed: 8,
            ..settings
        };
        assert_ne!(generate(other).elf, generate(settings).elf);
    }
}
