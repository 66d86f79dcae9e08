use loiter_isa::csr::first::{PMPADDR0, PMPCFG0};
use loiter_isa::csr::number::{MHARTID, MSTATUS};
use loiter_types::{HartId, PhysAddr};

use super::*;
use crate::csr::{Extensions, Privilege};
use crate::translate::Access;

const START: u64 = 0x8000_0000;

fn hart(id: u16) -> Hart {
    let extensions = Extensions::of("rv64i_zawrs_sstc_svadu");
    Hart::new(HartId(id), START, PhysAddr(0), extensions)
}

/// A generator of numbers (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// A hart in which everything that a program can write has been written.
fn used(id: u16, random: &mut Random) -> Hart {
    let mut hart = hart(id);
    for slot in 1..SINK {
        hart.regs[usize::from(slot)] = random.next();
    }
    hart.pc = random.next() & !1;
    hart.retired = random.next();
    hart.csr.clock.cycle = random.next();
    // Twice: `mstatus` decides whether `fcsr` is there.
    for number in (0..1 << 12).chain(0..1 << 12) {
        if hart.csr.read(number, hart.retired, true).is_some() {
            hart.csr.write(number, random.next(), hart.retired);
        }
    }
    hart.csr.set_lines(random.next());
    hart
}

/// All CSRs as machine mode reads them.
fn registers(hart: &Hart) -> Vec<Option<u64>> {
    let mut csr = hart.csr.clone();
    csr.privilege = Privilege::Machine;
    csr.write(MSTATUS, u64::MAX, 0);
    (0..1 << 12)
        .map(|number| csr.read(number, hart.retired, false))
        .collect()
}

fn encode(hart: &Hart) -> Vec<u8> {
    rmp_serde::to_vec_named(&hart.save()).unwrap()
}

#[test]
fn everything_that_a_program_can_write_comes_back() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let naps = [Nap::Wfi, Nap::WrsNto, Nap::WrsSto, Nap::Lock, Nap::Flags];
    for nap in naps.map(Some).into_iter().chain([None]) {
        let mut saved = used(3, &mut random);
        saved.blocked = nap.filter(|nap| *nap == Nap::Lock).map(|_| Blocked {
            pc: random.next(),
            since: random.next(),
            limit: random.next(),
        });
        saved.state = nap.map_or(HartState::Running, HartState::Napping);
        if nap.is_some() {
            saved.csr.privilege = Privilege::Supervisor;
        }
        let differ = registers(&saved)
            .iter()
            .zip(registers(&hart(3)))
            .filter(|(one, other)| **one != *other)
            .count();
        assert!(differ > 30, "only {differ} registers have been written");
        let bytes = encode(&saved);
        let mut back = used(3, &mut random);
        back.regs[usize::from(SINK)] = 1;
        // These are the engine's to set before each turn.
        back.csr.clock = saved.csr.clock;
        back.csr.set_lines(0);
        saved.csr.set_lines(0);
        back.restore(&rmp_serde::from_slice(&bytes).unwrap())
            .unwrap();
        assert_eq!(back.blocked, saved.blocked);
        assert_eq!(registers(&back), registers(&saved));
        assert_eq!(encode(&back), bytes);
        assert_eq!(back.regs[..64], saved.regs[..64]);
        assert_eq!(
            back.regs[64..],
            [0; 192],
            "what the sink has swallowed does not come back"
        );
        assert_eq!(
            (back.pc, back.retired, back.state),
            (saved.pc, saved.retired, saved.state)
        );
        assert_eq!(back.csr.privilege, saved.csr.privilege);
    }
}

#[test]
fn what_only_the_engine_knows_does_not_count() {
    let mut random = Random(7);
    let mut one = used(1, &mut random);
    let bytes = encode(&one);
    one.regs[usize::from(SINK)] = 99;
    one.csr.clock.cycle += 1;
    one.csr.clock.time += 1;
    one.csr.set_lines(0x888);
    assert_eq!(encode(&one), bytes);
    one.regs[63] ^= 1;
    assert_ne!(encode(&one), bytes);
}

#[test]
fn protected_ranges_are_protected_again() {
    const READABLE_UP_TO: u64 = 1 << 3 | 1;
    let mut one = hart(0);
    one.csr.write(PMPADDR0, START >> 2, 0);
    one.csr.write(PMPCFG0, READABLE_UP_TO, 0);
    let mut two = hart(0);
    let readable = |hart: &Hart, addr| {
        let verdict = hart.csr.protection(addr, 8, Privilege::User, Access::Load);
        verdict.allowed
    };
    assert!(!readable(&two, START - 8));
    two.restore(&rmp_serde::from_slice(&encode(&one)).unwrap())
        .unwrap();
    assert!(readable(&two, START - 8) && !readable(&two, START));
}

#[test]
fn a_state_goes_to_a_hart_of_another_number() {
    let mut random = Random(11);
    let saved = used(1, &mut random).save();
    let mut other = hart(5);
    other.restore(&saved).unwrap();
    assert_eq!(other.id, HartId(5));
    assert_eq!(other.csr.read(MHARTID, 0, false).unwrap_or(5), 5);
}

#[test]
fn impossible_registers_are_refused() {
    let good = hart(0).save();
    for regs in [vec![0; 63], vec![0; 65], vec![1; 64], Vec::new()] {
        let bad = SavedHart {
            regs,
            ..good.clone()
        };
        let problem = hart(2).restore(&bad).unwrap_err();
        assert!(problem.starts_with("hart 2: "), "{problem}");
    }
}
