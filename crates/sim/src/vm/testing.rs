//! Guests of a few instructions, for tests.

use loiter_isa::{Width, assemble, integer_register};
use loiter_machine::{Machine, MachineConfig, RAM_BASE};
use loiter_types::PhysAddr;

use super::file::VmFile;
use super::host::{Host, Progress};
use super::result::{VcpuRow, VmResult};
use crate::config::MachineFile;
use crate::system::System;

const VIRT: &str = include_str!("../../../../machines/virt.toml");

/// The clock of hosts in tests: a tick of `mtime` a cycle.
pub(crate) const CLOCK_MHZ: u64 = 10;
/// A slice.
pub(crate) const SLICE: u64 = 3000;

/// Counts in s0 for ever.
pub(crate) const LOOP: &str = "loop: addi s0, s0, 1
    j loop";

/// Lines of section `host` without costs.
pub(crate) const FREE: &str = "switch_cycles = 0\ncall_cycles = 0";

/// Calls to yield for ever.
pub(crate) const YIELDS: &str = "lui a7, 0x8595
    addi a7, a7, -956
    li a6, 0
    loop: addi s0, s0, 1
    ecall
    j loop";

/// Ends the guest well; from label `wrong` on, with another code.
pub(crate) const VERDICT: &str = "lui t0, 0x100
    lui t1, 5
    addi t1, t1, 0x555
    sw t1, 0(t0)
    stay: j stay
    wrong: lui t0, 0x100
    lui t1, 0x23
    addi t1, t1, 0x333
    sw t1, 0(t0)
    over: j over";

/// The file of a host with `cpus` CPUs, with more lines of section `host`, other sections, and the guests: harts and more
/// lines of each.
pub(crate) fn file(
    cpus: u64,
    run_us: u64,
    host: &str,
    sections: &str,
    guests: &[(u64, &str)],
) -> VmFile {
    let sections = format!("slice_us = 300\n{sections}");
    file_with_slice(cpus, run_us, host, &sections, guests)
}

/// The same with slices as `sections` says.
pub(crate) fn file_with_slice(
    cpus: u64,
    run_us: u64,
    host: &str,
    sections: &str,
    guests: &[(u64, &str)],
) -> VmFile {
    let mut text = format!(
        "[host]\ncpus = {cpus}\nclock_mhz = {CLOCK_MHZ}\nmemory_mib = 64\nturn_cycles = 100\nrun_us = {run_us}\n{host}\n\
         [scheduler]\n{sections}\n"
    );
    for (n, (harts, lines)) in guests.iter().enumerate() {
        text += &format!(
            "[[guests]]\nname = \"g{n}\"\nprogram = \"none\"\nmemory_mib = 1\nharts = {harts}\n{lines}\n"
        );
    }
    VmFile::read("test.toml", &text).expect("a good file")
}

/// The host of `file` whose guests run `programs`.
pub(crate) fn host(file: VmFile, programs: &[&str]) -> Host {
    host_on(None, file, programs)
}

/// The same on the contexts of a machine.
pub(crate) fn host_on(name: Option<&str>, file: VmFile, programs: &[&str]) -> Host {
    let systems = file.guests.iter().zip(programs);
    let systems = systems.map(|(guest, program)| (system(guest.harts as usize, program), false));
    let systems = systems.collect();
    let machine = name.map(machine);
    Host::new(file, systems, machine.as_ref()).expect("guests that fit")
}

/// A machine with the clock of tests.
pub(crate) fn machine(name: &str) -> MachineFile {
    let path = format!("{}/../../machines/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("a machine of loiter");
    let clock = format!("system.clock_mhz={CLOCK_MHZ}");
    MachineFile::read(name, &text, &[clock]).expect("a machine")
}

/// Runs to the end that the file or the guests set.
pub(crate) fn run(host: &mut Host) -> VmResult {
    while host.turn().expect("no fault of ours") == Progress::Running {}
    host.result().expect("no time is lost")
}

/// The row of the first virtual CPU of guest `n`.
pub(crate) fn first(result: &VmResult, n: usize) -> &VcpuRow {
    let name = format!("g{n}");
    let row = result.vcpus.iter().find(|row| row.guest == name);
    row.expect("there is such a guest")
}

/// A system with `code` at the beginning of its memory: a line an instruction, with labels before them; `csrw NUMBER,
/// REGISTER` and `.word ENCODING` too.
pub(crate) fn system(harts: usize, code: &str) -> System {
    let sets = [
        format!("system.clock_mhz={CLOCK_MHZ}"),
        format!("system.cores={harts}"),
        "system.ram_mib=1".to_owned(),
    ];
    let file = MachineFile::read("virt", VIRT, &sets).expect("a machine");
    let config: MachineConfig = file.machine(harts);
    let mut machine = Machine::new(&config).expect("a machine");
    for (n, word) in words(code).into_iter().enumerate() {
        let addr = PhysAddr(RAM_BASE + 4 * n as u64);
        assert!(machine.ram.write(addr, Width::W, word.into()));
    }
    let entry = PhysAddr(RAM_BASE);
    System::assemble(&file, &config, machine, entry, PhysAddr(0))
}

fn words(code: &str) -> Vec<u32> {
    let lines: Vec<(Option<&str>, &str)> = code
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| match line.split_once(':') {
            Some((label, rest)) => (Some(label.trim()), rest.trim()),
            None => (None, line),
        })
        .collect();
    let place = |label: &str| lines.iter().position(|(it, _)| *it == Some(label));
    let encode = |(n, (_, line)): (usize, &(Option<&str>, &str))| {
        if let Some(rest) = line.strip_prefix("csrw ") {
            let (number, register) = rest.split_once(", ").expect("two operands");
            let number = u32::from_str_radix(number.trim_start_matches("0x"), 16).expect("hex");
            let register = integer_register(register).expect("a register");
            return number << 20 | u32::from(register) << 15 | 1 << 12 | 0x73;
        }
        if let Some(word) = line.strip_prefix(".word 0x") {
            return u32::from_str_radix(word, 16).expect("hex");
        }
        let offset = |label: &str| Some((place(label)? as i64 - n as i64) * 4);
        assemble(line, offset).unwrap_or_else(|error| panic!("{line}: {error}"))
    };
    lines.iter().enumerate().map(encode).collect()
}
