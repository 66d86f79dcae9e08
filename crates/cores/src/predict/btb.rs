//! The branch target buffer: where branches led when they were last taken.
//!
//! Use counts when a branch retires: look-ups, of which many are on wrong paths, change nothing.

use loiter_memory::sets;
use loiter_types::StateVisitor;
use serde::{Deserialize, Serialize};

use super::params::BtbParams;
use super::two_bit::index;

/// No address of an instruction: it is odd.
const EMPTY: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Entry {
    pc: u64,
    target: u64,
    /// When it was last used; 0: never.
    used: u64,
}

/// What fetch does at a branch or jump that the buffer does not hold: see [`BtbParams`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum OnMiss {
    FallThrough,
    Misfetch,
    Stall,
}

/// The buffer.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Btb {
    pub(super) on_miss: OnMiss,
    entries: Vec<Entry>,
    ways: usize,
    set_mask: u64,
    /// Uses so far.
    now: u64,
}

impl Btb {
    /// Shows `visitor` its entries. When they were used matters as an order only.
    pub(super) fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            on_miss: _,
            entries,
            ways,
            set_mask: _,
            now: _,
        } = self;
        for set in entries.chunks(*ways) {
            for Entry { pc, target, used } in set {
                visitor.value(*pc);
                visitor.value(*target);
                let before = set.iter().filter(|other| other.used < *used).count();
                visitor.value(before as u64);
            }
        }
    }

    pub(super) fn new(params: &BtbParams) -> Result<Self, String> {
        let (entries, ways) = (params.entries, params.ways);
        let sets = sets(entries, ways)?;
        let empty = Entry {
            pc: EMPTY,
            target: 0,
            used: 0,
        };
        let on_miss = match params.miss.as_str() {
            "misfetch" => OnMiss::Misfetch,
            "stall" => OnMiss::Stall,
            _ => OnMiss::FallThrough,
        };
        Ok(Self {
            on_miss,
            entries: vec![empty; entries as usize],
            ways: ways as usize,
            set_mask: sets - 1,
            now: 0,
        })
    }

    /// Where the branch at `pc` led.
    #[inline]
    pub(super) fn target(&self, pc: u64) -> Option<u64> {
        let first = self.first(pc);
        let set = &self.entries[first..first + self.ways];
        set.iter()
            .find(|entry| entry.pc == pc)
            .map(|entry| entry.target)
    }

    /// The branch at `pc` leads to `target`.
    #[inline]
    pub(super) fn enter(&mut self, pc: u64, target: u64) {
        self.now += 1;
        let first = self.first(pc);
        let set = &mut self.entries[first..first + self.ways];
        let way = set
            .iter()
            .position(|entry| entry.pc == pc)
            .or((0..set.len()).min_by_key(|&way| set[way].used))
            .unwrap_or(0);
        set[way] = Entry {
            pc,
            target,
            used: self.now,
        };
    }

    #[inline(always)]
    fn first(&self, pc: u64) -> usize {
        (index(pc) & self.set_mask) as usize * self.ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(entries: u64, ways: u64) -> BtbParams {
        let miss = "fall_through".to_owned();
        BtbParams {
            entries,
            ways,
            miss,
        }
    }

    fn btb(entries: u64, ways: u64) -> Btb {
        Btb::new(&params(entries, ways)).unwrap()
    }

    /// Looks up a branch and enters it; whether it was there.
    fn uses(btb: &mut Btb, pc: u64) -> bool {
        let found = btb.target(pc);
        assert!(found.is_none_or(|target| target == pc + 100));
        btb.enter(pc, pc + 100);
        found.is_some()
    }

    #[test]
    fn as_many_branches_fit_as_there_are_entries_and_not_one_more() {
        for (entries, ways) in [(1024, 4), (16, 16), (8, 1), (3, 3), (1, 1)] {
            for (branches, missing) in [(entries, 0), (entries + 1, ways + 1)] {
                let mut btb = btb(entries, ways);
                let mut round = || (0..branches).filter(|n| !uses(&mut btb, n * 2)).count() as u64;
                assert_eq!(round(), branches);
                for _ in 0..3 {
                    // One too many in a set push each other out.
                    assert_eq!(round(), missing, "{branches} in {entries}, {ways} ways");
                }
            }
        }
    }

    #[test]
    fn the_least_recently_used_is_replaced_and_look_ups_are_no_use() {
        let mut btb = btb(8, 4);
        let [a, b, c, d, e, f] = [0, 4, 8, 12, 16, 20];
        let other_set = 2;
        for pc in [a, b, c, d, other_set, a] {
            btb.enter(pc, pc + 1000);
        }
        assert_eq!(btb.target(b), Some(1004));
        btb.enter(e, 1);
        btb.enter(f, 2);
        let there = [a, b, c, d, e, f, other_set].map(|pc| btb.target(pc).is_some());
        assert_eq!(there, [true, false, false, true, true, true, true]);
    }

    #[test]
    fn the_latest_target_counts() {
        let mut btb = btb(8, 4);
        btb.enter(64, 1000);
        btb.enter(64, 2000);
        assert_eq!(btb.target(64), Some(2000));
        // The tag is the whole address.
        assert_eq!(btb.target(64 | 1 << 63), None);
    }

    #[test]
    fn impossible_geometries_are_refused() {
        for (entries, ways, part) in [(12, 4, "3.00 sets"), (10, 4, "2.50"), (4, 8, "0.50")] {
            let error = Btb::new(&params(entries, ways)).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
