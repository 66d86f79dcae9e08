//! RAM as sections: windows of address space, of which only pages that hold something are kept.
//!
//! A window's bytes are a bitmap of its pages, bit n for page n, least significant bit first, and
//! then the pages that are in the bitmap. Windows without such a page have no section.

use crate::map::PAGE_BYTES;
use crate::ram::Ram;
use crate::snapshot::touched::touched;

const PAGE: usize = PAGE_BYTES as usize;
/// Pages of a window: large enough to compress well, small enough to spread over threads (assumed).
const WINDOW_PAGES: usize = 1024;
pub(crate) const WINDOW_BYTES: usize = WINDOW_PAGES * PAGE;
const BITMAP_BYTES: usize = WINDOW_PAGES / 8;
/// The longest contents of a window's section.
pub(crate) const MAX_PACKED_BYTES: usize = BITMAP_BYTES + WINDOW_BYTES;

const ZEROES: [u8; PAGE] = [0; PAGE];
const PREFIX: &str = "ram.";

/// Name of the section of window `index`.
pub(crate) fn section_name(index: usize) -> String {
    format!("{PREFIX}{index:05}")
}

/// The window that a section is of, if it is one of RAM.
pub(crate) fn window_of(section: &str) -> Option<usize> {
    section.strip_prefix(PREFIX)?.parse().ok()
}

/// Numbers and contents of the pages that hold anything but zeroes.
pub(crate) fn used_pages(ram: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let pages = ram.chunks_exact(PAGE).enumerate();
    pages
        .zip(touched(ram))
        .filter(|((_, bytes), touched)| *touched && **bytes != ZEROES)
        .map(|(page, _)| page)
}

/// The windows in which the host has given pages, with which they are.
pub(crate) fn windows(ram: &Ram) -> Vec<(usize, &[u8], Vec<bool>)> {
    let touched = touched(ram.as_slice());
    let windows = ram.as_slice().chunks(WINDOW_BYTES);
    windows
        .zip(touched.chunks(WINDOW_PAGES))
        .enumerate()
        .filter(|(_, (_, touched))| touched.contains(&true))
        .map(|(index, (bytes, touched))| (index, bytes, touched.to_vec()))
        .collect()
}

/// The contents of a window's section, or nothing if it holds only zeroes.
pub(crate) fn pack(window: &[u8], touched: &[bool]) -> Option<Vec<u8>> {
    let mut packed = vec![0; BITMAP_BYTES];
    for (n, (page, touched)) in window.chunks_exact(PAGE).zip(touched).enumerate() {
        if *touched && page != ZEROES {
            packed[n / 8] |= 1 << (n % 8);
            packed.extend_from_slice(page);
        }
    }
    (packed.len() > BITMAP_BYTES).then_some(packed)
}

/// Puts the pages of `packed` into `window` and zeroes into its others, of which only those are
/// written that the host has given.
pub(crate) fn unpack(packed: &[u8], window: &mut [u8], touched: &[bool]) -> Result<(), String> {
    let Some((bitmap, pages)) = packed.split_at_checked(BITMAP_BYTES) else {
        return Err(format!("{} bytes are less than its bitmap", packed.len()));
    };
    let mut pages = pages.chunks_exact(PAGE);
    let listed = |n: usize| bitmap[n / 8] >> (n % 8) & 1 != 0;
    let here = window.len() / PAGE;
    if (here..WINDOW_PAGES).any(listed) {
        return Err("it has pages beyond the end of RAM".into());
    }
    for (n, (place, touched)) in window.chunks_exact_mut(PAGE).zip(touched).enumerate() {
        if listed(n) {
            let page = pages.next().ok_or("it has fewer pages than its bitmap")?;
            place.copy_from_slice(page);
        } else if *touched {
            clear(place);
        }
    }
    if pages.next().is_some() || !pages.remainder().is_empty() {
        return Err("it has more bytes than the pages of its bitmap".into());
    }
    Ok(())
}

/// Puts zeroes into the pages of `window` that the host has given and that hold anything else.
pub(crate) fn clear_window(window: &mut [u8], touched: &[bool]) {
    for (place, touched) in window.chunks_exact_mut(PAGE).zip(touched) {
        if *touched {
            clear(place);
        }
    }
}

fn clear(page: &mut [u8]) {
    if *page != ZEROES {
        page.fill(0);
    }
}
