//! Physical memory protection (privileged manual, "Physical Memory Protection").

use serde::{Deserialize, Serialize};

use super::Privilege;
use crate::translate::Access;

/// Entries that a hart has; those above read as zero. QEMU's `virt` has as many.
pub(crate) const ENTRIES: usize = 16;

const READ: u8 = 1;
const WRITE: u8 = 2;
const EXECUTE: u8 = 4;
const MODE_SHIFT: u32 = 3;
const LOCKED: u8 = 1 << 7;
/// Bits 6 and 5 are reserved.
const WRITABLE: u8 = 0x9f;
/// `pmpaddr` holds bits 55:2 of an address.
const ADDRESS_MASK: u64 = (1 << 54) - 1;

/// The entries of one hart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Registers", into = "Registers")]
pub(crate) struct Pmp {
    config: [u8; ENTRIES],
    addr: [u64; ENTRIES],
    /// First byte and one past the last of each entry that is on; empty otherwise.
    ranges: [(u128, u128); ENTRIES],
}

/// The entries as a snapshot keeps them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Registers {
    config: [u8; ENTRIES],
    addr: [u64; ENTRIES],
}

impl From<Pmp> for Registers {
    fn from(Pmp { config, addr, .. }: Pmp) -> Self {
        Self { config, addr }
    }
}

impl From<Registers> for Pmp {
    fn from(Registers { config, addr }: Registers) -> Self {
        let mut pmp = Self {
            config,
            addr,
            ..Self::new()
        };
        pmp.update();
        pmp
    }
}

/// What the entries say of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) allowed: bool,
    /// Whether the same holds for every access of this kind to the page.
    pub(crate) whole_page: bool,
}

impl Pmp {
    pub(crate) fn new() -> Self {
        Self {
            config: [0; ENTRIES],
            addr: [0; ENTRIES],
            ranges: [(0, 0); ENTRIES],
        }
    }

    /// Register `pmpcfg{n}`, `n` even: eight entries.
    pub(crate) fn config(&self, n: usize) -> u64 {
        let mut bytes = [0; 8];
        if let Some(config) = self.config.get(4 * n..4 * n + 8) {
            bytes.copy_from_slice(config);
        }
        u64::from_le_bytes(bytes)
    }

    /// Writes `pmpcfg{n}`; what is locked stays.
    pub(crate) fn set_config(&mut self, n: usize, value: u64) {
        for (entry, new) in (4 * n..).zip(value.to_le_bytes()) {
            if entry < ENTRIES && self.config[entry] & LOCKED == 0 {
                self.config[entry] = new & WRITABLE;
            }
        }
        self.update();
    }

    /// Register `pmpaddr{n}`.
    pub(crate) fn addr(&self, n: usize) -> u64 {
        self.addr.get(n).copied().unwrap_or(0)
    }

    /// Writes `pmpaddr{n}`, unless it is locked, or is the lower end of a locked range.
    pub(crate) fn set_addr(&mut self, n: usize, value: u64) {
        let is_locked = |n: usize| self.config.get(n).is_some_and(|&c| c & LOCKED != 0);
        let ends_above = is_locked(n + 1) && mode(self.config[n + 1]) == Mode::Tor;
        if n < ENTRIES && !is_locked(n) && !ends_above {
            self.addr[n] = value & ADDRESS_MASK;
            self.update();
        }
    }

    /// Whether `privilege` may access `bytes` bytes from `addr` on, which lie in one page.
    pub(crate) fn check(
        &self,
        addr: u64,
        bytes: u64,
        privilege: Privilege,
        access: Access,
    ) -> Verdict {
        let first = u128::from(addr);
        let (last, page) = (first + u128::from(bytes), first & !0xfff);
        let mut whole_page = true;
        for (&config, &(start, end)) in self.config.iter().zip(&self.ranges) {
            let touches_page = start < page + 0x1000 && page < end;
            if !touches_page {
                continue;
            }
            let covers_page = start <= page && page + 0x1000 <= end;
            whole_page &= covers_page;
            if !(start < last && first < end) {
                continue;
            }
            // Part of an access does not match: it fails whatever the entry allows.
            let covers = start <= first && last <= end;
            let bit = match access {
                Access::Fetch => EXECUTE,
                Access::Load => READ,
                Access::Store => WRITE,
            };
            let exempt = privilege == Privilege::Machine && config & LOCKED == 0;
            let allowed = covers && (exempt || config & bit != 0);
            return Verdict {
                allowed,
                whole_page,
            };
        }
        Verdict {
            allowed: privilege == Privilege::Machine,
            whole_page,
        }
    }

    fn update(&mut self) {
        let mut below = 0;
        for n in 0..ENTRIES {
            let addr = self.addr[n];
            let here = u128::from(addr) << 2;
            self.ranges[n] = match mode(self.config[n]) {
                Mode::Off => (0, 0),
                Mode::Tor if below < here => (below, here),
                Mode::Tor => (0, 0),
                Mode::Na4 => (here, here + 4),
                Mode::Napot => {
                    let ones = addr.trailing_ones();
                    let bytes = 8_u128 << ones;
                    let start = u128::from(addr >> ones) << (ones + 2);
                    (start, start + bytes)
                }
            };
            below = here;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Off,
    Tor,
    Na4,
    Napot,
}

fn mode(config: u8) -> Mode {
    match config >> MODE_SHIFT & 3 {
        0 => Mode::Off,
        1 => Mode::Tor,
        2 => Mode::Na4,
        _ => Mode::Napot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOR: u64 = 1 << 3;
    const NA4: u64 = 2 << 3;
    const NAPOT: u64 = 3 << 3;
    const RWX: u64 = 7;

    fn allows(pmp: &Pmp, addr: u64, bytes: u64, privilege: Privilege) -> bool {
        pmp.check(addr, bytes, privilege, Access::Load).allowed
    }

    #[test]
    fn without_entries_only_machine_mode_may() {
        let pmp = Pmp::new();
        assert!(allows(&pmp, 0x8000_0000, 8, Privilege::Machine));
        assert!(!allows(&pmp, 0x8000_0000, 8, Privilege::Supervisor));
    }

    #[test]
    fn naturally_aligned_ranges_end_where_they_say() {
        let mut pmp = Pmp::new();
        // 8 KiB from 0x8000_0000.
        pmp.set_addr(0, 0x8000_0000 >> 2 | 0x3ff);
        pmp.set_config(0, NAPOT | 1);
        let user = Privilege::User;
        assert!(allows(&pmp, 0x8000_0000, 8, user));
        assert!(allows(&pmp, 0x8000_1ff8, 8, user));
        assert!(!allows(&pmp, 0x8000_1ffc, 8, user), "half of it is outside");
        assert!(!allows(&pmp, 0x8000_2000, 1, user));
        assert!(!pmp.check(0x8000_0000, 4, user, Access::Store).allowed);
        assert!(pmp.check(0x8000_0000, 4, user, Access::Load).whole_page);
    }

    #[test]
    fn the_first_match_decides_and_parts_of_a_page_are_told() {
        let mut pmp = Pmp::new();
        pmp.set_addr(0, 0x8000_0010 >> 2);
        pmp.set_addr(1, u64::MAX);
        pmp.set_config(0, NA4 | (NAPOT | RWX) << 8);
        let verdict = pmp.check(0x8000_0010, 4, Privilege::User, Access::Load);
        assert!(!verdict.allowed && !verdict.whole_page);
        let verdict = pmp.check(0x8000_0014, 4, Privilege::User, Access::Load);
        assert!(verdict.allowed && !verdict.whole_page);
        let verdict = pmp.check(0x8000_1010, 4, Privilege::User, Access::Load);
        assert!(verdict.allowed && verdict.whole_page);
    }

    #[test]
    fn a_locked_range_binds_machine_mode_and_keeps_both_its_ends() {
        let mut pmp = Pmp::new();
        pmp.set_addr(0, 0x1000 >> 2);
        pmp.set_addr(1, 0x2000 >> 2);
        pmp.set_config(0, (TOR | u64::from(LOCKED)) << 8);
        assert!(!allows(&pmp, 0x1000, 4, Privilege::Machine));
        assert!(allows(&pmp, 0xffc, 4, Privilege::Machine));
        assert!(allows(&pmp, 0x2000, 4, Privilege::Machine));
        pmp.set_addr(0, 0);
        pmp.set_addr(1, 0);
        pmp.set_config(0, 0);
        assert_eq!((pmp.addr(0), pmp.addr(1)), (0x400, 0x800));
        assert_eq!(pmp.config(0), (TOR | u64::from(LOCKED)) << 8);
        pmp.set_addr(2, u64::MAX);
        assert_eq!(pmp.addr(2), ADDRESS_MASK);
        pmp.set_addr(ENTRIES, 1);
        assert_eq!(pmp.addr(ENTRIES), 0);
        assert_eq!(pmp.config(4), 0);
    }
}
