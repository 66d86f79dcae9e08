//! Cores that only spin are skipped by whole periods: everything that a run finds out is the same as if every cycle had
//! been gone through, and each period is what the proof says.

mod delays;
mod loops;

use loiter_isa::Op;
use loiter_sim::{Observation, Request, RunResult};

use crate::determinism::text;
use crate::handmade::{A1, A2, FREE, Guest, S0, S1, T0, T1, T2};
use crate::machines::{Machine, on_all_processors, run_to_end};

const ROUNDS: i64 = 4;
const MOST_CYCLES: u64 = 2_000_000;
/// Offsets from `gp`: the round that harts wait for, and how many have seen a round.
const FLAG: i32 = FREE;
const SEEN: i32 = FREE + 1024;
/// `pause`
const PAUSE: u32 = 0x0100_000f;
const KINDS: usize = 8;

/// Machines with their cores, and how many harts those have contexts for.
const TIMED: [(Machine, usize, usize); 9] = [
    (Machine::T1, 5, 20),
    (Machine::T2, 3, 24),
    (Machine::Smt8, 1, 8),
    (Machine::PCore, 1, 2),
    (Machine::InOrder, 2, 8),
    (Machine::BigLittle, 2, 6),
    (Machine::Symmetry, 6, 6),
    (Machine::Opteron48, 6, 6),
    (Machine::Knl, 6, 24),
];

/// Waits, one way or another, until the flag is at least what S0 says.
fn waits(guest: &mut Guest, kind: usize) {
    let asm = &mut guest.asm;
    let (again, inner) = (asm.label(), asm.label());
    asm.i(Op::Addi, T1, 0, 0);
    match kind {
        // Until it is so.
        0 => asm.bind(again),
        // With a pause each time.
        1 => {
            asm.bind(again);
            asm.word(PAUSE);
        }
        // Counting how often, up.
        2 => {
            asm.bind(again);
            asm.i(Op::Addi, T1, T1, 1);
        }
        // Words, down.
        3 => {
            asm.bind(again);
            asm.i(Op::Addiw, T1, T1, -3);
            asm.r(Op::Add, T2, T1, T1);
        }
        // A delay that counts, between reads.
        4 => {
            asm.bind(again);
            asm.i(Op::Addi, T1, 0, 37);
            asm.bind(inner);
            asm.i(Op::Addi, T1, T1, -1);
            asm.branch(Op::Bne, T1, 0, inner);
        }
        // A long one.
        5 => {
            asm.bind(again);
            asm.li(T1, 0);
            asm.li(T2, 700);
            asm.bind(inner);
            asm.i(Op::Addi, T1, T1, 1);
            asm.branch(Op::Bltu, T1, T2, inner);
        }
        // With a division.
        6 => {
            asm.li(T2, 7);
            asm.bind(again);
            asm.li(T1, 123_456_789);
            asm.r(Op::Div, T1, T1, T2);
        }
        // Nothing else for a number of times, then something that is more than a read.
        _ => {
            let go_on = asm.label();
            asm.bind(again);
            asm.i(Op::Addi, T1, T1, 1);
            asm.li(T2, 900);
            asm.branch(Op::Bne, T1, T2, go_on);
            asm.i(Op::Addi, T1, 0, 0);
            asm.word(crate::handmade::FULL_FENCE);
            asm.bind(go_on);
        }
    }
    asm.i(Op::Ld, T0, A1, 0);
    asm.branch(Op::Blt, T0, S0, again);
}

/// Hart 0 lets all others wait, those of a core in one or two ways, round after round; it waits for them too.
fn relay(cores: usize, harts: usize, first_kind: usize) -> Vec<u8> {
    let all: Vec<usize> = (0..harts).collect();
    let mut guest = Guest::new(&all);
    let contexts = harts.div_ceil(cores);
    for hart in all {
        guest.role(hart);
        let kind = (first_kind + hart / contexts + 3 * (hart % contexts % 2)) % KINDS;
        rounds(&mut guest, hart, harts, 12, |guest| waits(guest, kind));
    }
    guest.elf()
}

/// The rounds of one hart of a relay, and its end: `wait` returns when the flag, at A1, is at least what S0 says. Hart 0
/// works before each for less than 2^`work` times.
fn rounds(guest: &mut Guest, hart: usize, harts: usize, work: i32, wait: impl FnOnce(&mut Guest)) {
    guest.address(A1, FLAG);
    guest.address(A2, SEEN);
    guest.barrier(harts);
    guest.repeat(S0, ROUNDS, |guest| {
        if hart == 0 {
            guest.random(T2, S1, work);
            let work = guest.asm.bound();
            guest.asm.i(Op::Addi, T2, T2, -1);
            guest.asm.s(Op::Sd, T2, 1024, A2);
            guest.asm.branch(Op::Blt, 0, T2, work);
            guest.asm.s(Op::Sd, S0, 0, A1);
            guest.asm.li(T2, harts as i64 - 1);
            guest.asm.i(Op::Addi, T1, S0, 1);
            guest.asm.r(Op::Mul, T2, T1, T2);
            let wait = guest.asm.bound();
            guest.asm.i(Op::Ld, T0, A2, 0);
            guest.asm.branch(Op::Blt, T0, T2, wait);
        } else {
            wait(guest);
            guest.asm.li(T0, 1);
            guest.asm.r(Op::AmoaddD, T0, A2, T0);
        }
    });
    ends(guest, hart, harts);
}

/// Each hart reports what it has counted, and hart 0 ends the machine.
fn ends(guest: &mut Guest, hart: usize, harts: usize) {
    guest.report(T1);
    guest.barrier(harts);
    match hart {
        0 => guest.pass(),
        _ => guest.sleep_for_ever(),
    }
}

fn request(machine: Machine, cores: usize, phases: Option<&str>) -> Request {
    Request {
        phases: phases.map(str::to_owned),
        observe: Observation::default(),
        // Some times what the longest takes: who waits for ever is not waited for.
        max_cycles: Some(MOST_CYCLES),
        ..machine.request(cores)
    }
}

/// The same request three times: skipped, nothing skipped, proved.
pub(crate) fn run_thrice(mut request: Request, elf: &[u8]) -> [RunResult; 3] {
    let skipped = run_to_end(&request, elf);
    request.observe.no_skip = true;
    let whole = run_to_end(&request, elf);
    assert_eq!(whole.skipped_cycles, 0);
    request.observe.no_skip = false;
    request.observe.prove_skips = true;
    [skipped, whole, run_to_end(&request, elf)]
}

/// All three are the same. Returns the first.
fn assert_same(request: Request, elf: &[u8]) -> RunResult {
    let name = request.machine_name.clone();
    let [skipped, whole, proved] = run_thrice(request, elf);
    let [skipped_text, whole, proved_text] = [skipped.clone(), whole, proved.clone()].map(text);
    for (found, how) in [(skipped_text, "skipped"), (proved_text, "proved")] {
        assert_eq!(found.lines().count(), whole.lines().count(), "{name}");
        for (n, (found, line)) in found.lines().zip(whole.lines()).enumerate() {
            assert_eq!(found, line, "{name}, line {n}, {how}");
        }
    }
    if skipped.skipped_cycles > 0 {
        assert!(proved.skipped_cycles > 0, "{name}: nothing was proved");
    }
    skipped
}

#[test]
fn what_is_skipped_would_have_been_the_same() {
    on_all_processors(TIMED.len(), |n| {
        let (machine, cores, harts) = TIMED[n];
        let (mut skipped, mut all) = (0, 0);
        for kind in 0..KINDS {
            let elf = relay(cores, harts, kind);
            let result = assert_same(request(machine, cores, None), &elf);
            skipped += result.skipped_cycles;
            all += result.cycles * cores as u64;
        }
        // On a single core somebody always works.
        assert!(
            cores == 1 || skipped * 20 > all,
            "{machine:?}: {skipped} of {all} cycles were skipped"
        );
    });
}

/// Phases end in the middle of periods, after cycles and after instructions.
#[test]
fn phases_end_where_they_would_have() {
    let plans = [
        "timing for 3337 cycles, reference for 10 instructions, ".repeat(20) + "timing",
        "timing for 7001 instructions, reference for 1k cycles, ".repeat(20) + "timing",
        "timing for 2k cycles, move 1 to 0, ".repeat(5) + "timing",
    ];
    on_all_processors(TIMED.len() * plans.len(), |n| {
        let (machine, cores, harts) = TIMED[n % TIMED.len()];
        let plan = &plans[n / TIMED.len()];
        let elf = relay(cores, harts, n);
        assert_same(request(machine, cores, Some(plan)), &elf);
    });
}
