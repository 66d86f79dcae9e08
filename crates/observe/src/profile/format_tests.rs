use std::io::Read;

use flate2::read::GzDecoder;
use prost::Message;

use super::{proto, write};
use crate::profile::callgrind;
use crate::profile::tree::{CallTree, Cost, Function};

/// main calls work, which calls itself; main costs 10, each level of work 100.
fn tree() -> CallTree {
    let mut tree = CallTree::default();
    let mut function = |name: &str| {
        tree.function(Function {
            name: name.into(),
            program: "prog".into(),
            addr: 0x1000,
        })
    };
    let (main, work) = (function("main"), function("work"));
    assert_eq!(function("main"), main);
    let root = tree.root(main);
    let mut node = root;
    let cost = |instructions| Cost {
        instructions,
        cycles: 2 * instructions,
    };
    tree.charge(3, root, cost(10));
    for _ in 0..2 {
        node = tree.callee(node, work);
        tree.nodes[node as usize].calls += 1;
        tree.charge(3, node, cost(100));
    }
    tree
}

#[test]
fn callgrind_has_own_and_inclusive_costs() {
    let text = callgrind::write(&tree(), "prog with\nargs");
    assert!(text.contains("cmd: prog with args\n"), "{text}");
    assert!(text.contains("events: Instructions Cycles\nsummary: 210 420\n"));
    assert!(
        text.contains("ob=(1) prog\nfl=(1) ???\nfn=(1) main\n0 10 20\n"),
        "{text}"
    );
    assert!(
        text.contains("cfn=(2) work\ncalls=1 0\n0 200 400\n"),
        "{text}"
    );
    assert!(text.contains("fn=(2)\n0 200 400\n"), "{text}");
    let recursive = "cfn=(2)\ncalls=1 0\n0 100 200\n";
    assert!(text.contains(recursive), "{text}");
}

#[test]
fn pprof_has_paths_and_harts() {
    let mut bytes = Vec::new();
    let packed = write(&tree(), "prog");
    GzDecoder::new(packed.as_slice())
        .read_to_end(&mut bytes)
        .unwrap();
    let profile = proto::Profile::decode(bytes.as_slice()).unwrap();
    let text = |n: i64| profile.string_table[n as usize].as_str();
    assert_eq!(text(0), "");
    let types: Vec<_> = profile.sample_type.iter().map(|t| text(t.r#type)).collect();
    assert_eq!(types, ["instructions", "cycles"]);
    let samples: Vec<_> = profile
        .sample
        .iter()
        .map(|sample| (sample.location_id.as_slice(), sample.value.as_slice()))
        .collect();
    let expected: [(&[u64], &[i64]); 3] = [
        (&[1], &[10, 20]),
        (&[2, 1], &[100, 200]),
        (&[2, 2, 1], &[100, 200]),
    ];
    assert_eq!(samples, expected);
    assert!(profile.sample.iter().all(|sample| {
        let label = sample.label[0];
        (text(label.key), text(label.str)) == ("hart", "3")
    }));
    for location in &profile.location {
        let function = &profile.function[location.line[0].function_id as usize - 1];
        assert!(["main", "work"].contains(&text(function.name)));
        assert_eq!(text(function.filename), "prog");
    }
    assert_eq!(profile.mapping.len(), 1);
}
