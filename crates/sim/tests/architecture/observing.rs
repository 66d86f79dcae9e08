//! Whoever watches a run, and wherever its phases end: all results are the same, in every table, on machines of four cores
//! of each memory system.

use std::net::TcpListener;
use std::path::Path;

use loiter_sim::{Observation, PipelineRequest, ProfileRequest, Request, TraceRequest};
use serde_json::Value;

use crate::debugging::Gdb;
use crate::generator::{Settings, Target, generate};
use crate::machines::{Machine, on_all_processors, run_to_end};

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

    /// A program for all of its harts.
    fn program(&self, seed: u64, blocks: usize) -> Vec<u8> {
        let settings = Settings {
            seed,
            harts: self.harts,
            blocks,
            items: 60,
            target: Target::Loiter,
        };
        generate(settings).elf
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

/// What is watched, and where that is written.
fn observations(folder: &Path) -> [(&'static str, Observation, Vec<String>); 6] {
    let file = |name: &str| folder.join(name).display().to_string();
    let pipeline = |path: &str, from: Option<&str>, to: Option<&str>| {
        Some(PipelineRequest {
            path: file(path),
            from: from.map(str::to_owned),
            to: to.map(str::to_owned),
        })
    };
    [
        ("unwatched", Observation::default(), vec![]),
        (
            "its pipeline logged, and a timeline",
            Observation {
                pipeline: pipeline("log", None, None),
                timeline: Some(file("timeline")),
                ..Observation::default()
            },
            vec![file("log"), file("timeline")],
        ),
        (
            "its pipeline logged from probe to probe",
            Observation {
                pipeline: pipeline("part", Some("probe:roi_begin"), Some("probe:work_end")),
                ..Observation::default()
            },
            vec![file("part")],
        ),
        (
            "traced",
            Observation {
                trace: Some(TraceRequest {
                    path: file("trace"),
                    from: None,
                    count: None,
                }),
                ..Observation::default()
            },
            vec![file("trace")],
        ),
        (
            "profiled",
            Observation {
                profile: Some(ProfileRequest {
                    path: file("profile"),
                    from: None,
                }),
                ..Observation::default()
            },
            vec![file("profile")],
        ),
        (
            "traced, and profiled from a cycle on",
            Observation {
                trace: Some(TraceRequest {
                    path: file("first lines"),
                    from: None,
                    count: Some(500),
                }),
                profile: Some(ProfileRequest {
                    path: file("later"),
                    from: Some("2000".into()),
                }),
                ..Observation::default()
            },
            vec![file("first lines"), file("later")],
        ),
    ]
}

#[test]
fn who_watches_changes_nothing() {
    on_all_processors(WATCHED.len(), |n| {
        let watched = &WATCHED[n];
        let elf = watched.program(0x830 + n as u64, 4);
        let name = |what: &str| format!("{:?}, {what}", watched.machine);
        let mut request = watched.request();
        request.observe = Observation::default();
        let expected = result(&request, &elf);
        for check in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            for (what, observe, files) in observations(folder.path()) {
                let what = name(&format!("{what}, check {check}"));
                request.observe = Observation { check, ..observe };
                let found = result(&request, &elf);
                assert_same(&found, &expected, &["checked_instructions"], &what);
                assert_eq!(found["checked_instructions"] != 0, check, "{what}");
                for file in files {
                    let written = std::fs::metadata(&file).expect("a file").len();
                    assert!(written > 1000, "{what}: {written} bytes in {file}");
                }
            }
            request.observe = Observation {
                check,
                ..Observation::default()
            };
            for part in ["timing for 777 cycles, ", "timing for 331 instructions, "] {
                request.phases = Some(part.repeat(40) + "timing");
                // Some programs end before so many phases have.
                let found = result(&request, &elf);
                let differ = ["phases", "missed_phase", "checked_instructions"];
                assert_same(&found, &expected, &differ, &name(part));
            }
            request.phases = None;
        }
    });
}

#[test]
fn a_debugger_who_lets_all_run_changes_nothing() {
    for (seed, watched) in (0x840..).zip(&WATCHED) {
        let elf = watched.program(seed, 2);
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
