//! Who watches harts of several guests: each guest has an inspector of its own, which sees its harts alone.

use loiter_cores::{InstructionId, PipelineStep};
use loiter_hart::{Hart, InstructionObserver, Performed, Retired, Trapped};
use loiter_observe::{Moment, Probe};
use loiter_types::{Cycle, HartId};

use super::inspector::{Inspector, Watcher};
use super::lock_stats::LockStats;

/// The inspectors of guests, and whose hart is whose.
#[derive(Default)]
pub(crate) struct GuestInspectors {
    inspectors: Vec<Option<Box<Inspector>>>,
    /// Of each hart its guest, and its number there.
    owners: Vec<(usize, HartId)>,
}

impl GuestInspectors {
    /// `owners` are the guests of all harts.
    pub(crate) fn new(
        inspectors: Vec<Option<Box<Inspector>>>,
        owners: Vec<(usize, HartId)>,
    ) -> Self {
        Self { inspectors, owners }
    }

    /// Who watches guest `guest`; outer none: there are no guests.
    pub(crate) fn get(&self, guest: usize) -> Option<Option<&Inspector>> {
        self.inspectors.get(guest).map(Option::as_deref)
    }

    /// Its place, to be taken and put back.
    pub(crate) fn place(&mut self, guest: usize) -> &mut Option<Box<Inspector>> {
        &mut self.inspectors[guest]
    }

    /// Whether anybody watches what timing cores do.
    pub(crate) fn watch_cores(&self) -> bool {
        let mut all = self.inspectors.iter().flatten();
        all.any(|inspector| inspector.watches_cores())
    }

    /// Timing cores execute all of `harts` from `now` on.
    pub(crate) fn timing_begins(&mut self, now: Cycle, harts: &[Hart]) {
        for (guest, inspector) in self.inspectors.iter_mut().enumerate() {
            let own = harts.iter().zip(&self.owners);
            let own = own.filter(|&(_, &(owner, _))| owner == guest);
            if let Some(inspector) = inspector {
                inspector.timing_changes(true, now, own.map(|(hart, _)| hart));
            }
        }
    }

    /// Who follows the locks of the guest of `hart`, if anybody does, and the number that the hart has there.
    pub(crate) fn lock_stats(&mut self, hart: HartId) -> Option<(&mut LockStats, HartId)> {
        let (_, number) = *self.owners.get(hart.index())?;
        Some((self.of(hart)?.lock_stats.as_mut()?, number))
    }

    /// The same, to be looked at.
    pub(crate) fn lock_stats_of(&self, hart: HartId) -> Option<(&LockStats, HartId)> {
        let (guest, number) = *self.owners.get(hart.index())?;
        let inspector = self.inspectors[guest].as_deref()?;
        Some((inspector.lock_stats.as_ref()?, number))
    }

    fn of(&mut self, hart: HartId) -> Option<&mut Inspector> {
        let (guest, _) = self.owners[hart.index()];
        self.inspectors[guest].as_deref_mut()
    }
}

impl InstructionObserver for GuestInspectors {
    fn enters_page(&mut self, hart: &Hart, pc: u64) -> bool {
        self.of(hart.id).is_some_and(|it| it.enters_page(hart, pc))
    }

    fn holds_at(&mut self, hart: &Hart, pc: u64, cycle: u64) -> bool {
        let own = self.of(hart.id);
        own.is_some_and(|it| it.holds_at(hart, pc, cycle))
    }

    fn retired(&mut self, event: &Retired<'_>) {
        if let Some(inspector) = self.of(event.hart.id) {
            inspector.retired(event);
        }
    }

    fn trapped(&mut self, event: &Trapped<'_>) {
        if let Some(inspector) = self.of(event.hart.id) {
            inspector.trapped(event);
        }
    }

    fn performed(&mut self, event: &Performed) {
        if let Some(inspector) = self.of(event.hart) {
            inspector.performed(event);
        }
    }

    fn holds(&self) -> bool {
        let mut all = self.inspectors.iter().flatten();
        all.any(|inspector| inspector.holds())
    }
}

impl Watcher for GuestInspectors {
    fn probe(&mut self, moment: Moment, probe: &Probe) {
        let (_, hart) = self.owners[moment.hart.index()];
        if let Some(inspector) = self.of(moment.hart) {
            inspector.probe(Moment { hart, ..moment }, probe);
        }
    }

    fn pipeline(&mut self, _: Cycle, _: Cycle, _: InstructionId, _: PipelineStep<'_>) {}
}
