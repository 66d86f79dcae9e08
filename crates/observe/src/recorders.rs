//! The recorders of a machine: one, or where it is the host of guests, one for each guest.

use loiter_types::{HartId, StateVisitor};

use crate::probe::Probe;
use crate::recorder::{Moment, ProbeObserver, Recorder};

/// One recorder, or one for each guest, which knows harts by their numbers in the guest.
#[derive(Clone, Debug)]
pub struct Recorders {
    of_guests: Vec<Recorder>,
    /// Of each hart its guest, and its number there; none where there are no guests.
    owners: Vec<(usize, HartId)>,
}

impl Default for Recorders {
    fn default() -> Self {
        Self {
            of_guests: vec![Recorder::default()],
            owners: Vec::new(),
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

    #[inline(always)]
    fn owner(&self, hart: HartId) -> (usize, HartId) {
        let owner = self.owners.get(hart.index());
        owner.copied().unwrap_or((0, hart))
    }
}

impl ProbeObserver for Recorders {
    fn probe(&mut self, moment: Moment, probe: Probe) -> bool {
        let (guest, hart) = self.owner(moment.hart);
        self.of_guests[guest].probe(Moment { hart, ..moment }, probe)
    }

    fn visit_state(&mut self, hart: HartId, visitor: &mut impl StateVisitor) {
        let (guest, hart) = self.owner(hart);
        self.of_guests[guest].visit_state(hart, visitor);
    }
}

#[cfg(test)]
mod tests {
    use loiter_types::Cycle;

    use super::*;

    #[test]
    fn a_lock_of_one_guest_is_not_that_of_another_at_the_same_address() {
        let owners = vec![(0, HartId(0)), (1, HartId(0))];
        let mut recorders = Recorders::of_guests(owners);
        let moment = |hart| Moment {
            hart: HartId(hart),
            cycle: Cycle(10),
            retired: 0,
            pc: 0,
        };
        recorders.probe(moment(1), Probe::Acquire(64));
        assert!(recorders.is_spinning(HartId(1)) && !recorders.is_spinning(HartId(0)));
        assert_eq!(recorders.of(0).marks.len(), 0);
        assert_eq!(recorders.of(1).marks[0].moment.hart, HartId(0));
    }
}
