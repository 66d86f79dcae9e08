//! Unloaded and saturated behaviour in closed forms.

use loiter_types::ContextId;

use super::random_tests::{MESI, home, machine};
use super::*;

const ADDR: PhysAddr = PhysAddr(0x8000_1240);

/// Of `machine`: from a node to another without and with a line.
const CONTROL: u64 = 10;
const LINE: u64 = 13;
/// A look-up of home, and one of private caches.
const TAG: u64 = 2;
const SNOOP: u64 = 2;

struct Bench {
    memory: Coherent,
    told: Vec<(u64, CoreId, Level)>,
}

impl Bench {
    fn new() -> Self {
        Self {
            memory: Coherent::new(&machine(1, home(MESI, None, true), None)).unwrap(),
            told: Vec::new(),
        }
    }

    fn ask(&mut self, now: u64, core: u16, kind: RequestKind) {
        let request = Request {
            kind,
            core: CoreId(core),
            context: ContextId(0),
            addr: ADDR,
            tag: 1,
        };
        assert_eq!(self.memory.ask(Cycle(now), request), Asked::Sent);
    }

    /// Everything happens. Returns when each request performed, for whom, and what served it.
    fn drain(&mut self) -> Vec<(u64, CoreId, Level)> {
        let mut told = Vec::new();
        while self.memory.next() != Cycle::NEVER {
            let now = self.memory.next();
            self.memory.advance(now, &mut told);
            for told in told.drain(..) {
                if let Told::Performs(response) = told {
                    self.told
                        .push((now.0, response.request.core, response.level));
                }
            }
        }
        assert!(self.memory.is_idle());
        std::mem::take(&mut self.told)
    }
}

#[test]
fn a_request_alone_takes_the_way_of_its_messages() {
    let mut bench = Bench::new();
    // It leaves a cycle after the miss.
    let asked = 1 + CONTROL + TAG;
    bench.ask(1000, 0, RequestKind::Load);
    let memory = 40;
    assert_eq!(
        bench.drain(),
        [(1000 + asked + memory + LINE, CoreId(0), Level::Memory)]
    );
    // Core 0 has it alone.
    bench.ask(2000, 1, RequestKind::Load);
    let supplied = asked + CONTROL + SNOOP + LINE + LINE;
    assert_eq!(
        bench.drain(),
        [(2000 + supplied, CoreId(1), Level::OtherCache)]
    );
    // Both have a copy; the other has to give it up, without a line in any message.
    bench.ask(3000, 0, RequestKind::Own);
    let upgraded = asked + CONTROL + SNOOP + CONTROL + CONTROL;
    assert!(!bench.memory.store(CoreId(0), ADDR));
    assert_eq!(bench.drain(), [(3000 + upgraded, CoreId(0), Level::Home)]);
    assert!(bench.memory.store(CoreId(0), ADDR));
    bench.ask(4000, 1, RequestKind::Own);
    assert_eq!(
        bench.drain(),
        [(4000 + supplied, CoreId(1), Level::OtherCache)]
    );
}

#[test]
fn cores_that_write_one_line_are_served_in_one_period_each_in_order_of_arrival() {
    for cores in [2, 3, 8, 15] {
        let mut bench = Bench::new();
        bench.ask(1000, 15, RequestKind::Own);
        bench.drain();
        // One after the other, long before the first is served.
        for core in 0..cores {
            bench.ask(2000 + u64::from(core), core, RequestKind::Own);
        }
        let found = bench.drain();
        let order: Vec<_> = found.iter().map(|&(_, core, _)| core).collect();
        let expected: Vec<_> = (0..cores).map(CoreId).collect();
        assert_eq!(order, expected);
        let alone = 1 + CONTROL + TAG + CONTROL + SNOOP + LINE + LINE;
        // The next snoop leaves with the grant, and reaches that core when the line has left the link.
        let period = (CONTROL + 4) + SNOOP + LINE;
        for (n, &(at, ..)) in (0..).zip(&found) {
            assert_eq!(at, 2000 + alone + n * period, "{cores} cores, {n}");
        }
    }
}

#[test]
fn memory_is_written_when_nobody_keeps_the_newer_value() {
    let mut bench = Bench::new();
    let writes = |bench: &Bench| bench.memory.fabric.drams[0].counters.writes;
    bench.ask(1000, 0, RequestKind::Own);
    bench.drain();
    bench.ask(2000, 1, RequestKind::Own);
    bench.drain();
    assert_eq!(writes(&bench), 0, "the next owner has it");
    bench.ask(3000, 0, RequestKind::Load);
    bench.drain();
    assert_eq!(writes(&bench), 1, "both have a copy as in memory");
    bench.ask(4000, 2, RequestKind::Atomic);
    bench.drain();
    assert_eq!(writes(&bench), 2, "home has written it itself");
}

#[test]
fn a_line_queue_is_counted() {
    let mut bench = Bench::new();
    for core in 0..5 {
        bench.ask(1000, core, RequestKind::Own);
    }
    bench.drain();
    let counters = &bench.memory.homes[0].counters;
    assert_eq!((counters.requests, counters.queued_requests), (5, 4));
    assert_eq!(counters.longest_queue, 4);
    assert!(counters.queue_cycles > 4 * LINE);
}
