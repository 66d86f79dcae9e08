//! What a file is that is no snapshot, for messages to people.

/// Where a kind of file has its mark, the mark, and the kind's name.
const KINDS: [(usize, &[u8], &str); 14] = [
    (0, b"\x7fELF", "an ELF file"),
    (0, b"\x1f\x8b", "a gzip file"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd file"),
    (0, b"\xfd7zXZ\0", "an xz file"),
    (0, b"QFI\xfb", "a qcow2 disk image"),
    (0, b"QEVM", "a saved virtual machine of QEMU"),
    (0, b"\xd0\x0d\xfe\xed", "a device tree"),
    (0, b"070701", "a cpio archive"),
    (0, b"PK\x03\x04", "a zip file"),
    (0, b"PAR1", "a Parquet file"),
    (0, b"MZ", "an EFI program"),
    (0x38, b"RSC\x05", "a RISC-V Linux kernel"),
    (0x101, b"ustar", "a tar archive"),
    // Superblock at 1024, `s_magic` at 0x38 of it.
    (0x438, b"\x53\xef", "an ext file system"),
];

/// How much of a file's beginning [`describe`] looks at.
pub(crate) const LOOKED_AT_BYTES: usize = 0x43a;

/// What a file of `bytes` bytes that begins with `start` seems to be.
pub(crate) fn describe(start: &[u8], bytes: u64) -> String {
    if bytes == 0 {
        return "the file is empty".into();
    }
    // A kernel that is an EFI program too is a kernel first: the later mark is the finer one.
    let kind = KINDS
        .iter()
        .rev()
        .find(|(at, mark, _)| start.get(*at..).is_some_and(|rest| rest.starts_with(mark)));
    match kind {
        Some((_, _, name)) => format!("it is {name}"),
        None if start.iter().all(|&byte| byte == 0) => "it begins with zeroes".into(),
        None if is_text(start) => "it is a text file".into(),
        None => {
            let first: Vec<String> = start
                .iter()
                .take(8)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            format!("it begins with the bytes {}", first.join(" "))
        }
    }
}

fn is_text(start: &[u8]) -> bool {
    start
        .iter()
        .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(at: usize, mark: &[u8]) -> Vec<u8> {
        let mut file = vec![0x80; LOOKED_AT_BYTES];
        file[at..at + mark.len()].copy_from_slice(mark);
        file
    }

    #[test]
    fn every_kind_is_known_by_its_mark_in_its_place() {
        for (at, mark, name) in KINDS {
            let bytes = file(at, mark);
            assert_eq!(describe(&bytes, 9), format!("it is {name}"));
            let cut = describe(&bytes[..at + mark.len() - 1], 9);
            assert!(
                cut.starts_with("it begins with the bytes") || cut.contains("text"),
                "{cut}"
            );
        }
        let mut kernel = file(0x38, b"RSC\x05");
        kernel[..2].copy_from_slice(b"MZ");
        assert_eq!(describe(&kernel, 9), "it is a RISC-V Linux kernel");
    }

    #[test]
    fn what_has_no_mark_is_described() {
        assert_eq!(describe(b"", 0), "the file is empty");
        assert_eq!(describe(b"hello\n", 6), "it is a text file");
        assert_eq!(describe(&[0; 16], 16), "it begins with zeroes");
        let bytes = [0xde, 0xad, 1, 2, 3, 4, 5, 6, 7];
        assert_eq!(
            describe(&bytes, 9),
            "it begins with the bytes de ad 01 02 03 04 05 06"
        );
    }
}
