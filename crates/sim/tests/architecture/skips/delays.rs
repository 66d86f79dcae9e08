//! Delays between two reads that take long, or that stand in the window of an out-of-order core.

use loiter_isa::Op;
use loiter_isa::csr::number::MSTATUS;

use super::loops::{assert_skipped, program};
use super::{assert_same, request, rounds};
use crate::handmade::{A1, FULL_FENCE, S0, T0, T1};
use crate::machines::{Machine, on_all_processors};

/// Machines with out-of-order cores, and harts for a core and one context of another.
const MACHINES: [(Machine, usize); 2] = [(Machine::Opteron48, 2), (Machine::Knl, 5)];

/// The register in which a waiter counts its reads.
const COUNT: u8 = 18;
/// The floating-point unit is on.
const FS: i64 = 3 << 13;
/// fence.tso
const TSO: u32 = 0x8330_000f;
/// fdiv.d fa4, fa4, fa5
const DIVIDE_DOUBLES: u32 = 0x1af7_7753;
/// fcvt.d.w fa5, s0
const TO_DOUBLE: u32 = 0xd204_07d3;

/// What stands between two reads.
const DELAYS: [(&str, &[u32]); 4] = [
    ("full fences", &[FULL_FENCE, FULL_FENCE]),
    ("fences of another kind", &[TSO]),
    // divu t1, a1, s0
    ("a divide", &[0x0285_d333]),
    (
        "divides of doubles",
        &[TO_DOUBLE, DIVIDE_DOUBLES, DIVIDE_DOUBLES],
    ),
];
/// The first hart works before each round for less than two to the power of this times.
const WORK: i32 = 15;

/// All harts but the first read with a delay between, and count in a register of their own.
#[test]
fn delays_are_skipped() {
    on_all_processors(MACHINES.len() * DELAYS.len(), |n| {
        let (machine, harts) = MACHINES[n % MACHINES.len()];
        let (name, delay) = DELAYS[n / MACHINES.len()];
        let elf = program(harts, |guest, hart| {
            guest.asm.li(T0, FS);
            guest.asm.csr(Op::Csrrs, 0, MSTATUS, T0);
            rounds(guest, hart, harts, WORK, |guest| {
                guest.asm.li(COUNT, 0);
                let again = guest.asm.bound();
                guest.asm.i(Op::Addi, COUNT, COUNT, 1);
                delay.iter().for_each(|&word| guest.asm.word(word));
                guest.asm.i(Op::Ld, T0, A1, 0);
                guest.asm.branch(Op::Blt, T0, S0, again);
                guest.asm.mv(T1, COUNT);
            });
        });
        let mut request = request(machine, 2, None);
        // Divides take theirs; of fences some do and some do not.
        request
            .set
            .push(format!("latency.fence_extra_cycles={}", 20 * (n % 2)));
        let result = assert_same(request, &elf);
        assert_skipped(&result, 2, 4, &format!("{machine:?}, {name}"));
    });
}
