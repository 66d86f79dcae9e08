//! Running programs on loiter's machines.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use loiter_sim::{Error, ExitReason, Observation, Request, RunResult, machine_text, run};

/// Machine files of the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    /// The reference engine.
    Virt,
    T1,
    T2,
    Smt8,
    Smt2,
    Superscalar,
    PCore,
    Symmetry,
    Opteron48,
    Knl,
    /// In-order cores that own what they store to, on a directory; for tests only.
    InOrder,
    /// Those, and cores of `p-core`, in one system; for tests only. It has one core of the first kind.
    BigLittle,
}

impl Machine {
    fn name(self) -> &'static str {
        match self {
            Machine::Virt => "virt",
            Machine::T1 => "t1",
            Machine::T2 => "t2",
            Machine::Smt8 => "smt8",
            Machine::Smt2 => "smt2",
            Machine::Superscalar => "superscalar",
            Machine::PCore => "p-core",
            Machine::Symmetry => "symmetry",
            Machine::Opteron48 => "opteron48",
            Machine::Knl => "knl",
            Machine::InOrder => "in-order",
            Machine::BigLittle => "big-little",
        }
    }

    /// A request for so many cores with the contexts that the machine has.
    pub(crate) fn request(self, cores: usize) -> Request {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let presets = here.join("../../machines");
        let folder = match self {
            Machine::InOrder | Machine::BigLittle => here.join("tests/machines"),
            _ => presets.clone(),
        };
        let path = folder.join(format!("{}.toml", self.name()));
        Request {
            machine_name: self.name().into(),
            machine_toml: machine_text(self.name(), &path, &presets).expect("a preset"),
            set: vec![
                format!("system.cores={cores}"),
                format!("system.ram_mib={RAM_MIB}"),
                "hart.isa=+xloiterlock".into(),
            ],
            program: "generated".into(),
            bootargs: String::new(),
            fast_forward: false,
            phases: None,
            waiting: None,
            lock_stats: false,
            max_cycles: Some(MAX_CYCLES),
            observe: Observation {
                check: self != Machine::Virt,
                ..Observation::default()
            },
        }
    }
}

/// As much as QEMU gets.
pub(crate) const RAM_MIB: u64 = 128;

/// No test needs more; a program that hangs ends here, within a minute.
pub(crate) const MAX_CYCLES: u64 = 100_000_000;

/// Does `work` for each number below `count`, on as many threads as there are processors.
pub(crate) fn on_all_processors(count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        return;
                    }
                    work(n);
                }
            });
        }
    });
}

/// Runs `elf`.
pub(crate) fn try_run(request: &Request, elf: &[u8]) -> Result<RunResult, Error> {
    run(request, elf, &mut |_| true)
}

/// Asserts that the program ended by the finisher with code 0.
pub(crate) fn assert_passed(request: &Request, result: &RunResult) {
    let exit = &result.exit;
    let lines: Vec<&str> = result.console.lines().collect();
    assert!(
        exit.reason == ExitReason::Finisher && exit.code == 0,
        "{}: {}; it printed {} lines, the last ones\n{}",
        request.machine_name,
        exit.message,
        lines.len(),
        lines[lines.len().saturating_sub(5)..].join("\n")
    );
}

/// Runs `elf`, which must end by the finisher with code 0.
pub(crate) fn run_to_end(request: &Request, elf: &[u8]) -> RunResult {
    let result = match try_run(request, elf) {
        Ok(result) => result,
        Err(error) => panic!("{}: {error}", request.machine_name),
    };
    assert_passed(request, &result);
    result
}
