//! Memory: the writes of all threads, in the order in which they become visible.

use std::rc::Rc;

use loiter_isa::Width;
use smallvec::SmallVec;

use crate::program::Program;

/// A position in memory: message *n* has time *n* + 1, and time 0 is that of the initial values.
pub type Time = u32;

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// Address.
    pub addr: u64,
    /// Bytes.
    pub bytes: u8,
}

impl Location {
    pub(crate) fn new(addr: u64, width: Width) -> Self {
        let bytes = width.bytes() as u8;
        Self { addr, bytes }
    }

    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.addr < other.addr + u64::from(other.bytes)
            && other.addr < self.addr + u64::from(self.bytes)
    }

    /// The value as it stands in memory.
    pub(crate) fn truncate(self, value: u64) -> u64 {
        value & (u64::MAX >> (64 - 8 * u32::from(self.bytes)))
    }

    /// Its bytes.
    pub(crate) fn split(self) -> impl Iterator<Item = Self> {
        let byte = move |n| Self {
            addr: self.addr + n,
            bytes: 1,
        };
        (0..u64::from(self.bytes)).map(byte)
    }

    /// What of `value`, which stands here, is in `part`.
    pub(crate) fn part(self, value: u64, part: Self) -> u64 {
        part.truncate(value >> (8 * (part.addr - self.addr)))
    }

    /// `value`, of `part`, as it stands here.
    pub(crate) fn whole(self, value: u64, part: Self) -> u64 {
        value << (8 * (part.addr - self.addr))
    }
}

/// One write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) location: Location,
    pub(crate) value: u64,
    pub(crate) thread: u8,
}

/// A cell of which no thread can read anything older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Base {
    pub(crate) cell: Location,
    pub(crate) value: u64,
    pub(crate) time: Time,
}

/// The oldest values that can still be read, and all writes since.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Memory {
    /// By address; cells that are not here have their initial value.
    pub(crate) bases: Rc<Vec<Base>>,
    pub(crate) messages: SmallVec<[Message; 6]>,
}

impl Memory {
    /// The time of the last write.
    pub(crate) fn end(&self) -> Time {
        self.messages.len() as Time
    }

    pub(crate) fn at(&self, time: Time) -> &Message {
        &self.messages[time as usize - 1]
    }

    pub(crate) fn base(&self, cell: Location) -> Option<&Base> {
        let found = self
            .bases
            .binary_search_by_key(&cell.addr, |base| base.cell.addr);
        found.ok().map(|index| &self.bases[index])
    }

    /// The last message that writes to `location`, at `time` or before; 0 if there is none.
    pub(crate) fn last(&self, location: Location, time: Time) -> Time {
        (1..=time.min(self.end()))
            .rev()
            .find(|&t| self.at(t).location.overlaps(location))
            .unwrap_or(0)
    }

    /// The writes to `location` after `time`.
    pub(crate) fn later(&self, location: Location, time: Time) -> impl Iterator<Item = Time> + '_ {
        (time + 1..=self.end()).filter(move |&t| self.at(t).location.overlaps(location))
    }

    /// What a cell has from the message at `time`, or from its base if that is 0.
    pub(crate) fn value(&self, program: &Program, cell: Location, time: Time) -> u64 {
        if time != 0 {
            let message = self.at(time);
            return message.location.part(message.value, cell);
        }
        self.base(cell)
            .map_or_else(|| program.initial(cell), |base| base.value)
    }

    /// Whether some message, or the base, leaves `value` in a cell.
    pub(crate) fn has(&self, program: &Program, cell: Location, value: u64) -> bool {
        self.value(program, cell, 0) == value
            || self.messages.iter().any(|message| {
                message.location.overlaps(cell)
                    && message.location.part(message.value, cell) == value
            })
    }

    /// When what [`Self::last`] returns was written; that of a base is not 0.
    pub(crate) fn written(&self, cell: Location, time: Time) -> Time {
        match time {
            0 => self.base(cell).map_or(0, |base| base.time),
            _ => time,
        }
    }

    /// `cell` has been written at `time`, and nothing older can be read.
    pub(crate) fn set_base(&mut self, cell: Location, value: u64, time: Time) {
        let base = Base { cell, value, time };
        let found = self
            .bases
            .binary_search_by_key(&cell.addr, |base| base.cell.addr);
        let bases = Rc::make_mut(&mut self.bases);
        match found {
            Ok(index) => bases[index] = base,
            Err(index) => bases.insert(index, base),
        }
    }
}
