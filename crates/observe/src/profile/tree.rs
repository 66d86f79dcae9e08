//! The tree of calls.

use std::collections::HashMap;

/// Deepest path; calls beyond are added to their caller. A guest that recurses for ever must not fill
/// the host.
const MOST_DEPTH: u32 = 1000;
/// Most nodes, likewise.
const MOST_NODES: usize = 8 << 20;

/// A function of the guest, or a cause to call one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// What is known of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The program that it belongs to: kernel, firmware, a file.
    pub program: String,
    /// Its address; 0 if it has none.
    pub addr: u64,
}

/// What something costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Instructions retired.
    pub instructions: u64,
    /// Cycles of simulated time, sleep included.
    pub cycles: u64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.cycles += other.cycles;
    }
}

/// A function that was called in one particular way.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Who called it; a root is its own caller.
    pub(crate) parent: u32,
    pub(crate) function: FunctionId,
    pub(crate) depth: u32,
    pub(crate) calls: u64,
    /// The callee last looked for.
    last: (FunctionId, u32),
}

/// Functions, and the ways in which they were called.
#[derive(Debug, Default)]
pub struct CallTree {
    functions: Vec<Function>,
    ids: HashMap<Function, FunctionId>,
    pub(crate) nodes: Vec<Node>,
    children: HashMap<(u32, FunctionId), u32>,
    roots: HashMap<FunctionId, u32>,
    /// By hart, by node.
    pub(crate) costs: Vec<Vec<Cost>>,
}

impl CallTree {
    /// The number of a function.
    pub fn function(&mut self, function: Function) -> FunctionId {
        if let Some(&id) = self.ids.get(&function) {
            return id;
        }
        let id = FunctionId(u32::try_from(self.functions.len()).expect("fewer functions"));
        self.functions.push(function.clone());
        self.ids.insert(function, id);
        id
    }

    /// All functions, by number.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The node of a function that nobody has called.
    pub(crate) fn root(&mut self, function: FunctionId) -> u32 {
        if let Some(&node) = self.roots.get(&function) {
            return node;
        }
        let node = self.add(self.nodes.len() as u32, function, 0);
        self.roots.insert(function, node);
        node
    }

    /// The node of `function` when it is called from `caller`.
    #[inline]
    pub(crate) fn callee(&mut self, caller: u32, function: FunctionId) -> u32 {
        let node = &self.nodes[caller as usize];
        match node.last {
            (last, callee) if last == function => callee,
            _ => self.find_callee(caller, function),
        }
    }

    fn find_callee(&mut self, caller: u32, function: FunctionId) -> u32 {
        let callee = match self.children.get(&(caller, function)) {
            Some(&callee) => callee,
            None => {
                let depth = self.nodes[caller as usize].depth + 1;
                if depth > MOST_DEPTH || self.nodes.len() >= MOST_NODES {
                    return caller;
                }
                let callee = self.add(caller, function, depth);
                self.children.insert((caller, function), callee);
                callee
            }
        };
        self.nodes[caller as usize].last = (function, callee);
        callee
    }

    fn add(&mut self, parent: u32, function: FunctionId, depth: u32) -> u32 {
        let node = u32::try_from(self.nodes.len()).expect("fewer nodes");
        self.nodes.push(Node {
            parent,
            function,
            depth,
            calls: 0,
            last: (FunctionId(u32::MAX), 0),
        });
        node
    }

    #[inline]
    pub(crate) fn charge(&mut self, hart: usize, node: u32, cost: Cost) {
        if self.costs.len() <= hart {
            self.costs.resize_with(hart + 1, Vec::new);
        }
        let costs = &mut self.costs[hart];
        if costs.len() <= node as usize {
            costs.resize(self.nodes.len(), Cost::default());
        }
        costs[node as usize] += cost;
    }

    /// All costs: hart, path of functions from the innermost out, cost.
    pub fn samples(&self) -> impl Iterator<Item = (usize, Vec<FunctionId>, Cost)> + '_ {
        let harts = self.costs.iter().enumerate();
        harts.flat_map(move |(hart, costs)| {
            let costly = costs
                .iter()
                .enumerate()
                .filter(|(_, cost)| **cost != Cost::default());
            costly.map(move |(node, &cost)| (hart, self.path(node as u32), cost))
        })
    }

    /// Functions of a node and its callers.
    pub(crate) fn path(&self, node: u32) -> Vec<FunctionId> {
        let mut path = Vec::new();
        let mut at = node;
        loop {
            let node = &self.nodes[at as usize];
            path.push(node.function);
            if node.parent == at {
                return path;
            }
            at = node.parent;
        }
    }

    /// The sum of all costs.
    #[must_use]
    pub fn total(&self) -> Cost {
        let mut total = Cost::default();
        for cost in self.costs.iter().flatten() {
            total += *cost;
        }
        total
    }
}
