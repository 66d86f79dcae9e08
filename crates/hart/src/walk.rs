//! A walk of the page tables, entry by entry (privileged manual, "Virtual Address Translation Process").
//!
//! Where a guest accesses, addresses of its memory are translated once more ("Two-Stage Address Translation"): those of the entries of
//! its tables, and that of what it accesses. A walk then reads the entries of both kinds of table in the order in which that asks
//! for them.

use loiter_machine::Machine;
use loiter_types::{AddressSpace, PhysAddr, VirtAddr};
use serde::{Deserialize, Serialize};

use crate::csr::{AccessMode, Paging, Privilege};
use crate::hart::Hart;
use crate::tables::{
    DIRTY, GUEST_BITS, INDEX_BITS, Leaf, Level, WRITE, grants, peek_by, peek_in, read_entry,
};
use crate::translate::{Access, PAGE_LOG2};
use crate::trap::{Cause, GuestAccess, Trap};

/// The lowest bit of a guest's number in `hgatp`.
const VMID_SHIFT: u32 = 44;
/// A page of all that there is.
const WHOLE_MEMORY_LOG2: u32 = 63;
/// `htinst` of a read of 64 bits from a guest's page table (privileged manual, "Transformed Instruction or Pseudoinstruction").
const READS_TABLE: u64 = 0x3000;
/// The same of a write.
const WRITES_TABLE: u64 = 0x3020;

/// A walk in progress: which entry it reads next.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct PageWalk {
    addr: VirtAddr,
    access: Access,
    /// Where it stands in the tables of the address space.
    at: Level,
    global: bool,
    /// Of a guest.
    guest: Option<GuestWalk>,
}

/// What a walk of a guest knows beside.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct GuestWalk {
    /// Which address of its memory is being translated: that of an entry of its tables, or that of what it accesses once its own
    /// tables have granted that; and where it stands in the tables of its memory.
    translates: Option<(u64, Level)>,
    /// Where the entry of the guest's tables lies that is read next, when that is known.
    entry: Option<PhysAddr>,
    /// Its address in the guest's memory, and what maps that, if anything has to.
    entry_map: Option<(u64, Leaf)>,
    /// What its own tables have granted.
    page: Option<Page>,
    /// Entries that are to be marked.
    marks: Marks,
}

/// Entries of tables that an access sets bits in.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Marks {
    /// Where each lies, and what it becomes.
    entries: [Option<(PhysAddr, u64)>; MOST_MARKS],
}

/// A guest's entries of four levels and its page, each translated once more, and the last of its entries itself.
const MOST_MARKS: usize = 6;

impl Marks {
    fn add(&mut self, at: PhysAddr, entry: u64) {
        let known = |mark: &&mut Option<(PhysAddr, u64)>| mark.is_none_or(|(known, _)| known == at);
        let place = self.entries.iter_mut().find(known);
        let place = place.expect("as many places as entries");
        let before = place.map_or(0, |(_, before)| before);
        *place = Some((at, entry | before));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PhysAddr, u64)> {
        self.entries.iter().flatten().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries[0].is_none()
    }
}

/// What a walk has found in an entry.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub enum WalkStep {
    /// A further table.
    Table,
    /// The page, if the access is granted.
    Page(Page),
    /// Nothing, or a page that does not grant the access; this is what the access raises.
    Fault(Trap),
}

/// A page that grants an access.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Page {
    /// Its first address.
    base: u64,
    /// log2 of its bytes.
    pub size_log2: u32,
    /// It is mapped like this in all address spaces of the hart.
    pub global: bool,
    /// It may be written but is not marked as written yet; after the access of the walk.
    pub clean: bool,
    /// Entries that the access marks.
    pub(crate) marks: Marks,
}

impl Page {
    fn offset_mask(&self) -> u64 {
        (1 << self.size_log2) - 1
    }

    pub(crate) fn physical(&self, addr: VirtAddr) -> PhysAddr {
        PhysAddr(self.base & !self.offset_mask() | addr.0 & self.offset_mask())
    }
}

impl Hart {
    /// The address space in which an access is translated now.
    #[must_use]
    pub fn address_space(&self, access: Access) -> AddressSpace {
        self.space_of(self.access_mode(access))
    }

    /// The address space of accesses in this mode.
    pub(crate) fn space_of(&self, mode: AccessMode) -> AddressSpace {
        let csr = &self.csr;
        let tables = |register| match Paging::of(register) {
            Paging::Levels(_) => register,
            Paging::Bare => 0,
        };
        if mode.guest {
            let tables = tables(csr.vsatp());
            let bare = tables == 0 && Paging::of(csr.hgatp()) == Paging::Bare;
            return match bare {
                true => AddressSpace::PHYSICAL,
                false => AddressSpace {
                    tables,
                    guest: AddressSpace::guest_of(csr.hgatp()),
                },
            };
        }
        match mode.privilege {
            Privilege::Machine => AddressSpace::PHYSICAL,
            _ => match tables(csr.satp()) {
                0 => AddressSpace::PHYSICAL,
                tables => AddressSpace {
                    tables,
                    guest: self.of_host(),
                },
            },
        }
    }

    /// What tells the translations of a virtual CPU from those of other guests: its host has numbered them.
    fn of_host(&self) -> u64 {
        let guest = self.partition.guest();
        guest.map_or(0, |number| {
            AddressSpace::guest_of(u64::from(number) << VMID_SHIFT)
        })
    }

    /// A walk for `addr`, which is translated.
    ///
    /// # Errors
    /// The exception that the access raises because no table can hold the address.
    pub fn begin_walk(&self, addr: VirtAddr, access: Access) -> Result<PageWalk, Trap> {
        self.begin_walk_of(addr, access, self.access_mode(access).guest)
    }

    fn begin_walk_of(&self, addr: VirtAddr, access: Access, guest: bool) -> Result<PageWalk, Trap> {
        let register = match guest {
            true => self.csr.vsatp(),
            false => self.csr.satp(),
        };
        let mut walk = PageWalk {
            addr,
            access,
            at: Level::outermost(register, 1, INDEX_BITS),
            global: false,
            guest: guest.then_some(GuestWalk {
                translates: None,
                entry: None,
                entry_map: None,
                page: None,
                marks: Marks::default(),
            }),
        };
        match Paging::of(register) {
            Paging::Levels(levels) => {
                let unused = 64 - (PAGE_LOG2 + levels * INDEX_BITS);
                if (addr.0 << unused) as i64 >> unused != addr.0 as i64 {
                    return Err(access.page_fault(addr.0));
                }
                walk.at = Level::outermost(register, levels, INDEX_BITS);
                self.finds_guest_entry(&mut walk)?;
            }
            Paging::Bare => {
                debug_assert!(guest, "a walk where addresses are physical");
                let page = Page {
                    base: addr.0,
                    size_log2: WHOLE_MEMORY_LOG2,
                    global: false,
                    clean: false,
                    marks: Marks::default(),
                };
                self.finds_guest_page(&mut walk, page)?;
            }
        }
        Ok(walk)
    }

    /// A walk of a guest goes for its next own entry: where that lies has to be translated first.
    fn finds_guest_entry(&self, walk: &mut PageWalk) -> Result<(), Trap> {
        let at = walk.at.entry(walk.addr.0);
        let Some(guest) = &mut walk.guest else {
            return Ok(());
        };
        match self.guest_memory(at) {
            Ok(None) => (guest.entry, guest.entry_map) = (Some(PhysAddr(at)), None),
            Ok(Some(level)) => guest.translates = Some((at, level)),
            Err(()) => return Err(guest_fault(walk, at, READS_TABLE)),
        }
        Ok(())
    }

    /// The own tables of a guest have granted the access: where that leads has to be translated. Returns the page if it has not.
    fn finds_guest_page(&self, walk: &mut PageWalk, page: Page) -> Result<Option<Page>, Trap> {
        let addr = page.physical(walk.addr).0;
        let Some(guest) = &mut walk.guest else {
            return Ok(Some(page));
        };
        guest.page = Some(page);
        match self.guest_memory(addr) {
            Ok(None) => {
                let marks = guest.marks;
                Ok(Some(Page { marks, ..page }))
            }
            Ok(Some(level)) => {
                guest.translates = Some((addr, level));
                Ok(None)
            }
            Err(()) => Err(guest_fault(walk, addr, 0)),
        }
    }

    /// The outermost table of the memory of the guest, if that is translated; an error if no table can hold `addr`.
    fn guest_memory(&self, addr: u64) -> Result<Option<Level>, ()> {
        let register = self.csr.hgatp();
        let Paging::Levels(levels) = Paging::of(register) else {
            return Ok(None);
        };
        let index_bits = INDEX_BITS + GUEST_BITS;
        if addr >> (PAGE_LOG2 + levels * INDEX_BITS + GUEST_BITS) != 0 {
            return Err(());
        }
        Ok(Some(Level::outermost(register, levels, index_bits)))
    }

    /// Where in the machine the entry lies that `walk` reads next.
    ///
    /// # Errors
    /// The exception that the access raises because the hart may not read there.
    pub fn next_entry(&self, machine: &Machine, walk: &PageWalk) -> Result<PhysAddr, Trap> {
        let at = self.entry_of(machine, walk)?;
        Ok(self.partition.place(at))
    }

    /// The same as the hart addresses it.
    fn entry_of(&self, machine: &Machine, walk: &PageWalk) -> Result<PhysAddr, Trap> {
        let at = match &walk.guest {
            Some(GuestWalk {
                translates: Some((addr, level)),
                ..
            }) => PhysAddr(level.entry(*addr)),
            Some(GuestWalk {
                entry: Some(entry), ..
            }) => *entry,
            Some(_) | None => PhysAddr(walk.at.entry(walk.addr.0)),
        };
        let readable = self
            .csr
            .protection(at.0, 8, Privilege::Supervisor, Access::Load);
        if readable.allowed && machine.is_ram(self.partition.place(at), 8) {
            Ok(at)
        } else {
            Err(walk.access.access_fault(walk.addr.0))
        }
    }

    /// Reads the next entry. Nothing changes but the walk.
    #[must_use]
    pub fn step_walk(&self, machine: &Machine, walk: &mut PageWalk) -> WalkStep {
        let translates = walk.guest.and_then(|guest| guest.translates);
        let step = match translates {
            Some((addr, level)) => self.step_in_guest_memory(machine, walk, addr, level),
            None => self.step_in_tables(machine, walk),
        };
        match step {
            Ok(None) => WalkStep::Table,
            Ok(Some(page)) => WalkStep::Page(page),
            Err(trap) => WalkStep::Fault(trap),
        }
    }

    fn step_in_tables(&self, machine: &Machine, walk: &mut PageWalk) -> Result<Option<Page>, Trap> {
        let at = self.entry_of(machine, walk)?;
        let fault = walk.access.page_fault(walk.addr.0);
        match read_entry(machine, self.partition, at, &mut walk.at, &mut walk.global)
            .ok_or(fault)?
        {
            None => {
                self.finds_guest_entry(walk)?;
                Ok(None)
            }
            Some(leaf) => {
                let page = self.judge(leaf, walk)?;
                self.finds_guest_page(walk, page)
            }
        }
    }

    /// Whether a page grants the access of the walk.
    fn judge(&self, leaf: Leaf, walk: &mut PageWalk) -> Result<Page, Trap> {
        let stores = walk.access == Access::Store;
        let sets = leaf.sets(stores);
        let granted = grants(leaf.entry, self.access_mode(walk.access), walk.access);
        let updates = match walk.guest {
            Some(_) => self.csr.updates_accessed_dirty_of_guest(),
            None => self.csr.updates_accessed_dirty(),
        };
        if !leaf.is_aligned() || !granted || sets != 0 && !updates {
            return Err(walk.access.page_fault(walk.addr.0));
        }
        let mut page = Page {
            base: leaf.base(),
            size_log2: leaf.size_log2,
            global: walk.global,
            clean: leaf.entry & (WRITE | DIRTY) == WRITE && !stores,
            marks: Marks::default(),
        };
        if sets != 0 {
            self.marks_guest_entry(walk)?;
            let marks = match &mut walk.guest {
                Some(guest) => &mut guest.marks,
                None => &mut page.marks,
            };
            marks.add(leaf.at, leaf.entry | sets);
        }
        Ok(page)
    }

    /// An entry of a guest's own tables is to be written: its memory has to grant that.
    fn marks_guest_entry(&self, walk: &mut PageWalk) -> Result<(), Trap> {
        let Some((addr, leaf)) = walk.guest.and_then(|guest| guest.entry_map) else {
            return Ok(());
        };
        let sets = leaf.sets(true);
        let updates = sets == 0 || self.csr.updates_accessed_dirty();
        if leaf.entry & WRITE == 0 || !updates {
            return Err(guest_fault(walk, addr, WRITES_TABLE));
        }
        if sets != 0
            && let Some(guest) = &mut walk.guest
        {
            guest.marks.add(leaf.at, leaf.entry | sets);
        }
        Ok(())
    }

    /// A step in the tables of a guest's memory, for `addr` of it.
    fn step_in_guest_memory(
        &self,
        machine: &Machine,
        walk: &mut PageWalk,
        addr: u64,
        mut level: Level,
    ) -> Result<Option<Page>, Trap> {
        let at = self.entry_of(machine, walk)?;
        let found = read_entry(machine, self.partition, at, &mut level, &mut false);
        let instruction = match walk.guest.is_some_and(|guest| guest.page.is_none()) {
            true => READS_TABLE,
            false => 0,
        };
        let fault = guest_fault(walk, addr, instruction);
        let Some(leaf) = found.ok_or(fault)? else {
            if let Some(guest) = &mut walk.guest {
                guest.translates = Some((addr, level));
            }
            return Ok(None);
        };
        let mode = self.access_mode(walk.access);
        let guest = walk.guest.as_mut().expect("it is a guest's");
        let access = match guest.page {
            Some(_) => walk.access,
            None => Access::Load,
        };
        let as_user = AccessMode {
            privilege: Privilege::User,
            mxr: mode.guest_mxr,
            of_code: mode.of_code && guest.page.is_some(),
            ..mode
        };
        let sets = leaf.sets(access == Access::Store);
        let updates = sets == 0 || self.csr.updates_accessed_dirty();
        if !leaf.is_aligned() || !grants(leaf.entry, as_user, access) || !updates {
            return Err(fault);
        }
        if sets != 0 {
            guest.marks.add(leaf.at, leaf.entry | sets);
        }
        guest.translates = None;
        let physical = leaf.physical(addr);
        let Some(page) = guest.page else {
            guest.entry = Some(PhysAddr(physical));
            guest.entry_map = Some((addr, leaf));
            return Ok(None);
        };
        let clean = leaf.entry & (WRITE | DIRTY) == WRITE && access != Access::Store;
        Ok(Some(Page {
            base: physical,
            size_log2: page.size_log2.min(leaf.size_log2),
            clean: page.clean | clean,
            marks: guest.marks,
            ..page
        }))
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
            Privilege::Machine => Some(self.partition.place(PhysAddr(addr.0))),
            _ => self.peek_mapped(machine, addr),
        }
    }

    /// As [`Hart::peek`], whatever the present mode.
    pub(crate) fn peek_mapped(&self, machine: &Machine, addr: VirtAddr) -> Option<PhysAddr> {
        let place = |addr| self.partition.place(PhysAddr(addr));
        let look =
            |register, more_bits, addr| peek_in(machine, self.partition, register, more_bits, addr);
        if !self.csr.in_guest() {
            return look(self.csr.satp(), 0, addr.0).map(place);
        }
        let hgatp = self.csr.hgatp();
        let own = |table: u64| look(hgatp, GUEST_BITS, table);
        let vsatp = self.csr.vsatp();
        let addr = peek_by(machine, self.partition, vsatp, 0, addr.0, own)?;
        look(hgatp, GUEST_BITS, addr).map(place)
    }
}

/// The memory of a guest does not grant what `walk` needs at `addr` of it; `instruction` as in [`GuestAccess`].
fn guest_fault(walk: &PageWalk, addr: u64, instruction: u64) -> Trap {
    let cause = match walk.access {
        Access::Fetch => Cause::FetchGuestPage,
        Access::Load => Cause::LoadGuestPage,
        Access::Store => Cause::StoreGuestPage,
    };
    Trap::Guest(GuestAccess {
        cause,
        addr: walk.addr.0,
        guest_addr: addr,
        instruction,
    })
}
