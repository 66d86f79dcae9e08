//! A walk of the page tables, entry by entry (privileged manual, "Virtual Address Translation Process").

use loiter_isa::Width;
use loiter_machine::Machine;
use loiter_types::{AddressSpace, PhysAddr, VirtAddr};

use crate::csr::{AccessMode, Paging, Privilege};
use crate::hart::Hart;
use crate::translate::{Access, PAGE_LOG2};
use crate::trap::Trap;

/// log2 of the entries of a table.
const INDEX_BITS: u32 = 9;

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

/// A walk in progress: which entry it reads next.
#[derive(Clone, Copy, Debug)]
pub struct PageWalk {
    addr: VirtAddr,
    access: Access,
    table: u64,
    /// log2 of the bytes that an entry of the table maps.
    shift: u32,
    global: bool,
}

/// What a walk has found in an entry.
#[derive(Clone, Copy, Debug)]
pub enum WalkStep {
    /// A further table.
    Table,
    /// The page, if the access is granted.
    Page(Page),
    /// Nothing, or a page that does not grant the access; this is what the access raises.
    Fault(Trap),
}

/// A page that grants an access.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Where its entry lies.
    pub(crate) at: PhysAddr,
    /// Its entry.
    pub(crate) entry: u64,
    /// log2 of its bytes.
    pub size_log2: u32,
    /// It is mapped like this in all address spaces of the hart.
    pub global: bool,
    /// It may be written but is not marked as written yet; after the access of the walk.
    pub clean: bool,
    /// Bits that the access sets in the entry.
    pub(crate) sets: u64,
}

impl Page {
    fn base(&self) -> u64 {
        (self.entry >> PPN_SHIFT & PPN_MASK) << PAGE_LOG2
    }

    fn offset_mask(&self) -> u64 {
        (1 << self.size_log2) - 1
    }

    pub(crate) fn physical(&self, addr: VirtAddr) -> PhysAddr {
        PhysAddr(self.base() | addr.0 & self.offset_mask())
    }
}

impl Hart {
    /// The address space in which an access is translated now.
    #[must_use]
    pub fn address_space(&self, access: Access) -> AddressSpace {
        match self.csr.paging() {
            Paging::Levels(_) if self.access_mode(access).privilege != Privilege::Machine => {
                AddressSpace(self.csr.satp())
            }
            _ => AddressSpace::PHYSICAL,
        }
    }

    /// A walk for `addr`, which is translated.
    ///
    /// # Errors
    /// The exception that the access raises because no table can hold the address.
    pub fn begin_walk(&self, addr: VirtAddr, access: Access) -> Result<PageWalk, Trap> {
        let Paging::Levels(levels) = self.csr.paging() else {
            unreachable!("a walk where addresses are physical");
        };
        let unused = 64 - (PAGE_LOG2 + levels * INDEX_BITS);
        if (addr.0 << unused) as i64 >> unused != addr.0 as i64 {
            return Err(access.page_fault(addr.0));
        }
        Ok(PageWalk {
            addr,
            access,
            table: (self.csr.satp() & PPN_MASK) << PAGE_LOG2,
            shift: PAGE_LOG2 + (levels - 1) * INDEX_BITS,
            global: false,
        })
    }

    /// Where the entry lies that `walk` reads next.
    ///
    /// # Errors
    /// The exception that the access raises because the hart may not read there.
    pub fn next_entry(&self, machine: &Machine, walk: &PageWalk) -> Result<PhysAddr, Trap> {
        let index = walk.addr.0 >> walk.shift & ((1 << INDEX_BITS) - 1);
        let at = PhysAddr(walk.table + 8 * index);
        let readable = self
            .csr
            .protection(at.0, 8, Privilege::Supervisor, Access::Load);
        if readable.allowed && machine.is_ram(at, 8) {
            Ok(at)
        } else {
            Err(walk.access.access_fault(walk.addr.0))
        }
    }

    /// Reads the next entry. Nothing changes but the walk.
    #[must_use]
    pub fn step_walk(&self, machine: &Machine, walk: &mut PageWalk) -> WalkStep {
        match self.read_entry(machine, walk) {
            Ok(None) => WalkStep::Table,
            Ok(Some(leaf)) => self.judge(leaf, walk),
            Err(trap) => WalkStep::Fault(trap),
        }
    }

    /// The page of the next entry, whatever it grants; `None` when there is a further table.
    fn read_entry(&self, machine: &Machine, walk: &mut PageWalk) -> Result<Option<Page>, Trap> {
        let at = self.next_entry(machine, walk)?;
        let Some(entry) = machine.ram.read(at, Width::D) else {
            unreachable!("next_entry returns addresses of RAM");
        };
        let fault = walk.access.page_fault(walk.addr.0);
        if entry & VALID == 0 || entry & (READ | WRITE) == WRITE || entry & RESERVED != 0 {
            return Err(fault);
        }
        walk.global |= entry & GLOBAL != 0;
        if entry & (READ | EXECUTE) != 0 {
            return Ok(Some(Page {
                at,
                entry,
                size_log2: walk.shift,
                global: walk.global,
                clean: entry & (WRITE | DIRTY) == WRITE,
                sets: 0,
            }));
        }
        if entry & (USER | ACCESSED | DIRTY) != 0 || walk.shift == PAGE_LOG2 {
            return Err(fault);
        }
        walk.table = (entry >> PPN_SHIFT & PPN_MASK) << PAGE_LOG2;
        walk.shift -= INDEX_BITS;
        Ok(None)
    }

    /// Whether a page grants the access of the walk.
    fn judge(&self, mut page: Page, walk: &PageWalk) -> WalkStep {
        let stores = walk.access == Access::Store;
        page.sets = (ACCESSED | if stores { DIRTY } else { 0 }) & !page.entry;
        page.clean &= !stores;
        let aligned = page.base() & page.offset_mask() == 0;
        let granted = grants(page.entry, self.access_mode(walk.access), walk.access);
        let marked = page.sets == 0 || self.csr.updates_accessed_dirty();
        if aligned && granted && marked {
            WalkStep::Page(page)
        } else {
            WalkStep::Fault(walk.access.page_fault(walk.addr.0))
        }
    }

    /// Walks for `addr`, which is translated, as the hardware would now, and tells `reads` the address
    /// of each entry that it reads, outermost first. Nothing changes. What protection says of the
    /// address found is not asked.
    ///
    /// # Errors
    /// The exception that the access raises.
    pub(crate) fn walk(
        &self,
        machine: &Machine,
        addr: VirtAddr,
        access: Access,
        mut reads: impl FnMut(PhysAddr),
    ) -> Result<Page, Trap> {
        let mut walk = self.begin_walk(addr, access)?;
        loop {
            reads(self.next_entry(machine, &walk)?);
            match self.step_walk(machine, &mut walk) {
                WalkStep::Table => {}
                WalkStep::Page(page) => return Ok(page),
                WalkStep::Fault(trap) => return Err(trap),
            }
        }
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
        if self.csr.paging() == Paging::Bare {
            return Some(PhysAddr(addr.0));
        }
        let mut walk = self.begin_walk(addr, Access::Load).ok()?;
        loop {
            if let Some(page) = self.read_entry(machine, &mut walk).ok()? {
                return Some(page.physical(addr));
            }
        }
    }
}

/// Whether a leaf entry grants the access.
fn grants(entry: u64, mode: AccessMode, access: Access) -> bool {
    let is_user = entry & USER != 0;
    let reachable = match mode.privilege {
        Privilege::User => is_user,
        // A fetch has no such right.
        _ => !is_user || mode.sum,
    };
    let bits = match access {
        Access::Fetch => EXECUTE,
        Access::Load if mode.mxr => READ | EXECUTE,
        Access::Load => READ,
        Access::Store => WRITE,
    };
    reachable && entry & bits != 0
}
