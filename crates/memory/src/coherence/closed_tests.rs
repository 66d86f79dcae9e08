//! Unloaded and saturated behaviour in closed forms.

use loiter_types::ContextId;

use super::random_tests::{MESI, clusters, home, machine, small};
use super::*;
use crate::coherence::{CoherenceConfig, Protocol};

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
        Self::of(&machine(1, home(MESI, None, true), None))
    }

    fn of(config: &CoherenceConfig) -> Self {
        Self {
            memory: Coherent::new(config).unwrap(),
            told: Vec::new(),
        }
    }

    fn ask(&mut self, now: u64, core: u16, kind: RequestKind) {
        self.ask_at(now, core, kind, ADDR);
    }

    fn ask_at(&mut self, now: u64, core: u16, kind: RequestKind, addr: PhysAddr) {
        let request = Request {
            kind,
            core: CoreId(core),
            context: ContextId(0),
            addr,
            tag: 1,
        };
        assert_eq!(self.memory.ask(Cycle(now), request), Asked::Sent);
    }

    /// Cycles of a request that is alone.
    fn alone(&mut self, now: u64, core: u16, kind: RequestKind) -> u64 {
        self.ask(now, core, kind);
        let found = self.drain();
        assert_eq!(found.len(), 1);
        found[0].0 - now
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

#[test]
fn replies_to_the_requester_save_the_way_through_home_and_cost_the_next_request_a_message() {
    let mut config = machine(1, home(MESI, None, true), None);
    config.home.direct = true;
    let mut bench = Bench::of(&config);
    let asked = 1 + CONTROL + TAG;
    bench.alone(1000, 0, RequestKind::Own);
    let supplied = asked + CONTROL + SNOOP + LINE;
    assert_eq!(bench.alone(2000, 1, RequestKind::Load), supplied);
    // Both have a copy; the other's reply has no line.
    let upgraded = asked + CONTROL + SNOOP + CONTROL;
    assert_eq!(bench.alone(3000, 1, RequestKind::Own), upgraded);
    // Home serves the next when the one before has told it that all is there.
    for core in 2..6 {
        bench.ask(4000 + u64::from(core), core, RequestKind::Own);
    }
    let found = bench.drain();
    let period = CONTROL + CONTROL + SNOOP + LINE;
    for (n, &(at, core, level)) in (0..).zip(&found) {
        let expected = 4002 + supplied + n * period;
        assert_eq!(
            (at, core, level),
            (expected, CoreId(2 + n as u16), Level::OtherCache)
        );
    }
    assert_eq!(found.len(), 4);
    let writes = bench.memory.fabric.drams[0].counters.writes;
    assert_eq!(writes, 1, "by the read of a line that was written");
}

#[test]
fn what_changes_takes_longer_by_what_the_machine_says() {
    let mut config = machine(1, home(MESI, None, true), None);
    config.home.owner_cycles = 7;
    config.private.snoop_change_cycles = 5;
    let mut bench = Bench::of(&config);
    let asked = 1 + CONTROL + TAG;
    let memory = 40;
    assert_eq!(
        bench.alone(1000, 0, RequestKind::Load),
        asked + memory + LINE
    );
    let supplied = asked + CONTROL + SNOOP + LINE + LINE;
    assert_eq!(
        bench.alone(2000, 1, RequestKind::Load),
        supplied,
        "a clean copy stays"
    );
    let upgraded = asked + 7 + CONTROL + SNOOP + 5 + CONTROL + CONTROL;
    assert_eq!(bench.alone(3000, 0, RequestKind::Own), upgraded);
    assert_eq!(bench.alone(4000, 1, RequestKind::Own), supplied + 7 + 5);
    assert_eq!(
        bench.alone(5000, 0, RequestKind::Load),
        supplied + 5,
        "it has been written"
    );
}

#[test]
fn a_new_owner_is_entered_also_where_nobody_else_has_the_line() {
    let mut config = machine(1, home(MESI, None, true), None);
    config.home.owner_cycles = 7;
    let mut bench = Bench::of(&config);
    // An instruction line is a shared copy.
    bench.alone(1000, 0, RequestKind::Fetch);
    let upgraded = 1 + CONTROL + TAG + 7 + CONTROL;
    assert_eq!(bench.alone(2000, 0, RequestKind::Own), upgraded);
}

#[test]
fn memory_that_is_read_beside_the_look_up_hides_the_shorter_of_both() {
    let mut config = machine(1, home(MESI, None, true), None);
    config.home.reads_early = true;
    let mut bench = Bench::of(&config);
    let memory = 40;
    assert_eq!(
        bench.alone(1000, 0, RequestKind::Load),
        1 + CONTROL + memory + LINE
    );
    config.home.tag_cycles = 50;
    let mut bench = Bench::of(&config);
    assert_eq!(
        bench.alone(1000, 0, RequestKind::Load),
        1 + CONTROL + 50 + LINE
    );
}

#[test]
fn a_part_of_memory_has_homes_of_its_own() {
    let mut config = machine(4, home(MESI, None, true), None);
    config.nodes = 2;
    config.memory.1 = 8192;
    let mut bench = Bench::of(&config);
    for (n, offset) in [0, 64, 128, 4032, 4096, 4160, 8128].into_iter().enumerate() {
        let addr = PhysAddr(0x8000_0000 + offset);
        bench.ask_at(1000 * n as u64, 0, RequestKind::Load, addr);
        bench.drain();
    }
    let homes = bench.memory.homes.iter();
    let requests: Vec<_> = homes.map(|home| home.counters.requests).collect();
    assert_eq!(requests, [2, 2, 1, 2]);
}

#[test]
fn a_die_that_serves_what_it_has_cached_asks_for_what_its_cores_have() {
    let protocol = Protocol {
        owned: true,
        broadcasts: true,
        ..MESI
    };
    let (up, down) = (3, 4);
    let mut die = home(MESI, Some(small(1, 4)), false);
    let mut above = home(protocol, None, true);
    above.direct = true;
    let held = Bench::of(&machine(1, above.clone(), clusters(4, die.clone())));
    die.only_cached = true;
    let cached = Bench::of(&machine(1, above, clusters(4, die)));
    let within = down + SNOOP + up + down;
    let asked = 1 + up + TAG;
    for (mut bench, goes_above) in [(held, 0), (cached, CONTROL + TAG + CONTROL)] {
        bench.alone(1000, 0, RequestKind::Own);
        let load = bench.alone(2000, 1, RequestKind::Load);
        assert_eq!(load, asked + goes_above + within);
        // Who has told that the line is shared has to hear from the three other dies, which look up all of their cores.
        // Their replies take the link to it one after the other.
        let broadcast = match goes_above {
            0 => 0,
            _ => CONTROL + TAG + CONTROL + (down + SNOOP + up) + CONTROL + 2,
        };
        let store = bench.alone(3000, 1, RequestKind::Own);
        assert_eq!(store, asked + broadcast + within);
        // Another die gets it from the core that has written it.
        let far = asked + CONTROL + TAG + CONTROL + TAG + (down + SNOOP + up) + LINE + down;
        let look_up = if goes_above > 0 { TAG } else { 0 };
        assert_eq!(bench.alone(4000, 4, RequestKind::Load), far - look_up);
    }
}
