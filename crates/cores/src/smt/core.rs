//! An out-of-order core, cycle by cycle.

use std::sync::Arc;

use loiter_isa::{Inst, decode};
use loiter_memory::{Memory, Tlb, TlbParams, Wheel};
use loiter_observe::{Purpose, Slot};
use loiter_types::{ContextId, CoreId, Cycle, HartId, PhysAddr};
use serde::{Deserialize, Serialize};

use super::awake::ContextSet;
use super::context::{Context, Fetch, NO_LINE, NO_MARK, Progress};
use super::counters::{Histograms, SmtCounters, SmtModeCounters, SmtPurposeCounters};
use super::front::Stages;
use super::oracle::Oracle;
use super::params::SmtParams;
use super::policy::{FetchPolicy, Shares};
use super::ports::DataPorts;
use super::queue::Queues;
use super::ranked::{Candidates, Ranked};
use super::refill::handler_instruction;
use super::registers::{NONE, Registers};
use super::squash;
use super::translate::For;
use crate::idle::Idle;
use crate::predict::{Prediction, Predictors};
use crate::store_buffer::StoreBuffer;
use crate::walker::{Ended, Walker};
use crate::{Observer, Shared, WaitCounters};

/// What is to happen to an instruction in a coming cycle.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) enum Event {
    /// Instructions that need its result may issue.
    Wake,
    /// A load accesses the data cache.
    Access,
    /// A branch finds that fetch went the wrong path.
    Redirect,
    /// Decode finds that a direct branch or jump leads elsewhere than fetch continued.
    Misfetch,
    /// What was refused may be asked for again.
    Retry,
    /// The result of an atomic that has performed at a home is there.
    Returns,
}

/// Words of a core's wheel: of 128 cycles, since hardly any event is further ahead.
const WHEEL_WORDS: usize = 2;

/// An event, and the instruction: context, position in its window, age.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct InstructionEvent {
    pub(super) event: Event,
    pub(super) c: u8,
    pub(super) n: u64,
    pub(super) seq: u64,
}

/// A store that has performed.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct PerformedStore {
    pub(super) hart: HartId,
    pub(super) addr: PhysAddr,
    pub(super) bytes: u64,
    /// The core owned its lines, so that other cores have lost them before.
    pub(super) owned: bool,
}

/// What the contexts of a core share. What is asked in every cycle comes first, as in [`Context`].
#[derive(Debug, Deserialize, Serialize)]
#[repr(C, align(64))]
pub(super) struct CoreState {
    // What every cycle asks.
    /// The first cycle that has not been counted.
    pub(super) counted_to: Cycle,
    /// Where the accounts of contexts that are awake stand, whether or not it has been entered there: before that
    /// they wait for their [`Context::slot_now`].
    pub(super) charged_to: Cycle,
    /// Contexts that are not dormant; some of them may be.
    pub(super) awake: ContextSet,
    /// When the first nap of the others ends by its limit.
    pub(super) naps_end: Cycle,
    /// Where turns begin.
    pub(super) turn: usize,
    pub(super) next_seq: u64,
    /// Instructions that retired in this cycle.
    pub(super) retired_now: u64,
    /// When those bits are forgotten next.
    pub(super) waits_clear_at: Cycle,
    /// Atomics and instructions of the hardware lock that have begun in this cycle.
    pub(super) synchronised: u64,
    pub(super) params: Arc<SmtParams>,
    pub(super) div_free: Cycle,
    pub(super) fp_div_free: Cycle,
    /// Contexts whose harts are about to leave while others stay.
    pub(super) leaving: usize,
    /// What it has done that is more than reading its first level, but for what memory counts.
    pub(super) changes: u64,
    /// Something happened in this cycle, so that something may in the next.
    pub(super) active: bool,
    /// Harts are about to leave: nothing is begun, and what can be taken back is.
    pub(super) draining: bool,
    /// Whether a full queue, or the want of a register, kept an instruction in the front end.
    pub(super) queue_full: bool,
    pub(super) registers_full: bool,
    /// Whether the front end had no room for what fetch could have brought.
    pub(super) front_full: bool,
    /// `core.rename_order = "in_order"`.
    pub(super) renames_in_order: bool,
    /// `core.atomic_order = "annotated"`.
    pub(super) atomics_annotated: bool,
    /// `core.atomics = "far"`, and memory grants lines.
    pub(super) far_atomics: bool,
    /// `wait.pause_cycles = 1`.
    pub(super) pause_is_nop: bool,
    /// Memory tells of lines that are lost: what crosses lines needs each of them.
    pub(super) owns_lines: bool,
    /// What the kernel does not touch, by `core.kernel_bypasses`.
    pub(super) kernel_bypasses_caches: bool,
    /// `walker.kind = "trap"`.
    pub(super) traps_to_refill: bool,
    pub(super) fetch_policy: FetchPolicy,
    pub(super) id: CoreId,
    pub(super) fetch_line_log2: u32,
    pub(super) data_line_log2: u32,
    pub(super) ports: DataPorts,
    /// Registers whose readers may issue in the next cycle.
    pub(super) waking: Vec<(u8, u64, u64)>,
    /// Entries of the integer queue, likewise.
    pub(super) in_queue: [u64; 3],
    pub(super) counters: SmtCounters,
    pub(super) histograms: Histograms,
    /// `core.front_end = "stages"`.
    pub(super) stages: Option<Stages>,
    pub(super) events: Wheel<InstructionEvent, WHEEL_WORDS>,
    pub(super) queues: Queues,
    /// Contexts by what they are preferred by.
    pub(super) order: Candidates,
    /// Entries of a queue that may issue, by age.
    pub(super) ready: Ranked,
    pub(super) due: Vec<InstructionEvent>,
    /// Stores that performed in this cycle.
    pub(super) performed: Vec<PerformedStore>,
    pub(super) shares: Shares,
    // What single instructions ask.
    pub(super) registers: Registers,
    /// By [`super::ModeGroup`].
    pub(super) modes: [SmtModeCounters; 2],
    /// By [`loiter_observe::Purpose`].
    pub(super) purposes: [SmtPurposeCounters; 3],
    /// Loads that wait for older stores, a bit each, by address.
    pub(super) waits_for_stores: Vec<bool>,
    pub(super) predictors: Predictors,
    pub(super) itlb: Tlb,
    pub(super) dtlb: Tlb,
    pub(super) walker: Walker<For>,
    /// Loads that found no miss register, in order: context, position in its window, age.
    pub(super) refused_loads: Vec<(usize, u64, u64)>,
    /// Kept for its room.
    pub(super) ended_walks: Vec<Ended<For>>,
    /// What stands in the place of an instruction that cannot be fetched.
    pub(super) nothing: Inst,
    /// What stands for an instruction of a handler that refills a translation look-aside buffer.
    pub(super) handler_instruction: Inst,
    /// Contexts that have given their shares to the others while they sleep.
    pub(super) without_share: u64,
    pub(super) naps: WaitCounters,
    pub(super) idle: Idle,
}

/// One core.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Core {
    pub(super) state: CoreState,
    pub(super) contexts: Vec<Context>,
}

impl Core {
    /// Core `id`, with vacant contexts that are numbered from `first` on, before `memory`.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub(crate) fn new(
        params: &Arc<SmtParams>,
        id: CoreId,
        first: ContextId,
        memory: &Memory,
        now: Cycle,
    ) -> Result<Self, (&'static str, String)> {
        let contexts = params.contexts as usize;
        let owns_lines = memory.grants_lines();
        let core = &params.core;
        let mut predictors = Predictors::new(&params.branch, &params.btb, contexts)?;
        let bypasses = |what| [what, "both"].contains(&core.kernel_bypasses.as_str());
        if bypasses("predictors") {
            predictors = predictors.with_own_for_kernel();
        }
        let prediction = Prediction {
            taken: false,
            target: None,
            checkpoint: predictors.checkpoint(0),
        };
        predictors.counters = Default::default();
        let window = core.reorder_entries as usize;
        let tlb = |params: &TlbParams| Tlb::new(params).expect("SmtParams::check has passed it");
        let buffer = || {
            StoreBuffer::new(
                core.store_buffer_entries as usize,
                memory.line_bytes(),
                false,
            )
            .splitting_lines(owns_lines)
        };
        Ok(Self {
            state: CoreState {
                order: Candidates::new(),
                ready: Ranked::new(),
                id,
                fetch_line_log2: memory.fetch_line_log2(),
                data_line_log2: memory.data_line_log2(),
                owns_lines,
                registers: Registers::new(
                    contexts,
                    core.integer_registers as usize,
                    core.fp_registers as usize,
                ),
                queues: Queues::new([core.integer_queue_entries, core.fp_queue_entries]),
                predictors,
                itlb: tlb(&params.itlb),
                dtlb: tlb(&params.dtlb),
                walker: Walker::new(&params.walker, id, params.latency.load_cycles)
                    .bypassing_caches(bypasses("caches")),
                refused_loads: Vec::new(),
                ended_walks: Vec::new(),
                events: Wheel::default(),
                waking: Vec::new(),
                synchronised: 0,
                div_free: now,
                fp_div_free: now,
                ports: DataPorts::new(&params.units),
                waits_for_stores: vec![false; core.store_wait_entries as usize],
                waits_clear_at: next_multiple(now, core.store_wait_clear_cycles),
                next_seq: 1,
                nothing: decode(0),
                handler_instruction: handler_instruction(),
                kernel_bypasses_caches: bypasses("caches"),
                traps_to_refill: params.refill.kind == "trap",
                counters: SmtCounters::default(),
                modes: Default::default(),
                purposes: Default::default(),
                in_queue: [0; 3],
                histograms: Histograms::new(params),
                retired_now: 0,
                shares: Shares::new(params, params.contexts),
                without_share: 0,
                naps: WaitCounters::default(),
                idle: Idle::new(&params.idle, contexts, now),
                renames_in_order: core.rename_order == "in_order",
                atomics_annotated: core.atomic_order == "annotated",
                far_atomics: core.atomics == "far" && owns_lines,
                pause_is_nop: params.wait.pause_cycles == 1,
                counted_to: now,
                charged_to: now,
                queue_full: false,
                registers_full: false,
                front_full: false,
                stages: (core.front_end == "stages").then(|| Stages::new(core.front_cycles)),
                fetch_policy: FetchPolicy::named(&core.fetch_policy),
                active: false,
                draining: false,
                leaving: 0,
                turn: 0,
                awake: ContextSet::first(contexts),
                naps_end: Cycle::NEVER,
                performed: Vec::new(),
                changes: 0,
                due: Vec::new(),
                params: Arc::clone(params),
            },
            contexts: (0..contexts)
                .map(|n| {
                    let id = ContextId::new(first.index() + n);
                    let mut context = Context::new(id, window, buffer(), prediction, now);
                    let oracle = || Box::new(Oracle::new(window.next_power_of_two()));
                    context.oracle = (params.branch.kind == "oracle").then(oracle);
                    context
                })
                .collect(),
        })
    }

    /// One cycle. Returns the next in which anything happens; a debug build goes through the one after,
    /// if that is said to be later, to see that nothing does.
    pub(super) fn tick<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> Cycle {
        let next = self.cycle(now, shared);
        if cfg!(debug_assertions) && next > now.after(1) && shared.unhandled.is_none() {
            let (counters, counted_to) = (self.state.counters.clone(), self.state.counted_to);
            let purposes = self.state.purposes.clone();
            let histograms = self.state.histograms.clone();
            let led: Vec<_> = self.contexts.iter().map(Context::led).collect();
            let again = self.cycle(now.after(1), shared);
            debug_assert!(
                !self.state.active && again == next,
                "{}: a cycle was passed over although there was something to do",
                self.state.id
            );
            (self.state.counters, self.state.counted_to) = (counters, counted_to);
            self.state.histograms = histograms;
            self.state.purposes = purposes;
            for (context, led) in self.contexts.iter_mut().zip(led) {
                context.set_led(led);
            }
        }
        next
    }

    /// One cycle, the last stage first, so that an instruction passes one stage in a cycle.
    pub(super) fn cycle<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> Cycle {
        self.count_skipped(now);
        self.state.active = false;
        self.state.synchronised = 0;
        self.end_naps(now);
        self.state.charged_to = now;
        self.wake();
        if self.state.idle.loses_at() <= now && !self.state.draining {
            self.loses_caches(now, shared);
        }
        if self.state.walker.due <= now && !self.state.draining {
            self.continue_walks(now, shared);
        }
        if self.state.events.next() <= now {
            self.events(now, shared);
        }
        self.drain_stores(now, shared);
        if self.state.draining {
            self.give_up(|_| true);
        } else {
            if self.state.leaving > 0 {
                self.give_up(|context| context.leaves);
            }
            self.retire(now, shared);
            self.issue(now, shared);
            self.rename(now, shared);
        }
        if O::PIPELINE {
            self.tell_squashed(now, shared);
        }
        if !self.state.draining {
            self.fetch(now, shared);
        }
        self.account(now);
        if self.state.active || !self.state.waking.is_empty() {
            self.next_turn();
            return now.after(1);
        }
        self.next_known(now)
    }

    /// The next context goes first in the next cycle; those that sleep have no turn.
    fn next_turn(&mut self) {
        let next = self.state.turn + 1;
        let next = if next == self.contexts.len() { 0 } else { next };
        let awake =
            |c: &usize| !matches!(self.contexts[*c].fetch, Fetch::Asleep(_) | Fetch::Vacant);
        if let Some(c) = self.state.awake.from(next).find(awake) {
            self.state.turn = c;
        }
    }

    /// The first cycle after `now` in which something happens, if nothing comes from outside.
    fn next_known(&self, now: Cycle) -> Cycle {
        let mut next = self.state.events.next();
        let mut consider = |at: Cycle| {
            if at > now {
                next = next.min(at);
            }
        };
        consider(self.state.naps_end);
        consider(self.state.idle.loses_at());
        for c in self.state.awake {
            let context = &self.contexts[c];
            if matches!(context.fetch, Fetch::Ready | Fetch::Handler) {
                consider(context.fetch_from);
            }
            if context.nap_until != Cycle::NEVER {
                consider(context.nap_until);
            }
            consider(context.awake_from);
            if !context.buffer.is_empty() {
                consider(context.drain_from);
            }
            if context.renamed < context.tail {
                consider(context.entry(context.renamed).due);
            }
            if context.head < context.renamed {
                let head = context.entry(context.head);
                if head.progress == Progress::Done {
                    consider(head.due);
                }
            }
        }
        if let Some(stages) = &self.state.stages {
            consider(stages.due());
        }
        if self.state.queues.has_ready(0) && self.state.waits_for_stores.contains(&true) {
            // A load that waits for older stores need not any more.
            consider(self.state.waits_clear_at);
        }
        consider(self.state.walker.due);
        consider(self.state.div_free);
        consider(self.state.fp_div_free);
        next
    }

    /// Readers of results of the last cycle may issue.
    fn wake(&mut self) {
        for at in 0..self.state.waking.len() {
            let (c, n, seq) = self.state.waking[at];
            self.wake_readers(c, n, seq);
        }
        self.state.waking.clear();
    }

    pub(super) fn wake_readers(&mut self, c: u8, n: u64, seq: u64) {
        let context = &self.contexts[c as usize];
        if !context.has(n, seq) {
            return;
        }
        let register = context.entry(n).destination;
        if register != NONE {
            self.state.wake_register(register);
        }
    }

    fn events<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        let mut due = std::mem::take(&mut self.state.due);
        self.state.events.advance(now, &mut due);
        self.state.active = true;
        for &InstructionEvent { event, c, n, seq } in &due {
            if !self.contexts[c as usize].has(n, seq) {
                continue;
            }
            match event {
                Event::Wake => self.wake_readers(c, n, seq),
                Event::Access => self.access(now, (c as usize, n), shared),
                Event::Redirect => self.redirect(c as usize, n, now),
                Event::Misfetch => self.misfetched(c as usize, n, now),
                Event::Retry => {}
                Event::Returns => {
                    let Core { state, contexts } = self;
                    contexts[c as usize].far_returns(c as usize, state, now, shared);
                }
            }
        }
        due.clear();
        self.state.due = due;
    }

    /// A branch that was mispredicted has executed: fetch continues where it leads.
    fn redirect(&mut self, c: usize, n: u64, now: Cycle) {
        let entry = self.contexts[c].entry(n);
        let branch = entry.branch.expect("only branches redirect");
        let (next, taken) = (entry.done.next, entry.is_taken(branch));
        // Decode may have been there in the meantime.
        if entry.predicted != next {
            self.fetch_from(c, n, (next, taken), now.after(1));
            self.contexts[c].correct_oracle(&self.state);
        }
    }

    /// Decode has reached a direct branch or jump that is predicted taken: fetch continues at its target,
    /// if it does not yet.
    fn misfetched(&mut self, c: usize, n: u64, now: Cycle) {
        let entry = self.contexts[c].entry(n);
        let target = entry.pc.wrapping_add(entry.inst.imm as i64 as u64);
        // Decode does not undo what execution has found.
        let leads_there = entry.progress != Progress::Done || entry.done.next == target;
        if entry.predicted != target && leads_there {
            self.fetch_from(c, n, (target, true), now);
        }
    }

    /// What follows branch `n` is squashed, and fetch continues at `next` from cycle `from` on; the context's
    /// history and return stack have seen it `taken` or not.
    fn fetch_from(&mut self, c: usize, n: u64, (next, taken): (u64, bool), from: Cycle) {
        let Core { state, contexts } = self;
        let context = &mut contexts[c];
        state.counters.misled_contexts += context.misled_since(n);
        squash::after(context, state, n);
        let entry = context.entry_mut(n);
        entry.predicted = next;
        let branch = entry.branch.expect("only branches redirect");
        let next_pc = entry.next_pc();
        let checkpoint = context.prediction(n).checkpoint;
        state
            .predictors
            .recover(c, &checkpoint, Some((branch, next_pc, taken)));
        context.fetch_at(next, from, Slot::Branch);
    }
}

impl CoreState {
    /// Instructions that read `register` may issue now.
    #[inline(always)]
    pub(super) fn wake_register(&mut self, register: u16) {
        let waiters = self.registers.wake(register);
        self.queues.wake(waiters);
    }

    /// An instruction with this purpose leaves its entry of a queue.
    #[inline(always)]
    pub(super) fn leave_queue(&mut self, slot: u8, queue: usize, purpose: Purpose) {
        self.queues.remove(slot);
        self.in_queue[purpose as usize] -= u64::from(queue == 0);
    }

    #[inline(always)]
    pub(super) fn schedule(&mut self, at: Cycle, event: Event, c: usize, n: u64, seq: u64) {
        let c = c as u8;
        self.events
            .insert(at, InstructionEvent { event, c, n, seq });
    }
}

impl Context {
    /// Fetch continues at `pc` from cycle `from` on; cycles without instructions until then are charged
    /// to `empty`.
    pub(super) fn fetch_at(&mut self, pc: u64, from: Cycle, empty: Slot) {
        self.fetch = Fetch::Ready;
        self.leave_refill();
        self.fetch_pc = pc;
        self.fetch_from = from;
        self.fetch_line = NO_LINE;
        if self.fetch_mark == NO_MARK {
            self.see_last_mark();
        }
        self.empty = empty;
    }
}

/// The first cycle after `now` whose number is a multiple of `cycles`.
pub(super) fn next_multiple(now: Cycle, cycles: u64) -> Cycle {
    Cycle((now.0 / cycles + 1) * cycles)
}
