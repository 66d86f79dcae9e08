//! What keeps a context that is due from issuing: its instruction line, an interrupt, an operand, a
//! busy unit, its store buffer.

use loiter_hart::{Access, Trap, access_width};
use loiter_isa::{Class, Inst, Width};
use loiter_memory::{Request, RequestKind};
use loiter_observe::{Activity, Doing, Slot};
use loiter_types::{AddressSpace, Cycle, PAGE_BYTES, PhysAddr, VirtAddr};

use super::context::{Chance, Context, DataAddr, NO_GENERATION, Next, Waits, is_probe};
use super::core::CoreState;
use crate::store_buffer::Forward;
use crate::wait::Wakes;
use crate::walker::{Granted, page};
use crate::{Observer, Shared};

impl Context {
    /// Whether this context, which is due, can issue now. If it waits, it has been stalled for what is
    /// in its way.
    #[inline(always)]
    pub(super) fn can_issue<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Chance {
        if self.ready_at > now {
            return self.speculates(now);
        }
        if self.leaves {
            self.stop_for_good(core, now);
            return Chance::Waits;
        }
        if self.next != Next::Fetched && !self.fetch(core, now, shared) {
            return Chance::Waits;
        }
        if self.operands_until > now {
            let (operands, inst) = (&self.operands, &self.inst);
            let at = operands[inst.rs1 as usize]
                .max(operands[inst.rs2 as usize])
                .max(operands[inst.rs3 as usize])
                .max(operands[inst.rd as usize]);
            if at > now {
                self.stall(now, at, Slot::Dependence);
                return Chance::Waits;
            }
        }
        let class = self.class;
        if self.is_simple() {
            let waits = core.full_stops_thread && self.store_buffer_full(now);
            return Chance::issues(!waits);
        }
        let free = core.units.free_at(class, || self.moves_fp());
        if free > now {
            if core.retracts {
                return Chance::LosesSlot;
            }
            match free {
                Cycle::NEVER => self.block(now, Waits::Unit, Slot::UnitBusy),
                free => self.stall(now, free, Slot::UnitBusy),
            }
            return Chance::Waits;
        }
        if core.full_stops_thread && self.store_buffer_full(now) {
            return Chance::Waits;
        }
        if class.accesses() {
            return Chance::issues(self.can_access(core, now, shared));
        }
        Chance::issues(match class {
            Class::Fence if self.inst.orders_stores_before_loads() => !self.must_drain(now),
            Class::System if self.inst.op.accesses_as_guest() => !self.must_drain(now),
            _ => true,
        })
    }

    /// Its hart is about to leave: it begins nothing more. Cycles until then are those of stores that drain.
    #[cold]
    fn stop_for_good(&mut self, core: &mut CoreState, now: Cycle) {
        if let Waits::Wake(sleep) = self.waits {
            core.naps.ended(Wakes::Limit);
            core.wakes(self.seat, sleep.limit);
        }
        self.refetch();
        self.block(now, Waits::Leave, Slot::StoreBuffer);
    }

    /// Its load has missed: until that is known, its next instructions take slots for nothing.
    #[cold]
    fn speculates(&mut self, now: Cycle) -> Chance {
        if now < self.firm_at {
            return Chance::LosesSlot;
        }
        self.speculates_at = Cycle::NEVER;
        Chance::Waits
    }

    #[inline(always)]
    fn store_buffer_full(&mut self, now: Cycle) -> bool {
        let full = self.stores.is_full();
        if full {
            self.block(now, Waits::StoreEntry, Slot::StoreBuffer);
        }
        full
    }

    fn must_drain(&mut self, now: Cycle) -> bool {
        let waits = !self.stores.is_empty();
        if waits {
            self.block(now, Waits::Drain, Slot::StoreBuffer);
        }
        waits
    }

    /// Whether the fetched load, store or atomic can access its data now; notes where they lie.
    #[inline(always)]
    fn can_access<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let (addr, width, access) = self.access(shared);
        let bytes = width.bytes();
        // An atomic that is not aligned raises that before its address is looked at.
        let looks = self.class != Class::Atomic || addr.0 & (bytes - 1) == 0;
        if self.data_space != AddressSpace::PHYSICAL
            && looks
            && !self.data_translated(core, now, addr, bytes, access, shared)
        {
            return false;
        }
        self.data_addr = self.find_data(addr, bytes, access, shared);
        if self.class == Class::Load {
            !self.load_waits(now, width, shared)
        } else if self.class == Class::Store {
            !self.store_waits(now, bytes, shared)
        } else {
            !self.must_drain(now)
        }
    }

    /// What the fetched load, store or atomic accesses, and how.
    #[inline(always)]
    pub(super) fn access<O: Observer>(&self, shared: &Shared<'_, O>) -> (VirtAddr, Width, Access) {
        let width = access_width(self.inst.op).expect("a load, store or atomic has a width");
        let access = match (self.class, self.inst.op) {
            (Class::Load, _) => Access::Load,
            (_, op) if op.only_reads() => Access::Load,
            _ => Access::Store,
        };
        let base = shared.harts[self.hart_index()].regs[self.inst.rs1 as usize];
        let addr = VirtAddr(base.wrapping_add(self.inst.data_offset()));
        (addr, width, access)
    }

    /// Whether the access that performs now lies elsewhere than when it was sent: somebody has changed its
    /// page table meanwhile.
    pub(super) fn moved<O: Observer>(&self, shared: &mut Shared<'_, O>) -> bool {
        if self.data_space == AddressSpace::PHYSICAL {
            return false;
        }
        let (addr, width, access) = self.access(shared);
        self.find_data(addr, width.bytes(), access, shared) != self.data_addr
    }

    /// Where the data of an access lie.
    #[inline(always)]
    fn find_data<O: Observer>(
        &self,
        addr: VirtAddr,
        bytes: u64,
        access: Access,
        shared: &mut Shared<'_, O>,
    ) -> DataAddr {
        let hart = &mut shared.harts[self.hart_index()];
        if addr.leaves_page(bytes) {
            let first = PAGE_BYTES - addr.0 % PAGE_BYTES;
            let second = VirtAddr(addr.0.wrapping_add(first));
            let parts = (
                hart.locate(shared.machine, addr, first, access),
                hart.locate(shared.machine, second, bytes - first, access),
            );
            return match parts {
                (Ok(first), Ok(_)) => DataAddr::Split(first),
                _ => DataAddr::Nowhere,
            };
        }
        let found = hart.locate(shared.machine, addr, bytes, access);
        found.map_or(DataAddr::Nowhere, DataAddr::At)
    }

    /// A load waits when only part of its bytes are in the store buffer, or for a device, or when it
    /// lies in two pages or raises an exception.
    #[inline(always)]
    fn load_waits<O: Observer>(
        &mut self,
        now: Cycle,
        width: Width,
        shared: &Shared<'_, O>,
    ) -> bool {
        if self.stores.is_empty() {
            return false;
        }
        let passes = match self.data_addr {
            DataAddr::At(addr) => {
                self.stores.forward(addr, width) != Forward::Partial
                    && shared.machine.is_ram(addr, width.bytes())
            }
            DataAddr::Split(_) | DataAddr::Nowhere => false,
        };
        !passes && self.must_drain(now)
    }

    /// A store waits for an entry of the store buffer, or until it is empty, likewise.
    #[inline(always)]
    fn store_waits<O: Observer>(&mut self, now: Cycle, bytes: u64, shared: &Shared<'_, O>) -> bool {
        if self.store_buffer_full(now) {
            return true;
        }
        let passes =
            matches!(self.data_addr, DataAddr::At(addr) if shared.machine.is_ram(addr, bytes));
        !passes && self.must_drain(now)
    }

    /// A context that rested executes again, and a pending interrupt is taken. Returns whether one
    /// was, or its core is not up yet.
    #[cold]
    fn interrupted<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        if let Waits::Wake(sleep) = self.waits {
            self.waits = Waits::Time;
            core.naps.ended(Wakes::Limit);
            let up = core.wakes(self.seat, sleep.limit);
            if up > now {
                self.stall(now, up, Slot::Waiting);
                return true;
            }
        }
        let hart = &shared.harts[self.hart_index()];
        if matches!(
            self.accounts.activity(),
            Activity::Idle | Activity::Napping | Activity::Blocked | Activity::Pausing
        ) {
            self.reconsider(now, hart, Doing::Executing);
        }
        self.check_interrupts = false;
        let interrupt = hart.pending_interrupt();
        if let Some(interrupt) = interrupt {
            self.trap(core, now, Trap::Interrupt(interrupt), shared);
        }
        interrupt.is_some()
    }

    /// Finds the next instruction of this context, after any probes. Returns whether it is there.
    #[inline(always)]
    fn fetch<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        if self.check_interrupts && self.interrupted(core, now, shared) {
            return false;
        }
        let translates = self.translates;
        let known = self.next == Next::Ahead
            && self.generation == shared.code_generation()
            && (!translates || page(self.inst_pc) == self.fetch_page);
        debug_assert!(!known || self.inst_pc == shared.harts[self.hart_index()].pc);
        let mut looked_up = !translates;
        if !known {
            match self.find_instruction(core, now, shared) {
                Some(has_looked_up) => looked_up |= has_looked_up,
                None => return false,
            }
        }
        let first = self.inst_addr();
        let (bytes, len) = (core.fetch_line_bytes, u64::from(self.inst.len));
        // An instruction in two pages ends in another line than this too.
        if first.0.wrapping_sub(self.fetch_line) > bytes - len {
            let is_in_one = (first.0 & (bytes - 1)) + len <= bytes;
            let arrived = match looked_up && is_in_one {
                true => !self.line_arrives(core, now, first, shared),
                false => self.lines_arrive(core, now, looked_up, shared),
            };
            if !arrived {
                return false;
            }
        }
        self.next = Next::Fetched;
        if O::PIPELINE {
            self.tell_fetched(core, now, shared);
        }
        if translates {
            self.fetch_granted = Granted::NOTHING;
        }
        true
    }

    /// Translates the pc, and looks up the instruction there, or the one after the probes there. Returns whether it has looked
    /// up a translation; `None` if the context waits or has entered a trap.
    #[inline(never)]
    fn find_instruction<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Option<bool> {
        self.next = Next::Unknown;
        core.quiet = false;
        let translates = self.translates;
        let mut looked_up = false;
        let mut pc = shared.harts[self.hart_index()].pc;
        loop {
            if translates && page(pc) != self.fetch_page {
                if !self.fetch_translated(core, now, VirtAddr(pc), shared) {
                    return None;
                }
                looked_up = true;
            }
            let hart = &mut shared.harts[self.hart_index()];
            let addr = match hart.translate(shared.machine, VirtAddr(pc), 2, Access::Fetch) {
                Ok(addr) => addr,
                Err(fault) => {
                    self.trap(core, now, fault, shared);
                    return None;
                }
            };
            let remembers = hart.remembers_page(VirtAddr(pc));
            let decoded = match shared.machine.pages.code_written() {
                true => None,
                false => shared.code.decoded(addr).copied(),
            };
            let inst = match decoded {
                Some(inst) => inst,
                None => self.fetch_undecoded(core, now, pc, addr, shared)?,
            };
            if !is_probe(&inst) {
                self.class = inst.op.class();
                self.inst = inst;
                (self.inst_pc, self.inst_offset) = (pc, addr.0.wrapping_sub(pc));
                self.generation = match remembers {
                    true => shared.code_generation(),
                    false => NO_GENERATION,
                };
                self.code_page = shared.code.number_of(addr);
                return Some(looked_up);
            }
            self.probes = true;
            pc += u64::from(inst.len);
        }
    }

    /// Whether all lines of the instruction in hand, which are not those that it fetches from, are in the first level.
    #[inline(never)]
    fn lines_arrive<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        looked_up: bool,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let (pc, first) = (self.inst_pc, self.inst_addr());
        let last = self.last_byte(first, shared);
        (looked_up || self.fetch_translated(core, now, VirtAddr(pc), shared))
            && !self.line_arrives(core, now, first, shared)
            && !(core.line_of(last) != self.fetch_line
                && self.line_arrives(core, now, last, shared))
    }

    /// Takes a copy of the instruction at `pc`, which is probably the next, if that is decoded and in the same page.
    #[inline(always)]
    pub(super) fn look_ahead<O: Observer>(&mut self, pc: u64, shared: &Shared<'_, O>) {
        if page(pc) == page(self.inst_pc)
            && let Some(inst) = shared.code.decoded_in(self.code_page, pc)
            && !is_probe(inst)
        {
            // As a whole: an instruction that is put together from parts is read late.
            self.inst = *inst;
            self.class = inst.op.class();
            self.inst_pc = pc;
            self.next = Next::Ahead;
        }
    }

    /// Where the last byte of the fetched instruction lies, whose first is at `first`: in another page, that lies
    /// elsewhere.
    fn last_byte<O: Observer>(&self, first: PhysAddr, shared: &mut Shared<'_, O>) -> PhysAddr {
        let after = u64::from(self.inst.len) - 1;
        let last = VirtAddr(self.inst_pc + after);
        if !VirtAddr(self.inst_pc).leaves_page(after + 1) {
            return PhysAddr(first.0 + after);
        }
        let hart = &mut shared.harts[self.hart_index()];
        let located = hart.locate(shared.machine, last, 1, Access::Fetch);
        located.unwrap_or(first)
    }

    /// The instruction at `pc`, which is no other's copy to be had: its page has not been decoded yet,
    /// or its second half lies in the next one. `None` when the context has to wait for a walk, or has
    /// entered the trap that it raises.
    #[cold]
    fn fetch_undecoded<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        pc: u64,
        addr: PhysAddr,
        shared: &mut Shared<'_, O>,
    ) -> Option<Inst> {
        let next = VirtAddr(pc.wrapping_add(2));
        let crosses = VirtAddr(pc).leaves_page(4)
            && shared.machine.fetch16(addr).is_ok_and(|low| low & 3 == 3);
        if self.fetch_space != AddressSpace::PHYSICAL
            && crosses
            && !self.fetch_translated(core, now, next, shared)
        {
            return None;
        }
        let hart = &mut shared.harts[self.hart_index()];
        match hart.fetch_at(pc, shared.machine, shared.code) {
            Ok(inst) => Some(inst),
            Err(fault) => {
                self.trap(core, now, fault, shared);
                None
            }
        }
    }

    /// Whether the instruction line of `addr` has to come from the second level first.
    #[inline(always)]
    fn line_arrives<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        addr: PhysAddr,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let line = core.line_of(addr);
        if line == self.fetch_line {
            return false;
        }
        let misses = !shared.memory.fetch(core.id, addr);
        if misses {
            self.fetch_misses(core, now, addr, shared);
        } else {
            self.fetch_line = line;
        }
        misses
    }

    /// Asks the second level for the instruction line of `addr`.
    #[cold]
    fn fetch_misses<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        addr: PhysAddr,
        shared: &mut Shared<'_, O>,
    ) {
        let request = Request {
            kind: RequestKind::Fetch,
            core: core.id,
            context: self.id,
            addr,
            tag: 0,
        };
        core.ask(now, request, shared);
        self.block(now, Waits::Fetch, Slot::FetchMiss);
    }
}
