//! Unloaded and saturated behaviour of a bus in closed forms.

use loiter_types::{ContextId, CoreId, PhysAddr};

use super::super::system::random_tests::{MESI, on_bus};
use super::super::{Asked, Coherent};
use super::*;
use crate::request::RequestKind;

const LINE: u64 = 0x8000_1240;

/// Of the machine: a miss is at the bus; the bus is kept for a request, and for a line; a cache has its value.
const TO_BUS: u64 = 2;
const REQUEST: u64 = 2;
const VALUE: u64 = 3;
const SNOOP: u64 = 2;
const MEMORY: u64 = 40;

struct Bench {
    memory: Coherent,
}

impl Bench {
    fn new(protocol: Protocol, round_robin: bool) -> Self {
        Self {
            memory: Coherent::new(&on_bus(protocol, round_robin)).unwrap(),
        }
    }

    fn ask_at(&mut self, now: u64, core: u16, kind: RequestKind, addr: u64) {
        let request = Request {
            kind,
            core: CoreId(core),
            context: ContextId(0),
            addr: PhysAddr(addr),
            tag: 1,
        };
        assert_eq!(self.memory.ask(Cycle(now), request), Asked::Sent);
    }

    fn ask(&mut self, now: u64, core: u16, kind: RequestKind) {
        self.ask_at(now, core, kind, LINE);
    }

    /// Everything happens. Returns when each request performed, for whom, and what served it.
    fn drain(&mut self) -> Vec<(u64, u16, Level)> {
        let (mut told, mut performed) = (Vec::new(), Vec::new());
        while self.memory.next() != Cycle::NEVER {
            let now = self.memory.next();
            self.memory.advance(now, &mut told);
            for told in told.drain(..) {
                if let Told::Performs(response) = told {
                    performed.push((now.0, response.request.core.0, response.level));
                }
            }
        }
        assert!(self.memory.is_idle());
        performed
    }

    fn state(&self, core: u16) -> State {
        self.memory.state(CoreId(core), PhysAddr(LINE))
    }

    fn writes(&self) -> u64 {
        self.memory.fabric.drams[0].counters.writes
    }
}

#[test]
fn a_request_alone_takes_its_phases() {
    let mut bench = Bench::new(MESI, true);
    let asked = TO_BUS + REQUEST;
    bench.ask(1000, 0, RequestKind::Load);
    let expected = 1000 + asked + MEMORY + VALUE;
    assert_eq!(bench.drain(), [(expected, 0, Level::Memory)]);
    assert_eq!(bench.state(0), State::Exclusive);
    bench.ask(2000, 1, RequestKind::Load);
    let expected = 2000 + asked + SNOOP + VALUE;
    assert_eq!(bench.drain(), [(expected, 1, Level::OtherCache)]);
    assert_eq!([bench.state(0), bench.state(1)], [State::Shared; 2]);
    // No value has to come: the request is all.
    bench.ask(3000, 0, RequestKind::Own);
    assert_eq!(bench.drain(), [(3000 + asked, 0, Level::Home)]);
    assert_eq!(
        [bench.state(0), bench.state(1)],
        [State::Modified, State::Invalid]
    );
    bench.ask(4000, 1, RequestKind::Own);
    let expected = 4000 + asked + SNOOP + VALUE;
    assert_eq!(bench.drain(), [(expected, 1, Level::OtherCache)]);
    assert_eq!(
        [bench.state(0), bench.state(1)],
        [State::Invalid, State::Modified]
    );
}

#[test]
fn cores_that_write_one_line_are_served_in_one_period_each() {
    for (round_robin, cores) in [(true, 2), (true, 15), (false, 3), (false, 8)] {
        let mut bench = Bench::new(MESI, round_robin);
        bench.ask(1000, 15, RequestKind::Own);
        bench.drain();
        for core in (0..cores).rev() {
            bench.ask(2000, core, RequestKind::Own);
        }
        let found = bench.drain();
        let order: Vec<_> = found.iter().map(|&(_, core, _)| core).collect();
        // The first to come has it; then they have it in order of arrival, or in turn.
        let expected: Vec<_> = match round_robin {
            false => (0..cores).rev().collect(),
            true => [cores - 1].into_iter().chain(0..cores - 1).collect(),
        };
        assert_eq!(order, expected);
        let period = REQUEST + SNOOP + VALUE;
        for (n, &(at, ..)) in (0..).zip(&found) {
            assert_eq!(at, 2000 + TO_BUS + (n + 1) * period, "{cores} cores, {n}");
        }
    }
}

#[test]
fn requests_for_different_lines_share_the_bus_until_it_is_full() {
    for cores in [1, 4, 16] {
        let mut bench = Bench::new(MESI, false);
        // One row of memory for each line, and a bank of its own for the first four.
        for core in 0..cores {
            bench.ask_at(
                1000,
                core,
                RequestKind::Load,
                0x8000_0000 + u64::from(core) * 64,
            );
        }
        let found = bench.drain();
        assert_eq!(found.len(), usize::from(cores));
        let last = found.last().unwrap().0;
        let bus = u64::from(cores) * (REQUEST + VALUE);
        let alone = TO_BUS + REQUEST + MEMORY + VALUE;
        let counters = &bench.memory.bus.as_ref().unwrap().counters;
        assert_eq!(counters.busy_cycles, bus);
        // Requests go ahead while memory reads; one after the other they would take far longer.
        assert!(last - 1000 >= alone.max(bus), "{cores}: {found:?}");
        assert!(last - 1000 <= alone + bus, "{cores}: {found:?}");
        assert!(
            cores < 4 || last - 1000 < u64::from(cores) * alone / 2,
            "{cores}: {found:?}"
        );
    }
}

#[test]
fn memory_is_written_when_nobody_keeps_the_newer_value() {
    for owned in [false, true] {
        let mut bench = Bench::new(Protocol { owned, ..MESI }, true);
        bench.ask(1000, 0, RequestKind::Own);
        bench.drain();
        bench.ask(2000, 1, RequestKind::Own);
        bench.drain();
        assert_eq!(bench.writes(), 0, "the next owner has it");
        bench.ask(3000, 0, RequestKind::Load);
        bench.drain();
        assert_eq!(
            bench.writes(),
            u64::from(!owned),
            "memory takes it from the bus"
        );
        let writer = if owned { State::Owned } else { State::Shared };
        assert_eq!(bench.state(1), writer);
        let before = bench.writes();
        bench.ask(4000, 2, RequestKind::Atomic);
        bench.drain();
        assert_eq!(bench.writes(), before + 1, "it performs in memory");
        assert_eq!([bench.state(0), bench.state(1)], [State::Invalid; 2]);
    }
}

#[test]
fn a_copy_lost_while_its_owner_waits_to_write_is_fetched_again() {
    let mut bench = Bench::new(MESI, true);
    for core in [0, 1] {
        bench.ask(1000 * (u64::from(core) + 1), core, RequestKind::Load);
        bench.drain();
    }
    // Both have a copy and ask only to write it.
    bench.ask(3000, 0, RequestKind::Own);
    bench.ask(3000, 1, RequestKind::Own);
    let first = 3000 + TO_BUS + REQUEST;
    let second = first + REQUEST + SNOOP + VALUE;
    let expected = [(first, 0, Level::Home), (second, 1, Level::OtherCache)];
    assert_eq!(bench.drain(), expected);
    let counters = &bench.memory.bus.as_ref().unwrap().counters;
    assert_eq!(counters.upgrades, 1);
}

#[test]
fn a_line_that_waits_to_be_written_back_is_supplied_and_then_needs_no_bus() {
    // Three lines of one set of two.
    let replaced = |bench: &mut Bench| {
        bench.ask(1000, 0, RequestKind::Own);
        bench.drain();
        bench.ask_at(2000, 0, RequestKind::Load, LINE + 512);
        bench.drain();
        bench.ask_at(3000, 0, RequestKind::Load, LINE + 1024);
    };
    let mut alone = Bench::new(MESI, false);
    replaced(&mut alone);
    let comes = alone.drain()[0].0;
    let written_back = |bench: &Bench| bench.memory.bus.as_ref().unwrap().counters.write_backs;
    assert_eq!((written_back(&alone), alone.writes()), (1, 1));
    // Another core asks for the line that goes while the bus brings the one that takes its place.
    let mut bench = Bench::new(MESI, false);
    replaced(&mut bench);
    bench.ask(comes - 1 - TO_BUS, 1, RequestKind::Load);
    let supplied = comes + REQUEST + SNOOP + VALUE;
    let expected = [(comes, 0, Level::Memory), (supplied, 1, Level::OtherCache)];
    assert_eq!(bench.drain(), expected);
    assert_eq!(bench.state(0), State::Invalid);
    assert_eq!((written_back(&bench), bench.writes()), (0, 1));
}
