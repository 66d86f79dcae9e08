//! Fetch: which contexts, how many instructions, and where to continue.

use loiter_hart::Access;
use loiter_isa::{Class, Inst, Op};
use loiter_memory::{Request, RequestKind};
use loiter_observe::{Activity, Doing, Probe, Slot};
use loiter_types::{Cycle, PAGE_BYTES, PhysAddr, VirtAddr};

use super::context::{Context, Fetch, How, NO_MARK, Progress};
use super::core::{Core, CoreState, Event};
use super::counters::Counted;
use super::registers::NONE;
use crate::predict::{BranchKind, Prediction};
use crate::shared::is_lock;
use crate::{Observer, Shared};

/// Where fetch continues after a branch whose target it waits for: at no instruction.
const UNKNOWN: u64 = u64::MAX;

/// What comes of a context that is chosen for fetch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    /// So many instructions.
    Fetched(u64),
    /// The line, or the translation of its address, is not there.
    Misses,
    /// A context that goes before it has its bank of the instruction cache.
    Conflicts,
}

impl Core {
    /// Fetches from the contexts that the policy prefers.
    pub(super) fn fetch<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        let (front, full) = self.fetchable(now);
        let state = &mut self.state;
        let count = state.order.len() as u64;
        state.counters.fetchable_contexts += count;
        state.histograms.count(Counted::Fetchable, count, 1);
        let core = &state.params.core;
        let room = match &state.stages {
            Some(stages) if stages.is_full() => 0,
            Some(_) => core.fetch_width,
            None => core.fetch_buffer_entries - front,
        };
        state.front_full = full || room == 0;
        let most = core.fetch_width.min(room);
        let (mut left, first_seq) = (most, state.next_seq);
        let mut contexts = state.params.core.fetch_contexts;
        let mut banks = 0;
        while left > 0
            && contexts > 0
            && let Some(c) = self.state.order.take_first()
        {
            let c = c as usize;
            let most = left.min(self.contexts[c].front_room(&self.state));
            let served = self.contexts[c].fetch(c, &mut self.state, now, most, &mut banks, shared);
            let fetched = match served {
                Served::Fetched(count) => count,
                Served::Misses | Served::Conflicts => 0,
            };
            if O::PIPELINE {
                self.contexts[c].tell_fetched(&self.state, fetched, now, shared);
            }
            self.state.modes[self.contexts[c].mode].fetched += fetched;
            left -= fetched;
            let misses = served == Served::Misses && self.state.params.core.fetch_miss_uses_slot;
            contexts -= u64::from(fetched > 0 || misses);
        }
        let state = &mut self.state;
        if let Some(stages) = &mut state.stages
            && state.next_seq > first_seq
        {
            let due = now.after(state.params.core.front_cycles);
            stages.push(due, state.next_seq - 1);
        }
        let fetched = most - left;
        self.state.histograms.count(Counted::Fetched, fetched, 1);
        self.state.counters.zero_fetch_cycles += u64::from(fetched == 0);
        self.state.active |= fetched > 0;
    }

    /// Puts the contexts that can be fetched from in order, the preferred first. Returns the
    /// instructions in the front end, and whether a context has its share of it full.
    fn fetchable(&mut self, now: Cycle) -> (u64, bool) {
        let Core { state, contexts } = self;
        state.order.clear();
        let (mut front, mut full) = (0, false);
        for (turn, c) in state.awake.from(state.turn).enumerate() {
            let context = &mut contexts[c];
            front += context.in_front();
            if context.is_fetchable(now) {
                if context.front_room(state) == 0 {
                    full = true;
                    continue;
                }
                context.is_led();
                let rank = state.fetch_policy.rank(context);
                state.order.insert(rank << 8 | turn as u64, c as u8);
            }
        }
        (front, full)
    }
}

impl Context {
    /// Instructions that can be fetched before this context has its share of the front end.
    #[inline(always)]
    fn front_room(&self, core: &CoreState) -> u64 {
        u64::from(core.shares.front).saturating_sub(self.in_front())
    }

    /// Fetches at most `most` instructions of one line. `banks` are those of the instruction cache that
    /// are taken in this cycle.
    fn fetch<O: Observer>(
        &mut self,
        c: usize,
        core: &mut CoreState,
        now: Cycle,
        most: u64,
        banks: &mut u64,
        shared: &mut Shared<'_, O>,
    ) -> Served {
        if self.accounts.activity() == Activity::Pausing {
            // The pause is over.
            self.reconsider(now, &shared.harts[self.hart_index], Doing::Executing);
        }
        if self.fetch == Fetch::Handler {
            return Served::Fetched(self.fetch_handler(core, now, most));
        }
        let begin = self.tail;
        let mut pc = self.fetch_pc;
        if !self.fetch_translated(c, core, now, (pc, VirtAddr(pc)), shared) {
            return match self.tail - begin {
                0 => Served::Misses,
                traps => Served::Fetched(traps),
            };
        }
        let hart = &mut shared.harts[self.hart_index];
        let Ok(first) = hart.locate(shared.machine, VirtAddr(pc), 2, Access::Fetch) else {
            self.fault(core, now, pc);
            return Served::Fetched(1);
        };
        let line = first.block(core.fetch_line_log2);
        let bank = 1 << (line & (core.params.core.fetch_banks - 1));
        if *banks & bank != 0 {
            return Served::Conflicts;
        }
        *banks |= bank;
        if shared.machine.is_ram(first, 2) && !self.line_is_there(core, first, line, shared) {
            core.active = true;
            let request = Request {
                kind: RequestKind::Fetch,
                core: core.id,
                context: self.id,
                addr: first,
                tag: line,
            };
            let asked = shared.memory.miss(now, request);
            core.modes[self.mode].count_fetch_miss(&asked);
            match asked {
                Ok(_) => {
                    self.fetch = Fetch::Line;
                    self.fetch_line = line;
                }
                Err(until) => {
                    self.fetch_from = until;
                    self.empty = Slot::FetchMiss;
                }
            }
            return Served::Misses;
        }
        let virtual_line = pc >> core.fetch_line_log2;
        let room = (self.capacity - (self.tail - self.head)).min(most);
        let fp_off = shared.harts[self.hart_index].csr.fp_off();
        let mut fetched = 0;
        while fetched < room && pc >> core.fetch_line_log2 == virtual_line {
            if VirtAddr(pc).leaves_page(4)
                && !self.second_half_translated(c, core, now, pc, first, shared)
            {
                return Served::Fetched(self.tail - begin);
            }
            let mut undecoded;
            let at = PhysAddr((first.0 & !(PAGE_BYTES - 1)) | pc & (PAGE_BYTES - 1));
            let inst = match shared.code.decoded(at) {
                Some(found) if !shared.machine.pages.code_written() => found,
                _ => {
                    undecoded = core.nothing;
                    if !self.decode(pc, shared, &mut undecoded) {
                        self.fault(core, now, pc);
                        return Served::Fetched(fetched + 1);
                    }
                    &undecoded
                }
            };
            let next_pc = pc.wrapping_add(u64::from(inst.len));
            if inst.op == Op::Probe {
                // It occupies no entry; who retires the next instruction passes it.
                if Probe::says_who_waits(inst.imm as u16) {
                    self.fetch_mark = NO_MARK;
                }
                pc = next_pc;
                self.fetch_pc = pc;
                core.active = true;
                continue;
            }
            let how = how(inst, fp_off, core);
            let hart = &mut shared.harts[self.hart_index];
            let known_next = self.ask_oracle(pc, inst, how, hart, shared.machine);
            let continues = self.enter(c, core, now, pc, inst, how, known_next);
            fetched += 1;
            pc = self.fetch_pc;
            if !continues {
                break;
            }
        }
        Served::Fetched(fetched)
    }

    /// Looks up the instruction cache. A line that has just come serves, also if others have pushed it
    /// out again.
    fn line_is_there<O: Observer>(
        &mut self,
        core: &mut CoreState,
        first: PhysAddr,
        line: u64,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        if self.bypasses_caches(core) {
            return true;
        }
        let hit = shared.memory.fetch(core.id, first) || self.fetch_line == line;
        let counters = &mut core.modes[self.mode];
        counters.l1i_accesses += 1;
        counters.l1i_misses += u64::from(!hit);
        hit
    }

    /// Whether the translation of the second half of an instruction at the end of a page is at hand, if
    /// it has one. If not, fetch waits for a walk.
    #[cold]
    fn second_half_translated<O: Observer>(
        &mut self,
        c: usize,
        core: &mut CoreState,
        now: Cycle,
        pc: u64,
        first: PhysAddr,
        shared: &mut Shared<'_, O>,
    ) -> bool {
        let low = PhysAddr((first.0 & !(PAGE_BYTES - 1)) | pc & (PAGE_BYTES - 1));
        let crosses = shared.machine.fetch16(low).is_ok_and(|low| low & 3 == 3);
        !crosses || self.fetch_translated(c, core, now, (pc, VirtAddr(pc.wrapping_add(2))), shared)
    }

    /// The instruction at `pc`, which has not been decoded yet, into `inst`. Returns whether it can be
    /// fetched.
    #[cold]
    fn decode<O: Observer>(
        &mut self,
        pc: u64,
        shared: &mut Shared<'_, O>,
        inst: &mut Inst,
    ) -> bool {
        let hart = &mut shared.harts[self.hart_index];
        let found = hart.fetch_at(pc, shared.machine, shared.code);
        if let Ok(found) = &found {
            *inst = *found;
        }
        found.is_ok()
    }

    /// What cannot be fetched raises its exception when it is the oldest.
    fn fault(&mut self, core: &mut CoreState, now: Cycle, pc: u64) {
        let nothing = core.nothing;
        self.push(core, now, pc, &nothing, How::Fault, None, pc);
        self.fetch = Fetch::Blocked;
    }

    /// Fetches an instruction and predicts the next pc, unless it is known. Returns whether fetch continues
    /// with the following instruction in the same cycle.
    #[expect(
        clippy::too_many_arguments,
        reason = "what fetch knows of an instruction"
    )]
    #[inline(always)]
    fn enter(
        &mut self,
        c: usize,
        core: &mut CoreState,
        now: Cycle,
        pc: u64,
        inst: &Inst,
        how: How,
        known_next: Option<u64>,
    ) -> bool {
        let next_pc = pc.wrapping_add(u64::from(inst.len));
        let branch = BranchKind::of(inst);
        let mut next = next_pc;
        let n = self.tail;
        let seq = core.next_seq;
        if let Some(branch) = branch {
            core.predictors.set_mode(c, self.mode);
            let prediction = match known_next {
                Some(next) => Prediction {
                    taken: branch != BranchKind::Conditional || next != next_pc,
                    target: Some(next),
                    checkpoint: core.predictors.checkpoint(c),
                },
                None => core.predictors.predict(c, pc, next_pc, branch),
            };
            *self.prediction_mut(n) = prediction;
            if prediction.taken {
                let stalls = core.predictors.stalls_on_miss();
                let unknown = if stalls { UNKNOWN } else { next_pc };
                next = prediction.target.unwrap_or(unknown);
                if matches!(
                    branch,
                    BranchKind::Conditional | BranchKind::Jump | BranchKind::Call
                ) {
                    let target = pc.wrapping_add(inst.imm as i64 as u64);
                    if next != target {
                        let decoded = now.after(1 + core.params.core.misfetch_cycles);
                        if stalls {
                            self.fetch_from = decoded;
                            self.empty = Slot::Branch;
                            next = target;
                        } else {
                            core.schedule(decoded, Event::Misfetch, c, n, seq);
                        }
                    }
                }
            }
        }
        self.push(core, now, pc, inst, how, branch, next);
        self.fetch_pc = next;
        if how == How::Serial || next == UNKNOWN {
            self.fetch = Fetch::Blocked;
            return false;
        }
        next == next_pc
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what fetch knows of an instruction"
    )]
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        core: &mut CoreState,
        now: Cycle,
        pc: u64,
        inst: &Inst,
        how: How,
        branch: Option<BranchKind>,
        predicted: u64,
    ) {
        let seq = core.next_seq;
        core.next_seq += 1;
        let due = now.after(core.params.core.front_cycles);
        let n = self.tail;
        let entry = self.entry_mut(n);
        entry.inst = *inst;
        entry.class = inst.op.class();
        entry.progress = Progress::Fetched;
        entry.how = how;
        entry.stale = false;
        entry.translated = false;
        entry.branch = branch;
        entry.seq = seq;
        entry.pc = pc;
        entry.predicted = predicted;
        entry.due = due;
        entry.destination = NONE;
        entry.bytes = 0;
        entry.data = 0;
        if inst.mark() != self.fetch_mark && how != How::Handler {
            self.open_interval(core, n, inst.mark());
        }
        if branch.is_some() {
            self.note_branch(n);
        }
        self.entry_mut(n).purpose = self.fetch_purpose;
        core.purposes[self.fetch_purpose as usize].fetched += 1;
        self.tail += 1;
        self.unissued += 1;
    }
}

/// Who brings an instruction to its end.
#[inline(always)]
fn how(inst: &Inst, fp_off: bool, core: &CoreState) -> How {
    match inst.op.class() {
        Class::Alu | Class::Branch | Class::Jump | Class::Mul | Class::Div => How::Apart,
        Class::Load | Class::Store if !fp_off => How::Apart,
        _ => how_otherwise(inst, fp_off, core),
    }
}

fn how_otherwise(inst: &Inst, fp_off: bool, core: &CoreState) -> How {
    let touches_fp = || inst.rd != loiter_isa::SINK && inst.rd >= 32 || inst.rs2 >= 32;
    match (inst.op.class(), inst.op) {
        // It writes two registers.
        (_, Op::AmocasQ) => How::Serial,
        (Class::Pause, _) if core.pause_is_nop => How::Apart,
        (Class::Csr | Class::System | Class::Pause | Class::Nap | Class::Probe, _)
        | (_, Op::FenceI) => How::Serial,
        (_, op) if op.fences_translations() => How::Serial,
        // Memory is ordered but for stores before loads.
        (Class::Fence, _) if !inst.orders_stores_before_loads() => How::Apart,
        (Class::Atomic, op) if core.atomics_annotated && !is_lock(op) && !inst.acquires() => {
            How::Oldest
        }
        (Class::Fence | Class::Atomic, _) => How::Barrier,
        (
            Class::FpAdd
            | Class::FpMul
            | Class::FpFma
            | Class::FpDiv
            | Class::FpSqrt
            | Class::FpMove,
            _,
        ) if fp_off => How::Oldest,
        (Class::Load | Class::Store, _) if fp_off && touches_fp() => How::Oldest,
        _ => How::Apart,
    }
}
