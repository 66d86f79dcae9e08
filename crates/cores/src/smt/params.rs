//! Parameters of an out-of-order simultaneous multithreaded core, one struct for each section of a
//! machine file.

use loiter_memory::{Tlb, TlbParams, WalkerParams};
use loiter_types::params;
use serde::{Deserialize, Serialize};

use crate::predict::{BranchParams, BtbParams};
use crate::{DivideParams, IdleParams, WaitParams};

params! {
    /// Section `core`.
    pub struct SmtCoreParams {
        /// Instructions fetched in a cycle.
        fetch_width: int(1..=16),
        /// Contexts fetched from in a cycle, each from one line of the instruction cache.
        fetch_contexts: int(1..=8),
        /// Which contexts are fetched from: those with the fewest instructions before issue, or in turn.
        fetch_policy: choice("icount", "round_robin"),
        /// Banks of the instruction cache, interleaved by lines, a power of two. Two contexts are not
        /// fetched from one bank in a cycle, and so not from one line.
        fetch_banks: int(1..=64),
        /// Whether a context whose fetch misses the instruction cache or its translation buffer is one of
        /// those fetched from in that cycle, so that no other gets its turn.
        fetch_miss_uses_slot: bool,
        /// How instructions wait for renaming. queue: in the order of fetch, in fetch_buffer_entries.
        /// stages: what one cycle fetched passes through front_cycles stages, each of which takes it when
        /// it is empty; a cycle renames of one such group.
        front_end: choice("queue", "stages"),
        /// Instructions in the front end, up to renaming, of all contexts, where that is a queue: when they
        /// are so many, nobody is fetched from.
        fetch_buffer_entries: int(1..=256),
        /// Who may have how much of that: shared is all that is free; partitioned an equal part for each context.
        fetch_buffer_sharing: choice("shared", "partitioned") = "shared",
        /// From fetch of an instruction to its entry into a queue.
        front_cycles: int(1..=32),
        /// Cycles without fetch after a taken branch whose target only decode found.
        misfetch_cycles: int(0..=32),
        /// Instructions renamed in a cycle, of all contexts.
        rename_width: int(1..=32),
        /// in_order: in the order of fetch, whatever the context, up to the first that does not fit.
        /// by_context: each context in its order; one that is stopped does not stop others.
        rename_order: choice("in_order", "by_context"),
        /// Cycles of register read between issue and execution: they delay what a misprediction
        /// redirects, and retirement.
        register_read_cycles: int(0..=16),
        /// Instructions retired in a cycle, of all contexts.
        retire_width: int(1..=32),
        /// Instructions of a context between fetch and retirement.
        reorder_entries: int(8..=1024),
        /// Entries of the integer queue, which loads and stores use too.
        integer_queue_entries: int(1..=128),
        /// Entries of the floating-point queue.
        fp_queue_entries: int(1..=128),
        /// Integer registers beside those of the architecture.
        integer_registers: int(1..=2048),
        /// Floating-point registers beside those of the architecture.
        fp_registers: int(1..=2048),
        /// Who may have how much of the queues: shared is all that is free; partitioned an equal part for
        /// each context; capped at most queue_cap_entries of each queue.
        queue_sharing: choice("shared", "partitioned", "capped"),
        /// Entries of each queue that a context may have when they are capped.
        queue_cap_entries: int(1..=128),
        /// Who may have how many of the registers beside those of the architecture; the same words.
        register_sharing: choice("shared", "partitioned", "capped"),
        /// Registers of each kind, beside those of the architecture, that a context may have when they
        /// are capped.
        register_cap: int(1..=2048),
        /// Loads of a context between renaming and retirement.
        load_entries: int(1..=256),
        /// Stores of a context between renaming and retirement.
        store_entries: int(1..=256),
        /// Stores of a context that have retired and not yet performed.
        store_buffer_entries: int(1..=256),
        /// Loads that once were ahead of an older store to the same bytes wait for older stores; a bit
        /// each, by address, a power of two.
        store_wait_entries: int(1..=65536),
        /// Cycles after which those bits are forgotten.
        store_wait_clear_cycles: int(1..=100000000),
        /// Whether `fence.i` empties the instruction cache of its core.
        fence_i_empties: bool = false,
        /// For what-if runs: what references of supervisor and machine mode do not touch. caches: they hit
        /// the first level, whatever it holds, and are not counted there. predictors: they have tables,
        /// buffer, histories and return stacks of their own.
        kernel_bypasses: choice("nothing", "caches", "predictors", "both") = "nothing",
        /// What atomics are ordered with, all of which run when they are the oldest. annotated: one with rl
        /// waits for the store buffer, loads after one with aq wait for it. full: so for all atomics.
        atomic_order: choice("annotated", "full"),
        /// Where atomics perform if memory grants lines. near: in the data cache, which gets the line for that; far: all but
        /// lr, sc and the hardware lock at the line's home, and no core has the line then.
        atomics: choice("near", "far") = "near",
        /// Lines of buffered stores of a context that can be requested at once, where memory grants lines. The stores
        /// perform in order nonetheless.
        store_owns: int(1..=64) = 1,
    }
}

params! {
    /// Section `units`: how many operations can begin in a cycle.
    pub struct SmtUnitParams {
        /// Integer units.
        integer: int(1..=32),
        /// Those that can do loads and stores.
        load_store: int(1..=32),
        /// Those that can do atomics and the instructions of the hardware lock.
        synchronisation: int(1..=32),
        /// Floating-point units.
        floating_point: int(1..=32),
        /// Ports of the data cache.
        data_ports: int(1..=32),
        /// Whether a buffered store that accesses the data cache takes one of its ports. Loads come first.
        stores_take_ports: bool,
        /// Cycles in which buffered stores find no port before loads leave them one; only where stores
        /// take ports.
        store_patience_cycles: int(1..=1000),
    }
}

params! {
    /// Section `latency`: from issue of an instruction to issue of one that uses its result.
    pub struct SmtLatencyParams {
        /// Integer operations, branches and jumps.
        alu_cycles: int(1..=100),
        /// Integer multiply.
        mul_cycles: int(1..=100),
        /// Load that hits the first level.
        load_cycles: int(1..=100),
        /// What an atomic takes beside the access to its line.
        atomic_extra_cycles: int(0..=1000) = 0,
        /// What a fence that orders stores before loads takes when earlier stores have performed. Its context continues then.
        fence_extra_cycles: int(0..=1000) = 0,
        /// Floating-point add, subtract, compare, convert.
        fp_add_cycles: int(1..=100),
        /// Floating-point multiply.
        fp_mul_cycles: int(1..=100),
        /// Fused multiply-add.
        fp_fma_cycles: int(1..=100),
        /// Floating-point divide, single precision, which keeps its unit.
        fp_div_single_cycles: int(1..=1000),
        /// The same, double precision.
        fp_div_double_cycles: int(1..=1000),
        /// Square root, single precision, which keeps its unit.
        fp_sqrt_single_cycles: int(1..=1000),
        /// The same, double precision.
        fp_sqrt_double_cycles: int(1..=1000),
        /// Moves and sign operations of floating-point registers.
        fp_move_cycles: int(1..=100),
        /// From a trap, a return from one, or an instruction that changes the state of the hart, to the
        /// fetch of the next.
        trap_cycles: int(1..=1000),
    }
}

params! {
    /// Section `walker`, beside walks: who serves misses of translation look-aside buffers.
    pub struct RefillParams {
        /// hardware: walks beside the instructions, of which those that need one wait; trap: a handler in
        /// the context itself, for which the access that missed and all that is younger is squashed.
        kind: choice("hardware", "trap"),
        /// Instructions of that handler, which occupy entries of the pipeline; its time is that of a walk.
        handler_instructions: int(0..=1000),
    }
}

/// All parameters of an out-of-order core.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SmtParams {
    /// `core.contexts`: contexts of a core.
    pub contexts: u64,
    /// Section `core`.
    pub core: SmtCoreParams,
    /// Section `units`.
    pub units: SmtUnitParams,
    /// Section `latency`.
    pub latency: SmtLatencyParams,
    /// Section `latency`, the keys of integer divides.
    pub divide: DivideParams,
    /// Section `wait`.
    pub wait: WaitParams,
    /// Section `idle`.
    pub idle: IdleParams,
    /// Section `branch`.
    pub branch: BranchParams,
    /// Section `btb`.
    pub btb: BtbParams,
    /// Section `itlb`.
    pub itlb: TlbParams,
    /// Section `dtlb`.
    pub dtlb: TlbParams,
    /// Section `walker`.
    pub walker: WalkerParams,
    /// Section `walker`, the keys of handlers.
    pub refill: RefillParams,
}

impl SmtParams {
    /// Checks what single bounds cannot.
    ///
    /// # Errors
    /// The section and what contradicts what.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let core = &self.core;
        for (name, value) in [
            ("fetch_banks", core.fetch_banks),
            ("store_wait_entries", core.store_wait_entries),
        ] {
            if !value.is_power_of_two() {
                return Err(("core", format!("{name} = {value} is not a power of two")));
            }
        }
        if let Some(problem) = super::policy::Shares::new(self, self.contexts).missing() {
            return Err(("core", problem.to_owned()));
        }
        if core.fetch_contexts > self.contexts {
            return Err((
                "core",
                format!(
                    "fetch_contexts = {} is more than contexts = {}",
                    core.fetch_contexts, self.contexts
                ),
            ));
        }
        self.divide.check()?;
        self.idle.check()?;
        let units = &self.units;
        if units.load_store > units.integer {
            return Err((
                "units",
                format!(
                    "load_store = {} is more than integer = {}; loads and stores are done by integer units",
                    units.load_store, units.integer
                ),
            ));
        }
        if units.synchronisation > units.integer {
            return Err((
                "units",
                format!(
                    "synchronisation = {} is more than integer = {}; atomics are done by integer units",
                    units.synchronisation, units.integer
                ),
            ));
        }
        if units.data_ports > units.load_store {
            return Err((
                "units",
                format!(
                    "data_ports = {} is more than load_store = {}; they alone use a port beside buffered stores",
                    units.data_ports, units.load_store
                ),
            ));
        }
        for (section, tlb) in [("itlb", &self.itlb), ("dtlb", &self.dtlb)] {
            Tlb::new(tlb).map_err(|problem| (section, problem))?;
        }
        crate::predict::Predictors::new(&self.branch, &self.btb, self.contexts as usize).map(drop)
    }
}
