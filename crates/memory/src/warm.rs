//! Accesses without time, for tags to be what they would be: nothing is counted, sent or waited for.

use loiter_types::{CoreId, PhysAddr};

use crate::cache::Lookup;
use crate::l2::SHARER_WORDS;
use crate::request::RequestKind;
use crate::system::{MemorySystem, cores_of, fill, fill_data};

impl MemorySystem {
    /// `core` has made an access to RAM at `addr`.
    pub fn warm(&mut self, core: CoreId, kind: RequestKind, addr: PhysAddr) {
        let first = &mut self.first[core.index()];
        let hit = match kind {
            RequestKind::Fetch => {
                let line = first.instructions.line(addr);
                first.instructions.access(line) != Lookup::Miss
            }
            RequestKind::Load => {
                let line = first.data.line(addr);
                first.data.access(line) != Lookup::Miss
            }
            RequestKind::Own => {
                let line = first.data.line(addr);
                matches!(first.data.access(line), Lookup::Hit(index) if first.owned[index])
            }
            _ => false,
        };
        if !hit {
            self.warm_second_level(core, kind, addr);
        }
    }

    fn warm_second_level(&mut self, core: CoreId, kind: RequestKind, addr: PhysAddr) {
        let line = self.l2.line(addr);
        let (index, replaced) = self.l2.warm(line, kind.writes());
        if let Some((line, sharers)) = replaced {
            self.take_out(line, sharers, None);
        }
        if let Some(owner) = self.l2.lines[index].owner.filter(|&owner| owner != core) {
            self.l2.lines[index].owner = None;
            self.disown(owner, line);
        }
        let sharers = self.l2.lines[index].sharers;
        match kind {
            RequestKind::Fetch => {
                self.share(index, core);
                fill(
                    &mut self.first[core.index()].instructions,
                    &self.l2,
                    core,
                    addr,
                );
            }
            RequestKind::Load => {
                self.share(index, core);
                fill_data(&mut self.first[core.index()], &self.l2, core, addr);
            }
            RequestKind::Own => {
                self.take_out(line, sharers, Some(core));
                self.l2.lines[index].sharers = [0; SHARER_WORDS];
                self.l2.lines[index].owner = Some(core);
                self.share(index, core);
                self.fill_owned(core, addr);
            }
            RequestKind::Walk | RequestKind::Device => {}
            kind => unreachable!("{kind:?} is of other memory systems"),
        }
    }

    /// The first levels of `sharers`, but for that of the core that keeps it, lose a second-level line.
    fn take_out(&mut self, line: u64, sharers: [u64; SHARER_WORDS], keeps: Option<CoreId>) {
        for core in cores_of(sharers) {
            if Some(core) != keeps {
                self.lose(core, line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use loiter_types::{ContextId, Cycle};

    use super::*;
    use crate::request::{Level, Request};
    use crate::system::tests::config;

    const CORES: [CoreId; 2] = [CoreId(0), CoreId(1)];
    const ADDR: PhysAddr = PhysAddr(0x8000_1240);

    #[test]
    fn what_was_accessed_hits_and_nothing_was_counted() {
        let [one, other] = CORES;
        let mut memory = MemorySystem::new(config()).unwrap();
        memory.warm(one, RequestKind::Fetch, ADDR);
        memory.warm(one, RequestKind::Load, ADDR);
        let (instructions, data) = memory.l1_counters(one);
        assert_eq!(
            (instructions.accesses, data.accesses, data.misses),
            (0, 0, 0)
        );
        assert_eq!(
            (memory.l2_counters().accesses, memory.next()),
            (0, Cycle::NEVER)
        );
        assert!(memory.fetch(one, ADDR) && memory.load(one, ADDR));
        assert!(
            !memory.load(other, ADDR),
            "each core has its own first level"
        );
        let request = Request {
            kind: RequestKind::Load,
            core: other,
            context: ContextId(0),
            addr: ADDR,
            tag: 0,
        };
        assert_eq!(memory.send(Cycle(1), request), Level::L2);
    }

    #[test]
    fn who_owns_a_line_takes_it_from_others() {
        let [one, other] = CORES;
        let mut memory = MemorySystem::new(config()).unwrap();
        for core in CORES {
            memory.warm(core, RequestKind::Load, ADDR);
        }
        memory.warm(one, RequestKind::Own, ADDR);
        assert!(memory.load(one, ADDR) && !memory.load(other, ADDR));
        assert!(memory.store(one, ADDR));
        memory.warm(other, RequestKind::Load, ADDR);
        assert!(!memory.store(one, ADDR), "another core has it too");
    }
}
