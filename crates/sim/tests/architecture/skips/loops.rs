//! Loops with more in them than loads and sums: probes, naps, interrupts, translation.

use loiter_isa::Op;
use loiter_isa::csr::first::{PMPADDR0, PMPCFG0};
use loiter_isa::csr::number::{MCYCLE, MEPC, MIE, MSTATUS, MTVEC, SATP};
use loiter_sim::RunResult;

use super::{FLAG, SEEN, assert_same, ends, request, rounds, waits};
use crate::generator::asm::GP;
use crate::handmade::{
    A1, A2, DATA, FULL_FENCE, Guest, MACHINE_ENABLE, MTIME, MTIMECMP, S0, S1, T0, T1, T2, reports,
};
use crate::machines::{Machine, on_all_processors, run_to_end};

const S2: u8 = 18;
const A3: u8 = 13;
const A4: u8 = 14;

const ACQUIRE: u16 = 0x05;
const ACQUIRED: u16 = 0x06;
const RELEASED: u16 = 0x07;
const LOCK_READ: u16 = 0x08;
const WORK_END: u16 = 0x04;

/// Lines of harts of their own, as offsets from `gp`.
const OWN: i32 = SEEN + 1024;

/// Machines with two cores or more, and a number of harts for all of them.
const PAIRS: [(Machine, usize); 7] = [
    (Machine::T1, 8),
    (Machine::T2, 16),
    (Machine::InOrder, 8),
    (Machine::BigLittle, 6),
    (Machine::Symmetry, 2),
    (Machine::Opteron48, 2),
    (Machine::Knl, 8),
];
/// Those with one, on which some hart always works while others wait.
const SINGLE: [(Machine, usize); 2] = [(Machine::Smt8, 8), (Machine::PCore, 2)];

/// A program of `harts` harts, each with a role of its own.
pub(super) fn program(harts: usize, mut role: impl FnMut(&mut Guest, usize)) -> Vec<u8> {
    let all: Vec<usize> = (0..harts).collect();
    let mut guest = Guest::new(&all);
    for hart in all {
        guest.role(hart);
        role(&mut guest, hart);
    }
    guest.elf()
}

/// At least one in `parts` cycles of cores was skipped.
pub(super) fn assert_skipped(result: &RunResult, cores: usize, parts: u64, what: &str) {
    let (skipped, all) = (result.skipped_cycles, result.cycles * cores as u64);
    assert!(
        skipped * parts > all,
        "{what}: {skipped} of {all} cycles were skipped"
    );
}

/// Each hart but the first has acquired and released the lock in each round.
fn assert_lock_used(result: &RunResult, harts: usize) {
    assert_eq!(result.locks.len(), harts - 1);
    for row in &result.locks {
        let rounds = super::ROUNDS as u64;
        assert_eq!((row.acquisitions, row.holds), (rounds, rounds), "{row:?}");
        assert!(row.wait_sum_cycles >= row.wait_max_cycles + 3 * row.wait_min_cycles);
        assert!(row.wait_log2_histogram.iter().sum::<u64>() == rounds);
    }
}

#[test]
fn reads_of_locks_are_told_as_often() {
    on_all_processors(PAIRS.len(), |n| {
        let (machine, harts) = PAIRS[n];
        let elf = program(harts, |guest, hart| {
            rounds(guest, hart, harts, 12, |guest| {
                guest.asm.probe(ACQUIRE, A1);
                let again = guest.asm.bound();
                guest.asm.probe(LOCK_READ, A1);
                guest.asm.i(Op::Ld, T0, A1, 0);
                guest.asm.branch(Op::Blt, T0, S0, again);
                guest.asm.probe(ACQUIRED, A1);
                guest.asm.probe(RELEASED, A1);
            });
        });
        let result = assert_same(request(machine, 2, None), &elf);
        assert_skipped(&result, 2, 20, &format!("{machine:?}"));
        assert_lock_used(&result, harts);
        let plan = "reference";
        let untimed = run_to_end(&request(machine, 2, Some(plan)), &elf);
        assert_lock_used(&untimed, harts);
        let places = |result: &RunResult| -> Vec<_> {
            let rows = result.locks.iter();
            rows.map(|row| (row.lock, row.site, row.hart)).collect()
        };
        assert_eq!(places(&untimed), places(&result));
        assert_eq!(result.lock_reads.len(), harts - 1, "{machine:?}");
        let reads: u64 = result.lock_reads.iter().map(|row| row.reads).sum();
        assert!(reads > 1000, "{machine:?}: {reads} reads");
    });
}

/// Of the harts of one core, every other one naps while the rest spin. (With some on both cores, the `lr` of each would
/// take the line from the others where cores own lines, and end their naps.)
#[test]
fn naps_of_siblings_end_in_time() {
    let machines: Vec<_> = PAIRS.into_iter().filter(|&(_, harts)| harts > 2).collect();
    on_all_processors(machines.len(), |n| {
        let (machine, harts) = machines[n];
        let elf = program(harts, |guest, hart| {
            rounds(guest, hart, harts, 13, |guest| {
                if hart < harts / 2 || hart % 2 == 0 {
                    return waits(guest, 0);
                }
                let (again, done) = (guest.asm.bound(), guest.asm.label());
                guest.asm.r(Op::LrD, T0, A1, 0);
                guest.asm.branch(Op::Bge, T0, S0, done);
                guest.asm.bare(Op::WrsSto);
                guest.asm.j(again);
                guest.asm.bind(done);
            });
        });
        let mut request = request(machine, 2, None);
        request.set.push("wait.nap_short_limit_cycles=1501".into());
        let result = assert_same(request, &elf);
        assert_skipped(&result, 2, 50, &format!("{machine:?}"));
        let by_limit = result.counters.iter();
        let by_limit = by_limit.filter(|row| row.name == "woken_by_limit");
        let by_limit: u64 = by_limit.map(|row| row.value).sum();
        assert!(by_limit > 0, "{machine:?}: no nap was over by itself");
    });
}

/// A loop that also stores, or tells of its work, is gone through, though a long division leaves its core as it was.
#[test]
fn what_a_loop_does_beside_waiting_is_done() {
    on_all_processors(2 * PAIRS.len(), |n| {
        let (machine, harts) = PAIRS[n / 2];
        let stores = n % 2 == 0;
        let elf = program(harts, |guest, hart| {
            rounds(guest, hart, harts, 12, |guest| {
                guest.asm.li(A3, i64::MAX);
                guest.asm.li(T2, 3);
                guest.address(A4, OWN + 128 * hart as i32);
                let again = guest.asm.bound();
                match stores {
                    true => guest.asm.s(Op::Sd, T2, 0, A4),
                    false => guest.asm.probe(WORK_END, T2),
                }
                guest.asm.r(Op::Div, T1, A3, T2);
                guest.asm.i(Op::Ld, T0, A1, 0);
                guest.asm.branch(Op::Blt, T0, S0, again);
            });
        });
        let result = assert_same(request(machine, 2, None), &elf);
        match stores {
            true => assert!(result.instructions > 1000),
            false => assert!(result.marks.len() > 10, "{}", result.marks.len()),
        }
    });
}

/// A phase of so many instructions ends in the middle of what is skipped.
#[test]
fn skipped_instructions_count_for_the_phase() {
    for (machine, harts) in [(Machine::T1, 8), (Machine::Opteron48, 2)] {
        let elf = program(harts, |guest, hart| {
            rounds(guest, hart, harts, 12, |guest| waits(guest, 0));
        });
        let part = "timing for 7001 instructions, reference for 10 instructions, ";
        let plan = part.repeat(3) + "timing";
        let result = assert_same(request(machine, 2, Some(&plan)), &elf);
        assert_skipped(&result, 2, 50, &format!("{machine:?}"));
    }
}

const INTERRUPTS: i64 = 2;

/// All harts spin, and leave their loops when their timers have interrupted them often enough.
fn timers(ticks: i64, harts: usize) -> Vec<u8> {
    program(harts, |guest, hart| {
        let over = guest.asm.label();
        guest.asm.j(over);
        guest.asm.align(4);
        let handler = guest.asm.bound();
        guest.asm.csrr(T0, MCYCLE);
        guest.report(T0);
        guest.asm.i(Op::Ld, T0, A4, 0);
        guest.asm.r(Op::Add, T0, T0, S2);
        guest.asm.s(Op::Sd, T0, 0, A4);
        guest.asm.word(FULL_FENCE);
        guest.asm.i(Op::Addi, S1, S1, 1);
        guest.asm.bare(Op::Mret);
        guest.asm.bind(over);
        guest.asm.la(T0, handler);
        guest.asm.csrw(MTVEC, T0);
        guest.address(A1, FLAG);
        guest.asm.li(A3, 0);
        guest.asm.li(S0, INTERRUPTS);
        guest.asm.li(S1, 0);
        // Each at another time, in ticks.
        guest.asm.li(S2, ticks + hart as i64);
        guest.asm.li(A4, MTIMECMP + 8 * hart as i64);
        guest.barrier(harts);
        guest.asm.li(T0, MTIME);
        guest.asm.i(Op::Ld, T0, T0, 0);
        guest.asm.r(Op::Add, T0, T0, S2);
        guest.asm.s(Op::Sd, T0, 0, A4);
        guest.asm.li(T0, 1 << 7);
        guest.asm.csrw(MIE, T0);
        guest.asm.csr(Op::Csrrsi, 0, MSTATUS, MACHINE_ENABLE);
        let again = guest.asm.bound();
        guest.asm.i(Op::Addi, A3, A3, 1);
        guest.asm.i(Op::Ld, T0, A1, 0);
        guest.asm.branch(Op::Blt, S1, S0, again);
        guest.asm.csr(Op::Csrrci, 0, MSTATUS, MACHINE_ENABLE);
        guest.report(S1);
        guest.asm.mv(T1, A3);
        ends(guest, hart, harts);
    })
}

#[test]
fn a_timer_interrupts_spinning_when_it_is_due() {
    let machines: Vec<_> = PAIRS.into_iter().chain(SINGLE).collect();
    on_all_processors(machines.len(), |n| {
        let (machine, harts) = machines[n];
        let cores = if n < PAIRS.len() { 2 } else { 1 };
        // Some thousand cycles.
        let ticks = match machine {
            Machine::Symmetry => 150,
            Machine::PCore | Machine::BigLittle | Machine::Opteron48 => 15,
            _ => 50,
        };
        let elf = timers(ticks, harts);
        let result = assert_same(request(machine, cores, None), &elf);
        assert_skipped(&result, cores, 10, &format!("{machine:?}"));
        for hart in 0..harts {
            let reports = reports(&result, hart);
            let taken = INTERRUPTS as usize;
            assert_eq!(reports.len(), taken + 2, "{machine:?}, hart {hart}");
            assert_eq!(reports[taken], INTERRUPTS as u64);
        }
    });
}

/// Where page tables lie, and where they put the shared data, beside its own address.
const ROOT: u64 = DATA + 0x40_0000;
const MIDDLE: u64 = ROOT + 0x1000;
const ELSEWHERE: i64 = 4 << 30;
/// What that leads to later.
const OTHER_DATA: u64 = DATA + 0x20_0000;

/// An entry for memory at `addr`: valid, readable, writable, executable, accessed, dirty.
fn leaf(addr: u64) -> i64 {
    (addr >> 12 << 10 | 0xcf) as i64
}

/// Writes `entry` to `addr`.
fn put(guest: &mut Guest, addr: u64, entry: i64) {
    guest.asm.li(T0, addr as i64);
    guest.asm.li(T1, entry);
    guest.asm.s(Op::Sd, T1, 0, T0);
}

/// From here on a hart is in supervisor mode, behind page tables that hart 0 writes.
fn translates(guest: &mut Guest, hart: usize, harts: usize) {
    if hart == 0 {
        put(guest, ROOT, leaf(0));
        put(guest, ROOT + 8 * 2, leaf(2 << 30));
        put(guest, ROOT + 8 * 4, (MIDDLE >> 12 << 10 | 1) as i64);
        put(guest, MIDDLE, leaf(DATA));
    }
    guest.barrier(harts);
    // All of memory is open to lower modes.
    guest.asm.li(T0, -1);
    guest.asm.csrw(PMPADDR0, T0);
    guest.asm.li(T0, 0x1f);
    guest.asm.csrw(PMPCFG0, T0);
    guest.asm.li(T0, (8 << 60 | ROOT >> 12) as i64);
    guest.asm.csrw(SATP, T0);
    guest.asm.li(T0, 1 << 11);
    guest.asm.csrw(MSTATUS, T0);
    let supervisor = guest.asm.label();
    guest.asm.la(T0, supervisor);
    guest.asm.csrw(MEPC, T0);
    guest.asm.bare(Op::Mret);
    guest.asm.bind(supervisor);
}

#[test]
fn harts_that_translate_are_skipped_too() {
    on_all_processors(PAIRS.len(), |n| {
        let (machine, harts) = PAIRS[n];
        let elf = program(harts, |guest, hart| {
            translates(guest, hart, harts);
            guest.asm.li(GP, ELSEWHERE);
            let kind = [0, 5, 2][hart % 3];
            rounds(guest, hart, harts, 12, |guest| waits(guest, kind));
        });
        let result = assert_same(request(machine, 2, None), &elf);
        assert_skipped(&result, 2, 20, &format!("{machine:?}"));
    });
}

/// An entry of a page table changes by which harts spin, in one cycle of their period or another: they go on where it leads.
#[test]
fn spinning_ends_with_the_translation() {
    const DELAYS: usize = 4;
    on_all_processors(PAIRS.len() * DELAYS, |n| {
        let (machine, harts) = PAIRS[n / DELAYS];
        let elf = program(harts, |guest, hart| {
            if hart == 0 {
                put(guest, OTHER_DATA + FLAG as u64, 1);
            }
            translates(guest, hart, harts);
            guest.asm.li(A1, ELSEWHERE + i64::from(FLAG));
            guest.address(A2, SEEN);
            guest.asm.li(S0, 1);
            guest.barrier(harts);
            if hart == 0 {
                guest.asm.li(T1, 5000);
                let delay = guest.asm.bound();
                guest.asm.i(Op::Addi, T1, T1, -1);
                guest.asm.branch(Op::Bne, T1, 0, delay);
                (0..n % DELAYS).for_each(|_| guest.asm.i(Op::Addi, T1, T1, 1));
                put(guest, MIDDLE, leaf(OTHER_DATA));
                guest.asm.li(T2, harts as i64 - 1);
                let wait = guest.asm.bound();
                guest.asm.i(Op::Ld, T0, A2, 0);
                guest.asm.branch(Op::Blt, T0, T2, wait);
            } else {
                waits(guest, 2);
                guest.asm.r(Op::AmoaddD, 0, A2, S0);
            }
            ends(guest, hart, harts);
        });
        let result = assert_same(request(machine, 2, None), &elf);
        assert_skipped(&result, 2, 20, &format!("{machine:?}"));
        for hart in 1..harts {
            let rounds = reports(&result, hart)[0];
            assert!(rounds > 100, "{machine:?}, hart {hart}: {rounds} rounds");
        }
    });
}
