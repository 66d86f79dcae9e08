use loiter_isa::csr::first::{PMPADDR0, PMPCFG0};
use loiter_isa::csr::number::{CYCLE, MHARTID, MTVEC, SATP, SCOUNTEREN, SSCRATCH, STIMECMP, TIME};
use loiter_machine::{Machine, MachineConfig, RAM_BASE};
use loiter_types::{HartId, PhysAddr, VirtAddr};

use crate::csr::{Extensions, Privilege};
use crate::hart::Hart;

fn guest() -> (Machine, Hart) {
    let machine = Machine::new(&MachineConfig::default()).unwrap();
    let extensions = Extensions::of("rv64i_sstc");
    let mut hart = Hart::new(HartId(0), RAM_BASE, PhysAddr(0), extensions);
    hart.set_privilege_from_outside(Privilege::User);
    (machine, hart)
}

#[test]
fn registers_are_seen_whatever_the_mode() {
    let (mut machine, mut hart) = guest();
    machine.set_time(77);
    hart.csr.clock.cycle = 99;
    let read = |hart: &Hart, number| hart.csr_from_outside(&machine, number);
    assert_eq!(read(&hart, CYCLE), Some(99));
    assert_eq!(read(&hart, TIME), Some(77));
    assert_eq!(read(&hart, MHARTID), Some(0));
    assert_eq!(read(&hart, STIMECMP), Some(u64::MAX));
    assert_eq!(read(&hart, 0x7c0), None, "no such register");
    let mut write = |number, value| hart.set_csr_from_outside(&mut machine, number, value);
    assert!(write(SSCRATCH, 5) && write(MTVEC, 0x100) && write(STIMECMP, 80));
    assert!(!write(MHARTID, 1), "read-only");
    assert!(!write(0x7c0, 1), "no such register");
    assert_eq!(hart.csr.privilege, Privilege::User);
    assert_eq!(hart.csr_from_outside(&machine, SSCRATCH), Some(5));
    assert_eq!(hart.csr_from_outside(&machine, SCOUNTEREN), Some(0));
    assert_eq!(machine.supervisor_timer(HartId(0)), 80);
}

#[test]
fn firmware_is_shown_what_the_kernel_has_mapped() {
    let (mut machine, mut hart) = guest();
    let high = 0xffff_ffff_8000_0123;
    let table = RAM_BASE + 0x1000;
    // A leaf of 1 GiB in the root table of Sv39.
    let entry = (RAM_BASE >> 12) << 10 | 0xf;
    let index = high >> 30 & 0x1ff;
    let at = PhysAddr(table + 8 * index);
    assert!(machine.ram.write(at, loiter_isa::Width::D, entry));
    // Protection lets supervisor mode read all of memory.
    assert!(hart.set_csr_from_outside(&mut machine, PMPADDR0, u64::MAX));
    assert!(hart.set_csr_from_outside(&mut machine, PMPCFG0, 0x1f));
    assert!(hart.set_csr_from_outside(&mut machine, SATP, 8 << 60 | table >> 12));
    assert_eq!(
        hart.look(&machine, VirtAddr(high)),
        Some(PhysAddr(RAM_BASE + 0x123))
    );
    assert_eq!(hart.look(&machine, VirtAddr(RAM_BASE)), None);
    hart.set_privilege_from_outside(Privilege::Machine);
    assert_eq!(
        hart.look(&machine, VirtAddr(high)),
        Some(PhysAddr(RAM_BASE + 0x123))
    );
    assert_eq!(
        hart.look(&machine, VirtAddr(RAM_BASE)),
        Some(PhysAddr(RAM_BASE))
    );
}
