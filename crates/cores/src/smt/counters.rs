//! Counters of an out-of-order core.

use loiter_types::counters;

counters! {
    /// Counters of an out-of-order core.
    pub struct SmtCounters {
        /// Cycles since the timing model took over, or began.
        cycles: "cycles",
        /// Instructions fetched, on the right way or a wrong one.
        fetched: "instructions",
        /// Instructions issued.
        issued: "instructions",
        /// Instructions retired.
        retired: "instructions",
        /// Instructions squashed after they were fetched.
        squashed: "instructions",
        /// Loads retired.
        loads: "instructions",
        /// Stores retired.
        stores: "instructions",
        /// Atomics retired.
        atomics: "instructions",
        /// Loads whose value came from an older store that had not performed.
        forwarded_loads: "instructions",
        /// Loads squashed because an older store to the same bytes came after them.
        order_violations: "events",
        /// Loads squashed because the line was written before they retired.
        replayed_loads: "events",
        /// Cycles in which nothing was fetched.
        zero_fetch_cycles: "cycles",
        /// Cycles in which nothing was issued.
        zero_issue_cycles: "cycles",
        /// Cycles in which nothing retired.
        zero_retire_cycles: "cycles",
        /// Contexts that could have been fetched from, summed over cycles.
        fetchable_contexts: "contexts",
        /// Cycles in which an instruction could not be renamed because its queue was full.
        queue_full_cycles: "cycles",
        /// Cycles in which an instruction could not be renamed because no register was free.
        registers_full_cycles: "cycles",
        /// Instructions in the integer queue, summed over cycles.
        integer_queue_occupancy: "instructions",
        /// Instructions in the floating-point queue, summed over cycles.
        fp_queue_occupancy: "instructions",
        /// Traps entered, interrupts included.
        traps: "events",
        /// Naps (wfi, wrs) begun.
        naps: "events",
    }
}
