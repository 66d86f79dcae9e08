//! What is explored: code and data in memory, and where each thread begins.

use std::ops::Range;

use loiter_isa::{Inst, decode};

use crate::memory::Location;

/// A part of memory that is there at the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Its first address.
    pub addr: u64,
    /// What it holds.
    pub bytes: Vec<u8>,
    /// Whether it can be written.
    pub writable: bool,
}

/// Where one thread begins and ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its first instruction.
    pub pc: u64,
    /// It has ended when it comes here.
    pub end: u64,
    /// Registers that are not 0 at the beginning.
    pub registers: Vec<(u8, u64)>,
    /// Registers that are part of the outcome.
    pub observed: Vec<u8>,
    /// Its stack, of which what is below the stack pointer is forgotten.
    pub stack: Range<u64>,
}

/// A concurrent program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// All memory that it has.
    pub segments: Vec<Segment>,
    /// One a thread.
    pub threads: Vec<Entry>,
    /// Runs by itself before all threads.
    pub setup: Option<Entry>,
    /// Runs by itself when all threads have ended, and sees all that they wrote.
    pub check: Option<Entry>,
    /// Locations that are part of the outcome.
    pub observed: Vec<Location>,
}

impl Program {
    fn segment(&self, addr: u64, bytes: u64) -> Option<(&Segment, usize)> {
        let holds = |segment: &&Segment| {
            let offset = addr.wrapping_sub(segment.addr);
            addr >= segment.addr && offset.saturating_add(bytes) <= segment.bytes.len() as u64
        };
        let found = self.segments.iter().find(holds)?;
        Some((found, (addr - found.addr) as usize))
    }

    /// The lowest address that it has.
    pub(crate) fn first(&self) -> u64 {
        let all = self.segments.iter().map(|segment| segment.addr);
        all.min().unwrap_or(0)
    }

    /// Whether an access there is to memory of the program.
    pub(crate) fn allows(&self, location: Location, writes: bool) -> bool {
        let found = self.segment(location.addr, u64::from(location.bytes));
        found.is_some_and(|(segment, _)| segment.writable || !writes)
    }

    /// What memory holds there at the beginning, in the order of the machine.
    pub(crate) fn initial(&self, location: Location) -> u64 {
        let bytes = usize::from(location.bytes);
        let Some((segment, at)) = self.segment(location.addr, bytes as u64) else {
            return 0;
        };
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(&segment.bytes[at..at + bytes]);
        u64::from_le_bytes(value)
    }

    /// The instruction at `pc`, if there is code.
    pub(crate) fn fetch(&self, pc: u64) -> Option<Inst> {
        let half = |addr| {
            self.segment(addr, 2)
                .map(|_| self.initial(Location { addr, bytes: 2 }))
        };
        let low = half(pc).filter(|_| pc.is_multiple_of(2))?;
        let high = match loiter_isa::length(low as u16) {
            2 => 0,
            _ => half(pc + 2)?,
        };
        Some(decode((low | high << 16) as u32))
    }
}
