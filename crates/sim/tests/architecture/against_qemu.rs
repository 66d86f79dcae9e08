//! Generated programs print the same on QEMU, in the reference engine, and on the timing cores.

use std::sync::atomic::{AtomicU64, Ordering};

use loiter_isa::Op;

use crate::census::{Census, Entered, compressed_mnemonics};
use crate::compare::{difference, printed, reported, retired_in_blocks};
use crate::generator::{
    Program, Settings, Target, UNKNOWN_TO_QEMU, first_seed, fuzz_factor, generate, needs_guests,
};
use crate::machines::{Machine, assert_passed, on_all_processors, try_run};
use crate::qemu;

/// Blocks and items of a program.
const BLOCKS: usize = 300;
const ITEMS: u64 = 60;
/// Programs of an ordinary run.
const PROGRAMS: usize = if cfg!(debug_assertions) { 2 } else { 44 };
/// Generated instructions that an ordinary run compares at least.
const LEAST: u64 = if cfg!(debug_assertions) { 0 } else { 5_000_000 };

fn program(seed: u64) -> Program {
    generate(Settings {
        seed,
        harts: 1,
        blocks: BLOCKS,
        items: ITEMS,
        target: Target::Qemu,
    })
}

/// Compares one program everywhere; returns how many generated instructions it retired.
fn compare(program: &Program) -> u64 {
    let name = format!("generated-{:x}", program.seed);
    let console = qemu::run(&name, &program.elf);
    let expected = printed(&console);
    let mut retired = 0;
    for machine in [Machine::Virt, Machine::T1, Machine::T2, Machine::Smt8] {
        let request = machine.request(1);
        let result = try_run(&request, &program.elf)
            .unwrap_or_else(|error| panic!("seed {}, {machine:?}: {error}", program.seed));
        let found = reported(&result, 0);
        let named = format!("{machine:?}");
        if let Some(text) = difference(program, 0, ("QEMU", &expected), (&named, &found)) {
            panic!(
                "{text}{}\n{}; the program is {}, again by LOITER_FUZZ_SEED={}",
                first_other_trap(program, &name),
                qemu::version(),
                qemu::path(&name).display(),
                program.seed
            );
        }
        assert_passed(&request, &result);
        assert_eq!(result.console, console, "{machine:?} prints otherwise");
        retired = retired_in_blocks(&result, 0);
    }
    std::fs::remove_file(qemu::path(&name)).expect("it was written");
    retired
}

/// The first trap that QEMU and the semantics do not agree on, by QEMU's log.
fn first_other_trap(program: &Program, name: &str) -> String {
    let theirs = qemu::traps(name);
    let mut ours = Census::default();
    ours.take(&program.elf);
    let same = |(a, b): (&Entered, &Entered)| a.same_but_excluded(b);
    let pairs = theirs.iter().zip(&ours.traps);
    match pairs.clone().position(|pair| !same(pair)) {
        Some(n) => format!(
            "first other trap, by QEMU's log, number {n}:\n{:x?} QEMU\n{:x?} loiter",
            theirs[n], ours.traps[n]
        ),
        None => format!("{} traps agree, by QEMU's log", pairs.len()),
    }
}

#[test]
fn generated_programs_agree_with_qemu() {
    let programs = PROGRAMS * fuzz_factor() as usize;
    let first = first_seed();
    let retired = AtomicU64::new(0);
    on_all_processors(programs, |n| {
        let seed = first + n as u64;
        retired.fetch_add(compare(&program(seed)), Ordering::Relaxed);
    });
    let retired = retired.into_inner();
    println!("{programs} programs, {retired} generated instructions compared");
    assert!(retired >= LEAST, "only {retired} instructions compared");
}

#[test]
fn generated_programs_execute_every_instruction() {
    let mut census = Census::default();
    census.take(&program(1).elf);
    let missing: Vec<&Op> = Op::ALL
        .iter()
        .filter(|op| !UNKNOWN_TO_QEMU.iter().any(|(unknown, ..)| unknown == *op))
        .filter(|&&op| !needs_guests(op))
        .filter(|op| !census.ops.contains_key(op))
        .collect();
    assert!(missing.is_empty(), "never executed: {missing:?}");
    let mnemonics = compressed_mnemonics();
    let missing: Vec<_> = mnemonics.difference(&census.compressed).collect();
    assert!(missing.is_empty(), "never executed: {missing:?}");
}

#[test]
fn generated_programs_raise_every_trap() {
    let mut census = Census::default();
    census.take(&program(1).elf);
    let mut causes: Vec<u64> = census.traps.iter().map(|trap| trap.cause).collect();
    causes.sort_unstable();
    causes.dedup();
    // All exceptions but a misaligned fetch, which compressed instructions make impossible, and page
    // faults; and the supervisor's software interrupt.
    assert_eq!(causes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 1 << 63 | 1]);
}
