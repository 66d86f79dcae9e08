//! Which first levels may have which of their lines: what the banks of the second level decide by.
//!
//! The rules are those of the OpenSPARC T1 (sctag_arbctl.v, "Bank enable" and "Invalidate mask" of both directories).
//! A store takes its data line from all other cores and its instruction line from all, its own included. An atomic takes
//! both from all. A load that comes to the bank takes the instruction line from its own core, and a fetch the data lines
//! that overlap: no core has a line in both caches. The replacement of a line of the second level takes all parts of it
//! from all.
//!
//! A core that has replaced a line stands here until the line is taken; it then gives up what it does not have, which is
//! nothing.

use loiter_types::{CoreId, PhysAddr};
use serde::{Deserialize, Serialize};

use crate::request::{Lost, RequestKind};

/// A first-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Which {
    Instructions,
    Data,
}

/// A first-level line that its core has to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Taken {
    pub(super) core: CoreId,
    pub(super) which: Which,
    /// Its number in that cache.
    pub(super) line: u64,
    pub(super) why: Lost,
}

/// The directory of all banks, by index of a line of the second level.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Directory {
    line_log2: u32,
    data_log2: u32,
    instructions_log2: u32,
    /// Data lines of a line of the second level; instruction lines follow them.
    data_parts: usize,
    parts: usize,
    /// Words of a set of cores.
    words: usize,
    holders: Vec<u64>,
}

impl Directory {
    /// Of `lines` lines of `1 << line_log2` bytes, for so many cores, whose instruction and data lines are no longer.
    pub(super) fn new(
        lines: usize,
        line_log2: u32,
        [instructions_log2, data_log2]: [u32; 2],
        cores: usize,
    ) -> Self {
        let data_parts = 1 << (line_log2 - data_log2);
        let parts = data_parts + (1 << (line_log2 - instructions_log2));
        let words = cores.div_ceil(64);
        Self {
            line_log2,
            data_log2,
            instructions_log2,
            data_parts,
            parts,
            words,
            holders: vec![0; lines * parts * words],
        }
    }

    fn data_part(&self, addr: PhysAddr) -> usize {
        (addr.0 as usize & ((1 << self.line_log2) - 1)) >> self.data_log2
    }

    fn instructions_part(&self, addr: PhysAddr) -> usize {
        let within = addr.0 as usize & ((1 << self.line_log2) - 1);
        self.data_parts + (within >> self.instructions_log2)
    }

    fn base(&self, index: usize, part: usize) -> usize {
        (index * self.parts + part) * self.words
    }

    fn add(&mut self, index: usize, part: usize, core: CoreId) {
        let word = self.base(index, part) + core.index() / 64;
        self.holders[word] |= 1 << (core.index() % 64);
    }

    fn has(&self, index: usize, part: usize, core: CoreId) -> bool {
        let word = self.base(index, part) + core.index() / 64;
        self.holders[word] >> (core.index() % 64) & 1 != 0
    }

    /// Takes `part` from `core`, if that may have it.
    fn take_from(
        &mut self,
        index: usize,
        part: usize,
        core: CoreId,
        take: &mut impl FnMut(CoreId),
    ) {
        if self.has(index, part, core) {
            let word = self.base(index, part) + core.index() / 64;
            self.holders[word] &= !(1 << (core.index() % 64));
            take(core);
        }
    }

    /// Takes `part` from all cores but `keeps`.
    fn take(
        &mut self,
        index: usize,
        part: usize,
        keeps: Option<CoreId>,
        take: &mut impl FnMut(CoreId),
    ) {
        let base = self.base(index, part);
        for word in 0..self.words {
            let spared = match keeps {
                Some(core) if core.index() / 64 == word => 1 << (core.index() % 64),
                _ => 0,
            };
            let holders = &mut self.holders[base + word];
            let mut takes = *holders & !spared;
            *holders &= spared;
            while takes != 0 {
                take(CoreId::new(word * 64 + takes.trailing_zeros() as usize));
                takes &= takes - 1;
            }
        }
    }

    /// A request of `core` for `addr`, in the line at `index`, performs: notes what its first level has then, and puts
    /// into `taken` what first levels have to give up.
    pub(super) fn step(
        &mut self,
        index: usize,
        kind: RequestKind,
        core: CoreId,
        addr: PhysAddr,
        taken: &mut Vec<Taken>,
    ) {
        let (data, instructions) = (self.data_part(addr), self.instructions_part(addr));
        let of = |which, line, why| {
            move |core| Taken {
                core,
                which,
                line,
                why,
            }
        };
        let data_line = addr.block(self.data_log2);
        let instructions_line = addr.block(self.instructions_log2);
        match kind {
            RequestKind::Fetch => {
                self.add(index, instructions, core);
                let first = PhysAddr(instructions_line << self.instructions_log2);
                let ends = 1 << self.instructions_log2.max(self.data_log2);
                for offset in (0..ends).step_by(1 << self.data_log2) {
                    let addr = PhysAddr(first.0 + offset);
                    let of = of(Which::Data, addr.block(self.data_log2), Lost::Evicted);
                    let part = self.data_part(addr);
                    self.take_from(index, part, core, &mut |core| taken.push(of(core)));
                }
            }
            RequestKind::Load | RequestKind::Reserve => {
                self.add(index, data, core);
                let first = PhysAddr(data_line << self.data_log2);
                let ends = 1 << self.instructions_log2.max(self.data_log2);
                for offset in (0..ends).step_by(1 << self.instructions_log2) {
                    let addr = PhysAddr(first.0 + offset);
                    let line = addr.block(self.instructions_log2);
                    let of = of(Which::Instructions, line, Lost::Evicted);
                    let part = self.instructions_part(addr);
                    self.take_from(index, part, core, &mut |core| taken.push(of(core)));
                }
            }
            RequestKind::Store | RequestKind::Atomic | RequestKind::Conditional => {
                let keeps = (kind == RequestKind::Store).then_some(core);
                let of_data = of(Which::Data, data_line, Lost::Written);
                self.take(index, data, keeps, &mut |core| taken.push(of_data(core)));
                let of_code = of(Which::Instructions, instructions_line, Lost::Written);
                self.take(index, instructions, None, &mut |core| {
                    taken.push(of_code(core))
                });
            }
            _ => {}
        }
    }

    /// The line at `index`, number `line`, is replaced: puts into `taken` what first levels have to give up.
    pub(super) fn evict(&mut self, index: usize, line: u64, taken: &mut Vec<Taken>) {
        for part in 0..self.parts {
            let (which, line) = match part.checked_sub(self.data_parts) {
                None => {
                    let data = line << (self.line_log2 - self.data_log2);
                    (Which::Data, data + part as u64)
                }
                Some(part) => {
                    let code = line << (self.line_log2 - self.instructions_log2);
                    (Which::Instructions, code + part as u64)
                }
            };
            self.take(index, part, None, &mut |core| {
                taken.push(Taken {
                    core,
                    which,
                    line,
                    why: Lost::Evicted,
                });
            });
        }
    }

    /// Whether the directory knows that `core` may have the line of `addr`, in the line at `index`, in that cache.
    #[cfg(test)]
    pub(super) fn knows(&self, index: usize, core: CoreId, which: Which, addr: PhysAddr) -> bool {
        let part = match which {
            Which::Data => self.data_part(addr),
            Which::Instructions => self.instructions_part(addr),
        };
        self.has(index, part, core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 64;
    const BASE: u64 = 0x8000_0000;
    const INDEX: usize = 3;

    /// 64-byte lines, with 32-byte instruction lines and 16-byte data lines, as in the T1; 70 cores.
    fn directory() -> Directory {
        Directory::new(8, 6, [5, 4], 70)
    }

    fn step(
        directory: &mut Directory,
        kind: RequestKind,
        core: u16,
        offset: u64,
    ) -> Vec<(u16, Which, u64)> {
        let mut taken = Vec::new();
        let addr = PhysAddr(BASE + offset);
        directory.step(INDEX, kind, CoreId(core), addr, &mut taken);
        let short = |taken: &Taken| (taken.core.0, taken.which, taken.line);
        taken.iter().map(short).collect()
    }

    fn data(offset: u64) -> u64 {
        (BASE + offset) / 16
    }

    fn code(offset: u64) -> u64 {
        (BASE + offset) / 32
    }

    #[test]
    fn a_store_takes_its_data_line_from_others_and_its_instruction_line_from_all() {
        use RequestKind::{Fetch, Load, Store};
        let mut directory = directory();
        for core in [0, 5, 69] {
            step(&mut directory, Load, core, 0x10);
            step(&mut directory, Load, core, 0x20);
        }
        for core in [1, 2] {
            step(&mut directory, Fetch, core, 0x00);
        }
        let taken = step(&mut directory, Store, 5, 0x18);
        let [d, i] = [data(0x10), code(0x00)];
        let expected = [
            (0, Which::Data, d),
            (69, Which::Data, d),
            (1, Which::Instructions, i),
            (2, Which::Instructions, i),
        ];
        assert_eq!(taken, expected);
        // They do not have it any more; its own core has. The other line of the four is untouched.
        assert_eq!(step(&mut directory, Store, 5, 0x1f), []);
        let own = [(5, Which::Data, d)];
        assert_eq!(step(&mut directory, Store, 0, 0x10), own);
        assert_eq!(step(&mut directory, Store, 7, 0x20).len(), 3);
    }

    #[test]
    fn an_atomic_takes_both_from_all() {
        use RequestKind::{Atomic, Conditional, Fetch, Reserve};
        for kind in [Atomic, Conditional] {
            let mut directory = directory();
            step(&mut directory, Fetch, 1, 0x20);
            step(&mut directory, Reserve, 0, 0x30);
            let taken = step(&mut directory, kind, 0, 0x38);
            let expected = [
                (0, Which::Data, data(0x30)),
                (1, Which::Instructions, code(0x20)),
            ];
            assert_eq!(taken, expected, "{kind:?}");
            assert_eq!(step(&mut directory, kind, 3, 0x38), []);
        }
    }

    #[test]
    fn no_core_has_a_line_in_both_caches() {
        use RequestKind::{Fetch, Load};
        let mut directory = directory();
        step(&mut directory, Load, 0, 0x00);
        step(&mut directory, Load, 0, 0x10);
        step(&mut directory, Load, 0, 0x20);
        step(&mut directory, Load, 1, 0x10);
        let taken = step(&mut directory, Fetch, 0, 0x1c);
        let expected = [(0, Which::Data, data(0x00)), (0, Which::Data, data(0x10))];
        assert_eq!(taken, expected);
        let taken = step(&mut directory, Load, 0, 0x08);
        assert_eq!(taken, [(0, Which::Instructions, code(0x00))]);
        // Data lines that are longer than instruction lines.
        let mut long = Directory::new(8, 6, [4, 6], 2);
        step(&mut long, Fetch, 0, 0x10);
        step(&mut long, Fetch, 0, 0x30);
        let taken = step(&mut long, Load, 0, 0x00);
        let lines = [0x10, 0x30].map(|offset| (0, Which::Instructions, (BASE + offset) / 16));
        assert_eq!(taken, lines);
        let taken = step(&mut long, Fetch, 0, 0x20);
        assert_eq!(taken, [(0, Which::Data, BASE / 64)]);
    }

    #[test]
    fn replacement_takes_every_part_from_everybody() {
        use RequestKind::{Fetch, Load};
        let mut directory = directory();
        step(&mut directory, Load, 0, 0x30);
        step(&mut directory, Load, 69, 0x00);
        step(&mut directory, Fetch, 4, 0x20);
        let mut taken = Vec::new();
        directory.evict(INDEX, BASE / LINE, &mut taken);
        let found: Vec<_> = taken
            .iter()
            .map(|it| (it.core.0, it.which, it.line))
            .collect();
        let expected = [
            (69, Which::Data, data(0x00)),
            (0, Which::Data, data(0x30)),
            (4, Which::Instructions, code(0x20)),
        ];
        assert_eq!(found, expected);
        assert!(taken.iter().all(|it| it.why == Lost::Evicted));
        taken.clear();
        directory.evict(INDEX, BASE / LINE, &mut taken);
        assert_eq!(taken, []);
    }
}
