//! Issue: what an instruction does at once, and how long its context pays for it.

use loiter_hart::{Accessed, DataPort, Exec, Flow, Hart, access_width};
use loiter_isa::csr::number::STIMECMP;
use loiter_isa::{Class, Inst, Op, Width, dispatch};
use loiter_machine::{AccessFault, Machine};
use loiter_memory::{Request, RequestKind};
use loiter_observe::{Doing, Slot};
use loiter_types::{Cycle, HartId, PhysAddr};

use super::context::{Context, DataAddr, Waits};
use super::core::CoreState;
use super::group::Group;
use crate::shared::Before;
use crate::store_buffer::{Forward, StoreBuffer};
use crate::walker::Granted;
use crate::{Observer, Shared};

/// Between a hart and the machine: loads see the context's own stores, stores to RAM wait in the
/// store buffer.
struct BufferedPort<'a> {
    machine: &'a mut Machine,
    stores: &'a mut StoreBuffer,
}

impl DataPort for BufferedPort<'_> {
    fn load(&mut self, _: HartId, addr: PhysAddr, width: Width) -> Result<u64, AccessFault> {
        match self.stores.forward(addr, width) {
            Forward::Value(value) => Ok(value),
            Forward::Memory => self.machine.load(addr, width),
            Forward::Partial => unreachable!("the load waited for its store buffer to drain"),
        }
    }

    fn store(
        &mut self,
        hart: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault> {
        if self.machine.is_ram(addr, width.bytes()) {
            self.stores.push(addr, width, value);
            return Ok(());
        }
        self.machine.store(hart, addr, width, value)
    }

    fn store_atomic(
        &mut self,
        hart: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault> {
        self.machine.store(hart, addr, width, value)
    }

    fn machine(&mut self) -> &mut Machine {
        self.machine
    }
}

/// Runs one instruction. One copy of all semantics for the whole core.
#[inline(never)]
fn run(hart: &mut Hart, machine: &mut Machine, stores: &mut StoreBuffer, inst: &Inst) -> Flow {
    let mut port = BufferedPort { machine, stores };
    let mut exec = Exec::<_, true>::new(hart, &mut port);
    let flow = dispatch(&mut exec, inst);
    exec.finish();
    flow
}

impl Context {
    /// Counts an instruction, and tells the observer.
    #[inline(always)]
    fn retire<O: Observer>(&mut self, before: &Before, now: Cycle, shared: &mut Shared<'_, O>) {
        shared.harts[self.hart_index()].retired += 1;
        self.retired(before, now, shared);
    }

    /// As [`Context::retire`] does, but for what its hart counts.
    #[inline(always)]
    fn retired<O: Observer>(&mut self, before: &Before, now: Cycle, shared: &mut Shared<'_, O>) {
        self.accounts.retired();
        // Before a store to a device the buffer has drained.
        let access = if self.class == Class::Store && !self.stores.is_empty() {
            Accessed::Buffered
        } else {
            Accessed::Now
        };
        shared.tell_retired(self.hart_index(), &self.inst, before, access, now);
    }

    /// Issues the fetched instruction of this context, which has nothing in its way. Returns the address of the next one if
    /// it has retired and did nothing that changes how that is fetched.
    #[inline(always)]
    pub(super) fn issue<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        group: &mut Group,
        shared: &mut Shared<'_, O>,
    ) -> Option<u64> {
        if self.probes {
            self.pass_probes(core, now, shared);
        }
        if self.inst.mark() != self.course.mark() {
            self.come_to_code(now, shared);
        }
        self.accounts.issue(self.ready_at, now, self.slot);
        core.counters.issued += 1;
        core.counters.speculative_issues += u64::from(self.firm_at > now);
        self.refetch();
        if self.is_simple() {
            return Some(self.execute_simple(core, now, group, shared));
        }
        let plain = if self.class == Class::Load {
            core.fills.memory_slot(Class::Load, now);
            self.issue_load(core, now, shared)
        } else if self.class == Class::Store {
            core.quiet = false;
            core.changes += 1;
            core.fills.memory_slot(Class::Store, now);
            self.issue_store(core, now, shared)
        } else {
            self.issue_other(core, now, group, shared)
        };
        plain.then(|| shared.harts[self.hart_index()].pc)
    }

    /// Issues an atomic, or what is neither simple nor accesses memory. Returns whether it has retired and did nothing that
    /// changes how the next one is fetched.
    #[inline(never)]
    fn issue_other<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        group: &mut Group,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        if self.class != Class::Atomic {
            return self.execute(core, now, self.class, group, shared);
        }
        core.quiet = false;
        core.changes += 1;
        core.fills.memory_slot(self.class, now);
        core.counters.atomics += 1;
        self.data_granted = Granted::NOTHING;
        match self.data_addr {
            DataAddr::At(addr) if !core.port.owns_lines => {
                let kind = self.far_atomic(addr, shared);
                self.send(core, now, kind, addr, Slot::Atomic, shared);
            }
            DataAddr::At(addr) => self.issue_owned_atomic(core, now, addr, shared),
            DataAddr::Split(_) | DataAddr::Nowhere => {
                self.run_now(core, now, shared);
            }
        }
        false
    }

    /// What is requested of the second level where it serves atomics. An `sc` without a reservation only takes its time; one
    /// whose `lr` ran elsewhere, so that no bank knows of it, is an atomic like any other.
    fn far_atomic<O: Observer>(&mut self, addr: PhysAddr, shared: &Shared<'_, O>) -> RequestKind {
        match self.inst.op {
            Op::LrW | Op::LrD => {
                self.reserved = true;
                RequestKind::Reserve
            }
            Op::ScW | Op::ScD if !shared.machine.watches.is_held(self.seated(), addr) => {
                RequestKind::Fails
            }
            Op::ScW | Op::ScD if self.reserved => RequestKind::Conditional,
            _ => RequestKind::Atomic,
        }
    }

    /// Tells the observer of the probes before the next instruction.
    #[cold]
    fn pass_probes<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        core.quiet = false;
        let changes = &mut core.changes;
        let spinning = shared.pass_probes(self.hart_index(), self.inst_pc, now, changes);
        if let Some(spinning) = spinning {
            self.settle(now);
            self.course.acquires(spinning);
            self.reconsider(now, &shared.harts[self.hart_index()], Doing::Executing);
        }
    }

    /// The next instruction is of code of another kind.
    #[cold]
    fn come_to_code<O: Observer>(&mut self, now: Cycle, shared: &Shared<'_, O>) {
        self.course.comes_to(self.inst.mark());
        self.reconsider(now, &shared.harts[self.hart_index()], Doing::Executing);
    }

    pub(super) fn send<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        kind: RequestKind,
        addr: PhysAddr,
        slot: Slot,
        shared: &mut Shared<'_, O>,
    ) {
        let ram = shared.machine.is_ram(addr, 1);
        let request = Request {
            kind: if ram { kind } else { RequestKind::Device },
            core: core.id,
            context: self.id,
            addr,
            tag: 0,
        };
        core.ask(now, request, shared);
        self.block(now.after(1), Waits::Access, slot);
    }

    fn issue_load<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        core.counters.loads += 1;
        self.data_granted = Granted::NOTHING;
        let (DataAddr::At(addr) | DataAddr::Split(addr)) = self.data_addr else {
            core.quiet = false;
            self.run_now(core, now, shared);
            return false;
        };
        let stores = &self.stores;
        let forwards = !stores.is_empty()
            && access_width(self.inst.op)
                .is_some_and(|width| stores.forward(addr, width) != Forward::Memory);
        core.counters.forwarded_loads += u64::from(forwards);
        if !forwards && !shared.machine.is_ram(addr, 1) {
            self.send(core, now, RequestKind::Device, addr, Slot::Device, shared);
            return false;
        }
        let latency = &core.params.latency;
        let (mut cycles, mut confirmed) = (latency.load_cycles, latency.load_confirmed_cycles);
        let missing = match forwards {
            true => None,
            false => self.missing_line(core, now, shared),
        };
        let hits = missing.is_none();
        let fp = matches!(self.inst.rd, 32..64);
        if fp {
            (cycles, confirmed) = (latency.fp_load_cycles, latency.fp_load_confirmed_cycles);
            let done = if hits {
                now.after(cycles)
            } else {
                Cycle::NEVER
            };
            core.units.claim_fp(self.seat, done);
        }
        if let Some(line) = missing {
            self.send(core, now, RequestKind::Load, line, Slot::L2Hit, shared);
            self.miss_slots_left = core.params.core.miss_slots;
            if self.miss_slots_left > 0 {
                // Where contexts wait for operands, the next instruction need not be one that uses the load.
                let first = if core.stall_on_use { 1 } else { cycles };
                self.speculates_at = now.after(first);
                self.firm_at = now.after(confirmed);
            }
            return false;
        }
        let retired = match forwards {
            true => self.run_now(core, now, shared),
            false => self.load_now(core, now, shared),
        };
        // The first access to a page is noted in its table, which somebody may watch.
        core.quiet &= !shared.machine.watches.any_lost();
        if retired {
            self.firm_at = now.after(confirmed);
            self.pay(core, now, cycles, Slot::LoadHit, true);
        }
        retired
    }

    fn issue_store<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        core.counters.stores += 1;
        self.data_granted = Granted::NOTHING;
        if let DataAddr::At(addr) = self.data_addr
            && !shared.machine.is_ram(addr, 1)
        {
            self.send(core, now, RequestKind::Device, addr, Slot::Device, shared);
            return false;
        }
        let latency = &core.params.latency;
        let fp = self.inst.rs2 >= 32;
        let cycles = if fp {
            latency.fp_store_cycles
        } else {
            latency.store_cycles
        };
        self.stores
            .join_bytes(matches!(self.data_addr, DataAddr::Split(_)));
        let retired = self.store_now(core, now, shared);
        if retired {
            self.pay(core, now, cycles, Slot::Executing, false);
            if fp {
                core.units.claim_fp(self.seat, now.after(cycles));
            }
            self.send_stores(core, now, shared);
        }
        retired
    }

    /// Sends those stores of this context to the second level that may go now, or begins to drain them.
    pub(super) fn send_stores<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        if core.port.owns_lines {
            return self.drain_from(core, now.after(1));
        }
        while let Some(addr) = self.stores.send_next() {
            let request = Request {
                kind: RequestKind::Store,
                core: core.id,
                context: self.id,
                addr,
                tag: 0,
            };
            shared.memory.send(now, request);
        }
    }

    /// Runs a load from memory whose value moves now, as [`Context::run_now`].
    #[inline(always)]
    fn load_now<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let hart = &mut shared.harts[self.hart_index()];
        let before = Before::of(hart, &self.inst);
        if !hart.run_load(&self.inst, shared.machine) {
            return self.run_now(core, now, shared);
        }
        hart.pc = self.inst_pc.wrapping_add(u64::from(self.inst.len));
        hart.retired += 1;
        self.retired(&before, now, shared);
        true
    }

    /// Runs a store, as [`Context::run_now`].
    #[inline(always)]
    fn store_now<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let hart = &mut shared.harts[self.hart_index()];
        let before = Before::of(hart, &self.inst);
        let Some(stored) = hart.run_store(&self.inst, shared.machine) else {
            return self.run_now(core, now, shared);
        };
        self.stores.push(stored.addr, stored.width, stored.value);
        hart.pc = self.inst_pc.wrapping_add(u64::from(self.inst.len));
        hart.retired += 1;
        self.retired(&before, now, shared);
        true
    }

    /// Runs an instruction whose value moves now. Returns whether it retired; if not, its trap has
    /// been entered, or the hart sleeps at it.
    pub(super) fn run_now<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let hart = &mut shared.harts[self.hart_index()];
        let before = Before::of(hart, &self.inst);
        match run(hart, shared.machine, &mut self.stores, &self.inst) {
            Flow::Next | Flow::Jump => {
                self.retire(&before, now, shared);
                true
            }
            Flow::Blocks(nap) => {
                self.fall_asleep(core, now, now, nap, shared);
                false
            }
            Flow::Trap(trap) => {
                self.trap(core, now, trap, shared);
                false
            }
            other => unreachable!("a load, store or atomic answers {other:?}"),
        }
    }

    /// Issues an instruction of the plain ALU, a branch or a jump. Returns the address of the next one. What differs between
    /// taken branches and others is looked up, not branched on: with several contexts in turn, nobody can predict which it
    /// is. What any other instruction costs must not wait for what it comes to: the selection of the next cycle depends on
    /// it.
    #[inline(always)]
    fn execute_simple<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        group: &Group,
        shared: &mut Shared<'_, O>,
    ) -> u64 {
        let hart = &mut shared.harts[self.hart_index()];
        let before = Before::of(hart, &self.inst);
        let after = self.inst_pc.wrapping_add(u64::from(self.inst.len));
        let next = hart.run_simple(&self.inst, self.inst_pc, after);
        hart.pc = next;
        hart.retired += 1;
        let cost = &group.simple[self.class as usize][usize::from(next != after)];
        core.counters.branches += u64::from(cost.branches);
        core.counters.branches_taken += u64::from(cost.branches_taken);
        let known = Cycle(now.0 + u64::from(cost.confirmed));
        self.firm_at = self.firm_at.max(known);
        self.retired(&before, now, shared);
        debug_assert_eq!(self.waits, Waits::Time);
        (self.slot, self.ready_at) = (cost.slot, Cycle(now.0 + u64::from(cost.cycles)));
        next
    }

    /// Issues any other instruction that does not access memory.
    fn execute<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        class: Class,
        group: &mut Group,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        core.quiet = false;
        core.changes += u64::from(!matches!(
            class,
            Class::Mul | Class::Div | Class::Fence | Class::Pause
        ));
        if class == Class::Csr {
            shared.set_clock(self.seated(), now);
            // The hart's own timer may change.
            shared.device_accessed |= self.inst.imm as u16 & 0xfff == STIMECMP;
        }
        let hart = &mut shared.harts[self.hart_index()];
        let latency = &core.params.latency;
        let mut cycles = core.latency[class as usize];
        if class == Class::Div {
            let (dividend, divisor) = (
                hart.regs[self.inst.rs1 as usize],
                hart.regs[self.inst.rs2 as usize],
            );
            let divide = &core.params.divide;
            cycles = divide.cycles(self.inst.op, dividend, divisor);
        }
        if class == Class::Fence && self.inst.orders_stores_before_loads() {
            cycles = latency.fence_store_load_cycles;
        }
        let before = Before::of(hart, &self.inst);
        let flow = run(hart, shared.machine, &mut self.stores, &self.inst);
        if matches!(class, Class::FpDiv | Class::FpSqrt) {
            cycles = latency.fp_long_cycles(&self.inst, class);
        }
        core.counters.fp_operations += u64::from(class.is_fp());
        core.counters.multiplies += u64::from(class == Class::Mul);
        core.counters.divides += u64::from(class == Class::Div);
        let pipelined = matches!(
            class,
            Class::FpAdd | Class::FpMul | Class::FpFma | Class::FpMove
        );
        if flow == Flow::Next {
            let start = core
                .units
                .start(class, self.seat, now, cycles, &mut group.fpu);
            cycles += start.since(now);
            if !(core.stall_on_use && pipelined) {
                self.accounts.charge(start, Slot::UnitBusy);
            }
        }
        if flow == Flow::Next {
            if self.inst.op.fences_translations() {
                self.flush_translations(core, hart);
            }
            self.retire(&before, now, shared);
            self.pay(core, now, cycles, Slot::Executing, pipelined);
        } else {
            self.after(core, now, flow, cycles, &before, shared);
        }
        flow == Flow::Next && !matches!(class, Class::Csr | Class::System | Class::Fence)
    }

    /// The context pays for an instruction: it stalls for the latency, or, for a result that later
    /// instructions can be ahead of, notes when the result is there.
    #[inline]
    pub(super) fn pay(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        cycles: u64,
        slot: Slot,
        runs_on: bool,
    ) {
        debug_assert_eq!(self.waits, Waits::Time);
        self.slot = slot;
        let done = now.after(cycles);
        if core.stall_on_use && runs_on {
            self.operands[self.inst.rd as usize % 65] = done;
            self.operands[loiter_isa::SINK as usize] = Cycle(0);
            self.operands_until = self.operands_until.max(done);
            self.ready_at = now.after(1);
        } else {
            self.ready_at = done;
        }
    }

    /// What follows an instruction that asks for more than the next one.
    #[cold]
    fn after<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        flow: Flow,
        cycles: u64,
        before: &Before,
        shared: &mut Shared<'_, O>,
    ) {
        core.quiet = false;
        if let Flow::Trap(trap) = flow {
            return self.trap(core, now, trap, shared);
        }
        self.retire(before, now, shared);
        let hart = &mut shared.harts[self.hart_index()];
        self.pay(core, now, cycles, Slot::Executing, false);
        match flow {
            Flow::Interrupts => {
                self.check_interrupts = true;
                if self.inst.op.class() == Class::System {
                    self.slot = Slot::TrapEntry;
                    self.course.returns();
                }
                self.reconsider(now.after(1), hart, Doing::Executing);
            }
            Flow::FenceI => {}
            Flow::Pause => {
                self.slot = Slot::Waiting;
                if cycles > 1 {
                    self.reconsider(now.after(1), hart, Doing::Pausing);
                }
                shared.pauses(self.hart_index(), now, now.after(cycles));
            }
            Flow::Nap(nap) => self.nap(core, now, nap, shared),
            other => unreachable!("not an answer of a full executor: {other:?}"),
        }
    }
}
