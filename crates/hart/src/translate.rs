//! Address translation and protection (privileged manual, "Sv39" and "Sv48", and PMP).

use loiter_machine::{Machine, News};
use loiter_types::{AddressSpace, PAGE_BYTES, PhysAddr, VirtAddr};

use crate::csr::{AccessMode, Privilege, Verdict};
use crate::hart::Hart;
use crate::trap::{Cause, Trap};
use crate::walk::Page;

/// log2 of the bytes of a page.
pub(crate) const PAGE_LOG2: u32 = PAGE_BYTES.trailing_zeros();
/// Most levels of tables.
const MAX_LEVELS: usize = 4;

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
            None => self.walk_without_marks(machine, addr, bytes, access),
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
        let sets = found.page.filter(|page| page.sets != 0);
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
        let mut tables = [None; MAX_LEVELS];
        let mut places = tables.iter_mut();
        let found = self.find(machine, addr, bytes, access, |entry| {
            *places.next().expect("as many as levels") = Some(entry);
        })?;
        let fault = access.access_fault(addr.0);
        if let Some(page) = found.page
            && page.sets != 0
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
            physical,
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
        let verdict = self
            .csr
            .protection(page.at.0, 8, Privilege::Supervisor, Access::Store);
        verdict.allowed
    }

    /// Marks a page as accessed or written; `None` when the hart may not write to its entry.
    fn mark(&self, machine: &mut Machine, page: &Page) -> Option<()> {
        self.may_mark(page)
            .then(|| machine.extend_table_entry(self.id, page.at, page.entry | page.sets))?
            .ok()
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
