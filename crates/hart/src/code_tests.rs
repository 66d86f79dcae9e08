use loiter_isa::Width;
use loiter_machine::MachineConfig;
use loiter_types::HartId;

use super::*;

const PAGE: u64 = 1 << PAGE_LOG2;

/// `addi x5, x0, n`.
fn word(n: u64) -> u64 {
    0x293 | n << 20
}

/// A machine in which each of `pages` pages has an instruction of its own.
fn machine(pages: u64) -> Machine {
    let config = MachineConfig {
        ram_bytes: 1 << 20,
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(&config).expect("a valid machine");
    (0..pages).for_each(|n| put(&mut machine, n, n));
    machine
}

fn put(machine: &mut Machine, page: u64, n: u64) {
    let addr = PhysAddr(RAM_BASE + page * PAGE);
    machine
        .store(HartId::new(0), addr, Width::W, word(n))
        .expect("RAM");
}

fn immediate(code: &mut CodeCache, machine: &mut Machine, page: u64) -> i32 {
    if machine.pages.code_written() {
        code.refresh(machine);
    }
    let addr = PhysAddr(RAM_BASE + page * PAGE);
    code.fetch(machine, addr).expect("code").imm
}

#[test]
fn no_more_pages_are_kept_than_there_is_room_for() {
    const PAGES: u64 = 7;
    const ROOM: usize = 3;
    let mut machine = machine(PAGES);
    let mut code = CodeCache::with_room(ROOM);
    let known = |code: &CodeCache| -> Vec<u64> {
        let known = |page| {
            code.decoded_page(PhysAddr(RAM_BASE + page * PAGE))
                .is_some()
        };
        (0..PAGES).filter(|page| known(*page)).collect()
    };
    for page in 0..PAGES {
        assert_eq!(immediate(&mut code, &mut machine, page), page as i32);
        assert!(code.pages.len() <= ROOM);
        // Those decoded last.
        let last: Vec<u64> = (page.saturating_sub(2)..=page).collect();
        assert_eq!(known(&code), last);
    }
    // What is written while it is forgotten, and what is written while it is known, is seen.
    for round in 1..4 {
        for page in 0..PAGES {
            let n = round * 100 + page;
            put(&mut machine, page, n);
            assert_eq!(immediate(&mut code, &mut machine, page), n as i32);
            put(&mut machine, page, n + 50);
            assert_eq!(immediate(&mut code, &mut machine, page), n as i32 + 50);
        }
    }
    assert_eq!(code.pages.len(), ROOM);
}

/// A page that was forgotten because it was written leaves a place, which is taken before another page goes.
#[test]
fn free_places_are_taken_first() {
    let mut machine = machine(4);
    let mut code = CodeCache::with_room(3);
    for page in 0..3 {
        immediate(&mut code, &mut machine, page);
    }
    for _ in 0..=MOST_WRITES {
        put(&mut machine, 1, 9);
        code.refresh(&mut machine);
    }
    assert!(code.decoded_page(PhysAddr(RAM_BASE + PAGE)).is_none());
    assert_eq!(immediate(&mut code, &mut machine, 3), 3);
    for page in [0, 2, 3] {
        assert!(
            code.decoded_page(PhysAddr(RAM_BASE + page * PAGE))
                .is_some()
        );
    }
    // None is free now.
    assert_eq!(immediate(&mut code, &mut machine, 1), 9);
    assert!(code.decoded_page(PhysAddr(RAM_BASE)).is_none());
    assert_eq!(code.pages.len(), 3);
}

/// A copy of a decoded instruction is good as long as the version stands, so whatever changes one changes that.
#[test]
fn the_version_tells_of_every_change() {
    let mut machine = machine(4);
    let mut code = CodeCache::with_room(2);
    immediate(&mut code, &mut machine, 0);
    let version = code.version();
    immediate(&mut code, &mut machine, 0);
    immediate(&mut code, &mut machine, 1);
    assert_eq!(
        code.version(),
        version,
        "nothing that was there has changed"
    );
    put(&mut machine, 0, 100);
    assert_eq!(immediate(&mut code, &mut machine, 0), 100);
    let written = code.version();
    assert_ne!(written, version);
    immediate(&mut code, &mut machine, 2);
    let forgotten = code.version();
    assert_ne!(
        forgotten, written,
        "writes to a forgotten page are not seen"
    );
    code.set_marks(CodeMarks::default());
    assert_ne!(code.version(), forgotten);
}

/// Of two memories that become parts of one, marks are at the places that these have there.
#[test]
fn marks_of_a_memory_go_where_it_lies() {
    let mut of_first = CodeMarks::default();
    of_first.add(RAM_BASE..RAM_BASE + 4, 1);
    let mut of_second = CodeMarks::default();
    of_second.add(RAM_BASE + PAGE..RAM_BASE + PAGE + 4, 2);
    let mut all = CodeMarks::default();
    all.add_all(&of_first, |addr| addr);
    all.add_all(&of_second, |addr| PhysAddr(addr.0 + 2 * PAGE));
    let mut machine = machine(4);
    let mut code = CodeCache::with_room(4);
    code.set_marks(all);
    let marks = [0, 1, 2, 3].map(|page| {
        let addr = PhysAddr(RAM_BASE + page * PAGE);
        code.fetch(&mut machine, addr).expect("code").mark()
    });
    assert_eq!(marks, [1, 0, 0, 2]);
}
