//! Files that name addresses of a guest: ELF files, and the `System.map` of a kernel.
//!
//! Kernel and firmware run where they were linked. A program of the guest's user space runs wherever
//! its kernel puts it, so its pages of code are known by what they contain: position-independent code
//! is the same wherever it lies.

use loiter_types::PAGE_BYTES;
use object::LittleEndian as Endian;
use object::elf;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use xxhash_rust::xxh3::xxh3_64;

use crate::elf::{Header, check_architecture, check_identity, check_tables, damaged, looks_like};
use crate::load::{LoadError, LoadFault};
use crate::map::RAM_BASE;
use crate::symbols::SymbolTable;

/// The symbols of a file.
#[derive(Clone, Debug)]
pub struct SymbolFile {
    /// The file, as the user named it.
    pub path: String,
    /// Its symbols, at the addresses for which it was linked.
    pub symbols: SymbolTable,
    /// Its pages of code: hash of what they contain and address for which they were linked. Empty for
    /// a kernel and firmware, which run at that address.
    pub text: Vec<(u64, u64)>,
}

/// The hash by which a page of code is known.
#[must_use]
pub fn text_page_hash(page: &[u8]) -> u64 {
    xxh3_64(page)
}

impl SymbolFile {
    /// Reads a file, which its contents tell to be ELF or a map. `path` is for messages only.
    ///
    /// # Errors
    /// When it is neither, is for another architecture, is damaged, or has no symbols.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self, LoadError> {
        let read = if bytes.starts_with(&elf::ELFMAG) {
            read_elf(bytes)
        } else {
            read_map(bytes).map(|symbols| (symbols, Vec::new()))
        };
        let read = read.and_then(|(symbols, text)| match symbols.is_empty() {
            true => Err(LoadFault::Stripped),
            false => Ok((symbols, text)),
        });
        let path = path.to_owned();
        match read {
            Ok((symbols, text)) => Ok(Self {
                path,
                symbols,
                text,
            }),
            Err(fault) => Err(LoadError { path, fault }),
        }
    }
}

fn read_map(bytes: &[u8]) -> Result<SymbolTable, LoadFault> {
    let begins = bytes.iter().take_while(|byte| byte.is_ascii_hexdigit());
    let text = std::str::from_utf8(bytes).ok();
    match text {
        Some(text) if (8..=16).contains(&begins.count()) => SymbolTable::read_map(text),
        _ => Err(LoadFault::NotSymbols {
            found: looks_like(bytes),
        }),
    }
}

fn read_elf(bytes: &[u8]) -> Result<(SymbolTable, Vec<(u64, u64)>), LoadFault> {
    check_identity(bytes)?;
    let header = Header::parse(bytes).map_err(damaged)?;
    check_architecture(header)?;
    check_tables(header, bytes)?;
    let mut symbols = SymbolTable::read(header, bytes)?;
    if symbols.is_empty() {
        symbols = SymbolTable::read_dynamic(header, bytes)?;
    }
    Ok((symbols, text_pages(header, bytes)?))
}

/// The pages of code as a kernel maps them: whole pages of the file.
fn text_pages(header: &Header, bytes: &[u8]) -> Result<Vec<(u64, u64)>, LoadFault> {
    let mut pages = Vec::new();
    for segment in header.program_headers(Endian, bytes).map_err(damaged)? {
        let executable = segment.p_flags(Endian).contains(elf::PF_X);
        let vaddr = segment.p_vaddr.get(Endian);
        // What is linked above is a kernel, firmware or a bare-metal program.
        if segment.p_type(Endian) != elf::PT_LOAD || !executable || vaddr >= RAM_BASE {
            continue;
        }
        let (offset, length) = segment.file_range(Endian);
        let first = offset & !(PAGE_BYTES - 1);
        let end = offset.saturating_add(length).min(bytes.len() as u64);
        for from in (first..end).step_by(PAGE_BYTES as usize) {
            let mut page = [0; PAGE_BYTES as usize];
            let part = &bytes[from as usize..bytes.len().min((from + PAGE_BYTES) as usize)];
            page[..part.len()].copy_from_slice(part);
            let linked_at = vaddr.wrapping_sub(offset).wrapping_add(from);
            pages.push((text_page_hash(&page), linked_at));
        }
    }
    Ok(pages)
}

#[cfg(test)]
#[path = "symbol_file_tests.rs"]
mod tests;
