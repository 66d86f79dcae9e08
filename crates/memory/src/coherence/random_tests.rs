//! Cores that access few lines at random, on every kind of machine, with small caches: what must hold whatever happens.

use super::*;
use crate::coherence::snoop::{no_home, no_network};
use crate::coherence::tester::{CORES, LINES, Tested, Tester};
use crate::coherence::{
    CacheConfig, ClusterConfig, CoherenceConfig, HomeConfig, NetworkConfig, PrefetchParams,
    PrivateConfig, Protocol, SnoopingBusConfig, Topology,
};
use crate::request::{Caches, Emptied, Lost};

const LINE_BYTES: u64 = 64;

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
            reservation_cycles: 80,
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

impl Tested for Coherent {
    /// Two sets of the small caches.
    fn addr_of(n: usize) -> PhysAddr {
        let line = (n / 2 * 16 + n % 2) as u64;
        PhysAddr(0x8000_0000 + line * LINE_BYTES)
    }

    fn index_of(line: u64) -> Option<usize> {
        let line = line - 0x8000_0000 / LINE_BYTES;
        (line % 16 <= 1).then_some((line / 16 * 2 + line % 16) as usize)
    }

    fn prefetches(&self) -> bool {
        self.private.iter().any(Private::has_prefetcher)
    }

    fn loses_late(&self) -> bool {
        self.bus.is_some()
    }

    fn fetch(&mut self, core: CoreId, addr: PhysAddr) -> bool {
        self.fetch(core, addr)
    }

    fn load(&mut self, now: Cycle, core: CoreId, addr: PhysAddr) -> bool {
        self.load(now, core, addr)
    }

    fn store(&mut self, core: CoreId, addr: PhysAddr) -> bool {
        self.store(core, addr)
    }

    fn ask(&mut self, now: Cycle, request: Request) -> Asked {
        self.ask(now, request)
    }

    fn next(&self) -> Cycle {
        self.next()
    }

    fn advance(&mut self, now: Cycle, told: &mut Vec<Told>) {
        self.advance(now, told);
    }

    fn is_idle(&self) -> bool {
        self.is_idle()
    }

    fn empty(
        &mut self,
        now: Cycle,
        core: CoreId,
        which: Caches,
        stays: Option<usize>,
        told: &mut Vec<Told>,
    ) -> Emptied {
        let stays = |line| stays.is_some() && Self::index_of(line) == stays;
        self.empty(now, core, which, stays, told)
    }

    fn can_read(&self, core: usize, n: usize) -> bool {
        self.state(CoreId::new(core), Self::addr_of(n)).can_read()
    }

    fn can_write(&self, core: usize, n: usize) -> bool {
        self.state(CoreId::new(core), Self::addr_of(n)).can_write()
    }

    /// Everybody who may write a line is alone, and what homes say is true.
    fn look_around(&self) {
        for n in 0..LINES {
            let state = |core: usize| self.state(CoreId::new(core), Self::addr_of(n));
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
            let groups = self.fabric.cluster_cores.map_or(1, |cores| CORES / cores);
            assert!(suppliers <= groups, "line {n}: {suppliers} supply it");
            for private in &self.private {
                assert!(!private.breaks_inclusion(self.line(Self::addr_of(n))));
            }
        }
    }

    /// Homes know every copy.
    fn look_at_homes(&self) {
        if self.bus.is_some() {
            return;
        }
        for n in 0..LINES {
            let line = self.line(Self::addr_of(n));
            for core in 0..CORES {
                let state = self.private[core].state(line);
                if !state.can_read() {
                    continue;
                }
                let node = Node(core as u16);
                let home = self.fabric.home_of(node, line);
                let home = &self.homes[home.index() - CORES];
                let children = self.fabric.cluster_cores.unwrap_or(CORES);
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
}

/// Accesses of each machine.
const ACCESSES: u64 = 8_400_000;

/// Runs `config`; asserts that all has happened that can in private caches.
fn tested(config: &CoherenceConfig, accesses: u64) -> Tester<Coherent> {
    let mut tester = Tester::new(Coherent::new(config).unwrap());
    tester.run(accesses / 4 * 3);
    tester.empties = true;
    tester.run(accesses);
    for (what, count) in [
        ("emptied", tester.emptied),
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
