use fdt::Fdt;

use super::{OverrideFault, apply};
use crate::testing::{config, machine};
use crate::{Machine, MachineConfig, MachineError};

fn tree(overrides: &[&str]) -> Vec<u8> {
    let tree = machine().device_tree().to_vec();
    let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
    apply(tree, &overrides).unwrap()
}

fn fault(text: &str) -> OverrideFault {
    let tree = machine().device_tree().to_vec();
    let error = apply(tree, &[text.into()]).unwrap_err();
    assert_eq!(error.text, text);
    error.fault
}

fn property(tree: &[u8], path: &str, name: &str) -> Option<Vec<u8>> {
    let tree = Fdt::new(tree).unwrap();
    let node = tree.find_node(path).unwrap();
    node.property(name).map(|property| property.value.to_vec())
}

#[test]
fn values_of_every_kind() {
    for (value, expected) in [
        (r#""quiet""#, &b"quiet\0"[..]),
        (r#""a","b""#, b"a\0b\0"),
        (r#""say \"hi\"\n\\""#, b"say \"hi\"\n\\\0"),
        (r#""a=b:c""#, b"a=b:c\0"),
        (r#""""#, b"\0"),
        ("<1 0x2>", &[0, 0, 0, 1, 0, 0, 0, 2]),
        ("<4294967295>", &[0xff; 4]),
        ("<>", b""),
        ("[00 FF 1234]", &[0, 0xff, 0x12, 0x34]),
        (r#" "a" , <1>,[02] "#, b"a\0\0\0\0\x01\x02"),
        ("\"\u{e4}\"", "\u{e4}\0".as_bytes()),
    ] {
        let tree = tree(&[&format!("/cpus/cpu@1:my-prop={value}")]);
        let found = property(&tree, "/cpus/cpu@1", "my-prop");
        assert_eq!(found.as_deref(), Some(expected), "{value}");
        assert_eq!(property(&tree, "/cpus/cpu@0", "my-prop"), None);
    }
    let tree = tree(&["/soc/serial@10000000:big-endian"]);
    let found = property(&tree, "/soc/serial@10000000", "big-endian");
    assert_eq!(found, Some(vec![]));
}

#[test]
fn a_property_is_changed_added_or_removed_and_the_rest_stays() {
    let before = machine().device_tree().to_vec();
    let after = tree(&[
        "/chosen:bootargs=\"quiet\"",
        "/:model=\"mine\"",
        "/soc/serial@10000000:status=\"disabled\"",
        "/cpus/cpu@0:riscv,isa-base=delete",
    ]);
    assert_eq!(property(&after, "/chosen", "bootargs").unwrap(), b"quiet\0");
    assert_eq!(property(&after, "/", "model").unwrap(), b"mine\0");
    assert_eq!(property(&after, "/cpus/cpu@0", "riscv,isa-base"), None);
    let listed = |tree: &[u8]| {
        let tree = Fdt::new(tree).unwrap();
        let mut all = Vec::new();
        for node in tree.all_nodes() {
            for property in node.properties() {
                all.push((
                    node.name.to_owned(),
                    property.name.to_owned(),
                    property.value.to_vec(),
                ));
            }
        }
        all
    };
    let (before, after) = (listed(&before), listed(&after));
    let new: Vec<_> = after
        .iter()
        .filter(|entry| !before.contains(entry))
        .collect();
    assert_eq!(new.len(), 3);
    let gone: Vec<_> = before
        .iter()
        .filter(|entry| !after.contains(entry))
        .collect();
    assert_eq!(gone.len(), 3);
    assert_eq!(after.len(), before.len());
}

#[test]
fn later_changes_win() {
    let tree = tree(&[
        "/chosen:x=<1>",
        "/chosen:x=<2>",
        "/chosen:y",
        "/chosen:y=delete",
    ]);
    assert_eq!(property(&tree, "/chosen", "x"), Some(vec![0, 0, 0, 2]));
    assert_eq!(property(&tree, "/chosen", "y"), None);
}

#[test]
fn changes_of_no_form() {
    for text in [
        "",
        "bootargs",
        "/chosen",
        "chosen:a=<1>",
        "/chosen:",
        "/chosen:=<1>",
        ":a=<1>",
    ] {
        assert_eq!(fault(text), OverrideFault::Form, "{text}");
    }
}

#[test]
fn nodes_and_properties_that_are_not_there() {
    let text = fault("/soc/serial:status=\"okay\"").to_string();
    assert!(
        text.contains("there is no node /soc/serial; /soc has serial@10000000, "),
        "{text}"
    );
    let text = fault("/cpu/cpu@0:a").to_string();
    assert!(
        text.contains("there is no node /cpu; / has cpus, "),
        "{text}"
    );
    let text = fault("/chosen/further/on:a").to_string();
    assert!(
        text.contains("no node /chosen/further; /chosen has none"),
        "{text}"
    );
    let text = fault("/chosen:bootarg=delete").to_string();
    assert!(
        text.contains("there is no property bootarg; /chosen has bootargs, "),
        "{text}"
    );
}

#[test]
fn names_that_no_property_can_have() {
    for name in ["a b", "a\0", "\u{e4}", "a/b", &"a".repeat(32)] {
        let text = format!("/chosen:{name}=<1>");
        assert!(matches!(fault(&text), OverrideFault::Name { .. }), "{text}");
    }
    tree(&[&format!("/chosen:{}=<1>", "a".repeat(31))]);
    tree(&["/chosen:linux,a.b_c+d?e#f-g=<1>"]);
}

#[test]
fn values_that_cannot_be_read() {
    for (value, rest, expected) in [
        ("", "", "expected \"text\""),
        ("quiet", "quiet", "expected \"text\""),
        ("\"quiet", "\"quiet", "closing quote"),
        ("\"a\\x\"", "\\x\"", "known are"),
        ("\"a\\", "\\", "known are"),
        ("\"a\0\"", "\0\"", "NUL"),
        ("<1", "<1", "closing bracket"),
        ("<1 x>", "x", "a cell is a number"),
        ("<0x>", "0x", "a cell is a number"),
        ("<4294967296>", "4294967296", "a cell is a number"),
        ("<-1>", "-1", "a cell is a number"),
        ("[0]", "0", "pairs"),
        ("[0g]", "0g", "pairs"),
        ("<1> <2>", "<2>", "expected a comma"),
        ("<1>,", "", "expected \"text\""),
        ("deleted", "deleted", "expected \"text\""),
    ] {
        let fault = fault(&format!("/chosen:a={value}"));
        let OverrideFault::Value {
            rest: found,
            expected: what,
        } = &fault
        else {
            panic!("{value}: {fault}");
        };
        assert_eq!(found, rest, "{value}");
        assert!(what.contains(expected), "{value}: {what}");
    }
}

#[test]
fn a_machine_takes_them_from_its_configuration() {
    let with = |text: &str| {
        Machine::new(&MachineConfig {
            device_tree_overrides: vec![text.into()],
            ..config()
        })
    };
    let machine = with("/soc/serial@10000000:status=\"disabled\"").unwrap();
    let status = property(machine.device_tree(), "/soc/serial@10000000", "status");
    assert_eq!(status.unwrap(), b"disabled\0");
    let error = with("/chosn:a").unwrap_err();
    assert!(matches!(error, MachineError::Override(_)));
    let text = error.to_string();
    assert!(
        text.starts_with("device tree override `/chosn:a`: there is no node"),
        "{text}"
    );
}
