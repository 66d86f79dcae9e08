//! Decoded instructions, a page at a time.
//!
//! Decoding costs as much as running many instructions, so a page is decoded whole when it is first
//! executed: one record for each of its half-words, whether or not an instruction starts there.
//! RISC-V makes stale code legal until `fence.i`, so nothing watches stores; `fence.i` forgets all.

use loiter_isa::{Inst, decode};
use loiter_machine::{Machine, RAM_BASE};
use loiter_types::PhysAddr;

/// log2 of the bytes of a page.
const PAGE_LOG2: u32 = 12;
const HALFWORDS: usize = 1 << (PAGE_LOG2 - 1);

/// The decoded half-words of one page.
type Page = Box<[Inst; HALFWORDS]>;

/// The decoded pages of a machine, shared by its harts.
#[derive(Default)]
pub struct CodeCache {
    pages: Vec<Page>,
    /// Index into `pages` plus one, by page of RAM; 0: not decoded.
    index: Vec<u32>,
}

impl CodeCache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets every decoded instruction.
    pub fn flush(&mut self) {
        self.pages.clear();
        self.index.fill(0);
    }

    /// The decoded page that holds `addr`, decoded now if it was not; `None` outside RAM.
    pub(crate) fn page(&mut self, machine: &Machine, addr: PhysAddr) -> Option<&[Inst; HALFWORDS]> {
        if !machine.is_ram(addr, 2) {
            return None;
        }
        let page = ((addr.0 - RAM_BASE) >> PAGE_LOG2) as usize;
        if page >= self.index.len() {
            self.index.resize(page + 1, 0);
        }
        if self.index[page] == 0 {
            self.pages.push(decode_page(machine, addr));
            self.index[page] = u32::try_from(self.pages.len()).expect("fewer than 2^32 pages");
        }
        Some(&self.pages[self.index[page] as usize - 1])
    }

    /// The instruction at `addr`, if its page has been decoded and it does not cross into the next.
    #[inline(always)]
    #[must_use]
    pub fn decoded(&self, addr: PhysAddr) -> Option<&Inst> {
        let page = addr.0.wrapping_sub(RAM_BASE) >> PAGE_LOG2;
        let known = *self.index.get(page as usize)?;
        let page = self.pages.get((known as usize).wrapping_sub(1))?;
        let inst = &page[slot(addr.0)];
        (!crosses(inst)).then_some(inst)
    }

    /// The instruction at `addr`; `None` outside RAM.
    pub fn fetch(&mut self, machine: &Machine, addr: PhysAddr) -> Option<Inst> {
        if let Some(inst) = self.decoded(addr) {
            return Some(*inst);
        }
        let inst = self.page(machine, addr)?[slot(addr.0)];
        if crosses(&inst) {
            return fetch_crossing(machine, addr);
        }
        Some(inst)
    }
}

/// Position of the half-word at `addr` in its page.
#[inline(always)]
pub(crate) fn slot(addr: u64) -> usize {
    (addr >> 1) as usize & (HALFWORDS - 1)
}

/// Whether this is the mark of an instruction whose second half lies in the next page. The mark is an
/// illegal instruction of length 0, so that hot loops need no test for it.
#[inline(always)]
fn crosses(inst: &Inst) -> bool {
    inst.len == 0
}

/// Reads and decodes an instruction that may lie in two pages.
#[cold]
fn fetch_crossing(machine: &Machine, addr: PhysAddr) -> Option<Inst> {
    machine.fetch(addr).ok().map(decode)
}

#[cold]
fn decode_page(machine: &Machine, addr: PhysAddr) -> Page {
    let base = addr.0 & !((1 << PAGE_LOG2) - 1);
    let mut crossing = decode(0);
    crossing.len = 0;
    let mut page = Box::new([crossing; HALFWORDS]);
    for (n, inst) in page.iter_mut().enumerate() {
        let at = PhysAddr(base + 2 * n as u64);
        let bits = machine.fetch(at).unwrap_or(0);
        let whole = bits & 3 != 3;
        if whole || n + 1 < HALFWORDS {
            *inst = decode(bits);
        }
    }
    page
}
