//! The latency of every kind of instruction, in straight lines on one context. The numbers are those of the published
//! tables and of the RTL; the presets must reproduce them.

use crate::support::{Bench, DATA, WAIT};

/// Repetitions of the measured instruction.
const COUNT: u64 = 20;

/// Registers that the blocks use: a0 points to itself, a6 and f1 are 1, f2 is 2.
fn setup() -> String {
    format!(
        "li a0, {DATA}; sd a0, 0(a0); li a6, 1
         li t0, 0x6000; csrrs x0, 0x300, t0   # floating point on
         fcvt.d.l f1, a6; fadd.d f2, f1, f1; fcvt.s.d f3, f2"
    )
}

/// Cycles of `COUNT` times `block` with a warm instruction cache, up to the issue of `closer`. It is warm after two rounds:
/// where one pointer says which way is filled, the first may have put two lines of a set into one way.
fn cycles(machine: &str, setup: &str, block: &str, closer: &str) -> u64 {
    let code = format!(
        "{setup}
         {WAIT}
         li s1, 3
         again: mark
         .rept {COUNT}
         {block}
         .endr
         end
         {closer}
         addi s1, s1, -1
         bnez s1, again
         exit"
    );
    let marks = Bench::new(machine).hart(0, &code).run().marks(0);
    assert_eq!(marks.len(), 6);
    assert!(marks[5].end);
    marks[5].cycle - marks[4].cycle
}

/// `(block, what reads its last result, cycles on t1, cycles on t2)`.
const TABLE: &[(&str, &str, u64, u64)] = &[
    ("add a1, a1, a6", "nop", 1, 1),
    ("lui a1, 5", "nop", 1, 1),
    ("clz a1, a1", "nop", 1, 1),
    ("mul a1, a1, a6", "nop", 11, 9),
    ("mulhu a1, a6, a6", "nop", 11, 9),
    ("beq x0, x0, .+8; nop", "nop", 3, 6),
    ("bne x0, x0, .+8", "nop", 3, 1),
    ("j .+4", "nop", 3, 6),
    ("auipc t1, 0; jalr x1, 8(t1)", "nop", 1 + 3, 1 + 6),
    ("ld a0, 0(a0)", "mv a1, a0", 3, 3),
    (
        "lbu t0, 0(a0); lbu t1, 1(a0); lbu t2, 2(a0)",
        "nop",
        3 * 3,
        3,
    ),
    ("lbu t0, 0(a0); mv t0, t0", "nop", 3 + 1, 3 + 1),
    ("fence r, r", "nop", 4, 1),
    ("fence rw, rw", "nop", 8, 1),
    ("fence.i", "nop", 8, 1),
    ("csrrs a1, 0x340, x0", "nop", 4, 6),
    ("pause", "nop", 1, 1),
    ("fadd.d f4, f4, f1", "fadd.d f5, f4, f1", 24, 6),
    ("fsub.s f4, f4, f3", "fadd.s f5, f4, f3", 24, 6),
    (
        "fcvt.d.l f4, a1; fcvt.l.d a1, f4",
        "mv a2, a1",
        2 * 24,
        2 * 6,
    ),
    ("fmul.d f4, f4, f1", "fadd.d f5, f4, f1", 28, 6),
    ("fmul.s f4, f4, f3", "fadd.s f5, f4, f3", 28, 6),
    ("fmadd.d f4, f4, f1, f1", "fadd.d f5, f4, f1", 52, 12),
    ("fdiv.s f4, f3, f3", "nop", 54, 19),
    ("fdiv.d f4, f2, f1", "nop", 83, 33),
    ("fsqrt.s f4, f3", "nop", 54, 19),
    ("fsqrt.d f4, f2", "nop", 83, 33),
    ("fsgnj.d f4, f4, f1", "fadd.d f5, f4, f1", 8, 6),
    (
        "fmv.x.d a1, f4; fmv.d.x f4, a1",
        "fadd.d f5, f4, f1",
        2 * 8,
        2 * 6,
    ),
    (
        "fld f4, 0(a0); fsgnj.d f4, f4, f4",
        "fadd.d f5, f4, f1",
        9 + 8,
        3 + 6,
    ),
    (
        "fld f4, 0(a0); fld f5, 0(a0); fld f6, 0(a0)",
        "nop",
        3 * 9,
        3,
    ),
];

#[test]
fn every_kind_takes_its_time() {
    let warm = format!("{}; ld t0, 0(a0)", setup());
    for &(block, closer, t1, t2) in TABLE {
        for (machine, expected) in [("t1", t1), ("t2", t2)] {
            let got = cycles(machine, &warm, block, closer);
            assert_eq!(got, COUNT * expected, "{machine}: {block}");
        }
    }
}

/// Thirty cycles are more than a store needs to be acknowledged.
#[test]
fn a_store_into_an_empty_buffer_takes_its_time() {
    const REST: u64 = 30;
    for (store, t1, t2) in [
        ("sd a6, 0(a0)", 1, 1),
        ("sb a6, 7(a0)", 1, 1),
        ("fsd f1, 0(a0)", 8, 1),
    ] {
        for (machine, expected) in [("t1", t1), ("t2", t2)] {
            let rest = "nop; ".repeat(REST as usize);
            let got = cycles(machine, &setup(), &format!("{store}; {rest}"), "nop");
            assert_eq!(got, COUNT * (expected + REST), "{machine}: {store}");
        }
    }
}

/// On the T2 independent floating-point operations issue every cycle; on the T1 each waits for the one before.
#[test]
fn the_t2_pipelines_floating_point() {
    for (operation, t1) in [("fadd.d", 24), ("fmul.d", 28), ("fsgnj.d", 8)] {
        let block: String = (8..16)
            .map(|n| format!("{operation} f{n}, f1, f2; "))
            .collect();
        assert_eq!(
            cycles("t1", &setup(), &block, "nop"),
            COUNT * 8 * t1,
            "{operation}"
        );
        assert_eq!(
            cycles("t2", &setup(), &block, "nop"),
            COUNT * 8,
            "{operation}"
        );
    }
}

/// A divide of the T1 takes 72 cycles whatever it divides; one of the T2 nine and one for every two bits by which the
/// dividend is longer than the divisor, four at least; by zero as many as at least.
#[test]
fn division_takes_its_time() {
    let top = 1_u64 << 63;
    let cases: &[(&str, u64, u64, u64)] = &[
        ("div", 7, 9, 13),
        ("div", 0, 1, 13),
        ("div", 1 << 7, 1, 13),
        ("div", 1 << 10, 1, 14),
        ("div", 1 << 11, 1, 14),
        ("div", 1 << 12, 1, 15),
        ("div", 1 << 40, 1 << 10, 24),
        ("div", u64::MAX >> 1, 1, 40),
        ("div", top, 1, 40),
        ("div", u64::MAX, 1, 13),
        ("div", (-1_i64 << 20) as u64, 3, 18),
        ("rem", u64::MAX >> 1, 1, 40),
        ("divu", 1 << 12, 1, 15),
        ("divu", u64::MAX, 1, 40),
        ("divu", u64::MAX, u64::MAX, 13),
        ("divu", u64::MAX, 0, 13),
        ("rem", u64::MAX >> 1, 0, 13),
        ("divw", u64::MAX >> 1 << 32, 1 << 32, 13),
        ("remu", top, 1 << 13, 34),
        ("divw", (0xffff_ffff << 32) | 7, 1, 13),
        ("divw", 1 << 30, 1, 24),
        ("divuw", u64::MAX, 1, 24),
        ("remw", u64::MAX, 1, 13),
    ];
    for &(divide, dividend, divisor, t2) in cases {
        let setup = format!("li a1, {}; li a2, {}", dividend as i64, divisor as i64);
        let block = format!("{divide} a3, a1, a2");
        for (machine, expected) in [("t1", 72), ("t2", t2)] {
            let got = cycles(machine, &setup, &block, "nop");
            assert_eq!(
                got,
                COUNT * expected,
                "{machine}: {dividend:#x} {divide} {divisor:#x}"
            );
        }
    }
}

/// `ecall`, a handler that skips it, `mret`.
#[test]
fn a_trap_takes_its_time() {
    let setup = "auipc t1, 0; addi t1, t1, 16; csrrw x0, 0x305, t1; j over
         csrrs t0, 0x341, x0; addi t0, t0, 4; csrrw x0, 0x341, t0; mret
         over:";
    for (machine, trap, csr) in [("t1", 5, 4), ("t2", 5, 6)] {
        let expected = COUNT * (trap + csr + 1 + csr + trap);
        assert_eq!(
            cycles(machine, setup, "ecall", "nop"),
            expected,
            "{machine}"
        );
    }
}

/// From the tick in which the timer is due to the issue after `wfi`: one cycle.
#[test]
fn a_timer_wakes_a_sleeper_in_the_cycle_it_is_due() {
    let code = "li t0, 0x2004000; li t1, 300; li s1, 2
         li t2, 0x80; csrrw x0, 0x304, t2
         again: sd t1, 0(t0)
         wfi
         mark
         slli t1, t1, 1
         addi s1, s1, -1; bnez s1, again
         exit";
    for (machine, cycles_per_tick) in [("t1", 100), ("t2", 140)] {
        let times = Bench::new(machine).hart(0, code).run().times(0);
        assert_eq!(times[1], 600 * cycles_per_tick + 1, "{machine}");
    }
}

/// `wrs.sto` gives up after a microsecond, and continues in the next cycle; what it watches does not change.
#[test]
fn a_short_nap_ends_by_itself() {
    for (machine, expected) in [("t1", 1000), ("t2", 1400)] {
        let got = cycles(machine, &setup(), "lr.d t0, (a0); wrs.sto", "nop");
        let atomic = if machine == "t1" { 39 } else { 30 };
        assert_eq!(got, COUNT * (atomic + expected + 1), "{machine}");
    }
}
