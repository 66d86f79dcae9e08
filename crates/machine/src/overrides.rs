//! Changes that a user makes to the device tree: `path:property=value`.
//!
//! A value is written as in device tree source: `"text"`, `<1 0x2>` (32-bit cells), `[00 ff]` (bytes),
//! or several of these with commas between; without a value the property is there and empty, and the
//! word `delete` removes it.

use fdt::Fdt;
use fdt::node::FdtNode;
use vm_fdt::FdtWriter;

/// Longest property name, as the specification of the device tree has it.
const MAX_NAME_BYTES: usize = 31;

/// A change that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("device tree override `{text}`: {fault}")]
pub struct OverrideError {
    /// The change as the user wrote it.
    pub text: String,
    /// What is wrong with it.
    pub fault: OverrideFault,
}

/// What is wrong with a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideFault {
    /// No path or no property.
    #[error("write it as path:property=value, such as /chosen:bootargs=\"quiet\"")]
    Form,
    /// A node that there is not.
    #[error("there is no node {path}; {parent} has {known}")]
    NoNode {
        /// As far as it does not lead to a node.
        path: String,
        /// The last node on the way.
        parent: String,
        /// The names of its children, the likeliest first.
        known: String,
    },
    /// A name that no property can have.
    #[error(
        "{name:?} is no name of a property: up to {MAX_NAME_BYTES} letters, digits and any of ,._+?#-"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A property to be removed that there is not.
    #[error("there is no property {name}; {path} has {known}")]
    NoProperty {
        /// Its name.
        name: String,
        /// Path of the node.
        path: String,
        /// The names of the properties, the likeliest first.
        known: String,
    },
    /// A value that cannot be read.
    #[error("the value cannot be read at {rest:?}: {expected}")]
    Value {
        /// The value from the fault on.
        rest: String,
        /// What should be there.
        expected: &'static str,
    },
}

/// A device tree that can be changed.
struct Node {
    name: String,
    properties: Vec<(String, Vec<u8>)>,
    children: Vec<Node>,
}

/// The device tree `tree`, changed as `overrides` say, one after the other.
pub(crate) fn apply(tree: Vec<u8>, overrides: &[String]) -> Result<Vec<u8>, OverrideError> {
    if overrides.is_empty() {
        return Ok(tree);
    }
    let parsed = Fdt::new(&tree).expect("a tree that we have written");
    let mut root = Node::read(parsed.find_node("/").expect("every tree has a root"));
    root.name.clear();
    for text in overrides {
        apply_one(&mut root, text).map_err(|fault| OverrideError {
            text: text.clone(),
            fault,
        })?;
    }
    let mut writer = FdtWriter::new().expect("no reserved memory to be wrong");
    root.write(&mut writer)
        .and_then(|()| writer.finish())
        .map_err(|error| OverrideError {
            text: overrides.join(" "),
            fault: OverrideFault::Value {
                rest: error.to_string(),
                expected: "something that a device tree can hold",
            },
        })
}

fn apply_one(root: &mut Node, text: &str) -> Result<(), OverrideFault> {
    let (path, change) = text.split_once(':').ok_or(OverrideFault::Form)?;
    let (name, value) = match change.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (change, None),
    };
    if !path.starts_with('/') || name.is_empty() {
        return Err(OverrideFault::Form);
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || ",._+?#-".contains(c);
    if name.len() > MAX_NAME_BYTES || !name.chars().all(allowed) {
        let name = name.into();
        return Err(OverrideFault::Name { name });
    }
    let value = value.map(str::trim);
    let node = root.find(path)?;
    if value == Some("delete") {
        return node.remove(path, name);
    }
    let value = match value {
        Some(value) => parse_value(value)?,
        None => Vec::new(),
    };
    node.set(name, value);
    Ok(())
}

impl Node {
    fn read(node: FdtNode) -> Self {
        let properties = node.properties();
        Self {
            name: node.name.into(),
            properties: properties
                .map(|property| (property.name.into(), property.value.to_vec()))
                .collect(),
            children: node.children().map(Self::read).collect(),
        }
    }

    fn write(&self, writer: &mut FdtWriter) -> Result<(), vm_fdt::Error> {
        let node = writer.begin_node(&self.name)?;
        for (name, value) in &self.properties {
            writer.property(name, value)?;
        }
        for child in &self.children {
            child.write(writer)?;
        }
        writer.end_node(node)
    }

    fn find(&mut self, path: &str) -> Result<&mut Self, OverrideFault> {
        let mut node = self;
        let mut parent = String::new();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let Some(child) = node.children.iter().position(|child| child.name == name) else {
                return Err(OverrideFault::NoNode {
                    path: format!("{parent}/{name}"),
                    parent: if parent.is_empty() {
                        "/".into()
                    } else {
                        parent
                    },
                    known: list(name, node.children.iter().map(|child| &child.name)),
                });
            };
            node = &mut node.children[child];
            parent = format!("{parent}/{name}");
        }
        Ok(node)
    }

    fn set(&mut self, name: &str, value: Vec<u8>) {
        let mut properties = self.properties.iter_mut();
        match properties.find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.properties.push((name.into(), value)),
        }
    }

    fn remove(&mut self, path: &str, name: &str) -> Result<(), OverrideFault> {
        let mut properties = self.properties.iter();
        let Some(index) = properties.position(|(known, _)| known == name) else {
            return Err(OverrideFault::NoProperty {
                name: name.into(),
                path: path.into(),
                known: list(name, self.properties.iter().map(|(name, _)| name)),
            });
        };
        self.properties.remove(index);
        Ok(())
    }
}

/// So many names are listed.
const LISTED: usize = 8;

/// Names in words, those first that are most like `name`.
fn list<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> String {
    let mut known: Vec<&str> = known.map(String::as_str).collect();
    if known.is_empty() {
        return "none".into();
    }
    let unlike = |other: &str| (strsim::jaro_winkler(name, other) * -1e6) as i64;
    known.sort_by_key(|other| unlike(other));
    let more = if known.len() > LISTED { ", ..." } else { "" };
    known.truncate(LISTED);
    known.join(", ") + more
}

/// Reads a value in the manner of device tree source.
fn parse_value(text: &str) -> Result<Vec<u8>, OverrideFault> {
    let mut bytes = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        rest = match rest.chars().next() {
            Some('"') => parse_text(rest, &mut bytes)?,
            Some('<') => parse_list(rest, '>', |word| cell(word, &mut bytes))?,
            Some('[') => parse_list(rest, ']', |word| hex_bytes(word, &mut bytes))?,
            _ => {
                return Err(unreadable(
                    rest,
                    "expected \"text\", <cells>, [bytes] or delete",
                ));
            }
        };
        rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None if rest.is_empty() => return Ok(bytes),
            None => return Err(unreadable(rest, "expected a comma or the end")),
        }
    }
}

fn unreadable(rest: &str, expected: &'static str) -> OverrideFault {
    let rest = rest.into();
    OverrideFault::Value { rest, expected }
}

/// Reads a text in quotes, with a NUL at its end; returns what follows.
fn parse_text<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Result<&'a str, OverrideFault> {
    let mut chars = text[1..].char_indices();
    while let Some((at, c)) = chars.next() {
        let mut buffer = [0; 4];
        let c = match c {
            '"' => {
                bytes.push(0);
                return Ok(&text[1 + at + 1..]);
            }
            '\\' => match chars.next() {
                Some((_, 'n')) => '\n',
                Some((_, 't')) => '\t',
                Some((_, c @ ('"' | '\\'))) => c,
                _ => return Err(unreadable(&text[1 + at..], "known are \\n \\t \\\" \\\\")),
            },
            '\0' => return Err(unreadable(&text[1 + at..], "a text cannot hold a NUL")),
            c => c,
        };
        bytes.extend(c.encode_utf8(&mut buffer).bytes());
    }
    Err(unreadable(text, "the closing quote is missing"))
}

/// Reads words up to the closing bracket; returns what follows.
fn parse_list(
    text: &str,
    close: char,
    mut word: impl FnMut(&str) -> Result<(), OverrideFault>,
) -> Result<&str, OverrideFault> {
    let Some((words, rest)) = text[1..].split_once(close) else {
        return Err(unreadable(text, "the closing bracket is missing"));
    };
    words.split_whitespace().try_for_each(&mut word)?;
    Ok(rest)
}

fn cell(word: &str, bytes: &mut Vec<u8>) -> Result<(), OverrideFault> {
    let cell = match word.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => word.parse(),
    };
    let cell = cell.map_err(|_| unreadable(word, "a cell is a number below 2 to the 32"))?;
    bytes.extend(cell.to_be_bytes());
    Ok(())
}

fn hex_bytes(word: &str, bytes: &mut Vec<u8>) -> Result<(), OverrideFault> {
    let digits: Option<Vec<u32>> = word.chars().map(|c| c.to_digit(16)).collect();
    match digits {
        Some(digits) if digits.len().is_multiple_of(2) => {
            bytes.extend(digits.chunks(2).map(|two| (two[0] << 4 | two[1]) as u8));
            Ok(())
        }
        _ => Err(unreadable(word, "bytes are pairs of hexadecimal digits")),
    }
}

#[cfg(test)]
#[path = "overrides_tests.rs"]
mod tests;
