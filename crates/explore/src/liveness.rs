//! Which registers are still used, so that threads that differ in others count as the same.
//!
//! Strong liveness: an operand of arithmetic is live only if the result is. Over the code that is reached from the threads'
//! beginnings, through calls: a return leads to behind every call of its function. Where a jump goes to a register's
//! address that is no return, everything is live everywhere.
//!
//! Of those, a register is *carried* on if its value may come to an address or be stored. Only then it matters what the value was
//! computed from (`origin.rs`), which comparisons and branches do not ask.

use std::collections::{BTreeMap, BTreeSet};

use loiter_isa::{Class, Inst, Op};

use crate::program::{Entry, Program};

/// Bit *n* is register *n*; bit 0 is the reservation of an `lr`.
type Registers = u32;

pub(crate) const RESERVATION: Registers = 1;

const RA: u8 = 1;

/// The live registers before each instruction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Liveness {
    before: BTreeMap<u64, Registers>,
    /// Those whose value may come to an address, or be stored.
    carried: BTreeMap<u64, Registers>,
    /// What can follow each instruction.
    next: BTreeMap<u64, Vec<u64>>,
    ends: BTreeSet<u64>,
    /// Loads that come again with no other access between, and those before them.
    spins: BTreeSet<u64>,
    /// Code is reached that was not found.
    unknown: bool,
}

/// The code of one function: what is reached from its entry, calls apart.
#[derive(Default)]
struct Function {
    returns: Vec<u64>,
    calls: Vec<(u64, u64)>,
}

impl Liveness {
    pub(crate) fn of(program: &Program) -> Self {
        let entries: Vec<&Entry> = program.threads.iter().chain(&program.check).collect();
        let mut liveness = Liveness::default();
        let mut code: BTreeMap<u64, (Inst, Vec<u64>)> = BTreeMap::new();
        let mut functions: BTreeMap<u64, Function> = BTreeMap::new();
        let mut left: Vec<u64> = entries.iter().map(|entry| entry.pc).collect();
        let ends: BTreeSet<u64> = entries.iter().map(|entry| entry.end).collect();
        while let Some(start) = left.pop() {
            if functions.contains_key(&start) {
                continue;
            }
            let found = liveness.walk(program, start, &ends, &mut code);
            left.extend(found.calls.iter().map(|&(_, callee)| callee));
            functions.insert(start, found);
        }
        // What is live behind a return is what is live behind the calls.
        for function in functions.values() {
            for &(call, callee) in &function.calls {
                let behind = call + u64::from(code[&call].0.len);
                for at in &functions[&callee].returns {
                    code.get_mut(at)
                        .expect("a return that was met")
                        .1
                        .push(behind);
                }
            }
        }
        let observed = entries.iter().map(|entry| {
            let mask = entry.observed.iter().fold(0, |mask, &r| mask | 1 << r);
            (entry.end, mask)
        });
        for (end, mask) in observed {
            *liveness.before.entry(end).or_default() |= mask;
            liveness.carried.insert(end, 0);
        }
        backwards(&code, &mut liveness.before, transfer);
        backwards(&code, &mut liveness.carried, carry);
        liveness.ends = ends;
        let loads = code
            .iter()
            .filter(|(_, (inst, _))| inst.op.class() == Class::Load);
        let loads: BTreeSet<u64> = loads.map(|(&pc, _)| pc).collect();
        let follow = |&pc: &u64| (pc, next_loads(pc, &code));
        let follow: BTreeMap<u64, BTreeSet<u64>> = loads.iter().map(follow).collect();
        let comes_again = |pc: &u64| follow[pc].contains(pc);
        liveness.spins = loads
            .iter()
            .copied()
            .filter(|pc| comes_again(pc) || follow[pc].iter().any(comes_again))
            .collect();
        liveness.next = code.into_iter().map(|(pc, (_, next))| (pc, next)).collect();
        liveness
    }

    /// Whether code is reached that was not found.
    pub(crate) fn is_unknown(&self) -> bool {
        self.unknown
    }

    /// Whether the load at `pc` may come again with no other access between, or one that does may be the next access.
    pub(crate) fn spins(&self, pc: u64) -> bool {
        !self.unknown && self.spins.contains(&pc)
    }

    /// The last instruction first, and what can follow each.
    pub(crate) fn code(&self) -> impl Iterator<Item = (u64, &[u64])> {
        self.next.iter().rev().map(|(&pc, next)| (pc, &next[..]))
    }

    /// Where threads end.
    pub(crate) fn ends(&self) -> impl Iterator<Item = u64> + '_ {
        self.ends.iter().copied()
    }

    fn walk(
        &mut self,
        program: &Program,
        start: u64,
        ends: &BTreeSet<u64>,
        code: &mut BTreeMap<u64, (Inst, Vec<u64>)>,
    ) -> Function {
        let mut function = Function::default();
        let mut met = BTreeSet::new();
        let mut left = vec![start];
        while let Some(pc) = left.pop() {
            if ends.contains(&pc) || !met.insert(pc) {
                continue;
            }
            let Some(inst) = program.fetch(pc) else {
                continue;
            };
            let behind = pc.wrapping_add(u64::from(inst.len));
            let target = pc.wrapping_add(inst.imm as i64 as u64);
            let mut next = Vec::new();
            match inst.op {
                Op::Jal if (1..32).contains(&inst.rd) => {
                    function.calls.push((pc, target));
                    next.push(target);
                    left.push(behind);
                }
                Op::Jal => next.push(target),
                Op::Jalr if inst.rd % 64 == 0 && inst.rs1 == RA && inst.imm == 0 => {
                    function.returns.push(pc);
                }
                Op::Jalr => {
                    self.unknown = true;
                    left.push(behind);
                }
                Op::Ebreak | Op::Ecall | Op::Illegal => {}
                _ if inst.op.class() == Class::Branch => next.extend([behind, target]),
                _ => next.push(behind),
            }
            if !matches!(inst.op, Op::Jal if (1..32).contains(&inst.rd)) {
                left.extend(&next);
            }
            code.insert(pc, (inst, next));
        }
        function
    }

    /// The registers that are live before the instruction at `pc`.
    pub(crate) fn before(&self, pc: u64) -> Registers {
        self.registers(&self.before, pc)
    }

    /// Those whose value may come to an address, or be stored, from the instruction at `pc` on.
    pub(crate) fn carried(&self, pc: u64) -> Registers {
        self.registers(&self.carried, pc)
    }

    fn registers(&self, known: &BTreeMap<u64, Registers>, pc: u64) -> Registers {
        match known.get(&pc) {
            Some(&found) if !self.unknown => found,
            _ => Registers::MAX,
        }
    }
}

/// Draws conclusions of what is after instructions for what is before them.
fn backwards(
    code: &BTreeMap<u64, (Inst, Vec<u64>)>,
    found: &mut BTreeMap<u64, Registers>,
    transfer: fn(&Inst, Registers) -> Registers,
) {
    loop {
        let mut changed = false;
        for (&pc, (inst, next)) in code.iter().rev() {
            let after = next
                .iter()
                .fold(0, |mask, to| mask | found.get(to).copied().unwrap_or(0));
            let before = transfer(inst, after);
            changed |= found.insert(pc, before) != Some(before);
        }
        if !changed {
            break;
        }
    }
}

/// The loads that are reached from the one at `start` with no other access between.
fn next_loads(start: u64, code: &BTreeMap<u64, (Inst, Vec<u64>)>) -> BTreeSet<u64> {
    let mut met = BTreeSet::new();
    let mut found = BTreeSet::new();
    let mut left = code[&start].1.clone();
    while let Some(pc) = left.pop() {
        let Some((inst, next)) = code.get(&pc) else {
            continue;
        };
        match inst.op.class() {
            Class::Load => {
                found.insert(pc);
            }
            Class::Store | Class::Atomic => {}
            _ if met.insert(pc) => left.extend(next),
            _ => {}
        }
    }
    found
}

fn bit(slot: u8) -> Registers {
    if (1..32).contains(&slot) {
        1 << slot
    } else {
        0
    }
}

fn transfer(inst: &Inst, after: Registers) -> Registers {
    let after = match inst.op {
        Op::LrW | Op::LrD => after & !RESERVATION,
        Op::ScW | Op::ScD => after | RESERVATION,
        _ => after,
    };
    let is_dead = after & bit(inst.rd) == 0;
    if is_dead && matches!(inst.op.class(), Class::Alu | Class::Mul | Class::Div) {
        return after;
    }
    (after & !bit(inst.rd)) | bit(inst.rs1) | bit(inst.rs2) | bit(inst.rs3)
}

fn carry(inst: &Inst, after: Registers) -> Registers {
    let is_dead = after & bit(inst.rd) == 0;
    let before = after & !bit(inst.rd);
    match inst.op.class() {
        Class::Branch | Class::Jump => before,
        Class::Alu | Class::Mul | Class::Div if is_dead => before,
        _ => before | bit(inst.rs1) | bit(inst.rs2) | bit(inst.rs3),
    }
}
