//! Virtual CPUs on timing cores.

use std::sync::Arc;

use loiter_cores::Skipping;
use loiter_machine::{RAM_BASE, SymbolFile};
use loiter_types::Cycle;

use super::host::{Host, Progress};
use super::result::VmResult;
use super::testing::{
    CLOCK_MHZ, FREE, LOOP, SLICE, VERDICT, YIELDS, file, first, host_on, machine, run, system,
};
use crate::symbols::Symbols;
use crate::system::System;
use crate::timing_phase::Timing;

const MACHINES: [&str; 3] = ["t1", "p-core", "symmetry"];

/// Fills a page of its memory with the number that a word of it holds, over and over, and looks whether they
/// still hold it. Ends well after some rounds, and with another code if they do not.
fn fills(number: u64) -> String {
    format!(
        "auipc s0, 0
        lui t0, 4
        add s0, s0, t0
        li s1, {number}
        li s2, 4
        lui s5, 1
        round: addi s1, s1, 16
        mv t1, s0
        add t2, s0, s5
        store: sd s1, 0(t1)
        addi t1, t1, 8
        bne t1, t2, store
        mv t1, s0
        look: ld t3, 0(t1)
        bne t3, s1, wrong
        addi t1, t1, 8
        bne t1, t2, look
        addi s2, s2, -1
        bnez s2, round
        {VERDICT}"
    )
}

fn timed(name: &str, cpus: u64, host: &str, guests: &[(u64, &str)], programs: &[&str]) -> Host {
    let run_us = 200 * SLICE / CLOCK_MHZ;
    let file = file(cpus, run_us, host, "", guests);
    host_on(Some(name), file, programs)
}

/// What of a result is not about the host's own time.
fn rows(result: &VmResult) -> String {
    serde_json::to_string(&(&result.guests, &result.vcpus, &result.cpus)).unwrap()
}

#[test]
fn a_guest_alone_runs_as_on_the_bare_machine() {
    for name in MACHINES {
        let cycles = 2 * SLICE;
        let run_us = cycles / CLOCK_MHZ;
        // Its slice is as long as the run: it never leaves its context.
        let sections = format!("slice_us = {run_us}");
        let file = super::testing::file_with_slice(1, run_us, FREE, &sections, &[(1, "")]);
        let result = run(&mut host_on(Some(name), file, &[LOOP]));
        let mut bare = system(1, LOOP);
        let params = machine(name).timing();
        let mut timing = Timing::new(name, params, Cycle(0)).unwrap().unwrap();
        timing.attach(&mut bare);
        while timing.steps_until(&mut bare, Cycle(cycles)).unwrap() < Cycle(cycles) {}
        assert!(bare.instructions() > cycles / 10, "{name}");
        assert_eq!(
            first(&result, 0).instructions,
            bare.instructions(),
            "{name}"
        );
    }
}

#[test]
fn guests_with_the_same_addresses_have_memory_of_their_own() {
    let programs = [fills(1), fills(2), fills(3)];
    let programs: Vec<_> = programs.iter().map(String::as_str).collect();
    for name in MACHINES {
        let mut host = timed(name, 2, FREE, &[(1, ""), (1, ""), (1, "")], &programs);
        let result = run(&mut host);
        for guest in &result.guests {
            assert_eq!(
                (guest.state, guest.code),
                ("exited", Some(0)),
                "{name}: {guest:?}"
            );
        }
        let switches: u64 = result.vcpus.iter().map(|row| row.switches).sum();
        assert!(switches > 10, "{name}: {switches}");
    }
}

#[test]
fn a_host_that_was_saved_goes_on_on_cores_and_counts_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half.snap");
    let path = path.to_str().unwrap();
    let programs = [fills(1), fills(2), fills(3)];
    let programs: Vec<_> = programs.iter().map(String::as_str).collect();
    let guests = [(1, ""), (1, ""), (1, "")];
    let run_us = 200 * SLICE / CLOCK_MHZ;
    let mut host = host_on(None, file(2, run_us, FREE, "", &guests), &programs);
    while host.now.0 < 3 * SLICE + SLICE / 2 {
        assert_eq!(host.turn().unwrap(), Progress::Running);
    }
    host.save(path).unwrap();
    let half = host.now.0;
    let instructions = host.system.instructions();
    for name in MACHINES {
        let mut cores = timed(name, 2, FREE, &guests, &programs);
        cores.restore(path).unwrap();
        assert_eq!(cores.system.instructions(), instructions, "{name}");
        let result = run(&mut cores);
        for guest in &result.guests {
            assert_eq!(guest.code, Some(0), "{name}: {guest:?}");
        }
        let timed = result.timed.unwrap();
        let mut by_context = std::collections::BTreeMap::new();
        for row in &timed.accounts {
            *by_context.entry(row.context).or_insert(0) += row.cycles;
        }
        assert!(by_context.len() >= 2, "{name}");
        for cycles in by_context.values() {
            assert_eq!(*cycles, result.cycles - half, "{name}");
        }
    }
}

#[test]
fn the_same_whether_steady_cores_are_skipped_or_not() {
    const WAITS: &str = "auipc s0, 16
        wait: ld t0, 0(s0)
        beqz t0, wait
        stay: j stay";
    for name in MACHINES {
        let results = [Skipping::default(), Skipping::Nothing].map(|skipping| {
            let mut host = timed(name, 2, "", &[(2, ""), (1, "")], &[WAITS, LOOP]);
            host.system.skipping = skipping;
            let result = run(&mut host);
            assert_eq!(result.guests[0].state, "running", "{name}");
            let skipped = host.timing.as_ref().unwrap().cores.skipped_cycles();
            assert_eq!(skipped > 0, skipping != Skipping::Nothing, "{name}");
            rows(&result)
        });
        assert_eq!(results[0], results[1], "{name}");
    }
}

#[test]
fn a_change_of_virtual_cpus_empties_a_context_for_as_long_as_the_host_needs() {
    for name in MACHINES {
        let guests = [(1, "background = true"), (1, "")];
        let mut host = timed(name, 1, "switch_cycles = 70", &guests, &[LOOP, LOOP]);
        let result = run(&mut host);
        let cpu = &result.cpus[0];
        assert!(cpu.switches > 100, "{name}: {cpu:?}");
        assert_eq!(cpu.switching_cycles, 70 * cpu.switches, "{name}");
        assert_eq!(cpu.idle_cycles, 0, "{name}");
    }
}

#[test]
fn who_calls_to_yield_leaves_its_context_and_counts_its_calls() {
    for name in MACHINES {
        let mut host = timed(name, 1, "call_cycles = 50", &[(1, "")], &[YIELDS]);
        let result = run(&mut host);
        let row = first(&result, 0);
        assert!(row.yields > 100, "{name}: {row:?}");
        // Each round is the counting, the call, and the jump back.
        let rounds = (row.instructions - 3) / 3;
        assert!(rounds.abs_diff(row.yields) <= 1, "{name}: {row:?}");
        assert!(row.run_cycles >= 50 * row.yields, "{name}: {row:?}");
    }
}

#[test]
fn who_sleeps_leaves_its_context_to_others_until_its_timer_wakes_it() {
    const SLEEPER: &str = "lui t0, 0x200c
        addi t0, t0, -8
        lui t1, 0x2004
        li t2, 0x80
        csrw 0x304, t2
        lui s2, 2
        loop: ld t3, 0(t0)
        add t3, t3, s2
        sd t3, 0(t1)
        wfi
        j loop";
    for name in MACHINES {
        let mut host = timed(name, 1, FREE, &[(1, ""), (1, "")], &[SLEEPER, LOOP]);
        let result = run(&mut host);
        let (sleeper, other) = (first(&result, 0), first(&result, 1));
        let naps = 200 * SLICE / 0x2000;
        assert!(
            (naps * 7 / 8..=naps).contains(&sleeper.wakes),
            "{name}: {sleeper:?}"
        );
        // Between two naps it waits for two accesses of its timer, and for its context.
        assert!(sleeper.blocked_cycles > 130 * SLICE, "{name}: {sleeper:?}");
        assert!(other.run_cycles > 130 * SLICE, "{name}: {other:?}");
    }
}

#[test]
fn a_nap_traps_in_the_cycle_in_which_its_time_is_over_and_the_guest_goes_on_behind_it() {
    const NAPS: &str = "auipc a1, 0
        lr.d t0, (a1)
        wrs.nto
        li s1, 7
        loop: j loop";
    let with = |name: &str, slices: u64, window: u64| {
        let sections = format!(
            "[helping]\npolicy = \"next\"\ndetection = \"wrs_trap\"\nwindow_cycles = {window}"
        );
        let run_us = slices * SLICE / CLOCK_MHZ;
        let file = file(1, run_us, FREE, &sections, &[(1, ""), (1, "")]);
        let mut host = host_on(Some(name), file, &[NAPS, LOOP]);
        let row = first(&run(&mut host), 0).clone();
        (row.wrs_traps, row.run_cycles, host.system.harts[0].regs[9])
    };
    for name in MACHINES {
        let (traps, run_cycles, _) = with(name, 1, 700);
        assert_eq!(traps, 1, "{name}");
        assert_eq!(with(name, 1, 803), (1, run_cycles + 103, 0), "{name}");
        // Longer than its slice.
        assert_eq!(with(name, 4, 2 * SLICE), (0, 2 * SLICE, 0), "{name}");
        let (traps, _, s1) = with(name, 3, 700);
        assert_eq!((traps, s1), (1, 7), "{name}");
    }
}

#[test]
fn a_loop_of_pauses_is_found_on_timing_cores_too() {
    const PAUSES: &str = "loop: pause
        j loop";
    const SELDOM: &str = "loop: pause
        li s3, 400
        work: addi s3, s3, -1
        bnez s3, work
        j loop";
    let with = |name: &str, window: u64, program: &str| {
        let sections = format!(
            "[helping]\npolicy = \"next\"\ndetection = \"pause_loop\"\nwindow_cycles = {window}"
        );
        let run_us = SLICE / CLOCK_MHZ;
        let file = file(1, run_us, FREE, &sections, &[(1, ""), (1, "")]);
        let mut host = host_on(Some(name), file, &[program, LOOP]);
        let row = first(&run(&mut host), 0).clone();
        (row.pause_loops, row.run_cycles)
    };
    for name in MACHINES {
        let (found, first) = with(name, 600, PAUSES);
        assert_eq!(found, 1, "{name}");
        let (found, second) = with(name, 1200, PAUSES);
        assert_eq!(found, 1, "{name}");
        // A pause and a jump take less than a hundred cycles.
        assert!(
            (second - first).abs_diff(600) < 100,
            "{name}: {first}, {second}"
        );
        assert_eq!(with(name, 600, SELDOM), (0, SLICE), "{name}");
    }
}

#[test]
fn a_guest_that_fails_or_is_killed_leaves_the_others_their_work() {
    const FAILS: &str = "lui s0, 1
        loop: addi s0, s0, -1
        bnez s0, loop
        ecall
        stay: j stay";
    let fills = fills(5);
    for name in MACHINES {
        // Both harts of the first one fail, the second of them when the guest is over.
        let guests = [(2, ""), (1, ""), (1, "background = true")];
        let mut host = timed(name, 2, "", &guests, &[FAILS, &fills, LOOP]);
        for _ in 0..3 {
            host.turn().unwrap();
        }
        host.kill(2);
        let result = run(&mut host);
        let states: Vec<_> = result.guests.iter().map(|guest| guest.state).collect();
        assert_eq!(states, ["failed", "exited", "exited"], "{name}");
        assert_eq!(result.guests[1].code, Some(0), "{name}");
    }
}

/// Each of its harts takes a lock `rounds` times, by functions named as those of Linux, and sleeps for ever.
fn locks(rounds: u64) -> String {
    format!(
        "auipc s0, 0
        lui t0, 4
        add s0, s0, t0
        slli sp, a0, 8
        add sp, sp, s0
        li s1, {rounds}
        round: addi a0, s0, 0
        jal ra, lock
        addi s2, s2, 1
        addi a0, s0, 0
        jal ra, unlock
        addi s1, s1, -1
        bnez s1, round
        stay: wfi
        j stay
        lock: li t1, 1
        again: amoswap.w.aq t0, t1, (a0)
        bnez t0, again
        jalr zero, 0(ra)
        unlock: amoswap.w.rl zero, zero, (a0)
        jalr zero, 0(ra)"
    )
}

/// A system that runs [`locks`], whose locks are followed by the names of their functions.
pub(super) fn followed(harts: usize, rounds: u64) -> System {
    let code = locks(rounds);
    let at = |label: &str| {
        let line = code.lines().position(|it| it.trim().starts_with(label));
        RAM_BASE + 4 * line.expect("a label") as u64
    };
    let map = format!(
        "{:016x} T _raw_spin_lock\n{:016x} T _raw_spin_unlock\n{:016x} T _raw_spin_unlock_irq\n",
        at("lock:"),
        at("unlock:"),
        at("unlock:")
    );
    let file = SymbolFile::parse("System.map", map.as_bytes()).expect("a map");
    let mut system = system(harts, &code);
    system.symbols = vec![Arc::new(Symbols::new(vec![file]))];
    system.begin_lock_stats(false).expect("names of locks");
    system
}

#[test]
fn locks_are_followed_by_guest_as_on_the_reference_engine() {
    let rounds = [40, 25];
    for name in [None, Some("t1"), Some("knl"), Some("symmetry")] {
        let run_us = 200 * SLICE / CLOCK_MHZ;
        let file = file(4, run_us, FREE, "", &[(2, ""), (3, "")]);
        let systems = vec![
            (followed(2, rounds[0]), false),
            (followed(3, rounds[1]), false),
        ];
        let machine = name.map(machine);
        let mut host = Host::new(file, systems, machine.as_ref()).expect("guests that fit");
        let result = run(&mut host);
        for (guest, (harts, rounds)) in [(2, rounds[0]), (3, rounds[1])].into_iter().enumerate() {
            let rows = &result.guests[guest].locks;
            let by_hart: Vec<_> = rows
                .iter()
                .map(|row| (row.hart, row.acquisitions, row.holds))
                .collect();
            let expected: Vec<_> = (0..harts).map(|hart| (hart, rounds, rounds)).collect();
            assert_eq!(by_hart, expected, "{name:?}, guest {guest}");
        }
    }
}

/// Of a guest of two harts on so many CPUs: of each virtual CPU the cycles that it ran, those of them that count as spinning,
/// and the sum of its waits for locks.
fn waits_of(name: Option<&str>, cpus: u64) -> Vec<[u64; 3]> {
    let run_us = 400 * SLICE / CLOCK_MHZ;
    let file = file(cpus, run_us, FREE, "", &[(2, "")]);
    let machine = name.map(machine);
    let systems = vec![(followed(2, 2_000), false)];
    let mut host = Host::new(file, systems, machine.as_ref()).expect("a guest that fits");
    let result = run(&mut host);
    let waits = |hart| {
        let rows = result.guests[0].locks.iter();
        rows.filter(|row| row.hart == hart)
            .map(|row| row.wait_sum_cycles)
            .sum()
    };
    let vcpus = result.vcpus.iter();
    vcpus
        .map(|row| [row.run_cycles, row.spinning_cycles, waits(row.hart)])
        .collect()
}

#[test]
fn waits_in_lock_functions_of_a_kernel_are_spinning_while_a_cpu_executes_them() {
    let mut interrupted = 0;
    for name in [None, Some("t1"), Some("symmetry")] {
        let each_its_own = waits_of(name, 2);
        assert_eq!(each_its_own.len(), 2);
        for [run, spinning, waits] in each_its_own {
            assert!(run > spinning && spinning > 0, "{name:?}");
            assert_eq!(spinning, waits, "{name:?}");
        }
        // Who waits for a turn meanwhile does not spin.
        for [run, spinning, waits] in waits_of(name, 1) {
            assert!(
                run > spinning && spinning > 0 && spinning <= waits,
                "{name:?}"
            );
            interrupted += u32::from(spinning < waits);
        }
    }
    // On some machine a turn ends in a wait.
    assert!(interrupted >= 2, "{interrupted}");
}
