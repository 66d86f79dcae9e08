//! A memory system from its configuration, or what is impossible about that.

use loiter_types::{CoreId, Cycle};

use super::super::collect::Collector;
use super::super::dram::Dram;
use super::super::fabric::{Fabric, Inside};
use super::super::hold::Holds;
use super::super::home::{Home, HomeRules};
use super::super::message::Node;
use super::super::network::Network;
use super::super::prefetch::Prefetcher;
use super::super::private::{Private, PrivateRules};
use super::super::snoop::SnoopingBus;
use super::super::state::{Holders, MOST_CHILDREN};
use super::super::{CacheConfig, CoherenceConfig, HomeConfig};
use super::Coherent;
use crate::bus::Calendar;
use crate::cache::Cache;
use crate::request::Level;
use crate::wheel::Wheel;

/// What is impossible about a configuration: the section, and why.
type Impossible = (&'static str, String);

impl Coherent {
    /// An idle memory system with empty caches.
    ///
    /// # Errors
    /// The section and what is impossible about it.
    pub fn new(config: &CoherenceConfig) -> Result<Self, Impossible> {
        let clusters = clusters(config)?;
        let private = private_caches(config)?;
        let homes = match config.bus {
            Some(_) => Vec::new(),
            None => (0..clusters + config.homes)
                .map(|n| home(config, clusters, n))
                .collect::<Result<_, Impossible>>()?,
        };
        let fabric = fabric(config, clusters)?;
        let protocol = config.home.protocol;
        let bus = config.bus.clone();
        Ok(Self {
            line_log2: config.line_bytes.trailing_zeros(),
            private,
            homes,
            bus: bus.map(|bus| SnoopingBus::new(bus, protocol, config.private.snoop_cycles)),
            fabric,
            collector: Collector::new(config.cores + clusters),
            device_latency_cycles: config.device_latency_cycles,
            ahead: vec![false; config.cores],
            ahead_count: 0,
            due: Vec::new(),
            happened: 0,
            unheard: Vec::new(),
        })
    }
}

/// How many clusters there are.
fn clusters(config: &CoherenceConfig) -> Result<usize, Impossible> {
    let cores = config.cores;
    let clusters = match &config.cluster {
        Some(cluster) if cluster.cores == 0 || !cores.is_multiple_of(cluster.cores) => {
            let each = cluster.cores;
            let problem = format!("cores = {cores} do not fill clusters of {each}");
            return Err(("cluster", problem));
        }
        Some(cluster) => cores / cluster.cores,
        None => 0,
    };
    let children = if clusters > 0 { clusters } else { cores };
    let most = config.cluster.as_ref().map_or(0, |cluster| cluster.cores);
    if children.max(most) > MOST_CHILDREN {
        let problem = format!("a home can have {MOST_CHILDREN} children, not {children}");
        return Err(("home", problem));
    }
    let nodes = cores + clusters + config.homes + config.controllers;
    let stops = config.network.stops.len();
    if stops != nodes {
        return Err(("network", format!("{stops} nodes have a stop, of {nodes}")));
    }
    Ok(clusters)
}

fn cache(
    section: &'static str,
    config: &CacheConfig,
    line_bytes: u64,
) -> Result<Cache, Impossible> {
    let bytes = config.size_kib * 1024;
    Cache::new(bytes, config.ways, line_bytes, &config.replacement)
        .map_err(|problem| (section, problem))
}

fn private_caches(config: &CoherenceConfig) -> Result<Vec<Private>, Impossible> {
    let line = config.line_bytes;
    let own = &config.private;
    let near = config.cluster.as_ref().map(|cluster| &cluster.home);
    let near = near.unwrap_or(&config.home);
    let rules = PrivateRules {
        protocol: near.protocol,
        tells_clean: near.children_tell_clean,
        mshrs: own.mshrs,
        perfect: own.perfect,
        lookup_cycles: own.lookup_cycles,
        snoop_cycles: own.snoop_cycles,
        snoop_change_cycles: own.snoop_change_cycles,
    };
    let private = (0..config.cores).map(|core| {
        let first = [cache("l1i", &own.l1i, line)?, cache("l1d", &own.l1d, line)?];
        let second = own.second.as_ref();
        let second = second.map(|config| cache("l2", config, line)).transpose()?;
        let prefetcher = Prefetcher::new(&own.prefetch, first[1].lines(), line);
        let node = Node(core as u16);
        let core = CoreId::new(core);
        Ok(Private::new(core, node, rules, first, second, prefetcher))
    });
    private.collect()
}

/// The home with number `n`: of a cluster, or after those of memory.
fn home(config: &CoherenceConfig, clusters: usize, n: usize) -> Result<Home, Impossible> {
    let above = &config.home;
    let is_cluster = n < clusters;
    let (section, home): (_, &HomeConfig) = match &config.cluster {
        Some(cluster) if is_cluster => ("cluster", &cluster.home),
        _ => ("home", above),
    };
    let (first_child, children) = match (is_cluster, &config.cluster) {
        (true, Some(cluster)) => (n * cluster.cores, cluster.cores),
        (false, Some(_)) => (config.cores, clusters),
        (_, None) => (0, config.cores),
    };
    if !home.inclusive && is_cluster && !home.children_tell_clean {
        let problem =
            "without the lines of its children it must be told of those that they give up";
        return Err((section, problem.to_owned()));
    }
    let stop = |node: usize| config.network.stops[node];
    let mut near = Holders::NONE;
    for child in (0..children).filter(|_| !is_cluster) {
        if stop(first_child + child) == stop(config.cores + n) {
            near.insert(child as u16);
        }
    }
    let cluster = config.cluster.as_ref();
    let early_cycles = if home.reads_early { home.tag_cycles } else { 0 };
    let cluster_cycles = cluster.map_or(0, |near| near.home.tag_cycles);
    let rules = HomeRules {
        protocol: home.protocol,
        protocol_above: above.protocol,
        first_child: first_child as u16,
        children: children as u16,
        has_above: is_cluster,
        level: home.level,
        inclusive: home.inclusive,
        tells_clean: above.children_tell_clean,
        tag_cycles: home.tag_cycles,
        data_cycles: home.data_cycles,
        busy_cycles: home.busy_cycles,
        banks: home.banks,
        only_cached: home.only_cached,
        probe_cycles: match cluster {
            Some(cluster) if home.only_cached => {
                cluster.up_cycles + config.private.snoop_cycles + cluster.down_cycles
            }
            _ => 0,
        },
        direct: home.direct,
        owner_cycles: home.owner_cycles,
        early_cycles,
        early_near_cycles: match home.reads_early {
            true => early_cycles + cluster_cycles,
            false => 0,
        },
        near,
    };
    let section = if home.level == Level::L2 { "l2" } else { "l3" };
    let own = home.cache.as_ref();
    let own = own.map(|own| cache(section, own, config.line_bytes));
    let node = Node((config.cores + n) as u16);
    Ok(Home::new(node, rules, own.transpose()?))
}

fn fabric(config: &CoherenceConfig, clusters: usize) -> Result<Fabric, Impossible> {
    let line = config.line_bytes;
    let network = Network::new(config.network.clone()).map_err(|problem| ("network", problem))?;
    let cluster = config.cluster.as_ref();
    let drams = match config.controllers {
        0 => config.homes,
        controllers => controllers,
    };
    Ok(Fabric {
        cores: config.cores,
        cluster_cores: cluster.map(|cluster| cluster.cores),
        homes: config.homes,
        nodes: config.nodes,
        first_line: config.memory.0 / line,
        node_lines: (config.memory.1 / line)
            .div_ceil(config.nodes as u64)
            .max(1),
        first_home: config.cores + clusters,
        interleave_log2: (config.interleave_bytes / line).trailing_zeros(),
        inside: Inside {
            up_cycles: cluster.map_or(0, |cluster| cluster.up_cycles),
            down_cycles: cluster.map_or(0, |cluster| cluster.down_cycles),
            line_cycles: cluster.map_or(0, |cluster| cluster.line_cycles),
            ports: (0..config.cores)
                .map(|_| (Calendar::default(), Cycle(0)))
                .collect(),
        },
        network,
        on_bus: config.bus.is_some(),
        controllers: config.controllers,
        drams: (0..drams).map(|_| Dram::new(&config.dram, line)).collect(),
        holds: Holds::default(),
        reservation_cycles: config.private.reservation_cycles,
        events: Wheel::default(),
        instant: false,
        at_once: Default::default(),
    })
}
