//! The program that runs a litmus test many times.

use loiter_isa::Op;

use super::test::{Fence, Layout, Litmus, Order, Part, Step, VARIABLE_BYTES, Variable, pattern};
use crate::generator::asm::GP;
use crate::handmade::{A0, Guest, S0, S1, T0, T1, T2};

/// Offsets from `gp`: results of each hart, and the page in which the variables lie.
const RESULTS: i32 = 1024;
const PAGE: i32 = 4096;
/// Offset from `gp` of lines that only one hart stores to, each hart to its own so many bytes.
const OWN: i32 = 1 << 20;
const OWN_BYTES_LOG2: i32 = 20;
/// Most stores to those ahead of a test.
const MOST_AHEAD: i32 = 3;

const ROUND: u8 = 18;
const STATE: u8 = 19;
const DRAWN: u8 = 20;
/// Registers that hold the patterns of stores 1 to 4.
const PATTERNS: u8 = 21;
const PATTERNS_COUNT: u64 = 4;

/// How a hart's start is spread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    /// log2 of the most CSR reads: each empties the pipeline of its context.
    pub(super) coarse_bits: i32,
    /// log2 of the most `nop`s that follow.
    pub(super) fine_bits: i32,
    /// Whether the address of a variable is sometimes known late, so that later accesses can go first.
    pub(super) late: bool,
}

/// Which address is known late.
const LATE: [&[(u8, Op)]; 4] = [
    &[],
    &[(S0, Op::Mul)],
    &[(S1, Op::Mul)],
    &[(S0, Op::Div), (S1, Op::Mul)],
];

/// A program in which `harts` run `test` so many times, and the first of them reports the outcomes.
pub(super) fn program(
    test: &Litmus,
    layout: Layout,
    harts: &[usize],
    rounds: i64,
    delay: Delay,
) -> Vec<u8> {
    let mut guest = Guest::new(harts);
    for (n, &steps) in test.harts.iter().enumerate() {
        guest.role(n);
        let role = Role {
            n,
            steps,
            test,
            layout,
            delay,
        };
        role.rounds(&mut guest, rounds);
    }
    guest.elf()
}

struct Role<'a> {
    n: usize,
    steps: &'a [Step],
    test: &'a Litmus,
    layout: Layout,
    delay: Delay,
}

impl Role<'_> {
    /// All rounds of one hart; the first hart clears the variables before, and reports after.
    fn rounds(&self, guest: &mut Guest, rounds: i64) {
        let harts = self.test.harts.len();
        guest.asm.li(STATE, 77 + self.n as i64);
        for n in 1..=PATTERNS_COUNT {
            let value = pattern(n) as i64;
            guest.asm.li(PATTERNS + n as u8 - 1, value);
        }
        guest.repeat(ROUND, rounds, |guest| {
            self.addresses(guest);
            if self.n == 0 {
                clear(guest);
            }
            guest.barrier(harts);
            self.disturb(guest);
            guest.barrier(harts);
            self.accesses(guest);
            for load in 0..loads(self.steps) {
                let place = result(self.n, load);
                guest.asm.s(Op::Sd, A0 + load as u8, place, GP);
            }
            guest.barrier(harts);
            if self.n == 0 {
                self.tell(guest);
            }
        });
        if self.n == 0 {
            guest.pass();
        } else {
            guest.sleep_for_ever();
        }
    }

    /// S0 and S1 point to x and y.
    fn addresses(&self, guest: &mut Guest) {
        let offset = |address: u64| PAGE + address as i32;
        guest.address(S0, offset(self.layout.x));
        guest.address(S1, offset(self.layout.y));
    }

    /// Brings x and y into the first level of the hart's core, as its own or to be read, or not.
    fn disturb(&self, guest: &mut Guest) {
        guest.random(DRAWN, STATE, 4);
        for (bit, variable) in [(1, S0), (2, S1)] {
            let (skip, skip_own) = (guest.asm.label(), guest.asm.label());
            guest.asm.i(Op::Andi, T0, DRAWN, bit);
            guest.asm.branch(Op::Beq, T0, 0, skip);
            guest.asm.i(Op::Ld, T0, variable, 0);
            guest.asm.bind(skip);
            guest.asm.i(Op::Andi, T0, DRAWN, bit << 2);
            guest.asm.branch(Op::Beq, T0, 0, skip_own);
            guest.asm.i(Op::Andi, T0, variable, -8);
            atomic(guest, Op::AmoorD, T1, T0, 0, NO_ORDER);
            guest.asm.bind(skip_own);
        }
    }

    /// Waits a little, and then does what the test says.
    fn accesses(&self, guest: &mut Guest) {
        let Delay {
            coarse_bits,
            fine_bits,
            late,
        } = self.delay;
        guest.random(DRAWN, STATE, coarse_bits + fine_bits + 4);
        guest.asm.i(Op::Andi, T1, DRAWN, 3);
        guest.asm.i(Op::Srli, DRAWN, DRAWN, 2);
        guest.asm.i(Op::Andi, T2, DRAWN, MOST_AHEAD);
        guest.asm.i(Op::Srli, DRAWN, DRAWN, 2);
        let end = guest.asm.label();
        let ways = if late { &LATE[..] } else { &LATE[..1] };
        for (way, &late) in ways.iter().enumerate() {
            let next = guest.asm.label();
            if way + 1 < ways.len() {
                guest.asm.li(T0, way as i64);
                guest.asm.branch(Op::Bne, T1, T0, next);
            }
            guest.asm.i(Op::Srli, T0, DRAWN, fine_bits);
            guest.csr_reads(T0, 1 << coarse_bits);
            guest.asm.i(Op::Andi, DRAWN, DRAWN, (1 << fine_bits) - 1);
            guest.nops(DRAWN, 1 << fine_bits);
            self.store_ahead(guest);
            guest.asm.li(T0, 1);
            for &(register, op) in late {
                for _ in 0..2 {
                    guest.asm.r(op, register, register, T0);
                }
            }
            self.run_steps(guest);
            guest.asm.j(end);
            guest.asm.bind(next);
        }
        guest.asm.bind(end);
    }

    /// As many stores as T2 says to lines that are mostly in no cache, behind which those of the test wait in the buffer.
    fn store_ahead(&self, guest: &mut Guest) {
        let end = guest.asm.label();
        guest.asm.i(Op::Slli, T0, STATE, 64 - OWN_BYTES_LOG2);
        guest.asm.i(Op::Srli, T0, T0, 64 - OWN_BYTES_LOG2);
        guest.asm.i(Op::Andi, T0, T0, -64);
        guest.address(T1, OWN + ((self.n as i32) << OWN_BYTES_LOG2));
        guest.asm.r(Op::Add, T1, T1, T0);
        for ahead in 0..MOST_AHEAD {
            guest.asm.branch(Op::Beq, T2, 0, end);
            guest.asm.s(Op::Sd, 0, 64 * ahead, T1);
            guest.asm.i(Op::Addi, T2, T2, -1);
        }
        guest.asm.bind(end);
    }

    fn run_steps(&self, guest: &mut Guest) {
        let mut result = A0;
        for &step in self.steps {
            self.run_step(guest, step, result);
            result += u8::from(step.loads());
        }
    }

    fn run_step(&self, guest: &mut Guest, step: Step, result: u8) {
        match step {
            Step::Load(place) => {
                let op = [Op::Lbu, Op::Lhu, Op::Lwu, Op::Ld][width(place)];
                guest.asm.i(op, result, base(place), place.from as i32);
            }
            Step::Store(place, n) => {
                let op = [Op::Sb, Op::Sh, Op::Sw, Op::Sd][width(place)];
                guest.asm.s(op, value(n), place.from as i32, base(place));
            }
            Step::Fence(fence) => guest.asm.word(encoded(fence)),
            Step::Swap(place, n, order) => {
                let op = if place.bytes == 8 {
                    Op::AmoswapD
                } else {
                    Op::AmoswapW
                };
                guest.asm.i(Op::Addi, T0, base(place), place.from as i32);
                atomic(guest, op, result, T0, value(n), order);
                zero_extend(guest, result, place);
            }
            Step::Exchange(place, n, order) => {
                assert_eq!((place.from, place.bytes), (0, VARIABLE_BYTES));
                let again = guest.asm.bound();
                let (lr, sc) = (Order { rl: false, ..order }, Order { aq: false, ..order });
                atomic(guest, Op::LrD, result, base(place), 0, lr);
                atomic(guest, Op::ScD, T0, base(place), value(n), sc);
                guest.asm.branch(Op::Bne, T0, 0, again);
            }
        }
    }

    /// Reports all results, and x and y.
    fn tell(&self, guest: &mut Guest) {
        for (n, &steps) in self.test.harts.iter().enumerate() {
            for load in 0..loads(steps) {
                guest.asm.i(Op::Ld, T0, GP, result(n, load));
                guest.report(T0);
            }
        }
        self.addresses(guest);
        for variable in [S0, S1] {
            guest.asm.i(Op::Ld, T0, variable, 0);
            guest.report(T0);
        }
    }
}

/// Clears the doublewords that x and y touch.
fn clear(guest: &mut Guest) {
    for variable in [S0, S1] {
        guest.asm.i(Op::Andi, T0, variable, -8);
        guest.asm.i(Op::Addi, T1, variable, 7);
        guest.asm.i(Op::Andi, T1, T1, -8);
        guest.asm.s(Op::Sd, 0, 0, T0);
        guest.asm.s(Op::Sd, 0, 0, T1);
    }
}

/// Where the `load`th result of the `n`th hart is kept.
fn result(n: usize, load: usize) -> i32 {
    RESULTS + 64 * n as i32 + 8 * load as i32
}

fn loads(steps: &[Step]) -> usize {
    steps.iter().filter(|step| step.loads()).count()
}

fn base(place: Part) -> u8 {
    match place.variable {
        Variable::X => S0,
        Variable::Y => S1,
    }
}

/// log2 of its bytes.
fn width(place: Part) -> usize {
    assert!(place.bytes.is_power_of_two());
    place.bytes.trailing_zeros() as usize
}

/// The register with the pattern of stores that have number `n`.
fn value(n: u64) -> u8 {
    assert!((1..=PATTERNS_COUNT).contains(&n));
    PATTERNS + n as u8 - 1
}

const NO_ORDER: Order = Order {
    aq: false,
    rl: false,
};

/// `op rd, rs2, (rs1)`
fn atomic(guest: &mut Guest, op: Op, rd: u8, rs1: u8, rs2: u8, order: Order) {
    let (pattern, _) = op.pattern().expect("in the table");
    let bits = u32::from(order.aq) << 26 | u32::from(order.rl) << 25;
    let registers = u32::from(rd) << 7 | u32::from(rs1) << 15 | u32::from(rs2) << 20;
    guest.asm.word(pattern | bits | registers);
}

fn zero_extend(guest: &mut Guest, register: u8, place: Part) {
    let unused = 64 - 8 * place.bytes as i32;
    guest.asm.i(Op::Slli, register, register, unused);
    guest.asm.i(Op::Srli, register, register, unused);
}

fn encoded(fence: Fence) -> u32 {
    let bits = |accesses: super::test::Accesses| {
        u32::from(accesses.reads) << 1 | u32::from(accesses.writes)
    };
    let mode = if fence.tso { 8 << 28 } else { 0 };
    mode | bits(fence.before) << 24 | bits(fence.after) << 20 | 0xf
}
