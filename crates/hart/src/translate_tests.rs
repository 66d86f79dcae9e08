//! Translation by hand-made tables: what the generated programs of the comparison with QEMU cannot say
//! (Svade, that nothing remembered shows) and the edges of each rule.

use loiter_isa::Width;
use loiter_isa::csr::number::{MENVCFG, MSTATUS, SATP};
use loiter_machine::MachineConfig;
use loiter_types::HartId;

use super::*;
use crate::code::CodeCache;
use crate::csr::Extensions;
use crate::tables::{ACCESSED, DIRTY, EXECUTE, PPN_SHIFT, READ, USER, VALID, WRITE};

const RAM: u64 = 0x8000_0000;
const ROOT: u64 = RAM + 0x1000;
const MIDDLE: u64 = RAM + 0x2000;
const LAST: u64 = RAM + 0x3000;
/// The page that most tests map, and where.
const DATA: u64 = RAM + 0x8000;
const VIRTUAL: u64 = 0x40_0000_0000 - 0x1000;
const RW: u64 = VALID | READ | WRITE;
const SUM: u64 = 1 << 18;
const MXR: u64 = 1 << 19;

struct Bench {
    hart: Hart,
    machine: Machine,
}

/// Of the machine; hart 0 translates unless a test takes others.
const HARTS: usize = 3;

impl Bench {
    /// A hart in supervisor mode with Sv39, all of memory open to it, and no entries but those that
    /// lead to the last table for [`VIRTUAL`].
    fn new(isa: &str) -> Self {
        let machine = Machine::new(&MachineConfig {
            ram_bytes: 1 << 20,
            harts: HARTS,
            ..MachineConfig::default()
        })
        .expect("a valid machine");
        let extensions = Extensions {
            sv48: true,
            ..Extensions::of(isa)
        };
        let mut hart = Hart::new(HartId::new(0), RAM, PhysAddr(0), extensions);
        hart.csr.write(0x3b0, u64::MAX, 0);
        hart.csr.write(0x3a0, 0x1f, 0);
        hart.csr.write(SATP, 8 << 60 | ROOT >> 12, 0);
        hart.csr.privilege = Privilege::Supervisor;
        hart.mode_changed();
        let mut bench = Self { hart, machine };
        bench.put(ROOT + 8 * 0xff, table(MIDDLE));
        bench.put(MIDDLE + 8 * 0x1ff, table(LAST));
        bench
    }

    /// Stores a word as a hart does.
    fn put(&mut self, addr: u64, value: u64) {
        self.machine
            .store(HartId::new(0), PhysAddr(addr), Width::D, value)
            .expect("RAM");
    }

    fn entry(&mut self) -> u64 {
        let at = PhysAddr(LAST + 8 * 0x1ff);
        self.machine.ram.read(at, Width::D).expect("RAM")
    }

    /// Maps [`VIRTUAL`] to [`DATA`].
    fn map(&mut self, bits: u64) -> &mut Self {
        self.put(LAST + 8 * 0x1ff, leaf(DATA, bits));
        self
    }

    fn go(&mut self, addr: u64, access: Access) -> Result<u64, Trap> {
        self.hart
            .translate(&mut self.machine, VirtAddr(addr), 1, access)
            .map(|addr| addr.0)
    }

    fn status(&mut self, bits: u64) {
        self.hart.csr.write(MSTATUS, bits, 0);
        self.hart.mode_changed();
    }
}

fn table(addr: u64) -> u64 {
    addr >> 12 << PPN_SHIFT | VALID
}

fn leaf(addr: u64, bits: u64) -> u64 {
    addr >> 12 << PPN_SHIFT | bits
}

const ALL_ACCESSES: [Access; 3] = [Access::Fetch, Access::Load, Access::Store];

#[test]
fn each_access_needs_its_bit() {
    let bits = [EXECUTE, READ, WRITE];
    for granted in [VALID | EXECUTE, VALID | READ, RW, RW | EXECUTE] {
        let mut bench = Bench::new("rv64i_svadu");
        bench.map(granted);
        for (access, bit) in ALL_ACCESSES.into_iter().zip(bits) {
            let expected = match granted & bit {
                0 => Err(access.page_fault(VIRTUAL + 5)),
                _ => Ok(DATA + 5),
            };
            assert_eq!(
                bench.go(VIRTUAL + 5, access),
                expected,
                "{granted:#x} {access:?}"
            );
        }
    }
}

#[test]
fn pages_of_the_user_open_to_supervisor_data_only_with_sum() {
    let mut bench = Bench::new("rv64i_svadu");
    bench.map(RW | EXECUTE | USER);
    assert!(bench.go(VIRTUAL, Access::Load).is_err());
    bench.status(SUM);
    assert_eq!(bench.go(VIRTUAL, Access::Load), Ok(DATA));
    assert_eq!(bench.go(VIRTUAL, Access::Store), Ok(DATA));
    assert!(bench.go(VIRTUAL, Access::Fetch).is_err());
    bench.status(0);
    assert!(
        bench.go(VIRTUAL, Access::Load).is_err(),
        "what was remembered was for another mode"
    );
}

/// Privileged manual, "Virtual Address Translation Process", steps 3, 5 and 6, and the definitions of SUM and MXR, for
/// every page and every mode.
#[test]
fn every_page_grants_what_the_manual_says() {
    let mut granted = 0;
    for flags in 0..1 << 4 {
        let [readable, writable, executable, of_user] =
            [0, 1, 2, 3].map(|bit| flags >> bit & 1 == 1);
        let bits = [
            (readable, READ),
            (writable, WRITE),
            (executable, EXECUTE),
            (of_user, USER),
        ];
        let bits: u64 = bits
            .iter()
            .map(|&(set, bit)| if set { bit } else { 0 })
            .sum();
        for mode in 0..1 << 3 {
            let [user_mode, sum, mxr] = [0, 1, 2].map(|bit| mode >> bit & 1 == 1);
            for access in ALL_ACCESSES {
                let mut bench = Bench::new("rv64i_svadu");
                bench.map(VALID | ACCESSED | DIRTY | bits);
                bench.status(if sum { SUM } else { 0 } | if mxr { MXR } else { 0 });
                if user_mode {
                    bench.hart.csr.privilege = Privilege::User;
                    bench.hart.mode_changed();
                }
                // A page that may be written and not read is reserved; one that may be neither read nor executed is a
                // pointer, of which there can be none in the last table.
                let reserved = writable && !readable;
                let pointer = !readable && !writable && !executable;
                let is_leaf = !reserved && !pointer;
                let reached = match (user_mode, of_user) {
                    (true, of_user) => of_user,
                    (false, false) => true,
                    (false, true) => sum && access != Access::Fetch,
                };
                let permitted = match access {
                    Access::Fetch => executable,
                    Access::Load => readable || mxr && executable,
                    Access::Store => writable,
                };
                let expected = match is_leaf && reached && permitted {
                    true => Ok(DATA),
                    false => Err(access.page_fault(VIRTUAL)),
                };
                granted += usize::from(expected.is_ok());
                let found = bench.go(VIRTUAL, access);
                assert_eq!(found, expected, "{bits:#x}, mode {mode:#b}, {access:?}");
            }
        }
    }
    assert!(granted > 50, "{granted}");
}

#[test]
fn what_may_be_executed_may_be_loaded_only_with_mxr() {
    let mut bench = Bench::new("rv64i_svadu");
    bench.map(VALID | EXECUTE);
    assert!(bench.go(VIRTUAL, Access::Load).is_err());
    bench.status(MXR);
    assert_eq!(bench.go(VIRTUAL, Access::Load), Ok(DATA));
    assert!(bench.go(VIRTUAL, Access::Store).is_err());
}

#[test]
fn accessed_and_dirty_bits_are_set_or_missed() {
    let mut updates = Bench::new("rv64i_svadu");
    updates.map(RW);
    assert!(updates.go(VIRTUAL, Access::Load).is_ok());
    assert_eq!(updates.entry() & (ACCESSED | DIRTY), ACCESSED);
    assert!(updates.go(VIRTUAL, Access::Store).is_ok());
    assert_eq!(updates.entry() & (ACCESSED | DIRTY), ACCESSED | DIRTY);

    let mut faults = Bench::new("rv64i_svade");
    faults.map(RW);
    assert_eq!(
        faults.go(VIRTUAL, Access::Load),
        Err(Access::Load.page_fault(VIRTUAL))
    );
    faults.map(RW | ACCESSED);
    assert!(faults.go(VIRTUAL, Access::Load).is_ok());
    assert_eq!(
        faults.go(VIRTUAL, Access::Store),
        Err(Access::Store.page_fault(VIRTUAL))
    );
    assert_eq!(faults.entry() & DIRTY, 0);
    faults.map(RW | ACCESSED | DIRTY);
    assert!(faults.go(VIRTUAL, Access::Store).is_ok());

    // Switched off by menvcfg.ADUE, the one behaves like the other.
    let mut off = Bench::new("rv64i_svadu");
    off.hart.csr.privilege = Privilege::Machine;
    off.hart.csr.write(MENVCFG, 0, 0);
    off.hart.csr.privilege = Privilege::Supervisor;
    off.map(RW);
    assert!(off.go(VIRTUAL, Access::Load).is_err());
}

#[test]
fn nothing_remembered_outlives_its_table() {
    let mut bench = Bench::new("rv64i_svadu");
    bench.map(RW | ACCESSED | DIRTY);
    assert_eq!(bench.go(VIRTUAL, Access::Store), Ok(DATA));
    // No fence follows any of these.
    bench.put(LAST + 8 * 0x1ff, leaf(DATA + 0x1000, RW | ACCESSED | DIRTY));
    assert_eq!(bench.go(VIRTUAL, Access::Store), Ok(DATA + 0x1000));
    bench.map(VALID | READ | ACCESSED);
    assert!(bench.go(VIRTUAL, Access::Store).is_err());
    assert_eq!(bench.go(VIRTUAL, Access::Load), Ok(DATA));
    bench.put(MIDDLE + 8 * 0x1ff, 0);
    assert!(
        bench.go(VIRTUAL, Access::Load).is_err(),
        "the table above was written"
    );
    let at = PhysAddr(MIDDLE + 8 * 0x1ff);
    assert!(bench.machine.ram.write(at, Width::D, table(LAST)));
    bench.machine.written_by_device(at, Width::D.bytes());
    assert_eq!(
        bench.go(VIRTUAL, Access::Load),
        Ok(DATA),
        "a device wrote it"
    );
}

#[test]
fn a_store_is_remembered_only_to_a_plain_page() {
    let mut bench = Bench::new("rv64i_svadu");
    bench.map(RW | ACCESSED | DIRTY);
    assert!(bench.go(VIRTUAL, Access::Store).is_ok());
    assert!(bench.hart.tlb.store(VIRTUAL, Width::D).is_some());
    bench.machine.pages.mark_code(PhysAddr(DATA));
    bench.hart.tlb.sync(&bench.machine.pages);
    assert!(
        bench.hart.tlb.store(VIRTUAL, Width::D).is_none(),
        "its instructions are decoded"
    );
    assert!(bench.go(VIRTUAL, Access::Store).is_ok());
    assert!(bench.hart.tlb.store(VIRTUAL, Width::D).is_none());
}

/// A page that is marked and plain once more before the hart translates again may be marked another time.
#[test]
fn a_store_is_forgotten_whose_page_was_marked_in_between() {
    let mut bench = Bench::new("rv64i_svadu");
    bench.map(RW | ACCESSED | DIRTY);
    assert!(bench.go(VIRTUAL, Access::Store).is_ok());
    bench.machine.pages.mark_code(PhysAddr(DATA));
    bench.machine.pages.unmark_code(PhysAddr(DATA));
    bench.hart.tlb.sync(&bench.machine.pages);
    bench.machine.pages.mark_code(PhysAddr(DATA));
    bench.hart.tlb.sync(&bench.machine.pages);
    assert!(bench.hart.tlb.store(VIRTUAL, Width::D).is_none());
}

/// Harts 0 and 1 translate by the same tables, hart 2 by tables of its own, which hart 0 writes.
#[test]
fn a_store_to_a_table_flushes_only_harts_that_translate_by_it() {
    let mut bench = Bench::new("rv64i_svadu");
    bench.map(RW | ACCESSED | DIRTY);
    let (root, middle, last) = (RAM + 0x4000, RAM + 0x5000, RAM + 0x6000);
    bench.put(root + 8 * 0xff, table(middle));
    bench.put(middle + 8 * 0x1ff, table(last));
    bench.put(last + 8 * 0x1ff, leaf(DATA, RW | ACCESSED | DIRTY));
    let mut harts = [0, 1, 2].map(|id| {
        let mut hart = Hart::new(
            HartId::new(id),
            RAM,
            PhysAddr(0),
            Extensions::of("rv64i_svadu"),
        );
        hart.csr = bench.hart.csr.clone();
        if id == 2 {
            hart.csr.write(SATP, 8 << 60 | root >> 12, 0);
        }
        hart.mode_changed();
        hart
    });
    let addr = VirtAddr(VIRTUAL);
    let mut flushes = [0; HARTS];
    let stores = 5;
    for written in [last, LAST] {
        for _ in 0..stores {
            for hart in &mut harts {
                assert!(
                    hart.translate(&mut bench.machine, addr, 1, Access::Load)
                        .is_ok()
                );
            }
            bench.put(written, 0);
            for (hart, flushes) in harts.iter_mut().zip(&mut flushes) {
                hart.tlb.sync(&bench.machine.pages);
                *flushes += u32::from(hart.tlb.load(VIRTUAL, Width::B).is_none());
            }
        }
    }
    assert_eq!(flushes, [stores, stores, stores]);
}

#[test]
fn remembered_accesses_stay_within_their_page() {
    let mut bench = Bench::new("rv64i_svadu");
    bench.map(RW | ACCESSED | DIRTY);
    assert!(bench.go(VIRTUAL, Access::Load).is_ok());
    let tlb = &bench.hart.tlb;
    assert_eq!(
        tlb.load(VIRTUAL + 0xff8, Width::D),
        Some(PhysAddr(DATA + 0xff8))
    );
    assert_eq!(
        tlb.load(VIRTUAL + 0xff7, Width::D),
        Some(PhysAddr(DATA + 0xff7))
    );
    assert_eq!(tlb.load(VIRTUAL + 0xff9, Width::D), None);
    assert_eq!(tlb.load(VIRTUAL + 0x1000, Width::B), None);
    assert_eq!(
        tlb.store(VIRTUAL, Width::B),
        None,
        "never translated for a store"
    );
}

#[test]
fn large_pages_are_aligned_and_addresses_canonical() {
    let mut bench = Bench::new("rv64i_svadu");
    bench.put(MIDDLE + 8 * 0x1ff, leaf(RAM, RW));
    let large = VIRTUAL & !0x1f_ffff;
    assert_eq!(bench.go(large + 0x1_2345, Access::Load), Ok(RAM + 0x1_2345));
    bench.put(MIDDLE + 8 * 0x1ff, leaf(RAM + 0x1000, RW));
    assert!(bench.go(large, Access::Load).is_err(), "misaligned");
    bench.put(MIDDLE + 8 * 0x1ff, table(LAST));
    bench.map(RW);
    assert!(bench.go(VIRTUAL, Access::Load).is_ok());
    for bit in 39..64 {
        let other = VIRTUAL | 1 << bit;
        assert_eq!(
            bench.go(other, Access::Load),
            Err(Access::Load.page_fault(other))
        );
    }
}

#[test]
fn four_levels_reach_through_one_more_table() {
    let mut bench = Bench::new("rv64i_svadu");
    let top = RAM + 0x4000;
    bench.map(RW);
    bench.put(top + 8 * 0x55, table(ROOT));
    bench.hart.csr.write(SATP, 9 << 60 | top >> 12, 0);
    bench.hart.mode_changed();
    let addr = 0x55 << 39 | VIRTUAL;
    let mut seen = Vec::new();
    let found = bench
        .hart
        .walk(&bench.machine, VirtAddr(addr), Access::Load, |at| {
            seen.push(at.0)
        });
    let found = found.map(|page| page.physical(VirtAddr(addr)));
    assert_eq!(found, Ok(PhysAddr(DATA)));
    let expected = [
        top + 8 * 0x55,
        ROOT + 8 * 0xff,
        MIDDLE + 8 * 0x1ff,
        LAST + 8 * 0x1ff,
    ];
    assert_eq!(seen, expected);
    assert!(
        bench.go(VIRTUAL, Access::Load).is_err(),
        "another part of the address space"
    );
}

#[test]
fn reserved_bits_and_pointers_with_flags_fault() {
    let mut bench = Bench::new("rv64i_svadu");
    for bit in 54..64 {
        bench.map(RW | 1 << bit);
        assert!(bench.go(VIRTUAL, Access::Load).is_err(), "bit {bit}");
    }
    bench.map(VALID | WRITE);
    assert!(bench.go(VIRTUAL, Access::Store).is_err());
    bench.map(RW);
    for bit in [USER, ACCESSED, DIRTY] {
        bench.put(MIDDLE + 8 * 0x1ff, table(LAST) | bit);
        assert!(bench.go(VIRTUAL, Access::Load).is_err(), "{bit:#x}");
    }
    bench.put(MIDDLE + 8 * 0x1ff, table(0x4000_0000));
    let outside = Err(Access::Load.access_fault(VIRTUAL));
    assert_eq!(bench.go(VIRTUAL, Access::Load), outside, "no memory there");
}

#[test]
fn protection_of_part_of_a_page_is_asked_every_time() {
    let mut bench = Bench::new("rv64i_svadu");
    bench.map(RW | ACCESSED | DIRTY);
    // Entry 0: four bytes of the page without any permission; entry 1: all.
    bench.hart.csr.privilege = Privilege::Machine;
    bench.hart.csr.write(0x3b1, u64::MAX, 0);
    bench.hart.csr.write(0x3b0, (DATA + 0x10) >> 2, 0);
    bench.hart.csr.write(0x3a0, 0x10 | 0x1f << 8, 0);
    bench.hart.csr.privilege = Privilege::Supervisor;
    for _ in 0..2 {
        assert_eq!(bench.go(VIRTUAL + 0x14, Access::Load), Ok(DATA + 0x14));
        let denied = Err(Access::Load.access_fault(VIRTUAL + 0x10));
        assert_eq!(bench.go(VIRTUAL + 0x10, Access::Load), denied);
    }
}

/// A walk whose table is protected against it writes nothing there.
#[test]
fn a_walk_does_not_write_where_it_may_not() {
    let mut bench = Bench::new("rv64i_svadu");
    bench.map(RW);
    // Entry 0: the last table, readable only; entry 1: all.
    bench.hart.csr.privilege = Privilege::Machine;
    bench.hart.csr.write(0x3b1, u64::MAX, 0);
    bench.hart.csr.write(0x3b0, LAST >> 2 | 0x1ff, 0);
    bench.hart.csr.write(0x3a0, 0x19 | 0x1f << 8, 0);
    bench.hart.csr.privilege = Privilege::Supervisor;
    for access in [Access::Load, Access::Store] {
        let denied = Err(access.access_fault(VIRTUAL));
        assert_eq!(bench.go(VIRTUAL, access), denied, "{access:?}");
    }
    assert_eq!(bench.entry(), leaf(DATA, RW));
    // What is there may be read, and suffices where nothing is to be marked.
    bench.map(RW | ACCESSED | DIRTY);
    assert_eq!(bench.go(VIRTUAL, Access::Store), Ok(DATA));
}

/// An instruction of four bytes at the end of a page, whose second page nothing answers, or nothing maps.
#[test]
fn an_instruction_half_of_which_has_no_device_faults_there() {
    const BEFORE: u64 = VIRTUAL - 0x1000;
    let bits = RW | EXECUTE | ACCESSED | DIRTY;
    for (second, expected) in [
        (leaf(0x4000_0000, bits), Access::Fetch.access_fault(VIRTUAL)),
        (0, Access::Fetch.page_fault(VIRTUAL)),
    ] {
        let mut bench = Bench::new("rv64i_svadu");
        bench.put(LAST + 8 * 0x1fe, leaf(DATA, bits));
        bench.put(LAST + 8 * 0x1ff, second);
        // Its first half: of an instruction that is not compressed.
        bench.put(DATA + 0xff8, 0x0013 << 48);
        let Bench { hart, machine } = &mut bench;
        let found = hart.fetch_at(BEFORE + 0xffe, machine, &mut CodeCache::new());
        assert_eq!(found.err(), Some(expected));
    }
}
