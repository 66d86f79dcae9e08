//! Counters of branch prediction.

use loiter_types::counters;

counters! {
    /// Counters of the predictors of a core. Instructions are counted when they retire.
    pub struct BranchCounters {
        /// Conditional branches.
        branches: "instructions",
        /// Those that were taken.
        branches_taken: "instructions",
        /// Those whose direction was mispredicted.
        branches_mispredicted: "instructions",
        /// Returns.
        returns: "instructions",
        /// Those whose target was mispredicted or not known.
        returns_mispredicted: "instructions",
        /// Indirect jumps and calls, returns not counted.
        indirect_jumps: "instructions",
        /// Those whose target was mispredicted or not known.
        indirect_jumps_mispredicted: "instructions",
        /// Jumps and calls to a fixed target.
        fixed_jumps: "instructions",
        /// Look-ups in the branch target buffer, those on wrong paths included.
        btb_lookups: "look-ups",
        /// Branches that were taken, and jumps and calls, that the branch target buffer did not hold.
        btb_misses: "instructions",
    }
}
