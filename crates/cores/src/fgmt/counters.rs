//! Counters of a core and of its contexts.

use loiter_types::counters;

counters! {
    /// Counters of a core.
    pub struct CoreCounters {
        /// Instructions issued by all pipes.
        issued: "instructions",
        /// Loads issued.
        loads: "instructions",
        /// Stores issued.
        stores: "instructions",
        /// Atomics issued.
        atomics: "instructions",
        /// Conditional branches issued.
        branches: "instructions",
        /// Those that were taken.
        branches_taken: "instructions",
        /// Floating-point operations issued, loads and stores not counted.
        fp_operations: "instructions",
        /// Integer multiplies issued.
        multiplies: "instructions",
        /// Integer divides and remainders issued.
        divides: "instructions",
        /// Instructions issued after a load whose hit was not yet confirmed, or a branch not yet known.
        speculative_issues: "instructions",
        /// Slots lost to instructions whose unit was busy.
        retracted: "slots",
        /// Slots lost to instructions that went out on the assumption that a load hits which missed.
        miss_slots: "slots",
        /// Slots lost to instructions that had to wait, which selection did not know yet.
        wait_slots: "slots",
        /// Cycles in which a returned line could not fill for a load, or a store, in the execute stage.
        fill_waits: "cycles",
        /// Cycles in which a buffered store waited as that of another context had the data cache, where cores own what they
        /// store to.
        store_port_wait_cycles: "cycles",
        /// Loads whose value came from the context's own store buffer.
        forwarded_loads: "instructions",
        /// Cycles that a pipe lost because another pipe, an atomic or a line that fills had a shared unit.
        pipe_conflicts: "cycles",
        /// Slots of a pipe that results of multiplies and divides took, and atomics beside their first.
        hole_slots: "slots",
        /// Traps entered, interrupts included.
        traps: "events",
    }
}
