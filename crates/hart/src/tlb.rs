//! Remembered translations: a direct-mapped table for data and one for fetches.
//!
//! It never shows. Whatever a translation was made from makes it be forgotten: a store to a page
//! table ([`News::tables`]), physical memory protection, an address space that gives up its
//! number. What an entry says holds for one mode and address space, which are part of its tag. So
//! `sfence.vma` has nothing to do. A page is remembered as one to store to only while it has no marks:
//! a store that finds it here is nothing but a store.

use loiter_isa::Width;
use loiter_machine::{News, Pages};
use loiter_types::{AddressSpace, HartId, PAGE_BYTES, PhysAddr, VirtAddr};

use crate::csr::{AccessMode, Privilege};
use crate::translate::{Access, PAGE_LOG2};

const DATA_ENTRIES: usize = 512;
const FETCH_ENTRIES: usize = 256;
/// Address spaces that are told apart; a further one takes the number of another.
const SPACES: usize = 16;

const PAGE_MASK: u64 = PAGE_BYTES - 1;

/// No tag: the key of a tag never has all its bits set.
const NONE: u64 = u64::MAX;

/// A tag is the address of a page with, in the bits below it, the key of who may access it. The three
/// lowest bits of a key are zero, so that a misaligned address never equals a tag.
mod key {
    pub(super) const PRIVILEGE_SHIFT: u32 = 3;
    pub(super) const SUM: u64 = 1 << 5;
    pub(super) const MXR: u64 = 1 << 6;
    pub(super) const SPACE_SHIFT: u32 = 7;
    pub(super) const GUEST_MXR: u64 = 1 << 11;
    /// Nothing is remembered, nor found.
    pub(super) const NOTHING: u64 = 1;
}

#[derive(Clone, Copy, Debug)]
struct DataEntry {
    load: u64,
    store: u64,
    /// Physical minus virtual address.
    delta: u64,
}

#[derive(Clone, Copy, Debug)]
struct FetchEntry {
    tag: u64,
    delta: u64,
}

/// The remembered translations of one hart.
#[derive(Clone)]
pub(crate) struct Tlb {
    hart: HartId,
    data_key: u64,
    fetch_key: u64,
    data: [DataEntry; DATA_ENTRIES],
    fetch: [FetchEntry; FETCH_ENTRIES],
    /// The numbered address spaces; number 0 is translation switched off.
    spaces: [AddressSpace; SPACES],
    next_space: usize,
    /// What it has heard of.
    news: News,
}

impl Tlb {
    pub(crate) fn new(hart: HartId) -> Self {
        let data = DataEntry {
            load: NONE,
            store: NONE,
            delta: 0,
        };
        let fetch = FetchEntry {
            tag: NONE,
            delta: 0,
        };
        Self {
            hart,
            data_key: 0,
            fetch_key: 0,
            data: [data; DATA_ENTRIES],
            fetch: [fetch; FETCH_ENTRIES],
            spaces: [AddressSpace::PHYSICAL; SPACES],
            next_space: 0,
            news: News::default(),
        }
    }

    /// Forgets all.
    pub(crate) fn flush(&mut self) {
        for entry in &mut self.data {
            entry.load = NONE;
            entry.store = NONE;
        }
        for entry in &mut self.fetch {
            entry.tag = NONE;
        }
    }

    /// Accesses are made in these modes and address spaces from now on.
    pub(crate) fn enter(
        &mut self,
        fetch: (AccessMode, AddressSpace),
        data: (AccessMode, AddressSpace),
    ) {
        let fetches = self.number_of(fetch.1, 0);
        let accesses = match data.1 == fetch.1 {
            true => fetches,
            false => self.number_of(data.1, fetches),
        };
        self.fetch_key = key_of(fetch.0, fetches);
        self.data_key = key_of(data.0, accesses);
    }

    /// The number of `space`, which takes another's place if it has none, but not that of number `taken`.
    fn number_of(&mut self, space: AddressSpace, taken: usize) -> usize {
        if let Some(number) = self.spaces.iter().position(|&known| known == space) {
            return number;
        }
        for _ in 0..2 {
            self.next_space = self.next_space % (SPACES - 1) + 1;
            if self.next_space != taken {
                break;
            }
        }
        let before = std::mem::replace(&mut self.spaces[self.next_space], space);
        if before != AddressSpace::PHYSICAL {
            self.flush();
        }
        self.next_space
    }

    /// Forgets what no longer holds.
    #[inline(always)]
    pub(crate) fn sync(&mut self, pages: &Pages) {
        let news = pages.news(self.hart);
        if self.news != news {
            self.learn(news, pages);
        }
    }

    /// Whether a page table has been written since it was last in step.
    pub(crate) fn is_stale(&self, pages: &Pages) -> bool {
        self.news.tables != pages.news(self.hart).tables
    }

    /// What it has heard of.
    pub(crate) fn heard(&self) -> News {
        self.news
    }

    #[cold]
    fn learn(&mut self, news: News, pages: &Pages) {
        if self.news.tables != news.tables {
            self.flush();
        } else {
            self.forget_marked(pages);
        }
        self.news = news;
    }

    fn forget_marked(&mut self, pages: &Pages) {
        for entry in &mut self.data {
            let page = PhysAddr((entry.store & !PAGE_MASK).wrapping_add(entry.delta));
            // A page that is plain once more has been marked in between: nobody would tell of its next mark.
            if entry.store != NONE && !pages.is_plain_of(self.hart, page) {
                entry.store = NONE;
            }
        }
    }

    /// Physical address of a load that is remembered and does not leave its page.
    #[inline(always)]
    pub(crate) fn load(&self, addr: u64, width: Width) -> Option<PhysAddr> {
        let entry = &self.data[data_index(addr)];
        self.matches(entry.load, addr, width)
            .then(|| PhysAddr(addr.wrapping_add(entry.delta)))
    }

    /// As [`Tlb::load`], of a store, to a page without marks.
    #[inline(always)]
    pub(crate) fn store(&self, addr: u64, width: Width) -> Option<PhysAddr> {
        let entry = &self.data[data_index(addr)];
        self.matches(entry.store, addr, width)
            .then(|| PhysAddr(addr.wrapping_add(entry.delta)))
    }

    /// Whether `tag` is that of the page of an access. One comparison for one that is aligned.
    #[inline(always)]
    fn matches(&self, tag: u64, addr: u64, width: Width) -> bool {
        let aligned = addr & (!PAGE_MASK | (width.bytes() - 1));
        tag == aligned | self.data_key || self.matches_misaligned(tag, addr, width)
    }

    #[cold]
    #[inline(never)]
    fn matches_misaligned(&self, tag: u64, addr: u64, width: Width) -> bool {
        tag == (addr & !PAGE_MASK) | self.data_key && !VirtAddr(addr).leaves_page(width.bytes())
    }

    /// Physical address of an instruction that is remembered.
    #[inline(always)]
    pub(crate) fn fetch(&self, addr: u64) -> Option<PhysAddr> {
        let entry = &self.fetch[fetch_index(addr)];
        (entry.tag == (addr & !PAGE_MASK) | self.fetch_key)
            .then(|| PhysAddr(addr.wrapping_add(entry.delta)))
    }

    /// Physical address of an access that stays within its page.
    #[inline(always)]
    pub(crate) fn find(&self, addr: u64, access: Access) -> Option<PhysAddr> {
        match access {
            Access::Fetch => self.fetch(addr),
            Access::Load => self.load(addr, Width::B),
            Access::Store => self.store(addr, Width::B),
        }
    }

    /// Remembers a translation. One for stores is of a page that is plain, of whose marks the hart learns.
    pub(crate) fn remember(
        &mut self,
        addr: u64,
        physical: PhysAddr,
        access: Access,
        pages: &Pages,
    ) {
        if access != Access::Fetch && self.data_key & key::NOTHING != 0 {
            return;
        }
        let page = addr & !PAGE_MASK;
        let delta = physical.0.wrapping_sub(addr);
        if access == Access::Fetch {
            self.fetch[fetch_index(addr)] = FetchEntry {
                tag: page | self.fetch_key,
                delta,
            };
            return;
        }
        let tag = page | self.data_key;
        let entry = &mut self.data[data_index(addr)];
        if entry.delta != delta || (entry.load != tag && entry.store != tag) {
            (entry.load, entry.store) = (NONE, NONE);
        }
        entry.delta = delta;
        match access {
            Access::Store if !pages.is_plain_of(self.hart, physical) => {}
            Access::Store => entry.store = tag,
            _ => entry.load = tag,
        }
    }
}

fn key_of(mode: AccessMode, space: usize) -> u64 {
    let privilege = (mode.privilege as u64) << key::PRIVILEGE_SHIFT;
    if mode.of_code {
        return key::NOTHING;
    }
    if mode.privilege == Privilege::Machine {
        return privilege;
    }
    let bit = |set, bit| if set { bit } else { 0 };
    privilege
        | bit(mode.sum, key::SUM)
        | bit(mode.mxr, key::MXR)
        | bit(mode.guest_mxr, key::GUEST_MXR)
        | (space as u64) << key::SPACE_SHIFT
}

#[inline(always)]
fn data_index(addr: u64) -> usize {
    (addr >> PAGE_LOG2) as usize % DATA_ENTRIES
}

#[inline(always)]
fn fetch_index(addr: u64) -> usize {
    (addr >> PAGE_LOG2) as usize % FETCH_ENTRIES
}

impl std::fmt::Debug for Tlb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tlb")
    }
}
