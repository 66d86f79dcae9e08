//! Virtual CPUs: where their addresses lie, and whose their translations are.

use loiter_isa::Width;
use loiter_isa::csr::first::{PMPADDR0, PMPCFG0};
use loiter_isa::csr::number::SATP;
use loiter_machine::{Machine, MachineConfig, RAM_BASE};
use loiter_types::{AddressSpace, Cycle, HartId, PhysAddr, VirtAddr};

use crate::csr::{Extensions, Privilege};
use crate::hart::Hart;
use crate::translate::Access;

const RAM_BYTES: u64 = 1 << 20;
const TABLE: u64 = RAM_BASE + 0x1000;
const MARKED: u64 = RAM_BASE + 0x5000;
const PAGE: VirtAddr = VirtAddr(0x4000_0000);

/// A host of two guests of one hart each. Both have the same tables at the same addresses: one page at [`PAGE`], which no access has
/// marked yet.
fn guests() -> (Machine, [Hart; 2]) {
    let config = MachineConfig {
        ram_bytes: RAM_BYTES,
        ..MachineConfig::default()
    };
    let machines = [0, 1].map(|guest| {
        let mut machine = Machine::new(&config).unwrap();
        let tables = [
            (TABLE + 8 * (PAGE.0 >> 30), (TABLE + 0x1000) >> 12 << 10 | 1),
            (TABLE + 0x1000, (TABLE + 0x2000) >> 12 << 10 | 1),
            // Readable, writable.
            (TABLE + 0x2000, MARKED >> 12 << 10 | 7),
            (MARKED, 7 + guest),
        ];
        for (addr, value) in tables {
            assert!(machine.ram.write(PhysAddr(addr), Width::D, value));
        }
        machine
    });
    let mut machine = Machine::host(machines.into()).unwrap();
    let harts = [0, 1].map(|guest| {
        let extensions = Extensions::of("rv64i_svadu");
        let mut hart = Hart::new(HartId(0), RAM_BASE, PhysAddr(0), extensions);
        let partition = machine.platform(guest).partition();
        hart.join(HartId::new(guest), partition, Cycle(0));
        assert!(hart.set_csr_from_outside(&mut machine, PMPADDR0, u64::MAX));
        assert!(hart.set_csr_from_outside(&mut machine, PMPCFG0, 0x1f));
        assert!(hart.set_csr_from_outside(&mut machine, SATP, 8 << 60 | TABLE >> 12));
        hart.set_privilege_from_outside(Privilege::Supervisor);
        hart
    });
    (machine, harts)
}

#[test]
fn guests_with_the_same_tables_reach_their_own_pages_and_mark_their_own_entries() {
    let (mut machine, mut harts) = guests();
    for guest in [1, 0] {
        let hart = &mut harts[guest as usize];
        let found = hart.translate(&mut machine, PAGE, 8, Access::Store);
        let found = found.expect("a page that may be written");
        assert_eq!(found, PhysAddr(MARKED + guest * RAM_BYTES));
        assert_eq!(machine.load(found, Width::D), Ok(7 + guest));
        assert_eq!(hart.peek(&machine, PAGE), Some(found));
    }
    for guest in 0..2 {
        let entry = PhysAddr(TABLE + 0x2000 + guest * RAM_BYTES);
        let marks = machine.load(entry, Width::D).unwrap() >> 6 & 3;
        assert_eq!(marks, 3, "accessed and written");
    }
}

#[test]
fn translations_are_known_by_their_guest() {
    let (_, harts) = guests();
    let spaces = [0, 1].map(|guest: usize| harts[guest].address_space(Access::Load));
    assert_eq!(spaces[0].tables, spaces[1].tables);
    assert_ne!(spaces[0], spaces[1]);
    assert_eq!(spaces.map(AddressSpace::vmid), [Some(0), Some(1)]);
    // A fence of one concerns none of the other.
    assert_eq!(
        harts.each_ref().map(|hart| hart.fenced_guest(false)),
        [Some(0), Some(1)]
    );
}

#[test]
fn addresses_without_translation_are_the_guests_own_and_end_with_its_memory() {
    let (mut machine, mut harts) = guests();
    let hart = &mut harts[0];
    hart.set_privilege_from_outside(Privilege::Machine);
    assert_eq!(hart.address_space(Access::Load), AddressSpace::PHYSICAL);
    let mut find = |addr| hart.translate(&mut machine, VirtAddr(addr), 8, Access::Load);
    assert_eq!(find(MARKED), Ok(PhysAddr(MARKED)));
    // There the other one's begins.
    let beyond = find(RAM_BASE + RAM_BYTES).expect("no protection in machine mode");
    assert!(machine.load(beyond, Width::D).is_err());
}

#[test]
fn what_a_guest_calls_its_hart_and_its_time_it_keeps() {
    let (mut machine, mut harts) = guests();
    assert_eq!(harts[1].id, HartId(1));
    let mhartid = loiter_isa::csr::number::MHARTID;
    assert_eq!(harts[1].csr_from_outside(&machine, mhartid), Some(0));
    machine.set_supervisor_timer(HartId(1), 50);
    machine.set_time(60);
    let lines = [HartId(0), HartId(1)].map(|hart| machine.interrupt_lines(hart));
    assert_eq!(lines, [0, 1 << 5], "the timer of the second is its own");
    harts[1].join(HartId(1), harts[1].partition(), Cycle(500));
    assert_eq!(harts[1].csr.clock.cycle, 0);
}
