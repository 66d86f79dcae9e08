//! Looking at the harts in a chip from outside and changing them, as a debugger does.

use loiter_isa::Width;
use loiter_types::{HartId, PhysAddr};

use super::chip::Chip;
use super::context::{Context, NO_LINE, Waits};
use crate::store_buffer::Forward;

impl Chip {
    fn context(&self, hart: HartId) -> &Context {
        let (core, c) = self.seats.of(hart);
        &self.cores[core].contexts[c]
    }

    /// Whether `hart` stands between two instructions: no access of its next one is in flight.
    #[must_use]
    pub fn stands_between_instructions(&self, hart: HartId) -> bool {
        self.context(hart).waits != Waits::Access
    }

    /// The byte at `addr` as `hart` would read it, if that is still in its store buffer.
    #[must_use]
    pub fn buffered_byte(&self, hart: HartId, addr: PhysAddr) -> Option<u8> {
        match self.context(hart).stores.forward(addr, Width::B) {
            Forward::Value(byte) => Some(byte as u8),
            Forward::Memory | Forward::Partial => None,
        }
    }

    /// `hart`, or memory that it may have fetched from, was changed from outside: it fetches anew.
    pub fn changed_from_outside(&mut self, hart: HartId) {
        let (core, c) = self.seats.of(hart);
        let context = &mut self.cores[core].contexts[c];
        if context.waits != Waits::Access {
            context.refetch();
            context.fetch_line = NO_LINE;
            context.check_interrupts = true;
        }
    }
}
