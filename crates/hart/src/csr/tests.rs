use super::status::{MPP, MPP_SHIFT, TW};
use super::*;
use crate::trap::Cause;
use crate::trap::Trap;

fn csrs() -> CsrFile {
    CsrFile::new(HartId(3), Extensions::default())
}

#[test]
fn lower_modes_may_not_read_machine_registers() {
    let mut csr = csrs();
    assert_eq!(csr.read(MHARTID, 0, false), Some(3));
    assert_eq!(csr.read(MHARTID, 0, true), None, "read-only");
    csr.privilege = Privilege::Supervisor;
    assert_eq!(csr.read(MSTATUS, 0, false), None);
    assert_eq!(csr.read(CYCLE, 0, false), None, "mcounteren is 0");
    csr.mcounteren = 1;
    assert_eq!(csr.read(CYCLE, 0, false), Some(0));
}

#[test]
fn a_delegated_exception_goes_to_supervisor_and_returns() {
    let mut csr = csrs();
    csr.write(MEDELEG, 1 << 8, 0);
    csr.write(STVEC, 0x8000_1000, 0);
    csr.write(MTVEC, 0x8000_2000, 0);
    csr.privilege = Privilege::User;
    let trap = Trap::Exception(Cause::EcallUser, 0);
    assert_eq!(csr.handler(trap).0, 0x8000_1000);
    csr.enter_trap(trap, 0x8000_0100);
    assert_eq!(csr.privilege, Privilege::Supervisor);
    assert_eq!(csr.read(SCAUSE, 0, false), Some(8));
    assert_eq!(csr.leave_supervisor_trap(), Some(0x8000_0100));
    assert_eq!(csr.privilege, Privilege::User);
    assert_eq!(
        csr.leave_supervisor_trap(),
        None,
        "sret is illegal in user mode"
    );
}

#[test]
fn machine_mode_exceptions_are_never_delegated() {
    let mut csr = csrs();
    csr.write(MEDELEG, u64::MAX, 0);
    csr.write(STVEC, 0x8000_1000, 0);
    csr.write(MTVEC, 0x8000_2000, 0);
    let trap = Trap::Exception(Cause::Breakpoint, 0);
    assert_eq!(csr.handler(trap).0, 0x8000_2000);
    csr.enter_trap(trap, 4);
    assert_eq!(csr.mstatus & MPP, MPP);
    assert_eq!(csr.leave_machine_trap(), Some(4));
    assert_eq!(csr.privilege, Privilege::Machine);
}

#[test]
fn waiting_without_bound_can_be_forbidden() {
    let mut csr = csrs();
    assert!(csr.wfi_allowed() && csr.unbounded_wait_allowed());
    csr.privilege = Privilege::User;
    assert!(!csr.wfi_allowed() && csr.unbounded_wait_allowed());
    csr.privilege = Privilege::Supervisor;
    assert!(csr.wfi_allowed() && csr.unbounded_wait_allowed());
    csr.mstatus |= TW;
    assert!(!csr.wfi_allowed() && !csr.unbounded_wait_allowed());
}

#[test]
fn vectored_interrupts_spread_and_exceptions_do_not() {
    let mut csr = csrs();
    csr.write(MTVEC, 0x8000_2001, 0);
    assert_eq!(
        csr.handler(Trap::Interrupt(Interrupt::MachineTimer)).0,
        0x8000_201c
    );
    assert_eq!(
        csr.handler(Trap::Exception(Cause::Breakpoint, 0)).0,
        0x8000_2000
    );
}

#[test]
fn writing_reserved_mpp_keeps_the_old_one() {
    let mut csr = csrs();
    csr.write(MSTATUS, 1 << MPP_SHIFT, 0);
    csr.write(MSTATUS, 2 << MPP_SHIFT, 0);
    assert_eq!(csr.mstatus & MPP, 1 << MPP_SHIFT);
}

#[test]
fn the_writer_of_minstret_reads_its_value_next() {
    let mut csr = csrs();
    csr.write(MINSTRET, 100, 41);
    assert_eq!(csr.read(MINSTRET, 42, false), Some(100));
}
