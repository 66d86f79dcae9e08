//! Programs written in a few lines of assembly, run on a preset.

mod assembler;
pub mod paging;
pub mod rounds;
pub mod rule;

use std::collections::BTreeMap;
use std::path::Path;

use loiter_sim::{MachineFile, Observation, Request, RunResult, WaitingTable, machine_text, run};

use assembler::{assemble, assemble_with_labels};

/// RAM begins here, and the program with it.
const BASE: u64 = 0x8000_0000;

/// Where programs put their data: behind any code, at the start of a set of every cache.
pub const DATA: u64 = 0x8100_0000;

/// Code that waits until all harts without code sleep.
pub const WAIT: &str = "li t0, 3000; wait: addi t0, t0, -1; bnez t0, wait";

/// Length of a `pause`, by which the harts of a test wait until all others have begun or gone to sleep.
pub const PAUSE: u64 = 20_000;

/// Cycles after which a program that ought to end itself hangs.
const HANGS: u64 = 20_000_000;

/// A machine with changes, and a program for some of its harts.
#[derive(Clone)]
pub struct Bench {
    machine: String,
    set: Vec<String>,
    code: BTreeMap<usize, String>,
    max_cycles: Option<u64>,
    phases: Option<String>,
}

impl Bench {
    /// Preset `machine` with two cores.
    pub fn new(machine: &str) -> Self {
        Self {
            machine: machine.to_owned(),
            set: vec!["system.cores=2".to_owned(), "system.ram_mib=64".to_owned()],
            code: BTreeMap::new(),
            max_cycles: None,
            phases: None,
        }
    }

    /// With a `pause` that lasts [`PAUSE`] cycles.
    pub fn long_pause(self) -> Self {
        self.set(&format!("wait.pause_cycles={PAUSE}"))
    }

    /// With a parameter changed.
    pub fn set(mut self, change: &str) -> Self {
        self.set.push(change.to_owned());
        self
    }

    /// With `source` for hart `hart`. Harts without code sleep for ever. Labels that begin with the word for a kind
    /// of code, such as `lock_1`, say of what kind the code is from there to the next such label.
    pub fn hart(mut self, hart: usize, source: &str) -> Self {
        self.code.insert(hart, source.to_owned());
        self
    }

    /// Ends after `cycles`; without, the program must end itself before it [hangs][HANGS].
    pub fn for_cycles(mut self, cycles: u64) -> Self {
        self.max_cycles = Some(cycles);
        self
    }

    /// In these phases.
    pub fn phases(mut self, plan: &str) -> Self {
        self.phases = Some(plan.to_owned());
        self
    }

    /// The parameters of the machine as changed.
    pub fn parameters(&self) -> Parameters {
        let file = MachineFile::read(&self.machine, &self.preset(), &self.set).unwrap();
        let parameters = file.describe().parameters.into_iter();
        Parameters {
            values: parameters
                .map(|parameter| (parameter.key, parameter.value))
                .collect(),
        }
    }

    fn preset(&self) -> String {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let presets = here.join("../../machines");
        let file = format!("{}.toml", self.machine);
        // Some machines are for tests only.
        let own = here.join("tests/machines").join(&file);
        let path = if own.exists() {
            own
        } else {
            presets.join(&file)
        };
        machine_text(&self.machine, &path, &presets).unwrap()
    }

    /// Runs it.
    pub fn run(&self) -> Outcome {
        let request = Request {
            machine_name: self.machine.clone(),
            machine_toml: self.preset(),
            set: self.set.clone(),
            program: "test".to_owned(),
            bootargs: String::new(),
            fast_forward: false,
            phases: self.phases.clone(),
            max_cycles: Some(self.max_cycles.unwrap_or(HANGS)),
            waiting: self.waiting(),
            lock_stats: false,
            observe: Observation::default(),
        };
        let result = run(&request, &elf(&self.code().0), &mut |_| true);
        let result = result.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            result.exit.code,
            u32::from(self.max_cycles.is_some()),
            "{}",
            result.exit.message
        );
        Outcome { result }
    }

    /// The table of what waits, as labels say it.
    fn waiting(&self) -> Option<WaitingTable> {
        let (words, labels) = self.code();
        let mut begins: Vec<_> = labels.into_iter().collect();
        begins.sort_unstable();
        begins.push((BASE + 4 * words.len() as u64, "plain"));
        let mut text = String::new();
        for pair in begins.windows(2) {
            let ((begin, kind), (end, _)) = (pair[0], pair[1]);
            if kind != "plain" {
                text += &format!(
                    "[[range]]\nbegin = '{begin:#x}'\nend = '{end:#x}'\nkind = '{kind}'\n"
                );
            }
        }
        let path = "test".to_owned();
        (!text.is_empty()).then_some(WaitingTable { path, text })
    }

    /// Every hart jumps through a table to its own code, which begins a line of every cache. Returns also where labels
    /// say of what kind the code is.
    fn code(&self) -> (Vec<u32>, BTreeMap<u64, &'static str>) {
        let parameters = self.parameters();
        let harts = parameters.number("system.cores") * parameters.number("core.contexts");
        let table = assemble(
            "slli t0, a0, 2; auipc t1, 0; add t0, t0, t1; jalr x0, 12(t0)",
            BASE,
        );
        let table = [table, vec![0; harts as usize]].concat();
        let mut words = table.clone();
        let mut labels = BTreeMap::new();
        let sleep = place(&mut words, "sleep: wfi; j sleep", &mut labels);
        let mut targets = vec![sleep; harts as usize];
        for (&hart, source) in &self.code {
            targets[hart] = place(&mut words, source, &mut labels);
        }
        for (hart, target) in targets.into_iter().enumerate() {
            let at = 4 + hart;
            let jump = format!("j .+{}", 4 * (target - at));
            words[at] = assemble(&jump, BASE)[0];
        }
        (words, labels)
    }
}

/// The parameters of a machine.
pub struct Parameters {
    values: BTreeMap<String, serde_json::Value>,
}

impl Parameters {
    /// The value of `key`, if there is such a key.
    pub fn get(&self, key: &str) -> Option<&serde_json::Value> {
        self.values.get(key)
    }

    /// A whole number.
    pub fn number(&self, key: &str) -> u64 {
        let number = self.get(key).and_then(serde_json::Value::as_u64);
        number.unwrap_or_else(|| panic!("no number {key}"))
    }
}

/// Appends code at the start of a line, and to `kinds` where labels say of what kind it is; returns the index of its
/// first word.
fn place(words: &mut Vec<u32>, source: &str, kinds: &mut BTreeMap<u64, &'static str>) -> usize {
    words.resize(words.len().next_multiple_of(16), 0);
    let at = words.len();
    let (code, labels) = assemble_with_labels(source, BASE + 4 * at as u64);
    words.extend(code);
    for (label, addr) in labels {
        let known = ["lock", "idle", "switch", "acquire", "plain"].into_iter();
        let word = label.split('_').next().unwrap_or_default();
        kinds.extend(known.filter(|kind| *kind == word).map(|kind| (addr, kind)));
    }
    at
}

/// An executable of one segment, entered at its start.
fn elf(code: &[u32]) -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    let mut out = b"\x7fELF\x02\x01\x01".to_vec();
    out.resize(16, 0);
    let bytes = 4 * code.len() as u64;
    let halves = |out: &mut Vec<u8>, values: &[u16]| {
        values
            .iter()
            .for_each(|value| out.extend(value.to_le_bytes()));
    };
    let words = |out: &mut Vec<u8>, values: &[u64]| {
        values
            .iter()
            .for_each(|value| out.extend(value.to_le_bytes()));
    };
    // Executable, RISC-V, version 1; entry, program headers at 64, no section headers.
    halves(&mut out, &[2, 243, 1, 0]);
    words(&mut out, &[BASE, 64, 0]);
    // Flags; sizes and counts of headers.
    halves(&mut out, &[0, 0, 64, 56, 1, 64, 0, 0]);
    // PT_LOAD, read write execute; offset, addresses, sizes, alignment.
    halves(&mut out, &[1, 0, 7, 0]);
    words(&mut out, &[HEADERS, BASE, BASE, bytes, bytes, 8]);
    code.iter().for_each(|word| out.extend(word.to_le_bytes()));
    out
}

/// What came of a run.
pub struct Outcome {
    /// The result.
    pub result: RunResult,
}

/// A mark: its kind, its value, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Whether it is of kind "work ends".
    pub end: bool,
    /// The register's value.
    pub value: u64,
    /// Issue of the instruction after it.
    pub cycle: u64,
}

impl Outcome {
    /// The marks of `hart` in order.
    pub fn marks(&self, hart: usize) -> Vec<Mark> {
        let own = self.result.marks.iter();
        let own = own.filter(|mark| usize::from(mark.hart) == hart);
        own.map(|mark| Mark {
            end: mark.kind == "work_end",
            value: mark.value,
            cycle: mark.cycle,
        })
        .collect()
    }

    /// When each mark of `hart` was left.
    pub fn times(&self, hart: usize) -> Vec<u64> {
        self.marks(hart).iter().map(|mark| mark.cycle).collect()
    }

    /// Cycles between consecutive marks of `hart`.
    pub fn steps(&self, hart: usize) -> Vec<u64> {
        let times = self.times(hart);
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// Cycles of a context in an activity, and the instructions that retired in it.
    pub fn activity(&self, context: usize, activity: &str) -> (u64, u64) {
        let mut rows = self.result.activities.iter();
        let row = rows.find(|row| usize::from(row.context) == context && row.activity == activity);
        row.map_or((0, 0), |row| (row.cycles, row.instructions))
    }

    /// A counter.
    pub fn counter(&self, component: &str, name: &str) -> u64 {
        let mut rows = self.result.counters.iter();
        rows.find(|row| row.component == component && row.name == name)
            .unwrap_or_else(|| panic!("no counter {component} {name}"))
            .value
    }
}
