//! A machine that is the host of guests: each has been a machine of its own until then.

use loiter_types::{HartId, PhysAddr};

use crate::RAM_BASE;
use crate::config::MachineError;
use crate::machine::Machine;
use crate::platform::Platform;
use crate::snapshot::used_pages;
use crate::state::MachineState;
use crate::watches::WatchesState;

impl Machine {
    /// A machine that has the RAM of all `guests` and their devices. Harts are numbered through, guest by guest. No hart watches
    /// anything; of decoded instructions and translations nothing is remembered. The guests' clocks go on where they
    /// stand, in a time that begins at 0.
    ///
    /// # Errors
    /// When the host cannot provide the RAM.
    ///
    /// # Panics
    /// Without guests.
    pub fn host(guests: Vec<Machine>) -> Result<Self, MachineError> {
        let mut rams = Vec::new();
        let mut platforms: Vec<Platform> = Vec::new();
        let mut ram_offset = 0;
        for (n, guest) in guests.into_iter().enumerate() {
            let Machine {
                ram,
                platforms: own,
                ..
            } = guest;
            for mut platform in own {
                platform.join(n, ram_offset);
                platforms.push(platform);
            }
            ram_offset += ram.bytes();
            rams.push(ram);
        }
        let mut machine = Self::of(platforms)?;
        for (platform, ram) in machine.platforms.iter().zip(&rams) {
            let place = platform.ram_of(&mut machine.ram);
            for (page, bytes) in used_pages(ram.as_slice()) {
                let at = page * crate::map::PAGE_BYTES as usize;
                place[at..at + bytes.len()].copy_from_slice(bytes);
            }
            if let Some(htif) = platform.htif {
                machine.watches.pin(htif.tohost);
            }
        }
        Ok(machine)
    }

    /// The harts of guest `guest`.
    pub fn harts_of(&self, guest: usize) -> impl Iterator<Item = HartId> {
        let owners = self.owners.iter().enumerate();
        let own = owners.filter(move |(_, (owner, _))| *owner == guest);
        own.map(|(n, _)| HartId::new(n))
    }

    /// The guest whose `hart` is, and its number there.
    #[must_use]
    pub fn guest_of(&self, hart: HartId) -> (usize, HartId) {
        self.owners[hart.index()]
    }

    /// As [`Machine::save`], of a guest alone.
    #[must_use]
    pub fn save_guest(&self, guest: usize) -> MachineState {
        self.state_of(guest, self.watches.save_of(self.harts_of(guest)))
    }

    /// Makes the devices and the watches of all guests what they were, after RAM. `states` are of [`Machine::save_guest`].
    ///
    /// # Errors
    /// When they are those of other guests, or contradict themselves; the machine is of no use then.
    pub fn restore_guests(
        &mut self,
        watches: &WatchesState,
        states: &[MachineState],
    ) -> Result<(), String> {
        let (theirs, ours) = (states.len(), self.platforms.len());
        if theirs != ours {
            return Err(format!("{theirs} guests, where there are {ours}"));
        }
        self.watches.restore(watches)?;
        for (platform, state) in self.platforms.iter_mut().zip(states) {
            platform.restore(state)?;
        }
        self.ends = false;
        Ok(())
    }

    /// The RAM of a guest.
    #[must_use]
    pub fn ram_of(&self, guest: usize) -> &[u8] {
        let platform = self.platform(guest);
        let first = platform.partition().place(PhysAddr(RAM_BASE));
        let ram = self.ram.slice(first, platform.config.ram_bytes);
        ram.expect("its RAM is in the machine")
    }
}
