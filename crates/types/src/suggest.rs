//! "Unknown name" errors that name the nearest known ones.

use std::fmt;

/// An unknown name, with the known names nearest to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// What kind of thing was asked for, such as "machine".
    pub what: String,
    /// The name as given.
    pub name: String,
    /// The known names, nearest first, at most five.
    pub nearest: Vec<String>,
}

impl Unknown {
    /// The error for `name`, which is none of `known`.
    #[must_use]
    pub fn new<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            what: what.to_owned(),
            name: name.to_owned(),
            nearest: nearest(name, known, 5),
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} \"{}\"", self.what, self.name)?;
        if !self.nearest.is_empty() {
            write!(f, "; nearest: {}", self.nearest.join(", "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Unknown {}

/// The `most` names of `known` that are nearest to `name`, nearest first, ties in given order.
#[must_use]
pub fn nearest<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<String> {
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored
        .into_iter()
        .take(most)
        .map(|(_, candidate)| candidate.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_misspelt_name_comes_first() {
        let error = Unknown::new(
            "key",
            "core.contxts",
            ["l1d.ways", "core.contexts", "core.pipes"],
        );
        assert_eq!(error.nearest[0], "core.contexts");
        assert!(
            error
                .to_string()
                .starts_with("unknown key \"core.contxts\"; nearest: core.contexts")
        );
    }
}
