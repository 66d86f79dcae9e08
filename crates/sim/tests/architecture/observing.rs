//! Whoever watches a run, and wherever its phases end: all results are the same, in every table, on machines of four cores
//! of each memory system.

use std::net::TcpListener;

use loiter_sim::{Observation, PipelineRequest, Request, TraceRequest};
use serde_json::Value;

use crate::debugging::Gdb;
use crate::generator::{Settings, Target, generate};
use crate::machines::{Machine, run_to_end};

/// A machine of four cores, with harts on all of them.
struct Watched {
    machine: Machine,
    harts: usize,
    set: &'static [&'static str],
}

const WATCHED: [Watched; 8] = [
    watched(Machine::T1, 16, &[]),
    watched(Machine::T2, 32, &[]),
    watched(Machine::InOrder, 16, &[]),
    watched(Machine::Symmetry, 4, &[]),
    watched(Machine::Smt8, 32, &[]),
    watched(Machine::PCore, 8, &[]),
    watched(Machine::Opteron48, 4, &["cluster.cores=1"]),
    watched(Machine::Knl, 16, &[]),
];

const fn watched(machine: Machine, harts: usize, set: &'static [&'static str]) -> Watched {
    Watched {
        machine,
        harts,
        set,
    }
}

impl Watched {
    fn request(&self) -> Request {
        let mut request = self.machine.request(4);
        request.set.extend(self.set.iter().map(|set| (*set).into()));
        request
    }
}

/// All tables of a result but what the host took.
fn result(request: &Request, elf: &[u8]) -> Value {
    let result = run_to_end(request, elf);
    let mut value = serde_json::to_value(&result).expect("a result");
    let tables = value.as_object_mut().expect("tables by name");
    assert!(tables.remove("host_seconds").is_some());
    value
}

/// The same tables, but for some.
fn assert_same(found: &Value, expected: &Value, without: &[&str], what: &str) {
    let [found, expected] = [found, expected].map(|value| value.as_object().expect("tables"));
    assert!(expected.len() > 10, "{} tables", expected.len());
    for (name, table) in expected {
        if without.contains(&name.as_str()) {
            continue;
        }
        assert!(found.get(name) == Some(table), "{what}: {name} is another");
    }
}

#[test]
fn who_watches_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    for (seed, watched) in (0x830..).zip(&WATCHED) {
        let elf = generate(Settings {
            seed,
            harts: watched.harts,
            blocks: 4,
            items: 60,
            target: Target::Loiter,
        })
        .elf;
        let name = |what: &str| format!("{:?}, {what}", watched.machine);
        let expected = result(&watched.request(), &elf);
        let check = |what: &str, observe: Observation| {
            let mut request = watched.request();
            request.observe = Observation {
                check: true,
                ..observe
            };
            assert_same(&result(&request, &elf), &expected, &[], &name(what));
        };
        let path = file("log");
        check(
            "its pipeline logged, and a timeline",
            Observation {
                pipeline: Some(PipelineRequest {
                    path: path.clone(),
                    from: None,
                    to: None,
                }),
                timeline: Some(file("timeline")),
                ..Observation::default()
            },
        );
        assert!(std::fs::metadata(&path).expect("a log").len() > 10_000);
        check(
            "traced",
            Observation {
                trace: Some(TraceRequest {
                    path: file("trace"),
                    from: None,
                    count: None,
                }),
                ..Observation::default()
            },
        );
        for part in ["timing for 777 cycles, ", "timing for 331 instructions, "] {
            let mut request = watched.request();
            request.phases = Some(part.repeat(40) + "timing");
            // Some programs end before so many phases have.
            let found = result(&request, &elf);
            assert_same(&found, &expected, &["phases", "missed_phase"], &name(part));
        }
    }
}

#[test]
fn a_debugger_who_lets_all_run_changes_nothing() {
    for (seed, watched) in (0x840..).zip(&WATCHED) {
        let elf = generate(Settings {
            seed,
            harts: watched.harts,
            blocks: 2,
            items: 60,
            target: Target::Loiter,
        })
        .elf;
        let expected = result(&watched.request(), &elf);
        // A port that is free now.
        let port = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = port.local_addr().expect("its address").to_string();
        drop(port);
        let mut request = watched.request();
        request.observe.gdb = Some(address.clone());
        let debugger = std::thread::spawn(move || {
            let mut gdb = Gdb::connect_when_it_listens(&address);
            gdb.expect_ok("QStartNoAckMode");
            gdb.ask("vCont;c")
        });
        let found = result(&request, &elf);
        assert!(debugger.join().expect("a debugger").starts_with('W'));
        assert_same(&found, &expected, &[], &format!("{:?}", watched.machine));
    }
}
