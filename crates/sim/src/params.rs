//! Which sections a machine file has, and what they build.

use loiter_cores::fgmt::{CoreParams, FpuParams, LatencyParams};
use loiter_cores::predict::{BranchParams, BtbParams};
use loiter_cores::smt::{RefillParams, SmtCoreParams, SmtLatencyParams, SmtUnitParams};
use loiter_cores::{CoreGroup, DivideParams, IdleParams, WaitParams};
use loiter_machine::RAM_BASE;
use loiter_memory::coherence::{
    ClusterParams, CoherenceParams, DeviceParams, DramParams, HomeParams, NetworkParams,
    PrefetchParams, SecondParams, SnoopParams, SnoopingBusParams, ThirdParams,
};
use loiter_memory::{
    AnyMemoryConfig, BusParams, L1MissParams, L1Params, L2Params, MemoryParams, ReplyParams,
    TlbParams, WalkerParams,
};
use loiter_types::{ParamInfo, Params, params};

use crate::energy::EnergyParams;

params! {
    /// Section `system`.
    pub struct SystemParams {
        /// Cores of the chip.
        cores: int(1..=256),
        /// Clock of the cores.
        clock_mhz: int(1..=100000),
        /// Memory that programs see.
        ram_mib: int(1..=1048576),
        /// directory: private caches, homes, and a network between them; snooping_bus: private caches that all watch one
        /// bus, without homes; write_through: in-order cores whose first levels write through, before the banks of a second
        /// level that they share; shared_l2: out-of-order cores before one second level that is as far from each.
        memory: choice("shared_l2", "directory", "snooping_bus", "write_through") = "shared_l2",
        /// Ticks of the platform's timer (mtime) in a second. The core clock must be a multiple.
        timebase_hz: int(1000..=1000000000),
    }
}

params! {
    /// Section `hart`.
    pub struct HartParams {
        /// ISA string of the device tree. Changes may be given instead: -zawrs,+svade.
        isa: text,
        /// The largest address space that harts translate; sv48 includes sv39.
        mmu: choice("sv39", "sv48"),
        /// Bits of the numbers of address spaces that harts implement (ASIDLEN). 0: a kernel forgets a hart's translations
        /// when it changes to another process, and other harts need hear only of those that run now.
        asid_bits: int(0..=16) = 16,
        /// Bytes of the lines that a hart can watch (reservations of lr, wrs), a power of two.
        watch_line_bytes: int(16..=4096),
    }
}

params! {
    /// Section `core`, the keys of every kind of core.
    pub struct CoreKindParams {
        /// Model of the core: fgmt is in order with fine-grained multithreading; smt is out of order with
        /// simultaneous multithreading; reference is the untimed engine, one instruction a cycle for
        /// each hart.
        kind: choice("fgmt", "smt", "reference"),
        /// Contexts of a core.
        contexts: int(1..=64),
    }
}

/// A section of a machine file: its name and its keys.
pub(crate) type Section = (&'static str, Vec<ParamInfo>);

params! {
    /// Section `little`, of a machine that has cores of two kinds: those of section `core`, and after them so many that
    /// sections `little.core`, `little.latency` and so on describe. In a machine file, `machine` names the machine that
    /// these sections are taken from. First-level caches are those of all cores.
    pub struct LittleParams {
        /// How many.
        cores: int(1..=255),
    }
}

/// What a machine file decides by words, of which its sections depend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinds<'a> {
    /// `core.kind`.
    pub(crate) core: &'a str,
    /// `little.core.kind`, if there is such a section.
    pub(crate) little: Option<&'a str>,
    /// `system.memory`.
    pub(crate) memory: &'a str,
}

impl Kinds<'_> {
    /// Whether cores of these kinds work with this memory.
    ///
    /// # Errors
    /// What does not fit, and what does.
    pub(crate) fn check(self) -> Result<(), String> {
        let Kinds { memory, .. } = self;
        for (key, kind) in [
            ("core.kind", Some(self.core)),
            ("little.core.kind", self.little),
        ] {
            let Some(kind) = kind else { continue };
            let (who, other) = match (memory, kind) {
                ("shared_l2", "fgmt") => ("out-of-order", "write_through"),
                ("write_through", "smt") => ("in-order", "shared_l2"),
                _ => continue,
            };
            return Err(format!(
                "memory = \"{memory}\" is for {who} cores, not {key} = \"{kind}\"; take \"{other}\", \"directory\" or \
                 \"snooping_bus\""
            ));
        }
        Ok(())
    }
}

/// The sections of a machine of these kinds.
pub(crate) fn sections(kinds: Kinds<'_>) -> Vec<Section> {
    let Kinds { core, memory, .. } = kinds;
    let mut sections = vec![
        ("system", SystemParams::infos()),
        ("hart", HartParams::infos()),
    ];
    sections.extend(core_sections(core));
    if core != "reference" {
        sections.extend(memory_sections(memory));
        sections.push(("energy", EnergyParams::infos()));
    }
    if let Some(kind) = kinds.little {
        sections.push(("little", LittleParams::infos()));
        let of_core = core_sections(kind).into_iter();
        sections.extend(of_core.map(|(section, infos)| (little(section), infos)));
    }
    sections
}

/// The section that describes the cores of section `little` as `section` does those of section `core`.
pub(crate) fn little(section: &str) -> &'static str {
    const NAMES: [&str; 11] = [
        "little.core",
        "little.latency",
        "little.wait",
        "little.idle",
        "little.fpu",
        "little.units",
        "little.branch",
        "little.btb",
        "little.itlb",
        "little.dtlb",
        "little.walker",
    ];
    let of = |name: &&&str| name.strip_prefix("little.") == Some(section);
    NAMES
        .iter()
        .find(of)
        .expect("a section that describes cores")
}

/// The sections that describe cores of this kind.
pub(crate) fn core_sections(kind: &str) -> Vec<Section> {
    let with_divides = |latency: Vec<ParamInfo>| [latency, DivideParams::infos()].concat();
    let core = |more: Vec<ParamInfo>| ("core", [CoreKindParams::infos(), more].concat());
    let tlbs = || [("itlb", TlbParams::infos()), ("dtlb", TlbParams::infos())];
    match kind {
        "fgmt" => {
            let mut sections = vec![
                core(CoreParams::infos()),
                ("latency", with_divides(LatencyParams::infos())),
                ("wait", WaitParams::infos()),
                ("idle", IdleParams::infos()),
                ("fpu", FpuParams::infos()),
            ];
            sections.extend(tlbs());
            sections.push(("walker", WalkerParams::infos()));
            sections
        }
        "smt" => {
            let mut sections = vec![
                core(SmtCoreParams::infos()),
                ("units", SmtUnitParams::infos()),
                ("latency", with_divides(SmtLatencyParams::infos())),
                ("wait", WaitParams::infos()),
                ("idle", IdleParams::infos()),
                ("branch", BranchParams::infos()),
                ("btb", BtbParams::infos()),
            ];
            sections.extend(tlbs());
            let walker = [RefillParams::infos(), WalkerParams::infos()].concat();
            sections.push(("walker", walker));
            sections
        }
        _ => vec![core(Vec::new())],
    }
}

fn memory_sections(memory: &str) -> Vec<Section> {
    let overlaps = memory != "write_through";
    let first_level = || match overlaps {
        true => [L1Params::infos(), L1MissParams::infos()].concat(),
        false => L1Params::infos(),
    };
    let mut sections = vec![("l1i", first_level()), ("l1d", first_level())];
    if memory == "directory" {
        sections.extend([
            ("l2", SecondParams::infos()),
            ("l3", ThirdParams::infos()),
            ("cluster", ClusterParams::infos()),
            ("coherence", CoherenceParams::infos()),
            ("home", HomeParams::infos()),
            ("network", NetworkParams::infos()),
            ("dram", DramParams::infos()),
            ("device", DeviceParams::infos()),
            ("prefetch", PrefetchParams::infos()),
        ]);
        return sections;
    }
    if memory == "snooping_bus" {
        sections.extend([
            ("l2", SecondParams::infos()),
            ("coherence", SnoopParams::infos()),
            ("bus", SnoopingBusParams::infos()),
            ("dram", DramParams::infos()),
            ("device", DeviceParams::infos()),
        ]);
        return sections;
    }
    if memory == "shared_l2" {
        sections.insert(0, ("bus", BusParams::infos()));
    }
    let l2 = match memory {
        "write_through" => [L2Params::infos(), ReplyParams::infos()].concat(),
        _ => L2Params::infos(),
    };
    sections.extend([("l2", l2), ("memory", MemoryParams::infos())]);
    sections
}

/// Whether RAM lies before `reach`, the first address that timed caches cannot tell from all others.
///
/// # Errors
/// The section, and how much RAM there can be.
pub(crate) fn ram_within(reach: u64, system: &SystemParams) -> Result<(), (&'static str, String)> {
    let (ram_mib, most) = (system.ram_mib, reach.saturating_sub(RAM_BASE) >> 20);
    if ram_mib <= most {
        return Ok(());
    }
    let problem = format!(
        "ram_mib = {ram_mib} is more than the caches can tell apart: at most {most}, or caches with more sets"
    );
    Err(("system", problem))
}

/// What the timing of a machine is built from.
#[derive(Clone, Debug)]
pub struct TimingParams {
    /// Cores, in the order of their numbers.
    pub cores: Vec<CoreGroup>,
    /// The memory before them.
    pub memory: AnyMemoryConfig,
}
