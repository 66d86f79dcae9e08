use std::io::Write;

use tempfile::{NamedTempFile, TempDir};

use super::{BLOCK_BYTES, Disk, DiskConfig, DiskFault, SECTOR_BYTES};
use crate::testing::Random;

fn file(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn config(path: &std::path::Path) -> DiskConfig {
    DiskConfig {
        path: Some(path.to_str().unwrap().into()),
        ..DiskConfig::default()
    }
}

fn refuse(config: &DiskConfig) -> DiskFault {
    Disk::open(config).unwrap_err().fault
}

#[test]
fn random_writes_read_back_like_from_a_plain_copy() {
    const BYTES: usize = 10 * BLOCK_BYTES as usize + 1536;
    let mut random = Random(11);
    let contents: Vec<u8> = (0..BYTES - 1000).map(|_| random.below(256) as u8).collect();
    let file = file(&contents);
    let mut disk = Disk::open(&DiskConfig {
        bytes: Some(BYTES as u64),
        ..config(file.path())
    })
    .unwrap();
    let mut copy = contents.clone();
    copy.resize(BYTES, 0);
    for _ in 0..2000 {
        let offset = random.below(BYTES as u64) as usize;
        let bytes = random.below(((BYTES - offset) as u64).min(9000) + 1) as usize;
        if random.below(3) == 0 {
            let data = vec![random.below(256) as u8; bytes];
            disk.write(offset as u64, &data).unwrap();
            copy[offset..offset + bytes].copy_from_slice(&data);
        } else {
            let mut data = vec![0; bytes];
            disk.read(offset as u64, &mut data).unwrap();
            assert_eq!(data, copy[offset..offset + bytes]);
        }
    }
    assert_eq!(std::fs::read(file.path()).unwrap(), contents);
}

#[test]
fn contains_at_the_edges() {
    let disk = Disk::open(&DiskConfig {
        bytes: Some(1024),
        ..DiskConfig::default()
    })
    .unwrap();
    assert!(disk.contains(0, 1024) && disk.contains(1024, 0) && disk.contains(512, 512));
    assert!(!disk.contains(0, 1025) && !disk.contains(1025, 0) && !disk.contains(u64::MAX, 2));
}

#[test]
fn capacity_follows_from_the_file_unless_given() {
    for (bytes, expected) in [(0, 0), (1, 512), (512, 512), (513, 1024)] {
        let file = file(&vec![1; bytes]);
        let disk = Disk::open(&config(file.path())).unwrap();
        assert_eq!(disk.bytes(), expected);
    }
}

#[test]
fn disks_that_cannot_be_had() {
    let folder = TempDir::new().unwrap();
    let file = file(&[1; 1024]);
    let missing = config(&folder.path().join("missing"));
    assert!(matches!(refuse(&missing), DiskFault::Open(_)));
    let text = Disk::open(&missing).unwrap_err().to_string();
    assert!(
        text.contains("missing: cannot be opened as a disk"),
        "{text}"
    );
    assert!(matches!(
        refuse(&config(folder.path())),
        DiskFault::NotAFile
    ));
    let of = |bytes| DiskConfig {
        bytes: Some(bytes),
        ..config(file.path())
    };
    assert!(matches!(refuse(&of(1500)), DiskFault::Capacity(1500)));
    assert!(matches!(refuse(&of(512)), DiskFault::TooLong { .. }));
    assert!(Disk::open(&of(1024)).is_ok());
    assert!(matches!(refuse(&DiskConfig::default()), DiskFault::Nothing));
    let writable = DiskConfig {
        bytes: Some(SECTOR_BYTES),
        writable: true,
        ..DiskConfig::default()
    };
    assert!(matches!(refuse(&writable), DiskFault::NoFileToWrite));
}

#[test]
fn a_file_that_may_not_be_written_is_enough_to_read() {
    let file = file(&[1; 512]);
    let mut permissions = file.as_file().metadata().unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(file.path(), permissions).unwrap();
    let mut disk = Disk::open(&config(file.path())).unwrap();
    disk.write(0, &[2; 512]).unwrap();
    disk.flush().unwrap();
    let mut read = [0; 512];
    disk.read(0, &mut read).unwrap();
    assert_eq!(read, [2; 512]);
}
