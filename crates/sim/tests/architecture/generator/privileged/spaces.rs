//! Address spaces: page tables made before the program runs. Every space maps code and data where
//! all others do, so that a program can go from one to the next; what lies in the *arena* is random:
//! permissions, sizes of pages, superpages that are not aligned, reserved bits, nothing at all.
//!
//! Places of the arena are the same in all spaces, and of two kinds: where one space maps data, no
//! space maps code, so that a jump never runs what is no program and a store never changes code.

use super::super::exclusions::{Exclusion, Target};
use super::super::random::Random;
use super::layout::{
    CODE_BYTES, CODE_FRAMES, DATA_FRAMES, FRAMES, RAM, SPAN, TABLES, USER_DATA, frame,
};

pub(crate) const VALID: u64 = 1;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const USER: u64 = 1 << 4;
const GLOBAL: u64 = 1 << 5;
pub(crate) const ACCESSED: u64 = 1 << 6;
pub(crate) const DIRTY: u64 = 1 << 7;
/// Bits 54 to 63, reserved without Svnapot and Svpbmt.
const RESERVED_FROM: u64 = 54;

const SV39: u64 = 8;
const SV48: u64 = 9;

/// Entries of a table that are mapped one by one: of the last and the first pages of their megapage.
const LAST_PAGES: std::ops::Range<u64> = 480..512;
const FIRST_PAGES: std::ops::Range<u64> = 0..32;
/// Pages that jumps go to.
const CODE_PAGES: std::ops::Range<u64> = 0..16;
/// Megapages of the arena: one whose last pages are mapped, four of one kind each, one whose first
/// pages are mapped, and one of code.
const MEGA_LAST: u64 = 2;
const MEGA: std::ops::Range<u64> = 3..7;
const MEGA_FIRST: u64 = 7;
const MEGA_CODE: u64 = 9;
/// Gigapages beside the arena.
const GIGA: u64 = 4;

/// What may lie at a place of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Code,
}

/// Where things lie in every address space; multiples of a gigapage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Code and data for user mode.
    pub(super) user: u64,
    /// Code and data for supervisor mode, besides where they lie in RAM.
    pub(super) supervisor: u64,
    arena: u64,
    giga: u64,
    /// A place that only Sv48 has.
    tera: u64,
}

/// An entry that a program may change, of a place of the arena.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Where the entry lies.
    pub(super) at: u64,
    pub(super) level: usize,
    /// The space that it belongs to.
    pub(super) asid: u64,
    /// First address of the page.
    pub(super) page: u64,
    pub(super) kind: Kind,
}

/// The page tables of a program.
pub(super) struct Spaces {
    pub(super) plan: Plan,
    /// Values of satp.
    pub(super) satp: Vec<u64>,
    pub(super) tables: Vec<[u64; 512]>,
    pub(super) entries: Vec<Entry>,
    /// Whether there may be global pages in the arena.
    pub(super) globals: bool,
    /// Whether pages of the arena may lie where nothing answers.
    pub(super) nowhere: bool,
    /// Whether small pages of code may, too.
    pub(super) half_nowhere: bool,
}

/// `index` gigapages from zero, sign-extended as Sv39 wants it.
fn gigapage(index: u64) -> u64 {
    ((index << 30 << 25) as i64 >> 25) as u64
}

impl Plan {
    fn new(random: &mut Random) -> Self {
        // Where RAM and devices lie; where QEMU has the window of its PCIe host, whose empty places
        // answer.
        let mut taken = vec![0..8, 16..32];
        let mut place = |size: u64| loop {
            let first = match random.below(8) {
                0 => 512 - size,
                1 => 256,
                2 => 256 - size,
                _ => random.below(512 - size),
            };
            let range = first..first + size;
            if taken
                .iter()
                .all(|t: &std::ops::Range<u64>| range.end <= t.start || t.end <= first)
            {
                taken.push(range);
                return gigapage(first);
            }
        };
        let (user, supervisor) = (place(1), place(1));
        let (arena, giga) = (place(1), place(GIGA));
        let tera = 1 + random.below(510);
        Self {
            user,
            supervisor,
            arena,
            giga,
            tera: (tera << 39 << 16)
                .cast_signed()
                .wrapping_shr(16)
                .cast_unsigned(),
        }
    }

    /// A page of the arena of `kind`, and whether the next one is of that kind too.
    pub(super) fn page(&self, kind: Kind, random: &mut Random) -> (u64, bool) {
        let way = random.below(10);
        let frames: &[u64] = match kind {
            Kind::Data => &DATA_FRAMES,
            Kind::Code => &CODE_FRAMES,
        };
        let n = random.pick(frames);
        let last = frames.contains(&n) && !frames.contains(&(n + 1));
        let of = |base: u64| base + n * SPAN[0];
        match (way, kind) {
            (0..4, Kind::Code) => {
                let page = self.arena + MEGA_CODE * SPAN[1] + random.below(16) * SPAN[0];
                (page, true)
            }
            (0..2, Kind::Data) => {
                let n = LAST_PAGES.start + random.below(32);
                (self.arena + MEGA_LAST * SPAN[1] + n * SPAN[0], true)
            }
            (2..4, Kind::Data) => {
                let n = random.below(32);
                (self.arena + MEGA_FIRST * SPAN[1] + n * SPAN[0], true)
            }
            (4..7, _) => {
                let slot = MEGA.start + random.below(MEGA.end - MEGA.start);
                let crosses = !last || kind == Kind::Data && n == 511;
                (of(self.arena + slot * SPAN[1]), crosses)
            }
            (7 | 8, _) => {
                let slot = self.giga + random.below(GIGA) * SPAN[2];
                (of(slot + (FRAMES - RAM)), !last)
            }
            _ => (of(self.tera + FRAMES), !last),
        }
    }
}

/// Makes the page tables of a program.
struct Maker<'a> {
    random: &'a mut Random,
    spaces: Spaces,
    /// Of the space in the making.
    asid: u64,
}

impl Spaces {
    /// So many random address spaces.
    pub(super) fn new(count: u64, nowhere: bool, target: Target, random: &mut Random) -> Self {
        let plan = Plan::new(random);
        let globals = random.chance(50);
        let mut maker = Maker {
            random,
            spaces: Self {
                plan,
                satp: Vec::new(),
                tables: Vec::new(),
                entries: Vec::new(),
                globals,
                nowhere,
                half_nowhere: !target.excludes(Exclusion::HalfNowhere),
            },
            asid: 0,
        };
        for _ in 0..count {
            maker.asid += 1;
            maker.space();
        }
        maker.spaces
    }

    /// A leaf of `level`, or what nearly is one.
    pub(super) fn random_leaf(&self, level: usize, kind: Kind, random: &mut Random) -> u64 {
        let target = match (level, kind) {
            (0, Kind::Data) => frame(random.pick(&DATA_FRAMES)),
            (0, Kind::Code) => frame(random.pick(&CODE_FRAMES)),
            (1, _) => FRAMES,
            (2, _) => RAM,
            _ => 0,
        };
        let nowhere = self.nowhere && (level > 0 || kind == Kind::Data || self.half_nowhere);
        let target = match random.below(100) {
            0..4 if nowhere => 1 << 45,
            4..7 if nowhere => 1 << 55,
            // Not aligned to the size of the page.
            7..14 if level > 0 => target + SPAN[random.below(level as u64) as usize],
            _ => target,
        };
        let permissions = match random.below(100) {
            0..3 => WRITE,
            3..6 => WRITE | EXECUTE,
            6..9 => 0,
            9..20 => READ,
            20..30 => EXECUTE,
            30..45 => READ | EXECUTE,
            45..70 => READ | WRITE,
            _ => READ | WRITE | EXECUTE,
        };
        // What would be a pointer at a higher level is an error at the last one only.
        let permissions = if level > 0 && permissions == 0 {
            READ
        } else {
            permissions
        };
        let mut flags = permissions | random.next() & (USER | ACCESSED | DIRTY | 3 << 8);
        if !random.chance(4) {
            flags |= VALID;
        }
        if self.globals && random.chance(20) {
            flags |= GLOBAL;
        }
        if random.chance(3) {
            flags |= 1 << (RESERVED_FROM + random.below(10));
        }
        entry(target, flags)
    }

    /// The tables as they lie in memory.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let words = self.tables.iter().flatten();
        words.flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// Address of table `n`.
fn table_address(n: usize) -> u64 {
    TABLES + n as u64 * SPAN[0]
}

/// The entry that points to what lies at `address`, with `flags`.
fn entry(address: u64, flags: u64) -> u64 {
    address >> 12 << 10 | flags
}

impl Maker<'_> {
    fn space(&mut self) {
        let (mode, top) = if self.random.chance(50) {
            (SV39, 2)
        } else {
            (SV48, 3)
        };
        let root = self.table();
        let plan = self.spaces.plan;
        self.supervisor_memory(root, top, RAM);
        self.supervisor_memory(root, top, plan.supervisor);
        self.user_memory(root, top, plan.user);
        self.arena(root, top);
        for n in 0..GIGA {
            let page = plan.giga + n * SPAN[2];
            let value = self.random_entry(2, page, Kind::Data);
            let at = self.set(root, top, 2, page, value);
            self.remember(at, 2, page, Kind::Data);
        }
        if top == 3 {
            let value = self.random_entry(3, plan.tera, Kind::Data);
            let at = self.set(root, top, 3, plan.tera, value);
            self.remember(at, 3, plan.tera, Kind::Data);
        }
        let satp = mode << 60 | self.asid << 44 | table_address(root) >> 12;
        self.spaces.satp.push(satp);
    }

    /// A new table of invalid entries.
    fn table(&mut self) -> usize {
        self.spaces.tables.push([0; 512]);
        self.spaces.tables.len() - 1
    }

    /// Sets the entry of `level` for `address`; tables on the way come as they are needed. Returns
    /// where it lies.
    fn set(&mut self, root: usize, top: usize, level: usize, address: u64, value: u64) -> u64 {
        let mut table = root;
        let mut at = top;
        loop {
            let index = (address / SPAN[at] % 512) as usize;
            if at == level {
                self.spaces.tables[table][index] = value;
                return table_address(table) + 8 * index as u64;
            }
            let next = self.spaces.tables[table][index];
            table = if next == 0 {
                let new = self.table();
                self.spaces.tables[table][index] = entry(table_address(new), VALID);
                new
            } else {
                ((next >> 10 << 12) - TABLES) as usize / SPAN[0] as usize
            };
            at -= 1;
        }
    }

    /// Flags of pages that must work; accessed and dirty may still have to be set.
    fn working(&mut self, more: u64) -> u64 {
        let marks = self.random.next() & (ACCESSED | DIRTY | 3 << 8);
        VALID | READ | WRITE | EXECUTE | marks | more
    }

    /// All of RAM, for supervisor mode, by pages of any size.
    fn supervisor_memory(&mut self, root: usize, top: usize, base: u64) {
        if self.random.chance(30) {
            let flags = self.working(GLOBAL);
            self.set(root, top, 2, base, entry(RAM, flags));
            return;
        }
        let small = self.random.below(4);
        for mega in 0..64 {
            let flags = self.working(GLOBAL);
            let (page, to) = (base + mega * SPAN[1], RAM + mega * SPAN[1]);
            if mega != small {
                self.set(root, top, 1, page, entry(to, flags));
                continue;
            }
            for n in 0..512 {
                let flags = self.working(GLOBAL);
                let offset = n * SPAN[0];
                self.set(root, top, 0, page + offset, entry(to + offset, flags));
            }
        }
    }

    /// Code and data, for user mode.
    fn user_memory(&mut self, root: usize, top: usize, base: u64) {
        let small = self.random.chance(50);
        for range in [RAM..RAM + CODE_BYTES, USER_DATA] {
            let level = usize::from(!small || range.start == RAM);
            let mut at = range.start;
            while at < range.end {
                let flags = self.working(USER);
                self.set(root, top, level, base + (at - RAM), entry(at, flags));
                at += SPAN[level];
            }
        }
    }

    fn arena(&mut self, root: usize, top: usize) {
        let arena = self.spaces.plan.arena;
        for mega in MEGA {
            let page = arena + mega * SPAN[1];
            let value = self.random_entry(1, page, Kind::Data);
            let at = self.set(root, top, 1, page, value);
            self.remember(at, 1, page, Kind::Data);
        }
        for (mega, range, kind) in [
            (MEGA_LAST, LAST_PAGES, Kind::Data),
            (MEGA_FIRST, FIRST_PAGES, Kind::Data),
            (MEGA_CODE, CODE_PAGES, Kind::Code),
        ] {
            for n in range {
                let page = arena + mega * SPAN[1] + n * SPAN[0];
                let value = self.random_entry(0, page, kind);
                let at = self.set(root, top, 0, page, value);
                self.remember(at, 0, page, kind);
            }
        }
        if self.random.chance(10) {
            // The table that holds all of it cannot be reached.
            let odd = self
                .random
                .pick(&[!VALID, ACCESSED, DIRTY, USER, WRITE, 1 << 60]);
            let at = self.index_of(root, top, arena);
            let value = &mut self.spaces.tables[at.0][at.1];
            *value = if odd == !VALID {
                *value & odd
            } else {
                *value | odd
            };
        }
    }

    /// Table and index of the gigapage entry of `address`.
    fn index_of(&self, root: usize, top: usize, address: u64) -> (usize, usize) {
        let table = if top == 2 {
            root
        } else {
            let next = self.spaces.tables[root][(address / SPAN[3] % 512) as usize];
            ((next >> 10 << 12) - TABLES) as usize / SPAN[0] as usize
        };
        (table, (address / SPAN[2] % 512) as usize)
    }

    fn remember(&mut self, at: u64, level: usize, page: u64, kind: Kind) {
        self.spaces.entries.push(Entry {
            at,
            level,
            asid: self.asid,
            page,
            kind,
        });
    }

    /// An entry of `level` for the page at `page`, with tables below it if it points to one.
    fn random_entry(&mut self, level: usize, page: u64, kind: Kind) -> u64 {
        if level == 0 || self.random.chance(60) {
            return self.spaces.random_leaf(level, kind, self.random);
        }
        if self.random.chance(10) {
            return 0;
        }
        let table = self.table();
        let pages: Vec<(u64, Kind)> = match level {
            1 => {
                let data = DATA_FRAMES.iter().map(|&n| (n * SPAN[0], Kind::Data));
                let code = CODE_FRAMES.iter().map(|&n| (n * SPAN[0], Kind::Code));
                data.chain(code).collect()
            }
            2 => vec![(FRAMES - RAM, kind)],
            _ => vec![(RAM, kind)],
        };
        for (offset, kind) in pages {
            let below = level - 1;
            let value = self.random_entry(below, page + offset, kind);
            let index = (offset / SPAN[below] % 512) as usize;
            self.spaces.tables[table][index] = value;
            let at = table_address(table) + 8 * index as u64;
            self.remember(at, below, page + offset, kind);
        }
        let odd = if self.random.chance(10) {
            self.random.pick(&[ACCESSED, DIRTY, USER, 1 << 54, 1 << 63])
        } else {
            0
        };
        let soft = self.random.next() & 3 << 8;
        entry(table_address(table), VALID | odd | soft)
    }
}
