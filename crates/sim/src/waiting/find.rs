//! Finds what a table names in the memory of a machine.

use std::collections::HashMap;
use std::ops::Range;

use loiter_isa::{Inst, decode};
use loiter_machine::{Machine, SymbolFile};
use loiter_types::{PhysAddr, Unknown};

use crate::symbols::Symbols;

/// Knows names and addresses of a program or a kernel.
pub(super) struct Finder<'a> {
    symbols: &'a Symbols,
    machine: &'a Machine,
}

/// The name of a function in its source: a compiler puts `.constprop.0`, `.isra.0` and such after those that it
/// makes of one.
fn in_source(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

impl<'a> Finder<'a> {
    pub(super) fn new(symbols: &'a Symbols, machine: &'a Machine) -> Self {
        Self { symbols, machine }
    }

    /// The files whose addresses do not move.
    fn files(&self) -> impl Iterator<Item = &'a SymbolFile> {
        self.symbols.files().filter(|file| file.text.is_empty())
    }

    /// The names of all functions.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        let all = self.files().flat_map(|file| file.symbols.iter());
        all.filter(|symbol| symbol.is_function)
            .map(|symbol| symbol.name)
    }

    /// For each of `names`, where the functions of this name are: several may have it, and a compiler may have made
    /// several of one.
    pub(super) fn functions<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
    ) -> Vec<Vec<Range<u64>>> {
        let names: Vec<&str> = names.collect();
        let mut wanted: HashMap<&str, Vec<usize>> = HashMap::new();
        for (n, name) in names.iter().enumerate() {
            wanted.entry(name).or_default().push(n);
        }
        let mut found = vec![Vec::new(); names.len()];
        for file in self.files() {
            let mut symbols = file.symbols.iter().peekable();
            while let Some(symbol) = symbols.next() {
                let entries = [symbol.name, in_source(symbol.name)].map(|it| wanted.get(it));
                let Some(entries) = entries.into_iter().flatten().next() else {
                    continue;
                };
                let mut range = symbol.range;
                if !symbol.is_function {
                    // A label reaches as far as the next.
                    let next = symbols.peek().map_or(range.end, |next| next.range.start);
                    range.end = range.end.min(next);
                }
                for &n in entries {
                    if !range.is_empty() && !found[n].contains(&range) {
                        found[n].push(range.clone());
                    }
                }
            }
        }
        found
    }

    /// An address in words: a number, a symbol, or a symbol and an offset.
    pub(super) fn address(&self, text: &str) -> Result<u64, String> {
        if let Some(addr) = number(text) {
            return Ok(addr);
        }
        let (name, offset) = match text.split_once('+') {
            Some((name, offset)) => match number(offset.trim()) {
                Some(offset) => (name.trim(), offset),
                None => return Err(format!("{text}: \"{offset}\" is no number")),
            },
            None => (text, 0),
        };
        let addr = self.symbols.address(name);
        let addr = addr.ok_or_else(|| Unknown::new("symbol", name, self.names()).to_string())?;
        Ok(addr.wrapping_add(offset))
    }

    /// Where code lies in memory that is linked at `range`.
    pub(super) fn physical(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let below = self.symbols.above_memory(self.machine, range.start);
        let (begin, end) = (
            range.start.wrapping_sub(below),
            range.end.wrapping_sub(below),
        );
        let bytes = end.checked_sub(begin)?;
        self.machine
            .is_ram(PhysAddr(begin), bytes)
            .then_some(begin..end)
    }

    /// The instructions of the code that is linked at `range`, with their addresses.
    pub(super) fn code(&self, range: &Range<u64>) -> Vec<(u64, Inst)> {
        let mut code = Vec::new();
        let Some(physical) = self.physical(range) else {
            return code;
        };
        let mut at = range.start;
        while at < range.end {
            let addr = PhysAddr(physical.start + (at - range.start));
            let inst = decode(self.machine.fetch(addr).unwrap_or(0));
            code.push((at, inst));
            at += u64::from(inst.len);
        }
        code
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
