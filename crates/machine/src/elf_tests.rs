use std::time::{Duration, Instant};

use loiter_types::{PhysAddr, VirtAddr};

use super::ElfImage;
use crate::testing::{
    GLOBAL, HEADER_BYTES, LABEL, PROGRAM_HEADER_BYTES, Random, TestElf, TestSegment, field, parse,
    symbol,
};
use crate::{LoadFault, RAM_BASE};

/// A valid file with some bytes replaced.
fn changed(offset: usize, with: &[u8]) -> Result<ElfImage, LoadFault> {
    let mut bytes = TestElf::default().bytes();
    bytes[offset..offset + with.len()].copy_from_slice(with);
    parse(&bytes)
}

fn message(result: Result<ElfImage, LoadFault>) -> String {
    result.expect_err("must be refused").to_string()
}

fn segment(addr: u64, mem_bytes: u64) -> TestSegment {
    TestSegment {
        vaddr: addr,
        paddr: addr,
        data: vec![1; 8],
        mem_bytes,
    }
}

#[test]
fn a_valid_file() {
    let elf = TestElf::default();
    let image = elf.image();
    assert_eq!(image.path, "test.elf");
    assert_eq!(image.entry, PhysAddr(RAM_BASE + 4));
    assert_eq!(image.segments.len(), 1);
    assert_eq!(image.data(&image.segments[0]), elf.segments[0].data);
    assert_eq!(image.segments[0].mem_bytes, 4096);
    assert!(image.segments[0].executable && image.segments[0].writable);
    assert_eq!(image.symbols.len(), 2);
    assert_eq!((image.tohost, image.fromhost), (None, None));
}

#[test]
fn the_hash_is_that_of_the_file() {
    use sha2::{Digest, Sha256};
    let bytes = TestElf::default().bytes();
    let digest: [u8; 32] = Sha256::digest(&bytes).into();
    assert_eq!(parse(&bytes).unwrap().hash, digest);
    let mut other = bytes.clone();
    other[HEADER_BYTES + PROGRAM_HEADER_BYTES] ^= 1;
    assert_ne!(parse(&other).unwrap().hash, digest);
}

#[test]
fn a_program_linked_elsewhere_than_it_is_loaded() {
    let image = TestElf {
        entry: 0x4000_0010,
        segments: vec![TestSegment {
            vaddr: 0x4000_0000,
            paddr: RAM_BASE,
            data: vec![1; 64],
            mem_bytes: 128,
        }],
        symbols: vec![symbol("tohost", 0x4000_0040, 8, LABEL | GLOBAL)],
        ..TestElf::default()
    }
    .image();
    assert_eq!(image.entry, PhysAddr(RAM_BASE + 0x10));
    assert_eq!(image.tohost, Some(PhysAddr(RAM_BASE + 0x40)));
    assert_eq!(image.symbols.by_name("tohost"), Some(VirtAddr(0x4000_0040)));
}

#[test]
fn no_elf_file_at_all() {
    for (bytes, expected) in [
        (&b""[..], "it is empty"),
        (b"#!/bin/sh\n", "it is a script"),
        (b"!<arch>\n", "it is a static library"),
        (b"\x01\x02", "it begins with the bytes 01 02"),
        (
            b"\x7fELG stays unknown",
            "it begins with the bytes 7f 45 4c 47",
        ),
    ] {
        let text = message(parse(bytes));
        assert!(
            text.starts_with("not an ELF file") && text.contains(expected),
            "{text}"
        );
    }
}

#[test]
fn the_message_names_the_file() {
    let error = ElfImage::parse("dir/prog.elf", b"text").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("dir/prog.elf: not an ELF file"),
        "{error}"
    );
}

#[test]
fn wrong_kinds_of_elf() {
    for (offset, with, expected) in [
        (field::CLASS, &[1][..], "32-bit ELF file"),
        (field::CLASS, &[9], "class 9 ELF file"),
        (field::DATA, &[2], "big-endian ELF file"),
        (field::MACHINE, &[62, 0], "program for x86-64,"),
        (field::MACHINE, &[183, 0], "program for AArch64,"),
        (field::MACHINE, &[0x34, 0x12], "ELF machine number 4660"),
        (
            field::TYPE,
            &[1, 0],
            "an object file, not an executable; link it",
        ),
        (field::TYPE, &[3, 0], "-no-pie"),
        (field::TYPE, &[4, 0], "a core dump"),
        (field::TYPE, &[77, 0], "type 77"),
    ] {
        let text = message(changed(offset, with));
        assert!(text.contains(expected), "{text:?} lacks {expected:?}");
    }
}

#[test]
fn truncated_files_say_which_part() {
    let bytes = TestElf::default().bytes();
    let text_end = HEADER_BYTES + PROGRAM_HEADER_BYTES + 100;
    for (length, expected) in [
        (
            5,
            "the ELF header ends at byte 64, but the file has only 5 bytes",
        ),
        (HEADER_BYTES - 1, "the ELF header"),
        (HEADER_BYTES, "the table of program headers"),
        (
            HEADER_BYTES + PROGRAM_HEADER_BYTES - 1,
            "the table of program headers",
        ),
        (text_end, "the table of section headers"),
        (bytes.len() - 1, "the table of section headers"),
    ] {
        let text = message(parse(&bytes[..length]));
        assert!(
            text.starts_with("truncated: ") && text.contains(expected),
            "{length}: {text}"
        );
    }
    assert!(parse(&bytes).is_ok());
}

#[test]
fn without_section_headers_segments_and_symbols_are_checked_themselves() {
    let mut stripped = TestElf::default().bytes();
    stripped[field::SHOFF..field::SHOFF + 8].fill(0);
    stripped[field::SHNUM..field::SHNUM + 2].fill(0);
    let image = parse(&stripped).unwrap();
    assert!(image.symbols.is_empty());
    let text_end = HEADER_BYTES + PROGRAM_HEADER_BYTES + 100;
    assert!(parse(&stripped[..text_end]).is_ok());
    let text = message(parse(&stripped[..text_end - 1]));
    assert!(
        text.contains("segment 0 ends at byte 220, but the file has only 219"),
        "{text}"
    );

    let mut bytes = TestElf::default().bytes();
    let symbols_size = bytes.len() - 2 * 64 + 32;
    bytes[symbols_size + 4] = 1;
    let text = message(parse(&bytes));
    assert!(text.contains("section 2 (symbols)"), "{text}");
}

#[test]
fn headers_that_contradict_themselves() {
    let file_bytes = HEADER_BYTES + 32;
    for (offset, with, expected) in [
        (
            field::PHENTSIZE,
            &[55, 0][..],
            "program headers have 55 bytes instead of 56",
        ),
        (
            field::SHENTSIZE,
            &[63, 0],
            "section headers have 63 bytes instead of 64",
        ),
        (
            file_bytes,
            &[1, 16],
            "segment 0 has 4097 bytes in the file but only 4096 in memory",
        ),
    ] {
        let text = message(changed(offset, with));
        assert!(
            text.starts_with("damaged: ") && text.contains(expected),
            "{text}"
        );
    }
}

#[test]
fn segments_must_not_overlap() {
    let with = |second| TestElf {
        segments: vec![segment(RAM_BASE + 0x1000, 16), segment(RAM_BASE, second)],
        ..TestElf::default()
    };
    assert!(with(0x1000).parse().is_ok());
    let text = message(with(0x1001).parse());
    assert!(
        text.contains("segments 1 and 0 overlap at 0x80001000"),
        "{text}"
    );
}

#[test]
fn a_segment_of_zeroes_may_have_any_file_offset() {
    let mut bytes = TestElf::default().bytes();
    bytes[HEADER_BYTES + 8..HEADER_BYTES + 16].fill(0xff);
    assert!(message(parse(&bytes)).contains("truncated: segment 0"));
    bytes[HEADER_BYTES + 32..HEADER_BYTES + 40].fill(0);
    let image = parse(&bytes).unwrap();
    assert!(image.data(&image.segments[0]).is_empty());
}

#[test]
fn nothing_to_load() {
    assert_eq!(changed(HEADER_BYTES, &[4]).unwrap_err(), LoadFault::Empty);
    assert_eq!(
        changed(field::PHNUM, &[0, 0]).unwrap_err(),
        LoadFault::Empty
    );
    assert_eq!(
        changed(field::PHOFF, &[0; 8]).unwrap_err(),
        LoadFault::Empty
    );
}

#[test]
fn the_entry_must_lie_in_a_segment() {
    assert!(changed(field::ENTRY, &(RAM_BASE + 4095).to_le_bytes()).is_ok());
    for entry in [RAM_BASE + 4096, RAM_BASE - 1, 0, u64::MAX] {
        let result = changed(field::ENTRY, &entry.to_le_bytes());
        assert_eq!(result.unwrap_err(), LoadFault::Entry { entry });
    }
}

/// No sequence of bytes may make the parser or the loader panic, or believe in data that the file
/// does not hold.
#[test]
fn random_damage_never_panics() {
    let valid = TestElf::default().bytes();
    let mut random = Random(0x5eed_0e1f);
    let (mut files, mut accepted) = (0, 0);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        let mut bytes = valid.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            // Half of the damage goes to the headers, which decide the most.
            let at = if random.below(2) == 0 { at % 120 } else { at };
            bytes[at] = match random.below(4) {
                0 => 0,
                1 => 0xff,
                _ => random.below(256) as u8,
            };
        }
        if random.below(8) == 0 {
            bytes.truncate(random.below(bytes.len() as u64) as usize);
        }
        files += 1;
        let Ok(image) = parse(&bytes) else { continue };
        accepted += 1;
        for segment in &image.segments {
            assert_eq!(image.data(segment).len() as u64, segment.file_bytes());
        }
        for addr in [RAM_BASE, RAM_BASE + 0x24, 0, u64::MAX] {
            let _ = image.symbols.find(VirtAddr(addr));
        }
        if accepted % 64 == 0 {
            let _ = crate::testing::machine().load_elf(&image);
        }
    }
    assert!(files > 1000, "only {files} files tried");
    assert!(
        accepted > 100 && accepted < files,
        "{accepted} of {files} accepted"
    );
}
