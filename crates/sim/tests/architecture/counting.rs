//! Counting and locking: what atomics protect is exact, whoever the harts are.

use loiter_isa::Op;

use crate::generator::asm::GP;
use crate::handmade::{A0, A1, A2, FREE, FULL_FENCE, Guest, S0, T0, T1, T2, reports};
use crate::machines::{Machine, run_to_end};

/// Times that each hart counts.
const ROUNDS: i64 = if cfg!(debug_assertions) { 30 } else { 300 };

/// Offsets from `gp`, on lines of their own.
const COUNTER: i32 = FREE;
const LOCK: i32 = FREE + 64;
const OWNER: i32 = FREE + 128;
const TROUBLE: i32 = FREE + 192;

/// Register of the round, and of the hart's number plus one.
const ROUND: u8 = 18;
const SELF: u8 = 19;

/// A way to add one to the counter.
type Method = fn(&mut Guest);

const METHODS: &[(&str, Method)] = &[
    ("amoadd", add),
    ("amoadd.w with release", add_word),
    ("lr and sc", add_by_reservation),
    ("amocas", add_by_compare),
    ("lr and sc lock", |guest| {
        locked(guest, acquire_by_reservation)
    }),
    ("amoswap lock", |guest| locked(guest, acquire_by_swap)),
    ("amocas lock", |guest| locked(guest, acquire_by_compare)),
];

fn add(guest: &mut Guest) {
    guest.asm.i(Op::Addi, T0, GP, COUNTER);
    guest.asm.li(T1, 1);
    guest.asm.r(Op::AmoaddD, 0, T0, T1);
}

fn add_word(guest: &mut Guest) {
    guest.asm.i(Op::Addi, T0, GP, COUNTER);
    guest.asm.li(T1, 1);
    let (amoadd, _) = Op::AmoaddW.pattern().expect("in the table");
    let fields = u32::from(T0) << 15 | u32::from(T1) << 20 | u32::from(T2) << 7;
    guest.asm.word(amoadd | fields | 1 << 25);
}

fn add_by_reservation(guest: &mut Guest) {
    guest.asm.i(Op::Addi, T0, GP, COUNTER);
    let retry = guest.asm.bound();
    guest.asm.r(Op::LrD, T1, T0, 0);
    guest.asm.i(Op::Addi, T1, T1, 1);
    guest.asm.r(Op::ScD, T2, T0, T1);
    guest.asm.branch(Op::Bne, T2, 0, retry);
}

fn add_by_compare(guest: &mut Guest) {
    guest.asm.i(Op::Addi, T0, GP, COUNTER);
    guest.asm.i(Op::Ld, T1, T0, 0);
    let retry = guest.asm.bound();
    guest.asm.mv(A1, T1);
    guest.asm.i(Op::Addi, T2, T1, 1);
    guest.asm.r(Op::AmocasD, T1, T0, T2);
    guest.asm.branch(Op::Bne, T1, A1, retry);
}

fn acquire_by_reservation(guest: &mut Guest) {
    let retry = guest.asm.bound();
    guest.asm.r(Op::LrD, T1, T0, 0);
    guest.asm.branch(Op::Bne, T1, 0, retry);
    guest.asm.li(T1, 1);
    guest.asm.r(Op::ScD, T2, T0, T1);
    guest.asm.branch(Op::Bne, T2, 0, retry);
}

fn acquire_by_swap(guest: &mut Guest) {
    guest.asm.li(T1, 1);
    let retry = guest.asm.bound();
    guest.asm.i(Op::Ld, T2, T0, 0);
    guest.asm.branch(Op::Bne, T2, 0, retry);
    guest.asm.r(Op::AmoswapD, T2, T0, T1);
    guest.asm.branch(Op::Bne, T2, 0, retry);
}

fn acquire_by_compare(guest: &mut Guest) {
    guest.asm.li(T1, 1);
    let retry = guest.asm.bound();
    guest.asm.li(T2, 0);
    guest.asm.r(Op::AmocasW, T2, T0, T1);
    guest.asm.branch(Op::Bne, T2, 0, retry);
}

/// Counts with plain loads and stores under a lock. Whoever finds another owner inside says so.
fn locked(guest: &mut Guest, acquire: Method) {
    guest.asm.i(Op::Addi, T0, GP, LOCK);
    acquire(guest);
    guest.asm.word(FULL_FENCE);
    suspect(guest, 0);
    guest.asm.s(Op::Sd, SELF, OWNER, GP);
    guest.asm.i(Op::Ld, T1, GP, COUNTER);
    guest.asm.i(Op::Addi, T1, T1, 1);
    guest.asm.s(Op::Sd, T1, COUNTER, GP);
    suspect(guest, SELF);
    guest.asm.s(Op::Sd, 0, OWNER, GP);
    // fence rw,w: the release.
    guest.asm.word(0x0310_000f);
    guest.asm.s(Op::Sd, 0, LOCK, GP);
}

/// Counts it as trouble unless the owner is `expected`.
fn suspect(guest: &mut Guest, expected: u8) {
    let fine = guest.asm.label();
    guest.asm.i(Op::Ld, T1, GP, OWNER);
    guest.asm.branch(Op::Beq, T1, expected, fine);
    guest.asm.i(Op::Addi, A2, GP, TROUBLE);
    guest.asm.li(T1, 1);
    guest.asm.r(Op::AmoaddD, 0, A2, T1);
    guest.asm.bind(fine);
}

/// All harts count; the first one reports the counter and the trouble.
fn program(harts: &[usize], method: Method) -> Vec<u8> {
    let mut guest = Guest::new(harts);
    for n in 0..harts.len() {
        guest.role(n);
        guest.asm.i(Op::Addi, SELF, A0, 1);
        guest.barrier(harts.len());
        guest.repeat(ROUND, ROUNDS, method);
        guest.barrier(harts.len());
        if n == 0 {
            for place in [COUNTER, TROUBLE] {
                guest.asm.i(Op::Ld, S0, GP, place);
                guest.report(S0);
            }
            guest.pass();
        } else {
            guest.sleep_for_ever();
        }
    }
    guest.elf()
}

fn check(machine: Machine, cores: usize, harts: &[usize]) {
    for &(name, method) in METHODS {
        eprintln!("{name} {harts:?}");
        let result = run_to_end(&machine.request(cores), &program(harts, method));
        let expected = ROUNDS as u64 * harts.len() as u64;
        assert_eq!(
            reports(&result, harts[0]),
            [expected, 0],
            "{name} by harts {harts:?} of {machine:?}: count and intruders"
        );
    }
}

#[test]
fn harts_of_one_core_count_exactly() {
    check(Machine::T1, 1, &[0, 1, 2, 3]);
    check(Machine::T2, 1, &[0, 1, 2, 3, 4, 5, 6, 7]);
    check(Machine::T2, 1, &[2, 6]);
    check(Machine::Smt8, 1, &[0, 1, 2, 3, 4, 5, 6, 7]);
    check(Machine::Smt8, 1, &[2, 6]);
    check(Machine::PCore, 1, &[0, 1]);
}

#[test]
fn harts_of_several_cores_count_exactly() {
    check(Machine::T1, 8, &[0, 4, 8, 12, 16, 20, 24, 28]);
    check(Machine::T1, 2, &[0, 1, 2, 3, 4, 5, 6, 7]);
    check(Machine::T2, 4, &[0, 1, 8, 12, 16, 23, 24, 31]);
    check(Machine::T2, 2, &[0, 15]);
    check(Machine::Smt8, 3, &[0, 1, 7, 8, 15, 16, 23]);
    check(Machine::PCore, 2, &[0, 1, 2, 3]);
}

/// Where lines come over a bus, from a home, from another tile, and straight from who has them (`replies_to`).
#[test]
fn harts_of_many_cores_count_exactly() {
    check(Machine::InOrder, 4, &[0, 5, 8, 15]);
    check(Machine::Symmetry, 8, &[0, 1, 2, 3, 4, 5, 6, 7]);
    check(Machine::Knl, 4, &[0, 1, 4, 8, 9, 12]);
    check(Machine::Opteron48, 6, &[0, 1, 2, 3, 4, 5]);
    check(Machine::Opteron48, 18, &[0, 5, 6, 11, 12, 17]);
}

#[test]
fn harts_of_the_reference_engine_count_exactly() {
    check(Machine::Virt, 8, &[0, 1, 2, 3, 4, 5, 6, 7]);
}
