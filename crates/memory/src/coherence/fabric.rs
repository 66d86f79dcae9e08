//! What carries messages between nodes, and what happens in coming cycles.

use std::collections::VecDeque;

use loiter_types::{ContextId, CoreId, Cycle};
use serde::{Deserialize, Serialize};

use super::Event;
use super::dram::Dram;
use super::hold::Holds;
use super::message::{Body, Message, Node};
use super::network::Network;
use crate::bus::Calendar;
use crate::request::Told;
use crate::wheel::Wheel;

/// Between the cores of a cluster and its home.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Inside {
    /// From a core to the home of its cluster.
    pub(crate) up_cycles: u64,
    /// Back.
    pub(crate) down_cycles: u64,
    /// Cycles for which a line that comes keeps a core's port.
    pub(crate) line_cycles: u64,
    /// By core: when its port is taken, and when the last message to it arrives.
    pub(crate) ports: Vec<(Calendar, Cycle)>,
}

/// Networks, memory, and events to come.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Fabric {
    pub(crate) cores: usize,
    /// Cores of a cluster, if there are clusters.
    pub(crate) cluster_cores: Option<usize>,
    pub(crate) homes: usize,
    /// Contiguous parts of memory, each with as many homes of its own; the first line, and the lines of a part.
    pub(crate) nodes: usize,
    pub(crate) first_line: u64,
    pub(crate) node_lines: u64,
    /// The first home of memory.
    pub(crate) first_home: usize,
    /// log2 of the lines that follow each other in one home.
    pub(crate) interleave_log2: u32,
    pub(crate) inside: Inside,
    pub(crate) network: Network,
    /// Cores ask for a bus, not for homes; a request is there a cycle later.
    pub(crate) on_bus: bool,
    /// Memory controllers, which are nodes after the homes; without, homes have memory of their own.
    pub(crate) controllers: usize,
    /// The memory of each home or controller.
    pub(crate) drams: Vec<Dram>,
    /// Lines that cores keep for reservations, and for how long.
    pub(crate) holds: Holds,
    pub(crate) reservation_cycles: u64,
    pub(crate) events: Wheel<Event>,
    /// Time stands still: messages arrive at once, in the order in which they were sent.
    pub(crate) instant: bool,
    pub(crate) at_once: VecDeque<Event>,
}

impl Fabric {
    /// `context` of `core` keeps `line` from cycle `now` on; for no longer if it does already.
    pub(crate) fn keep(&mut self, now: Cycle, core: CoreId, context: ContextId, line: u64) {
        if !self.holds.keeps(context, line, now) {
            self.release(now, context);
            let until = now.after(self.reservation_cycles);
            self.holds.hold(core, context, line, now, until);
        }
    }

    /// `context` keeps no line any more.
    pub(crate) fn release(&mut self, now: Cycle, context: ContextId) {
        if let Some(core) = self.holds.release(context) {
            self.events.insert(now.after(1), Event::HoldEnds(core));
        }
    }

    fn is_core(&self, node: Node) -> bool {
        node.index() < self.cores
    }

    /// The home of `line` among those of memory: its number, and that of the line there.
    fn place(&self, line: u64) -> (usize, u64) {
        let homes = (self.homes / self.nodes) as u64;
        let node =
            (line.saturating_sub(self.first_line) / self.node_lines).min(self.nodes as u64 - 1);
        let block = line >> self.interleave_log2;
        let low = line & ((1 << self.interleave_log2) - 1);
        let number = (block / homes) << self.interleave_log2 | low;
        ((node * homes + block % homes) as usize, number)
    }

    fn first_controller(&self) -> usize {
        self.first_home + self.homes
    }

    /// The controller of the memory that has `line`, and the number of the line there.
    fn controller(&self, line: u64) -> Option<(usize, u64)> {
        let controllers = self.controllers as u64;
        (controllers > 0).then(|| ((line % controllers) as usize, line / controllers))
    }

    /// The home that `node` asks for `line`.
    pub(crate) fn home_of(&self, node: Node, line: u64) -> Node {
        match self.cluster_cores {
            Some(cores) if self.is_core(node) => Node((self.cores + node.index() / cores) as u16),
            _ => Node((self.first_home + self.place(line).0) as u16),
        }
    }

    /// When a message that leaves at `at` arrives.
    fn arrival(&mut self, at: Cycle, from: Node, to: Node, has_line: bool) -> Cycle {
        if self.on_bus {
            return at.after(1);
        }
        if self.cluster_cores.is_none() {
            return self.network.send(at, from, to, has_line);
        }
        if self.is_core(from) {
            return at.after(self.inside.up_cycles);
        }
        if !self.is_core(to) {
            return self.network.send(at, from, to, has_line);
        }
        let (port, last) = &mut self.inside.ports[to.index()];
        let mut arrives = at.after(self.inside.down_cycles);
        if has_line && self.inside.line_cycles > 0 {
            arrives = port.book(at, arrives, self.inside.line_cycles);
        }
        *last = arrives.max(*last);
        *last
    }
}

/// Where what a node does in a cycle goes.
pub(crate) struct Out<'a> {
    pub(crate) now: Cycle,
    pub(crate) fabric: &'a mut Fabric,
    pub(crate) told: &'a mut Vec<Told>,
}

impl Out<'_> {
    /// One, but for what is done without time, which is not counted.
    #[inline(always)]
    pub(crate) fn one(&self) -> u64 {
        u64::from(!self.fabric.instant)
    }

    /// `event` happens at `at`.
    pub(crate) fn schedule(&mut self, at: Cycle, event: Event) {
        if self.fabric.instant {
            self.fabric.at_once.push_back(event);
        } else {
            self.fabric.events.insert(at, event);
        }
    }

    /// Sends a message, which leaves `cycles` from now.
    pub(crate) fn send(&mut self, from: Node, to: Node, line: u64, body: Body, cycles: u64) {
        let at = self.arrival(from, to, body.carries_line(), cycles);
        let message = Message {
            from,
            to,
            line,
            body,
        };
        self.schedule(at, Event::Arrives(message));
    }

    /// Sends a message to the home of its line.
    pub(crate) fn send_home(&mut self, from: Node, line: u64, body: Body, cycles: u64) {
        let home = self.fabric.home_of(from, line);
        self.send(from, home, line, body, cycles);
    }

    /// When a message arrives that leaves `cycles` from now.
    pub(crate) fn arrival(&mut self, from: Node, to: Node, has_line: bool, cycles: u64) -> Cycle {
        match self.fabric.instant {
            true => self.now,
            false => self
                .fabric
                .arrival(self.now.after(cycles), from, to, has_line),
        }
    }

    /// The value of `line` is in the home `node` at `at`.
    pub(crate) fn value_at(&mut self, node: Node, line: u64, at: Cycle) {
        self.schedule(at, Event::Value(node, line));
    }

    /// Memory reads `line` for its home, since `early` cycles ago. Returns when the value is there.
    pub(crate) fn read_memory(&mut self, line: u64, early: u64) -> Cycle {
        if self.fabric.instant {
            return self.now;
        }
        let since = |at: Cycle| Cycle(at.0.saturating_sub(early));
        let (home, n) = self.fabric.place(line);
        let Some((controller, n)) = self.fabric.controller(line) else {
            let begins = since(self.now);
            return self.fabric.drams[home].read(begins, n).max(self.now);
        };
        let [here, there] = [
            self.fabric.first_home + home,
            self.fabric.first_controller() + controller,
        ];
        let [here, there] = [here, there].map(|node| Node(node as u16));
        let network = &mut self.fabric.network;
        let arrives = network.send(self.now, here, there, false);
        let read = self.fabric.drams[controller].read(since(arrives), n);
        let read = read.max(arrives);
        self.fabric.network.send(read, there, here, true)
    }

    /// Memory writes `line`.
    pub(crate) fn write_memory(&mut self, line: u64) {
        if self.fabric.instant {
            return;
        }
        let (home, n) = self.fabric.place(line);
        let Some((controller, n)) = self.fabric.controller(line) else {
            self.fabric.drams[home].write(self.now, n);
            return;
        };
        let [here, there] = [
            self.fabric.first_home + home,
            self.fabric.first_controller() + controller,
        ];
        let [here, there] = [here, there].map(|node| Node(node as u16));
        let arrives = self.fabric.network.send(self.now, here, there, true);
        self.fabric.drams[controller].write(arrives, n);
    }
}
