//! Marks on pages of RAM whose bytes somebody has read ahead: decoded instructions, and page tables
//! from which translations were remembered.
//!
//! What was read ahead must never show. So a store to a marked page says what became stale: decoded
//! pages learn which bytes changed, and each hart that remembers a translation made from the page learns
//! by a number of its own that it has to forget. Stores to plain pages pay nothing where a hart remembers
//! that the page is plain; it learns by another number when that ends. Harts that remember nothing of a
//! page are not concerned by what becomes of it.

use loiter_isa::Width;
use loiter_types::{HartId, PhysAddr};

use crate::map::{PAGE_BYTES, RAM_BASE};
use crate::remembered::Remembered;

/// Instructions of this page are decoded.
const CODE: u8 = 1;
/// Translations depend on this page.
const TABLE: u8 = 2;
/// It was a page table before a store that is kept.
const KEPT: u8 = 4;

const PAGE_LOG2: u32 = PAGE_BYTES.trailing_zeros();

/// A run of bytes in one page that were written after they had been decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeWrite {
    /// First byte.
    pub addr: PhysAddr,
    /// Number of bytes.
    pub bytes: u64,
}

/// What has become stale of that which a hart remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Another number whenever a translation that it has read from RAM may be stale.
    pub tables: u64,
    /// Another number whenever a page that it remembers as plain has been marked.
    pub marks: u64,
}

/// A store to a page table, and what stood there before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableWrite {
    pub(crate) addr: PhysAddr,
    pub(crate) width: Width,
    /// The low `width` bytes: what RAM does not hold now, of before and after.
    pub(crate) other: u128,
}

/// The marks of all pages of RAM.
#[derive(Debug)]
pub struct Pages {
    marks: Vec<u8>,
    code_writes: Vec<CodeWrite>,
    /// Which harts remember something of a page: of a page table what it maps, of a plain page that it may be stored to.
    remembered: Remembered,
    news: Vec<News>,
    /// Stores of harts to page tables, while they are kept.
    table_writes: Vec<TableWrite>,
    keeps_table_writes: bool,
    generation: u64,
}

impl Pages {
    /// Plain pages, for `bytes` bytes of RAM and `harts` harts.
    pub(crate) fn new(bytes: u64, harts: usize) -> Self {
        let pages = (bytes >> PAGE_LOG2) as usize;
        Self {
            marks: vec![0; pages],
            code_writes: Vec::new(),
            remembered: Remembered::new(pages, harts),
            news: vec![News::default(); harts],
            table_writes: Vec::new(),
            keeps_table_writes: false,
            generation: 0,
        }
    }

    /// Marks the page of `addr`, which is RAM, as decoded.
    pub fn mark_code(&mut self, addr: PhysAddr) {
        self.mark(addr, CODE);
    }

    /// Marks the page of `addr`, which is RAM, as one that translations of `hart` depend on.
    pub fn mark_table(&mut self, hart: HartId, addr: PhysAddr) {
        self.mark(addr, TABLE);
        self.remembered.add(page(addr), hart);
    }

    /// From now on `hart` learns by [`News::marks`] when the page of `addr`, which is plain RAM, is marked.
    pub fn remember_plain(&mut self, hart: HartId, addr: PhysAddr) {
        debug_assert!(!self.is_marked(addr));
        self.remembered.add(page(addr), hart);
    }

    /// The page of `addr` is decoded no more.
    pub fn unmark_code(&mut self, addr: PhysAddr) {
        self.marks[page(addr)] &= !CODE;
    }

    /// Whether a store to the page of `addr`, which is RAM, is more than a store.
    #[inline(always)]
    #[must_use]
    pub fn is_marked(&self, addr: PhysAddr) -> bool {
        self.marks.get(page(addr)).is_some_and(|&marks| marks != 0)
    }

    /// Whether `hart` learns by [`News::tables`] of a store to the page of `addr`.
    #[must_use]
    pub fn is_table_of(&self, hart: HartId, addr: PhysAddr) -> bool {
        let marks = self.marks.get(page(addr));
        marks.is_some_and(|&marks| marks & TABLE != 0) && self.remembered.has(page(addr), hart)
    }

    /// Whether the page of `addr`, which is RAM, is plain and `hart` learns when that ends.
    #[must_use]
    pub fn is_plain_of(&self, hart: HartId, addr: PhysAddr) -> bool {
        !self.is_marked(addr) && self.remembered.has(page(addr), hart)
    }

    /// What has become stale for `hart`.
    #[inline(always)]
    #[must_use]
    pub fn news(&self, hart: HartId) -> News {
        self.news[hart.index()]
    }

    /// `hart` has heard of no more than `heard`, until this is called again with what it returns.
    pub fn hears(&mut self, hart: HartId, heard: News) -> News {
        // What was looked up in between counts no more.
        self.generation += 1;
        std::mem::replace(&mut self.news[hart.index()], heard)
    }

    /// From now on stores of harts to page tables are kept, or no more. None is kept yet.
    pub fn keep_table_writes(&mut self, keeps: bool) {
        self.keeps_table_writes = keeps;
        for write in self.table_writes.drain(..) {
            for at in [write.addr.0, write.addr.0 + write.width.bytes() - 1] {
                self.marks[page(PhysAddr(at))] &= !KEPT;
            }
        }
    }

    /// Whether harts have stored to page tables while that is kept.
    #[inline(always)]
    #[must_use]
    pub fn tables_written(&self) -> bool {
        !self.table_writes.is_empty()
    }

    /// The stores to page tables that are kept.
    pub(crate) fn table_writes(&mut self) -> &mut Vec<TableWrite> {
        &mut self.table_writes
    }

    /// Whether a store to `bytes` bytes at `addr` is to be kept.
    pub(crate) fn keeps_store(&self, addr: PhysAddr, bytes: u64) -> bool {
        let is_table = |at: u64| {
            let marks = self.marks.get(page(PhysAddr(at)));
            marks.is_some_and(|&marks| marks & (TABLE | KEPT) != 0)
        };
        self.keeps_table_writes && (is_table(addr.0) || is_table(addr.0 + bytes - 1))
    }

    /// Another number whenever a translation of any hart, or a decoded instruction, may be stale.
    #[inline(always)]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether [`Pages::take_code_writes`] has something to say.
    #[inline(always)]
    #[must_use]
    pub fn code_written(&self) -> bool {
        !self.code_writes.is_empty()
    }

    /// What was written to decoded pages since last asked.
    pub fn take_code_writes(&mut self) -> Vec<CodeWrite> {
        std::mem::take(&mut self.code_writes)
    }

    /// Bytes within one page were written such that every translation made from them still holds.
    pub(crate) fn extended(&mut self, addr: PhysAddr, bytes: u64) {
        if self.marks[page(addr)] & CODE != 0 {
            self.code_writes.push(CodeWrite { addr, bytes });
            self.generation += 1;
        }
    }

    /// Bytes of RAM were written.
    pub(crate) fn written(&mut self, addr: PhysAddr, bytes: u64) {
        let mut from = addr.0;
        let end = addr.0 + bytes;
        while from < end {
            let to = end.min((from | (PAGE_BYTES - 1)) + 1);
            // Not what a device writes.
            let is_kept = self.table_writes.iter().any(|write| write.addr == addr);
            let marks = &mut self.marks[page(PhysAddr(from))];
            if *marks & TABLE != 0 {
                *marks = *marks & !TABLE | if is_kept { KEPT } else { 0 };
                self.generation += 1;
                let news = &mut self.news;
                self.remembered
                    .forget(page(PhysAddr(from)), |hart| news[hart.index()].tables += 1);
            }
            self.extended(PhysAddr(from), to - from);
            from = to;
        }
    }

    fn mark(&mut self, addr: PhysAddr, mark: u8) {
        let marks = &mut self.marks[page(addr)];
        let plain = *marks == 0;
        *marks |= mark;
        if plain {
            let news = &mut self.news;
            self.remembered
                .forget(page(addr), |hart| news[hart.index()].marks += 1);
        }
    }
}

#[inline(always)]
fn page(addr: PhysAddr) -> usize {
    (addr.0.wrapping_sub(RAM_BASE) >> PAGE_LOG2) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than one word of bits.
    const HARTS: usize = 70;

    fn at(offset: u64) -> PhysAddr {
        PhysAddr(RAM_BASE + offset)
    }

    #[test]
    fn a_write_over_two_decoded_pages_is_told_page_by_page() {
        let mut pages = Pages::new(4 * PAGE_BYTES, HARTS);
        pages.mark_code(at(0));
        pages.mark_code(at(PAGE_BYTES));
        pages.written(at(PAGE_BYTES - 2), 4);
        let parts = pages.take_code_writes();
        let expected = [PAGE_BYTES - 2, PAGE_BYTES].map(|offset| CodeWrite {
            addr: at(offset),
            bytes: 2,
        });
        assert_eq!(parts, expected);
        assert!(!pages.code_written());
        pages.unmark_code(at(0));
        pages.written(at(0), 8);
        assert!(!pages.code_written() && pages.is_marked(at(PAGE_BYTES)));
    }

    #[test]
    fn a_table_that_was_written_is_plain_again() {
        let mut pages = Pages::new(4 * PAGE_BYTES, HARTS);
        pages.mark_table(HartId(1), at(2 * PAGE_BYTES));
        assert!(pages.is_table_of(HartId(1), at(2 * PAGE_BYTES + 8)));
        assert!(pages.is_marked(at(2 * PAGE_BYTES + 8)) && !pages.is_marked(at(0)));
        let before = pages.news(HartId(1));
        pages.written(at(PAGE_BYTES), 8);
        pages.extended(at(2 * PAGE_BYTES), 8);
        let after = pages.news(HartId(1));
        assert_eq!(after, before, "another page, or more of the same");
        pages.written(at(2 * PAGE_BYTES + 8), 8);
        assert_eq!(pages.news(HartId(1)).tables, before.tables + 1);
        assert!(!pages.is_marked(at(2 * PAGE_BYTES)));
        assert!(!pages.is_table_of(HartId(1), at(2 * PAGE_BYTES)));
        assert!(!pages.is_marked(PhysAddr(0)), "no RAM, no mark");
    }

    #[test]
    fn all_stores_to_a_table_are_kept_until_they_are_no_more() {
        let mut pages = Pages::new(4 * PAGE_BYTES, HARTS);
        let (table, end) = (at(PAGE_BYTES), at(2 * PAGE_BYTES - 4));
        pages.mark_table(HartId(1), table);
        assert!(!pages.keeps_store(table, 8), "no stores are kept");
        pages.keep_table_writes(true);
        assert!(pages.keeps_store(table, 8) && !pages.keeps_store(at(0), 8));
        assert!(pages.keeps_store(at(PAGE_BYTES - 4), 8) && pages.keeps_store(end, 8));
        pages.table_writes().push(TableWrite {
            addr: end,
            width: Width::D,
            other: 0,
        });
        pages.written(end, 8);
        assert!(pages.tables_written());
        assert!(pages.keeps_store(table, 8), "it was one before");
        assert!(pages.is_marked(table) && !pages.is_table_of(HartId(1), table));
        pages.keep_table_writes(true);
        assert!(!pages.tables_written() && !pages.is_marked(table) && !pages.is_marked(end));
        pages.mark_table(HartId(1), table);
        pages.keep_table_writes(false);
        assert!(!pages.keeps_store(table, 8));
    }

    /// One hart each: what it stores to, its page table, and a table of all.
    #[test]
    fn only_harts_that_remember_a_page_hear_of_it() {
        let (mine, all) = (PAGE_BYTES, 2 * PAGE_BYTES);
        let mut pages = Pages::new(4 * PAGE_BYTES, HARTS);
        let harts = || (0..HARTS).map(HartId::new);
        let total = |pages: &Pages| {
            let news = harts().map(|hart| pages.news(hart));
            news.fold((0, 0), |sum, news| {
                (sum.0 + news.tables, sum.1 + news.marks)
            })
        };
        let last = HartId::new(HARTS - 1);
        pages.remember_plain(last, at(mine));
        assert!(pages.is_plain_of(last, at(mine)) && !pages.is_plain_of(HartId(0), at(mine)));
        pages.mark_table(HartId(0), at(mine));
        assert_eq!((pages.news(last).marks, total(&pages)), (1, (0, 1)));
        pages.mark_code(at(mine));
        assert_eq!(total(&pages), (0, 1), "it was not plain any more");

        pages.written(at(mine), 8);
        assert_eq!((pages.news(HartId(0)).tables, total(&pages)), (1, (1, 1)));
        pages.written(at(mine), 8);
        assert_eq!(total(&pages), (1, 1), "nobody remembers anything of it");

        harts().for_each(|hart| pages.mark_table(hart, at(all)));
        pages.written(at(all), 8);
        assert_eq!(total(&pages), (1 + HARTS as u64, 1));
    }
}
