//! Which hart sits where: harts come into cores, move between contexts, and leave.

use loiter_hart::Unobserved;
use loiter_types::{ContextId, Cycle, HartId};

use crate::error::Error;
use crate::phases::Move;
use crate::result::{Exit, SeatRow};
use crate::system::System;
use crate::timing_phase::{Steps, Timing};

impl Timing {
    /// Seats every hart in its context, at the present cycle. Caches and predictors are as the harts last left them.
    pub(crate) fn attach(&mut self, system: &mut System) {
        debug_assert!(!self.is_attached());
        let now = system.now;
        self.cores.resume(now);
        for n in 0..system.harts.len() {
            self.attach_hart(system, HartId::new(n), now);
        }
        self.attached = Some(now);
        self.through = now;
        system.begin_check_of_harts();
    }

    /// The cores are there for harts from now on, and none sits in them: a host seats them one by one.
    pub(crate) fn open(&mut self, now: Cycle) {
        debug_assert!(!self.is_attached());
        self.cores.resume(now);
        self.attached = Some(now);
        self.through = now;
    }

    /// `hart` comes into `context`, which is vacant.
    pub(crate) fn seat(
        &mut self,
        system: &mut System,
        hart: HartId,
        context: ContextId,
        now: Cycle,
    ) {
        let places = self.places.len()..system.harts.len();
        self.places.extend(places.map(ContextId::new));
        self.places[hart.index()] = context;
        self.attach_hart(system, hart, now);
    }

    /// `hart` is to leave its context while others stay: [`Timing::steps_until`] comes back when it can be taken from there.
    pub(crate) fn leaves(&mut self, hart: HartId, now: Cycle) {
        self.leaving.push(hart);
        self.cores.leave(hart, now);
    }

    /// Takes `hart` from its context, if it has come to stand between two instructions with nothing in flight.
    pub(crate) fn unseat(&mut self, system: &mut System, hart: HartId, now: Cycle) -> bool {
        if !self.cores.has_left(hart) {
            return false;
        }
        self.leaving.retain(|&it| it != hart);
        self.detach_hart(system, hart, now);
        true
    }

    /// The context in which `hart` sits, or would: the one with its number, unless it has moved.
    pub(crate) fn place(&self, hart: HartId) -> ContextId {
        let place = self.places.get(hart.index());
        place.copied().unwrap_or(ContextId(hart.0))
    }

    fn attach_hart(&mut self, system: &mut System, hart: HartId, now: Cycle) {
        let context = self.place(hart);
        let spinning = system.recorders.is_spinning(hart);
        let harts = &mut system.harts[hart.index()];
        self.cores
            .attach(harts, &system.machine, context, spinning, now);
        let known = self.seats.iter_mut().rev().find(|row| row.hart == hart.0);
        match known.filter(|row| row.context == context.0) {
            Some(row) => row.until_cycle = None,
            None => self.seats.push(SeatRow {
                hart: hart.0,
                context: context.0,
                core: self.cores.core_of(context).0,
                from_cycle: now.0,
                until_cycle: None,
            }),
        }
    }

    fn detach_hart(&mut self, system: &mut System, hart: HartId, now: Cycle) {
        self.cores.detach(&mut system.harts[hart.index()], now);
        let row = self.seats.iter_mut().rev().find(|row| row.hart == hart.0);
        let row = row.expect("it was seated");
        row.until_cycle = Some(now.0);
    }

    /// `hart` moves to `context`, and who sits there to the one that it leaves. While harts sit in the cores, both first
    /// bring what they have in flight to its end; the others continue meanwhile. Returns the end of the run if that comes
    /// before. With `cold`, the core of `context` has nothing of what it has when the hart comes there.
    ///
    /// # Errors
    /// As [`Timing::steps`].
    pub(crate) fn move_hart(
        &mut self,
        system: &mut System,
        movement: Move,
    ) -> Result<Option<Exit>, Error> {
        let (hart, context) = (HartId(movement.hart), ContextId(movement.context));
        let left = self.place(hart);
        let harts = (0..system.harts.len()).map(HartId::new);
        let mut moved: Vec<_> = harts.filter(|&it| self.place(it) == context).collect();
        if moved.contains(&hart) {
            if movement.cold {
                self.is_to_be_cold(hart, self.counted_to(system.now));
            }
            return Ok(None);
        }
        let other = moved.first().copied();
        moved.push(hart);
        if self.is_attached()
            && let Some(exit) = self.wait_until_left(system, &moved)?
        {
            return Ok(Some(exit));
        }
        let now = self.counted_to(system.now);
        if self.is_attached() {
            for &it in &moved {
                self.detach_hart(system, it, now);
            }
        }
        let places = self.places.len()..system.harts.len();
        self.places.extend(places.map(ContextId::new));
        self.places[hart.index()] = context;
        if let Some(other) = other {
            self.places[other.index()] = left;
        }
        if self.is_attached() {
            for &it in &moved {
                self.attach_hart(system, it, now);
            }
        }
        if movement.cold {
            self.is_to_be_cold(hart, now);
        }
        let timeline = system.inspector.as_mut();
        if let Some(timeline) = timeline.and_then(|it| it.timeline.as_mut()) {
            for &it in &moved {
                timeline.moved(it, self.place(it));
            }
        }
        Ok(None)
    }

    /// The core that `hart` has moved to has nothing of what it had. While no hart sits in the cores, memory has nothing
    /// in flight.
    fn is_to_be_cold(&mut self, hart: HartId, now: Cycle) {
        let context = self.place(hart);
        match self.is_attached() {
            true => self.cores.is_to_be_cold(hart, now),
            false => {
                self.cores.is_cold(context);
                self.memory.empty_at_once(self.cores.core_of(context));
            }
        }
    }

    /// Cycles until `harts` can be detached. Returns the end of the run if that comes before.
    fn wait_until_left(
        &mut self,
        system: &mut System,
        harts: &[HartId],
    ) -> Result<Option<Exit>, Error> {
        self.leaving = harts.to_vec();
        let now = self.counted_to(system.now);
        for &hart in harts {
            self.cores.leave(hart, now);
        }
        while !self.have_left() {
            if let Steps::Ended(exit) = self.steps(system, false)? {
                return Ok(Some(exit));
            }
        }
        self.leaving.clear();
        Ok(None)
    }

    fn have_left(&self) -> bool {
        self.leaving.iter().all(|&hart| self.cores.has_left(hart))
    }

    /// Takes all harts out of the cores, after the cycles that it takes to bring what is in flight to its
    /// end. Returns the end of the run if that comes meanwhile; the harts stay where they are then.
    ///
    /// # Errors
    /// As [`Timing::steps`].
    pub(crate) fn detach(&mut self, system: &mut System) -> Result<Option<Exit>, Error> {
        let Some(since) = self.attached else {
            return Ok(None);
        };
        let drained = system.with_watcher(|system, inspector| match inspector {
            Some(inspector) if inspector.pipeline_from() <= system.now => {
                self.drain::<_, true>(system, inspector)
            }
            Some(inspector) => self.drain::<_, false>(system, inspector),
            None => self.drain::<_, false>(system, &mut Unobserved),
        });
        if let Some(exit) = drained? {
            return Ok(Some(exit));
        }
        let now = system.now;
        // Charged to whoever sits there.
        self.cores.close(now);
        for n in 0..system.harts.len() {
            self.detach_hart(system, HartId::new(n), now);
        }
        if let Some(timeline) = system
            .inspector
            .as_mut()
            .and_then(|it| it.timeline.as_mut())
        {
            timeline.take_changes(&mut self.cores);
        }
        self.attached = None;
        self.left = now;
        self.earlier_cycles += now.since(since);
        system.suspend_check()?;
        Ok(None)
    }

    /// Who sat where up to `until`.
    pub(crate) fn seats_until(&self, until: Cycle) -> Vec<SeatRow> {
        let seats = self.seats.iter().cloned();
        seats
            .map(|row| SeatRow {
                until_cycle: row.until_cycle.or(Some(until.0)),
                ..row
            })
            .collect()
    }
}
