//! The file of a Linux kernel: what it is, and what of it goes into memory.
//!
//! Format: "Boot image header in RISC-V Linux" in the kernel's documentation
//! (arch/riscv/boot-image-header); those of other architectures, to name what a file is instead, in
//! arch/arm64/booting, arch/x86/boot and arch/arm/booting.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use object::pe;
use object::read::elf::FileHeader as _;
use object::read::pe::PeFile64;
use object::{Object, ObjectSection};

use crate::elf::{Header, architecture, looks_like, whole};
use crate::load::LoadFault;

const HEADER_BYTES: u64 = 64;
const IMAGE_SIZE_OFFSET: usize = 16;
const FLAGS_OFFSET: usize = 24;
const FLAG_BIG_ENDIAN: u64 = 1;
const MAGIC_OFFSET: usize = 56;
const MAGIC: &[u8] = b"RSC\x05";
const PE_OFFSET: usize = 60;

const GZIP_MAGIC: &[u8] = b"\x1f\x8b";

/// A kernel ready to be loaded.
pub(crate) struct Kernel<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    /// Length in memory, with what the file does not hold.
    pub(crate) mem_bytes: u64,
}

/// Whether the file has the header of a RISC-V kernel.
pub(crate) fn is_kernel(file: &[u8]) -> bool {
    at(file, MAGIC_OFFSET, MAGIC)
}

/// Reads the file of a kernel, which may be compressed with gzip. More than `limit` bytes are not
/// unpacked.
pub(crate) fn read(file: &[u8], limit: u64) -> Result<Kernel<'_>, LoadFault> {
    let bytes = if file.starts_with(GZIP_MAGIC) {
        Cow::Owned(unpack(file, limit)?)
    } else {
        Cow::Borrowed(file)
    };
    if !is_kernel(&bytes) {
        return Err(not_a_kernel(&bytes));
    }
    whole(&bytes, "the header of the kernel", 0, HEADER_BYTES)?;
    if number(&bytes, FLAGS_OFFSET) & FLAG_BIG_ENDIAN != 0 {
        let found = "big-endian RISC-V".into();
        return Err(LoadFault::KernelArchitecture { found });
    }
    check_sections(&bytes)?;
    let mem_bytes = number(&bytes, IMAGE_SIZE_OFFSET).max(bytes.len() as u64);
    Ok(Kernel { bytes, mem_bytes })
}

fn unpack(file: &[u8], limit: u64) -> Result<Vec<u8>, LoadFault> {
    let mut bytes = Vec::new();
    let unpacked = MultiGzDecoder::new(file)
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes);
    match unpacked {
        Ok(_) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            let what = format!("the gzip file ends early, after {} bytes", file.len());
            Err(LoadFault::Compressed(what))
        }
        Err(error) => Err(LoadFault::Compressed(error.to_string())),
    }
}

/// A kernel with an EFI stub says in its section table how long the file is. Without one nothing
/// tells whether the file is whole.
fn check_sections(bytes: &[u8]) -> Result<(), LoadFault> {
    if !bytes.starts_with(b"MZ") || half_number(bytes, PE_OFFSET) == 0 {
        return Ok(());
    }
    let damaged = |error: object::Error| {
        LoadFault::Damaged(format!(
            "its EFI header cannot be read ({error}); copy it again"
        ))
    };
    let file = PeFile64::parse(bytes).map_err(damaged)?;
    for section in file.sections() {
        if let Some((offset, length)) = section.file_range() {
            let name = section.name().unwrap_or("?");
            whole(bytes, &format!("section {name}"), offset, length)?;
        }
    }
    Ok(())
}

/// What a file without the header is.
fn not_a_kernel(bytes: &[u8]) -> LoadFault {
    let other = |found: &str| LoadFault::KernelArchitecture {
        found: found.into(),
    };
    if let Ok(header) = Header::parse(bytes) {
        let machine = header.e_machine.get(object::LittleEndian);
        if machine != object::elf::EM_RISCV {
            return other(&architecture(machine));
        }
        return LoadFault::NotKernel {
            found: "it is an ELF file".into(),
        };
    }
    let magics: [(usize, &[u8], &str); 4] = [
        (0x38, b"ARM\x64", "AArch64"),
        (0x202, b"HdrS", "x86"),
        (0x24, b"\x18\x28\x6f\x01", "Arm (32-bit)"),
        (0x38, b"\xcd\x23\x82\x81", "LoongArch"),
    ];
    for (offset, magic, name) in magics {
        if at(bytes, offset, magic) {
            return other(name);
        }
    }
    let machine = efi_machine(bytes);
    if machine.is_some_and(|machine| machine != pe::IMAGE_FILE_MACHINE_RISCV64) {
        let name = match machine {
            Some(pe::IMAGE_FILE_MACHINE_ARM64) => "AArch64",
            Some(pe::IMAGE_FILE_MACHINE_AMD64 | pe::IMAGE_FILE_MACHINE_I386) => "x86",
            _ => "another architecture",
        };
        return other(name);
    }
    let found = if at(bytes, 4, b"zimg") {
        "it is an EFI zboot image, which unpacks itself only under EFI firmware".into()
    } else if machine.is_some() {
        "it is an EFI program".into()
    } else {
        looks_like(bytes)
    };
    LoadFault::NotKernel { found }
}

/// The architecture that the header of an EFI program names.
fn efi_machine(bytes: &[u8]) -> Option<pe::Machine> {
    if !bytes.starts_with(b"MZ") {
        return None;
    }
    let header = half_number(bytes, PE_OFFSET) as usize;
    if !at(bytes, header, b"PE\0\0") {
        return None;
    }
    let machine = bytes.get(header + 4..)?.first_chunk()?;
    Some(pe::Machine(u16::from_le_bytes(*machine)))
}

fn at(bytes: &[u8], offset: usize, magic: &[u8]) -> bool {
    bytes
        .get(offset..)
        .is_some_and(|rest| rest.starts_with(magic))
}

/// The number at `offset`, 0 where the file has ended.
fn number(bytes: &[u8], offset: usize) -> u64 {
    let number = bytes.get(offset..).and_then(<[u8]>::first_chunk);
    number.map_or(0, |&number| u64::from_le_bytes(number))
}

fn half_number(bytes: &[u8], offset: usize) -> u32 {
    let number = bytes.get(offset..).and_then(<[u8]>::first_chunk);
    number.map_or(0, |&number| u32::from_le_bytes(number))
}

#[cfg(test)]
#[path = "kernel_tests.rs"]
mod tests;
