use std::io::Write;

use loiter_isa::Width;
use loiter_types::PhysAddr;
use tempfile::NamedTempFile;

use super::driver::{Driver, Part, get, machine_with};
use crate::{DiskConfig, DiskFault, Machine};

const HEADER: u64 = 0x8_0000;
const STATUS: u64 = 0x8_0100;
const DATA: u64 = 0x9_0000;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;

const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// A file of 20 sectors and a bit: every byte is the number of its sector, from 1 on.
fn file() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    for sector in 1..=20 {
        file.write_all(&[sector; 512]).unwrap();
    }
    file.write_all(b"end").unwrap();
    file.flush().unwrap();
    file
}

fn disk(file: &NamedTempFile) -> DiskConfig {
    DiskConfig {
        path: Some(file.path().to_str().unwrap().into()),
        ..DiskConfig::default()
    }
}

fn machine(disk: DiskConfig) -> (Machine, Driver) {
    let mut machine = machine_with(|config| config.disks = vec![disk]);
    let driver = Driver::start(&mut machine, 0);
    (machine, driver)
}

fn header(kind: u32, sector: u64) -> Vec<u8> {
    let mut header = [kind, 0].map(u32::to_le_bytes).concat();
    header.extend(sector.to_le_bytes());
    header
}

fn status(machine: &Machine) -> u8 {
    get(machine, STATUS, 1)[0]
}

/// Reads sectors; the bytes, or nothing when the disk returns with an error.
fn read((machine, driver): &mut (Machine, Driver), sector: u64, bytes: u32) -> Result<Vec<u8>, u8> {
    let parts = [
        Part::Give(HEADER, &header(READ, sector)),
        Part::Take(DATA, bytes),
        Part::Take(STATUS, 1),
    ];
    let written = driver.request(machine, 0, &parts);
    match status(machine) {
        OK => {
            assert_eq!(written, bytes + 1);
            Ok(get(machine, DATA, bytes.into()))
        }
        error => {
            assert_eq!(written, 1);
            Err(error)
        }
    }
}

fn write((machine, driver): &mut (Machine, Driver), sector: u64, bytes: &[u8]) -> u8 {
    let parts = [
        Part::Give(HEADER, &header(WRITE, sector)),
        Part::Give(DATA, bytes),
        Part::Take(STATUS, 1),
    ];
    assert_eq!(driver.request(machine, 0, &parts), 1);
    status(machine)
}

#[test]
fn sectors_are_read_as_they_are_in_the_file() {
    let file = file();
    let mut guest = machine(disk(&file));
    assert_eq!(read(&mut guest, 0, 512), Ok(vec![1; 512]));
    let across = read(&mut guest, 7, 1024).unwrap();
    assert_eq!(across, [[8; 512], [9; 512]].concat());
    let mut last = b"end".to_vec();
    last.resize(512, 0);
    assert_eq!(
        read(&mut guest, 20, 512),
        Ok(last),
        "zeroes follow the file"
    );
    assert_eq!(read(&mut guest, 0, 0), Ok(vec![]));
}

#[test]
fn the_configuration_says_how_large_the_disk_is() {
    let file = file();
    let (mut machine, driver) = machine(disk(&file));
    let capacity = PhysAddr(driver.base + 0x100);
    assert_eq!(machine.load(capacity, Width::D), Ok(21));
    assert_eq!(machine.load(capacity, Width::W), Ok(21));
    assert_eq!(machine.load(capacity, Width::B), Ok(21));
    assert_eq!(driver.load(&mut machine, 0x108), 1 << 16);
    assert_eq!(driver.load(&mut machine, 0x10c), 126);
    driver.store(&mut machine, 0x100, 5);
    assert_eq!(driver.load(&mut machine, 0x100), 21, "it cannot be written");
}

#[test]
fn what_is_written_is_read_and_the_file_stays_as_it_was() {
    let file = file();
    let before = std::fs::read(file.path()).unwrap();
    let mut guest = machine(disk(&file));
    assert_eq!(write(&mut guest, 7, &[0xaa; 1024]), OK);
    assert_eq!(read(&mut guest, 6, 512), Ok(vec![7; 512]));
    assert_eq!(read(&mut guest, 7, 1024), Ok(vec![0xaa; 1024]));
    assert_eq!(read(&mut guest, 9, 512), Ok(vec![10; 512]));
    assert_eq!(std::fs::read(file.path()).unwrap(), before);
}

#[test]
fn a_writable_disk_changes_its_file() {
    let file = file();
    let mut guest = machine(DiskConfig {
        writable: true,
        ..disk(&file)
    });
    assert_eq!(write(&mut guest, 1, &[0xbb; 512]), OK);
    assert_eq!(write(&mut guest, 20, &[0xcc; 512]), OK);
    let (machine, driver) = &mut guest;
    let parts = [Part::Give(HEADER, &header(FLUSH, 0)), Part::Take(STATUS, 1)];
    assert_eq!(driver.request(machine, 0, &parts), 1);
    assert_eq!(status(machine), OK);
    let after = std::fs::read(file.path()).unwrap();
    assert_eq!(after[512..1024], [0xbb; 512]);
    assert_eq!(after[1024..1536], [3; 512]);
    assert_eq!(after[20 * 512..], [0xcc; 512]);
    assert_eq!(read(&mut guest, 20, 512), Ok(vec![0xcc; 512]));
}

#[test]
fn beyond_the_end_and_parts_of_sectors_are_errors() {
    let file = file();
    let mut guest = machine(disk(&file));
    assert!(read(&mut guest, 19, 1024).is_ok());
    for (sector, bytes) in [
        (20, 1024),
        (21, 512),
        (u64::MAX, 512),
        (1 << 55, 512),
        (0, 511),
        (0, 513),
    ] {
        assert_eq!(read(&mut guest, sector, bytes), Err(IO_ERROR));
        let data = vec![1; bytes as usize];
        assert_eq!(write(&mut guest, sector, &data), IO_ERROR);
    }
    assert!(guest.0.take_messages().is_empty(), "the guest's own fault");
    assert_eq!(read(&mut guest, 20, 512).unwrap()[..3], *b"end");
}

#[test]
fn the_disk_has_a_name() {
    let file = file();
    let (mut machine, mut driver) = machine(disk(&file));
    for (room, expected) in [(20, &b"loiter-disk-0\0\0\0\0\0\0\0"[..]), (6, b"loiter")] {
        let parts = [
            Part::Give(HEADER, &header(GET_ID, 0)),
            Part::Take(DATA, room),
            Part::Take(STATUS, 1),
        ];
        driver.request(&mut machine, 0, &parts);
        assert_eq!(status(&machine), OK);
        assert_eq!(get(&machine, DATA, room.into()), expected);
    }
}

#[test]
fn other_requests_are_not_supported() {
    let file = file();
    let (mut machine, mut driver) = machine(disk(&file));
    for kind in [2, 11, 13, 0x8000_0000] {
        let parts = [
            Part::Give(HEADER, &header(kind, 0)),
            Part::Give(DATA, &[0; 16]),
            Part::Take(STATUS, 1),
        ];
        driver.request(&mut machine, 0, &parts);
        assert_eq!(status(&machine), UNSUPPORTED);
    }
}

#[test]
fn a_request_may_lie_in_pieces() {
    let file = file();
    let (mut machine, mut driver) = machine(disk(&file));
    let head = header(READ, 3);
    let parts = [
        Part::Give(HEADER, &head[..5]),
        Part::Give(HEADER + 64, &head[5..]),
        Part::Take(DATA, 100),
        Part::Take(DATA + 1000, 412),
        Part::Take(DATA + 2000, 512),
        Part::Take(STATUS, 1),
    ];
    assert_eq!(driver.request(&mut machine, 0, &parts), 1025);
    assert_eq!(status(&machine), OK);
    assert_eq!(get(&machine, DATA, 100), [4; 100]);
    assert_eq!(get(&machine, DATA + 1000, 412), [4; 412]);
    assert_eq!(get(&machine, DATA + 2000, 512), [5; 512]);
    // Data and status in one descriptor.
    let parts = [Part::Give(HEADER, &head), Part::Take(DATA, 513)];
    assert_eq!(driver.request(&mut machine, 0, &parts), 513);
    assert_eq!(get(&machine, DATA + 510, 3), [4, 4, OK]);
}

#[test]
fn requests_in_one_go_are_served_in_order() {
    let file = file();
    let (mut machine, mut driver) = machine(disk(&file));
    let write = [
        Part::Give(HEADER, &header(WRITE, 2)),
        Part::Give(DATA, &[0x77; 512]),
        Part::Take(STATUS, 1),
    ];
    let read_header = header(READ, 2);
    let read = [
        Part::Give(HEADER + 32, &read_header),
        Part::Take(DATA + 4096, 512),
        Part::Take(STATUS + 1, 1),
    ];
    driver.queue(&mut machine, 0, 5, &write);
    driver.queue(&mut machine, 0, 1, &read);
    driver.notify(&mut machine, 0);
    assert_eq!(driver.take_used(&mut machine, 0), Some((5, 1)));
    assert_eq!(driver.take_used(&mut machine, 0), Some((1, 513)));
    assert_eq!(driver.take_used(&mut machine, 0), None);
    assert_eq!(get(&machine, DATA + 4096, 512), [0x77; 512]);
}

#[test]
fn a_file_that_fails_is_an_error_for_the_guest_and_a_message_for_the_user() {
    let file = file();
    let mut guest = machine(disk(&file));
    file.as_file().set_len(1024).unwrap();
    assert!(read(&mut guest, 1, 512).is_ok());
    assert_eq!(read(&mut guest, 2, 512), Err(IO_ERROR));
    assert_eq!(write(&mut guest, 5, &[1; 512]), IO_ERROR);
    let messages = guest.0.take_messages();
    assert_eq!(messages.len(), 1, "said once: {messages:?}");
    assert!(messages[0].contains(file.path().to_str().unwrap()));
    assert!(messages[0].contains("disk vda"), "{messages:?}");
    assert!(messages[0].contains("could not be read"), "{messages:?}");
}

#[test]
fn a_file_that_takes_no_more_is_an_error_for_the_guest_and_a_message_for_the_user() {
    let file = file();
    // No host has files that reach so far.
    let mut guest = machine(DiskConfig {
        bytes: Some((1 << 63) + 512),
        writable: true,
        ..disk(&file)
    });
    assert_eq!(write(&mut guest, 0, &[1; 512]), OK);
    assert_eq!(write(&mut guest, 1 << 54, &[1; 512]), IO_ERROR);
    let messages = guest.0.take_messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].contains("could not be written"), "{messages:?}");
}

#[test]
fn another_disk_takes_the_place_of_one() {
    let (first, second) = (file(), NamedTempFile::new().unwrap());
    std::fs::write(second.path(), [0x55; 700]).unwrap();
    let mut guest = machine(disk(&first));
    assert_eq!(write(&mut guest, 0, &[0xaa; 512]), OK);
    guest.0.replace_disk(0, &disk(&second)).unwrap();
    assert_eq!(read(&mut guest, 0, 512), Ok(vec![0x55; 512]));
    let mut partly = vec![0x55; 188];
    partly.resize(512, 0);
    assert_eq!(read(&mut guest, 1, 512), Ok(partly));
    assert_eq!(read(&mut guest, 20, 512), Ok(vec![0; 512]));

    let larger = DiskConfig {
        bytes: Some(22 * 512),
        ..disk(&second)
    };
    let fault = guest.0.replace_disk(0, &larger).unwrap_err().fault;
    assert!(matches!(fault, DiskFault::OtherCapacity { .. }), "{fault}");
    second.as_file().set_len(22 * 512).unwrap();
    let fault = guest.0.replace_disk(0, &disk(&second)).unwrap_err().fault;
    assert!(matches!(fault, DiskFault::TooLong { .. }), "{fault}");
    let fault = guest.0.replace_disk(1, &disk(&first)).unwrap_err().fault;
    assert!(matches!(fault, DiskFault::NoSuchDisk { .. }), "{fault}");
}

#[test]
fn a_large_disk_of_zeroes_takes_no_room() {
    let mut guest = machine(DiskConfig {
        bytes: Some(1 << 50),
        ..DiskConfig::default()
    });
    let last = (1_u64 << 50) / 512 - 1;
    assert_eq!(read(&mut guest, last, 512), Ok(vec![0; 512]));
    assert_eq!(write(&mut guest, last, &[3; 512]), OK);
    assert_eq!(read(&mut guest, last, 512), Ok(vec![3; 512]));
    assert_eq!(read(&mut guest, last - 1, 512), Ok(vec![0; 512]));
}
