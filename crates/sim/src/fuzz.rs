//! Fuzz target: machine files and what users change of them on the command line, up to the device
//! tree.
//!
//! How to replay a failure and how to run for long is said in the machine crate's fuzz module.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bolero::generator::{produce, produce_with};
use bolero::{TypeGenerator, check};
use fdt::Fdt;
use loiter_machine::Machine;

use crate::config::MachineFile;

const TIME: Duration = Duration::from_secs(4);
const MACHINES: [&str; 3] = [
    include_str!("../../../machines/virt.toml"),
    include_str!("../../../machines/t1.toml"),
    include_str!("../../../machines/smt8.toml"),
];

/// Keys and parts of values that mean something.
const WORDS: [&str; 35] = [
    "hart.isa",
    "hart.mmu",
    "hart.asid_bits",
    "hart.watch_line_bytes",
    "system.cores",
    "system.ram_mib",
    "system.timebase_hz",
    "system.clock_mhz",
    "core.contexts",
    "core.kind",
    "=",
    "rv64",
    "rv64imafdc",
    "i",
    "c",
    "_",
    "-",
    "+",
    ",",
    "zawrs",
    "zicsr",
    "sstc",
    "svadu",
    "xloiterlock",
    "sv39",
    "reference",
    "fgmt",
    "smt",
    "0",
    "1",
    "16",
    "18446744073709551615",
    " ",
    "\u{e9}",
    "\0",
];

/// A machine file and changes to it.
#[derive(Debug, TypeGenerator)]
struct Machines {
    preset: u8,
    /// The file's own ISA string.
    isa: Option<Text>,
    #[generator(produce_with::<Vec<Set>>().len(0..3_usize))]
    sets: Vec<Set>,
}

impl Machines {
    fn toml(&self) -> String {
        let text = MACHINES[usize::from(self.preset) % MACHINES.len()];
        let Some(isa) = &self.isa else {
            return text.to_owned();
        };
        let isa = isa.text();
        let line = |line: &str| match line.starts_with("isa = ") {
            true => format!("isa = {isa:?}\n"),
            false => format!("{line}\n"),
        };
        text.lines().map(line).collect()
    }
}

/// A change, `key=value`.
#[derive(Debug, TypeGenerator)]
struct Set {
    /// None: the ISA string's.
    key: Option<Parts>,
    value: Text,
}

/// An ISA string or something else.
#[derive(Debug, TypeGenerator)]
enum Text {
    /// Parts after a good ISA string.
    Longer(Parts),
    Parts(Parts),
    /// A change to an ISA string, and more.
    Add(Part, Parts),
    Remove(Part, Parts),
}

#[derive(Debug, TypeGenerator)]
struct Parts(#[generator(produce_with::<Vec<Part>>().len(0..4_usize))] Vec<Part>);

#[derive(Debug, TypeGenerator)]
enum Part {
    Word(u8),
    Number(u16),
    Any(char),
}

impl Part {
    fn text(&self) -> String {
        match self {
            Part::Word(n) => WORDS[usize::from(*n) % WORDS.len()].to_owned(),
            Part::Number(n) => n.to_string(),
            Part::Any(c) => c.to_string(),
        }
    }
}

impl Parts {
    fn text(&self) -> String {
        self.0.iter().map(Part::text).collect()
    }
}

impl Text {
    fn text(&self) -> String {
        match self {
            Self::Longer(parts) => "rv64imafdc_zicsr_zawrs".to_owned() + &parts.text(),
            Self::Parts(parts) => parts.text(),
            Self::Add(part, parts) => format!("+{}{}", part.text(), parts.text()),
            Self::Remove(part, parts) => format!("-{}{}", part.text(), parts.text()),
        }
    }
}

impl Set {
    fn text(&self) -> String {
        let key = self.key.as_ref().map_or("hart.isa".into(), Parts::text);
        format!("{key}={}", self.value.text())
    }
}

#[test]
fn overrides() {
    let inputs = AtomicU64::new(0);
    let built = AtomicU64::new(0);
    check!()
        .with_test_time(TIME)
        .with_generator(produce::<Machines>())
        .for_each(|machines| {
            inputs.fetch_add(1, Ordering::Relaxed);
            let sets: Vec<String> = machines.sets.iter().map(Set::text).collect();
            let file = match MachineFile::read("m.toml", &machines.toml(), &sets) {
                Ok(file) => file,
                Err(error) => {
                    return assert!(
                        error.to_string().contains("--set") || error.to_string().contains("m.toml"),
                        "{error}"
                    );
                }
            };
            let config = file.machine(file.harts());
            let Ok(machine) = Machine::new(&config) else {
                return;
            };
            built.fetch_add(1, Ordering::Relaxed);
            let tree = Fdt::new(machine.device_tree()).expect("a device tree");
            assert_eq!(tree.cpus().count(), config.harts);
            for cpu in tree.cpus() {
                let isa = cpu.property("riscv,isa").and_then(|isa| isa.as_str());
                assert_eq!(isa, Some(config.isa.as_str()));
            }
        });
    let [inputs, built] = [inputs, built].map(AtomicU64::into_inner);
    println!("{built} of {inputs} machines were built");
    assert!(
        inputs > 500 && built * 100 > inputs * 15 && built < inputs,
        "{built} of {inputs}"
    );
}
