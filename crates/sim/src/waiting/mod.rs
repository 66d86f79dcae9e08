//! Where code waits: a table names functions and ranges of a program or a kernel, and the code that they come to
//! is marked, so that cores know of each instruction whether it waits.
//!
//! Ranges are physical: the text of a kernel lies where it was loaded, whatever maps it.

mod find;
mod loops;
mod table;

use loiter_hart::CodeMarks;
use loiter_observe::CodeKind;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::system::System;
use find::Finder;
use table::{Found, Table};

/// A table of waiting code.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitingTable {
    /// Its path, for messages.
    pub path: String,
    /// What it says, in TOML.
    pub text: String,
}

/// Code that waits, as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitingRow {
    /// The function or range that the table names.
    pub name: String,
    /// What the code is.
    pub kind: &'static str,
    /// Its first address, as the program or the kernel was linked.
    pub begin: u64,
    /// The address after it.
    pub end: u64,
}

impl System {
    /// Marks the code that `request` says waits.
    ///
    /// # Errors
    /// A table that is none, names that nothing has, and loops that are not there.
    pub(crate) fn mark_waiting(&mut self, request: &WaitingTable) -> Result<(), Error> {
        let fail = |problem: String| Error::User(format!("--waiting {}: {problem}", request.path));
        let table = Table::parse(&request.text).map_err(fail)?;
        let finder = Finder::new(&self.symbols[0], &self.machine);
        let found = table.find(&finder).map_err(fail)?;
        let mut marks = CodeMarks::default();
        let mut rows = Vec::new();
        for Found { name, kind, ranges } in found {
            for range in ranges {
                let physical = finder.physical(&range).ok_or_else(|| {
                    fail(format!(
                        "{name}: {range:#x?} is in no memory of the machine"
                    ))
                })?;
                marks.add(physical, kind as u8);
                rows.push(WaitingRow {
                    name: name.clone(),
                    kind: kind.word(),
                    begin: range.start,
                    end: range.end,
                });
            }
        }
        self.code.set_marks(marks);
        self.waiting = rows;
        Ok(())
    }
}

/// A kind of code by its word in a table.
fn kind_of(word: &str) -> Option<CodeKind> {
    let named = CodeKind::ALL.iter().copied();
    named
        .filter(|&kind| kind != CodeKind::Plain)
        .find(|kind| kind.word() == word)
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
