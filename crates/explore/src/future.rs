//! What threads may still access.
//!
//! Nobody can tell a message from what it replaced who will never load from there; nor does it matter when a write became
//! visible that no other thread will look at. What an instruction accesses is learnt while exploring: each thread, address
//! of code and cell once; and where something is learnt, the exploration begins again. A thread may yet access what the
//! instructions that can follow in its code do. This is sound: up to the first access that was not known, states were
//! rightly taken for the same, so that access is met. What is explored between the two only helps to learn more.
//!
//! An `sc` that acquires renews what can be read only where it has stored: on the way that the branch on its result takes then.
//! A branch that repeats the comparison of the one that leads to it goes one way.

use loiter_isa::{Class, Inst, Op};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::cells::Cells;
use crate::liveness::Liveness;
use crate::memory::Location;
use crate::model::{Model, Order};
use crate::origin::{Origin, Origins};
use crate::program::Program;
use crate::reach::Reach;
use crate::writes::Writes;

/// What an instruction of a thread did somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fact {
    pub(crate) thread: u8,
    pub(crate) pc: u64,
    pub(crate) location: Location,
    /// It loads, other than as part of an atomic.
    pub(crate) loads: bool,
    pub(crate) writes: bool,
    /// Of its address.
    pub(crate) origin: Origin,
}

/// Sets of cells, by bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Masks {
    pub(crate) loads: u128,
    /// Loads before anything after which what is old now cannot be read: a write to the cell, or an atomic that acquires.
    first: u128,
    /// Loads before anything after which nothing can be read that is older than what has been read: a fence between loads, or
    /// an atomic that acquires.
    unfenced: u128,
    pub(crate) writes: u128,
    /// Written by atomics that acquire.
    acquires: u128,
    /// Loaded by `lr`.
    pub(crate) pairs: u128,
    /// Cells that may be accessed in any way.
    pub(crate) any: u128,
    /// Written by something that need not stand after what the thread does now: no release, and no fence comes before.
    pub(crate) hasty: u128,
}

impl Masks {
    const ALL: Self = Self {
        loads: u128::MAX,
        first: u128::MAX,
        unfenced: u128::MAX,
        writes: u128::MAX,
        acquires: u128::MAX,
        pairs: u128::MAX,
        any: u128::MAX,
        hasty: u128::MAX,
    };

    /// The same of a thread that has first to read, from `awaited`, what is not written yet.
    pub(crate) fn loads_old_after(&self, awaited: u128) -> u128 {
        self.unfenced & !awaited
    }

    /// Cells from which what is old now may be loaded, by a thread that has promised writes to these cells: one that fulfils
    /// a promise stands before the end of memory, and renews nothing.
    pub(crate) fn loads_old(&self, promised: u128) -> u128 {
        match self.acquires & promised {
            0 => self.first | self.loads & promised,
            _ => self.loads,
        }
    }

    fn add(&mut self, other: Self) {
        self.loads |= other.loads;
        self.first |= other.first;
        self.unfenced |= other.unfenced;
        self.writes |= other.writes;
        self.acquires |= other.acquires;
        self.pairs |= other.pairs;
        self.any |= other.any;
        self.hasty |= other.hasty;
    }
}

/// What is known, and what follows from it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Future {
    facts: FxHashSet<Fact>,
    /// Of each shared cell its bit; the last is for all that have none of their own.
    bits: FxHashMap<u64, u32>,
    /// By thread, what may be accessed from an address of code on.
    from: Vec<FxHashMap<u64, Masks>>,
    writes: Writes,
    pub(crate) origins: Origins,
    pub(crate) reach: Reach,
}

impl Future {
    /// Whether it is new.
    pub(crate) fn learn(&mut self, fact: Fact) -> bool {
        self.facts.insert(fact)
    }

    /// Draws all conclusions.
    pub(crate) fn conclude(
        &mut self,
        model: Model,
        program: &Program,
        cells: &Cells,
        liveness: &Liveness,
    ) {
        self.bits.clear();
        for (n, cell) in cells.shared().enumerate() {
            self.bits.insert(cell.addr, n.min(127) as u32);
        }
        self.origins
            .conclude(&self.facts, &self.bits, program, cells);
        self.reach
            .conclude(&self.facts, &self.bits, &self.origins, cells);
        self.writes = Writes::of(&self.facts, liveness);
        self.from.clear();
        if liveness.is_unknown() {
            return;
        }
        for thread in 0..program.threads.len() {
            let mut own: FxHashMap<u64, Masks> = FxHashMap::default();
            let facts = self
                .facts
                .iter()
                .filter(|fact| usize::from(fact.thread) == thread);
            for fact in facts {
                let mask = self.mask(&cells.of(fact.location));
                let when = |is: bool| if is { mask } else { 0 };
                own.entry(fact.pc).or_default().add(Masks {
                    loads: when(fact.loads),
                    first: when(fact.loads),
                    unfenced: when(fact.loads),
                    writes: when(fact.writes),
                    acquires: when(fact.writes && acquires(program, model, fact.pc)),
                    pairs: when(fact.loads && is_lr(program, fact.pc)),
                    any: mask,
                    hasty: when(fact.writes && !releases(program, model, fact.pc)),
                });
            }
            let renews: FxHashMap<u64, u128> = own
                .keys()
                .map(|&pc| (pc, self.renewed(model, program, cells, (thread, pc))))
                .collect();
            let acquired = acquired(model, program, liveness);
            let leads = |pc, to| leads(program, pc, to);
            let code: Vec<u64> = liveness.code().map(|(pc, _)| pc).collect();
            let those = |is: &dyn Fn(u64) -> bool| -> FxHashSet<u64> {
                code.iter().copied().filter(|&pc| is(pc)).collect()
            };
            let fences = those(&|pc| fences_loads(program, pc));
            let releasing = those(&|pc| fences_writes(program, pc));
            let mut from: FxHashMap<u64, Masks> = FxHashMap::default();
            loop {
                let mut changed = false;
                for (pc, next) in liveness.code() {
                    let mut all = Masks::default();
                    for to in next {
                        let mut after = from.get(&leads(pc, *to)).copied().unwrap_or_default();
                        if acquired.contains(&(pc, *to)) {
                            (after.first, after.unfenced) = (0, 0);
                        }
                        all.add(after);
                    }
                    let renewed = renews.get(&pc).copied().unwrap_or(0);
                    all.first &= !renewed;
                    all.unfenced &= !renewed;
                    if fences.contains(&pc) {
                        all.unfenced = 0;
                    }
                    if releasing.contains(&pc) {
                        all.hasty = 0;
                    }
                    all.add(own.get(&pc).copied().unwrap_or_default());
                    changed |= from.insert(pc, all) != Some(all);
                }
                if !changed {
                    break;
                }
            }
            for end in liveness.ends() {
                from.insert(end, Masks::default());
            }
            self.from.push(from);
        }
    }

    /// The cells of which an instruction, unless it fulfils a promise, leaves nothing old to be read: it stands at the end of
    /// memory.
    fn renewed(&self, model: Model, program: &Program, cells: &Cells, at: (usize, u64)) -> u128 {
        let Some(inst) = program.fetch(at.1) else {
            return 0;
        };
        let is_pair = matches!(inst.op, Op::LrW | Op::LrD | Op::ScW | Op::ScD);
        let is_amo = inst.op.class() == Class::Atomic && !is_pair;
        if !is_amo && inst.op.class() != Class::Store {
            return 0;
        }
        let here = |fact: &&Fact| (usize::from(fact.thread), fact.pc) == at;
        let mut places = self
            .facts
            .iter()
            .filter(here)
            .map(|fact| cells.of(fact.location));
        let first = places.next().unwrap_or_default();
        let is_shared =
            |cells: &[Location]| cells.iter().all(|cell| self.bits.contains_key(&cell.addr));
        let mut others = true;
        let mut shared = is_shared(&first);
        for other in places {
            others &= other == first;
            shared &= is_shared(&other);
        }
        if is_amo && shared && Order::of(model, &inst).acquire {
            return u128::MAX;
        }
        // The last bit may be of several cells.
        if others {
            self.mask(&first) & !(1 << 127)
        } else {
            0
        }
    }

    /// Whether `thread`, which is at `pc`, comes to all its writes to `first` before any to `second`.
    pub(crate) fn writes_before(
        &self,
        (thread, pc): (usize, u64),
        first: Location,
        second: Location,
    ) -> bool {
        self.writes.before((thread as u8, pc), first, second)
    }

    /// The set of these cells.
    pub(crate) fn mask(&self, cells: &[Location]) -> u128 {
        let bits = cells.iter().filter_map(|cell| self.bits.get(&cell.addr));
        bits.fold(0, |mask, bit| mask | 1 << bit)
    }

    /// What `thread` may access from `pc` on.
    pub(crate) fn of(&self, thread: usize, pc: u64) -> Masks {
        let found = self.from.get(thread).and_then(|from| from.get(&pc));
        found.copied().unwrap_or(Masks::ALL)
    }
}

/// Whether the instruction at `pc` is a fence between loads before it and loads after it.
fn fences_loads(program: &Program, pc: u64) -> bool {
    const READ: i32 = 2;
    program.fetch(pc).is_some_and(|inst| match inst.op {
        Op::Fence => inst.imm >> 4 & READ != 0 && inst.imm & READ != 0,
        Op::FenceTso => true,
        _ => false,
    })
}

/// Whether the instruction at `pc` is a fence between all accesses before it and writes after it.
fn fences_writes(program: &Program, pc: u64) -> bool {
    const READ_WRITE: i32 = 3;
    const WRITE: i32 = 1;
    program.fetch(pc).is_some_and(|inst| {
        let (before, after) = (inst.imm >> 4 & READ_WRITE, inst.imm & WRITE);
        match inst.op {
            Op::Fence => before == READ_WRITE && after != 0,
            Op::FenceTso => true,
            _ => false,
        }
    })
}

/// Whether the instruction at `pc` stands after all that comes before it.
fn releases(program: &Program, model: Model, pc: u64) -> bool {
    let inst = program.fetch(pc);
    inst.is_some_and(|inst| Order::of(model, &inst).release)
}

/// Where the step from `pc` to `to` leads: a branch that repeats the comparison just made goes the way that is known, as
/// compilers leave it behind a compare-and-swap.
fn leads(program: &Program, pc: u64, to: u64) -> u64 {
    let (Some(first), Some(second)) = (program.fetch(pc), program.fetch(to)) else {
        return to;
    };
    let is_equality = |inst: &Inst| matches!(inst.op, Op::Beq | Op::Bne);
    let same = (first.rs1, first.rs2) == (second.rs1, second.rs2)
        || (first.rs1, first.rs2) == (second.rs2, second.rs1);
    let (next, target) = (
        pc + u64::from(first.len),
        pc.wrapping_add(first.imm as i64 as u64),
    );
    if !(is_equality(&first) && is_equality(&second) && same && next != target) {
        return to;
    }
    let is_equal = (first.op == Op::Beq) == (to == target);
    if is_equal == (second.op == Op::Beq) {
        to.wrapping_add(second.imm as i64 as u64)
    } else {
        to + u64::from(second.len)
    }
}

/// Steps from a branch to the next instruction that are taken only after an `sc` that acquires has stored: unless it fulfils
/// a promise, it stands at the end of memory.
fn acquired(model: Model, program: &Program, liveness: &Liveness) -> FxHashSet<(u64, u64)> {
    let mut comes_from: FxHashMap<u64, Vec<u64>> = FxHashMap::default();
    for (pc, next) in liveness.code() {
        for &to in next {
            comes_from.entry(to).or_default().push(pc);
        }
    }
    let mut found = FxHashSet::default();
    for (pc, _) in liveness.code() {
        let Some((sc, branch)) = program.fetch(pc).and_then(|sc| {
            let behind = pc + u64::from(sc.len);
            Some((sc, program.fetch(behind)?))
        }) else {
            continue;
        };
        let at = pc + u64::from(sc.len);
        let is_sc = matches!(sc.op, Op::ScW | Op::ScD) && sc.rd != 0;
        let is_tested = branch.op == Op::Bne && (branch.rs1, branch.rs2) == (sc.rd, 0);
        let only = comes_from.get(&at).is_some_and(|from| from[..] == [pc]);
        if is_sc
            && is_tested
            && only
            && branch.imm != i32::from(branch.len)
            && Order::of(model, &sc).acquire
        {
            found.insert((at, at + u64::from(branch.len)));
        }
    }
    found
}

fn is_lr(program: &Program, pc: u64) -> bool {
    let inst = program.fetch(pc);
    inst.is_some_and(|inst| matches!(inst.op, Op::LrW | Op::LrD))
}

/// Whether the instruction at `pc` is an atomic after which nothing old can be read.
fn acquires(program: &Program, model: Model, pc: u64) -> bool {
    program
        .fetch(pc)
        .is_some_and(|inst| inst.op.class() == Class::Atomic && Order::of(model, &inst).acquire)
}
