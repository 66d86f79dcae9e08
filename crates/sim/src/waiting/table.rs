//! Tables of waiting code, as people write them.
//!
//! ```toml
//! [[function]]
//! name = "_raw_spin_lock"
//! kind = "lock"                    # lock: waits for a lock; idle: waits for work; switch: goes to another task
//! loops_with = ["pause", "wrs"]    # only the innermost loops around these; not given: the whole function
//! optional = true                  # the program may have no such function, or no such loop in it
//!
//! [[range]]
//! begin = "spin"                   # an address, a symbol, or a symbol and an offset: "spin+0x10"
//! end = "0x80000200"
//! kind = "lock"
//! ```

use std::ops::Range;

use loiter_isa::{Inst, Op};
use loiter_observe::CodeKind;
use loiter_types::Unknown;
use serde::Deserialize;

use super::find::Finder;
use super::{kind_of, loops};

/// A table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// What it is of, for people.
    #[serde(default, rename = "description")]
    _description: String,
    /// Releases of the kernel that it is of, with `*` for anything: for who chooses a table.
    #[serde(default, rename = "releases")]
    _releases: Vec<String>,
    #[serde(default, rename = "function")]
    functions: Vec<Function>,
    #[serde(default, rename = "range")]
    ranges: Vec<AddressRange>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    name: String,
    kind: String,
    #[serde(default)]
    loops_with: Vec<String>,
    #[serde(default)]
    optional: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AddressRange {
    begin: String,
    end: String,
    kind: String,
}

/// A waiting method by which a loop is known.
#[derive(Clone, Copy, Debug)]
struct Method {
    word: &'static str,
    is: fn(&Inst) -> bool,
}

const METHODS: [Method; 3] = [
    Method {
        word: "pause",
        is: |inst| inst.op == Op::Pause,
    },
    Method {
        word: "wrs",
        is: |inst| matches!(inst.op, Op::WrsNto | Op::WrsSto),
    },
    Method {
        word: "div",
        is: |inst| inst.op.class() == loiter_isa::Class::Div,
    },
];

/// Where an entry of a table is.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) kind: CodeKind,
    pub(super) ranges: Vec<Range<u64>>,
}

impl Table {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let table: Self = toml_edit::de::from_str(text).map_err(|error| error.to_string())?;
        if table.functions.is_empty() && table.ranges.is_empty() {
            return Err("it names no [[function]] and no [[range]]".into());
        }
        Ok(table)
    }

    /// Finds all that it names.
    pub(super) fn find(&self, finder: &Finder<'_>) -> Result<Vec<Found>, String> {
        let names = self.functions.iter().map(|function| &*function.name);
        let places = finder.functions(names);
        let mut found = Vec::new();
        for (function, places) in self.functions.iter().zip(places) {
            found.extend(function.find(&places, finder)?);
        }
        for range in &self.ranges {
            found.push(range.find(finder)?);
        }
        Ok(found)
    }
}

impl Function {
    fn find(&self, places: &[Range<u64>], finder: &Finder<'_>) -> Result<Option<Found>, String> {
        let Self { name, optional, .. } = self;
        let kind = kind(&self.kind, name)?;
        let methods = self.loops_with.iter().map(|word| method(word, name));
        let methods: Vec<Method> = methods.collect::<Result<_, _>>()?;
        if places.is_empty() && !optional {
            let unknown = Unknown::new("function", name, finder.names());
            return Err(format!(
                "{unknown}. A function that a kernel need not have is marked `optional = true`"
            ));
        }
        let mut ranges = Vec::new();
        for place in places {
            if methods.is_empty() {
                ranges.push(place.clone());
                continue;
            }
            let code = finder.code(place);
            let waits = |inst: &Inst| methods.iter().any(|method| (method.is)(inst));
            ranges.extend(loops::innermost_around(&code, place.start, waits));
        }
        if ranges.is_empty() && !optional {
            return Err(format!(
                "{name}: no loop in it has {}; without `loops_with`, the whole function waits",
                self.loops_with.join(" or ")
            ));
        }
        Ok((!ranges.is_empty()).then(|| Found {
            name: name.clone(),
            kind,
            ranges,
        }))
    }
}

impl AddressRange {
    fn find(&self, finder: &Finder<'_>) -> Result<Found, String> {
        let name = format!("{}..{}", self.begin, self.end);
        let (begin, end) = (finder.address(&self.begin)?, finder.address(&self.end)?);
        if begin >= end {
            return Err(format!("range {name}: it ends where it begins, or before"));
        }
        if begin % 2 != 0 || end % 2 != 0 {
            return Err(format!("range {name}: no instruction is at an odd address"));
        }
        Ok(Found {
            kind: kind(&self.kind, &name)?,
            name,
            ranges: std::iter::once(begin..end).collect(),
        })
    }
}

fn kind(word: &str, name: &str) -> Result<CodeKind, String> {
    let known = CodeKind::ALL.iter().map(|kind| kind.word());
    kind_of(word).ok_or_else(|| {
        let unknown = Unknown::new(
            "kind",
            word,
            known.filter(|it| *it != CodeKind::Plain.word()),
        );
        format!("{name}: {unknown}")
    })
}

fn method(word: &str, name: &str) -> Result<Method, String> {
    let known = METHODS.iter().map(|method| method.word);
    let found = METHODS.iter().find(|method| method.word == word);
    found.copied().ok_or_else(|| {
        format!(
            "{name}: loops_with: {}",
            Unknown::new("waiting method", word, known)
        )
    })
}
