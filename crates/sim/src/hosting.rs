//! A system whose harts are those of several guests.

use loiter_hart::{CodeMarks, Extensions, HostCall, HostCallError};
use loiter_machine::Machine;
use loiter_observe::Recorders;
use loiter_types::{Cycle, HartId};

use crate::debug::GuestInspectors;
use crate::error::Error;
use crate::system::System;

impl System {
    /// Its harts are virtual CPUs that are to be a guest's, or are not.
    pub(crate) fn are_virtual(&mut self, is_virtual: bool) {
        for hart in &mut self.harts {
            hart.is_virtual = is_virtual;
        }
    }

    /// A virtual CPU calls its host while that has no other guest: before it is one's of [`System::host`]. Nobody waits for its CPU,
    /// and who sleeps until it is kicked may wake before.
    pub(crate) fn serves_alone(&mut self, hart: HartId, call: HostCall) {
        let (error, value) = match call {
            HostCall::Provides => (HostCallError::Success, 1),
            HostCall::Yield | HostCall::Wait | HostCall::Kick(_) => (HostCallError::Success, 0),
            HostCall::ShowStealTime { low, high, flags } => {
                (self.set_steal_time(hart, low, high, flags), 0)
            }
            HostCall::Unknown => (HostCallError::NotSupported, 0),
        };
        let hart = &mut self.harts[hart.index()];
        hart.make_host_call();
        hart.return_from_host_call(error, value);
    }

    /// A system that has the harts of all `guests`, one behind the other, and their memory and devices. Its time begins at 0, and so do
    /// the records of what probes say; the guests' clocks go on where they stand. All have the clock of the first.
    ///
    /// # Errors
    /// Guests whose harts have the hypervisor extension; more memory than there is.
    pub(crate) fn host(guests: Vec<System>) -> Result<Self, Error> {
        let (clock_hz, cycles_per_tick) = (guests[0].clock_hz, guests[0].cycles_per_tick);
        let (mut parts, mut machines) = (Vec::new(), Vec::new());
        let mut inspectors = Vec::new();
        for guest in guests {
            let isa = &guest.machine.config().isa;
            if Extensions::of(isa).h {
                return Err(Error::User(format!(
                    "a guest has harts of {isa}: a virtual CPU cannot be a hypervisor; take the extension h away"
                )));
            }
            machines.push(guest.machine);
            parts.push((guest.harts, guest.symbols, guest.now, guest.code));
            inspectors.push(guest.inspector);
        }
        let machine = Machine::host(machines)?;
        let mut system = Self::empty(machine, clock_hz, cycles_per_tick);
        system.symbols.clear();
        let mut marks = CodeMarks::default();
        for (guest, (mut harts, symbols, now, code)) in parts.into_iter().enumerate() {
            let partition = system.machine.platform(guest).partition();
            marks.add_all(code.marks(), |addr| partition.place(addr));
            for hart in &mut harts {
                hart.join(HartId::new(system.harts.len()), partition, now);
                system.harts.push(hart.clone());
            }
            system.symbols.extend(symbols);
        }
        system.code.set_marks(marks);
        let harts = (0..system.harts.len()).map(HartId::new);
        let owners: Vec<_> = harts.map(|hart| system.machine.guest_of(hart)).collect();
        system.guest_inspectors = GuestInspectors::new(inspectors, owners.clone());
        system.recorders = Recorders::of_guests(owners);
        Ok(system)
    }

    /// A CPU begins to execute the virtual CPU `hart`.
    pub(crate) fn begins(&mut self, hart: HartId, now: Cycle) {
        self.recorders.begins(hart, now);
        if let Some((lock_stats, number)) = self.guest_inspectors.lock_stats(hart) {
            lock_stats.begins(number, now);
        }
    }

    /// The CPU ceases to.
    pub(crate) fn stops(&mut self, hart: HartId, now: Cycle) {
        self.recorders.stops(hart, now);
        if let Some((lock_stats, number)) = self.guest_inspectors.lock_stats(hart) {
            lock_stats.stops(number, now);
        }
    }

    /// Cycles in which CPUs executed the virtual CPU `hart` while it waited for a lock, up to `now`: between probes, and in
    /// lock functions of a kernel whose locks are followed.
    pub(crate) fn spinning_cycles(&self, hart: HartId, now: Cycle) -> u64 {
        match self.guest_inspectors.lock_stats_of(hart) {
            Some((lock_stats, number)) => lock_stats.spinning_cycles(number, now),
            None => self.recorders.spinning_cycles(hart, now),
        }
    }
}
