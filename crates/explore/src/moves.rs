//! What comes next from a state.
//!
//! Each thread may perform its access in every way that the memory allows, or promise a write that comes later in its program.
//! What is left out changes nothing:
//!
//! - A write is promised only right before an access that then stands after it in memory: what stands before could as
//!   well have been performed first. So the thread's next access has a floor.
//! - A thread promises only if others may still notice (`future.rs`): look for something that it writes, which may have to stand
//!   after what it promises; or write what it then loads. Where loads and stores perform in program order, so under SC and
//!   TSO, no promise is needed: a write could as well wait until its turn.
//! - A thread takes no step where it awaits, with no promises, what nobody has written: whatever it can read leads back to
//!   the same load with higher views, with which it can do no more than without them.
//! - If nothing that others may still do depends on the next access of a thread without promises, or it on them, the others need
//!   not come first: a persistent set (P. Godefroid, "Partial-Order Methods for the Verification of Concurrent Systems", LNCS
//!   1032, 1996). What it loads nobody writes any more; where it writes nobody looks any more, and the earliest place for that
//!   binds the thread least. So that nothing is put off for ever, this counts only if it leads to a state that is new (D.
//!   Bosnacki and G. J. Holzmann, "Improving SPIN's Partial-Order Reduction for Breadth-First Search", SPIN 2005).
//! - What others cannot come to before the thread lets them, by a write that stands after all that it does before, is nothing that
//!   they notice either (`reach.rs`).
//! - A thread that has promised takes only steps after which it can fulfil its promises by itself.

use std::rc::Rc;

use smallvec::SmallVec;

use crate::found::MOST_THREADS;
use crate::future::Masks;
use crate::local::Stand;
use crate::memory::Message;
use crate::model::Model;
use crate::reach::Now;
use crate::search::{Arrival, Node, Search, Waits};
use crate::step::{Event, Halt};
use crate::thread::Thread;

/// Something that a thread can do next.
pub(crate) struct Move {
    pub(crate) thread: Thread,
    pub(crate) message: Option<Message>,
    pub(crate) event: Option<Event>,
    /// It is a promise: the thread has not come there.
    pub(crate) promise: bool,
}

impl Search<'_> {
    /// Enters the states that come next.
    pub(crate) fn expand(&mut self, index: u32) -> Result<(), Halt> {
        let node = self.states[index as usize].0;
        let mut all = Vec::new();
        for number in 0..self.program.threads.len() {
            let after = self.nexts(node, number)?;
            let is_new = |(_, next): &(u16, Node)| !self.index.contains_key(next);
            if after.iter().any(is_new) && self.is_alone(node, number)? {
                all = vec![(number, after)];
                break;
            }
            all.push((number, after));
        }
        for (number, after) in all {
            for (choice, next) in after {
                self.found.statistics.steps += 1;
                let arrival = Arrival {
                    from: index,
                    thread: number as u8,
                    choice,
                };
                let to = self.enter(next, arrival);
                self.back.push((to, index));
            }
        }
        Ok(())
    }

    /// The states after each of the moves of a thread, with the number of the move.
    fn nexts(&mut self, node: Node, number: usize) -> Result<Vec<(u16, Node)>, Halt> {
        let mut all = Vec::new();
        for (choice, it) in self.moves(node, number)?.into_iter().enumerate() {
            let (next, _) = self.after(node, number, &it, &mut |_, _| ())?;
            if it.promise || self.is_certified(number, next)? {
                all.push((choice as u16, next));
            }
        }
        Ok(all)
    }

    /// Whether nothing that others may still do depends on the next access of a thread, or it on them.
    fn is_alone(&mut self, node: Node, number: usize) -> Result<bool, Halt> {
        let thread = self.thread(node, number);
        let accesses = self.local.stand(number, &thread)? == Stand::Access;
        Ok(self.puts_first
            && accesses
            && thread.promises.is_empty()
            && !self.can_be_late(node, number)?)
    }

    /// All that thread `number` can do next.
    pub(crate) fn moves(&mut self, node: Node, number: usize) -> Result<Vec<Move>, Halt> {
        let (thread, memory) = (self.thread(node, number), self.memories.get(node.memory));
        let mut all = Vec::new();
        if self.local.stand(number, &thread)? != Stand::Access
            || self.local.spins(number, &thread, &memory)?
        {
            return Ok(all);
        }
        for next in self.local.visible(number, &thread, &memory)? {
            all.push(Move {
                thread: next.thread,
                message: next.added.map(|it| it.message),
                event: next.event,
                promise: false,
            });
        }
        if self.model == Model::Rvwmo
            && self.is_noticed(node, number)
            && self.can_be_late(node, number)?
        {
            for &message in &*self.promises(number, node)? {
                let mut promising = (*thread).clone();
                promising.promises.push(memory.end() + 1);
                promising.floor = memory.end() + 1;
                all.push(Move {
                    thread: promising,
                    message: Some(message),
                    event: None,
                    promise: true,
                });
            }
        }
        Ok(all)
    }

    fn others(&self, node: Node, number: usize) -> impl Iterator<Item = (usize, u64)> {
        let all = (0..self.program.threads.len()).filter(move |&n| n != number);
        all.map(move |n| (n, self.thread(node, n).pc))
    }

    /// Whether it can matter that the next access of a thread stands after what it does later: another thread has yet to
    /// write what a load then reads, or to look for what a write leaves.
    fn can_be_late(&mut self, node: Node, number: usize) -> Result<bool, Halt> {
        let thread = self.thread(node, number);
        let Some((cells, writes)) = self.local.next_cells(number, &thread)? else {
            return Ok(false);
        };
        let future = &*self.local.stepper.future;
        let cells = future.mask(&cells);
        let matters = self.others(node, number).any(|(other, pc)| {
            let ahead = future.of(other, pc);
            cells & if writes { ahead.any } else { ahead.writes } != 0
        });
        Ok(matters && !self.hides(node, number, cells)?)
    }

    /// Whether others cannot come to these cells before the thread lets them.
    fn hides(&mut self, node: Node, number: usize, cells: u128) -> Result<bool, Halt> {
        let waits = self.waits(node)?;
        let threads = self.all_threads(node);
        let future = &*self.local.stepper.future;
        let ahead = threads
            .iter()
            .enumerate()
            .map(|(n, it)| future.of(n, it.pc));
        let now = Now {
            ahead: &ahead.collect::<SmallVec<[Masks; MOST_THREADS]>>(),
            threads: &threads,
            waits: &waits,
            memory: &self.memory(node),
            program: self.program,
        };
        Ok(future.reach.hides(number, cells, &now))
    }

    fn all_threads(&self, node: Node) -> SmallVec<[Rc<Thread>; MOST_THREADS]> {
        let numbers = 0..self.program.threads.len();
        numbers.map(|n| self.thread(node, n)).collect()
    }

    /// What threads wait for.
    fn waits(&mut self, node: Node) -> Result<Waits, Halt> {
        if let Some((of, waits)) = &self.waits
            && *of == node
        {
            return Ok(waits.clone());
        }
        let memory = self.memory(node);
        let threads = self.all_threads(node);
        let mut waits = Waits::new();
        for (number, thread) in threads.iter().enumerate() {
            let written = self.written_by_others(&threads, number);
            waits.push(self.local.awaits(number, thread, &memory, written)?);
        }
        self.waits = Some((node, waits.clone()));
        Ok(waits)
    }

    /// Whether it can matter when a thread's writes become visible: others look at some of them, which may have to stand after
    /// any; or the thread itself may have to read, after one, what others have yet to write.
    fn is_noticed(&self, node: Node, number: usize) -> bool {
        let future = &self.local.stepper.future;
        let own = future.of(number, self.thread(node, number).pc);
        let mut others = self.others(node, number);
        others.any(|(other, pc)| {
            let ahead = future.of(other, pc);
            ahead.any & own.writes != 0 || ahead.writes & own.loads != 0
        })
    }

    /// What a thread can promise; the same thread meets the same memory beside many others.
    fn promises(&mut self, number: usize, node: Node) -> Result<Rc<[Message]>, Halt> {
        let key = (number as u8, node.threads[number], node.memory);
        if let Some(found) = self.promises.get(&key) {
            return Ok(found.clone());
        }
        let (thread, memory) = (self.thread(node, number), self.memories.get(node.memory));
        let found: Rc<[Message]> = self.local.promises(number, &thread, &memory)?.into();
        self.promises.insert(key, found.clone());
        Ok(found)
    }

    /// Whether a thread can fulfil what it has promised.
    pub(crate) fn is_certified(&mut self, number: usize, node: Node) -> Result<bool, Halt> {
        if self.thread(node, number).promises.is_empty() {
            return Ok(true);
        }
        let key = (number as u8, node.threads[number], node.memory);
        if let Some(&found) = self.certified.get(&key) {
            return Ok(found);
        }
        let (thread, memory) = (self.thread(node, number), self.memories.get(node.memory));
        let found = self.local.is_certified(number, &thread, &memory)?;
        self.certified.insert(key, found);
        Ok(found)
    }
}
