//! The symbols of a system as an ELF file that GDB asks for by itself: a `System.map` it cannot read.
//! The file has no contents but names of addresses.

use loiter_machine::SymbolFile;
use object::Endianness;
use object::elf;
use object::write::StringId;
use object::write::elf::{FileHeader, SectionHeader, Sym, Writer};

/// Under this name GDB finds it.
pub(crate) const NAME: &str = "/loiter-symbols.elf";

/// The file, or nothing if no symbol has a fixed address.
pub(crate) fn write<'a>(files: impl Iterator<Item = &'a SymbolFile>) -> Option<Vec<u8>> {
    let files: Vec<&SymbolFile> = files.filter(|file| file.text.is_empty()).collect();
    let mut bytes = Vec::new();
    let mut writer = Writer::new(Endianness::Little, true, &mut bytes);
    writer.reserve_file_header();
    writer.reserve_null_section_index();
    // A section for each file, from its first to its last address.
    let text = writer.add_section_name(b".text");
    let mut symbols: Vec<(Sym, StringId)> = Vec::new();
    let mut extents = Vec::new();
    for file in &files {
        let section = writer.reserve_section_index();
        let (mut low, mut high) = (u64::MAX, 0);
        for symbol in file.symbols.iter() {
            let name = writer.add_string(symbol.name.as_bytes());
            writer.reserve_symbol_index(Some(section));
            low = low.min(symbol.range.start);
            high = high.max(symbol.range.end);
            let kind = if symbol.is_function {
                elf::STT_FUNC
            } else {
                elf::STT_OBJECT
            };
            let sym = Sym {
                section: Some(section.0),
                st_name: 0,
                st_info: elf::SymbolInfo::new(elf::STB_GLOBAL, kind),
                st_other: elf::SymbolOther(0),
                st_shndx: elf::SymbolSection(0),
                st_value: symbol.range.start,
                st_size: symbol.range.end - symbol.range.start,
            };
            symbols.push((sym, name));
        }
        extents.push((low, high));
    }
    if symbols.is_empty() {
        return None;
    }
    writer.reserve_symtab_section_index();
    writer.reserve_strtab_section_index();
    writer.reserve_shstrtab_section_index();
    writer.reserve_symtab();
    writer.reserve_strtab().ok()?;
    writer.reserve_shstrtab().ok()?;
    writer.reserve_section_headers();
    let header = FileHeader {
        os_abi: elf::ELFOSABI_NONE,
        abi_version: 0,
        e_type: elf::ET_EXEC,
        e_machine: elf::EM_RISCV,
        e_entry: 0,
        e_flags: elf::FileFlags(0),
    };
    writer.write_file_header(&header).ok()?;
    writer.write_null_symbol();
    for (mut symbol, name) in symbols {
        symbol.st_name = writer.string_offset(Some(name));
        writer.write_symbol(&symbol);
    }
    writer.write_strtab();
    writer.write_shstrtab();
    writer.write_null_section_header();
    let sh_name = writer.section_name_offset(Some(text));
    for (low, high) in extents {
        writer.write_section_header(&SectionHeader {
            sh_name,
            sh_type: elf::SHT_NOBITS,
            sh_flags: elf::SHF_ALLOC | elf::SHF_EXECINSTR,
            sh_addr: low,
            sh_offset: 0,
            sh_size: high.saturating_sub(low),
            sh_link: 0,
            sh_info: 0,
            sh_addralign: 1,
            sh_entsize: 0,
        });
    }
    writer.write_symtab_section_header(1);
    writer.write_strtab_section_header();
    writer.write_shstrtab_section_header();
    Some(bytes)
}
