//! Buffers of translations against lists, and against what their rules say.

use super::*;

const PAGE: u32 = PAGE_LOG2;
const MEGAPAGE: u32 = PAGE_LOG2 + 9;

fn params(entries: u64, ways: u64, replacement: &str) -> TlbParams {
    TlbParams {
        entries,
        ways,
        replacement: replacement.into(),
    }
}

fn tlb(entries: u64, ways: u64, replacement: &str) -> Tlb {
    Tlb::new(&params(entries, ways, replacement)).unwrap()
}

/// Address space number `asid` with its tables in page `asid`.
fn space(asid: u64) -> AddressSpace {
    AddressSpace {
        tables: 8 << 60 | asid << 44 | asid,
        guest: 0,
    }
}

fn translation(addr: u64, size_log2: u32, asid: u64) -> Translation {
    Translation {
        addr: VirtAddr(addr),
        size_log2,
        space: space(asid),
        global: false,
        clean: false,
    }
}

fn hits(tlb: &mut Tlb, addr: u64, asid: u64) -> bool {
    tlb.access(VirtAddr(addr), space(asid), false)
}

/// Looks up a page and brings it if it is not there; whether it was.
fn uses(tlb: &mut Tlb, page: u64) -> bool {
    let addr = page << PAGE;
    let hit = hits(tlb, addr, 1);
    if !hit {
        tlb.fill(translation(addr, PAGE, 1));
    }
    hit
}

#[test]
fn as_many_pages_fit_as_there_are_entries_and_not_one_more() {
    for (entries, replacement) in [(64, "used_bit"), (64, "lru"), (3, "lru"), (1, "used_bit")] {
        for (pages, fit) in [(entries, true), (entries + 1, false)] {
            let mut tlb = tlb(entries, entries, replacement);
            let mut round = || (0..pages).filter(|&page| uses(&mut tlb, page)).count() as u64;
            assert_eq!(round(), 0);
            for _ in 0..3 {
                let expected = if fit { pages } else { 0 };
                assert_eq!(round(), expected, "{pages} in {entries}, {replacement}");
            }
        }
    }
}

#[test]
fn the_first_entry_that_was_not_used_since_all_were_is_replaced() {
    let mut tlb = tlb(4, 4, "used_bit");
    for page in 0..4 {
        assert!(!uses(&mut tlb, page));
    }
    // The fourth use has cleared all used bits.
    assert!(uses(&mut tlb, 0) && uses(&mut tlb, 2));
    assert!(!uses(&mut tlb, 10), "takes the place of 1");
    assert!(!uses(&mut tlb, 11), "takes the place of 3; clears all");
    assert!(!uses(&mut tlb, 12), "takes the place of 0");
    for (page, there) in [(0, false), (1, false), (2, true), (3, false), (12, true)] {
        assert_eq!(hits(&mut tlb, page << PAGE, 1), there, "page {page}");
    }
}

#[test]
fn a_superpage_takes_one_entry_and_serves_all_of_its_addresses() {
    for ways in [8, 2] {
        let mut tlb = tlb(8, ways, "lru");
        let base = 5 << MEGAPAGE;
        tlb.fill(translation(base + 0x1234, MEGAPAGE, 1));
        tlb.fill(translation(7 << MEGAPAGE, PAGE, 1));
        for n in 0..512 {
            assert!(hits(&mut tlb, base + (n << PAGE), 1), "{ways} ways");
        }
        assert!(!hits(&mut tlb, base + (512 << PAGE), 1));
        assert!(!hits(&mut tlb, base - 1, 1));
        assert!(!hits(&mut tlb, base, 2), "another address space");
        assert_eq!(tlb.counters.accesses, 515);
        assert_eq!(tlb.counters.misses, 3);
    }
}

#[test]
fn a_store_needs_more_than_a_clean_page() {
    let mut tlb = tlb(4, 4, "used_bit");
    let clean = Translation {
        clean: true,
        ..translation(0x5000, PAGE, 1)
    };
    tlb.fill(clean);
    assert!(tlb.access(VirtAddr(0x5008), space(1), false));
    assert!(!tlb.access(VirtAddr(0x5008), space(1), true));
    tlb.fill(Translation {
        clean: false,
        ..clean
    });
    assert!(tlb.access(VirtAddr(0x5008), space(1), true));
    let entries = tlb.entries.iter().flatten().count();
    assert_eq!(entries, 1, "the second walk replaces what the first found");
}

#[test]
fn a_flush_takes_what_it_names() {
    let global = Translation {
        global: true,
        ..translation(0x3000, PAGE, 1)
    };
    let all = [
        translation(0x1000, PAGE, 1),
        translation(0x2000, PAGE, 1),
        translation(0x1000, PAGE, 2),
        global,
        translation(1 << MEGAPAGE, MEGAPAGE, 2),
    ];
    let (addr, asid) = (|addr| Some(VirtAddr(addr)), Some);
    let none = (None, None);
    for ((addr, asid), remain) in [
        (none, vec![]),
        ((addr(0x1fff), None), vec![1, 3, 4]),
        ((None, asid(1)), vec![2, 3, 4]),
        ((addr(0x1000), asid(2)), vec![0, 1, 3, 4]),
        ((addr(0x3000), asid(1)), vec![0, 1, 2, 3, 4]),
        ((addr(0x3000), None), vec![0, 1, 2, 4]),
        ((addr((1 << MEGAPAGE) + 0x7008), asid(2)), vec![0, 1, 2, 3]),
        ((addr(0x9000), None), vec![0, 1, 2, 3, 4]),
    ] {
        let mut tlb = tlb(8, 8, "used_bit");
        all.iter().for_each(|&each| tlb.fill(each));
        tlb.flush(Flush {
            addr,
            asid,
            ..Flush::default()
        });
        let found: Vec<usize> = (0..all.len())
            .filter(|&n| tlb.access(all[n].addr, all[n].space, false))
            .collect();
        assert_eq!(found, remain, "{addr:?} {asid:?}");
        assert_eq!(tlb.counters.flushed as usize, all.len() - remain.len());
    }
}

#[test]
fn a_global_page_serves_every_address_space() {
    let mut tlb = tlb(8, 8, "used_bit");
    tlb.fill(Translation {
        global: true,
        ..translation(0x3000, PAGE, 1)
    });
    assert!(hits(&mut tlb, 0x3000, 1) && hits(&mut tlb, 0x3000, 2));
}

/// Random uses and flushes of pages of two sizes against a list in the order of use.
#[test]
fn the_least_recently_used_is_replaced() {
    const WAYS: usize = 4;
    let mut tlb = tlb(2 * WAYS as u64, WAYS as u64, "lru");
    // For each set its pages, the least recently used first.
    let mut sets: [Vec<(u64, u32)>; 2] = Default::default();
    let mut state = 1_u64;
    let (mut hits_seen, mut replaced) = (0, 0);
    for _ in 0..50_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let size = if state >> 60 < 6 { MEGAPAGE } else { PAGE };
        // Small pages lie where no superpage is.
        let number = (state >> 33) % 7 + if size == PAGE { 512 * 100 } else { 0 };
        let addr = VirtAddr(number << size | (state >> 20) & 0xff8);
        let set = &mut sets[(number % 2) as usize];
        let known = set.iter().position(|&page| page == (number, size));
        if (state >> 50).is_multiple_of(10) {
            tlb.flush(Flush {
                addr: Some(addr),
                ..Flush::default()
            });
            known.map(|at| set.remove(at));
            continue;
        }
        assert_eq!(tlb.access(addr, space(3), true), known.is_some());
        match known {
            Some(at) => {
                hits_seen += 1;
                set.remove(at);
            }
            None => {
                tlb.fill(translation(addr.0, size, 3));
                if set.len() == WAYS {
                    replaced += 1;
                    set.remove(0);
                }
            }
        }
        set.push((number, size));
    }
    assert!(hits_seen > 1000 && replaced > 1000);
}

#[test]
fn random_replacement_reaches_every_way_and_spares_empty_ones() {
    let mut tlb = tlb(4, 4, "random");
    for page in 0..4 {
        uses(&mut tlb, page);
    }
    for page in 0..4 {
        assert!(uses(&mut tlb, page), "an empty entry is taken first");
    }
    let mut places = [0; 4];
    for page in 10..1000 {
        uses(&mut tlb, page);
        let at = tlb
            .entries
            .iter()
            .position(|entry| entry.is_some_and(|entry| entry.addr.0 == page << PAGE));
        places[at.unwrap()] += 1;
    }
    assert!(places.iter().all(|&n| n > 100), "{places:?}");
}

#[test]
fn impossible_geometries_are_refused() {
    for (entries, ways, possible) in [
        (64, 64, true),
        (96, 12, true),
        (64, 48, false),
        (8, 16, false),
    ] {
        let tlb = Tlb::new(&params(entries, ways, "lru"));
        assert_eq!(tlb.is_ok(), possible, "{entries} in {ways}");
    }
    let problem = Tlb::new(&params(64, 48, "lru")).unwrap_err();
    assert!(problem.contains("ways = 48"), "{problem}");
}

#[test]
fn guests_have_translations_of_their_own() {
    let of = |guest: u64| AddressSpace { guest, ..space(1) };
    let vmid = |number: u64| AddressSpace::guest_of(8 << 60 | number << 44);
    let spaces = [of(0), of(vmid(3)), of(vmid(4))];
    let all = spaces.map(|space| Translation {
        space,
        ..translation(0x1000, PAGE, 1)
    });
    for (of, remain) in [
        (FlushOf::Everybody, vec![]),
        (FlushOf::Host, vec![1, 2]),
        (FlushOf::Guests, vec![0]),
        (FlushOf::Guest(3), vec![0, 2]),
        (FlushOf::Guest(5), vec![0, 1, 2]),
    ] {
        let mut tlb = tlb(8, 8, "lru");
        all.iter().for_each(|&each| tlb.fill(each));
        tlb.flush(Flush {
            of,
            ..Flush::default()
        });
        let found: Vec<usize> = (0..all.len())
            .filter(|&n| tlb.access(all[n].addr, all[n].space, false))
            .collect();
        assert_eq!(found, remain, "{of:?}");
    }
    let mut tlb = tlb(8, 8, "lru");
    tlb.fill(Translation {
        global: true,
        ..all[1]
    });
    let other = AddressSpace {
        guest: vmid(3),
        ..space(2)
    };
    assert!(tlb.access(all[1].addr, other, false), "of all its spaces");
    assert!(
        !tlb.access(all[0].addr, spaces[0], false) && !tlb.access(all[2].addr, spaces[2], false)
    );
}
