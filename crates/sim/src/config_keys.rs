//! Sections and keys of a machine file, and those that there cannot be.

use loiter_types::Unknown;
use toml_edit::{DocumentMut, Table};

use crate::error::Error;
use crate::params::{Kinds, Section};

fn known_keys(sections: &[Section]) -> Vec<String> {
    sections
        .iter()
        .flat_map(|(section, infos)| {
            infos
                .iter()
                .map(move |info| format!("{section}.{}", info.name))
        })
        .collect()
}

/// The section of that name, whose parts are divided by points.
pub(crate) fn table_of<'a>(document: &'a DocumentMut, section: &str) -> Option<&'a Table> {
    let mut parts = section.split('.');
    let first = document.get(parts.next()?)?;
    parts
        .try_fold(first, |item, part| item.get(part))?
        .as_table()
}

/// All sections of a file but the sources, each with its name.
fn tables<'a>(path: &str, document: &'a DocumentMut) -> Result<Vec<(String, &'a Table)>, Error> {
    let mut tables = Vec::new();
    for (section, item) in document.iter().filter(|(section, _)| *section != "sources") {
        let Some(table) = item.as_table() else {
            return Err(Error::User(format!(
                "{path}: {section} stands outside of any section"
            )));
        };
        tables.push((section.to_owned(), table));
        let parts = table
            .iter()
            .filter_map(|(part, item)| Some((part, item.as_table()?)));
        tables.extend(parts.map(|(part, table)| (format!("{section}.{part}"), table)));
    }
    Ok(tables)
}

pub(crate) fn refuse_unknown(
    path: &str,
    document: &DocumentMut,
    sections: &[Section],
    kinds: Kinds<'_>,
) -> Result<(), Error> {
    let keys = known_keys(sections);
    let Kinds {
        core: kind, memory, ..
    } = kinds;
    for (section, table) in tables(path, document)? {
        let known = sections.iter().any(|(name, _)| *name == section);
        if !known && section != "machine" {
            let names = sections.iter().map(|(name, _)| *name);
            let unknown = Unknown::new("section", &section, names);
            return Err(Error::User(format!(
                "{path}: {unknown} (core.kind is \"{kind}\", system.memory is \"{memory}\")"
            )));
        }
        for (key, _) in table.iter().filter(|(_, item)| !item.is_table()) {
            let full = format!("{section}.{key}");
            let about = section == "machine" && matches!(key, "name" | "description");
            if !about && !keys.contains(&full) {
                let unknown = Unknown::new("key", &full, keys.iter().map(String::as_str));
                return Err(Error::User(format!(
                    "{path}: {unknown} (core.kind is \"{kind}\", system.memory is \"{memory}\")"
                )));
            }
        }
    }
    Ok(())
}

pub(crate) fn refuse_unknown_sets(
    changes: &[(&str, &str)],
    sections: &[Section],
) -> Result<(), Error> {
    let keys = known_keys(sections);
    for (key, value) in changes {
        if !keys.iter().any(|known| known == key) {
            let unknown = Unknown::new("key", key, keys.iter().map(String::as_str));
            return Err(Error::User(format!("--set {key}={value}: {unknown}")));
        }
    }
    Ok(())
}
