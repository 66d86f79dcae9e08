//! Cores that repeat themselves are not gone through cycle by cycle (see [`crate::steady`]).
//!
//! Whoever is about to change anything that such a core sees, or to look at the core, has it [caught up](Cores::catch_up)
//! first: it is then where it would be.

use loiter_machine::Pages;
use loiter_memory::{Memory, Request, RequestKind};
use loiter_types::{CoreId, Cycle, HartId, StateVisitor};

use super::Cores;
use super::any::{AnyCore, each};
use crate::model::TimedCore;
use crate::steady::{
    FIRST_WORTH_INSTRUCTIONS, Growth, MOST_SKIPPED_CYCLES, Moving, Record, Taking, View, Watch,
    climbs_for,
};
use crate::{Observer, Shared};

/// What becomes of the cycles of cores that repeat themselves. Results are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipping {
    /// They are gone through like any others.
    Nothing,
    /// They are passed over, whole periods at once.
    Periods,
    /// They are gone through, and at the end of each period the core is compared with what it would be if they had been
    /// passed over.
    Proved,
}

impl Default for Skipping {
    fn default() -> Self {
        match cfg!(debug_assertions) {
            true => Skipping::Proved,
            false => Skipping::Periods,
        }
    }
}

/// What is skipped, and what not.
#[derive(Debug, Default)]
pub(super) struct Skips {
    /// How, in cycles before `until`.
    how: Skipping,
    until: Cycle,
    /// Of each core.
    watches: Vec<Watch>,
    /// Of each core, the first cycle after which it is to be looked at: what every cycle asks lies together.
    looks_at: Vec<Cycle>,
    /// Of each core, its group, and of each group, how many instructions a record of one of its cores is worth.
    groups: Vec<usize>,
    worth_instructions: Vec<u64>,
    /// Cores that are being skipped, and how many they are.
    skipped: Vec<bool>,
    count: usize,
    /// Of each core that is being skipped, the cycle in which that ends.
    ends: Vec<Cycle>,
    /// Cycles of cores that were skipped, or proved.
    cycles: u64,
    /// How often a core has been caught up.
    catches: u64,
}

impl Skips {
    /// For cores of these groups, by core.
    pub(super) fn new(groups: Vec<usize>) -> Self {
        let cores = groups.len();
        let kinds = groups.iter().max().map_or(0, |last| last + 1);
        Self {
            how: Skipping::Nothing,
            until: Cycle::NEVER,
            watches: (0..cores).map(|_| Watch::new()).collect(),
            looks_at: vec![Cycle::NEVER; cores],
            groups,
            worth_instructions: vec![FIRST_WORTH_INSTRUCTIONS; kinds],
            skipped: vec![false; cores],
            count: 0,
            ends: vec![Cycle::NEVER; cores],
            cycles: 0,
            catches: 0,
        }
    }

    /// Whether `core` is to be looked at after cycle `now`.
    #[inline(always)]
    pub(super) fn looks(&self, core: usize, now: Cycle) -> bool {
        self.looks_at[core] <= now
    }

    /// The first cycle after which `core` is to be looked at, or before which its being skipped ends.
    #[inline(always)]
    pub(super) fn stops_at(&self, core: usize) -> Cycle {
        let looks_at = self.looks_at[core];
        match self.skipped[core] {
            true => looks_at.min(self.ends[core]),
            false => looks_at,
        }
    }

    /// What is known of `core` may have changed.
    fn note(&mut self, core: usize) {
        self.looks_at[core] = match self.how {
            Skipping::Nothing => Cycle::NEVER,
            Skipping::Periods | Skipping::Proved => self.watches[core].from(),
        };
    }

    /// Something has changed `core`.
    pub(super) fn forget(&mut self, core: usize, now: Cycle) {
        if self.watches[core].forget(now) {
            self.note(core);
        }
    }

    /// `core` is being skipped, or no more.
    fn set(&mut self, core: usize, skipped: bool, pages: &mut Pages) {
        let before = std::mem::replace(&mut self.skipped[core], skipped);
        let any = self.count > 0;
        self.count += usize::from(skipped);
        self.count -= usize::from(before);
        if any != (self.count > 0) {
            pages.keep_table_writes(!any);
        }
    }
}

/// A core at the end of a cycle.
struct Viewed<'a, 'b, O> {
    core: &'a mut AnyCore,
    id: CoreId,
    now: Cycle,
    shared: &'a mut Shared<'b, O>,
}

impl<O: Observer> Viewed<'_, '_, O> {
    /// Shows `visitor` the core and all that belongs to it.
    fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self { core, shared, .. } = self;
        let (harts, memory) = (&mut *shared.harts, &mut *shared.memory);
        each!(&mut **core, core => core.visit_state(harts, memory, visitor));
        let observer = &mut *shared.observer;
        each!(&**core, core => executing(&**core, |hart| observer.visit_state(hart, visitor)));
    }
}

/// Names the harts that execute in `core`.
fn executing(core: &impl TimedCore, mut take: impl FnMut(HartId)) {
    for c in 0..core.contexts() {
        if let (Some(hart), None) = (core.seat(c).hart, core.nap(c)) {
            take(hart);
        }
    }
}

impl<O: Observer> View for Viewed<'_, '_, O> {
    fn changes(&self) -> u64 {
        let own = each!(&*self.core, core => core.changes());
        own.wrapping_add(self.shared.memory.changes(self.id))
    }

    fn retired(&self) -> u64 {
        let mut retired = 0;
        each!(&*self.core, core => executing(&**core, |hart| {
            retired += self.shared.harts[hart.index()].retired;
        }));
        retired
    }

    fn looks(&self, with_registers: bool) -> u64 {
        let harts = &*self.shared.harts;
        let mut looks = each!(&*self.core, core => core.looks_like(self.now, harts));
        if with_registers {
            each!(&*self.core, core => executing(&**core, |hart| {
                let regs = &harts[hart.index()].regs[..32];
                looks = regs.iter().fold(looks, |looks, value| {
                    (looks ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
                });
            }));
        }
        looks
    }

    fn record(&mut self, room: Record) -> Record {
        let mut taking = Taking::new(self.now, room);
        self.visit_state(&mut taking);
        let mut record = taking.record();
        let harts = &*self.shared.harts;
        each!(&*self.core, core => executing(&**core, |hart| {
            let hart = &harts[hart.index()];
            record.retired.push((hart.id.index(), hart.retired));
            record.registers.push(std::array::from_fn(|n| hart.regs[n]));
        }));
        record
    }

    fn climbs_for(&mut self, growth: &Growth) -> u64 {
        let Shared {
            harts,
            machine,
            code,
            ..
        } = &mut *self.shared;
        let window = each!(&*self.core, core => core.most_in_flight());
        let harts_growth = growth.retired.iter().zip(&growth.registers);
        let periods = harts_growth.map(|(&(hart, instructions), registers)| {
            let grown = (instructions, &registers[..]);
            let periods = climbs_for(&harts[hart], grown, machine, code);
            // Instructions in flight are ahead of the hart.
            let ahead = window / instructions.max(1) + 2;
            periods.saturating_sub(ahead)
        });
        periods.min().unwrap_or(0)
    }
}

impl Cores {
    /// From now on cores that only spin are skipped so in cycles before `until`. None is being skipped.
    pub fn may_skip(&mut self, how: Skipping, until: Cycle, memory: &Memory) {
        debug_assert!(self.skips.count == 0);
        // Stores of others that perform in a core show at once, and nothing tells who has their lines.
        let unseen = self.cores.len() > 1
            && !memory.grants_lines()
            && self
                .cores
                .iter()
                .any(|core| matches!(core, AnyCore::Smt(_)));
        self.skips.how = if unseen { Skipping::Nothing } else { how };
        self.skips.until = until;
        for core in 0..self.cores.len() {
            self.skips.note(core);
        }
    }

    /// Cycles of cores that have been passed over, or gone through and proved to be no others.
    #[must_use]
    pub fn skipped_cycles(&self) -> u64 {
        self.skips.cycles
    }

    /// How often a core has been caught up, which takes the host far longer than a cycle.
    #[inline(always)]
    #[must_use]
    pub fn catches(&self) -> u64 {
        self.skips.catches
    }

    /// Whether a core is being skipped.
    #[inline(always)]
    #[must_use]
    pub fn skip(&self) -> bool {
        self.skips.count > 0
    }

    /// Whether `core` is being skipped.
    #[inline(always)]
    pub(super) fn is_skipped(&self, core: usize) -> bool {
        self.skips.count > 0 && self.skips.skipped[core]
    }

    /// Whether `core` has been skipped up to cycle `now`, and is to be gone through from there.
    #[inline(always)]
    pub(super) fn skip_ends(&self, core: usize, now: Cycle) -> bool {
        self.is_skipped(core) && self.skips.ends[core] <= now
    }

    /// `core` has been through cycle `now`, and its next is `next`. Returns the cycle in which it is to be looked at
    /// again.
    #[cold]
    #[inline(never)]
    pub(super) fn look<O: Observer>(
        &mut self,
        core: usize,
        now: Cycle,
        next: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Cycle {
        let next = self.look_closely(core, now, next, shared);
        self.skips.note(core);
        next
    }

    fn look_closely<O: Observer>(
        &mut self,
        core: usize,
        now: Cycle,
        next: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Cycle {
        let id = CoreId::new(core);
        let watch = &mut self.skips.watches[core];
        let mut view = Viewed {
            core: &mut self.cores[core],
            id,
            now,
            shared,
        };
        if self.skips.skipped[core] {
            // It has gone through a period.
            watch.prove(now, &mut view);
            self.skips.cycles += watch.repetition().map_or(0, |it| it.period);
            return next;
        }
        let worth = &mut self.skips.worth_instructions[self.skips.groups[core]];
        let repeats = watch.look(now, next, worth, &mut view);
        let Some(repetition) = watch.repetition().filter(|_| repeats) else {
            return next;
        };
        let until = repetition.deadline.min(self.skips.until);
        let until = until.min(now.after(MOST_SKIPPED_CYCLES));
        if until <= now.after(repetition.period) {
            return next;
        }
        self.skips.set(core, true, &mut shared.machine.pages);
        self.skips.ends[core] = until;
        shared.memory.name_ahead(id, true);
        match self.skips.how {
            Skipping::Periods => until,
            Skipping::Nothing | Skipping::Proved => next,
        }
    }

    /// `core` is what it is after all cycles before `to`.
    #[cold]
    #[inline(never)]
    pub(super) fn catch_up<O: Observer>(
        &mut self,
        core: usize,
        to: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        self.skips.catches += 1;
        shared.memory.name_ahead(CoreId::new(core), false);
        if self.skips.how == Skipping::Periods {
            match shared.machine.pages.tables_written() {
                true => self.go_through_with_old_tables(core, to, shared),
                false => self.go_through(core, to, shared),
            }
        }
        self.skips.set(core, false, &mut shared.machine.pages);
    }

    /// Page tables have just been written, after the cycles that `core` goes through: its harts translate as they did.
    fn go_through_with_old_tables<O: Observer>(
        &mut self,
        core: usize,
        to: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let mut news = Vec::new();
        each!(&self.cores[core], core => executing(&**core, |hart| {
            let heard = shared.harts[hart.index()].heard_news();
            news.push((hart, shared.machine.pages.hears(hart, heard)));
        }));
        shared.machine.swap_table_writes();
        self.go_through(core, to, shared);
        shared.machine.swap_table_writes();
        for (hart, news) in news {
            shared.machine.pages.hears(hart, news);
        }
    }

    /// Passes over the whole periods of `core` before `to`, and goes through the cycles that are left.
    fn go_through<O: Observer>(&mut self, core: usize, to: Cycle, shared: &mut Shared<'_, O>) {
        let watch = &mut self.skips.watches[core];
        let repetition = watch.repetition().expect("only such a core is skipped");
        let last = to.0.saturating_sub(1);
        let periods = last.saturating_sub(repetition.anchor.0) / repetition.period;
        self.skips.cycles += periods * repetition.period;
        if periods > 0 {
            let growth = &repetition.growth;
            let mut moving = Moving::new(repetition.anchor, repetition.period, periods, growth);
            let mut view = Viewed {
                core: &mut self.cores[core],
                id: CoreId::new(core),
                now: repetition.anchor,
                shared,
            };
            view.visit_state(&mut moving);
            moving.finish();
            let retired: u64 = growth.retired.iter().map(|(_, retired)| retired).sum();
            shared.retired += periods * retired;
            repetition.anchor = repetition.anchor.after(repetition.period * periods);
        }
        // What happens by itself may come in a cycle that is otherwise passed over.
        let by_itself = repetition.record.deadline;
        let mut next = repetition.anchor.after(repetition.next).min(by_itself);
        watch.goes_on();
        self.skips.note(core);
        while next < to {
            let groups = &mut self.groups;
            (_, next) = each!(&mut self.cores[core], core =>
                core.run(next, to, u32::MAX, groups, shared));
        }
        self.due.set(core, next);
    }

    /// As [`Cores::catch_up`], before something changes `core` in cycle `to`, if it is being skipped.
    #[inline(always)]
    pub(super) fn disturb<O: Observer>(
        &mut self,
        core: usize,
        to: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        if self.is_skipped(core) {
            self.catch_up(core, to, shared);
        }
        self.skips.forget(core, to);
    }

    /// Something is about to happen to the private caches of `core` in cycle `now`.
    pub fn named_ahead<O: Observer>(
        &mut self,
        core: CoreId,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        self.disturb(core.index(), now, shared);
    }

    /// All cores are what they are after all cycles before `to`.
    pub fn catch_all_up<O: Observer>(&mut self, to: Cycle, shared: &mut Shared<'_, O>) {
        for core in 0..self.cores.len() {
            if self.is_skipped(core) {
                self.catch_up(core, to, shared);
            }
        }
    }

    /// An access performs in cycle `now`: cores that may see what it changes are caught up. One to a device may change any
    /// memory.
    #[cold]
    pub(super) fn see_access<O: Observer>(
        &mut self,
        request: &Request,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let device = request.kind == RequestKind::Device;
        for core in 0..self.cores.len() {
            if self.is_skipped(core)
                && (device
                    || core == request.core.index()
                    || shared.memory.reads(CoreId::new(core), request.addr))
            {
                self.disturb(core, now, shared);
            }
        }
    }

    /// `core` has been through cycle `now`. If it has written page tables, others translate anew.
    #[inline(always)]
    pub(super) fn see_tables<O: Observer>(
        &mut self,
        core: usize,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        if shared.machine.pages.tables_written() {
            self.tables_written(core, now, shared);
        }
    }

    /// Whether page tables have been written by which a hart of `core` translates.
    fn translates_anew<O: Observer>(&self, core: usize, shared: &Shared<'_, O>) -> bool {
        let mut anew = false;
        each!(&self.cores[core], core => executing(&**core, |hart| {
            anew |= shared.harts[hart.index()].translates_anew(shared.machine);
        }));
        anew
    }

    #[cold]
    fn tables_written<O: Observer>(
        &mut self,
        writer: usize,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        for core in 0..self.cores.len() {
            if self.is_skipped(core) && self.translates_anew(core, shared) {
                // Cores before it have been through this cycle.
                let to = if core < writer { now.after(1) } else { now };
                self.disturb(core, to, shared);
            }
        }
        let pages = &mut shared.machine.pages;
        pages.keep_table_writes(self.skips.count > 0);
    }
}
