//! The memory system as a core sees it, to the cycle: every expected time is worked out here from the parameters' meaning.

use loiter_types::ContextId;

use super::*;

const REQUEST: u64 = 8;
const REPLY: u64 = 8;
const HIT: u64 = 22;
const MISS: u64 = 100;
const ATOMIC: u64 = 39;
const TRANSFER: u64 = 10;
/// From sending to performing, when the second level has the line.
const PERFORMS: u64 = HIT - REPLY;

fn first_level() -> L1Params {
    L1Params {
        size_kib: 8,
        ways: 4,
        line_bytes: 16,
        replacement: "lru".into(),
    }
}

/// Four cores; an L2 of one bank for each of four channels.
pub(crate) fn config() -> MemoryConfig {
    MemoryConfig {
        cores: 4,
        l1i: first_level(),
        l1d: first_level(),
        misses: [(); 2].map(|()| L1MissParams {
            mshrs: 64,
            perfect: false,
        }),
        bus: BusParams {
            kind: "apart".into(),
            line_cycles: 0,
        },
        l2: L2Params {
            size_kib: 64,
            ways: 4,
            line_bytes: 64,
            banks: 4,
            replacement: "lru".into(),
            hit_latency_cycles: HIT,
            miss_latency_cycles: MISS,
            atomic_latency_cycles: ATOMIC,
            request_cycles: REQUEST,
            reply_cycles: REPLY,
            bank_busy_cycles: 1,
            atomic_busy_cycles: 2,
            mshrs_per_bank: 16,
        },
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
pub(super) fn drain(system: &mut MemorySystem, now: u64, responses: &mut Vec<(u64, Response)>) {
    let mut performed = Vec::new();
    while system.next().0 <= now {
        let at = system.next();
        system.advance(at, &mut performed);
        responses.extend(performed.drain(..).map(|told| match told {
            Told::Performs(response) => (at.0, response),
            other => unreachable!("{other:?}"),
        }));
    }
}

/// A memory system with what has come out of it: cycle, kind, asking context, when it may continue.
struct Bench {
    system: MemorySystem,
    responses: Vec<(u64, Response)>,
}

impl Bench {
    fn new(config: MemoryConfig) -> Self {
        Self {
            system: MemorySystem::new(config).unwrap(),
            responses: Vec::new(),
        }
    }

    /// Goes on to the end of what memory does in cycle `now`.
    fn goto(&mut self, now: u64) {
        drain(&mut self.system, now, &mut self.responses);
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
        self.send(now, RequestKind::Walk, 3, addr);
        for &core in cores {
            now += 1000;
            self.send(now, RequestKind::Load, core, addr);
        }
        self.goto(now + 1000);
        self.responses.clear();
        now + 1000
    }

    /// All responses: when each performs, and when its asker continues.
    fn finish(mut self) -> Vec<(u64, u64)> {
        self.goto(u64::MAX - 1);
        let times = |(at, response): &(u64, Response)| (*at, response.done.0);
        self.responses.iter().map(times).collect()
    }
}

#[test]
fn unloaded_latencies_are_those_of_the_parameters() {
    for (kind, hit, miss) in [
        (RequestKind::Load, HIT, MISS),
        (RequestKind::Fetch, HIT, MISS),
        (RequestKind::Walk, HIT, MISS),
    ] {
        let mut bench = Bench::new(config());
        bench.send(500, kind, 0, 0);
        bench.send(1000, kind, 0, 0);
        let expected = [
            (500 + PERFORMS + MISS - HIT, 500 + miss),
            (1000 + PERFORMS, 1000 + hit),
        ];
        assert_eq!(bench.finish(), expected, "{kind:?}");
    }
    let mut bench = Bench::new(config());
    bench.send(500, RequestKind::Device, 0, 0);
    assert_eq!(bench.finish(), [(500 + 199, 500 + 200)]);
}

#[test]
fn requests_to_one_bank_queue_and_others_do_not() {
    let mut config = config();
    config.l2.bank_busy_cycles = 3;
    let mut bench = Bench::new(config);
    let mut now = 0;
    for line in 0..6 {
        now = bench.warm(now, &[], 64 * line);
    }
    // Lines 0 and 4 are of bank 0, line 1 is of bank 1.
    bench.send(now, RequestKind::Load, 0, 0);
    bench.send(now, RequestKind::Load, 1, BANK);
    bench.send(now, RequestKind::Load, 2, 64);
    bench.send(now, RequestKind::Load, 3, BANK);
    bench.send(now + 1, RequestKind::Load, 2, 0);
    bench.send(now + 20, RequestKind::Load, 2, 0);
    let waits = |counters: &L2Counters| counters.bank_wait_cycles;
    assert_eq!(waits(bench.system.l2_counters()), 3 + 6 + 8);
    let performs: Vec<u64> = bench.finish().iter().map(|(at, _)| at - now).collect();
    let expected = [0, 0, 3, 3 + 3, 3 + 3 + 3, 20].map(|wait| PERFORMS + wait);
    assert_eq!(performs, expected);
}

#[test]
fn misses_of_a_channel_are_a_transfer_apart_and_hits_pass_them() {
    let mut bench = Bench::new(config());
    let now = bench.warm(0, &[], 0);
    for n in 1..=4 {
        bench.send(now, RequestKind::Load, 0, n * BANK);
    }
    bench.send(now, RequestKind::Load, 1, 64);
    bench.send(now, RequestKind::Load, 2, 0);
    assert_eq!(
        bench.system.l2_counters().channel_wait_cycles,
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
    let mut config = config();
    config.l2.mshrs_per_bank = 2;
    config.memory.line_transfer_cycles = 1;
    let mut bench = Bench::new(config);
    for n in 0..5 {
        bench.send(n, RequestKind::Load, 0, n * BANK);
    }
    bench.send(5, RequestKind::Load, 0, 64);
    let done: Vec<u64> = bench.finish().iter().map(|(_, done)| *done).collect();
    // A register is kept from look-up until the line is there.
    let kept = MISS - HIT;
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
    let mut bench = Bench::new(config());
    bench.send(0, RequestKind::Load, 0, 0);
    bench.send(40, RequestKind::Load, 1, 16);
    bench.send(77, RequestKind::Load, 2, 32);
    bench.send(79, RequestKind::Load, 3, 48);
    assert_eq!(bench.system.l2_counters().misses, 1);
    // The line is there in cycle 92; who looks it up then or later takes the time of a hit.
    assert_eq!(bench.system.l2_counters().merged_misses, 2);
    let ready = MISS - REPLY;
    let expected = [
        (ready, MISS),
        (ready, MISS),
        (ready, MISS),
        (79 + PERFORMS, 79 + HIT),
    ];
    assert_eq!(bench.finish(), expected);
}

#[test]
fn a_load_fills_its_first_level_when_it_is_done() {
    let mut bench = Bench::new(config());
    let now = bench.warm(0, &[], 0);
    bench.send(now, RequestKind::Load, 0, 0);
    assert!(!bench.has(now + HIT - 1, 0, 0));
    assert!(bench.has(now + HIT, 0, 0));
    assert!(
        !bench.has(now + HIT, 0, 16),
        "another line of the first level"
    );
    assert!(!bench.has(now + HIT, 1, 0), "another core");
}

#[test]
fn who_owns_a_line_takes_it_from_others_a_reply_after_its_bank_has_served_it() {
    let mut bench = Bench::new(config());
    let mut now = bench.warm(0, &[0, 1, 2], 0);
    bench.send(now, RequestKind::Load, 2, 48);
    now += 1000;
    bench.send(now, RequestKind::Own, 0, 0);
    let lost = now + PERFORMS + REPLY;
    for core in 0..3 {
        assert!(bench.has(lost - 1, core, 0), "{core}");
    }
    assert!(bench.has(lost - 1, 2, 48));
    assert!(bench.has(lost, 0, 0), "its own");
    assert!(!bench.has(lost, 1, 0) && !bench.has(lost, 2, 0));
    assert!(!bench.has(lost, 2, 48), "another part of the line");
}

/// Core 0, which the bank serves after core 1's load, owns the line before the load is back: that is not kept, not even
/// until it would be taken away.
#[test]
fn a_line_that_is_lost_on_its_way_is_not_kept() {
    for gap in [0, 1, 7] {
        let mut bench = Bench::new(config());
        let now = bench.warm(0, &[], 0);
        bench.send(now, RequestKind::Load, 1, 0);
        bench.send(now + gap, RequestKind::Own, 0, 0);
        assert!(!bench.has(now + HIT, 1, 0), "{gap}");
        assert!(!bench.has(now + 100, 1, 0), "{gap}");
    }
}

#[test]
fn what_the_second_level_replaces_is_lost_to_the_first_levels() {
    let mut bench = Bench::new(config());
    let mut now = 0;
    for way in 0..4 {
        now = bench.warm(now, &[0, 1], way * SET);
    }
    bench.send(now, RequestKind::Load, 2, 4 * SET);
    // It performs when its line has come, and the one it replaces, the oldest, is lost a reply later.
    let lost = now + MISS;
    assert!(bench.has(lost - 1, 0, 0) && bench.has(lost - 1, 1, 0));
    assert!(!bench.has(lost, 0, 0) && !bench.has(lost, 1, 0));
    assert!(bench.has(lost, 0, SET) && bench.has(lost, 2, 4 * SET));
    let (_, data) = bench.system.l1_counters(CoreId(1));
    assert_eq!(data.invalidations, 1);
}

/// A line that was stored to is written back when it is replaced, which keeps its channel for another transfer.
#[test]
fn a_writeback_takes_a_transfer() {
    for dirty in [false, true] {
        let mut bench = Bench::new(config());
        let mut now = 0;
        for way in 0..4 {
            now += 1000;
            bench.send(now, RequestKind::Load, 0, way * SET);
        }
        now += 1000;
        if dirty {
            bench.send(now, RequestKind::Own, 0, 0);
        }
        now += 1000;
        // The line stored to is not the oldest any more; the other three go first.
        for way in 4..7 + u64::from(!dirty) {
            now += 1000;
            bench.send(now, RequestKind::Load, 0, way * SET);
        }
        now += 1000;
        bench.goto(now);
        bench.responses.clear();
        bench.send(now, RequestKind::Load, 0, 8 * SET);
        bench.send(now, RequestKind::Load, 0, 9 * SET);
        assert_eq!(bench.system.l2_counters().writebacks, u64::from(dirty));
        let done: Vec<u64> = bench.finish().iter().map(|(_, done)| done - now).collect();
        let transfers = if dirty { 2 } else { 1 };
        assert_eq!(done, [MISS, MISS + transfers * TRANSFER], "{dirty}");
    }
}
