//! A chip of out-of-order cores: who sits where, and its cores' cycles.

use loiter_hart::{Hart, HartState, Nap};
use loiter_isa::SINK;
use loiter_machine::Machine;
use loiter_memory::Memory;
use loiter_observe::{Course, Doing, Slot};
use loiter_types::{ContextId, Cycle, HartId};

use super::context::Fetch;
use super::core::Core;
use super::params::SmtParams;
use super::registers::File;
use crate::seats::Seats;
use crate::shared::mode;
use crate::{Observer, Shared};

/// The cores of a chip.
#[derive(Debug)]
pub struct Chip {
    pub(super) cores: Vec<Core>,
    /// For every core, the cycle before which nothing happens in it.
    pub(super) next: Vec<Cycle>,
    pub(super) seats: Seats,
}

impl Chip {
    /// A chip of `cores` cores with vacant contexts before `memory`, at cycle `now`.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub fn new(
        params: &SmtParams,
        cores: usize,
        memory: &Memory,
        now: Cycle,
    ) -> Result<Self, (&'static str, String)> {
        params.check()?;
        let mut all = Vec::with_capacity(cores);
        for id in 0..cores {
            all.push(Core::new(id, params, memory, now)?);
        }
        Ok(Self {
            cores: all,
            next: vec![Cycle::NEVER; cores],
            seats: Seats::default(),
        })
    }

    /// Seats `hart` of `machine` in a vacant context, where it continues, or sleeps on, from `now`.
    /// With `spinning` it waits for a lock.
    pub fn attach(
        &mut self,
        hart: &mut Hart,
        machine: &Machine,
        context: ContextId,
        spinning: bool,
        now: Cycle,
    ) {
        let per_core = self.cores[0].contexts.len();
        let (place, seat) = self.seats.take(hart.id, context, per_core);
        let Core { state, contexts } = &mut self.cores[place];
        let context = &mut contexts[seat];
        debug_assert!(context.hart.is_none(), "{} is taken", context.id);
        context.settle(now);
        context.hart = Some(hart.id);
        context.hart_index = hart.id.index();
        hart.csr.set_lines(machine.interrupt_lines(hart.id));
        for slot in 1..SINK {
            let register = state.registers.take(File::of(slot));
            let register = register.expect("the files hold the registers of every context");
            state.registers.set(register, hart.regs[slot as usize]);
            context.map[slot as usize] = register;
        }
        context.course = Course::seated(mode(hart), spinning);
        context.reconsider(now, hart, Doing::Executing);
        context.fetch_pc = hart.pc;
        context.fetch = Fetch::Ready;
        context.fetch_from = now;
        context.slot_now = Slot::FrontEnd;
        context.check_interrupts = true;
        if let HartState::Napping(nap) = std::mem::replace(&mut hart.state, HartState::Running)
            // What wakes it may have happened before it came here.
            && !hart.nap_is_over(nap, &machine.watches)
        {
            let sleep = state.params.wait.sleep_on(nap, now, hart);
            context.sleep(now, sleep, state, hart);
        }
        self.rescheduled(place, now);
    }

    /// The first cycle in which anything happens in the cores.
    #[must_use]
    pub fn next(&self) -> Cycle {
        self.next.iter().copied().min().unwrap_or(Cycle::NEVER)
    }

    /// Something from outside has changed a core.
    pub(super) fn rescheduled(&mut self, core: usize, now: Cycle) {
        self.cores[core].state.rouse();
        // A cycle that the core has been through does not come again.
        let at = now.max(self.cores[core].state.counted_to);
        self.next[core] = self.next[core].min(at);
    }

    /// Cycle after cycle from `now` on, as long as only the cores have something to do: memory has not
    /// before their next cycle, it lies before `until`, and no timer has changed. At most `most`
    /// cycles. Returns the last.
    pub fn run<O: Observer>(
        &mut self,
        mut now: Cycle,
        until: Cycle,
        most: u32,
        shared: &mut Shared<'_, O>,
    ) -> Cycle {
        for _ in 0..most {
            let next = self.tick(now, shared);
            // Stores perform here, which can end naps and the run.
            let stops = shared.stops()
                || shared.machine.watches.any_lost()
                || shared.machine.ended().is_some();
            if stops || next >= until || next >= shared.memory.next() {
                break;
            }
            now = next;
        }
        now
    }

    fn tick<O: Observer>(&mut self, now: Cycle, shared: &mut Shared<'_, O>) -> Cycle {
        let mut earliest = Cycle::NEVER;
        for place in 0..self.cores.len() {
            if self.next[place] <= now {
                self.next[place] = self.cores[place].tick(now, shared);
                self.tell_of_stores(place);
            }
            earliest = earliest.min(self.next[place]);
        }
        earliest.max(now.after(1))
    }

    /// How `hart` sleeps, if it does.
    #[must_use]
    pub fn nap(&self, hart: HartId) -> Option<Nap> {
        let (place, c) = self.seats.of(hart);
        match self.cores[place].contexts[c].fetch {
            Fetch::Asleep(sleep) => Some(sleep.nap),
            _ => None,
        }
    }

    /// What every seated context waits for, for the watchdog's message.
    #[must_use]
    pub fn who_waits(&self) -> Vec<(ContextId, HartId, String)> {
        let contexts = self.cores.iter().flat_map(|core| &core.contexts);
        contexts
            .filter_map(|context| {
                let what = match context.fetch {
                    Fetch::Asleep(sleep) => sleep.nap.words().to_owned(),
                    fetch => format!("fetch: {fetch:?}, oldest: {:?}", context.oldest),
                };
                Some((context.id, context.hart?, what))
            })
            .collect()
    }
}
