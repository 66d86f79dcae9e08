//! A timing wheel: events by cycle, those of one cycle in the order in which they were put in.

use std::collections::BTreeMap;

use loiter_types::Cycle;
use serde::{Deserialize, Serialize};
use serde_with::serde_as;

/// Words of slots of a wheel for delays of any length that memory has.
const MOST_WORDS: usize = u16::BITS as usize;

/// No event.
const NONE: u32 = u32::MAX;

/// Events to come. Putting in and taking out cost a few instructions when an event is less than 64 times `WORDS`
/// cycles ahead; later ones wait in an ordered map.
///
/// Events lie together in the room that the most ever needed, whichever slots they are of, and the one that was left
/// last is taken first: a host has its caches full of wheels where a machine has many cores.
#[serde_as]
#[derive(Debug, Deserialize, Serialize)]
pub struct Wheel<T, const WORDS: usize = MOST_WORDS> {
    /// Of the events of a cycle in `now .. now + SLOTS`, by cycle modulo `SLOTS`, the one put in last.
    #[serde_as(as = "Box<[[_; 64]; WORDS]>")]
    last: Box<[[u32; 64]; WORDS]>,
    /// Each event, and the one put in after it; of the last of a slot the first.
    events: Vec<(T, u32)>,
    /// The first of those that are left, which are chained likewise.
    free: u32,
    /// Bit n: slot n holds something.
    #[serde_as(as = "[_; WORDS]")]
    occupied: [u64; WORDS],
    /// Bit n: word n of `occupied` has a bit.
    words: u16,
    /// Events at or after `now + SLOTS`.
    far: BTreeMap<u64, Vec<T>>,
    now: u64,
    /// Cycle of the earliest event.
    next: Cycle,
}

impl<T, const WORDS: usize> Default for Wheel<T, WORDS> {
    fn default() -> Self {
        const { assert!(WORDS.is_power_of_two() && WORDS <= MOST_WORDS) };
        Self {
            last: Box::new([[NONE; 64]; WORDS]),
            events: Vec::new(),
            free: NONE,
            occupied: [0; WORDS],
            words: 0,
            far: BTreeMap::new(),
            now: 0,
            next: Cycle::NEVER,
        }
    }
}

impl<T: Copy, const WORDS: usize> Wheel<T, WORDS> {
    const SLOTS: usize = 64 * WORDS;

    /// Puts `event` in at `at`, which must not be before the cycle last advanced to.
    #[inline]
    pub fn insert(&mut self, at: Cycle, event: T) {
        debug_assert!(at.0 >= self.now, "event in the past");
        self.next = self.next.min(at);
        if at.0 - self.now < Self::SLOTS as u64 {
            self.append(at.0 as usize % Self::SLOTS, event);
        } else {
            self.far.entry(at.0).or_default().push(event);
        }
    }

    /// All events with their cycles, in order.
    pub fn events(&self) -> impl Iterator<Item = (Cycle, &T)> {
        let mut from = self.now;
        let slots = std::iter::from_fn(move || {
            let at = self.occupied_from(from)?;
            from = at + 1;
            Some(at)
        });
        let near = slots.flat_map(|at| self.events_at(at).map(move |event| (Cycle(at), event)));
        let far = self.far.iter().flat_map(|(&at, events)| {
            let events = events.iter();
            events.map(move |event| (Cycle(at), event))
        });
        near.chain(far)
    }

    /// The events of cycle `at`, within the wheel's reach, of which there are some.
    fn events_at(&self, at: u64) -> impl Iterator<Item = &T> {
        let slot = at as usize % Self::SLOTS;
        let last = self.last[slot / 64][slot % 64];
        let mut next = Some(self.events[last as usize].1);
        std::iter::from_fn(move || {
            let n = next?;
            let (event, after) = &self.events[n as usize];
            next = (n != last).then_some(*after);
            Some(event)
        })
    }

    /// Everything happens `cycles` later, and the cycle last advanced to is as much later.
    pub fn shift(&mut self, cycles: u64) {
        let now = self.now;
        let mut kept = Vec::new();
        while self.next != Cycle::NEVER {
            let at = self.next;
            let mut events = Vec::new();
            self.advance(at, &mut events);
            kept.extend(events.into_iter().map(|event| (at, event)));
        }
        self.now = now + cycles;
        for (at, event) in kept {
            self.insert(at.after(cycles), event);
        }
    }

    /// The first cycle from `from` on, within the wheel's reach, that has an event.
    fn occupied_from(&self, mut from: u64) -> Option<u64> {
        let end = self.now + Self::SLOTS as u64;
        while from < end {
            let slot = from as usize % Self::SLOTS;
            let ahead = self.occupied[slot / 64] >> (slot % 64);
            if ahead != 0 {
                let at = from + u64::from(ahead.trailing_zeros());
                return (at < end).then_some(at);
            }
            from += 64 - (slot % 64) as u64;
        }
        None
    }

    /// The cycle of the earliest event.
    #[inline(always)]
    #[must_use]
    pub fn next(&self) -> Cycle {
        self.next
    }

    /// Puts `event` after the others of a slot.
    #[inline(always)]
    fn append(&mut self, slot: usize, event: T) {
        let at = self.free;
        let n = match self.events.get_mut(at as usize) {
            Some(free) => {
                self.free = free.1;
                *free = (event, at);
                at
            }
            None => self.more_room(event),
        };
        let (word, bit) = (slot / 64, 1 << (slot % 64));
        let last = std::mem::replace(&mut self.last[word][slot % 64], n);
        if self.occupied[word] & bit != 0 {
            let first = std::mem::replace(&mut self.events[last as usize].1, n);
            self.events[n as usize].1 = first;
        }
        self.occupied[word] |= bit;
        self.words |= 1 << word;
    }

    #[cold]
    fn more_room(&mut self, event: T) -> u32 {
        let n = self.events.len() as u32;
        self.events.push((event, n));
        n
    }

    /// Looks for the earliest event.
    #[inline]
    fn find_next(&self) -> Cycle {
        let start = self.now as usize % Self::SLOTS;
        let (first, bit) = (start / 64, start % 64);
        // The next 64 slots, whichever words they are of.
        let second = self.occupied[(first + 1) % WORDS];
        let ahead = self.occupied[first] >> bit | second << 1 << (63 - bit);
        if ahead != 0 {
            return Cycle(self.now + u64::from(ahead.trailing_zeros()));
        }
        if self.words != 0 {
            // The next word with a bit, this one last, where what is left lies before the start.
            let later = self.words & (!1 << first);
            let words = if later != 0 { later } else { self.words };
            let word = words.trailing_zeros() as usize;
            let slot = word * 64 + self.occupied[word].trailing_zeros() as usize;
            return Cycle(self.now + ((slot + Self::SLOTS - start) % Self::SLOTS) as u64);
        }
        self.far
            .first_key_value()
            .map_or(Cycle::NEVER, |(&at, _)| Cycle(at))
    }

    /// Goes to cycle `now` and moves its events to `out`, in order. Cycles with events must not be
    /// passed over.
    #[inline]
    pub fn advance(&mut self, now: Cycle, out: &mut Vec<T>) {
        debug_assert!(now.0 >= self.now && self.next() >= now, "passed an event");
        self.now = now.0;
        if !self.far.is_empty() {
            self.bring_near();
        }
        let slot = now.0 as usize % Self::SLOTS;
        let (word, bit) = (slot / 64, 1 << (slot % 64));
        if self.occupied[word] & bit != 0 {
            self.occupied[word] &= !bit;
            if self.occupied[word] == 0 {
                self.words &= !(1 << word);
            }
            self.take(self.last[word][slot % 64], out);
        }
        self.next = self.find_next();
    }

    /// Moves the events of the slot whose last is `last` to `out`.
    #[inline(always)]
    fn take(&mut self, last: u32, out: &mut Vec<T>) {
        let first = std::mem::replace(&mut self.events[last as usize].1, self.free);
        let mut n = first;
        loop {
            let (event, next) = self.events[n as usize];
            out.push(event);
            if n == last {
                break;
            }
            n = next;
        }
        self.free = first;
    }

    /// Events that come within the wheel's reach go to their slots, before any later insertion.
    #[cold]
    fn bring_near(&mut self) {
        while let Some(entry) = self.far.first_entry() {
            let at = *entry.key();
            if at - self.now >= Self::SLOTS as u64 {
                return;
            }
            for event in entry.remove() {
                self.append(at as usize % Self::SLOTS, event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shifted_comes_as_much_later_in_the_same_order() {
        let mut wheel = Wheel::<_>::default();
        let mut out = Vec::new();
        wheel.insert(Cycle(7), 0);
        wheel.advance(Cycle(7), &mut out);
        let events = [(9, 1), (9, 2), (1030, 3), (1031, 4), (5000, 5)];
        for (at, event) in events {
            wheel.insert(Cycle(at), event);
        }
        for by in [3_u64, 1024, 10_001] {
            wheel.shift(by);
            wheel.insert(Cycle(7 + by), 9);
            wheel.advance(Cycle(7 + by), &mut out);
            let moved: Vec<_> = wheel
                .events()
                .map(|(at, &event)| (at.0 - by, event))
                .collect();
            assert_eq!(moved, events);
            let mut back = Wheel::<_> {
                now: 7,
                ..Default::default()
            };
            for (at, event) in events {
                back.insert(Cycle(at), event);
            }
            wheel = back;
        }
    }

    /// Wheels against a sorted list, with delays around their sizes.
    #[test]
    fn events_come_in_order_of_cycle_then_insertion() {
        comes_in_order::<1>();
        comes_in_order::<2>();
        comes_in_order::<16>();
    }

    fn comes_in_order<const WORDS: usize>() {
        let mut wheel = Wheel::<_, WORDS>::default();
        let mut expected = Vec::new();
        let mut seed = 12345_u64;
        let mut now = 0;
        let mut got = Vec::new();
        let mut out = Vec::new();
        for n in 0..20_000_u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let delay = (seed >> 33) % (192 * WORDS as u64);
            wheel.insert(Cycle(now + delay), n);
            expected.push((now + delay, n));
            if n % 3 == 0 {
                now = wheel.next().0;
                wheel.advance(Cycle(now), &mut out);
                got.extend(out.drain(..).map(|event| (now, event)));
            }
        }
        while wheel.next() != Cycle::NEVER {
            now = wheel.next().0;
            wheel.advance(Cycle(now), &mut out);
            assert!(!out.is_empty(), "next() named a cycle without events");
            got.extend(out.drain(..).map(|event| (now, event)));
        }
        // An event put in at the present cycle after that cycle's were taken comes at once; sort by
        // the cycle it was meant for.
        expected.sort_by_key(|&(at, n)| (at, n));
        assert_eq!(got.len(), 20_000);
        assert_eq!(got, expected);
    }

    #[test]
    fn room_is_as_much_as_was_needed_at_once() {
        let mut wheel = Wheel::<_, 2>::default();
        let mut out = Vec::new();
        for now in 0..1000 {
            wheel.insert(Cycle(now + 3), now);
            wheel.insert(Cycle(now + 100), now);
            if wheel.next() == Cycle(now) {
                wheel.advance(Cycle(now), &mut out);
            }
        }
        assert_eq!(out.len(), 997 + 900);
        assert_eq!(wheel.events.len(), 3 + 100 + 2);
    }
}
