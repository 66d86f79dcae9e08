//! All outcomes of a small program by the axioms of the unprivileged manual's chapter "RVWMO" (version 20240411): every
//! global memory order is tried. It shares nothing with the explorer, and knows nothing of what makes states few.

use std::collections::{BTreeMap, BTreeSet};

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Load,
    Store,
    Swap,
    Add,
    Lr,
    Sc,
}

/// One instruction. Registers are numbers.
#[derive(Clone, Copy, Debug)]
pub enum Inst {
    /// Of a word at the address in `base`: writes `src`, and `rd` is what it read, or what `sc` returns.
    Access {
        kind: Kind,
        rd: u8,
        base: u8,
        src: u8,
        aq: bool,
        rl: bool,
    },
    /// rd = rs ^ rs
    Xor { rd: u8, rs: u8 },
    /// rd = a + b
    Add { rd: u8, a: u8, b: u8 },
    /// Sets of reads (2) and writes (1).
    Fence { before: u8, after: u8 },
    /// A branch on `rs` to the next instruction.
    Skip { rs: u8 },
    /// A branch to the end, unless `rs` is 0.
    Leave { rs: u8 },
    /// A branch back to the load before it, which loads `rs`, as long as that is 0. Loads before the last add nothing.
    Again { rs: u8 },
}

/// A thread: what its registers hold at first, and its code.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    pub registers: BTreeMap<u8, u64>,
    pub code: Vec<Inst>,
}

/// An access in one execution. Those of a thread are in program order.
#[derive(Clone, Debug)]
struct Op {
    thread: usize,
    at: usize,
    kind: Kind,
    base: u8,
    src: u8,
    aq: bool,
    rl: bool,
    /// What its address, and what it stores, depends on.
    address: u32,
    data: u32,
    /// What comes before it in global memory order, whatever is read.
    after: u32,
    /// Of an `sc`, its `lr`.
    pair: Option<usize>,
}

impl Op {
    fn reads(&self) -> bool {
        !matches!(self.kind, Kind::Store | Kind::Sc)
    }

    fn writes(&self) -> bool {
        !matches!(self.kind, Kind::Load | Kind::Lr)
    }
}

/// One choice of which `sc` succeed.
struct Candidate<'a> {
    threads: &'a [Thread],
    memory: &'a BTreeMap<u64, u64>,
    ops: Vec<Op>,
    /// How far each thread comes.
    ends: Vec<usize>,
    observed: &'a [(usize, u8)],
    outcomes: &'a mut BTreeSet<Vec<u64>>,
}

/// What has been placed in global memory order so far.
#[derive(Clone, Default)]
struct Placed {
    order: Vec<usize>,
    done: u32,
    address: BTreeMap<usize, u64>,
    stored: BTreeMap<usize, u64>,
    loaded: BTreeMap<usize, u64>,
    /// Of loads, the store that they read from; none, of what was there at first.
    from: BTreeMap<usize, Option<usize>>,
}

/// Registers `observed`, then what each address of `memory` holds, of each execution.
pub fn outcomes(
    threads: &[Thread],
    memory: &BTreeMap<u64, u64>,
    observed: &[(usize, u8)],
) -> BTreeSet<Vec<u64>> {
    let is_sc = |inst: &&Inst| matches!(inst, Inst::Access { kind: Kind::Sc, .. });
    let conditional = threads.iter().flat_map(|t| &t.code).filter(is_sc).count();
    let mut outcomes = BTreeSet::new();
    for choice in 0..1_u32 << conditional {
        let mut candidate = Candidate {
            threads,
            memory,
            ops: Vec::new(),
            ends: Vec::new(),
            observed,
            outcomes: &mut outcomes,
        };
        if candidate.unfold(choice) {
            candidate.place(&Placed::default());
        }
    }
    outcomes
}

impl Candidate<'_> {
    /// Makes the accesses of all threads. Returns false if no execution has this choice.
    fn unfold(&mut self, choice: u32) -> bool {
        let mut next_choice = 0;
        for (number, thread) in self.threads.iter().enumerate() {
            let first = self.ops.len();
            let (mut control, mut reserved) = (0, None);
            let mut failed: BTreeSet<u8> = BTreeSet::new();
            let mut left_at = thread.code.len();
            for (at, inst) in thread.code.iter().enumerate() {
                let is_choice = matches!(inst, Inst::Access { kind: Kind::Sc, .. });
                let succeeds = is_choice && choice >> next_choice & 1 != 0;
                next_choice += u32::from(is_choice);
                if left_at < at {
                    // Of what is not executed there is one choice.
                    if succeeds {
                        return false;
                    }
                    continue;
                }
                match *inst {
                    Inst::Access {
                        kind: Kind::Sc, rd, ..
                    } if !succeeds => {
                        failed.insert(rd);
                        reserved = None;
                    }
                    Inst::Access {
                        kind,
                        base,
                        src,
                        aq,
                        rl,
                        ..
                    } => {
                        let index = self.ops.len();
                        let mut op = Op {
                            thread: number,
                            at,
                            kind,
                            base,
                            src,
                            aq,
                            rl,
                            address: self.depends(number, at, base),
                            data: 0,
                            after: 0,
                            pair: None,
                        };
                        if op.writes() {
                            op.data = self.depends(number, at, src);
                        }
                        if kind == Kind::Sc {
                            op.pair = reserved.take();
                            if op.pair.is_none() {
                                return false;
                            }
                        }
                        if kind == Kind::Lr {
                            reserved = Some(index);
                        }
                        op.after = self.follows(&op, first, control);
                        self.ops.push(op);
                    }
                    Inst::Skip { rs } | Inst::Again { rs } => {
                        control |= self.depends(number, at, rs)
                    }
                    Inst::Leave { rs } => {
                        control |= self.depends(number, at, rs);
                        if failed.contains(&rs) {
                            left_at = at;
                        }
                    }
                    _ => {}
                }
            }
            self.ends.push(left_at);
        }
        true
    }

    /// The access that the instruction at `at` is; an `sc` that fails is none.
    fn access_at(&self, thread: usize, at: usize) -> Option<usize> {
        let mut ops = self.ops.iter();
        ops.position(|op| (op.thread, op.at) == (thread, at))
    }

    /// The accesses on which a register depends, before the instruction at `at`.
    fn depends(&self, thread: usize, at: usize, register: u8) -> u32 {
        for before in (0..at).rev() {
            match self.threads[thread].code[before] {
                Inst::Access { kind, rd, .. } if rd == register && kind != Kind::Store => {
                    return self.access_at(thread, before).map_or(0, |index| 1 << index);
                }
                Inst::Xor { rd, rs } if rd == register => return self.depends(thread, before, rs),
                Inst::Add { rd, a, b } if rd == register => {
                    return self.depends(thread, before, a) | self.depends(thread, before, b);
                }
                _ => {}
            }
        }
        0
    }

    /// The preserved program order that does not depend on what is read: rules 4 to 11 and 13, in that order.
    fn follows(&self, op: &Op, first: usize, control: u32) -> u32 {
        let mut after = op.address | op.data;
        if op.writes() {
            after |= control;
        }
        after |= op.pair.map_or(0, |lr| 1 << lr);
        let code = &self.threads[op.thread].code;
        for (index, before) in self.ops.iter().enumerate().skip(first) {
            let classes = |op: &Op| u8::from(op.reads()) << 1 | u8::from(op.writes());
            let fenced = code[before.at..op.at].iter().any(|inst| match *inst {
                Inst::Fence {
                    before: b,
                    after: a,
                } => b & classes(before) != 0 && a & classes(op) != 0,
                _ => false,
            });
            let annotated = (before.aq || before.rl) && (op.aq || op.rl);
            if fenced || before.aq || op.rl || annotated {
                after |= 1 << index;
            }
            if op.writes() {
                after |= before.address;
            }
        }
        after
    }

    /// The value of a register before the instruction at `at`, if all that it is computed from has been read.
    fn value(&self, placed: &Placed, thread: usize, at: usize, register: u8) -> Option<u64> {
        for before in (0..at).rev() {
            match self.threads[thread].code[before] {
                Inst::Access { kind, rd, .. } if rd == register && kind != Kind::Store => {
                    return match (kind, self.access_at(thread, before)) {
                        (Kind::Sc, found) => Some(u64::from(found.is_none())),
                        (_, Some(index)) => placed.loaded.get(&index).copied(),
                        (_, None) => unreachable!("only `sc` is no access"),
                    };
                }
                Inst::Xor { rd, .. } if rd == register => return Some(0),
                Inst::Add { rd, a, b } if rd == register => {
                    let a = self.value(placed, thread, before, a)?;
                    return Some(a + self.value(placed, thread, before, b)?);
                }
                _ => {}
            }
        }
        let at_first = self.threads[thread].registers.get(&register);
        Some(at_first.copied().unwrap_or(0))
    }

    /// Tries every access that can be the next in global memory order.
    fn place(&mut self, placed: &Placed) {
        if placed.order.len() == self.ops.len() {
            if self.is_consistent(placed) && self.waits_end(placed) {
                self.collect(placed);
            }
            return;
        }
        for index in 0..self.ops.len() {
            let op = &self.ops[index];
            if placed.done >> index & 1 == 0 && op.after & !placed.done == 0 {
                let mut next = placed.clone();
                if self.perform(&mut next, index).is_some() {
                    self.place(&next);
                }
            }
        }
    }

    /// Places an access; none, if it cannot stand there.
    fn perform(&self, placed: &mut Placed, index: usize) -> Option<()> {
        let op = &self.ops[index];
        let address = self.value(placed, op.thread, op.at, op.base)?;
        let mine = |other: &Op| other.thread == op.thread && other.at < op.at;
        if op.reads() {
            let last = placed.order.iter().rev().copied();
            let mut last = last.filter(|&n| self.ops[n].writes() && placed.address[&n] == address);
            let mut from = last.next();
            // An own store that stands later.
            for (n, own) in self.ops.iter().enumerate() {
                let is_later = mine(own) && own.writes() && placed.done >> n & 1 == 0;
                if is_later && self.value(placed, own.thread, own.at, own.base) == Some(address) {
                    from = Some(n);
                }
            }
            let value = match from {
                None => *self.memory.get(&address)?,
                Some(n) => match placed.stored.get(&n) {
                    Some(&value) => value,
                    None => {
                        // Rule 3: what an atomic writes is read only after it; rule 12: its address and data come first.
                        let own = &self.ops[n];
                        if own.kind != Kind::Store || (own.address | own.data) & !placed.done != 0 {
                            return None;
                        }
                        self.value(placed, own.thread, own.at, own.src)?
                    }
                },
            };
            placed.loaded.insert(index, value);
            placed.from.insert(index, from);
        }
        if op.writes() {
            let source = self.value(placed, op.thread, op.at, op.src)?;
            let value = match op.kind {
                Kind::Add => (placed.loaded[&index] + source) & 0xffff_ffff,
                _ => source,
            };
            placed.stored.insert(index, value);
        }
        placed.address.insert(index, address);
        placed.order.push(index);
        placed.done |= 1 << index;
        Some(())
    }

    /// The rules on what is read and on overlapping accesses, now that all addresses are known.
    fn is_consistent(&self, placed: &Placed) -> bool {
        let mut position = vec![0; self.ops.len()];
        for (n, &index) in placed.order.iter().enumerate() {
            position[index] = n;
        }
        let at = |n: usize| placed.address[&n];
        let precedes = |a: usize, b: usize| {
            self.ops[a].thread == self.ops[b].thread && self.ops[a].at < self.ops[b].at
        };
        let all = 0..self.ops.len();
        for b in all.clone() {
            let op = &self.ops[b];
            if op.reads() {
                // Load value axiom.
                let seen = all.clone().filter(|&n| {
                    let is_before = position[n] < position[b] || precedes(n, b);
                    n != b && self.ops[n].writes() && at(n) == at(b) && is_before
                });
                if seen.max_by_key(|&n| position[n]) != placed.from[&b] {
                    return false;
                }
            }
            for a in all.clone().filter(|&a| precedes(a, b) && at(a) == at(b)) {
                // Rule 1, and rule 2.
                let between = |n: usize| {
                    precedes(a, n) && precedes(n, b) && self.ops[n].writes() && at(n) == at(b)
                };
                let is_rule_2 = op.reads()
                    && self.ops[a].reads()
                    && !all.clone().any(between)
                    && placed.from[&a] != placed.from[&b];
                if (op.writes() || is_rule_2) && position[a] > position[b] {
                    return false;
                }
            }
            // Atomicity axiom.
            if let Some(lr) = op.pair {
                let from = placed.from[&lr];
                let is_between = |n: usize| {
                    self.ops[n].writes()
                        && self.ops[n].thread != op.thread
                        && at(n) == at(b)
                        && position[n] < position[b]
                        && from.is_none_or(|from| position[n] > position[from])
                };
                if at(lr) != at(b) || all.clone().any(is_between) {
                    return false;
                }
            }
        }
        true
    }

    fn waits_end(&self, placed: &Placed) -> bool {
        let mut threads = self.threads.iter().zip(&self.ends).enumerate();
        threads.all(|(number, (thread, &end))| {
            let mut code = thread.code[..end].iter().enumerate();
            code.all(|(at, inst)| match *inst {
                Inst::Again { rs } => self.value(placed, number, at, rs) != Some(0),
                _ => true,
            })
        })
    }

    fn collect(&mut self, placed: &Placed) {
        let mut memory = self.memory.clone();
        for n in placed.order.iter().filter(|&&n| self.ops[n].writes()) {
            memory.insert(placed.address[n], placed.stored[n]);
        }
        let registers = self.observed.iter().map(|&(thread, register)| {
            let value = self.value(placed, thread, self.ends[thread], register);
            value.expect("all has been read")
        });
        let outcome = registers.chain(memory.values().copied()).collect();
        self.outcomes.insert(outcome);
    }
}
