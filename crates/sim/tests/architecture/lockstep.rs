//! Timing cores against the reference engine: each hart retires the same instructions and ends up
//! with the same state, whatever the timing. The checker of `--check` looks at every instruction.

use loiter_isa::Op;

use crate::census::Census;
use crate::compare::{assert_same_retired, difference, reported, retired_in_blocks};
use crate::generator::{
    Program, Settings, Target, first_seed, fuzz_factor, generate, needs_guests,
};
use crate::machines::{Machine, run_to_end};

/// Programs of each test in an ordinary run.
const PROGRAMS: u64 = if cfg!(debug_assertions) { 1 } else { 4 };
/// Harts of a program that keeps several contexts busy.
const HARTS: usize = 8;

/// Changes to a machine that must not change what programs compute.
const VARIANTS: &[&[&str]] = &[
    &[],
    &["core.store_buffer_entries=1"],
    &[
        "core.store_buffer_entries=2",
        "core.store_pipelining=same_line",
    ],
    &["core.stall=use", "core.store_buffer_full_stops=stores"],
    &["core.stall=issue", "core.store_buffer_full_stops=thread"],
    // With fewer ways the second level now and then replaces a line between an `lr` and its `sc`, which then fails.
    &[
        "l1d.size_kib=1",
        "l1i.size_kib=1",
        "l2.size_kib=32",
        "l2.ways=16",
    ],
    &["l2.banks=1", "l2.mshrs_per_bank=1", "memory.channels=1"],
    &[
        "fpu.shared_by=chip",
        "fpu.overlap=1",
        "fpu.does_integer=false",
    ],
];

/// The seeds of a test whose own seeds begin at `base`.
fn seeds(base: u64) -> impl Iterator<Item = u64> {
    let first = base << 32 | first_seed();
    first..first + PROGRAMS * fuzz_factor()
}

fn program(seed: u64, harts: usize, blocks: usize) -> Program {
    generate(Settings {
        seed,
        harts,
        blocks,
        items: 60,
        target: Target::Loiter,
    })
}

/// Runs `program` on the reference engine and on `machine`, compares every hart, and returns how
/// many generated instructions were compared.
fn compare(
    program: &Program,
    machine: Machine,
    cores: usize,
    set: &[&str],
    fast_forward: bool,
) -> u64 {
    let harts = program.blocks.len();
    let expected = run_to_end(&Machine::Virt.request(harts), &program.elf);
    let mut request = machine.request(cores);
    request.set.extend(set.iter().map(|&set| set.to_owned()));
    request.fast_forward = fast_forward;
    let found = run_to_end(&request, &program.elf);
    let named = format!("{machine:?} {set:?}");
    let mut retired = 0;
    for hart in 0..harts {
        let checksums = [&expected, &found].map(|result| reported(result, hart));
        let pair = [("the reference", &checksums[0]), (&named, &checksums[1])];
        if let Some(text) = difference(program, hart, pair[0], pair[1]) {
            panic!("{text}");
        }
        assert_same_retired(program, hart, &expected, &found);
        retired += retired_in_blocks(&found, hart);
    }
    assert_eq!(expected.console, found.console);
    let timed = if fast_forward {
        1..found.instructions
    } else {
        found.instructions..u64::MAX
    };
    assert!(timed.contains(&found.timing_instructions));
    assert_eq!(found.checked_instructions, found.timing_instructions);
    retired
}

#[test]
fn every_instruction_is_compared() {
    let mut census = Census::default();
    census.take(&program(0x100, 1, 200).elf);
    let executed: Vec<Op> = census.ops.into_keys().collect();
    let all = Op::ALL.iter().copied();
    let all: Vec<Op> = all.filter(|&op| !needs_guests(op)).collect();
    assert_eq!(executed, all);
}

#[test]
fn one_hart_retires_what_the_reference_engine_does() {
    let mut retired = 0;
    for seed in seeds(1) {
        let program = program(seed, 1, 200);
        for machine in [
            Machine::T1,
            Machine::T2,
            Machine::Smt8,
            Machine::PCore,
            Machine::InOrder,
        ] {
            retired += compare(&program, machine, 1, &[], false);
        }
    }
    println!("{retired} generated instructions compared");
    assert!(retired > PROGRAMS * 100_000);
}

#[test]
fn busy_contexts_do_not_disturb_one_another() {
    let mut retired = 0;
    for seed in seeds(2) {
        let program = program(seed, HARTS, 25);
        for (machine, cores) in [
            (Machine::T1, 2),
            (Machine::T2, 1),
            (Machine::T2, 2),
            (Machine::Smt8, 1),
            (Machine::Smt8, 2),
            (Machine::PCore, 4),
            (Machine::InOrder, 2),
            (Machine::BigLittle, 2),
            (Machine::Symmetry, 8),
        ] {
            retired += compare(&program, machine, cores, &[], false);
        }
        // Four dies of two cores.
        let dies = ["cluster.cores=2"];
        retired += compare(&program, Machine::Opteron48, 8, &dies, false);
    }
    println!("{retired} generated instructions compared");
    assert!(retired > PROGRAMS * 100_000);
}

#[test]
fn timing_parameters_do_not_change_results() {
    for seed in seeds(3).step_by(PROGRAMS as usize) {
        let program = program(seed, HARTS, 12);
        for &set in VARIANTS {
            for (machine, cores) in [(Machine::T1, 2), (Machine::T2, 1)] {
                assert!(compare(&program, machine, cores, set, false) > 10_000);
            }
        }
    }
}

/// The same for in-order cores that own what they store to. In a small data cache a sibling now and then takes the line
/// between an `lr` and its `sc`, which then fails, and more instructions retire.
const OWNING_VARIANTS: &[&[&str]] = &[
    &[
        "l1d.size_kib=64",
        "l1i.size_kib=1",
        "l1d.mshrs=1",
        "l1i.mshrs=1",
        "core.store_buffer_entries=1",
    ],
    &["core.pipes=1", "core.stall=issue", "coherence.states=msi"],
    &[
        "latency.atomic_cycles=40",
        "home.count=1",
        "home.busy_cycles=30",
        "coherence.tells_clean=false",
        "walker.reads=l2",
    ],
];

/// The same on a bus.
const BUS_VARIANTS: &[&[&str]] = &[
    &["l1d.size_kib=1", "l1i.size_kib=1", "coherence.states=msi"],
    &[
        "bus.arbitration=fifo",
        "bus.line_cycles=40",
        "coherence.states=moesi",
        "l2.shared_by=core",
        "l1d.size_kib=1",
        "l1d.mshrs=4",
        "walker.reads=l2",
    ],
];

#[test]
fn parameters_of_in_order_cores_that_own_lines_do_not_change_results() {
    for seed in seeds(9).step_by(PROGRAMS as usize) {
        let program = program(seed, HARTS, 12);
        for &set in OWNING_VARIANTS {
            assert!(compare(&program, Machine::InOrder, 2, set, false) > 10_000);
        }
        for &set in BUS_VARIANTS {
            assert!(compare(&program, Machine::Symmetry, 8, set, false) > 10_000);
        }
    }
}

/// The same for the out-of-order core.
const SMT_VARIANTS: &[&[&str]] = &[
    &["branch.kind=oracle", "l1i.perfect=true", "l1d.perfect=true"],
    &[
        "branch.kind=not_taken",
        "core.fetch_policy=round_robin",
        "core.front_end=queue",
    ],
    &["l1d.mshrs=1", "l1i.mshrs=1", "bus.line_cycles=9"],
    &["btb.miss=stall", "core.rename_order=by_context"],
    // Decode is so late that jumps have executed before.
    &[
        "btb.miss=misfetch",
        "btb.entries=4",
        "core.front_cycles=1",
        "core.misfetch_cycles=9",
        "latency.load_cycles=2",
    ],
    &[
        "l1d.size_kib=1",
        "l1i.size_kib=1",
        "l2.size_kib=64",
        "itlb.entries=2",
        "itlb.ways=2",
        "dtlb.entries=1",
        "dtlb.ways=1",
        "walker.walks=1",
    ],
    &[
        "core.queue_sharing=partitioned",
        "core.register_sharing=partitioned",
    ],
    &[
        "core.queue_sharing=capped",
        "core.queue_cap_entries=1",
        "core.register_sharing=capped",
        "core.register_cap=1",
        "core.store_buffer_entries=1",
    ],
    &[
        "core.integer_queue_entries=1",
        "core.fp_queue_entries=1",
        "core.integer_registers=1",
        "core.fp_registers=1",
        "core.reorder_entries=8",
        "core.load_entries=1",
        "core.store_entries=1",
    ],
];

#[test]
fn parameters_of_the_out_of_order_core_do_not_change_results() {
    for seed in seeds(8).step_by(PROGRAMS as usize) {
        let program = program(seed, HARTS, 12);
        for &set in SMT_VARIANTS {
            assert!(compare(&program, Machine::Smt8, 1, set, false) > 10_000);
        }
    }
}

#[test]
fn the_timing_model_can_take_over_in_the_middle() {
    for seed in seeds(4) {
        let program = program(seed, HARTS, 20);
        for (machine, cores) in [(Machine::T1, 2), (Machine::T2, 1), (Machine::Smt8, 1)] {
            assert!(compare(&program, machine, cores, &[], true) > 10_000);
        }
    }
}
