//! Exceptions of each shape of instruction: the cause, the value, and that nothing else happened.

use loiter_isa::csr::number::MSTATUS;
use loiter_isa::{Op, decode};
use loiter_machine::{AccessFault, Machine, MachineConfig};
use loiter_types::{HartId, PhysAddr};

use super::*;
use crate::csr::{CsrFile, Extensions, Privilege};

const RAM: u64 = 0x8000_0000;
const RAM_BYTES: u64 = 1 << 20;
const RAM_END: u64 = RAM + RAM_BYTES;
const NOWHERE: u64 = 0x0800_0000;
/// Registers of the instructions: x10 is written, x11 the address, x12 the operand.
const OPERANDS: u32 = 10 << 7 | 11 << 15 | 12 << 20;
const UNTOUCHED: u64 = 0x5555_aaaa;

fn machine() -> Machine {
    Machine::new(&MachineConfig {
        ram_bytes: RAM_BYTES,
        harts: 2,
        isa: "rv64imafdc".into(),
        ..MachineConfig::default()
    })
    .expect("a valid machine")
}

fn hart() -> Hart {
    let mut hart = Hart::new(
        HartId::new(0),
        RAM,
        PhysAddr(0),
        Extensions::of("rv64i_zawrs"),
    );
    hart.regs[10] = UNTOUCHED;
    hart
}

/// An encoding of `op` with the usual registers, as far as it has them.
fn encoding(op: Op) -> u32 {
    let (value, mask) = op.pattern().expect("in the table");
    value | OPERANDS & !mask
}

/// Runs `bits` with x11 = `address`; a trap must leave pc and x10 alone.
fn run(hart: &mut Hart, machine: &mut Machine, bits: u32, address: u64) -> Flow {
    hart.regs[11] = address;
    let mut exec = Exec::<_, true>::new(hart, machine);
    let flow = dispatch(&mut exec, &decode(bits));
    exec.finish();
    if matches!(flow, Flow::Trap(_)) {
        assert_eq!(
            (hart.pc, hart.regs[10]),
            (RAM, UNTOUCHED),
            "{bits:#x} did something"
        );
    }
    flow
}

fn trap(op: Op, address: u64) -> Flow {
    run(&mut hart(), &mut machine(), encoding(op), address)
}

fn exception(cause: Cause, value: u64) -> Flow {
    Flow::Trap(Trap::Exception(cause, value))
}

/// `imm` of the encodings above: rs2's bits of a load, rd's of a store.
const LOAD_IMM: u64 = 12;
const STORE_IMM: u64 = 10;

#[test]
fn accesses_to_nowhere_tell_their_address() {
    for op in [Op::Lb, Op::Ld] {
        assert_eq!(
            trap(op, NOWHERE),
            exception(Cause::LoadAccess, NOWHERE + LOAD_IMM)
        );
    }
    assert_eq!(
        trap(Op::Sd, NOWHERE),
        exception(Cause::StoreAccess, NOWHERE + STORE_IMM)
    );
    assert_eq!(
        trap(Op::LrD, NOWHERE),
        exception(Cause::LoadAccess, NOWHERE)
    );
    for op in [Op::AmoaddW, Op::AmomaxuD, Op::AmocasD, Op::AmocasQ] {
        assert_eq!(
            trap(op, NOWHERE),
            exception(Cause::StoreAccess, NOWHERE),
            "{op:?}"
        );
    }
}

#[test]
fn an_access_across_the_end_of_ram_fails_whole() {
    let mut machine = machine();
    let mut hart = hart();
    hart.regs[12] = u64::MAX;
    let address = RAM_END - 4 - STORE_IMM;
    let flow = run(&mut hart, &mut machine, encoding(Op::Sd), address);
    // The value is the address of the part that nothing answers.
    assert_eq!(flow, exception(Cause::StoreAccess, RAM_END));
    let left = machine.load(PhysAddr(RAM_END - 4), Width::W);
    assert_eq!(left.expect("RAM"), 0);
}

#[test]
fn a_load_fault_gives_the_address_of_the_part_without_a_device() {
    for (address, value) in [
        (RAM_END - 4, RAM_END),
        (RAM_END - 1, RAM_END),
        (RAM_END + 3, RAM_END + 3),
    ] {
        let expected = exception(Cause::LoadAccess, value);
        assert_eq!(trap(Op::Ld, address - LOAD_IMM), expected, "{address:#x}");
    }
}

#[test]
fn misaligned_atomics_trap_whatever_is_there() {
    for base in [RAM, NOWHERE] {
        assert_eq!(
            trap(Op::LrW, base + 2),
            exception(Cause::LoadMisaligned, base + 2)
        );
        for (op, address) in [
            (Op::ScW, base + 2),
            (Op::ScD, base + 4),
            (Op::AmoswapW, base + 1),
            (Op::AmoorD, base + 4),
            (Op::AmocasW, base + 2),
            (Op::AmocasQ, base + 8),
        ] {
            let expected = exception(Cause::StoreMisaligned, address);
            assert_eq!(trap(op, address), expected, "{op:?}");
        }
    }
}

#[test]
fn calls_and_breakpoints_tell_mode_and_place() {
    for (privilege, cause) in [
        (Privilege::User, Cause::EcallUser),
        (Privilege::Supervisor, Cause::EcallSupervisor),
        (Privilege::Machine, Cause::EcallMachine),
    ] {
        let mut hart = hart();
        hart.csr.privilege = privilege;
        let flow = run(&mut hart, &mut machine(), encoding(Op::Ecall), 0);
        assert_eq!(flow, exception(cause, 0));
    }
    assert_eq!(trap(Op::Ebreak, 0), exception(Cause::Breakpoint, RAM));
}

#[test]
fn what_may_not_run_is_illegal_and_tells_its_encoding() {
    let illegal = |hart: &mut Hart, bits: u32| {
        let flow = run(hart, &mut machine(), bits, RAM);
        let expected = exception(Cause::IllegalInstruction, u64::from(bits));
        assert_eq!(flow, expected, "{bits:#x}");
    };
    // Floating point is off at reset.
    for op in [Op::FaddD, Op::Fld, Op::Fsw, Op::FmvXD] {
        illegal(
            &mut hart(),
            encoding(op) & !0x7000 | op.pattern().expect("known").0 & 0x7000,
        );
    }
    illegal(&mut hart(), 0xffff_ffff);
    // A CSR that does not exist, one that cannot be written, one of a higher mode.
    illegal(&mut hart(), 0x8ff0_1573);
    illegal(&mut hart(), 0xf140_1573);
    let mut user = hart();
    user.csr.privilege = Privilege::User;
    for bits in [
        0x3000_2573,
        encoding(Op::Mret),
        encoding(Op::Sret),
        encoding(Op::Wfi),
    ] {
        illegal(&mut user, bits);
    }
}

#[test]
fn a_rounding_mode_that_does_not_exist_is_found_when_it_is_used() {
    let mut hart = hart();
    hart.csr = CsrFile::new(HartId::new(0), Extensions::default());
    let mut machine = machine();
    // csrrs x0, mstatus, x12 with FS; csrrwi x0, frm, 5
    hart.regs[12] = 3 << 13;
    for bits in [0x3006_2073, 0x0022_d073] {
        assert_eq!(run(&mut hart, &mut machine, bits, 0), Flow::Interrupts);
    }
    hart.pc = RAM;
    let dynamic = encoding(Op::FaddD) | 7 << 12;
    let expected = exception(Cause::IllegalInstruction, u64::from(dynamic));
    assert_eq!(run(&mut hart, &mut machine, dynamic, 0), expected);
    let fixed = encoding(Op::FaddD) & !0x7000;
    assert_eq!(run(&mut hart, &mut machine, fixed, 0), Flow::Next);
}

#[test]
fn compare_and_swap_stores_where_all_compares_equal() {
    let (value, swap) = (0x1111_2222_8000_0001_u64, 0x3333_4444_5555_6666);
    let upper = 0x7777_8888_9999_aaaa_u64;
    // Lower and upper word as memory has them, what is expected there, and what is there then.
    let words = [(Op::AmocasW, 4), (Op::AmocasD, 8), (Op::AmocasQ, 16)];
    for (op, bytes) in words {
        for differs in [None, Some(0), Some(bytes - 1)] {
            let (mut machine, mut hart) = (machine(), hart());
            for (offset, word) in [(0, value), (8, upper)] {
                machine
                    .store(HartId::new(0), PhysAddr(RAM + offset), Width::D, word)
                    .expect("RAM");
            }
            // Bytes above a word do not count, nor what its register holds there.
            let expected = match op {
                Op::AmocasW => (u128::from(!value) >> 32 << 32) | u128::from(value as u32),
                _ => u128::from(upper) << 64 | u128::from(value),
            };
            let expected = expected ^ differs.map_or(0, |byte| 0x10_u128 << (8 * byte));
            (hart.regs[10], hart.regs[11]) = (expected as u64, (expected >> 64) as u64);
            (hart.regs[12], hart.regs[13]) = (swap, !swap);
            // The address where no pair of registers is.
            hart.regs[14] = RAM;
            let bits = encoding(op) & !(0x1f << 15) | 14 << 15;
            let mut exec = Exec::<_, true>::new(&mut hart, &mut machine);
            assert_eq!(dispatch(&mut exec, &decode(bits)), Flow::Next);
            exec.finish();
            let read = match op {
                Op::AmocasW => value as u32 as i32 as u64,
                _ => value,
            };
            assert_eq!(hart.regs[10], read, "{op:?}");
            if op == Op::AmocasQ {
                assert_eq!(hart.regs[11], upper);
            }
            let mut kept = |offset, old, new| {
                let found = machine.load(PhysAddr(RAM + offset), Width::D);
                let expected = if differs.is_none() { new } else { old };
                assert_eq!(found.expect("RAM"), expected, "{op:?}, {differs:?}");
            };
            let word = value >> 32 << 32 | u64::from(swap as u32);
            kept(0, value, if op == Op::AmocasW { word } else { swap });
            kept(8, upper, if op == Op::AmocasQ { !swap } else { upper });
        }
    }
}

/// Here every floating-point instruction makes FS dirty, and SD says so, but stores, which change nothing.
#[test]
fn what_changes_floating_point_state_makes_it_dirty() {
    const INITIAL: u64 = 1 << 13;
    const DIRTY: u64 = 3 << 13 | 1 << 63;
    for (op, changes) in [
        (Op::FaddD, true),
        (Op::FeqD, true),
        (Op::FcvtLD, true),
        (Op::Fld, true),
        (Op::FmvDX, true),
        (Op::Fsd, false),
        (Op::Fsw, false),
        (Op::FmvXD, true),
        (Op::FclassD, true),
    ] {
        let (mut machine, mut hart) = (machine(), hart());
        hart.csr.write(MSTATUS, INITIAL, 0);
        let status = |hart: &Hart| hart.csr.read(MSTATUS, 0, false).expect("mstatus") & DIRTY;
        assert_eq!(status(&hart), INITIAL);
        assert_eq!(run(&mut hart, &mut machine, encoding(op), RAM), Flow::Next);
        let expected = if changes { DIRTY } else { INITIAL };
        assert_eq!(status(&hart), expected, "{op:?}");
    }
}

#[test]
fn a_hot_executor_leaves_what_its_port_refuses_to_a_full_one() {
    struct Refuses(Machine);
    impl DataPort for Refuses {
        fn load(&mut self, _: HartId, addr: PhysAddr, _: Width) -> Result<u64, AccessFault> {
            Err(AccessFault { addr })
        }
        fn store(
            &mut self,
            _: HartId,
            addr: PhysAddr,
            _: Width,
            _: u64,
        ) -> Result<(), AccessFault> {
            Err(AccessFault { addr })
        }
        fn machine(&mut self) -> &mut Machine {
            &mut self.0
        }
    }
    let mut port = Refuses(machine());
    for op in [
        Op::Ld,
        Op::Sd,
        Op::AmoaddD,
        Op::LrW,
        Op::AmocasQ,
        Op::Ecall,
        Op::Csrrw,
    ] {
        let mut hart = hart();
        hart.regs[11] = RAM;
        let mut exec = Exec::<_, false>::new(&mut hart, &mut port);
        assert_eq!(
            dispatch(&mut exec, &decode(encoding(op))),
            Flow::Full,
            "{op:?}"
        );
        exec.finish();
        assert_eq!((hart.pc, hart.regs[10]), (RAM, UNTOUCHED));
    }
}

/// Unprivileged manual, "Load-Reserved/Store-Conditional": a store succeeds once for each reservation, whatever became of
/// the one before.
#[test]
fn a_reservation_is_good_for_one_store() {
    const PLACE: u64 = RAM + 0x100;
    let (mut hart, mut machine) = (hart(), machine());
    let mut go = |op, value, address| {
        hart.regs[12] = value;
        hart.pc = RAM;
        // The place of rs2 in the encoding belongs to `lr`.
        let bits = match op {
            Op::LrW | Op::LrD => encoding(op) & !(31 << 20),
            _ => encoding(op),
        };
        assert_eq!(run(&mut hart, &mut machine, bits, address), Flow::Next);
        hart.regs[10]
    };
    assert_ne!(go(Op::ScD, 1, PLACE), 0, "nothing is reserved");
    assert_eq!(go(Op::LrD, 0, PLACE), 0);
    assert_eq!(go(Op::ScD, 2, PLACE), 0);
    assert_ne!(go(Op::ScD, 3, PLACE), 0, "the reservation is used up");
    assert_eq!(go(Op::LrD, 0, PLACE), 2);
    assert_ne!(go(Op::ScD, 4, PLACE + 64), 0, "another line is reserved");
    assert_ne!(go(Op::ScD, 5, PLACE), 0, "a store that failed takes it too");
    assert_eq!(go(Op::LrD, 0, PLACE), 2);
}

/// Unprivileged manual, "Atomic Memory Operations": those of words take the lower word of their operand.
#[test]
fn atomics_of_words_do_not_look_at_upper_halves() {
    const PLACE: u64 = RAM + 0x100;
    let high = 7 << 32;
    // What is there, the operand, and what is there then.
    for (op, old, operand, new) in [
        (Op::AmomaxW, 5_u64, high | 3, 5),
        (Op::AmomaxW, 5, high | 9, 9),
        (Op::AmomaxW, 5, high | 0xffff_ffff, 5),
        (Op::AmominW, 5, high | 3, 3),
        (Op::AmominW, 5, high | 0xffff_ffff, 0xffff_ffff),
        (Op::AmomaxuW, 5, high | 3, 5),
        (Op::AmomaxuW, 5, high | 0xffff_ffff, 0xffff_ffff),
        (Op::AmominuW, 5, high | 3, 3),
        (Op::AmominuW, 0xffff_ffff, high | 3, 3),
        (Op::AmoaddW, 0xffff_ffff, high | 3, 2),
    ] {
        let (mut hart, mut machine) = (hart(), machine());
        hart.regs[12] = operand;
        let id = HartId::new(0);
        machine
            .store(id, PhysAddr(PLACE), Width::W, old)
            .expect("RAM");
        let flow = run(&mut hart, &mut machine, encoding(op), PLACE);
        assert_eq!(flow, Flow::Next);
        let found = machine.load(PhysAddr(PLACE), Width::D).expect("RAM");
        assert_eq!(found, new, "{op:?} of {old:#x} and {operand:#x}");
        assert_eq!(hart.regs[10], old as u32 as i32 as u64, "{op:?}");
    }
}
