//! The one functional watch mechanism: a hart watches a line and learns that another hart stored
//! to it. Load-reserved, wait-on-reservation-set and the like are users of it.
//!
//! ```text
//!            arm                 store by another hart
//!   Idle ----------> Held -----------------------------> Lost
//!    ^                | disarm                    disarm  |  (arm: back to Held)
//!    +----------------+-----------------------------------+
//! ```
//!
//! Stores must not pay for watches that do not concern them. A Bloom filter of [`BITS`] bits holds, for each
//! watched line, bit `line % BITS`; a store whose bit is clear is done. So that this single test also
//! covers a misaligned store that runs over into a watched line, the line *below* each watched line
//! is in the filter too. The slow path behind the filter is exact, and visits only harts that watch the line.

use std::collections::BTreeSet;

use loiter_types::{HartId, PhysAddr};
use serde::{Deserialize, Serialize};

/// Where a hart's watch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// No watch.
    Idle,
    /// Armed, and no other hart has stored to the line since.
    Held,
    /// Another hart has stored to the line since the watch was armed.
    Lost,
}

/// Not the number of any line: lines are at least 16 bytes.
const IDLE: u64 = u64::MAX;
/// Likewise.
const LOST: u64 = u64::MAX - 1;

/// Bits of the filter: many for each of the harts that a machine can have, so that their watches do not fill it.
const BITS: usize = 4096;

/// The word of the filter that has the bit of a line, and the bit in it.
#[inline(always)]
fn bit(line: u64) -> (usize, u32) {
    let index = line as usize % BITS;
    (index / 64, index as u32 % 64)
}

/// The watches of all harts, at most one each.
#[derive(Debug)]
pub struct Watches {
    line_log2: u32,
    /// Bit n is set when `counts[n]` is not zero.
    filter: Box<[u64; BITS / 64]>,
    /// How many watched lines (or lines below one) fall on each bit of the filter.
    counts: Box<[u32; BITS]>,
    /// For each hart the line that it holds, or [`IDLE`], or [`LOST`].
    lines: Vec<u64>,
    /// The lines that are held, with who holds them.
    held: BTreeSet<(u64, HartId)>,
    /// Harts whose watch is lost and that [`Watches::take_lost`] has not yet named; each at most
    /// once, so never longer than `lines`.
    lost: Vec<HartId>,
    /// Lines that are in the filter for ever.
    pinned: Vec<u64>,
}

/// Watches as a snapshot keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchesState {
    /// The watch of each hart.
    harts: Vec<HartWatch>,
    /// Harts that have not heard yet that they lost their watch, in order.
    lost: Vec<HartId>,
    /// Numbers of lines that are in the filter for ever.
    pinned: Vec<u64>,
}

/// A hart's watch in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum HartWatch {
    Idle,
    /// With the number of the line.
    Held(u64),
    Lost,
}

impl Watches {
    /// No watches, for `harts` harts and lines of `1 << line_log2` bytes, at least 16.
    pub(crate) fn new(harts: usize, line_log2: u32) -> Self {
        debug_assert!((4..64).contains(&line_log2));
        Self {
            line_log2,
            filter: Box::new([0; BITS / 64]),
            counts: Box::new([0; BITS]),
            lines: vec![IDLE; harts],
            held: BTreeSet::new(),
            lost: Vec::with_capacity(harts),
            pinned: Vec::new(),
        }
    }

    /// All that a snapshot needs.
    #[must_use]
    pub fn save(&self) -> WatchesState {
        self.save_of((0..self.lines.len()).map(HartId::new))
    }

    /// The same of some harts.
    pub(crate) fn save_of(&self, harts: impl Iterator<Item = HartId>) -> WatchesState {
        let watch = |line: u64| match line {
            IDLE => HartWatch::Idle,
            LOST => HartWatch::Lost,
            line => HartWatch::Held(line),
        };
        let harts: Vec<_> = harts.collect();
        let lost = self.lost.iter().filter(|hart| harts.contains(hart));
        WatchesState {
            lost: lost.copied().collect(),
            pinned: self.pinned.clone(),
            harts: (harts.iter())
                .map(|hart| watch(self.lines[hart.index()]))
                .collect(),
        }
    }

    /// Makes the watches what they were.
    ///
    /// # Errors
    /// When they are those of another number of harts, or contradict themselves.
    pub fn restore(&mut self, state: &WatchesState) -> Result<(), String> {
        let harts = self.lines.len();
        if state.harts.len() != harts {
            let theirs = state.harts.len();
            return Err(format!(
                "watches of {theirs} harts, where there are {harts}"
            ));
        }
        let lines = u64::MAX >> self.line_log2;
        let mut restored = Self::new(harts, self.line_log2);
        for (hart, watch) in state.harts.iter().enumerate() {
            restored.lines[hart] = match *watch {
                HartWatch::Idle => IDLE,
                HartWatch::Lost => LOST,
                HartWatch::Held(line) if line <= lines => {
                    restored.hold(HartId::new(hart), line);
                    line
                }
                HartWatch::Held(line) => return Err(format!("a watch on line {line:#x}")),
            };
        }
        for &hart in &state.lost {
            let is_lost = restored.lines.get(hart.index()) == Some(&LOST);
            if !is_lost || restored.lost.contains(&hart) {
                return Err(format!("{hart} is told of a watch that it has not lost"));
            }
            restored.lost.push(hart);
        }
        for &line in &state.pinned {
            if line > lines {
                return Err(format!("a line {line:#x} in the filter for ever"));
            }
            restored.pin_line(line);
        }
        *self = restored;
        Ok(())
    }

    /// Bytes of a watched line.
    #[must_use]
    pub fn line_bytes(&self) -> u64 {
        1 << self.line_log2
    }

    /// Makes `hart` watch the line of `addr` instead of whatever it watched before.
    #[inline]
    pub fn arm(&mut self, hart: HartId, addr: PhysAddr) {
        let line = addr.block(self.line_log2);
        if self.lines[hart.index()] != line {
            self.disarm(hart);
            self.lines[hart.index()] = line;
            self.hold(hart, line);
        }
    }

    /// Ends the watch of `hart`, if it has one.
    #[inline]
    pub fn disarm(&mut self, hart: HartId) {
        match std::mem::replace(&mut self.lines[hart.index()], IDLE) {
            IDLE => {}
            LOST => self.lost.retain(|&other| other != hart),
            line => self.let_go(hart, line),
        }
    }

    /// Whether `hart` watches the line of `addr` and has not lost it.
    #[inline(always)]
    #[must_use]
    pub fn is_held(&self, hart: HartId, addr: PhysAddr) -> bool {
        self.lines[hart.index()] == addr.block(self.line_log2)
    }

    /// Where the watch of `hart` stands.
    #[inline]
    #[must_use]
    pub fn state(&self, hart: HartId) -> WatchState {
        match self.lines[hart.index()] {
            IDLE => WatchState::Idle,
            LOST => WatchState::Lost,
            _ => WatchState::Held,
        }
    }

    /// Whether [`Watches::take_lost`] would name a hart.
    #[inline(always)]
    #[must_use]
    pub fn any_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// The harts that lost their watch since this was last asked, in the order of the stores and,
    /// within one store, of hart numbers. A hart that has armed or disarmed since is not named.
    #[inline]
    pub fn take_lost(&mut self) -> std::vec::Drain<'_, HartId> {
        self.lost.drain(..)
    }

    /// The first of those harts that [`Watches::take_lost`] would name, which is then not named again.
    #[inline]
    pub fn take_first_lost(&mut self) -> Option<HartId> {
        match self.lost.is_empty() {
            true => None,
            false => Some(self.lost.remove(0)),
        }
    }

    /// The test for a store's fast path: false means that a store of up to 16 bytes at `addr`
    /// concerns no watch.
    #[inline(always)]
    pub(crate) fn may_concern(&self, addr: PhysAddr) -> bool {
        let (word, bit) = bit(addr.block(self.line_log2));
        self.filter[word] >> bit & 1 != 0
    }

    /// Keeps the line of `addr` in the filter for ever, whoever watches it.
    pub(crate) fn pin(&mut self, addr: PhysAddr) {
        self.pin_line(addr.block(self.line_log2));
    }

    fn pin_line(&mut self, line: u64) {
        self.include(line);
        self.pinned.push(line);
    }

    /// Breaks the watches of all harts but `by` on the lines of a store.
    pub(crate) fn stored(&mut self, by: Option<HartId>, addr: PhysAddr, bytes: u64) {
        let first = addr.block(self.line_log2);
        let last = PhysAddr(addr.0 + bytes - 1).block(self.line_log2);
        let concerned = self
            .held
            .range((first, HartId(0))..=(last, HartId(u16::MAX)));
        let others = concerned.filter(|(_, hart)| Some(*hart) != by);
        let mut losers: Vec<_> = others.map(|&(_, hart)| hart).collect();
        losers.sort_unstable();
        for hart in losers {
            self.is_lost(hart);
        }
    }

    /// The hart has lost the line of `line_bytes` bytes with number `line`: if it watches part of it, its watch is
    /// broken.
    pub fn lose(&mut self, hart: HartId, line: u64, line_log2: u32) {
        if self.watches(hart, line, line_log2) {
            self.is_lost(hart);
        }
    }

    /// Whether the hart watches part of the line with number `line`, of `1 << line_log2` bytes.
    #[must_use]
    pub fn watches(&self, hart: HartId, line: u64, line_log2: u32) -> bool {
        let watched = self.lines[hart.index()];
        if watched == IDLE || watched == LOST {
            return false;
        }
        let (fine, coarse) = (self.line_log2.min(line_log2), self.line_log2.max(line_log2));
        let shift = coarse - fine;
        match self.line_log2 > line_log2 {
            true => watched == line >> shift,
            false => watched >> shift == line,
        }
    }

    /// The watch that `hart` holds is broken.
    fn is_lost(&mut self, hart: HartId) {
        let line = std::mem::replace(&mut self.lines[hart.index()], LOST);
        self.let_go(hart, line);
        self.lost.push(hart);
    }

    fn hold(&mut self, hart: HartId, line: u64) {
        self.held.insert((line, hart));
        self.include(line);
    }

    fn let_go(&mut self, hart: HartId, line: u64) {
        self.held.remove(&(line, hart));
        self.exclude(line);
    }

    fn include(&mut self, line: u64) {
        for line in [line, line.wrapping_sub(1)] {
            self.counts[line as usize % BITS] += 1;
            let (word, bit) = bit(line);
            self.filter[word] |= 1 << bit;
        }
    }

    fn exclude(&mut self, line: u64) {
        for line in [line, line.wrapping_sub(1)] {
            let count = &mut self.counts[line as usize % BITS];
            *count -= 1;
            if *count == 0 {
                let (word, bit) = bit(line);
                self.filter[word] &= !(1 << bit);
            }
        }
    }
}

#[cfg(test)]
#[path = "watches_tests.rs"]
mod tests;
