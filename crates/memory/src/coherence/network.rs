//! What messages travel over: latency, occupancy, and order.
//!
//! A message takes the links of its route one after the other. Each link carries one message at a time, for as many
//! cycles as the message is long, and takes its latency to the next stop. When a message is sent, it books the first
//! gap of each link that is long enough. Messages between two nodes arrive in the order in which they were sent.

use loiter_types::{Cycle, counters};
use serde::{Deserialize, Serialize};

use super::message::Node;
use crate::bus::Calendar;

counters! {
    /// Counters of a network.
    pub struct NetworkCounters {
        /// Messages sent.
        messages: "messages",
        /// Those that carried a line.
        line_messages: "messages",
        /// Links that messages took.
        hops: "links",
        /// Cycles that messages waited for links.
        wait_cycles: "cycles",
    }
}

/// How the stops of a network are connected. A stop has one or more nodes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Topology {
    /// Every stop has a link from a switch, which takes `latency_cycles` from any other stop.
    Crossbar {
        /// From one stop to another.
        latency_cycles: u64,
    },
    /// One link that all messages take.
    Bus {
        /// From one stop to another.
        latency_cycles: u64,
    },
    /// Stops in a ring of two directions; a message takes the shorter.
    Ring {
        /// From one stop to the next.
        hop_cycles: u64,
    },
    /// Stops in rows of `columns`; a message first goes up or down, then sideways.
    Mesh {
        /// Stops of a row.
        columns: u16,
        /// From one stop to the next above or below.
        vertical_cycles: u64,
        /// From one stop to the next beside it.
        horizontal_cycles: u64,
    },
    /// Stops of several sockets: a crossbar within each, and links between sockets. A message takes the fewest links.
    Sockets {
        /// The socket of each stop.
        socket: Vec<u16>,
        /// From one stop to another of the same socket.
        local_cycles: u64,
        /// Sockets that have a link to each other, and its latency.
        links: Vec<(u16, u16, u64)>,
    },
}

/// A network, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct NetworkConfig {
    /// How stops are connected.
    pub topology: Topology,
    /// The stop of each node.
    pub stops: Vec<u16>,
    /// From a node to another of the same stop, and part of every route beside its links.
    pub stop_cycles: u64,
    /// Cycles for which a message without a line keeps a link.
    pub control_cycles: u64,
    /// Cycles for which a message with a line keeps a link.
    pub line_cycles: u64,
}

/// A network.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Network {
    config: NetworkConfig,
    links: Vec<Calendar>,
    /// Where the route from each stop to each other begins in `routes`; one more at the end.
    route_begins: Vec<u32>,
    /// Links and their latencies.
    routes: Vec<(u32, u32)>,
    stops: usize,
    /// When the last message from each node to each other arrives.
    last: Vec<Cycle>,
    pub(crate) counters: NetworkCounters,
}

impl Network {
    /// A network without traffic.
    ///
    /// # Errors
    /// Which stop cannot be reached from which, or lies outside.
    pub(crate) fn new(config: NetworkConfig) -> Result<Self, String> {
        let stops = config
            .stops
            .iter()
            .max()
            .map_or(0, |&stop| stop as usize + 1);
        let router = Router::new(&config.topology, stops)?;
        let mut routes = Vec::new();
        let mut route_begins = Vec::with_capacity(stops * stops + 1);
        for from in 0..stops {
            for to in 0..stops {
                route_begins.push(routes.len() as u32);
                router.route(from, to, &mut routes)?;
            }
        }
        route_begins.push(routes.len() as u32);
        let nodes = config.stops.len();
        Ok(Self {
            links: (0..router.links()).map(|_| Calendar::default()).collect(),
            route_begins,
            routes,
            stops,
            last: vec![Cycle(0); nodes * nodes],
            counters: NetworkCounters::default(),
            config,
        })
    }

    /// Sends a message. Returns when it arrives.
    pub(crate) fn send(&mut self, now: Cycle, from: Node, to: Node, has_line: bool) -> Cycle {
        let length = match has_line {
            true => self.config.line_cycles,
            false => self.config.control_cycles,
        };
        self.counters.messages += 1;
        self.counters.line_messages += u64::from(has_line);
        let stop = |node: Node| self.config.stops[node.index()] as usize;
        let route = stop(from) * self.stops + stop(to);
        let (begins, ends) = (self.route_begins[route], self.route_begins[route + 1]);
        let mut at = now.after(self.config.stop_cycles);
        for &(link, latency) in &self.routes[begins as usize..ends as usize] {
            if length > 0 {
                let begins = self.links[link as usize].book(now, at, length);
                self.counters.wait_cycles += begins.since(at);
                at = begins;
            }
            at = at.after(latency.into());
        }
        self.counters.hops += u64::from(ends - begins);
        // Its last part, which follows the first over links only.
        let tail = if ends > begins {
            length.saturating_sub(1)
        } else {
            0
        };
        at = at.after(tail).max(now.after(1));
        let last = &mut self.last[from.index() * self.config.stops.len() + to.index()];
        *last = at.max(*last);
        *last
    }
}

/// Finds routes.
struct Router<'a> {
    topology: &'a Topology,
    stops: usize,
    /// Sockets: the next link from each socket to each other.
    next: Vec<Option<usize>>,
    sockets: usize,
}

impl<'a> Router<'a> {
    fn new(topology: &'a Topology, stops: usize) -> Result<Self, String> {
        let mut router = Self {
            topology,
            stops,
            next: Vec::new(),
            sockets: 0,
        };
        match topology {
            Topology::Mesh { columns: 0, .. } => {
                return Err("a mesh has at least one column".into());
            }
            Topology::Sockets { socket, links, .. } => {
                if socket.len() < stops {
                    let known = socket.len();
                    return Err(format!(
                        "the sockets of {known} stops are given, of {stops}"
                    ));
                }
                let named = links.iter().flat_map(|&(from, to, _)| [from, to]);
                let most = named.chain(socket.iter().copied()).max().unwrap_or(0);
                router.sockets = most as usize + 1;
                router.next = next_links(router.sockets, links);
            }
            _ => {}
        }
        Ok(router)
    }

    fn links(&self) -> usize {
        match self.topology {
            Topology::Bus { .. } => 1,
            Topology::Crossbar { .. } => self.stops,
            Topology::Ring { .. } => 2 * self.stops,
            Topology::Mesh { .. } => 4 * self.stops,
            Topology::Sockets { links, .. } => self.stops + 2 * links.len(),
        }
    }

    /// Appends the links from stop `from` to stop `to`, and their latencies.
    fn route(&self, from: usize, to: usize, route: &mut Vec<(u32, u32)>) -> Result<(), String> {
        if from == to {
            return Ok(());
        }
        let mut take = |link: usize, latency: u64| route.push((link as u32, latency as u32));
        match self.topology {
            Topology::Bus { latency_cycles } => take(0, *latency_cycles),
            Topology::Crossbar { latency_cycles } => take(to, *latency_cycles),
            Topology::Ring { hop_cycles } => {
                let stops = self.stops;
                let clockwise = (to + stops - from) % stops;
                let mut at = from;
                while at != to {
                    if clockwise <= stops - clockwise {
                        take(2 * at, *hop_cycles);
                        at = (at + 1) % stops;
                    } else {
                        take(2 * at + 1, *hop_cycles);
                        at = (at + stops - 1) % stops;
                    }
                }
            }
            Topology::Mesh {
                columns,
                vertical_cycles,
                horizontal_cycles,
            } => {
                let columns = *columns as usize;
                let mut at = from;
                while at / columns != to / columns {
                    let down = at / columns < to / columns;
                    take(4 * at + usize::from(down), *vertical_cycles);
                    at = if down { at + columns } else { at - columns };
                }
                while at != to {
                    let right = at < to;
                    take(4 * at + 2 + usize::from(right), *horizontal_cycles);
                    at = if right { at + 1 } else { at - 1 };
                }
            }
            Topology::Sockets {
                socket,
                local_cycles,
                links,
            } => {
                let (mut at, there) = (socket[from] as usize, socket[to] as usize);
                while at != there {
                    let Some(directed) = self.next[at * self.sockets + there] else {
                        return Err(format!(
                            "links: no link leads from socket {at} to socket {there}"
                        ));
                    };
                    let (one, other, latency) = links[directed / 2];
                    take(self.stops + directed, latency);
                    at = if directed % 2 == 0 { other } else { one } as usize;
                }
                take(to, *local_cycles);
            }
        }
        Ok(())
    }
}

/// For each pair of sockets the first link of a route with the fewest links: twice its number, and one more against
/// its direction.
fn next_links(sockets: usize, links: &[(u16, u16, u64)]) -> Vec<Option<usize>> {
    let mut next = vec![None; sockets * sockets];
    for there in 0..sockets {
        let mut reached = vec![there];
        let mut at = 0;
        while at < reached.len() {
            let near = reached[at];
            for (n, &(one, other, _)) in links.iter().enumerate() {
                for (directed, from, to) in [(2 * n, one, other), (2 * n + 1, other, one)] {
                    let (from, to) = (from as usize, to as usize);
                    if to == near && from != there && next[from * sockets + there].is_none() {
                        next[from * sockets + there] = Some(directed);
                        reached.push(from);
                    }
                }
            }
            at += 1;
        }
    }
    next
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
