//! What can come of one access.
//!
//! The rules are those of the paper's figure "thread-local steps", in this order for each access:
//!
//! | access | may not stand or read before              | afterwards                                              |
//! |--------|-------------------------------------------|---------------------------------------------------------|
//! | load   | its address, `before_reads`, release      | its register, `reads`, acquire: `before_*`              |
//! | store  | its address and data, `before_writes`, `control`, release | `writes`, own copy                      |
//! | amo    | what holds for both                       | both; its read is of the write just before it           |
//!
//! Of an access of several cells (`cells.rs`) each has its own coherence and its own last own write. The access has one
//! position in memory; a load has each cell from the last write to it before that position, or from an own one that comes
//! later there and is before it in the program (the load value axiom, by bytes as the manual has it).
//!
//! What only one thread accesses has no place in memory, and stands where it could at the earliest.

use loiter_hart::access_width;
use loiter_isa::{Class, Inst};

use crate::cells::Covered;
use crate::fault::Fault;
use crate::future::Fact;
use crate::memory::{Location, Memory, Message, Time};
use crate::model::{Model, Order};
use crate::origin::{Origin, UNKNOWN, either};
use crate::step::{Added, Event, Halt, IDLE, Next, Port, Stepper, writes};
use crate::thread::{Forward, Reservation, Thread};

/// Where the access of `inst` goes, if it may.
fn place(thread: &Thread, inst: &Inst) -> Location {
    let base = thread.regs[usize::from(inst.rs1)];
    let width = access_width(inst.op).expect("an access has a width");
    Location::new(base.wrapping_add(inst.data_offset()), width)
}

impl Stepper<'_> {
    /// Where the access of `inst` goes.
    pub(crate) fn location(
        &self,
        number: usize,
        thread: &Thread,
        inst: &Inst,
    ) -> Result<Location, Fault> {
        let location = place(thread, inst);
        let Location { addr, bytes } = location;
        if !addr.is_multiple_of(bytes.into()) {
            return Err(Fault::Misaligned(number, thread.pc, addr, bytes));
        }
        if !self.program.allows(location, writes(inst)) {
            return Err(Fault::Outside(number, thread.pc, addr, bytes));
        }
        Ok(location)
    }

    pub(crate) fn access(
        &mut self,
        number: usize,
        thread: &Thread,
        inst: &Inst,
    ) -> Result<(Location, Covered), Halt> {
        let location = place(thread, inst);
        let fact = Fact {
            thread: number as u8,
            pc: thread.pc,
            location,
            loads: inst.op.class() == Class::Load || inst.op.only_reads(),
            writes: writes(inst),
            origin: thread.origin(inst.rs1),
        };
        if let Some(&covered) = self.met.get(&fact) {
            return Ok((location, covered));
        }
        let location = self.location(number, thread, inst)?;
        if number == self.program.threads.len() {
            return Ok((location, Covered::bytes(location)));
        }
        let is_new = self.future.learn(fact);
        let covered = self.cells.access(fact.thread, location, fact.writes)?;
        self.stale |= is_new && covered.shared;
        self.met.insert(fact, covered);
        Ok((location, covered))
    }

    /// Learns of a write whose value has the origin `of`.
    fn note(&mut self, message: &Message, covered: &Covered, of: Origin) {
        if !covered.shared {
            return;
        }
        for &cell in covered.cells() {
            let value = message.location.part(message.value, cell);
            let what = self.future.origins.of(cell, value);
            self.stale |= self.future.reach.learn(message.thread, what, of);
        }
    }

    /// What every access of this order follows.
    fn earlier(thread: &Thread, order: Order) -> Time {
        let mut view = 0;
        if order.release {
            view = thread.reads.max(thread.writes);
        }
        if order.consistent {
            view = view.max(thread.consistent);
        }
        view
    }

    /// What follows an access of this order that was at `view`.
    fn performed(thread: &mut Thread, order: Order, view: Time) {
        if order.acquire {
            thread.before_reads = thread.before_reads.max(view);
            thread.before_writes = thread.before_writes.max(view);
        }
        if order.consistent {
            thread.consistent = thread.consistent.max(view);
        }
    }

    /// What a cell that only this thread writes to holds.
    pub(crate) fn own_value(&self, thread: &Thread, cell: Location) -> u64 {
        thread
            .own(cell)
            .unwrap_or_else(|| self.program.initial(cell))
    }

    pub(crate) fn load(
        &mut self,
        number: usize,
        thread: &Thread,
        inst: &Inst,
        memory: &Memory,
    ) -> Result<Vec<Next>, Halt> {
        let (location, covered) = self.access(number, thread, inst)?;
        let order = Order::of(self.model, inst);
        let address = thread.view(inst.rs1);
        let mut before = address
            .max(thread.before_reads)
            .max(Self::earlier(thread, order));
        if self.model == Model::Sc {
            // An execution that reads something older is one in which this load came earlier.
            before = memory.end();
        }
        let readable = if self.late == 0 {
            self.readable(thread, memory, location, &covered, before)
        } else {
            vec![Readable {
                value: 0,
                view: self.late,
                position: memory.end(),
                sources: vec![Source::Memory(self.late); covered.cells().len()],
                read: None,
            }]
        };
        let mut all = Vec::new();
        for found in readable {
            if covered.shared && found.position < thread.floor {
                continue;
            }
            let port = Port {
                load: found.value,
                ..IDLE
            };
            let mut after = thread.clone();
            self.run(number, &mut after, inst, port)?;
            let view = found.view;
            after.set_view(inst.rd, view);
            let origin = found
                .read
                .map(|(cell, value)| self.future.origins.of(cell, value));
            let own = covered.cells().iter().map(|&cell| thread.own_origin(cell));
            let own = own.fold(UNKNOWN, either);
            let origin = origin.unwrap_or(either(own, thread.origin(inst.rs1)));
            after.set_origin(inst.rd, origin);
            for (&cell, &source) in covered.cells().iter().zip(&found.sources) {
                let known = after.known_mut(cell);
                known.coherence = known.coherence.max(view);
                known.forward = known
                    .forward
                    .filter(|own| source == Source::Forward(own.time));
            }
            after.reads = after.reads.max(view);
            after.control = after.control.max(address);
            after.floor = 0;
            Self::performed(&mut after, order, view);
            if inst.op.class() == Class::Atomic {
                let time = found.position;
                after.reservation = Some(Reservation { location, time });
            }
            let read = Some((found.value, found.position));
            all.push(Next {
                thread: after,
                added: None,
                event: Some(Event {
                    location,
                    read,
                    wrote: None,
                }),
            });
        }
        Ok(all)
    }

    /// What a load that stands at `before` or later can read, each with the earliest position at which it does.
    fn readable(
        &self,
        thread: &Thread,
        memory: &Memory,
        location: Location,
        covered: &Covered,
        before: Time,
    ) -> Vec<Readable> {
        let mut all: Vec<Readable> = Vec::new();
        let later = covered.shared.then(|| memory.later(location, before));
        'positions: for position in [before].into_iter().chain(later.into_iter().flatten()) {
            let mut found = Readable {
                value: 0,
                view: before,
                position: 0,
                sources: Vec::with_capacity(1),
                read: None,
            };
            for &cell in covered.cells() {
                let known = thread.known(cell);
                let own = known.and_then(|known| known.forward);
                let own = own.filter(|own| own.time > position);
                let (value, source) = if !covered.shared {
                    let view = own.map_or(0, |own| if own.atomic { own.time } else { own.view });
                    found.view = found.view.max(view);
                    let source = own.map_or(Source::Memory(0), |own| Source::Forward(own.time));
                    (self.own_value(thread, cell), source)
                } else if let Some(own) = own.filter(|own| !own.atomic) {
                    found.view = found.view.max(own.view);
                    let time = memory.last(cell, own.time);
                    found.position = found.position.max(time);
                    (
                        memory.value(self.program, cell, time),
                        Source::Forward(own.time),
                    )
                } else {
                    let time = memory.last(cell, position);
                    // To read an own promise is to make it unfulfillable.
                    if thread.promises.contains(&time)
                        || time < memory.last(cell, thread.coherence(cell))
                    {
                        continue 'positions;
                    }
                    found.view = found.view.max(memory.written(cell, time));
                    found.position = found.position.max(time);
                    let value = memory.value(self.program, cell, time);
                    if value != 0 || found.read.is_none() {
                        found.read = Some((cell, value));
                    }
                    (value, Source::Memory(time))
                };
                found.value |= location.whole(value, cell);
                found.sources.push(source);
            }
            if all.last().is_none_or(|last| last.sources != found.sources) {
                all.push(found);
            }
        }
        all
    }

    /// The times at which a write of `value` that has to stand after `bound` can: that of a promise, and the end.
    fn places<'m>(
        thread: &'m Thread,
        memory: &'m Memory,
        bound: Time,
    ) -> impl Iterator<Item = Time> + 'm {
        let promised = thread.promises.iter().copied();
        promised
            .filter(move |&time| time > bound.max(thread.floor))
            .chain([memory.end() + 1])
    }

    /// What both stores and atomics stand after.
    fn write_bound(thread: &Thread, inst: &Inst, order: Order, covered: &Covered) -> Time {
        let cells = covered.cells().iter();
        let coherence = cells.map(|&cell| thread.coherence(cell)).max();
        thread
            .view(inst.rs1)
            .max(thread.view(inst.rs2))
            .max(thread.before_writes)
            .max(thread.control)
            .max(Self::earlier(thread, order))
            .max(coherence.unwrap_or(0))
    }

    pub(crate) fn store(
        &mut self,
        number: usize,
        thread: &Thread,
        inst: &Inst,
        memory: &Memory,
    ) -> Result<Vec<Next>, Halt> {
        let (location, covered) = self.access(number, thread, inst)?;
        let order = Order::of(self.model, inst);
        let (address, data) = (thread.view(inst.rs1), thread.view(inst.rs2));
        let bound = Self::write_bound(thread, inst, order, &covered);
        let conditional = inst.op.class() == Class::Atomic;
        let mut read = 0;
        if conditional {
            match thread.reservation {
                // That it stands after its `lr` is coherence.
                Some(kept) if kept.location == location => read = kept.time,
                _ => return Ok(Vec::new()),
            }
        }
        let port = Port {
            reserved: true,
            ..IDLE
        };
        let mut run = thread.clone();
        let stored = self.run(number, &mut run, inst, port)?;
        let message = Message {
            location,
            value: location.truncate(stored.expect("a store stores")),
            thread: number as u8,
        };
        self.note(&message, &covered, thread.origin(inst.rs2));
        let mut all = Vec::new();
        let forward = |time| Forward {
            time,
            view: address.max(data),
            atomic: conditional,
        };
        let finish = |mut after: Thread, time| {
            if conditional {
                after.set_view(inst.rd, time);
                after.set_origin(inst.rd, UNKNOWN);
                after.reservation = None;
            }
            after.control = after.control.max(address);
            after
        };
        if !covered.shared {
            let mut after = finish(run, bound);
            for &cell in covered.cells() {
                after.set_own_origin(cell, thread.origin(inst.rs2));
            }
            all.push(Self::wrote(
                after,
                order,
                memory,
                &covered,
                message,
                bound,
                forward(bound),
                None,
            ));
            return Ok(all);
        }
        for time in Self::places(thread, memory, bound) {
            if time <= memory.end() && *memory.at(time) != message {
                continue;
            }
            // No other thread's write comes between what `lr` read and this one.
            let between = |t: Time| t < time && memory.at(t).thread != message.thread;
            if conditional && memory.later(location, read).any(between) {
                continue;
            }
            let after = finish(run.clone(), time);
            all.push(Self::wrote(
                after,
                order,
                memory,
                &covered,
                message,
                bound,
                forward(time),
                None,
            ));
        }
        Ok(all)
    }

    pub(crate) fn failed_sc(
        &mut self,
        number: usize,
        thread: &Thread,
        inst: &Inst,
    ) -> Result<Next, Halt> {
        let mut after = thread.clone();
        self.run(number, &mut after, inst, IDLE)?;
        after.set_view(inst.rd, 0);
        after.set_origin(inst.rd, UNKNOWN);
        after.reservation = None;
        let location = self.location(number, thread, inst)?;
        Ok(Next {
            thread: after,
            added: None,
            event: Some(Event {
                location,
                read: None,
                wrote: None,
            }),
        })
    }

    /// One access that both reads and writes: the read is of the last write before.
    pub(crate) fn amo(
        &mut self,
        number: usize,
        thread: &Thread,
        inst: &Inst,
        memory: &Memory,
    ) -> Result<Vec<Next>, Halt> {
        let (location, covered) = self.access(number, thread, inst)?;
        let order = Order::of(self.model, inst);
        let address = thread.view(inst.rs1);
        let bound = Self::write_bound(thread, inst, order, &covered).max(thread.before_reads);
        let places: Vec<Time> = if covered.shared {
            Self::places(thread, memory, bound).collect()
        } else {
            vec![bound]
        };
        let mut all = Vec::new();
        for time in places {
            let last = |cell| match covered.shared {
                true => memory.last(cell, time - 1),
                false => 0,
            };
            let mut cells = covered.cells().iter();
            if cells
                .clone()
                .any(|&cell| thread.promises.contains(&last(cell)))
            {
                continue;
            }
            let read = cells.clone().map(|&cell| last(cell)).max().unwrap_or(0);
            let load = cells.by_ref().fold(0, |value, &cell| {
                let part = match covered.shared {
                    true => memory.value(self.program, cell, last(cell)),
                    false => self.own_value(thread, cell),
                };
                value | location.whole(part, cell)
            });
            let mut origin = thread.origin(inst.rs1);
            for &cell in covered.cells() {
                if covered.shared {
                    let value = memory.value(self.program, cell, last(cell));
                    origin = self.future.origins.of(cell, value);
                } else {
                    origin = either(thread.own_origin(cell), origin);
                }
            }
            let mut after = thread.clone();
            let stored = self.run(number, &mut after, inst, Port { load, ..IDLE })?;
            let message = Message {
                location,
                value: location.truncate(stored.expect("an atomic stores")),
                thread: number as u8,
            };
            self.note(&message, &covered, either(thread.origin(inst.rs2), origin));
            if covered.shared && time <= memory.end() && *memory.at(time) != message {
                continue;
            }
            if !covered.shared {
                for &cell in covered.cells() {
                    after.set_own_origin(cell, either(origin, thread.origin(inst.rs2)));
                }
            }
            after.set_view(inst.rd, time);
            after.set_origin(inst.rd, origin);
            after.reads = after.reads.max(time);
            after.control = after.control.max(address);
            let forward = Forward {
                time,
                view: time,
                atomic: true,
            };
            let read = Some((load, read));
            all.push(Self::wrote(
                after, order, memory, &covered, message, bound, forward, read,
            ));
        }
        Ok(all)
    }

    /// The write `message` of `after` stands at the time of `forward`.
    #[expect(clippy::too_many_arguments, reason = "all that a write is made of")]
    fn wrote(
        mut after: Thread,
        order: Order,
        memory: &Memory,
        covered: &Covered,
        message: Message,
        bound: Time,
        forward: Forward,
        read: Option<(u64, Time)>,
    ) -> Next {
        let time = forward.time;
        after.floor = 0;
        for &cell in covered.cells() {
            let known = after.known_mut(cell);
            known.coherence = known.coherence.max(time);
            known.forward = Some(forward);
            if !covered.shared {
                let value = message.location.part(message.value, cell);
                after.set_own(cell, value);
            }
        }
        after.writes = after.writes.max(time);
        Self::performed(&mut after, order, time);
        if covered.shared {
            after.promises.retain(|promise| *promise != time);
        }
        let added = (covered.shared && time > memory.end()).then_some(Added { message, bound });
        Next {
            thread: after,
            added,
            event: Some(Event {
                location: message.location,
                read,
                wrote: Some((message.value, time)),
            }),
        }
    }
}

/// One thing that a load can read.
struct Readable {
    value: u64,
    /// What follows from having read it.
    view: Time,
    /// The time of the last message that it is of.
    position: Time,
    /// Of each cell.
    sources: Vec<Source>,
    /// One of the cells that it has from memory, and what it has from there.
    read: Option<(Location, u64)>,
}

/// Where a load has a cell from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Memory(Time),
    /// An own write that others may not see yet.
    Forward(Time),
}
