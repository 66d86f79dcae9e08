//! Parameters of branch prediction, one struct for each section of a machine file.

use loiter_types::params;

params! {
    /// Directions of conditional branches, and return addresses: section `branch`.
    pub struct BranchParams {
        /// Which way a conditional branch is predicted: hybrid is McFarling's, which chooses between
        /// a local and a global side; bimodal one two-bit counter for each branch; taken and
        /// not_taken always the same; oracle, for what-if runs, knows, and the targets too.
        kind: choice("hybrid", "bimodal", "taken", "not_taken", "oracle"),
        /// Branches of which hybrid remembers the latest directions, a power of two.
        local_history_entries: int(1..=1048576),
        /// Counters of the local side of hybrid, a power of two; its logarithm is the length of a
        /// local history.
        local_prediction_entries: int(1..=1048576),
        /// Counters of the global side of hybrid, a power of two; its logarithm is the length of the
        /// global history.
        global_entries: int(1..=1048576),
        /// Counters by which hybrid chooses between its sides, a power of two.
        choice_entries: int(1..=1048576),
        /// Counters of bimodal, a power of two.
        bimodal_entries: int(1..=1048576),
        /// Calls that a context can return from by its return stack; further ones evict the
        /// oldest. 0: returns are predicted as other indirect jumps.
        return_stack_entries: int(0..=1024),
    }
}

params! {
    /// The branch target buffer: section `btb`.
    pub struct BtbParams {
        /// Branches and jumps whose target it holds.
        entries: int(1..=1048576),
        /// Associativity; the least recently used entry of a set is replaced.
        ways: int(1..=1048576),
        /// What fetch does at a branch or jump that the buffer does not hold, returns by the return stack
        /// aside. fall_through: it continues with the next instruction, so that a conditional branch is
        /// predicted not taken; decode finds where a direct jump leads (core.misfetch_cycles), execution all
        /// else. misfetch: as fall_through, but decode also redirects to the target of a conditional branch
        /// that section branch predicts taken. stall: it waits until decode, or execution, knows the target.
        miss: choice("fall_through", "misfetch", "stall"),
    }
}
