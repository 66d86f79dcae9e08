//! That an execution that was found can be gone through in both directions, and what harts see meanwhile.

use loiter_isa::assemble;

use crate::found::{Failure, Kind, Limits};
use crate::model::Model;
use crate::program::{Entry, Program, Segment};
use crate::replay::{Registers, Replay};
use crate::search::explore;

const CODE: u64 = 0x1000;
const FLAG: u64 = 0x2000;
const DATA: u64 = 0x2008;
const A0: u8 = 10;
const A1: u8 = 11;

/// Each thread ends after its last line, where the label `end` is.
fn program(threads: &[&[&str]], check: &[&str]) -> Program {
    let mut program = Program::default();
    let mut entry = |lines: &[&str]| {
        let begin = CODE + 0x100 * program.segments.len() as u64;
        let all = lines.len() as i64;
        let code = lines.iter().enumerate().flat_map(|(at, line)| {
            let end = |_: &str| Some(4 * (all - at as i64));
            assemble(line, end).expect(line).to_le_bytes()
        });
        program.segments.push(Segment {
            addr: begin,
            bytes: code.chain([0; 4]).collect(),
            writable: false,
        });
        Entry {
            pc: begin,
            end: begin + 4 * all as u64,
            registers: vec![(A0, DATA), (A1, FLAG)],
            ..Entry::default()
        }
    };
    let threads = threads.iter().map(|lines| entry(lines)).collect();
    let check = (!check.is_empty()).then(|| entry(check));
    program.segments.push(Segment {
        addr: FLAG,
        bytes: vec![0; 16],
        writable: true,
    });
    program.threads = threads;
    program.check = check;
    program
}

fn failure(program: &Program) -> Failure {
    let limits = Limits::default();
    let found = explore(program, Model::Rvwmo, &limits, &mut |_| true).expect("it ends");
    found.failure.expect("it fails")
}

fn word(replay: &Replay, hart: usize, addr: u64) -> u32 {
    let mut bytes = [0; 4];
    assert_eq!(replay.read(hart, addr, &mut bytes), 4);
    u32::from_le_bytes(bytes)
}

const WRITER: &[&str] = &["addi t0, x0, 1", "sw t0, 0(a0)", "sw t0, 0(a1)"];
const READER: &[&str] = &[
    "lw t1, 0(a1)",
    "beq t1, x0, end",
    "lw t2, 0(a0)",
    "bne t2, x0, end",
    "ebreak",
];

/// Registers of all harts, and what each sees of the two words.
type Seen = (Vec<Registers>, Vec<[u32; 2]>);

fn seen(replay: &Replay) -> Seen {
    let harts = 0..replay.harts().len();
    let words = harts.map(|hart| [DATA, FLAG].map(|addr| word(replay, hart, addr)));
    (replay.harts().to_vec(), words.collect())
}

#[test]
fn backwards_is_as_forwards() {
    let failure = failure(&program(&[WRITER, READER], &[]));
    assert_eq!(failure.kind, Kind::Stopped(1));
    let mut replay = Replay::new(failure.execution);
    let mut all = vec![seen(&replay)];
    while replay.forward() {
        all.push(seen(&replay));
    }
    // Seven instructions, of which one is early at first.
    assert_eq!(all.len(), replay.moments() + 1);
    let stands: Vec<_> = replay.harts().iter().map(|hart| Some(hart.pc)).collect();
    assert_eq!(stands, failure.stands);
    while let Some(there) = all.pop() {
        assert_eq!(seen(&replay), there, "after {}", replay.at());
        assert_eq!(replay.back(), !all.is_empty());
    }
}

#[test]
fn an_early_write_is_seen_by_others_only() {
    let failure = failure(&program(&[WRITER, READER], &[]));
    let early = failure.steps.iter().position(|step| step.early);
    let early = early.expect("the flag is written early");
    let mut replay = Replay::new(failure.execution);
    while replay.last().and_then(|moment| moment.step) != Some(early) {
        assert_eq!(word(&replay, 1, FLAG), 0);
        assert!(replay.forward());
    }
    let moment = replay.last().expect("a moment");
    assert_eq!((moment.hart, moment.inst), (0, None));
    assert_eq!(replay.early(0).collect::<Vec<_>>(), [early]);
    assert_eq!(replay.early(1).count(), 0);
    assert_eq!([0, 1].map(|hart| word(&replay, hart, FLAG)), [0, 1]);
    assert_eq!([0, 1].map(|hart| word(&replay, hart, DATA)), [0, 0]);
}

#[test]
fn a_hart_that_comes_to_its_early_write_sees_it() {
    // The second write of the first thread is early; the second thread fails only when it has seen that and the third.
    let writer: &[&str] = &[
        "addi t0, x0, 1",
        "sw t0, 0(a0)",
        "sw t0, 0(a1)",
        "fence rw, rw",
        "addi t0, x0, 2",
        "sw t0, 0(a1)",
    ];
    let reader: &[&str] = &[
        "lw t1, 0(a1)",
        "addi t3, x0, 1",
        "bne t1, t3, end",
        "fence rw, rw",
        "lw t2, 0(a0)",
        "bne t2, x0, end",
        "fence rw, rw",
        "lw t1, 0(a1)",
        "beq t1, t3, end",
        "ebreak",
    ];
    let failure = failure(&program(&[writer, reader], &[]));
    let early = failure.steps.iter().position(|step| step.early);
    let early = early.expect("the reader's fence leaves no other way");
    let mut replay = Replay::new(failure.execution);
    let mut views = Vec::new();
    while replay.forward() {
        let moment = replay.last().expect("a moment");
        if moment.step == Some(early) {
            views.push((moment.inst.is_some(), word(&replay, 0, FLAG)));
        }
    }
    assert_eq!(views, [(false, 0), (true, 1)]);
    assert_eq!(replay.early(0).count(), 0);
    assert_eq!([0, 1].map(|hart| word(&replay, hart, FLAG)), [2, 2]);
}

#[test]
fn a_failing_check_is_one_more_hart() {
    let check = &["lw t1, 0(a0)", "beq t1, x0, end", "ebreak"];
    let failure = failure(&program(&[WRITER, &["addi t0, x0, 1"]], check));
    assert_eq!(failure.kind, Kind::Check);
    let mut replay = Replay::new(failure.execution);
    assert_eq!(replay.harts().len(), 3);
    while replay.forward() {}
    assert_eq!(replay.last().map(|moment| moment.hart), Some(2));
    assert_eq!(word(&replay, 2, DATA), 1);
    assert!(
        replay
            .instruction(2)
            .is_some_and(|inst| inst.op == loiter_isa::Op::Ebreak)
    );
}

#[test]
fn what_is_no_memory_is_not_read() {
    let failure = failure(&program(&[WRITER, READER], &[]));
    let replay = Replay::new(failure.execution);
    assert_eq!(replay.read(0, FLAG + 12, &mut [0; 8]), 4);
    assert_eq!(replay.read(0, 0, &mut [0; 8]), 0);
}
