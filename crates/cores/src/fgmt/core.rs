//! A chip of fine-grained multithreaded cores: selection of contexts, cycle by cycle.

use loiter_hart::{CodeCache, Hart, HartState, Nap, Unhandled};
use loiter_isa::{Class, decode};
use loiter_machine::Machine;
use loiter_memory::MemorySystem;
use loiter_observe::{Accounts, Doing, Observer, Slot};
use loiter_types::{ContextId, CoreId, Cycle, HartId};

use super::context::{Context, NO_LINE, Waits};
use super::counters::CoreCounters;
use super::params::{CLASSES, FgmtParams};
use super::store_buffer::StoreBuffer;
use super::units::{ChipFpu, CoreUnits};

/// What the cores share with the rest of the system while they run.
pub struct Shared<'a, O> {
    /// All harts, by number.
    pub harts: &'a mut [Hart],
    /// RAM and devices.
    pub machine: &'a mut Machine,
    /// Caches and memory timing.
    pub memory: &'a mut MemorySystem,
    /// Decoded instructions.
    pub code: &'a mut CodeCache,
    /// Who watches.
    pub observer: &'a mut O,
    /// Core clock cycles for each tick of the platform's timer.
    pub cycles_per_tick: u64,
    /// A trap that no handler takes ends the run.
    pub unhandled: Option<(HartId, Unhandled)>,
    /// Whether a device was accessed, so that timers may have changed.
    pub device_accessed: bool,
}

impl<O: Observer> Shared<'_, O> {
    /// Sets the clocks that `hart` can read.
    pub(super) fn set_clock(&mut self, hart: HartId, now: Cycle) {
        let time = now.0 / self.cycles_per_tick;
        self.machine.set_time(time);
        let clock = &mut self.harts[hart.index()].csr.clock;
        clock.cycle = now.0;
        clock.time = time;
    }
}

/// A pipe: its contexts, the least recently selected first.
#[derive(Debug)]
struct Pipe {
    order: Vec<usize>,
}

/// One core.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) id: CoreId,
    pub(super) contexts: Vec<Context>,
    pipes: Vec<Pipe>,
    /// The pipe that goes first when several want one unit.
    favoured: usize,
    pub(super) units: CoreUnits,
    pub(super) latency: [u64; CLASSES],
    pub(super) params: FgmtParams,
    /// `core.stall = "use"`.
    pub(super) stall_on_use: bool,
    /// `core.store_buffer_full_stops = "thread"`.
    pub(super) full_stops_thread: bool,
    pub(super) counters: CoreCounters,
    /// No context can issue before.
    pub(super) next: Cycle,
}

/// The cores of a chip, and the unit they share.
#[derive(Debug)]
pub struct Chip {
    pub(super) cores: Vec<Core>,
    pub(super) fpu: ChipFpu,
    /// Core and context within it, by hart.
    pub(super) seats: Vec<(usize, usize)>,
}

impl Chip {
    /// A chip of `cores` cores with vacant contexts, at cycle `now`. `line_bytes` is the line of the
    /// second level.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub fn new(
        params: &FgmtParams,
        cores: usize,
        line_bytes: u64,
        now: Cycle,
    ) -> Result<Self, (&'static str, String)> {
        params.check()?;
        Ok(Self {
            cores: (0..cores)
                .map(|id| Core::new(id, params, line_bytes, now))
                .collect(),
            fpu: ChipFpu::new(&params.fpu),
            seats: Vec::new(),
        })
    }

    /// Seats `hart` in a vacant context, where it goes on, or sleeps on, from `now`.
    pub fn attach(&mut self, hart: &mut Hart, context: ContextId, now: Cycle) {
        let per_core = self.cores[0].contexts.len();
        let (core, seat) = (context.index() / per_core, context.index() % per_core);
        if self.seats.len() <= hart.id.index() {
            self.seats.resize(hart.id.index() + 1, (0, 0));
        }
        self.seats[hart.id.index()] = (core, seat);
        let core = &mut self.cores[core];
        let context = &mut core.contexts[seat];
        debug_assert!(context.hart.is_none(), "{} is taken", context.id);
        context.settle(now);
        context.hart = Some(hart.id);
        context.fetch_line = NO_LINE;
        context.refetch();
        context.check_interrupts = true;
        match std::mem::replace(&mut hart.state, HartState::Running) {
            HartState::Napping(nap) => context.sleep(now, nap, hart),
            HartState::Running => {
                context.reconsider(now, hart, Doing::Executing);
                context.unblock(now);
            }
        }
        core.next = core.next.min(context.ready_at);
    }

    /// The first cycle in which a context may issue.
    #[must_use]
    pub fn next(&self) -> Cycle {
        self.cores
            .iter()
            .map(|core| core.next)
            .min()
            .unwrap_or(Cycle::NEVER)
    }

    /// One cycle of every core that has something to do.
    pub fn tick<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) {
        for core in &mut self.cores {
            if core.next <= now {
                core.tick(now, &mut self.fpu, shared);
            } else {
                debug_assert!(
                    core.contexts.iter().all(|context| context.ready_at > now),
                    "{} was passed over although it has work",
                    core.id
                );
            }
        }
    }

    /// Charges every context up to `now`, and answers the accounts with the hart of each.
    pub fn close(&mut self, now: Cycle) -> Vec<(Option<HartId>, Accounts)> {
        let mut accounts = Vec::new();
        for core in &mut self.cores {
            for context in &mut core.contexts {
                context.settle(now);
                accounts.push((context.hart, context.accounts.clone()));
            }
        }
        accounts
    }

    /// Counters by core.
    pub fn counters(&self) -> impl Iterator<Item = (CoreId, &CoreCounters)> {
        self.cores.iter().map(|core| (core.id, &core.counters))
    }

    /// What every seated context waits for, for the watchdog's message.
    #[must_use]
    pub fn who_waits(&self) -> Vec<(ContextId, HartId, String)> {
        let mut all = Vec::new();
        for context in self.cores.iter().flat_map(|core| &core.contexts) {
            let Some(hart) = context.hart else { continue };
            let what = match context.waits {
                Waits::Wake(Nap::Wfi) => "sleeps in wfi until an interrupt pends".to_owned(),
                Waits::Wake(Nap::WrsNto) => {
                    "sleeps in wrs.nto until its watched line is written".to_owned()
                }
                other => format!("{other:?}, ready at {}", context.ready_at),
            };
            all.push((context.id, hart, what));
        }
        all
    }
}

impl Core {
    fn new(id: usize, params: &FgmtParams, line_bytes: u64, now: Cycle) -> Self {
        let contexts = params.contexts as usize;
        let in_pipe = contexts / params.core.pipes as usize;
        let nothing = decode(0);
        let stores = || {
            StoreBuffer::new(
                params.core.store_buffer_entries as usize,
                line_bytes,
                params.core.store_pipelining == "same_line",
            )
        };
        Self {
            id: CoreId::new(id),
            contexts: (0..contexts)
                .map(|n| Context::new(ContextId::new(id * contexts + n), stores(), nothing, now))
                .collect(),
            pipes: (0..params.core.pipes as usize)
                .map(|pipe| Pipe {
                    order: (pipe * in_pipe..(pipe + 1) * in_pipe).collect(),
                })
                .collect(),
            favoured: 0,
            units: CoreUnits::new(&params.fpu),
            latency: params.latency.table(),
            stall_on_use: params.core.stall == "use",
            full_stops_thread: params.core.store_buffer_full_stops == "thread",
            params: params.clone(),
            counters: CoreCounters::default(),
            next: Cycle::NEVER,
        }
    }

    /// One cycle: every pipe selects a context and issues its instruction. The favoured pipe goes
    /// first, so that it gets a unit that several want.
    fn tick<O: Observer>(&mut self, now: Cycle, fpu: &mut ChipFpu, shared: &mut Shared<'_, O>) {
        let pipes = self.pipes.len();
        let first = self.favoured;
        let mut memory_taken = false;
        let mut fp_taken = false;
        for n in 0..pipes {
            let pipe = (first + n) % pipes;
            let Some(position) = self.select(pipe, now, fpu, shared) else {
                continue;
            };
            let chosen = self.pipes[pipe].order[position];
            if pipes > 1 {
                let class = self.contexts[chosen].inst.op.class();
                let memory = matches!(class, Class::Load | Class::Store | Class::Atomic);
                let fp = self.units.wants_fp_slot(class);
                if memory && memory_taken || fp && fp_taken {
                    self.contexts[chosen].stall(now, now.after(1), Slot::UnitBusy);
                    self.counters.pipe_conflicts += 1;
                    self.favoured = (first + 1) % pipes;
                    continue;
                }
                memory_taken |= memory;
                fp_taken |= fp;
            }
            self.pipes[pipe].order[position..].rotate_left(1);
            self.issue(chosen, now, fpu, shared);
        }
        self.next = self
            .contexts
            .iter()
            .map(|context| context.ready_at)
            .min()
            .unwrap_or(Cycle::NEVER)
            .max(now.after(1));
    }

    /// The position in the pipe's order of the context that issues now: the least recently selected
    /// that can, those that rely on an unconfirmed hit only when no other can.
    #[inline]
    fn select<O: Observer>(
        &mut self,
        pipe: usize,
        now: Cycle,
        fpu: &ChipFpu,
        shared: &mut Shared<'_, O>,
    ) -> Option<usize> {
        let mut speculative = None;
        for position in 0..self.pipes[pipe].order.len() {
            let candidate = self.pipes[pipe].order[position];
            if self.contexts[candidate].ready_at > now || !self.can_issue(candidate, now, fpu, shared)
            {
                continue;
            }
            if self.contexts[candidate].firm_at <= now {
                return Some(position);
            }
            speculative = speculative.or(Some(position));
        }
        speculative
    }
}
