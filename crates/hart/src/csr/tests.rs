use super::status::{MPP, MPP_SHIFT, MPRV, TW};
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
    assert_eq!(csr.leave_supervisor_trap(), Ok(0x8000_0100));
    assert_eq!(csr.privilege, Privilege::User);
    assert_eq!(
        csr.leave_supervisor_trap(),
        Err(Allowed::Illegal),
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
    assert_eq!(csr.leave_machine_trap(), Ok(4));
    assert_eq!(csr.privilege, Privilege::Machine);
}

#[test]
fn waiting_without_bound_can_be_forbidden() {
    let mut csr = csrs();
    assert_eq!(
        (csr.wfi_allowed(), csr.unbounded_wait_allowed()),
        (Allowed::Yes, Allowed::Yes)
    );
    csr.privilege = Privilege::User;
    assert_eq!(
        (csr.wfi_allowed(), csr.unbounded_wait_allowed()),
        (Allowed::Illegal, Allowed::Yes)
    );
    csr.privilege = Privilege::Supervisor;
    assert_eq!(
        (csr.wfi_allowed(), csr.unbounded_wait_allowed()),
        (Allowed::Yes, Allowed::Yes)
    );
    csr.mstatus |= TW;
    assert_eq!(
        (csr.wfi_allowed(), csr.unbounded_wait_allowed()),
        (Allowed::Illegal, Allowed::Illegal)
    );
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

/// `mstatus.MPRV` after the return `leave` with this `mstatus`.
fn lends_rights_after(
    mstatus: u64,
    leave: impl FnOnce(&mut CsrFile) -> Result<u64, Allowed>,
) -> (bool, Privilege) {
    let mut csr = csrs();
    csr.write(MSTATUS, mstatus | MPRV, 0);
    assert_ne!(csr.read(MSTATUS, 0, false).unwrap() & MPRV, 0);
    leave(&mut csr).expect("a return that is legal");
    (csr.mstatus & MPRV != 0, csr.privilege)
}

/// Privileged manual 1.12, 3.1.6.1: MRET or SRET that changes the mode to one less privileged than M
/// also sets MPRV = 0.
#[test]
fn a_return_to_a_lower_mode_takes_back_lent_rights() {
    for (mode, lends) in [
        (Privilege::User, false),
        (Privilege::Supervisor, false),
        (Privilege::Machine, true),
    ] {
        let mstatus = (mode as u64) << MPP_SHIFT;
        let found = lends_rights_after(mstatus, CsrFile::leave_machine_trap);
        assert_eq!(found, (lends, mode));
    }
    for (spp, mode) in [(0, Privilege::User), (1 << 8, Privilege::Supervisor)] {
        let found = lends_rights_after(spp, CsrFile::leave_supervisor_trap);
        assert_eq!(found, (false, mode));
    }
}

/// With `mstatus.MPRV` set, accesses of machine mode have the rights of MPP, whatever has changed MPP last.
#[test]
fn lent_rights_are_those_of_the_mode_that_trapped_last() {
    let mut csr = csrs();
    csr.write(MSTATUS, MPRV, 0);
    assert_eq!(csr.data_mode().privilege, Privilege::User);
    // A trap of machine mode itself, and the return from it, which leaves the least mode in MPP.
    csr.enter_trap(Trap::Exception(Cause::Breakpoint, 0), 4);
    assert_eq!(csr.data_mode().privilege, Privilege::Machine);
    csr.leave_machine_trap().expect("it is in machine mode");
    assert_eq!(csr.privilege, Privilege::Machine);
    assert_eq!(csr.data_mode().privilege, Privilege::User);
    assert_eq!(csr.fetch_mode().privilege, Privilege::Machine);
}

/// Bit 0 of `mepc` and `sepc` is always zero.
#[test]
fn exceptions_do_not_return_to_odd_addresses() {
    let mut csr = csrs();
    for register in [MEPC, SEPC] {
        for (value, kept) in [(0x8000_0001, 0x8000_0000), (u64::MAX, !1), (6, 6)] {
            csr.write(register, value, 0);
            assert_eq!(csr.read(register, 0, false), Some(kept), "{register:#x}");
        }
    }
    csr.write(MEPC, 0x8000_0103, 0);
    csr.write(SEPC, 0x8000_0205, 0);
    csr.write(MSTATUS, MPP, 0);
    assert_eq!(csr.leave_machine_trap(), Ok(0x8000_0102));
    assert_eq!(csr.leave_supervisor_trap(), Ok(0x8000_0204));
}

/// An instruction counts when `mcountinhibit.IR` is clear as it begins: the one that stops the counter does,
/// those up to the one that starts it again do not.
#[test]
fn a_stopped_counter_of_instructions_has_counted_the_one_that_stopped_it() {
    let mut csr = csrs();
    csr.write(MCOUNTINHIBIT, 4, 41);
    for retired in [42, 50] {
        assert_eq!(csr.read(MINSTRET, retired, false), Some(42));
    }
    csr.write(MCOUNTINHIBIT, 0, 60);
    assert_eq!(csr.read(MINSTRET, 61, false), Some(42));
    assert_eq!(csr.read(MINSTRET, 70, false), Some(51));
    assert_eq!(csr.read(INSTRET, 70, false), Some(51));
}

#[test]
fn a_counter_that_is_written_while_stopped_stays_stopped() {
    let mut csr = csrs();
    csr.clock.cycle = 1000;
    csr.write(MCOUNTINHIBIT, 5, 100);
    csr.write(MCYCLE, 7, 101);
    csr.write(MINSTRET, 9, 102);
    csr.clock.cycle = 5000;
    assert_eq!(csr.read(MCYCLE, 500, false), Some(7));
    assert_eq!(csr.read(MINSTRET, 500, false), Some(9));
    // From here on both count, from what was written.
    csr.write(MCOUNTINHIBIT, 0, 500);
    csr.clock.cycle = 5003;
    assert_eq!(csr.read(MCYCLE, 503, false), Some(10));
    assert_eq!(csr.read(MINSTRET, 503, false), Some(11));
    // Each by itself: one that counts continues when the other is stopped.
    csr.write(MCOUNTINHIBIT, 4, 600);
    csr.clock.cycle = 5010;
    assert_eq!(csr.read(MCYCLE, 700, false), Some(17));
    assert_eq!(csr.read(MINSTRET, 700, false), Some(9 + 600 - 500));
}

/// Debug specification 1.0, chapter Sdtrig: where no trigger is implemented the extension is absent, and an
/// access to `tselect` that is illegal says so; registers of debug mode are nobody else's.
#[test]
fn there_are_no_triggers_and_no_registers_of_debug_mode() {
    for privilege in [Privilege::Machine, Privilege::Supervisor, Privilege::User] {
        let mut csr = csrs();
        csr.privilege = privilege;
        for number in (TSELECT..=0x7bf).chain([SCONTEXT]) {
            for writes in [false, true] {
                assert_eq!(csr.read(number, 0, writes), None, "{number:#x}");
            }
        }
    }
}

/// Privileged manual, "Supervisor Timer Register": without `menvcfg.STCE` the timer of supervisor mode neither pends nor
/// interrupts, and its bit in `mip` is software's; with it the bit is the timer's alone.
#[test]
fn the_supervisors_own_timer_pends_only_while_it_is_switched_on() {
    let timer = Interrupt::SupervisorTimer;
    let mut csr = CsrFile::new(HartId(0), Extensions::of("rv64i_sstc"));
    csr.write(MIE, timer.bit(), 0);
    csr.write(MIDELEG, timer.bit(), 0);
    csr.privilege = Privilege::User;
    let pends = |csr: &mut CsrFile| {
        let machine = std::mem::replace(&mut csr.privilege, Privilege::Machine);
        let bit = csr.read(MIP, 0, false).expect("a machine register") & timer.bit() != 0;
        csr.privilege = machine;
        assert_eq!(csr.takeable_interrupt(), bit.then_some(timer));
        bit
    };
    assert!(!pends(&mut csr));
    csr.set_lines(timer.bit());
    assert!(!pends(&mut csr), "switched off");
    csr.write(MIP, timer.bit(), 0);
    assert!(pends(&mut csr), "set by software");
    csr.set_lines(0);
    assert!(pends(&mut csr));
    csr.write(MENVCFG, STCE, 0);
    assert!(!pends(&mut csr), "what software had set is gone");
    csr.write(MIP, timer.bit(), 0);
    assert!(!pends(&mut csr), "software cannot set it");
    csr.set_lines(timer.bit());
    assert!(pends(&mut csr));
    csr.write(MENVCFG, 0, 0);
    assert!(!pends(&mut csr));
}

/// Privileged manual, "Machine Counter-Enable Register" and "Supervisor Counter-Enable Register", for each counter.
#[test]
fn a_mode_reads_the_counters_that_those_above_it_allow() {
    for (bit, number) in [(0, CYCLE), (2, INSTRET), (3, CYCLE + 3)] {
        for allowed in 0..1 << 2 {
            let [by_machine, by_supervisor] = [0, 1].map(|place| allowed >> place & 1 == 1);
            let mut csr = csrs();
            csr.write(MCOUNTEREN, u64::from(by_machine) << bit, 0);
            csr.write(SCOUNTEREN, u64::from(by_supervisor) << bit, 0);
            for (privilege, expected) in [
                (Privilege::Machine, true),
                (Privilege::Supervisor, by_machine),
                (Privilege::User, by_machine && by_supervisor),
            ] {
                csr.privilege = privilege;
                let found = csr.read(number, 0, false).is_some();
                assert_eq!(found, expected, "{number:#x}, {allowed:#b}, {privilege:?}");
            }
        }
    }
}

/// A hart with guests, which is in the supervisor mode of one.
fn guest() -> CsrFile {
    let mut csr = CsrFile::new(HartId(0), Extensions::of("rv64imafdch_sstc"));
    csr.enter(Privilege::Supervisor, true);
    csr
}

#[test]
fn a_hypervisor_forbids_its_guest_to_wait_without_bound() {
    let allowed = |csr: &CsrFile| (csr.wfi_allowed(), csr.unbounded_wait_allowed());
    let mut csr = guest();
    assert_eq!(allowed(&csr), (Allowed::Yes, Allowed::Yes));
    csr.hypervisor.hstatus = 1 << 21;
    assert_eq!(allowed(&csr), (Allowed::Virtual, Allowed::Virtual));
    csr.mstatus |= TW;
    assert_eq!(
        allowed(&csr),
        (Allowed::Illegal, Allowed::Illegal),
        "machine mode comes first"
    );
    csr.mstatus &= !TW;
    csr.enter(Privilege::Supervisor, false);
    assert_eq!(
        allowed(&csr),
        (Allowed::Yes, Allowed::Yes),
        "it binds the guest alone"
    );
    csr = guest();
    csr.enter(Privilege::User, true);
    assert_eq!(allowed(&csr), (Allowed::Virtual, Allowed::Yes));
}

#[test]
fn a_hypervisor_hears_its_interrupts_while_its_guest_runs() {
    let mut csr = guest();
    let line = Interrupt::SupervisorSoftware;
    csr.mideleg = line.bit();
    csr.mie = line.bit();
    csr.set_lines(line.bit());
    assert_eq!(csr.takeable_interrupt(), Some(line), "its own are off");
    csr.enter(Privilege::Supervisor, false);
    assert_eq!(csr.takeable_interrupt(), None);
}

#[test]
fn a_guest_has_a_time_and_a_timer_of_its_own() {
    let mut csr = guest();
    csr.clock.time = 1000;
    csr.mcounteren = 2;
    assert_eq!(
        csr.read(TIME, 0, false),
        None,
        "its hypervisor has to let it"
    );
    assert!(csr.refused_to_guest(TIME, 0, false));
    csr.write(HCOUNTEREN, 2, 0);
    csr.write(HTIMEDELTA, 5, 0);
    assert_eq!(csr.read(TIME, 0, false), Some(1005));
    assert_eq!(csr.read(STIMECMP, 0, false), None);
    csr.write(MENVCFG, STCE, 0);
    assert!(csr.refused_to_guest(STIMECMP, 0, false), "a hypervisor may");
    csr.write(HENVCFG, STCE, 0);
    csr.write(STIMECMP, 77, 0);
    assert_eq!(
        (csr.read(STIMECMP, 0, false), csr.guest_timer()),
        (Some(77), (77, 5))
    );
    let line = Interrupt::GuestTimer.bit();
    csr.set_lines(line);
    csr.write(HIDELEG, line, 0);
    csr.mie = line;
    assert_eq!(
        csr.takeable_interrupt(),
        None,
        "the guest has its interrupts off"
    );
    csr.write(SSTATUS, 2, 0);
    assert_eq!(csr.takeable_interrupt(), Some(Interrupt::GuestTimer));
    assert_eq!(
        csr.read(SIP, 0, false),
        Some(1 << 5),
        "under the number of its own timer"
    );
    csr.write(HENVCFG, 0, 0);
    assert_eq!(csr.takeable_interrupt(), None);
}

/// How a kernel finds out how many there are (privileged manual, "satp"): it writes ones and reads them back, the lowest first.
#[test]
fn a_hart_has_as_many_numbers_of_address_spaces_as_its_bits_tell_apart() {
    let ones = 0xffff << 44;
    for (bits, expected) in [(0, 0), (1, 1), (9, 0x1ff), (16, 0xffff)] {
        let extensions = Extensions {
            asid_bits: bits,
            ..Extensions::of("rv64imah")
        };
        let mut csr = CsrFile::new(HartId(0), extensions);
        let tables = SV39 << 60 | 0x80123;
        for register in [SATP, VSATP] {
            csr.write(register, tables | ones, 0);
            assert_eq!(
                csr.read(register, 0, false),
                Some(tables | expected << 44),
                "{bits} bits of register {register:#x}"
            );
        }
    }
}

#[test]
fn a_snapshot_of_a_hart_in_a_guest_is_whole() {
    let mut csr = guest();
    csr.write(VSATP, 8 << 60 | 5, 0);
    csr.write(HGATP, 8 << 60 | 4, 0);
    let saved = rmp_serde::to_vec_named(&csr).expect("plain data");
    let mut other = CsrFile::new(HartId(0), Extensions::of("rv64imafdch_sstc"));
    other.restore(&rmp_serde::from_slice(&saved).expect("its own bytes"));
    assert_eq!(other, csr);
    let without = rmp_serde::to_vec_named(&csrs()).expect("plain data");
    assert!(
        without.len() + 100 < saved.len(),
        "a hart without guests has nothing to keep of them"
    );
}

/// Privileged manual, "hgatp" and "vsatp": an unsupported mode does not make a write be ignored, as it does for `satp`.
#[test]
fn only_a_guest_loses_a_whole_write_by_an_unknown_mode() {
    let (known, unknown) = (8 << 60, 3 << 60);
    let mut csr = guest();
    csr.write(SATP, known | 5, 0);
    csr.write(SATP, unknown | 6, 0);
    assert_eq!(csr.vsatp(), known | 5);
    csr.enter(Privilege::Supervisor, false);
    csr.write(VSATP, unknown | 6, 0);
    assert_eq!(csr.vsatp(), known | 6);
    csr.write(HGATP, known | 4, 0);
    csr.write(HGATP, unknown | 8, 0);
    assert_eq!(csr.hgatp(), known | 8);
}
