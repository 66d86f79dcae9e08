//! The text of a machine file, with what it does not say itself from the machine that its `base` names.

use std::fs;
use std::path::{Path, PathBuf};

use loiter_types::Unknown;
use toml_edit::{DocumentMut, Item, Table};

use crate::error::Error;
use crate::params::core_sections;

/// Names the machine that a file builds on; stands at the top of the file.
const BASE: &str = "base";

/// The section of cores of a second kind, and its key that names the machine that has such cores.
const LITTLE: &str = "little";
const MACHINE: &str = "machine";

/// Reads the machine file at `path`, called `shown` in messages. A `base` is a name, which stands for the
/// machine of that name in the folder `presets`, or a path from the folder of the file that names it.
///
/// Comments stay with their values, for they are the values' sources; a value that replaces another has
/// only its own.
///
/// # Errors
/// What cannot be read, and where a `base` is not what it should be.
pub fn machine_text(shown: &str, path: &Path, presets: &Path) -> Result<String, Error> {
    let mut files = Files {
        presets,
        below: Vec::new(),
    };
    files.read(shown, path)
}

/// Whether a machine is named by its file, not as a preset.
fn is_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

struct Files<'a> {
    presets: &'a Path,
    /// The files that lead to the one being read.
    below: Vec<PathBuf>,
}

impl Files<'_> {
    fn read(&mut self, shown: &str, path: &Path) -> Result<String, Error> {
        let fault = |problem: String| Error::User(format!("{shown}: {problem}"));
        let bytes = fs::read(path)
            .map_err(|error| fault(format!("cannot read the machine file: {error}.")))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            fault(format!(
                "the machine file must be UTF-8 text; byte {} is not. Is it the right file?",
                error.utf8_error().valid_up_to()
            ))
        })?;
        let mut own: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
            fault(format!("this is no TOML: {}", error.to_string().trim_end()))
        })?;
        let base = own.remove(BASE);
        self.refuse_base_in_section(&own).map_err(fault)?;
        let has_little = self.take_little(shown, path, &mut own)?;
        let Some(base) = base else {
            return Ok(if has_little { own.to_string() } else { text });
        };
        let base = base.as_str().ok_or_else(|| {
            fault("base must be the name or the file of a machine, as in base = \"t1\".".to_owned())
        })?;
        let base_path = self.path_of(base, path).map_err(fault)?;
        self.below.push(resolved(path));
        if self.below.contains(&resolved(&base_path)) {
            return Err(fault(format!(
                "base {base} leads back to the machine itself."
            )));
        }
        let below = self.read(&base_path.display().to_string(), &base_path)?;
        let mut merged: DocumentMut = below.parse().expect("what was read is TOML");
        if let (Some(kind), Some(other)) = (kind_of_core(&own), kind_of_core(&merged))
            && kind != other
        {
            return Err(fault(format!(
                "core.kind is \"{kind}\", but the cores of its base {base} are of kind \"{other}\", whose \
                 parameters are others. Build on a machine of kind \"{kind}\", or on none."
            )));
        }
        for (section, item) in own.iter() {
            overlay(&mut merged, section, item).map_err(fault)?;
        }
        Ok(merged.to_string())
    }

    /// Where section `little` names a machine, the sections of its cores are put in its place. Returns whether it does.
    fn take_little(
        &mut self,
        shown: &str,
        path: &Path,
        own: &mut DocumentMut,
    ) -> Result<bool, Error> {
        let fault = |problem: String| Error::User(format!("{shown}: {problem}"));
        let Some(named) = own.get(LITTLE).and_then(|little| little.get(MACHINE)) else {
            return Ok(false);
        };
        let named = named.as_str().ok_or_else(|| {
            fault("little.machine must be the name or the file of a machine.".to_owned())
        })?;
        let other_path = self.path_of(named, path).map_err(fault)?;
        let text = self.read(&other_path.display().to_string(), &other_path)?;
        let other = with_own_tags(&text, own);
        let kind = kind_of_core(&other).unwrap_or_default();
        let sections = core_sections(kind);
        let little = own[LITTLE].as_table_mut().ok_or_else(|| {
            fault(
                "little must be written as a section: [little], and its values below it."
                    .to_owned(),
            )
        })?;
        little.remove(MACHINE);
        for (section, _) in sections {
            let Some(of_other) = other.get(section).and_then(Item::as_table) else {
                continue;
            };
            let mut added = of_other.clone();
            added.set_position(None);
            if let Some(replaces) = little.get(section).and_then(Item::as_table) {
                for (key, item) in replaces {
                    added.insert(key, item.clone());
                }
            }
            little.insert(section, Item::Table(added));
        }
        // Tags that its comments name.
        if let Some(sources) = other.get("sources").and_then(Item::as_table) {
            let own_sources = own.entry("sources").or_insert(Item::Table(Table::new()));
            for (tag, source) in sources {
                if let Some(table) = own_sources
                    .as_table_mut()
                    .filter(|it| !it.contains_key(tag))
                {
                    table.insert(tag, source.clone());
                }
            }
        }
        Ok(true)
    }

    /// A `base` below a section's header belongs to that section, where nothing looks for it.
    fn refuse_base_in_section(&self, own: &DocumentMut) -> Result<(), String> {
        for (section, item) in own.iter() {
            let Some(value) = item.as_table().and_then(|table| table.get(BASE)) else {
                continue;
            };
            // A source may have the tag "base"; then a citation follows, not the name of a machine.
            let is_tag = section == "sources"
                && value
                    .as_str()
                    .is_none_or(|text| !self.names().iter().any(|name| name == text));
            if !is_tag {
                return Err(format!(
                    "base stands in [{section}]; it must stand at the top of the file, before any section."
                ));
            }
        }
        Ok(())
    }

    /// Where the machine `base` is, which the file at `path` names.
    fn path_of(&self, base: &str, path: &Path) -> Result<PathBuf, String> {
        if is_file(base) {
            return Ok(path.parent().unwrap_or(Path::new("")).join(base));
        }
        let names = self.names();
        if names.iter().any(|name| name == base) {
            return Ok(self.presets.join(format!("{base}.toml")));
        }
        let unknown = Unknown::new("machine", base, names.iter().map(String::as_str));
        Err(format!(
            "base: {unknown}. A file of your own is given by its path: base = \"./{base}.toml\""
        ))
    }

    /// The presets, in alphabetical order.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.presets).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                name.strip_suffix(".toml").map(str::to_owned)
            })
            .collect();
        names.sort_unstable();
        names
    }
}

/// A path by which the same file is known again.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Puts a section of a file over that of its base.
fn overlay(merged: &mut DocumentMut, section: &str, own: &Item) -> Result<(), String> {
    let own = as_section(own).ok_or_else(|| {
        format!("{section} must be written as a section: [{section}], and its values below it.")
    })?;
    match merged.get_mut(section).and_then(Item::as_table_mut) {
        Some(replaced) => {
            for (key, item) in own {
                replaced.insert(key, item.clone());
            }
        }
        None => {
            let mut added = own.clone();
            added.set_position(None);
            merged.insert(section, Item::Table(added));
        }
    }
    Ok(())
}

/// The machine file `text`, with tags of its sources that are not those which `own` has for other sources.
fn with_own_tags(text: &str, own: &DocumentMut) -> DocumentMut {
    let mut file: DocumentMut = text.parse().expect("what was read is TOML");
    let source = |file: &DocumentMut, tag: &str| {
        let source = file.get("sources")?.get(tag)?;
        source.as_str().map(str::to_owned)
    };
    let tags = file.get("sources").and_then(Item::as_table);
    let tags: Vec<String> = tags
        .into_iter()
        .flatten()
        .map(|(tag, _)| tag.to_owned())
        .collect();
    let taken = tags
        .iter()
        .filter(|tag| source(own, tag).is_some_and(|other| Some(other) != source(&file, tag)));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let taken: Vec<_> = taken.collect();
    for tag in &taken {
        for line in &mut lines {
            if let Some((value, comment)) = line.split_once('#') {
                let comment = comment.replace(&format!("[{tag}]"), &format!("[{LITTLE}_{tag}]"));
                *line = format!("{value}#{comment}");
            }
        }
    }
    if !taken.is_empty() {
        file = lines.join("\n").parse().expect("comments have changed");
        if let Some(sources) = file["sources"].as_table_mut() {
            for tag in taken {
                let source = sources.remove(tag).expect("it is there");
                sources.insert(&format!("{LITTLE}_{tag}"), source);
            }
        }
    }
    file
}

/// The kind of core that a file names.
fn kind_of_core(file: &DocumentMut) -> Option<&str> {
    file.get("core")?.get("kind")?.as_str()
}

/// What stands below a header of its own.
fn as_section(item: &Item) -> Option<&Table> {
    item.as_table().filter(|table| !table.is_dotted())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of presets `a` and, on top of it, `b`, and a file of one's own with this text.
    fn read(own: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let presets = folder.path().join("presets");
        fs::create_dir(&presets).unwrap();
        let a = "# A.\n[core]\nwidth = 1  # [x] first\ndepth = 2  # [x] second\n[l1]\nways = 4  # [x] third\n";
        fs::write(presets.join("a.toml"), a).unwrap();
        let b = "base = \"a\"\n[core]\nwidth = 3  # [y] other\n";
        fs::write(presets.join("b.toml"), b).unwrap();
        fs::write(
            folder.path().join("kinds.toml"),
            "[core]\nkind = \"fgmt\"\n",
        )
        .unwrap();
        let small = "[sources]\nx = \"Y\"\n[core]\nkind = \"fgmt\"\ncontexts = 1 # [x] one\n[wait]\npause_cycles = 3 # [x] two\n\
                     [l1]\nways = 9\n";
        fs::write(folder.path().join("small.toml"), small).unwrap();
        let path = folder.path().join("own.toml");
        fs::write(&path, own).unwrap();
        machine_text("own", &path, &presets).map_err(|error| error.to_string())
    }

    #[test]
    fn values_come_from_the_nearest_file_that_has_them_each_with_its_own_comment() {
        let text = read("base = \"b\"\n[core]\ndepth = 5\n[l2]\nways = 6  # [z] new\n").unwrap();
        let document: DocumentMut = text.parse().unwrap();
        let line = |key: &str| {
            let mut lines = text.lines();
            lines.find(|line| line.starts_with(key)).unwrap().to_owned()
        };
        assert_eq!(line("width"), "width = 3  # [y] other");
        assert_eq!(line("depth").trim(), "depth = 5");
        assert_eq!(document["l1"]["ways"].as_integer(), Some(4));
        assert_eq!(document["l2"]["ways"].as_integer(), Some(6));
        assert!(text.contains("[z] new") && text.contains("[x] third") && !text.contains("second"));
        assert!(document.get(BASE).is_none());
    }

    #[test]
    fn a_file_without_a_base_stays_as_it_is() {
        let text = "# B.\n[core]\nwidth = 1 # [x]\n";
        assert_eq!(read(text).unwrap(), text);
    }

    #[test]
    fn cores_of_a_second_kind_come_from_the_machine_that_has_them() {
        let own = "base = \"a\"\n[sources]\nx = \"X\"\n[little]\nmachine = \"./small.toml\"\ncores = 2\n\
                   [little.core]\ncontexts = 4 # mine\n";
        let text = read(own).unwrap();
        let document: DocumentMut = text.parse().unwrap();
        let core = &document["little"]["core"];
        assert_eq!(core["kind"].as_str(), Some("fgmt"));
        assert_eq!(core["contexts"].as_integer(), Some(4));
        assert_eq!(
            document["little"]["wait"]["pause_cycles"].as_integer(),
            Some(3)
        );
        assert_eq!(document["little"]["cores"].as_integer(), Some(2));
        assert!(document["little"].get("machine").is_none());
        assert!(
            document["little"].get("l1").is_none(),
            "only what is about cores"
        );
        assert_eq!(
            document["core"]["width"].as_integer(),
            Some(1),
            "big cores stay"
        );
        // What the same tag stands for there has another name here.
        assert!(
            text.contains("# [little_x] two") && text.contains("# mine"),
            "{text}"
        );
        assert_eq!(document["sources"]["x"].as_str(), Some("X"));
        assert_eq!(document["sources"]["little_x"].as_str(), Some("Y"));
        let message = read("base = \"a\"\n[little]\nmachine = \"c\"\n").unwrap_err();
        assert!(message.contains("unknown machine \"c\""), "{message}");
    }

    #[test]
    fn a_base_that_leads_nowhere_is_refused() {
        for (own, parts) in [
            (
                "base = \"c\"\n",
                ["own: base: unknown machine \"c\"", "./c.toml"],
            ),
            ("base = 1\n", ["own: base must be", "as in"]),
            (
                "base = \"./own.toml\"\n",
                ["own: base ./own.toml", "leads back"],
            ),
            (
                "[core]\nbase = \"a\"\n",
                ["own: base stands in [core]", "before any section"],
            ),
            (
                "base = \"./kinds.toml\"\n[core]\nkind = \"smt\"\n",
                [
                    "own: core.kind is \"smt\"",
                    "./kinds.toml are of kind \"fgmt\"",
                ],
            ),
            (
                "base = \"a\"\ncore.width = 2\n",
                ["own: core must be", "[core]"],
            ),
            (
                "base = \"./none.toml\"\n",
                ["none.toml: cannot read", "No such file"],
            ),
            ("[core\n", ["own: this is no TOML", "line 1"]),
        ] {
            let message = read(own).unwrap_err();
            assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        }
    }
}
