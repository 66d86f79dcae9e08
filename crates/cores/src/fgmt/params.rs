//! Parameters of fine-grained multithreaded cores.

use loiter_isa::{Class, Inst, Op};
use loiter_memory::{Tlb, TlbParams, WalkerParams};
use loiter_observe::Slot;
use loiter_types::params;

/// Most pipes of a core.
pub(super) const MAX_PIPES: usize = 8;

params! {
    /// Section `core`, the keys of this kind of core.
    pub struct CoreParams {
        /// Pipes of a core; contexts are dealt to them in equal contiguous groups.
        pipes: int(1..=8),
        /// Whether a context lets any other that is ready go first in the cycle after its own issue.
        alternates: bool,
        /// From a selection to the first selection that knows of it when it looks for the least
        /// recently selected context.
        selection_lag_cycles: int(1..=16),
        /// When an instruction stalls its context: issue is until its own result is there; use is
        /// when a later instruction needs a result that is not there yet.
        stall: choice("issue", "use"),
        /// Stores that a context can have under way.
        store_buffer_entries: int(1..=256),
        /// What a full store buffer stops: every instruction of the context, or stores.
        store_buffer_full_stops: choice("thread", "stores"),
        /// Whether a store may leave the store buffer before the one ahead is acknowledged: never,
        /// or when both are to one line of the second level.
        store_pipelining: choice("none", "same_line"),
    }
}

params! {
    /// Section `latency`: from issue of an instruction to issue of the context's next one (stall =
    /// "issue") or of the first that needs its result (stall = "use").
    pub struct LatencyParams {
        /// Integer operations of the plain ALU.
        alu_cycles: int(1..=1000),
        /// Integer multiply.
        mul_cycles: int(1..=1000),
        /// Integer divide, least. The time between depends on the operands.
        div_min_cycles: int(1..=1000),
        /// Integer divide, most.
        div_max_cycles: int(1..=1000),
        /// Conditional branch that is taken.
        branch_taken_cycles: int(1..=1000),
        /// Conditional branch that is not taken.
        branch_not_taken_cycles: int(1..=1000),
        /// Unconditional jump.
        jump_cycles: int(1..=1000),
        /// Integer load that hits the first level.
        load_cycles: int(1..=1000),
        /// Until the hit is confirmed and the context is ready without reservation. Equal to
        /// load_cycles: no speculation on hits.
        load_confirmed_cycles: int(1..=1000),
        /// Floating-point load that hits the first level.
        fp_load_cycles: int(1..=1000),
        /// Integer store into the store buffer.
        store_cycles: int(1..=1000),
        /// Floating-point store into the store buffer.
        fp_store_cycles: int(1..=1000),
        /// Fence that need not wait, or after its wait.
        fence_cycles: int(1..=1000),
        /// CSR access.
        csr_cycles: int(1..=1000),
        /// Trap entry, and return from a trap.
        trap_cycles: int(1..=1000),
        /// Floating-point add, subtract, compare, convert.
        fp_add_cycles: int(1..=1000),
        /// Floating-point multiply.
        fp_mul_cycles: int(1..=1000),
        /// Fused multiply-add.
        fp_fma_cycles: int(1..=1000),
        /// Floating-point divide, single precision.
        fp_div_single_cycles: int(1..=1000),
        /// Floating-point divide, double precision.
        fp_div_double_cycles: int(1..=1000),
        /// Square root, single precision.
        fp_sqrt_single_cycles: int(1..=1000),
        /// Square root, double precision.
        fp_sqrt_double_cycles: int(1..=1000),
        /// Moves and sign operations of floating-point registers.
        fp_move_cycles: int(1..=1000),
        /// The pause instruction.
        pause_cycles: int(1..=100000),
        /// From the event that ends a wfi or wrs to the issue of the next instruction.
        wake_cycles: int(1..=1000000),
        /// Longest nap of wrs.sto.
        nap_short_limit_cycles: int(1..=1000000),
    }
}

params! {
    /// Section `fpu`: floating-point units, and what else shares them.
    pub struct FpuParams {
        /// Who shares it: every core has its own, pipelined; or one per chip behind the
        /// interconnect, and then a core has one floating-point operation under way at a time.
        shared_by: choice("core", "chip"),
        /// Cycles for which an add, compare or conversion keeps the adder.
        add_busy_cycles: int(1..=1000),
        /// Cycles for which a multiply keeps the floating-point multiplier.
        mul_busy_cycles: int(1..=1000),
        /// Operations under way at once in a unit that the chip shares.
        overlap: int(1..=64),
        /// Whether integer multiplies and divides run in it too.
        does_integer: bool,
        /// Cycles for which an integer multiply keeps its multiplier.
        integer_mul_busy_cycles: int(1..=1000),
    }
}

/// All parameters of a fine-grained multithreaded core.
#[derive(Clone, Debug)]
pub struct FgmtParams {
    /// `core.contexts`: contexts of a core.
    pub contexts: u64,
    /// Section `core`.
    pub core: CoreParams,
    /// Section `latency`.
    pub latency: LatencyParams,
    /// Section `fpu`.
    pub fpu: FpuParams,
    /// Section `itlb`.
    pub itlb: TlbParams,
    /// Section `dtlb`.
    pub dtlb: TlbParams,
    /// Section `walker`.
    pub walker: WalkerParams,
}

impl FgmtParams {
    /// Checks what single bounds cannot.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let (core, latency) = (&self.core, &self.latency);
        if !self.contexts.is_multiple_of(core.pipes) {
            return Err((
                "core",
                format!(
                    "contexts = {} cannot be dealt equally to pipes = {}",
                    self.contexts, core.pipes
                ),
            ));
        }
        for (low, high, names) in [
            (
                latency.div_min_cycles,
                latency.div_max_cycles,
                "div_min_cycles and div_max_cycles",
            ),
            (
                latency.load_cycles,
                latency.load_confirmed_cycles,
                "load_cycles and load_confirmed_cycles",
            ),
        ] {
            if low > high {
                return Err((
                    "latency",
                    format!("{names}: {low} is greater than {high}; swap or correct them"),
                ));
            }
        }
        for (section, tlb) in [("itlb", &self.itlb), ("dtlb", &self.dtlb)] {
            Tlb::new(tlb).map_err(|problem| (section, problem))?;
        }
        Ok(())
    }
}

/// Number of instruction classes, for tables indexed by [`Class`].
pub(super) const CLASSES: usize = Class::Probe as usize + 1;

impl LatencyParams {
    /// Latency by class, for the classes whose latency is one number.
    pub(super) fn table(&self) -> [u64; CLASSES] {
        let mut table = [self.alu_cycles; CLASSES];
        for (class, cycles) in [
            (Class::Mul, self.mul_cycles),
            (Class::Jump, self.jump_cycles),
            (Class::FpAdd, self.fp_add_cycles),
            (Class::FpMul, self.fp_mul_cycles),
            (Class::FpFma, self.fp_fma_cycles),
            (Class::FpMove, self.fp_move_cycles),
            (Class::Fence, self.fence_cycles),
            (Class::Csr, self.csr_cycles),
            (Class::System, self.trap_cycles),
            (Class::Pause, self.pause_cycles),
            (Class::Nap, self.wake_cycles),
        ] {
            table[class as usize] = cycles;
        }
        table
    }

    /// Latency and account by class and whether a branch is taken, for ALU operations, branches and
    /// jumps.
    pub(super) fn simple_table(&self) -> [[(u64, Slot); 2]; CLASSES] {
        let mut table = [[(self.alu_cycles, Slot::Executing); 2]; CLASSES];
        table[Class::Jump as usize] = [(self.jump_cycles, Slot::Branch); 2];
        table[Class::Branch as usize] = [
            (self.branch_not_taken_cycles, Slot::Branch),
            (self.branch_taken_cycles, Slot::Branch),
        ];
        table
    }

    /// Latency of a floating-point divide or square root. Bit 25 of the encoding tells double from
    /// single.
    pub(super) fn fp_long_cycles(&self, inst: &Inst, class: Class) -> u64 {
        let double = inst.raw >> 25 & 1 == 1;
        match (class, double) {
            (Class::FpDiv, false) => self.fp_div_single_cycles,
            (Class::FpDiv, true) => self.fp_div_double_cycles,
            (_, false) => self.fp_sqrt_single_cycles,
            (_, true) => self.fp_sqrt_double_cycles,
        }
    }

    /// Latency of divide or remainder `op`. Between the bounds it grows by one for every two bits by
    /// which the dividend is longer than the divisor, which is how the T2's divider counts its rounds.
    pub(super) fn div_cycles(&self, op: Op, dividend: u64, divisor: u64) -> u64 {
        let rounds = leading_bits(op, divisor).saturating_sub(leading_bits(op, dividend)) / 2;
        let fixed = self.div_max_cycles.saturating_sub(32);
        (fixed + rounds).clamp(self.div_min_cycles, self.div_max_cycles)
    }
}

/// Bits at the top of a divide's operand that say no more than its sign.
fn leading_bits(op: Op, value: u64) -> u64 {
    let magnitude = |value: i64| (if value < 0 { !value } else { value }) as u64;
    let significant = match op {
        Op::Div | Op::Rem => magnitude(value as i64),
        Op::Divw | Op::Remw => magnitude(i64::from(value as i32)),
        Op::Divuw | Op::Remuw => u64::from(value as u32),
        _ => value,
    };
    u64::from(significant.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_takes_longer_for_longer_quotients() {
        let mut infos: std::collections::BTreeMap<&str, u64> =
            <LatencyParams as loiter_types::Params>::infos()
                .iter()
                .map(|info| (info.name, 1))
                .collect();
        infos.insert("div_min_cycles", 13);
        infos.insert("div_max_cycles", 41);
        let latency: LatencyParams =
            loiter_types::Params::build(&mut |name| loiter_types::ParamValue::Int(infos[name]));
        assert_eq!(latency.div_cycles(Op::Div, 1 << 62, 1), 9 + 31);
        assert_eq!(latency.div_cycles(Op::Div, 3, 4), 13);
        assert_eq!(latency.div_cycles(Op::Div, 1 << 40, 1 << 10), 9 + 15);
        let ones = u64::MAX;
        assert_eq!(latency.div_cycles(Op::Rem, ones, 1), 13, "-1 is short");
        assert_eq!(latency.div_cycles(Op::Remu, ones, 1), 9 + 31);
        assert_eq!(latency.div_cycles(Op::Divuw, ones, 1), 9 + 15);
        assert_eq!(latency.div_cycles(Op::Divu, ones, 0), 9 + 32);
    }
}
