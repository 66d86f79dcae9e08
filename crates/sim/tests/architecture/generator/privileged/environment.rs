//! Environments: the privileged state that a block runs in. A program has a table of random ones,
//! and each block that begins takes the next, so that the same code runs in many.

use super::super::exclusions::{Exclusion, Target};
use super::super::random::Random;
use super::super::state;
use super::layout::{DATA_FRAMES, FRAMES, RAM, SPAN, TABLES, frame};
use super::spaces::Spaces;

/// Bytes of an environment in the table.
pub(super) const BYTES: u64 = 512;
/// Environments of a program. Prime, so that blocks and environments meet in all pairs.
pub(super) const COUNT: u64 = 61;

/// Fields that are written to a register as they are: register and offset.
pub(super) const PLAIN: [(u16, i32); 10] = [
    (state::MIDELEG, 0),
    (state::MIE, 8),
    (state::MCOUNTEREN, 16),
    (state::SCOUNTEREN, 24),
    (state::SENVCFG, 32),
    (state::SATP, 40),
    // Whether the timer of supervisor mode or a store to mip drives its interrupt, then both.
    (state::MENVCFG, 48),
    (state::STIMECMP, 56),
    (state::MIP, 64),
    (state::SCAUSE, 72),
];
/// Other fields: offsets.
pub(super) const MEDELEG: i32 = 80;
pub(super) const STATUS: i32 = 88;
pub(super) const SUPERVISOR_STEP: i32 = 96;
pub(super) const USER_STEP: i32 = 104;
pub(super) const SUPERVISOR_VECTORED: i32 = 112;
pub(super) const MACHINE_VECTORED: i32 = 120;
pub(super) const SOFTWARE: i32 = 128;
pub(super) const TIMER: i32 = 136;
pub(super) const NEST: i32 = 144;
pub(super) const PMPCFG: i32 = 152;
pub(super) const PMPADDR: i32 = 168;
/// Entries of physical memory protection that are random; the next one grants everything.
pub(super) const PMP_ENTRIES: usize = 14;
const FIELDS: usize = (PMPADDR as usize) / 8 + PMP_ENTRIES + 1;

const SIE: u64 = 1 << 1;
const SPIE: u64 = 1 << 5;
const MPIE: u64 = 1 << 7;
const SUM: u64 = 1 << 18;
const MXR: u64 = 1 << 19;
const TVM: u64 = 1 << 20;
const TW: u64 = 1 << 21;
const TSR: u64 = 1 << 22;
const ILLEGAL: u64 = 1 << 2;
/// Access faults of loads and of stores.
const LOAD_ACCESS: u64 = 1 << 5;
const STORE_ACCESS: u64 = 1 << 7;
const SUPERVISOR_CALL: u64 = 1 << 9;
/// Exceptions that can be delegated, but for those of the hypervisor.
const EXCEPTIONS: u64 = 0xb3ff;
const SUPERVISOR_INTERRUPTS: u64 = 0x222;
const INTERRUPTS: u64 = 0xaaa;
/// Supervisor timer compare enabled; hardware updates accessed and dirty.
const TIMER_COMPARE: u64 = 1 << 63;
const HARDWARE_UPDATES: u64 = 1 << 61;

/// Ways to tell a region: to its top from the entry before, four bytes, a power of two. The last is
/// the whole field too.
const TOR: u8 = 1 << 3;
const NA4: u8 = 2 << 3;
const NAPOT: u8 = 3 << 3;

/// What the entries of physical memory protection look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    /// One entry grants everything.
    Open,
    /// Regions of whole pages.
    Pages,
    /// Regions of four bytes and more.
    Fine,
}

/// Makes the environments of a program.
pub(super) struct Environments<'a> {
    pub(super) random: &'a mut Random,
    pub(super) spaces: &'a Spaces,
    pub(super) protection: Protection,
    pub(super) target: Target,
    /// Whether supervisor mode sees its code only where it lies in RAM.
    pub(super) identity: bool,
    /// Entries that stay as they are once written: configuration and address.
    pub(super) locked: Vec<(u8, u64)>,
}

impl Environments<'_> {
    /// The table as it lies in memory.
    pub(super) fn bytes(&mut self) -> Vec<u8> {
        let environments = (0..COUNT).map(|_| self.environment());
        let padded = environments.map(|mut words: Vec<u64>| {
            assert_eq!(words.len(), FIELDS);
            words.resize(BYTES as usize / 8, 0);
            words
        });
        let words: Vec<u64> = padded.flatten().collect();
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// `value` in so many of a hundred cases, else 0.
    fn sometimes(&mut self, percent: u64, value: u64) -> u64 {
        if self.random.chance(percent) {
            value
        } else {
            0
        }
    }

    fn environment(&mut self) -> Vec<u64> {
        let bare = self.random.chance(15);
        let satp = if bare {
            0
        } else {
            self.random.pick(&self.spaces.satp)
        };
        let interrupts = self.random.chance(60);
        let any = |random: &mut Random, mask: u64| {
            if interrupts {
                random.next() & random.next() & mask
            } else {
                0
            }
        };
        let mie = any(self.random, INTERRUPTS);
        let mip = any(self.random, SUPERVISOR_INTERRUPTS);
        let software = any(self.random, 1);
        let timer = any(self.random, 1).wrapping_sub(1);
        let compare = self.random.next() & TIMER_COMPARE;
        let due = if compare != 0 {
            any(self.random, 1).wrapping_sub(1)
        } else {
            u64::MAX
        };
        let nest = self.sometimes(15, 1);
        let status = self.sometimes(50, SUM)
            | self.sometimes(50, MXR)
            | self.sometimes(15, TVM)
            | self.sometimes(20, TW)
            | self.sometimes(15, TSR)
            | self.random.next() & (SIE | SPIE | MPIE);
        let mut delegated = self.random.next() & EXCEPTIONS;
        if self.random.chance(15) {
            delegated = EXCEPTIONS;
        }
        if self.target.excludes(Exclusion::AtomicCause) {
            delegated = delegated & !STORE_ACCESS | (delegated & LOAD_ACCESS) << 2;
        }
        if status & (TVM | TSR) != 0 {
            // Their traps are the machine's, which makes up for them.
            delegated &= !ILLEGAL;
        }
        if nest != 0 {
            delegated &= !SUPERVISOR_CALL;
        }
        let away = |base: u64| if bare { 0 } else { base.wrapping_sub(RAM) };
        let counters = [self.random.next(), self.random.next() | 7];
        let seen = self.random.pick(&counters) & 0xffff_ffff;
        let supervisor_seen = self.random.pick(&counters) & 0xffff_ffff;
        let step = if self.identity || self.random.chance(50) {
            0
        } else {
            away(self.spaces.plan.supervisor)
        };
        let mut words = vec![
            self.random.next() & SUPERVISOR_INTERRUPTS,
            mie,
            seen,
            supervisor_seen,
            self.random.next() & 1,
            satp,
            self.random.next() & 1 | compare | HARDWARE_UPDATES,
            due,
            mip,
            self.random.next(),
            delegated,
            status,
            step,
            away(self.spaces.plan.user),
            self.random.next() & 1,
            self.random.next() & 1,
            software,
            timer,
            nest,
        ];
        words.extend(self.protection());
        words
    }

    /// Two configuration registers and the addresses.
    fn protection(&mut self) -> Vec<u64> {
        let mut configuration = [0_u8; 16];
        let mut addresses = [0; PMP_ENTRIES + 1];
        let used = match self.protection {
            Protection::Open => 0,
            _ => self.random.below(PMP_ENTRIES as u64 + 1) as usize,
        };
        for n in 0..used {
            (configuration[n], addresses[n]) = self.region(false);
        }
        for (n, &(byte, address)) in self.locked.iter().enumerate() {
            (configuration[n], addresses[n]) = (byte, address);
        }
        for n in 0..used {
            // A range begins where the entry before it says, which must lie between two pages.
            let before = n.checked_sub(1).map(|n| configuration[n] & NAPOT);
            if configuration[n] & NAPOT == TOR && !matches!(before, Some(0 | TOR)) {
                configuration[n] &= !NAPOT;
            }
        }
        // Everything, by an address of all ones.
        (configuration[PMP_ENTRIES], addresses[PMP_ENTRIES]) = (0x1f, u64::MAX >> 10);
        let halves = configuration.chunks(8);
        let mut words: Vec<u64> = halves
            .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
            .collect();
        words.extend(addresses);
        words
    }

    /// An entry for some frames: its configuration and address.
    pub(super) fn region(&mut self, lock: bool) -> (u8, u64) {
        // Writable without readable is reserved.
        let permissions = self.random.pick(&[0, 1, 3, 4, 5, 7, 1, 3]);
        let byte = permissions | if lock { 0x80 } else { 0 };
        if !lock && self.random.chance(8) {
            // A page of page tables that the walk may not read, or not write; those above may hold entries
            // for code, too.
            let entry = self.random.pick(&self.spaces.entries);
            if entry.level < 2 {
                let byte = match self.target.excludes(Exclusion::ProtectedTable) {
                    true => self.random.pick(&[0, 4]),
                    false => self.random.pick(&[0, 4, 1, 5]),
                };
                let byte = byte | NAPOT;
                return (byte, napot(entry.at & !(SPAN[0] - 1), SPAN[0]));
            }
        }
        let fine = self.protection == Protection::Fine;
        let n = self.random.below(DATA_FRAMES.len() as u64 + 2);
        let page = match DATA_FRAMES.get(n as usize) {
            Some(&n) => frame(n),
            // The pages of code.
            None => frame(8 + 2 * (n & 1)),
        };
        if fine && page < frame(8) {
            let within = page + self.random.below(SPAN[0] / 4) * 4;
            return match self.random.below(4) {
                0 => (byte | NA4, within >> 2),
                1 => (byte | TOR, within >> 2),
                2 => (byte, within >> 2),
                _ => {
                    let size = 8 << self.random.below(9);
                    (byte | NAPOT, napot(within & !(size - 1), size))
                }
            };
        }
        match self.random.below(4) {
            0 => (byte | TOR, page >> 2),
            // Off, but the lower end of the next one.
            1 => (byte, page >> 2),
            _ => {
                let size = SPAN[0] << self.random.below(3);
                let size = if self.random.chance(5) { SPAN[1] } else { size };
                (
                    byte | NAPOT,
                    napot(page & !(size - 1) & !(SPAN[0] - 1), size),
                )
            }
        }
    }
}

/// The address register of the naturally aligned region of `size` bytes at `base`.
fn napot(base: u64, size: u64) -> u64 {
    debug_assert!((TABLES..FRAMES + SPAN[1]).contains(&base));
    base >> 2 | ((size >> 3) - 1)
}
