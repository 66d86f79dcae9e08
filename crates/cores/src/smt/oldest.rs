//! The oldest instruction of a context, where only the hart itself can run it: atomics and fences,
//! accesses to devices and over the end of a page, and what changes the state of the hart.

use loiter_hart::{Access, Accessed, DataPort, Exec, Flow, access_width};
use loiter_isa::csr::number::STIMECMP;
use loiter_isa::{Class, Inst, Op, SINK, Width, dispatch};
use loiter_machine::{AccessFault, Machine};
use loiter_memory::{Caches, Request, RequestKind};
use loiter_observe::{Doing, Slot};
use loiter_types::{Cycle, HartId, PhysAddr, VirtAddr};
use serde::{Deserialize, Serialize};

use super::context::{Context, How, Oldest};
use super::core::{CoreState, Event, PerformedStore};
use super::registers::NONE;
use super::retire::Oldness;
use super::squash;
use super::translate::{oldest_addr, oldest_kind};
use crate::shared::{Before, is_lock};
use crate::store_buffer::{Forward, StoreBuffer};
use crate::{Observer, PipelineStage, PipelineStep, Shared};

impl Context {
    /// The oldest instruction is one that the hart runs.
    pub(super) fn run_oldest<O: Observer>(
        &mut self,
        c: usize,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Oldness {
        let n = self.head;
        let entry = self.entry(n);
        let refused = self.oldest_from > now && self.oldest_refused == entry.seq;
        if self.oldest != Oldest::Idle || refused {
            return Oldness::Waits;
        }
        let (how, class, pc) = (entry.how, entry.class, entry.pc);
        if shared.harts[self.hart_index].pc != pc {
            self.pass_probes(n, core, now, shared);
        }
        if matches!(how, How::Refill | How::FetchRefill) {
            self.enter_refill(c, core, now, self.missed(), shared);
            return Oldness::Gone;
        }
        if how == How::Fault {
            let hart = &mut shared.harts[self.hart_index];
            match hart.fetch_at(pc, shared.machine, shared.code) {
                Ok(_) => self.fetch_again(c, core, now, pc),
                Err(trap) => self.trap(c, core, now, trap, shared),
            }
            return Oldness::Gone;
        }
        if !self.buffer.is_empty() && self.drains(core, &self.entry(n).inst) {
            return Oldness::Waits;
        }
        let hart = &mut shared.harts[self.hart_index];
        if hart
            .translate(shared.machine, VirtAddr(pc), 2, Access::Fetch)
            .is_err()
        {
            self.fetch_again(c, core, now, pc);
            return Oldness::Gone;
        }
        if !self.oldest_translated(c, core, now, shared) {
            return Oldness::Waits;
        }
        if class.accesses()
            && let Some((kind, addr, slot)) = self.oldest_access(n, core.far_atomics, shared)
        {
            if class == Class::Atomic
                && (self.is_held_up(c, n, core, now)
                    || !self.atomic_may_begin(n, (kind, addr), core))
            {
                return Oldness::Waits;
            }
            let owned = matches!(kind, RequestKind::Own | RequestKind::Reserve)
                && self.looks_up_data(core, |id| shared.memory.store(id, addr));
            if !owned {
                let request = Request {
                    kind,
                    core: core.id,
                    context: self.id,
                    addr,
                    tag: self.entry(n).seq,
                };
                core.active = true;
                let asked = match kind {
                    RequestKind::Device | RequestKind::Atomic => {
                        shared.memory.send(now, request);
                        Ok(())
                    }
                    _ => {
                        let asked = shared.memory.miss(now, request);
                        core.modes[self.mode].count_data_miss(&asked);
                        asked.map(|_| ())
                    }
                };
                match asked {
                    Ok(_) => {
                        self.oldest = Oldest::Sent(slot);
                        if O::PIPELINE {
                            let step = PipelineStep::Enters(PipelineStage::Memory);
                            self.tell(core, n, (now, now), step, shared);
                        }
                    }
                    Err(until) => {
                        let seq = self.entry(n).seq;
                        self.oldest_from = until;
                        self.oldest_refused = seq;
                        if until != Cycle::NEVER {
                            core.schedule(until, Event::Retry, c, n, seq);
                        }
                    }
                }
                return Oldness::Waits;
            }
        }
        if self.entry(n).inst.only_orders() && self.is_held_up(c, n, core, now) {
            return Oldness::Waits;
        }
        self.run_by_hart(c, core, now, shared)
    }

    /// Whether the oldest instruction, an atomic or a fence, still takes what it takes beside its access and its order.
    fn is_held_up(&mut self, c: usize, n: u64, core: &mut CoreState, now: Cycle) -> bool {
        let latency = &core.params.latency;
        let cycles = match self.entry(n).class {
            Class::Fence => latency.fence_extra_cycles,
            _ => latency.atomic_extra_cycles,
        };
        let seq = self.entry(n).seq;
        if cycles == 0 || self.held_up == seq {
            return false;
        }
        self.held_up = seq;
        self.oldest_from = now.after(cycles);
        self.oldest_refused = seq;
        core.schedule(self.oldest_from, Event::Retry, c, n, seq);
        true
    }

    /// Whether the oldest instruction, which the hart runs, waits for all buffered stores.
    fn drains(&self, core: &CoreState, inst: &Inst) -> bool {
        match inst.op.class() {
            Class::System => inst.op.accesses_as_guest(),
            Class::Csr | Class::Pause => false,
            Class::Atomic if core.atomics_annotated && !is_lock(inst.op) => {
                inst.releases() || self.fenced
            }
            _ => true,
        }
    }

    /// Whether the oldest instruction, an atomic, finds no buffered store to its bytes, and a synchronisation unit,
    /// which it then has. To a device it follows all stores.
    fn atomic_may_begin(
        &self,
        n: u64,
        (kind, addr): (RequestKind, PhysAddr),
        core: &mut CoreState,
    ) -> bool {
        let width = access_width(self.entry(n).inst.op).expect("an atomic has a width");
        let waits = match kind {
            RequestKind::Device => !self.buffer.is_empty(),
            _ => self.buffer.forward(addr, width) != Forward::Memory,
        };
        let begins = !waits && core.synchronised < core.params.units.synchronisation;
        core.synchronised += u64::from(begins);
        begins
    }

    /// What the oldest instruction, a load, store or atomic that the hart runs, asks of memory first:
    /// nothing when it raises an exception, or only reads and writes a few bytes at the end of a page.
    fn oldest_access<O: Observer>(
        &mut self,
        n: u64,
        far: bool,
        shared: &mut Shared<'_, O>,
    ) -> Option<(RequestKind, PhysAddr, Slot)> {
        let entry = self.entry(n);
        let (inst, class) = (entry.inst, entry.class);
        let bytes = access_width(inst.op)?.bytes();
        let hart = &mut shared.harts[self.hart_index];
        let addr = oldest_addr(&inst, hart);
        let atomic = class == Class::Atomic;
        let kind = match inst.op {
            op if far && performs_far(op) => RequestKind::Atomic,
            Op::LrW | Op::LrD if shared.memory.grants_lines() => RequestKind::Reserve,
            _ => RequestKind::Own,
        };
        if addr.leaves_page(bytes) || atomic && addr.0 & (bytes - 1) != 0 {
            return None;
        }
        let access = oldest_kind(&inst, class);
        let found = hart.locate(shared.machine, addr, bytes, access).ok()?;
        if matches!(inst.op, Op::ScW | Op::ScD)
            && shared.memory.grants_lines()
            && !shared.machine.watches.is_held(self.seated(), found)
        {
            // It fails.
            return None;
        }
        match (shared.machine.is_ram(found, bytes), atomic) {
            (false, _) => Some((RequestKind::Device, found, Slot::Device)),
            (true, true) => Some((kind, found, Slot::Atomic)),
            (true, false) => None,
        }
    }

    /// The oldest instruction, an atomic, ends what the last one has kept; an `lr` keeps its line.
    fn keeps<O: Observer>(
        &self,
        inst: &Inst,
        core: &CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        let hart = &mut shared.harts[self.hart_index];
        let reserves = matches!(inst.op, Op::LrW | Op::LrD);
        let addr = oldest_addr(inst, hart);
        match hart.locate(shared.machine, addr, 1, Access::Load) {
            Ok(addr) if reserves => shared.memory.reserve(now, core.id, self.id, addr),
            _ => shared.memory.release(now, self.id),
        }
    }

    /// The access of the oldest instruction performs.
    pub(super) fn oldest_performs<O: Observer>(
        &mut self,
        c: usize,
        seq: u64,
        device: bool,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        if self.is_empty() || self.entry(self.head).seq != seq || self.oldest == Oldest::Idle {
            debug_assert!(false, "{}: an access of nobody performs", self.id);
            return;
        }
        self.oldest = Oldest::Idle;
        if device {
            shared.set_clock(self.seated(), now);
            shared.device_accessed = true;
        }
        if self.run_by_hart(c, core, now, shared) == Oldness::Retired {
            self.retired_now = true;
            if O::PIPELINE {
                let n = self.head - 1;
                self.tell(core, n, (now, now), PipelineStep::Retired, shared);
            }
        }
    }

    /// The oldest instruction, an atomic, performs at the home of its line; its core knows at `done`.
    pub(super) fn far_performs<O: Observer>(
        &mut self,
        c: usize,
        seq: u64,
        done: Cycle,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        debug_assert!(self.entry(self.head).seq == seq && self.oldest != Oldest::Idle);
        let n = self.head;
        match self.execute(c, core, now, shared) {
            Some(flow) => {
                debug_assert_eq!(flow, Flow::Next, "an atomic leads nowhere");
                core.schedule(done, Event::Returns, c, n, seq);
            }
            None => self.oldest = Oldest::Idle,
        }
    }

    /// What the oldest instruction, an atomic that has performed at a home, returns is there: it retires.
    pub(super) fn far_returns<O: Observer>(
        &mut self,
        c: usize,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) {
        self.oldest = Oldest::Idle;
        self.finish(c, core, now, Flow::Next, shared);
        self.retired_now = true;
        if O::PIPELINE {
            let n = self.head - 1;
            self.tell(core, n, (now, now), PipelineStep::Retired, shared);
        }
    }

    /// The hart runs the oldest instruction now.
    fn run_by_hart<O: Observer>(
        &mut self,
        c: usize,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Oldness {
        let Some(flow) = self.execute(c, core, now, shared) else {
            return Oldness::Gone;
        };
        self.finish(c, core, now, flow, shared);
        Oldness::Retired
    }

    /// The hart executes the oldest instruction now: values move. Returns where it leads, unless it traps or blocks.
    fn execute<O: Observer>(
        &mut self,
        c: usize,
        core: &mut CoreState,
        now: Cycle,
        shared: &mut Shared<'_, O>,
    ) -> Option<Flow> {
        let n = self.head;
        let entry = self.entry(n);
        let (inst, class) = (entry.inst, entry.class);
        core.active = true;
        core.changes += u64::from(class != Class::Pause && !inst.only_orders());
        if class == Class::Csr || is_lock(inst.op) {
            shared.set_clock(self.seated(), now);
            // The hart's own timer may change.
            shared.device_accessed |= inst.imm as u16 & 0xfff == STIMECMP;
        }
        if class == Class::Atomic && core.owns_lines {
            self.keeps(&inst, core, now, shared);
        }
        let hart = &mut shared.harts[self.hart_index];
        let before = Before::of(hart, &inst);
        // Where lines have to be owned, each part of a store over the end of a page waits for its own.
        let buffered = core.owns_lines
            && class == Class::Store
            && access_width(inst.op)
                .is_some_and(|width| oldest_addr(&inst, hart).leaves_page(width.bytes()));
        self.buffer.join_bytes(buffered);
        let mut port = DirectPort {
            machine: shared.machine,
            stored: Stored::default(),
            buffer: buffered.then_some(&mut self.buffer),
        };
        let mut exec = Exec::<_, true>::new(hart, &mut port);
        let flow = dispatch(&mut exec, &inst);
        exec.finish();
        let stored = port.stored;
        self.buffer.join_bytes(false);
        for &(addr, bytes) in stored.parts() {
            if !buffered {
                core.performed.push(PerformedStore {
                    hart: self.seated(),
                    addr,
                    bytes,
                    owned: core.owns_lines && class == Class::Atomic,
                });
            }
            self.squash_violations(c, n, (addr, bytes), core, now);
        }
        if let Flow::Trap(trap) = flow {
            self.trap(c, core, now, trap, shared);
            return None;
        }
        if let Flow::Blocks(nap) = flow {
            squash::from_and_recover(self, core, c, n);
            self.fall_asleep(core, now, nap, shared);
            return None;
        }
        let hart = &mut shared.harts[self.hart_index];
        hart.retired += 1;
        let counters = &mut core.modes[self.mode];
        counters.atomics += u64::from(class == Class::Atomic);
        counters.loads += u64::from(class == Class::Load);
        counters.stores += u64::from(class == Class::Store);
        counters.fp_operations += u64::from(class.is_fp());
        let access = match buffered {
            true => Accessed::Buffered,
            false => Accessed::Now,
        };
        shared.tell_retired(self.hart_index, &inst, &before, access, now);
        Some(flow)
    }

    /// The oldest instruction, which its hart has executed, leaves with its result.
    fn finish<O: Observer>(
        &mut self,
        c: usize,
        core: &mut CoreState,
        now: Cycle,
        flow: Flow,
        shared: &mut Shared<'_, O>,
    ) {
        let n = self.head;
        let entry = self.entry(n);
        let (inst, class) = (entry.inst, entry.class);
        core.active = true;
        let hart = &shared.harts[self.hart_index];
        let destination = self.entry(n).destination;
        if destination != NONE {
            core.registers.values[destination as usize] = hart.regs[inst.rd as usize];
            core.wake_register(destination);
        }
        if inst.op == Op::AmocasQ && inst.rd != SINK {
            // Nothing after it is there yet, so its second register can be set where it stands.
            let second = inst.rd + 1;
            let register = self.map[second as usize];
            core.registers.values[register as usize] = hart.regs[second as usize];
        }
        if inst.op == Op::FenceI && core.params.core.fence_i_empties {
            // Nothing has read a line that the instruction cache alone has, and nobody watches it.
            let (stays, mut told) = (|_| false, Vec::new());
            let which = Caches::Instructions;
            shared.memory.empty(now, core.id, which, stays, &mut told);
        }
        if inst.op.fences_translations() {
            self.flush_translations(core, &inst, &shared.harts[self.hart_index]);
        }
        let serial = self.entry(n).how == How::Serial;
        self.leave(core);
        if serial {
            self.after_serial(core, now, class, flow, shared);
        } else if flow == Flow::Jump {
            // Fetch continued after it.
            let pc = shared.harts[self.hart_index].pc;
            self.fetch_again(c, core, now, pc);
        }
    }

    /// Fetch continues after an instruction that nothing was fetched after.
    fn after_serial<O: Observer>(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        class: Class,
        flow: Flow,
        shared: &mut Shared<'_, O>,
    ) {
        debug_assert!(self.is_empty());
        let hart = &shared.harts[self.hart_index];
        let latency = &core.params.latency;
        let (cycles, slot) = match flow {
            Flow::Interrupts if class == Class::System => (latency.trap_cycles, Slot::TrapEntry),
            Flow::Pause => (core.params.wait.pause_cycles, Slot::Waiting),
            _ => (1, Slot::FrontEnd),
        };
        if slot == Slot::TrapEntry {
            self.course.returns();
            core.modes[self.mode].trap_returns += 1;
        }
        self.fetch_at(hart.pc, now.after(cycles), slot);
        self.check_interrupts |= flow == Flow::Interrupts;
        match flow {
            Flow::Pause if cycles > 1 => self.reconsider(now.after(1), hart, Doing::Pausing),
            Flow::Nap(nap) => self.nap(core, now, nap, shared),
            _ => self.reconsider(now, hart, Doing::Executing),
        }
        if flow == Flow::Pause {
            shared.pauses(self.hart_index, now, now.after(cycles));
        }
    }
}

/// Whether an atomic can be performed elsewhere: it needs nothing of its core.
fn performs_far(op: Op) -> bool {
    !matches!(op, Op::LrW | Op::LrD | Op::ScW | Op::ScD) && !is_lock(op)
}

/// The machine itself, for an instruction whose context has no store in flight; notes where it stores.
struct DirectPort<'a> {
    machine: &'a mut Machine,
    stored: Stored,
    /// What it stores waits here, to be performed later.
    buffer: Option<&'a mut StoreBuffer>,
}

/// Where an instruction has stored how many bytes: in one place, or in two, at the end of one page and at the start
/// of another.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Stored {
    parts: [(PhysAddr, u64); 2],
    count: usize,
}

impl Stored {
    fn add(&mut self, addr: PhysAddr, bytes: u64) {
        if let Some(last) = self.parts[..self.count].last_mut()
            && last.0.0 + last.1 == addr.0
        {
            last.1 += bytes;
            return;
        }
        self.parts[self.count] = (addr, bytes);
        self.count += 1;
    }

    fn parts(&self) -> &[(PhysAddr, u64)] {
        &self.parts[..self.count]
    }
}

impl DataPort for DirectPort<'_> {
    fn load(&mut self, _: HartId, addr: PhysAddr, width: Width) -> Result<u64, AccessFault> {
        self.machine.load(addr, width)
    }

    fn store(
        &mut self,
        hart: HartId,
        addr: PhysAddr,
        width: Width,
        value: u64,
    ) -> Result<(), AccessFault> {
        self.stored.add(addr, width.bytes());
        if let Some(buffer) = &mut self.buffer {
            buffer.push(addr, width, value);
            return Ok(());
        }
        self.machine.store(hart, addr, width, value)
    }

    fn machine(&mut self) -> &mut Machine {
        self.machine
    }
}
