"""Chapters 2 and 4 of the reference file, key by key: where a key has no value of ours, why not.

Keys with a value are points and statements of the exhibits. `tests/python/test_redstone.py` walks all keys of these
sections and finds each in exactly one place.
"""

from __future__ import annotations

SECTIONS = (
    *("machine.smt", "workload", "simulated", "time", "definition", "ideal_branch_prediction", "os_port", "simulator"),
    *("spin", "lock_acquire", "idle_loop", "lock_fail", "formula", "experiments.chapter_4"),
    *("table_4_1", "table_4_2", "table_4_3", "table_4_4", "table_4_5", "figure_4_2", "figure_4_3"),
)
"""Of the reference file: what is of chapters 2 and 4."""

STATEMENTS = (
    *("spin_ipc_exceeds_programs", "lock_loop_same_on_smt", "idle_conflicts", "spin_disproportionate"),
    *("idle_ratio_reverses", "removal_never_hurts", "removal_small_for_apache", "removal_large_for_specint"),
    *("gain_order", "without_spin_pipeline", "caches_unchanged", "spin_in_queue"),
)
"""Of the reference file's statements, those of chapter 4."""

ALIASES = {
    "spin.pure.lock_acquire_ipc.superscalar": "table_4_2.ipc.lock_superscalar",
    "spin.pure.lock_acquire_ipc.smt": "table_4_2.ipc.lock_smt",
    "spin.pure.idle_ipc.superscalar": "table_4_2.ipc.idle_superscalar",
    "spin.pure.idle_ipc.smt": "table_4_2.ipc.idle_smt",
    "spin.pure.apache_superscalar_ipc": "table_4_2.ipc.apache_superscalar",
    **{
        f"spin.pure_iq.average_size.{column}": f"table_4_2.average_iq_size.{column}"
        for column in ("lock_superscalar", "lock_smt", "idle_superscalar", "idle_smt", "apache_superscalar")
    },
    "spin.apache_spin_instructions_percent.0": "figure_4_2.lock_spin_instructions_percent.0",
    "spin.apache_spin_instructions_percent.300": "figure_4_2.lock_spin_instructions_percent.300",
    "spin.spin_to_useful_ipc_ratio.0": "figure_4_2.lock_ipc_ratio.0",
    "spin.spin_to_useful_ipc_ratio.300": "figure_4_2.lock_ipc_ratio.300",
    "spin.removal_gain_percent.0": "figure_4_3.lock_gain_percent.0",
    "spin.removal_gain_percent.300": "table_4_5.removal_gain_percent.8",
    "figure_4_3.lock_gain_percent.300": "table_4_5.removal_gain_percent.8",
    "figure_4_3.useful_ipc_without_spinning.apache_300": "table_4_5.useful_ipc_smt_lock.8",
    "spin.superscalar_ipc.li": "table_4_1.superscalar_ipc.li",
    "spin.superscalar_ipc.compress": "table_4_1.superscalar_ipc.compress",
    "spin.idle_removal_speedup.li": "figure_4_3.idle_speedup.li",
    "spin.idle_removal_speedup.compress": "figure_4_3.idle_speedup.compress",
    "spin.idle_removal_gain_percent.multi4_average": "figure_4_3.idle_gain_percent.multi4_average",
    "spin.multi7_idle_instructions_percent": "figure_4_2.multi7_idle_instructions_percent",
    "spin.other_configurations.8, perfect caches and branches": "table_4_5.removal_gain_percent.8 perfect",
    "spin.other_configurations.12": "table_4_5.removal_gain_percent.12",
    "spin.other_configurations.4": "table_4_5.removal_gain_percent.4",
    "spin.other_configurations.4, 4 integer units": "table_4_5.removal_gain_percent.4u",
    **{
        f"spin.useful_ipc.{name}.{n}": f"table_4_5.useful_ipc_{way}.{short}"
        for name, short in (
            ("8", "8"),
            ("8 perfect", "8 perfect"),
            ("12", "12"),
            ("4", "4"),
            ("4, 4 integer units", "4u"),
        )
        for n, way in enumerate(("spin", "smt_lock"))
    },
    "spin.pipeline_300.zero_fetch_percent.smt_lock": "table_4_3.zero_fetch_cycles_percent.smt_lock_300",
    "spin.pipeline_300.zero_fetch_percent.spin": "table_4_3.zero_fetch_cycles_percent.spin_300",
    "spin.pipeline_300.fetchable.smt_lock": "table_4_3.fetchable_contexts.smt_lock_300",
    "spin.pipeline_300.fetchable.spin": "table_4_3.fetchable_contexts.spin_300",
    "spin.pipeline_300.squashed_percent.smt_lock": "table_4_3.useful_squashed_percent.smt_lock_300",
    "spin.pipeline_300.squashed_percent.spin": "table_4_3.useful_squashed_percent.spin_300",
    "spin.pipeline_300.iq_backup_percent.smt_lock": "table_4_3.iq_backup_cycles_percent.smt_lock_300",
    "spin.pipeline_300.iq_backup_percent.spin": "table_4_3.iq_backup_cycles_percent.spin_300",
    "spin.pipeline_300.zero_retire_percent.smt_lock": "table_4_3.zero_retire_cycles_percent.smt_lock_300",
    "spin.pipeline_300.zero_retire_percent.spin": "table_4_3.zero_retire_cycles_percent.spin_300",
    "spin.other_lock_fail_cycles.12": "lock_fail.cycles.12",
    "spin.other_lock_fail_cycles.4": "lock_fail.cycles.4",
}
"""Keys that hold what another key holds."""

_AUTHORS = "about the author's simulator"
_ELSEWHERE = "chapter 3's workload, which has no study here yet"
_WINDOW = "how long the author simulated; ours are windows of a booted system, WINDOWS in linux.py"
_SUBSTITUTE = "kernelmix stands for Apache: as many server processes, and no clients"
_RULE = "a rule of measurement, as docs/who-waits.md has it"

NOTES = {
    # Table 2.1 and its text: what no number of a preset is.
    "machine.smt.fetch": "core.fetch_width, core.fetch_contexts and core.fetch_policy say so; a context's fetch "
    "ends with its line",
    "machine.smt.branch.kind": "branch.kind = hybrid is McFarling's",
    "machine.smt.l1i.ports": "fetch from two contexts a cycle needs two accesses; core.fetch_banks says when "
    "they collide",
    "machine.smt.l1d.l2_requests_at_once": "l2.banks = 1 and l2.bank_busy_cycles: one request at a time is served"
    "l1d.fill_cycles apart",
    "machine.smt.memory_bus.latency_cycles": "part of l2.miss_latency_cycles, with memory.latency_cycles above",
    "machine.smt.memory.mib": "the study's Linux has 1024 MiB",
    "machine.smt.memory.pipelined": "it is: memory.channels limits transfers alone",
    "machine.smt.disk": "the image lies in memory",
    "machine.smt.network": "kernelmix uses none",
    "machine.smt.simulator_slowdown": _AUTHORS,
    "machine.smt.l1d_ports_are": "units.stores_take_ports",
    "machine.smt.context_state": "so it is: crates/cores/src/smt/context.rs",
    "machine.smt.context_mechanisms": "so they are: crates/cores/src/smt/context.rs",
    "machine.smt.area_increase_4_contexts_percent": "area is not modelled",
    "machine.smt.network_dma_modelled_on_bus": "there is no network traffic",
    "machine.smt.btb_miss_prediction": "btb.miss = fall_through",
    "machine.smt.icache_sharing": "core.fetch_banks: contexts with lines of one bank are not both served",
    "workload.apache": _SUBSTITUTE,
    "workload.specint95": "Debian's programs stand for those that chapter 4 uses: STAND_INS in idle.py",
    "workload.splash2": "chapter 5's workload",
    "workload.clients_per_driver_process": _SUBSTITUTE,
    "workload.apache_starts": _SUBSTITUTE,
    "workload.specint_starts": _ELSEWHERE,
    "workload.splash2_change": "chapter 5's workload",
    "simulated": _WINDOW,
    "time.metric": _RULE,
    "time.exception": _RULE,
    "time.short_intervals": _RULE,
    "time.example": "the accounts' own tests have such an example",
    "time.per_thread_ipc": "the metrics spin_per_thread_ipc, useful_per_thread_ipc and idle_per_thread_ipc are so",
    "time.processor_ipc": _RULE,
    "definition.spinning": "lock_instructions_percent; spin_instructions_percent leaves successful acquires out",
    "definition.useful": "useful_ipc; with acquires that find their lock free, as figure_4_2 has not",
    "definition.pipeline_resources": "a word of the text",
    "definition.fetchable_context": "fetchable_contexts; also not one that waits for a walk, or for an "
    "instruction that stops fetch",
    "definition.squashed": "squashed_percent and useful_squashed_percent",
    "definition.user_kernel_conflict": "chapter 3",
    "definition.invalidation_by_os": "chapter 3",
    "definition.avoided_miss": "chapter 3",
    "definition.netisr": "chapter 3",
    "definition.physical_access": "chapter 3",
    "definition.free_mini_thread": "chapter 5",
    "ideal_branch_prediction.reason": "ours is wrong there too: crates/cores/src/smt/oracle.rs",
    "os_port": "Linux runs as on any multiprocessor: contexts have translation buffers by address space, and "
    "shootdowns",
    "simulator": _AUTHORS,
    # Chapter 4: how it was done.
    "spin.lock_loop": "pure_retry in guests/programs/spinloops, loiter_fail_nop in the kernel",
    "spin.lock_loop_independent": "so it is in ours",
    "spin.smt_lock": "Xloiterlock: docs/waiting.md",
    "spin.apache_lock_fail_cycles": "0 and 300 are among ours",
    "spin.idle_workloads": "WORKLOADS in idle.py",
    "lock_acquire.uncontended_instructions": "Linux's takes a ticket and compares its halves; no counter of acquires",
    "lock_acquire.steps": "ours has no third step: the loop of four ends with the acquire",
    "lock_acquire.loop_instructions": "four: pure_retry, and the kernel's loiter_fail_nop",
    "lock_acquire.loop_lines": "one: both loops begin a line",
    "lock_acquire.replaced_by": "lock.acquire has address, cycles and where to go on as operands: one "
    "instruction, and two to load the cycles",
    "idle_loop.flags": "eight: pure_idle, and lock.wait's line",
    "idle_loop.replaced_by": "lock.wait",
    "idle_loop.other_work": "Linux's idle loop has none",
    "idle_loop.period_cycles_above": "the contexts that idle beside programs do so for the whole window",
    "idle_loop.stacks": "so do ours: pure_idle, and idle=flags of the kernel",
    "lock_fail.spin_version": "docs/images.md says how an acquire is made to fail",
    "lock_fail.blocking_version": "lock.acquire of a word that nobody frees, for as many cycles",
    "lock_fail.bias": "ours has it too",
    "lock_fail.target_spin_instructions_percent": "so ours is chosen on smt8: "
    "table_4_5.spin_instructions_percent shows what came out",
    "lock_fail.cycles": "kernelmix takes fewer locks: ours is 2000 on 8 contexts, and in the published "
    "proportion elsewhere",
    "formula": "tests/python/test_redstone.py works the example out; those of mini-threads are chapter 5's",
    "experiments.chapter_4": "all: exhibits table_4_2, figure_4_2, figure_4_3, kernel_spin",
    "table_4_1.number_of_applications": "WORKLOADS in idle.py have as many",
    "table_4_2.superscalar_instructions_per_spin_cycle_over_apache": "the quotient of two cells of table_4_2.ipc",
    "table_4_2.why_lock_smt_is_4": "an explanation: core.fetch_banks",
    "table_4_2.why_idle_exceeds_lock": "an explanation",
    "table_4_3.caches_and_predictors": "statement caches_unchanged",
}
"""Keys, or what several begin with, that no value of ours stands beside, and why."""
