//! The least ELF executable that QEMU and loiter load: segments and symbols.

const HEADER_BYTES: u64 = 64;
const PROGRAM_HEADER_BYTES: u64 = 56;
const RISCV: u16 = 243;
const EXECUTABLE: u16 = 2;
/// Compressed instructions, double-precision floating point in registers.
const FLAGS: u32 = 5;
const LOAD: u32 = 1;
const READ_WRITE_EXECUTE: u32 = 7;
const SYMBOLS: u32 = 2;
const STRINGS: u32 = 3;
const PROGRAM_BITS: u32 = 1;
const GLOBAL_FUNCTION: u8 = 0x12;

/// A piece of memory with its contents.
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

/// One section header.
#[derive(Default)]
struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: u32,
    info: u32,
    entry: u64,
}

impl Section {
    fn bytes(&self) -> Vec<u8> {
        let mut out = [self.name, self.kind].map(u32::to_le_bytes).concat();
        let middle = [self.flags, self.address, self.offset, self.size];
        out.extend(middle.map(u64::to_le_bytes).concat());
        out.extend([self.link, self.info].map(u32::to_le_bytes).concat());
        out.extend([8, self.entry].map(u64::to_le_bytes).concat());
        out
    }
}

/// Symbol table and string table; every symbol lies in section 1.
fn symbol_tables(symbols: &[(String, u64)]) -> (Vec<u8>, Vec<u8>) {
    let mut table = vec![0; 24];
    let mut names = vec![0_u8];
    for (name, address) in symbols {
        table.extend((names.len() as u32).to_le_bytes());
        table.extend([GLOBAL_FUNCTION, 0, 1, 0]);
        table.extend([*address, 0].map(u64::to_le_bytes).concat());
        names.extend(name.bytes());
        names.push(0);
    }
    (table, names)
}

/// An executable that begins at the first byte of its first segment, which holds all its symbols.
pub(crate) fn executable(segments: &[&Segment], symbols: &[(String, u64)]) -> Vec<u8> {
    let mut contents: Vec<u8> = Vec::new();
    let mut program_headers: Vec<u8> = Vec::new();
    let mut offset = HEADER_BYTES + PROGRAM_HEADER_BYTES * segments.len() as u64;
    let text_offset = offset;
    for segment in segments {
        let size = segment.bytes.len() as u64;
        let fields = [offset, segment.address, segment.address, size, size, 8];
        program_headers.extend([LOAD, READ_WRITE_EXECUTE].map(u32::to_le_bytes).concat());
        program_headers.extend(fields.map(u64::to_le_bytes).concat());
        contents.extend(&segment.bytes);
        offset += size;
    }
    let section_names = b"\0.text\0.symtab\0.strtab\0";
    let (table, mut names) = symbol_tables(symbols);
    let names_before = names.len() as u32;
    names.extend(section_names);
    let (table_offset, names_offset) = (offset, offset + table.len() as u64);
    let sections_offset = names_offset + names.len() as u64;
    let sections = [
        Section::default(),
        Section {
            name: names_before + 1,
            kind: PROGRAM_BITS,
            flags: 7,
            address: segments[0].address,
            offset: text_offset,
            size: segments[0].bytes.len() as u64,
            ..Section::default()
        },
        Section {
            name: names_before + 7,
            kind: SYMBOLS,
            offset: table_offset,
            size: table.len() as u64,
            link: 3,
            info: 1,
            entry: 24,
            ..Section::default()
        },
        Section {
            name: names_before + 15,
            kind: STRINGS,
            offset: names_offset,
            size: names.len() as u64,
            ..Section::default()
        },
    ];
    let mut file = header(segments, sections_offset, sections.len() as u16);
    file.extend(program_headers);
    file.extend(contents);
    file.extend(table);
    file.extend(names);
    file.extend(sections.iter().flat_map(Section::bytes));
    file
}

fn header(segments: &[&Segment], sections_offset: u64, sections: u16) -> Vec<u8> {
    let mut out = b"\x7fELF\x02\x01\x01".to_vec();
    out.resize(16, 0);
    out.extend([EXECUTABLE, RISCV].map(u16::to_le_bytes).concat());
    out.extend(1_u32.to_le_bytes());
    let places = [segments[0].address, HEADER_BYTES, sections_offset];
    out.extend(places.map(u64::to_le_bytes).concat());
    out.extend(FLAGS.to_le_bytes());
    let (program_header, count) = (PROGRAM_HEADER_BYTES as u16, segments.len() as u16);
    let sizes = [64, program_header, count, 64, sections, sections - 1];
    out.extend(sizes.map(u16::to_le_bytes).concat());
    out
}
