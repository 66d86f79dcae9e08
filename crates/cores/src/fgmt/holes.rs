//! Slots of a pipe that no context can have: an operation that has issued needs them. In OpenSPARC T2 an integer result of
//! the floating-point unit takes the decode slot that would reach the register file with it (dec_del_ctl.v:1766 to 1785,
//! 1853), and an atomic takes a second slot (dec_del_ctl.v:1736 to 1759, 1850).

use loiter_isa::Class;
use loiter_types::{Cycle, StateVisitor};
use serde::{Deserialize, Serialize};

use super::core::Core;
use super::params::{CoreParams, MAX_PIPES};
use super::units::LOAD_STORE;

/// The slots of a core that are taken ahead of time.
#[derive(Debug, Deserialize, Serialize)]
#[repr(C)]
pub(super) struct Holes {
    /// The first cycle of which a slot may be taken.
    pub(super) next: Cycle,
    /// By pipe, in order.
    taken: [Vec<Cycle>; MAX_PIPES],
    /// From a taken slot to the next slot of the context whose result it is; 0: results take none.
    result_slot: u64,
    atomic_slots: u64,
    /// Before this cycle an atomic keeps the load/store unit.
    memory_free: Cycle,
}

impl Holes {
    pub(super) fn new(params: &CoreParams) -> Self {
        Self {
            next: Cycle::NEVER,
            taken: Default::default(),
            result_slot: params.integer_result_slot_cycles,
            atomic_slots: params.atomic_slots,
            memory_free: Cycle(0),
        }
    }

    /// Shows `visitor` which slots are taken.
    pub(super) fn shows_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            next,
            taken,
            result_slot: _,
            atomic_slots: _,
            memory_free,
        } = self;
        for taken in &mut *taken {
            visitor.value(taken.len() as u64);
            taken.iter_mut().for_each(|slot| visitor.cycle(slot));
        }
        visitor.cycle(memory_free);
        let first = taken.iter().filter_map(|taken| taken.first()).min();
        *next = first.copied().unwrap_or(Cycle::NEVER);
    }

    /// The pipes that have no slot in cycle `now`, as bits. Slots of cycles before are forgotten.
    #[cold]
    fn of(&mut self, now: Cycle) -> u8 {
        let mut held = 0;
        self.next = Cycle::NEVER;
        for (pipe, taken) in self.taken.iter_mut().enumerate() {
            let past = taken.iter().take_while(|&&slot| slot < now).count();
            taken.drain(..past);
            held |= u8::from(taken.first() == Some(&now)) << pipe;
            self.next = self
                .next
                .min(taken.first().copied().unwrap_or(Cycle::NEVER));
        }
        held
    }

    /// Takes the slot of cycle `at`; false if it was taken already.
    fn take(&mut self, pipe: usize, at: Cycle) -> bool {
        let taken = &mut self.taken[pipe];
        let index = taken.binary_search(&at);
        if let Err(index) = index {
            taken.insert(index, at);
            self.next = self.next.min(at);
        }
        index.is_err()
    }
}

impl Core {
    /// The contexts whose pipes have no slot in this cycle, as bits, and the load/store unit if nobody can have it: an atomic that
    /// issued before still keeps it, or a line has to fill.
    #[cold]
    pub(super) fn look_at_holds(&mut self, now: Cycle) -> (u64, u8) {
        let pipes = match self.holes.next > now {
            true => 0,
            false => self.holes.of(now),
        };
        let of_pipe = |pipe| self.selection.first_pipe() << (pipe * self.contexts_per_pipe);
        let held = (0..self.pipes).filter(|pipe| pipes >> pipe & 1 != 0);
        let held = held.map(of_pipe).fold(0, |all, of_pipe| all | of_pipe);
        let by_atomic = self.holes.memory_free > now;
        let memory_held = by_atomic || self.state.fills.urgent(now);
        self.state.holds_at = match by_atomic {
            true => now.after(1),
            false => self.holes.next.max(now.after(1)),
        };
        (held, if memory_held { LOAD_STORE } else { 0 })
    }

    /// The instruction of `class` that context `c` has just issued takes slots of its pipe.
    #[inline(always)]
    pub(super) fn take_slots(&mut self, c: usize, class: Class, now: Cycle) {
        // As bits, so that a compiler makes no jump by class.
        const TAKE: u32 =
            1 << Class::Mul as u32 | 1 << Class::Div as u32 | 1 << Class::Atomic as u32;
        if TAKE >> class as u32 & 1 == 0 {
            return;
        }
        if class == Class::Atomic {
            self.take_atomic_slots(c, now);
        } else if self.holes.result_slot != 0 {
            self.take_result_slot(c, now);
        }
    }

    fn take_result_slot(&mut self, c: usize, now: Cycle) {
        let resumes = self.contexts[c].ready_at;
        let at = Cycle(resumes.0.saturating_sub(self.holes.result_slot));
        if at > now {
            let pipe = c / self.contexts_per_pipe;
            self.state.counters.hole_slots += u64::from(self.holes.take(pipe, at));
            self.state.holds_at = self.state.holds_at.min(at);
        }
    }

    fn take_atomic_slots(&mut self, c: usize, now: Cycle) {
        if self.holes.atomic_slots <= 1 {
            return;
        }
        let pipe = c / self.contexts_per_pipe;
        for later in 1..self.holes.atomic_slots {
            self.state.counters.hole_slots += u64::from(self.holes.take(pipe, now.after(later)));
        }
        self.holes.memory_free = now.after(self.holes.atomic_slots);
        self.state.holds_at = self.state.holds_at.min(now.after(1));
    }
}
