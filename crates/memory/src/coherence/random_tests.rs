//! Cores that access few lines at random, on every kind of machine, with small caches: what must hold whatever happens.

use std::collections::BTreeMap;

use loiter_types::ContextId;

use super::*;
use crate::coherence::snoop::{no_home, no_network};
use crate::coherence::{
    ClusterConfig, NetworkConfig, PrefetchParams, PrivateConfig, Protocol, SnoopingBusConfig,
    Topology,
};
use crate::request::Lost;

const CORES: usize = 16;
const LINE_BYTES: u64 = 64;
/// Lines that are accessed; they fall into two sets of the caches.
const LINES: usize = 24;
/// The version of a copy that came without a request that performs.
const UNKNOWN: u64 = u64::MAX;
/// Longest time that a request may take.
const PATIENCE: u64 = 100_000;

pub(in super::super) const MESI: Protocol = Protocol {
    exclusive: true,
    owned: false,
    forward: false,
    broadcasts: false,
};

pub(super) fn small(size_kib: u64, ways: u64) -> CacheConfig {
    CacheConfig {
        size_kib,
        ways,
        replacement: "lru".to_owned(),
    }
}

pub(super) fn home(protocol: Protocol, cache: Option<CacheConfig>, inclusive: bool) -> HomeConfig {
    HomeConfig {
        cache,
        level: Level::L3,
        inclusive,
        protocol,
        children_tell_clean: true,
        tag_cycles: 2,
        data_cycles: 3,
        busy_cycles: 1,
        banks: 1,
        only_cached: false,
        direct: false,
        owner_cycles: 0,
        reads_early: false,
    }
}

/// A machine with `clusters` clusters and `homes` homes.
pub(super) fn machine(
    homes: usize,
    above: HomeConfig,
    cluster: Option<ClusterConfig>,
) -> CoherenceConfig {
    let clusters = cluster.as_ref().map_or(0, |cluster| CORES / cluster.cores);
    CoherenceConfig {
        cores: CORES,
        line_bytes: LINE_BYTES,
        private: PrivateConfig {
            l1i: small(1, 2),
            l1d: small(1, 2),
            mshrs: [2, 4],
            perfect: [false; 2],
            second: None,
            lookup_cycles: 0,
            snoop_cycles: 2,
            snoop_change_cycles: 0,
            prefetch: PrefetchParams::none(),
        },
        cluster,
        homes,
        nodes: 1,
        memory: (0x8000_0000, 1 << 20),
        home: above,
        interleave_bytes: LINE_BYTES,
        network: NetworkConfig {
            topology: Topology::Crossbar { latency_cycles: 9 },
            stops: (0..(CORES + clusters + homes) as u16).collect(),
            stop_cycles: 1,
            control_cycles: 1,
            line_cycles: 4,
        },
        bus: None,
        controllers: 0,
        dram: crate::coherence::DramParams {
            channels: 1,
            banks: 4,
            row_bytes: 1024,
            row_hit_cycles: 20,
            row_miss_cycles: 40,
            line_transfer_cycles: 4,
        },
        device_latency_cycles: 100,
    }
}

pub(super) fn clusters(cores: usize, home: HomeConfig) -> Option<ClusterConfig> {
    Some(ClusterConfig {
        cores,
        home,
        up_cycles: 3,
        down_cycles: 4,
        line_cycles: 2,
    })
}

/// A generator of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// What is known of the system beside what it says of itself.
struct Tester {
    memory: Coherent,
    now: Cycle,
    random: Random,
    /// How often each line was written.
    version: [u64; LINES],
    /// The version that each core has of each line.
    copy: Vec<[u64; LINES]>,
    /// The line that each core watches.
    watched: [Option<usize>; CORES],
    /// Cores that wait for a miss register.
    stalled: [bool; CORES],
    /// Requests by tag: what, for which line, since when.
    outstanding: BTreeMap<u64, (Request, usize, Cycle)>,
    next_tag: u64,
    accesses: u64,
    lost: [u64; 3],
    refused: u64,
    merged: u64,
    /// Performed past the caches of the core.
    at_home: u64,
    /// Lines come that nobody has asked for.
    prefetches: bool,
}

/// Two sets of the small caches.
fn addr_of(n: usize) -> PhysAddr {
    let line = (n / 2 * 16 + n % 2) as u64;
    PhysAddr(0x8000_0000 + line * LINE_BYTES)
}

fn index_of(line: u64) -> usize {
    let line = line - 0x8000_0000 / LINE_BYTES;
    (line / 16 * 2 + line % 16) as usize
}

impl Tester {
    fn new(config: &CoherenceConfig, seed: u64) -> Self {
        let prefetches = config.private.prefetch.kind != "none";
        Self {
            memory: Coherent::new(config).unwrap(),
            now: Cycle(0),
            random: Random(seed),
            version: [0; LINES],
            copy: vec![[if prefetches { UNKNOWN } else { 0 }; LINES]; CORES],
            watched: [None; CORES],
            stalled: [false; CORES],
            outstanding: BTreeMap::new(),
            prefetches,
            next_tag: 1,
            accesses: 0,
            lost: [0; 3],
            refused: 0,
            merged: 0,
            at_home: 0,
        }
    }

    /// `core` writes line `n`, or its home does.
    fn writes(&mut self, n: usize, core: Option<usize>) {
        self.version[n] += 1;
        for other in 0..CORES {
            if Some(other) == core {
                self.copy[other][n] = self.version[n];
                continue;
            }
            let state = self.memory.state(CoreId::new(other), addr_of(n));
            assert_eq!(
                state,
                State::Invalid,
                "core {other} has line {n}, which {core:?} writes"
            );
            assert_ne!(
                self.watched[other],
                Some(n),
                "core {other} was not told of line {n}"
            );
        }
    }

    fn reads(&mut self, n: usize, core: usize, later: &[Told]) {
        self.copy[core][n] = self.version[n];
        let (id, line) = (CoreId::new(core), self.memory.line(addr_of(n)));
        let why = Lost::Written;
        let loses = Told::Lost {
            core: id,
            line,
            why,
        };
        // Where all caches watch one bus, another core may have the line in the cycle in which this one loses it.
        if self.memory.bus.is_some() && later.contains(&loses) {
            return;
        }
        for other in 0..CORES {
            let state = self.memory.state(CoreId::new(other), addr_of(n));
            let writes = other != core && state.can_write();
            assert!(
                !writes,
                "core {other} may write line {n}, which {core} reads"
            );
        }
    }

    /// `later` is what is told in the same cycle after it.
    fn hear(&mut self, told: Told, later: &[Told]) {
        match told {
            Told::Performs(Response { request, done, .. }) => {
                assert!(done >= self.now);
                let (sent, n, _) = self.outstanding.remove(&request.tag).expect("it was sent");
                assert_eq!(sent, request);
                let core = request.core.index();
                match request.kind {
                    RequestKind::Own => self.writes(n, Some(core)),
                    RequestKind::Atomic => {
                        self.at_home += 1;
                        self.writes(n, None);
                    }
                    RequestKind::Load => {
                        self.reads(n, core, later);
                        self.watched[core] = Some(n);
                    }
                    RequestKind::Fetch => self.reads(n, core, later),
                    RequestKind::OwnAhead => self.copy[core][n] = UNKNOWN,
                    _ => self.at_home += 1,
                }
            }
            Told::Retry(core) => self.stalled[core.index()] = false,
            // Prefetched, and not one of those that are accessed.
            Told::Lost { line, .. } if line % 16 > 1 => assert!(self.prefetches),
            Told::Lost { core, line, why } => {
                let watched = &mut self.watched[core.index()];
                let n = index_of(line);
                self.lost[why as usize] += 1;
                if self.prefetches && why != Lost::Read {
                    self.copy[core.index()][n] = UNKNOWN;
                }
                if *watched == Some(n) && why != Lost::Read {
                    *watched = None;
                }
            }
        }
    }

    fn access(&mut self, core: usize) {
        let n = self.random.below(LINES as u64) as usize;
        let (id, addr) = (CoreId::new(core), addr_of(n));
        // Times of much writing and of little.
        let reads = if (self.now.0 / 8192).is_multiple_of(2) {
            18
        } else {
            28
        };
        let kind = match self.random.below(32) {
            0..4 => RequestKind::Fetch,
            4.. if self.random.below(30) < reads => RequestKind::Load,
            4..30 => RequestKind::Own,
            30 if self.random.below(2) == 0 => RequestKind::Walk,
            30 => RequestKind::OwnAhead,
            _ => RequestKind::Atomic,
        };
        self.accesses += 1;
        let hit = match kind {
            RequestKind::Fetch => self.memory.fetch(id, addr),
            RequestKind::Load => self.memory.load(self.now, id, addr),
            RequestKind::Own => self.memory.store(id, addr),
            _ => false,
        };
        if hit {
            let (copy, version) = (&mut self.copy[core][n], self.version[n]);
            if *copy == UNKNOWN {
                *copy = version;
            }
            let copy = *copy;
            assert_eq!(copy, version, "core {core} hits a stale copy of line {n}");
            match kind {
                RequestKind::Own => self.writes(n, Some(core)),
                RequestKind::Load => self.watched[core] = Some(n),
                _ => {}
            }
            return;
        }
        let request = Request {
            kind,
            core: id,
            context: ContextId(0),
            addr,
            tag: self.next_tag,
        };
        match self.memory.ask(self.now, request) {
            Asked::Full => {
                self.refused += 1;
                self.stalled[core] = true;
                return;
            }
            Asked::Merged => self.merged += 1,
            Asked::Sent => {}
        }
        self.outstanding
            .insert(self.next_tag, (request, n, self.now));
        self.next_tag += 1;
    }

    /// Everybody who may write a line is alone, and what homes say is true.
    fn look_around(&self) {
        for n in 0..LINES {
            let state = |core: usize| self.memory.state(CoreId::new(core), addr_of(n));
            let holders: Vec<_> = (0..CORES).filter(|&core| state(core).can_read()).collect();
            let writers = holders
                .iter()
                .filter(|&&core| state(core).can_write())
                .count();
            assert!(writers == 0 || holders.len() == 1, "line {n}: {holders:?}");
            let suppliers = holders
                .iter()
                .filter(|&&core| state(core).supplies())
                .count();
            let groups = self
                .memory
                .fabric
                .cluster_cores
                .map_or(1, |cores| CORES / cores);
            assert!(suppliers <= groups, "line {n}: {suppliers} supply it");
            for core in 0..CORES {
                let private = &self.memory.private[core];
                assert!(!private.breaks_inclusion(self.memory.line(addr_of(n))));
            }
        }
        let oldest = self.outstanding.values().map(|(_, _, since)| *since).min();
        let waits = oldest.map_or(0, |since| self.now.since(since));
        assert!(waits < PATIENCE, "a request waits for {waits} cycles");
    }

    /// When nothing is outstanding, homes know every copy.
    fn look_at_homes(&self) {
        if self.memory.bus.is_some() {
            return;
        }
        for n in 0..LINES {
            let line = self.memory.line(addr_of(n));
            for core in 0..CORES {
                let state = self.memory.private[core].state(line);
                if !state.can_read() {
                    continue;
                }
                let node = Node(core as u16);
                let home = self.memory.fabric.home_of(node, line);
                let home = &self.memory.homes[home.index() - CORES];
                let children = self.memory.fabric.cluster_cores.unwrap_or(CORES);
                let child = (core % children) as u16;
                assert!(
                    home.entry(line).holders().contains(child),
                    "line {n}, core {core}"
                );
                assert!(home.state(line).can_read(), "line {n}, core {core}");
                if state.can_write() {
                    assert!(home.state(line).can_write(), "line {n}, core {core}");
                }
            }
        }
    }

    fn advance(&mut self, told: &mut Vec<Told>) {
        if self.memory.next() <= self.now {
            self.memory.advance(self.now, told);
            for (at, &each) in told.iter().enumerate() {
                self.hear(each, &told[at + 1..]);
            }
            told.clear();
        }
    }

    fn run(&mut self, accesses: u64) {
        let mut told = Vec::new();
        while self.accesses < accesses {
            self.now = self.now.after(1);
            self.advance(&mut told);
            // Times of much traffic and of little.
            let rest = 1 + self.now.0 / 4096 % 8 * 8;
            for core in 0..CORES {
                if !self.stalled[core] && self.random.below(rest) == 0 {
                    self.access(core);
                }
            }
            if self.now.0.is_multiple_of(256) {
                self.look_around();
            }
            if self.now.0.is_multiple_of(65_536) {
                self.drain(&mut told);
            }
        }
        self.drain(&mut told);
    }

    /// All that is outstanding completes.
    fn drain(&mut self, told: &mut Vec<Told>) {
        let begins = self.now;
        while self.memory.next() != Cycle::NEVER {
            self.now = self.memory.next();
            self.advance(told);
            let waits = self.now.since(begins);
            assert!(waits < PATIENCE, "still not drained after {waits} cycles");
        }
        assert!(self.outstanding.is_empty(), "{:?}", self.outstanding);
        assert!(self.memory.is_idle(), "a line stays busy");
        assert_eq!(self.stalled, [false; CORES], "nobody was told to retry");
        self.look_around();
        self.look_at_homes();
    }
}

/// Accesses of each machine.
const ACCESSES: u64 = 8_400_000;

/// Runs `config`; asserts that all has happened that can in private caches.
fn tested(config: &CoherenceConfig, accesses: u64) -> Tester {
    let mut tester = Tester::new(config, 0x1234_5678_9abc_def1);
    tester.run(accesses);
    for (what, count) in [
        ("lost to a writer", tester.lost[Lost::Written as usize]),
        ("lost to a reader", tester.lost[Lost::Read as usize]),
        ("evicted", tester.lost[Lost::Evicted as usize]),
        ("merged", tester.merged),
        ("refused", tester.refused),
        ("performed at home", tester.at_home),
    ] {
        assert!(count > 1000, "{what}: only {count}");
    }
    tester
}

/// Runs `config`; asserts that everything has happened that can on a bus.
fn holds_on_bus(config: &CoherenceConfig) {
    let tester = tested(config, ACCESSES / 2);
    let counters = &tester.memory.bus.as_ref().expect("there is one").counters;
    for (what, count) in [
        ("queued", counters.queued_requests),
        ("upgrades", counters.upgrades),
        ("supplied by a cache", counters.from_cache),
        ("supplied by memory", counters.from_memory),
        ("given up", counters.invalidations),
        ("written back", counters.write_backs),
    ] {
        assert!(count > 1000, "{what}: only {count}");
    }
}

/// Runs `config`; asserts that everything has happened that can.
fn holds_on(config: &CoherenceConfig, recalls: bool) {
    let tester = tested(config, ACCESSES);
    let sum = |count: fn(&Home) -> u64| tester.memory.homes.iter().map(count).sum::<u64>();
    for (what, count) in [
        ("queued", sum(|home| home.counters.queued_requests)),
        ("upgrades", sum(|home| home.counters.upgrades)),
        ("supplied by a child", sum(|home| home.counters.from_child)),
        ("supplied by memory", sum(|home| home.counters.from_memory)),
        ("given up", sum(|home| home.counters.puts)),
    ] {
        assert!(count > 1000, "{what}: only {count}");
    }
    assert_eq!(sum(|home| home.counters.recalls) > 100, recalls);
}

#[test]
fn mesi_on_a_crossbar() {
    holds_on(&machine(2, home(MESI, None, true), None), false);
}

#[test]
fn mesi_with_prefetchers() {
    for mshrs in [0, 2] {
        let mut config = machine(2, home(MESI, None, true), None);
        config.private.mshrs = [2, 3];
        config.private.prefetch = PrefetchParams {
            kind: "next_line".into(),
            degree: 1,
            distance: 1,
            mshrs,
        };
        let tester = tested(&config, ACCESSES / 4);
        let private = tester.memory.private.iter();
        let counters = private.map(|private| &private.counters.prefetch);
        let count = counters.fold([0; 4], |[a, b, c, d], it| {
            [a + it.issued, b + it.useful, c + it.late, d + it.useless]
        });
        assert!(count.iter().all(|&count| count > 1000), "{count:?}");
    }
}

#[test]
fn moesi_on_sockets_with_a_directory_of_owners() {
    let protocol = Protocol {
        owned: true,
        broadcasts: true,
        ..MESI
    };
    let mut config = machine(4, home(protocol, Some(small(1, 1)), false), None);
    config.private.second = Some(small(1, 4));
    config.private.l1d = small(1, 1);
    config.private.lookup_cycles = 5;
    let socket: Vec<u16> = (0..4).flat_map(|socket| [socket; 5]).collect();
    config.network.stops = (0..16).map(|core| core / 4 * 5 + core % 4).collect();
    config.network.stops.extend((0..4).map(|home| home * 5 + 4));
    config.network.topology = Topology::Sockets {
        socket,
        local_cycles: 5,
        links: vec![(0, 1, 30), (1, 2, 30), (2, 3, 30), (3, 0, 30)],
    };
    config.home.direct = true;
    config.home.owner_cycles = 3;
    config.home.reads_early = true;
    config.nodes = 4;
    config.memory.1 = 16 << 10;
    holds_on(&config, false);
}

#[test]
fn dies_that_ask_for_what_their_third_level_does_not_have() {
    let protocol = Protocol {
        owned: true,
        broadcasts: true,
        ..MESI
    };
    let mut die = home(MESI, Some(small(1, 4)), false);
    die.only_cached = true;
    let mut above = home(protocol, None, true);
    above.direct = true;
    let mut config = machine(4, above, clusters(4, die));
    config.private.second = Some(small(1, 2));
    config.private.l1d = small(1, 1);
    config.private.snoop_change_cycles = 4;
    config.home.reads_early = true;
    config.nodes = 2;
    config.memory.1 = 16 << 10;
    holds_on(&config, false);
}

#[test]
fn mesif_between_tiles_of_a_mesh() {
    let protocol = Protocol {
        forward: true,
        ..MESI
    };
    let tile = home(MESI, Some(small(1, 4)), true);
    let mut config = machine(4, home(protocol, None, true), clusters(2, tile));
    config.home.direct = true;
    config.network.topology = Topology::Mesh {
        columns: 4,
        vertical_cycles: 1,
        horizontal_cycles: 2,
    };
    // Eight tiles, every other one with a home.
    config.network.stops = (0..16).map(|core| core / 2).collect();
    config.network.stops.extend(0..8);
    config.network.stops.extend([0, 2, 4, 6]);
    holds_on(&config, true);
}

#[test]
fn clusters_without_the_lines_of_their_cores_below_an_inclusive_cache() {
    let cluster = home(MESI, Some(small(1, 4)), false);
    let mut config = machine(2, home(MESI, Some(small(1, 8)), true), clusters(4, cluster));
    config.private.second = Some(small(1, 4));
    config.private.lookup_cycles = 5;
    config.network.topology = Topology::Ring { hop_cycles: 2 };
    holds_on(&config, true);
}

#[test]
fn msi_on_a_bus_where_clean_copies_go_silently() {
    let protocol = Protocol {
        exclusive: false,
        ..MESI
    };
    let mut above = home(protocol, None, true);
    above.children_tell_clean = false;
    let mut config = machine(1, above, None);
    config.network.topology = Topology::Bus { latency_cycles: 3 };
    holds_on(&config, false);
}

/// A machine with a bus that all caches watch.
pub(in super::super) fn on_bus(protocol: Protocol, round_robin: bool) -> CoherenceConfig {
    let mut config = machine(1, no_home(protocol), None);
    config.network = no_network(CORES);
    config.bus = Some(SnoopingBusConfig {
        round_robin,
        request_cycles: 2,
        line_cycles: 3,
    });
    config
}

#[test]
fn mesi_on_a_bus_that_all_caches_watch() {
    holds_on_bus(&on_bus(MESI, true));
}

#[test]
fn moesi_on_a_bus_that_all_caches_watch_in_order_of_arrival() {
    let protocol = Protocol {
        owned: true,
        ..MESI
    };
    let mut config = on_bus(protocol, false);
    config.private.second = Some(small(1, 4));
    config.private.l1d = small(1, 1);
    config.private.lookup_cycles = 5;
    holds_on_bus(&config);
}
