//! Random programs have the outcomes that the axioms give them (`axioms.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use loiter_explore::{Limits, Litmus, Model, Subject};

use crate::axioms::{Inst, Kind, Thread, outcomes};

const LOCATIONS: usize = 4;
/// Holds the address of another.
const POINTER: usize = 3;
const FIRST_ADDRESS: u64 = 0x1000;
const APART: u64 = 0x100;

/// Registers: values, addresses of locations, results, and what is computed for a dependency.
const VALUES: [u8; 2] = [5, 6];
const ADDRESSES: u8 = 10;
const RESULTS: u8 = 14;
const ZERO: u8 = 28;
const SUM: u8 = 29;

/// Dice that fall the same each time (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, many: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % many
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// What a thread has at hand while it is made.
struct Writer<'a> {
    dice: &'a mut Dice,
    code: Vec<Inst>,
    /// Locations that it has the addresses of.
    places: &'a [usize],
    results: u8,
    /// The last result, which dependencies are on.
    last: Option<u8>,
    /// The last result that is an address.
    pointer: Option<u8>,
}

impl<'a> Writer<'a> {
    fn new(dice: &'a mut Dice, places: &'a [usize]) -> Self {
        Self {
            dice,
            code: Vec::new(),
            places,
            results: 0,
            last: None,
            pointer: None,
        }
    }

    /// A fence, or a dependency of what comes next: the registers to use for its address and data.
    fn order(&mut self, base: u8, src: u8, writes: bool) -> (u8, u8) {
        const SETS: [(u8, u8); 6] = [(3, 3), (3, 1), (2, 3), (2, 2), (1, 1), (1, 2)];
        let Some(last) = self.last else {
            if self.dice.below(3) == 0 {
                let (before, after) = self.dice.of(&SETS);
                self.code.push(Inst::Fence { before, after });
            }
            return (base, src);
        };
        match self.dice.below(6) {
            0 | 1 => {
                let (before, after) = self.dice.of(&SETS);
                self.code.push(Inst::Fence { before, after });
            }
            2 => self.code.push(Inst::Skip { rs: last }),
            3 => {
                self.code.push(Inst::Xor { rd: ZERO, rs: last });
                let on_data = writes && self.dice.below(2) == 0;
                let other = if on_data { src } else { base };
                self.code.push(Inst::Add {
                    rd: SUM,
                    a: ZERO,
                    b: other,
                });
                return if on_data { (base, SUM) } else { (SUM, src) };
            }
            _ => {}
        }
        (base, src)
    }

    fn access(&mut self) {
        let kind = match self.dice.below(12) {
            0..=3 => Kind::Load,
            4..=7 => Kind::Store,
            8 => Kind::Swap,
            9 => Kind::Add,
            _ => Kind::Lr,
        };
        let follows = self.pointer.filter(|_| self.dice.below(2) == 0);
        let location = self.dice.of(self.places);
        let is_pointer = follows.is_none() && location == POINTER;
        let kind = match kind {
            Kind::Add | Kind::Lr if is_pointer => Kind::Swap,
            _ => kind,
        };
        let base = follows.unwrap_or(ADDRESSES + location as u8);
        let src = if is_pointer {
            ADDRESSES + self.dice.below(POINTER) as u8
        } else {
            self.dice.of(&VALUES)
        };
        let (base, src) = self.order(base, src, kind != Kind::Load && kind != Kind::Lr);
        self.push(kind, base, src, is_pointer);
        if kind == Kind::Lr {
            let pair = self.last.expect("what `lr` read");
            let src = if self.dice.below(3) == 0 { pair } else { src };
            self.push(Kind::Sc, base, src, false);
            let rs = self.last.expect("what `sc` returns");
            if self.dice.below(3) != 0 {
                self.code.push(Inst::Leave { rs });
            }
        }
    }

    fn push(&mut self, kind: Kind, base: u8, src: u8, is_pointer: bool) {
        let is_atomic = !matches!(kind, Kind::Load | Kind::Store);
        let mut flag = || is_atomic && self.dice.below(3) == 0;
        let (aq, rl) = (flag(), flag());
        // The manual says that an `lr` should not release alone, nor an `sc` acquire alone, which GCC lets it.
        let rd = RESULTS + self.results;
        self.code.push(Inst::Access {
            kind,
            rd,
            base,
            src,
            aq,
            rl: rl && (kind != Kind::Lr || aq),
        });
        if kind != Kind::Store {
            self.results += 1;
            self.last = Some(rd);
            if is_pointer {
                self.pointer = Some(rd);
            }
        }
    }
}

fn registers(number: usize) -> BTreeMap<u8, u64> {
    let mut registers = BTreeMap::new();
    for n in 0..LOCATIONS {
        registers.insert(ADDRESSES + n as u8, FIRST_ADDRESS + APART * n as u64);
    }
    for (n, register) in VALUES.into_iter().enumerate() {
        registers.insert(register, (2 * number + n + 1) as u64);
    }
    registers
}

fn thread(dice: &mut Dice, number: usize, accesses: usize) -> Thread {
    let mut writer = Writer::new(dice, &[0, 1, 2, POINTER]);
    for _ in 0..accesses {
        writer.access();
    }
    Thread {
        registers: registers(number),
        code: writer.code,
    }
}

/// Threads of which the first prepares something and lets the others have it: it shows its address, or ends their waits.
fn hand_over(dice: &mut Dice) -> Vec<Thread> {
    const HIDDEN: u8 = ADDRESSES + 2;
    let shows = dice.below(2) == 0;
    let mut first = Writer::new(dice, &[1, 2]);
    for _ in 0..2 {
        first.access();
    }
    let kind = first.dice.of(&[Kind::Store, Kind::Swap]);
    let (base, src) = match shows {
        true => (ADDRESSES + POINTER as u8, HIDDEN),
        false => (ADDRESSES, first.dice.of(&VALUES)),
    };
    if first.dice.below(3) != 0 {
        first.code.push(Inst::Fence {
            before: 3,
            after: 1,
        });
    }
    first.push(kind, base, src, false);
    let mut all = vec![first.code];
    let others = 1 + dice.below(2);
    for n in 0..others {
        let places: &[usize] = if shows { &[1, POINTER] } else { &[1, 2] };
        let mut other = Writer::new(dice, places);
        if others > 1 && other.dice.below(3) == 0 {
            other.access();
        } else {
            let place = if shows { POINTER as u8 } else { 0 };
            other.push(Kind::Load, ADDRESSES + place, 0, shows);
            let last = other.last.expect("what it loads");
            if !shows {
                other.code.push(Inst::Again { rs: last });
            }
        }
        for _ in 0..if n == 0 && others == 1 { 2 } else { 1 } {
            other.access();
        }
        all.push(other.code);
    }
    let threads = all.into_iter().enumerate().map(|(number, code)| Thread {
        registers: registers(number),
        code,
    });
    threads.collect()
}

/// The text of a program, in the format of herd.
fn text(threads: &[Thread], observed: &[(usize, u8)]) -> String {
    let mut initial = String::new();
    for n in 0..LOCATIONS {
        let value = if n == POINTER { "l0" } else { "0" };
        write!(initial, "l{n}={value}; ").expect("a string");
    }
    let mut columns = Vec::new();
    for (number, thread) in threads.iter().enumerate() {
        for (register, value) in &thread.registers {
            let value = match value.checked_sub(FIRST_ADDRESS) {
                Some(offset) => format!("l{}", offset / APART),
                None => value.to_string(),
            };
            write!(initial, "{number}:x{register}={value}; ").expect("a string");
        }
        let mut lines = Vec::new();
        for (n, inst) in thread.code.iter().enumerate() {
            if let Some(Inst::Again { .. }) = thread.code.get(n + 1) {
                lines.push(format!("A{}:", n + 1));
            }
            lines.extend(instruction(n, inst));
        }
        lines.push("END:".to_owned());
        columns.push(lines);
    }
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    let mut code = String::new();
    for n in 0..rows {
        let cells = columns.iter().map(|c| c.get(n).map_or("", String::as_str));
        writeln!(code, "{} ;", cells.collect::<Vec<_>>().join(" | ")).expect("a string");
    }
    let registers = observed
        .iter()
        .map(|(thread, r)| format!("{thread}:x{r}=0"));
    let memory = (0..LOCATIONS).map(|n| format!("l{n}=0"));
    let asked: Vec<String> = registers.chain(memory).collect();
    let names: Vec<String> = (0..threads.len()).map(|n| format!("P{n}")).collect();
    format!(
        "RISCV random\n{{ {initial}}}\n{} ;\n{code}exists ({})\n",
        names.join(" | "),
        asked.join(" /\\ ")
    )
}

fn instruction(n: usize, inst: &Inst) -> Vec<String> {
    match *inst {
        Inst::Access {
            kind,
            rd,
            base,
            src,
            aq,
            rl,
        } => {
            let order = match (aq, rl) {
                (true, true) => ".aqrl",
                (true, false) => ".aq",
                (false, true) => ".rl",
                (false, false) => "",
            };
            vec![match kind {
                Kind::Load => format!("lw x{rd},0(x{base})"),
                Kind::Store => format!("sw x{src},0(x{base})"),
                Kind::Swap => format!("amoswap.w{order} x{rd},x{src},(x{base})"),
                Kind::Add => format!("amoadd.w{order} x{rd},x{src},(x{base})"),
                Kind::Lr => format!("lr.w{order} x{rd},(x{base})"),
                Kind::Sc => format!("sc.w{order} x{rd},x{src},(x{base})"),
            }]
        }
        Inst::Xor { rd, rs } => vec![format!("xor x{rd},x{rs},x{rs}")],
        Inst::Add { rd, a, b } => vec![format!("add x{rd},x{a},x{b}")],
        Inst::Fence { before, after } => {
            let set = |bits| ["", "w", "r", "rw"][usize::from(bits)];
            vec![format!("fence {},{}", set(before), set(after))]
        }
        Inst::Skip { rs } => vec![format!("bne x{rs},x0,L{n}"), format!("L{n}:")],
        Inst::Leave { rs } => vec![format!("bne x{rs},x0,END")],
        Inst::Again { rs } => vec![format!("beq x{rs},x0,A{n}")],
    }
}

/// What the axioms and the explorer find, in the same order.
fn both(threads: &[Thread]) -> (String, BTreeSet<Vec<u64>>, BTreeSet<Vec<u64>>) {
    let mut observed = Vec::new();
    for (number, thread) in threads.iter().enumerate() {
        observed.extend(thread.code.iter().filter_map(|inst| match *inst {
            Inst::Access { kind, rd, .. } if kind != Kind::Store => Some((number, rd)),
            _ => None,
        }));
    }
    let address = |n| FIRST_ADDRESS + APART * n as u64;
    let initial = |n| if n == POINTER { address(0) } else { 0 };
    let memory: BTreeMap<u64, u64> = (0..LOCATIONS).map(|n| (address(n), initial(n))).collect();
    let text = text(threads, &observed);
    let axioms = outcomes(threads, &memory, &observed);
    let test = Litmus::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let found = test.explore(Model::Rvwmo, &Limits::default());
    let found = found.unwrap_or_else(|error| panic!("{text}: {error}"));
    let positions: BTreeMap<Subject, usize> =
        test.subjects().map(|(s, at)| (s.clone(), at)).collect();
    let registers = observed
        .iter()
        .map(|&(thread, r)| positions[&Subject::Register(thread, r)]);
    let locations = (0..LOCATIONS).map(|n| positions[&Subject::Location(format!("l{n}"))]);
    let order: Vec<usize> = registers.chain(locations).collect();
    let explored = found.outcomes.iter();
    let explored = explored.map(|outcome| order.iter().map(|&at| outcome[at]).collect());
    (text, axioms, explored.collect())
}

/// So many random programs of two threads, and of three.
const PROGRAMS: usize = 400;

fn programs() -> usize {
    let programs = std::env::var("LOITER_RANDOM_PROGRAMS");
    programs.map_or(PROGRAMS, |n| n.parse().expect("a number"))
}

/// The most outcomes that one of the programs has that `make` returns.
fn most_of(mut make: impl FnMut(&mut Dice) -> Vec<Thread>) -> usize {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut most = 0;
    for _ in 0..programs() {
        let (text, axioms, explored) = both(&make(&mut dice));
        let missing: Vec<_> = axioms.difference(&explored).take(3).collect();
        let spurious: Vec<_> = explored.difference(&axioms).take(3).collect();
        assert!(
            missing.is_empty() && spurious.is_empty(),
            "{text}\nmissing {missing:x?}\nspurious {spurious:x?}"
        );
        most = most.max(axioms.len());
    }
    most
}

#[test]
fn random_programs_have_the_outcomes_of_the_axioms() {
    let most = most_of(|dice| {
        let accesses = dice.of(&[&[3, 3][..], &[4, 3], &[2, 2, 2], &[3, 2, 2], &[3, 2, 1]]);
        let threads = accesses.iter().enumerate();
        threads
            .map(|(number, &many)| thread(dice, number, many))
            .collect()
    });
    assert!(most > 30, "{most}");
}

#[test]
fn random_hand_overs_have_the_outcomes_of_the_axioms() {
    let most = most_of(hand_over);
    assert!(most > 30, "{most}");
}

/// Asserts that a program has the outcomes that the axioms give it.
fn assert_same(code: Vec<Vec<Inst>>) {
    let threads = code.into_iter().enumerate().map(|(number, code)| Thread {
        code,
        ..thread(&mut Dice(1), number, 0)
    });
    let (text, axioms, explored) = both(&threads.collect::<Vec<_>>());
    assert!(axioms.len() > 1, "{text}");
    assert_eq!(axioms, explored, "{text}");
}

/// An access to a location; `result` counts those that a thread reads or that return something.
fn access(kind: Kind, result: u8, location: u8, src: u8, (aq, rl): (bool, bool)) -> Inst {
    Inst::Access {
        kind,
        rd: RESULTS + result,
        base: ADDRESSES + location,
        src,
        aq,
        rl,
    }
}

const RELAXED: (bool, bool) = (false, false);
const AQ: (bool, bool) = (true, false);
const RL: (bool, bool) = (false, true);

fn fence(before: u8, after: u8) -> Inst {
    Inst::Fence { before, after }
}

/// A write that no other hart looks at orders what its own hart does after it: it has to stand before the other's writes.
#[test]
fn a_write_that_nobody_reads_may_be_early() {
    assert_same(vec![
        vec![
            access(Kind::Store, 0, 0, VALUES[0], RELAXED),
            fence(3, 3),
            access(Kind::Load, 0, 1, 0, RELAXED),
            access(Kind::Store, 0, 2, VALUES[0], RELAXED),
            fence(1, 2),
            access(Kind::Load, 1, 3, 0, RELAXED),
        ],
        vec![
            access(Kind::Add, 0, 2, VALUES[0], RELAXED),
            fence(3, 3),
            access(Kind::Load, 1, 0, 0, RELAXED),
            fence(3, 3),
            access(Kind::Store, 0, 3, ADDRESSES + 1, RELAXED),
            fence(1, 1),
            access(Kind::Store, 0, 1, VALUES[0], RELAXED),
        ],
    ]);
}

/// A write that others read stands after one that they do not: both are early, or none.
#[test]
fn a_write_that_nobody_reads_comes_before_an_early_one() {
    assert_same(vec![
        vec![
            access(Kind::Store, 0, 1, VALUES[1], RELAXED),
            access(Kind::Add, 0, 0, VALUES[1], AQ),
            fence(2, 3),
            access(Kind::Swap, 1, 3, ADDRESSES, RELAXED),
        ],
        vec![
            access(Kind::Store, 0, 0, VALUES[1], RELAXED),
            access(Kind::Swap, 0, 3, ADDRESSES + 2, RELAXED),
            access(Kind::Add, 1, 1, VALUES[1], RL),
        ],
    ]);
}

/// An `lr` that is followed by an `sc` reads the later of two writes of the same value.
#[test]
fn a_value_that_is_written_again_is_another_for_a_pair() {
    assert_same(vec![
        vec![
            access(Kind::Lr, 0, 0, 0, RELAXED),
            access(Kind::Sc, 1, 0, VALUES[0], RL),
            fence(2, 2),
            access(Kind::Load, 2, 3, 0, RELAXED),
        ],
        vec![access(Kind::Store, 0, 0, VALUES[1], RELAXED)],
        vec![
            access(Kind::Swap, 0, 3, ADDRESSES + 2, RELAXED),
            fence(3, 3),
            access(Kind::Lr, 1, 0, 0, RELAXED),
            access(Kind::Sc, 2, 0, RESULTS + 1, RELAXED),
        ],
    ]);
}

/// Who waits may load what is old behind the wait: there it sees in which order writes became visible before the wait ended.
#[test]
fn loads_after_a_wait_see_the_order_of_writes_before_its_end() {
    assert_same(vec![
        vec![
            access(Kind::Store, 0, 1, VALUES[0], RELAXED),
            access(Kind::Store, 0, 2, VALUES[0], RELAXED),
            fence(3, 1),
            access(Kind::Store, 0, 0, VALUES[0], RELAXED),
        ],
        vec![
            access(Kind::Load, 0, 0, 0, RELAXED),
            Inst::Again { rs: RESULTS },
            access(Kind::Load, 1, 2, 0, RELAXED),
            Inst::Xor {
                rd: ZERO,
                rs: RESULTS + 1,
            },
            Inst::Add {
                rd: SUM,
                a: ZERO,
                b: ADDRESSES + 1,
            },
            Inst::Access {
                kind: Kind::Load,
                rd: RESULTS + 2,
                base: SUM,
                src: 0,
                aq: false,
                rl: false,
            },
        ],
    ]);
}

/// Who has a write to perform before a wait may perform it before others read there.
#[test]
fn a_write_before_a_wait_is_seen_before_the_wait_ends() {
    assert_same(vec![
        vec![
            access(Kind::Load, 0, 1, 0, RELAXED),
            fence(3, 1),
            access(Kind::Store, 0, 0, VALUES[0], RELAXED),
        ],
        vec![
            access(Kind::Store, 0, 1, VALUES[0], RELAXED),
            access(Kind::Load, 0, 0, 0, RELAXED),
            Inst::Again { rs: RESULTS },
        ],
    ]);
}
