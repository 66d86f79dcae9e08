//! Files of virtual machines: reading and checking.

use std::path::{Path, PathBuf};

use loiter_machine::MAX_GUESTS;
use loiter_types::{ParamInfo, ParamValue, Params, Unknown};
use serde_json::{Map, Value, json};
use toml_edit::{DocumentMut, Item, TableLike};

use super::params::{GuestParams, HelpingParams, HostParams, SchedulerParams};
use crate::config::to_param;
use crate::error::Error;

/// Sections of the file.
const SECTIONS: [&str; 4] = ["host", "scheduler", "helping", "guests"];

/// A host and its guests, checked.
#[derive(Clone, Debug)]
pub struct VmFile {
    /// The physical machine.
    pub host: HostParams,
    /// Who runs where.
    pub scheduler: SchedulerParams,
    /// What becomes of those that yield.
    pub helping: HelpingParams,
    /// The guests, in their order.
    pub guests: Vec<GuestParams>,
    /// Every key with its value: `host`, `scheduler`, `helping`, and a list of `guests`.
    pub values: Value,
}

impl VmFile {
    /// Reads the file `text`, called `path` in messages. Paths in it count from the folder of `path`.
    ///
    /// # Errors
    /// What is wrong, where, and what would be right.
    pub fn read(path: &str, text: &str) -> Result<Self, Error> {
        let document: DocumentMut = text
            .parse()
            .map_err(|error| user(path, format!("not a file of virtual machines: {error}")))?;
        for (section, _) in document.iter() {
            if !SECTIONS.contains(&section) {
                return Err(user(path, Unknown::new("section", section, SECTIONS)));
            }
        }
        let guests: Vec<Section<GuestParams>> = match document.get("guests") {
            Some(Item::ArrayOfTables(guests)) => {
                let guests = guests.iter().enumerate();
                let read = guests.map(|(n, table)| {
                    let name = table.get("name").and_then(Item::as_str);
                    let n = n.to_string();
                    section(path, &format!("guests.{}", name.unwrap_or(&n)), Some(table))
                });
                read.collect::<Result<_, _>>()?
            }
            Some(_) => return Err(user(path, "guests stand in sections [[guests]], one each")),
            None => Vec::new(),
        };
        let table = |name| -> Result<Option<&dyn TableLike>, Error> {
            match document.get(name) {
                None => Ok(None),
                Some(item) => match item.as_table_like() {
                    Some(table) => Ok(Some(table)),
                    None => Err(user(path, format!("{name} stands outside of any section"))),
                },
            }
        };
        let host = section(path, "host", table("host")?)?;
        let scheduler = section(path, "scheduler", table("scheduler")?)?;
        let helping = section(path, "helping", table("helping")?)?;
        let of_guests: Vec<_> = guests.iter().map(|it| it.values.clone()).collect();
        let file = Self {
            values: json!({
                "host": host.values,
                "scheduler": scheduler.values,
                "helping": helping.values,
                "guests": of_guests,
            }),
            host: host.params,
            scheduler: scheduler.params,
            helping: helping.params,
            guests: guests.into_iter().map(|it| it.params).collect(),
        };
        file.check(Path::new(path))
            .map_err(|problem| user(path, problem))?;
        Ok(file)
    }

    /// What bounds of single values cannot tell.
    fn check(&self, path: &Path) -> Result<(), String> {
        if self.guests.is_empty() {
            return Err("there is no guest; a section [[guests]] makes one".into());
        }
        if self.guests.iter().all(|guest| guest.background) {
            return Err("all guests are in the background: the run would end at once".into());
        }
        for (n, guest) in self.guests.iter().enumerate() {
            let name = &guest.name;
            if self.guests[..n].iter().any(|it| it.name == *name) {
                return Err(format!("two guests are called {name}"));
            }
            match (guest.program.is_empty(), guest.image.is_empty()) {
                (true, true) => {
                    return Err(format!(
                        "guest {name} has nothing to run; give it a program, or an image and a command"
                    ));
                }
                (false, false) => {
                    return Err(format!(
                        "guest {name} has a program and an image; a guest runs one of the two"
                    ));
                }
                (false, true)
                    if [&guest.command, &guest.put, &guest.append]
                        .iter()
                        .any(|it| !it.is_empty()) =>
                {
                    return Err(format!(
                        "guest {name}: command, put and append are for images; a program's words are its arguments"
                    ));
                }
                (true, false) if guest.command.is_empty() => {
                    return Err(format!(
                        "guest {name}: its image runs nothing; give it a command"
                    ));
                }
                (true, false) if !guest.arguments.is_empty() => {
                    return Err(format!(
                        "guest {name}: arguments are for programs; those of a command stand in it"
                    ));
                }
                _ => {}
            }
        }
        self.check_counts()?;
        self.check_memory()?;
        self.check_slice()?;
        self.check_shares()?;
        self.check_helping()?;
        self.check_disks(path)
    }

    fn check_counts(&self) -> Result<(), String> {
        let (guests, vcpus) = (self.guests.len(), self.guests.iter().map(|it| it.harts));
        let (vcpus, most) = (vcpus.sum::<u64>(), u64::from(u16::MAX));
        if guests > MAX_GUESTS {
            return Err(format!("{guests} guests; a host has at most {MAX_GUESTS}"));
        }
        if vcpus > most {
            return Err(format!("{vcpus} virtual CPUs; a host has at most {most}"));
        }
        Ok(())
    }

    fn check_memory(&self) -> Result<(), String> {
        let mut wanted_mib = 0;
        for guest in &self.guests {
            wanted_mib += guest.memory_mib;
            if wanted_mib > self.host.memory_mib {
                return Err(format!(
                    "guest {} does not fit: guests up to it have {wanted_mib} MiB of memory, and \
                     host.memory_mib is {}",
                    guest.name, self.host.memory_mib
                ));
            }
        }
        Ok(())
    }

    /// A tick is the unit of the scheduler's time.
    fn check_slice(&self) -> Result<(), String> {
        let ticks = self.scheduler.ticks_per_slice;
        if self.slice_cycles().is_multiple_of(ticks) {
            return Ok(());
        }
        Err(format!(
            "scheduler.ticks_per_slice = {ticks} does not divide a slice of {} cycles",
            self.slice_cycles()
        ))
    }

    /// Turns of gangs are of one length, and only credit runs out.
    fn check_shares(&self) -> Result<(), String> {
        let policy = self.scheduler.policy.as_str();
        let (has_weights, has_caps) = (policy != "gang", policy == "credit");
        let first = self.guests[0].weight;
        let mut guests = self.guests.iter();
        let more = guests.find_map(|it| match it.weight == first {
            false if !has_weights => Some((it, "weight")),
            _ if it.cap_percent != 0 && !has_caps => Some((it, "cap")),
            _ => None,
        });
        match more {
            Some((guest, what)) => Err(format!(
                "guest {} has a {what} of its own, of which scheduler.policy \"{policy}\" knows nothing; take it away, or the \
                 policy \"credit\"",
                guest.name
            )),
            None => Ok(()),
        }
    }

    /// Whoever is helped out of turn pays no virtual time for it, nor does the caller: others would starve.
    fn check_helping(&self) -> Result<(), String> {
        let helping = self.helping.policy.as_str();
        if self.scheduler.policy != "fair" || matches!(helping, "nobody" | "next") {
            return Ok(());
        }
        Err(format!(
            "helping.policy \"{helping}\" chooses by itself, which scheduler.policy \"fair\" does not allow; take \"next\" or \
             \"nobody\", or another scheduler"
        ))
    }

    fn check_disks(&self, path: &Path) -> Result<(), String> {
        for guest in &self.guests {
            let name = &guest.name;
            if !guest.disk.is_empty() && guest.image.is_empty() {
                return Err(format!(
                    "guest {name}: a disk is for an image; a program sees none"
                ));
            }
            if guest.disk.is_empty() && guest.disk_writable {
                return Err(format!(
                    "guest {name}: disk_writable is said of a disk; name its file in disk"
                ));
            }
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let disks = self.guests.iter().filter(|guest| !guest.disk.is_empty());
        let disks: Vec<(&GuestParams, PathBuf)> = disks
            .map(|guest| {
                let file = folder.join(&guest.disk);
                // One file has many names.
                let file = file.canonicalize().unwrap_or(file);
                (guest, file)
            })
            .collect();
        for (n, (guest, file)) in disks.iter().enumerate() {
            for (other, its) in &disks[..n] {
                if file == its && (guest.disk_writable || other.disk_writable) {
                    return Err(format!(
                        "guests {} and {} have one disk, {}, and it is writable: each would destroy what the \
                         other writes; give each a copy, or take disk_writable away",
                        other.name,
                        guest.name,
                        file.display()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Cycles of a slice.
    pub(crate) fn slice_cycles(&self) -> u64 {
        self.scheduler.slice_us * self.host.clock_mhz
    }
}

/// A section as it was read.
struct Section<P> {
    params: P,
    values: Map<String, Value>,
}

/// Reads a section, of which there may be nothing.
fn section<P: Params>(
    path: &str,
    name: &str,
    table: Option<&dyn TableLike>,
) -> Result<Section<P>, Error> {
    let infos = P::infos();
    for (key, _) in table.iter().flat_map(|table| table.iter()) {
        if !infos.iter().any(|info| info.name == key) {
            let known: Vec<_> = infos
                .iter()
                .map(|it| format!("{name}.{}", it.name))
                .collect();
            let known = known.iter().map(String::as_str);
            let unknown = Unknown::new("key", &format!("{name}.{key}"), known);
            return Err(user(path, unknown));
        }
    }
    let mut values = Vec::new();
    for info in &infos {
        let written = table.and_then(|table| table.get(info.name));
        let value = value(info, written)
            .map_err(|problem| user(path, format!("{name}.{}: {problem}", info.name)))?;
        values.push((info.name, value));
    }
    let params = P::build(&mut |name| {
        let found = values.iter().find(|(known, _)| *known == name);
        found.expect("every declared key has a value").1.clone()
    });
    let values = values.into_iter().map(|(name, value)| {
        let value = match value {
            ParamValue::Int(n) => n.into(),
            ParamValue::Bool(b) => b.into(),
            ParamValue::Text(s) => s.into(),
        };
        (name.to_owned(), value)
    });
    Ok(Section {
        params,
        values: values.collect(),
    })
}

fn value(info: &ParamInfo, written: Option<&Item>) -> Result<ParamValue, String> {
    let value = match written {
        Some(Item::Value(value)) => to_param(value)?,
        Some(_) => return Err(format!("expected {}", info.kind.name())),
        None => info
            .default
            .clone()
            .ok_or_else(|| format!("missing; it means: {}", info.description))?,
    };
    info.kind.check(&value)?;
    Ok(value)
}

fn user(path: &str, problem: impl std::fmt::Display) -> Error {
    Error::User(format!("{path}: {problem}"))
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
