//! Loops of a function, as its instructions show them.

use std::collections::HashMap;
use std::ops::Range;

use loiter_isa::{Class, Inst, Op, SINK};
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

/// What a compressed jump reaches, in bytes.
const COMPRESSED_REACH: i32 = 2048;

/// Control flow between instructions, by address.
type Flow = DiGraphMap<u64, ()>;

/// The code of the innermost loops around instructions of a function that `waits` says. `entry` is where the
/// function begins.
pub(super) fn innermost_around(
    code: &[(u64, Inst)],
    entry: u64,
    waits: impl Fn(&Inst) -> bool,
) -> Vec<Range<u64>> {
    let flow = flow(code);
    let mut in_loops: Vec<u64> = code
        .iter()
        .filter(|(_, inst)| waits(inst))
        .flat_map(|&(addr, _)| innermost(&flow, entry, addr))
        .collect();
    in_loops.sort_unstable();
    in_loops.dedup();
    let lengths: HashMap<u64, u8> = code.iter().map(|(addr, inst)| (*addr, inst.len)).collect();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for addr in in_loops {
        let end = addr + u64::from(lengths[&addr]);
        match ranges.last_mut() {
            Some(last) if last.end == addr => last.end = end,
            _ => ranges.push(addr..end),
        }
    }
    ranges
}

/// Edges lead to what may be executed next within the function.
fn flow(code: &[(u64, Inst)]) -> Flow {
    let mut flow = Flow::new();
    for &(addr, _) in code {
        flow.add_node(addr);
    }
    for &(addr, inst) in code {
        let next_pc = addr + u64::from(inst.len);
        let target = addr.wrapping_add(inst.imm as i64 as u64);
        let (falls_through, jumps) = match inst.op {
            Op::Jal if inst.rd == SINK => (may_be_patched(&inst), true),
            Op::Jalr if inst.rd == SINK => (false, false),
            Op::Mret | Op::Sret | Op::Illegal => (false, false),
            // Calls come back.
            Op::Jal | Op::Jalr => (true, false),
            op => (true, op.class() == Class::Branch),
        };
        for next in [falls_through.then_some(next_pc), jumps.then_some(target)] {
            if let Some(next) = next.filter(|next| flow.contains_node(*next)) {
                flow.add_edge(addr, next, ());
            }
        }
    }
    flow
}

/// Whether a jump may be an alternative that Linux replaces by a `nop` when it boots on a machine with an
/// extension, or a static key: those are not compressed although they could be (ALTERNATIVE in
/// arch/riscv/include/asm/alternative-macros.h), which no assembler does by itself.
fn may_be_patched(jump: &Inst) -> bool {
    jump.len == 4 && (-COMPRESSED_REACH..COMPRESSED_REACH).contains(&jump.imm)
}

/// The innermost loop around `addr`, if there is any: the least part of the code whose instructions all reach each
/// other without the heads of the loops around it.
fn innermost(flow: &Flow, entry: u64, addr: u64) -> Vec<u64> {
    let mut part = flow.clone();
    let mut inner = Vec::new();
    loop {
        let cycle = cycle_with(&part, addr);
        if cycle.is_empty() {
            return inner;
        }
        let is_inside = |other: u64| cycle.binary_search(&other).is_ok();
        let is_head = |&node: &u64| {
            let mut before = flow.neighbors_directed(node, petgraph::Direction::Incoming);
            node == entry || before.any(|other| !is_inside(other))
        };
        let heads: Vec<u64> = cycle.iter().copied().filter(is_head).collect();
        let outside: Vec<u64> = part.nodes().filter(|&node| !is_inside(node)).collect();
        for &node in heads.iter().chain(&outside) {
            part.remove_node(node);
        }
        inner = cycle;
        if heads.is_empty() || heads.contains(&addr) {
            return inner;
        }
    }
}

/// The instructions, by address, that reach `addr` and are reached from it; none if it does not reach itself.
fn cycle_with(flow: &Flow, addr: u64) -> Vec<u64> {
    let mut parts = tarjan_scc(flow).into_iter();
    let mut part = parts.find(|part| part.contains(&addr)).unwrap_or_default();
    if part.len() == 1 && !flow.contains_edge(addr, addr) {
        part.clear();
    }
    part.sort_unstable();
    part
}
