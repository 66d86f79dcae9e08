//! Hosts on timing cores in snapshots, with what is in flight.

use std::path::Path;

use super::file::VmFile;
use super::host::{Host, Progress};
use super::result::VmResult;
use super::testing::{FREE, SLICE, VERDICT, YIELDS, file, host_on, machine, run};
use super::timed_tests::followed;

/// One of every kind of core and of memory: write-through, a bus, a directory without and with clusters of cores, and one
/// second level for all.
const MACHINES: [&str; 7] = ["t1", "t2", "symmetry", "opteron48", "knl", "p-core", "smt8"];

/// Four harts take a lock, by lr and sc, an atomic and a store, 60 times each, and multiply and divide; hart 0 comes to the
/// [`VERDICT`].
const SHARES: &str = "auipc s0, 16
    lui s4, 1
    add s4, s4, s0
    li s2, 60
    take: lr.d t0, (s0)
    bnez t0, take
    li t1, 1
    sc.d t2, t1, (s0)
    bnez t2, take
    ld t3, 8(s0)
    addi t3, t3, 1
    mul t4, t3, s2
    divu t4, t4, s2
    bne t3, t4, wrong
    sd t3, 8(s0)
    fence rw, rw
    sd x0, 0(s0)
    amoadd.d t5, t1, (s4)
    pause
    addi s2, s2, -1
    bnez s2, take
    bnez a0, stay
    li t1, 240
    wait: ld t3, 0(s4)
    bne t3, t1, wait
    ld t3, 8(s0)
    bne t3, t1, wrong";

/// Walks through 32 KiB in steps of a line, loads, stores, and divides in floating point (`fcvt.d.l ft0, t2` and `fdiv.d ft1, ft1, ft0`), for
/// ever.
const WALKS: &str = "auipc s0, 16
    lui t0, 6
    csrw 0x300, t0
    again: lui t1, 8
    add t1, s0, t1
    mv t0, s0
    step: ld t2, 0(t0)
    addi t2, t2, 1
    sd t2, 0(t0)
    .word 0xd2238053
    .word 0x1a0080d3
    addi t0, t0, 64
    bltu t0, t1, step
    j again";

/// Naps until a line changes, which it never does, for a time.
const NAPS: &str = "auipc s0, 16
    nap: lr.d t0, (s0)
    wrs.sto
    addi s1, s1, 1
    j nap";

/// Sleeps until its timer says that 150 ticks have passed, again and again.
const TICKS: &str = "lui s0, 0x2004
    lui s1, 0x200c
    li t0, 128
    csrw 0x304, t0
    again: ld t0, -8(s1)
    addi t0, t0, 150
    sd t0, 0(s0)
    wfi
    addi s2, s2, 1
    j again";

const GUESTS: [(u64, &str); 5] = [(4, ""), (5, ""), (2, ""), (1, ""), (1, "")];

/// The host of `file` whose guests run these.
fn host_of(name: Option<&str>, file: VmFile) -> Host {
    let shares = format!("{SHARES}\n{VERDICT}");
    host_on(name, file, &[&shares, WALKS, NAPS, TICKS, YIELDS])
}

fn host(name: &str) -> Host {
    let run_us = 4 * SLICE;
    let lines = "switch_cycles = 70\ncall_cycles = 30";
    // As many as take contexts of several cores, if there are.
    let cpus = machine(name).harts().min(9) as u64;
    host_of(Some(name), file(cpus, run_us, lines, "", &GUESTS))
}

/// All that is found out, and the state that the guests can see.
fn all_of(host: &mut Host) -> String {
    let VmResult {
        cycles,
        guests,
        vcpus,
        cpus,
        waits,
        timed,
        ..
    } = run(host);
    assert!(timed.as_ref().is_some_and(|it| !it.counters.is_empty()));
    serde_json::to_string(&(cycles, guests, vcpus, cpus, waits, timed)).unwrap()
}

/// Runs to the end and saves now and then. Returns what came of it, and how many of the snapshots have something in flight in
/// memory, and a virtual CPU that is about to leave.
fn saves(name: &str, path: impl Fn(usize) -> String, count: usize) -> (String, [usize; 2]) {
    let mut host = host(name);
    let mut found = [0; 2];
    for n in 0..count {
        for _ in 0..7 + n % 3 {
            assert_eq!(host.turn().unwrap(), Progress::Running, "{name}");
        }
        let timing = host.timing.as_ref().unwrap();
        found[0] += usize::from(timing.memory.next() != loiter_types::Cycle::NEVER);
        found[1] += usize::from(!timing.leaving.is_empty());
        host.save(&path(n)).unwrap();
    }
    (all_of(&mut host), found)
}

#[test]
fn a_host_goes_on_with_all_that_its_cores_have_in_flight() {
    const COUNT: usize = 24;
    let folder = tempfile::tempdir().unwrap();
    let path = |n: usize| folder.path().join(format!("{n}")).display().to_string();
    let mut found = [0; 2];
    for name in MACHINES {
        let whole = all_of(&mut host(name));
        let (saved, in_flight) = saves(name, path, COUNT);
        assert_eq!(saved, whole, "{name}: saving changes it");
        for (sum, n) in found.iter_mut().zip(in_flight) {
            *sum += n;
        }
        for n in 0..COUNT {
            let mut restored = host(name);
            restored.restore(&path(n)).unwrap();
            assert!(restored.timing.as_ref().unwrap().is_attached(), "{name}");
            let path = path(COUNT);
            restored.save(&path).unwrap();
            let differs = all_of(&mut restored) != whole;
            assert!(!differs, "{name}: snapshot {n} goes on otherwise");
        }
    }
    assert!(found[0] > 3 * COUNT && found[1] > 0, "{found:?}");
}

#[test]
fn other_cores_cannot_go_on_with_what_is_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half");
    let path = path.to_str().unwrap();
    let mut saved = host("t1");
    for _ in 0..9 {
        saved.turn().unwrap();
    }
    saved.save(path).unwrap();
    let message = host("knl").restore(path).unwrap_err().to_string();
    let expected = "it has work in flight in timing cores of t1, and host.machine is knl";
    assert!(message.contains(expected), "{message}");
    let mut none = host_of(None, saved.file.clone());
    let message = none.restore(path).unwrap_err().to_string();
    assert!(message.contains("host.machine is none"), "{message}");
    assert!(Path::new(path).exists());
}

/// A host with guests whose locks are followed, on the reference engine or on timing cores.
fn follows(name: Option<&str>) -> Host {
    let file = file(3, 20 * SLICE, FREE, "", &[(2, ""), (3, "")]);
    let systems = vec![(followed(2, 90), false), (followed(3, 70), false)];
    let machine = name.map(machine);
    Host::new(file, systems, machine.as_ref()).expect("guests that fit")
}

#[test]
fn what_is_known_of_the_locks_of_guests_is_in_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half");
    let path = path.to_str().unwrap();
    for name in [None, Some("t1"), Some("knl")] {
        let of = |host: &mut Host| {
            let result = run(host);
            let waited: u64 = result.vcpus.iter().map(|row| row.spinning_cycles).sum();
            let acquired = result.guests.iter().flat_map(|guest| &guest.locks);
            let acquired: u64 = acquired.map(|row| row.acquisitions).sum();
            let rows = serde_json::to_string(&(&result.guests, &result.vcpus)).unwrap();
            (rows, waited, acquired)
        };
        let whole = of(&mut follows(name));
        assert_eq!(whole.2, 2 * 90 + 3 * 70, "{name:?}");
        assert!(whole.1 > 0, "{name:?}: nobody waits");
        let mut host = follows(name);
        for _ in 0..20 {
            assert_eq!(host.turn().unwrap(), Progress::Running, "{name:?}");
        }
        host.save(path).unwrap();
        let before = host.result().unwrap();
        let locks = before.guests.iter().flat_map(|guest| &guest.locks);
        let before: u64 = locks.map(|row| row.acquisitions).sum();
        assert!((1..whole.2).contains(&before), "{name:?}: {before}");
        let mut restored = follows(name);
        restored.restore(path).unwrap();
        assert_eq!(of(&mut restored), whole, "{name:?}");
    }
}
