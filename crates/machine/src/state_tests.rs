//! A machine that was saved and restored, beside the one that was not.

use loiter_isa::Width;
use loiter_types::{HartId, PhysAddr};
use xxhash_rust::xxh3::xxh3_64;

use super::*;
use crate::testing::{Random, TestElf, config, machine, ram, symbol};
use crate::{MachineConfig, RAM_BASE};

const HARTS: u64 = 3;

/// Registers of each device, most of them with meaning.
const REGISTERS: [(u64, u64, Width); 12] = [
    (0x10_1000, 8, Width::W),
    (0x200_0000, HARTS, Width::W),
    (0x200_4000, HARTS, Width::D),
    (0x200_bff8, 1, Width::D),
    (0xc00_0000, 14, Width::W),
    (0xc00_1000, 3, Width::W),
    (0xc00_2000, 1, Width::W),
    (0xc00_2080, 1, Width::W),
    (0xc20_0000, 2, Width::W),
    (0xc20_1000, 2, Width::W),
    (0x1000_0000, 8, Width::B),
    (RAM_BASE, 0x80, Width::D),
];

/// What a guest, time or the user does.
#[derive(Debug)]
enum Step {
    Load(PhysAddr, Width),
    Store(HartId, PhysAddr, Width, u64),
    Time(u64),
    Type(Vec<u8>),
    Watch(HartId, PhysAddr),
    Unwatch(HartId),
    SupervisorTimer(HartId, u64),
}

impl Step {
    fn any(random: &mut Random, time: &mut u64) -> Self {
        let (base, count, width) = REGISTERS[random.below(REGISTERS.len() as u64) as usize];
        let addr = PhysAddr(base + random.below(count) * width.bytes());
        let hart = HartId(random.below(HARTS) as u16);
        // Small numbers, flags, times to come, and anything.
        let value = match random.below(4) {
            0 => random.below(16),
            1 => 1 << random.below(16),
            2 => *time + random.below(1000),
            _ => random.below(u64::MAX),
        };
        match random.below(12) {
            0..4 => Self::Load(addr, width),
            4..8 => Self::Store(hart, addr, width, value),
            8 => {
                *time += random.below(500);
                Self::Time(*time)
            }
            9 => Self::Type(vec![b'x'; random.below(100) as usize]),
            10 if random.below(2) == 0 => Self::Unwatch(hart),
            10 => Self::Watch(hart, ram(random.below(0x400))),
            _ => Self::SupervisorTimer(hart, value),
        }
    }

    /// Takes the step; answers all that can be seen then.
    fn take(&self, machine: &mut Machine) -> String {
        let mut seen = String::new();
        match self {
            Self::Load(addr, width) => seen = format!("{:?} ", machine.load(*addr, *width)),
            Self::Store(hart, addr, width, value) => {
                seen = format!("{:?} ", machine.store(*hart, *addr, *width, *value));
            }
            Self::Time(ticks) => machine.set_time(*ticks),
            Self::Type(bytes) => machine.push_input(0, bytes),
            Self::Watch(hart, addr) => machine.watches.arm(*hart, *addr),
            Self::Unwatch(hart) => machine.watches.disarm(*hart),
            Self::SupervisorTimer(hart, value) => machine.set_supervisor_timer(*hart, *value),
        }
        let harts = || (0..HARTS as u16).map(HartId);
        let lines: Vec<_> = harts().map(|hart| machine.interrupt_lines(hart)).collect();
        let watches: Vec<_> = harts().map(|hart| machine.watches.state(hart)).collect();
        seen + &format!(
            "{lines:x?} {watches:?} {} {:?} {:?} {:?} {:?}",
            machine.time(HartId(0)),
            machine.next_timer_ticks(),
            machine.ended(),
            machine.take_output(0),
            xxh3_64(&encode(machine)),
        )
    }
}

fn encode(machine: &Machine) -> Vec<u8> {
    rmp_serde::to_vec_named(&machine.save()).unwrap()
}

fn restored(original: &Machine) -> Machine {
    let mut machine = machine();
    machine
        .ram
        .as_mut_slice()
        .copy_from_slice(original.ram.as_slice());
    let state = rmp_serde::from_slice(&encode(original)).unwrap();
    let before = machine.interrupt_generation();
    machine.restore(&state).unwrap();
    let lines = (0..HARTS as u16).any(|hart| machine.interrupt_lines(HartId(hart)) != 0);
    assert_eq!(
        machine.interrupt_generation() != before,
        lines,
        "harts look again"
    );
    machine
}

#[test]
fn a_restored_machine_continues_as_the_original() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut interrupts = 0;
    for _ in 0..100 {
        let mut time = 0;
        let mut original = machine();
        original.load_elf(&htif_program()).unwrap();
        for _ in 0..random.below(600) {
            Step::any(&mut random, &mut time).take(&mut original);
        }
        let mut twin = restored(&original);
        assert_eq!(encode(&twin), encode(&original));
        for _ in 0..300 {
            let step = Step::any(&mut random, &mut time);
            assert_eq!(step.take(&mut twin), step.take(&mut original), "{step:x?}");
            interrupts += u32::from(original.interrupt_lines(HartId(0)) & 0xa00 != 0);
        }
        assert!(twin.ram.as_slice() == original.ram.as_slice());
    }
    assert!(interrupts > 100, "the interrupt controller was asleep");
}

/// A program with the words of HTIF.
fn htif_program() -> crate::ElfImage {
    let mut elf = TestElf::default();
    elf.symbols.push(symbol("tohost", RAM_BASE + 0x200, 8, 0));
    elf.symbols.push(symbol("fromhost", RAM_BASE + 0x240, 8, 0));
    elf.image()
}

#[test]
fn the_words_of_htif_and_the_end_come_back() {
    let mut original = machine();
    original.load_elf(&htif_program()).unwrap();
    let mut twin = restored(&original);
    let tohost = ram(0x200);
    assert_eq!(twin.ended(), None);
    twin.store(HartId(0), tohost, Width::D, 7).unwrap();
    let ended = twin.ended();
    assert_eq!(ended.map(|ended| ended.ending.code()), Some(3));
    assert_eq!(restored(&twin).ended(), ended);
    let finisher = PhysAddr(0x10_0000);
    original
        .store(HartId(0), finisher, Width::W, 0x5555)
        .unwrap();
    assert_eq!(restored(&original).ended(), original.ended());
}

#[test]
fn when_the_host_looks_does_not_count() {
    let (mut one, mut two) = (machine(), machine());
    for machine in [&mut one, &mut two] {
        machine
            .store(HartId(0), PhysAddr(0x1000_0000), Width::B, b'x'.into())
            .unwrap();
    }
    assert_eq!(one.take_output(0), b"x");
    one.store(HartId(0), PhysAddr(0x200_0000), Width::W, 1)
        .unwrap();
    assert!(one.interrupts_changed());
    two.store(HartId(0), PhysAddr(0x200_0000), Width::W, 1)
        .unwrap();
    assert_eq!(encode(&one), encode(&two));
}

#[test]
fn states_of_other_machines_are_refused() {
    let state = machine().save();
    for (harts, words) in [
        (2, "3 harts, where there are 2"),
        (4, "3 harts, where there are 4"),
    ] {
        let mut other = Machine::new(&MachineConfig { harts, ..config() }).unwrap();
        let problem = other.restore(&state).unwrap_err();
        assert!(problem.contains(words), "{problem}");
    }
    let refuse = |change: &dyn Fn(&mut MachineState)| {
        let mut state = state.clone();
        change(&mut state);
        machine().restore(&state).unwrap_err()
    };
    let four = Machine::new(&MachineConfig {
        harts: 4,
        ..config()
    })
    .unwrap()
    .save();
    let problem = refuse(&|state| state.clint = four.clint.clone());
    assert!(
        problem.contains("[4, 4, 4] harts, where there are 3"),
        "{problem}"
    );
    let problem = refuse(&|state| state.plic = four.plic.clone());
    assert!(
        problem.contains("[8, 8] contexts, where there are 6"),
        "{problem}"
    );
}
