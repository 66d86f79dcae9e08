//! Every way in which a snapshot can be no good has its message, and none goes unnoticed.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::directory::{Directory, MAX_SECTION_BYTES, PREFACE_BYTES, VERSION, checksum};
use super::tests::header;
use super::*;
use crate::ram::Ram;
use crate::testing::{self, RAM_BYTES};
use crate::{MachineConfig, RAM_BASE};
use loiter_isa::Width;
use loiter_types::PhysAddr;

struct File {
    _folder: TempDir,
    path: PathBuf,
    bytes: Vec<u8>,
}

/// A good snapshot: a page of RAM and a state.
fn good() -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.snapshot");
    let mut ram = Ram::new(RAM_BYTES).unwrap();
    assert!(ram.write(PhysAddr(RAM_BASE + 8192), Width::D, 77));
    let mut writer = SnapshotWriter::new(header(RAM_BYTES));
    writer.state("numbers", &vec![1, 2, 3]).unwrap();
    writer.ram(&ram).unwrap();
    writer.write(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    File {
        _folder: folder,
        path,
        bytes,
    }
}

/// Reads everything that there is.
fn read(path: &Path) -> Result<(), SnapshotFault> {
    let read = || {
        let snapshot = Snapshot::open(path)?;
        snapshot.state::<Vec<u64>>("numbers")?;
        snapshot.restore_ram(&mut Ram::new(RAM_BYTES).unwrap())
    };
    read().map_err(|error: SnapshotError| error.fault)
}

impl File {
    fn with(&self, bytes: &[u8]) -> Result<(), SnapshotFault> {
        fs::write(&self.path, bytes).unwrap();
        read(&self.path)
    }

    /// The message about a file of these bytes.
    fn refusal(&self, bytes: &[u8]) -> String {
        self.with(bytes).unwrap_err().to_string()
    }

    /// The directory, changed and sound again, with the sections behind it.
    fn with_directory(&self, change: impl FnOnce(&mut Directory, &mut Vec<u8>)) -> String {
        let length = u32::from_le_bytes(self.bytes[12..16].try_into().unwrap()) as usize;
        let (start, sections) = self.bytes.split_at(PREFACE_BYTES + length);
        let mut directory = serde_json::from_slice(&start[PREFACE_BYTES..]).unwrap();
        let mut sections = sections.to_vec();
        change(&mut directory, &mut sections);
        self.refusal(&[directory.encode().unwrap(), sections].concat())
    }

    /// The RAM section, changed and sound again.
    fn with_window(&self, window: &[u8]) -> String {
        self.with_directory(|directory, sections| {
            let [numbers, ram] = &mut directory.sections[..] else {
                panic!("two sections")
            };
            let stored = zstd::bulk::compress(window, 1).unwrap();
            sections.truncate(numbers.stored_bytes as usize);
            sections.extend_from_slice(&stored);
            ram.stored_bytes = stored.len() as u64;
            ram.bytes = window.len() as u64;
            ram.xxh3 = checksum(&stored);
        })
    }
}

#[track_caller]
fn assert_says(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
}

#[test]
fn the_good_one_is_good() {
    let file = good();
    file.with(&file.bytes).unwrap();
}

#[test]
fn every_truncation_is_refused() {
    let file = good();
    for length in 0..file.bytes.len() {
        let message = file.refusal(&file.bytes[..length]);
        let expected = match length {
            0 => "it is empty",
            1..8 => "not a snapshot",
            _ => "truncated: ",
        };
        assert_says(&message, &[expected]);
    }
    assert_says(
        &file.refusal(&file.bytes[..file.bytes.len() - 1]),
        &[
            "section \"ram.00000\" ends at byte",
            "copy it again or take a new snapshot",
        ],
    );
    assert_says(&file.refusal(&file.bytes[..30]), &["its directory ends at"]);
    assert_says(
        &file.refusal(&file.bytes[..23]),
        &["its preface ends at byte 24", "only 23"],
    );
}

#[test]
fn every_changed_byte_is_noticed() {
    let file = good();
    let mut bytes = file.bytes.clone();
    for at in 0..bytes.len() {
        for change in [1, 0x80] {
            bytes[at] ^= change;
            let fault = file.with(&bytes).unwrap_err();
            let expected = match at {
                0..8 => matches!(fault, SnapshotFault::NotASnapshot { .. }),
                8..12 => matches!(fault, SnapshotFault::Version { .. }),
                12..16 => matches!(
                    fault,
                    SnapshotFault::Truncated { .. } | SnapshotFault::Damaged(_)
                ),
                _ => matches!(fault, SnapshotFault::Damaged(_)),
            };
            assert!(expected, "byte {at}: {fault}");
            bytes[at] ^= change;
        }
    }
}

#[test]
fn bytes_after_the_end_are_noticed() {
    let file = good();
    let message = file.refusal(&[&file.bytes[..], b"xy"].concat());
    assert_says(&message, &["damaged: it has 2 bytes after its end"]);
}

#[test]
fn other_files_are_called_what_they_are() {
    let file = good();
    assert_says(
        &file.refusal(b"\x7fELF\x02\x01"),
        &["not a snapshot (it is an ELF file)", "loiter snapshot save"],
    );
    assert_says(&file.refusal(b"[machine]\n"), &["it is a text file"]);
    let message = Snapshot::open(file.path.parent().unwrap())
        .unwrap_err()
        .to_string();
    assert_says(&message, &["it is a folder"]);
    let missing = file.path.with_extension("none");
    let message = Snapshot::open(&missing).unwrap_err().to_string();
    assert_says(
        &message,
        &["s.none: the snapshot cannot be read: No such file"],
    );
}

#[test]
fn other_versions_are_refused_either_way() {
    let file = good();
    let mut bytes = file.bytes.clone();
    bytes[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    assert_says(
        &file.refusal(&bytes),
        &["of format 2", "reads format 1", "use a newer loiter"],
    );
    bytes[8..12].copy_from_slice(&(VERSION - 1).to_le_bytes());
    assert_says(
        &file.refusal(&bytes),
        &["of format 0", "take a new snapshot"],
    );
}

#[test]
fn missing_sections_are_named() {
    let file = good();
    let message = file.with_directory(|directory, _| directory.sections[0].name = "harts".into());
    assert_says(
        &message,
        &[
            "section \"numbers\" is missing (there are harts, RAM)",
            "(0.0.7)",
        ],
    );
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Before {
    pc: u64,
    wait: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    pc: u64,
    sleep: u64,
}

#[test]
fn states_of_another_layout_are_refused_by_the_field() {
    let file = good();
    let mut writer = SnapshotWriter::new(header(RAM_BYTES));
    writer.state("hart", &Before { pc: 1, wait: 2 }).unwrap();
    writer.section("long", &[1, 1]).unwrap();
    writer.write(&file.path).unwrap();
    let snapshot = Snapshot::open(&file.path).unwrap();
    assert_eq!(snapshot.state::<Before>("hart").unwrap().wait, 2);
    let message = snapshot.state::<After>("hart").unwrap_err().to_string();
    assert_says(
        &message,
        &[
            "section \"hart\"",
            "unknown field `wait`",
            "loiter 0.0.7 wrote it",
        ],
    );
    let message = snapshot.state::<u64>("long").unwrap_err().to_string();
    assert_says(&message, &["1 bytes follow it"]);
}

#[test]
fn other_machines_are_refused_by_what_differs() {
    let file = good();
    let snapshot = Snapshot::open(&file.path).unwrap();
    let config = testing::config();
    snapshot.fits(&Hardware::from(&config)).unwrap();
    let other = MachineConfig {
        harts: 8,
        ram_bytes: 2 * RAM_BYTES,
        bootargs: "anything".into(),
        ..config
    };
    let message = snapshot
        .fits(&Hardware::from(&other))
        .unwrap_err()
        .to_string();
    let words = [
        "its harts is 3, ours is 8",
        "its ram_bytes is 1048576, ours is 2097152",
        "machine like its own",
    ];
    assert_says(&message, &words);
    assert!(!message.contains("isa"), "{message}");
    let mut large = Ram::new(2 * RAM_BYTES).unwrap();
    let message = snapshot.restore_ram(&mut large).unwrap_err().to_string();
    assert_says(&message, &["its RAM has 1048576 bytes, ours 2097152"]);
}

#[test]
fn sound_checksums_do_not_excuse_nonsense() {
    let file = good();
    let message = file.with_directory(|directory, _| directory.sections[0].bytes += 1);
    assert_says(
        &message,
        &["\"numbers\" does not decompress to the 5 bytes"],
    );
    let message = file.with_directory(|directory, _| directory.sections[0].bytes -= 1);
    assert_says(
        &message,
        &["\"numbers\" does not decompress to the 3 bytes"],
    );
    let message = file.with_directory(|directory, _| directory.sections[0].stored_bytes = u64::MAX);
    assert_says(&message, &["\"numbers\" has an impossible length"]);
    let message =
        file.with_directory(|directory, _| directory.sections[0].bytes = MAX_SECTION_BYTES + 1);
    assert_says(&message, &["\"numbers\" has an impossible length"]);
    let message = file.with_directory(|directory, sections| {
        let stored = directory.sections[0].stored_bytes as usize;
        sections[..stored].fill(0);
        directory.sections[0].xxh3 = checksum(&sections[..stored]);
    });
    assert_says(&message, &["\"numbers\" cannot be decompressed"]);
    let message =
        file.with_directory(|directory, _| directory.sections[1].name = "ram.00001".into());
    assert_says(&message, &["\"ram.00001\" lies beyond the end of RAM"]);
    let message = file.with_directory(|directory, sections| {
        let twin = directory.sections[1].clone();
        let start = sections.len() - twin.stored_bytes as usize;
        sections.extend_from_within(start..);
        directory.sections.push(twin);
    });
    assert_says(&message, &["\"ram.00000\" is too long or there twice"]);
}

#[test]
fn windows_have_the_pages_of_their_bitmap() {
    let file = good();
    let window = |listed: &[usize], pages: usize, more: usize| {
        let mut window = vec![0; 128];
        for page in listed {
            window[page / 8] |= 1 << (page % 8);
        }
        window.resize(128 + 4096 * pages + more, 1);
        window
    };
    let last = RAM_BYTES as usize / 4096 - 1;
    let cases: [(Vec<u8>, &str); 6] = [
        (vec![0; 127], "127 bytes are less than its bitmap"),
        (window(&[1, 2], 1, 0), "fewer pages than its bitmap"),
        (window(&[1, 2], 1, 4095), "fewer pages than its bitmap"),
        (
            window(&[1], 2, 0),
            "more bytes than the pages of its bitmap",
        ),
        (
            window(&[1], 1, 1),
            "more bytes than the pages of its bitmap",
        ),
        (window(&[last + 1], 1, 0), "pages beyond the end of RAM"),
    ];
    for (window, expected) in cases {
        assert_says(
            &file.with_window(&window),
            &["section \"ram.00000\"", expected],
        );
    }
    let whole = vec![0; 128 + 1024 * 4096 + 1];
    assert_says(&file.with_window(&whole), &["is too long or there twice"]);
}
