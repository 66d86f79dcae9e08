//! The memory system as a core sees it, to the cycle: every expected time is worked out here from the parameters' meaning.

use loiter_types::ContextId;

use super::*;
use crate::counters::L2Counters;
use crate::request::Lost;

mod first_levels;
mod queues;
mod random;

const REPLY: u64 = 8;
const CORE: u64 = 3;
const HIT: u64 = 22;
const MISS: u64 = 100;
const ATOMIC: u64 = 39;
/// From sending until an access that hits performs, and one that misses; its context continues later.
const HITS: u64 = HIT - CORE;
const MISSES: u64 = MISS - CORE;
const TRANSFER: u64 = 10;

fn first_level(line_bytes: u64) -> L1Params {
    L1Params {
        size_kib: 8,
        ways: 4,
        line_bytes,
        replacement: "lru".into(),
    }
}

/// Four cores; an L2 of one bank for each of four channels. Lines are those of the T1.
fn params() -> WriteThroughParams {
    WriteThroughParams {
        cores: 4,
        l1i: first_level(32),
        l1d: first_level(16),
        l2: L2Params {
            size_kib: 64,
            ways: 4,
            line_bytes: 64,
            banks: 4,
            replacement: "lru".into(),
            hit_latency_cycles: HIT,
            miss_latency_cycles: MISS,
            atomic_latency_cycles: ATOMIC,
            request_cycles: 8,
            reply_cycles: REPLY,
            bank_busy_cycles: 1,
            atomic_busy_cycles: 2,
            mshrs_per_bank: 16,
        },
        reply: ReplyParams { core_cycles: CORE },
        memory: MemoryParams {
            channels: 4,
            line_transfer_cycles: TRANSFER,
            device_latency_cycles: 200,
        },
    }
}

/// Lines of one set of the L2 above are this far apart; lines of one bank are four lines apart.
const SET: u64 = 16 << 10;
const BANK: u64 = 4 * 64;

/// Goes on to the end of what memory does in cycle `now`; adds what performs, and when.
fn drain(system: &mut WriteThrough, now: u64, responses: &mut Vec<(u64, Response)>) {
    for (at, told) in hear(system, now) {
        if let Told::Performs(response) = told
            && response.request.kind != RequestKind::Acknowledge
        {
            responses.push((at, response));
        }
    }
}

/// Goes on to the end of what memory does in cycle `now`. Returns what cores are told, and when.
fn hear(system: &mut WriteThrough, now: u64) -> Vec<(u64, Told)> {
    let (mut told, mut all) = (Vec::new(), Vec::new());
    while system.next().0 <= now {
        let at = system.next();
        system.advance(at, &mut told);
        all.extend(told.drain(..).map(|told| (at.0, told)));
    }
    all
}

/// A memory system with what has come out of it.
struct Bench {
    system: WriteThrough,
    told: Vec<(u64, Told)>,
}

impl Bench {
    fn new(params: &WriteThroughParams) -> Self {
        Self {
            system: WriteThrough::new(params).unwrap(),
            told: Vec::new(),
        }
    }

    /// Goes on to the end of what memory does in cycle `now`.
    fn goto(&mut self, now: u64) {
        self.told.extend(hear(&mut self.system, now));
    }

    fn send(&mut self, now: u64, kind: RequestKind, core: u16, addr: u64) {
        self.goto(now);
        let request = Request {
            kind,
            core: CoreId(core),
            context: ContextId(core),
            addr: PhysAddr(addr),
            tag: 0,
        };
        self.system.send(Cycle(now), request);
    }

    /// Whether a load of `core` would hit in cycle `now`.
    fn has(&mut self, now: u64, core: u16, addr: u64) -> bool {
        self.goto(now);
        self.system.load(CoreId(core), PhysAddr(addr))
    }

    /// Puts a line in the second level and in the first of some cores. Returns a later cycle.
    fn warm(&mut self, start: u64, cores: &[u16], addr: u64) -> u64 {
        let mut now = start;
        self.send(now, RequestKind::Atomic, 3, addr);
        for &core in cores {
            now += 1000;
            self.send(now, RequestKind::Load, core, addr);
        }
        self.goto(now + 1000);
        self.told.clear();
        now + 1000
    }

    fn counters(&self) -> &L2Counters {
        &self.system.second.counters
    }

    /// All responses: when each performs, and when its core continues.
    fn finish(mut self) -> Vec<(u64, u64)> {
        self.goto(u64::MAX - 1);
        assert!(self.system.is_idle());
        let performs = self.told.iter().filter_map(|(at, told)| match told {
            Told::Performs(Response { request, done, .. }) => {
                (request.kind != RequestKind::Acknowledge).then_some((*at, done.0))
            }
            _ => None,
        });
        performs.collect()
    }

    /// What cores are told, but for acknowledgements: when, what, and which core.
    fn order(&mut self) -> Vec<(u64, &'static str, u16)> {
        self.goto(u64::MAX - 1);
        let told = self.told.drain(..).filter_map(|(at, told)| match told {
            Told::Performs(Response { request, .. }) => match request.kind {
                RequestKind::Acknowledge => None,
                RequestKind::Fails => Some((at, "fails", request.core.0)),
                _ => Some((at, "performs", request.core.0)),
            },
            Told::Lost { core, why, .. } => match why {
                Lost::Written => Some((at, "written", core.0)),
                _ => Some((at, "evicted", core.0)),
            },
            other => unreachable!("{other:?}"),
        });
        told.collect()
    }
}

#[test]
fn unloaded_latencies_are_those_of_the_parameters() {
    let more = ATOMIC - HIT;
    for (kind, more) in [
        (RequestKind::Load, 0),
        (RequestKind::Fetch, 0),
        (RequestKind::Walk, 0),
        (RequestKind::Store, 0),
        (RequestKind::Atomic, more),
        (RequestKind::Reserve, more),
        (RequestKind::Conditional, more),
        (RequestKind::Fails, more),
    ] {
        let mut bench = Bench::new(&params());
        bench.send(500, kind, 0, 0);
        bench.send(1000, kind, 0, 0);
        let expected = [
            (500 + MISSES, 500 + MISS + more),
            (1000 + HITS, 1000 + HIT + more),
        ];
        assert_eq!(bench.finish(), expected, "{kind:?}");
    }
    let mut bench = Bench::new(&params());
    bench.send(500, RequestKind::Device, 0, 0);
    assert_eq!(bench.finish(), [(500 + 199, 500 + 200)]);
}

#[test]
fn a_store_is_acknowledged_when_a_load_would_be_done() {
    for core_cycles in [CORE, 0] {
        let mut params = params();
        params.reply.core_cycles = core_cycles;
        let mut bench = Bench::new(&params);
        let now = bench.warm(0, &[], 0);
        bench.send(now, RequestKind::Store, 1, 8);
        bench.goto(now + 100);
        let got = bench.told.iter().map(|(at, told)| match told {
            Told::Performs(response) => (at - now, response.request.kind),
            other => unreachable!("{other:?}"),
        });
        let expected = [
            (HIT - core_cycles, RequestKind::Store),
            (HIT, RequestKind::Acknowledge),
        ];
        assert_eq!(got.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn requests_to_one_bank_queue_and_others_do_not() {
    let mut params = params();
    params.l2.bank_busy_cycles = 3;
    params.l2.atomic_busy_cycles = 5;
    let mut bench = Bench::new(&params);
    let mut now = 0;
    for line in 0..6 {
        now = bench.warm(now, &[], 64 * line);
    }
    // Lines 0 and 4 are of bank 0, line 1 is of bank 1.
    bench.send(now, RequestKind::Load, 0, 0);
    bench.send(now, RequestKind::Atomic, 1, BANK);
    bench.send(now, RequestKind::Load, 2, 64);
    bench.send(now, RequestKind::Load, 3, BANK);
    bench.send(now + 1, RequestKind::Load, 2, 0);
    bench.send(now + 20, RequestKind::Load, 2, 0);
    assert_eq!(bench.counters().bank_wait_cycles, 3 + 8 + 10);
    let performs: Vec<u64> = bench.finish().iter().map(|(at, _)| at - now).collect();
    let expected = [0, 0, 3, 3 + 5, 3 + 5 + 3, 20].map(|wait| HITS + wait);
    assert_eq!(performs, expected);
}

/// n cores that store to one line, or do atomics on it, are served in one period of the bank each, in order of arrival.
#[test]
fn cores_that_write_one_line_are_served_in_one_period_each() {
    for (kind, period) in [(RequestKind::Store, 1), (RequestKind::Atomic, 2)] {
        let mut params = params();
        params.cores = 16;
        let mut bench = Bench::new(&params);
        let now = bench.warm(0, &[], 0);
        for core in 0..16 {
            bench.send(now, kind, core, 8);
        }
        let order: Vec<_> = (0..16)
            .map(|core: u16| (now + HITS + u64::from(core) * period, "performs", core))
            .collect();
        assert_eq!(bench.order(), order, "{kind:?}");
    }
}

#[test]
fn misses_of_a_channel_are_a_transfer_apart_and_hits_pass_them() {
    let mut bench = Bench::new(&params());
    let now = bench.warm(0, &[], 0);
    for n in 1..=4 {
        bench.send(now, RequestKind::Load, 0, n * BANK);
    }
    bench.send(now, RequestKind::Load, 1, 64);
    bench.send(now, RequestKind::Load, 2, 0);
    bench.goto(now + HIT);
    assert_eq!(
        bench.counters().channel_wait_cycles,
        (1..4).map(|n| n * (TRANSFER - 1)).sum::<u64>()
    );
    let mut done: Vec<u64> = bench.finish().iter().map(|(_, done)| done - now).collect();
    done.sort_unstable();
    // The hit is fifth at its bank; line 1 goes over another channel.
    let misses = [0, 1, 2, 3].map(|n| MISS + n * TRANSFER);
    assert_eq!(done, [[HIT + 4].as_slice(), &[MISS], &misses].concat());
}

#[test]
fn a_bank_without_a_free_miss_register_makes_misses_wait() {
    let mut params = params();
    params.l2.mshrs_per_bank = 2;
    params.memory.line_transfer_cycles = 1;
    let mut bench = Bench::new(&params);
    for n in 0..5 {
        bench.send(n, RequestKind::Load, 0, n * BANK);
    }
    bench.send(5, RequestKind::Load, 0, 64);
    bench.goto(u64::MAX - 1);
    // A register is kept from look-up until the line is there. The third waits for the first, the fifth for the third.
    let kept = MISS - HIT;
    assert_eq!(
        bench.counters().mshr_wait_cycles,
        (kept - 2) + (kept - 2) + (2 * kept - 4)
    );
    let done: Vec<u64> = bench.finish().iter().map(|(_, done)| *done).collect();
    let queued = [
        MISS,
        MISS + 1,
        MISS + kept,
        MISS + 1 + kept,
        MISS + 2 * kept,
    ];
    let mut expected = [queued.as_slice(), &[5 + MISS]].concat();
    expected.sort_unstable();
    assert_eq!(done, expected);
}

#[test]
fn a_second_miss_to_a_line_waits_for_the_first() {
    let mut bench = Bench::new(&params());
    bench.send(0, RequestKind::Load, 0, 0);
    bench.send(40, RequestKind::Load, 1, 16);
    bench.send(77, RequestKind::Load, 2, 32);
    bench.send(79, RequestKind::Load, 3, 48);
    bench.goto(MISS - REPLY);
    // The line is there in cycle 92; who looks it up then or later takes the time of a hit.
    let counters = bench.counters();
    assert_eq!((counters.misses, counters.merged_misses), (1, 2));
    let expected = [MISS, MISS, MISS, 79 + HIT].map(|done| (done - CORE, done));
    assert_eq!(bench.finish(), expected);
}

/// A set whose lines are all to come takes no further one before the first of them is there.
#[test]
fn a_miss_without_room_waits_for_a_line_of_its_set() {
    let mut bench = Bench::new(&params());
    for way in 0..4 {
        bench.send(way, RequestKind::Load, 0, way * SET);
    }
    bench.send(10, RequestKind::Load, 1, 4 * SET);
    bench.send(11, RequestKind::Store, 2, 4 * SET);
    bench.send(12, RequestKind::Load, 0, SET);
    let first = MISS - REPLY;
    let memory = MISS - HIT;
    bench.goto(first - 1);
    assert_eq!(bench.counters().misses, 4);
    let channel = |n: u64| n * (TRANSFER - 1);
    let mut done: Vec<u64> = bench.finish().iter().map(|(_, done)| *done).collect();
    done.sort_unstable();
    let last = first + memory + REPLY;
    let ways = [0, 1, 2, 3].map(|n| n + MISS + channel(n));
    let mut expected = [ways.as_slice(), &[ways[1], last, last]].concat();
    expected.sort_unstable();
    assert_eq!(done, expected);
}

/// The load comes first: it gets the line, and loses it to the store.
#[test]
fn requests_without_room_are_served_in_the_order_of_their_arrival() {
    let mut bench = Bench::new(&params());
    for way in 0..4 {
        bench.send(way, RequestKind::Load, 0, way * SET);
    }
    bench.send(10, RequestKind::Load, 1, 4 * SET);
    bench.send(11, RequestKind::Store, 2, 4 * SET);
    let order = bench.order();
    let last: Vec<_> = order[order.len() - 3..]
        .iter()
        .map(|&(_, what, core)| (what, core))
        .collect();
    assert_eq!(last, [("performs", 1), ("written", 1), ("performs", 2)]);
}

/// Whichever of a load and a store its bank serves first comes first: the copy of a load that came before is lost as the
/// store performs, the copy of one that came after stays.
#[test]
fn a_bank_orders_loads_and_stores_of_a_line() {
    for gap in [0, 1, 7] {
        let mut bench = Bench::new(&params());
        let now = bench.warm(0, &[], 0);
        bench.send(now, RequestKind::Load, 1, 0);
        bench.send(now + gap, RequestKind::Store, 0, 0);
        let gap = gap.max(1);
        let expected = [
            (now + HITS, "performs", 1),
            (now + HITS + gap, "written", 1),
            (now + HITS + gap, "performs", 0),
        ];
        assert_eq!(bench.order(), expected, "{gap}");
        let now = bench.warm(now + 2000, &[], 0);
        bench.send(now, RequestKind::Store, 0, 0);
        bench.send(now + gap, RequestKind::Load, 1, 0);
        let expected = [
            (now + HITS, "performs", 0),
            (now + HITS + gap, "performs", 1),
        ];
        assert_eq!(bench.order(), expected, "{gap}");
        assert!(bench.has(now + 1000, 1, 0), "{gap}");
    }
}

/// A line that was stored to is written back when it is replaced, which keeps its channel for another transfer.
#[test]
fn a_writeback_takes_a_transfer() {
    for dirty in [false, true] {
        let mut bench = Bench::new(&params());
        let mut now = 0;
        for way in 0..4 {
            now += 1000;
            bench.send(now, RequestKind::Load, 0, way * SET);
        }
        now += 1000;
        if dirty {
            bench.send(now, RequestKind::Store, 0, 0);
        }
        // The line stored to is not the oldest any more; the other three go first.
        now += 1000;
        for way in 4..7 + u64::from(!dirty) {
            now += 1000;
            bench.send(now, RequestKind::Load, 0, way * SET);
        }
        now += 1000;
        bench.goto(now);
        bench.told.clear();
        bench.send(now, RequestKind::Load, 0, 8 * SET);
        bench.send(now, RequestKind::Load, 0, 9 * SET);
        bench.goto(now + HIT);
        assert_eq!(bench.counters().writebacks, u64::from(dirty));
        let done: Vec<u64> = bench.finish().iter().map(|(_, done)| done - now).collect();
        let transfers = if dirty { 2 } else { 1 };
        assert_eq!(done, [MISS, MISS + transfers * TRANSFER], "{dirty}");
    }
}

#[test]
fn what_was_accessed_hits_and_nothing_was_counted() {
    let [one, other] = [CoreId(0), CoreId(1)];
    let addr = PhysAddr(0x1240);
    let mut memory = WriteThrough::new(&params()).unwrap();
    memory.warm(one, RequestKind::Fetch, PhysAddr(0x1200));
    memory.warm(one, RequestKind::Load, addr);
    let first = &memory.first[0];
    let counted = first.instruction_counters.accesses + first.data_counters.accesses;
    assert_eq!((counted, memory.second.counters.accesses), (0, 0));
    assert!(memory.is_idle());
    assert!(memory.fetch(one, PhysAddr(0x1200)) && memory.load(one, addr));
    assert!(!memory.load(other, addr));
    assert_eq!(memory.whereabouts(addr), Level::L2);
    assert_eq!(memory.whereabouts(PhysAddr(0x2000)), Level::Memory);
    for (kind, keeps) in [
        (RequestKind::Store, true),
        (RequestKind::Atomic, false),
        (RequestKind::Conditional, false),
        (RequestKind::Reserve, true),
    ] {
        for core in [one, other] {
            memory.warm(core, RequestKind::Load, addr);
        }
        memory.warm(one, kind, addr);
        let reads = kind == RequestKind::Reserve;
        assert_eq!(memory.load(one, addr), keeps, "{kind:?}");
        assert_eq!(memory.load(other, addr), reads, "{kind:?}");
    }
}

#[test]
fn what_is_impossible_is_named() {
    let mut long = params();
    long.l1i.line_bytes = 128;
    let mut late = params();
    late.l2.reply_cycles = HIT;
    let mut core = params();
    core.reply.core_cycles = REPLY;
    let mut few = params();
    few.l2.size_kib = 16;
    few.l2.ways = 64;
    few.l2.banks = 8;
    for (params, section, problem) in [
        (long, "l1i", "a line must not be longer than one of the l2"),
        (late, "l2", "hit_latency_cycles = 22 leaves nothing"),
        (
            core,
            "l2",
            "core_cycles = 8 leaves nothing of reply_cycles = 8",
        ),
        (few, "l2", "banks = 8 are more than its sets, 4"),
    ] {
        let found = WriteThrough::new(&params).unwrap_err();
        assert_eq!(found.0, section);
        assert!(found.1.starts_with(problem), "{}", found.1);
    }
}
