//! Memory of a guest, read and written from outside at addresses as its harts see them.

use loiter_types::{HartId, PAGE_BYTES, PhysAddr, VirtAddr};

use crate::error::Error;
use crate::session::Session;

impl Session {
    /// Where the bytes of guest memory from `addr` on lie, as `hart` sees them: piece by piece, each
    /// within a page. Ends at the first that are not RAM.
    pub(super) fn pieces(&self, hart: HartId, addr: u64, bytes: usize) -> Vec<(PhysAddr, usize)> {
        let hart = &self.system.harts[hart.index()];
        let machine = &self.system.machine;
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < bytes {
            let at = addr.wrapping_add(done as u64);
            let length = (bytes - done).min((PAGE_BYTES - at % PAGE_BYTES) as usize);
            match hart.look(machine, VirtAddr(at)) {
                Some(physical) if machine.is_ram(physical, length as u64) => {
                    pieces.push((physical, length));
                }
                _ => break,
            }
            done += length;
        }
        pieces
    }

    /// Puts `data` at `addr` as `hart` sees it, if all of it is RAM; returns whether it is.
    pub(super) fn write(&mut self, hart: HartId, addr: u64, data: &[u8]) -> bool {
        let pieces = self.pieces(hart, addr, data.len());
        let length: usize = pieces.iter().map(|(_, length)| length).sum();
        if length < data.len() {
            return false;
        }
        let mut rest = data;
        let system = &mut self.system;
        for (at, length) in pieces {
            let (part, after) = rest.split_at(length);
            let place = system.machine.ram.slice_mut(at, length as u64);
            place.expect("RAM").copy_from_slice(part);
            system.machine.written_by_device(at, length as u64);
            rest = after;
        }
        if system.machine.pages.code_written() {
            system.code.refresh(&mut system.machine);
        }
        for n in 0..self.system.harts.len() {
            self.changed(HartId::new(n));
        }
        true
    }

    /// Puts `data` where the symbol `name` of a program or kernel lies, between two instructions of every hart: the guest
    /// executes nothing for it.
    ///
    /// # Errors
    /// When no file has the symbol, or no hart has its address in memory.
    pub fn write_symbol(&mut self, name: &str, data: &[u8]) -> Result<(), Error> {
        let addr = self.system.symbols[0].address(name).ok_or_else(|| {
            Error::User(format!(
                "{name}: not a symbol of the program, the kernel or the files of --symbols"
            ))
        })?;
        let mut harts = 0..self.system.harts.len();
        if harts.any(|n| self.write(HartId::new(n), addr, data)) {
            return Ok(());
        }
        Err(Error::User(format!(
            "{name}: no hart has its {} bytes at {addr:#x} in memory. Wait until the kernel has booted, and give the \
             symbols of the one that runs.",
            data.len()
        )))
    }
}
