//! That the checker finds whatever a core does wrong, and nothing in one that does all right.

use std::time::Duration;

use loiter_hart::{
    Accessed, Cause, Exec, Extensions, Flow, Hart, Interrupt, Performed, Privilege, Retired, Trap,
    Trapped,
};
use loiter_isa::csr::number::{MSCRATCH, MTVEC};
use loiter_isa::{Inst, Width, decode, dispatch};
use loiter_machine::{Machine, MachineConfig, RAM_BASE};
use loiter_types::{HartId, PhysAddr};

use super::Checker;
use crate::error::Error;
use crate::request::{Observation, Request};
use crate::session::{Limits, Session};

const DATA: u64 = RAM_BASE + 0x1000;
const HANDLER: u64 = RAM_BASE + 0x2000;
const ADDI: u32 = 0x0015_0513; // addi a0, a0, 1
const LD: u32 = 0x0005_b503; // ld a0, 0(a1)
const SD: u32 = 0x00a5_b023; // sd a0, 0(a1)
const AMOADD: u32 = 0x00a5_b62f; // amoadd.d a2, a0, (a1)
const SC: u32 = 0x18a5_b62f; // sc.d a2, a0, (a1)
const CSRRW: u32 = 0x3405_1573; // csrrw a0, mscratch, a0
const FADD: u32 = 0x02a5_7553; // fadd.d fa0, fa0, fa0
const JAL: u32 = 0x0080_00ef; // jal ra, 8
const ECALL: u32 = 0x0000_0073;
const PROBE: u32 = 0x0010_2013; // slti x0, x0, 1

/// What a core tells of an instruction; a fault changes some of it.
struct Story {
    hart: Hart,
    machine: Machine,
    inst: Inst,
    pc: u64,
    next: u64,
    base: u64,
    privilege: Privilege,
    access: Accessed,
}

/// A core that does one instruction, tells of it as `fault` changes it, and what the checker says.
fn retire(bits: u32, fault: impl FnOnce(&mut Story)) -> Vec<String> {
    let (mut hart, mut machine, mut checker) = guest(bits);
    let inst = decode(bits);
    let (pc, base, privilege) = (
        hart.pc,
        hart.regs[usize::from(inst.rs1)],
        hart.csr.privilege,
    );
    let mut exec = Exec::<_, true>::new(&mut hart, &mut machine);
    let flow = dispatch(&mut exec, &inst);
    exec.finish();
    assert!(!matches!(flow, Flow::Trap(_)), "{flow:?}");
    hart.retired += 1;
    let mut story = Story {
        next: hart.pc,
        hart,
        machine,
        inst,
        pc,
        base,
        privilege,
        access: Accessed::Now,
    };
    fault(&mut story);
    checker.retired(&Retired {
        hart: &story.hart,
        machine: &story.machine,
        inst: &story.inst,
        pc: story.pc,
        next: story.next,
        base: story.base,
        privilege: story.privilege,
        access: story.access,
        cycle: 7,
    });
    assert_eq!(checker.checked(), 1);
    said(&mut checker)
}

fn said(checker: &mut Checker) -> Vec<String> {
    let found = checker.take_divergence();
    found.map_or(Vec::new(), |found| found.wrong)
}

fn guest(bits: u32) -> (Hart, Machine, Checker) {
    let mut machine = Machine::new(&MachineConfig::default()).unwrap();
    assert!(machine.ram.write(PhysAddr(RAM_BASE), Width::W, bits.into()));
    assert!(
        machine
            .ram
            .write(PhysAddr(DATA), Width::D, 0x1122_3344_5566_7788)
    );
    let mut hart = Hart::new(HartId(0), RAM_BASE, PhysAddr(0), Extensions::default());
    (hart.regs[10], hart.regs[11]) = (5, DATA);
    assert!(hart.set_csr_from_outside(&mut machine, MTVEC, HANDLER));
    let fp_on = 1 << 13;
    assert!(hart.set_csr_from_outside(&mut machine, loiter_isa::csr::number::MSTATUS, fp_on));
    let mut checker = Checker::default();
    checker.begin(std::slice::from_ref(&hart));
    (hart, machine, checker)
}

#[test]
fn a_core_that_does_all_right_is_not_blamed() {
    for bits in [ADDI, LD, SD, AMOADD, SC, CSRRW, FADD, JAL] {
        assert_eq!(retire(bits, |_| {}), Vec::<String>::new(), "{bits:#x}");
    }
}

#[test]
fn every_wrong_thing_is_found() {
    let find = |bits, what: &str, fault: fn(&mut Story)| {
        let found = retire(bits, fault);
        assert!(
            found.iter().any(|line| line.starts_with(what)),
            "{what}: {found:?}"
        );
    };
    find(ADDI, "a0: expected 0x6, found 0x7", |s| s.hart.regs[10] = 7);
    find(ADDI, "a5: expected 0x0, found 0x1", |s| s.hart.regs[15] = 1);
    find(ADDI, "next pc", |s| s.next += 4);
    find(ADDI, "pc", |s| s.pc += 4);
    find(ADDI, "first operand", |s| s.base += 1);
    find(ADDI, "privilege", |s| s.privilege = Privilege::User);
    find(ADDI, "instructions retired", |s| s.hart.retired = 0);
    find(
        ADDI,
        "instruction: expected 0x150513, found 0x350513",
        |s| s.inst = decode(0x0035_0513),
    );
    find(JAL, "ra", |s| s.hart.regs[1] += 2);
    find(LD, "loaded byte at", |s| s.hart.regs[10] ^= 1 << 63);
    find(LD, "accessed address", |s| {
        s.access = Accessed::Apart(PhysAddr(DATA + 8))
    });
    find(SD, "accessed address", |s| {
        s.access = Accessed::Apart(PhysAddr(DATA + 8))
    });
    find(SD, "memory at", |s| {
        assert!(s.machine.ram.write(PhysAddr(DATA), Width::D, 4));
    });
    find(AMOADD, "memory at", |s| s.hart.regs[12] ^= 8);
    find(SC, "memory at", |s| s.hart.regs[12] = 0);
    find(FADD, "fa0", |s| s.hart.regs[42] = 1);
    find(FADD, "fflags", |s| s.hart.csr.fflags |= 1);
    find(CSRRW, "mscratch", |s| {
        s.hart.set_csr_from_outside(&mut s.machine, MSCRATCH, 1);
    });
}

#[test]
fn what_raises_an_exception_must_not_retire() {
    let (mut hart, machine, mut checker) = guest(ECALL);
    hart.pc += 4;
    checker.retired(&Retired {
        hart: &hart,
        machine: &machine,
        inst: &decode(ECALL),
        pc: RAM_BASE,
        next: hart.pc,
        base: 0,
        privilege: hart.csr.privilege,
        access: Accessed::Now,
        cycle: 7,
    });
    let found = said(&mut checker);
    assert_eq!(
        found,
        ["expected environment call from machine mode (value 0x0), found that it retired"]
    );
}

#[test]
fn stores_must_leave_the_buffer_as_they_were_made() {
    let performed = |addr, width, value| Performed {
        hart: HartId(0),
        addr: PhysAddr(addr),
        width,
        value,
        cycle: 8,
    };
    let after_store = || {
        let (mut hart, machine, mut checker) = guest(SD);
        let inst = decode(SD);
        let base = hart.regs[11];
        hart.pc += 4;
        hart.retired += 1;
        checker.retired(&Retired {
            hart: &hart,
            machine: &machine,
            inst: &inst,
            pc: RAM_BASE,
            next: hart.pc,
            base,
            privilege: hart.csr.privilege,
            access: Accessed::Buffered,
            cycle: 7,
        });
        checker
    };
    let mut checker = after_store();
    checker.performed(&performed(DATA, Width::W, 5));
    checker.performed(&performed(DATA + 4, Width::W, 0));
    checker.suspend(9);
    assert_eq!(said(&mut checker), Vec::<String>::new());
    for (event, what) in [
        (performed(DATA, Width::D, 6), "expected byte 0x05"),
        (performed(DATA + 8, Width::D, 5), "expected byte 0x05"),
    ] {
        let mut checker = after_store();
        checker.performed(&event);
        let found = said(&mut checker);
        assert!(found[0].contains(what), "{found:?}");
    }
    let mut checker = after_store();
    checker.suspend(9);
    assert_eq!(
        said(&mut checker),
        ["8 bytes of retired stores are not in memory"]
    );
    let (_, _, mut checker) = guest(ADDI);
    checker.performed(&performed(DATA, Width::B, 1));
    assert!(said(&mut checker)[0].contains("expected none"));
}

/// What the checker says of a trap that a core enters at `bits`.
fn trap(bits: u32, trap: Trap, fault: impl FnOnce(&mut Hart)) -> Vec<String> {
    let (mut hart, machine, mut checker) = guest(bits);
    let privilege = hart.csr.privilege;
    hart.take_trap(trap, &machine).unwrap();
    fault(&mut hart);
    checker.trapped(&Trapped {
        hart: &hart,
        machine: &machine,
        trap,
        pc: RAM_BASE,
        privilege,
        cycle: 7,
    });
    said(&mut checker)
}

#[test]
fn traps_are_those_that_must_be_taken() {
    let ecall = Trap::Exception(Cause::EcallMachine, 0);
    assert_eq!(trap(ECALL, ecall, |_| {}), Vec::<String>::new());
    assert_eq!(
        trap(ECALL, ecall, |hart| hart.pc += 4),
        ["next pc: expected 0x80002000, found 0x80002004"]
    );
    let found = trap(ADDI, ecall, |_| {});
    assert!(
        found[0].starts_with("expected that it retires"),
        "{found:?}"
    );
    let found = trap(ECALL, Trap::Exception(Cause::EcallUser, 0), |_| {});
    assert!(
        found[0].starts_with("expected environment call from machine"),
        "{found:?}"
    );
    let found = trap(ADDI, Trap::Interrupt(Interrupt::MachineTimer), |_| {});
    assert_eq!(found, ["interrupt: expected None, found MachineTimer"]);
    // A probe before an instruction is none.
    let found = trap(PROBE, ecall, |_| {});
    assert!(
        found[0].starts_with("expected illegal instruction"),
        "{found:?}"
    );
}

/// A program that counts and stores for ever.
fn elf() -> Vec<u8> {
    let code: [u32; 4] = [
        0x0000_1317, // auipc t1, 1
        0x0012_8293, // addi t0, t0, 1
        0x0053_3023, // sd t0, 0(t1)
        0xff9f_f06f, // j -8
    ];
    let code = code.map(u32::to_le_bytes).concat();
    let mut elf = vec![0; 64 + 56];
    let mut put = |at: usize, bytes: &[u8]| elf[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    put(16, &[2, 0, 243, 0, 1]);
    put(24, &RAM_BASE.to_le_bytes());
    put(32, &64u64.to_le_bytes());
    put(52, &[64, 0, 56, 0, 1, 0, 64]);
    put(64, &[1, 0, 0, 0, 7]);
    put(72, &120u64.to_le_bytes());
    for at in [80, 88] {
        put(at, &RAM_BASE.to_le_bytes());
    }
    for at in [96, 104] {
        put(at, &(code.len() as u64).to_le_bytes());
    }
    elf.extend(code);
    elf
}

#[test]
fn a_divergence_ends_the_run_as_our_fault() {
    for (name, toml) in [
        ("t2", include_str!("../../../../machines/t2.toml")),
        ("smt8", include_str!("../../../../machines/smt8.toml")),
    ] {
        let request = Request {
            machine_name: name.into(),
            machine_toml: toml.into(),
            set: Vec::new(),
            program: "counts".into(),
            bootargs: String::new(),
            fast_forward: false,
            phases: None,
            waiting: None,
            lock_stats: false,
            max_cycles: Some(10_000_000),
            observe: Observation::default(),
        };
        let mut session = Session::program(&request, &elf()).unwrap();
        session.begin_check().unwrap();
        let so_far = |instructions| Limits {
            instructions: Some(instructions),
            ..Limits::default()
        };
        let host_time = Duration::from_secs(60);
        session.step(host_time, &so_far(1_000)).unwrap();
        assert_eq!(session.checked_instructions(), session.instructions());
        let checker = session.system.inspector.as_mut().unwrap();
        checker.checker.as_mut().unwrap().shadows[3].hart.regs[5] ^= 1 << 40;
        let error = session.step(host_time, &so_far(u64::MAX)).unwrap_err();
        let Error::Internal(text) = &error else {
            panic!("{error}");
        };
        assert!(text.contains("hart 3 at 0x8000000"), "{text}");
        assert!(text.contains("expected 0x1000000"), "{text}");
    }
}
