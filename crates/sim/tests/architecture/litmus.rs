//! Litmus tests of memory ordering between harts, of one core and of several.
//!
//! The T1, the T2 and the SMT cores order memory totally but for stores: a store may be seen by others after later
//! loads of its hart, and by its own hart before that (TSO). What that forbids must never be seen,
//! with or without fences; what it allows must be seen, or these tests could not fail.

use std::collections::BTreeMap;

use loiter_isa::Op;

use crate::generator::asm::GP;
use crate::handmade::{A0, FULL_FENCE, Guest, S0, S1, T0, T1, T2, reports};
use crate::machines::{Machine, run_to_end};

/// Times that each test runs in each placement.
const ROUNDS: i64 = if cfg!(debug_assertions) { 60 } else { 600 };
/// log2 of the longest delay of a hart before it begins.
const DELAY_BITS: i32 = 6;

/// Offsets from `gp`: x, y on a line of its own and on that of x, results of each hart, and counts of
/// each outcome.
const X: i32 = 256;
const Y: [i32; 2] = [512, X + 8];
const RESULTS: i32 = 1024;
const COUNTS: i32 = 4096;
/// Values are less than 4.
const VALUE_BITS: i32 = 2;

/// `fence w,w`, `fence r,r`
const STORE_FENCE: u32 = 0x0110_000f;
const LOAD_FENCE: u32 = 0x0220_000f;

use Step::{Fence, Load, Store, Swap};

/// What a hart does; the variable is S0 (x) or S1 (y).
#[derive(Clone, Copy)]
enum Step {
    Store(u8, i64),
    Load(u8),
    Fence(u32),
    /// `amoswap` with acquire and release.
    Swap(u8, i64),
}

const XV: u8 = S0;
const YV: u8 = S1;

/// A test. An outcome is all loaded values, by hart, and then the last values of x and y.
struct Litmus {
    name: &'static str,
    harts: &'static [&'static [Step]],
    forbidden: fn(&[u64]) -> bool,
    /// An outcome that must be seen in some placement.
    required: Option<fn(&[u64]) -> bool>,
}

const TESTS: &[Litmus] = &[
    Litmus {
        name: "message passing",
        harts: &[&[Store(XV, 1), Store(YV, 1)], &[Load(YV), Load(XV)]],
        forbidden: |o| o[..2] == [1, 0],
        required: Some(|o| o[..2] == [0, 1]),
    },
    Litmus {
        name: "message passing with fences",
        harts: &[
            &[Store(XV, 1), Fence(STORE_FENCE), Store(YV, 1)],
            &[Load(YV), Fence(LOAD_FENCE), Load(XV)],
        ],
        forbidden: |o| o[..2] == [1, 0],
        required: Some(|o| o[..2] == [1, 1]),
    },
    Litmus {
        name: "store buffering",
        harts: &[&[Store(XV, 1), Load(YV)], &[Store(YV, 1), Load(XV)]],
        forbidden: |_| false,
        required: Some(|o| o[..2] == [0, 0]),
    },
    Litmus {
        name: "store buffering with fences",
        harts: &[
            &[Store(XV, 1), Fence(FULL_FENCE), Load(YV)],
            &[Store(YV, 1), Fence(FULL_FENCE), Load(XV)],
        ],
        forbidden: |o| o[..2] == [0, 0],
        required: None,
    },
    Litmus {
        name: "store buffering with one fence",
        harts: &[
            &[Store(XV, 1), Fence(FULL_FENCE), Load(YV)],
            &[Store(YV, 1), Load(XV)],
        ],
        forbidden: |_| false,
        required: Some(|o| o[..2] == [0, 0]),
    },
    Litmus {
        name: "store buffering with atomics",
        harts: &[&[Swap(XV, 1), Load(YV)], &[Swap(YV, 1), Load(XV)]],
        forbidden: |o| o[..2] == [0, 0],
        required: None,
    },
    Litmus {
        name: "store forwarding",
        harts: &[
            &[Store(XV, 1), Load(XV), Load(YV)],
            &[Store(YV, 1), Load(YV), Load(XV)],
        ],
        forbidden: |o| o[0] != 1 || o[2] != 1,
        required: Some(|o| o[..4] == [1, 0, 1, 0]),
    },
    Litmus {
        name: "load buffering",
        harts: &[&[Load(XV), Store(YV, 1)], &[Load(YV), Store(XV, 1)]],
        forbidden: |o| o[..2] == [1, 1],
        required: None,
    },
    Litmus {
        name: "load buffering with fences",
        harts: &[
            &[Load(XV), Fence(FULL_FENCE), Store(YV, 1)],
            &[Load(YV), Fence(FULL_FENCE), Store(XV, 1)],
        ],
        forbidden: |o| o[..2] == [1, 1],
        required: None,
    },
    Litmus {
        name: "coherence of two reads",
        harts: &[&[Store(XV, 1)], &[Load(XV), Load(XV)]],
        forbidden: |o| o[..2] == [1, 0],
        required: Some(|o| o[..2] == [0, 1]),
    },
    Litmus {
        name: "coherence of a write and a read",
        harts: &[&[Store(XV, 1), Load(XV)], &[Store(XV, 2)]],
        forbidden: |o| o[0] == 0 || o[0] == 2 && o[1] == 1,
        required: None,
    },
    Litmus {
        name: "coherence of two writes",
        harts: &[&[Store(XV, 1), Store(XV, 2)], &[Load(XV), Load(XV)]],
        forbidden: |o| o[2] != 2 || o[0] > o[1],
        required: None,
    },
    Litmus {
        name: "two writes each",
        harts: &[&[Store(XV, 1), Store(YV, 2)], &[Store(YV, 1), Store(XV, 2)]],
        forbidden: |o| o == [1, 1],
        required: None,
    },
    Litmus {
        name: "write to read causality",
        harts: &[
            &[Store(XV, 1)],
            &[Load(XV), Store(YV, 1)],
            &[Load(YV), Load(XV)],
        ],
        forbidden: |o| o[..3] == [1, 1, 0],
        required: None,
    },
    Litmus {
        name: "independent reads of independent writes",
        harts: &[
            &[Store(XV, 1)],
            &[Store(YV, 1)],
            &[Load(XV), Load(YV)],
            &[Load(YV), Load(XV)],
        ],
        forbidden: |o| o[..4] == [1, 0, 1, 0],
        required: Some(|o| o[..4] == [1, 0, 0, 1] || o[..4] == [0, 1, 1, 0]),
    },
];

/// Which harts run a test: of one core (of both pipes where there are two), of several, mixed.
fn placements(machine: Machine) -> [[usize; 4]; 3] {
    match machine {
        Machine::T1 => [[0, 1, 2, 3], [0, 4, 8, 12], [5, 4, 0, 1]],
        _ => [[0, 1, 4, 5], [0, 8, 16, 24], [9, 8, 0, 4]],
    }
}

/// Changes to a machine with which a test runs too. With two ports two loads read in the same cycle, so
/// that nobody comes between them, and eight instructions in a cycle make most delays equal.
fn variants(machine: Machine) -> &'static [&'static [&'static str]] {
    match machine {
        Machine::Smt8 => &[&[], &["units.data_ports=1", "core.rename_width=2"]],
        _ => &[&[]],
    }
}

impl Litmus {
    /// How often each outcome was seen.
    fn outcomes(
        &self,
        machine: Machine,
        placement: [usize; 4],
        y: i32,
        set: &[&str],
    ) -> BTreeMap<Vec<u64>, u64> {
        let harts = &placement[..self.harts.len()];
        let mut request = machine.request(4);
        request.set.extend(set.iter().map(|&set| set.to_owned()));
        let result = run_to_end(&request, &self.program(harts, y));
        let values = self.harts.iter().map(|steps| loads(steps)).sum::<usize>() + 2;
        let rows = reports(&result, harts[0]).into_iter().map(|row| {
            let value = |n| row >> (32 + VALUE_BITS * n) & 3;
            let outcome = (0..values as i32).map(value).collect();
            (outcome, row & 0xffff_ffff)
        });
        rows.collect()
    }

    fn program(&self, harts: &[usize], y: i32) -> Vec<u8> {
        let mut guest = Guest::new(harts);
        for (n, steps) in self.harts.iter().enumerate() {
            guest.role(n);
            self.role(&mut guest, n, steps, y);
        }
        guest.elf()
    }

    /// Rounds of one hart; the first one clears the variables and counts.
    fn role(&self, guest: &mut Guest, n: usize, steps: &[Step], y: i32) {
        const ROUND: u8 = 18;
        const STATE: u8 = 19;
        const DELAY: u8 = 20;
        let harts = self.harts.len();
        guest.asm.li(STATE, 77 + n as i64);
        guest.repeat(ROUND, ROUNDS, |guest| {
            if n == 0 {
                guest.asm.s(Op::Sd, 0, X, GP);
                guest.asm.s(Op::Sd, 0, y, GP);
            }
            guest.barrier(harts);
            warm(guest, DELAY, STATE, y);
            guest.random(DELAY, STATE, DELAY_BITS);
            guest.barrier(harts);
            guest.nops(DELAY, 1 << DELAY_BITS);
            run_steps(guest, steps, y);
            for load in 0..loads(steps) {
                let place = RESULTS + 64 * n as i32 + 8 * load as i32;
                guest.asm.s(Op::Sd, A0 + load as u8, place, GP);
            }
            guest.barrier(harts);
            if n == 0 {
                self.count(guest, y);
            }
        });
        if n == 0 {
            tell(guest);
            guest.pass();
        } else {
            guest.sleep_for_ever();
        }
    }

    /// Adds one to the outcome of this round.
    fn count(&self, guest: &mut Guest, y: i32) {
        guest.asm.li(T0, 0);
        let mut shift = 0;
        let results = self.harts.iter().enumerate().flat_map(|(n, steps)| {
            (0..loads(steps)).map(move |load| RESULTS + 64 * n as i32 + 8 * load as i32)
        });
        for place in results.chain([X, y]) {
            guest.asm.i(Op::Ld, T1, GP, place);
            guest.asm.i(Op::Slli, T1, T1, shift);
            guest.asm.r(Op::Or, T0, T0, T1);
            shift += VALUE_BITS;
        }
        guest.address(T1, COUNTS);
        guest.asm.r(Op::Sh3add, T1, T0, T1);
        guest.asm.i(Op::Ld, T2, T1, 0);
        guest.asm.i(Op::Addi, T2, T2, 1);
        guest.asm.s(Op::Sd, T2, 0, T1);
    }
}

/// Loads that `steps` contain; their values go to A0 and on.
fn loads(steps: &[Step]) -> usize {
    steps.iter().filter(|step| matches!(step, Load(_))).count()
}

/// Brings x and y into the first level of the hart's core, or not.
fn warm(guest: &mut Guest, bits: u8, state: u8, y: i32) {
    guest.random(bits, state, 2);
    for (bit, variable) in [(1, X), (2, y)] {
        let skip = guest.asm.label();
        guest.asm.i(Op::Andi, T0, bits, bit);
        guest.asm.branch(Op::Beq, T0, 0, skip);
        guest.asm.i(Op::Ld, T0, GP, variable);
        guest.asm.bind(skip);
    }
}

fn run_steps(guest: &mut Guest, steps: &[Step], y: i32) {
    guest.address(S0, X);
    guest.address(S1, y);
    for value in 1..3 {
        guest.asm.li(T0 + value as u8, value);
    }
    let mut result = A0;
    for &step in steps {
        match step {
            Store(variable, value) => guest.asm.s(Op::Sd, T0 + value as u8, 0, variable),
            Load(variable) => {
                guest.asm.i(Op::Ld, result, variable, 0);
                result += 1;
            }
            Fence(bits) => guest.asm.word(bits),
            Swap(variable, value) => {
                let (amoswap, _) = Op::AmoswapD.pattern().expect("in the table");
                let fields = u32::from(variable) << 15 | u32::from(T0 + value as u8) << 20;
                guest.asm.word(amoswap | fields | 3 << 25);
            }
        }
    }
}

/// Reports each outcome with how often it was seen.
fn tell(guest: &mut Guest) {
    const LAST: i64 = 1 << (6 * VALUE_BITS);
    guest.repeat(S0, LAST, |guest| {
        let skip = guest.asm.label();
        guest.address(T0, COUNTS);
        guest.asm.r(Op::Sh3add, T0, S0, T0);
        guest.asm.i(Op::Ld, T1, T0, 0);
        guest.asm.branch(Op::Beq, T1, 0, skip);
        guest.asm.i(Op::Slli, T2, S0, 32);
        guest.asm.r(Op::Add, T2, T2, T1);
        guest.report(T2);
        guest.asm.bind(skip);
    });
}

fn check(machine: Machine) {
    for test in TESTS {
        // The few rounds of a debug build need not show what is rare.
        let mut required = test.required.is_none() || cfg!(debug_assertions);
        let places = placements(machine).into_iter();
        let mut cases = Vec::new();
        for placement in places {
            for set in variants(machine) {
                cases.extend(Y.map(|y| (placement, y, *set)));
            }
        }
        for (placement, y, set) in cases {
            let outcomes = test.outcomes(machine, placement, y, set);
            let rounds: u64 = outcomes.values().sum();
            assert_eq!(rounds, ROUNDS as u64, "{}: rounds are missing", test.name);
            for (outcome, times) in &outcomes {
                assert!(
                    !(test.forbidden)(outcome),
                    "{} on {machine:?} with harts {placement:?}, y at {y}: the forbidden outcome {outcome:?} \
                     was seen {times} times\n{outcomes:?}",
                    test.name
                );
                required |= test.required.is_some_and(|required| required(outcome));
            }
        }
        assert!(
            required,
            "{} on {machine:?}: the outcome that tells it from stronger memory was never seen",
            test.name
        );
    }
}

#[test]
fn t1_orders_memory_totally_but_for_stores() {
    check(Machine::T1);
}

#[test]
fn smt8_orders_memory_totally_but_for_stores() {
    check(Machine::Smt8);
}

#[test]
fn t2_orders_memory_totally_but_for_stores() {
    check(Machine::T2);
}
