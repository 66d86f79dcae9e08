//! ELF executables.
//!
//! The file is checked here in the order in which a person would want to hear of mistakes: is it
//! an ELF file at all, for this architecture, an executable, whole. What depends on the machine
//! (does it fit into RAM) is in `load.rs`.

use std::ops::Range;

use loiter_types::{PhysAddr, VirtAddr};
use object::LittleEndian as Endian;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use sha2::{Digest, Sha256};

use crate::load::{LoadError, LoadFault};
use crate::symbols::SymbolTable;

pub(crate) type Header = FileHeader64<Endian>;

/// An executable, checked and ready to be loaded.
#[derive(Clone, Debug)]
pub struct ElfImage {
    /// The file, as the user named it.
    pub path: String,
    /// Where execution begins.
    pub entry: PhysAddr,
    /// What to load.
    pub segments: Vec<Segment>,
    /// Names of addresses.
    pub symbols: SymbolTable,
    /// The HTIF word towards the host, when the program has one.
    pub tohost: Option<PhysAddr>,
    /// The HTIF word from the host.
    pub fromhost: Option<PhysAddr>,
    /// SHA-256 of the file.
    pub hash: [u8; 32],
    bytes: Vec<u8>,
}

/// A part of an executable that is loaded in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Number among the program headers, as `readelf -l` counts them.
    pub index: usize,
    /// Where it is loaded.
    pub addr: PhysAddr,
    /// Where the program believes it to be.
    pub vaddr: VirtAddr,
    /// Length in memory; what the file does not hold is zero.
    pub mem_bytes: u64,
    /// Whether it holds instructions.
    pub executable: bool,
    /// Whether programs may write to it.
    pub writable: bool,
    file: Range<usize>,
}

impl Segment {
    /// Number of bytes that come from the file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file.len() as u64
    }

    /// Where `vaddr` is loaded, if it is in this segment.
    fn physical(&self, vaddr: u64) -> Option<PhysAddr> {
        let offset = vaddr.checked_sub(self.vaddr.0)?;
        (offset < self.mem_bytes).then(|| PhysAddr(self.addr.0.wrapping_add(offset)))
    }
}

impl ElfImage {
    /// Reads an executable. `path` is for messages only.
    ///
    /// # Errors
    /// When it is not an RV64 executable, or is damaged.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self, LoadError> {
        parse(path, bytes).map_err(|fault| LoadError {
            path: path.into(),
            fault,
        })
    }

    /// The bytes of a segment that come from the file.
    #[must_use]
    pub fn data(&self, segment: &Segment) -> &[u8] {
        &self.bytes[segment.file.clone()]
    }
}

fn parse(path: &str, bytes: &[u8]) -> Result<ElfImage, LoadFault> {
    check_identity(bytes)?;
    let header = Header::parse(bytes).map_err(damaged)?;
    check_header(header)?;
    check_tables(header, bytes)?;
    let segments = segments(header, bytes)?;
    check_overlap(&segments)?;
    let symbols = SymbolTable::read(header, bytes)?;

    let physical = |vaddr| segments.iter().find_map(|segment| segment.physical(vaddr));
    let entry = header.e_entry.get(Endian);
    if segments.is_empty() {
        return Err(LoadFault::Empty);
    }
    let word = |name| {
        let vaddr = symbols.by_name(name)?.0;
        Some(physical(vaddr).unwrap_or(PhysAddr(vaddr)))
    };
    Ok(ElfImage {
        path: path.into(),
        entry: physical(entry).ok_or(LoadFault::Entry { entry })?,
        tohost: word("tohost"),
        fromhost: word("fromhost"),
        hash: Sha256::digest(bytes).into(),
        bytes: bytes.to_vec(),
        segments,
        symbols,
    })
}

/// The first bytes, which decide how to read all others.
pub(crate) fn check_identity(bytes: &[u8]) -> Result<(), LoadFault> {
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(LoadFault::NotElf {
            found: looks_like(bytes),
        });
    }
    let header_bytes = size_of::<Header>() as u64;
    let whole = whole(bytes, "the ELF header", 0, header_bytes);
    let Some(&[class, data]) = bytes.get(4..6).and_then(|two| two.first_chunk()) else {
        return whole;
    };
    match class {
        2 => {}
        1 => {
            return Err(LoadFault::Class {
                found: "32-bit".into(),
            });
        }
        other => {
            return Err(LoadFault::Class {
                found: format!("class {other}"),
            });
        }
    }
    match data {
        1 => {}
        2 => {
            return Err(LoadFault::ByteOrder {
                found: "big-endian".into(),
            });
        }
        other => {
            return Err(LoadFault::ByteOrder {
                found: format!("byte order {other}"),
            });
        }
    }
    whole
}

/// That the file is for RISC-V.
pub(crate) fn check_architecture(header: &Header) -> Result<(), LoadFault> {
    match header.e_machine.get(Endian) {
        elf::EM_RISCV => Ok(()),
        machine => Err(LoadFault::Architecture {
            found: architecture(machine),
        }),
    }
}

fn check_header(header: &Header) -> Result<(), LoadFault> {
    check_architecture(header)?;
    let (found, advice) = match header.e_type.get(Endian) {
        elf::ET_EXEC => return Ok(()),
        elf::ET_REL => ("an object file".into(), "link it"),
        elf::ET_DYN => (
            "a shared object or position-independent program".into(),
            "link it with -static -no-pie, or if it is one for Linux, run it with `loiter exec -- ./PROGRAM`",
        ),
        elf::ET_CORE => ("a core dump".into(), "give the program itself"),
        other => (
            format!("ELF file of type {other}"),
            "link it as an executable",
        ),
    };
    Err(LoadFault::NotExecutable { found, advice })
}

/// That the tables which the header points to are there.
pub(crate) fn check_tables(header: &Header, bytes: &[u8]) -> Result<(), LoadFault> {
    for (part, offset, entries, entry_bytes, expected) in [
        (
            "the table of program headers",
            header.e_phoff.get(Endian),
            header.e_phnum.get(Endian),
            header.e_phentsize.get(Endian),
            size_of::<elf::ProgramHeader64<Endian>>(),
        ),
        (
            "the table of section headers",
            header.e_shoff.get(Endian),
            header.e_shnum.get(Endian),
            header.e_shentsize.get(Endian),
            size_of::<elf::SectionHeader64<Endian>>(),
        ),
    ] {
        if entries == 0 || offset == 0 {
            continue;
        }
        if usize::from(entry_bytes) != expected {
            let what = format!("entries of {part} have {entry_bytes} bytes instead of {expected}");
            return Err(LoadFault::Damaged(what));
        }
        whole(
            bytes,
            part,
            offset,
            u64::from(entries) * u64::from(entry_bytes),
        )?;
    }
    Ok(())
}

fn segments(header: &Header, bytes: &[u8]) -> Result<Vec<Segment>, LoadFault> {
    let mut segments = Vec::new();
    let headers = header.program_headers(Endian, bytes).map_err(damaged)?;
    for (index, segment) in headers.iter().enumerate() {
        let (offset, file_bytes) = segment.file_range(Endian);
        let mem_bytes = segment.p_memsz.get(Endian);
        if segment.p_type(Endian) != elf::PT_LOAD || mem_bytes == 0 {
            continue;
        }
        if file_bytes > mem_bytes {
            let what = format!(
                "segment {index} has {file_bytes} bytes in the file but only {mem_bytes} in memory"
            );
            return Err(LoadFault::Damaged(what));
        }
        whole(bytes, &format!("segment {index}"), offset, file_bytes)?;
        let flags = segment.p_flags(Endian);
        // A segment of zeroes may have any offset.
        let start = if file_bytes == 0 { 0 } else { offset as usize };
        segments.push(Segment {
            index,
            addr: PhysAddr(segment.p_paddr.get(Endian)),
            vaddr: VirtAddr(segment.p_vaddr.get(Endian)),
            mem_bytes,
            executable: flags.contains(elf::PF_X),
            writable: flags.contains(elf::PF_W),
            file: start..start + file_bytes as usize,
        });
    }
    Ok(segments)
}

/// That no byte is loaded twice, for then the order of loading would matter.
fn check_overlap(segments: &[Segment]) -> Result<(), LoadFault> {
    let mut by_addr: Vec<&Segment> = segments.iter().collect();
    by_addr.sort_by_key(|segment| segment.addr);
    for pair in by_addr.windows(2) {
        if pair[1].addr.0 - pair[0].addr.0 < pair[0].mem_bytes {
            let (first, second) = (pair[0].index, pair[1].index);
            let what = format!("segments {first} and {second} overlap at {}", pair[1].addr);
            return Err(LoadFault::Damaged(what));
        }
    }
    Ok(())
}

/// That the file holds all of a part.
pub(crate) fn whole(file: &[u8], part: &str, offset: u64, bytes: u64) -> Result<(), LoadFault> {
    let needed = offset.saturating_add(bytes);
    let found = file.len() as u64;
    if bytes > 0 && needed > found {
        return Err(LoadFault::Truncated {
            part: part.into(),
            needed,
            found,
        });
    }
    Ok(())
}

pub(crate) fn damaged(error: object::read::Error) -> LoadFault {
    LoadFault::Damaged(error.to_string())
}

/// What a file that is not ELF seems to be.
pub(crate) fn looks_like(bytes: &[u8]) -> String {
    known_file(bytes).map_or_else(
        || {
            let first: Vec<String> = bytes
                .iter()
                .take(4)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            format!("it begins with the bytes {}", first.join(" "))
        },
        Into::into,
    )
}

/// The kind of a file that is known not to be ELF.
pub(crate) fn known_file(bytes: &[u8]) -> Option<&'static str> {
    /// So many letters in a row are text.
    const TEXT_BYTES: usize = 64;
    const KNOWN: [(&[u8], &str); 12] = [
        (b"#!", "it is a script"),
        (b"!<arch>\ndebian-binary", "it is a Debian package"),
        (b"!<arch>", "it is a static library"),
        (b"MZ", "it is a Windows program"),
        (b"\x1f\x8b", "it is compressed with gzip"),
        (b"\xfd7zXZ", "it is compressed with xz"),
        (b"\x28\xb5\x2f\xfd", "it is compressed with zstd"),
        (b"BZh", "it is compressed with bzip2"),
        (b"070701", "it is an initramfs"),
        (b"\xd0\x0d\xfe\xed", "it is a device tree"),
        (b"\x27\x05\x19\x56", "it is an image of U-Boot"),
        (b"\xcf\xfa\xed\xfe", "it is a macOS program"),
    ];
    if bytes.is_empty() {
        return Some("it is empty");
    }
    let known = KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic));
    known.map(|(_, what)| *what).or_else(|| {
        let text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
        let first = bytes.iter().take(TEXT_BYTES);
        first.clone().all(text).then_some("it is a text file")
    })
}

/// The name of an architecture, as people write it.
pub(crate) fn architecture(machine: elf::Machine) -> String {
    let known = [
        (elf::EM_386, "x86 (i386)"),
        (elf::EM_X86_64, "x86-64"),
        (elf::EM_ARM, "Arm (32-bit)"),
        (elf::EM_AARCH64, "AArch64"),
        (elf::EM_PPC, "PowerPC"),
        (elf::EM_PPC64, "PowerPC 64"),
        (elf::EM_S390, "s390"),
        (elf::EM_MIPS, "MIPS"),
        (elf::EM_SPARC, "SPARC"),
        (elf::EM_SPARCV9, "SPARC V9"),
        (elf::EM_LOONGARCH, "LoongArch"),
        (elf::EM_68K, "Motorola 68000"),
        (elf::EM_IA_64, "Itanium"),
        (elf::EM_NONE, "no architecture"),
    ];
    match known.iter().find(|(number, _)| *number == machine) {
        Some((_, name)) => (*name).into(),
        None => format!("ELF machine number {}", machine.0),
    }
}

#[cfg(test)]
#[path = "elf_tests.rs"]
mod tests;
