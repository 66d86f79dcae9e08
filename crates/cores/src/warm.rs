//! Warming: what the reference engine runs leaves its traces in caches and translation buffers.

use loiter_hart::{Access, Retired, access_width};
use loiter_isa::Class;
use loiter_memory::{Memory, RequestKind, Tlb, Translation};
use loiter_types::{AddressSpace, CoreId, PhysAddr, VirtAddr};
use serde::{Deserialize, Serialize};

use crate::walker::flush_of;

/// Where an instruction leaves traces.
pub(crate) struct Traces<'a> {
    pub(crate) core: CoreId,
    pub(crate) itlb: &'a mut Tlb,
    pub(crate) dtlb: &'a mut Tlb,
    pub(crate) memory: &'a mut Memory,
    /// What stores and atomics ask of memory.
    pub(crate) stores: RequestKind,
    pub(crate) atomics: RequestKind,
    /// What the load of an `lr` asks.
    pub(crate) reserves: RequestKind,
    /// The line, by virtual address, and the page that the context fetched from last.
    pub(crate) fetched: &'a mut Fetched,
}

/// Where a context has fetched from last.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Fetched(u64);

impl Fetched {
    pub(crate) const NOWHERE: Fetched = Fetched(u64::MAX);
}

impl Traces<'_> {
    /// An instruction has retired.
    pub(crate) fn leave(&mut self, event: &Retired<'_>) {
        let inst = event.inst;
        let class = inst.op.class();
        if matches!(class, Class::Csr | Class::System) {
            // The mode in which it was fetched may be gone.
            *self.fetched = Fetched::NOWHERE;
        } else {
            self.fetch(event);
        }
        match class {
            Class::Load => self.access(event, Access::Load, RequestKind::Load),
            Class::Store => self.access(event, Access::Store, self.stores),
            Class::Atomic if inst.op.only_reads() => {
                self.access(event, Access::Load, self.reserves);
            }
            Class::Atomic => self.access(event, Access::Store, self.atomics),
            Class::Fence if inst.op.fences_translations() => {
                let flush = flush_of(inst, event.hart);
                forget(self.itlb, |tlb| tlb.flush(flush));
                forget(self.dtlb, |tlb| tlb.flush(flush));
            }
            _ => {}
        }
    }

    fn fetch(&mut self, event: &Retired<'_>) {
        let line = event.pc >> self.memory.fetch_line_log2();
        if self.fetched.0 == line {
            return;
        }
        let addr = VirtAddr(event.pc);
        if let Some(found) = translate(self.itlb, event, addr, Access::Fetch) {
            self.fetched.0 = line;
            if event.machine.is_ram(found, 1) {
                self.memory.warm(self.core, RequestKind::Fetch, found);
            }
        }
    }

    /// Of an access over the end of a page, the first.
    fn access(&mut self, event: &Retired<'_>, access: Access, kind: RequestKind) {
        let inst = event.inst;
        let Some(width) = access_width(inst.op) else {
            return;
        };
        let addr = VirtAddr(event.base.wrapping_add(inst.data_offset()));
        if let Some(found) = translate(self.dtlb, event, addr, access)
            && event.machine.is_ram(found, width.bytes())
        {
            self.memory.warm(self.core, kind, found);
        }
    }
}

/// Where an access of the instruction lay; its translation is in `tlb` from now on.
fn translate(
    tlb: &mut Tlb,
    event: &Retired<'_>,
    addr: VirtAddr,
    access: Access,
) -> Option<PhysAddr> {
    let space = event.hart.address_space(access);
    let there = space == AddressSpace::PHYSICAL
        || forget(tlb, |tlb| tlb.access(addr, space, access == Access::Store));
    let found = event.hart.whereabouts(event.machine, addr, access, !there);
    let (physical, of) = found?;
    if let Some(of) = of
        && !there
    {
        tlb.fill(Translation {
            addr,
            size_log2: of.size_log2,
            space,
            global: of.global,
            clean: of.clean,
        });
    }
    Some(physical)
}

/// Does something to a buffer that its counters do not see.
fn forget<T>(tlb: &mut Tlb, what: impl FnOnce(&mut Tlb) -> T) -> T {
    let counters = tlb.counters.clone();
    let done = what(tlb);
    tlb.counters = counters;
    done
}
