use std::fs;
use std::path::Path;
use std::process::Command;

use loiter_isa::Width;
use loiter_types::{HartId, PhysAddr};

use super::touched::touched;
use super::*;
use crate::map::PAGE_BYTES;
use crate::ram::Ram;
use crate::testing::{self, Random};
use crate::{CodeWrite, MachineConfig, RAM_BASE, WatchState};

const WINDOW_BYTES: u64 = ram::WINDOW_BYTES as u64;
/// Three windows, the last of one page.
const RAM_BYTES: u64 = 2 * WINDOW_BYTES + PAGE_BYTES;

pub(super) fn header(ram_bytes: u64) -> Header {
    let config = MachineConfig {
        ram_bytes,
        ..testing::config()
    };
    Header {
        loiter: "0.0.7".into(),
        description: "at the prompt".into(),
        machine: "virt".into(),
        machine_hash: "ab12".into(),
        hardware: Hardware::from(&config),
        cycle: 12_345,
        instructions: 678,
        state_hash: StateHash(0x1234 << 100),
        booted: vec![FileIdentity {
            role: "kernel".into(),
            name: "Image".into(),
            bytes: 3,
            hash: "sha256:cd34".into(),
        }],
        disks: Vec::new(),
    }
}

fn ram(writes: &[(u64, u64)]) -> Ram {
    let mut ram = Ram::new(RAM_BYTES).unwrap();
    write(&mut ram, writes);
    ram
}

fn write(ram: &mut Ram, writes: &[(u64, u64)]) {
    for &(offset, value) in writes {
        assert!(ram.write(PhysAddr(RAM_BASE + offset), Width::D, value));
    }
}

fn hash(ram: &Ram) -> StateHash {
    let mut hasher = StateHasher::new();
    hasher.ram(ram.as_slice());
    hasher.finish()
}

fn save(ram: &Ram, path: &Path) {
    let mut writer = SnapshotWriter::new(header(ram.bytes()));
    writer.ram(ram).unwrap();
    writer.write(path).unwrap();
}

/// First and last bytes of RAM, both sides of a border between windows, and lonely pages.
const EDGES: [(u64, u64); 6] = [
    (0, 1),
    (WINDOW_BYTES - 8, u64::MAX),
    (WINDOW_BYTES, 3),
    (WINDOW_BYTES + 5 * PAGE_BYTES, 1 << 63),
    (2 * WINDOW_BYTES - 8, 5),
    (RAM_BYTES - 8, 0xff << 56),
];

#[test]
fn ram_comes_back_whatever_was_there_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ram.snapshot");
    let saved = ram(&EDGES);
    save(&saved, &path);
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(*snapshot.header(), header(RAM_BYTES));
    assert_eq!(snapshot.sections().len(), 3);
    let strangers = [(0, 9), (7 * PAGE_BYTES, 9), (WINDOW_BYTES + 64, 9)];
    for before in [&[][..], &EDGES[..], &strangers[..]] {
        let mut restored = ram(before);
        snapshot.restore_ram(&mut restored).unwrap();
        assert!(restored.as_slice() == saved.as_slice());
        assert_eq!(hash(&restored), hash(&saved));
    }
}

#[test]
fn a_window_of_zeroes_has_no_section_and_is_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ram.snapshot");
    let saved = ram(&[(8, 1), (WINDOW_BYTES, 1), (WINDOW_BYTES, 0)]);
    save(&saved, &path);
    let snapshot = Snapshot::open(&path).unwrap();
    let sections: Vec<_> = snapshot
        .sections()
        .iter()
        .map(|section| &*section.name)
        .collect();
    assert_eq!(sections, ["ram.00000"]);
    assert_eq!(
        snapshot.sections()[0].bytes,
        128 + PAGE_BYTES,
        "bitmap and one page"
    );
    let mut restored = ram(&EDGES);
    snapshot.restore_ram(&mut restored).unwrap();
    assert!(restored.as_slice() == saved.as_slice());
}

#[test]
fn the_same_contents_give_the_same_bytes_and_hash_however_they_came_about() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    let first = ram(&EDGES);
    let mut second = ram(&[(WINDOW_BYTES + 9 * PAGE_BYTES, 7), (3 * PAGE_BYTES, 7)]);
    assert_ne!(hash(&first), hash(&second));
    write(
        &mut second,
        &[(WINDOW_BYTES + 9 * PAGE_BYTES, 0), (3 * PAGE_BYTES, 0)],
    );
    for edge in EDGES.iter().rev() {
        write(&mut second, &[*edge]);
    }
    assert_eq!(hash(&first), hash(&second));
    save(&first, &one);
    save(&second, &two);
    assert!(fs::read(one).unwrap() == fs::read(two).unwrap());
}

#[test]
fn the_hash_tells_where_a_value_is_and_how_large_ram_is() {
    let mut seen = std::collections::BTreeSet::new();
    for page in 0..RAM_BYTES / PAGE_BYTES {
        assert!(
            seen.insert(hash(&ram(&[(page * PAGE_BYTES, 1)]))),
            "page {page}"
        );
    }
    assert!(seen.insert(hash(&ram(&[]))));
    assert!(seen.insert(hash(&Ram::new(RAM_BYTES + PAGE_BYTES).unwrap())));
}

#[test]
fn the_hash_of_states_tells_parts_apart() {
    let of = |parts: &[&str]| {
        let mut hasher = StateHasher::new();
        for part in parts {
            hasher.state("part", part).unwrap();
        }
        hasher.finish()
    };
    assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
    assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
    assert_ne!(of(&["ab", "c"]), of(&["c", "ab"]));
    let text = StateHash(0x1f).to_string();
    assert_eq!(text, "0000000000000000000000000000001f");
}

#[test]
fn who_has_read_ahead_hears_of_restored_ram() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ram.snapshot");
    let mut machine = testing::machine();
    let mut writer = SnapshotWriter::new(header(machine.ram.bytes()));
    writer.ram(&machine.ram).unwrap();
    writer.write(&path).unwrap();
    let (code, table) = (testing::ram(0), testing::ram(PAGE_BYTES));
    machine.pages.mark_code(code);
    machine.pages.mark_table(HartId(1), table);
    machine.watches.arm(HartId(1), table);
    let before = machine.pages.news(HartId(1)).tables;
    machine
        .restore_ram(&Snapshot::open(&path).unwrap())
        .unwrap();
    let writes = machine.pages.take_code_writes();
    let whole = [CodeWrite {
        addr: code,
        bytes: PAGE_BYTES,
    }];
    assert_eq!(writes, whole);
    assert_ne!(machine.pages.news(HartId(1)).tables, before);
    assert_eq!(machine.watches.state(HartId(1)), WatchState::Lost);
}

#[test]
fn large_ram_is_neither_read_nor_touched_where_nothing_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.snapshot");
    let large = 64 << 30;
    let mut saved = Ram::new(large).unwrap();
    write(&mut saved, &[(0, 1), (large - 8, 2)]);
    save(&saved, &path);
    let mut restored = Ram::new(large).unwrap();
    let snapshot = Snapshot::open(&path).unwrap();
    snapshot.restore_ram(&mut restored).unwrap();
    assert_eq!(hash(&restored), hash(&saved));
    for ram in [&saved, &restored] {
        let count = touched(ram.as_slice())
            .iter()
            .filter(|&&touched| touched)
            .count();
        // Two, or as many as the host gives at once for each: at most 32 MiB on any Linux.
        assert!(
            (2..=2 * (32 << 20) / PAGE_BYTES as usize).contains(&count),
            "{count}"
        );
    }
}

#[test]
fn sections_and_states_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sections.snapshot");
    let mut random = Random(7);
    let noise: Vec<u8> = (0..100_000).map(|_| random.below(256) as u8).collect();
    let mut writer = SnapshotWriter::new(header(RAM_BYTES));
    writer.section("noise", &noise).unwrap();
    writer.section("nothing", b"").unwrap();
    writer.state("numbers", &vec![u64::MAX, 0, 1]).unwrap();
    let bytes = writer.write(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    let snapshot = Snapshot::open(&path).unwrap();
    assert_eq!(snapshot.section("noise").unwrap(), noise);
    assert_eq!(snapshot.section("nothing").unwrap(), b"");
    assert_eq!(
        snapshot.state::<Vec<u64>>("numbers").unwrap(),
        [u64::MAX, 0, 1]
    );
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.snapshot");
    save(&ram(&EDGES), &path);
    let kept = fs::read(&path).unwrap();
    let mut writer = SnapshotWriter::new(header(RAM_BYTES));
    writer.section("new", b"new").unwrap();
    let nowhere = folder.path().join("missing").join("x");
    let message = writer.write(&nowhere).unwrap_err().to_string();
    assert!(
        message.contains("missing/x: the snapshot cannot be written: No such file"),
        "{message}"
    );
    let message = writer.write(folder.path()).unwrap_err().to_string();
    assert!(
        message.contains("the snapshot cannot be written: Is a directory"),
        "{message}"
    );
    assert_eq!(fs::read(&path).unwrap(), kept);
    writer.write(&path).unwrap();
    assert_ne!(fs::read(&path).unwrap(), kept, "replaced");
    let names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["kept.snapshot"]);
}

const FULL_FOLDER: &str = "LOITER_TEST_FULL_FOLDER";

/// What [`a_full_disk_leaves_no_file`] runs in a process of its own.
#[test]
#[ignore = "run by another test"]
fn write_to_a_full_disk() {
    let folder = std::env::var(FULL_FOLDER).expect("run by another test");
    let mut random = Random(3);
    let noise: Vec<u8> = (0..1 << 20).map(|_| random.below(256) as u8).collect();
    let mut writer = SnapshotWriter::new(header(RAM_BYTES));
    writer.section("noise", &noise).unwrap();
    let error = writer
        .write(&Path::new(&folder).join("x.snapshot"))
        .unwrap_err();
    let SnapshotFault::Write(_) = error.fault else {
        panic!("{error}")
    };
}

/// A limit on the length of files stands for the full disk: the host refuses a write half way.
#[test]
fn a_full_disk_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let limited = "trap '' XFSZ; ulimit -f 256; exec \"$@\"";
    let output = Command::new("sh")
        .args(["-c", limited, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "snapshot::tests::write_to_a_full_disk",
        ])
        .env(FULL_FOLDER, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
