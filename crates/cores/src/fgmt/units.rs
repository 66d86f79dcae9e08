//! Units that contexts share: multipliers, dividers, floating point.

use loiter_isa::Class;
use loiter_types::Cycle;

use super::params::FpuParams;

/// The floating-point unit of a chip that has one for all cores: separate adder, multiplier and
/// divider, and a bound on operations under way.
#[derive(Debug)]
pub(super) struct ChipFpu {
    add_busy_cycles: u64,
    mul_busy_cycles: u64,
    adder_free: Cycle,
    multiplier_free: Cycle,
    divider_free: Cycle,
    /// When each place for an operation under way is free.
    places: Vec<Cycle>,
}

impl ChipFpu {
    pub(super) fn new(params: &FpuParams) -> Self {
        Self {
            add_busy_cycles: params.add_busy_cycles,
            mul_busy_cycles: params.mul_busy_cycles,
            adder_free: Cycle(0),
            multiplier_free: Cycle(0),
            divider_free: Cycle(0),
            places: vec![Cycle(0); params.overlap as usize],
        }
    }

    fn place(&self) -> usize {
        (0..self.places.len())
            .min_by_key(|&n| self.places[n])
            .unwrap_or(0)
    }

    /// Takes an operation that is sent now and runs for `cycles`; answers when it starts. Each starts
    /// when its unit and a place among those under way are free, in the order of sending.
    fn start(&mut self, class: Class, now: Cycle, cycles: u64) -> Cycle {
        let free = match class {
            Class::FpAdd => self.adder_free,
            Class::FpMul => self.multiplier_free,
            Class::FpFma => self.adder_free.max(self.multiplier_free),
            Class::FpDiv | Class::FpSqrt => self.divider_free,
            _ => return now,
        };
        let place = self.place();
        let start = now.max(free).max(self.places[place]);
        self.places[place] = start.after(cycles);
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

/// The units of one core.
#[derive(Debug)]
pub(super) struct CoreUnits {
    /// Whether floating point goes to the chip's unit.
    per_chip: bool,
    does_integer: bool,
    integer_mul_busy_cycles: u64,
    add_busy_cycles: u64,
    fp_mul_busy_cycles: u64,
    multiplier_free: Cycle,
    divider_free: Cycle,
    /// With a unit of its own: when its adder can start again.
    adder_free: Cycle,
    /// With a unit of its own: when its floating-point multiplier can start again.
    fp_multiplier_free: Cycle,
    /// With one unit per chip: when the core's one operation is done.
    fp_free: Cycle,
}

/// Whether a class goes to the floating-point unit.
pub(super) fn is_fp(class: Class) -> bool {
    matches!(
        class,
        Class::FpAdd | Class::FpMul | Class::FpFma | Class::FpDiv | Class::FpSqrt | Class::FpMove
    )
}

impl CoreUnits {
    pub(super) fn new(params: &FpuParams) -> Self {
        Self {
            per_chip: params.shared_by == "chip",
            does_integer: params.does_integer,
            integer_mul_busy_cycles: params.integer_mul_busy_cycles,
            add_busy_cycles: params.add_busy_cycles,
            fp_mul_busy_cycles: params.mul_busy_cycles,
            multiplier_free: Cycle(0),
            divider_free: Cycle(0),
            adder_free: Cycle(0),
            fp_multiplier_free: Cycle(0),
            fp_free: Cycle(0),
        }
    }

    /// The units, one bit each, of which the pipes of a core can give one instruction of `class` a
    /// cycle between them. `fp_register` says that a load or store moves a floating-point register.
    pub(super) fn wanted(&self, class: Class, fp_register: bool) -> u8 {
        const LOAD_STORE: u8 = 1;
        const FLOATING_POINT: u8 = 2;
        const MULTIPLIER: u8 = 4;
        const DIVIDER: u8 = 8;
        let integer = if self.does_integer { FLOATING_POINT } else { 0 };
        match class {
            Class::Load | Class::Store if fp_register && self.per_chip => {
                LOAD_STORE | FLOATING_POINT
            }
            Class::Load | Class::Store | Class::Atomic => LOAD_STORE,
            Class::Mul => MULTIPLIER | integer,
            Class::Div => DIVIDER | integer,
            class if is_fp(class) => FLOATING_POINT,
            _ => 0,
        }
    }

    /// The first cycle in which an operation of `class` can be sent to its unit.
    #[inline]
    pub(super) fn free_at(&self, class: Class, fp_register: bool) -> Cycle {
        match class {
            Class::Mul => self.multiplier_free,
            Class::Div => self.divider_free,
            Class::Load | Class::Store if fp_register && self.per_chip => self.fp_free,
            class if is_fp(class) && self.per_chip => self.fp_free,
            Class::FpDiv | Class::FpSqrt => self.divider_free,
            Class::FpAdd => self.adder_free,
            Class::FpMul => self.fp_multiplier_free,
            Class::FpFma => self.adder_free.max(self.fp_multiplier_free),
            _ => Cycle(0),
        }
    }

    /// A load of a floating-point register takes the core's one floating-point place, where it has
    /// only one, until `done`.
    #[inline]
    pub(super) fn fp_load(&mut self, done: Cycle) {
        if self.per_chip {
            self.fp_free = done;
        }
    }

    /// Sends an operation that takes `cycles` to its unit; answers when it starts, which is later than
    /// `now` when the unit of the chip still serves other cores.
    #[inline]
    pub(super) fn start(
        &mut self,
        class: Class,
        now: Cycle,
        cycles: u64,
        chip: &mut ChipFpu,
    ) -> Cycle {
        match class {
            Class::Mul => self.multiplier_free = now.after(self.integer_mul_busy_cycles),
            Class::Div => self.divider_free = now.after(cycles),
            class if is_fp(class) && self.per_chip => {
                let start = chip.start(class, now, cycles);
                self.fp_free = start.after(cycles);
                return start;
            }
            Class::FpDiv | Class::FpSqrt => self.divider_free = now.after(cycles),
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
