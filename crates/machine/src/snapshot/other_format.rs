//! What a file is that is no snapshot, for messages to people.

use crate::elf::looks_like;

/// Where a kind of file has its mark, the mark, and the kind's name; [`looks_like`] knows others.
const KINDS: [(usize, &[u8], &str); 8] = [
    (0, b"\x7fELF", "an ELF file"),
    (0, b"QFI\xfb", "a qcow2 disk image"),
    (0, b"QEVM", "a saved virtual machine of QEMU"),
    (0, b"PK\x03\x04", "a zip file"),
    (0, b"PAR1", "a Parquet file"),
    (0x38, b"RSC\x05", "a RISC-V Linux kernel"),
    (0x101, b"ustar", "a tar archive"),
    // Superblock at 1024, `s_magic` at 0x38 of it.
    (0x438, b"\x53\xef", "an ext file system"),
];

/// How much of a file's beginning [`describe`] looks at.
pub(crate) const LOOKED_AT_BYTES: usize = 0x43a;

/// What a file that begins with `start` seems to be.
pub(crate) fn describe(start: &[u8]) -> String {
    let marked = |(at, mark, _): &&(usize, &[u8], _)| {
        let there = start.get(*at..);
        there.is_some_and(|rest| rest.starts_with(mark))
    };
    if let Some((_, _, name)) = KINDS.iter().find(marked) {
        return format!("it is {name}");
    }
    if !start.is_empty() && start.iter().all(|&byte| byte == 0) {
        return "it begins with zeroes".into();
    }
    looks_like(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_known_by_its_mark_in_its_place() {
        for (at, mark, name) in KINDS {
            let mut file = vec![0x80; LOOKED_AT_BYTES];
            file[at..at + mark.len()].copy_from_slice(mark);
            assert_eq!(describe(&file), format!("it is {name}"));
            let cut = describe(&file[..at + mark.len() - 1]);
            assert!(!cut.contains(name), "{cut}");
        }
    }

    #[test]
    fn what_has_no_mark_is_described() {
        assert_eq!(describe(b""), "it is empty");
        assert_eq!(describe(b"hello\n"), "it is a text file");
        assert_eq!(describe(&[0; 16]), "it begins with zeroes");
        assert_eq!(describe(b"\x1f\x8b\x08"), "it is compressed with gzip");
        assert_eq!(
            describe(&[0xde, 0xad, 1, 2]),
            "it begins with the bytes de ad 01 02"
        );
    }
}
