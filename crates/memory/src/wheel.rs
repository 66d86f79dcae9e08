//! A timing wheel: events by cycle, those of one cycle in the order in which they were put in.

use loiter_types::Cycle;
use std::collections::BTreeMap;

const SLOTS: usize = 1024;
const WORDS: usize = SLOTS / 64;
const _: () = assert!(WORDS == u16::BITS as usize);

/// Events to come. Putting in and taking out cost a few instructions when an event is less than 1024
/// cycles ahead; later ones wait in an ordered map.
#[derive(Debug)]
pub struct Wheel<T> {
    /// Events of cycles `now .. now + SLOTS`, by cycle modulo `SLOTS`.
    slots: Vec<Vec<T>>,
    /// Bit n: slot n holds something.
    occupied: [u64; WORDS],
    /// Bit n: word n of `occupied` has a bit.
    words: u16,
    /// Events at or after `now + SLOTS`.
    far: BTreeMap<u64, Vec<T>>,
    now: u64,
    /// Cycle of the earliest event.
    next: Cycle,
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            occupied: [0; WORDS],
            words: 0,
            far: BTreeMap::new(),
            now: 0,
            next: Cycle::NEVER,
        }
    }
}

impl<T> Wheel<T> {
    /// Puts `event` in at `at`, which must not be before the cycle last advanced to.
    #[inline]
    pub fn insert(&mut self, at: Cycle, event: T) {
        debug_assert!(at.0 >= self.now, "event in the past");
        self.next = self.next.min(at);
        if at.0 - self.now < SLOTS as u64 {
            let slot = at.0 as usize % SLOTS;
            self.slots[slot].push(event);
            self.occupy(slot);
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
        let near = slots.flat_map(|at| {
            let events = self.slots[at as usize % SLOTS].iter();
            events.map(move |event| (Cycle(at), event))
        });
        let far = self.far.iter().flat_map(|(&at, events)| {
            let events = events.iter();
            events.map(move |event| (Cycle(at), event))
        });
        near.chain(far)
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

    /// The cycle of the earliest event.
    #[inline(always)]
    #[must_use]
    pub fn next(&self) -> Cycle {
        self.next
    }

    #[inline(always)]
    fn occupy(&mut self, slot: usize) {
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.words |= 1 << (slot / 64);
    }

    /// The first cycle from `from` on, within the wheel's reach, that has an event.
    fn occupied_from(&self, mut from: u64) -> Option<u64> {
        while from < self.now + SLOTS as u64 {
            let slot = from as usize % SLOTS;
            let ahead = self.occupied[slot / 64] >> (slot % 64);
            if ahead != 0 {
                let at = from + u64::from(ahead.trailing_zeros());
                return (at < self.now + SLOTS as u64).then_some(at);
            }
            from += 64 - (slot % 64) as u64;
        }
        None
    }

    /// Looks for the earliest event.
    fn find_next(&self) -> Cycle {
        let start = self.now as usize % SLOTS;
        let (first, bit) = (start / 64, start % 64);
        let ahead = self.occupied[first] & (!0 << bit);
        if ahead != 0 {
            return Cycle(self.now + u64::from(ahead.trailing_zeros()) - bit as u64);
        }
        if self.words != 0 {
            // The next word with a bit, this one last, where what is left lies before the start.
            let turned = self.words.rotate_right(first as u32 + 1);
            let word = (first + 1 + turned.trailing_zeros() as usize) % WORDS;
            let slot = word * 64 + self.occupied[word].trailing_zeros() as usize;
            return Cycle(self.now + ((slot + SLOTS - start) % SLOTS) as u64);
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
        let slot = now.0 as usize % SLOTS;
        let bit = 1 << (slot % 64);
        if self.occupied[slot / 64] & bit != 0 {
            self.occupied[slot / 64] &= !bit;
            if self.occupied[slot / 64] == 0 {
                self.words &= !(1 << (slot / 64));
            }
            out.append(&mut self.slots[slot]);
        }
        self.next = self.find_next();
    }

    /// Events that come within the wheel's reach go to their slots, before any later insertion.
    #[cold]
    fn bring_near(&mut self) {
        while let Some(entry) = self.far.first_entry() {
            let at = *entry.key();
            if at - self.now >= SLOTS as u64 {
                return;
            }
            let slot = at as usize % SLOTS;
            self.slots[slot].append(&mut entry.remove());
            self.occupy(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shifted_comes_as_much_later_in_the_same_order() {
        let mut wheel = Wheel::default();
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
            let mut back = Wheel {
                now: 7,
                ..Wheel::default()
            };
            for (at, event) in events {
                back.insert(Cycle(at), event);
            }
            wheel = back;
        }
    }

    /// The wheel against a sorted list, with delays around its size.
    #[test]
    fn events_come_in_order_of_cycle_then_insertion() {
        let mut wheel = Wheel::default();
        let mut expected = Vec::new();
        let mut seed = 12345_u64;
        let mut now = 0;
        let mut got = Vec::new();
        let mut out = Vec::new();
        for n in 0..20_000_u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let delay = (seed >> 33) % 3000;
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
}
