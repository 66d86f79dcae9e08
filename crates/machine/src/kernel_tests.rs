use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{FLAGS_OFFSET, IMAGE_SIZE_OFFSET, PE_OFFSET, at, is_kernel, read};
use crate::LoadFault;
use crate::testing::{KERNEL_BYTES, KERNEL_MEM_BYTES, TestElf, field, kernel};

const LIMIT: u64 = 1 << 20;

fn fault(file: &[u8]) -> LoadFault {
    match read(file, LIMIT) {
        Ok(_) => panic!("must be refused"),
        Err(fault) => fault,
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = GzEncoder::new(Vec::new(), Compression::fast());
    file.write_all(bytes).unwrap();
    file.finish().unwrap()
}

/// A file of 2 KiB with `magic` at `offset`.
fn with_magic(offset: usize, magic: &[u8]) -> Vec<u8> {
    let mut file = vec![0x90; 2048];
    file[offset..offset + magic.len()].copy_from_slice(magic);
    file
}

#[test]
fn a_kernel_is_taken_as_it_is() {
    let file = kernel();
    let kernel = read(&file, LIMIT).unwrap();
    assert_eq!(
        (&*kernel.bytes, kernel.mem_bytes),
        (&*file, KERNEL_MEM_BYTES)
    );
    assert!(is_kernel(&file));
}

#[test]
fn one_that_does_not_say_its_size_has_that_of_its_file() {
    let mut file = kernel();
    file[IMAGE_SIZE_OFFSET..][..8].fill(0);
    assert_eq!(read(&file, LIMIT).unwrap().mem_bytes, KERNEL_BYTES as u64);
}

#[test]
fn a_compressed_kernel_is_unpacked() {
    let file = gzip(&kernel());
    assert!(file.len() < KERNEL_BYTES);
    let kernel = read(&file, LIMIT).unwrap();
    assert_eq!(*kernel.bytes, *crate::testing::kernel());
}

#[test]
fn a_damaged_compressed_kernel_is_refused() {
    let file = gzip(&kernel());
    let short = fault(&file[..file.len() - 9]);
    assert!(short.to_string().contains("ends early"), "{short}");
    let mut damaged = file.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 8].fill(0xff);
    assert!(matches!(fault(&damaged), LoadFault::Compressed(_)));
}

#[test]
fn no_more_is_unpacked_than_memory_could_hold() {
    let mut large = kernel();
    large.resize(8 << 20, 0);
    let file = gzip(&large);
    let kernel = read(&file, LIMIT).unwrap();
    assert_eq!(kernel.bytes.len() as u64, LIMIT + 1);
}

#[test]
fn what_is_compressed_must_be_a_kernel() {
    let found = fault(&gzip(b"#!/bin/sh\n"));
    assert!(found.to_string().contains("it is a script"), "{found}");
}

#[test]
fn a_truncated_kernel_is_refused() {
    let file = kernel();
    assert_eq!(
        fault(&file[..KERNEL_BYTES - 1]),
        LoadFault::Truncated {
            part: "section .data".into(),
            needed: KERNEL_BYTES as u64,
            found: KERNEL_BYTES as u64 - 1,
        }
    );
    assert_eq!(
        fault(&file[..62]),
        LoadFault::Truncated {
            part: "the header of the kernel".into(),
            needed: 64,
            found: 62,
        }
    );
    assert!(matches!(fault(&file[..70]), LoadFault::Damaged(_)));
}

#[test]
fn a_kernel_without_an_efi_stub_has_no_sections_to_check() {
    let mut file = kernel();
    file[PE_OFFSET..][..4].fill(0);
    assert!(read(&file[..KERNEL_BYTES - 1], LIMIT).is_ok());
}

#[test]
fn kernels_of_other_architectures_are_named() {
    let mut big_endian = kernel();
    big_endian[FLAGS_OFFSET] = 1;
    let mut efi = kernel();
    assert!(at(&efi, 0x38, b"RSC\x05"));
    efi[0x38..0x3c].fill(0);
    efi[68..70].copy_from_slice(&0xaa64_u16.to_le_bytes());
    let mut x86_efi = efi.clone();
    x86_efi[68..70].copy_from_slice(&0x8664_u16.to_le_bytes());
    let mut elf = TestElf::default().bytes();
    elf[field::MACHINE..][..2].copy_from_slice(&62_u16.to_le_bytes());
    for (file, expected) in [
        (with_magic(0x38, b"ARM\x64"), "AArch64"),
        (with_magic(0x202, b"HdrS"), "x86"),
        (with_magic(0x24, b"\x18\x28\x6f\x01"), "Arm (32-bit)"),
        (with_magic(0x38, b"\xcd\x23\x82\x81"), "LoongArch"),
        (big_endian, "big-endian RISC-V"),
        (efi, "AArch64"),
        (x86_efi, "x86"),
        (elf, "x86-64"),
    ] {
        let found = expected.into();
        assert_eq!(fault(&file), LoadFault::KernelArchitecture { found });
    }
}

#[test]
fn what_is_no_kernel_is_named() {
    let mut efi = kernel();
    efi[0x38..0x3c].fill(0);
    let mut zboot = efi.clone();
    zboot[4..8].copy_from_slice(b"zimg");
    for (file, expected) in [
        (TestElf::default().bytes(), "it is an ELF file"),
        (efi, "it is an EFI program"),
        (zboot, "it is an EFI zboot image"),
        (vec![], "it is empty"),
        (b"!<arch>\ndebian-binary".to_vec(), "it is a Debian package"),
        (b"070701".to_vec(), "it is an initramfs"),
        (b"\xfd7zXZ\0".to_vec(), "it is compressed with xz"),
        (b"\x28\xb5\x2f\xfd".to_vec(), "it is compressed with zstd"),
        (b"MZ".to_vec(), "it is a Windows program"),
        (vec![7; 100], "it begins with the bytes 07 07 07 07"),
    ] {
        let text = fault(&file).to_string();
        assert!(text.starts_with("not a Linux kernel"), "{text}");
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("/boot/vmlinux-"), "{text}");
    }
}
