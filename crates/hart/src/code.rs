//! Decoded instructions, a page at a time.
//!
//! Decoding costs as much as running many instructions, so a page is decoded whole when it is first
//! executed: one record for each of its half-words, whether or not an instruction starts there. Decoded
//! pages are marked in [`loiter_machine::Pages`], and [`CodeCache::refresh`] decodes anew what was
//! written since. So an instruction is always what memory holds, and `fence.i` has nothing to do.
//!
//! Ranges of physical addresses can be marked: what is decoded there carries the mark, so that whoever runs it
//! needs no look at its address.

use std::ops::{Range, RangeInclusive};

use loiter_isa::{Inst, decode};
use loiter_machine::{CodeWrite, Machine, RAM_BASE};
use loiter_types::PhysAddr;

use crate::translate::PAGE_LOG2;

const HALFWORDS: usize = 1 << (PAGE_LOG2 - 1);

/// Writes to a decoded page after which it is forgotten: it may have become a page of data.
const MOST_WRITES: u32 = 64;
/// Bytes of a write that are decoded anew rather than the whole page forgotten.
const MOST_BYTES: u64 = 256;

/// Decoded pages that are kept, 256 MiB of records: of a guest that runs more, one page at a time is forgotten,
/// in the order in which they were decoded.
const MOST_PAGES: usize = 8192;

/// The instructions of one page.
pub(crate) type Instructions = [Inst; HALFWORDS];

struct Page {
    instructions: Box<Instructions>,
    /// Of RAM.
    number: usize,
    /// Since it was decoded.
    writes: u32,
}

/// Marks of code by physical address.
#[derive(Clone, Debug, Default)]
pub struct CodeMarks(Vec<(Range<u64>, u8)>);

impl CodeMarks {
    /// Marks `range`. Where ranges overlap, the last one given counts.
    pub fn add(&mut self, range: Range<u64>, mark: u8) {
        self.0.push((range, mark));
    }

    /// Marks what `other` does, which is of another memory: `place` says where its addresses lie in this one.
    pub fn add_all(&mut self, other: &Self, place: impl Fn(PhysAddr) -> PhysAddr) {
        for (range, mark) in &other.0 {
            let begin = place(PhysAddr(range.start)).0;
            self.add(begin..begin + (range.end - range.start), *mark);
        }
    }

    /// Marks the half-words `slots` of a decoded page that begins at `base`.
    fn paint(&self, base: u64, page: &mut [Inst], slots: RangeInclusive<usize>) {
        let begin = base + 2 * *slots.start() as u64;
        let end = base + 2 * (*slots.end() as u64 + 1);
        for (range, mark) in &self.0 {
            let (from, to) = (range.start.max(begin), range.end.min(end));
            for addr in (from..to).step_by(2) {
                let inst = &mut page[slot(addr)];
                *inst = inst.marked(*mark);
            }
        }
    }
}

/// The decoded pages of a machine, shared by its harts.
pub struct CodeCache {
    pages: Vec<Page>,
    /// Index into `pages` plus one, by page of RAM; 0: not decoded.
    index: Vec<u32>,
    /// Indices into `pages` that are free.
    free: Vec<u32>,
    /// Pages that are kept at most, and the one that is forgotten next when there are so many.
    most: usize,
    forgets: usize,
    marks: CodeMarks,
    /// See [`CodeCache::version`].
    version: u64,
}

impl Default for CodeCache {
    fn default() -> Self {
        Self::with_room(MOST_PAGES)
    }
}

impl CodeCache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with_room(most: usize) -> Self {
        Self {
            pages: Vec::new(),
            index: Vec::new(),
            free: Vec::new(),
            most,
            forgets: 0,
            marks: CodeMarks::default(),
            version: 0,
        }
    }

    /// A number that changes with any decoded instruction: a copy of one is good as long as this stands, and
    /// [`loiter_machine::Pages::code_written`] says no.
    #[inline(always)]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What code carries.
    #[must_use]
    pub fn marks(&self) -> &CodeMarks {
        &self.marks
    }

    /// Code carries `marks` from now on, and no others.
    pub fn set_marks(&mut self, marks: CodeMarks) {
        self.marks = marks;
        self.version += 1;
        for (number, &known) in self.index.iter().enumerate() {
            let Some(n) = (known as usize).checked_sub(1) else {
                continue;
            };
            let page = &mut self.pages[n].instructions[..];
            page.iter_mut().for_each(|inst| *inst = inst.marked(0));
            let base = RAM_BASE + ((number as u64) << PAGE_LOG2);
            self.marks.paint(base, page, 0..=HALFWORDS - 1);
        }
    }

    /// Decodes anew what was written to decoded pages. To be called before the next instruction is
    /// looked up whenever [`loiter_machine::Pages::code_written`].
    #[cold]
    pub fn refresh(&mut self, machine: &mut Machine) {
        self.version += 1;
        for CodeWrite { addr, bytes } in machine.pages.take_code_writes() {
            let known = self.index[page_number(addr)];
            let Some(n) = (known as usize).checked_sub(1) else {
                continue;
            };
            let page = &mut self.pages[n];
            page.writes += 1;
            if bytes > MOST_BYTES || page.writes > MOST_WRITES {
                self.index[page_number(addr)] = 0;
                self.free.push(known - 1);
                machine.pages.unmark_code(addr);
                continue;
            }
            // The instruction before may reach into what was written.
            let from = slot(addr.0).saturating_sub(1);
            let to = slot(addr.0 + bytes - 1);
            let page = &mut page.instructions[..];
            decode_slots(machine, &self.marks, addr, page, from..=to);
        }
    }

    /// The decoded page that holds `addr`, decoded now if it was not; `None` outside RAM.
    #[inline(always)]
    pub(crate) fn page(&mut self, machine: &mut Machine, addr: PhysAddr) -> Option<&Instructions> {
        let known = self.index.get(page_number(addr)).copied().unwrap_or(0);
        let n = match (known as usize).checked_sub(1) {
            Some(n) => n,
            None => self.decode_page(machine, addr)?,
        };
        Some(&self.pages[n].instructions)
    }

    #[cold]
    fn decode_page(&mut self, machine: &mut Machine, addr: PhysAddr) -> Option<usize> {
        if !machine.is_ram(addr, 2) {
            return None;
        }
        let number = page_number(addr);
        if number >= self.index.len() {
            self.index.resize(number + 1, 0);
        }
        let n = match self.free.pop() {
            Some(n) => n as usize,
            None if self.pages.len() < self.most => {
                self.pages.push(Page {
                    instructions: Box::new([decode(0); HALFWORDS]),
                    number,
                    writes: 0,
                });
                self.pages.len() - 1
            }
            None => self.forget_next(machine),
        };
        let page = &mut self.pages[n];
        (page.number, page.writes) = (number, 0);
        let page = &mut page.instructions[..];
        decode_slots(machine, &self.marks, addr, page, 0..=HALFWORDS - 1);
        self.index[number] = u32::try_from(n + 1).expect("fewer than 2^32 pages");
        machine.pages.mark_code(addr);
        Some(n)
    }

    /// Forgets the page whose turn it is, when none is free. Returns its index.
    fn forget_next(&mut self, machine: &mut Machine) -> usize {
        let n = self.forgets;
        self.version += 1;
        self.forgets = (n + 1) % self.pages.len();
        let number = self.pages[n].number;
        self.index[number] = 0;
        let addr = PhysAddr(RAM_BASE + ((number as u64) << PAGE_LOG2));
        machine.pages.unmark_code(addr);
        n
    }

    /// The decoded page that holds `addr`, if it has been decoded.
    #[inline(always)]
    pub(crate) fn decoded_page(&self, addr: PhysAddr) -> Option<&Instructions> {
        let page = self.pages.get(self.number_of(addr) as usize)?;
        Some(&page.instructions)
    }

    /// The decoded page that holds `addr`, by a number that is good as long as [`CodeCache::version`] stands; of a page that
    /// has not been decoded, the number of none.
    #[inline(always)]
    #[must_use]
    pub fn number_of(&self, addr: PhysAddr) -> u32 {
        let known = self.index.get(page_number(addr)).copied();
        known.unwrap_or(0).wrapping_sub(1)
    }

    /// As [`CodeCache::decoded`], of the page with this number. If that is not good any more, of any page.
    #[inline(always)]
    #[must_use]
    pub fn decoded_in(&self, number: u32, addr: u64) -> Option<&Inst> {
        let inst = &self.pages.get(number as usize)?.instructions[slot(addr)];
        (!crosses(inst)).then_some(inst)
    }

    /// The instruction at `addr`, if its page has been decoded and it does not cross into the next.
    #[inline(always)]
    #[must_use]
    pub fn decoded(&self, addr: PhysAddr) -> Option<&Inst> {
        self.decoded_in(self.number_of(addr), addr.0)
    }

    /// The instruction at `addr`; `None` outside RAM. Only its first half lies here if it
    /// [crosses][crosses] into the next page.
    pub(crate) fn fetch(&mut self, machine: &mut Machine, addr: PhysAddr) -> Option<Inst> {
        Some(self.page(machine, addr)?[slot(addr.0)])
    }
}

#[inline(always)]
fn page_number(addr: PhysAddr) -> usize {
    (addr.0.wrapping_sub(RAM_BASE) >> PAGE_LOG2) as usize
}

/// Position of the half-word at `addr` in its page.
#[inline(always)]
pub(crate) fn slot(addr: u64) -> usize {
    (addr >> 1) as usize & (HALFWORDS - 1)
}

/// Whether this is the mark of an instruction whose second half lies in the next page. The mark is an
/// illegal instruction of length 0, so that hot loops need no test for it.
#[inline(always)]
pub(crate) fn crosses(inst: &Inst) -> bool {
    inst.len == 0
}

fn decode_slots(
    machine: &Machine,
    marks: &CodeMarks,
    addr: PhysAddr,
    page: &mut [Inst],
    slots: RangeInclusive<usize>,
) {
    let base = addr.0 & !((1 << PAGE_LOG2) - 1);
    for n in slots.clone() {
        let bits = machine.fetch(PhysAddr(base + 2 * n as u64)).unwrap_or(0);
        let whole = bits & 3 != 3 || n + 1 < HALFWORDS;
        page[n] = decode(if whole { bits } else { 0 });
        if !whole {
            page[n].len = 0;
        }
    }
    marks.paint(base, page, slots);
}

#[cfg(test)]
#[path = "code_tests.rs"]
mod tests;
