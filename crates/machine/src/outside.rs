//! What comes to a machine from outside, and leaves it: consoles, frames, disks.

use crate::disk::{DiskConfig, DiskError};
use crate::machine::Machine;
#[cfg(doc)]
use crate::{Network, Platform};

impl Machine {
    /// What programs have written to a console since last asked; see [`Platform::take_output`].
    pub fn take_output(&mut self, port: usize) -> Vec<u8> {
        self.first_mut().take_output(port)
    }

    /// What [`Machine::take_output`] would return.
    #[must_use]
    pub fn output(&self, port: usize) -> &[u8] {
        self.first().output(port)
    }

    /// Whether a program has written anything to a console since its output was last taken.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.first().has_output()
    }

    /// Types `bytes` on a console; see [`Platform::take_output`] for its number.
    pub fn push_input(&mut self, port: usize, bytes: &[u8]) {
        self.push_input_to(0, port, bytes);
    }

    /// The same on a console of a guest.
    pub fn push_input_to(&mut self, guest: usize, port: usize, bytes: &[u8]) {
        let devices = &mut self.platforms[guest].devices;
        if port == 0 {
            devices.push_serial_input(bytes);
        } else if let Some((slot, console)) = devices.console_mut(port) {
            console.input.extend(bytes);
            self.serve(guest, slot);
        }
    }

    /// Whether the program waits for input on the serial console: what is typed before may be lost to a
    /// driver that starts.
    #[must_use]
    pub fn serial_is_read(&self) -> bool {
        self.first().devices.serial_is_read()
    }

    /// The frames that the guest has sent since last asked, where a [`Network::Wire`] takes them.
    pub fn take_frames(&mut self) -> Vec<Vec<u8>> {
        match self.first_mut().devices.net_mut() {
            Some((_, net)) => net.outgoing.drain(..).collect(),
            None => Vec::new(),
        }
    }

    /// Brings the guest a frame; without a network card, or when too many wait, it is lost.
    pub fn push_frame(&mut self, frame: Vec<u8>) {
        if let Some((slot, net)) = self.first_mut().devices.net_mut() {
            net.push(frame);
            self.serve(0, slot);
        }
    }

    /// Puts another disk in the place of disk `number`; see [`Platform::replace_disk`].
    ///
    /// # Errors
    /// As there.
    pub fn replace_disk(&mut self, number: usize, config: &DiskConfig) -> Result<(), DiskError> {
        self.first_mut().replace_disk(number, config)
    }
}
