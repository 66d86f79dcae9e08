//! Which pages of RAM the host has given, so that nobody reads the others: reading a page that was
//! never written costs a fault and tells nothing.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

use crate::map::PAGE_BYTES;

/// Linux, Documentation/admin-guide/mm/pagemap.rst: bit 63 is "present", bit 62 "swapped".
const GIVEN: u64 = 1 << 63 | 1 << 62;
const ENTRY_BYTES: u64 = 8;
/// Entries read at a time.
const ENTRIES: usize = 8192;

/// For each page of `ram` whether it may hold anything but zeroes. A host that does not tell leaves
/// all in doubt. This only ever saves work: what the pages hold decides.
pub(crate) fn touched(ram: &[u8]) -> Vec<bool> {
    from_pagemap(ram).unwrap_or_else(|| vec![true; pages(ram)])
}

fn pages(ram: &[u8]) -> usize {
    ram.len().div_ceil(PAGE_BYTES as usize)
}

fn from_pagemap(ram: &[u8]) -> Option<Vec<bool>> {
    let host_page_bytes = rustix::param::page_size();
    let pagemap = File::open("/proc/self/pagemap").ok()?;
    // A host that hides the bits hides them for a byte just written, too.
    let known = black_box(Box::new([1_u8]));
    if !given(&pagemap, &known[..], host_page_bytes)?[0] {
        return None;
    }
    let given = given(&pagemap, ram, host_page_bytes)?;
    let first = ram.as_ptr().addr() % host_page_bytes;
    let page_of = |page: usize| (first + page * PAGE_BYTES as usize) / host_page_bytes;
    Some((0..pages(ram)).map(|page| given[page_of(page)]).collect())
}

/// The same for the host's pages that `bytes` lie in.
fn given(pagemap: &File, bytes: &[u8], host_page_bytes: usize) -> Option<Vec<bool>> {
    let first = bytes.as_ptr().addr() / host_page_bytes;
    let last = (bytes.as_ptr().addr() + bytes.len() - 1) / host_page_bytes;
    let mut given = Vec::with_capacity(last - first + 1);
    let mut buffer = vec![0; ENTRIES * ENTRY_BYTES as usize];
    while given.len() <= last - first {
        let at = first + given.len();
        let entries = &mut buffer[..ENTRIES.min(last + 1 - at) * ENTRY_BYTES as usize];
        pagemap
            .read_exact_at(entries, at as u64 * ENTRY_BYTES)
            .ok()?;
        let (entries, _) = entries.as_chunks();
        given.extend(
            entries
                .iter()
                .map(|entry| u64::from_le_bytes(*entry) & GIVEN != 0),
        );
    }
    Some(given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::RAM_BASE;
    use crate::ram::Ram;
    use loiter_isa::Width;
    use loiter_types::PhysAddr;

    #[test]
    fn written_pages_are_touched_and_far_ones_are_not() {
        let mut ram = Ram::new(1 << 30).unwrap();
        let middle = 512 << 20;
        assert!(ram.write(PhysAddr(RAM_BASE + middle), Width::B, 1));
        let touched = touched(ram.as_slice());
        assert_eq!(touched.len(), (1 << 30) / PAGE_BYTES as usize);
        assert!(touched[(middle / PAGE_BYTES) as usize]);
        // The host may give more than one page at a time, but not all.
        let count = touched.iter().filter(|&&touched| touched).count();
        assert!(count < touched.len() / 2, "{count} of {}", touched.len());
    }
}
