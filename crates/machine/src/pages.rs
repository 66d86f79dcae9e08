//! Marks on pages of RAM whose bytes somebody has read ahead: decoded instructions, and page tables
//! from which translations were remembered.
//!
//! What was read ahead must never show. So a store to a marked page says what became stale: decoded
//! pages learn which bytes changed, remembered translations are forgotten whole, by a number that
//! changes. Stores to plain pages pay nothing where a hart remembers that the page is plain; it hears
//! by another number when that ends.

use loiter_types::PhysAddr;

use crate::map::{PAGE_BYTES, RAM_BASE};

/// Instructions of this page are decoded.
const CODE: u8 = 1;
/// Translations depend on this page.
const TABLE: u8 = 2;

const PAGE_LOG2: u32 = PAGE_BYTES.trailing_zeros();

/// A run of bytes in one page that were written after they had been decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeWrite {
    /// First byte.
    pub addr: PhysAddr,
    /// Number of bytes.
    pub bytes: u64,
}

/// The marks of all pages of RAM.
#[derive(Debug)]
pub struct Pages {
    marks: Vec<u8>,
    code_writes: Vec<CodeWrite>,
    table_generation: u64,
    mark_generation: u64,
}

impl Pages {
    /// Plain pages, for `bytes` bytes of RAM.
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            marks: vec![0; (bytes >> PAGE_LOG2) as usize],
            code_writes: Vec::new(),
            table_generation: 0,
            mark_generation: 0,
        }
    }

    /// Marks the page of `addr`, which is RAM, as decoded.
    pub fn mark_code(&mut self, addr: PhysAddr) {
        self.mark(addr, CODE);
    }

    /// Marks the page of `addr`, which is RAM, as one that translations depend on.
    #[inline]
    pub fn mark_table(&mut self, addr: PhysAddr) {
        self.mark(addr, TABLE);
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

    /// Whether a store to the page of `addr` is told by [`Pages::table_generation`].
    #[must_use]
    pub fn is_table(&self, addr: PhysAddr) -> bool {
        self.marks
            .get(page(addr))
            .is_some_and(|&marks| marks & TABLE != 0)
    }

    /// Another number whenever a translation that was read from RAM may be stale.
    #[inline(always)]
    #[must_use]
    pub fn table_generation(&self) -> u64 {
        self.table_generation
    }

    /// Another number whenever a page that was plain has been marked.
    #[inline(always)]
    #[must_use]
    pub fn mark_generation(&self) -> u64 {
        self.mark_generation
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
        }
    }

    /// Bytes of RAM were written.
    pub(crate) fn written(&mut self, addr: PhysAddr, bytes: u64) {
        let mut from = addr.0;
        let end = addr.0 + bytes;
        while from < end {
            let to = end.min((from | (PAGE_BYTES - 1)) + 1);
            let marks = &mut self.marks[page(PhysAddr(from))];
            if *marks & TABLE != 0 {
                // Nothing remembered depends on the page any more.
                *marks &= !TABLE;
                self.table_generation += 1;
            }
            self.extended(PhysAddr(from), to - from);
            from = to;
        }
    }

    fn mark(&mut self, addr: PhysAddr, mark: u8) {
        let marks = &mut self.marks[page(addr)];
        self.mark_generation += u64::from(*marks == 0);
        *marks |= mark;
    }
}

#[inline(always)]
fn page(addr: PhysAddr) -> usize {
    (addr.0.wrapping_sub(RAM_BASE) >> PAGE_LOG2) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> PhysAddr {
        PhysAddr(RAM_BASE + offset)
    }

    #[test]
    fn a_write_over_two_decoded_pages_is_told_page_by_page() {
        let mut pages = Pages::new(4 * PAGE_BYTES);
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
        let mut pages = Pages::new(4 * PAGE_BYTES);
        let before = pages.mark_generation();
        pages.mark_table(at(2 * PAGE_BYTES));
        assert_ne!(pages.mark_generation(), before);
        assert!(pages.is_marked(at(2 * PAGE_BYTES + 8)) && !pages.is_marked(at(0)));
        let before = pages.table_generation();
        pages.written(at(PAGE_BYTES), 8);
        pages.extended(at(2 * PAGE_BYTES), 8);
        assert_eq!(
            pages.table_generation(),
            before,
            "another page, or more of the same"
        );
        pages.written(at(2 * PAGE_BYTES + 8), 8);
        assert_ne!(pages.table_generation(), before);
        assert!(!pages.is_marked(at(2 * PAGE_BYTES)));
        assert!(!pages.is_marked(PhysAddr(0)), "no RAM, no mark");
    }
}
