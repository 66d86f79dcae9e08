//! What a core of any kind can do: the one list of what a new kind has to bring.

use loiter_hart::{Hart, Nap, Retired};
use loiter_machine::Machine;
use loiter_memory::{Memory, Response};
use loiter_observe::Accounts;
use loiter_types::{ContextId, CoreId, CounterVisitor, Cycle, HartId, PhysAddr, StateVisitor};

use crate::fgmt::Group;
use crate::smt::Histogram;
use crate::{Observer, Shared};

/// A context of a core, and the hart that sits there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The core.
    pub core: CoreId,
    /// The context.
    pub context: ContextId,
    /// Who sits there.
    pub hart: Option<HartId>,
}

/// A core. Contexts are numbered from 0 within it.
pub(crate) trait TimedCore {
    /// Number of contexts.
    fn contexts(&self) -> usize;

    /// Context `c`, and who sits there.
    fn seat(&self, c: usize) -> Seat;

    /// Seats `hart` of `machine` in vacant context `c`, where it continues, or sleeps on, from `now`. With `spinning` it
    /// waits for a lock.
    fn attach(&mut self, c: usize, hart: &mut Hart, machine: &Machine, spinning: bool, now: Cycle);

    /// The hart of context `c` is about to leave it while others stay: nothing more is begun for it.
    fn leave(&mut self, c: usize, now: Cycle);

    /// Whether the hart of context `c`, which is about to leave, can be detached: it stands between two instructions, and
    /// nothing of it is in flight.
    fn has_left(&self, c: usize) -> bool;

    /// Takes `hart`, which has drained, from context `c`, which is vacant from `now` on. If it slept, it sleeps on
    /// wherever it goes.
    fn detach(&mut self, c: usize, hart: &mut Hart, now: Cycle);

    /// Time has passed up to `now` of which the core knows nothing: accounts and counters stand still.
    fn resume(&mut self, now: Cycle);

    /// The hart of context `c` has retired an instruction in the reference engine: caches, translation buffers and
    /// predictors are as if it had done so here. Nothing is counted.
    fn warm(&mut self, c: usize, event: &Retired<'_>, memory: &mut Memory);

    /// A bound of the instructions that can retire in a cycle.
    fn most_retired_in_a_cycle(&self) -> u64;

    /// Something from outside has changed context `c` at `now`. Returns the first cycle in which anything may happen in
    /// it.
    fn roused(&mut self, c: usize, now: Cycle) -> Cycle;

    /// Whether nothing happens at `now`, as far as the core can tell without going through the cycle.
    fn is_idle(&self, now: Cycle) -> bool;

    /// Cycle after cycle from `now` on, as long as only this core has something to do: its next cycle lies before
    /// `until`, memory has nothing before it, and nothing asks to stop. At most `most` cycles. Returns the last, and the
    /// first in which anything may happen again.
    fn run<O: Observer>(
        &mut self,
        now: Cycle,
        until: Cycle,
        most: u32,
        groups: &mut [Group],
        shared: &mut Shared<'_, O>,
    ) -> (Cycle, Cycle);

    /// The cycle `now`, whatever others do. Returns the first in which anything may happen again.
    fn run_one<O: Observer>(
        &mut self,
        now: Cycle,
        groups: &mut [Group],
        shared: &mut Shared<'_, O>,
    ) -> Cycle {
        self.run(now, now, 1, groups, shared).1
    }

    /// Whether stores have performed of which other cores have not heard, and have to: they may have read the line.
    fn has_performed(&self) -> bool {
        false
    }

    /// When its caches lose something by themselves, whoever sits there.
    fn loses_at(&self) -> Cycle;

    /// The core has nothing of what it has in translation buffers and predictors, for the hart of context `c`.
    fn is_cold(&mut self, c: usize);

    /// From `now` on the core has nothing of what it has in caches, translation buffers and predictors, for a hart that
    /// has come into context `c`.
    fn is_to_be_cold(&mut self, c: usize, now: Cycle);

    /// A cycle in which harts are about to leave: nothing is begun. Returns the next in which the core has anything to do
    /// by itself. When it is never, and memory has nothing to deliver either, every hart can be detached.
    fn drain<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> Cycle;

    /// An access of context `c` performs, or a store is acknowledged: the value moves now. Returns whether that may change when
    /// anything happens in the core.
    fn respond<O: Observer>(
        &mut self,
        c: usize,
        response: Response,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool;

    /// The core has lost `line`: harts that watch it wake, and loads that have read it are replayed.
    fn lost<O: Observer>(&mut self, line: u64, shared: &mut Shared<'_, O>);

    /// A miss register of the core is free: whoever was refused one asks again.
    fn retry(&mut self, now: Cycle);

    /// The line that the hart of context `c` watches was written by another. Returns whether that changes anything.
    fn watch_lost(&mut self, c: usize, now: Cycle) -> bool;

    /// Interrupt lines of the hart of context `c` have changed. Returns whether anything may happen earlier.
    fn interrupts_changed<O: Observer>(
        &mut self,
        c: usize,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool;

    /// Charges every context up to `now`.
    fn close(&mut self, now: Cycle);

    /// Appends the accounts of all contexts as they would be if they were closed at `now`.
    fn accounts(&mut self, now: Cycle, out: &mut Vec<Accounts>);

    /// The accounts of context `c`.
    fn accounts_of(&mut self, c: usize) -> &mut Accounts;

    /// Shows `visitor` all counters as they are at `now`.
    fn visit_counters(&self, now: Cycle, visitor: &mut impl CounterVisitor);

    /// How its cycles are distributed.
    fn histograms(&self) -> Vec<Histogram<'_>>;

    /// What context `c` waits for, for the watchdog's message.
    fn who_waits(&self, c: usize) -> String;

    /// How the hart of context `c` sleeps, and since when, if it does.
    fn nap(&self, c: usize) -> Option<(Nap, Cycle)>;

    /// Whether the hart of context `c` stands between two instructions: no access of its next one is in flight.
    fn stands_between_instructions(&self, c: usize) -> bool;

    /// The byte at `addr` as the hart of context `c` would read it, if that is still in its store buffer.
    fn buffered_byte(&self, c: usize, addr: PhysAddr) -> Option<u8>;

    /// How often it has done more than read its first level, but for what memory counts.
    fn changes(&self) -> u64;

    /// A bound of the instructions of a context that have been fetched and not retired.
    fn most_in_flight(&self) -> u64;

    /// A few bits of its state at the end of cycle `now`, the same ones when the state is the same.
    fn looks_like(&self, now: Cycle, harts: &[Hart]) -> u64;

    /// Shows `visitor` the core, the harts of its contexts and its first-level caches, as far as they decide what follows
    /// while its contexts only spin.
    fn visit_state(
        &mut self,
        harts: &mut [Hart],
        memory: &mut Memory,
        visitor: &mut impl StateVisitor,
    );

    /// `hart` of context `c`, or memory that it may have fetched from, was changed from outside: it fetches anew.
    fn changed_from_outside(&mut self, c: usize, hart: &Hart, now: Cycle);
}
