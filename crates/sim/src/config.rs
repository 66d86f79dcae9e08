//! Machine files: reading, overriding, checking, describing.

use std::sync::Arc;

use loiter_cores::fgmt::FgmtParams;
use loiter_cores::smt::SmtParams;
use loiter_cores::{CoreGroup, CoreParams};
use loiter_hart::Extensions;
use loiter_isa::FLAGS_BYTES;
use loiter_machine::{MachineConfig, Mmu, RAM_BASE};
use loiter_memory::coherence::{DirectoryParams, SnoopingParams, WriteThroughParams};
use loiter_memory::{AnyMemoryConfig, Memory, MemoryConfig};
use loiter_types::{Cycle, ParamInfo, ParamKind, ParamValue, Params};
use serde::Serialize;
use sha2::{Digest, Sha256};
use toml_edit::{DocumentMut, Item, Table, Value};

use crate::config_keys::{refuse_unknown, refuse_unknown_sets, table_of};
use crate::error::Error;
use crate::isa_string;
use crate::params::{
    CoreKindParams, HartParams, Kinds, LittleParams, SystemParams, TimingParams, little,
    ram_within, sections,
};
use crate::result::CounterDescription;
use crate::timing_phase::Timing;

/// The one parameter to which changes can be given instead of a value.
const ISA_KEY: &str = "hart.isa";

/// One parameter with its value.
#[derive(Clone, Debug)]
struct Entry {
    section: &'static str,
    info: ParamInfo,
    value: ParamValue,
    /// What stands after the value in the machine file.
    source: String,
    changed: bool,
    /// Neither the file nor the user gives it.
    defaulted: bool,
}

/// A machine file with the user's changes, complete and checked.
#[derive(Clone, Debug)]
pub struct MachineFile {
    /// Name of the machine, as it was given.
    pub(crate) name: String,
    description: String,
    sources: Vec<(String, String)>,
    entries: Vec<Entry>,
}

/// A machine in words, for people and for results.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// Name of the machine.
    pub name: String,
    /// One line about it.
    pub description: String,
    /// SHA-256 over all parameters and their values.
    pub hash: String,
    /// Tags of sources and what they stand for.
    pub sources: Vec<(String, String)>,
    /// Every parameter.
    pub parameters: Vec<ParameterDescription>,
}

/// A parameter in words.
#[derive(Clone, Debug, Serialize)]
pub struct ParameterDescription {
    /// `section.name`.
    pub key: String,
    /// Its value.
    pub value: serde_json::Value,
    /// Its unit; empty for counts and words.
    pub unit: &'static str,
    /// Its type: int, bool, text or choice.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What it means.
    pub description: &'static str,
    /// Where its value is from.
    pub source: String,
    /// Whether the user changed it.
    pub changed: bool,
}

impl MachineFile {
    /// Reads the machine file `text`, called `path` in messages, and applies `sets` (`key=value`).
    ///
    /// # Errors
    /// What is wrong, where, and what would be right.
    pub fn read(path: &str, text: &str, sets: &[String]) -> Result<Self, Error> {
        let document: DocumentMut = text
            .parse()
            .map_err(|error| Error::User(format!("{path}: not a machine file: {error}")))?;
        let changes = sets
            .iter()
            .map(|set| split_set(set))
            .collect::<Result<Vec<_>, _>>()?;
        let core = &CoreKindParams::infos()[0];
        let kind = chosen(path, &document, &changes, "core", core)?;
        let system = SystemParams::infos();
        let memory = system.iter().find(|info| info.name == "memory");
        let memory = memory.expect("it is declared");
        let memory = chosen(path, &document, &changes, "system", memory)?;
        let has_little = document.get("little").is_some();
        let kind_of_little =
            has_little.then(|| chosen(path, &document, &changes, little("core"), core));
        let kind_of_little = kind_of_little.transpose()?;
        let kinds = Kinds {
            core: &kind,
            little: kind_of_little.as_deref(),
            memory: &memory,
        };
        kinds
            .check()
            .map_err(|problem| Error::User(format!("{path}: section system: {problem}")))?;
        let sections = sections(kinds);
        refuse_unknown(path, &document, &sections, kinds)?;
        refuse_unknown_sets(&changes, &sections)?;
        let mut entries = Vec::new();
        for (section, infos) in sections {
            let table = table_of(&document, section);
            for info in infos {
                let entry = entry(path, section, info, table, &changes)?;
                // Nobody has to say what means nothing.
                if !entry.defaulted || has_meaning(&entry, &entries) {
                    entries.push(entry);
                }
            }
        }
        let file = Self {
            name: text_of(&document, "name").unwrap_or_else(|| path.to_owned()),
            description: text_of(&document, "description").unwrap_or_default(),
            sources: sources(&document),
            entries,
        };
        file.check().map_err(|(section, problem)| {
            Error::User(format!("{path}: section {section}: {problem}"))
        })?;
        Ok(file)
    }

    /// What bounds of single values cannot tell: whether the machine can be built.
    fn check(&self) -> Result<(), (&'static str, String)> {
        let system = self.system();
        let clock_hz = system.clock_mhz * 1_000_000;
        if !clock_hz.is_multiple_of(system.timebase_hz) {
            let timebase_hz = system.timebase_hz;
            let problem =
                format!("timebase_hz = {timebase_hz} does not divide the clock of {clock_hz} Hz");
            return Err(("system", problem));
        }
        let hart = self.hart();
        if Extensions::of(&hart.isa).xloiterlock && hart.watch_line_bytes < FLAGS_BYTES {
            let bytes = hart.watch_line_bytes;
            let problem = format!(
                "watch_line_bytes = {bytes} is less than the {FLAGS_BYTES} bytes of flags that lock.wait \
                 watches; take xloiterlock out of isa, or watch larger lines"
            );
            return Err(("hart", problem));
        }
        if let Some(timing) = self.timing() {
            for (n, group) in timing.cores.iter().enumerate() {
                let named =
                    |(section, problem)| (if n == 0 { section } else { little(section) }, problem);
                group.params.check().map_err(named)?;
            }
            if timing.cores.len() > 1 && system.memory == "shared_l2" {
                let problem = "memory = \"shared_l2\" is for cores of one kind; leave section little away, or take \
                               another memory";
                return Err(("system", problem.to_owned()));
            }
            ram_within(Memory::new(&timing.memory)?.reach(), &system)?;
        }
        Ok(())
    }

    /// Every counter of the machine: none if its cores are not timed.
    ///
    /// # Errors
    /// Cores that cannot be built.
    pub fn describe_counters(&self) -> Result<Vec<CounterDescription>, Error> {
        let timing = Timing::new(&self.name, self.timing(), Cycle(0))?;
        Ok(timing.map_or_else(Vec::new, |timing| timing.describe_counters()))
    }

    /// The machine in words.
    #[must_use]
    pub fn describe(&self) -> Description {
        Description {
            name: self.name.clone(),
            description: self.description.clone(),
            hash: self.hash(),
            sources: self.sources.clone(),
            parameters: self
                .entries
                .iter()
                .map(|entry| ParameterDescription {
                    key: format!("{}.{}", entry.section, entry.info.name),
                    value: match &entry.value {
                        ParamValue::Int(n) => (*n).into(),
                        ParamValue::Bool(b) => (*b).into(),
                        ParamValue::Text(s) => s.as_str().into(),
                    },
                    unit: entry.info.unit(),
                    kind: match entry.info.kind {
                        ParamKind::Int { .. } => "int",
                        ParamKind::Bool => "bool",
                        ParamKind::Text => "text",
                        ParamKind::Choice(_) => "choice",
                        ParamKind::Estimate => "estimate",
                    },
                    description: entry.info.description,
                    source: entry.source.clone(),
                    changed: entry.changed,
                })
                .collect(),
        }
    }

    /// SHA-256 over all parameters and their values; names and comments do not count.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        for entry in &self.entries {
            hasher.update(format!(
                "{}.{}={}\n",
                entry.section, entry.info.name, entry.value
            ));
        }
        hex(&hasher.finalize())
    }

    fn section<P: Params>(&self, section: &str) -> P {
        let infos = P::infos();
        P::build(&mut |name| {
            let entry = self
                .entries
                .iter()
                .find(|entry| entry.section == section && entry.info.name == name);
            match entry {
                Some(entry) => entry.value.clone(),
                None => {
                    let info = infos.iter().find(|info| info.name == name);
                    let default = info.and_then(|info| info.default.clone());
                    default.expect("every declared parameter has a value")
                }
            }
        })
    }

    pub(crate) fn system(&self) -> SystemParams {
        self.section("system")
    }

    pub(crate) fn hart(&self) -> HartParams {
        self.section("hart")
    }

    /// Contexts of each core.
    pub(crate) fn core_contexts(&self) -> Vec<usize> {
        let contexts = |section| self.section::<CoreKindParams>(section).contexts as usize;
        let mut cores = vec![contexts("core"); self.system().cores as usize];
        if let Some(LittleParams { cores: littles }) = self.second_kind() {
            cores.extend(vec![contexts(little("core")); littles as usize]);
        }
        cores
    }

    fn second_kind(&self) -> Option<LittleParams> {
        let has = self.entries.iter().any(|entry| entry.section == "little");
        has.then(|| self.section("little"))
    }

    /// Harts that the machine seats: one in each context.
    pub(crate) fn harts(&self) -> usize {
        self.core_contexts().iter().sum()
    }

    /// What programs see of the machine with `harts` harts, which sit in its first contexts.
    pub(crate) fn machine(&self, harts: usize) -> MachineConfig {
        let (system, hart) = (self.system(), self.hart());
        let mut left = harts;
        let mut cores: Vec<_> = self.core_contexts();
        for core in &mut cores {
            *core = left.min(*core);
            left -= *core;
        }
        cores.retain(|&core| core > 0);
        // Without timing there may be more harts than contexts.
        cores.extend((left > 0).then_some(left));
        MachineConfig {
            ram_bytes: system.ram_mib << 20,
            harts,
            harts_of_cores: cores,
            timebase_hz: system.timebase_hz,
            isa: hart.isa,
            mmu: Mmu::named(&hart.mmu),
            asid_bits: hart.asid_bits as u32,
            watch_line_bytes: hart.watch_line_bytes,
            ..MachineConfig::default()
        }
    }

    /// Parameters of the memory system.
    fn memory(&self) -> AnyMemoryConfig {
        let system = self.system();
        let cores = self.core_contexts().len();
        let misses = || [self.section("l1i"), self.section("l1d")];
        if system.memory == "directory" {
            return AnyMemoryConfig::Directory(Box::new(DirectoryParams {
                cores,
                memory: (RAM_BASE, system.ram_mib << 20),
                l1i: self.section("l1i"),
                l1d: self.section("l1d"),
                misses: misses(),
                second: self.section("l2"),
                third: self.section("l3"),
                cluster: self.section("cluster"),
                coherence: self.section("coherence"),
                home: self.section("home"),
                network: self.section("network"),
                dram: self.section("dram"),
                device: self.section("device"),
                prefetch: self.section("prefetch"),
            }));
        }
        if system.memory == "snooping_bus" {
            return AnyMemoryConfig::Snooping(Box::new(SnoopingParams {
                cores,
                l1i: self.section("l1i"),
                l1d: self.section("l1d"),
                misses: misses(),
                second: self.section("l2"),
                coherence: self.section("coherence"),
                bus: self.section("bus"),
                dram: self.section("dram"),
                device: self.section("device"),
            }));
        }
        if system.memory == "write_through" {
            return AnyMemoryConfig::WriteThrough(Box::new(WriteThroughParams {
                cores,
                l1i: self.section("l1i"),
                l1d: self.section("l1d"),
                l2: self.section("l2"),
                reply: self.section("l2"),
                memory: self.section("memory"),
            }));
        }
        AnyMemoryConfig::Shared(Box::new(MemoryConfig {
            cores,
            l1i: self.section("l1i"),
            l1d: self.section("l1d"),
            misses: misses(),
            bus: self.section("bus"),
            l2: self.section("l2"),
            memory: self.section("memory"),
        }))
    }

    /// Parameters of the cores and of the memory system; none without timing.
    #[must_use]
    pub fn timing(&self) -> Option<TimingParams> {
        let params = self.core_params(|section| section)?;
        let mut cores = vec![CoreGroup {
            params,
            cores: self.system().cores as usize,
        }];
        if let Some(LittleParams { cores: littles }) = self.second_kind() {
            cores.push(CoreGroup {
                params: self.core_params(little)?,
                cores: littles as usize,
            });
        }
        Some(TimingParams {
            memory: self.memory(),
            cores,
        })
    }

    /// Parameters of the cores that the sections describe which `named` returns; none without timing.
    fn core_params(&self, named: fn(&'static str) -> &'static str) -> Option<CoreParams> {
        let common: CoreKindParams = self.section(named("core"));
        Some(match common.kind.as_str() {
            "reference" => return None,
            "fgmt" => CoreParams::Fgmt(Arc::new(FgmtParams {
                contexts: common.contexts,
                core: self.section(named("core")),
                latency: self.section(named("latency")),
                divide: self.section(named("latency")),
                wait: self.section(named("wait")),
                idle: self.section(named("idle")),
                fpu: self.section(named("fpu")),
                itlb: self.section(named("itlb")),
                dtlb: self.section(named("dtlb")),
                walker: self.section(named("walker")),
            })),
            _ => CoreParams::Smt(Arc::new(SmtParams {
                contexts: common.contexts,
                core: self.section(named("core")),
                units: self.section(named("units")),
                latency: self.section(named("latency")),
                divide: self.section(named("latency")),
                wait: self.section(named("wait")),
                idle: self.section(named("idle")),
                branch: self.section(named("branch")),
                btb: self.section(named("btb")),
                itlb: self.section(named("itlb")),
                dtlb: self.section(named("dtlb")),
                walker: self.section(named("walker")),
                refill: self.section(named("walker")),
            })),
        })
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn split_set(set: &str) -> Result<(&str, &str), Error> {
    set.split_once('=')
        .map(|(key, value)| (key.trim(), value.trim()))
        .ok_or_else(|| {
            Error::User(format!(
                "--set {set}: expected key=value, such as core.contexts=8"
            ))
        })
}

fn text_of(document: &DocumentMut, key: &str) -> Option<String> {
    document
        .get("machine")?
        .get(key)?
        .as_str()
        .map(str::to_owned)
}

fn sources(document: &DocumentMut) -> Vec<(String, String)> {
    let Some(table) = document.get("sources").and_then(Item::as_table) else {
        return Vec::new();
    };
    table
        .iter()
        .filter_map(|(tag, item)| Some((tag.to_owned(), item.as_str()?.to_owned())))
        .collect()
}

/// The word of a key that decides what other keys there are.
fn chosen(
    path: &str,
    document: &DocumentMut,
    changes: &[(&str, &str)],
    section: &str,
    info: &ParamInfo,
) -> Result<String, Error> {
    let key = format!("{section}.{}", info.name);
    let changed = changes.iter().rev().find(|(changed, _)| *changed == key);
    let written = table_of(document, section)
        .and_then(|table| table.get(info.name))
        .and_then(Item::as_str);
    let default = match &info.default {
        Some(ParamValue::Text(word)) => Some(word.as_str()),
        _ => None,
    };
    let word = changed.map(|(_, value)| *value).or(written).or(default);
    let word = word.ok_or_else(|| {
        Error::User(format!(
            "{path}: {key} is missing; a machine file says what kind of {section} it is about"
        ))
    })?;
    info.kind
        .check(&ParamValue::Text(word.to_owned()))
        .map_err(|problem| Error::User(format!("{path}: {key}: {problem}")))?;
    Ok(word.to_owned())
}

/// The value of one parameter: the user's, the file's, or the default.
fn entry(
    path: &str,
    section: &'static str,
    info: ParamInfo,
    table: Option<&Table>,
    changes: &[(&str, &str)],
) -> Result<Entry, Error> {
    let key = format!("{section}.{}", info.name);
    let problem = |problem: String| Error::User(format!("{path}: {key}: {problem}"));
    let change = changes.iter().rev().find(|(changed, _)| *changed == key);
    let written = table
        .and_then(|table| table.get(info.name))
        .and_then(Item::as_value);
    let (value, source) = match (change, written) {
        (Some((_, text)), Some(value)) if key == ISA_KEY && isa_string::is_change(text) => (
            changed_isa(value.as_str().unwrap_or_default(), changes)?,
            "changed by the user".to_owned(),
        ),
        (Some((_, text)), _) => (
            info.kind
                .parse(text)
                .map_err(|problem| Error::User(format!("--set {key}={text}: {problem}")))?,
            "set by the user".to_owned(),
        ),
        (None, Some(value)) => (to_param(value).map_err(problem)?, comment(value)),
        (None, None) => (
            info.default
                .clone()
                .ok_or_else(|| problem(format!("missing; it means: {}", info.description)))?,
            "default".to_owned(),
        ),
    };
    info.kind.check(&value).map_err(|text| match change {
        Some((_, given)) => Error::User(format!("--set {key}={given}: {text}")),
        None => problem(text),
    })?;
    Ok(Entry {
        section,
        info,
        value,
        source,
        changed: change.is_some(),
        defaulted: change.is_none() && written.is_none(),
    })
}

/// Whether a key that nobody gives means anything after those before it. Keys of idle states that there are not do not,
/// nor does what has no energy.
fn has_meaning(entry: &Entry, before: &[Entry]) -> bool {
    if entry.section == "energy" {
        return false;
    }
    let section = entry.section;
    if !["idle", little("idle")].contains(&section) || entry.info.name == "states" {
        return true;
    }
    let states = before
        .iter()
        .find(|entry| entry.section == section && entry.info.name == "states");
    match (
        states.map(|entry| &entry.value),
        entry.info.name.strip_prefix("state"),
    ) {
        (Some(&ParamValue::Int(states)), Some(rest)) => {
            let n = rest.split('_').next().and_then(|n| n.parse().ok());
            n.is_none_or(|n: u64| n <= states)
        }
        (Some(&ParamValue::Int(states)), None) => states > 0,
        _ => true,
    }
}

/// The ISA string of the file after all the changes of the user, in their order.
fn changed_isa(written: &str, changes: &[(&str, &str)]) -> Result<ParamValue, Error> {
    let mut isa = written.to_owned();
    for (key, text) in changes.iter().filter(|(key, _)| *key == ISA_KEY) {
        isa = match isa_string::is_change(text) {
            true => isa_string::changed(&isa, text)
                .map_err(|problem| Error::User(format!("--set {key}={text}: {problem}")))?,
            false => (*text).to_owned(),
        };
    }
    Ok(ParamValue::Text(isa))
}

pub(crate) fn to_param(value: &Value) -> Result<ParamValue, String> {
    match value {
        Value::Integer(n) => u64::try_from(*n.value())
            .map(ParamValue::Int)
            .map_err(|_| format!("{} is negative", n.value())),
        Value::Boolean(b) => Ok(ParamValue::Bool(*b.value())),
        Value::String(s) => Ok(ParamValue::Text(s.value().clone())),
        other => Err(format!(
            "a value is a number, true, false or a text in quotes, and this is of the kind {}",
            other.type_name()
        )),
    }
}

/// The comment after a value.
fn comment(value: &Value) -> String {
    value
        .decor()
        .suffix()
        .and_then(|suffix| suffix.as_str())
        .unwrap_or_default()
        .trim()
        .trim_start_matches('#')
        .trim()
        .to_owned()
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
