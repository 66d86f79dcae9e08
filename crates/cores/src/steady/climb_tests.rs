use loiter_hart::{CodeCache, Extensions, Hart};
use loiter_isa::Width;
use loiter_machine::{Machine, MachineConfig};
use loiter_types::{HartId, PhysAddr};

use super::periods;

const CODE: u64 = 0x8000_0000;
const T1: usize = 6;
const T2: usize = 7;

/// A hart at the first of `words`, which have been run once with these registers before, and now hold `regs`.
fn follows(words: &[u32], regs: &[(usize, u64, i64)]) -> u64 {
    let mut machine = Machine::new(&MachineConfig::default()).unwrap();
    for (n, &word) in words.iter().enumerate() {
        let addr = PhysAddr(CODE + 4 * n as u64);
        machine
            .store(HartId(0), addr, Width::W, word.into())
            .unwrap();
    }
    let mut hart = Hart::new(HartId(0), CODE, PhysAddr(0), Extensions::default());
    hart.regs = [0; 256];
    let mut growth = [0; 32];
    for &(register, value, grows) in regs {
        hart.regs[register] = value;
        growth[register] = grows as u64;
    }
    let count = words.len() as u64;
    let mut code = CodeCache::new();
    periods(&hart, (count, &growth), &mut machine, &mut code)
}

/// addi t1, t1, -1; bnez t1, 0
const DOWN: [u32; 2] = [0xfff3_0313, 0xfe03_1ee3];
/// addi t1, t1, 1; bltu t1, t2, 0
const UP: [u32; 2] = [0x0013_0313, 0xfe73_6ee3];
/// addiw t1, t1, -1; j 0
const WORDS: [u32; 2] = [0xfff3_031b, 0xffdf_f06f];
/// slli t2, t1, 1; addi t1, t1, 1; j 0
const SHIFTS: [u32; 3] = [0x0013_1393, 0x0013_0313, 0xff9f_f06f];
/// lbu t2, 0(t1); addi t1, t1, 1; j 0
const READS: [u32; 3] = [0x0003_4383, 0x0013_0313, 0xff9f_f06f];

/// addi t1, t1, 1; addiw t2, t1, 0; j 0
const LOWER: [u32; 3] = [0x0013_0313, 0x0003_039b, 0xff9f_f06f];
/// add t1, t1, t2; addiw t0, t1, 0; j 0
const UPPER: [u32; 3] = [0x0073_0333, 0x0003_029b, 0xff9f_f06f];

#[test]
fn a_loop_that_counts_down_goes_on_until_its_branch_does_not() {
    // From n, the branch is taken n - 1 times more.
    for n in [2, 3, 100, 1 << 40] {
        assert_eq!(follows(&DOWN, &[(T1, n, -1)]), n - 1);
    }
    assert_eq!(follows(&DOWN, &[(T1, 1, -1)]), 0);
}

#[test]
fn a_loop_that_counts_up_to_a_bound_stops_before_it() {
    for (n, bound) in [(10, 12), (10, 1000), (0, u64::MAX)] {
        assert_eq!(
            follows(&UP, &[(T1, n, 1), (T2, bound, 0)]),
            bound - 1 - n,
            "{n} to {bound}"
        );
    }
}

#[test]
fn words_climb_until_they_wrap() {
    let least = i64::from(i32::MIN);
    let room = |value: i64| follows(&WORDS, &[(T1, value as u64, -1)]);
    assert_eq!(room(least), 0);
    assert_eq!(room(least + 5), 5);
    assert_eq!(room(7), (7 - least) as u64);
    // A register that is no word is made one.
    assert_eq!(room(1 << 40), 0);
    // What stands above a word does not matter, unless it is all that grows.
    let count = (1 << 40) + 5;
    assert_eq!(
        follows(&LOWER, &[(T1, count, 1), (T2, 5, 1)]),
        i32::MAX as u64 - 5
    );
    let upper = [(T1, 3 << 32, 1 << 32), (T2, 1 << 32, 0)];
    assert_eq!(follows(&UPPER, &upper), 0);
}

#[test]
fn what_does_more_with_a_count_than_add_is_not_followed() {
    assert_eq!(follows(&SHIFTS, &[(T1, 5, 1), (T2, 8, 2)]), 0);
    // It reads another byte each time. One byte again and again is followed.
    let first = u64::from(READS[0] & 0xff);
    assert_eq!(follows(&READS, &[(T1, CODE + 1, 1), (T2, first, 0)]), 0);
    let [read, _, again] = READS;
    let same = [read, 0x0000_0013, again];
    assert_eq!(follows(&same, &[(T1, CODE, 0), (T2, first, 0)]), u64::MAX);
    // Nor is growth that the loop does not make.
    assert_eq!(follows(&DOWN, &[(T1, 50, -2)]), 0);
    assert_eq!(follows(&DOWN, &[(T1, 50, -1), (T2, 0, 1)]), 0);
}

/// Floating-point operations beside a count are followed, and one of the count is not.
#[test]
fn a_loop_that_counts_may_compute_in_floating_point() {
    // addi t1, t1, -1; fdiv.d fa4, fa4, fa5, or fcvt.d.w fa5, t1; bnez t1, 0
    let with = |word| [DOWN[0], word, 0xfe03_1ce3];
    assert_eq!(follows(&with(0x1af7_7753), &[(T1, 100, -1)]), 99);
    assert_eq!(follows(&with(0xd203_07d3), &[(T1, 100, -1)]), 0);
}
