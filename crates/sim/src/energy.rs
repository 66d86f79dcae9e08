//! What events and seconds cost, as machine files say it. Nothing here is simulated: energy is worked out from
//! what a run counted (docs/energy.md).

use loiter_types::params;

params! {
    /// Section `energy`. Energies of events on the chip hold for `reference_mv` and `capacitance_percent = 100`. An
    /// estimate has a range: "100 in 50..200". What is left out counts for nothing.
    pub struct EnergyParams {
        /// Voltage of the cores.
        volt_mv: int(0..=10000) = 0,
        /// The voltage for which the energies are given; they go with its square.
        reference_mv: int(0..=10000) = 0,
        /// The voltage for which the powers are given; they go with the voltage.
        static_mv: int(0..=10000) = 0,
        /// Capacitance of what an event switches, compared with the process for which the energies are given.
        capacitance_percent: estimate = "",
        /// Fetching and decoding an instruction, on whatever path, but for the cache.
        fetch_fj: estimate = "",
        /// What the instruction cache takes for an instruction.
        l1i_fj: estimate = "",
        /// Renaming an instruction, and its entry in the reorder buffer.
        rename_fj: estimate = "",
        /// Selecting and issuing an instruction.
        issue_fj: estimate = "",
        /// Reading and writing registers for an instruction that issues.
        registers_fj: estimate = "",
        /// An instruction that issues and is neither a multiply, a divide nor of floating point.
        alu_fj: estimate = "",
        /// An integer multiply.
        mul_fj: estimate = "",
        /// An integer divide.
        div_fj: estimate = "",
        /// A floating-point operation.
        fp_fj: estimate = "",
        /// An access of the data cache by a load, a store or an atomic.
        l1d_fj: estimate = "",
        /// An access of the second level.
        l2_fj: estimate = "",
        /// An access of the third level.
        l3_fj: estimate = "",
        /// A request that a home looks up in its directory.
        directory_fj: estimate = "",
        /// A message on a link of the network, or through a crossbar.
        hop_fj: estimate = "",
        /// A line read from or written to memory. Neither capacitance_percent nor the voltage of the cores matters.
        dram_fj: estimate = "",
        /// A cycle of a context that executes: what keeps its clock going.
        context_fj: estimate = "",
        /// A cycle of a context that gives way after a pause.
        pause_fj: estimate = "",
        /// A cycle of a core in which a context is awake: its clock.
        core_fj: estimate = "",
        /// A core that is in no idle state, without what its clock and events take.
        core_static_uw: estimate = "",
        /// A core in idle state 1.
        state1_static_uw: estimate = "",
        /// A core in idle state 2.
        state2_static_uw: estimate = "",
        /// A core in idle state 3.
        state3_static_uw: estimate = "",
        /// All else on the chip, whatever the cores do.
        chip_static_uw: estimate = "",
    }
}
