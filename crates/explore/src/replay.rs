//! A failing execution, instruction by instruction, and a place in it that moves forwards and backwards.
//!
//! The search keeps of a state only what can matter. The execution that it finds is executed once more here, with whole
//! registers and all writes: each access reads what it read in the search. That both come to the same instructions and write
//! the same values is asserted.

use loiter_hart::access_width;
use loiter_isa::Inst;

use crate::local::Local;
use crate::memory::{Location, Message};
use crate::program::{Entry, Program};
use crate::step::{Event, Halt, IDLE, Port};
use crate::thread::Thread;

/// The registers of one hart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers {
    /// The address of the next instruction.
    pub pc: u64,
    /// x0 to x31.
    pub x: [u64; 32],
}

/// What happens in one moment: an instruction of one hart, or a write of it that becomes visible early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The hart; that of `check` is the number of harts.
    pub hart: usize,
    /// The instruction; none, of an early write, to which the hart has not come.
    pub inst: Option<Inst>,
    /// The number of the visible access, from 0.
    pub step: Option<usize>,
    pc: (u64, u64),
    /// With its values before and after.
    register: Option<(usize, u64, u64)>,
    write: Option<Write>,
}

/// A write that is seen from its moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Write {
    location: Location,
    value: u64,
    /// Of an early one, the moment in which its own hart comes to it; none, if that is after the end.
    executed: Option<usize>,
    early: bool,
}

/// A failing execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    program: Program,
    begin: Vec<Registers>,
    moments: Vec<Moment>,
}

/// Executes what was found once more.
pub(crate) struct Recorder {
    harts: Vec<Thread>,
    begin: Vec<Registers>,
    moments: Vec<Moment>,
    /// Moments of early writes, by their steps.
    early: Vec<(usize, usize)>,
}

fn registers(thread: &Thread) -> Registers {
    Registers {
        pc: thread.pc,
        x: thread.regs,
    }
}

impl Recorder {
    /// With all harts at their beginning.
    pub(crate) fn new(program: &Program) -> Self {
        let mut recorder = Self {
            harts: Vec::new(),
            begin: Vec::new(),
            moments: Vec::new(),
            early: Vec::new(),
        };
        program.threads.iter().for_each(|entry| recorder.add(entry));
        recorder
    }

    /// One more hart.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let thread = Thread::new(entry.pc, &entry.registers);
        self.begin.push(registers(&thread));
        self.harts.push(thread);
    }

    /// A write of `message` becomes visible before its hart comes to it.
    pub(crate) fn early(&mut self, message: &Message, step: usize) {
        let hart = usize::from(message.thread);
        let pc = self.harts[hart].pc;
        self.early.push((step, self.moments.len()));
        self.moments.push(Moment {
            hart,
            inst: None,
            step: Some(step),
            pc: (pc, pc),
            register: None,
            write: Some(Write {
                location: message.location,
                value: message.value,
                executed: None,
                early: true,
            }),
        });
    }

    /// The hart executes the instruction at `pc`, which is a visible access if it has a step.
    pub(crate) fn execute(
        &mut self,
        local: &mut Local<'_>,
        hart: usize,
        (pc, event): (u64, Option<Event>),
        step: Option<usize>,
    ) -> Result<(), Halt> {
        let thread = &mut self.harts[hart];
        assert_eq!(thread.pc, pc, "hart {hart} is where it was in the search");
        let inst = local.inst(hart, pc)?;
        let before = registers(thread);
        let accesses = inst.op.class().accesses();
        let wrote = event.and_then(|event| event.wrote.map(|(value, _)| (event.location, value)));
        if accesses && access_width(inst.op).is_some() {
            let read = event.and_then(|event| event.read);
            let port = Port {
                load: read.map_or(0, |(value, _)| value),
                reserved: wrote.is_some(),
                ..IDLE
            };
            let stored = local.stepper.run(hart, thread, &inst, port)?;
            let stored = stored.zip(event).map(|(value, event)| {
                let location = event.location;
                (location, location.truncate(value))
            });
            assert_eq!(
                stored, wrote,
                "hart {hart} writes what it wrote in the search"
            );
        } else {
            local.stepper.advance(hart, thread, &inst)?;
        }
        let moment = self.moments.len();
        let comes_to = step.and_then(|step| self.early.iter().position(|&(s, _)| s == step));
        if let Some(at) = comes_to {
            let (_, early) = self.early.swap_remove(at);
            if let Some(write) = &mut self.moments[early].write {
                assert_eq!(
                    Some((write.location, write.value)),
                    wrote,
                    "the early write"
                );
                write.executed = Some(moment);
            }
        }
        let changed = (0..32).find(|&n| before.x[n] != thread.regs[n]);
        self.moments.push(Moment {
            hart,
            inst: Some(inst),
            step,
            pc: (pc, thread.pc),
            register: changed.map(|n| (n, before.x[n], thread.regs[n])),
            write: wrote
                .filter(|_| comes_to.is_none())
                .map(|(location, value)| Write {
                    location,
                    value,
                    executed: None,
                    early: false,
                }),
        });
        Ok(())
    }

    /// What was executed, in the memory that `program` begins with.
    pub(crate) fn finish(self, program: &Program) -> Execution {
        Execution {
            program: program.clone(),
            begin: self.begin,
            moments: self.moments,
        }
    }
}

/// A place in an execution: between two moments.
#[derive(Clone, Debug)]
pub struct Replay {
    execution: Execution,
    harts: Vec<Registers>,
    at: usize,
}

impl Replay {
    /// Stands at the beginning.
    #[must_use]
    pub fn new(execution: Execution) -> Self {
        Self {
            harts: execution.begin.clone(),
            execution,
            at: 0,
        }
    }

    /// One for each hart, then that of `check`, if it was called.
    #[must_use]
    pub fn harts(&self) -> &[Registers] {
        &self.harts
    }

    /// How many moments are over.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// How many moments there are.
    #[must_use]
    pub fn moments(&self) -> usize {
        self.execution.moments.len()
    }

    /// What comes next; none, at the end.
    #[must_use]
    pub fn next(&self) -> Option<&Moment> {
        self.execution.moments.get(self.at)
    }

    /// What was last; none, at the beginning.
    #[must_use]
    pub fn last(&self) -> Option<&Moment> {
        self.execution.moments[..self.at].last()
    }

    /// Whether `hart` does nothing more.
    #[must_use]
    pub fn is_over(&self, hart: usize) -> bool {
        let mut left = self.execution.moments[self.at..].iter();
        !left.any(|moment| moment.hart == hart)
    }

    /// The instruction at which `hart` stands; none, where there is no code.
    #[must_use]
    pub fn instruction(&self, hart: usize) -> Option<Inst> {
        self.execution.program.fetch(self.harts[hart].pc)
    }

    /// Lets the next moment pass. Whether there was one.
    pub fn forward(&mut self) -> bool {
        let Some(moment) = self.execution.moments.get(self.at) else {
            return false;
        };
        let hart = &mut self.harts[moment.hart];
        hart.pc = moment.pc.1;
        if let Some((n, _, after)) = moment.register {
            hart.x[n] = after;
        }
        self.at += 1;
        true
    }

    /// Takes the last moment back. Whether there was one.
    pub fn back(&mut self) -> bool {
        let Some(moment) = self.execution.moments[..self.at].last() else {
            return false;
        };
        let hart = &mut self.harts[moment.hart];
        hart.pc = moment.pc.0;
        if let Some((n, before, _)) = moment.register {
            hart.x[n] = before;
        }
        self.at -= 1;
        true
    }

    /// Writes of `hart` that others see now, and to which it has not come: the numbers of their steps, from 0.
    pub fn early(&self, hart: usize) -> impl Iterator<Item = usize> + '_ {
        let moments = self.execution.moments[..self.at].iter();
        let ahead = moments.filter(move |moment| {
            let write = moment.write.as_ref();
            moment.hart == hart && write.is_some_and(|write| self.is_ahead(write))
        });
        ahead.filter_map(|moment| moment.step)
    }

    fn is_ahead(&self, write: &Write) -> bool {
        write.early && write.executed.is_none_or(|moment| moment >= self.at)
    }

    /// Reads memory from `addr` on as `hart` sees it: of each byte the newest value that a load of it could return now.
    /// Returns how many bytes belong to the program.
    ///
    /// The hart does not see what follows an early write of its own to which it has not come: a load that did could not come
    /// before that write.
    pub fn read(&self, hart: usize, addr: u64, bytes: &mut [u8]) -> usize {
        let place = |at: usize| Location {
            addr: addr.wrapping_add(at as u64),
            bytes: 1,
        };
        let all =
            (0..bytes.len()).take_while(|&at| self.execution.program.allows(place(at), false));
        let count = all.count();
        let mut ahead = vec![false; count];
        for (at, byte) in bytes[..count].iter_mut().enumerate() {
            *byte = self.execution.program.initial(place(at)) as u8;
        }
        for moment in &self.execution.moments[..self.at] {
            let Some(write) = &moment.write else { continue };
            for part in write.location.split() {
                let at = part.addr.wrapping_sub(addr);
                if at >= count as u64 || ahead[at as usize] {
                    continue;
                }
                if moment.hart == hart && self.is_ahead(write) {
                    ahead[at as usize] = true;
                } else {
                    bytes[at as usize] = write.location.part(write.value, part) as u8;
                }
            }
        }
        count
    }
}
