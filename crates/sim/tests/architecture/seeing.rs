//! That pipeline logs and timelines show what happens, whatever a program does, and change nothing.

use std::collections::{BTreeMap, BTreeSet};

use loiter_sim::{PipelineRequest, Session};

use crate::debugging::finish;
use crate::generator::{Settings, Target, generate};
use crate::machines::Machine;

const HARTS: usize = 3;

/// What a log says: cycles go forward, every instruction ends once and then nothing more is said of it.
/// Returns how many retired, and how many were flushed.
fn check(log: &str) -> (u64, u64) {
    let mut lines = log.lines();
    assert_eq!(lines.next(), Some("Kanata\t0004"));
    assert!(lines.next().is_some_and(|line| line.starts_with("C=\t")));
    let (mut begun, mut live, mut open) = (0, BTreeSet::new(), BTreeMap::new());
    let mut ends = [0; 2];
    for line in lines {
        let words: Vec<&str> = line.split('\t').collect();
        let id: u64 = words[1].parse().expect("a number");
        match words[0] {
            "C" => assert!(id > 0),
            "I" => {
                assert_eq!(id, begun);
                begun += 1;
                live.insert(id);
            }
            "S" => assert_eq!(open.insert(id, words[3]), None, "{line}"),
            "E" => assert_eq!(open.remove(&id), Some(words[3]), "{line}"),
            "R" => {
                assert!(live.remove(&id) && !open.contains_key(&id), "{line}");
                ends[usize::from(words[3] == "1")] += 1;
            }
            _ => assert!(live.contains(&id), "{line}"),
        }
    }
    assert!(live.is_empty() && open.is_empty());
    (ends[0], ends[1])
}

#[test]
fn logs_of_timing_cores_are_whole_and_cost_the_guest_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    for (seed, machine, cores) in [
        (0x810, Machine::T1, 1),
        (0x811, Machine::T2, 1),
        (0x812, Machine::Smt8, 1),
        (0x813, Machine::Smt8, 1),
        (0x814, Machine::T1, 4),
        (0x815, Machine::PCore, 4),
        (0x816, Machine::InOrder, 4),
    ] {
        let elf = generate(Settings {
            seed,
            harts: HARTS,
            blocks: 30,
            items: 60,
            target: Target::Loiter,
        })
        .elf;
        let start = || Session::program(&machine.request(cores), &elf).expect("a session");
        let log = |name: &str, from: Option<u64>| PipelineRequest {
            path: path(name),
            from: from.map(|cycle| cycle.to_string()),
            to: None,
        };
        let expected = finish(&mut start());
        let (cycles, instructions) = (expected.0, expected.1);

        let mut session = start();
        session.begin_pipeline(&log("whole", None)).expect("a file");
        session.begin_timeline(&path("timeline")).expect("a file");
        assert_eq!(finish(&mut session), expected, "{machine:?}");
        assert_eq!(session.end_logs(), [""; 0]);
        let text = std::fs::read_to_string(path("whole")).expect("a log");
        let (retired, flushed) = check(&text);
        assert_eq!(retired, instructions, "{machine:?}");
        assert!(flushed > 0, "programs raise traps");

        // What runs before a log begins is not watched at all.
        let mut session = start();
        let late = log("late", Some(cycles / 2));
        session.begin_pipeline(&late).expect("a file");
        assert_eq!(finish(&mut session), expected, "{machine:?}");
        assert_eq!(session.end_logs(), [""; 0]);
        let text = std::fs::read_to_string(path("late")).expect("a log");
        let (later, _) = check(&text);
        assert!(0 < later && later < retired, "{machine:?}");
        let first = text.lines().nth(1).and_then(|line| line.split('\t').nth(1));
        let first: u64 = first.and_then(|cycle| cycle.parse().ok()).expect("a cycle");
        assert!(first >= cycles / 2 && first < cycles, "{machine:?}");
    }
}
