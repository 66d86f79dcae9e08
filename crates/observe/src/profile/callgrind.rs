//! The format of Callgrind, which KCachegrind and callgrind_annotate read: costs of functions, and of
//! calls between them with all that follows. See "Callgrind Format Specification" of Valgrind's manual.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::tree::{CallTree, Cost, FunctionId};

/// What a call has cost, with everything that it led to.
#[derive(Clone, Copy, Default)]
struct Calls {
    count: u64,
    inclusive: Cost,
}

/// The text of a profile. `command` says what was run.
#[must_use]
pub fn write(tree: &CallTree, command: &str) -> String {
    let (own, calls) = aggregate(tree);
    let total = tree.total();
    let mut out = String::from("# callgrind format\nversion: 1\n");
    let _ = write!(
        out,
        "creator: loiter {}\ncmd: {}\npositions: line\nevents: Instructions Cycles\nsummary: {} {}\n",
        env!("CARGO_PKG_VERSION"),
        one_line(command),
        total.instructions,
        total.cycles
    );
    let mut names = Names::default();
    for (n, own) in own.iter().enumerate() {
        let id = FunctionId(n as u32);
        let callees = calls.range((id, FunctionId(0))..=(id, FunctionId(u32::MAX)));
        if *own == Cost::default() && callees.clone().next().is_none() {
            continue;
        }
        names.place(tree, id, "", &mut out);
        let _ = writeln!(out, "0 {} {}", own.instructions, own.cycles);
        for (&(_, callee), call) in callees {
            names.place(tree, callee, "c", &mut out);
            let (count, cost) = (call.count, call.inclusive);
            let _ = writeln!(
                out,
                "calls={count} 0\n0 {} {}",
                cost.instructions, cost.cycles
            );
        }
        out.push('\n');
    }
    let _ = writeln!(out, "totals: {} {}", total.instructions, total.cycles);
    out
}

/// Own costs by function, and calls by caller and callee.
fn aggregate(tree: &CallTree) -> (Vec<Cost>, BTreeMap<(FunctionId, FunctionId), Calls>) {
    let mut inclusive = vec![Cost::default(); tree.nodes.len()];
    for costs in &tree.costs {
        for (sum, cost) in inclusive.iter_mut().zip(costs) {
            *sum += *cost;
        }
    }
    let mut own = vec![Cost::default(); tree.functions().len()];
    for (node, cost) in tree.nodes.iter().zip(&inclusive) {
        own[node.function.0 as usize] += *cost;
    }
    let mut calls: BTreeMap<_, Calls> = BTreeMap::new();
    // A callee comes after its caller, so its sum is complete.
    for n in (0..tree.nodes.len()).rev() {
        let node = &tree.nodes[n];
        if node.parent as usize == n {
            continue;
        }
        let sum = inclusive[n];
        inclusive[node.parent as usize] += sum;
        let caller = tree.nodes[node.parent as usize].function;
        let call = calls.entry((caller, node.function)).or_default();
        call.count += node.calls.max(1);
        // A call within the same call is part of it.
        if !is_within(tree, node.parent, caller, node.function) {
            call.inclusive += sum;
        }
    }
    (own, calls)
}

/// Whether `from` was reached by a call of `callee` by `caller`.
fn is_within(tree: &CallTree, from: u32, caller: FunctionId, callee: FunctionId) -> bool {
    let mut at = from;
    loop {
        let node = &tree.nodes[at as usize];
        if node.parent == at {
            return false;
        }
        let parent = &tree.nodes[node.parent as usize];
        if node.function == callee && parent.function == caller {
            return true;
        }
        at = node.parent;
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Names are written once; then their number is enough.
#[derive(Default)]
struct Names<'a> {
    programs: BTreeMap<&'a str, usize>,
    functions: BTreeMap<FunctionId, usize>,
    /// Source files are not known: one stands for all of them.
    file_named: bool,
}

impl<'a> Names<'a> {
    /// Says which function the following costs are of; `called` is "c" for one that is called.
    fn place(&mut self, tree: &'a CallTree, id: FunctionId, called: &str, out: &mut String) {
        let function = &tree.functions()[id.0 as usize];
        let program = function.program.as_str();
        let text = number(&mut self.programs, program, program);
        let file = if called.is_empty() { "fl" } else { "cfi" };
        let unknown = match std::mem::replace(&mut self.file_named, true) {
            true => "(1)",
            false => "(1) ???",
        };
        let _ = writeln!(out, "{called}ob={text}\n{file}={unknown}");
        let text = number(&mut self.functions, id, &function.name);
        let _ = writeln!(out, "{called}fn={text}");
    }
}

fn number<K: Ord>(known: &mut BTreeMap<K, usize>, key: K, name: &str) -> String {
    let next = known.len() + 1;
    let mut is_new = false;
    let number = *known.entry(key).or_insert_with(|| {
        is_new = true;
        next
    });
    match is_new {
        true => format!("({number}) {}", one_line(name)),
        false => format!("({number})"),
    }
}
