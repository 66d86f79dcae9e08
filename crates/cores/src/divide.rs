//! How long integer divides take, in cores of every kind.

use loiter_isa::Op;
use loiter_types::params;

params! {
    /// Keys of section `latency`: integer divide and remainder, which keep their unit. Within its bounds
    /// the latency grows with the bits of the quotient: by how much the dividend is longer than the
    /// divisor. With equal bounds it is fixed.
    pub struct DivideParams {
        /// Integer divide and remainder, least.
        div_min_cycles: int(1..=1000),
        /// Integer divide and remainder, most: for a quotient of 64 bits.
        div_max_cycles: int(1..=1000),
        /// Bits of the quotient that a cycle finds.
        div_bits_per_cycle: int(1..=64),
        /// Integer divide and remainder by zero.
        div_zero_cycles: int(1..=1000),
    }
}

impl DivideParams {
    /// Checks what single bounds cannot.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let (low, high) = (self.div_min_cycles, self.div_max_cycles);
        if low > high {
            return Err((
                "latency",
                format!(
                    "div_min_cycles and div_max_cycles: {low} is greater than {high}; swap or correct them"
                ),
            ));
        }
        Ok(())
    }

    /// Latency of divide or remainder `op`.
    #[inline]
    pub(crate) fn cycles(&self, op: Op, dividend: u64, divisor: u64) -> u64 {
        if significant(op, divisor) == 0 {
            return self.div_zero_cycles;
        }
        let bits = leading_bits(op, divisor).saturating_sub(leading_bits(op, dividend));
        let fixed = self
            .div_max_cycles
            .saturating_sub(64 / self.div_bits_per_cycle);
        let found = fixed + bits / self.div_bits_per_cycle;
        found.clamp(self.div_min_cycles, self.div_max_cycles)
    }
}

/// The operand that a divide sees, as a number of 64 bits.
fn significant(op: Op, value: u64) -> u64 {
    match op {
        Op::Divw | Op::Remw => i64::from(value as i32) as u64,
        Op::Divuw | Op::Remuw => u64::from(value as u32),
        _ => value,
    }
}

/// Bits at the top of a divide's operand that say no more than its sign.
fn leading_bits(op: Op, value: u64) -> u64 {
    let value = significant(op, value);
    let signed = matches!(op, Op::Div | Op::Rem | Op::Divw | Op::Remw);
    let magnitude = match signed && (value as i64) < 0 {
        true => !value,
        false => value,
    };
    u64::from(magnitude.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    const T2: DivideParams = DivideParams {
        div_min_cycles: 13,
        div_max_cycles: 41,
        div_bits_per_cycle: 2,
        div_zero_cycles: 13,
    };

    #[test]
    fn division_takes_longer_for_longer_quotients() {
        assert_eq!(T2.cycles(Op::Div, 1 << 62, 1), 9 + 31);
        assert_eq!(T2.cycles(Op::Div, 3, 4), 13);
        assert_eq!(T2.cycles(Op::Div, 1 << 40, 1 << 10), 9 + 15);
        let ones = u64::MAX;
        assert_eq!(T2.cycles(Op::Rem, ones, 1), 13, "-1 is short");
        assert_eq!(T2.cycles(Op::Remu, ones, 1), 9 + 31);
        assert_eq!(T2.cycles(Op::Divuw, ones, 1), 9 + 15);
    }

    #[test]
    fn a_divisor_of_zero_is_found_at_once() {
        let found = |op, divisor| T2.cycles(op, u64::MAX >> 1, divisor);
        assert_eq!(found(Op::Divu, 0), 13);
        assert_eq!(found(Op::Rem, 0), 13);
        assert_eq!(
            found(Op::Divw, 1 << 32),
            13,
            "its upper half does not count"
        );
        assert_eq!(found(Op::Div, 1 << 32), 9 + 15);
    }

    #[test]
    fn bounds_and_radix_shape_it() {
        let fixed = DivideParams {
            div_min_cycles: 30,
            div_max_cycles: 30,
            ..T2
        };
        assert_eq!(fixed.cycles(Op::Div, 1 << 62, 1), 30);
        assert_eq!(fixed.cycles(Op::Div, 0, 1), 30);
        let slow = DivideParams {
            div_min_cycles: 1,
            div_max_cycles: 70,
            div_bits_per_cycle: 1,
            div_zero_cycles: 2,
        };
        assert_eq!(slow.cycles(Op::Divu, 1 << 63, 1), 6 + 63);
        assert_eq!(slow.cycles(Op::Divu, 0, 1), 6);
        assert_eq!(slow.cycles(Op::Divu, 7, 0), 2);
        assert!(T2.check().is_ok());
        let wrong = DivideParams {
            div_min_cycles: 50,
            ..T2
        };
        assert!(wrong.check().is_err());
    }
}
