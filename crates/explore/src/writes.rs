//! In which order a thread comes to its writes, as far as its code says.

use rustc_hash::FxHashMap;

use crate::future::Fact;
use crate::liveness::Liveness;
use crate::memory::Location;

/// Sets of instructions that write, by bits.
type Set = u128;

/// Of each instruction that writes, to where, and what can follow it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writes {
    bits: FxHashMap<u64, u32>,
    /// By thread and location.
    of: FxHashMap<(u8, Location), Set>,
    /// What can follow, from an address of code on.
    from: FxHashMap<u64, Set>,
    /// What can follow each of those that write, by its bit.
    after: Vec<Set>,
}

impl Writes {
    pub(crate) fn of<'a>(facts: impl IntoIterator<Item = &'a Fact>, liveness: &Liveness) -> Self {
        let mut all = Self::default();
        if liveness.is_unknown() {
            return all;
        }
        for fact in facts.into_iter().filter(|fact| fact.writes) {
            let next = all.bits.len() as u32;
            let bit = *all.bits.entry(fact.pc).or_insert(next);
            if bit >= Set::BITS {
                return Self::default();
            }
            let key = (fact.thread, fact.location);
            *all.of.entry(key).or_default() |= 1 << bit;
        }
        loop {
            let mut changed = false;
            for (pc, next) in liveness.code() {
                let mut set = all.bits.get(&pc).map_or(0, |&bit| 1 << bit);
                for to in next {
                    set |= all.from.get(to).copied().unwrap_or(0);
                }
                changed |= all.from.insert(pc, set) != Some(set);
            }
            if !changed {
                break;
            }
        }
        all.after = vec![Set::MAX; all.bits.len()];
        for (pc, next) in liveness.code() {
            if let Some(&bit) = all.bits.get(&pc) {
                let sets = next.iter().map(|to| all.from.get(to).copied().unwrap_or(0));
                all.after[bit as usize] = sets.fold(0, |all, set| all | set);
            }
        }
        all
    }

    /// Whether `thread`, which is at `pc`, comes to all its writes to `first` before any to `second`.
    pub(crate) fn before(
        &self,
        (thread, pc): (u8, u64),
        first: Location,
        second: Location,
    ) -> bool {
        let Some(&ahead) = self.from.get(&pc) else {
            return false;
        };
        let set = |location| self.of.get(&(thread, location)).copied().unwrap_or(0) & ahead;
        let (first, second) = (set(first), set(second));
        let mut left = second;
        let mut reached = 0;
        while left != 0 {
            reached |= self.after[left.trailing_zeros() as usize];
            left &= left - 1;
        }
        first != 0 && second != 0 && first & (second | reached) == 0
    }
}
