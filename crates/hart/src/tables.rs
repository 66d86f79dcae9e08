//! Page tables: what an entry says, and where tables lead whoever looks from outside (privileged manual, "Sv39" and "Sv48", and
//! their forms for a guest's memory).

use loiter_isa::Width;
use loiter_machine::{Machine, Partition};
use loiter_types::PhysAddr;
use serde::{Deserialize, Serialize};

use crate::csr::{AccessMode, Paging, Privilege};
use crate::translate::{Access, PAGE_LOG2};

/// log2 of the entries of a table.
pub(crate) const INDEX_BITS: u32 = 9;
/// log2 of how many times as many the outermost table of a guest's memory has.
pub(crate) const GUEST_BITS: u32 = 2;
pub(crate) const VALID: u64 = 1;
pub(crate) const READ: u64 = 1 << 1;
pub(crate) const WRITE: u64 = 1 << 2;
pub(crate) const EXECUTE: u64 = 1 << 3;
pub(crate) const USER: u64 = 1 << 4;
const GLOBAL: u64 = 1 << 5;
pub(crate) const ACCESSED: u64 = 1 << 6;
pub(crate) const DIRTY: u64 = 1 << 7;
/// Bits 63:54, of extensions that this hart does not have (Svnapot, Svpbmt) or reserved.
const RESERVED: u64 = !0 << 54;
pub(crate) const PPN_SHIFT: u32 = 10;
const PPN_MASK: u64 = (1 << 44) - 1;

/// A table, and what an entry of it maps.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Level {
    table: u64,
    /// log2 of the bytes that an entry maps.
    shift: u32,
    /// log2 of the entries of the table.
    index_bits: u32,
}

impl Level {
    /// The outermost table of the register that names it, of so many levels.
    pub(crate) fn outermost(register: u64, levels: u32, index_bits: u32) -> Self {
        Self {
            table: (register & PPN_MASK) << PAGE_LOG2,
            shift: PAGE_LOG2 + (levels - 1) * INDEX_BITS,
            index_bits,
        }
    }

    pub(crate) fn entry(&self, addr: u64) -> u64 {
        self.table + 8 * (addr >> self.shift & ((1 << self.index_bits) - 1))
    }

    /// The table that `entry` leads to.
    pub(crate) fn next(&self, entry: u64) -> Self {
        Self {
            table: (entry >> PPN_SHIFT & PPN_MASK) << PAGE_LOG2,
            shift: self.shift - INDEX_BITS,
            index_bits: INDEX_BITS,
        }
    }
}

/// An entry of a table that maps a page.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Leaf {
    pub(crate) at: PhysAddr,
    pub(crate) entry: u64,
    pub(crate) size_log2: u32,
}

impl Leaf {
    pub(crate) fn base(&self) -> u64 {
        (self.entry >> PPN_SHIFT & PPN_MASK) << PAGE_LOG2
    }

    pub(crate) fn offset_mask(&self) -> u64 {
        (1 << self.size_log2) - 1
    }

    pub(crate) fn is_aligned(&self) -> bool {
        self.base() & self.offset_mask() == 0
    }

    pub(crate) fn physical(&self, addr: u64) -> u64 {
        self.base() | addr & self.offset_mask()
    }

    /// Bits that an access sets.
    pub(crate) fn sets(&self, stores: bool) -> u64 {
        (ACCESSED | if stores { DIRTY } else { 0 }) & !self.entry
    }
}

/// Where `addr` leads by the tables of `register`, whose entries are in RAM of `partition`.
pub(crate) fn peek_in(
    machine: &Machine,
    partition: Partition,
    register: u64,
    more_bits: u32,
    addr: u64,
) -> Option<u64> {
    peek_by(machine, partition, register, more_bits, addr, Some)
}

/// The same, with entries that lie where `entry_at` says.
pub(crate) fn peek_by(
    machine: &Machine,
    partition: Partition,
    register: u64,
    more_bits: u32,
    addr: u64,
    entry_at: impl Fn(u64) -> Option<u64>,
) -> Option<u64> {
    let Paging::Levels(levels) = Paging::of(register) else {
        return Some(addr);
    };
    let unused = 64 - (PAGE_LOG2 + levels * INDEX_BITS + more_bits);
    let extended = match more_bits {
        0 => (addr << unused) as i64 >> unused == addr as i64,
        _ => addr << unused >> unused == addr,
    };
    if !extended {
        return None;
    }
    let mut level = Level::outermost(register, levels, INDEX_BITS + more_bits);
    loop {
        let at = PhysAddr(entry_at(level.entry(addr))?);
        if let Some(leaf) = read_entry(machine, partition, at, &mut level, &mut false)? {
            return Some(leaf.physical(addr));
        }
    }
}

/// The next entry, at `at` of `partition`: what it maps, or `Some(None)` when there is a further table, to which `level` goes; `None` if it is not
/// one that leads anywhere.
pub(crate) fn read_entry(
    machine: &Machine,
    partition: Partition,
    at: PhysAddr,
    level: &mut Level,
    global: &mut bool,
) -> Option<Option<Leaf>> {
    let entry = machine.ram.read(partition.place(at), Width::D)?;
    if entry & VALID == 0 || entry & (READ | WRITE) == WRITE || entry & RESERVED != 0 {
        return None;
    }
    *global |= entry & GLOBAL != 0;
    if entry & (READ | EXECUTE) != 0 {
        return Some(Some(Leaf {
            at,
            entry,
            size_log2: level.shift,
        }));
    }
    if entry & (USER | ACCESSED | DIRTY) != 0 || level.shift == PAGE_LOG2 {
        return None;
    }
    *level = level.next(entry);
    Some(None)
}

/// Whether a leaf entry grants the access.
pub(crate) fn grants(entry: u64, mode: AccessMode, access: Access) -> bool {
    let is_user = entry & USER != 0;
    let reachable = match mode.privilege {
        Privilege::User => is_user,
        // A fetch has no such right.
        _ => !is_user || mode.sum,
    };
    let bits = match access {
        Access::Fetch => EXECUTE,
        Access::Load if mode.of_code => EXECUTE,
        Access::Load if mode.mxr => READ | EXECUTE,
        Access::Load => READ,
        Access::Store => WRITE,
    };
    reachable && entry & bits != 0
}
