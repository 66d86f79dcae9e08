//! Programs that run in supervisor mode behind page tables.
//!
//! Virtual memory has four parts: the devices and, at its own address, RAM, each a page of 1 GiB; from [`PAGES`] on
//! small pages, 2 MiB of them; from [`MEGAPAGES`] on pages of 2 MiB; both lead to RAM from [`DATA`] on.

use super::DATA;

/// Where small pages begin. They are in RAM in the opposite order, so that none is followed by the next.
pub const PAGES: u64 = 0x4000_0000;

/// Where pages of 2 MiB begin.
pub const MEGAPAGES: u64 = 0x5000_0000;

/// Bytes of a small page, and of a large one.
pub const PAGE: u64 = 0x1000;
pub const MEGAPAGE: u64 = 0x20_0000;

/// Where page tables lie. Another number of tables begins [`TABLES_STEP`] further on.
pub const TABLES: u64 = 0x8200_0000;
const TABLES_STEP: u64 = 0x1_0000;

/// Bits of entries: valid, readable, writable, executable, global, accessed, dirty.
const TABLE: u64 = 0x01;
pub const RWX: u64 = 0xcf;
const GLOBAL: u64 = 0x20;
pub const DIRTY: u64 = 0x80;

/// Tables of a hart, and what it does after them.
#[derive(Clone, Copy)]
pub struct Paged {
    levels: u64,
    tables: u64,
    asid: u64,
    /// Bits to be inverted in the entries of small pages.
    change: u64,
}

impl Paged {
    /// Sv39, the first tables, address space 1.
    pub fn new() -> Self {
        Self {
            levels: 3,
            tables: TABLES,
            asid: 1,
            change: 0,
        }
    }

    /// Sv48.
    pub fn four_levels(self) -> Self {
        Self { levels: 4, ..self }
    }

    /// Tables of its own, number `n`.
    pub fn tables(self, n: u64) -> Self {
        Self {
            tables: TABLES + n * TABLES_STEP,
            ..self
        }
    }

    /// Another address space number.
    pub fn asid(self, asid: u64) -> Self {
        Self { asid, ..self }
    }

    /// Small pages are global.
    pub fn global(self) -> Self {
        Self {
            change: self.change | GLOBAL,
            ..self
        }
    }

    /// Small pages have not been written.
    pub fn clean(self) -> Self {
        Self {
            change: self.change | DIRTY,
            ..self
        }
    }

    /// Address of the entry of small page `n`.
    pub fn entry(self, n: u64) -> u64 {
        self.tables + 3 * PAGE + 8 * n
    }

    /// `code` in supervisor mode. a0 is [`PAGES`], a1 [`MEGAPAGES`], a2 the size of a small page.
    pub fn program(self, code: &str) -> String {
        let entry = |addr: u64, bits: u64| addr >> 12 << 10 | bits;
        let [gigapages, middle, small] = [1, 2, 3].map(|n| self.tables + n * PAGE);
        let (root, mode) = match self.levels {
            4 => (self.tables, 9_u64),
            _ => (gigapages, 8),
        };
        let satp = mode << 60 | self.asid << 44 | root >> 12;
        let put = |at: u64, entry: u64| format!("li t1, {at}; li t0, {entry}; sd t0, 0(t1)");
        [
            // All of physical memory is open to lower modes.
            "li t0, -1; csrrw x0, 0x3b0, t0; li t0, 31; csrrw x0, 0x3a0, t0".to_owned(),
            // So are the clocks.
            "li t0, 7; csrrw x0, 0x306, t0".to_owned(),
            put(self.tables, entry(gigapages, TABLE)),
            put(gigapages, entry(0, RWX)),
            put(gigapages + 8, entry(middle, TABLE)),
            put(gigapages + 16, entry(0x8000_0000, RWX)),
            put(middle, entry(small, TABLE)),
            format!(
                "li t1, {}; li t0, {}; li t2, {}; li t3, 16
                 large: sd t0, 0(t1); addi t1, t1, 8; add t0, t0, t2; addi t3, t3, -1; bnez t3, large",
                middle + 8 * ((MEGAPAGES - PAGES) / MEGAPAGE),
                entry(DATA, RWX),
                entry(MEGAPAGE, 0)
            ),
            format!(
                "li t1, {small}; li t0, {}; li t2, {}; li t3, 512
                 small: sd t0, 0(t1); addi t1, t1, 8; add t0, t0, t2; addi t3, t3, -1; bnez t3, small",
                entry(DATA + MEGAPAGE - PAGE, RWX ^ self.change),
                -(entry(PAGE, 0) as i64)
            ),
            format!("li t0, {}; csrrw x0, 0x180, t0", satp as i64),
            // To supervisor mode, 24 bytes after the auipc.
            "li t0, 0x800; csrrw x0, 0x300, t0; fence rw, rw".to_owned(),
            "auipc t1, 0; addi t1, t1, 16; csrrw x0, 0x341, t1; mret".to_owned(),
            format!("li a0, {PAGES}; li a1, {MEGAPAGES}; li a2, {PAGE}"),
            code.to_owned(),
        ]
        .join("\n")
    }
}
