//! Address translation and protection (privileged manual, "Sv39" and "Sv48", and PMP).

use loiter_machine::{Machine, News};
use loiter_types::{AddressSpace, PAGE_BYTES, PhysAddr, VirtAddr};
use serde::{Deserialize, Serialize};

use crate::csr::{AccessMode, Privilege, Verdict};
use crate::hart::Hart;
use crate::trap::{Cause, Trap};
use crate::walk::Page;

/// log2 of the bytes of a page.
pub(crate) const PAGE_LOG2: u32 = PAGE_BYTES.trailing_zeros();
/// Most entries that a walk reads: four levels, each found by four of a guest's memory, and its page by four more.
const MOST_ENTRIES: usize = 4 * (1 + 4) + 4;

/// What an address is translated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
            None => {
                let found = self.walk_and_remember(machine, addr, bytes, access);
                found.map_err(|trap| self.seen_from_outside(trap, access))
            }
        }
    }

    /// Whether all of the page of `addr`, an instruction that was translated just now, may be fetched as it is mapped, until
    /// the mode of the hart or [`loiter_machine::Pages::generation`] is another one.
    #[must_use]
    pub fn remembers_page(&self, addr: VirtAddr) -> bool {
        self.tlb.fetch(addr.0).is_some()
    }

    /// Whether page tables have been written by which the hart has translated since it last did so.
    #[must_use]
    pub fn translates_anew(&self, machine: &Machine) -> bool {
        self.tlb.is_stale(&machine.pages)
    }

    /// What has become stale of its translations, as far as it has heard.
    #[must_use]
    pub fn heard_news(&self) -> News {
        self.tlb.heard()
    }

    /// Physical address as [`Hart::translate`] would return it now. Nothing changes in the guest, in
    /// particular no page is marked as accessed or written.
    ///
    /// # Errors
    /// The exception that the access would raise.
    #[inline(always)]
    pub fn locate(
        &mut self,
        machine: &Machine,
        addr: VirtAddr,
        bytes: u64,
        access: Access,
    ) -> Result<PhysAddr, Trap> {
        debug_assert!(!addr.leaves_page(bytes));
        self.tlb.sync(&machine.pages);
        match self.tlb.find(addr.0, access) {
            Some(found) => Ok(found),
            None => {
                let found = self.walk_without_marks(machine, addr, bytes, access);
                found.map_err(|trap| self.seen_from_outside(trap, access))
            }
        }
    }

    /// Physical address of an access that the hart has just made, and the page that it lies in if it is
    /// translated and `wants_page`; `None` if its mode has changed since, so that it may not.
    #[must_use]
    pub fn whereabouts(
        &self,
        machine: &Machine,
        addr: VirtAddr,
        access: Access,
        wants_page: bool,
    ) -> Option<(PhysAddr, Option<Page>)> {
        match self.tlb.find(addr.0, access) {
            Some(found) if !wants_page => Some((found, None)),
            _ => {
                let found = self.find(machine, addr, 1, access, |_| {}).ok()?;
                Some((found.physical, found.page))
            }
        }
    }

    /// What an access raises: one that is made as a guest makes it, from outside the guest, says so.
    fn seen_from_outside(&self, trap: Trap, access: Access) -> Trap {
        let from_outside = self.access_mode(access).guest && !self.csr.in_guest();
        if from_outside { trap.of_guest() } else { trap }
    }

    /// Remembers what it finds only where nothing has to be marked for that.
    #[cold]
    fn walk_without_marks(
        &mut self,
        machine: &Machine,
        addr: VirtAddr,
        bytes: u64,
        access: Access,
    ) -> Result<PhysAddr, Trap> {
        let mut known = true;
        let found = self.find(machine, addr, bytes, access, |entry| {
            known &= machine.pages.is_table_of(self.id, entry);
        })?;
        let sets = found.page.filter(|page| !page.marks.is_empty());
        let may_mark = sets.is_none_or(|page| self.may_mark(&page));
        if !found.verdict.allowed || !may_mark {
            return Err(access.access_fault(addr.0));
        }
        let physical = found.physical;
        if known && sets.is_none() && found.verdict.whole_page && machine.is_ram(physical, 1) {
            self.tlb.remember(addr.0, physical, access, &machine.pages);
        }
        Ok(physical)
    }

    #[cold]
    fn walk_and_remember(
        &mut self,
        machine: &mut Machine,
        addr: VirtAddr,
        bytes: u64,
        access: Access,
    ) -> Result<PhysAddr, Trap> {
        let mut tables = [None; MOST_ENTRIES];
        let mut places = tables.iter_mut();
        let found = self.find(machine, addr, bytes, access, |entry| {
            *places.next().expect("as many as a walk reads") = Some(entry);
        })?;
        let fault = access.access_fault(addr.0);
        if let Some(page) = found.page
            && !page.marks.is_empty()
        {
            self.mark(machine, &page).ok_or(fault)?;
        }
        if !found.verdict.allowed {
            return Err(fault);
        }
        for entry in tables.into_iter().flatten() {
            machine.pages.mark_table(self.id, entry);
        }
        self.tlb.sync(&machine.pages);
        let physical = found.physical;
        if found.verdict.whole_page && machine.is_ram(physical, 1) {
            if access == Access::Store && !machine.pages.is_marked(physical) {
                machine.pages.remember_plain(self.id, physical);
            }
            self.tlb.remember(addr.0, physical, access, &machine.pages);
        }
        Ok(physical)
    }

    /// Translates by the page tables, whatever is remembered. Nothing changes.
    #[cold]
    fn find(
        &self,
        machine: &Machine,
        addr: VirtAddr,
        bytes: u64,
        access: Access,
        reads: impl FnMut(PhysAddr),
    ) -> Result<Found, Trap> {
        let page = match self.address_space(access) {
            AddressSpace::PHYSICAL => None,
            _ => Some(self.walk(machine, addr, access, reads)?),
        };
        let physical = page.map_or(PhysAddr(addr.0), |page| page.physical(addr));
        let privilege = self.access_mode(access).privilege;
        Ok(Found {
            physical: self.partition.place(physical),
            page,
            verdict: self.csr.protection(physical.0, bytes, privilege, access),
        })
    }

    pub(crate) fn access_mode(&self, access: Access) -> AccessMode {
        match access {
            Access::Fetch => self.csr.fetch_mode(),
            Access::Load | Access::Store => self.csr.data_mode(),
        }
    }

    fn may_mark(&self, page: &Page) -> bool {
        let may = |at: PhysAddr| {
            let protection = self
                .csr
                .protection(at.0, 8, Privilege::Supervisor, Access::Store);
            protection.allowed
        };
        page.marks.iter().all(|(at, _)| may(at))
    }

    /// Marks a page as accessed or written; `None` when the hart may not write to its entries.
    fn mark(&self, machine: &mut Machine, page: &Page) -> Option<()> {
        if !self.may_mark(page) {
            return None;
        }
        for (at, entry) in page.marks.iter() {
            let at = self.partition.place(at);
            machine.extend_table_entry(self.id, at, entry).ok()?;
        }
        Some(())
    }
}

/// Where an address leads.
struct Found {
    physical: PhysAddr,
    /// What maps it, if it is translated.
    page: Option<Page>,
    /// What protection says of it.
    verdict: Verdict,
}

#[cfg(test)]
#[path = "translate_tests.rs"]
mod tests;
