//! Decoded records: slots, immediates, reserved encodings. What objdump knows is compared with it
//! in `tests/objdump`; here are the fields that text does not show, and what objdump lacks.

use crate::{Class, Inst, Op, SINK, decode, disassemble, f, length, x};

/// Fields of an R-type instruction, as the manual draws it.
fn r_type(funct7: u32, rs2: u32, rs1: u32, funct3: u32, rd: u32, opcode: u32) -> u32 {
    funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode
}

fn op(bits: u32) -> Op {
    decode(bits).op
}

#[test]
fn record_is_sixteen_bytes() {
    assert_eq!(size_of::<Inst>(), 16);
}

#[test]
fn registers_become_slots() {
    // add x3, x4, x5
    let add = decode(r_type(0, 5, 4, 0, 3, 0x33));
    assert_eq!(
        (add.op, add.rd, add.rs1, add.rs2, add.rs3),
        (Op::Add, 3, 4, 5, 0)
    );
    // add x0, x4, x5
    assert_eq!(decode(r_type(0, 5, 4, 0, 0, 0x33)).rd, SINK);
    // fmadd.d f0, f1, f2, f3, dyn: f0 is a register like any other.
    let fma = decode(r_type(3 << 2 | 1, 2, 1, 7, 0, 0x43));
    assert_eq!(
        (fma.op, fma.rd, fma.rs1, fma.rs2, fma.rs3),
        (Op::FmaddD, f(0), f(1), f(2), f(3))
    );
    assert_eq!(fma.rm(), 7);
    // fcvt.l.d x5, f6, rtz
    let convert = decode(r_type(0x61, 2, 6, 1, 5, 0x53));
    assert_eq!(
        (convert.op, convert.rd, convert.rs1, convert.rs2),
        (Op::FcvtLD, x(5), f(6), 0)
    );
    assert_eq!(convert.rm(), 1);
    // sd x5, -8(x2) has no destination.
    let store = decode(0xfe51_3c23);
    assert_eq!(
        (store.op, store.rd, store.rs1, store.rs2, store.imm),
        (Op::Sd, SINK, 2, 5, -8)
    );
    // fsgnj.s has no rounding mode: funct3 is not one.
    assert_eq!(decode(r_type(0x10, 2, 1, 2, 3, 0x53)).rm(), 0);
}

#[test]
fn immediates_are_sign_extended() {
    assert_eq!(decode(0xfff0_0093).imm, -1); // addi x1, x0, -1
    assert_eq!(decode(0x8000_00b7).imm, i32::MIN); // lui x1, 0x80000
    assert_eq!(decode(0xffdf_f0ef).imm, -4); // jal x1, .-4
    assert_eq!(decode(0xfe00_0ee3).imm, -4); // beq x0, x0, .-4
    assert_eq!(decode(0x03f0_9093).imm, 63); // slli x1, x1, 63
    assert_eq!(decode(0x43f0_d093).imm, 63); // srai x1, x1, 63
    assert_eq!(decode(0x1fa2).imm, 40); // c.slli x31, 40
}

#[test]
fn csr_instructions_carry_number_and_immediate() {
    let set = decode(0x300f_f573); // csrrci x10, mstatus, 31
    assert_eq!((set.op, set.rd, set.rs1), (Op::Csrrci, 10, 0));
    assert_eq!((set.imm & 0xfff, set.imm >> 12 & 31), (0x300, 31));
    let write = decode(0xfff5_1073); // csrrw x0, 0xfff, x10
    assert_eq!(
        (write.op, write.rd, write.rs1, write.imm & 0xfff),
        (Op::Csrrw, SINK, 10, 0xfff)
    );
}

#[test]
fn fences_carry_their_sets_and_ignore_reserved_fields() {
    let fence = decode(0x0ff0_000f);
    assert_eq!((fence.op, fence.imm), (Op::Fence, 0xff));
    let tso = decode(0x8330_000f);
    assert_eq!((tso.op, tso.imm), (Op::FenceTso, 0x833));
    // Registers and an unassigned fm: a plain fence.
    let odd = decode(0x5ff5_050f);
    assert_eq!(
        (odd.op, odd.rd, odd.rs1, odd.imm),
        (Op::Fence, SINK, 0, 0x5ff)
    );
    assert_eq!(op(0x0100_000f), Op::Pause);
    assert_eq!(
        op(0x0100_008f),
        Op::Fence,
        "pause with a register is a fence"
    );
    assert_eq!(op(0xfff5_150f), Op::FenceI);
}

#[test]
fn atomics_carry_ordering() {
    for ordering in 0..4 {
        let amo = decode(r_type(ordering, 5, 4, 3, 3, 0x2f));
        assert_eq!((amo.op, u32::from(amo.rm())), (Op::AmoaddD, ordering));
    }
    assert_eq!(
        op(r_type(0x08, 1, 4, 3, 3, 0x2f)),
        Op::Illegal,
        "lr with a second source"
    );
}

#[test]
fn slti_to_x0_is_a_probe() {
    let probe = decode(0x0035_2013); // slti x0, x10, 3
    assert_eq!(
        (probe.op, probe.rd, probe.rs1, probe.imm),
        (Op::Probe, SINK, 10, 3)
    );
    assert_eq!(probe.op.class(), Class::Probe);
    assert_eq!(disassemble(0x0035_2013, 0), "slti zero,a0,3");
    assert_eq!(op(0x0035_2093), Op::Slti);
}

/// Zicond and Zacas, by the encodings of the manual.
#[test]
fn instructions_unknown_to_objdump() {
    let (a0, a1, a2, a3) = (10, 11, 12, 13);
    let cases = [
        (
            r_type(0b000_0111, a2, a1, 0b101, a0, 0b011_0011),
            "czero.eqz a0,a1,a2",
        ),
        (
            r_type(0b000_0111, a2, a1, 0b111, a0, 0b011_0011),
            "czero.nez a0,a1,a2",
        ),
        (
            r_type(0b001_0100, a2, a1, 0b010, a0, 0b010_1111),
            "amocas.w a0,a2,(a1)",
        ),
        (
            r_type(0b001_0101, a2, a1, 0b010, a0, 0b010_1111),
            "amocas.w.rl a0,a2,(a1)",
        ),
        (
            r_type(0b001_0110, a2, a1, 0b011, a0, 0b010_1111),
            "amocas.d.aq a0,a2,(a1)",
        ),
        (
            r_type(0b001_0111, a3, a1, 0b011, a1, 0b010_1111),
            "amocas.d.aqrl a1,a3,(a1)",
        ),
        (
            r_type(0b001_0100, a2, a1, 0b100, a0, 0b010_1111),
            "amocas.q a0,a2,(a1)",
        ),
    ];
    for (bits, text) in cases {
        assert_eq!(disassemble(bits, 0), text);
    }
    let cas = decode(r_type(0b001_0100, a2, a1, 0b010, a0, 0b010_1111));
    assert_eq!(
        (cas.op, cas.rd, cas.rs1, cas.rs2, cas.rs3),
        (Op::AmocasW, 10, 11, 12, 10)
    );
    // The comparison with x0 reads zero; the old value is dropped.
    let discard = decode(r_type(0b001_0100, a2, a1, 0b100, 0, 0b010_1111));
    assert_eq!(
        (discard.op, discard.rd, discard.rs3),
        (Op::AmocasQ, SINK, 0)
    );
    for (rs2, rd) in [(a3, a0), (a2, a1)] {
        let odd = r_type(0b001_0100, rs2, a1, 0b100, rd, 0b010_1111);
        assert_eq!(op(odd), Op::Illegal, "odd register of a pair");
    }
}

#[test]
fn reserved_rounding_modes_are_illegal() {
    for mode in 0..8 {
        let legal = !matches!(mode, 5 | 6);
        for funct7 in [0x00, 0x01, 0x08, 0x61] {
            let bits = r_type(funct7, 0, 1, mode, 3, 0x53);
            assert_eq!(op(bits) != Op::Illegal, legal, "{bits:#x}");
        }
    }
    // An exact conversion has the field too.
    assert_eq!(
        disassemble(r_type(0x69, 0, 10, 1, 10, 0x53), 0),
        "fcvt.d.w fa0,a0,rtz"
    );
    assert_eq!(
        disassemble(r_type(0x69, 0, 10, 0, 10, 0x53), 0),
        "fcvt.d.w fa0,a0"
    );
}

#[test]
fn compressed_reserved_encodings_are_illegal() {
    // Zero; c.addi4spn, c.addiw, c.lui, c.addi16sp, c.lwsp, c.ldsp, c.jr without their operand;
    // the free places among them.
    for half in [
        0x0000, 0x0008, 0x2001, 0x6501, 0x6101, 0x4002, 0x6002, 0x8002, 0x8000, 0x9c41, 0x9c61,
    ] {
        let i = decode(half);
        assert_eq!((i.op, i.len, i.raw), (Op::Illegal, 2, half), "{half:#06x}");
    }
}

#[test]
fn compressed_hints_have_no_effect() {
    // c.nop 1; c.li x0, 1; c.lui x0, 1; c.mv x0, x10; c.add x0, x10; c.slli x0, 1
    for half in [0x0005, 0x4005, 0x6005, 0x802a, 0x902a, 0x0006] {
        let i = decode(half);
        assert!(i.op != Op::Illegal && i.rd == SINK, "{half:#06x}");
    }
}

#[test]
fn compressed_expansions() {
    let expect = |half: u32, op, rd, rs1, rs2, imm| {
        let i = decode(half);
        assert_eq!(
            (i.op, i.rd, i.rs1, i.rs2, i.imm, i.len),
            (op, rd, rs1, rs2, imm, 2)
        );
        assert_eq!(i.raw, half);
    };
    expect(0x1141, Op::Addi, 2, 2, 0, -16); // c.addi sp, -16
    expect(0x7139, Op::Addi, 2, 2, 0, -64); // c.addi16sp sp, -64
    expect(0x0028, Op::Addi, 10, 2, 0, 8); // c.addi4spn a0, sp, 8
    expect(0x757d, Op::Lui, 10, 0, 0, -4096); // c.lui a0, 0xfffff
    expect(0x852e, Op::Add, 10, 0, 11, 0); // c.mv a0, a1
    expect(0x952e, Op::Add, 10, 10, 11, 0); // c.add a0, a1
    expect(0x8082, Op::Jalr, SINK, 1, 0, 0); // c.jr ra
    expect(0x9502, Op::Jalr, 1, 10, 0, 0); // c.jalr a0
    expect(0xbffd, Op::Jal, SINK, 0, 0, -2); // c.j .-2
    expect(0xdd7d, Op::Beq, SINK, 10, 0, -2); // c.beqz a0, .-2
    expect(0x2522, Op::Fld, f(10), 2, 0, 8); // c.fldsp fa0, 8(sp)
    expect(0xa42a, Op::Fsd, SINK, 2, f(10), 8); // c.fsdsp fa0, 8(sp)
    expect(0xe188, Op::Sd, SINK, 11, 10, 0); // c.sd a0, 0(a1)
    expect(0x9002, Op::Ebreak, SINK, 0, 0, 0); // c.ebreak
}

/// As GNU as assembles `.insn b 0x0b, 0, a0, a1, .+8`, `.insn s 0x0b, 1, x0, 0(a0)` and
/// `.insn b 0x0b, 2, a0, x0, .-16`.
#[test]
fn the_hardware_lock() {
    let acquire = decode(0x00b5_040b);
    assert_eq!(acquire.op, Op::LockAcquire);
    assert_eq!((acquire.rs1, acquire.rs2, acquire.imm), (10, 11, 8));
    assert_eq!((acquire.rd, acquire.data_offset()), (SINK, 0));
    assert_eq!(disassemble(0x00b5_040b, 16), "lock.acquire (a0),a1,0x18");
    let release = decode(0x0005_100b);
    assert_eq!(release.op, Op::LockRelease);
    assert_eq!((release.rs1, release.rs2, release.imm), (10, 0, 0));
    assert_eq!(disassemble(0x0005_100b, 0), "lock.release (a0)");
    // No other register is stored, nor to another place.
    for bits in [0x00b5_100b, 0x0005_108b, 0x0205_100b] {
        assert_eq!(decode(bits).op, Op::Illegal);
    }
    let wait = decode(0xfe05_288b);
    assert_eq!((wait.op, wait.rs2, wait.imm), (Op::LockWait, 0, -16));
    assert_eq!(disassemble(0xfe05_288b, 16), "lock.wait (a0),zero,0x0");
    assert_eq!(decode(0x0005_300b).op, Op::Illegal);
}

#[test]
fn length_follows_the_low_bits() {
    assert_eq!(
        (
            length(0x0001),
            length(0x0002),
            length(0x0000),
            length(0x0003)
        ),
        (2, 2, 2, 4)
    );
    // Bytes after a compressed instruction are not its own.
    assert_eq!(decode(0xffff_852e).raw, 0x852e);
    assert_eq!(disassemble(0xffff_852e, 0), "c.mv a0,a1");
}

#[test]
fn targets_are_absolute() {
    assert_eq!(disassemble(0xffdf_f0ef, 0x8000_0000), "jal ra,0x7ffffffc");
    assert_eq!(disassemble(0xffdf_f0ef, 0), "jal ra,0xfffffffffffffffc");
    assert_eq!(disassemble(0xffff_ffff, 0), ".4byte 0xffffffff");
}
