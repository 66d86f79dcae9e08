//! Units that contexts share: multipliers, dividers, floating point.

use loiter_isa::Class;
use loiter_observe::Slot;
use loiter_types::{Cycle, StateVisitor};
use serde::{Deserialize, Serialize};

use super::context::Waits;
use super::core::Core;
use super::params::{CLASSES, CoreParams, FpuParams};

/// The floating-point unit of a chip that has one for all cores: separate adder, multiplier and
/// divider, and a bound on operations in flight.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ChipFpu {
    add_busy_cycles: u64,
    mul_busy_cycles: u64,
    adder_free: Cycle,
    multiplier_free: Cycle,
    divider_free: Cycle,
    /// When each entry for an operation in flight is free.
    entries: Vec<Cycle>,
}

impl ChipFpu {
    /// Of cores that have none in common.
    pub(crate) fn none() -> Self {
        Self {
            add_busy_cycles: 0,
            mul_busy_cycles: 0,
            adder_free: Cycle(0),
            multiplier_free: Cycle(0),
            divider_free: Cycle(0),
            entries: Vec::new(),
        }
    }

    pub(crate) fn new(params: &FpuParams) -> Self {
        Self {
            add_busy_cycles: params.add_busy_cycles,
            mul_busy_cycles: params.mul_busy_cycles,
            entries: vec![Cycle(0); params.overlap as usize],
            ..Self::none()
        }
    }

    fn free_entry(&self) -> usize {
        (0..self.entries.len())
            .min_by_key(|&n| self.entries[n])
            .unwrap_or(0)
    }

    /// Takes an operation that is sent now and runs for `cycles`; returns when it starts. Each starts
    /// when its unit and an entry for those in flight are free, in the order of sending.
    fn start(&mut self, class: Class, now: Cycle, cycles: u64) -> Cycle {
        let free = match class {
            Class::FpAdd => self.adder_free,
            Class::FpMul => self.multiplier_free,
            Class::FpFma => self.adder_free.max(self.multiplier_free),
            Class::FpDiv | Class::FpSqrt => self.divider_free,
            _ => return now,
        };
        let entry = self.free_entry();
        let start = now.max(free).max(self.entries[entry]);
        self.entries[entry] = start.after(cycles);
        if matches!(class, Class::FpAdd | Class::FpFma) {
            self.adder_free = start.after(self.add_busy_cycles);
        }
        if matches!(class, Class::FpMul | Class::FpFma) {
            self.multiplier_free = start.after(self.mul_busy_cycles);
        }
        if matches!(class, Class::FpDiv | Class::FpSqrt) {
            self.divider_free = start.after(cycles);
        }
        start
    }
}

/// A unit of a core that serves one operation at a time.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Serial {
    /// The first slot in which an instruction can have it.
    free: Cycle,
    /// Seat of the context that used it last, and its next slot after that.
    user: usize,
    resumes: Cycle,
    /// Whether somebody waits for it.
    awaited: bool,
}

/// From the slot that an instruction loses until its unit knows that somebody waits: the execute stage
/// (sparc_ifu_swl.v:1429).
const WAITER_KNOWN: u64 = 2;

/// What comes of a wait for a busy unit.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Wait {
    /// The waiter's next slot; never, as long as the unit waits for data.
    pub(super) wakes: Cycle,
    /// The seat of the unit's user, whose next slot this was, and when it is instead.
    pub(super) delays: Option<(usize, Cycle, Cycle)>,
}

impl Serial {
    fn shows_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            free,
            user,
            resumes,
            awaited,
        } = self;
        visitor.cycle(free);
        visitor.value(*user as u64);
        visitor.cycle(resumes);
        visitor.value(u64::from(*awaited));
    }

    fn claim(&mut self, seat: usize, free: Cycle, resumes: Cycle) {
        *self = Self {
            free,
            user: seat,
            resumes,
            awaited: false,
        };
    }

    /// An instruction loses its slot of this cycle to the unit's operation.
    fn wait(&mut self, now: Cycle, retract: u64, handover: u64) -> Wait {
        let mut delays = None;
        if self.free == Cycle::NEVER {
            self.awaited = true;
            return Wait {
                wakes: Cycle::NEVER,
                delays,
            };
        }
        if !self.awaited && now.after(WAITER_KNOWN) <= self.free {
            self.awaited = true;
            self.free = self.free.after(handover);
            if self.resumes < self.free {
                delays = Some((self.user, self.resumes, self.free));
                self.resumes = self.free;
            }
        }
        Wait {
            wakes: now.after(retract).max(self.free),
            delays,
        }
    }

    /// The data of its operation arrive, so that its user's next slot is at `resumes` at the earliest.
    fn data_arrive(&mut self, resumes: Cycle, release: u64, handover: u64) {
        self.free = Cycle(resumes.0 - release);
        self.resumes = resumes;
        if self.awaited {
            self.free = self.free.after(handover);
            self.resumes = resumes.max(self.free);
        }
    }
}

/// The load/store unit, as [`super::group::Group::wanted`] names it.
pub(super) const LOAD_STORE: u8 = 1;

pub(super) const FLOATING_POINT: u8 = 2;
const MULTIPLIER: u8 = 4;
const DIVIDER: u8 = 8;

/// Units that [`super::group::Group::wanted`] tells apart.
pub(super) const UNITS: usize = 4;

/// The units of one core.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct CoreUnits {
    /// Whether floating point goes to the chip's unit.
    per_chip: bool,
    /// Whether loads and stores of its registers take the core's place there.
    moves_registers: bool,
    integer_mul_busy_cycles: u64,
    add_busy_cycles: u64,
    fp_mul_busy_cycles: u64,
    /// `core.retract_cycles`, `core.unit_release_cycles`, `core.unit_handover_cycles`.
    retract: u64,
    release: u64,
    handover: u64,
    multiplier: Serial,
    divider: Serial,
    /// With one unit per chip: the core's one operation.
    fp: Serial,
    /// With a unit of its own: when its adder can start again.
    adder_free: Cycle,
    /// With a unit of its own: when its floating-point multiplier can start again.
    fp_multiplier_free: Cycle,
}

/// By class, what an instruction wants of the units that pipes share.
pub(super) fn wanted_by_class(does_integer: bool) -> [u8; CLASSES] {
    let integer = if does_integer { FLOATING_POINT } else { 0 };
    let mut wanted = [0; CLASSES];
    for class in [Class::Load, Class::Store, Class::Atomic] {
        wanted[class as usize] = LOAD_STORE;
    }
    wanted[Class::Mul as usize] = MULTIPLIER | integer;
    wanted[Class::Div as usize] = DIVIDER | integer;
    for class in [
        Class::FpAdd,
        Class::FpMul,
        Class::FpFma,
        Class::FpDiv,
        Class::FpSqrt,
        Class::FpMove,
    ] {
        wanted[class as usize] = FLOATING_POINT;
    }
    wanted
}

impl CoreUnits {
    /// Shows `visitor` which units are busy.
    pub(super) fn shows_state(&mut self, visitor: &mut impl StateVisitor) {
        let Self {
            per_chip: _,
            moves_registers: _,
            integer_mul_busy_cycles: _,
            add_busy_cycles: _,
            fp_mul_busy_cycles: _,
            retract: _,
            release: _,
            handover: _,
            multiplier,
            divider,
            fp,
            adder_free,
            fp_multiplier_free,
        } = self;
        for unit in [multiplier, divider, fp] {
            unit.shows_state(visitor);
        }
        visitor.cycle(adder_free);
        visitor.cycle(fp_multiplier_free);
    }

    pub(super) fn new(params: &FpuParams, core: &CoreParams) -> Self {
        Self {
            per_chip: params.shared_by == "chip",
            moves_registers: params.takes_place(),
            integer_mul_busy_cycles: params.integer_mul_busy_cycles,
            add_busy_cycles: params.add_busy_cycles,
            fp_mul_busy_cycles: params.mul_busy_cycles,
            retract: core.retract_cycles,
            release: core.unit_release_cycles,
            handover: core.unit_handover_cycles,
            multiplier: Serial::default(),
            divider: Serial::default(),
            fp: Serial::default(),
            adder_free: Cycle(0),
            fp_multiplier_free: Cycle(0),
        }
    }

    /// The first cycle in which an operation of `class` can be sent to its unit.
    #[inline(always)]
    pub(super) fn free_at(&self, class: Class, fp_register: impl FnOnce() -> bool) -> Cycle {
        if class.accesses() {
            let takes_place = self.moves_registers && class != Class::Atomic && fp_register();
            return if takes_place { self.fp.free } else { Cycle(0) };
        }
        self.computes_at(class)
    }

    /// The same for what does not access memory.
    fn computes_at(&self, class: Class) -> Cycle {
        match class {
            Class::Mul => self.multiplier.free,
            Class::Div => self.divider.free,
            class if class.is_fp() && self.per_chip => self.fp.free,
            Class::FpDiv | Class::FpSqrt => self.divider.free,
            Class::FpAdd => self.adder_free,
            Class::FpMul => self.fp_multiplier_free,
            Class::FpFma => self.adder_free.max(self.fp_multiplier_free),
            _ => Cycle(0),
        }
    }

    /// A load or store of a floating-point register of the context in `seat` takes the core's one
    /// floating-point place, where such instructions do, until `done`; never: until its data arrive.
    #[inline]
    pub(super) fn claim_fp(&mut self, seat: usize, done: Cycle) {
        if self.moves_registers {
            self.fp.claim(seat, self.released(done), done);
        }
    }

    /// When others can use a unit whose user continues at `done`.
    #[inline]
    fn released(&self, done: Cycle) -> Cycle {
        match done {
            Cycle::NEVER => done,
            done => Cycle(done.0 - self.release),
        }
    }

    /// Whether the core's floating-point place waits for data of the context in `seat`.
    #[inline]
    pub(super) fn fp_waits_for(&self, seat: usize) -> bool {
        self.fp.free == Cycle::NEVER && self.fp.user == seat
    }

    /// An instruction that needs a busy unit loses its slot of this cycle.
    pub(super) fn wait(&mut self, class: Class, fp_register: bool, now: Cycle) -> Wait {
        let (retract, handover) = (self.retract, self.handover);
        let unit = match class {
            Class::Mul => &mut self.multiplier,
            Class::Load | Class::Store if fp_register && self.moves_registers => &mut self.fp,
            class if class.is_fp() && self.per_chip => &mut self.fp,
            Class::Div | Class::FpDiv | Class::FpSqrt => &mut self.divider,
            // A pipelined unit is free again in a cycle or two, whoever waits.
            _ => {
                let wakes = now.after(retract).max(self.free_at(class, || fp_register));
                return Wait {
                    wakes,
                    delays: None,
                };
            }
        };
        unit.wait(now, retract, handover)
    }

    /// The data for the core's floating-point place arrive. Returns when those that wait for it have
    /// their next slots: its user, and the others.
    pub(super) fn fp_data_arrive(&mut self, resumes: Cycle) -> (Cycle, Cycle) {
        self.fp.data_arrive(resumes, self.release, self.handover);
        (self.fp.resumes, self.fp.free)
    }

    /// Sends an operation that takes `cycles` to its unit; returns when it starts, which is later than
    /// `now` when the unit of the chip still serves other cores.
    #[inline]
    pub(super) fn start(
        &mut self,
        class: Class,
        seat: usize,
        now: Cycle,
        cycles: u64,
        chip: &mut ChipFpu,
    ) -> Cycle {
        let done = now.after(cycles);
        match class {
            Class::Mul => {
                let free = now.after(self.integer_mul_busy_cycles);
                self.multiplier.claim(seat, free, done);
            }
            class if class.is_fp() && self.per_chip => {
                let start = chip.start(class, now, cycles);
                let done = start.after(cycles);
                self.fp.claim(seat, self.released(done), done);
                return start;
            }
            Class::Div | Class::FpDiv | Class::FpSqrt => {
                let free = self.released(done);
                self.divider.claim(seat, free, done);
            }
            Class::FpAdd => self.adder_free = now.after(self.add_busy_cycles),
            Class::FpMul => self.fp_multiplier_free = now.after(self.fp_mul_busy_cycles),
            Class::FpFma => {
                self.adder_free = now.after(self.add_busy_cycles);
                self.fp_multiplier_free = now.after(self.fp_mul_busy_cycles);
            }
            _ => {}
        }
        now
    }
}

impl Core {
    /// Context `c` is selected and cannot issue: nobody else can in this cycle.
    #[cold]
    pub(super) fn lose_slot(&mut self, c: usize, now: Cycle) {
        let context = &mut self.contexts[c];
        if context.ready_at > now {
            context.miss_slots_left -= 1;
            context.speculates_at = if context.miss_slots_left > 0 {
                now.after(1)
            } else {
                Cycle::NEVER
            };
            self.state.counters.miss_slots += 1;
            let known_at = context.firm_at;
            self.reschedule(c);
            if now.after(self.state.params.core.selection_lag_cycles) < known_at {
                // Selection hears of it before it is taken back.
                self.selection.selected_in_vain(c);
            }
            return;
        }
        self.state.counters.retracted += 1;
        if matches!(context.class, Class::Load | Class::Store) {
            self.state.fills.memory_slot(context.class, now);
        }
        let units = &mut self.state.units;
        let wait = units.wait(context.class, context.moves_fp(), now);
        if wait.wakes == Cycle::NEVER {
            context.block(now, Waits::Unit, Slot::UnitBusy);
        } else {
            context.stall(now, wait.wakes, Slot::UnitBusy);
        }
        self.reschedule(c);
        if let Some((user, from, until)) = wait.delays
            && self.contexts[user].ready_at == from
        {
            self.contexts[user].ready_at = until;
            self.reschedule(user);
        }
    }

    /// The data of a load for which the context in `seat` has the floating-point place arrive; without
    /// waiters it continues at `ready`.
    #[cold]
    pub(super) fn fp_data_arrive(&mut self, seat: usize, ready: Cycle) {
        if !self.state.units.fp_waits_for(seat) {
            return;
        }
        let (resumes, free) = self.state.units.fp_data_arrive(ready);
        self.contexts[seat].ready_at = resumes;
        for c in 0..self.contexts.len() {
            if self.contexts[c].waits == Waits::Unit {
                self.contexts[c].unblock(free);
                self.reschedule(c);
            }
        }
    }
}
