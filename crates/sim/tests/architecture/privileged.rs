//! Privileged programs leave the same log on QEMU and in the reference engine.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::compare::retired_in_blocks;
use crate::generator::privileged::{
    ACCESSED, DIRTY, PrivilegedProgram, PrivilegedSettings, VALID, generate_privileged,
};
use crate::generator::{Target, first_seed, fuzz_factor};
use crate::machines::{Machine, assert_passed, on_all_processors, try_run};
use crate::qemu::{self, Memory};
use crate::trap_log::{Level, Record, Trap, first_difference, from_memory, from_reports};

/// Programs of an ordinary run.
const PROGRAMS: usize = if cfg!(debug_assertions) { 1 } else { 24 };
/// Instructions of blocks, with the traps that they raise, that an ordinary run compares at least.
const LEAST: u64 = if cfg!(debug_assertions) {
    0
} else {
    30_000_000
};
/// No program needs more, if it does not run wild.
const MAX_CYCLES: u64 = 20_000_000;
/// How often each trap in [`EVERY_TRAP`] must have been taken, and each kind of page accessed, in an
/// ordinary run.
const OFTEN: u64 = if cfg!(debug_assertions) { 0 } else { 20 };

/// What was seen on the way.
#[derive(Default)]
struct Seen {
    retired: u64,
    traps: BTreeMap<Trap, u64>,
    /// Pages by level that were accessed, and written, for the first time.
    accessed: [u64; 4],
    written: [u64; 4],
}

impl Seen {
    fn take(&mut self, program: &PrivilegedProgram, log: &[Record], memory: &Memory) {
        for trap in log.iter().filter_map(Record::trap) {
            *self.traps.entry(trap).or_default() += 1;
        }
        for leaf in &program.leaves {
            let after = memory.words(leaf.at, 1)[0];
            let new = if after & VALID != 0 {
                after & !leaf.value
            } else {
                0
            };
            self.accessed[leaf.level] += u64::from(new & ACCESSED != 0);
            self.written[leaf.level] += u64::from(new & DIRTY != 0);
        }
    }

    /// Every exception from every mode to every mode, every interrupt, every size of page.
    fn assert_all(&self) {
        use Level::{Machine, Supervisor, User};
        let ways = [
            (User, Supervisor),
            (User, Machine),
            (Supervisor, Supervisor),
            (Supervisor, Machine),
            (Machine, Machine),
        ];
        // A misaligned fetch (0) cannot be: there are compressed instructions.
        let exceptions = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15].map(|cause| (cause, false));
        let interrupts = [1, 3, 5, 7, 9].map(|cause| (cause, true));
        let all = exceptions.into_iter().chain(interrupts);
        for ((cause, interrupt), (from, to)) in all.flat_map(|cause| ways.map(|way| (cause, way))) {
            let caller = match (interrupt, cause) {
                (false, 8) => Some(User),
                (false, 9) => Some(Supervisor),
                (false, 11) => Some(Machine),
                _ => None,
            };
            // Fetches of machine mode are not translated; its interrupts are not delegated.
            let impossible = caller.is_some_and(|caller| caller != from)
                || (from, cause, interrupt) == (Machine, 12, false)
                || (to, interrupt) == (Supervisor, true) && matches!(cause, 3 | 7);
            let trap = Trap {
                cause,
                interrupt,
                from,
                to,
            };
            let count = self.traps.get(&trap).copied().unwrap_or(0);
            if impossible {
                assert_eq!(count, 0, "{trap:?}");
            } else {
                assert!(count >= OFTEN, "{trap:?} was seen {count} times");
            }
        }
        for (level, (accessed, written)) in self.accessed.iter().zip(self.written).enumerate() {
            assert!(
                *accessed >= OFTEN / 4 && written >= OFTEN / 4,
                "of the pages of level {level} only {accessed} were accessed and {written} written"
            );
        }
    }
}

fn program(seed: u64, registers: bool) -> PrivilegedProgram {
    generate_privileged(PrivilegedSettings {
        seed,
        blocks: 40,
        items: 40,
        rounds: 20,
        spaces: 2 + seed % 17,
        target: Target::Qemu,
        registers,
    })
}

/// Runs a program on QEMU and in the reference engine: what it left in QEMU's memory, the log, the
/// instructions that were compared, and the first difference.
fn run(program: &PrivilegedProgram) -> (Memory, Vec<Record>, u64, Option<String>) {
    let name = format!("privileged-{:x}", program.program.seed);
    let memory = qemu::run_for_memory(&name, &program.program.elf);
    let expected = from_memory(&memory);
    let mut request = Machine::Virt.request(1);
    request.max_cycles = Some(MAX_CYCLES);
    let result = try_run(&request, &program.program.elf)
        .unwrap_or_else(|error| panic!("seed {}: {error}", program.program.seed));
    let found = from_reports(&result);
    let difference = first_difference(program, ("QEMU", &expected), ("loiter", &found));
    if difference.is_none() {
        assert_passed(&request, &result);
        std::fs::remove_file(qemu::path(&name)).expect("it was written");
    }
    (memory, expected, retired_in_blocks(&result, 0), difference)
}

/// Compares one program.
fn compare(seed: u64, seen: &Mutex<Seen>) {
    let program = program(seed, false);
    let (memory, log, retired, difference) = run(&program);
    if let Some(text) = difference {
        // Once more, with the registers told one by one.
        let again = run(&self::program(seed, true)).3;
        panic!(
            "{text}\nwith registers, {}\n{}; the program is {}, again by LOITER_FUZZ_SEED={seed}",
            again.unwrap_or("no difference".into()),
            qemu::version(),
            qemu::path(&format!("privileged-{seed:x}")).display()
        );
    }
    let mut seen = seen.lock().expect("no other thread has panicked");
    seen.retired += retired;
    seen.take(&program, &log, &memory);
}

#[test]
fn privileged_programs_agree_with_qemu() {
    let programs = PROGRAMS * fuzz_factor() as usize;
    let first = first_seed();
    let seen = Mutex::new(Seen::default());
    on_all_processors(programs, |n| compare(first + n as u64, &seen));
    let seen = seen.into_inner().expect("no thread has panicked");
    println!(
        "{programs} privileged programs, {} instructions and {} traps compared",
        seen.retired,
        seen.traps.values().sum::<u64>()
    );
    assert!(seen.retired >= LEAST, "only {} instructions", seen.retired);
    seen.assert_all();
}
