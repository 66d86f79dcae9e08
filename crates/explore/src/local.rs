//! What a thread does between two accesses that others can see, and what it could do by itself.

use std::rc::Rc;

use loiter_isa::{Class, Inst, Op};
use rustc_hash::FxHashMap;

use crate::canon::lower;
use crate::cells::Covered;
use crate::fault::Fault;
use crate::found::Limits;
use crate::liveness::{Liveness, RESERVATION};
use crate::memory::{Location, Memory, Message, Time};
use crate::origin::UNKNOWN;
use crate::program::{Entry, Program};
use crate::step::{Added, Event, Halt, Next, Stepper, writes};
use crate::thread::Thread;

/// Instructions after which what a thread reads by itself counts as shared.
const AWAITS: u64 = 10_000;

/// A thread is not followed further to where it waits.
const ACCESSES_BEFORE_A_WAIT: usize = 4;

/// Where a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Before an access that others can see.
    Access,
    /// At its end.
    Ended,
    /// At an instruction that fails the program.
    Failed,
}

/// What a thread does that awaits what nobody has written yet: whatever it can read where it waits leads back to the same load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// The cells that it looks at.
    pub(crate) awaited: u128,
    /// Those that it has yet to access before.
    pub(crate) accesses: u128,
    /// Those from which it may still load what is old.
    pub(crate) old: u128,
}

/// One execution of a thread, an instruction at a time.
pub(crate) struct Local<'a> {
    pub(crate) stepper: Stepper<'a>,
    pub(crate) program: &'a Program,
    pub(crate) limits: &'a Limits,
    pub(crate) liveness: &'a Liveness,
    /// By half-words from the program's first address on, as far as they were met.
    pub(crate) code: Vec<Option<Inst>>,
    /// The program's first address.
    pub(crate) first: u64,
    /// Threads run only as far as their writes can stand before this.
    pub(crate) bound: Time,
    /// Where what runs alone ends.
    pub(crate) alone_end: u64,
}

impl Local<'_> {
    fn end(&self, number: usize) -> u64 {
        // What runs alone has the number after those of the threads.
        let thread = self.program.threads.get(number);
        thread.map_or(self.alone_end, |entry| entry.end)
    }

    pub(crate) fn inst(&mut self, number: usize, pc: u64) -> Result<Inst, Fault> {
        let at = (pc.wrapping_sub(self.first) / 2) as usize;
        if let Some(&Some(inst)) = self.code.get(at)
            && pc.is_multiple_of(2)
        {
            return Ok(inst);
        }
        let inst = self.program.fetch(pc).ok_or(Fault::Left(number, pc))?;
        if at >= self.code.len() {
            self.code.resize(at + 1, None);
        }
        self.code[at] = Some(inst);
        Ok(inst)
    }

    pub(crate) fn stand(&mut self, number: usize, thread: &Thread) -> Result<Stand, Fault> {
        if thread.pc == self.end(number) {
            return Ok(Stand::Ended);
        }
        let inst = self.inst(number, thread.pc)?;
        Ok(match inst.op {
            Op::Ebreak | Op::Illegal => Stand::Failed,
            _ => Stand::Access,
        })
    }

    /// Runs `thread` up to where others matter. `see` is told of what it does, from each pc.
    pub(crate) fn settle(
        &mut self,
        number: usize,
        mut thread: Thread,
        memory: &Memory,
        see: &mut impl FnMut(u64, Option<Event>),
    ) -> Result<(Thread, Stand), Halt> {
        let mut instructions = 0;
        loop {
            let stand = self.stand(number, &thread)?;
            if stand != Stand::Access {
                self.forget(number, &mut thread, stand);
                return Ok((thread, stand));
            }
            let inst = self.inst(number, thread.pc)?;
            // Nobody wakes it.
            if inst.op == Op::Wfi || inst.op == Op::Jal && inst.imm == 0 {
                thread.pc = self.end(number);
                continue;
            }
            // What an address or a branch that is too late leads to does not matter, and may be anything.
            if self.is_beyond(&thread, &inst) || self.stepper.is_visible(number, &thread, &inst)? {
                self.forget(number, &mut thread, stand);
                return Ok((thread, stand));
            }
            instructions += 1;
            if instructions > self.limits.instructions {
                let most = self.limits.instructions;
                return Err(Fault::Endless(number, thread.pc, most).into());
            }
            if !inst.op.class().accesses() {
                see(thread.pc, None);
                self.stepper.advance(number, &mut thread, &inst)?;
                continue;
            }
            let mut all = self.stepper.step(number, &thread, &inst, memory)?;
            let next = all.pop().filter(|_| all.is_empty());
            let next = next.expect("what nobody sees has one outcome");
            // A loop that may await what another thread has yet to be seen to write.
            if let Some(event) = next.event
                && instructions > AWAITS
                && event.read.is_some()
                && self.stepper.cells.share(event.location)
            {
                return Err(Halt::Changed);
            }
            see(thread.pc, next.event);
            thread = next.thread;
        }
    }

    /// Whether all writes from here on stand after the bound.
    fn is_beyond(&self, thread: &Thread, inst: &Inst) -> bool {
        let is_access = inst.op.class().accesses();
        let address = if is_access { thread.view(inst.rs1) } else { 0 };
        thread.before_writes.max(thread.control).max(address) > self.bound
    }

    /// What of a thread can make no difference any more.
    fn forget(&self, number: usize, thread: &mut Thread, stand: Stand) {
        let entry = &self.program.threads[number];
        let (live, carried) = match stand {
            Stand::Failed => (0, 0),
            _ => (
                self.liveness.before(thread.pc),
                self.liveness.carried(thread.pc),
            ),
        };
        for slot in 1..32 {
            if live & 1 << slot == 0 {
                thread.regs[slot] = 0;
                thread.reg_views[slot] = 0;
            }
            if live & carried & 1 << slot == 0 {
                thread.origins[slot] = UNKNOWN;
            }
        }
        if live & RESERVATION == 0 {
            thread.reservation = None;
        }
        let free = match stand {
            Stand::Access => entry.stack.start..thread.regs[2].min(entry.stack.end),
            _ => entry.stack.clone(),
        };
        if thread.own.iter().any(|(cell, _)| free.contains(&cell.addr)) {
            Rc::make_mut(&mut thread.own).retain(|(cell, _)| !free.contains(&cell.addr));
        }
        thread.own_origins.retain(|(cell, _)| !free.contains(cell));
        thread.known.retain(|known| !free.contains(&known.cell));
        lower(self.stepper.model, thread);
    }

    /// Runs `entry` while no thread runs, with what has been `written` so far. Returns how it ends, and all that is written
    /// then, by bytes. `see` is told of what it does, from each pc.
    pub(crate) fn alone(
        &mut self,
        entry: &Entry,
        written: &[(Location, u64)],
        see: &mut impl FnMut(u64, Option<Event>),
    ) -> Result<(Stand, Vec<(Location, u64)>), Halt> {
        let memory = Memory::default();
        let number = self.program.threads.len();
        let mut thread = Thread::new(entry.pc, &entry.registers);
        self.alone_end = entry.end;
        for &(cell, value) in written {
            for byte in cell.split() {
                thread.set_own(byte, cell.part(value, byte));
            }
        }
        for _ in 0..self.limits.instructions {
            let stand = self.stand(number, &thread)?;
            if stand != Stand::Access {
                return Ok((stand, Rc::unwrap_or_clone(thread.own)));
            }
            let inst = self.inst(number, thread.pc)?;
            let next = self.stepper.step(number, &thread, &inst, &memory)?;
            let next = next.into_iter().next().expect("an outcome");
            see(thread.pc, next.event);
            thread = next.thread;
        }
        Err(Fault::Endless(number, thread.pc, self.limits.instructions).into())
    }

    /// All that can come of the next access.
    pub(crate) fn visible(
        &mut self,
        number: usize,
        thread: &Thread,
        memory: &Memory,
    ) -> Result<Vec<Next>, Halt> {
        let inst = self.inst(number, thread.pc)?;
        self.stepper.step(number, thread, &inst, memory)
    }

    /// What `thread` does, if it awaits what nobody has written yet. Before that it may have writes to perform that have one
    /// outcome, now and later: stores, and atomics on cells that others do not write to any more, which are not `written`.
    pub(crate) fn awaits(
        &mut self,
        number: usize,
        thread: &Thread,
        memory: &Memory,
        written: u128,
    ) -> Result<Option<Wait>, Halt> {
        if !thread.promises.is_empty() || thread.floor != 0 {
            return Ok(None);
        }
        let mut at = None;
        let mut extended = memory.clone();
        let mut accesses = 0;
        for _ in 0..ACCESSES_BEFORE_A_WAIT {
            let thread = at.as_ref().unwrap_or(thread);
            if self.stand(number, thread)? != Stand::Access {
                return Ok(None);
            }
            let inst = self.inst(number, thread.pc)?;
            if self.liveness.spins(thread.pc) {
                break;
            }
            let covered = self.stepper.covered(number, thread, &inst)?;
            let cells = self.stepper.future.mask(covered.cells());
            if !writes(&inst) || inst.op.class() != Class::Store && cells & written != 0 {
                return Ok(None);
            }
            accesses |= cells;
            let mut all = self.visible(number, thread, &extended)?;
            let Some(next) = all.pop().filter(|_| all.is_empty()) else {
                return Ok(None);
            };
            extended.messages.extend(next.added.map(|it| it.message));
            at = Some(
                self.settle(number, next.thread, &extended, &mut |_, _| ())?
                    .0,
            );
        }
        let thread = at.as_ref().unwrap_or(thread);
        let found = self.awaits_at_once(number, thread, &extended, 2)?;
        let future = &*self.stepper.future;
        Ok(found.map(|(covered, old)| Wait {
            awaited: future.mask(covered.cells()),
            accesses,
            old,
        }))
    }

    /// Whether `thread` is before a load that leads back to itself, whatever it can read now.
    pub(crate) fn spins(
        &mut self,
        number: usize,
        thread: &Thread,
        memory: &Memory,
    ) -> Result<bool, Halt> {
        if !thread.promises.is_empty() || thread.floor != 0 {
            return Ok(false);
        }
        Ok(self.awaits_at_once(number, thread, memory, 2)?.is_some())
    }

    /// As [`Self::awaits`], of a thread that is before the load, or before one from the same cells that leads to it; with
    /// these cells. Any of the loads may be the one that ends the wait, so what comes unfenced after each counts.
    fn awaits_at_once(
        &mut self,
        number: usize,
        thread: &Thread,
        memory: &Memory,
        loads: u32,
    ) -> Result<Option<(Covered, u128)>, Halt> {
        if loads == 0 || !self.liveness.spins(thread.pc) {
            return Ok(None);
        }
        let inst = self.inst(number, thread.pc)?;
        let covered = self.stepper.covered(number, thread, &inst)?;
        if !covered.shared {
            return Ok(None);
        }
        let future = &*self.stepper.future;
        let awaited = future.mask(covered.cells());
        let mut old = future.of(number, thread.pc).loads_old_after(awaited);
        for next in self.visible(number, thread, memory)? {
            let (after, _) = self.settle(number, next.thread, memory, &mut |_, _| ())?;
            if (after.pc, after.regs, &after.own) == (thread.pc, thread.regs, &thread.own) {
                continue;
            }
            match self.awaits_at_once(number, &after, memory, loads - 1)? {
                Some((there, more)) if there.cells() == covered.cells() => old |= more,
                _ => return Ok(None),
            }
        }
        Ok(Some((covered, old)))
    }

    /// Whether `thread` can fulfil all that it has promised if nobody else does anything.
    pub(crate) fn is_certified(
        &mut self,
        number: usize,
        thread: &Thread,
        memory: &Memory,
    ) -> Result<bool, Halt> {
        let mut first = thread.clone();
        first.floor = 0;
        self.bound = memory.end();
        let graph = self.alone_from(number, vec![(first, None)], memory, true);
        self.bound = Time::MAX;
        Ok(!graph?.good.is_empty())
    }

    /// The writes that `thread` can promise in `memory` and that need to be promised: its next access stands after them.
    ///
    /// What that access reads does not matter: a write that depended on it would have to stand after it.
    pub(crate) fn promises(
        &mut self,
        number: usize,
        thread: &Thread,
        memory: &Memory,
    ) -> Result<Vec<Message>, Halt> {
        let mut first = thread.clone();
        first.floor = memory.end();
        self.bound = memory.end();
        self.stepper.late = memory.end() + 1;
        let next = self.visible(number, &first, memory);
        self.stepper.late = 0;
        let graph = next.and_then(|next| {
            let mut begin = Vec::new();
            for next in next {
                let mut extended = memory.clone();
                let message = next.added.map(|it| it.message);
                extended.messages.extend(message);
                let (thread, _) = self.settle(number, next.thread, &extended, &mut |_, _| ())?;
                begin.push((thread, message));
            }
            self.alone_from(number, begin, memory, false)
        });
        self.bound = Time::MAX;
        Ok(graph?.promises())
    }

    /// The cells of the access that is next, if it has a place in memory, and whether it writes.
    pub(crate) fn next_cells(
        &mut self,
        number: usize,
        thread: &Thread,
    ) -> Result<Option<(Vec<Location>, bool)>, Halt> {
        let inst = self.inst(number, thread.pc)?;
        let covered = self.stepper.covered(number, thread, &inst)?;
        let cells = covered.cells().to_vec();
        Ok(covered.shared.then(|| (cells, writes(&inst))))
    }

    /// All that a thread can do alone, from these states; or no more than one way to fulfil its promises.
    fn alone_from(
        &mut self,
        number: usize,
        begin: Vec<(Thread, Option<Message>)>,
        memory: &Memory,
        certifies: bool,
    ) -> Result<Graph, Halt> {
        let mut graph = Graph::default();
        let (mut left, mut states) = (Vec::new(), Vec::new());
        for (thread, message) in begin {
            let added = message.into_iter().collect();
            let state = Rc::new(State { thread, added });
            let (index, new) = graph.node(&state);
            if new {
                states.push(state);
                left.push(index);
            }
        }
        let mut extended = memory.clone();
        while let Some(index) = left.pop() {
            let state = states[index].clone();
            if states.len() > self.limits.ahead {
                let limit = format!("{} states of a thread by itself", self.limits.ahead);
                return Err(Fault::Limit(limit).into());
            }
            if state.thread.promises.is_empty() {
                graph.good.push(index);
                if certifies {
                    return Ok(graph);
                }
            }
            if self.stand(number, &state.thread)? != Stand::Access {
                continue;
            }
            let inst = self.inst(number, state.thread.pc)?;
            if self.is_beyond(&state.thread, &inst) {
                continue;
            }
            if state.added.len() > self.limits.writes {
                let limit = format!("{} writes of a hart ahead of others", self.limits.writes);
                return Err(Fault::Limit(limit).into());
            }
            extended.messages.truncate(memory.messages.len());
            extended.messages.extend_from_slice(&state.added);
            for next in self.visible(number, &state.thread, &extended)? {
                let mut added = state.added.clone();
                let promise = next.added.filter(|it| it.bound <= memory.end());
                added.extend(next.added.map(|it| it.message));
                extended.messages.truncate(memory.messages.len());
                extended.messages.extend_from_slice(&added);
                let (thread, _) = self.settle(number, next.thread, &extended, &mut |_, _| ())?;
                extended
                    .messages
                    .truncate(memory.messages.len() + state.added.len());
                let after = Rc::new(State { thread, added });
                let (target, new) = graph.node(&after);
                graph.edges.push((index, target, promise));
                if new {
                    states.push(after);
                    left.push(target);
                }
            }
        }
        Ok(graph)
    }
}

/// A state of a thread by itself: what it has added to memory belongs to it.
#[derive(PartialEq, Eq, Hash)]
struct State {
    thread: Thread,
    added: Vec<Message>,
}

/// The states of a thread in one memory, and the steps between them.
#[derive(Default)]
struct Graph {
    index: FxHashMap<Rc<State>, usize>,
    edges: Vec<(usize, usize, Option<Added>)>,
    /// States with all promises fulfilled.
    good: Vec<usize>,
}

impl Graph {
    /// The number of a state, and whether it is new.
    fn node(&mut self, state: &Rc<State>) -> (usize, bool) {
        let next = self.index.len();
        let index = *self.index.entry(Rc::clone(state)).or_insert(next);
        (index, index == next)
    }

    /// From which states all promises can be fulfilled.
    fn certified(&self) -> Vec<bool> {
        let mut before = vec![Vec::new(); self.index.len()];
        for &(from, to, _) in &self.edges {
            before[to].push(from);
        }
        let mut certified = vec![false; self.index.len()];
        let mut left = self.good.clone();
        while let Some(index) = left.pop() {
            if !std::mem::replace(&mut certified[index], true) {
                left.extend(&before[index]);
            }
        }
        certified
    }

    /// The writes that could have been promised, of steps after which all promises can be fulfilled.
    fn promises(&self) -> Vec<Message> {
        let certified = self.certified();
        let edges = self.edges.iter().filter(|&&(_, to, _)| certified[to]);
        let mut promises: Vec<Message> = edges
            .filter_map(|(_, _, added)| added.map(|it| it.message))
            .collect();
        promises.sort_unstable();
        promises.dedup();
        promises
    }
}
