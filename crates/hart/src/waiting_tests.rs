//! That no wake-up is lost, whatever the order: every interleaving of the first instructions of a waker and of those
//! who wait, each way of waiting, on the reference engine, one instruction at a time.

use loiter_isa::Op;
use loiter_machine::{Machine, MachineConfig, RAM_BASE};
use loiter_types::{HartId, PhysAddr};

use crate::code::CodeCache;
use crate::csr::Extensions;
use crate::hart::{Hart, HartState};
use crate::reference::run;

/// Where the code of a hart begins, by its number; the waker is hart 0.
const CODE_BYTES: u64 = 0x1000;
/// What is waited for: a lock that is held at first, a word, a line of flags.
const LOCK: u64 = RAM_BASE + 0x8000;
const WORD: u64 = RAM_BASE + 0x8040;
const FLAGS: u64 = RAM_BASE + 0x8080;
const MSIP: u64 = 0x0200_0000;
const MIE: u16 = 0x304;
const MSIE: u64 = 1 << 3;

/// Registers that point to those, and to the software interrupts of harts 0 to 2; one that is 1, one that is 0 by
/// itself, and one to load into.
const LOCK_AT: u8 = 10;
const WORD_AT: u8 = 11;
const FLAGS_AT: u8 = 12;
const MSIP_AT: u8 = 13;
const ONE: u8 = 14;
const FEW: u8 = 15;
const SEEN: u8 = 5;

/// Instructions of which every order is tried, and turns of all harts after them in which all must end.
const EXPLORED: [u32; 2] = [9, 7];
const TURNS: usize = 200;

fn encode(op: Op, fields: u32) -> u32 {
    let (value, mask) = op.pattern().expect("in the table");
    assert_eq!(fields & mask, 0);
    value | fields
}

fn r(op: Op, rd: u8, rs1: u8, rs2: u8) -> u32 {
    encode(
        op,
        u32::from(rd) << 7 | u32::from(rs1) << 15 | u32::from(rs2) << 20,
    )
}

fn branch(op: Op, rs1: u8, rs2: u8, words: i32) -> u32 {
    let bits = (4 * words) as u32;
    let imm = (bits >> 12 & 1) << 31
        | (bits >> 5 & 0x3f) << 25
        | (bits >> 1 & 0xf) << 8
        | (bits >> 11 & 1) << 7;
    encode(op, imm | u32::from(rs1) << 15 | u32::from(rs2) << 20)
}

fn back(words: i32) -> u32 {
    branch(Op::Beq, 0, 0, -words)
}

fn store(op: Op, rs2: u8, rs1: u8, offset: u32) -> u32 {
    let imm = (offset >> 5) << 25 | (offset & 0x1f) << 7;
    encode(op, imm | u32::from(rs1) << 15 | u32::from(rs2) << 20)
}

const NOP: u32 = 0x0000_0013;
/// Where every program ends: a jump to itself.
const END: u32 = 0x0000_006f;

/// A way to wait, and what ends it.
struct Way {
    name: &'static str,
    wait: Vec<u32>,
    wake: Vec<u32>,
    /// Whether some order loses the wake-up, as it must.
    loses: bool,
}

fn ways() -> Vec<Way> {
    let wake_word = || vec![NOP, store(Op::Sw, ONE, WORD_AT, 0)];
    let nap = |op: Op| {
        vec![
            r(Op::LrW, SEEN, WORD_AT, 0),
            branch(Op::Bne, SEEN, 0, 3),
            r(op, 0, 0, 0),
            back(3),
        ]
    };
    let way = |name, wait, wake| Way {
        name,
        wait,
        wake,
        loses: false,
    };
    let acquire = |limit: u8| {
        vec![
            branch(Op::LockAcquire, LOCK_AT, limit, 0),
            NOP,
            r(Op::LockRelease, 0, LOCK_AT, 0),
        ]
    };
    let release = || vec![NOP, r(Op::LockRelease, 0, LOCK_AT, 0)];
    let wfi = vec![
        r(Op::Lw, SEEN, WORD_AT, 0),
        branch(Op::Bne, SEEN, 0, 4),
        r(Op::Wfi, 0, 0, 0),
        // Only its own: the register points to it.
        store(Op::Sw, 0, MSIP_AT, 0),
        back(4),
    ];
    let interrupt = vec![
        store(Op::Sw, ONE, WORD_AT, 0),
        store(Op::Sw, ONE, MSIP_AT, 4),
        store(Op::Sw, ONE, MSIP_AT, 8),
    ];
    vec![
        way("wrs.nto", nap(Op::WrsNto), wake_word()),
        way(
            "wrs.nto, woken by an atomic",
            nap(Op::WrsNto),
            vec![r(Op::AmoorW, 0, WORD_AT, ONE)],
        ),
        way("wfi", wfi, interrupt),
        way("the lock", acquire(0), release()),
        way("the lock, for a short time", acquire(FEW), release()),
        way(
            "the lock, given back by a store",
            acquire(0),
            vec![NOP, store(Op::Sw, 0, LOCK_AT, 0)],
        ),
        way(
            "flags",
            vec![branch(Op::LockWait, FLAGS_AT, 0, 0)],
            vec![NOP, store(Op::Sd, ONE, FLAGS_AT, 40)],
        ),
        way(
            "flags, for a short time",
            vec![branch(Op::LockWait, FLAGS_AT, FEW, 0)],
            vec![store(Op::Sb, ONE, FLAGS_AT, 63)],
        ),
        Way {
            name: "a test before the watch",
            wait: vec![
                r(Op::Lw, SEEN, WORD_AT, 0),
                branch(Op::Bne, SEEN, 0, 4),
                r(Op::LrW, SEEN, WORD_AT, 0),
                r(Op::WrsNto, 0, 0, 0),
                back(4),
            ],
            wake: wake_word(),
            loses: true,
        },
    ]
}

struct System {
    machine: Machine,
    harts: Vec<Hart>,
    ends: Vec<u64>,
    code: CodeCache,
    cycle: u64,
}

impl System {
    fn new(way: &Way, harts: usize) -> Self {
        let mut machine = Machine::new(&MachineConfig {
            ram_bytes: 1 << 20,
            // The waker writes to the software interrupts of two waiters, also where there is one.
            harts: 3,
            ..MachineConfig::default()
        })
        .expect("a valid machine");
        let mut put = |addr: u64, words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let place = machine.ram.slice_mut(PhysAddr(addr), bytes.len() as u64);
            place.expect("RAM").copy_from_slice(&bytes);
        };
        put(LOCK, &[1]);
        let mut ends = Vec::new();
        for n in 0..harts {
            let program = if n == 0 { &way.wake } else { &way.wait };
            let begin = RAM_BASE + CODE_BYTES * n as u64;
            put(begin, &[program.as_slice(), &[END]].concat());
            ends.push(begin + 4 * program.len() as u64);
        }
        let extensions = Extensions::of("rv64i_zawrs_xloiterlock");
        let hart = |n: usize, machine: &mut Machine| {
            let begin = RAM_BASE + CODE_BYTES * n as u64;
            let mut hart = Hart::new(HartId::new(n), begin, PhysAddr(0), extensions);
            for (register, value) in [
                (LOCK_AT, LOCK),
                (WORD_AT, WORD),
                (FLAGS_AT, FLAGS),
                (MSIP_AT, MSIP + 4 * n as u64),
                (ONE, 1),
                (FEW, 3),
            ] {
                hart.regs[usize::from(register)] = value;
            }
            assert!(hart.set_csr_from_outside(machine, MIE, MSIE));
            hart
        };
        let harts = (0..harts).map(|n| hart(n, &mut machine)).collect();
        Self {
            machine,
            harts,
            ends,
            code: CodeCache::new(),
            cycle: 0,
        }
    }

    fn has_ended(&self, n: usize) -> bool {
        self.harts[n].pc == self.ends[n]
    }

    /// The next instruction of hart `n`, unless it sleeps on.
    fn step(&mut self, n: usize) {
        self.cycle += 1;
        let hart = &mut self.harts[n];
        hart.csr.clock.cycle = self.cycle;
        hart.csr.set_lines(self.machine.interrupt_lines(hart.id));
        if let HartState::Napping(nap) = hart.state {
            let late = hart.deadline().is_some_and(|at| at <= self.cycle);
            if !late && !hart.nap_is_over(nap, &self.machine.watches) {
                return;
            }
            hart.state = HartState::Running;
        }
        run(hart, &mut self.machine, &mut self.code, 1);
    }

    /// Whether all come to their end.
    fn ends(&mut self) -> bool {
        for _ in 0..TURNS {
            let mut left = false;
            for n in 0..self.harts.len() {
                if !self.has_ended(n) {
                    self.step(n);
                    left = true;
                }
            }
            if !left {
                return true;
            }
        }
        false
    }
}

/// The number of orders in which somebody sleeps for ever, and that of all.
fn explore(way: &Way, harts: usize) -> (u32, u32) {
    let length = EXPLORED[harts - 2];
    let orders = (harts as u32).pow(length);
    let mut lost = 0;
    for order in 0..orders {
        let mut system = System::new(way, harts);
        let mut rest = order;
        for _ in 0..length {
            let n = (rest % harts as u32) as usize;
            rest /= harts as u32;
            if !system.has_ended(n) {
                system.step(n);
            }
        }
        lost += u32::from(!system.ends());
    }
    (lost, orders)
}

#[test]
fn no_order_of_one_waiter_and_its_waker_loses_a_wake_up() {
    for way in ways() {
        let (lost, orders) = explore(&way, 2);
        assert_eq!(lost > 0, way.loses, "{}: {lost} of {orders}", way.name);
    }
}

#[test]
fn no_order_of_two_waiters_and_their_waker_loses_a_wake_up() {
    for way in ways() {
        let (lost, orders) = explore(&way, 3);
        assert_eq!(lost > 0, way.loses, "{}: {lost} of {orders}", way.name);
    }
}
