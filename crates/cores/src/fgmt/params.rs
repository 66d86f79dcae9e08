//! Parameters of fine-grained multithreaded cores.

use loiter_isa::{Class, Inst};
use loiter_memory::{Tlb, TlbParams, WalkerParams};
use loiter_observe::Slot;
use loiter_types::params;
use serde::{Deserialize, Serialize};

use crate::{DivideParams, IdleParams, WaitParams};

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
        /// From the slot that an instruction loses because its unit is busy to the next slot that its
        /// context can have. 0: nothing is lost, its context stalls until the unit is free.
        retract_cycles: int(0..=64),
        /// How long before the next slot of its own context an operation frees its unit.
        unit_release_cycles: int(0..=64),
        /// How much longer a unit stays busy for everybody, its last user included, when an
        /// instruction that has lost its slot waits for it.
        unit_handover_cycles: int(0..=64),
        /// Most slots that a load which misses costs: those of instructions that went out on the assumption
        /// of a hit. They are taken back, and issue again later.
        miss_slots: int(0..=64),
        /// Whether selection learns a cycle late that a context's next instruction waits for an operand, a
        /// unit or an entry of the store buffer: a context that is selected in that cycle loses its slot.
        wait_costs_slot: bool,
        /// What must not be in the execute stage in the cycle in which a line that has returned for a load
        /// fills the first level: atomics count as loads.
        fill_waits_for: choice("nothing", "loads", "loads_and_stores"),
        /// For how many cycles a line may wait so, before loads, stores and atomics lose their slots to
        /// it. 0: for any number.
        fill_urgent_cycles: int(0..=64),
        /// How long before the next slot of its own context a multiply or divide takes a slot of its
        /// pipe for its result. 0: it takes none.
        integer_result_slot_cycles: int(0..=64),
        /// Slots of its pipe, and cycles of the load/store unit, that an atomic takes.
        atomic_slots: int(1..=16),
        /// Stores that a context can have in flight.
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
        /// Conditional branch that is taken.
        branch_taken_cycles: int(1..=1000),
        /// Conditional branch that is not taken.
        branch_not_taken_cycles: int(1..=1000),
        /// Until a branch that is not taken is known to be right and its context is ready without
        /// reservation.
        branch_confirmed_cycles: int(1..=1000),
        /// Unconditional jump.
        jump_cycles: int(1..=1000),
        /// Integer load that hits the first level.
        load_cycles: int(1..=1000),
        /// Until the hit is confirmed and the context is ready without reservation. Equal to
        /// load_cycles: no speculation on hits.
        load_confirmed_cycles: int(1..=1000),
        /// Floating-point load that hits the first level.
        fp_load_cycles: int(1..=1000),
        /// The same as load_confirmed_cycles for a floating-point load.
        fp_load_confirmed_cycles: int(1..=1000),
        /// How much later than an integer load a floating-point load that misses has its data.
        fp_load_miss_extra_cycles: int(0..=1000),
        /// Integer store into the store buffer.
        store_cycles: int(1..=1000),
        /// Floating-point store into the store buffer.
        fp_store_cycles: int(1..=1000),
        /// Atomic whose line the core owns, where memory grants lines.
        atomic_cycles: int(1..=1000) = 1,
        /// Fence that orders no earlier store before a later load.
        fence_cycles: int(1..=1000),
        /// Fence that does, after its wait for the store buffer.
        fence_store_load_cycles: int(1..=1000),
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
    }
}

params! {
    /// Section `fpu`: floating-point units, and what else shares them.
    pub struct FpuParams {
        /// Who shares it: every core has its own, pipelined; or one per chip after the
        /// interconnect, and then a core has one floating-point operation in flight at a time.
        shared_by: choice("core", "chip"),
        /// Cycles for which an add, compare or conversion keeps the adder.
        add_busy_cycles: int(1..=1000),
        /// Cycles for which a multiply keeps the floating-point multiplier.
        mul_busy_cycles: int(1..=1000),
        /// Operations in flight at once in a unit that the chip shares.
        overlap: int(1..=64),
        /// Whether loads and stores of its registers take a core's place in a unit that the chip shares,
        /// as operations do.
        moves_registers: bool,
        /// Whether integer multiplies and divides run in it too.
        does_integer: bool,
        /// Cycles for which an integer multiply keeps its multiplier.
        integer_mul_busy_cycles: int(1..=1000),
    }
}

/// All parameters of a fine-grained multithreaded core.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct FgmtParams {
    /// `core.contexts`: contexts of a core.
    pub contexts: u64,
    /// Section `core`.
    pub core: CoreParams,
    /// Section `latency`.
    pub latency: LatencyParams,
    /// Section `latency`, the keys of integer divides.
    pub divide: DivideParams,
    /// Section `wait`.
    pub wait: WaitParams,
    /// Section `idle`.
    pub idle: IdleParams,
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
        self.divide.check()?;
        self.idle.check()?;
        for (prefix, hit, confirmed) in [
            ("", latency.load_cycles, latency.load_confirmed_cycles),
            (
                "fp_",
                latency.fp_load_cycles,
                latency.fp_load_confirmed_cycles,
            ),
        ] {
            if hit > confirmed {
                return Err((
                    "latency",
                    format!(
                        "{prefix}load_cycles and {prefix}load_confirmed_cycles: {hit} is greater than {confirmed}; swap or correct them"
                    ),
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

/// What an ALU operation, a branch or a jump costs its context.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[repr(C, align(16))]
pub(super) struct Simple {
    /// Until its next instruction, or until its result can be read.
    pub(super) cycles: u32,
    /// Until its context is ready without reservation; 0 for what nobody has to confirm.
    pub(super) confirmed: u32,
    /// What its cycles are charged to.
    pub(super) slot: Slot,
    /// Conditional branches, and those that are taken: as many as it is.
    pub(super) branches: u8,
    pub(super) branches_taken: u8,
}

impl Simple {
    /// Costs nothing.
    pub(super) const FREE: Simple = Simple {
        cycles: 0,
        confirmed: 0,
        slot: Slot::Executing,
        branches: 0,
        branches_taken: 0,
    };
}

impl FpuParams {
    /// Whether loads and stores of its registers take a core's place in a unit of the chip.
    pub(super) fn takes_place(&self) -> bool {
        self.shared_by == "chip" && self.moves_registers
    }
}

impl LatencyParams {
    /// Latency by class, for the classes whose latency is one number.
    pub(super) fn table(&self, wait: &WaitParams) -> [u64; CLASSES] {
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
            (Class::Pause, wait.pause_cycles),
            // What it waits for is its nap's affair.
            (Class::Nap, 1),
        ] {
            table[class as usize] = cycles;
        }
        table
    }

    /// What ALU operations, branches and jumps cost, by class and whether a branch is taken.
    pub(super) fn simple_table(&self) -> [[Simple; 2]; CLASSES] {
        let simple = |cycles: u64, slot| Simple {
            cycles: cycles as u32,
            slot,
            ..Simple::FREE
        };
        let branch = |cycles, taken| Simple {
            confirmed: self.branch_confirmed_cycles as u32,
            branches: 1,
            branches_taken: taken,
            ..simple(cycles, Slot::Branch)
        };
        let mut table = [[Simple::FREE; 2]; CLASSES];
        table[Class::Alu as usize] = [simple(self.alu_cycles, Slot::Executing); 2];
        table[Class::Jump as usize] = [simple(self.jump_cycles, Slot::Branch); 2];
        table[Class::Branch as usize] = [
            branch(self.branch_not_taken_cycles, 0),
            branch(self.branch_taken_cycles, 1),
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
}
