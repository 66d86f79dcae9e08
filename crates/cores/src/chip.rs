//! A chip of cores of one kind.

use loiter_hart::{Hart, Nap, Retired};
use loiter_machine::Machine;
use loiter_memory::{Lost, Memory, Told};
use loiter_observe::{Accounts, Change};
use loiter_types::{ContextId, CoreId, Cycle, HartId, PhysAddr};

use crate::{Observer, Shared, fgmt, smt};

/// A chip. What is asked of a kind of core is asked here.
#[derive(Debug)]
pub enum Chip {
    /// In order, fine-grained multithreaded.
    Fgmt(fgmt::Chip),
    /// Out of order, simultaneous multithreaded.
    Smt(smt::Chip),
}

macro_rules! each {
    ($chip:expr, $inner:ident => $body:expr) => {
        match $chip {
            Chip::Fgmt($inner) => $body,
            Chip::Smt($inner) => $body,
        }
    };
}

impl Chip {
    /// Seats `hart` of `machine` in a vacant context, where it continues, or sleeps on, from `now`.
    /// With `spinning` it waits for a lock.
    pub fn attach(
        &mut self,
        hart: &mut Hart,
        machine: &Machine,
        context: ContextId,
        spinning: bool,
        now: Cycle,
    ) {
        each!(self, chip => chip.attach(hart, machine, context, spinning, now));
    }

    /// A cycle in which harts are about to leave: nothing is begun. Returns the next in which the cores
    /// have anything to do by themselves. When it is never, and memory has nothing to deliver either, every
    /// hart can be detached.
    pub fn drain<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> Cycle {
        each!(self, chip => chip.drain(now, shared))
    }

    /// Takes `hart`, whose core has drained, from its context, which is vacant from `now` on. If it slept,
    /// it sleeps on wherever it goes.
    pub fn detach(&mut self, hart: &mut Hart, now: Cycle) {
        each!(self, chip => chip.detach(hart, now));
    }

    /// Time has passed up to `now` of which the cores know nothing: accounts and counters stand still.
    pub fn resume(&mut self, now: Cycle) {
        each!(self, chip => chip.resume(now));
    }

    /// The hart that has its place in `context` has retired an instruction in the reference engine: caches,
    /// translation buffers and predictors are as if it had done so there, as far as that does not depend on
    /// time. Nothing is counted.
    pub fn warm(&mut self, context: ContextId, event: &Retired<'_>, memory: &mut Memory) {
        each!(self, chip => chip.warm(context, event, memory));
    }

    /// A bound of the instructions that can retire in a cycle.
    #[must_use]
    pub fn most_retired_in_a_cycle(&self) -> u64 {
        each!(self, chip => chip.most_retired_in_a_cycle())
    }

    /// The first cycle in which anything may happen in the cores.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Cycle {
        each!(self, chip => chip.next())
    }

    /// Cycle after cycle from `now` on, as long as only the cores have something to do: memory has not
    /// before their next cycle, it lies before `until`, and no timer has changed. At most `most`
    /// cycles. Returns the last.
    pub fn run<O: Observer>(
        &mut self,
        now: Cycle,
        until: Cycle,
        most: u32,
        shared: &mut Shared<'_, O>,
    ) -> Cycle {
        each!(self, chip => chip.run(now, until, most, shared))
    }

    /// Memory tells the cores something. An access that performs, or a store that is acknowledged: the value moves now. A
    /// line that is lost: harts that watch it wake, and loads that have read it are replayed.
    pub fn hear<O: Observer>(&mut self, told: Told, now: Cycle, shared: &mut Shared<'_, O>) {
        match told {
            Told::Performs(response) => each!(self, chip => chip.respond(response, now, shared)),
            // Another core reads it: values stay what they are.
            Told::Lost {
                why: Lost::Read, ..
            } => {}
            Told::Lost { core, line, .. } => each!(self, chip => chip.lost(core, line, shared)),
            // Who was refused asks again by itself.
            Told::Retry(_) => {}
        }
    }

    /// The line that `hart` watches was written by another.
    pub fn watch_lost(&mut self, hart: HartId, now: Cycle) {
        each!(self, chip => chip.watch_lost(hart, now));
    }

    /// Interrupt lines have changed: harts see them, and those that sleep may wake.
    pub fn interrupts_changed<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        each!(self, chip => chip.interrupts_changed(now, shared));
    }

    /// Charges every context up to `now`.
    pub fn close(&mut self, now: Cycle) {
        each!(self, chip => chip.close(now));
    }

    /// The accounts of all contexts as they would be if they were closed at `now`.
    pub fn accounts(&mut self, now: Cycle) -> Vec<Accounts> {
        each!(self, chip => chip.accounts(now))
    }

    /// Every context, with its core and the hart that sits there.
    #[must_use]
    pub fn seats(&self) -> Vec<(CoreId, ContextId, Option<HartId>)> {
        each!(self, chip => chip.seats().collect())
    }

    /// Keeps changes of activity of every context from now on.
    pub fn follow_activities(&mut self) {
        each!(self, chip => chip.follow_activities());
    }

    /// Hands `take` the changes of activity of each context since they were last taken.
    pub fn take_changes(&mut self, mut take: impl FnMut(ContextId, Vec<Change>)) {
        each!(self, chip => chip.take_changes().for_each(|(context, changes)| take(context, changes)));
    }

    /// What every seated context waits for, for the watchdog's message.
    #[must_use]
    pub fn who_waits(&self) -> Vec<(ContextId, HartId, String)> {
        each!(self, chip => chip.who_waits())
    }

    /// How `hart` sleeps, if it does.
    #[must_use]
    pub fn nap(&self, hart: HartId) -> Option<Nap> {
        each!(self, chip => chip.nap(hart))
    }

    /// Whether `hart` stands between two instructions: no access of its next one is in flight.
    #[must_use]
    pub fn stands_between_instructions(&self, hart: HartId) -> bool {
        each!(self, chip => chip.stands_between_instructions(hart))
    }

    /// The byte at `addr` as `hart` would read it, if that is still in its store buffer.
    #[must_use]
    pub fn buffered_byte(&self, hart: HartId, addr: PhysAddr) -> Option<u8> {
        each!(self, chip => chip.buffered_byte(hart, addr))
    }

    /// `hart`, or memory that it may have fetched from, was changed from outside: it fetches anew.
    pub fn changed_from_outside(&mut self, hart: &Hart, now: Cycle) {
        match self {
            Chip::Fgmt(chip) => chip.changed_from_outside(hart.id),
            Chip::Smt(chip) => chip.changed_from_outside(hart, now),
        }
    }
}
