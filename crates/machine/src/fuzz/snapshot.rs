//! Snapshots: opened, their sections read, their RAM restored.

use std::fs;
use std::path::Path;

use bolero::{TypeGenerator, check, produce};
use loiter_isa::Width;
use xxhash_rust::xxh3::xxh3_64;

use super::changes::{Change, changed};
use super::{Reached, TIME};
use crate::snapshot::{Hardware, Header, Snapshot, SnapshotError, SnapshotWriter, StateHash};
use crate::testing::{self, config, machine};
use crate::{Machine, WatchesState};

/// Where a snapshot's directory begins, and the places of its length and checksum.
const PREFACE_BYTES: usize = 24;
const LENGTH_AT: usize = 12;
const CHECKSUM_AT: usize = 16;

/// What is changed, and whether the checksums are then made right again.
#[derive(Clone, Debug, TypeGenerator)]
enum Part {
    File,
    Directory,
    /// The contents of a section.
    Section(u8),
    /// A section as it is stored.
    Stored(u8),
}

/// A snapshot in parts: its directory and its sections, decompressed.
#[derive(Clone)]
struct Parts {
    directory: serde_json::Value,
    sections: Vec<Vec<u8>>,
}

impl Parts {
    fn split(path: &Path, directory: &[u8]) -> Self {
        let snapshot = Snapshot::open(path).unwrap();
        let names = snapshot.sections().iter().map(|section| &*section.name);
        let names: Vec<_> = names.collect();
        assert_eq!(names, ["watches", "ram.00000"]);
        Self {
            directory: serde_json::from_slice(directory).unwrap(),
            sections: names
                .iter()
                .map(|name| snapshot.section(name).unwrap())
                .collect(),
        }
    }

    /// The file with checksums and lengths of these parts; section `broken` is stored as `stored`.
    fn join(&self, stored: Option<(usize, &[u8])>) -> Vec<u8> {
        let mut directory = self.directory.clone();
        let mut behind = Vec::new();
        for (n, section) in self.sections.iter().enumerate() {
            let bytes = match stored {
                Some((broken, stored)) if broken == n => stored.to_vec(),
                _ => zstd::bulk::compress(section, 1).unwrap(),
            };
            let entry = &mut directory["sections"][n];
            entry["stored_bytes"] = bytes.len().into();
            entry["bytes"] = section.len().into();
            entry["xxh3"] = format!("{:016x}", xxh3_64(&bytes)).into();
            behind.extend(bytes);
        }
        sealed(directory.to_string().as_bytes(), &behind)
    }
}

/// A file with this directory, and a checksum that says so.
fn sealed(directory: &[u8], behind: &[u8]) -> Vec<u8> {
    let mut file = b"\x89LOITER\n\x01\0\0\0".to_vec();
    assert_eq!(file.len(), LENGTH_AT);
    file.extend((directory.len() as u32).to_le_bytes());
    assert_eq!(file.len(), CHECKSUM_AT);
    file.extend(xxh3_64(directory).to_le_bytes());
    [&file, directory, behind].concat()
}

fn write(path: &Path) -> Machine {
    let mut machine = machine();
    for page in [0, 3, 255] {
        let addr = testing::ram(page * 4096 + 8);
        assert!(machine.ram.write(addr, Width::D, page + 1));
    }
    machine
        .watches
        .arm(loiter_types::HartId(1), testing::ram(64));
    let mut writer = SnapshotWriter::new(Header {
        loiter: "0".into(),
        description: String::new(),
        machine: "virt".into(),
        machine_hash: String::new(),
        hardware: Hardware::from(&config()),
        cycle: 0,
        instructions: 0,
        state_hash: StateHash(0),
        booted: Vec::new(),
        disks: Vec::new(),
    });
    writer.state("watches", &machine.watches.save()).unwrap();
    writer.ram(&machine.ram).unwrap();
    writer.write(path).unwrap();
    machine
}

/// Reads all that there is into a machine.
fn read(path: &Path, reached: &Reached) -> Result<Machine, SnapshotError> {
    let snapshot = Snapshot::open(path)?;
    reached.stage(0);
    snapshot.fits(&Hardware::from(&config()))?;
    let watches: WatchesState = snapshot.state("watches")?;
    reached.stage(1);
    let mut machine = machine();
    machine.restore_ram(&snapshot)?;
    reached.stage(2);
    // Only nonsense is refused here, and the message has no file.
    let _ = machine.watches.restore(&watches);
    Ok(machine)
}

#[test]
fn snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.snapshot");
    let original = write(&path);
    let file = fs::read(&path).unwrap();
    let length = u32::from_le_bytes(*file[LENGTH_AT..].first_chunk().unwrap()) as usize;
    let (directory, behind) = file[PREFACE_BYTES..].split_at(length);
    let parts = Parts::split(&path, directory);
    let reached = Reached::default();
    while reached.wants_more() {
        check!()
            .with_test_time(TIME)
            .with_generator((
                produce::<Part>(),
                produce::<Vec<Change>>().with().len(0..5_usize),
            ))
            .for_each(|(part, changes)| {
                reached.input();
                let mut parts = parts.clone();
                let bytes = match *part {
                    Part::File => changed(&file, changes),
                    Part::Directory => sealed(&changed(directory, changes), behind),
                    Part::Section(n) => {
                        let section = &mut parts.sections[usize::from(n) % 2];
                        *section = changed(section, changes);
                        parts.join(None)
                    }
                    Part::Stored(n) => {
                        let n = usize::from(n) % 2;
                        let stored = zstd::bulk::compress(&parts.sections[n], 1).unwrap();
                        parts.join(Some((n, &changed(&stored, changes))))
                    }
                };
                fs::write(&path, &bytes).unwrap();
                match read(&path, &reached) {
                    Ok(machine) if matches!(part, Part::File) => {
                        assert!(bytes == file, "a change went unnoticed");
                        assert!(machine.ram.as_slice() == original.ram.as_slice());
                        assert_eq!(machine.watches.save(), original.watches.save());
                    }
                    Ok(_) => {}
                    Err(error) => {
                        assert!(bytes != file, "refused without reason: {error}");
                        assert!(error.to_string().contains("s.snapshot: "), "{error}");
                    }
                }
            });
    }
    reached.assert(&[40, 25, 12]);
}
