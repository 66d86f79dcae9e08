//! All states that a program can come to.
//!
//! A state is the memory and all threads, each of them before an access that others can see. From there each thread may
//! perform its access, in every way that the memory allows, or promise a write that comes later in its program, as the
//! paper has it. What of this is left out changes nothing (`moves.rs`). States that behave alike have one form (`canon.rs`), and
//! none is entered twice. So a loop that awaits what does not come ends by itself.
//!
//! A state without promises from which no end can be reached is a deadlock: awaits that nobody can end.
//!
//! The search is breadth first. Once a failure is found, it begins again without putting steps first that nothing depends on
//! (`moves.rs`): then the first failure has the fewest steps.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::hash::Hash;
use std::rc::Rc;

use loiter_hart::{Extensions, Hart};
use loiter_types::{HartId, PhysAddr};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::canon::{Moved, Stands, canonical};
use crate::cells::Cells;
use crate::fault::Fault;
use crate::found::{Exploration, Kind, Limits, MOST_THREADS, Statistics};
use crate::future::Future;
use crate::guest::patch;
use crate::liveness::Liveness;
use crate::local::{Local, Stand, Wait};
use crate::memory::{Location, Memory, Message, Time};
use crate::model::Model;
use crate::moves::Move;
use crate::program::Program;
use crate::step::{Event, Halt, Stepper};
use crate::thread::Thread;
use crate::walks::{LATE, Walks};

/// States that are looked at to learn more, once something was learnt.
const LEARNS: usize = 1_000;

/// Explores `program` under `model`; `progress` is called now and then, and ends it by returning false.
///
/// # Errors
/// [`Fault`].
pub fn explore(
    program: &Program,
    model: Model,
    limits: &Limits,
    progress: &mut dyn FnMut(&Statistics) -> bool,
) -> Result<Exploration, Fault> {
    if program.threads.len() > MOST_THREADS {
        return Err(Fault::Limit(format!("{MOST_THREADS} threads")));
    }
    let liveness = Liveness::of(program);
    let mut cells = Cells::default();
    let mut future = Future::default();
    let mut program = program.clone();
    if let Some(entry) = program.setup.take() {
        let (stand, written) =
            match local(&program, model, limits, &liveness, &mut cells, &mut future).alone(
                &entry,
                &[],
                &mut |_, _| (),
            ) {
                Ok(found) => found,
                Err(Halt::Fault(fault)) => return Err(fault),
                Err(Halt::Changed) => unreachable!("by itself it shares nothing"),
            };
        if stand != Stand::Ended {
            return Err(Fault::Setup);
        }
        patch(&mut program, &written);
    }
    let program = &program;
    for &location in &program.observed {
        cells.observe(location);
    }
    let mut walks: Option<Walks> = None;
    let mut shortens: Option<Exploration> = None;
    loop {
        future.conclude(model, program, &cells, &liveness);
        let mut search = Search {
            model,
            program,
            limits,
            local: local(program, model, limits, &liveness, &mut cells, &mut future),
            memories: Interner::default(),
            threads: Interner::default(),
            index: FxHashMap::default(),
            states: Vec::new(),
            back: Vec::new(),
            certified: FxHashMap::default(),
            promises: FxHashMap::default(),
            waits: None,
            puts_first: shortens.is_none(),
            found: Exploration {
                outcomes: BTreeSet::new(),
                statistics: Statistics::default(),
                failure: None,
            },
        };
        let done = match &mut walks {
            Some(walks) => walks.all(&mut search, progress),
            None => search.all(progress),
        };
        match (done, &walks) {
            // Once more for the shortest, which may come without what is put first.
            (Ok(()), None) if search.found.failure.is_some() && shortens.is_none() => {
                shortens = Some(search.found);
            }
            (Ok(()), None) => return Ok(search.found),
            (Ok(()), Some(_)) => walks = None,
            (Err(Halt::Fault(Fault::Limit(_))), _) if shortens.is_some() => {
                return Ok(shortens.expect("what was found before"));
            }
            (Err(Halt::Fault(fault)), _) => return Err(fault),
            (Err(Halt::Changed), None) if search.states.len() > LATE => {
                walks = Some(Walks::default());
            }
            (Err(Halt::Changed), _) => {}
        }
    }
}

fn local<'a>(
    program: &'a Program,
    model: Model,
    limits: &'a Limits,
    liveness: &'a Liveness,
    cells: &'a mut Cells,
    future: &'a mut Future,
) -> Local<'a> {
    let hart = Hart::new(HartId::new(0), 0, PhysAddr(0), Extensions::of("rv64i"));
    Local {
        stepper: Stepper {
            model,
            program,
            cells,
            future,
            met: FxHashMap::default(),
            stale: false,
            hart,
            late: 0,
        },
        program,
        limits,
        liveness,
        code: Vec::new(),
        first: program.first(),
        bound: Time::MAX,
        alone_end: 0,
    }
}

/// Gives numbers to different things.
pub(crate) struct Interner<T> {
    index: FxHashMap<Rc<T>, u32>,
    all: Vec<Rc<T>>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self {
            index: FxHashMap::default(),
            all: Vec::new(),
        }
    }
}

impl<T: Hash + Eq> Interner<T> {
    fn number(&mut self, thing: T) -> u32 {
        if let Some(&number) = self.index.get(&thing) {
            return number;
        }
        let (thing, number) = (Rc::new(thing), self.all.len() as u32);
        self.all.push(thing.clone());
        self.index.insert(thing, number);
        number
    }

    pub(crate) fn get(&self, number: u32) -> Rc<T> {
        self.all[number as usize].clone()
    }
}

/// A state, in numbers of what it consists of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) memory: u32,
    pub(crate) threads: [u32; MOST_THREADS],
}

/// What each thread waits for.
pub(crate) type Waits = SmallVec<[Option<Wait>; MOST_THREADS]>;

/// How a state was reached first.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) from: u32,
    pub(crate) thread: u8,
    pub(crate) choice: u16,
}

pub(crate) struct Search<'a> {
    pub(crate) model: Model,
    pub(crate) program: &'a Program,
    limits: &'a Limits,
    pub(crate) local: Local<'a>,
    pub(crate) memories: Interner<Memory>,
    threads: Interner<Thread>,
    pub(crate) index: FxHashMap<Node, u32>,
    pub(crate) states: Vec<(Node, Arrival)>,
    /// Steps, from the second to the first.
    pub(crate) back: Vec<(u32, u32)>,
    /// By thread, its state and that of memory.
    pub(crate) certified: FxHashMap<(u8, u32, u32), bool>,
    pub(crate) promises: FxHashMap<(u8, u32, u32), Rc<[Message]>>,
    /// What threads wait for in the state that was looked at last.
    pub(crate) waits: Option<(Node, Waits)>,
    /// Whether a step that nothing depends on goes before all others.
    pub(crate) puts_first: bool,
    pub(crate) found: Exploration,
}

impl Search<'_> {
    fn all(&mut self, progress: &mut dyn FnMut(&Statistics) -> bool) -> Result<(), Halt> {
        let (first, ..) = self.first(&mut |_, _, _| ())?;
        let start = Arrival {
            from: 0,
            thread: 0,
            choice: 0,
        };
        let mut complete = Vec::new();
        self.enter(first, start);
        let mut at = 0;
        let mut stale_until = None;
        while at < self.states.len() {
            if at.is_multiple_of(1 << 12) && !progress(&self.found.statistics) {
                return Err(Fault::Interrupted.into());
            }
            if at > self.limits.states {
                return Err(Fault::Limit(format!("{} states", self.limits.states)).into());
            }
            let stepper = &self.local.stepper;
            if stepper.stale && at >= *stale_until.get_or_insert(2 * at + LEARNS) {
                return Err(Halt::Changed);
            }
            let index = at as u32;
            at += 1;
            self.found.statistics.states = at as u64;
            self.found.statistics.known = self.states.len() as u64;
            let node = self.states[index as usize].0;
            let failure = self.failure(node)?;
            if failure.is_some() && self.local.stepper.stale {
                return Err(Halt::Changed);
            }
            if let Some(failure) = failure {
                self.found.failure = Some(self.trace(failure, index)?);
                return Ok(());
            }
            if self.has_ended(node) {
                self.found.statistics.complete += 1;
                complete.push(index);
                self.collect(node);
                continue;
            }
            self.expand(index)?;
        }
        if self.local.stepper.stale {
            return Err(Halt::Changed);
        }
        if let Some(stuck) = self.stuck(complete)? {
            self.found.failure = Some(self.trace(Kind::Deadlock, stuck)?);
        }
        Ok(())
    }

    /// The number of a state, new or not.
    pub(crate) fn enter(&mut self, node: Node, arrival: Arrival) -> u32 {
        let next = self.states.len() as u32;
        let index = *self.index.entry(node).or_insert(next);
        if index == next {
            self.states.push((node, arrival));
        }
        index
    }

    /// The state that the program begins with. `see` is told of what each thread does first, from each pc.
    pub(crate) fn first(
        &mut self,
        see: &mut impl FnMut(usize, u64, Option<Event>),
    ) -> Result<(Node, Moved), Halt> {
        let memory = Memory::default();
        let mut threads = Vec::new();
        for (number, entry) in self.program.threads.iter().enumerate() {
            let thread = Thread::new(entry.pc, &entry.registers);
            threads.push(
                self.local
                    .settle(number, thread, &memory, &mut |pc, event| {
                        see(number, pc, event);
                    })?
                    .0,
            );
        }
        self.node(memory, threads)
    }

    /// The state in its one form, and where messages went.
    fn node(
        &mut self,
        mut memory: Memory,
        mut threads: Vec<Thread>,
    ) -> Result<(Node, Moved), Halt> {
        let ended = threads.iter().zip(&self.program.threads);
        let ended: SmallVec<[bool; MOST_THREADS]> = ended
            .map(|(thread, entry)| thread.pc == entry.end)
            .collect();
        let mut awaited = [None; MOST_THREADS];
        if self.model != Model::Sc {
            for (number, thread) in threads.iter().enumerate().filter(|&(n, _)| !ended[n]) {
                let written = self.written_by_others(&threads, number);
                let wait = self.local.awaits(number, thread, &memory, written)?;
                awaited[number] = wait.map(|wait| wait.old);
            }
        }
        let stands = Stands {
            ended: &ended,
            awaited: &awaited,
        };
        let (cells, future) = (&*self.local.stepper.cells, &*self.local.stepper.future);
        let moved = canonical(
            self.model,
            &mut memory,
            &mut threads,
            stands,
            self.program,
            cells,
            future,
        );
        if memory.messages.len() > self.limits.writes {
            return Err(Fault::Limit(format!("{} writes", self.limits.writes)).into());
        }
        let mut node = Node {
            memory: self.memories.number(memory),
            threads: [0; MOST_THREADS],
        };
        for (slot, thread) in node.threads.iter_mut().zip(threads) {
            *slot = self.threads.number(thread);
        }
        Ok((node, moved))
    }

    /// The cells that threads other than `number` may still write to.
    pub(crate) fn written_by_others(&self, threads: &[impl Borrow<Thread>], number: usize) -> u128 {
        let others = threads.iter().enumerate().filter(|&(n, _)| n != number);
        let future = &*self.local.stepper.future;
        others.fold(0, |all, (n, it)| all | future.of(n, it.borrow().pc).writes)
    }

    pub(crate) fn thread(&self, node: Node, number: usize) -> Rc<Thread> {
        self.threads.get(node.threads[number])
    }

    pub(crate) fn memory(&self, node: Node) -> Rc<Memory> {
        self.memories.get(node.memory)
    }

    fn has_ended(&self, node: Node) -> bool {
        let mut entries = self.program.threads.iter().enumerate();
        entries.all(|(n, entry)| self.threads.all[node.threads[n] as usize].pc == entry.end)
    }

    /// The state after a thread has done that. `see` is told of what it does then unseen by others, from each pc.
    pub(crate) fn after(
        &mut self,
        node: Node,
        number: usize,
        it: &Move,
        see: &mut impl FnMut(u64, Option<Event>),
    ) -> Result<(Node, Moved), Halt> {
        let mut memory = (*self.memories.get(node.memory)).clone();
        memory.messages.extend(it.message);
        let mut threads: Vec<Thread> = (0..self.program.threads.len())
            .map(|n| (*self.thread(node, n)).clone())
            .collect();
        threads[number] = self
            .local
            .settle(number, it.thread.clone(), &memory, see)?
            .0;
        self.node(memory, threads)
    }

    pub(crate) fn failure(&mut self, node: Node) -> Result<Option<Kind>, Halt> {
        let mut failed = None;
        for number in 0..self.program.threads.len() {
            let thread = self.thread(node, number);
            if self.local.stand(number, &thread)? == Stand::Failed {
                failed = Some(Kind::Stopped(number));
            }
        }
        if failed.is_some() {
            for number in 0..self.program.threads.len() {
                if !self.is_certified(number, node)? {
                    return Ok(None);
                }
            }
            return Ok(failed);
        }
        let is_over = self.has_ended(node);
        Ok(if is_over && !self.checks(node, &mut |_, _| ())? {
            Some(Kind::Check)
        } else {
            None
        })
    }

    /// Whether what runs after all threads finds nothing wrong. `see` is told of what it does.
    pub(crate) fn checks(
        &mut self,
        node: Node,
        see: &mut impl FnMut(u64, Option<Event>),
    ) -> Result<bool, Halt> {
        let Some(entry) = &self.program.check else {
            return Ok(true);
        };
        let memory = self.memories.get(node.memory);
        let mut written: Vec<(Location, u64)> = memory
            .bases
            .iter()
            .map(|base| (base.cell, base.value))
            .collect();
        for n in 0..self.program.threads.len() {
            written.extend(self.thread(node, n).own.iter());
        }
        let (stand, _) = self.local.alone(entry, &written, see)?;
        Ok(stand == Stand::Ended)
    }

    fn collect(&mut self, node: Node) {
        let mut outcome = Vec::new();
        for (number, entry) in self.program.threads.iter().enumerate() {
            let thread = self.thread(node, number);
            let observed = entry.observed.iter();
            outcome.extend(observed.map(|&r| thread.regs[usize::from(r)]));
        }
        let memory = self.memories.get(node.memory);
        for &location in &self.program.observed {
            let cells = self.local.stepper.cells.of(location);
            let parts = cells.into_iter().map(|cell| {
                let value = memory.value(self.program, cell, memory.last(cell, memory.end()));
                location.whole(value, cell)
            });
            outcome.push(parts.fold(0, |all, part| all | part));
        }
        self.found.outcomes.insert(outcome);
    }

    /// The first state without promises from which none of `complete` is reached.
    fn stuck(&self, complete: Vec<u32>) -> Result<Option<u32>, Halt> {
        let mut back: Vec<(u32, u32)> = self.back.clone();
        back.sort_unstable();
        let mut can_end = vec![false; self.states.len()];
        let mut left = complete;
        while let Some(index) = left.pop() {
            if !std::mem::replace(&mut can_end[index as usize], true) {
                let first = back.partition_point(|&(to, _)| to < index);
                let here = back[first..].iter().take_while(|&&(to, _)| to == index);
                left.extend(here.map(|&(_, from)| from));
            }
        }
        let stuck = (0..self.states.len()).find(|&index| {
            let node = self.states[index].0;
            let mut threads = (0..self.program.threads.len()).map(|n| self.thread(node, n));
            !can_end[index] && threads.all(|thread| thread.promises.is_empty())
        });
        Ok(stuck.map(|index| index as u32))
    }
}
