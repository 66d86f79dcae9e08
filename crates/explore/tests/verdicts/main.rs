//! Published verdicts, in `litmus.toml`, are what the explorer finds.

mod axioms;
mod parts;
mod random;
mod shapes;
mod waits;

use std::collections::BTreeSet;

use loiter_explore::{Limits, Litmus, Model};

const FILE: &str = include_str!("../litmus.toml");

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    named: Vec<Named>,
    written: Vec<Written>,
}

/// Tests that are known by their names.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    source: String,
    sc: Option<Verdict>,
    tso: Option<Verdict>,
    rvwmo: Option<Verdict>,
    tests: Vec<String>,
    /// How many final states RVWMO has, of each test.
    outcomes: Option<Vec<usize>>,
}

/// A test with its program.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    source: String,
    sc: Option<Verdict>,
    tso: Option<Verdict>,
    rvwmo: Option<Verdict>,
    litmus: String,
    outcomes: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Allowed,
    Forbidden,
}

struct Case {
    test: Litmus,
    verdicts: [(Model, Option<Verdict>); 3],
    outcomes: Option<usize>,
    source: String,
}

fn cases() -> Vec<Case> {
    let file: File = toml_edit::de::from_str(FILE).expect("a valid file");
    let parse = |text: &str| Litmus::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut all = Vec::new();
    for named in file.named {
        for (n, name) in named.tests.iter().enumerate() {
            let text = shapes::litmus(name).unwrap_or_else(|error| panic!("{error}"));
            all.push(Case {
                test: parse(&text),
                verdicts: [
                    (Model::Sc, named.sc),
                    (Model::Tso, named.tso),
                    (Model::Rvwmo, named.rvwmo),
                ],
                outcomes: named.outcomes.as_ref().map(|counts| counts[n]),
                source: named.source.clone(),
            });
        }
    }
    all.extend(file.written.into_iter().map(|written| Case {
        test: parse(&written.litmus),
        verdicts: [
            (Model::Sc, written.sc),
            (Model::Tso, written.tso),
            (Model::Rvwmo, written.rvwmo),
        ],
        outcomes: written.outcomes,
        source: written.source,
    }));
    all
}

#[test]
fn published_verdicts_are_found() {
    let (mut wrong, mut checked) = (Vec::new(), [0; 3]);
    for case in cases() {
        assert!(!case.source.is_empty(), "{}: no source", case.test.name);
        for (n, (model, verdict)) in case.verdicts.into_iter().enumerate() {
            let Some(verdict) = verdict else { continue };
            let found = case.test.explore(model, &Limits::default());
            let found = found.unwrap_or_else(|error| panic!("{}: {error}", case.test.name));
            let is_allowed = case.test.allows(&found);
            if is_allowed != (verdict == Verdict::Allowed) {
                wrong.push(format!(
                    "{} {}: not {verdict:?}",
                    case.test.name,
                    model.name()
                ));
            }
            checked[n] += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked.iter().all(|&n| n >= 60), "{checked:?}");
}

#[test]
fn there_are_as_many_final_states_as_herd_finds() {
    let mut checked = 0;
    for case in cases() {
        let Some(outcomes) = case.outcomes else {
            continue;
        };
        let found = case.test.explore(Model::Rvwmo, &Limits::default());
        let found = found.unwrap_or_else(|error| panic!("{}: {error}", case.test.name));
        assert_eq!(found.outcomes.len(), outcomes, "{}", case.test.name);
        checked += 1;
    }
    assert!(checked >= 16, "{checked}");
}

/// A stronger model allows a part of what a weaker one does; and no two of them are the same model.
#[test]
fn models_are_ordered() {
    let mut differ = BTreeSet::new();
    for case in cases() {
        let of = |model| {
            let found = case.test.explore(model, &Limits::default());
            found
                .unwrap_or_else(|error| panic!("{}: {error}", case.test.name))
                .outcomes
        };
        let all = Model::ALL.map(of);
        for pair in [0, 1] {
            assert!(all[pair].is_subset(&all[pair + 1]), "{}", case.test.name);
            if all[pair] != all[pair + 1] {
                differ.insert(pair);
            }
        }
        assert!(!all[0].is_empty(), "{}", case.test.name);
    }
    assert_eq!(differ, BTreeSet::from([0, 1]));
}
