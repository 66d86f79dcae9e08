//! The bus between the first level of a core and the second.
//!
//! When a line arrives is decided when it is requested, so the bus is a calendar: a line takes the first
//! gap that is long enough, from the cycle on in which it could arrive. What is asked of memory so does
//! not delay what the second level has meanwhile.

use std::collections::VecDeque;

use loiter_types::Cycle;
use serde::{Deserialize, Serialize};

use crate::counters::BusCounters;
use crate::params::BusParams;

/// One bus.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Calendar {
    /// From when to when it is kept in cycles to come, in order.
    booked: VecDeque<(Cycle, Cycle)>,
}

impl Calendar {
    /// Books the bus for `cycles` from `ready` on at the earliest. Returns from when on.
    pub(crate) fn book(&mut self, now: Cycle, ready: Cycle, cycles: u64) -> Cycle {
        while self.booked.front().is_some_and(|&(_, end)| end <= now) {
            self.booked.pop_front();
        }
        let mut start = ready;
        let mut place = 0;
        for &(begins, ends) in &self.booked {
            if start.after(cycles) <= begins {
                break;
            }
            start = start.max(ends);
            place += 1;
        }
        self.booked.insert(place, (start, start.after(cycles)));
        start
    }
}

/// What connects the first level of a core to the second.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Bus {
    line_cycles: u64,
    /// One for both first-level caches and for changed lines.
    shared: bool,
    /// Of the instruction cache and of the data cache; the first is the shared one.
    calendars: [Calendar; 2],
    pub(crate) counters: BusCounters,
}

impl Bus {
    pub(crate) fn new(params: &BusParams) -> Self {
        Self {
            line_cycles: params.line_cycles,
            shared: params.kind == "shared",
            calendars: Default::default(),
            counters: BusCounters::default(),
        }
    }

    /// A line for the first-level cache at place `cache` could arrive at `ready`. Returns when it does.
    pub(crate) fn fill(&mut self, now: Cycle, cache: usize, ready: Cycle) -> Cycle {
        self.counters.fills += 1;
        let cache = if self.shared { 0 } else { cache };
        self.book(now, cache, ready)
    }

    /// A changed line leaves the first level, as soon as the bus is free. Returns whether it needs time.
    pub(crate) fn write_back(&mut self, now: Cycle) -> bool {
        if self.shared {
            self.counters.writebacks += 1;
            self.book(now, 0, now);
        }
        self.shared
    }

    fn book(&mut self, now: Cycle, cache: usize, ready: Cycle) -> Cycle {
        if self.line_cycles == 0 {
            return ready;
        }
        let start = self.calendars[cache].book(now, ready, self.line_cycles);
        self.counters.wait_cycles += start.since(ready);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bus(kind: &str) -> Bus {
        Bus::new(&BusParams {
            kind: kind.to_owned(),
            line_cycles: 2,
        })
    }

    #[test]
    fn a_line_takes_the_first_gap_that_is_long_enough() {
        let mut bus = bus("shared");
        let at = |bus: &mut Bus, ready| bus.fill(Cycle(0), 0, Cycle(ready)).0;
        assert_eq!(at(&mut bus, 100), 100);
        // What is ready before is not delayed; a gap of one cycle is none.
        assert_eq!(at(&mut bus, 10), 10);
        assert_eq!(at(&mut bus, 97), 97);
        assert_eq!(at(&mut bus, 98), 102);
        assert_eq!(at(&mut bus, 11), 12);
        assert_eq!(at(&mut bus, 8), 8);
        assert_eq!(at(&mut bus, 8), 14);
        assert_eq!((bus.counters.fills, bus.counters.wait_cycles), (7, 11));
    }

    #[test]
    fn only_a_shared_bus_is_taken_by_the_other_cache_and_by_changed_lines() {
        for (kind, expected) in [("shared", [10, 12, 16]), ("apart", [10, 10, 12])] {
            let mut bus = bus(kind);
            let first = bus.fill(Cycle(0), 0, Cycle(10)).0;
            let second = bus.fill(Cycle(0), 1, Cycle(10)).0;
            assert_eq!(bus.write_back(Cycle(10)), kind == "shared");
            let third = bus.fill(Cycle(10), 1, Cycle(10)).0;
            assert_eq!([first, second, third], expected, "{kind}");
        }
    }
}
