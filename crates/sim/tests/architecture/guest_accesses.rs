//! What a hypervisor reads and writes as its guest does: `hlv` sees its hart's own stores, wherever they are on their way,
//! and what comes after `hsv` sees that. No table is in force, so that addresses of the guest are those of the machine.

use loiter_isa::Op;

use crate::generator::state::{PMPADDR0, PMPCFG0};
use crate::handmade::{A1, A2, FREE, FULL_FENCE, Guest, S0, S1, T0, T1, T2, reports};
use crate::machines::{Machine, run_to_end};

const MACHINES: [Machine; 11] = [
    Machine::Virt,
    Machine::T1,
    Machine::T2,
    Machine::Symmetry,
    Machine::Opteron48,
    Machine::InOrder,
    Machine::Smt8,
    Machine::Superscalar,
    Machine::PCore,
    Machine::Knl,
    Machine::BigLittle,
];

const OLD: u64 = 0x0123_4567_89ab_cdef;
const NEW: u64 = 0xfedc_ba98_7654_3210;

/// Offsets from `gp` of eight bytes within a line, over the end of one, and over the end of a page.
const PLACES: [i32; 3] = [FREE + 64, FREE + 64 + 60, 0x1000 - 3];

/// `hlv.d rd, (rs1)`.
fn hlv(guest: &mut Guest, rd: u8, rs1: u8) {
    guest.asm.r(Op::HlvD, rd, rs1, 0);
}

/// `hsv.d rs2, (rs1)`.
fn hsv(guest: &mut Guest, rs2: u8, rs1: u8) {
    guest.asm.r(Op::HsvD, 0, rs1, rs2);
}

fn runs(program: impl Fn(&mut Guest), expected: &[u64]) {
    for machine in MACHINES {
        let mut guest = Guest::new(&[0]);
        guest.role(0);
        // Guests may access all of memory.
        guest.asm.li(T0, -1);
        guest.asm.csrw(PMPADDR0, T0);
        guest.asm.li(T0, 0x1f);
        guest.asm.csrw(PMPCFG0, T0);
        guest.asm.li(A1, OLD as i64);
        guest.asm.li(A2, NEW as i64);
        program(&mut guest);
        guest.pass();
        let mut request = machine.request(1 + usize::from(machine == Machine::BigLittle));
        request.set.push("hart.isa=+h".into());
        let result = run_to_end(&request, &guest.elf());
        assert_eq!(reports(&result, 0), expected, "{machine:?}");
    }
}

/// The address that comes late out of memory, so that a store to it waits while what follows could go on.
fn late_address(guest: &mut Guest, offset: i32) {
    guest.address(S1, FREE);
    guest.address(S0, offset);
    guest.asm.s(Op::Sd, S0, 0, S1);
    guest.asm.word(FULL_FENCE);
    guest.asm.i(Op::Ld, T0, S1, 0);
}

#[test]
fn a_read_as_a_guest_sees_the_stores_before_it() {
    let mut expected = Vec::new();
    for _ in PLACES {
        // A store, one to some of its bytes, and one whose address comes late.
        expected.extend([OLD, OLD & !0xff_0000 | (NEW & 0xff) << 16, NEW]);
    }
    let program = |guest: &mut Guest| {
        for place in PLACES {
            guest.address(S0, place);
            guest.asm.s(Op::Sd, A1, 0, S0);
            hlv(guest, T1, S0);
            guest.report(T1);
            guest.asm.s(Op::Sb, A2, 2, S0);
            hlv(guest, T1, S0);
            guest.report(T1);
            late_address(guest, place);
            guest.asm.s(Op::Sd, A2, 0, T0);
            hlv(guest, T1, S0);
            guest.report(T1);
        }
    };
    runs(program, &expected);
}

#[test]
fn what_follows_a_write_as_a_guest_sees_it() {
    let mut expected = Vec::new();
    for _ in PLACES {
        expected.extend([OLD, OLD, NEW, OLD & !0xff | NEW & 0xff]);
    }
    let program = |guest: &mut Guest| {
        for place in PLACES {
            guest.address(S0, place);
            guest.asm.word(FULL_FENCE);
            hsv(guest, A1, S0);
            guest.asm.i(Op::Ld, T1, S0, 0);
            guest.report(T1);
            // Nothing else pushes it on.
            hsv(guest, A1, S0);
            guest.asm.word(FULL_FENCE);
            hlv(guest, T1, S0);
            guest.report(T1);
            // In order with stores of its own, before and after it.
            guest.asm.s(Op::Sd, A1, 0, S0);
            hsv(guest, A2, S0);
            guest.asm.i(Op::Ld, T1, S0, 0);
            guest.report(T1);
            hsv(guest, A1, S0);
            guest.asm.s(Op::Sb, A2, 0, S0);
            guest.asm.i(Op::Ld, T2, S0, 0);
            guest.report(T2);
        }
    };
    runs(program, &expected);
}
