//! A system that was saved and restored continues as one that was not, bit for bit.

use std::path::PathBuf;
use std::time::Duration;

use loiter_sim::{
    BootRequest, Error, Limits, MachineFile, Request, Session, StateHash, Status, show_snapshot,
};
use tempfile::TempDir;

use crate::generator::{Settings, Target, generate};
use crate::machines::{MAX_CYCLES, Machine};

const HARTS: usize = 5;
/// Instructions between two looks at the state.
const EVERY: u64 = 100_000;
/// Host time for a step that ends by something else.
pub(crate) const FOREVER: Duration = Duration::from_secs(3600);

fn program(seed: u64) -> Vec<u8> {
    let settings = Settings {
        seed,
        harts: HARTS,
        blocks: 150,
        items: 60,
        target: Target::Loiter,
    };
    generate(settings).elf
}

/// A request for the machine that the programs run on, which boots nothing.
pub(crate) fn request(machine: Machine, cores: usize) -> BootRequest {
    let Request {
        machine_name,
        machine_toml,
        set,
        ..
    } = machine.request(cores);
    let text = serde_json::json!({
        "machine_name": machine_name,
        "machine_toml": machine_toml,
        "set": set,
        "firmware": "none",
        "kernel": "none",
    });
    serde_json::from_value(text).expect("a request")
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("s.snapshot")
    }

    fn name(&self) -> String {
        self.path().display().to_string()
    }
}

/// The program as a session on the reference engine.
fn start(elf: &[u8], folder: &Folder) -> Session {
    let path = folder.0.path().join("program.elf");
    std::fs::write(&path, elf).expect("a place for the program");
    let mut request = Machine::Virt.request(HARTS);
    request.program = path.display().to_string();
    Session::program(&request, elf).expect("a session")
}

/// What can be seen of a session as it continues.
#[derive(Debug, PartialEq)]
struct Stop {
    cycle: u64,
    instructions: u64,
    hash: StateHash,
    output: Vec<u8>,
}

/// Goes on for [`EVERY`] instructions. Returns nothing at the end of the program.
fn go_on(session: &mut Session) -> Option<Stop> {
    let status = session
        .step(
            FOREVER,
            &Limits {
                instructions: Some(session.instructions() + EVERY),
                ..Limits::default()
            },
        )
        .expect("no unhandled trap");
    let stop = Stop {
        cycle: session.cycle(),
        instructions: session.instructions(),
        hash: session.state_hash(),
        output: session.take_output(0),
    };
    assert!(stop.cycle < MAX_CYCLES, "it hangs");
    match status {
        Status::Reached => Some(stop),
        Status::Ended(exit) => {
            assert_eq!(exit.code, 0, "{}", exit.message);
            None
        }
        other => panic!("{other:?}"),
    }
}

fn to_end(session: &mut Session) -> Vec<Stop> {
    std::iter::from_fn(|| go_on(session)).collect()
}

#[test]
fn a_restored_system_continues_as_the_original() {
    let folder = Folder::new();
    let mut compared = 0;
    for seed in 0x600..0x604 {
        let elf = program(seed);
        let unbroken = to_end(&mut start(&elf, &folder));
        assert!(
            unbroken.len() > 3,
            "{seed:#x}: only {} stops",
            unbroken.len()
        );
        for at in [0, 1, unbroken.len() / 2, unbroken.len() - 1] {
            let mut session = start(&elf, &folder);
            (0..at).for_each(|_| drop(go_on(&mut session)));
            session.save(&folder.name(), "half way").expect("to save");
            let hash = session.state_hash();
            drop(session);
            let request = request(Machine::Virt, HARTS);
            let mut restored = Session::restore(&request, &folder.name()).expect("to restore");
            assert_eq!(restored.state_hash(), hash);
            let rest = to_end(&mut restored);
            assert_eq!(rest, unbroken[at..], "{seed:#x} from stop {at}");
            compared += rest.len();
        }
    }
    assert!(compared > 20, "only {compared} stops compared");
}

#[test]
fn the_hash_differs_from_stop_to_stop_and_from_program_to_program() {
    let folder = Folder::new();
    let mut hashes: Vec<_> = [0x600, 0x601]
        .into_iter()
        .flat_map(|seed| to_end(&mut start(&program(seed), &folder)))
        .map(|stop| stop.hash)
        .collect();
    let stops = hashes.len();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), stops);
}

/// What the machine file of `request` says of `key`.
fn value(request: &BootRequest, key: &str) -> String {
    let file =
        MachineFile::read("machine", &request.machine_toml, &request.set).expect("a machine");
    let mut parameters = file.describe().parameters.into_iter();
    let value = parameters
        .find(|parameter| parameter.key == key)
        .expect("a key")
        .value;
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The lines that a program has printed, in any order: cores decide which hart comes first.
fn lines(output: Vec<u8>) -> Vec<String> {
    let output = String::from_utf8(output).expect("text");
    let mut lines: Vec<_> = output.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn a_restored_system_continues_on_timed_cores() {
    let folder = Folder::new();
    let mut session = start(&program(0x605), &folder);
    let mut output = go_on(&mut session).expect("a longer program").output;
    session.save(&folder.name(), "").expect("to save");
    // The cores of another machine, for the hardware that the program was started on.
    let (virt, mut timed) = (request(Machine::Virt, HARTS), request(Machine::T1, 2));
    for key in [
        "system.clock_mhz",
        "hart.isa",
        "hart.mmu",
        "hart.watch_line_bytes",
        "system.timebase_hz",
    ] {
        timed.set.push(format!("{key}={}", value(&virt, key)));
    }
    timed.harts = Some(HARTS);
    let mut timed = Session::restore(&timed, &folder.name()).expect("to restore");
    let mut timed_output = output.clone();
    timed_output.extend(output_to_end(&mut timed));
    output.extend(output_to_end(&mut session));
    assert_eq!(lines(timed_output), lines(output));
}

/// Machines with timed cores, how many of these, and their contexts.
const TIMED: [(Machine, usize, usize); 6] = [
    (Machine::T1, 2, 8),
    (Machine::Smt8, 1, 8),
    (Machine::Opteron48, 6, 6),
    (Machine::Knl, 2, 8),
    (Machine::InOrder, 2, 8),
    (Machine::BigLittle, 2, 8),
];

/// A program on timed cores, from its beginning on or in phases, and the request of their machine.
fn start_timed(
    (machine, cores, harts): (Machine, usize, usize),
    folder: &Folder,
    phases: Option<&str>,
) -> (Session, BootRequest) {
    let settings = Settings {
        seed: 0x609,
        harts,
        blocks: 60,
        items: 40,
        target: Target::Loiter,
    };
    let path = folder.0.path().join("program.elf");
    let elf = generate(settings).elf;
    std::fs::write(&path, &elf).expect("a place for the program");
    let mut asked = machine.request(cores);
    asked.program = path.display().to_string();
    asked.phases = phases.map(str::to_owned);
    let session = Session::program(&asked, &elf).expect("a session");
    assert_eq!(session.instructions_by_hart().len(), harts, "{machine:?}");
    (session, request(machine, cores))
}

#[test]
fn a_system_on_timed_cores_is_saved_with_all_that_is_in_flight() {
    let folder = Folder::new();
    for on in TIMED {
        let (mut unbroken, request) = start_timed(on, &folder, None);
        assert!(unbroken.is_timed(), "{on:?}");
        let output = output_to_end(&mut unbroken);
        for quarter in 1..4 {
            let (mut session, _) = start_timed(on, &folder, None);
            let limits = Limits {
                instructions: Some(unbroken.instructions() * quarter / 4),
                ..Limits::default()
            };
            let status = session.step(FOREVER, &limits).expect("no unhandled trap");
            assert!(matches!(status, Status::Reached), "{on:?}: {status:?}");
            let mut said = session.take_output(0);
            session.save(&folder.name(), "half way").expect("to save");
            let (cycle, hash) = (session.cycle(), session.state_hash());
            drop(session);
            let mut restored = Session::restore(&request, &folder.name()).expect("to restore");
            assert!(restored.is_timed(), "{on:?}");
            assert_eq!((restored.cycle(), restored.state_hash()), (cycle, hash));
            said.extend(output_to_end(&mut restored));
            assert_eq!(said, output, "{on:?}");
            assert_eq!(restored.state_hash(), unbroken.state_hash(), "{on:?}");
            assert_eq!(restored.statistics(), unbroken.statistics(), "{on:?}");
        }
    }
}

#[test]
fn what_earlier_phases_have_counted_is_saved_too() {
    let folder = Folder::new();
    for on in TIMED {
        let phases =
            "reference for 5000 cycles, timing for 20000 cycles, reference for 5000 cycles, timing";
        let (mut session, request) = start_timed(on, &folder, Some(phases));
        let limits = Limits {
            cycle: Some(50_000),
            ..Limits::default()
        };
        let status = session.step(FOREVER, &limits).expect("no unhandled trap");
        assert!(matches!(status, Status::Reached), "{on:?}: {status:?}");
        assert!(session.is_timed(), "{on:?}");
        let statistics = session.statistics();
        // As many as the cores have counted in both phases.
        let counted: u64 = statistics
            .timed
            .activities
            .iter()
            .map(|it| it.instructions)
            .sum();
        assert!(counted > 0, "{on:?}");
        assert_eq!(statistics.timing_instructions, counted, "{on:?}");
        session.save(&folder.name(), "").expect("to save");
        let mut restored = Session::restore(&request, &folder.name()).expect("to restore");
        assert_eq!(restored.statistics(), statistics, "{on:?}");
    }
}

#[test]
fn what_is_in_flight_in_timed_cores_ends_before_harts_leave_them() {
    let folder = Folder::new();
    for on in TIMED {
        let (mut session, mut request) = start_timed(on, &folder, None);
        let limits = Limits {
            cycle: Some(50_000),
            ..Limits::default()
        };
        let status = session.step(FOREVER, &limits).expect("no unhandled trap");
        assert!(matches!(status, Status::Reached), "{on:?}: {status:?}");
        session.save(&folder.name(), "").expect("to save");
        let mut output = session.take_output(0);
        request.untimed = true;
        let mut untimed = Session::restore(&request, &folder.name()).expect("to restore");
        assert!(!untimed.is_timed(), "{on:?}");
        let mut untimed_output = output.clone();
        untimed_output.extend(output_to_end(&mut untimed));
        output.extend(output_to_end(&mut session));
        assert_eq!(lines(untimed_output), lines(output), "{on:?}");
    }
}

#[test]
fn what_is_in_flight_needs_the_same_machine() {
    let folder = Folder::new();
    let (session, mut request) = start_timed(TIMED[0], &folder, None);
    session.save(&folder.name(), "").expect("to save");
    request.set.push("l2.miss_latency_cycles=333".into());
    let error = Session::restore(&request, &folder.name())
        .err()
        .expect("other cores");
    assert!(
        matches!(&error, Error::User(message) if message.contains(
            "it has work in flight in timing cores of t1, and ours is other parameters of it"
        )),
        "{error}"
    );
}

fn output_to_end(session: &mut Session) -> Vec<u8> {
    match session
        .step(FOREVER, &Limits::default())
        .expect("no unhandled trap")
    {
        Status::Ended(exit) => assert_eq!(exit.code, 0, "{}", exit.message),
        other => panic!("{other:?}"),
    }
    session.take_output(0)
}

#[test]
fn a_snapshot_says_what_it_is_of() {
    let folder = Folder::new();
    let mut session = start(&program(0x606), &folder);
    go_on(&mut session);
    let bytes = session.save(&folder.name(), "half way").expect("to save");
    let shown = show_snapshot(&folder.name()).expect("to be read");
    assert_eq!(shown.bytes, bytes);
    let header = shown.header;
    assert_eq!(header.description, "half way");
    assert_eq!(header.machine, "virt");
    assert_eq!(
        (header.cycle, header.hardware.harts),
        (session.cycle(), HARTS)
    );
    assert_eq!(header.instructions, session.instructions());
    assert_eq!(header.state_hash, session.state_hash());
    let [program] = &header.booted[..] else {
        panic!("{:?}", header.booted)
    };
    assert_eq!((&*program.role, &*program.name), ("program", "program.elf"));
    assert!(program.hash.starts_with("sha256:"));
    let names: Vec<_> = shown
        .sections
        .iter()
        .map(|section| &*section.name)
        .collect();
    assert_eq!(names[..3], ["request", "system", "machine"]);
    assert!(names.len() > 3, "no RAM");
}

#[test]
fn on_another_clock_time_continues_where_it_stood() {
    let folder = Folder::new();
    let mut session = start(&program(0x608), &folder);
    go_on(&mut session).expect("more to come");
    session.save(&folder.name(), "").expect("to save");
    let mut request = request(Machine::Virt, HARTS);
    request.set.push("system.clock_mhz=500".into());
    let mut slower = Session::restore(&request, &folder.name()).expect("to be restored");
    assert_eq!(slower.cycle(), session.cycle() / 2);
    assert_eq!(slower.instructions(), session.instructions());
    // The program checks what it computes, and fails when that is wrong.
    assert!(to_end(&mut slower).len() > 3);
}

#[test]
fn other_machines_are_refused() {
    let folder = Folder::new();
    let session = start(&program(0x607), &folder);
    session.save(&folder.name(), "").expect("to save");
    let refusal = |change: &dyn Fn(&mut BootRequest)| {
        let mut request = request(Machine::Virt, HARTS);
        change(&mut request);
        match Session::restore(&request, &folder.name()) {
            Err(Error::User(message)) => message,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("restored"),
        }
    };
    let message = refusal(&|request| request.harts = Some(2));
    assert!(
        message.contains("s.snapshot: a snapshot of another machine: its harts is 5, ours is 2"),
        "{message}"
    );
    let message = refusal(&|request| request.set.push("system.ram_mib=64".into()));
    assert!(
        message.contains("its ram_bytes is 134217728, ours is 67108864"),
        "{message}"
    );
    let message = refusal(&|request| request.set.push("hart.isa=-zawrs".into()));
    assert!(message.contains("its isa is"), "{message}");
    let message = refusal(&|request| {
        let disk = serde_json::json!({"bytes": 512});
        request
            .disks
            .push(serde_json::from_value(disk).expect("a disk"));
    });
    assert!(message.contains("its disks is 0, ours is 1"), "{message}");
}

/// A boot of files that are just good enough to be loaded, with a disk.
fn boot_request(folder: &Folder) -> BootRequest {
    const NOP: [u8; 4] = [0x13, 0, 0, 0];
    let mut kernel = vec![0; 64];
    kernel[56..60].copy_from_slice(b"RSC\x05");
    let mut request = request(Machine::Virt, 2);
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.0.path().join(name);
        std::fs::write(&path, bytes).expect("a place for a file");
        path.display().to_string()
    };
    request.firmware = file("fw.bin", &NOP.repeat(64));
    request.kernel = file("Image", &kernel);
    let disk = serde_json::json!({"path": file("disk.img", &[7; 8192])});
    request.disks = vec![serde_json::from_value(disk).expect("a disk")];
    request
}

#[test]
fn a_booted_system_is_restored_with_its_disk_and_no_other() {
    let folder = Folder::new();
    let request = boot_request(&folder);
    let session = Session::boot(&request).expect("a boot");
    session.save(&folder.name(), "").expect("to save");
    let header = show_snapshot(&folder.name()).expect("to be read").header;
    let roles: Vec<_> = header
        .booted
        .iter()
        .map(|file| (&*file.role, &*file.name))
        .collect();
    assert_eq!(roles, [("firmware", "fw.bin"), ("kernel", "Image")]);
    std::fs::remove_file(&request.kernel).expect("to remove what is not needed any more");
    let restored = Session::restore(&request, &folder.name()).expect("to restore");
    assert_eq!(restored.state_hash(), session.state_hash());
    restored.save(&folder.name(), "again").expect("to save");
    let again = show_snapshot(&folder.name()).expect("to be read").header;
    assert_eq!(again.booted, header.booted);
    let error = session
        .save(&folder.name(), "")
        .expect_err("the kernel is gone");
    assert!(
        error.to_string().contains("Image: cannot be read any more"),
        "{error}"
    );
    let path = request.disks[0].path.as_deref().expect("a file");
    std::fs::write(path, [8; 8192]).expect("to change the disk");
    let Err(error) = Session::restore(&request, &folder.name()) else {
        panic!("restored with another disk")
    };
    let words = "another machine: its disk vda is disk.img of 8192 bytes, sampled-xxh3:";
    assert!(error.to_string().contains(words), "{error}");
}
