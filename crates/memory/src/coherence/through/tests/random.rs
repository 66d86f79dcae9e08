//! Cores that access few lines at random, with small caches: what must hold whatever happens.

use super::super::*;
use super::first_level;
use crate::coherence::Asked;
use crate::coherence::tester::{CORES, LINES, Tested, Tester};

const LINE_BYTES: u64 = 64;
const BASE: u64 = 0x8000_0000;

/// A system with data lines of `DATA` bytes, and instruction lines of `CODE`.
struct Lines<const DATA: u64, const CODE: u64>(WriteThrough);

impl<const DATA: u64, const CODE: u64> Lines<DATA, CODE> {
    /// Data lines of a line of the second level.
    const PARTS: u64 = LINE_BYTES / DATA;

    fn new(ways: u64) -> Self {
        let first = |line_bytes| L1Params {
            size_kib: 1,
            ways: 2,
            ..first_level(line_bytes)
        };
        Self(
            WriteThrough::new(&WriteThroughParams {
                cores: CORES,
                l1i: first(CODE),
                l1d: first(DATA),
                l2: L2Params {
                    size_kib: 1,
                    ways,
                    line_bytes: LINE_BYTES,
                    banks: 2,
                    replacement: "lru".into(),
                    hit_latency_cycles: 12,
                    miss_latency_cycles: 20,
                    atomic_latency_cycles: 20,
                    request_cycles: 3,
                    reply_cycles: 5,
                    bank_busy_cycles: 1,
                    atomic_busy_cycles: 2,
                    mshrs_per_bank: 1,
                },
                reply: ReplyParams { core_cycles: 2 },
                memory: MemoryParams {
                    channels: 1,
                    line_transfer_cycles: 2,
                    device_latency_cycles: 100,
                },
            })
            .unwrap(),
        )
    }
}

impl<const DATA: u64, const CODE: u64> Tested for Lines<DATA, CODE> {
    const MOST_OUTSTANDING: usize = 6;
    const ORDERED_IN_A_CYCLE: bool = true;

    /// Two sets of all caches.
    fn addr_of(n: usize) -> PhysAddr {
        let (line, part) = (n as u64 / Self::PARTS, n as u64 % Self::PARTS);
        let line = line / 2 * 16 + line % 2;
        PhysAddr(BASE + line * LINE_BYTES + part * DATA)
    }

    fn index_of(line: u64) -> Option<usize> {
        (0..LINES).find(|&n| Self::addr_of(n).0 == line * DATA)
    }

    fn fetched_with(n: usize) -> std::ops::Range<usize> {
        let lines = (CODE / DATA) as usize;
        let first = n / lines * lines;
        first..first + lines
    }

    fn kind(kind: RequestKind) -> RequestKind {
        match kind {
            RequestKind::Own => RequestKind::Store,
            RequestKind::OwnAhead => RequestKind::Reserve,
            kind => kind,
        }
    }

    fn fetch(&mut self, core: CoreId, addr: PhysAddr) -> bool {
        self.0.fetch(core, addr)
    }

    fn load(&mut self, _: Cycle, core: CoreId, addr: PhysAddr) -> bool {
        self.0.load(core, addr)
    }

    fn store(&mut self, _: CoreId, _: PhysAddr) -> bool {
        unreachable!("stores are sent")
    }

    fn ask(&mut self, now: Cycle, request: Request) -> Asked {
        self.0.send(now, request);
        Asked::Sent
    }

    fn next(&self) -> Cycle {
        self.0.next()
    }

    fn advance(&mut self, now: Cycle, told: &mut Vec<Told>) {
        self.0.advance(now, told);
    }

    fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    fn empty(
        &mut self,
        _: Cycle,
        core: CoreId,
        which: Caches,
        stays: Option<usize>,
        _: &mut Vec<Told>,
    ) -> Emptied {
        let stays = |line| stays.is_some() && Self::index_of(line) == stays;
        self.0.empty(core, which, stays)
    }

    fn can_read(&self, core: usize, n: usize) -> bool {
        let (core, addr) = (CoreId::new(core), Self::addr_of(n));
        let has = |which| self.0.holds(core, which, addr);
        has(Which::Data) || has(Which::Instructions)
    }

    fn can_write(&self, _: usize, _: usize) -> bool {
        false
    }

    /// No core has a line in both caches.
    fn look_around(&self) {
        for core in (0..CORES).map(CoreId::new) {
            for addr in (0..LINES).map(Self::addr_of) {
                let has = |which| self.0.holds(core, which, addr);
                let both = has(Which::Data) && has(Which::Instructions);
                assert!(!both, "{core} has {addr:?} in both caches");
            }
        }
    }

    /// The second level includes the first ones, and the directory knows every copy.
    fn look_at_homes(&self) {
        for core in (0..CORES).map(CoreId::new) {
            for addr in (0..LINES).map(Self::addr_of) {
                for which in [Which::Data, Which::Instructions] {
                    let has = self.0.holds(core, which, addr);
                    let known = self.0.second.knows(core, which, addr);
                    assert!(!has || known, "{core} has {addr:?} in {which:?}");
                }
            }
        }
    }
}

const ACCESSES: u64 = 4_200_000;

/// Runs a system; asserts that everything has happened that can.
fn holds_on<const DATA: u64, const CODE: u64>(ways: u64) {
    let mut tester = Tester::new(Lines::<DATA, CODE>::new(ways));
    tester.run(ACCESSES / 4 * 3);
    tester.empties = true;
    tester.run(ACCESSES);
    let l2 = &tester.memory.0.second.counters;
    let first = tester.memory.0.first.iter();
    let code = first.map(|first| first.instruction_counters.invalidations);
    for (what, count) in [
        ("emptied", tester.emptied),
        ("lost to a writer", tester.lost[0]),
        ("evicted", tester.lost[2]),
        ("performed at home", tester.at_home),
        // Most lose their line before.
        ("sc that succeed", 4 * tester.conditionals[0]),
        ("sc that fail", tester.conditionals[1]),
        ("instructions lost", code.sum()),
        ("waits for banks", l2.bank_wait_cycles),
        ("waits for registers", l2.mshr_wait_cycles),
        ("waits for channels", l2.channel_wait_cycles),
        ("misses", l2.misses),
        ("merged", l2.merged_misses),
        ("written back", l2.writebacks),
    ] {
        assert!(count > 1000, "{what}: only {count}");
    }
}

#[test]
fn write_through_with_lines_of_one_size() {
    holds_on::<64, 64>(8);
}

#[test]
fn write_through_with_lines_of_the_t1() {
    holds_on::<16, 32>(2);
}
