//! The cores of a system, of one kind or of several: who sits where, and what is read from outside.

mod any;
mod due;
mod run;
mod skip;

use loiter_hart::{Hart, HartState, Nap, Retired};
use loiter_machine::Machine;
use loiter_memory::{Lost, Memory, Told};
use loiter_observe::{Accounts, Change};
use loiter_types::{ContextId, CoreId, CounterVisitor, Cycle, HartId, PhysAddr};
use serde::{Deserialize, Serialize};

pub use any::CoreParams;
pub(crate) use run::DELIVERY_CYCLES;
pub use run::Ran;
pub use skip::Skipping;

use crate::fgmt::Group;
use crate::model::{Seat, TimedCore};
use crate::smt::Histogram;
use crate::{Observer, Shared};
use any::{AnyCore, each};
use due::Schedule;
use skip::Skips;

/// So many cores with the same parameters.
#[derive(Clone, Debug)]
pub struct CoreGroup {
    /// Parameters of each.
    pub params: CoreParams,
    /// How many.
    pub cores: usize,
}

/// The cores of a system.
#[derive(Debug, Deserialize, Serialize)]
pub struct Cores {
    cores: Vec<AnyCore>,
    due: Schedule,
    /// What the cores of each group have in common.
    groups: Vec<Group>,
    /// Core, and context within it, of each context of the system.
    contexts: Vec<(usize, usize)>,
    /// The context of each hart that sits in one.
    seats: Vec<Option<ContextId>>,
    /// Results are the same whatever is skipped, so that this is no state.
    #[serde(skip)]
    skips: Skips,
}

impl Cores {
    /// Cores with vacant contexts before `memory`, at cycle `now`. Contexts are numbered from core to core.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub fn new(
        groups: &[CoreGroup],
        memory: &Memory,
        now: Cycle,
    ) -> Result<Self, (&'static str, String)> {
        let (mut cores, mut contexts, mut group_of) = (Vec::new(), Vec::new(), Vec::new());
        for (
            group,
            CoreGroup {
                params,
                cores: count,
            },
        ) in groups.iter().enumerate()
        {
            params.check()?;
            for _ in 0..*count {
                let (id, first) = (CoreId::new(cores.len()), ContextId::new(contexts.len()));
                let core = AnyCore::new(params, group, id, first, memory, now)?;
                let count = each!(&core, core => core.contexts());
                contexts.extend((0..count).map(|c| (id.index(), c)));
                cores.push(core);
                group_of.push(group);
            }
        }
        Ok(Self {
            due: Schedule::new(cores.len()),
            skips: Skips::new(group_of),
            groups: groups.iter().map(|group| group.params.group()).collect(),
            seats: Vec::new(),
            cores,
            contexts,
        })
    }

    /// Makes these cores, in which nobody sits, what `saved` are: with all that they have in flight. Between two cycles, no core
    /// is being skipped.
    ///
    /// # Errors
    /// Cores of other kinds, or another number of them.
    pub fn restore(&mut self, saved: Self) -> Result<(), String> {
        let Self {
            cores,
            due,
            groups,
            contexts,
            seats,
            skips: _,
        } = saved;
        if contexts != self.contexts || groups.len() != self.groups.len() {
            return Err(format!(
                "it has {} cores with {} contexts in all, where there are {} with {}",
                cores.len(),
                contexts.len(),
                self.cores.len(),
                self.contexts.len()
            ));
        }
        for (n, (core, saved)) in self.cores.iter_mut().zip(cores).enumerate() {
            if !core.restore(saved) {
                return Err(format!("its core {n} is of another kind"));
            }
        }
        (self.due, self.groups, self.seats) = (due, groups, seats);
        Ok(())
    }

    /// Core, and context within it, of a hart that sits in one.
    #[inline(always)]
    fn seat_of(&self, hart: HartId) -> (usize, usize) {
        let context = self.seats[hart.index()].expect("the hart has a seat");
        self.contexts[context.index()]
    }

    /// Something from outside has changed context `c` of a core.
    #[inline]
    fn roused(&mut self, core: usize, c: usize, now: Cycle) {
        let at = each!(&mut self.cores[core], core => core.roused(c, now));
        self.skips.forget(core, now);
        self.due.no_later(core, at);
    }

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
        if self.seats.len() <= hart.id.index() {
            self.seats.resize(hart.id.index() + 1, None);
        }
        self.seats[hart.id.index()] = Some(context);
        let (core, c) = self.contexts[context.index()];
        hart.csr.set_lines(machine.interrupt_lines(hart.id));
        each!(&mut self.cores[core], core => core.attach(c, hart, machine, spinning, now));
        self.roused(core, c, now);
    }

    /// `hart` is about to leave its context while others stay in theirs: nothing more is begun for it.
    pub fn leave(&mut self, hart: HartId, now: Cycle) {
        let (core, c) = self.seat_of(hart);
        each!(&mut self.cores[core], core => core.leave(c, now));
        self.roused(core, c, now);
    }

    /// Whether `hart`, which is about to leave, can be detached.
    #[must_use]
    pub fn has_left(&self, hart: HartId) -> bool {
        let (core, c) = self.seat_of(hart);
        each!(&self.cores[core], core => core.has_left(c))
    }

    /// Takes `hart`, whose core has drained, from its context, which is vacant from `now` on. If it slept,
    /// it sleeps on wherever it goes.
    pub fn detach(&mut self, hart: &mut Hart, now: Cycle) {
        let (core, c) = self.seat_of(hart.id);
        each!(&mut self.cores[core], core => core.detach(c, hart, now));
        self.seats[hart.id.index()] = None;
        self.skips.forget(core, now);
        let siblings = self.seats().filter(|seat| seat.core.index() == core);
        if siblings.filter(|seat| seat.hart.is_some()).count() == 0 {
            let at = each!(&self.cores[core], core => core.loses_at());
            self.due.set(core, at);
        }
    }

    /// The translation buffers and predictors of the core of `context` are empty.
    pub fn is_cold(&mut self, context: ContextId) {
        let (core, c) = self.contexts[context.index()];
        each!(&mut self.cores[core], core => core.is_cold(c));
    }

    /// The core to which `hart` has just moved has nothing of what it had in caches, translation buffers and predictors.
    pub fn is_to_be_cold(&mut self, hart: HartId, now: Cycle) {
        let (core, c) = self.seat_of(hart);
        each!(&mut self.cores[core], core => core.is_to_be_cold(c, now));
        self.roused(core, c, now);
    }

    /// Time has passed up to `now` of which the cores know nothing: accounts and counters stand still.
    pub fn resume(&mut self, now: Cycle) {
        for (n, core) in self.cores.iter_mut().enumerate() {
            each!(core, core => core.resume(now));
            self.skips.forget(n, now);
        }
    }

    /// The hart that has its place in `context` has retired an instruction in the reference engine: caches,
    /// translation buffers and predictors are as if it had done so there, as far as that does not depend on
    /// time. Nothing is counted.
    pub fn warm(&mut self, context: ContextId, event: &Retired<'_>, memory: &mut Memory) {
        let (core, c) = self.contexts[context.index()];
        each!(&mut self.cores[core], core => core.warm(c, event, memory));
    }

    /// A bound of the instructions that can retire in a cycle.
    #[must_use]
    pub fn most_retired_in_a_cycle(&self) -> u64 {
        let cores = self.cores.iter();
        cores
            .map(|core| each!(core, core => core.most_retired_in_a_cycle()))
            .sum()
    }

    /// Memory tells the cores something. An access that performs, or a store that is acknowledged: the value moves now. A
    /// line that is lost: harts that watch it wake, and loads that have read it are replayed.
    fn hear<O: Observer>(&mut self, told: Told, now: Cycle, shared: &mut Shared<'_, O>) {
        match told {
            Told::Performs(response) => {
                let (core, c) = self.contexts[response.request.context.index()];
                debug_assert_eq!(core, response.request.core.index());
                if self.skip() {
                    self.see_access(&response.request, now, shared);
                }
                let (changes, performed) = each!(&mut self.cores[core], core => {
                    (core.respond(c, response, now, shared), core.has_performed())
                });
                if performed {
                    self.tell_of_stores(core);
                }
                if changes {
                    self.roused(core, c, now);
                }
            }
            // Another core reads it: values stay what they are.
            Told::Lost {
                why: Lost::Read, ..
            } => {}
            Told::Lost { core, line, .. } => {
                self.disturb(core.index(), now, shared);
                each!(&mut self.cores[core.index()], core => core.lost(line, shared));
            }
            Told::Retry(core) => {
                let core = core.index();
                self.disturb(core, now, shared);
                each!(&mut self.cores[core], core => core.retry(now));
                self.roused(core, 0, now);
            }
        }
    }

    /// The line that `hart` watches was written by another.
    fn watch_lost<O: Observer>(&mut self, hart: HartId, now: Cycle, shared: &mut Shared<'_, O>) {
        // Who sits nowhere finds out when it does.
        let Some(context) = self.seats.get(hart.index()).copied().flatten() else {
            return;
        };
        let (core, c) = self.contexts[context.index()];
        self.disturb(core, now, shared);
        if each!(&mut self.cores[core], core => core.watch_lost(c, now)) {
            self.roused(core, c, now);
        }
    }

    /// Interrupt lines have changed: harts whose own have see them, and those that sleep may wake.
    pub fn interrupts_changed<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        for n in 0..shared.harts.len() {
            let hart = &shared.harts[n];
            let lines = shared.machine.interrupt_lines(hart.id);
            if hart.csr.lines() == lines {
                continue;
            }
            let Some(context) = self.seats.get(hart.id.index()).copied().flatten() else {
                self.wakes_outside(n, lines, shared);
                continue;
            };
            let (core, c) = self.contexts[context.index()];
            self.disturb(core, now, shared);
            shared.harts[n].csr.set_lines(lines);
            let changed =
                each!(&mut self.cores[core], core => core.interrupts_changed(c, now, shared));
            if changed {
                self.roused(core, c, now);
            }
        }
    }

    /// Interrupt lines of a virtual CPU without a seat have changed: the host hears of one that slept.
    #[cold]
    fn wakes_outside<O: Observer>(&self, n: usize, lines: u64, shared: &mut Shared<'_, O>) {
        let hart = &mut shared.harts[n];
        hart.csr.set_lines(lines);
        if let HartState::Napping(nap) = hart.state {
            shared.stop |= hart.interrupts(nap);
        }
    }

    /// Charges every context up to `now`.
    pub fn close(&mut self, now: Cycle) {
        for core in &mut self.cores {
            each!(core, core => core.close(now));
        }
    }

    /// The accounts of all contexts as they would be if they were closed at `now`.
    pub fn accounts(&mut self, now: Cycle) -> Vec<Accounts> {
        let mut out = Vec::with_capacity(self.contexts.len());
        for core in &mut self.cores {
            each!(core, core => core.accounts(now, &mut out));
        }
        out
    }

    /// Every context, with its core and the hart that sits there.
    pub fn seats(&self) -> impl Iterator<Item = Seat> + '_ {
        let contexts = self.contexts.iter();
        contexts.map(|&(core, c)| each!(&self.cores[core], core => core.seat(c)))
    }

    /// The core that has `context`.
    #[must_use]
    pub fn core_of(&self, context: ContextId) -> CoreId {
        CoreId::new(self.contexts[context.index()].0)
    }

    /// Keeps changes of activity of every context from now on.
    pub fn follow_activities(&mut self) {
        for &(core, c) in &self.contexts {
            each!(&mut self.cores[core], core => core.accounts_of(c)).follow();
        }
    }

    /// Hands `take` the changes of activity of each context since they were last taken.
    pub fn take_changes(&mut self, mut take: impl FnMut(ContextId, Vec<Change>)) {
        for (n, &(core, c)) in self.contexts.iter().enumerate() {
            let accounts = each!(&mut self.cores[core], core => core.accounts_of(c));
            take(ContextId::new(n), accounts.take_changes());
        }
    }

    /// Shows `visitor` the counters of all cores as they are at `now`.
    pub fn visit_counters(&self, now: Cycle, visitor: &mut impl CounterVisitor) {
        for core in &self.cores {
            each!(core, core => core.visit_counters(now, visitor));
        }
    }

    /// How the cycles of each core that keeps account of them are distributed.
    pub fn histograms(&self) -> impl Iterator<Item = (CoreId, Histogram<'_>)> {
        self.cores.iter().enumerate().flat_map(|(n, core)| {
            let histograms = each!(core, core => core.histograms());
            histograms.into_iter().map(move |it| (CoreId::new(n), it))
        })
    }

    /// What every seated context waits for, for the watchdog's message.
    #[must_use]
    pub fn who_waits(&self) -> Vec<(ContextId, HartId, String)> {
        let seated = self.seats().filter_map(|seat| Some((seat, seat.hart?)));
        seated
            .map(|(seat, hart)| {
                let (core, c) = self.contexts[seat.context.index()];
                let what = each!(&self.cores[core], core => core.who_waits(c));
                (seat.context, hart, what)
            })
            .collect()
    }

    /// How `hart` sleeps, and since when, if it does.
    #[must_use]
    pub fn nap(&self, hart: HartId) -> Option<(Nap, Cycle)> {
        let (core, c) = self.seat_of(hart);
        each!(&self.cores[core], core => core.nap(c))
    }

    /// Whether `hart` stands between two instructions: no access of its next one is in flight.
    #[must_use]
    pub fn stands_between_instructions(&self, hart: HartId) -> bool {
        let (core, c) = self.seat_of(hart);
        each!(&self.cores[core], core => core.stands_between_instructions(c))
    }

    /// The byte at `addr` as `hart` would read it, if that is still in its store buffer.
    #[must_use]
    pub fn buffered_byte(&self, hart: HartId, addr: PhysAddr) -> Option<u8> {
        let (core, c) = self.seat_of(hart);
        each!(&self.cores[core], core => core.buffered_byte(c, addr))
    }

    /// `hart`, or memory that it may have fetched from, was changed from outside: it fetches anew.
    pub fn changed_from_outside(&mut self, hart: &Hart, now: Cycle) {
        let (core, c) = self.seat_of(hart.id);
        each!(&mut self.cores[core], core => core.changed_from_outside(c, hart, now));
        self.roused(core, c, now);
    }
}
