//! Timing of a translation look-aside buffer: of which pages a core has the translation at hand. Tags
//! and use only; what an address means is the harts' affair.
//!
//! A translation belongs to an address space, or is global and serves all. Contexts of a core share
//! what they have in common. A page of any size takes one entry.

use loiter_types::{AddressSpace, PAGE_BYTES, StateVisitor, VirtAddr};
use serde::{Deserialize, Serialize};
use serde_with::serde_as;

use crate::counters::TlbCounters;
use crate::params::{TlbParams, sets};

/// log2 of the bytes of the smallest page.
const PAGE_LOG2: u32 = PAGE_BYTES.trailing_zeros();

/// Places in which the entry that answered last is looked for first, a power of two.
const HINTS: usize = 512;

/// A translation, as far as its place in a buffer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Translation {
    /// An address in the page.
    pub addr: VirtAddr,
    /// log2 of the bytes of the page.
    pub size_log2: u32,
    /// The address space in which it holds.
    pub space: AddressSpace,
    /// It holds in every address space.
    pub global: bool,
    /// The page may be written but is not marked as written: a store has to walk to mark it.
    pub clean: bool,
}

impl Translation {
    #[inline(always)]
    fn has(&self, addr: VirtAddr) -> bool {
        (self.addr.0 ^ addr.0) >> self.size_log2 == 0
    }

    #[inline(always)]
    fn serves(&self, addr: VirtAddr, space: AddressSpace) -> bool {
        // What is global in a guest is so in that guest.
        let shared = self.global && self.space.guest == space.guest;
        self.has(addr) && (self.space == space || shared)
    }
}

/// Which translations are to be forgotten: all, or those of an address, or those of an address space
/// that are not global, or both (privileged manual, "sfence.vma").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Flush {
    /// Only those of the page with this address.
    pub addr: Option<VirtAddr>,
    /// Only those of the address space with this number, and none that are global.
    pub asid: Option<u16>,
    /// Whose.
    pub of: FlushOf,
}

/// Whose translations are to be forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum FlushOf {
    /// All.
    #[default]
    Everybody,
    /// Those of no guest.
    Host,
    /// Those of all guests.
    Guests,
    /// Those of the guest with this number.
    Guest(u16),
}

impl FlushOf {
    fn concerns(self, space: AddressSpace) -> bool {
        match self {
            FlushOf::Everybody => true,
            FlushOf::Host => space.vmid().is_none(),
            FlushOf::Guests => space.vmid().is_some(),
            FlushOf::Guest(vmid) => space.vmid() == Some(vmid),
        }
    }
}

impl Flush {
    fn concerns(self, entry: &Translation) -> bool {
        self.of.concerns(entry.space)
            && self.addr.is_none_or(|addr| entry.has(addr))
            && self
                .asid
                .is_none_or(|asid| !entry.global && entry.space.asid() == asid)
    }
}

/// Which entry of a set is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum Replacement {
    /// The lowest-numbered that is empty or was not used since all others of its set were; as in the
    /// UltraSPARC T1 and T2.
    UsedBit,
    /// The least recently used.
    Lru,
    /// Any, by a linear-feedback shift register.
    Random,
}

/// The buffer.
#[serde_as]
#[derive(Debug, Deserialize, Serialize)]
pub struct Tlb {
    entries: Vec<Option<Translation>>,
    /// By entry: LRU: time of last use; used bit: 1 when used.
    used: Vec<u64>,
    /// By set, how many of its used bits are set.
    used_bits: Vec<u32>,
    ways: usize,
    set_mask: u64,
    replacement: Replacement,
    /// LRU: the present time; random: the register.
    state: u64,
    /// Page sizes that it has held, bit n: pages of `1 << n` bytes.
    sizes: u64,
    /// By page and address space, the entry that answered last. Saves searching the ways.
    #[serde_as(as = "Box<[_; HINTS]>")]
    hints: Box<[u32; HINTS]>,
    /// What has happened to it.
    pub counters: TlbCounters,
}

impl Tlb {
    /// An empty buffer.
    ///
    /// # Errors
    /// Says which geometry is impossible.
    pub fn new(params: &TlbParams) -> Result<Self, String> {
        let (entries, ways) = (params.entries, params.ways);
        let sets = sets(entries, ways)?;
        let replacement = match params.replacement.as_str() {
            "used_bit" => Replacement::UsedBit,
            "random" => Replacement::Random,
            _ => Replacement::Lru,
        };
        Ok(Self {
            entries: vec![None; entries as usize],
            used: vec![0; entries as usize],
            used_bits: vec![0; sets as usize],
            ways: ways as usize,
            set_mask: sets - 1,
            replacement,
            state: 1,
            sizes: 0,
            hints: Box::new([0; HINTS]),
            counters: TlbCounters::default(),
        })
    }

    /// Shows `visitor` what decides which entry is replaced next. Which entries there are, a hit does not change.
    pub fn visit_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            entries: _,
            used,
            used_bits,
            ways,
            set_mask: _,
            replacement,
            state,
            sizes: _,
            hints: _,
            counters,
        } = self;
        match replacement {
            Replacement::Lru => visitor.order_of_use(used, *ways),
            Replacement::Random => visitor.value(*state),
            Replacement::UsedBit => {
                used.iter().for_each(|&used| visitor.value(used));
                used_bits
                    .iter()
                    .for_each(|&bits| visitor.value(bits.into()));
            }
        }
        visitor.counters(counters);
    }

    /// Looks up the page of `addr` for an access, with `store` one that writes: whether its
    /// translation is there, and sufficient.
    #[inline]
    pub fn access(&mut self, addr: VirtAddr, space: AddressSpace, store: bool) -> bool {
        self.counters.accesses += 1;
        let hint = self.hints[hint(addr, space)] as usize;
        let found = match self.entries[hint] {
            Some(entry) if entry.serves(addr, space) => Some(hint),
            _ => self.search(addr, space),
        };
        let hit = found.filter(|&at| !(store && self.entries[at].is_some_and(|entry| entry.clean)));
        match hit {
            Some(at) => self.touch(at),
            None => self.counters.misses += 1,
        }
        hit.is_some()
    }

    /// Finds an entry the long way, and remembers where.
    #[inline(never)]
    fn search(&mut self, addr: VirtAddr, space: AddressSpace) -> Option<usize> {
        let mut sizes = self.sizes;
        while sizes != 0 {
            let first = self.set(addr, sizes.trailing_zeros()) * self.ways;
            sizes &= sizes - 1;
            let set = &self.entries[first..first + self.ways];
            let way = set
                .iter()
                .position(|entry| entry.is_some_and(|entry| entry.serves(addr, space)));
            if let Some(way) = way {
                self.hints[hint(addr, space)] = (first + way) as u32;
                return Some(first + way);
            }
            if self.set_mask == 0 {
                // One set holds pages of all sizes.
                return None;
            }
        }
        None
    }

    /// The set for a page of `1 << size_log2` bytes.
    fn set(&self, addr: VirtAddr, size_log2: u32) -> usize {
        (addr.block(size_log2) & self.set_mask) as usize
    }

    #[inline]
    fn touch(&mut self, at: usize) {
        match self.replacement {
            Replacement::Lru => {
                self.state += 1;
                self.used[at] = self.state;
            }
            Replacement::UsedBit if self.used[at] == 0 => self.set_used_bit(at),
            Replacement::UsedBit | Replacement::Random => {}
        }
    }

    /// When the last used bit of a set is set, all are cleared.
    fn set_used_bit(&mut self, at: usize) {
        let set = at / self.ways;
        self.used[at] = 1;
        self.used_bits[set] += 1;
        if self.used_bits[set] as usize == self.ways {
            self.used[set * self.ways..][..self.ways].fill(0);
            self.used_bits[set] = 0;
        }
    }

    /// Takes in a translation that a walk has found.
    pub fn fill(&mut self, translation: Translation) {
        let Translation { addr, space, .. } = translation;
        self.sizes |= 1 << translation.size_log2;
        // Another walk may have brought it.
        let at = match self.search(addr, space) {
            Some(at) => at,
            None => self.victim(self.set(addr, translation.size_log2)),
        };
        self.entries[at] = Some(translation);
        self.hints[hint(addr, space)] = at as u32;
        self.touch(at);
    }

    fn victim(&mut self, set: usize) -> usize {
        let first = set * self.ways;
        let ways = first..first + self.ways;
        let empty = ways.clone().find(|&at| self.entries[at].is_none());
        match self.replacement {
            // An empty entry is not used.
            Replacement::UsedBit => ways.clone().find(|&at| self.used[at] == 0),
            Replacement::Lru => empty.or(ways.clone().min_by_key(|&at| self.used[at])),
            Replacement::Random => empty.or_else(|| {
                // 16-bit Fibonacci register, taps 16 15 13 4: period 65535.
                let s = self.state;
                let bit = (s ^ (s >> 1) ^ (s >> 3) ^ (s >> 12)) & 1;
                self.state = (s >> 1) | (bit << 15);
                Some(first + self.state as usize % self.ways)
            }),
        }
        .unwrap_or(first)
    }

    /// Forgets translations.
    pub fn flush(&mut self, flush: Flush) {
        for at in 0..self.entries.len() {
            if self.entries[at].is_some_and(|entry| flush.concerns(&entry)) {
                self.entries[at] = None;
                self.counters.flushed += 1;
                if self.replacement == Replacement::UsedBit && self.used[at] == 1 {
                    self.used_bits[at / self.ways] -= 1;
                }
                self.used[at] = 0;
            }
        }
    }
}

#[inline(always)]
fn hint(addr: VirtAddr, space: AddressSpace) -> usize {
    // Address spaces differ in their number and in where their tables are.
    let tables = space.tables ^ space.guest;
    let mixed = addr.block(PAGE_LOG2) ^ tables ^ (tables >> 44);
    (mixed ^ (mixed >> 9)) as usize % HINTS
}

#[cfg(test)]
#[path = "tlb_tests.rs"]
mod tests;
