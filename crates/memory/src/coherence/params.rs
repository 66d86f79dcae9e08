//! Parameters of a memory system made of messages, one struct for each section of a machine file, and what they build.

use loiter_types::params;

use super::dram::DramParams;
use super::layout::{Places, place};
use super::network::NetworkConfig;
use super::prefetch::PrefetchParams;
use super::{CacheConfig, ClusterConfig, CoherenceConfig, HomeConfig, PrivateConfig, Protocol};
use crate::params::{L1MissParams, L1Params};
use crate::request::Level;

params! {
    /// How copies of a line are kept coherent: section `coherence`.
    pub struct CoherenceParams {
        /// States of a copy. mesi: modified, exclusive, shared, invalid; msi: without exclusive; moesi: with owned, so that
        /// who has written a line supplies it; mesif: with forward, so that the newest sharer does.
        states: choice("msi", "mesi", "moesi", "mesif"),
        /// What the directory knows of sharers. exact: who they are; broadcast: only whether there are any, so that all
        /// are told to give up a line that has some.
        sharers: choice("exact", "broadcast"),
        /// Homes are told of clean copies that are given up.
        tells_clean: bool,
        /// From a snoop's arrival at private caches to the departure of their reply.
        snoop_cycles: int(0..=1000),
        /// More, where the copy has been written or is given up.
        snoop_change_cycles: int(0..=1000) = 0,
        /// For how long out-of-order cores keep a line at most after an `lr` has read it, so that its `sc` finds it.
        reservation_cycles: int(0..=10000) = 80,
        /// Where replies to snoops of memory's homes go. home: to the home, which then grants the request; requester: to
        /// whom the request came from, which tells the home when all are there.
        replies_to: choice("home", "requester") = "home",
    }
}

params! {
    /// The second level of a machine with a directory: section `l2`.
    pub struct SecondParams {
        /// core: private; cluster: of all cores of a cluster; none: there is no second level.
        shared_by: choice("core", "cluster", "none"),
        /// Capacity of each.
        size_kib: int(1..=1048576),
        /// Associativity.
        ways: int(1..=64),
        /// Which line of a set is replaced.
        replacement: choice("lru", "random", "nru"),
        /// Of a private one: from a first-level miss to its hit here, or to the departure of its request.
        lookup_cycles: int(1..=1000),
    }
}

params! {
    /// The third level of a machine with a directory: section `l3`.
    pub struct ThirdParams {
        /// cluster: of all cores of a cluster; homes: a slice at each home; none: there is no third level.
        shared_by: choice("cluster", "homes", "none"),
        /// Capacity of each.
        size_kib: int(1..=1048576),
        /// Associativity.
        ways: int(1..=64),
        /// Which line of a set is replaced.
        replacement: choice("lru", "random", "nru"),
        /// Whoever below holds a line, it has it too; else it takes the lines that those below give up.
        inclusive: bool,
    }
}

params! {
    /// Clusters of cores that share a cache: section `cluster`. Without a cache that is shared so there are none.
    pub struct ClusterParams {
        /// Cores of a cluster; a system with fewer has one.
        cores: int(1..=256),
        /// From a core to the cache.
        request_cycles: int(1..=1000),
        /// From the cache to a core.
        reply_cycles: int(1..=1000),
        /// Cycles for which a line that comes keeps the port of a core.
        port_cycles: int(0..=100),
        /// From the beginning of a look-up to its result.
        tag_cycles: int(0..=1000),
        /// From there to the value.
        data_cycles: int(0..=1000),
        /// Cycles for which a message keeps its bank from beginning the next.
        busy_cycles: int(1..=100),
        /// Banks; lines are interleaved over them.
        banks: int(1..=64),
        /// Which requests a cluster serves itself. held: for lines that it may use, whichever of its caches has them;
        /// cached: for those that its shared cache has and no core writes. For the rest it asks the home of memory, which
        /// then also decides about lines that another core of the cluster has.
        serves: choice("held", "cached") = "held",
    }
}

params! {
    /// Homes: the parts of the directory, each with its part of the third level if homes have that: section `home`.
    pub struct HomeParams {
        /// How many there are.
        count: int(1..=256),
        /// Contiguous parts of memory of the same size, each with as many homes of its own: 1 interleaves all lines
        /// over all homes.
        nodes: int(1..=256) = 1,
        /// Bytes that follow each other in one home, at least a line, a power of two.
        interleave_bytes: int(16..=1048576),
        /// From the beginning of a look-up to its result.
        tag_cycles: int(0..=1000),
        /// From there to the value, if it has a cache with the line.
        data_cycles: int(0..=1000),
        /// Cycles for which a message keeps its bank from beginning the next.
        busy_cycles: int(1..=100),
        /// Banks of each; lines are interleaved over them.
        banks: int(1..=64),
        /// For how long a request to write is held up by entering a new owner of the line, before others are snooped.
        owner_cycles: int(0..=1000) = 0,
        /// When memory is read for a line that may have to come from there. after: when the look-up has ended; with: in
        /// parallel with it, and with the look-up of a cluster at the stop of the home; a read in vain costs nothing.
        reads_memory: choice("after", "with") = "after",
    }
}

params! {
    /// Between clusters, or cores where there are none, and homes: section `network`.
    pub struct NetworkParams {
        /// How stops are connected. crossbar: a link to each stop; bus: one link for all; ring: two directions; mesh: rows
        /// and columns, a message goes up or down first; sockets: a crossbar in each socket, and links between them.
        topology: choice("crossbar", "bus", "ring", "mesh", "sockets"),
        /// Where homes are. own: at stops of their own; cores: spread evenly over the stops of clusters or cores.
        homes_at: choice("own", "cores"),
        /// Of a mesh, its rows from above, divided by blanks: C a cluster or core, H a home, B both, M a memory
        /// controller, . nothing.
        layout: text = "",
        /// Of sockets, the links: 0-1:80 is one between sockets 0 and 1 with a latency of 80 cycles.
        links: text = "",
        /// Of sockets: how many there are; homes are divided evenly among them.
        sockets: int(1..=64) = 1,
        /// Of sockets: the clusters or cores of a full one, so that a smaller system fills the first; 0: they are divided
        /// evenly.
        socket_nodes: int(0..=256) = 0,
        /// Sockets that are dies of one package, which `loiter latency` tells apart; their links have latencies of their
        /// own in links.
        package_sockets: int(1..=64) = 1,
        /// From a stop to another over a crossbar, within a socket, or over a bus; to the next stop of a ring.
        latency_cycles: int(0..=10000),
        /// Of a mesh, to the next stop above or below.
        vertical_cycles: int(0..=1000) = 0,
        /// Of a mesh, to the next stop beside.
        horizontal_cycles: int(0..=1000) = 0,
        /// Part of every route beside its links; also between two nodes of one stop.
        stop_cycles: int(0..=1000),
        /// Cycles for which a message without a line keeps a link.
        control_cycles: int(0..=100),
        /// Cycles for which a message with a line keeps a link.
        line_cycles: int(0..=1000),
    }
}

params! {
    /// Devices of a machine with a directory: section `device`.
    pub struct DeviceParams {
        /// An access, from issue to issue of the next instruction.
        latency_cycles: int(2..=100000),
    }
}

/// All sections of a memory system made of messages.
#[derive(Clone, Debug)]
pub struct DirectoryParams {
    /// Number of cores.
    pub cores: usize,
    /// First address of memory, and its bytes.
    pub memory: (u64, u64),
    /// Section `l1i`.
    pub l1i: L1Params,
    /// Section `l1d`.
    pub l1d: L1Params,
    /// Misses of both.
    pub misses: [L1MissParams; 2],
    /// Section `l2`.
    pub second: SecondParams,
    /// Section `l3`.
    pub third: ThirdParams,
    /// Section `cluster`.
    pub cluster: ClusterParams,
    /// Section `coherence`.
    pub coherence: CoherenceParams,
    /// Section `home`.
    pub home: HomeParams,
    /// Section `network`.
    pub network: NetworkParams,
    /// Section `dram`.
    pub dram: DramParams,
    /// Section `device`.
    pub device: DeviceParams,
    /// Section `prefetch`.
    pub prefetch: PrefetchParams,
}

impl DirectoryParams {
    /// The memory system that they describe.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub fn config(&self) -> Result<CoherenceConfig, (&'static str, String)> {
        let line_bytes = self.l1d.line_bytes;
        if self.l1i.line_bytes != line_bytes {
            let problem = format!("line_bytes must be that of l1d, {line_bytes}");
            return Err(("l1i", problem));
        }
        let interleave = self.home.interleave_bytes;
        if !interleave.is_power_of_two() || interleave < line_bytes {
            let problem = format!(
                "interleave_bytes = {interleave} is not a power of two of at least a line, {line_bytes}"
            );
            return Err(("home", problem));
        }
        self.dram.check()?;
        let [by_second, by_third] = [&self.second.shared_by, &self.third.shared_by];
        if by_second == "cluster" && by_third == "cluster" {
            let problem = "shared_by = \"cluster\", as that of l2; one level can be of a cluster";
            return Err(("l3", problem.to_owned()));
        }
        let has_clusters = by_second == "cluster" || by_third == "cluster";
        let states = self.coherence.states.as_str();
        let protocol = Protocol {
            exclusive: states != "msi",
            owned: states == "moesi",
            forward: states == "mesif",
            broadcasts: self.coherence.sharers == "broadcast",
        };
        let second = || {
            cache(
                self.second.size_kib,
                self.second.ways,
                &self.second.replacement,
            )
        };
        let third = || {
            cache(
                self.third.size_kib,
                self.third.ways,
                &self.third.replacement,
            )
        };
        let cluster = has_clusters.then(|| ClusterConfig {
            // A system of fewer cores is one cluster that is not full.
            cores: self.cores.min(self.cluster.cores as usize),
            home: HomeConfig {
                cache: Some(if by_second == "cluster" {
                    second()
                } else {
                    third()
                }),
                level: if by_second == "cluster" {
                    Level::L2
                } else {
                    Level::L3
                },
                inclusive: by_second == "cluster" || self.third.inclusive,
                protocol: Protocol {
                    exclusive: true,
                    owned: false,
                    forward: false,
                    broadcasts: false,
                },
                children_tell_clean: self.coherence.tells_clean,
                tag_cycles: self.cluster.tag_cycles,
                data_cycles: self.cluster.data_cycles,
                busy_cycles: self.cluster.busy_cycles,
                banks: self.cluster.banks,
                only_cached: self.cluster.serves == "cached",
                direct: false,
                owner_cycles: 0,
                reads_early: false,
            },
            up_cycles: self.cluster.request_cycles,
            down_cycles: self.cluster.reply_cycles,
            line_cycles: self.cluster.port_cycles,
        });
        let children = match &cluster {
            Some(cluster) if cluster.cores >= self.cores => 1,
            Some(cluster) if !self.cores.is_multiple_of(cluster.cores) => {
                let (cores, each) = (self.cores, cluster.cores);
                let problem =
                    format!("the {cores} cores of the system do not fill clusters of {each}");
                return Err(("cluster", problem));
            }
            Some(cluster) => self.cores / cluster.cores,
            None => self.cores,
        };
        let homes = self.home.count as usize;
        let Places {
            topology,
            stops,
            controllers,
        } = place(&self.network, children, homes).map_err(|problem| ("network", problem))?;
        // Cores of clusters have no stop of their own.
        let inner = if has_clusters { self.cores } else { 0 };
        let stops = std::iter::repeat_n(0, inner).chain(stops).collect();
        Ok(CoherenceConfig {
            cores: self.cores,
            line_bytes,
            private: PrivateConfig {
                l1i: cache(self.l1i.size_kib, self.l1i.ways, &self.l1i.replacement),
                l1d: cache(self.l1d.size_kib, self.l1d.ways, &self.l1d.replacement),
                mshrs: [&self.misses[0], &self.misses[1]].map(|misses| misses.mshrs as usize),
                perfect: [&self.misses[0], &self.misses[1]].map(|misses| misses.perfect),
                second: (by_second == "core").then(second),
                lookup_cycles: match by_second.as_str() {
                    "core" => self.second.lookup_cycles,
                    _ => 0,
                },
                snoop_cycles: self.coherence.snoop_cycles,
                snoop_change_cycles: self.coherence.snoop_change_cycles,
                reservation_cycles: self.coherence.reservation_cycles,
                prefetch: self.prefetch.clone(),
            },
            cluster,
            homes,
            home: HomeConfig {
                cache: (by_third == "homes").then(third),
                level: Level::L3,
                inclusive: by_third != "homes" || self.third.inclusive,
                protocol,
                children_tell_clean: self.coherence.tells_clean,
                tag_cycles: self.home.tag_cycles,
                data_cycles: self.home.data_cycles,
                busy_cycles: self.home.busy_cycles,
                banks: self.home.banks,
                only_cached: false,
                direct: self.coherence.replies_to == "requester",
                owner_cycles: self.home.owner_cycles,
                reads_early: self.home.reads_memory == "with",
            },
            nodes: self.nodes(controllers)?,
            memory: self.memory,
            interleave_bytes: interleave,
            network: NetworkConfig {
                topology,
                stops,
                stop_cycles: self.network.stop_cycles,
                control_cycles: self.network.control_cycles,
                line_cycles: self.network.line_cycles,
            },
            bus: None,
            controllers,
            dram: self.dram.clone(),
            device_latency_cycles: self.device.latency_cycles,
        })
    }
}

impl DirectoryParams {
    /// The contiguous parts of memory.
    fn nodes(&self, controllers: usize) -> Result<usize, (&'static str, String)> {
        let HomeParams { nodes, count, .. } = self.home;
        if !count.is_multiple_of(nodes) {
            let problem = format!("nodes = {nodes} do not divide the homes, count = {count}");
            return Err(("home", problem));
        }
        if nodes > 1 && controllers > 0 {
            let problem = format!(
                "nodes = {nodes} is not possible with memory controllers in network.layout, which serve all homes"
            );
            return Err(("home", problem));
        }
        Ok(nodes as usize)
    }
}

pub(super) fn cache(size_kib: u64, ways: u64, replacement: &str) -> CacheConfig {
    CacheConfig {
        size_kib,
        ways,
        replacement: replacement.to_owned(),
    }
}
