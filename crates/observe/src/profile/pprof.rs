//! The format of pprof: `profile.proto` of github.com/google/pprof, compressed with gzip.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::tree::CallTree;

/// The messages, with the fields that are written here; numbers as in `profile.proto`.
pub mod proto {
    #![allow(missing_docs, reason = "as in profile.proto")]

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub string_table: Vec<String>,
        #[prost(message, optional, tag = "11")]
        pub period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub comment: Vec<i64>,
        #[prost(int64, tag = "14")]
        pub default_sample_type: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct ValueType {
        #[prost(int64, tag = "1")]
        pub r#type: i64,
        #[prost(int64, tag = "2")]
        pub unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub label: Vec<Label>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Label {
        #[prost(int64, tag = "1")]
        pub key: i64,
        #[prost(int64, tag = "2")]
        pub str: i64,
        #[prost(int64, tag = "3")]
        pub num: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Mapping {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "5")]
        pub filename: i64,
        #[prost(bool, tag = "7")]
        pub has_functions: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Location {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub address: u64,
        #[prost(message, repeated, tag = "4")]
        pub line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Line {
        #[prost(uint64, tag = "1")]
        pub function_id: u64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Function {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "2")]
        pub name: i64,
        #[prost(int64, tag = "3")]
        pub system_name: i64,
        #[prost(int64, tag = "4")]
        pub filename: i64,
    }
}

/// Texts by number; the first is empty, as the format wants it.
struct Texts {
    known: BTreeMap<String, i64>,
    all: Vec<String>,
}

impl Texts {
    fn number(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.known.get(text) {
            return number;
        }
        let number = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.known.insert(text.to_owned(), number);
        number
    }
}

/// The bytes of a profile. `command` says what was run.
#[must_use]
pub fn write(tree: &CallTree, command: &str) -> Vec<u8> {
    let mut bytes = GzEncoder::new(Vec::new(), Compression::default());
    bytes
        .write_all(&profile(tree, command).encode_to_vec())
        .expect("memory takes what is written");
    bytes.finish().expect("memory takes what is written")
}

fn profile(tree: &CallTree, command: &str) -> proto::Profile {
    let mut texts = Texts {
        known: BTreeMap::new(),
        all: Vec::new(),
    };
    texts.number("");
    let unit = texts.number("count");
    let mut value_type = |name| proto::ValueType {
        r#type: texts.number(name),
        unit,
    };
    let sample_type = vec![value_type("instructions"), value_type("cycles")];
    let hart_key = texts.number("hart");
    let mut mappings: BTreeMap<&str, u64> = BTreeMap::new();
    let mut mapping = Vec::new();
    let (mut location, mut function) = (Vec::new(), Vec::new());
    for (n, each) in tree.functions().iter().enumerate() {
        let id = n as u64 + 1;
        let next = mappings.len() as u64 + 1;
        let filename = texts.number(&each.program);
        let mapping_id = *mappings.entry(&each.program).or_insert_with(|| {
            mapping.push(proto::Mapping {
                id: next,
                filename,
                has_functions: true,
            });
            next
        });
        let name = texts.number(&each.name);
        function.push(proto::Function {
            id,
            name,
            system_name: name,
            filename,
        });
        location.push(proto::Location {
            id,
            mapping_id,
            address: each.addr,
            line: vec![proto::Line { function_id: id }],
        });
    }
    let harts: Vec<i64> = (0..tree.costs.len())
        .map(|hart| texts.number(&hart.to_string()))
        .collect();
    let sample = tree.samples().map(|(hart, path, cost)| proto::Sample {
        location_id: path.iter().map(|id| u64::from(id.0) + 1).collect(),
        value: vec![cost.instructions as i64, cost.cycles as i64],
        label: vec![proto::Label {
            key: hart_key,
            // As text: the number 0 would be none.
            str: harts[hart],
            num: 0,
        }],
    });
    let sample = sample.collect();
    let comment = vec![texts.number(command)];
    proto::Profile {
        period_type: Some(sample_type[0]),
        period: 1,
        default_sample_type: sample_type[0].r#type,
        sample_type,
        sample,
        mapping,
        location,
        function,
        comment,
        string_table: texts.all,
    }
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
