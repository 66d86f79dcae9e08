//! The state of a machine but for RAM, as a snapshot keeps it.
//!
//! It holds what a guest can find out, and nothing that follows from the configuration, from other
//! state, or from when the host looks: two machines that no guest can tell apart have the same state.
//! So what programs have written to the console is not in it.

use serde::{Deserialize, Serialize};

use crate::devices::{Clint, Finisher, Plic, Rtc, SavedUart, SavedVirtio, Virtio};
use crate::htif::Htif;
use crate::machine::{Ended, Machine};
use crate::platform::Platform;
use crate::watches::WatchesState;

/// Devices, watches, and whether the run has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineState {
    watches: WatchesState,
    finisher: Finisher,
    rtc: Rtc,
    clint: Clint,
    plic: Plic,
    uart: SavedUart,
    /// By slot.
    virtio: Vec<SavedVirtio>,
    htif: Option<Htif>,
    ended: Option<Ended>,
}

impl Machine {
    /// All that a snapshot needs besides RAM.
    #[must_use]
    pub fn save(&self) -> MachineState {
        self.state_of(0, self.watches.save())
    }

    pub(crate) fn state_of(&self, guest: usize, watches: WatchesState) -> MachineState {
        let platform = self.platform(guest);
        let devices = &platform.devices;
        MachineState {
            watches,
            finisher: devices.finisher.clone(),
            rtc: devices.rtc.clone(),
            clint: devices.clint.clone(),
            plic: devices.plic.clone(),
            uart: devices.uart.save(),
            virtio: devices.virtio.iter().map(Virtio::save).collect(),
            htif: platform.htif,
            ended: platform.ended,
        }
    }

    /// Makes the machine what it was, after RAM.
    ///
    /// # Errors
    /// When the state is that of another machine, or contradicts itself; the machine is of no use then.
    pub fn restore(&mut self, state: &MachineState) -> Result<(), String> {
        self.watches.restore(&state.watches)?;
        self.first_mut().restore(state)?;
        self.ends = state.ended.is_some();
        Ok(())
    }
}

impl Platform {
    /// Makes devices what they were.
    pub(crate) fn restore(&mut self, state: &MachineState) -> Result<(), String> {
        let devices = &mut self.devices;
        devices.finisher = state.finisher.clone();
        devices.clint.restore(&state.clint)?;
        devices.rtc.restore(&state.rtc);
        devices.plic.restore(&state.plic)?;
        devices.uart.restore(&state.uart)?;
        let (theirs, ours) = (state.virtio.len(), devices.virtio.len());
        if theirs != ours {
            return Err(format!("{theirs} virtio devices, where there are {ours}"));
        }
        for (device, saved) in devices.virtio.iter_mut().zip(&state.virtio) {
            device.restore(saved)?;
        }
        self.htif = state.htif.map(|htif| Htif {
            partition: self.partition,
            ..htif
        });
        self.ended = state.ended;
        Ok(())
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
