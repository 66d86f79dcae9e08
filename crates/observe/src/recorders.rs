//! The recorders of a machine: one, or where it is the host of guests, one for each guest.

use loiter_types::{Cycle, HartId, StateVisitor};
use serde::{Deserialize, Serialize};

use crate::probe::Probe;
use crate::recorder::{Moment, ProbeObserver, Recorder};
use crate::wait_time::WaitTime;

/// One recorder, or one for each guest, which knows harts by their numbers in the guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recorders {
    of_guests: Vec<Recorder>,
    /// Of each hart its guest, and its number there; none where there are no guests.
    owners: Vec<(usize, HartId)>,
    /// Of each hart of a guest.
    waits: Vec<WaitTime>,
}

impl Default for Recorders {
    fn default() -> Self {
        Self {
            of_guests: vec![Recorder::default()],
            owners: Vec::new(),
            waits: Vec::new(),
        }
    }
}

impl Recorders {
    /// Those of a host of guests, with the guest of each hart and the hart's number there.
    #[must_use]
    pub fn of_guests(owners: Vec<(usize, HartId)>) -> Self {
        let guests = owners.iter().map(|(guest, _)| guest + 1).max();
        Self {
            of_guests: vec![Recorder::default(); guests.unwrap_or(1)],
            waits: vec![WaitTime::default(); owners.len()],
            owners,
        }
    }

    /// The recorder of a guest, 0 where there is none.
    #[must_use]
    pub fn of(&self, guest: usize) -> &Recorder {
        &self.of_guests[guest]
    }

    /// Whether `hart` has begun to wait for a lock and has not got it.
    #[must_use]
    pub fn is_spinning(&self, hart: HartId) -> bool {
        let (guest, hart) = self.owner(hart);
        self.of_guests[guest].is_spinning(hart)
    }

    /// A CPU begins to execute the virtual CPU `hart`.
    pub fn begins(&mut self, hart: HartId, now: Cycle) {
        let waits = self.is_spinning(hart);
        self.waits[hart.index()].begins(waits, now);
    }

    /// A CPU ceases to.
    pub fn stops(&mut self, hart: HartId, now: Cycle) {
        self.waits[hart.index()].stops(now);
    }

    /// Cycles in which CPUs executed the virtual CPU `hart` while it waited for a lock, up to `now`.
    #[must_use]
    pub fn spinning_cycles(&self, hart: HartId, now: Cycle) -> u64 {
        self.waits[hart.index()].cycles(now)
    }

    #[inline(always)]
    fn owner(&self, hart: HartId) -> (usize, HartId) {
        let owner = self.owners.get(hart.index());
        owner.copied().unwrap_or((0, hart))
    }
}

impl ProbeObserver for Recorders {
    fn probe(&mut self, moment: Moment, probe: Probe) -> bool {
        let (guest, hart) = self.owner(moment.hart);
        let recorder = &mut self.of_guests[guest];
        if let Some(waits) = self.waits.get(moment.hart.index()) {
            recorder.locks.waited_cycles = waits.cycles(moment.cycle);
        }
        let stops = recorder.probe(Moment { hart, ..moment }, probe);
        if let Some(waits) = self.waits.get_mut(moment.hart.index()) {
            waits.changes(recorder.is_spinning(hart), moment.cycle);
        }
        stops
    }

    fn visit_state(&mut self, hart: HartId, visitor: &mut impl StateVisitor) {
        let (guest, hart) = self.owner(hart);
        self.of_guests[guest].visit_state(hart, visitor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(hart: u16, cycle: u64) -> Moment {
        Moment {
            hart: HartId(hart),
            cycle: Cycle(cycle),
            retired: 0,
            pc: 0,
        }
    }

    #[test]
    fn a_wait_counts_while_a_cpu_executes_it() {
        let mut recorders = Recorders::of_guests(vec![(0, HartId(0))]);
        let hart = HartId(0);
        recorders.begins(hart, Cycle(5));
        recorders.probe(moment(0, 10), Probe::Acquire(64));
        assert_eq!(recorders.spinning_cycles(hart, Cycle(17)), 7);
        recorders.stops(hart, Cycle(30));
        assert_eq!(recorders.spinning_cycles(hart, Cycle(90)), 20);
        recorders.begins(hart, Cycle(100));
        recorders.probe(moment(0, 150), Probe::Acquired(64));
        assert_eq!(recorders.spinning_cycles(hart, Cycle(900)), 20 + 50);
    }

    #[test]
    fn a_lock_of_one_guest_is_not_that_of_another_at_the_same_address() {
        let owners = vec![(0, HartId(0)), (1, HartId(0))];
        let mut recorders = Recorders::of_guests(owners);
        recorders.probe(moment(1, 10), Probe::Acquire(64));
        assert!(recorders.is_spinning(HartId(1)) && !recorders.is_spinning(HartId(0)));
        assert_eq!(recorders.of(0).marks.len(), 0);
        assert_eq!(recorders.of(1).marks[0].moment.hart, HartId(0));
    }
}
