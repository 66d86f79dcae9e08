//! The steps to a state that was found, executed again to say what each did.

use rustc_hash::FxHashMap;

use crate::canon::Moved;
use crate::cells::Parts;
use crate::found::{Failure, Kind, Step};
use crate::memory::{Location, Memory, Time};
use crate::moves::Move;
use crate::replay::Recorder;
use crate::search::Search;
use crate::step::Halt;

/// Which step wrote what memory holds.
#[derive(Default)]
struct Writers {
    /// Of each message.
    messages: Vec<usize>,
    /// Of each cell's base, by address; none, of what was there at the beginning.
    bases: FxHashMap<u64, usize>,
}

impl Writers {
    fn of(&self, cell: Location, time: Time) -> Option<usize> {
        match time {
            0 => self.bases.get(&cell.addr).copied(),
            _ => self.messages.get(time as usize - 1).copied(),
        }
    }

    /// Follows messages to where `moved` says.
    fn follow(&mut self, memory: &Memory, moved: &Moved, cells: impl Fn(Location) -> Parts) {
        let old = std::mem::take(&mut self.messages);
        let left = moved.iter().flatten().copied().max();
        let mut messages = vec![None; left.unwrap_or(0) as usize];
        for (index, &writer) in old.iter().enumerate() {
            match moved[index + 1] {
                Some(time) => {
                    // Of two that are one now, the first.
                    messages[time as usize - 1].get_or_insert(writer);
                }
                None => {
                    for cell in cells(memory.messages[index].location) {
                        self.bases.insert(cell.addr, writer);
                    }
                }
            }
        }
        self.messages = messages.into_iter().flatten().collect();
    }
}

impl Search<'_> {
    /// How the program comes to state `index`.
    pub(crate) fn trace(&mut self, kind: Kind, index: u32) -> Result<Failure, Halt> {
        let mut path = Vec::new();
        let mut at = index;
        while at != 0 {
            let arrival = self.states[at as usize].1;
            path.push(arrival);
            at = arrival.from;
        }
        let mut writers = Writers::default();
        let mut steps = Vec::new();
        let mut recorder = Recorder::new(self.program);
        let mut seen = Vec::new();
        self.first(&mut |number, pc, event| seen.push((number, (pc, event))))?;
        for (number, what) in seen {
            recorder.execute(&mut self.local, number, what, None)?;
        }
        for arrival in path.into_iter().rev() {
            let node = self.states[arrival.from as usize].0;
            let number = usize::from(arrival.thread);
            let memory = self.memory(node);
            let pc = self.thread(node, number).pc;
            let all = self.moves(node, number)?;
            let it = all.into_iter().nth(usize::from(arrival.choice));
            let it = it.expect("the choice that was made before");
            let step = self.note(&mut steps, &mut writers, (number, pc), &it, &memory);
            match &it.message {
                Some(message) if it.promise => recorder.early(message, step),
                _ => recorder.execute(&mut self.local, number, (pc, it.event), Some(step))?,
            }
            let mut extended = (*memory).clone();
            extended.messages.extend(it.message);
            let mut seen = Vec::new();
            let mut see = |pc, event| seen.push((pc, event));
            let (_, moved) = self.after(node, number, &it, &mut see)?;
            for what in seen {
                recorder.execute(&mut self.local, number, what, None)?;
            }
            let cells = &*self.local.stepper.cells;
            writers.follow(&extended, &moved, |location| cells.of(location));
        }
        let node = self.states[index as usize].0;
        if let (Kind::Check, Some(entry)) = (kind, &self.program.check) {
            recorder.add(entry);
            let mut seen = Vec::new();
            self.checks(node, &mut |pc, event| seen.push((pc, event)))?;
            for what in seen {
                recorder.execute(&mut self.local, self.program.threads.len(), what, None)?;
            }
        }
        let stands = self
            .program
            .threads
            .iter()
            .enumerate()
            .map(|(number, entry)| {
                let pc = self.thread(node, number).pc;
                (pc != entry.end).then_some(pc)
            });
        let stands = stands.collect();
        Ok(Failure {
            kind,
            steps,
            stands,
            execution: recorder.finish(self.program),
        })
    }

    /// Adds what a thread does, or completes an early write that it comes to. Returns the number of the step.
    fn note(
        &self,
        steps: &mut Vec<Step>,
        writers: &mut Writers,
        (thread, pc): (usize, u64),
        it: &Move,
        memory: &Memory,
    ) -> usize {
        let first = |location| self.local.stepper.cells.of(location)[0];
        let read = it.event.and_then(|event| event.read);
        let from = it.event.and_then(|event| {
            let (_, time) = event.read?;
            writers.of(first(event.location), time)
        });
        let wrote = it.event.and_then(|event| event.wrote);
        // What only this thread accesses has times, too, and no place in memory.
        let is_there = |time| {
            let written = (1..=memory.end()).contains(&time).then(|| memory.at(time));
            written.map(|message| message.location) == it.event.map(|event| event.location)
        };
        if let Some((_, time)) = wrote.filter(|&(_, time)| it.message.is_none() && is_there(time))
            && let Some(&writer) = writers.messages.get(time as usize - 1)
        {
            let step: &mut Step = &mut steps[writer];
            step.pc = Some(pc);
            step.read = read.map(|(value, _)| value);
            step.from = from;
            return writer;
        }
        let location = it.event.map(|event| event.location);
        let location = location.or(it.message.map(|message| message.location));
        let promised = it
            .message
            .filter(|_| it.promise)
            .map(|message| message.value);
        if it.message.is_some() {
            writers.messages.push(steps.len());
        }
        steps.push(Step {
            thread,
            pc: (!it.promise).then_some(pc),
            location: location.expect("an access or a promise"),
            read: read.map(|(value, _)| value),
            from,
            wrote: wrote.map(|(value, _)| value).or(promised),
            early: it.promise,
        });
        steps.len() - 1
    }
}
