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

    fn free_at(&self, class: Class) -> Cycle {
        let unit = match class {
            Class::FpAdd => self.adder_free,
            Class::FpMul => self.multiplier_free,
            Class::FpFma => self.adder_free.max(self.multiplier_free),
            Class::FpDiv | Class::FpSqrt => self.divider_free,
            _ => return Cycle(0),
        };
        unit.max(self.places[self.place()])
    }

    fn start(&mut self, class: Class, now: Cycle, done: Cycle) {
        match class {
            Class::FpAdd => self.adder_free = now.after(self.add_busy_cycles),
            Class::FpMul => self.multiplier_free = now.after(self.mul_busy_cycles),
            Class::FpFma => {
                self.multiplier_free = now.after(self.mul_busy_cycles);
                self.adder_free = now.after(self.add_busy_cycles);
            }
            Class::FpDiv | Class::FpSqrt => self.divider_free = done,
            _ => return,
        }
        let place = self.place();
        self.places[place] = done;
    }
}

/// The units of one core.
#[derive(Debug)]
pub(super) struct CoreUnits {
    /// Whether floating point goes to the chip's unit.
    per_chip: bool,
    does_integer: bool,
    integer_mul_busy_cycles: u64,
    multiplier_free: Cycle,
    divider_free: Cycle,
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
            multiplier_free: Cycle(0),
            divider_free: Cycle(0),
            fp_free: Cycle(0),
        }
    }

    /// Whether a class takes the one slot a cycle of the core's floating-point unit.
    pub(super) fn wants_fp_slot(&self, class: Class) -> bool {
        is_fp(class) || self.does_integer && matches!(class, Class::Mul | Class::Div)
    }

    /// The first cycle in which an operation of `class` can start. `fp_register` says that a load or
    /// store moves a floating-point register.
    #[inline]
    pub(super) fn free_at(&self, class: Class, fp_register: bool, chip: &ChipFpu) -> Cycle {
        match class {
            Class::Mul => self.multiplier_free,
            Class::Div => self.divider_free,
            Class::Load | Class::Store if fp_register && self.per_chip => self.fp_free,
            Class::FpDiv | Class::FpSqrt if !self.per_chip => self.divider_free,
            class if is_fp(class) && self.per_chip => self.fp_free.max(chip.free_at(class)),
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

    /// Starts an operation that is done at `done`.
    #[inline]
    pub(super) fn start(&mut self, class: Class, now: Cycle, done: Cycle, chip: &mut ChipFpu) {
        match class {
            Class::Mul => self.multiplier_free = now.after(self.integer_mul_busy_cycles),
            Class::Div => self.divider_free = done,
            Class::FpDiv | Class::FpSqrt if !self.per_chip => self.divider_free = done,
            class if is_fp(class) && self.per_chip => {
                self.fp_free = done;
                chip.start(class, now, done);
            }
            _ => {}
        }
    }
}
