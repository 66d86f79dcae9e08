//! Changes to the device tree, as a user writes them.

use bolero::generator::produce_with;
use bolero::{TypeGenerator, check, produce};
use fdt::Fdt;

use super::{Reached, TIME};
use crate::testing::config;
use crate::{Machine, MachineConfig};

const PATHS: [&str; 6] = [
    "/",
    "/chosen",
    "/cpus",
    "/cpus/cpu@1",
    "/soc/serial@10000000",
    "/none",
];
const NAMES: [&str; 6] = [
    "bootargs",
    "reg",
    "#size-cells",
    "status",
    "phandle",
    "\u{e9}",
];
const VALUES: [&str; 5] = ["\"text\"", "<1 0x2>", "[00 ff]", "\"a\", <1>", "delete"];
const PARTS: [&str; 16] = [
    ":", "=", "delete", "\"", "\"text\"", "\\", "<", ">", "1", "0x", "[", "]", "ff", ",", " ", "\0",
];

/// A change, of which each part may be anything.
#[derive(Debug, TypeGenerator)]
struct Override {
    /// None: the first known one.
    path: Option<Text>,
    name: Option<Text>,
    value: Option<Text>,
}

#[derive(Debug, TypeGenerator)]
enum Text {
    Known(u8),
    AlsoKnown(u8),
    /// Parts after a good one.
    Longer(u8, Part),
    Parts(#[generator(produce_with::<Vec<Part>>().len(0..5_usize))] Vec<Part>),
}

#[derive(Debug, TypeGenerator)]
enum Part {
    Word(u8),
    Any(char),
}

impl Part {
    fn text(&self) -> String {
        match self {
            Self::Word(n) => PARTS[usize::from(*n) % PARTS.len()].to_owned(),
            Self::Any(c) => c.to_string(),
        }
    }
}

impl Text {
    fn text(&self, known: &[&str]) -> String {
        let one = |n: u8| known[usize::from(n) % known.len()].to_owned();
        match self {
            Self::Known(n) | Self::AlsoKnown(n) => one(*n),
            Self::Longer(n, part) => one(*n) + &part.text(),
            Self::Parts(parts) => parts.iter().map(Part::text).collect(),
        }
    }
}

impl Override {
    fn text(&self) -> String {
        let text = |text: &Option<Text>, known: &[&str]| match text {
            Some(text) => text.text(known),
            None => known[0].to_owned(),
        };
        let path = text(&self.path, &PATHS);
        let name = text(&self.name, &NAMES);
        let value = text(&self.value, &VALUES);
        format!("{path}:{name}={value}")
    }
}

#[test]
fn overrides() {
    let reached = Reached::default();
    while reached.wants_more() {
        check!()
            .with_test_time(TIME)
            .with_generator(produce::<Vec<Override>>().with().len(1..4_usize))
            .for_each(|overrides| {
                reached.input();
                let texts: Vec<_> = overrides.iter().map(Override::text).collect();
                let made = Machine::new(&MachineConfig {
                    device_tree_overrides: texts.clone(),
                    ..config()
                });
                let machine = match made {
                    Ok(machine) => machine,
                    Err(error) => {
                        let message = error.to_string();
                        let named = texts.iter().any(|text| message.contains(text));
                        return assert!(named, "{message}");
                    }
                };
                reached.stage(0);
                let tree = Fdt::new(machine.device_tree()).expect("a device tree");
                let (path, change) = texts[texts.len() - 1].split_once(':').expect("the form");
                let (name, value) = change.split_once('=').unwrap_or((change, ""));
                let node = tree.find_node(path).expect("the node that was changed");
                let property = node.property(name);
                match value.trim() {
                    "delete" => assert!(property.is_none(), "{change}"),
                    "" => assert_eq!(property.expect("it was set").value, b""),
                    "<1 0x2>" => assert_eq!(
                        property.expect("it was set").value,
                        [0, 0, 0, 1, 0, 0, 0, 2]
                    ),
                    "\"text\"" => assert_eq!(property.expect("it was set").value, b"text\0"),
                    "[00 ff]" => assert_eq!(property.expect("it was set").value, [0, 0xff]),
                    _ => assert!(property.is_some(), "{change}"),
                }
            });
    }
    reached.assert(&[10]);
}
