//! Address translation and protection (privileged manual, "Sv39" and "Sv48", and PMP).

use loiter_isa::Width;
use loiter_machine::Machine;
use loiter_types::{PAGE_BYTES, PhysAddr, VirtAddr};

use crate::csr::{AccessMode, Paging, Privilege};
use crate::hart::Hart;
use crate::trap::{Cause, Trap};

/// log2 of the bytes of a page.
pub(crate) const PAGE_LOG2: u32 = PAGE_BYTES.trailing_zeros();
/// log2 of the entries of a table.
const INDEX_BITS: u32 = 9;
/// Most levels of tables.
pub const MAX_LEVELS: usize = 4;

const VALID: u64 = 1;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const USER: u64 = 1 << 4;
const ACCESSED: u64 = 1 << 6;
const DIRTY: u64 = 1 << 7;
/// Bits 63:54, of extensions that this hart does not have (Svnapot, Svpbmt) or reserved.
const RESERVED: u64 = !0 << 54;
const PPN_SHIFT: u32 = 10;
const PPN_MASK: u64 = (1 << 44) - 1;

/// What an address is translated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Executing what lies there.
    Fetch,
    /// Reading.
    Load,
    /// Writing, or an atomic.
    Store,
}

impl Access {
    /// The exception for an address that the page tables do not grant.
    #[must_use]
    pub fn page_fault(self, addr: u64) -> Trap {
        let cause = match self {
            Access::Fetch => Cause::FetchPage,
            Access::Load => Cause::LoadPage,
            Access::Store => Cause::StorePage,
        };
        Trap::Exception(cause, addr)
    }

    /// The exception for a physical address that protection does not grant, or that nothing answers.
    #[must_use]
    pub fn access_fault(self, addr: u64) -> Trap {
        let cause = match self {
            Access::Fetch => Cause::FetchAccess,
            Access::Load => Cause::LoadAccess,
            Access::Store => Cause::StoreAccess,
        };
        Trap::Exception(cause, addr)
    }
}

impl Hart {
    /// Physical address of `bytes` bytes from `addr` on, which lie in one page, if the hart may now
    /// access them so. Sets accessed and dirty bits where the hart does that itself.
    ///
    /// # Errors
    /// The exception that the access raises.
    #[inline(always)]
    pub fn translate(
        &mut self,
        machine: &mut Machine,
        addr: VirtAddr,
        bytes: u64,
        access: Access,
    ) -> Result<PhysAddr, Trap> {
        debug_assert!(!addr.leaves_page(bytes));
        self.tlb.sync(&machine.pages);
        match self.tlb.find(addr.0, access) {
            Some(found) => Ok(found),
            None => self.walk_and_remember(machine, addr, bytes, access),
        }
    }

    #[cold]
    fn walk_and_remember(
        &mut self,
        machine: &mut Machine,
        addr: VirtAddr,
        bytes: u64,
        access: Access,
    ) -> Result<PhysAddr, Trap> {
        let mode = self.access_mode(access);
        let mut tables = [None; MAX_LEVELS];
        let mut places = tables.iter_mut();
        let physical = self.walk(machine, addr, access, |entry| {
            *places.next().expect("as many as levels") = Some(entry);
        })?;
        let verdict = self
            .csr
            .protection(physical.0, bytes, mode.privilege, access);
        if !verdict.allowed {
            return Err(access.access_fault(addr.0));
        }
        for entry in tables.into_iter().flatten() {
            machine.pages.mark_table(entry);
        }
        self.tlb.sync(&machine.pages);
        if verdict.whole_page && machine.is_ram(physical, 1) {
            self.tlb.remember(addr.0, physical, access, &machine.pages);
        }
        Ok(physical)
    }

    fn access_mode(&self, access: Access) -> AccessMode {
        match access {
            Access::Fetch => self.csr.fetch_mode(),
            Access::Load | Access::Store => self.csr.data_mode(),
        }
    }

    /// Walks the page tables for `addr` as the hardware would now, whatever is remembered, and tells
    /// `reads` the address of each entry that it reads, outermost first. Sets accessed and dirty bits
    /// where the hart does that itself. What protection says of the address found is not asked.
    ///
    /// # Errors
    /// The exception that the access raises.
    pub fn walk(
        &self,
        machine: &mut Machine,
        addr: VirtAddr,
        access: Access,
        reads: impl FnMut(PhysAddr),
    ) -> Result<PhysAddr, Trap> {
        let mode = self.access_mode(access);
        let levels = match self.csr.paging() {
            Paging::Levels(levels) if mode.privilege != Privilege::Machine => levels,
            _ => return Ok(PhysAddr(addr.0)),
        };
        let leaf = self.find_leaf(machine, addr, levels, access, reads)?;
        if leaf.is_misaligned() || !grants(leaf.entry, mode, access) {
            return Err(access.page_fault(addr.0));
        }
        let needed = ACCESSED | if access == Access::Store { DIRTY } else { 0 };
        if leaf.entry & needed != needed {
            if !self.csr.updates_accessed_dirty() {
                return Err(access.page_fault(addr.0));
            }
            self.set_bits(machine, &leaf, needed)
                .ok_or(access.access_fault(addr.0))?;
        }
        Ok(leaf.physical(addr))
    }

    /// Physical address behind `addr` as supervisor mode maps it now, for looking at a guest from
    /// outside: nothing is checked and nothing changes. `None` where nothing is mapped.
    #[must_use]
    pub fn peek(&self, machine: &Machine, addr: VirtAddr) -> Option<PhysAddr> {
        match self.csr.privilege {
            Privilege::Machine => Some(PhysAddr(addr.0)),
            _ => self.peek_mapped(machine, addr),
        }
    }

    /// As [`Hart::peek`], whatever the present mode.
    pub(crate) fn peek_mapped(&self, machine: &Machine, addr: VirtAddr) -> Option<PhysAddr> {
        let Paging::Levels(levels) = self.csr.paging() else {
            return Some(PhysAddr(addr.0));
        };
        let leaf = self.find_leaf(machine, addr, levels, Access::Load, |_| {});
        Some(leaf.ok()?.physical(addr))
    }

    /// The leaf entry for `addr`, whatever it grants.
    fn find_leaf(
        &self,
        machine: &Machine,
        addr: VirtAddr,
        levels: u32,
        access: Access,
        mut reads: impl FnMut(PhysAddr),
    ) -> Result<Leaf, Trap> {
        let fault = access.page_fault(addr.0);
        let unused = 64 - (PAGE_LOG2 + levels * INDEX_BITS);
        if (addr.0 << unused) as i64 >> unused != addr.0 as i64 {
            return Err(fault);
        }
        let mut table = (self.csr.satp() & PPN_MASK) << PAGE_LOG2;
        for level in (0..levels).rev() {
            let shift = PAGE_LOG2 + level * INDEX_BITS;
            let index = addr.0 >> shift & ((1 << INDEX_BITS) - 1);
            let at = PhysAddr(table + 8 * index);
            let readable = self
                .csr
                .protection(at.0, 8, Privilege::Supervisor, Access::Load);
            let entry = match machine.ram.read(at, Width::D) {
                Some(entry) if readable.allowed => entry,
                _ => return Err(access.access_fault(addr.0)),
            };
            reads(at);
            if entry & VALID == 0 || entry & (READ | WRITE) == WRITE || entry & RESERVED != 0 {
                return Err(fault);
            }
            if entry & (READ | EXECUTE) != 0 {
                return Ok(Leaf { at, entry, shift });
            }
            if entry & (USER | ACCESSED | DIRTY) != 0 {
                return Err(fault);
            }
            table = (entry >> PPN_SHIFT & PPN_MASK) << PAGE_LOG2;
        }
        Err(fault)
    }

    /// Sets bits of an entry; `None` when the hart may not write there.
    fn set_bits(&self, machine: &mut Machine, leaf: &Leaf, bits: u64) -> Option<()> {
        self.csr
            .protection(leaf.at.0, 8, Privilege::Supervisor, Access::Store)
            .allowed
            .then(|| machine.extend_table_entry(self.id, leaf.at, leaf.entry | bits))?
            .ok()
    }
}

/// The entry of a page table that ends a walk.
struct Leaf {
    at: PhysAddr,
    entry: u64,
    /// log2 of the bytes of the page.
    shift: u32,
}

impl Leaf {
    fn base(&self) -> u64 {
        (self.entry >> PPN_SHIFT & PPN_MASK) << PAGE_LOG2
    }

    fn is_misaligned(&self) -> bool {
        self.base() & self.offset_mask() != 0
    }

    fn physical(&self, addr: VirtAddr) -> PhysAddr {
        PhysAddr(self.base() | addr.0 & self.offset_mask())
    }

    fn offset_mask(&self) -> u64 {
        (1 << self.shift) - 1
    }
}

/// Whether a leaf entry grants the access.
fn grants(entry: u64, mode: AccessMode, access: Access) -> bool {
    let is_user = entry & USER != 0;
    let reachable = match mode.privilege {
        Privilege::User => is_user,
        _ => !is_user || (mode.sum && access != Access::Fetch),
    };
    let bits = match access {
        Access::Fetch => EXECUTE,
        Access::Load if mode.mxr => READ | EXECUTE,
        Access::Load => READ,
        Access::Store => WRITE,
    };
    reachable && entry & bits != 0
}

#[cfg(test)]
#[path = "translate_tests.rs"]
mod tests;
