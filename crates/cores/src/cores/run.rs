//! The cycles of the cores.

use loiter_types::Cycle;

use super::Cores;
use super::any::{AnyCore, each};
use crate::model::TimedCore;
use crate::smt::PerformedStore;
use crate::{Observer, Shared};

/// For how many cycles counts what memory delivers in one of them, so that what [`Cores::run`] is called for ends soon.
pub(crate) const DELIVERY_CYCLES: u32 = 4;

/// How far [`Cores::run`] has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// The cores have been through this cycle.
    Through(Cycle),
    /// Memory has delivered what there was in this cycle, which the cores have not begun.
    Delivered(Cycle),
}

impl Cores {
    /// The first cycle in which anything may happen in the cores.
    #[inline]
    #[must_use]
    pub fn next_due(&mut self) -> Cycle {
        self.due.next()
    }

    /// Cycle after cycle from `now` on, in which memory has delivered what there was, as long as only cores and memory have
    /// something to do: it lies before `until`, and no timer has changed. At most `most` cycles.
    pub fn run<O: Observer>(
        &mut self,
        mut now: Cycle,
        until: Cycle,
        most: u32,
        shared: &mut Shared<'_, O>,
    ) -> Ran {
        let mut left = most;
        loop {
            self.due.begin(now);
            let mut next;
            if let Some(core) = self.due.only().filter(|&core| self.due.of(core) <= now) {
                // Its cycles need not be compared with those of others.
                let others = self.due.next_later();
                let started = now;
                // It stops after each cycle in which it is to be looked at.
                let until = until.min(others).min(self.skips.stops_at(core).max(now));
                (now, next) = self.run_core(core, others, (now, until, left), shared);
                left -= (now.since(started) as u32).min(left - 1);
            } else {
                next = self.tick(now, shared);
            }
            left -= 1;
            if std::mem::take(&mut shared.delivered) {
                // Memory has gone on.
                now = shared.told_at;
            } else {
                let delivers = shared.memory.next() <= next;
                next = next.min(shared.memory.next()).max(now);
                // Before memory does anything to cores that are skipped, others have to be asked.
                if left == 0 || next >= until || delivers && self.skip() || shared.stops() {
                    return Ran::Through(now);
                }
                now = next;
                if !delivers {
                    continue;
                }
                let named = shared.memory.advance(now, shared.told);
                debug_assert!(named.is_none(), "no core is skipped");
            }
            self.hear_all(now, shared);
            if shared.stops() {
                return Ran::Delivered(now);
            }
            left = left.saturating_sub(DELIVERY_CYCLES).max(1);
        }
    }

    /// The cores hear all that memory has said in cycle `now`.
    #[inline]
    pub fn hear_told<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        let mut all = std::mem::take(shared.told);
        for told in all.drain(..) {
            self.hear(told, now, shared);
        }
        *shared.told = all;
    }

    /// The same, and harts that sleep until a line is written hear that it was. Harts translate anew if that has written page
    /// tables.
    #[inline]
    pub fn hear_all<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        self.hear_told(now, shared);
        self.see_tables(0, now, shared);
        if !shared.machine.ends() {
            self.wake_watchers(now, shared);
        }
    }

    /// Harts that sleep until a line is written hear that it was.
    #[inline(always)]
    pub fn wake_watchers<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        if shared.machine.watches.any_lost() {
            self.wake_lost(now, shared);
        }
    }

    #[cold]
    fn wake_lost<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        while let Some(hart) = shared.machine.watches.take_first_lost() {
            self.watch_lost(hart, now, shared);
        }
    }

    /// As [`TimedCore::run`], for `core`, while no other has anything to do before `others`. Returns the last cycle, and the
    /// next in which any core has something to do.
    fn run_core<O: Observer>(
        &mut self,
        core: usize,
        others: Cycle,
        (now, until, most): (Cycle, Cycle, u32),
        shared: &mut Shared<'_, O>,
    ) -> (Cycle, Cycle) {
        // No core is skipped that what this one does could make catch up.
        let alone = !self.skip();
        if self.skip_ends(core, now) {
            self.catch_up(core, now, shared);
            if self.due.of(core) > now {
                return (now, self.due.next());
            }
        }
        let groups = &mut self.groups;
        shared.memory_goes_on = alone;
        let (last, mut next) =
            each!(&mut self.cores[core], core => core.run(now, until, most, groups, shared));
        shared.memory_goes_on = false;
        if std::mem::take(&mut shared.heard) {
            self.skips.forget(core, last);
        }
        self.due.begin(last);
        self.tell_of_stores(core);
        self.see_tables(core, last, shared);
        if self.skips.looks(core, last) {
            next = self.look(core, last, next, shared);
        }
        self.due.set(core, next);
        let next = if alone {
            next.min(others)
        } else {
            self.due.next()
        };
        debug_assert_eq!(next, self.due.next());
        (last, next)
    }

    /// One cycle of every core that has something to do. Returns the first cycle in which one has again.
    fn tick<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> Cycle {
        debug_assert!(
            (0..self.cores.len()).all(|core| {
                self.due.of(core) <= now || each!(&self.cores[core], core => core.is_idle(now))
            }),
            "a core was passed over although it has work"
        );
        for word in 0..self.due.words() {
            let mut soon = self.due.soon(word);
            while soon != 0 {
                let core = 64 * word + soon.trailing_zeros() as usize;
                soon &= soon - 1;
                if self.due.of(core) > now {
                    continue;
                }
                if self.skip_ends(core, now) {
                    self.catch_up(core, now, shared);
                    if self.due.of(core) > now {
                        continue;
                    }
                }
                let groups = &mut self.groups;
                let (mut next, performed) = each!(&mut self.cores[core], core => {
                    (core.run_one(now, groups, shared), core.has_performed())
                });
                if performed {
                    self.tell_of_stores(core);
                }
                self.see_tables(core, now, shared);
                if self.skips.looks(core, now) {
                    next = self.look(core, now, next, shared);
                }
                self.due.set(core, next);
            }
        }
        self.due.next()
    }

    /// A cycle in which harts are about to leave: nothing is begun. Returns the next in which the cores
    /// have anything to do by themselves. When it is never, and memory has nothing to deliver either, every
    /// hart can be detached.
    pub fn drain<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> Cycle {
        let mut next = Cycle::NEVER;
        for core in 0..self.cores.len() {
            let at = each!(&mut self.cores[core], core => core.drain(now, shared));
            next = next.min(at);
            self.tell_of_stores(core);
        }
        next
    }

    /// Loads of other cores that have read a line which a store of `core` has just written read it again. Where memory
    /// tells cores of lines that they lose, they hear of it from there.
    #[inline(always)]
    pub(super) fn tell_of_stores(&mut self, core: usize) {
        if let AnyCore::Smt(writer) = &mut self.cores[core]
            && writer.has_performed()
        {
            let performed = writer.take_performed();
            self.tell_others(core, &performed);
            if let AnyCore::Smt(writer) = &mut self.cores[core] {
                writer.keep_room(performed);
            }
        }
    }

    fn tell_others(&mut self, core: usize, performed: &[PerformedStore]) {
        let others = self.cores.iter_mut().enumerate();
        for (_, other) in others.filter(|(other, _)| *other != core) {
            if let AnyCore::Smt(other) = other {
                other.hear_of(performed);
            }
        }
    }
}
