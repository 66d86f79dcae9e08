//! The keys of a file of virtual machines: the host, its scheduler, whom a yield call helps, the guests.

use loiter_types::params;

params! {
    /// The physical machine.
    pub struct HostParams {
        /// Physical CPUs.
        cpus: int(1..=256),
        /// Clock of every CPU; one executes an instruction a cycle.
        clock_mhz: int(1..=100_000) = 1000,
        /// The machine whose contexts the CPUs are, by its name or the path of its file; none: the reference engine executes them.
        machine: text = "",
        /// Changes of it, as `--set` takes them, with spaces between.
        machine_set: text = "",
        /// Memory that guests can have together.
        memory_mib: int(1..=16_777_216),
        /// Physical CPUs, by their numbers, that share a last-level cache: near to each other.
        cpus_per_cache: int(1..=256) = 4,
        /// CPUs take turns of at most so many cycles to execute: how finely they see each other's stores and calls.
        turn_cycles: int(1..=1_000_000) = 5000,
        /// What a CPU needs to change from one virtual CPU to another.
        switch_cycles: int(0..=10_000_000) = 3000,
        /// What a call to the host costs that comes back to its caller.
        call_cycles: int(0..=10_000_000) = 1000,
        /// The run ends after so much simulated time at the latest.
        run_us: int(1..=1_000_000_000_000),
    }
}

params! {
    /// Who runs where, and for how long.
    pub struct SchedulerParams {
        /// Which scheduler.
        policy: choice("credit", "gang", "fair") = "credit",
        /// How long a virtual CPU runs before it is another one's turn.
        slice_us: int(1..=10_000_000) = 30_000,
        /// Ticks in a slice: at each, who runs pays for all the time since the last one.
        ticks_per_slice: int(1..=1000) = 3,
    }
}

params! {
    /// What becomes of virtual CPUs that wait, and of those they may wait for.
    pub struct HelpingParams {
        /// Who runs instead.
        policy: choice("nobody", "next", "published", "directed", "random", "oracle") = "nobody",
        /// Seed of the choices of policy "random".
        seed: int(0..=4_294_967_295) = 1,
        /// How the host learns that a virtual CPU waits, beside its calls.
        detection: choice("call", "pause_loop", "wrs_trap") = "call",
        /// A pause that comes later than this after the last one begins another loop.
        gap_cycles: int(0..=4_294_967_295) = 128,
        /// A loop of pauses, or a nap in `wrs.nto`, that takes longer than this is like a call to yield.
        window_cycles: int(0..=4_294_967_295) = 4096,
        /// For so long a virtual CPU keeps its CPU while it is in its kernel, though it is another one's turn.
        postpone_us: int(0..=10_000_000) = 0,
    }
}

params! {
    /// A guest: a system of its own.
    pub struct GuestParams {
        /// What results call it.
        name: text,
        /// Virtual CPUs.
        harts: int(1..=512) = 1,
        /// Its memory.
        memory_mib: int(1..=16_777_216) = 128,
        /// Changes of what it sees of its machine, `virt`, as `--set` takes them, with spaces between.
        machine_set: text = "",
        /// A bare-metal program to run: the path of an ELF, or the name of one that comes with loiter.
        program: text = "",
        /// The command line of the program.
        arguments: text = "",
        /// A Linux image to boot.
        image: text = "",
        /// What the Linux guest runs, as a shell command.
        command: text = "",
        /// Files and folders that the command finds beside it, by their paths from the file's folder, with spaces between.
        put: text = "",
        /// Words for the kernel.
        append: text = "",
        /// The file of a disk, beside that of the image: `/dev/vdc`.
        disk: text = "",
        /// Whether what the guest writes to the disk goes to its file.
        disk_writable: bool = false,
        /// Whether its locks are followed by the names of its kernel's lock functions; it runs more slowly then.
        lock_stats: bool = false,
        /// Whether the run ends without waiting for it.
        background: bool = false,
        /// Its share of the CPUs beside other guests'.
        weight: int(1..=65_535) = 256,
        /// The most that it may use, in hundredths of a CPU; 0: without limit.
        cap_percent: int(0..=25_600) = 0,
    }
}
